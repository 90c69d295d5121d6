/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_books.c: what the commands about money begin with.
 *
 * For:       reading their common arguments, opening configuration and books, feeding the ledger.
 * Called by: cmd_usage.c, cmd_invoice.c, cmd_why.c, cmd_adjust.c, cmd_rerate.c, cmd_audit.c,
 *            cmd_ledger.c.
 * Knows not: what they print. */
#include "gateway/cmd_books.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "config/base/span.h"

#define PROBLEM_BYTES 1024
#define WAIT_MS 20
#define WAITS_MAX 100 /* for a gateway that feeds the same ledger at this moment */

bool cmd_takes(const struct cmd_option *options, size_t count, int argc, char **argv, int *i)
{
    for (size_t k = 0; k < count; k++) {
        if (strcmp(argv[*i], options[k].name) == 0 && *i + 1 < argc) {
            *options[k].place = argv[++*i];
            return true;
        }
    }
    return false;
}

bool cmd_books_takes(struct cmd_books *common, int argc, char **argv, int *i)
{
    const struct cmd_option options[] = {
        {"--config", &common->config_path},
        {"--journal", &common->journal_path},
        {"--ledger", &common->ledger_path},
    };

    return cmd_takes(options, sizeof(options) / sizeof(options[0]), argc, argv, i);
}

/* The configuration of a file, or one of nothing but the paths given. */
static bool open_config(struct cmd_books *common)
{
    struct config_problems problems = {NULL, 0, 0};
    enum err err;

    if (common->journal_path)
        return true;
    err = config_load(common->config_path, &common->config, &problems);
    if (problems.text)
        (void)fputs(problems.text, stderr);
    config_problems_free(&problems);
    if (err != OK && common->config_path == NULL)
        (void)fputs("tollgate: say which gateway's books: --config FILE, or --journal DIR\n",
                    stderr);
    return err == OK;
}

/* What books_open() gets: paths of the command line win. */
static void lay_out(struct cmd_books *common)
{
    if (!common->journal_path) {
        common->bare = *common->config;
    } else {
        common->bare = (struct config){.generation = 1};
        common->config = &common->bare;
        common->bare.journal = span_of(common->journal_path);
        common->bare.gateway = SPAN("books");
        common->bare.opex_ppm = PRICE_PPM;
    }
    if (common->ledger_path)
        common->bare.ledger = span_of(common->ledger_path);
}

/* Until all is in; a gateway that feeds at this moment is waited for, for a while. */
static enum err feed(struct books *books, char *problem, size_t problem_size)
{
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    enum err err = OK;

    for (int i = 0; i < WAITS_MAX; i++) {
        int64_t rows = 0;
        err = books_feed(books, INT64_MAX, &rows, problem, problem_size);
        if (err != OK || books_behind(books) == 0)
            return err;
        if (rows == 0)
            (void)nanosleep(&pause, NULL);
    }
    return OK;
}

int cmd_books_open(struct cmd_books *common, bool with_feed)
{
    char problem[PROBLEM_BYTES] = "";
    enum err err;

    if (!open_config(common))
        return 1;
    lay_out(common);
    err = books_open(&common->bare, &common->books, problem, sizeof(problem));
    if (err == OK && with_feed) {
        err = feed(common->books, problem, sizeof(problem));
        if (err == ERR_BAD_VALUE) {
            /* What is good is in: it may be asked for, but nobody shall overlook what is not. */
            (void)fprintf(stderr, "tollgate: the journal is damaged: %s\n", problem);
            return 0;
        }
    }
    if (err == OK)
        return 0;
    (void)fprintf(stderr, "tollgate: %s\n", problem);
    return 1;
}

void cmd_books_close(struct cmd_books *common)
{
    books_close(common->books);
    common->books = NULL;
    if (common->config != &common->bare)
        config_put(common->config);
    common->config = NULL;
}

const struct config_tenant *cmd_books_tenant(const struct cmd_books *common, const char *name)
{
    for (uint32_t i = 0; i < common->config->tenant_count; i++)
        if (span_equal(common->config->tenants[i].name, span_of(name)))
            return &common->config->tenants[i];
    return NULL;
}

const struct zone *cmd_books_zone(const struct cmd_books *common, const char *name)
{
    const struct config_tenant *tenant = name != NULL ? cmd_books_tenant(common, name) : NULL;

    return tenant != NULL && tenant->zone != NULL ? tenant->zone : zone_utc();
}
