/* SPDX-License-Identifier: Apache-2.0 */
/* config/table.h: every key that a file may have, from keys.def and options.def.
 *
 * For:       reading options by their row, knowing unknown keys, explaining known ones.
 * Called by: sections.c, explain.c, print.c, import_litellm.c, import_plan.c.
 * Knows not: YAML, values of a particular file. */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include "config/config.h"

enum option_type { OPTION_number, OPTION_bytes, OPTION_duration, OPTION_percent };

struct option {
    char key[48]; /* timeouts.first_byte */
    enum option_type type;
    int64_t fallback;
    int64_t minimum;
    int64_t maximum;
    bool at_start_only; /* a reload does not change it */
    size_t offset;      /* of its int64_t in struct config */
    const char *help;
};

struct key_row {
    const char *key;
    const char *takes;
    const char *fallback;
    bool at_start_only;
    const char *help;
};

/* All rows of options.def. */
const struct option *table_options(size_t *out_count);

/* The row of an option that there is, such as "timeouts.whole". */
const struct option *table_option(const char *key);

/* All rows of keys.def. */
const struct key_row *table_keys(size_t *out_count);

/* The row number'th key right below a section ("" is the top), without the section's name; {NULL,
 * 0} when there are fewer. "models.*" has kind, price, … */
struct span table_key_below(struct span section, size_t number);

/* Is option the one that is called key in section? */
bool table_option_is(const struct option *option, struct span section, struct span key);

/* A value of an option as its operator writes it: 120s, 32MiB, 50%. Cut at room. */
void table_print_value(const struct option *option, int64_t value, char *out, size_t room);

/* What an option takes, in words. */
const char *table_type_name(enum option_type type);

#endif
