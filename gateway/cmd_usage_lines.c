/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_usage_lines.c: sums of the books as lines of a report.
 *
 * For:       usage by any columns, margins, and the waste.
 * Called by: cmd_usage.c, usage_api.c.
 * Knows not: how a report is printed. */
#include "gateway/cmd_usage.h"

#define TAG_NAME_BYTES 72

/* What visit() fills, and the first thing that went wrong. */
struct filling {
    struct usage_asked *asked;
    struct report *report;
    enum err err;
};

static void add_columns(struct report *report, const char *const *names, size_t count,
                        enum report_kind kind)
{
    for (size_t i = 0; i < count; i++)
        report_add_column(report, span_of(names[i]), kind);
}

static void add_token_columns(struct report *report)
{
    const char *const names[] = {"input", "cached_input", "cache_write", "output", "reasoning"};

    add_columns(report, names, sizeof(names) / sizeof(*names), REPORT_COUNT);
}

static uint32_t put_tokens(struct report_cell *cells, const struct books_tokens *usage)
{
    const money_sum tokens[] = {usage->input, usage->cached_input, usage->cache_write,
                                usage->output, usage->reasoning};

    for (uint32_t i = 0; i < sizeof(tokens) / sizeof(*tokens); i++)
        cells[i] = report_count(tokens[i]);
    return sizeof(tokens) / sizeof(*tokens);
}

/* ---- usage ---- */

size_t usage_print_bucket(const struct books_ask *ask, int64_t from_us, char out[PERIOD_TEXT_BYTES])
{
    /* An hour may come twice in a day: its offset tells which. */
    return ask->bucket == PERIOD_HOUR ? period_print_local(ask->zone, from_us, out)
                                      : period_print_name(ask->zone, ask->bucket, from_us, out);
}

/* Bucket and groups; returns how many. */
static uint32_t add_key_columns(const struct books_ask *ask, struct report *report)
{
    char tag[TAG_NAME_BYTES];

    if (ask->bucketed)
        report_add_column(report, SPAN("bucket"), REPORT_TEXT);
    for (uint32_t i = 0; i < ask->by_count; i++) {
        if (ask->by[i] == BY_TAGS && ask->tag.data != NULL) {
            (void)snprintf(tag, sizeof(tag), "tag:%.*s", (int)ask->tag.size, ask->tag.data);
            report_add_column(report, span_of(tag), REPORT_TEXT);
        } else {
            report_add_column(report, span_of(books_column_name(ask->by[i])), REPORT_TEXT);
        }
    }
    return report->column_count;
}

/* What the tokens cost us, and what is left; only where each call's unit cost is known. */
static uint32_t put_margin(struct report_cell *cells, const struct books_line *line)
{
    const int64_t uncosted = line->billed_calls - line->own_cost_calls;
    money_sum margin;

    cells[0] = report_decimal(line->own_cost_pusd);
    cells[1] = report_unknown();
    if (uncosted <= 0 && money_add(line->cost_pusd, -line->own_cost_pusd, &margin) == OK)
        cells[1] = report_decimal(margin);
    cells[2] = report_count(uncosted);
    return 3;
}

static bool add_usage_line(void *owner, const struct books_line *line)
{
    struct filling *filling = owner;
    const struct usage_asked *asked = filling->asked;
    struct report_cell cells[REPORT_COLUMNS_MAX];
    char bucket[PERIOD_TEXT_BYTES];
    uint32_t count = 0;

    if (asked->ask.bucketed) {
        const size_t size = usage_print_bucket(&asked->ask, line->bucket_us, bucket);

        cells[count++] = report_text((struct span){bucket, size});
    }
    for (uint32_t i = 0; i < asked->ask.by_count; i++)
        cells[count++] = report_text(line->by[i]);
    cells[count++] = report_count(line->calls);
    cells[count++] = report_count(line->failed_calls);
    count += put_tokens(cells + count, &line->usage);
    if (asked->weighted)
        cells[count++] = report_decimal(0);
    cells[count++] = report_decimal(line->cost_pusd);
    if (asked->margin)
        count += put_margin(cells + count, line);
    filling->err = report_add_line(filling->report, cells);
    return filling->err == OK;
}

enum err usage_fill_lines(struct usage_asked *asked, struct report *report)
{
    const char *const counts[] = {"calls", "failed"};
    struct filling filling = {asked, report, OK};
    const uint32_t keys = add_key_columns(&asked->ask, report);

    add_columns(report, counts, sizeof(counts) / sizeof(*counts), REPORT_COUNT);
    add_token_columns(report);
    const uint32_t weighted = report->column_count;

    if (asked->weighted)
        report_add_column(report, SPAN("weighted_tokens"), REPORT_DECIMAL);
    report_add_column(report, SPAN("cost_usd"), REPORT_DECIMAL);
    if (asked->margin) {
        report_add_column(report, SPAN("own_cost_usd"), REPORT_DECIMAL);
        report_add_column(report, SPAN("margin_usd"), REPORT_DECIMAL);
        report_add_column(report, SPAN("calls_of_unknown_cost"), REPORT_COUNT);
    }
    enum err err = books_usage(asked->common.books, &asked->ask, add_usage_line, &filling,
                               asked->problem, sizeof(asked->problem));

    if (err == OK)
        err = filling.err;
    if (err == OK && asked->weighted)
        err = usage_weigh(asked, report, keys, weighted);
    return err;
}

/* ---- waste ---- */

static bool add_waste_line(void *owner, const struct books_line *line)
{
    struct filling *filling = owner;
    struct report_cell cells[REPORT_COLUMNS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < 3; i++)
        cells[count++] = report_text(line->by[i]);
    cells[count++] = report_count(line->calls);
    count += put_tokens(cells + count, &line->wasted);
    cells[count++] = report_decimal(line->own_cost_pusd);
    filling->err = report_add_line(filling->report, cells);
    return filling->err == OK;
}

enum err usage_fill_waste(struct usage_asked *asked, struct report *report)
{
    const char *const texts[] = {"model", "replica", "cause"};
    struct filling filling = {asked, report, OK};

    add_columns(report, texts, sizeof(texts) / sizeof(*texts), REPORT_TEXT);
    report_add_column(report, SPAN("calls"), REPORT_COUNT);
    add_token_columns(report);
    report_add_column(report, SPAN("own_cost_usd"), REPORT_DECIMAL);
    const enum err err = books_waste(asked->common.books, &asked->ask.period, add_waste_line,
                                     &filling, asked->problem, sizeof(asked->problem));

    return err != OK ? err : filling.err;
}
