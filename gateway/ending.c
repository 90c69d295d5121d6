/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ending.c: how an exchange ended, and what of it is charged.
 *
 * For:       see ending.h.
 * Called by: steps.c.
 * Knows not: sockets, protocols, prices. */
#include "gateway/ending.h"

#include "config/base/metrics.h"
#include "gateway/server.h"

enum outcome ending_outcome(enum err err)
{
    switch (err) {
    case ERR_FIRST_BYTE_TIMEOUT:
    case ERR_IDLE_TIMEOUT:
    case ERR_WHOLE_TIMEOUT:
        return OUTCOME_TIMEOUT;
    case ERR_REPLICA_GONE:
    case ERR_REPLICA_PROTOCOL:
    case ERR_EVENT_TOO_LARGE:
    case ERR_NO_REPLICA:
    case ERR_REPLICA_KEY:
    case ERR_REPLICA_REFUSED:
        return OUTCOME_REPLICA_ERROR;
    case ERR_OVERLOADED:
    case ERR_QUEUE_TIMEOUT:
    case ERR_BODIES_FULL:
    case ERR_NO_SLOT:
    case ERR_JOURNAL:
    case ERR_NO_MEMORY:
    case ERR_DRAINING:
        return OUTCOME_SHED;
    default:
        return OUTCOME_REFUSED;
    }
}

/* How it ended, for the row: what a step above has said, else what became of the answer. */
static enum outcome final_outcome(const struct exchange *x)
{
    if (x->client_gone)
        return OUTCOME_CLIENT_GONE;
    if (x->cause != OK)
        return ending_outcome(x->cause);
    if (x->broke || (x->attempts && x->answer.status >= 400))
        return OUTCOME_REPLICA_ERROR;
    return x->attempts ? OUTCOME_OK : OUTCOME_REFUSED;
}

/* The tokens to charge that the replica has told of: those delivered; a plain answer that it has
 * finished counts whole once a byte of it has gone out. */
static void final_usage(const struct exchange *x, struct meter_ending *ending)
{
    const bool all = x->whole_source != SOURCE_NONE && x->delivered_any &&
                     (x->answered || x->durable == DURABLE_WAITS || !x->ask.stream);
    ending->usage = USAGE_UNKNOWN;
    ending->source = SOURCE_NONE;
    /* A plain answer that its replica cut, or an error in the place of one, is of no use to
     * anybody, and nobody has said what it cost. */
    const bool useless =
        x->broke && x->whole_source == SOURCE_NONE &&
        (!x->ask.stream || (x->delivered_source == SOURCE_NONE && x->delivered_text_bytes == 0));
    ending->billable = x->answer.status == 200 && x->delivered_any && x->model && !useless &&
                       endpoint_row(x->endpoint)->charged;
    if (ending->billable && x->counts_whole) {
        ending->usage = all ? x->whole : x->delivered;
        ending->source = all ? x->whole_source : x->delivered_source;
    }
}

/* Estimates are made by what replicas say of answers that came whole. */
static void learn(const struct exchange *x, const struct meter_ending *ending)
{
    const struct meter_sizes sizes = {x->ask.images ? 0 : x->ask.text_bytes, x->whole_text_bytes,
                                      x->whole_pieces};
    if (ending->source == SOURCE_REPORTED && ending->outcome == OUTCOME_OK &&
        !(ending->flags & FLAG_USAGE_SUSPECT))
        meter_learn(x->model->estimate, &sizes, &ending->usage);
}

void ending_settle(struct exchange *x, struct meter_wait *wait, int64_t waiting_bytes)
{
    struct meter_ending ending = {
        .outcome = final_outcome(x),
        .status = x->client_gone && !x->answer.sent ? 499 : x->answer.status,
        .first_token_us = x->first_token_ns
                              ? x->opened_us + (int64_t)((x->first_token_ns - x->opened_ns) / 1000)
                              : 0,
        .ended_us = x->opened_us + (int64_t)((x->ended_ns - x->opened_ns) / 1000),
        .bytes_out = x->bytes_out + waiting_bytes,
        .text_bytes = x->delivered_text_bytes,
        .pieces = x->delivered_pieces,
        .unit_cost_pusd =
            x->replica ? meter_unit_cost(x->config, x->replica, x->worker->now_ns) : -1,
    };
    final_usage(x, &ending);
    if (x->model && config_service(x->model, x->endpoint) == SERVICE_CHAT)
        x->flags |= FLAG_TRANSLATED;
    ending.flags = x->flags;
    x->cost_pusd = meter_settle(x->worker->server->meter, x->slot, &ending, wait);
    x->slot = NULL;
    if (ending.flags & FLAG_USAGE_SUSPECT)
        metric_add(METRIC_usage_suspect_total, 1);
    if (ending.billable)
        learn(x, &ending);
    x->outcome = ending.outcome;
    x->delivered = ending.usage;
    x->delivered_source = ending.source;
}
