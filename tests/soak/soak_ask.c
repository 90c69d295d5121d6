/* SPDX-License-Identifier: Apache-2.0 */
/* tests/soak/soak_ask.c: the seeded mix of requests.
 *
 * For:       request number i of a seed is always the same: what it asks, and how its client
 *            behaves.
 * Called by: soak.c.
 * Knows not: connections, what comes back.
 *
 * Of a hundred requests 50 are plain, 30 streamed, 10 left by their client (behind a random event,
 * or before the
 * first), 5 meet an error of the model server, and 5 have a reader that stalls for 2 s or more. */
#include "tests/soak/soak_ask.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { MILLISECOND = 1000000 };

/* splitmix64: the next number of a sequence that is good enough for a mix. */
static uint64_t draw(uint64_t *state)
{
    uint64_t word = (*state += 0x9e3779b97f4a7c15u);

    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

static uint64_t draw_below(uint64_t *state, uint64_t limit)
{
    return draw(state) % limit;
}

static void add_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_format(struct buffer *buffer, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    int count = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    buffer_add(buffer, text, (size_t)count < sizeof text ? (size_t)count : sizeof text - 1);
}

const char *soak_kind_name(enum soak_kind kind)
{
    static const char *const names[] = {"plain", "stream", "abort", "error", "stall"};

    return names[kind];
}

static enum soak_kind draw_kind(uint64_t *state)
{
    uint64_t of_hundred = draw_below(state, 100);

    return of_hundred < 50   ? SOAK_PLAIN
           : of_hundred < 80 ? SOAK_STREAM
           : of_hundred < 90 ? SOAK_ABORT
           : of_hundred < 95 ? SOAK_ERROR
                             : SOAK_STALL;
}

/* Words for the model server that make a client's leaving interesting, and when it leaves. */
static void add_abort(struct soak_ask *ask, uint64_t *state)
{
    if (draw_below(state, 3) == 0) {
        add_format(&ask->body, "tokens=20 first_ms=%d", ask->stream ? 0 : 100);
        add_format(&ask->body, " head_ms=100");
        ask->leave_after_ns = draw_below(state, 40 * MILLISECOND);
    } else if (ask->stream) {
        add_format(&ask->body, "tokens=200 delay_ms=%" PRIu64 " per_event=%" PRIu64,
                   1 + draw_below(state, 3), 1 + draw_below(state, 3));
        ask->leave_after_events = 1 + draw_below(state, 30);
    } else {
        add_format(&ask->body, "tokens=40 first_ms=20");
        ask->leave_after_ns = draw_below(state, 40 * MILLISECOND);
    }
}

/* One fault of the model server; half of them spare the second try. */
static void add_error(struct soak_ask *ask, uint64_t *state)
{
    static const char *const faults[] = {
        "fail=500",        "fail=503",     "fail=429 retry_after=1",
        "fail=400",        "reset=before", "reset=head",
        "fin=before",      "fin=head",     "junk=1",
        "status_only=502", "reset=3",      "fin=3",
        "error_event=3",   "reset=0",      "poison=1",
        "until_close=1",
    };
    const char *fault = faults[draw_below(state, sizeof faults / sizeof faults[0])];

    add_format(&ask->body, "tokens=%" PRIu64 " %s", 5 + draw_below(state, 20), fault);
    if (draw_below(state, 2) == 0)
        add_format(&ask->body, " once=%s", ask->request_id);
}

static void add_directive(struct soak_ask *ask, uint64_t *state)
{
    add_format(&ask->body, "[[fake ");
    switch (ask->kind) {
    case SOAK_PLAIN:
        add_format(&ask->body, "tokens=%" PRIu64, 1 + draw_below(state, 60));
        if (draw_below(state, 20) == 0)
            add_format(&ask->body, " gzip=1");
        if (draw_below(state, 20) == 0)
            add_format(&ask->body, " cached=1");
        break;
    case SOAK_STREAM:
        add_format(&ask->body, "tokens=%" PRIu64 " per_event=%" PRIu64, 1 + draw_below(state, 120),
                   1 + draw_below(state, 4));
        if (draw_below(state, 4) == 0)
            add_format(&ask->body, " delay_ms=%" PRIu64, 1 + draw_below(state, 3));
        else if (draw_below(state, 10) == 0)
            add_format(&ask->body, " split=%" PRIu64, 50 + draw_below(state, 500));
        break;
    case SOAK_ABORT:
        add_abort(ask, state);
        break;
    case SOAK_ERROR:
        add_error(ask, state);
        break;
    case SOAK_STALL:
        /* One in fifty is longer than all buffers on its way, so that the stall reaches the model
         * server. */
        add_format(&ask->body, "tokens=%d", draw_below(state, 50) == 0 ? 16000 : 400);
        ask->stall_after_events = 1 + draw_below(state, 20);
        ask->stall_ns = (2000 + draw_below(state, 300)) * MILLISECOND;
        break;
    }
    add_format(&ask->body, "]] ");
}

static void make_body(struct soak_ask *ask, const struct soak_mix *mix, bool completion,
                      uint64_t *state)
{
    static const char filler[] =
        "What does a token cost, and who pays for it when nobody listens any more? ";
    uint64_t choices = ask->kind != SOAK_STALL && draw_below(state, 10) == 0 ? 2 : 1;

    ask->body.count = 0;
    add_format(&ask->body, "{\"model\":\"%.*s\",\"temperature\":0,", (int)mix->model.bytes,
               mix->model.at);
    if (ask->stream)
        add_format(&ask->body, "\"stream\":true,%s",
                   ask->usage ? "\"stream_options\":{\"include_usage\":true}," : "");
    if (choices > 1)
        add_format(&ask->body, "\"n\":%" PRIu64 ",", choices);
    if (completion)
        add_format(&ask->body, "\"max_tokens\":20000,\"prompt\":\"");
    else
        add_format(&ask->body, "\"messages\":[{\"role\":\"user\",\"content\":\"");
    add_format(&ask->body, "%s ", ask->request_id);
    add_directive(ask, state);
    for (uint64_t i = draw_below(state, 12); i > 0; i--)
        buffer_add_literal(&ask->body, filler);
    add_format(&ask->body, completion ? "\"}" : "\"}]}");
}

void soak_make(struct soak_ask *ask, const struct soak_mix *mix, uint64_t index)
{
    uint64_t state = mix->seed * 0x2545f4914f6cdd1du + index;
    struct form *form = &ask->form;

    draw(&state);
    ask->kind = draw_kind(&state);
    snprintf(ask->request_id, sizeof ask->request_id, "soak-%" PRIu64 "-%" PRIu64, mix->seed,
             index);
    ask->large = draw_below(&state, 2) == 0;
    ask->usage = draw_below(&state, 2) == 0;
    ask->stream = ask->kind == SOAK_STREAM || ask->kind == SOAK_STALL ||
                  (ask->kind != SOAK_PLAIN && draw_below(&state, 4) > 0);
    ask->leave_after_events = SOAK_NEVER;
    ask->leave_after_ns = SOAK_NEVER;
    ask->stall_after_events = SOAK_NEVER;
    ask->stall_ns = 0;
    bool completion = draw_below(&state, 10) == 0;
    make_body(ask, mix, completion, &state);
    form_begin(form, TEXT("POST"), mix->authority,
               completion ? TEXT("/v1/completions") : TEXT("/v1/chat/completions"));
    form_add(form, TEXT("content-type"), TEXT("application/json"));
    ask->unpacked = draw_below(&state, 2) == 0;
    form_add(form, TEXT("accept-encoding"), ask->unpacked ? TEXT("identity") : TEXT("gzip"));
    if (mix->credential.bytes > 0)
        form_add(form, TEXT("authorization"), mix->credential);
    form_add(form, TEXT("x-request-id"), text_of(ask->request_id));
    form_add(form, TEXT("x-task-class"), ask->large ? TEXT("large") : TEXT("small"));
    form_finish(form, ask->body.count);
}

void soak_fini(struct soak_ask *ask)
{
    buffer_fini(&ask->body);
    form_fini(&ask->form);
}
