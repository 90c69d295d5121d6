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

struct arguments {
    struct cmd_books books;
    const char *prices, *period, *tenant;
    bool json;
    struct config *config; /* of --prices */
};

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: tollgate rerate --prices FILE [--period P] [--tenant T] [--json] "
                  "[--config FILE | --journal DIR] [--ledger FILE]\n"
                  "FILE: a configuration whose prices are applied to what is in the ledger\n");
    return 2;
}

static bool take_argument(struct arguments *arguments, int argc, char **argv, int *i)
{
    const struct cmd_option options[] = {{"--prices", &arguments->prices},
                                         {"--period", &arguments->period},
                                         {"--tenant", &arguments->tenant}};

    if (cmd_books_takes(&arguments->books, argc, argv, i) ||
        cmd_takes(options, sizeof(options) / sizeof(options[0]), argc, argv, i))
        return true;
    if (strcmp(argv[*i], "--json") != 0)
        return false;
    arguments->json = true;
    return true;
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
        (void)printf("%lld calls have no price there, and count as they were charged.\n",
                     (long long)filling->unpriced);
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
        return usage();
    return print_difference(arguments, &period, zone);
}

int cmd_rerate(int argc, char **argv)
{
    struct arguments arguments = {.prices = NULL};
    struct config_problems problems = {NULL, 0, 0};
    int status;

    for (int i = 1; i < argc; i++)
        if (!take_argument(&arguments, argc, argv, &i))
            return usage();
    if (arguments.prices == NULL)
        return usage();
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
