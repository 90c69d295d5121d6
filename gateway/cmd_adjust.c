/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_adjust.c: tollgate adjust.
 *
 * For:       operators who correct a charge, or give a credit: always by a row of its own.
 * Called by: main.c.
 * Knows not: how the row is written (meter/adjust.c). */
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gateway/cmd.h"
#include "gateway/cmd_books.h"

struct arguments {
    struct cmd_books books;
    struct books_adjust adjust;
    const char *row, *tenant, *at, *usd, *by, *why;
    bool json;
};

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: tollgate adjust ROW_ID --void | --usd AMOUNT, or\n"
                  "       tollgate adjust --tenant T --at WHEN --usd AMOUNT\n"
                  "       each with --by NAME --why TEXT [--config FILE | --journal DIR] "
                  "[--json]\n"
                  "ROW_ID: GATEWAY/EPOCH/SEQ, as tollgate why prints it. AMOUNT: in USD, what "
                  "is added; -0.01 gives back.\n");
    return 2;
}

static bool take_argument(struct arguments *arguments, int argc, char **argv, int *i)
{
    const struct cmd_option options[] = {
        {"--tenant", &arguments->tenant}, {"--at", &arguments->at},   {"--usd", &arguments->usd},
        {"--by", &arguments->by},         {"--why", &arguments->why},
    };

    if (cmd_books_takes(&arguments->books, argc, argv, i) ||
        cmd_takes(options, sizeof(options) / sizeof(options[0]), argc, argv, i))
        return true;
    if (strcmp(argv[*i], "--void") == 0)
        arguments->adjust.void_row = true;
    else if (strcmp(argv[*i], "--json") == 0)
        arguments->json = true;
    else if (argv[*i][0] != '-' && arguments->row == NULL)
        arguments->row = argv[*i];
    else
        return false;
    return true;
}

/* Is what was said enough, and not too much? */
static bool is_whole(const struct arguments *arguments)
{
    if (arguments->by == NULL || arguments->why == NULL)
        return false;
    if (arguments->adjust.void_row == (arguments->usd != NULL))
        return false;
    if (arguments->row != NULL)
        return arguments->tenant == NULL && arguments->at == NULL;
    return arguments->tenant != NULL && arguments->at != NULL && !arguments->adjust.void_row;
}

static bool read_values(struct arguments *arguments, const struct zone *zone)
{
    struct books_adjust *adjust = &arguments->adjust;

    adjust->adjusts = span_of(arguments->row);
    adjust->tenant = span_of(arguments->tenant);
    adjust->by = span_of(arguments->by);
    adjust->why = span_of(arguments->why);
    if (arguments->usd != NULL &&
        money_read_usd(span_of(arguments->usd), &adjust->add_pusd) != OK) {
        (void)fprintf(stderr,
                      "tollgate: --usd %s: expected an amount in USD with at most 12 places\n",
                      arguments->usd);
        return false;
    }
    if (arguments->at != NULL &&
        period_read_moment(span_of(arguments->at), zone, &adjust->admitted_us) != OK) {
        (void)fprintf(stderr,
                      "tollgate: --at %s: expected 2026-11-30, 2026-11-30T12:00:00Z or seconds "
                      "since 1970\n",
                      arguments->at);
        return false;
    }
    return true;
}

static void print_result(const struct arguments *arguments, const char *id, int64_t pusd)
{
    char usd[MONEY_TEXT_BYTES];

    (void)money_print_usd(pusd, usd);
    if (arguments->json) {
        char escaped[6 * 128];
        const size_t size = log_escape(span_of(id), escaped, sizeof(escaped));
        (void)printf("{\"id\":\"%.*s\",\"cost_pusd\":\"%lld\",\"usd\":\"%s\"}\n", (int)size,
                     escaped, (long long)pusd, usd);
    } else {
        (void)printf("%s: %s USD\n", id, usd);
    }
}

int cmd_adjust(int argc, char **argv)
{
    struct arguments arguments = {.row = NULL};
    char id[128] = "", problem[1024] = "";
    int64_t pusd = 0;
    int status;

    for (int i = 1; i < argc; i++) {
        if (!take_argument(&arguments, argc, argv, &i))
            return usage();
    }
    if (!is_whole(&arguments))
        return usage();
    status = cmd_books_open(&arguments.books, true);
    /* Days of --at begin where the tenant's do. */
    if (status == 0 && !read_values(&arguments, cmd_books_zone(&arguments.books, arguments.tenant)))
        status = 2;
    if (status == 0 &&
        books_adjust(arguments.books.books, arguments.books.config, &arguments.adjust,
                     clock_wall_us(), id, &pusd, problem, sizeof(problem)) != OK) {
        (void)fprintf(stderr, "tollgate: %s\n", problem);
        status = 1;
    }
    if (status == 0)
        print_result(&arguments, id, pusd);
    cmd_books_close(&arguments.books);
    return status;
}
