/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/timers.h: what comes due, soonest first.
 *
 * For:       delays between events of thousands of streams; a binary heap, one place per timer.
 * Called by: server.c.
 * Knows not: what is delayed. */
#ifndef FAKE_TIMERS_H
#define FAKE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

/* Lives inside its owner; all zero is a timer that is not set. */
struct timer {
    uint64_t due_ns;
    size_t place; /* in the heap, from 1; 0: not set */
};

/* Sets or moves. */
void timers_set(struct timer *timer, uint64_t due_ns);
void timers_cancel(struct timer *timer);

/* Takes the soonest one out if it is due; NULL: none is. */
struct timer *timers_take_due(uint64_t now_ns);

/* When the soonest is due; UINT64_MAX: none is set. */
uint64_t timers_next_ns(void);

#endif
