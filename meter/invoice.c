/* SPDX-License-Identifier: Apache-2.0 */
/* meter/invoice.c: the invoice of a tenant's period, from the ledger.
 *
 * For:       books_invoice(), and what kind of an adjust a row is.
 * Called by: the gateway's commands through books.h.
 * Knows not: how it is printed; how lines are rounded (invoice_lines.c).
 *
 * Most of it comes from sums by model, tier and prices. The rows themselves are asked for where
 * sums do not say enough: prices with steps, charges that are not what their tokens come to, and
 * corrections. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "meter/books_room.h"
#include "meter/invoice_lines.h"
#include "meter/record.h"
#include "meter/underway.h"

#define PRICES_BYTES_MAX 4096
#define NAME_BYTES_MAX 512
#define READINGS_MAX 5 /* the ledger may be fed between two questions */

/* A group whose lines come from its rows. */
struct by_row {
    struct span model, tier, prices;
};

struct reading {
    struct books *books;
    const struct config *config;
    const struct zone *zone;
    struct invoice_sheet *sheet;
    struct by_row *by_rows;
    size_t by_row_count, by_row_room;
    int64_t *hours; /* in which corrections were admitted */
    size_t hour_count, hour_room;
    money_sum ledger_pusd; /* what the ledger says in all */
    enum err err;          /* met in a callback */
    char *problem;
    size_t problem_size;
};

/* ---- sums ---- */

/* The tariff that a row's prices say, as they are spelt. */
static bool read_tariff(struct span prices, struct tariff *out_tariff)
{
    char line[PRICES_BYTES_MAX + 128], problem[256];
    struct record record;
    const int size = snprintf(line, sizeof(line),
                              "{\"v\":2,\"gateway\":\"-\",\"epoch\":1,\"seq\":1,\"kind\":\"call\","
                              "\"prices\":%.*s}",
                              (int)prices.size, prices.data);

    if (size < 0 || (size_t)size >= sizeof(line) ||
        record_read((struct span){line, (size_t)size}, &record, problem, sizeof(problem)) != OK)
        return false;
    *out_tariff = record.tariff;
    return record.has_tariff;
}

static enum err ask_rows_of(struct reading *reading, const struct books_line *line)
{
    struct arena *texts = &reading->sheet->texts;
    struct by_row group = {{"", 0}, {"", 0}, {"", 0}};
    struct span *const places[] = {&group.model, &group.tier, &group.prices};

    if (reading->by_row_count == reading->by_row_room) {
        const size_t room = reading->by_row_room == 0 ? 16 : 2 * reading->by_row_room;
        struct by_row *larger = reallocarray(reading->by_rows, room, sizeof(*larger));
        if (larger == NULL)
            return ERR_NO_MEMORY;
        reading->by_rows = larger;
        reading->by_row_room = room;
    }
    for (size_t i = 0; i < 3; i++) {
        if (line->by[i].size == 0)
            continue;
        *places[i] = arena_copy(texts, line->by[i]);
        if (places[i]->data == NULL)
            return ERR_NO_MEMORY;
    }
    reading->by_rows[reading->by_row_count++] = group;
    return OK;
}

/* Sums that one row could have. */
static bool fits_row(const struct books_tokens *sums, struct usage *out_usage)
{
    return !__builtin_add_overflow(sums->input, 0, &out_usage->input) &&
           !__builtin_add_overflow(sums->cached_input, 0, &out_usage->cached_input) &&
           !__builtin_add_overflow(sums->cache_write, 0, &out_usage->cache_write) &&
           !__builtin_add_overflow(sums->output, 0, &out_usage->output) &&
           !__builtin_add_overflow(sums->reasoning, 0, &out_usage->reasoning);
}

/* A group of the ledger: model, tier and prices, in one month. */
static enum err take_group(struct reading *reading, const struct books_line *line)
{
    const struct invoice_group group = {
        .model = line->by[0], .tier = line->by[1], .month_us = line->bucket_us};
    struct tariff tariff;
    struct usage usage;
    money_sum charged, worked_out = 0;
    enum err err = money_add(reading->ledger_pusd, line->cost_pusd, &reading->ledger_pusd);

    if (err == OK)
        err = money_add(line->cost_pusd, -line->adjusted_pusd, &charged);
    if (err != OK)
        return err;
    if (line->by[2].size == 0 && charged == 0)
        return OK; /* never sent, or a correction */
    if (read_tariff(line->by[2], &tariff) && tariff.step_count == 0 &&
        fits_row(&line->usage, &usage) && invoice_cost(&usage, &tariff, &worked_out) == OK &&
        worked_out == charged)
        return invoice_sheet_add_usage(reading->sheet, &group, &tariff, &usage);
    return ask_rows_of(reading, line);
}

static bool visit_group(void *owner, const struct books_line *line)
{
    struct reading *reading = owner;

    reading->err = take_group(reading, line);
    return reading->err == OK;
}

static bool visit_hour(void *owner, const struct books_line *line)
{
    struct reading *reading = owner;

    if (reading->hour_count == reading->hour_room) {
        const size_t room = reading->hour_room == 0 ? 64 : 2 * reading->hour_room;
        int64_t *larger = reallocarray(reading->hours, room, sizeof(*larger));
        if (larger == NULL) {
            reading->err = ERR_NO_MEMORY;
            return false;
        }
        reading->hours = larger;
        reading->hour_room = room;
    }
    reading->hours[reading->hour_count++] = line->bucket_us;
    return true;
}

static enum err ask_sums(struct reading *reading, enum period_unit bucket, struct books_ask *ask,
                         bool (*visit)(void *owner, const struct books_line *line))
{
    enum err err;

    ask->period = reading->sheet->invoice.period;
    ask->zone = reading->zone;
    ask->bucketed = true;
    ask->bucket = bucket;
    ask->filters[ask->filter_count++] =
        (struct books_filter){BY_TENANT, reading->sheet->invoice.tenant};
    err = books_usage(reading->books, ask, visit, reading, reading->problem, reading->problem_size);
    return err == OK ? reading->err : err;
}

/* ---- rows ---- */

static bool is_asked_by_row(const struct reading *reading, struct span model, struct span tier,
                            struct span prices)
{
    for (size_t i = 0; i < reading->by_row_count; i++) {
        const struct by_row *group = &reading->by_rows[i];
        if (span_equal(group->model, model) && span_equal(group->tier, tier) &&
            span_equal(group->prices, prices))
            return true;
    }
    return false;
}

static struct span plain(struct span spelt, char room[NAME_BYTES_MAX])
{
    return (struct span){room, record_text(spelt, room, NAME_BYTES_MAX)};
}

static enum err take_other(struct reading *reading, const struct record *record, struct span model,
                           struct span why)
{
    char gateway[NAME_BYTES_MAX], id[NAME_BYTES_MAX + 64];
    const struct span name = plain(record->gateway, gateway);
    const int size = snprintf(id, sizeof(id), "%.*s/%" PRIu64 "/%" PRIu64, (int)name.size,
                              name.data, record->epoch, record->seq);

    return invoice_sheet_add_other(reading->sheet, model, why, (struct span){id, (size_t)size},
                                   record->cost_pusd);
}

static enum err take_call(struct reading *reading, const struct record *record)
{
    char model_room[NAME_BYTES_MAX], tier_room[NAME_BYTES_MAX];
    const struct invoice_group group = {
        .model = plain(record->model, model_room),
        .tier = plain(record->tier, tier_room),
        .month_us = period_around(reading->zone, PERIOD_MONTH, record->admitted_us).from_us};
    money_sum worked_out = 0;

    if (!is_asked_by_row(reading, group.model, group.tier, record->prices))
        return OK;
    if (record->has_tariff && invoice_cost(&record->usage, &record->tariff, &worked_out) == OK &&
        worked_out == record->cost_pusd)
        return invoice_sheet_add_usage(reading->sheet, &group, &record->tariff, &record->usage);
    if (record->cost_pusd == 0)
        return OK; /* its tokens are more than a row can charge: it says usage_suspect */
    return take_other(reading, record, group.model,
                      SPAN("charged otherwise than its tokens come to"));
}

static bool visit_call(void *owner, const struct record *record, struct span line)
{
    struct reading *reading = owner;

    (void)line;
    if (record->kind == RECORD_CALL && record->billable)
        reading->err = take_call(reading, record);
    return reading->err == OK;
}

bool invoice_row_corrects(const struct record *adjust, const struct zone *zone)
{
    const struct period month = period_around(zone, PERIOD_MONTH, adjust->admitted_us);

    return adjust->corrects_us != 0 || adjust->at_us >= invoice_closes_us(&month);
}

bool invoice_row_credits(const struct record *adjust)
{
    return adjust->adjusts.size == 0 && adjust->cost_pusd < 0;
}

static void mark_adjust(struct reading *reading, const struct record *record)
{
    const struct invoice_lines *others = &reading->sheet->others;
    struct invoice_line *line = &others->lines[others->count - 1];

    line->correction = invoice_row_corrects(record, reading->zone);
    line->credit = invoice_row_credits(record);
}

static bool visit_adjust(void *owner, const struct record *record, struct span line)
{
    struct reading *reading = owner;
    char model[NAME_BYTES_MAX], why[NAME_BYTES_MAX];

    (void)line;
    if (record->kind == RECORD_ADJUST)
        reading->err =
            take_other(reading, record, plain(record->model, model), plain(record->why, why));
    if (record->kind == RECORD_ADJUST && reading->err == OK)
        mark_adjust(reading, record);
    return reading->err == OK;
}

static enum err ask_rows(struct reading *reading, const struct period *period,
                         bool (*visit)(void *owner, const struct record *record, struct span line))
{
    const enum err err =
        books_rows(reading->books, reading->sheet->invoice.tenant, period, (struct span){NULL, 0},
                   visit, reading, reading->problem, reading->problem_size);

    return err == OK ? reading->err : err;
}

/* Corrections lie among rows; hours without any are not read. */
static enum err ask_adjusts(struct reading *reading)
{
    const struct period whole = reading->sheet->invoice.period;
    struct books_ask ask = {.filters = {{BY_OUTCOME, {"", 0}}}, .filter_count = 1};
    enum err err = ask_sums(reading, PERIOD_HOUR, &ask, visit_hour);

    for (size_t i = 0; err == OK && i < reading->hour_count; i++) {
        struct period hour = period_around(reading->zone, PERIOD_HOUR, reading->hours[i]);
        if (hour.from_us < whole.from_us)
            hour.from_us = whole.from_us;
        if (hour.until_us > whole.until_us)
            hour.until_us = whole.until_us;
        err = ask_rows(reading, &hour, visit_adjust);
    }
    return err;
}

/* ---- is it over ---- */

/* Looks for work of the tenant that was admitted in the period. */
struct open_work {
    const struct invoice *invoice;
    bool found; /* or not to be told, where a table cannot be read */
};

static bool visit_slot(void *owner, const struct underway *found)
{
    struct open_work *work = owner;
    const struct invoice *invoice = work->invoice;
    const struct slot *slot = found->slot;

    work->found =
        slot == NULL || (slot->admitted_us >= invoice->period.from_us &&
                         slot->admitted_us < invoice->period.until_us &&
                         span_equal(inflight_opening_text(slot, OPENING_TENANT), invoice->tenant));
    return !work->found;
}

/* May rows of the period still come from tables of processes, living or dead? */
static bool has_open(const struct books *books, const struct invoice *invoice)
{
    struct open_work work = {.invoice = invoice};

    underway_each(books->directory_fd, visit_slot, &work);
    return work.found;
}

static enum invoice_state state_of(const struct books *books, const struct invoice *invoice,
                                   int64_t now_us)
{
    if (now_us < invoice->period.from_us)
        return INVOICE_AHEAD;
    if (now_us < invoice->period.until_us)
        return INVOICE_RUNNING;
    if (now_us < invoice->closes_us)
        return INVOICE_GRACE;
    return books_behind(books) == 0 && !has_open(books, invoice) ? INVOICE_CLOSED : INVOICE_WAITING;
}

/* ---- the whole ---- */

static enum err read_all(struct reading *reading)
{
    struct books_ask ask = {.by = {BY_MODEL, BY_TIER, BY_PRICES}, .by_count = 3};
    enum err err = ask_sums(reading, PERIOD_MONTH, &ask, visit_group);

    if (err == OK && reading->by_row_count > 0)
        err = ask_rows(reading, &reading->sheet->invoice.period, visit_call);
    if (err == OK)
        err = ask_adjusts(reading);
    return err;
}

/* Do the lines sum to what the ledger said? */
static bool is_consistent(const struct reading *reading)
{
    const struct invoice_lines *const parts[] = {&reading->sheet->tokens, &reading->sheet->others};
    money_sum sum = 0;

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < parts[k]->count; i++)
            if (money_add(sum, parts[k]->lines[i].exact_pusd, &sum) != OK)
                return false;
    return sum == reading->ledger_pusd;
}

/* Makes the invoice once. *out_consistent: all that was asked agrees. */
static enum err make(struct reading *reading, int64_t now_us, bool *out_consistent)
{
    struct invoice_sheet *sheet = reading->sheet;
    enum err err;

    sheet->invoice.closes_us = invoice_closes_us(&sheet->invoice.period);
    sheet->invoice.state = state_of(reading->books, &sheet->invoice, now_us);
    err = read_all(reading);

    if (err == OK) {
        *out_consistent = is_consistent(reading);
        err = invoice_sheet_discount(sheet, reading->config, reading->zone);
    }
    if (err == OK)
        err = invoice_sheet_finish(sheet);
    free(reading->by_rows);
    free(reading->hours);
    return err;
}

enum err books_invoice(struct books *books, const struct config *config, struct span tenant,
                       const struct period *period, int64_t now_us, struct invoice **out_invoice,
                       char *problem, size_t problem_size)
{
    enum err err = OK;

    (void)snprintf(problem, problem_size, "a sum does not fit");
    for (int i = 0; i < READINGS_MAX && err == OK; i++) {
        struct reading reading = {.books = books,
                                  .config = config,
                                  .zone = config_zone_of(config, tenant),
                                  .sheet = invoice_sheet_new(tenant, period),
                                  .problem = problem,
                                  .problem_size = problem_size};
        bool consistent = false;

        if (reading.sheet == NULL)
            err = ERR_NO_MEMORY;
        else
            err = make(&reading, now_us, &consistent);
        /* What is still open changes while it is read: a draft shows what its rows said. */
        if (err == OK && (consistent ||
                          (i == READINGS_MAX - 1 && !invoice_is_closed(&reading.sheet->invoice)))) {
            *out_invoice = &reading.sheet->invoice;
            return OK;
        }
        invoice_sheet_free(reading.sheet);
    }
    if (err == ERR_NO_MEMORY)
        (void)snprintf(problem, problem_size, "no memory");
    if (err != OK)
        return err;
    (void)snprintf(problem, problem_size,
                   "the ledger's sums and its rows differ: tollgate ledger rebuild");
    return ERR_INTERNAL;
}

void books_invoice_free(struct invoice *invoice)
{
    if (invoice)
        invoice_sheet_free(container_of(invoice, struct invoice_sheet, invoice));
}
