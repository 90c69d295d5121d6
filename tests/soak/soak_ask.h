/* SPDX-License-Identifier: Apache-2.0 */
/* tests/soak/soak_ask.h: the seeded mix of requests.
 *
 * For:       request number i of a seed is always the same: what it asks, and how its client
 *            behaves.
 * Called by: soak.c.
 * Knows not: connections, what comes back. */
#ifndef SOAK_ASK_H
#define SOAK_ASK_H

#include "bench/load_client.h"

enum soak_kind { SOAK_PLAIN, SOAK_STREAM, SOAK_ABORT, SOAK_ERROR, SOAK_STALL };

/* What never comes to pass in the members below. */
#define SOAK_NEVER UINT64_MAX

/* One request and the behaviour of its client. All zero is good before the first soak_make(). */
struct soak_ask {
    enum soak_kind kind;
    char request_id[48];
    bool stream;
    bool usage;                  /* stream_options.include_usage */
    bool unpacked;               /* accept-encoding: identity, else gzip */
    bool large;                  /* x-task-class: large, else small */
    uint64_t leave_after_events; /* the client leaves behind so many events with tokens */
    uint64_t leave_after_ns;     /* or after this time, whatever came */
    uint64_t stall_after_events; /* it stops reading behind so many events with tokens, */
    uint64_t stall_ns;           /* for so long */
    struct buffer body;
    struct form form;
};

/* What all requests of a run share. */
struct soak_mix {
    uint64_t seed;
    struct text authority;
    struct text credential; /* value of authorization; empty: none is sent */
    struct text model;      /* what bodies ask for */
};

const char *soak_kind_name(enum soak_kind kind);

/* Makes request number `index`. Keeps the memory of the request that was there before. */
void soak_make(struct soak_ask *ask, const struct soak_mix *mix, uint64_t index);
void soak_fini(struct soak_ask *ask);

#endif
