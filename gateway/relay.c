/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/relay.c: see relay.h.
 *
 * For:       cutting a body into events or pieces, reading usage in passing, filling chunks.
 * Called by: replica.c, within one read.
 * Knows not: sockets, framing, who pays. */
#include "gateway/relay.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/metrics.h"
#include "gateway/fault.h"
#include "gateway/replica.h"
#include "gateway/reply.h"
#include "gateway/unzip.h"

#define UNZIPPED_CEILING_BYTES (256u << 20)
#define UNZIP_PIECE_BYTES 16384u
#define ADDED_BYTES_MAX (1u << 20) /* to an answer by its translation, and as much as it has */
#define WRITTEN_MOST                                                                               \
    4u /* times event_bytes: one event may become several, the last repeats all                    \
        */

/* Does the client take this coding? Absent means: only as it is. */
static bool client_takes(const struct exchange *x, struct span coding)
{
    if (x->accept_encoding.size == 0)
        return false;
    const char *const end = x->accept_encoding.data + x->accept_encoding.size;
    for (const char *at = x->accept_encoding.data; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        struct span item = {at, (size_t)((comma ? comma : end) - at)};
        at = comma ? comma + 1 : end;
        while (item.size && (item.data[0] == ' ' || item.data[0] == '\t'))
            item = span_from(item, 1);
        if (item.size < coding.size ||
            !span_equal_nocase((struct span){item.data, coding.size}, coding))
            continue;
        const struct span rest = span_from(item, coding.size);
        if (rest.size == 0 || rest.data[0] == ' ' || rest.data[0] == '\t')
            return true;
        if (rest.data[0] == ';')
            return memmem(rest.data, rest.size, "q=0", 3) == NULL ||
                   memmem(rest.data, rest.size, "q=0.", 4) != NULL;
    }
    return false;
}

static bool is_event_stream(const struct attempt *attempt)
{
    for (uint32_t i = 0; i < attempt->field_count; i++)
        if (span_equal(attempt->fields[i].name, SPAN("content-type")))
            return attempt->fields[i].value.size >= 17 &&
                   span_equal_nocase((struct span){attempt->fields[i].value.data, 17},
                                     SPAN("text/event-stream"));
    return false;
}

/* How the replica's documents are read: what it is asked for is not always what the client asked
 * for. */
static enum tap_shape shape_of(const struct attempt *attempt)
{
    const enum endpoint endpoint = attempt->exchange->endpoint;
    if (config_service(attempt->model, endpoint) == SERVICE_CHAT)
        return TAP_CHAT;
    return endpoint == ENDPOINT_MESSAGES    ? TAP_MESSAGES
           : endpoint == ENDPOINT_RESPONSES ? TAP_RESPONSES
                                            : TAP_CHAT;
}

enum err relay_begin(struct attempt *attempt)
{
    struct relay *relay = &attempt->relay;
    relay->events = attempt->status == 200 && is_event_stream(attempt);
    tap_init(&relay->tap, shape_of(attempt));
    tally_init(&relay->tally);
    relay->holds = attempt->status == 200 && attempt->exchange->slot &&
                   meter_is_durable(attempt->worker->server->meter);
    relay->tally.whole_body = !relay->events;
    relay->tally.per_choice = !kind_row(attempt->model->kind)->whole;
    const enum err err = rewrite_begin(attempt);
    if (err != OK)
        return err;
    if (unzip_knows(attempt->content_encoding)) {
        relay->unzip = unzip_new(UNZIPPED_CEILING_BYTES);
        if (relay->unzip == NULL)
            return ERR_NO_MEMORY;
        relay->decode = relay->events || relay->rewrite != REWRITE_NOTHING ||
                        !client_takes(attempt->exchange, attempt->content_encoding);
    }
    return OK;
}

/* ---- chunks ---- */

/* Room for bytes more in the chunk that this read fills. */
static enum err make_room(struct relay *relay, size_t bytes, size_t hint)
{
    if (relay->building && relay->building->room - relay->building->size >= bytes)
        return OK;
    relay_flush(relay);
    relay->building = chunk_new(bytes > hint ? bytes : hint);
    return relay->building ? OK : ERR_NO_MEMORY;
}

static enum err pass(struct relay *relay, struct span bytes, size_t hint)
{
    const enum err err = make_room(relay, bytes.size, hint);
    if (err != OK)
        return err;
    memcpy(chunk_data(relay->building) + relay->building->size, bytes.data, bytes.size);
    relay->building->size += (uint32_t)bytes.size;
    return OK;
}

static void hold(struct relay *relay, struct chunk *chunk)
{
    if (relay->held)
        relay->held_last->next = chunk;
    else
        relay->held = chunk;
    relay->held_last = chunk;
}

void relay_flush(struct relay *relay)
{
    struct chunk *chunk = relay->building;
    if (chunk == NULL)
        return;
    relay->building = NULL;
    if (chunk->size == 0) {
        chunk_put(chunk);
        return;
    }
    chunk->source = tally_usage(&relay->tally, &chunk->usage, &chunk->flags);
    chunk->text_bytes = relay->tally.text_bytes + (relay->events ? 0 : relay->tap.text_bytes);
    chunk->pieces = relay->tally.pieces;
    if (relay->holds && (relay->done_seen || relay->ending))
        hold(relay, chunk);
    else
        flight_append(&relay->flight, chunk);
}

void relay_release(struct relay *relay)
{
    while (relay->held) {
        struct chunk *chunk = relay->held;
        relay->held = chunk->next;
        chunk->next = NULL;
        flight_append(&relay->flight, chunk);
    }
    relay->held_last = NULL;
}

size_t relay_waiting(const struct relay *relay)
{
    size_t bytes = flight_waiting(&relay->flight);
    for (const struct chunk *chunk = relay->held; chunk; chunk = chunk->next)
        bytes += chunk->size;
    return bytes;
}

/* ---- event streams ---- */

/* The event without its usage member. One data line: the bytes around it stay as they came.
 * Several: they are written as one line, line ends between them being white space to JSON. */
static enum err pass_without_usage(struct relay *relay, struct span event, struct span data,
                                   size_t hint)
{
    const struct tap *tap = &relay->tap;
    const size_t cut = tap->usage_end - tap->usage_at;
    if (data.data >= event.data && data.data < event.data + event.size) {
        const size_t at = (size_t)(data.data - event.data) + tap->usage_at;
        const enum err err = pass(relay, (struct span){event.data, at}, hint);
        return err != OK ? err : pass(relay, span_from(event, at + cut), hint);
    }
    const enum err err = make_room(relay, data.size + 8, hint);
    if (err != OK)
        return err;
    char *json = chunk_data(relay->building) + relay->building->size;
    const size_t kept = data.size - cut;
    memcpy(json + 6, data.data, tap->usage_at);
    memcpy(json + 6 + tap->usage_at, data.data + tap->usage_end, data.size - tap->usage_end);
    for (size_t i = 0; i < kept; i++)
        if (json[6 + i] == '\n')
            json[6 + i] = ' ';
    memcpy(json, "data: ", 6);
    memcpy(json + 6 + kept, "\n\n", 2);
    relay->building->size += (uint32_t)(kept + 8);
    return OK;
}

/* Passes what was written anew, and frees it. */
static enum err pass_written(struct relay *relay, enum err err, struct writer *out, size_t hint)
{
    if (err == OK)
        err = out->err;
    if (err == OK && out->text.size)
        err = pass(relay, (struct span){out->text.data, out->text.size}, hint);
    buffer_free(&out->text);
    return err == ERR_TOO_LARGE ? ERR_EVENT_TOO_LARGE : err;
}

static struct writer new_writer(const struct attempt *attempt)
{
    return writer_new(WRITTEN_MOST * (size_t)attempt->exchange->config->limits_event_bytes);
}

static enum err pass_translated(struct attempt *attempt, struct span data, size_t hint)
{
    struct relay *relay = &attempt->relay;
    struct writer out = new_writer(attempt);
    return pass_written(relay, rewrite_event(relay, data, &out), &out, hint);
}

static enum err pass_translated_end(struct attempt *attempt, size_t hint)
{
    struct relay *relay = &attempt->relay;
    struct writer out = new_writer(attempt);
    return pass_written(relay, rewrite_events_end(relay, &out), &out, hint);
}

/* An event that says that the server has failed: as it came, or in the client's shape. */
static enum err pass_error(struct attempt *attempt, struct span event, struct span data,
                           size_t hint)
{
    struct relay *relay = &attempt->relay;
    const enum endpoint endpoint = attempt->exchange->endpoint;
    struct writer out = new_writer(attempt);
    struct fault fault;
    fault_read(data, &attempt->exchange->arena, &fault);
    if (fault_has_shape(&fault, endpoint_row(endpoint)->shape))
        return pass(relay, event, hint);
    fault_write_event(&fault, endpoint, &out);
    return pass_written(relay, OK, &out, hint);
}

static enum err relay_data(struct attempt *attempt, struct span event, struct span data,
                           size_t hint)
{
    struct relay *relay = &attempt->relay;
    const struct ask *ask = &attempt->exchange->ask;
    struct tap *tap = &relay->tap;
    if (relay->memo == NULL && (relay->memo = calloc(1, sizeof *relay->memo)) == NULL)
        return ERR_NO_MEMORY;
    tap_read_event(tap, relay->memo, shape_of(attempt), data);
    tally_add(&relay->tally, tap);
    relay->finish_seen |= tap->finished;
    relay->error_seen |= tap->has_error;
    relay->done_seen |= tap->ended;
    metric_add(METRIC_events_relayed_total, 1);
    if (relay->rewrite == REWRITE_EVENTS)
        return pass_translated(attempt, data, hint);
    if (tap->has_error)
        return pass_error(attempt, event, data, hint);
    if (tap->has_usage && ask->stream_options) {
        /* Its closing usage has an event of its own or, from llama.cpp, rides on the last one. */
        const bool closing = tap->has_choices && tap->choices == 0;
        const bool last = closing || (tap->finished && !kind_row(attempt->model->kind)->running);
        const bool wanted = ask->continuous_usage || (last && ask->include_usage);
        if (closing && !wanted)
            return OK;
        if (!wanted)
            return pass_without_usage(relay, event, data, hint);
    }
    return pass(relay, event, hint);
}

static enum err relay_event(struct attempt *attempt, struct span event, size_t hint)
{
    struct relay *relay = &attempt->relay;
    char *scratch = attempt->worker->out; /* free while nothing is being flushed */
    if (event.size > WORKER_SCRATCH_BYTES) {
        scratch = malloc(event.size);
        if (scratch == NULL)
            return ERR_NO_MEMORY;
    }
    const struct span data = sse_data(event, scratch);
    enum err err;
    if (data.data == NULL || data.size == 0) {
        err = pass(relay, event, hint);
    } else if (sse_is_done(data)) {
        relay->done_seen = true;
        err = relay->rewrite == REWRITE_EVENTS ? pass_translated_end(attempt, hint)
                                               : pass(relay, event, hint);
        relay->begun |= err == OK;
    } else {
        err = relay_data(attempt, event, data, hint);
        relay->begun |= err == OK; /* else nothing of it is for the client: another may answer */
    }
    if (scratch != attempt->worker->out)
        free(scratch);
    return err;
}

/* Room for size bytes, and as many again: the next read brings about what this one did. */
static bool make_pending_room(struct buffer *pending, size_t size)
{
    if (size <= pending->room)
        return true;
    const size_t room = size < 512 ? 512 : size * 2;
    char *grown = realloc(pending->data, room);
    if (grown == NULL)
        return false;
    pending->data = grown;
    pending->room = room;
    return true;
}

static enum err relay_events(struct attempt *attempt, struct span piece, size_t hint)
{
    struct relay *relay = &attempt->relay;
    const size_t most = (size_t)attempt->exchange->config->limits_event_bytes;
    struct buffer *pending = &relay->pending;
    struct span bytes = piece;
    enum err err;
    if (pending->size) {
        if (!make_pending_room(pending, pending->size + piece.size) ||
            !buffer_append(pending, piece))
            return ERR_NO_MEMORY;
        bytes = (struct span){pending->data, pending->size};
    }
    if (hint < bytes.size)
        hint = bytes.size;
    for (size_t size; bytes.size && (size = sse_next(&relay->sse, bytes)) > 0;
         bytes = span_from(bytes, size))
        if (size > most)
            return ERR_EVENT_TOO_LARGE;
        else if ((err = relay_event(attempt, (struct span){bytes.data, size}, hint)) != OK)
            return err;
    if (bytes.size > most)
        return ERR_EVENT_TOO_LARGE;
    return make_pending_room(pending, bytes.size) && buffer_keep(pending, bytes) ? OK
                                                                                 : ERR_NO_MEMORY;
}

/* ---- bodies ---- */

/* A piece of a body that is no stream, unpacked when the client gets it so. */
static enum err relay_plain(struct attempt *attempt, struct span piece, size_t hint)
{
    struct relay *relay = &attempt->relay;
    tap_feed(&relay->tap, piece);
    if (relay->rewrite == REWRITE_NOTHING) {
        relay->begun = true;
        return pass(relay, piece, hint);
    }
    enum err err = rewrite_keep(attempt, piece);
    if (err != ERR_TOO_LARGE || relay->rewrite == REWRITE_WHOLE)
        return err == ERR_TOO_LARGE ? ERR_EVENT_TOO_LARGE : err;
    struct buffer kept = rewrite_give_up(relay);
    relay->begun = true;
    err = pass(relay, (struct span){kept.data, kept.size}, kept.size + piece.size);
    buffer_free(&kept);
    return err != OK ? err : pass(relay, piece, hint);
}

/* A small piece may unpack to a thousand times its size: what its riders do not take stays packed.
 */
static enum err relay_unzipped(struct attempt *attempt, struct span piece)
{
    struct relay *relay = &attempt->relay;
    const size_t most = (size_t)attempt->exchange->config->limits_flight_bytes;
    char out[UNZIP_PIECE_BYTES] UNINITIALIZED;
    size_t size = 0;
    do {
        if (relay->decode && flight_waiting(&relay->flight) >= most) {
            relay->unzip_more = true;
            return buffer_keep(&relay->packed, piece) ? OK : ERR_NO_MEMORY;
        }
        enum err err = unzip_some(relay->unzip, &piece, out, sizeof out, &size);
        if (err != OK)
            return err;
        const struct span text = {out, size};
        if (size == 0)
            continue;
        if (relay->events) {
            err = relay_events(attempt, text, size);
        } else if (relay->decode) {
            err = relay_plain(attempt, text, size);
        } else {
            tap_feed(&relay->tap, text);
        }
        if (err != OK)
            return err;
        relay_flush(relay);
    } while (size == sizeof out || piece.size);
    return OK;
}

bool relay_is_behind(const struct relay *relay)
{
    return relay->unzip_more;
}

enum err relay_catch_up(struct attempt *attempt)
{
    struct relay *relay = &attempt->relay;
    struct buffer packed = relay->packed;
    relay->packed = (struct buffer){NULL, 0, 0};
    relay->unzip_more = false;
    const enum err err = relay_unzipped(attempt, (struct span){packed.data, packed.size});
    buffer_free(&packed);
    return err;
}

enum err relay_piece(struct attempt *attempt, struct span piece, size_t room_hint)
{
    struct relay *relay = &attempt->relay;
    if (relay->unzip_more)
        return buffer_append(&relay->packed, piece) ? OK : ERR_NO_MEMORY;
    if (relay->unzip) {
        const enum err err = relay_unzipped(attempt, piece);
        /* What only the tap needs unpacked is not worth an answer: it is then estimated. */
        if (err != OK && (relay->decode || err == ERR_NO_MEMORY))
            return err;
        if (relay->decode)
            return OK;
        relay->begun = true;
        return pass(relay, piece, room_hint);
    }
    return relay->events ? relay_events(attempt, piece, room_hint)
                         : relay_plain(attempt, piece, room_hint);
}

bool relay_has_head(const struct relay *relay)
{
    return relay->events ? relay->begun : relay->rewrite == REWRITE_NOTHING;
}

/* The head's fields say JSON of this length. */
static void set_json_length(struct attempt *attempt, size_t bytes)
{
    static const struct span name = {"content-type", 12}, json = {"application/json", 16};
    uint32_t i = 0;
    while (i < attempt->field_count && !span_equal(attempt->fields[i].name, name))
        i++;
    if (i == attempt->field_count)
        attempt->field_count++; /* keep_fields() leaves room for one more */
    attempt->fields[i] = (struct field){name, json};
    attempt->framing = H1_LENGTH;
    attempt->length = bytes;
}

/* A body that was kept is whole. */
static enum err pass_kept(struct attempt *attempt)
{
    struct relay *relay = &attempt->relay;
    struct writer out = writer_new(2 * relay->kept.size + ADDED_BYTES_MAX);
    const enum err err = rewrite_whole(attempt, &out);
    if (err == OK && out.err == OK)
        set_json_length(attempt, out.text.size);
    return pass_written(relay, err, &out, out.text.size);
}

/* Is a stream of this endpoint whole only when an event has said so? Streams of transcriptions end
 * as their framing does; one that is translated never does, for an end would be made up for it. */
static bool must_say_end(const struct attempt *attempt)
{
    return attempt->relay.rewrite == REWRITE_EVENTS || attempt->exchange->ask.stream_options ||
           shape_of(attempt) != TAP_CHAT;
}

enum err relay_end(struct attempt *attempt)
{
    struct relay *relay = &attempt->relay;
    if (!relay->events) {
        tally_add(&relay->tally, &relay->tap);
        relay->tap.text_bytes = 0;
        relay->error_seen = attempt->status == 200 && relay->tap.has_error;
        return relay->rewrite == REWRITE_NOTHING ? OK : pass_kept(attempt);
    }
    const bool said = relay->done_seen || relay->finish_seen || relay->error_seen;
    if (relay->pending.size || (must_say_end(attempt) && !said))
        return ERR_REPLICA_GONE;
    return relay->rewrite == REWRITE_EVENTS && !relay->done_seen ? pass_translated_end(attempt, 0)
                                                                 : OK;
}

void relay_error_event(struct attempt *attempt, enum err err)
{
    struct relay *relay = &attempt->relay;
    const int64_t sequence =
        relay->rewrite == REWRITE_EVENTS ? rewrite_sequence(relay) : relay->tap.sequence + 1;
    struct chunk *chunk = reply_error_event(attempt->exchange, err, sequence);
    relay_flush(relay);
    if (chunk) {
        chunk->ours = true;
        flight_append(&relay->flight, chunk);
    }
}

void relay_fini(struct relay *relay)
{
    while (relay->held) {
        struct chunk *chunk = relay->held;
        relay->held = chunk->next;
        chunk->next = NULL;
        chunk_put(chunk);
    }
    chunk_put(relay->building);
    relay->building = NULL;
    buffer_free(&relay->pending);
    free(relay->memo);
    relay->memo = NULL;
    unzip_free(relay->unzip);
    relay->unzip = NULL;
    buffer_free(&relay->packed);
    rewrite_fini(relay);
}
