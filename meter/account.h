/* SPDX-License-Identifier: Apache-2.0 */
/* meter/account.h: a replica's tokens: what one costs us, and whether the engine counts as we do;
 * pure (but for atomics).
 *
 * For:       unit cost and reconciliation.
 * Called by: accounts.c.
 * Knows not: the clock, prices, which requests they were. */
#ifndef METER_ACCOUNT_H
#define METER_ACCOUNT_H

#include <stdatomic.h>

#include "meter/meter.h"

#define ACCOUNT_BUCKETS 12u
#define ACCOUNT_BUCKET_NS (UINT64_C(300) * 1000000000) /* 5 minutes: an hour in all */

struct replica_account {
    _Atomic int64_t prompt_tokens, generation_tokens; /* since the process began */
    _Atomic int64_t under_way;                        /* attempts sent and not ended */
    _Atomic uint64_t begun;                           /* attempts, in all */
    struct {
        _Atomic uint64_t number; /* which 5 minutes since the clock's zero; 0: none */
        _Atomic int64_t tokens;  /* computed ones: input, cache_write, output, reasoning */
    } buckets[ACCOUNT_BUCKETS];
    _Atomic uint64_t began_ns; /* the first tokens came then; 0: none yet */
    /* Reconciliation; written by one thread. */
    uint64_t asked_at; /* begun, when the engine was asked with nothing under way; else … */
    bool asked_idle;   /* … false */
    uint64_t idle_at;  /* begun, at the last reading between which and its question nothing ran; */
    bool was_idle;     /* false: there was none since the comparison ended */
    _Atomic int64_t engine_prompt, engine_generation; /* newest counters; -1 */
    _Atomic int64_t base_prompt, base_generation; /* engine − ours when the comparison began */
    _Atomic bool comparing;
    _Atomic int64_t drift_prompt, drift_generation;
    _Atomic uint64_t drift_ns; /* 0: never */
    _Atomic uint64_t restarts;
    struct replica_account *next;
    char *name; /* "model/replica" */
};

/* An attempt begins; ends, with what it made (-1 counts 0). */
void account_begin(struct replica_account *account);
void account_end(struct replica_account *account, const struct usage *usage, uint64_t now_ns);

/* Tokens an hour over the last hour (or since the first tokens, if that is less, but at least 5
 * minutes); -1: nothing yet. */
int64_t account_tokens_per_hour(const struct replica_account *account, uint64_t now_ns);

/* pusd a computed token: pusd_per_hour × opex ÷ tokens_per_hour, half to even; -1 when one of them
 * is not known or it does not fit. */
int64_t account_unit_cost(int64_t pusd_per_hour, int64_t opex_ppm, int64_t tokens_per_hour);

/* The engine is about to be asked: what begins or ends from here on may be in its answer or not. */
void account_reading_begins(struct replica_account *account);

/* The engine's counters, as it answered. When nothing of ours was under way since it was asked:
 * drift = (engine − base) − ours. The comparison begins (and so does its base) at the second such
 * reading in a row with the same counters, so that tokens which the engine counts a moment after it
 * has sent them do not stay in the base; it begins anew when counters have fallen. */
void account_reconcile(struct replica_account *account, int64_t engine_prompt,
                       int64_t engine_generation, uint64_t now_ns);

#endif
