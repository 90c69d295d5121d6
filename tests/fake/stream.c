/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/stream.c: a streamed answer, event by event.
 *
 * For:       the next server-sent event of whichever API, framed as a model server frames it.
 * Called by: server.c.
 * Knows not: sockets, timers, faults. */
#include "tests/fake/stream.h"

#include <stdlib.h>

#include "tests/fake/audio.h"
#include "tests/fake/chat.h"
#include "tests/fake/error.h"
#include "tests/fake/messages.h"
#include "tests/fake/responses.h"

static struct buffer payload; /* the event being made */
static struct buffer packed;  /* the same, compressed */

void stream_begin(struct work *work)
{
    work->prefix.count = 0;
    switch (work->endpoint) {
    case ENDPOINT_RESPONSES:
        responses_begin(work);
        break;
    case ENDPOINT_MESSAGES:
        messages_begin(work);
        break;
    case ENDPOINT_TRANSCRIPTIONS:
    case ENDPOINT_TRANSLATIONS:
        audio_begin(work);
        break;
    default:
        chat_begin(work);
    }
    if (work->directive.gzip) {
        work->deflate = calloc(1, sizeof *work->deflate);
        if (work->deflate == NULL ||
            deflateInit2(work->deflate, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
            abort();
    }
}

void stream_end(struct work *work)
{
    if (work->deflate == NULL)
        return;
    deflateEnd(work->deflate);
    free(work->deflate);
    work->deflate = NULL;
}

/* Makes the next event in `payload`. */
static uint64_t make_event(struct work *work)
{
    payload.count = 0;
    switch (work->endpoint) {
    case ENDPOINT_RESPONSES:
        return responses_add_event(&payload, work);
    case ENDPOINT_MESSAGES:
        return messages_add_event(&payload, work);
    default:
        break;
    }
    if (work->position.phase == PHASE_ERROR) {
        error_add_event(&payload, work->endpoint, 500, TEXT("EngineCore encountered an issue."));
        work->position.phase = PHASE_DONE;
        return 0;
    }
    if (work->endpoint == ENDPOINT_CHAT || work->endpoint == ENDPOINT_COMPLETIONS)
        return chat_add_event(&payload, work);
    return audio_add_event(&payload, work);
}

/* Compresses the event so that it can be read at once: with a flush behind it, or as the end of the
 * member. */
static void pack_event(struct work *work)
{
    z_stream *deflater = work->deflate;
    int flush = work->position.phase == PHASE_END ? Z_FINISH : Z_SYNC_FLUSH;
    size_t bound = payload.count + payload.count / 8 + 128;

    packed.count = 0;
    buffer_reserve(&packed, bound);
    deflater->next_in = (unsigned char *)payload.bytes;
    deflater->avail_in = (unsigned)payload.count;
    deflater->next_out = (unsigned char *)packed.bytes;
    deflater->avail_out = (unsigned)bound;
    if (deflate(deflater, flush) == Z_STREAM_ERROR || deflater->avail_in != 0)
        abort();
    packed.count = bound - deflater->avail_out;
}

static void add_framed(const struct buffer *event, enum framing framing, bool last,
                       struct buffer *out)
{
    if (framing != FRAMING_CHUNKED) {
        buffer_add(out, event->bytes, event->count);
        return;
    }
    buffer_reserve(out, event->count + 32);
    buffer_add_hex(out, event->count);
    buffer_add_literal(out, "\r\n");
    buffer_add(out, event->bytes, event->count);
    buffer_add_literal(out, "\r\n");
    if (last)
        buffer_add_literal(out, "0\r\n\r\n");
}

bool stream_add_event(struct work *work, enum framing framing, struct buffer *out,
                      uint64_t *out_tokens)
{
    const struct buffer *event = &payload;

    *out_tokens = 0;
    if (work->position.phase == PHASE_END)
        return false;
    *out_tokens = make_event(work);
    if (work->deflate != NULL) {
        pack_event(work);
        event = &packed;
    }
    add_framed(event, framing, work->position.phase == PHASE_END, out);
    return true;
}

bool stream_add_ping(const struct work *work, enum framing framing, struct buffer *out)
{
    if (work->deflate != NULL || framing == FRAMING_LENGTH)
        return false;
    payload.count = 0;
    if (work->endpoint == ENDPOINT_MESSAGES)
        buffer_add_literal(&payload, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    else
        buffer_add_literal(&payload, ":\n\n");
    add_framed(&payload, framing, false, out);
    return true;
}

size_t stream_measure(struct work *work)
{
    struct position begin = work->position;
    size_t bytes = 0;

    while (work->position.phase != PHASE_END) {
        make_event(work);
        bytes += payload.count;
    }
    work->position = begin;
    return bytes;
}
