/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_usage.h: what was asked of tollgate usage, for the files that answer it.
 *
 * For:       one reading of the arguments, and the answers: lines of sums, waste, FOCUS.
 * Called by: cmd_usage.c, cmd_usage_lines.c, cmd_usage_weight.c, cmd_usage_focus.c; usage_api.c.
 * Knows not: how the books are kept. */
#ifndef GATEWAY_CMD_USAGE_H
#define GATEWAY_CMD_USAGE_H

#include "gateway/cmd_books.h"
#include "gateway/report.h"

enum usage_format { USAGE_TABLE, USAGE_JSON, USAGE_CSV, USAGE_FOCUS };

#define USAGE_PROBLEM_BYTES 512u

struct usage_asked {
    struct cmd_books common;
    const char *period, *zone, *tenant, *issuer; /* NULL: not said */
    struct books_ask ask; /* period and zone are set once the books are open */
    int64_t now_us;
    enum usage_format format;
    bool waste, weighted, margin;
    char problem[USAGE_PROBLEM_BYTES];
};

/* Fill an empty report with columns and lines. problem says what was wrong.
 * Errors: those of books_usage() and of report_add_line(). */
MUST_CHECK enum err usage_fill_lines(struct usage_asked *asked, struct report *report);
MUST_CHECK enum err usage_fill_waste(struct usage_asked *asked, struct report *report);

/* What each line's tokens weigh: tokens × how busy their replicas were in the period, added to the
 * cells of a column that are 0. key_columns: the report's first columns, bucket and groups. */
MUST_CHECK enum err usage_weigh(struct usage_asked *asked, struct report *report,
                                uint32_t key_columns, uint32_t column);

/* A bucket's name in the zone asked for. */
size_t usage_print_bucket(const struct books_ask *ask, int64_t from_us,
                          char out[PERIOD_TEXT_BYTES]);

/* Prints FOCUS lines of all tenants, or of the one asked for. */
MUST_CHECK enum err usage_print_focus(struct usage_asked *asked, FILE *out);

#endif
