/* SPDX-License-Identifier: Apache-2.0 */
/* config/problems.h: what is wrong in a file, all of it at once.
 *
 * For:       one line per problem, in the order of the file: "file:line: key: what was expected".
 * Called by: reader.c, sections.c, check.c, config.c.
 * Knows not: YAML, what the keys mean. */
#ifndef CONFIG_PROBLEMS_H
#define CONFIG_PROBLEMS_H

#include "config/base/vocab.h"
#include "config/config.h"

struct problem;

/* Everything found so far. {.file = name} is an empty list. */
struct problem_list {
    struct span file;
    struct problem *problems;
    size_t count;
    size_t capacity;
    size_t error_count; /* the rest are warnings */
    bool out_of_memory;
};

/* Where something stands in the file: a chain of keys up to the top, on the caller's stack. */
struct place {
    const struct place *above; /* NULL at the top */
    struct span name;          /* of a key; {NULL, 0}: of an item of a list */
    uint32_t index;            /* of the item */
    uint32_t line;
};

/* The whole key, "models.small.replicas[0].url", NUL-terminated and cut at room. */
void place_print(const struct place *place, char *out, size_t room);

/* One error more, at a place. */
void problems_add(struct problem_list *list, const struct place *place, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* The same for a key that is already text. */
void problems_add_at(struct problem_list *list, uint32_t line, const char *key, const char *format,
                     ...) PRINTF_LIKE(4, 5);

/* Something odd that does not keep the file from being used. */
void problems_warn_at(struct problem_list *list, uint32_t line, const char *key, const char *format,
                      ...) PRINTF_LIKE(4, 5);

/* Renders the list, sorted by line, and empties it. false: no memory. */
MUST_CHECK bool problems_render(struct problem_list *list, struct config_problems *out_problems);

/* Frees what the list holds. */
void problems_fini(struct problem_list *list);

#endif
