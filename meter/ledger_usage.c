/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_usage.c: sums by any columns.
 *
 * For:       what was used in a period; what was wasted.
 * Called by: books.c.
 * Knows not: the journal, how lines are printed.
 *
 * Roll-ups answer for whole quarters of an hour; what lies before the first and behind the last one
 * of a period, and what is asked by columns that roll-ups do not have, is summed from rows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "meter/ledger_groups.h"

#define SQL_BYTES 2048

/* A question under way. */
struct asking {
    struct ledger *ledger;
    const struct books_ask *ask;
    struct ledger_groups groups;
    struct period bucket; /* the last one that was looked for */
    bool has_bucket;
    char *problem;
    size_t problem_size;
};

/* ---- columns ---- */

struct member_search {
    struct span name, value;
    char *buffer;
};

static bool is_other_member(void *owner, struct span name, struct span value)
{
    struct member_search *search = owner;
    char buffer[LEDGER_TEXT_BYTES];

    if (!span_equal(ledger_plain(name, buffer), search->name))
        return true;
    search->value = ledger_plain(value, search->buffer);
    return false;
}

/* The value of one tag; "": there is none. */
static struct span tag_value(struct span tags, struct span name, char buffer[LEDGER_TEXT_BYTES])
{
    struct member_search search = {.name = name, .value = {"", 0}, .buffer = buffer};

    if (tags.size == 0 || !record_members(tags, is_other_member, &search))
        return (struct span){"", 0};
    return search.value;
}

static struct span shown(const struct books_ask *ask, enum books_column column, struct span text,
                         char buffer[LEDGER_TEXT_BYTES])
{
    return column == BY_TAGS && ask->tag.data ? tag_value(text, ask->tag, buffer) : text;
}

/* Where the values of columns come from: a row, or a roll-up's group. */
struct source {
    const struct record *record; /* NULL: statement */
    sqlite3_stmt *statement;     /* its columns begin with those of groups */
};

static struct span value_of(const struct asking *asking, const struct source *source,
                            enum books_column column, char buffer[2][LEDGER_TEXT_BYTES])
{
    const struct span text = source->record ? ledger_column(source->record, column, buffer[0])
                                            : ledger_text(source->statement, (int)column);

    return shown(asking->ask, column, text, buffer[1]);
}

static bool passes(const struct asking *asking, const struct source *source)
{
    char buffer[2][LEDGER_TEXT_BYTES];

    for (uint32_t i = 0; i < asking->ask->filter_count; i++) {
        const struct books_filter *filter = &asking->ask->filters[i];
        if (!span_equal(value_of(asking, source, filter->column, buffer), filter->value))
            return false;
    }
    return true;
}

/* ---- buckets ---- */

static int64_t bucket_of(struct asking *asking, int64_t at_us)
{
    const struct books_ask *ask = asking->ask;

    if (ask->bucket_us > 0)
        return at_us - (at_us - ask->period.from_us) % ask->bucket_us;
    if (!ask->bucketed)
        return INT64_MIN;
    if (!asking->has_bucket || at_us < asking->bucket.from_us || at_us >= asking->bucket.until_us) {
        asking->bucket = period_around(ask->zone, ask->bucket, at_us);
        asking->has_bucket = true;
    }
    return asking->bucket.from_us;
}

/* ---- summing ---- */

static enum err no_room(const struct asking *asking)
{
    (void)snprintf(asking->problem, asking->problem_size,
                   "more than %u lines, or no memory for them: ask for a shorter period, or by "
                   "fewer columns",
                   LEDGER_GROUPS_MAX);
    return ERR_BAD_VALUE;
}

static enum err add(struct asking *asking, const struct source *source, int64_t at_us,
                    const int64_t sums[LEDGER_SUM_COUNT])
{
    char buffers[BOOKS_BY_MAX][2][LEDGER_TEXT_BYTES];
    struct span by[BOOKS_BY_MAX];
    struct ledger_group *group;

    for (uint32_t i = 0; i < asking->ask->by_count; i++)
        by[i] = value_of(asking, source, asking->ask->by[i], buffers[i]);
    group = ledger_groups_find(&asking->groups, bucket_of(asking, at_us), by);
    if (!group)
        return no_room(asking);
    for (int i = 0; i < LEDGER_SUM_COUNT; i++)
        group->sums[i] += sums[i];
    return OK;
}

/* ---- from rows ---- */

static enum err add_row(struct asking *asking, sqlite3_stmt *statement)
{
    int64_t sums[LEDGER_SUM_COUNT];
    struct record record;
    const struct source source = {.record = &record};
    char reason[160];

    if (record_read(ledger_text(statement, 0), &record, reason, sizeof(reason)) != OK) {
        (void)snprintf(asking->problem, asking->problem_size, "ledger %s: row %" PRId64 ": %s",
                       asking->ledger->path, (int64_t)sqlite3_column_int64(statement, 1), reason);
        return ERR_BAD_VALUE;
    }
    if (!passes(asking, &source))
        return OK;
    ledger_sums_of(&record, sums);
    return add(asking, &source, record.admitted_us, sums);
}

/* The tenant that is asked for alone; {NULL, 0}: none is. */
static struct span only_tenant(const struct books_ask *ask)
{
    for (uint32_t i = 0; i < ask->filter_count; i++)
        if (ask->filters[i].column == BY_TENANT)
            return ask->filters[i].value;
    return (struct span){NULL, 0};
}

static enum err sum_rows(struct asking *asking, int64_t from_us, int64_t until_us)
{
    const struct span tenant = only_tenant(asking->ask);
    sqlite3_stmt *statement;
    enum err err;
    int code = SQLITE_DONE;

    if (from_us >= until_us)
        return OK;
    err = ledger_prepare(asking->ledger,
                         tenant.data ? "SELECT line, id FROM rows WHERE admitted_us >= ?1"
                                       " AND admitted_us < ?2 AND tenant ="
                                       " (SELECT id FROM tenants WHERE name = ?3)"
                                     : "SELECT line, id FROM rows WHERE admitted_us >= ?1"
                                       " AND admitted_us < ?2 AND tenant IN"
                                       " (SELECT id FROM tenants)",
                         &statement, asking->problem, asking->problem_size);
    if (err != OK)
        return err;
    (void)sqlite3_bind_int64(statement, 1, from_us);
    (void)sqlite3_bind_int64(statement, 2, until_us);
    if (tenant.data)
        ledger_bind_text(statement, 3, tenant);
    while (err == OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        err = add_row(asking, statement);
    if (err == OK && code != SQLITE_DONE)
        err = ledger_failed(asking->ledger, asking->problem, asking->problem_size);
    (void)sqlite3_finalize(statement);
    return err;
}

/* ---- from roll-ups ---- */

static enum err add_roll_up(struct asking *asking, sqlite3_stmt *statement)
{
    const struct source source = {.statement = statement};
    int64_t sums[LEDGER_SUM_COUNT];

    if (!passes(asking, &source))
        return OK;
    for (int i = 0; i < LEDGER_SUM_COUNT; i++)
        sums[i] = sqlite3_column_int64(statement, (int)LEDGER_GROUP_COLUMNS + 1 + i);
    return add(asking, &source, sqlite3_column_int64(statement, (int)LEDGER_GROUP_COLUMNS), sums);
}

static enum err sum_roll_ups(struct asking *asking, int64_t from_us, int64_t until_us)
{
    sqlite3_stmt *statement;
    char sql[SQL_BYTES];
    size_t used = (size_t)snprintf(sql, sizeof(sql), "SELECT ");
    int code = SQLITE_DONE;
    enum err err;

    for (unsigned i = 0; i < LEDGER_GROUP_COLUMNS && used < sizeof(sql); i++)
        used += (size_t)snprintf(sql + used, sizeof(sql) - used, "g.\"%s\", ",
                                 books_column_name((enum books_column)i));
    (void)snprintf(sql + used, sizeof(sql) - used,
                   "s.quarter_us"
#define SUM(id, name) ", s." #name
                   LEDGER_SUMS(SUM)
#undef SUM
                       " FROM sums s CROSS JOIN groups g ON g.id ="
                       " s.\"group\" WHERE s.quarter_us >= ?"
                       " AND s.quarter_us < ?");
    err = ledger_prepare(asking->ledger, sql, &statement, asking->problem, asking->problem_size);
    if (err != OK)
        return err;
    (void)sqlite3_bind_int64(statement, 1, from_us);
    (void)sqlite3_bind_int64(statement, 2, until_us);
    while (err == OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        err = add_roll_up(asking, statement);
    if (err == OK && code != SQLITE_DONE)
        err = ledger_failed(asking->ledger, asking->problem, asking->problem_size);
    (void)sqlite3_finalize(statement);
    return err;
}

static bool has_roll_ups(const struct books_ask *ask)
{
    for (uint32_t i = 0; i < ask->by_count; i++)
        if ((unsigned)ask->by[i] >= LEDGER_GROUP_COLUMNS)
            return false;
    for (uint32_t i = 0; i < ask->filter_count; i++)
        if ((unsigned)ask->filters[i].column >= LEDGER_GROUP_COLUMNS)
            return false;
    if (ask->period.from_us > INT64_MAX - LEDGER_QUARTER_US)
        return false;
    return ask->bucket_us == 0 || (ask->bucket_us % LEDGER_QUARTER_US == 0 &&
                                   ask->period.from_us % LEDGER_QUARTER_US == 0);
}

/* The whole quarters of the period come from roll-ups, its edges from rows. */
static enum err sum_period(struct asking *asking)
{
    const struct period *period = &asking->ask->period;
    const int64_t last = ledger_quarter(period->until_us);
    int64_t first = ledger_quarter(period->from_us);
    enum err err;

    if (!has_roll_ups(asking->ask))
        return sum_rows(asking, period->from_us, period->until_us);
    if (first < period->from_us)
        first += LEDGER_QUARTER_US;
    if (first >= last)
        return sum_rows(asking, period->from_us, period->until_us);
    err = sum_rows(asking, period->from_us, first);
    if (err == OK)
        err = sum_roll_ups(asking, first, last);
    return err == OK ? sum_rows(asking, last, period->until_us) : err;
}

/* ---- lines ---- */

static bool put_sum(money_sum sum, int64_t *out)
{
    *out = (int64_t)sum;
    return sum >= INT64_MIN && sum <= INT64_MAX;
}

/* Five, in the order of the classes. */
static struct books_tokens tokens_of(const money_sum *sums)
{
    return (struct books_tokens){sums[0], sums[1], sums[2], sums[3], sums[4]};
}

static bool put_line(const struct ledger_group *group, struct books_line *out_line)
{
    *out_line = (struct books_line){
        .bucket_us = group->bucket_us,
        .cost_pusd = group->sums[SUM_COST],
        .adjusted_pusd = group->sums[SUM_ADJUSTED],
        .own_cost_pusd = group->sums[SUM_OWN_COST],
        .usage = tokens_of(&group->sums[SUM_INPUT]),
        .wasted = tokens_of(&group->sums[SUM_WASTED_INPUT]),
    };
    memcpy(out_line->by, group->by, sizeof(out_line->by));
    return put_sum(group->sums[SUM_CALLS], &out_line->calls) &&
           put_sum(group->sums[SUM_BILLED_CALLS], &out_line->billed_calls) &&
           put_sum(group->sums[SUM_FAILED_CALLS], &out_line->failed_calls) &&
           put_sum(group->sums[SUM_OWN_COST_CALLS], &out_line->own_cost_calls) &&
           put_sum(group->sums[SUM_BUSY], &out_line->busy_us) &&
           put_sum(group->sums[SUM_BYTES_IN], &out_line->bytes_in) &&
           put_sum(group->sums[SUM_BYTES_OUT], &out_line->bytes_out);
}

static enum err tell(struct asking *asking,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner)
{
    ledger_groups_sort(&asking->groups);
    for (uint32_t i = 0; i < asking->groups.count; i++) {
        struct books_line line;

        if (!put_line(asking->groups.groups[i], &line)) {
            (void)snprintf(asking->problem, asking->problem_size, "a sum does not fit 64 bits");
            return ERR_BAD_VALUE;
        }
        if (!visit(owner, &line))
            break;
    }
    return OK;
}

static enum err check_ask(const struct books_ask *ask, char *problem, size_t problem_size)
{
    if (ask->by_count <= BOOKS_BY_MAX && ask->filter_count <= BOOKS_FILTERS_MAX &&
        ask->bucket_us >= 0 && (!ask->bucketed || ask->zone || ask->bucket_us > 0))
        return OK;
    (void)snprintf(problem, problem_size, "too many columns or filters, or buckets of no zone");
    return ERR_BAD_VALUE;
}

enum err ledger_usage(struct ledger *ledger, const struct books_ask *ask,
                      bool (*visit)(void *owner, const struct books_line *line), void *owner,
                      char *problem, size_t problem_size)
{
    struct asking asking = {
        .ledger = ledger, .ask = ask, .problem = problem, .problem_size = problem_size};
    bool began = false;
    enum err err = check_ask(ask, problem, problem_size);

    if (err != OK)
        return err;
    ledger_groups_init(&asking.groups, ask->by_count);
    err = ledger_begin_reading(ledger, &began, problem, problem_size);
    if (err == OK)
        err = sum_period(&asking);
    ledger_end_reading(ledger, began);
    if (err == OK)
        err = tell(&asking, visit, owner);
    ledger_groups_fini(&asking.groups);
    return err;
}

/* ---- waste ---- */

static enum err add_waste(struct asking *asking, sqlite3_stmt *statement)
{
    const struct span by[BOOKS_BY_MAX] = {ledger_text(statement, 0), ledger_text(statement, 1),
                                          ledger_text(statement, 2)};
    const struct usage usage = {
        .input = sqlite3_column_int64(statement, 3),
        .cached_input = sqlite3_column_int64(statement, 4),
        .cache_write = sqlite3_column_int64(statement, 5),
        .output = sqlite3_column_int64(statement, 6),
        .reasoning = sqlite3_column_int64(statement, 7),
    };
    const int64_t tokens[] = {usage.input, usage.cached_input, usage.cache_write, usage.output,
                              usage.reasoning};
    struct ledger_group *group = ledger_groups_find(&asking->groups, INT64_MIN, by);
    int64_t own_cost_pusd;

    if (!group)
        return no_room(asking);
    group->sums[SUM_CALLS]++;
    group->sums[SUM_FAILED_CALLS]++;
    for (int i = 0; i < 5; i++)
        group->sums[SUM_WASTED_INPUT + i] += tokens[i] < 0 ? 0 : tokens[i];
    if (ledger_own_cost(&usage, sqlite3_column_int64(statement, 8), &own_cost_pusd)) {
        group->sums[SUM_OWN_COST] += own_cost_pusd;
        group->sums[SUM_OWN_COST_CALLS]++;
    }
    return OK;
}

static enum err sum_wastes(struct asking *asking, const struct period *period)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    enum err err = ledger_prepare(asking->ledger,
                                  "SELECT model, replica, cause, input, cached_input, cache_write,"
                                  " output, reasoning, unit_cost_pusd FROM wastes"
                                  " WHERE admitted_us >= ? AND admitted_us < ?",
                                  &statement, asking->problem, asking->problem_size);

    if (err != OK)
        return err;
    (void)sqlite3_bind_int64(statement, 1, period->from_us);
    (void)sqlite3_bind_int64(statement, 2, period->until_us);
    while (err == OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        err = add_waste(asking, statement);
    if (err == OK && code != SQLITE_DONE)
        err = ledger_failed(asking->ledger, asking->problem, asking->problem_size);
    (void)sqlite3_finalize(statement);
    return err;
}

enum err ledger_waste(struct ledger *ledger, const struct period *period,
                      bool (*visit)(void *owner, const struct books_line *line), void *owner,
                      char *problem, size_t problem_size)
{
    struct asking asking = {.ledger = ledger, .problem = problem, .problem_size = problem_size};
    enum err err;

    ledger_groups_init(&asking.groups, 3);
    err = sum_wastes(&asking, period);
    if (err == OK)
        err = tell(&asking, visit, owner);
    ledger_groups_fini(&asking.groups);
    return err;
}
