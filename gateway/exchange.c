/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/exchange.c: the runner of the table in exchange.h, and the two faces that protocols see.
 *
 * For:       every move of an exchange, its begin and its end.
 * Called by: conn.c and h2.c (what came, what left), replica.c (wakes).
 * Knows not: how a protocol frames, what a step decides.
 *
 * Moves: a step says NEXT (the row below), ANSWER (down to relay), RETRY (up to choose, while no
 * byte of an answer has left) or WAIT. A client that leaves moves its exchange to settle, a request
 * that its protocol cannot read to relay. exchange_move() makes every move and asserts that it is
 * one of these. */
#include "gateway/exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/metrics.h"
#include "gateway/conn.h"
#include "gateway/replica.h"
#include "gateway/reply.h"
#include "gateway/steps.h"
#include "gateway/usage_api.h"

#define INLINE_ARENA_BYTES 1408u
#define ARENA_CEILING_BYTES (1u << 20)
#define KEPT_FIELDS_MAX 16u

struct step_row {
    const char *name;
    enum verdict (*run)(struct exchange *x);
};

static const struct step_row steps[] = {
#define STEP(name, says) {#name, step_##name},
    EXCHANGE_STEPS(STEP)
#undef STEP
};

/* An exchange and the first block of its arena, allocated as one. */
struct exchange_block {
    struct exchange x;
    char memory[INLINE_ARENA_BYTES];
};

const char *exchange_step_name(enum step step)
{
    return step == STEP_done ? "done" : steps[step].name;
}

/* ---- running ---- */

static void close_exchange(struct exchange *x);

static void exchange_move(struct exchange *x, enum step to)
{
    if (to == STEP_relay)
        assert(x->step < to && (x->answer.ready || x->early_head));
    else if (to < x->step)
        assert(to == STEP_choose && x->step < STEP_relay && !x->answer.sent && x->attempt == NULL);
    else
        assert(to == x->step + 1 || (to == STEP_settle && x->client_gone));
    x->step = to;
}

/* Where a verdict other than WAIT leads. */
static enum step step_after(const struct exchange *x, enum verdict verdict)
{
    switch (verdict) {
    case ANSWER:
        return STEP_relay;
    case RETRY:
        return STEP_choose;
    case NEXT:
    case WAIT:
        break;
    }
    return (enum step)(x->step + 1);
}

static void exchange_run(struct wake *wake)
{
    struct exchange *x = container_of(wake, struct exchange, wake);
    while (x->step != STEP_done) {
        if (x->cause == OK && !x->client_gone)
            x->stopped = x->step;
        if (x->client_gone && x->step < STEP_settle)
            exchange_move(x, STEP_settle);
        const enum verdict verdict = steps[x->step].run(x);
        if (verdict == WAIT)
            return;
        exchange_move(x, step_after(x, verdict));
    }
    close_exchange(x);
}

void exchange_wake(struct exchange *x)
{
    if (x->step != STEP_done)
        server_wake(x->worker, &x->wake);
}

static void exchange_due(struct deadline *deadline)
{
    struct exchange *x = container_of(deadline, struct exchange, deadline);
    exchange_wake(x);
}

/* The rider has more to take, or has reached its end: the protocol must look. */
static void exchange_fed(struct rider *rider)
{
    struct exchange *x = container_of(rider, struct exchange, rider);
    if (x->conn && x->answer.ready)
        conn_answer(x);
}

/* ---- open and close ---- */

static void name_exchange(struct exchange *x)
{
    static const char hex[] = "0123456789abcdef";
    /* 48 bits of milliseconds first, so that ids sort by time; then what no other worker or process
     * has. */
    const uint64_t high = ((uint64_t)(x->opened_us / 1000) << 16) | (x->worker->id_prefix & 0xffff);
    const uint64_t low = (x->worker->id_prefix & ~UINT64_C(0xffffffff)) ^ x->worker->next_exchange;
    for (uint32_t i = 0; i < 16; i++) {
        x->exchange_id[i] = hex[(high >> (60 - 4 * i)) & 15];
        x->exchange_id[16 + i] = hex[(low >> (60 - 4 * i)) & 15];
    }
    x->exchange_id[32] = '\0';
}

static void bury_exchange(struct grave *grave)
{
    struct exchange *x = container_of(grave, struct exchange, grave);
    shelf_put(&x->worker->exchanges, container_of(x, struct exchange_block, x));
}

struct exchange *exchange_open(struct worker *worker, struct conn *conn)
{
    struct exchange_block *block = shelf_take(&worker->exchanges, sizeof *block);
    if (block == NULL)
        return NULL;
    struct exchange *x = &block->x;
    memset(x, 0, sizeof *x);
    arena_init(&x->arena, block->memory, sizeof block->memory, ARENA_CEILING_BYTES);
    x->worker = worker;
    x->conn = conn;
    x->admin = conn->admin;
    x->identity = &conn->identity;
    x->config = config_get(worker->config);
    x->opened_ns = worker->now_ns;
    x->opened_us = worker->wall_us;
    x->exchange_number = ++worker->next_exchange;
    x->delivered = USAGE_UNKNOWN;
    x->rider.fed = exchange_fed;
    x->wake.run = exchange_run;
    x->grave.bury = bury_exchange;
    x->deadline.due = exchange_due;
    name_exchange(x);
    worker->exchange_count++;
    metric_add(METRIC_exchanges_open, 1);
    return x;
}

static void close_exchange(struct exchange *x)
{
    (void)exchange_unawait_row(x);
    if (x->grant_awaited || x->durable == DURABLE_WAITS)
        return; /* the letter closes it when it arrives */
    assert(x->attempt == NULL && x->slot == NULL && x->ticket.model == NULL);
    deadline_clear(x->worker, &x->deadline);
    server_unwake(x->worker, &x->wake);
    usage_api_forget(x);
    rider_fini(&x->rider);
    body_free(&x->body);
    arena_fini(&x->arena);
    config_put(x->config);
    metric_add(METRIC_exchanges_open, -1);
    if (--x->worker->exchange_count == 0)
        server_idle(x->worker);
    server_bury(x->worker, &x->grave);
}

/* ---- grants from other workers ---- */

static void read_grant(struct letter *letter)
{
    struct exchange *x = container_of(letter, struct exchange, grant_letter);
    x->grant_awaited = x->grant_posted = false;
    if (x->step == STEP_done)
        close_exchange(x);
    else
        exchange_wake(x);
}

void exchange_granted(struct ticket *ticket)
{
    struct exchange *x = container_of(ticket, struct exchange, ticket);
    x->grant_letter.read = read_grant;
    x->grant_posted = true;
    mailbox_post(&x->worker->mailbox, &x->grant_letter);
}

/* ---- rows that are synced ---- */

static void read_durable(struct letter *letter)
{
    struct exchange *x = container_of(letter, struct exchange, durable_letter);
    x->durable = DURABLE_DONE;
    if (x->step == STEP_done)
        close_exchange(x);
    else
        exchange_wake(x);
}

/* On the writer's thread. */
static void row_is_durable(struct meter_wait *wait)
{
    struct exchange *x = container_of(wait, struct exchange, durable_wait);
    mailbox_post(&x->worker->mailbox, &x->durable_letter);
}

struct meter_wait *exchange_await_row(struct exchange *x)
{
    x->durable = DURABLE_WAITS;
    x->durable_wait.durable = row_is_durable;
    x->durable_letter.read = read_durable;
    x->durable_slot = x->slot;
    return &x->durable_wait;
}

bool exchange_unawait_row(struct exchange *x)
{
    if (x->durable != DURABLE_WAITS ||
        !meter_unwait(x->worker->server->meter, x->durable_slot, &x->durable_wait))
        return false;
    x->durable = DURABLE_DONE;
    return true;
}

/* ---- what protocols hand in ---- */

/* Fields that we look at, by name. once: twice is an error (what two readers could read in two
 * ways). */
struct known_field {
    struct span name;
    size_t place; /* of a struct span in struct exchange */
    bool once;
};

#define KNOWN(text, member, once)                                                                  \
    {                                                                                              \
        {(text), sizeof(text) - 1}, offsetof(struct exchange, member), (once)                      \
    }
static const struct known_field known_fields[] = {
    KNOWN("accept", accept, false),
    KNOWN("origin", origin, false),
    KNOWN("x-api-key", api_key_header, true),
    KNOWN("tracestate", tracestate, false),
    KNOWN("traceparent", traceparent, false),
    KNOWN("content-type", content_type, true),
    KNOWN("x-request-id", request_id, false),
    KNOWN("x-task-class", task_class, false),
    KNOWN("authorization", authorization, true),
    KNOWN("anthropic-beta", anthropic_beta, false),
    KNOWN("x-litellm-tags", litellm_tags, false),
    KNOWN("accept-encoding", accept_encoding, false),
    KNOWN("content-encoding", content_encoding, true),
    KNOWN("anthropic-version", anthropic_version, false),
    KNOWN("access-control-request-headers", request_headers_wanted, false),
};
#undef KNOWN

/* Length and first letter rule out nearly all of them without a call. */
static const struct known_field *find_known(struct span name)
{
    for (size_t i = 0; i < sizeof known_fields / sizeof known_fields[0]; i++)
        if (known_fields[i].name.size == name.size &&
            (known_fields[i].name.data[0] ^ name.data[0]) % 32 == 0 &&
            strncasecmp(known_fields[i].name.data, name.data, name.size) == 0)
            return &known_fields[i];
    return NULL;
}

static bool class_looks_at(const struct config *config, struct span name)
{
    for (uint32_t i = 0; i < config->class_count; i++)
        for (uint32_t k = 0; k < config->classes[i].header_count; k++)
            if (span_equal_nocase(config->classes[i].headers[k].name, name))
                return true;
    return false;
}

static enum err keep_field(struct exchange *x, struct span name, struct span value)
{
    if (x->kept_count == KEPT_FIELDS_MAX)
        return ERR_HEADERS_TOO_LARGE;
    if (x->kept == NULL)
        x->kept = arena_take(&x->arena, KEPT_FIELDS_MAX * sizeof *x->kept);
    if (x->kept == NULL)
        return ERR_NO_MEMORY;
    struct field *field = &x->kept[x->kept_count];
    field->name = arena_copy(&x->arena, name);
    field->value = arena_copy(&x->arena, value);
    if (field->name.data == NULL || field->value.data == NULL)
        return ERR_NO_MEMORY;
    x->kept_count++;
    return OK;
}

enum err exchange_field(struct exchange *x, struct span name, struct span value)
{
    const struct known_field *known = find_known(name);
    if (known) {
        struct span *place = (struct span *)(void *)((char *)x + known->place);
        if (place->data && known->once)
            return ERR_BAD_HTTP;
        *place = arena_copy(&x->arena, value);
        if (place->data == NULL)
            return ERR_NO_MEMORY;
    }
    return class_looks_at(x->config, name) ? keep_field(x, name, value) : OK;
}

void exchange_begin(struct exchange *x)
{
    const char *query = x->target.size ? memchr(x->target.data, '?', x->target.size) : NULL;
    x->path = x->target;
    if (query)
        x->path.size = (size_t)(query - x->target.data);
    metric_add(METRIC_requests_total, 1);
    deadline_set(x->worker, &x->deadline,
                 x->opened_ns + clock_ms_to_ns(x->config->timeouts_whole_ms));
    exchange_wake(x);
}

void exchange_refuse(struct exchange *x, enum err err)
{
    if (x->answer.ready || x->step >= STEP_relay)
        return;
    if (err == ERR_BAD_HTTP)
        metric_add(METRIC_requests_unread_total, 1);
    reply_error(x, err, NULL, NULL);
    x->outcome = OUTCOME_REFUSED;
    exchange_move(x, STEP_relay);
    exchange_wake(x);
    if (x->conn)
        conn_answer(x);
}

enum err exchange_body(struct exchange *x, struct span piece)
{
    if (x->step > STEP_read_ask)
        return OK; /* answered already: what still comes is skipped */
    x->bytes_in += (int64_t)piece.size;
    metric_add(METRIC_bytes_in_total, (int64_t)piece.size);
    const enum err err = body_append(&x->body, x->config, piece);
    if (err != OK) {
        body_free(&x->body);
        exchange_refuse(x, err);
    }
    return err;
}

void exchange_body_end(struct exchange *x)
{
    x->body_whole = true;
    exchange_wake(x);
}

/* ---- what protocols tell of the answer ---- */

void exchange_abandon(struct exchange *x)
{
    x->conn = NULL;
    x->identity = NULL;
    x->stream = NULL;
    if (x->answered)
        return;
    x->client_gone = true;
    exchange_wake(x);
}

void exchange_delivering(struct exchange *x, const struct chunk *chunk)
{
    if (chunk->ours)
        return;
    x->delivered_any = true;
    x->delivered_text_bytes = chunk->text_bytes;
    x->delivered_pieces = chunk->pieces;
    x->flags |= chunk->flags;
    if (chunk->source != SOURCE_NONE) {
        x->delivered = chunk->usage;
        x->delivered_source = chunk->source;
    }
    exchange_publish(x);
}

void exchange_publish(struct exchange *x)
{
    const bool whole = x->whole_source != SOURCE_NONE && !x->ask.stream; /* it is charged whole */
    struct meter_running running = {
        .usage = whole ? x->whole : x->delivered,
        .bytes_out = x->bytes_out,
        .text_bytes = x->delivered_text_bytes,
        .pieces = x->delivered_pieces,
        .source = whole ? x->whole_source : x->delivered_source,
        .delivered = x->delivered_any && x->answer.status == 200,
    };
    if (!x->counts_whole) { /* who finds it after a crash estimates */
        running.usage = USAGE_UNKNOWN;
        running.source = SOURCE_NONE;
    }
    if (x->slot)
        meter_publish(x->slot, &running);
}

void exchange_answered(struct exchange *x)
{
    x->answered = true;
    x->conn = NULL;
    x->identity = NULL;
    x->stream = NULL;
    x->ended_ns = x->worker->now_ns;
    exchange_wake(x);
}
