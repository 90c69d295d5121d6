/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/counters.h: what this server really did.
 *
 * For:       the truth that tests compare with what a gateway billed; the log; metrics.c
 *            shows it as a model server would.
 * Called by: server.c, control.c, metrics.c, main.c.
 * Knows not: sockets. Tokens are counted when they are handed to a socket, apart from any usage
 *            that is reported. */
#ifndef FAKE_COUNTERS_H
#define FAKE_COUNTERS_H

#include "tests/fake/work.h"

enum outcome { OUTCOME_COMPLETE, OUTCOME_ABORTED, OUTCOME_FAILED, OUTCOMES };

struct counters {
    uint64_t requests;       /* inference requests that came whole */
    uint64_t by_status[600]; /* of finished ones; 0: no head was sent */
    uint64_t by_outcome[OUTCOMES];
    uint64_t ended_by_length;
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
    uint64_t cached_tokens; /* prompt tokens from the cache, by directive or by the engine */
    uint64_t audio_bytes;   /* of the files of audio requests */
    uint64_t preemptions;
    uint64_t accepted_connections;
    uint64_t last_abort_ns; /* CLOCK_MONOTONIC when the last client left early; 0: none did */
    unsigned open_connections;
    unsigned open_streams;
    unsigned running;
    unsigned most_running;
    unsigned waiting;     /* by the engine: in its queue */
    unsigned used_blocks; /* of its KV cache */
    unsigned all_blocks;  /* 0: there is no engine */
};

extern struct counters counters;

void counters_begin(const struct work *work);

/* The request has ended; also writes its line to the log. */
void counters_finish(const struct work *work, enum outcome outcome, uint64_t now_ns);

/* Sets all to zero but what is open now. */
void counters_reset(void);

/* {"requests":...,...} */
void counters_add_json(struct buffer *out);

/* The log: one line per finished request,
 * `<x-request-id> <endpoint> <model> <status> <prompt tokens> <generated tokens>
 * <complete|aborted|failed>`. */
bool counters_open_log(const char *path);
void counters_flush_log(void);

/* Milliseconds until the log wants to be flushed; -1: nothing waits. */
int counters_log_wait_ms(uint64_t now_ns);

#endif
