/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_ledger.c: tollgate ledger rebuild | feed.
 *
 * For:       operators who doubt the ledger, or have no gateway that feeds it.
 * Called by: main.c.
 * Knows not: how either is done. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "gateway/cmd.h"
#include "gateway/cmd_books.h"

#define PROBLEM_BYTES 1024
#define MS_PER_S 1000

struct totals {
    int64_t calls;
    money_sum tokens[5];
    money_sum cost_pusd;
};

static bool add_line(void *owner, const struct books_line *line)
{
    struct totals *totals = owner;

    *totals = (struct totals){
        .calls = line->calls,
        .tokens = {line->usage.input, line->usage.cached_input, line->usage.cache_write,
                   line->usage.output, line->usage.reasoning},
        .cost_pusd = line->cost_pusd,
    };
    return true;
}

static enum err sum_up(struct books *books, struct totals *out_totals, char *problem)
{
    const struct books_ask ask = {.period = {INT64_MIN, INT64_MAX}, .zone = zone_utc()};

    *out_totals = (struct totals){.calls = 0};
    return books_usage(books, &ask, add_line, out_totals, problem, PROBLEM_BYTES);
}

static void print_totals(const char *when, const struct totals *totals)
{
    char usd[MONEY_TEXT_BYTES], tokens[5][MONEY_TEXT_BYTES];

    (void)money_print_usd(totals->cost_pusd, usd);
    for (int i = 0; i < 5; i++)
        (void)money_print_pusd(totals->tokens[i], tokens[i]);
    (void)printf("%s: %" PRId64 " call%s, tokens input %s cached_input %s cache_write %s output %s"
                 " reasoning %s, USD %s\n",
                 when, totals->calls, span_plural((uint64_t)totals->calls), tokens[0], tokens[1],
                 tokens[2], tokens[3], tokens[4], usd);
}

static bool are_equal(const struct totals *a, const struct totals *b)
{
    return a->calls == b->calls && a->cost_pusd == b->cost_pusd &&
           memcmp(a->tokens, b->tokens, sizeof(a->tokens)) == 0;
}

/* A ledger that is another's or cannot be read says nothing of what the new one should have. */
static void print_comparison(const struct books *books, bool knew_before,
                             const struct totals *before, const struct totals *after)
{
    const char *aside = books_aside(books);

    if (knew_before)
        print_totals("before", before);
    print_totals("after", after);
    if (aside[0] != '\0')
        (void)printf("made anew: the old ledger could not be used and is kept as %s; what only it "
                     "had, as meter.keep had deleted the files, is not in the new one\n",
                     aside);
    else if (knew_before)
        (void)printf("%s\n", are_equal(before, after) ? "equal" : "not equal");
}

/* Returns the exit status. */
static int run(struct books *books, bool rebuild)
{
    char problem[PROBLEM_BYTES] = "";
    struct totals before = {.calls = 0}, after;
    uint64_t began_ns;
    uint64_t took_ms;
    int64_t rows = 0;
    enum err damage;
    enum err err;
    const bool knew_before = books_aside(books)[0] == '\0' && sum_up(books, &before, problem) == OK;

    if (!rebuild && !knew_before) {
        (void)fprintf(stderr, "tollgate: %s\n", problem);
        return 1;
    }
    began_ns = clock_now_ns();
    damage = rebuild ? books_rebuild(books, &rows, problem, sizeof(problem))
                     : books_feed(books, INT64_MAX, &rows, problem, sizeof(problem));
    took_ms = (clock_now_ns() - began_ns) / NS_PER_MS;
    if (damage != OK)
        (void)fprintf(stderr, "tollgate: %s\n", problem);
    if (damage != OK && damage != ERR_BAD_VALUE)
        return 1;
    err = sum_up(books, &after, problem);
    if (err != OK) {
        (void)fprintf(stderr, "tollgate: %s\n", problem);
        return 1;
    }
    (void)printf("%" PRId64 " row%s in %" PRIu64 ".%03" PRIu64 " s\n", rows,
                 span_plural((uint64_t)rows), took_ms / MS_PER_S, took_ms % MS_PER_S);
    if (rebuild) {
        print_comparison(books, knew_before, &before, &after);
    } else {
        print_totals("before", &before);
        print_totals("after", &after);
    }
    if (books_behind(books) > 0)
        (void)printf("%" PRId64 " line%s of the journal %s not in\n", books_behind(books),
                     span_plural((uint64_t)books_behind(books)),
                     books_behind(books) == 1 ? "is" : "are");
    if (rebuild && knew_before && books_aside(books)[0] == '\0' && !are_equal(&before, &after))
        return 1;
    return damage == OK ? 0 : 1;
}

int cmd_ledger(int argc, char **argv)
{
    struct cmd_books common = {.config_path = NULL};
    const char *verb = NULL;
    const struct argument_option options[] = {CMD_BOOKS_OPTIONS(&common)};
    const struct argument_word words[] = {{"rebuild or feed", &verb, false}};
    const struct argument_form form = {
        "ledger",
        "usage: tollgate ledger rebuild | feed [--config FILE | --journal DIR [--ledger FILE]]\n",
        options,
        ARGUMENT_COUNT(options),
        words,
        ARGUMENT_COUNT(words)};
    bool rebuild;
    int status;

    if (!arguments_read(&form, argc, argv, &status))
        return status;
    rebuild = strcmp(verb, "rebuild") == 0;
    if (!rebuild && strcmp(verb, "feed") != 0)
        return arguments_refuse("ledger", "expected rebuild or feed, got %s", verb);
    /* What is not in yet belongs to the totals before a rebuild; a feed counts it itself. */
    status = cmd_books_open_for(&common, rebuild ? BOOKS_ANEW : BOOKS_USE);
    if (status == 0 && rebuild && books_aside(common.books)[0] == '\0')
        (void)cmd_books_feed(&common); /* what it cannot take in is said; it is made anew */
    if (status == 0)
        status = run(common.books, rebuild);
    cmd_books_close(&common);
    return status;
}
