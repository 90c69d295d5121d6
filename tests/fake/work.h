/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/work.h: one inference request under way.
 *
 * For:       what was asked, how the test steers it, and how far the answer has come.
 * Called by: server.c, answer.c, stream.c, counters.c.
 * Knows not: sockets. */
#ifndef FAKE_WORK_H
#define FAKE_WORK_H

#include <zlib.h>

#include "tests/fake/ask.h"
#include "tests/fake/directive.h"

enum phase {
    PHASE_ROLE,
    PHASE_TOKENS,
    PHASE_FINISH,
    PHASE_USAGE,
    PHASE_ERROR,
    PHASE_DONE,
    PHASE_END
};

/* Where a stream stands; copied to go back to it when a socket took only a part. */
struct position {
    enum phase phase;
    unsigned choice; /* the next event belongs to this choice */
    uint64_t done;   /* tokens that every choice has had */
    uint64_t events; /* events with tokens so far, all choices together */
};

struct work {
    struct directive directive;
    struct position position;
    enum endpoint endpoint;
    bool openai; /* speaks as OpenAI does, not as vLLM */
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool by_length; /* finish_reason is length, else stop */
    bool head_sent;
    int status; /* 0 until a head is made */
    unsigned choices;
    uint64_t prompt_tokens;
    uint64_t tokens;      /* per choice */
    uint64_t generated;   /* tokens handed to the socket, all choices together */
    char model[256];      /* raw JSON text */
    char id[200];         /* id of the answer */
    char request_id[160]; /* x-request-id as received, "-" when absent */
    struct buffer prefix; /* how each event begins; its memory is kept for the next request */
    z_stream *deflate;    /* streams with gzip=1 only; owned */
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

#endif
