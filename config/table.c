/* SPDX-License-Identifier: Apache-2.0 */
/* config/table.c: every key that a file may have, from keys.def and options.def.
 *
 * For:       reading options by their row, knowing unknown keys, explaining known ones.
 * Called by: sections.c, explain.c, print.c, import_litellm.c, import_plan.c.
 * Knows not: YAML, values of a particular file. */
#include "config/table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define AT_LIVE false
#define AT_START true

/* The keys begin as the fields' names and become keys before main(), see name_options(). */
static struct option options[] = {
#define OPTION(name, type, fallback, minimum, maximum, unit, reload, help)                         \
    {#name, OPTION_##type, fallback, minimum, maximum, AT_##reload, offsetof(struct config, name), \
     help},
#include "config/options.def"
#undef OPTION
};

#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

static const struct key_row keys[] = {
#define KEY(key, takes, fallback, reload, help) {key, takes, fallback, AT_##reload, help},
#include "config/keys.def"
#undef KEY
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static bool drop_suffix(char *text, const char *suffix, size_t kept)
{
    const size_t size = strlen(text);
    const size_t suffix_size = strlen(suffix);

    if (size <= suffix_size || strcmp(text + size - suffix_size, suffix) != 0)
        return false;
    text[size - suffix_size + kept] = '\0';
    return true;
}

/* timeouts_first_byte_ms is timeouts.first_byte. The unit goes where the written value bears its
 * own;
 * "_bytes" stays, being what is counted (body_bytes), but for a memory's, which is nothing else. */
__attribute__((constructor)) static void name_options(void)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        *strchr(options[i].key, '_') = '.';
        if (!drop_suffix(options[i].key, "_ms", 0) && !drop_suffix(options[i].key, "_percent", 0))
            (void)drop_suffix(options[i].key, "_memory_bytes", sizeof("_memory") - 1);
    }
}

const struct option *table_options(size_t *out_count)
{
    *out_count = OPTION_COUNT;
    return options;
}

const struct option *table_option(const char *key)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(options[i].key, key) == 0)
            return &options[i];
    assert(false && "there is no such option");
    return NULL;
}

const struct key_row *table_keys(size_t *out_count)
{
    *out_count = KEY_COUNT;
    return keys;
}

/* What is left of key below section; {NULL, 0} when it is not right below it. */
static struct span below(struct span key, struct span section)
{
    if (section.size > 0) {
        if (key.size <= section.size || !span_starts(key, section) || key.data[section.size] != '.')
            return (struct span){NULL, 0};
        key = span_from(key, section.size + 1);
    }
    if (memchr(key.data, '.', key.size) != NULL || memchr(key.data, '[', key.size) != NULL)
        return (struct span){NULL, 0};
    return key;
}

struct span table_key_below(struct span section, size_t number)
{
    for (size_t i = 0; i < KEY_COUNT + OPTION_COUNT; i++) {
        const char *key = i < KEY_COUNT ? keys[i].key : options[i - KEY_COUNT].key;
        const struct span found = below(span_of(key), section);

        if (found.data != NULL && number-- == 0)
            return found;
    }
    return (struct span){NULL, 0};
}

bool table_option_is(const struct option *option, struct span section, struct span key)
{
    return span_equal(below(span_of(option->key), section), key);
}

/* The largest unit that divides value. */
static void print_with_unit(int64_t value, const int64_t *times, const char *const *names,
                            size_t count, char *out, size_t room)
{
    for (size_t i = 0; i < count; i++) {
        if (value % times[i] == 0 && (value != 0 || times[i] == 1)) {
            (void)snprintf(out, room, "%" PRId64 "%s", value / times[i], names[i]);
            return;
        }
    }
}

void table_print_value(const struct option *option, int64_t value, char *out, size_t room)
{
    static const int64_t durations[] = {3600000, 60000, 1000, 1};
    static const char *const duration_names[] = {"h", "m", "s", "ms"};
    static const int64_t sizes[] = {INT64_C(1) << 40, 1 << 30, 1 << 20, 1 << 10, 1};
    static const char *const size_names[] = {"TiB", "GiB", "MiB", "KiB", "B"};

    switch (option->type) {
    case OPTION_duration:
        print_with_unit(value, durations, duration_names, 4, out, room);
        break;
    case OPTION_bytes:
        print_with_unit(value, sizes, size_names, 5, out, room);
        break;
    case OPTION_percent:
        (void)snprintf(out, room, "%" PRId64 "%%", value);
        break;
    case OPTION_number:
        (void)snprintf(out, room, "%" PRId64, value);
        break;
    }
}

const char *table_type_name(enum option_type type)
{
    static const char *const names[] = {
        [OPTION_number] = "number",
        [OPTION_bytes] = "size",
        [OPTION_duration] = "duration",
        [OPTION_percent] = "share",
    };

    return names[type];
}
