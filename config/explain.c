/* SPDX-License-Identifier: Apache-2.0 */
/* config/explain.c: what the keys of a file mean, from the tables that read them.
 *
 * For:       tollgate explain.
 * Called by: gateway/cmd_explain.c.
 * Knows not: any particular file. */
#include <stdio.h>

#include "config/base/log.h"
#include "config/problems.h"
#include "config/table.h"

#define ROW_TEXT 160

/* A row of either table, as it is shown. */
struct shown {
    const char *key;
    char takes[ROW_TEXT];
    char fallback[ROW_TEXT];
    bool at_start_only;
    const char *help;
};

static size_t row_count(void)
{
    size_t options;
    size_t keys;

    (void)table_options(&options);
    (void)table_keys(&keys);
    return keys + options;
}

/* Row number i of both tables, the keys' first. */
static struct shown row_at(size_t i)
{
    size_t key_count;
    size_t option_count;
    const struct key_row *keys = table_keys(&key_count);
    const struct option *options = table_options(&option_count);
    struct shown shown = {0};
    char minimum[32];
    char maximum[32];

    if (i < key_count) {
        shown.key = keys[i].key;
        shown.help = keys[i].help;
        shown.at_start_only = keys[i].at_start_only;
        (void)snprintf(shown.takes, sizeof(shown.takes), "%s", keys[i].takes);
        (void)snprintf(shown.fallback, sizeof(shown.fallback), "%s", keys[i].fallback);
        return shown;
    }
    i -= key_count;
    shown.key = options[i].key;
    shown.help = options[i].help;
    shown.at_start_only = options[i].at_start_only;
    table_print_value(&options[i], options[i].minimum, minimum, sizeof(minimum));
    table_print_value(&options[i], options[i].maximum, maximum, sizeof(maximum));
    table_print_value(&options[i], options[i].fallback, shown.fallback, sizeof(shown.fallback));
    (void)snprintf(shown.takes, sizeof(shown.takes), "%s, %s to %s",
                   table_type_name(options[i].type), minimum, maximum);
    return shown;
}

/* The key without what stands for a choice: models.*.price[].input is models.price.input. */
static struct span plain(const char *key, char out[ROW_TEXT])
{
    size_t size = 0;

    for (; *key != '\0' && size < ROW_TEXT; key++) {
        if (key[0] == '[' && key[1] == ']')
            key++;
        else if (key[0] == '.' && key[1] == '*')
            key++;
        else
            out[size++] = *key;
    }
    return (struct span){out, size};
}

/* Is key the one named, or below it? */
static bool is_asked(const char *key, const char *name)
{
    char key_text[ROW_TEXT];
    char name_text[ROW_TEXT];
    struct span key_plain = plain(key, key_text);
    struct span name_plain = plain(name, name_text);

    if (!span_starts(key_plain, name_plain))
        return false;
    return key_plain.size == name_plain.size || key_plain.data[name_plain.size] == '.';
}

static void print_json_text(const char *name, const char *text, const char *after)
{
    char escaped[6 * 400];
    const size_t size = log_escape(span_of(text), escaped, sizeof(escaped));

    (void)printf("\"%s\":\"%.*s\"%s", name, (int)size, escaped, after);
}

static void print_row(const struct shown *shown, bool json, bool first)
{
    if (!json) {
        (void)printf("%s%s\n    %s\n    takes: %s; default: %s; changes at %s\n", first ? "" : "\n",
                     shown->key, shown->help, shown->takes, shown->fallback,
                     shown->at_start_only ? "restart" : "reload");
        return;
    }
    (void)printf("%s{", first ? "" : ",\n ");
    print_json_text("key", shown->key, ",");
    print_json_text("takes", shown->takes, ",");
    print_json_text("default", shown->fallback, ",");
    print_json_text("changes_at", shown->at_start_only ? "restart" : "reload", ",");
    print_json_text("help", shown->help, "}");
}

static void print_nearest(const char *name)
{
    char nearest[ROW_TEXT] = "";
    size_t nearest_edits = SIZE_MAX;

    for (size_t i = 0; i < row_count(); i++) {
        const struct shown shown = row_at(i);
        const size_t edits = problems_distance(span_of(name), span_of(shown.key));

        if (edits < nearest_edits) {
            nearest_edits = edits;
            (void)snprintf(nearest, sizeof(nearest), "%s", shown.key);
        }
    }
    (void)fprintf(stderr, "%s: not known (nearest known key: %s)\n", name, nearest);
}

bool config_explain(const char *name, bool json)
{
    bool any = false;

    for (size_t i = 0; i < row_count(); i++) {
        const struct shown shown = row_at(i);

        if (name != NULL && !is_asked(shown.key, name))
            continue;
        if (json && !any)
            (void)printf("[");
        print_row(&shown, json, !any);
        any = true;
    }
    if (json)
        (void)printf(any ? "]\n" : "[]\n");
    if (!any)
        print_nearest(name);
    return any;
}
