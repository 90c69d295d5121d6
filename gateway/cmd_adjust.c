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

#define COMMAND "adjust"
#define AMOUNT "an amount in USD with at most 12 places, such as -0.01"
#define MOMENT "2026-11-30, 2026-11-30T12:00:00Z or seconds since 1970"

struct arguments {
    struct cmd_books books;
    struct books_adjust adjust;
    const char *row, *tenant, *at, *usd, *by, *why;
    bool force, json;
};

static const char help[] =
    "usage: tollgate adjust ROW_ID --void | --usd AMOUNT, or\n"
    "       tollgate adjust --tenant T --at WHEN --usd AMOUNT [--force]\n"
    "       each with --by NAME --why TEXT [--amend] [--config FILE | --journal DIR]\n"
    "       [--ledger FILE] [--json]\n"
    "ROW_ID: GATEWAY/EPOCH/SEQ, as tollgate why prints it. AMOUNT: in USD, what is added; -0.01 "
    "gives back.\n"
    "A correction counts in its row's month; when that is closed (a day after its end), in this.\n"
    "--amend: in the closed one, whose invoice then has to be sent anew, or in one to come.\n"
    "--force books it for a tenant that neither configuration nor books know.\n";

static bool read_arguments(struct arguments *arguments, int argc, char **argv, int *out_status)
{
    const struct argument_option options[] = {
        CMD_BOOKS_OPTIONS(&arguments->books),
        ARGUMENT_TEXT("--tenant", ARGUMENT_TENANT, &arguments->tenant),
        ARGUMENT_TEXT("--at", MOMENT, &arguments->at),
        ARGUMENT_TEXT("--usd", AMOUNT, &arguments->usd),
        ARGUMENT_TEXT("--by", "the name of who corrects", &arguments->by),
        ARGUMENT_TEXT("--why", "the reason", &arguments->why),
        ARGUMENT_FLAG("--void", &arguments->adjust.void_row),
        ARGUMENT_FLAG("--amend", &arguments->adjust.amend),
        ARGUMENT_FLAG("--force", &arguments->force),
        ARGUMENT_FLAG("--json", &arguments->json),
    };
    const struct argument_word words[] = {{"ROW_ID", &arguments->row, true}};
    const struct argument_form form = {
        COMMAND, help, options, ARGUMENT_COUNT(options), words, ARGUMENT_COUNT(words)};

    return arguments_read(&form, argc, argv, out_status);
}

/* Is what was said enough, and not too much? NULL: it is. */
static const char *find_gap(const struct arguments *arguments)
{
    if (arguments->row == NULL && arguments->tenant == NULL)
        return "expected the ROW_ID that is corrected, or --tenant and --at of a credit";
    if (arguments->row != NULL && arguments->tenant != NULL)
        return "--tenant does not go with a row's id: the row has its tenant";
    if (arguments->row != NULL && arguments->at != NULL)
        return "--at does not go with a row's id: the row has its moment";
    if (arguments->row == NULL && arguments->at == NULL)
        return "expected --at WHEN: the moment that the credit belongs to";
    if (arguments->adjust.void_row && arguments->usd != NULL)
        return "--void and --usd do not go together";
    if (arguments->row == NULL && arguments->adjust.void_row)
        return "--void needs a row's id";
    if (!arguments->adjust.void_row && arguments->usd == NULL)
        return arguments->row ? "expected --void or --usd AMOUNT" : "expected --usd AMOUNT";
    if (arguments->by == NULL)
        return "expected --by NAME: who corrects";
    return arguments->why == NULL ? "expected --why TEXT: the reason" : NULL;
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
        (void)arguments_refuse_value(COMMAND, "--usd", arguments->usd, AMOUNT);
        return false;
    }
    if (arguments->at != NULL &&
        period_read_moment(span_of(arguments->at), zone, &adjust->admitted_us) != OK) {
        (void)arguments_refuse_value(COMMAND, "--at", arguments->at, MOMENT);
        return false;
    }
    return true;
}

/* What is booked for a name that was mistyped is on nobody's invoice. */
static bool is_known(const struct arguments *arguments)
{
    if (arguments->tenant == NULL || arguments->force ||
        cmd_books_knows(&arguments->books, arguments->tenant))
        return true;
    (void)fputs("tollgate: nothing was booked; --force books it for this name\n", stderr);
    return false;
}

static void print_json(const struct books_adjusted *made, const char *usd, const char *month)
{
    char escaped[6 * sizeof(made->tenant)];
    const size_t size = log_escape(span_of(made->tenant), escaped, sizeof(escaped));

    (void)printf("{\"id\":\"%s\",\"cost_pusd\":\"%lld\",\"usd\":\"%s\",\"tenant\":\"%.*s\","
                 "\"month\":\"%s\",\"amends\":%s}\n",
                 made->id, (long long)made->pusd, usd, (int)size, escaped, month,
                 made->amends ? "true" : "false");
}

static void print_result(const struct arguments *arguments, const struct books_adjusted *made)
{
    char usd[MONEY_TEXT_BYTES], month[PERIOD_TEXT_BYTES];

    (void)money_print_usd(made->pusd, usd);
    (void)period_print_name(cmd_books_zone(&arguments->books, made->tenant), PERIOD_MONTH,
                            made->counts_us, month);
    if (arguments->json) {
        print_json(made, usd, month);
        return;
    }
    (void)printf("%s: %s USD on the invoice of %s for %s%s\n", made->id, usd, made->tenant, month,
                 made->amends             ? ", which was closed: send it anew"
                 : made->corrects_us != 0 ? ": the month of its row is closed"
                                          : "");
}

int cmd_adjust(int argc, char **argv)
{
    struct arguments arguments = {.row = NULL};
    struct books_adjusted made;
    char problem[1024] = "";
    const char *gap;
    int status;

    if (!read_arguments(&arguments, argc, argv, &status))
        return status;
    gap = find_gap(&arguments);
    if (gap != NULL)
        return arguments_refuse(COMMAND, "%s", gap);
    status = cmd_books_open(&arguments.books, true);
    /* Days of --at begin where the tenant's do. */
    if (status == 0 &&
        (!read_values(&arguments, cmd_books_zone(&arguments.books, arguments.tenant)) ||
         !is_known(&arguments)))
        status = 2;
    if (status == 0 &&
        books_adjust(arguments.books.books, arguments.books.config, &arguments.adjust,
                     clock_wall_us(), &made, problem, sizeof(problem)) != OK) {
        (void)fprintf(stderr, "tollgate: %s\n", problem);
        status = 1;
    }
    if (status == 0)
        print_result(&arguments, &made);
    cmd_books_close(&arguments.books);
    return status;
}
