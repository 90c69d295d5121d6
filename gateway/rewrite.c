/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/rewrite.c: see rewrite.h.
 *
 * For:       deciding what is rewritten, and keeping what must be whole before it can be.
 * Called by: relay.c.
 * Knows not: sockets, framing, usage. */
#include "gateway/rewrite.h"

#include "gateway/fault.h"
#include "gateway/replica.h"
#include "gateway/translate.h"
#include "gateway/unzip.h"

#define ERROR_BYTES_MAX 65536u /* longer ones are no messages: they pass as they came */
#define WHOLE_MOST 4u /* times flight_bytes: logprobs of a long answer take more than one */

/* Can its body be read here? One in a coding that is not known here would be taken for an error
 * that says nothing, and what was written anew would go out under that coding's name. */
static bool is_readable(const struct attempt *attempt)
{
    const struct span coding = attempt->content_encoding;
    return coding.size == 0 || unzip_knows(coding) || span_equal_nocase(coding, SPAN("identity"));
}

enum err rewrite_begin(struct attempt *attempt)
{
    struct relay *relay = &attempt->relay;
    struct exchange *x = attempt->exchange;
    relay->rewrite = REWRITE_NOTHING;
    if (attempt->status >= 400) {
        if (is_readable(attempt))
            relay->rewrite = REWRITE_ERROR;
        return OK;
    }
    if (config_service(attempt->model, x->endpoint) != SERVICE_CHAT)
        return OK;
    const struct translator_facts facts = {
        .model = x->ask.model.size ? x->ask.model : attempt->model->name,
        .exchange_id = {x->exchange_id, 32},
        .body = {x->body.data, x->body.size},
        .created_s = x->opened_us / 1000000,
    };
    relay->translator = translator_new(x->endpoint, &facts);
    if (relay->translator == NULL)
        return ERR_NO_MEMORY;
    relay->rewrite = relay->events ? REWRITE_EVENTS : REWRITE_WHOLE;
    return OK;
}

enum err rewrite_keep(struct attempt *attempt, struct span piece)
{
    struct relay *relay = &attempt->relay;
    const size_t most = relay->rewrite == REWRITE_ERROR
                            ? ERROR_BYTES_MAX
                            : WHOLE_MOST * (size_t)attempt->exchange->config->limits_flight_bytes;
    if (piece.size > most - relay->kept.size)
        return ERR_TOO_LARGE;
    return buffer_append(&relay->kept, piece) ? OK : ERR_NO_MEMORY;
}

struct buffer rewrite_give_up(struct relay *relay)
{
    const struct buffer kept = relay->kept;
    relay->kept = (struct buffer){NULL, 0, 0};
    relay->rewrite = REWRITE_NOTHING;
    return kept;
}

/* An error in the client's shape: byte for byte when it has it already. */
static void write_error(struct attempt *attempt, struct writer *out)
{
    const struct relay *relay = &attempt->relay;
    const struct exchange *x = attempt->exchange;
    const struct span body = {relay->kept.data, relay->kept.size};
    const enum api_shape shape = endpoint_row(x->endpoint)->shape;
    struct fault fault;
    fault_read(body, &attempt->exchange->arena, &fault);
    fault.status = attempt->status;
    if (fault_has_shape(&fault, shape))
        writer_put(out, body);
    else
        fault_write(&fault, shape, out);
}

enum err rewrite_whole(struct attempt *attempt, struct writer *out)
{
    const struct relay *relay = &attempt->relay;
    const struct span body = {relay->kept.data, relay->kept.size};
    if (relay->rewrite == REWRITE_WHOLE)
        return translator_whole(relay->translator, body, out);
    write_error(attempt, out);
    return out->err;
}

enum err rewrite_event(struct relay *relay, struct span data, struct writer *out)
{
    return translator_event(relay->translator, data, out);
}

enum err rewrite_events_end(struct relay *relay, struct writer *out)
{
    return translator_end(relay->translator, out);
}

int64_t rewrite_sequence(const struct relay *relay)
{
    return translator_sequence(relay->translator);
}

void rewrite_fini(struct relay *relay)
{
    translator_free(relay->translator);
    relay->translator = NULL;
    buffer_free(&relay->kept);
}
