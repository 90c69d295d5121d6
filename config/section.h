/* SPDX-License-Identifier: Apache-2.0 */
/* config/section.h: one map of the file, asked for values of a type.
 *
 * For:       sections.c. What is absent, unknown, doubled or of the wrong type is reported to the
 *            draft's problems; the value asked for then stays as it was.
 * Called by: sections.c.
 * Knows not: any key, any room of the gateway. */
#ifndef CONFIG_SECTION_H
#define CONFIG_SECTION_H

#include "config/draft.h"
#include "config/reader.h"

/* A map: its node, where it stands. place.above points to the caller's stack. */
struct section {
    struct draft *draft;
    const struct node *map; /* NULL: absent or unusable; then nothing is found in it */
    struct place place;
};

#define TEXT_BYTES_MAX 1024
#define NAME_BYTES_MAX 128

/* What a text may consist of. */
enum text_class {
    TEXT_ANY,   /* printable, spaces too */
    TEXT_WORD,  /* printable ASCII without spaces: goes into headers, rows, metrics */
    TEXT_SECRET /* as WORD, and never repeated */
};

/* A key's place, an item's place. */
struct place section_place(const struct place *above, struct span name, uint32_t line);
struct place section_item_place(const struct place *above, uint32_t index, uint32_t line);

/* Zeroed memory of the snapshot; NULL (and noted in the draft) when there is none. */
void *section_take(struct draft *draft, size_t count, size_t bytes);

/* A copy that the snapshot owns; {NULL, 0} (and noted) without memory. */
struct span section_keep(struct draft *draft, struct span text);

/* Remembers a name for check.c. */
void section_mention(struct draft *draft, enum mention_what what, struct span name, uint32_t owner,
                     uint32_t position, const struct place *place);

/* A map whose keys stand in the tables under rows ("" is the top). */
struct section section_open(struct draft *draft, const struct node *node, struct place place,
                            const char *rows);

/* A map whose keys are names of the operator's choice. */
struct section section_open_names(struct draft *draft, const struct node *node, struct place place);

/* The value of a key; NULL when absent. *out_place is where it stands, or should. */
const struct node *section_find(const struct section *section, const char *key,
                                struct place *out_place);

/* As section_find(), but absence is a problem. */
const struct node *section_need(const struct section *section, const char *key,
                                struct place *out_place);

/* A list of least to most items; NULL when absent or none. With least > 0 it must be there. */
const struct node *section_find_list(const struct section *section, const char *key, uint32_t least,
                                     uint32_t most, struct place *out_place);

/* Is node of this kind? If not, and nobody has said so yet, says so. */
bool section_is_kind(struct draft *draft, const struct node *node, enum node_kind kind,
                     const struct place *place);

/* Says that a value is not what was expected, repeating it when it cannot be a secret. */
void section_refuse(struct draft *draft, const struct node *node, const struct place *place,
                    const char *expected);

/* Is text 1 to most bytes of this class? Says nothing. */
bool section_is_text(struct span text, enum text_class class, size_t most);

/* A text of 1 to most bytes, copied into the snapshot; false (and said) when it is none. */
bool section_read_text(struct draft *draft, const struct node *node, const struct place *place,
                       enum text_class class, size_t most, struct span *out_text);

/* The same of an optional key, and of one that must be there. */
void section_text_at(const struct section *section, const char *key, enum text_class class,
                     size_t most, struct span *out_text);
bool section_need_text_at(const struct section *section, const char *key, enum text_class class,
                          size_t most, struct span *out_text);

/* A whole number in a range, of an optional key. */
void section_number_at(const struct section *section, const char *key, int64_t minimum,
                       int64_t maximum, int64_t *out_value);

/* A value that one of values.h's readers understands. */
bool section_read_value(struct draft *draft, const struct node *node, const struct place *place,
                        bool (*reader)(struct span text, int64_t *out_value), const char *expected,
                        int64_t *out_value);
void section_value_at(const struct section *section, const char *key,
                      bool (*reader)(struct span text, int64_t *out_value), const char *expected,
                      int64_t *out_value);

/* One of several words: its index, or -1 (and said). */
int section_read_choice(struct draft *draft, const struct node *node, const struct place *place,
                        const char *const *words, int count, const char *expected);

/* true, false, or as it was when absent. */
void section_tristate_at(const struct section *section, const char *key, enum tristate *out_state);

/* The name of a model or tenant: its key in the map, copied. */
struct span section_read_name(struct draft *draft, struct span key, const struct place *place);

/* A list of at most most names, each mentioned for check.c. Returns how many items it has. */
uint32_t section_mention_names(const struct section *section, const char *key, uint32_t most,
                               enum mention_what what, uint32_t owner);

#endif
