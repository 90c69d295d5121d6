/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/work.h: one inference request under way.
 *
 * For:       what was asked, how the test steers it, and how far the answer has come.
 * Called by: server.c, service.c, counters.c and the files that write answers.
 * Knows not: sockets. */
#ifndef FAKE_WORK_H
#define FAKE_WORK_H

#include <zlib.h>

#include "tests/fake/ask.h"
#include "tests/fake/directive.h"
#include "tests/fake/engine.h"

/* In the order in which a stream passes them. An answer is a row of items (reasoning, then a
 * message or a call); OPEN to CLOSE come again for each. What an API has no event for is skipped.
 */
enum phase {
    PHASE_ROLE,
    PHASE_OPEN,
    PHASE_TOKENS,
    PHASE_CLOSE,
    PHASE_FINISH,
    PHASE_USAGE,
    PHASE_ERROR,
    PHASE_DONE,
    PHASE_END
};

/* Where a stream stands; copied to go back to it when a socket took only a part. */
struct position {
    enum phase phase;
    unsigned step;     /* event within the phase */
    unsigned item;     /* which item of the answer */
    unsigned choice;   /* the next event belongs to this choice */
    unsigned sequence; /* events so far, where an API counts them */
    uint64_t done;     /* tokens that every choice has had */
    uint64_t events;   /* events with tokens so far, all choices together */
};

/* What is generated behind the reasoning. */
enum content {
    CONTENT_WORDS, /* w0 w1 w2 ... */
    CONTENT_JSON,  /* `script`, a JSON object */
    CONTENT_CALL,  /* a call of `tool` with `script` as its arguments */
};

struct work {
    struct directive directive;
    struct position position;
    enum endpoint endpoint;
    enum content content;
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool logprobs;
    bool by_length; /* finish_reason is length, else stop or tool_calls */
    bool head_sent;
    int status;       /* 0 until a head is made */
    const char *path; /* of the endpoint */
    unsigned choices;
    unsigned top_logprobs;
    uint64_t prompt_tokens;
    uint64_t file_bytes;            /* audio */
    uint64_t tokens;                /* per choice, the reasoning among them */
    uint64_t reasoning;             /* the first so many are reasoning */
    uint64_t generated;             /* tokens handed to the socket, all choices together */
    int64_t cached;                 /* prompt tokens from the cache; -1: not known */
    char model[256];                /* raw JSON text */
    char id[200];                   /* id of the answer */
    char request_id[160];           /* x-request-id as received, "-" when absent */
    char tool[TOOL_NAME_BYTES * 2]; /* raw JSON text */
    struct buffer prefix;  /* how each event begins; its memory is kept for the next request */
    size_t prefix_bytes;   /* so much of it is for all events; then the frame of ordinary ones: */
    size_t frame_opens;    /* up to here what stands before the content */
    size_t frame_closes;   /* up to here what stands behind it; 0: no ordinary events */
    bool frame_counts;     /* running usage follows the frame */
    struct buffer script;  /* likewise kept */
    struct engine_job job; /* of pace.c: the sequence in the timing model */
    bool paced;            /* it is there */
    bool cache_noted;
    z_stream *deflate; /* streams with gzip=1 only; owned */
};

/* The usage that is reported, whatever is true. */
static inline uint64_t work_claimed_input(const struct work *work)
{
    return work->directive.claim_input >= 0 ? (uint64_t)work->directive.claim_input
                                            : work->prompt_tokens;
}

static inline uint64_t work_claimed_output(const struct work *work)
{
    return work->directive.claim_output >= 0 ? (uint64_t)work->directive.claim_output
                                             : work->tokens * work->choices;
}

static inline uint64_t work_cached(const struct work *work)
{
    return work->cached > 0 ? (uint64_t)work->cached : 0;
}

/* Whether the item under way is the reasoning. */
static inline bool work_thinks(const struct work *work)
{
    return work->position.done < work->reasoning;
}

#endif
