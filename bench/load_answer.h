/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_answer.h: what an answer says, read as it comes.
 *
 * For:       counts events and tokens (`w0 w1 ...`, as the simulated model server writes them),
 *            finds usage, [DONE],
 *            error events and send times, so that every answer can be judged.
 * Called by: load_h1.c, load_h2.c; read by load.c and the soak client.
 * Knows not: HTTP framing, sockets. */
#ifndef LOAD_ANSWER_H
#define LOAD_ANSWER_H

#include <zlib.h>

#include "bench/load_buffer.h"
#include "bench/load_histogram.h"

struct answer {
    int status;    /* 0 until the head has come */
    bool streamed; /* server-sent events */
    bool done;     /* [DONE] has come */
    bool failed;   /* an error event has come */
    bool broken;   /* bytes that are no events, or behind [DONE] */
    bool usage_shown;
    uint64_t body_bytes;
    uint64_t events; /* [DONE] not counted */
    uint64_t token_events;
    uint64_t tokens;     /* all choices together */
    int64_t usage_input; /* the last ones shown; -1: none */
    int64_t usage_output;
    uint64_t first_token_ns;    /* when the first event with a token came; 0: none did */
    char model[96];             /* x-tollgate-model */
    char replica[96];           /* x-tollgate-replica */
    struct histogram *delivery; /* takes the age of stamped events; NULL: not wanted */
    bool encoded;               /* content-encoding: gzip; unpacked while it comes */
    z_stream *inflate;          /* NULL when not encoded; owned */
    struct buffer rest;         /* an event that has come in part; a whole body that is no stream */
};

/* Ready for the next answer; keeps its memory and `delivery`. */
void answer_begin(struct answer *answer);
void answer_fini(struct answer *answer);

/* One header field; names in any case. */
void answer_take_field(struct answer *answer, struct text name, struct text value);

/* Body bytes as they came, any piece of them. now_ns: CLOCK_MONOTONIC, when they came. */
void answer_take_body(struct answer *answer, const char *bytes, size_t count, uint64_t now_ns);

/* The body has come whole: reads one that is no stream. */
void answer_end(struct answer *answer);

#endif
