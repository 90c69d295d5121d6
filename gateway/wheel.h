/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/wheel.h: what must happen by a moment; pure.
 *
 * For:       thousands of deadlines that nearly all move later before they come: moving one later
 *            is a store.
 * Called by: server.c, which asks it how long the loop may sleep.
 * Knows not: the loop, the clock. */
#ifndef GATEWAY_WHEEL_H
#define GATEWAY_WHEEL_H

#include "config/base/clock.h"
#include "config/base/vocab.h"

/* Embedded in its owner. Zeroed, with due set: not set. */
struct deadline {
    struct deadline *next, **link; /* in its bucket; link NULL when not set */
    uint64_t at_ns;                /* when it is really due */
    uint64_t filed_tick;           /* under which tick it is filed: not after at_ns */
    void (*due)(struct deadline *deadline);
};

#define WHEEL_BUCKETS 4096
#define WHEEL_TICK_NS (UINT64_C(10) * NS_PER_MS)

struct wheel {
    struct deadline *buckets[WHEEL_BUCKETS];
    uint64_t used[WHEEL_BUCKETS / 64]; /* a bit for each bucket that may hold something */
    uint64_t tick;                     /* the next one to look at */
};

/* An empty wheel that begins at a moment. */
void wheel_init(struct wheel *wheel, uint64_t now_ns);

/* Sets or moves a deadline; it comes at at_ns or a tick after. Returns the tick under which it was
 * filed now, 0 when it stayed where it was (it moved later: its bucket will file it again). */
uint64_t wheel_set(struct wheel *wheel, struct deadline *deadline, uint64_t at_ns);

/* Takes a deadline back. Safe on one that is not set. */
void wheel_clear(struct deadline *deadline);

/* The first tick whose bucket may hold something; 0: none does. */
uint64_t wheel_next(const struct wheel *wheel);

/* Calls due() of all that have come, files the others of the passed buckets again. due() may set
 * and clear any deadline, its own too. */
void wheel_turn(struct wheel *wheel, uint64_t now_ns);

#endif
