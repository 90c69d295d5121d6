/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_usage.c: tollgate usage: what was used and charged, by any columns.
 *
 * For:       operators who ask for a period's sums.
 * Called by: main.c.
 * Knows not: how sums are made and printed (cmd_usage_lines.c, report.c). */
#include <stdio.h>

#include "config/base/clock.h"
#include "gateway/cmd.h"
#include "gateway/cmd_usage.h"
#include "gateway/usage_ask.h"

#define COMMAND "usage"
#define COLUMN(id, name) " " #name
#define COLUMN_NAMES BOOKS_COLUMNS(COLUMN)
#define ZONE "a time zone such as Europe/Berlin"
#define BY "1 to 6 columns such as tenant,model, each once, of tag:NAME and" COLUMN_NAMES
#define WHERE                                                                                      \
    "COLUMN=VALUE such as model=small, 8 at most, COLUMN being tag:NAME or one of" COLUMN_NAMES

static const char help[] =
    "usage: tollgate usage [--config FILE | --journal DIR] [--ledger FILE] [--period P] [--zone "
    "Z]\n"
    "           [--tenant T] [--where COLUMN=VALUE]... [--by COLUMN,...] [--bucket "
    "hour|day|week|month]\n"
    "           [--margin] [--weighted] [--json | --csv]\n"
    "       tollgate usage --waste [--period P] [--zone Z] [--json | --csv]\n"
    "       tollgate usage --focus [--issuer NAME] [--period P] [--zone Z] [--tenant T]\n"
    "P: 2026, 2026-11, 2026-11-30, 2026-W48, today, yesterday, month (when not said), last-month,\n"
    "   24h, 7d, or A..B. COLUMN (tenant,model when not said): tag:NAME, or one of\n"
    "  " COLUMN_NAMES "\n";

/* ---- arguments ---- */

static bool read_by(void *owner, const char *names)
{
    struct books_ask *ask = owner;

    ask->by_count = 0; /* the last --by holds */
    return usage_ask_by(ask, span_of(names));
}

static bool read_bucket(void *owner, const char *unit)
{
    return usage_ask_bucket(owner, span_of(unit));
}

static bool add_filter(struct books_ask *ask, enum books_column column, struct span value)
{
    if (ask->filter_count == BOOKS_FILTERS_MAX)
        return false;
    ask->filters[ask->filter_count++] = (struct books_filter){column, value};
    return true;
}

static bool read_where(void *owner, const char *text)
{
    const char *equals = strchr(text, '=');
    enum books_column column;

    return equals != NULL &&
           usage_ask_column(owner, (struct span){text, (size_t)(equals - text)}, &column) &&
           add_filter(owner, column, span_of(equals + 1));
}

/* The format; of three at most one. */
static bool choose_format(struct usage_asked *asked, bool json, bool csv, bool focus,
                          int *out_status)
{
    const struct argument_flag formats[] = {{"--json", json}, {"--csv", csv}, {"--focus", focus}};

    asked->format = json ? USAGE_JSON : csv ? USAGE_CSV : focus ? USAGE_FOCUS : USAGE_TABLE;
    return arguments_exclude(COMMAND, formats, ARGUMENT_COUNT(formats), out_status);
}

/* Do these go together? What asks for lines does not go with waste and FOCUS, which have their own.
 * NULL: they do; else what does not. */
static const char *find_clash(const struct usage_asked *asked)
{
    const struct books_ask *ask = &asked->ask;
    const bool lines = ask->by_count > 0 || ask->bucketed || ask->filter_count > 0 ||
                       asked->weighted || asked->margin;

    if (asked->issuer != NULL && asked->format != USAGE_FOCUS)
        return "--issuer goes with --focus alone";
    if (asked->waste && (lines || asked->tenant != NULL || asked->format == USAGE_FOCUS))
        return "--waste goes with --period, --zone, --json and --csv alone";
    if (asked->format == USAGE_FOCUS && lines)
        return "--focus has lines of its own: --by, --where, --bucket, --margin and --weighted do "
               "not go with it";
    /* Weights need two columns of their own. */
    if (asked->weighted && ask->by_count + 2 > BOOKS_BY_MAX)
        return "--weighted needs two columns of its own: name fewer in --by";
    return NULL;
}

/* Columns and tenant, once it is known that all goes together. */
static bool complete(struct usage_asked *asked, int *out_status)
{
    const char *clash = find_clash(asked);

    if (clash == NULL && asked->ask.by_count == 0)
        (void)read_by(&asked->ask, "tenant,model");
    if (clash == NULL && asked->tenant != NULL &&
        !add_filter(&asked->ask, BY_TENANT, span_of(asked->tenant)))
        clash = "--tenant and so many --where are more than can be asked for";
    if (clash != NULL)
        *out_status = arguments_refuse(COMMAND, "%s", clash);
    return clash == NULL;
}

static bool read_arguments(int argc, char **argv, struct usage_asked *asked, int *out_status)
{
    bool json = false, csv = false, focus = false;
    const struct argument_option options[] = {
        CMD_BOOKS_OPTIONS(&asked->common),
        ARGUMENT_TEXT("--period", ARGUMENT_PERIOD, &asked->period),
        ARGUMENT_TEXT("--zone", ZONE, &asked->zone),
        ARGUMENT_TEXT("--tenant", ARGUMENT_TENANT, &asked->tenant),
        ARGUMENT_TEXT("--issuer", "the name of who sends the invoices", &asked->issuer),
        ARGUMENT_READ("--by", BY, read_by, &asked->ask),
        ARGUMENT_READ("--where", WHERE, read_where, &asked->ask),
        ARGUMENT_READ("--bucket", "hour, day, week or month", read_bucket, &asked->ask),
        ARGUMENT_FLAG("--waste", &asked->waste),
        ARGUMENT_FLAG("--weighted", &asked->weighted),
        ARGUMENT_FLAG("--margin", &asked->margin),
        ARGUMENT_FLAG("--json", &json),
        ARGUMENT_FLAG("--csv", &csv),
        ARGUMENT_FLAG("--focus", &focus),
    };
    const struct argument_form form = {.command = COMMAND, help, options, ARGUMENT_COUNT(options)};

    return arguments_read(&form, argc, argv, out_status) &&
           choose_format(asked, json, csv, focus, out_status) && complete(asked, out_status);
}

/* ---- the answer ---- */

/* The zone asked for, else the tenant's, else UTC; and the period in it. Returns 0, or
 * the exit status. */
static int read_period(struct usage_asked *asked)
{
    const char *period = asked->period != NULL ? asked->period : "month";

    asked->ask.zone = cmd_books_zone(&asked->common, asked->tenant);
    if (asked->zone != NULL && zone_find(span_of(asked->zone), &asked->ask.zone) != OK)
        return arguments_refuse_value(COMMAND, "--zone", asked->zone, ZONE);
    if (period_read(span_of(period), asked->ask.zone, asked->now_us, &asked->ask.period) != OK)
        return arguments_refuse_value(COMMAND, "--period", period, ARGUMENT_PERIOD);
    return asked->tenant == NULL || cmd_books_knows(&asked->common, asked->tenant) ? 0 : 2;
}

static enum err print_report(struct usage_asked *asked)
{
    const struct report_frame frame = {asked->ask.period, zone_name(asked->ask.zone)};
    struct report report;

    report_init(&report);
    const enum err err =
        asked->waste ? usage_fill_waste(asked, &report) : usage_fill_lines(asked, &report);

    if (err == OK && asked->format == USAGE_JSON)
        report_print_json(&report, &frame, stdout);
    else if (err == OK && asked->format == USAGE_CSV)
        report_print_csv(&report, stdout);
    else if (err == OK)
        report_print_table(&report, stdout);
    report_fini(&report);
    return err;
}

static int say_problem(const struct usage_asked *asked, enum err err)
{
    const char *problem = asked->problem[0] != '\0' ? asked->problem : err_row(err)->name;

    if (err == ERR_TOO_LARGE)
        problem = "more lines than a report holds: ask for a shorter period or fewer columns";
    (void)fprintf(stderr, "tollgate: %s\n", problem);
    return 1;
}

int cmd_usage(int argc, char **argv)
{
    struct usage_asked asked = {.now_us = clock_wall_us()};
    int status;

    if (!read_arguments(argc, argv, &asked, &status))
        return status;
    status = cmd_books_open(&asked.common, true);
    if (status == 0)
        status = read_period(&asked);
    if (status == 0) {
        const enum err err =
            asked.format == USAGE_FOCUS ? usage_print_focus(&asked, stdout) : print_report(&asked);

        if (err != OK)
            status = say_problem(&asked, err);
        else if (fflush(stdout) != 0)
            status = 1;
    }
    cmd_books_close(&asked.common);
    return status;
}
