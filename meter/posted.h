/* SPDX-License-Identifier: Apache-2.0 */
/* meter/posted.h: slots that have ended, on their way from the workers to the journal's writer.
 *
 * For:       a ring that any thread puts into without a lock and one takes from.
 * Called by: journal.c.
 * Knows not: what a slot is.
 *
 * It has at least as many cells as the table has slots, and a slot is in it at most once, so a
 * producer's cell is always free: putting is one addition and one store. */
#ifndef METER_POSTED_H
#define METER_POSTED_H

#include <stdatomic.h>

#include "config/base/err.h"

struct posted {
    /* Any thread. A cell is the low half of (its position + 1) << 32 | index. */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t *cells;
    uint64_t mask;
    uint32_t enough;
    _Alignas(64) _Atomic uint32_t asleep; /* 1: the taker sleeps and wants to be woken */
    _Atomic uint64_t wake_at;             /* by who puts at this position, or after it */
    _Alignas(64) uint64_t head;           /* the taker's alone */
};

/* enough: so many that wait wake a taker that sleeps; 1 … slots. Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err posted_init(struct posted *posted, uint32_t slots, uint32_t enough);
void posted_fini(struct posted *posted); /* safe on zeroes */

/* Any thread; no system call unless it wakes a taker that sleeps. */
void posted_put(struct posted *posted, uint32_t index);

/* Wakes the taker if it sleeps, whatever waits. Any thread. */
void posted_wake(struct posted *posted);

/* How many were put, ever. Any thread. */
static inline uint64_t posted_count(const struct posted *posted)
{
    return atomic_load_explicit(&posted->tail, memory_order_acquire);
}

/* The next one, in the order of putting; false when there is none, or its producer is between its
 * two steps. The taker alone, as all below. */
bool posted_take(struct posted *posted, uint32_t *out_index);

/* Sleeps until enough wait, or for so long. */
void posted_sleep(struct posted *posted, uint64_t most_ns);

#endif
