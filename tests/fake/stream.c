/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/stream.c: a streamed answer, event by event.
 *
 * For:       writes the next server-sent event of a chat or a completion, framed as a model server
 *            frames it.
 * Called by: server.c.
 * Knows not: sockets, timers, faults. */
#include "tests/fake/stream.h"

#include <stdlib.h>

static struct buffer payload; /* the event being made */
static struct buffer packed;  /* the same, compressed */

void stream_begin(struct work *work)
{
    struct buffer *prefix = &work->prefix;

    prefix->count = 0;
    buffer_add_literal(prefix, "data: {\"id\":\"");
    buffer_add(prefix, work->id, strlen(work->id));
    if (work->endpoint == ENDPOINT_CHAT)
        buffer_add_literal(prefix, "\",\"object\":\"chat.completion.chunk\",\"created\":");
    else
        buffer_add_literal(prefix, "\",\"object\":\"text_completion\",\"created\":");
    buffer_add_number(prefix, (uint64_t)answer_time());
    buffer_add_literal(prefix, ",\"model\":\"");
    buffer_add(prefix, work->model, strlen(work->model));
    buffer_add_literal(prefix, "\",\"choices\":[");
    work->position = (struct position){.phase = work->endpoint == ENDPOINT_CHAT ? PHASE_ROLE
                                                : work->tokens > 0              ? PHASE_TOKENS
                                                                                : PHASE_FINISH};
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

/* `{"index":N,` */
static void open_choice(const struct work *work)
{
    buffer_add_literal(&payload, "{\"index\":");
    buffer_add_number(&payload, work->position.choice);
}

/* Closes the event; `running` are the tokens of this choice so far. */
static void close_event(const struct work *work, uint64_t running)
{
    buffer_add_literal(&payload, "]");
    if (work->directive.no_usage) {
        /* nothing */
    } else if (work->openai) {
        if (work->include_usage)
            buffer_add_literal(&payload, ",\"usage\":null");
    } else if (work->include_usage && work->continuous_usage) {
        uint64_t input = work_claimed_input(work);
        buffer_add_literal(&payload, ",\"usage\":{\"prompt_tokens\":");
        buffer_add_number(&payload, input);
        buffer_add_literal(&payload, ",\"total_tokens\":");
        buffer_add_number(&payload, input + running);
        buffer_add_literal(&payload, ",\"completion_tokens\":");
        buffer_add_number(&payload, running);
        buffer_add_literal(&payload, "}");
    }
    buffer_add_literal(&payload, "}\n\n");
}

static bool last_choice(struct work *work)
{
    if (++work->position.choice < work->choices)
        return false;
    work->position.choice = 0;
    return true;
}

static void add_role(struct work *work)
{
    open_choice(work);
    buffer_add_literal(&payload,
                       ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                       "\"finish_reason\":null}");
    close_event(work, 0);
    if (last_choice(work))
        work->position.phase = work->tokens > 0 ? PHASE_TOKENS : PHASE_FINISH;
}

static void add_stamp(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    buffer_add_literal(&payload, "t");
    buffer_add_number(&payload, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    buffer_add_literal(&payload, " ");
}

static uint64_t add_tokens(struct work *work)
{
    uint64_t from = work->position.done;
    uint64_t to = from + (uint64_t)work->directive.per_event;

    if (to > work->tokens)
        to = work->tokens;
    open_choice(work);
    if (work->endpoint == ENDPOINT_CHAT)
        buffer_add_literal(&payload, ",\"delta\":{\"content\":\"");
    else
        buffer_add_literal(&payload, ",\"text\":\"");
    if (work->directive.stamp)
        add_stamp();
    if (work->directive.big > 0 && work->position.events == 0)
        buffer_add_fill(&payload, 'x', (size_t)work->directive.big);
    answer_add_words(&payload, from, to);
    if (work->endpoint == ENDPOINT_CHAT)
        buffer_add_literal(&payload, "\"},\"logprobs\":null,\"finish_reason\":null}");
    else
        buffer_add_literal(&payload,
                           "\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}");
    close_event(work, to);
    work->position.events++;
    if (last_choice(work)) {
        work->position.done = to;
        if (to == work->tokens)
            work->position.phase = PHASE_FINISH;
    }
    return to - from;
}

static void add_finish(struct work *work)
{
    open_choice(work);
    if (work->endpoint == ENDPOINT_CHAT)
        buffer_add_literal(&payload,
                           ",\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"");
    else
        buffer_add_literal(&payload, ",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"");
    buffer_add_text(&payload, work->by_length ? TEXT("length") : TEXT("stop"));
    buffer_add_literal(&payload, "\",\"stop_reason\":null}");
    close_event(work, work->tokens);
    if (last_choice(work))
        work->position.phase =
            work->include_usage && !work->directive.no_usage ? PHASE_USAGE : PHASE_DONE;
}

/* Makes the next event in `payload`. */
static uint64_t make_event(struct work *work)
{
    payload.count = 0;
    if (work->position.phase == PHASE_ERROR) {
        buffer_add_literal(&payload, "data: ");
        answer_add_error(&payload, work->openai, 500, TEXT("EngineCore encountered an issue."),
                         (struct text){"", 0});
        buffer_add_literal(&payload, "\n\n");
        work->position.phase = PHASE_DONE;
        return 0;
    }
    if (work->position.phase == PHASE_DONE) {
        buffer_add_literal(&payload, "data: [DONE]\n\n");
        work->position.phase = PHASE_END;
        return 0;
    }
    buffer_add(&payload, work->prefix.bytes, work->prefix.count);
    switch (work->position.phase) {
    case PHASE_ROLE:
        add_role(work);
        return 0;
    case PHASE_TOKENS:
        return add_tokens(work);
    case PHASE_FINISH:
        add_finish(work);
        return 0;
    default:
        buffer_add_literal(&payload, "],");
        answer_add_usage(&payload, work);
        buffer_add_literal(&payload, "}\n\n");
        work->position.phase = PHASE_DONE;
        return 0;
    }
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
    if (framing != FRAMING_CHUNKED) {
        buffer_add(out, event->bytes, event->count);
        return true;
    }
    buffer_reserve(out, event->count + 32);
    buffer_add_hex(out, event->count);
    buffer_add_literal(out, "\r\n");
    buffer_add(out, event->bytes, event->count);
    buffer_add_literal(out, "\r\n");
    if (work->position.phase == PHASE_END)
        buffer_add_literal(out, "0\r\n\r\n");
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
