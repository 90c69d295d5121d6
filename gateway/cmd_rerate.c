/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_rerate.c: tollgate rerate: the past at other prices.
 *
 * For:       the difference by tenant and model, and in sum. Changes nothing.
 * Called by: main.c.
 * Knows not: how rows are priced (meter/rerate.c).
 *
 * It is about what rows were charged: volume discounts are given on invoices, and corrections stay
 * what they are. */
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "gateway/cmd.h"
#include "gateway/cmd_books.h"
#include "gateway/report.h"

#define COMMAND "rerate"
#define PRICES "a configuration with the other prices"

struct arguments {
    struct cmd_books books;
    const char *prices, *period, *tenant;
    bool json;
    struct config *config; /* of --prices */
};

static const char help[] =
    "usage: tollgate rerate --prices FILE [--period P] [--tenant T] [--json] "
    "[--config FILE | --journal DIR] [--ledger FILE]\n"
    "FILE: a configuration whose prices are applied to what is in the ledger\n";

static bool read_arguments(struct arguments *arguments, int argc, char **argv, int *out_status)
{
    const struct argument_option options[] = {
        CMD_BOOKS_OPTIONS(&arguments->books),
        ARGUMENT_TEXT("--prices", PRICES, &arguments->prices),
        ARGUMENT_TEXT("--period", ARGUMENT_PERIOD, &arguments->period),
        ARGUMENT_TEXT("--tenant", ARGUMENT_TENANT, &arguments->tenant),
        ARGUMENT_FLAG("--json", &arguments->json),
    };
    const struct argument_form form = {.command = COMMAND, help, options, ARGUMENT_COUNT(options)};

    if (!arguments_read(&form, argc, argv, out_status))
        return false;
    if (arguments->prices != NULL)
        return true;
    *out_status = arguments_refuse(COMMAND, "expected --prices FILE: " PRICES);
    return false;
}

/* ---- the answer ---- */

struct filling {
    struct report report;
    enum err err;
    int64_t differing, unpriced;
};

static bool add_line(void *owner, const struct books_rerate *line)
{
    struct filling *filling = owner;
    money_sum difference = 0;

    filling->err = money_add(line->would_be_pusd, -line->was_pusd, &difference);
    filling->differing += line->differing;
    filling->unpriced += line->unpriced;
    const struct report_cell cells[] = {
        report_text(line->tenant),           report_text(line->model),
        report_count(line->calls),           report_count(line->differing),
        report_count(line->unpriced),        report_decimal(line->was_pusd),
        report_decimal(line->would_be_pusd), report_decimal(difference)};
    if (filling->err == OK)
        filling->err = report_add_line(&filling->report, cells);
    return filling->err == OK;
}

static void add_columns(struct report *report)
{
    report_add_column(report, SPAN("tenant"), REPORT_TEXT);
    report_add_column(report, SPAN("model"), REPORT_TEXT);
    report_add_column(report, SPAN("calls"), REPORT_COUNT);
    report_add_column(report, SPAN("differing"), REPORT_COUNT);
    report_add_column(report, SPAN("unpriced"), REPORT_COUNT);
    report_add_column(report, SPAN("was_usd"), REPORT_DECIMAL);
    report_add_column(report, SPAN("would_be_usd"), REPORT_DECIMAL);
    report_add_column(report, SPAN("difference_usd"), REPORT_DECIMAL);
}

static void print_words(const struct filling *filling)
{
    (void)printf("\n%s: %lld of the calls would be charged otherwise. Nothing was changed.\n",
                 filling->differing == 0 ? "changes nothing" : "differs",
                 (long long)filling->differing);
    if (filling->unpriced > 0)
        (void)printf("%lld %s no price there, and %s charged.\n", (long long)filling->unpriced,
                     filling->unpriced == 1 ? "call has" : "calls have",
                     filling->unpriced == 1 ? "counts as it was" : "count as they were");
}

static int print_difference(const struct arguments *arguments, const struct period *period,
                            const struct zone *zone)
{
    const struct report_frame frame = {*period, zone_name(zone)};
    struct filling filling = {.err = OK};
    char problem[1024] = "the sums do not fit, or there are too many lines";
    enum err err;

    report_init(&filling.report);
    add_columns(&filling.report);
    err = books_rerate(arguments->books.books, arguments->config, period,
                       span_of(arguments->tenant), add_line, &filling, problem, sizeof(problem));
    if (err == OK)
        err = filling.err;
    if (err == OK && arguments->json)
        report_print_json(&filling.report, &frame, stdout);
    else if (err == OK)
        report_print_table(&filling.report, stdout);
    if (err == OK && !arguments->json)
        print_words(&filling);
    report_fini(&filling.report);
    if (err != OK)
        (void)fprintf(stderr, "tollgate: %s\n", problem);
    return err == OK && fflush(stdout) == 0 ? 0 : 1;
}

static int rerate(const struct arguments *arguments)
{
    const struct zone *zone = cmd_books_zone(&arguments->books, arguments->tenant);
    const char *text = arguments->period ? arguments->period : "month";
    struct period period;

    if (period_read(span_of(text), zone, clock_wall_us(), &period) != OK)
        return arguments_refuse_value(COMMAND, "--period", text, ARGUMENT_PERIOD);
    if (arguments->tenant != NULL && !cmd_books_knows(&arguments->books, arguments->tenant))
        return 2;
    return print_difference(arguments, &period, zone);
}

int cmd_rerate(int argc, char **argv)
{
    struct arguments arguments = {.prices = NULL};
    struct config_problems problems = {NULL, 0, 0};
    int status;

    if (!read_arguments(&arguments, argc, argv, &status))
        return status;
    status = config_load(arguments.prices, &arguments.config, &problems) == OK ? 0 : 1;
    if (problems.text)
        (void)fputs(problems.text, stderr);
    config_problems_free(&problems);
    if (status == 0)
        status = cmd_books_open(&arguments.books, true);
    if (status == 0)
        status = rerate(&arguments);
    cmd_books_close(&arguments.books);
    config_put(arguments.config);
    return status;
}
