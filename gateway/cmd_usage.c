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

static const char says[] =
    "usage: tollgate usage [--config FILE | --journal DIR] [--ledger FILE] [--period P] [--zone "
    "Z]\n"
    "           [--tenant T] [--where COLUMN=VALUE]... [--by COLUMN,...] [--bucket "
    "hour|day|week|month]\n"
    "           [--margin] [--weighted] [--json | --csv]\n"
    "       tollgate usage --waste [--period P] [--zone Z] [--json | --csv]\n"
    "       tollgate usage --focus [--issuer NAME] [--period P] [--zone Z] [--tenant T]\n"
    "P: 2026, 2026-11, 2026-11-30, 2026-W48, today, yesterday, month (when not said), last-month,\n"
    "   24h, 7d, or A..B. COLUMN (tenant,model when not said): tag:NAME, or one of";

static int explain(void)
{
    (void)fputs(says, stderr);
    for (size_t i = 0; i < BOOKS_COLUMN_COUNT; i++)
        (void)fprintf(stderr, "%s%s", i % 9 == 0 ? "\n   " : " ",
                      books_column_name((enum books_column)i));
    (void)fputs("\n", stderr);
    return 2;
}

/* ---- arguments ---- */

/* The columns of the last --by. */
static bool read_by(struct books_ask *ask, const char *names)
{
    ask->by_count = 0;
    return usage_ask_by(ask, span_of(names));
}

static bool add_filter(struct books_ask *ask, enum books_column column, struct span value)
{
    if (ask->filter_count == BOOKS_FILTERS_MAX)
        return false;
    ask->filters[ask->filter_count++] = (struct books_filter){column, value};
    return true;
}

/* COLUMN=VALUE or tag:NAME=VALUE */
static bool read_where(struct books_ask *ask, const char *text)
{
    const char *equals = strchr(text, '=');
    enum books_column column;

    return equals != NULL &&
           usage_ask_column(ask, (struct span){text, (size_t)(equals - text)}, &column) &&
           add_filter(ask, column, span_of(equals + 1));
}

/* An argument with a value behind it; false: it is none, or the value is wrong. */
static bool read_valued(struct usage_asked *asked, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **place;
    } texts[] = {{"--period", &asked->period},
                 {"--zone", &asked->zone},
                 {"--tenant", &asked->tenant},
                 {"--issuer", &asked->issuer}};

    if (value == NULL)
        return false;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].place = value;
            return true;
        }
    }
    if (strcmp(name, "--by") == 0)
        return read_by(&asked->ask, value);
    if (strcmp(name, "--where") == 0)
        return read_where(&asked->ask, value);
    return strcmp(name, "--bucket") == 0 && usage_ask_bucket(&asked->ask, span_of(value));
}

/* One without; false: it is none, or a second format. */
static bool read_flag(struct usage_asked *asked, const char *name)
{
    const struct {
        const char *name;
        bool *place;
    } flags[] = {
        {"--waste", &asked->waste}, {"--weighted", &asked->weighted}, {"--margin", &asked->margin}};
    const char *const formats[] = {
        [USAGE_JSON] = "--json", [USAGE_CSV] = "--csv", [USAGE_FOCUS] = "--focus"};

    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        if (strcmp(name, flags[i].name) == 0) {
            *flags[i].place = true;
            return true;
        }
    }
    for (enum usage_format format = USAGE_JSON; format <= USAGE_FOCUS; format++) {
        if (strcmp(name, formats[format]) == 0 && asked->format == USAGE_TABLE) {
            asked->format = format;
            return true;
        }
    }
    return false;
}

/* Do these go together? What asks for lines does not go with waste and FOCUS, which have their own.
 */
static bool goes_together(const struct usage_asked *asked)
{
    const struct books_ask *ask = &asked->ask;
    const bool lines = ask->by_count > 0 || ask->bucketed || ask->filter_count > 0 ||
                       asked->weighted || asked->margin;

    if (asked->issuer != NULL && asked->format != USAGE_FOCUS)
        return false;
    if (asked->waste)
        return !lines && asked->tenant == NULL && asked->format != USAGE_FOCUS;
    /* Weights need two columns of their own. */
    return (asked->format != USAGE_FOCUS || !lines) &&
           (!asked->weighted || ask->by_count + 2 <= BOOKS_BY_MAX);
}

static bool read_arguments(int argc, char **argv, struct usage_asked *asked)
{
    for (int i = 1; i < argc; i++) {
        if (cmd_books_takes(&asked->common, argc, argv, &i) || read_flag(asked, argv[i]))
            continue;
        if (!read_valued(asked, argv[i], i + 1 < argc ? argv[i + 1] : NULL)) {
            if (i + 1 < argc)
                (void)fprintf(stderr, "tollgate: not understood: %s %s\n", argv[i], argv[i + 1]);
            return false;
        }
        i++;
    }
    if (!goes_together(asked))
        return false;
    if (asked->ask.by_count == 0)
        (void)read_by(&asked->ask, "tenant,model");
    return asked->tenant == NULL || add_filter(&asked->ask, BY_TENANT, span_of(asked->tenant));
}

/* ---- the answer ---- */

/* The zone asked for, else the tenant's, else UTC; and the period in it. */
static bool read_period(struct usage_asked *asked)
{
    const char *period = asked->period != NULL ? asked->period : "month";

    asked->ask.zone = cmd_books_zone(&asked->common, asked->tenant);
    if (asked->zone != NULL && zone_find(span_of(asked->zone), &asked->ask.zone) != OK) {
        (void)fprintf(stderr, "tollgate: no time zone %s (expected one such as Europe/Berlin)\n",
                      asked->zone);
        return false;
    }
    if (period_read(span_of(period), asked->ask.zone, asked->now_us, &asked->ask.period) != OK) {
        (void)fprintf(stderr, "tollgate: no period %s (expected one such as 2026-11)\n", period);
        return false;
    }
    return true;
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

    if (!read_arguments(argc, argv, &asked))
        return explain();
    int status = cmd_books_open(&asked.common, true);

    if (status == 0 && !read_period(&asked))
        status = 2;
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
