/* SPDX-License-Identifier: Apache-2.0 */
/* config/explain.c: what the keys of a file mean, from the tables that read them.
 *
 * For:       tollgate explain.
 * Called by: gateway/cmd_explain.c.
 * Knows not: any particular file. */
#include <stdio.h>

#include "config/base/log.h"
#include "config/base/nearest.h"
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

/* Takes the first part off a key: "price" of "price[].input". */
static struct span next_part(struct span *rest)
{
    const char *dot = rest->size > 0 ? memchr(rest->data, '.', rest->size) : NULL;
    struct span part = {rest->data, dot ? (size_t)(dot - rest->data) : rest->size};
    const char *item = part.size > 0 ? memchr(part.data, '[', part.size) : NULL;

    *rest = span_from(*rest, part.size + (dot ? 1 : 0));
    if (item != NULL)
        part.size = (size_t)(item - part.data);
    return part;
}

static bool is_below(struct span key, struct span name, bool filled);

/* As below, where a * of the key was taken for a part of the name: what follows it in both. */
static bool is_below_choice(struct span key, struct span name)
{
    for (struct span longer = name; longer.size > 0; (void)next_part(&longer))
        if (is_below(key, longer, true))
            return true;
    return name.size == 0;
}

/* Is the key name, or below it? A * of the key stands for nothing in the name, so that
 * models.price.input is models.*.price[].input, or with filled for what the operator has put
 * there: also for more parts than one (gpt-4.1 are two), but only where more of the key follows. */
static bool is_below(struct span key, struct span name, bool filled)
{
    while (name.size > 0) {
        const struct span part = next_part(&key);
        struct span after = name;
        const struct span named = next_part(&after);

        if (part.size == 0)
            return false;
        if (!span_equal(part, SPAN("*"))) {
            if (!span_equal(part, named))
                return false;
            name = after;
            continue;
        }
        if (span_equal(named, part))
            name = after;
        else if (filled)
            return is_below_choice(key, after);
    }
    return true;
}

static bool is_asked(const char *key, struct span name)
{
    return is_below(span_of(key), name, false);
}

static bool is_filled(const char *key, struct span name)
{
    return is_below(span_of(key), name, true);
}

/* Does the key end so, in whole parts? */
static bool ends_so(const char *key, struct span name)
{
    const size_t size = strlen(key);

    return size > name.size + 1 && key[size - name.size - 1] == '.' &&
           memcmp(key + size - name.size, name.data, name.size) == 0;
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
    struct nearest nearest = nearest_to(span_of(name));
    char text[ROW_TEXT] = "";

    for (size_t i = 0; i < row_count(); i++) {
        const struct shown shown = row_at(i);

        if (nearest_try(&nearest, span_of(shown.key)))
            (void)snprintf(text, sizeof(text), "%s", shown.key);
    }
    (void)fprintf(stderr, "%s: not known (nearest known key: %s)\n", name, text);
}

/* Prints the rows that are asked for; all without a name. false: there is none. */
static bool print_rows(struct span name, bool (*asked)(const char *key, struct span name),
                       bool json)
{
    bool any = false;

    for (size_t i = 0; i < row_count(); i++) {
        const struct shown shown = row_at(i);

        if (!asked(shown.key, name))
            continue;
        if (json && !any)
            (void)printf("[");
        print_row(&shown, json, !any);
        any = true;
    }
    if (json && any)
        (void)printf("]\n");
    return any;
}

/* The end of a key alone: the key and what is below it when no other ends so, else their names. */
static bool print_by_end(const char *name, bool json)
{
    char whole[ROW_TEXT] = "";
    size_t count = 0;

    for (size_t i = 0; i < row_count(); i++) {
        const struct shown shown = row_at(i);

        if (!ends_so(shown.key, span_of(name)))
            continue;
        if (count == 1)
            (void)fprintf(stderr, "%s: several keys end so; say which:\n  %s\n", name, whole);
        if (count++ == 0)
            (void)snprintf(whole, sizeof(whole), "%s", shown.key);
        else
            (void)fprintf(stderr, "  %s\n", shown.key);
    }
    if (count == 0)
        print_nearest(name);
    return count == 1 && print_rows(span_of(whole), is_asked, json);
}

bool config_explain(const char *name, bool json)
{
    const struct span asked = span_of(name);

    if (print_rows(asked, is_asked, json) || print_rows(asked, is_filled, json) ||
        print_by_end(name, json))
        return true;
    if (json)
        (void)printf("[]\n");
    return false;
}
