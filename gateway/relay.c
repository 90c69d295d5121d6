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
#include "gateway/reply.h"
#include "gateway/unzip.h"

#define UNZIPPED_CEILING_BYTES (256u << 20)
#define UNZIP_PIECE_BYTES 16384u

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

enum err relay_begin(struct attempt *attempt)
{
    attempt->events = attempt->status == 200 && is_event_stream(attempt);
    tap_init(&attempt->tap);
    tally_init(&attempt->tally);
    attempt->tally.whole_body = !attempt->events;
    if (unzip_knows(attempt->content_encoding)) {
        attempt->unzip = unzip_new(UNZIPPED_CEILING_BYTES);
        if (attempt->unzip == NULL)
            return ERR_NO_MEMORY;
        attempt->decode =
            attempt->events || !client_takes(attempt->exchange, attempt->content_encoding);
    }
    return OK;
}

/* ---- chunks ---- */

/* Room for bytes more in the chunk that this read fills. */
static enum err make_room(struct attempt *attempt, size_t bytes, size_t hint)
{
    if (attempt->building && attempt->building->room - attempt->building->size >= bytes)
        return OK;
    relay_flush(attempt);
    attempt->building = chunk_new(bytes > hint ? bytes : hint);
    return attempt->building ? OK : ERR_NO_MEMORY;
}

static enum err pass(struct attempt *attempt, struct span bytes, size_t hint)
{
    const enum err err = make_room(attempt, bytes.size, hint);
    if (err != OK)
        return err;
    memcpy(chunk_data(attempt->building) + attempt->building->size, bytes.data, bytes.size);
    attempt->building->size += (uint32_t)bytes.size;
    return OK;
}

void relay_flush(struct attempt *attempt)
{
    struct chunk *chunk = attempt->building;
    if (chunk == NULL)
        return;
    attempt->building = NULL;
    if (chunk->size == 0) {
        chunk_put(chunk);
        return;
    }
    chunk->source = tally_usage(&attempt->tally, &chunk->usage, &chunk->flags);
    chunk->text_bytes = attempt->tally.text_bytes + (attempt->events ? 0 : attempt->tap.text_bytes);
    flight_append(&attempt->flight, chunk);
}

/* ---- event streams ---- */

/* The event without its usage member. One data line: the bytes around it stay as they came.
 * Several: they are written as one line, line ends between them being white space to JSON. */
static enum err pass_without_usage(struct attempt *attempt, struct span event, struct span data,
                                   size_t hint)
{
    const struct tap *tap = &attempt->tap;
    const size_t cut = tap->usage_end - tap->usage_at;
    if (data.data >= event.data && data.data < event.data + event.size) {
        const size_t at = (size_t)(data.data - event.data) + tap->usage_at;
        const enum err err = pass(attempt, (struct span){event.data, at}, hint);
        return err != OK ? err : pass(attempt, span_from(event, at + cut), hint);
    }
    const enum err err = make_room(attempt, data.size + 8, hint);
    if (err != OK)
        return err;
    char *json = chunk_data(attempt->building) + attempt->building->size;
    const size_t kept = data.size - cut;
    memcpy(json + 6, data.data, tap->usage_at);
    memcpy(json + 6 + tap->usage_at, data.data + tap->usage_end, data.size - tap->usage_end);
    for (size_t i = 0; i < kept; i++)
        if (json[6 + i] == '\n')
            json[6 + i] = ' ';
    memcpy(json, "data: ", 6);
    memcpy(json + 6 + kept, "\n\n", 2);
    attempt->building->size += (uint32_t)(kept + 8);
    return OK;
}

static enum err relay_data(struct attempt *attempt, struct span event, struct span data,
                           size_t hint)
{
    const struct ask *ask = &attempt->exchange->ask;
    struct tap *tap = &attempt->tap;
    tap_init(tap);
    tap_feed(tap, data);
    tally_add(&attempt->tally, tap);
    attempt->finish_seen |= tap->finished;
    attempt->error_seen |= tap->has_error;
    metric_add(METRIC_events_relayed_total, 1);
    if (tap->has_usage) {
        const bool closing = tap->has_choices && tap->choices == 0;
        if (closing && !ask->include_usage)
            return OK;
        if (!closing && !ask->continuous_usage)
            return pass_without_usage(attempt, event, data, hint);
    }
    return pass(attempt, event, hint);
}

static enum err relay_event(struct attempt *attempt, struct span event, size_t hint)
{
    char *scratch = attempt->worker->out; /* free while nothing is being flushed */
    if (event.size > WORKER_SCRATCH_BYTES) {
        scratch = malloc(event.size);
        if (scratch == NULL)
            return ERR_NO_MEMORY;
    }
    const struct span data = sse_data(event, scratch);
    enum err err;
    if (data.data == NULL || data.size == 0) {
        err = pass(attempt, event, hint);
    } else if (sse_is_done(data)) {
        attempt->done_seen = attempt->begun = true;
        err = pass(attempt, event, hint);
    } else {
        err = relay_data(attempt, event, data, hint);
        attempt->begun = true;
    }
    if (scratch != attempt->worker->out)
        free(scratch);
    return err;
}

static enum err keep_pending(struct attempt *attempt, struct span rest)
{
    if (rest.size > attempt->pending_room) {
        const size_t room = rest.size < 512 ? 512 : rest.size * 2;
        char *grown = malloc(room);
        if (grown == NULL)
            return ERR_NO_MEMORY;
        memcpy(grown, rest.data, rest.size);
        free(attempt->pending);
        attempt->pending = grown;
        attempt->pending_room = room;
    } else {
        memmove(attempt->pending, rest.data, rest.size);
    }
    attempt->pending_size = rest.size;
    return OK;
}

static enum err append_pending(struct attempt *attempt, struct span piece)
{
    const size_t size = attempt->pending_size + piece.size;
    if (size > attempt->pending_room) {
        char *grown = realloc(attempt->pending, size * 2);
        if (grown == NULL)
            return ERR_NO_MEMORY;
        attempt->pending = grown;
        attempt->pending_room = size * 2;
    }
    memcpy(attempt->pending + attempt->pending_size, piece.data, piece.size);
    attempt->pending_size = size;
    return OK;
}

static enum err relay_events(struct attempt *attempt, struct span piece, size_t hint)
{
    const size_t most = (size_t)attempt->exchange->config->limits_event_bytes;
    struct span bytes = piece;
    enum err err;
    if (attempt->pending_size) {
        if ((err = append_pending(attempt, piece)) != OK)
            return err;
        bytes = (struct span){attempt->pending, attempt->pending_size};
    }
    if (hint < bytes.size)
        hint = bytes.size;
    for (size_t size; bytes.size && (size = sse_next(&attempt->sse, bytes)) > 0;
         bytes = span_from(bytes, size))
        if (size > most)
            return ERR_EVENT_TOO_LARGE;
        else if ((err = relay_event(attempt, (struct span){bytes.data, size}, hint)) != OK)
            return err;
    if (bytes.size > most)
        return ERR_EVENT_TOO_LARGE;
    if (bytes.size)
        return keep_pending(attempt, bytes);
    free(attempt->pending);
    attempt->pending = NULL;
    attempt->pending_size = attempt->pending_room = 0;
    return OK;
}

/* ---- bodies ---- */

/* A small piece may unpack to a thousand times its size: what its riders do not take stays packed.
 */
static enum err relay_unzipped(struct attempt *attempt, struct span piece)
{
    const size_t most = (size_t)attempt->exchange->config->limits_flight_bytes;
    char out[UNZIP_PIECE_BYTES] UNINITIALIZED;
    size_t size = 0;
    do {
        if (attempt->decode && flight_waiting(&attempt->flight) >= most) {
            attempt->unzip_more = true;
            return buffer_keep(&attempt->packed, piece) ? OK : ERR_NO_MEMORY;
        }
        enum err err = unzip_some(attempt->unzip, &piece, out, sizeof out, &size);
        if (err != OK)
            return err;
        const struct span text = {out, size};
        if (size == 0)
            continue;
        if (attempt->events) {
            err = relay_events(attempt, text, size);
        } else {
            tap_feed(&attempt->tap, text);
            if (attempt->decode)
                err = pass(attempt, text, size);
        }
        if (err != OK)
            return err;
        relay_flush(attempt);
    } while (size == sizeof out || piece.size);
    return OK;
}

bool relay_is_behind(const struct attempt *attempt)
{
    return attempt->unzip_more;
}

enum err relay_catch_up(struct attempt *attempt)
{
    struct buffer packed = attempt->packed;
    attempt->packed = (struct buffer){NULL, 0, 0};
    attempt->unzip_more = false;
    const enum err err = relay_unzipped(attempt, (struct span){packed.data, packed.size});
    buffer_free(&packed);
    return err;
}

enum err relay_piece(struct attempt *attempt, struct span piece, size_t room_hint)
{
    if (attempt->unzip_more)
        return buffer_append(&attempt->packed, piece) ? OK : ERR_NO_MEMORY;
    if (attempt->unzip) {
        const enum err err = relay_unzipped(attempt, piece);
        /* What only the tap needs unpacked is not worth an answer: it is then estimated. */
        if (err != OK && (attempt->decode || err == ERR_NO_MEMORY))
            return err;
        if (attempt->decode)
            return OK;
    } else if (attempt->events) {
        return relay_events(attempt, piece, room_hint);
    } else {
        tap_feed(&attempt->tap, piece);
    }
    attempt->begun = true;
    return pass(attempt, piece, room_hint);
}

enum err relay_end(struct attempt *attempt)
{
    if (!attempt->events) {
        tally_add(&attempt->tally, &attempt->tap);
        attempt->tap.text_bytes = 0;
        return OK;
    }
    if (attempt->pending_size ||
        !(attempt->done_seen || attempt->finish_seen || attempt->error_seen))
        return ERR_REPLICA_GONE;
    return OK;
}

void relay_error_event(struct attempt *attempt, enum err err)
{
    struct chunk *chunk = reply_error_event(attempt->exchange, err);
    relay_flush(attempt);
    if (chunk) {
        chunk->ours = true;
        flight_append(&attempt->flight, chunk);
    }
}

void relay_fini(struct attempt *attempt)
{
    chunk_put(attempt->building);
    attempt->building = NULL;
    free(attempt->pending);
    attempt->pending = NULL;
    unzip_free(attempt->unzip);
    attempt->unzip = NULL;
    buffer_free(&attempt->packed);
}
