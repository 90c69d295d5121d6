/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/report.h: lines of texts, counts and decimals with their sums: as a table, JSON or CSV.
 *
 * For:       commands that print what was charged.
 * Called by: cmd_usage*.c, cmd_rerate.c, usage_api.c.
 * Knows not: what the columns mean. */
#ifndef GATEWAY_REPORT_H
#define GATEWAY_REPORT_H

#include <stdio.h>

#include "config/base/money.h"
#include "config/base/period.h"

#define REPORT_COLUMNS_MAX 24u
#define REPORT_NAME_BYTES 80u
#define REPORT_LINES_MAX 200000u /* about 100 MB; narrower questions have fewer */

enum report_kind {
    REPORT_TEXT,
    REPORT_COUNT,  /* whole; summed up */
    REPORT_DECIMAL /* in 1e-12, such as USD in picodollars; summed up */
};

/* One value. Not known: "-" in a table, null in JSON, nothing in CSV; a sum with one such is not
 * known either. */
struct report_cell {
    bool known;
    union {
        struct span text; /* of any bytes */
        money_sum count;
        money_sum decimal;
    };
};

struct report_column {
    char name[REPORT_NAME_BYTES];
    enum report_kind kind;
};

struct report {
    struct report_column columns[REPORT_COLUMNS_MAX];
    uint32_t column_count;
    struct report_cell *cells; /* line_count × column_count; texts are the report's own */
    size_t line_count, line_room;
    struct report_cell totals[REPORT_COLUMNS_MAX];
};

/* Empty; report_fini() gives back what it holds. */
void report_init(struct report *report);
void report_fini(struct report *report);

/* One more column, before the first line; its name is copied. At most REPORT_COLUMNS_MAX. */
void report_add_column(struct report *report, struct span name, enum report_kind kind);

static inline struct report_cell report_text(struct span text)
{
    return (struct report_cell){.known = text.data != NULL, .text = text};
}

static inline struct report_cell report_count(money_sum count)
{
    return (struct report_cell){.known = true, .count = count};
}

static inline struct report_cell report_decimal(money_sum decimal)
{
    return (struct report_cell){.known = true, .decimal = decimal};
}

static inline struct report_cell report_unknown(void)
{
    return (struct report_cell){.known = false};
}

/* One more line of column_count cells; texts are copied. Errors: ERR_TOO_LARGE (REPORT_LINES_MAX),
 * ERR_BAD_VALUE (a sum does not fit), ERR_NO_MEMORY. */
MUST_CHECK enum err report_add_line(struct report *report, const struct report_cell *cells);

/* Adds to a decimal that is known, and to its column's sum. Errors: ERR_BAD_VALUE (does not fit).
 */
MUST_CHECK enum err report_add_decimal(struct report *report, size_t line, uint32_t column,
                                       money_sum decimal);

/* Columns in line, a line of sums at the end. */
void report_print_table(const struct report *report, FILE *out);

/* What a report is about, for its JSON. */
struct report_frame {
    struct period period;
    struct span zone;
};

/* {"period":{"from":"…Z","until":"…Z"},"zone":"…","lines":[{…}],"totals":{…}}: decimals as texts.
 */
void report_print_json(const struct report *report, const struct report_frame *frame, FILE *out);

/* A head and the lines, without sums. */
void report_print_csv(const struct report *report, FILE *out);

#endif
