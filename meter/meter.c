/* SPDX-License-Identifier: Apache-2.0 */
/* meter/meter.c: the door of this room: puts table, journal, price and estimator together.
 *
 * For:       meter.h.
 * Called by: the gateway.
 * Knows not: sockets, HTTP bodies, how a replica is chosen. */
#include "meter/meter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meter/inflight.h"
#include "meter/journal.h"
#include "meter/price.h"
#include "meter/store.h"
#include "meter/tokens.h"

struct meter {
    struct inflight table;
    struct journal *journal;
    bool has_store; /* a directory is kept; store and journal_fd are used */
    struct store store;
    int journal_fd;
};

/* An event counts as so many bytes: the ratio knows 1/4 to 64 of them for one token, so 1 to 256
 * tokens an event. At first each is believed to be one token. */
#define PIECE_UNITS 64
#define TOKENS_PIECE_START (PIECE_UNITS * 1024)

/* What the estimator learned of one model. */
struct estimate_state {
    struct tokens_ratio prompt, answer;
    struct tokens_ratio pieces; /* PIECE_UNITS for each event of a stream that bore text */
    struct estimate_state *next;
    char *name;
};

/* By model name, outliving snapshots; meter_adopt() and meter_close() alone walk it. */
static struct estimate_state *estimates;

static enum err open_files(struct meter *meter, const struct config *config, uint32_t slots,
                           char *problem, size_t problem_size)
{
    enum err err =
        store_open(&meter->store, config->journal, config->gateway, problem, problem_size);
    int table_fd;

    if (err != OK)
        return err;
    meter->has_store = true;
    table_fd = store_create_table(&meter->store, problem, problem_size);
    if (table_fd < 0)
        return ERR_INTERNAL;
    err = inflight_init(&meter->table, table_fd, slots, config->gateway, meter->store.epoch);
    if (err != OK)
        snprintf(problem, problem_size, "in-flight table of %u slots: %s", slots, strerror(errno));
    close(table_fd);
    if (err != OK)
        return err;
    meter->journal_fd = store_create_journal(&meter->store, 1, problem, problem_size);
    return meter->journal_fd < 0 ? ERR_INTERNAL : OK;
}

/* Takes apart what was built so far; the table's file goes when nothing is under way in it. */
static void close_files(struct meter *meter, bool table_is_empty)
{
    inflight_fini(&meter->table);
    if (!meter->has_store)
        return;
    if (meter->journal_fd >= 0)
        close(meter->journal_fd);
    if (table_is_empty)
        store_remove_table(&meter->store);
    store_close(&meter->store);
}

enum err meter_open(const struct config *config, struct meter **out_meter, char *problem,
                    size_t problem_size)
{
    uint32_t slots = (uint32_t)config->limits_in_flight;
    struct meter *meter = NULL;
    void *memory = NULL;
    enum err err;

    snprintf(problem, problem_size, "no memory");
    if (posix_memalign(&memory, 64, sizeof(*meter)) != 0)
        return ERR_NO_MEMORY;
    meter = memory;
    memset(meter, 0, sizeof(*meter));
    meter->journal_fd = -1;
    if (config->journal.size > 0)
        err = open_files(meter, config, slots, problem, problem_size);
    else
        err = inflight_init(&meter->table, -1, slots, config->gateway, 0);
    if (err == OK) {
        err = journal_start(&meter->table, meter->journal_fd, config->gateway, meter->store.epoch,
                            &meter->journal);
        if (err != OK)
            snprintf(problem, problem_size, "the journal's writer cannot be started");
    }
    if (err != OK) {
        close_files(meter, true);
        free(meter);
        return err;
    }
    *out_meter = meter;
    return OK;
}

static void forget_estimates(void)
{
    while (estimates) {
        struct estimate_state *estimate = estimates;
        estimates = estimate->next;
        free(estimate->name);
        free(estimate);
    }
}

void meter_close(struct meter *meter)
{
    bool empty;

    if (!meter)
        return;
    empty = journal_posted(meter->journal) ==
            atomic_load_explicit(&meter->table.opened, memory_order_acquire);
    if (!journal_stop(meter->journal))
        empty = false;
    close_files(meter, empty);
    free(meter);
    forget_estimates();
}

static struct estimate_state *find_or_make_estimate(struct span name)
{
    struct estimate_state *estimate;

    for (estimate = estimates; estimate; estimate = estimate->next) {
        if (span_equal(span_of(estimate->name), name))
            return estimate;
    }
    estimate = calloc(1, sizeof(*estimate));
    if (!estimate)
        return NULL;
    estimate->name = strndup(name.data, name.size);
    if (!estimate->name) {
        free(estimate);
        return NULL;
    }
    estimate->next = estimates;
    estimates = estimate;
    return estimate;
}

enum err meter_adopt(struct config *config)
{
    for (uint32_t i = 0; i < config->model_count; i++) {
        struct config_model *model = &config->models[i];
        model->estimate = find_or_make_estimate(model->name);
        if (!model->estimate)
            return ERR_NO_MEMORY;
    }
    return OK;
}

bool meter_ready(const struct meter *meter)
{
    return !journal_failing(meter->journal);
}

struct slot *meter_admit(struct meter *meter, const struct meter_opening *opening)
{
    return inflight_open(&meter->table, opening);
}

void meter_route(struct slot *slot, const struct meter_route *route)
{
    inflight_route(slot, route);
}

void meter_publish(struct slot *slot, const struct usage *usage, enum usage_source source,
                   int64_t bytes_out)
{
    inflight_publish(slot, usage, source, bytes_out);
}

void meter_waste(struct slot *slot, struct span replica, const char *cause,
                 const struct usage *usage)
{
    inflight_waste(slot, replica, span_of(cause), usage);
}

void meter_settle(struct meter *meter, struct slot *slot, const struct meter_ending *ending)
{
    inflight_end(slot, ending);
    journal_post(meter->journal, inflight_index(&meter->table, slot));
}

enum err meter_cost(const struct usage *usage, const struct price *price, int64_t *out_pusd)
{
    return price_of(usage, price, out_pusd);
}

/* Tokens in so many events of a stream: as many as events, unless half as many again were seen. */
static int64_t tokens_of_pieces(const struct estimate_state *state, int64_t pieces)
{
    const int64_t tokens =
        tokens_estimate(state ? &state->pieces : NULL, TOKENS_PIECE_START, pieces * PIECE_UNITS);

    return tokens >= pieces + pieces / 2 + 1 ? tokens : pieces;
}

void meter_estimate(const struct estimate_state *state, const struct meter_sizes *sizes,
                    struct usage *out_usage)
{
    *out_usage = (struct usage){
        .input = tokens_estimate(state ? &state->prompt : NULL, TOKENS_PROMPT_START,
                                 sizes->prompt_bytes),
        .output = sizes->answer_pieces > 0
                      ? tokens_of_pieces(state, sizes->answer_pieces)
                      : tokens_estimate(state ? &state->answer : NULL, TOKENS_ANSWER_START,
                                        sizes->answer_bytes),
    };
}

static int64_t known(int64_t tokens)
{
    return tokens > 0 ? tokens : 0;
}

void meter_learn(struct estimate_state *state, const struct meter_sizes *sizes,
                 const struct usage *usage)
{
    if (!state)
        return;
    tokens_learn(&state->prompt, TOKENS_PROMPT_START, sizes->prompt_bytes,
                 known(usage->input) + known(usage->cached_input) + known(usage->cache_write));
    tokens_learn(&state->pieces, TOKENS_PIECE_START, sizes->answer_pieces * PIECE_UNITS,
                 known(usage->output) + known(usage->reasoning));
    if (known(usage->reasoning) == 0) /* thoughts are tokens, but may not be in the text */
        tokens_learn(&state->answer, TOKENS_ANSWER_START, sizes->answer_bytes,
                     known(usage->output));
}

size_t meter_format_usd(int64_t pusd, char *out)
{
    return price_format_usd(pusd, out);
}

void meter_view(const struct meter *meter, struct meter_view *out_view)
{
    uint64_t rows = journal_rows(meter->journal); /* before the others: each lags the next */
    uint64_t posted = journal_posted(meter->journal);
    uint64_t opened = atomic_load_explicit(&meter->table.opened, memory_order_acquire);

    *out_view = (struct meter_view){
        .slots = meter->table.count,
        .open = (uint32_t)(opened - posted),
        .ended_waiting = (uint32_t)(posted - rows),
        .rows = rows,
        .failing = journal_failing(meter->journal),
    };
}
