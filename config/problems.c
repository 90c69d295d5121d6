/* SPDX-License-Identifier: Apache-2.0 */
/* config/problems.c: what is wrong in a file, all of it at once.
 *
 * For:       collecting, sorting and printing problems.
 * Called by: reader.c, sections.c, check.c, config.c.
 * Knows not: YAML, what the keys mean. */
#include "config/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define PROBLEMS_MAX 500 /* after these a file is no configuration at all */

struct problem {
    uint32_t line;
    size_t order;   /* of finding: keeps the sort stable */
    char text[400]; /* "key: what was expected" */
};

void place_print(const struct place *place, char *out, size_t room)
{
    size_t used;

    out[0] = '\0';
    if (place->above != NULL)
        place_print(place->above, out, room);
    used = strlen(out);
    if (place->name.data == NULL)
        (void)snprintf(out + used, room - used, "[%u]", place->index);
    else
        (void)snprintf(out + used, room - used, "%s%.*s", used > 0 ? "." : "",
                       (int)place->name.size, place->name.data);
}

/* Room for one more; NULL without memory or when there are more than anybody reads. */
static struct problem *new_problem(struct problem_list *list)
{
    if (list->count == PROBLEMS_MAX)
        return NULL;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        struct problem *grown = realloc(list->problems, capacity * sizeof(*grown));

        if (grown == NULL) {
            list->out_of_memory = true;
            return NULL;
        }
        list->problems = grown;
        list->capacity = capacity;
    }
    return &list->problems[list->count++];
}

__attribute__((__format__(__printf__, 4, 0))) static void add(struct problem_list *list,
                                                              uint32_t line, const char *key,
                                                              const char *format, va_list arguments)
{
    struct problem *problem = new_problem(list);
    int size;

    if (problem == NULL)
        return;
    problem->line = line;
    problem->order = list->count;
    size = snprintf(problem->text, sizeof(problem->text), "%.200s: ", key);
    (void)vsnprintf(problem->text + size, sizeof(problem->text) - (size_t)size, format, arguments);
    for (char *byte = problem->text; *byte != '\0'; byte++)
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
            *byte = '?'; /* one problem stays one line, whatever the file says */
}

void problems_add(struct problem_list *list, const struct place *place, const char *format, ...)
{
    char key[200];
    va_list arguments;

    list->error_count++;
    place_print(place, key, sizeof(key));
    va_start(arguments, format);
    add(list, place->line, key, format, arguments);
    va_end(arguments);
}

void problems_add_at(struct problem_list *list, uint32_t line, const char *key, const char *format,
                     ...)
{
    va_list arguments;

    list->error_count++;
    va_start(arguments, format);
    add(list, line, key, format, arguments);
    va_end(arguments);
}

void problems_warn_at(struct problem_list *list, uint32_t line, const char *key, const char *format,
                      ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(list, line, key, format, arguments);
    va_end(arguments);
}

static int by_line(const void *left, const void *right)
{
    const struct problem *a = left;
    const struct problem *b = right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

bool problems_render(struct problem_list *list, struct config_problems *out_problems)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    *out_problems = (struct config_problems){0};
    if (list->out_of_memory)
        return false;
    if (list->count == 0)
        return true;
    out = open_memstream(&text, &size);
    if (out == NULL)
        return false;
    qsort(list->problems, list->count, sizeof(*list->problems), by_line);
    for (size_t i = 0; i < list->count; i++) {
        (void)fprintf(out, "%.*s:", (int)list->file.size, list->file.data);
        if (list->problems[i].line > 0)
            (void)fprintf(out, "%u:", list->problems[i].line);
        (void)fprintf(out, " %s\n", list->problems[i].text);
    }
    if (fclose(out) != 0) {
        free(text);
        return false;
    }
    *out_problems = (struct config_problems){.text = text, .size = size, .count = list->count};
    problems_fini(list);
    return true;
}

void problems_fini(struct problem_list *list)
{
    free(list->problems);
    list->problems = NULL;
    list->count = 0;
    list->capacity = 0;
}
