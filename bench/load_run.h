/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_run.h: one measurement.
 *
 * For:       what is asked for and what came out.
 * Called by: load.c, load_run.c.
 * Knows not: the command line. */
#ifndef LOAD_RUN_H
#define LOAD_RUN_H

#include "bench/load_client.h"

enum kind { KIND_CHAT, KIND_SSE, KIND_BIG };
enum mode { MODE_CLOSED, MODE_OPEN, MODE_HOLD_CONNECTIONS, MODE_HOLD_STREAMS, MODE_VANISH };

struct plan {
    enum mode mode;
    enum kind kind;
    bool use_h2;
    bool ask_usage;    /* stream_options.include_usage; then it must be shown, else it must not */
    bool hold_request; /* a held connection has served one request */
    bool use_tls;
    bool resume; /* TLS: a connection that is opened again resumes its session */
    bool churn;  /* MODE_CLOSED: each request has a connection of its own */
    bool wait;   /* `ready` is printed when all is connected; it begins at a line on stdin */
    unsigned connections;
    unsigned streams;  /* per connection */
    uint64_t requests; /* 0: as many as fit in `seconds` */
    double seconds;    /* 0: until `requests` are done */
    double rate;       /* requests per second, MODE_OPEN */
    uint64_t tokens;   /* tokens that an answer must have */
    bool say_tokens;   /* they are asked for by a directive */
    uint64_t delay_ms;
    size_t body_bytes;
    struct text model;
    struct text authority;
    struct text path;
    struct text key; /* empty: none */
    struct field fields[8];
    size_t field_count;
    struct sockaddr_in address;
    unsigned sources;
};

struct outcome {
    uint64_t requests; /* finished, right or wrong */
    uint64_t wrong;
    uint64_t lost_links;
    uint64_t handshakes; /* TLS, while it was measured */
    uint64_t resumed;    /* of them */
    uint64_t events;
    uint64_t body_bytes;
    double seconds;
    double user_seconds; /* CPU of this process */
    double system_seconds;
    uint64_t vanished_ns;  /* MODE_VANISH: CLOCK_MONOTONIC when all was closed */
    char first_wrong[256]; /* what was wrong first, in words */
    struct histogram latency;
    struct histogram first_token;
    struct histogram delivery;
};

/* Runs the plan; false with a message on stderr when it cannot begin. In the modes that hold,
 * `holding N` is printed
 * on stdout when all stand, and SIGTERM, SIGINT or the end of stdin ends the wait. */
bool run_plan(const struct plan *plan, struct outcome *out_outcome);

#endif
