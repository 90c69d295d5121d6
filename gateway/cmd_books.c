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

#include "config/base/nearest.h"
#include "config/base/span.h"

#define PROBLEM_BYTES 1024
#define TENANT_BYTES 256
#define WAIT_MS 20
#define WAITS_MAX 100 /* for a gateway that feeds the same ledger at this moment */

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
    if (common->ledger_path) {
        common->bare.ledger = span_of(common->ledger_path);
        common->bare.ledger_line = 0;
    }
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

int cmd_books_feed(struct cmd_books *common)
{
    char problem[PROBLEM_BYTES] = "";
    const enum err err = feed(common->books, problem, sizeof(problem));

    /* What is good is in: it may be asked for, but nobody shall overlook what is not. */
    if (err != OK)
        (void)fprintf(stderr, "tollgate: %s%s\n",
                      err == ERR_BAD_VALUE ? "the journal is damaged: " : "", problem);
    return err == OK || err == ERR_BAD_VALUE ? 0 : 1;
}

int cmd_books_open_for(struct cmd_books *common, enum books_purpose purpose)
{
    char problem[PROBLEM_BYTES] = "";

    if (!open_config(common))
        return 1;
    lay_out(common);
    if (books_open_for(&common->bare, purpose, &common->books, problem, sizeof(problem)) == OK)
        return 0;
    (void)fprintf(stderr, "tollgate: %s\n", problem);
    return 1;
}

int cmd_books_open(struct cmd_books *common, bool with_feed)
{
    const int status = cmd_books_open_for(common, BOOKS_USE);

    return status == 0 && with_feed ? cmd_books_feed(common) : status;
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

/* Who has rows: is it the one that is asked for, else which is nearest? */
struct seeking {
    struct nearest nearest;
    char name[TENANT_BYTES]; /* of the nearest, when it is of the books */
    bool found;
};

static bool visit_tenant(void *owner, const struct books_line *line)
{
    struct seeking *seeking = owner;

    seeking->found = span_equal(line->by[0], seeking->nearest.asked);
    if (line->by[0].size < sizeof(seeking->name) && nearest_try(&seeking->nearest, line->by[0])) {
        memcpy(seeking->name, line->by[0].data, line->by[0].size);
        seeking->nearest.name.data = seeking->name;
    }
    return !seeking->found;
}

bool cmd_books_knows(const struct cmd_books *common, const char *name)
{
    const struct books_ask ask = {
        .period = {INT64_MIN, INT64_MAX}, .zone = zone_utc(), .by = {BY_TENANT}, .by_count = 1};
    struct seeking seeking = {.nearest = nearest_to(span_of(name))};
    char problem[PROBLEM_BYTES] = "";

    if (cmd_books_tenant(common, name) != NULL)
        return true;
    for (uint32_t i = 0; i < common->config->tenant_count; i++)
        (void)nearest_try(&seeking.nearest, common->config->tenants[i].name);
    if (books_usage(common->books, &ask, visit_tenant, &seeking, problem, sizeof(problem)) != OK) {
        (void)fprintf(stderr, "tollgate: %s\n", problem);
        return false;
    }
    if (seeking.found)
        return true;
    (void)fprintf(stderr, "tollgate: no tenant %s: %s", name,
                  common->journal_path ? "the books have no row of it"
                                       : "neither the configuration nor any row names it");
    if (nearest_is_near(&seeking.nearest))
        (void)fprintf(stderr, "; did you mean %.*s?", (int)seeking.nearest.name.size,
                      seeking.nearest.name.data);
    (void)fputc('\n', stderr);
    return false;
}

const struct zone *cmd_books_zone(const struct cmd_books *common, const char *name)
{
    const struct config_tenant *tenant = name != NULL ? cmd_books_tenant(common, name) : NULL;

    return tenant != NULL && tenant->zone != NULL ? tenant->zone : zone_utc();
}
