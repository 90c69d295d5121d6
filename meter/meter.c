/* SPDX-License-Identifier: Apache-2.0 */
/* meter/meter.c: the door of this room: puts table, journal, keeper and price together.
 *
 * For:       meter.h.
 * Called by: the gateway.
 * Knows not: sockets, HTTP bodies, how a replica is chosen. */
#include "meter/meter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/metrics.h"
#include "meter/accounts.h"
#include "meter/estimate.h"
#include "meter/inflight.h"
#include "meter/journal.h"
#include "meter/keeper.h"
#include "meter/settle.h"
#include "meter/store.h"

struct meter {
    struct inflight table;
    struct journal *journal;
    struct keeper *keeper; /* NULL: no ledger is kept and no anchor told */
    bool has_store;        /* a directory is kept; store is used */
    struct store store;
    struct sign_key *key;        /* the writer's */
    struct sign_key *anchor_key; /* the keeper's: a key signs on one thread */
    struct history history;      /* the writer's once it runs */
    struct journal_options options;
    _Atomic(struct meter_wait *) *waits; /* by slot; NULL: durability is process */
    uint32_t limit; /* of requests under way; the table has more slots, for ended ones */
};

/* Slots for rows that are not written yet: twice what wakes the writer, in a large table. Those of
 * a request that has ended do not keep others out. */
#define SPARE_LEAST 64u
#define SPARE_MOST 512u

/* ---- opening ---- */

/* The key that heads and anchors are signed with; made when there is none. */
static enum err open_keys(struct meter *meter, const struct config *config, char *problem,
                          size_t problem_size)
{
    char path[SIGN_PATH_BYTES];
    enum err err;

    store_key_path(config, path);
    err = sign_key_open(path, true, &meter->key, problem, problem_size);
    return err != OK ? err : sign_key_open(path, false, &meter->anchor_key, problem, problem_size);
}

static uint32_t slots_for(uint32_t limit)
{
    if (limit < SPARE_LEAST)
        return limit + SPARE_LEAST;
    return limit + (limit < SPARE_MOST ? limit : SPARE_MOST);
}

static enum err open_table(struct meter *meter, const struct config *config, char *problem,
                           size_t problem_size)
{
    const uint32_t slots = slots_for(meter->limit);
    enum err err = store_create_table(&meter->store, problem, problem_size);

    if (err != OK)
        return err;
    err = inflight_init(&meter->table, meter->store.table_fd, slots, config->gateway,
                        meter->store.epoch);
    if (err != OK) {
        (void)snprintf(problem, problem_size, "in-flight table of %u slots: %s", slots,
                       strerror(errno));
        return err;
    }
    return store_name_table(&meter->store, problem, problem_size);
}

static enum err open_files(struct meter *meter, const struct config *config, char *problem,
                           size_t problem_size)
{
    enum err err =
        store_open(&meter->store, config->journal, config->gateway, problem, problem_size);

    if (err != OK)
        return err;
    meter->has_store = true;
    err = open_keys(meter, config, problem, problem_size);
    if (err == OK)
        err = history_read(meter->store.directory_fd, config->gateway, &meter->history, problem,
                           problem_size);
    return err == OK ? open_table(meter, config, problem, problem_size) : err;
}

static enum err start_writer(struct meter *meter, const struct config *config, char *problem,
                             size_t problem_size)
{
    const struct journal_place place = {
        .store = meter->has_store ? &meter->store : NULL,
        .table = &meter->table,
        .key = meter->key,
        .history = &meter->history,
        .options = &meter->options,
        .waits = meter->waits,
    };
    enum err err;

    meter->options.durable = config->durable && meter->has_store;
    atomic_init(&meter->options.segment_bytes, config->meter_segment_bytes);
    atomic_init(&meter->options.segment_age_ms, config->meter_segment_age_ms);
    err = journal_start(&place, &meter->journal, problem, problem_size);
    if (meter->has_store)
        store_started(&meter->store);
    return err;
}

static enum err start_keeper(struct meter *meter, const struct config *config, char *problem,
                             size_t problem_size)
{
    const struct keeper_place place = {
        .config = config,
        .store = &meter->store,
        .journal = meter->journal,
        .key = meter->anchor_key,
    };

    return meter->has_store ? keeper_start(&place, &meter->keeper, problem, problem_size) : OK;
}

/* Takes apart what was built so far; the table's file goes when nothing is under way in it. */
static void dispose(struct meter *meter, bool table_is_empty)
{
    inflight_fini(&meter->table);
    if (meter->has_store) {
        if (table_is_empty)
            store_remove_table(&meter->store);
        store_close(&meter->store);
    }
    history_fini(&meter->history);
    sign_key_close(meter->key);
    sign_key_close(meter->anchor_key);
    free(meter->waits);
    free(meter);
}

enum err meter_open(const struct config *config, struct meter **out_meter, char *problem,
                    size_t problem_size)
{
    struct meter *meter = NULL;
    void *memory = NULL;
    enum err err = OK;

    (void)snprintf(problem, problem_size, "no memory");
    if (posix_memalign(&memory, 64, sizeof(*meter)) != 0)
        return ERR_NO_MEMORY;
    meter = memory;
    memset(meter, 0, sizeof(*meter));
    meter->limit = (uint32_t)config->limits_in_flight;
    if (config->durable) {
        meter->waits = calloc(slots_for(meter->limit), sizeof(*meter->waits));
        err = meter->waits ? OK : ERR_NO_MEMORY;
    }
    if (err == OK)
        err = config->journal.size > 0
                  ? open_files(meter, config, problem, problem_size)
                  : inflight_init(&meter->table, -1, slots_for(meter->limit), config->gateway, 0);
    if (err == OK)
        err = start_writer(meter, config, problem, problem_size);
    if (err == OK)
        err = start_keeper(meter, config, problem, problem_size);
    if (err != OK) {
        (void)journal_stop(meter->journal);
        dispose(meter, true);
        return err;
    }
    *out_meter = meter;
    return OK;
}

void meter_quiesce(struct meter *meter)
{
    if (!meter)
        return;
    keeper_refuse(meter->keeper);
}

bool meter_close(struct meter *meter)
{
    bool empty, failed;

    if (!meter)
        return true;
    meter_quiesce(meter);
    empty = journal_posted(meter->journal) ==
            atomic_load_explicit(&meter->table.opened, memory_order_acquire);
    if (!journal_end(meter->journal))
        empty = false;
    failed = journal_failed(meter->journal);
    keeper_stop(meter->keeper); /* after the last head, which it tells */
    (void)journal_stop(meter->journal);
    dispose(meter, empty && !failed);
    estimate_forget();
    accounts_forget();
    return !failed;
}

enum err meter_adopt(struct meter *meter, struct config *config)
{
    enum err err = estimate_adopt(config);

    if (err == OK)
        err = accounts_adopt(config);
    for (uint32_t i = 0; err == OK && i < config->model_count; i++) {
        struct config_model *model = &config->models[i];
        for (uint32_t k = 0; err == OK && k < model->price_count; k++)
            err = inflight_book(&meter->table, &model->prices[k], &model->prices[k].book);
    }
    /* The writer sees to those of a reload: its loop is a worker's. */
    if (err == OK && meter->has_store &&
        atomic_load_explicit(&meter->table.opened, memory_order_relaxed) == 0)
        store_sync_table(&meter->store);
    return err;
}

void meter_heed(struct meter *meter, const struct config *config)
{
    atomic_store_explicit(&meter->options.segment_bytes, config->meter_segment_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&meter->options.segment_age_ms, config->meter_segment_age_ms,
                          memory_order_relaxed);
    if (meter->keeper)
        keeper_heed(meter->keeper, config);
}

/* ---- one exchange ---- */

bool meter_ready(const struct meter *meter)
{
    return !journal_failing(meter->journal) && !journal_full(meter->journal);
}

bool meter_failed(const struct meter *meter)
{
    return journal_failed(meter->journal);
}

struct slot *meter_admit(struct meter *meter, const struct meter_opening *opening)
{
    const uint64_t posted = journal_posted(meter->journal); /* before the other: it lags */

    if (atomic_load_explicit(&meter->table.opened, memory_order_relaxed) - posted >= meter->limit)
        return NULL;
    return inflight_open(&meter->table, opening);
}

void meter_route(struct slot *slot, const struct meter_route *route)
{
    inflight_route(slot, route);
}

void meter_publish(struct slot *slot, const struct meter_running *running)
{
    inflight_publish(slot, running);
}

void meter_waste(struct slot *slot, struct span replica, const char *cause,
                 const struct usage *usage)
{
    inflight_waste(slot, replica, span_of(cause), usage);
}

int64_t meter_settle(struct meter *meter, struct slot *slot, struct meter_ending *ending,
                     struct meter_wait *wait)
{
    const uint32_t index = inflight_index(&meter->table, slot);
    const struct price *price = inflight_price(&meter->table, slot);
    int64_t cost_pusd = 0;

    if (ending->billable && settle_usage(&slot->guess, ending->text_bytes, ending->pieces,
                                         &ending->usage, &ending->source))
        metric_add(METRIC_usage_estimated_total, 1);
    if (ending->billable && price)
        cost_pusd =
            settle_cost(price, (enum service_tier)slot->tier, &ending->usage, &ending->flags);
    inflight_end(slot, ending, cost_pusd);
    if (meter->waits)
        atomic_store_explicit(&meter->waits[index], wait, memory_order_relaxed);
    journal_post(meter->journal, index);
    return cost_pusd;
}

bool meter_unwait(struct meter *meter, const struct slot *slot, struct meter_wait *wait)
{
    _Atomic(struct meter_wait *) *place = &meter->waits[inflight_index(&meter->table, slot)];

    return atomic_compare_exchange_strong_explicit(place, &wait, NULL, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

bool meter_is_durable(const struct meter *meter)
{
    return meter->waits != NULL;
}

/* ---- questions ---- */

enum err meter_query(struct meter *meter, struct meter_query *query)
{
    return meter->keeper ? keeper_query(meter->keeper, query) : ERR_NO_LEDGER;
}

void meter_view(const struct meter *meter, struct meter_view *out_view)
{
    uint64_t rows = journal_rows(meter->journal); /* before the others: each lags the next */
    uint64_t posted = journal_posted(meter->journal);
    uint64_t opened = atomic_load_explicit(&meter->table.opened, memory_order_acquire);

    *out_view = (struct meter_view){
        .slots = meter->limit,
        .open = (uint32_t)(opened - posted),
        .ended_waiting = (uint32_t)(posted - rows),
        .rows = rows,
        .failing = journal_failing(meter->journal),
        .full = journal_full(meter->journal),
        .recovered = journal_recovered(meter->journal),
        .synced = journal_synced(meter->journal),
        .anchor_age_ms = meter->keeper ? keeper_anchor_age_ms(meter->keeper) : -1,
        .ledger_behind_rows = meter->keeper ? keeper_ledger_behind(meter->keeper) : -1,
    };
}
