/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/wheel.c: see wheel.h.
 *
 * For:       one ring of buckets a tick apart; what lies beyond the ring waits in its last bucket
 *            and is filed again when that comes.
 * Called by: server.c.
 * Knows not: the loop, the clock. */
#include "gateway/wheel.h"

#include <string.h>

void wheel_init(struct wheel *wheel, uint64_t now_ns)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->tick = now_ns / WHEEL_TICK_NS;
}

/* The first tick that is not before the deadline. */
static uint64_t tick_of(uint64_t at_ns)
{
    return at_ns / WHEEL_TICK_NS + 1;
}

static uint64_t file(struct wheel *wheel, struct deadline *deadline)
{
    uint64_t tick = tick_of(deadline->at_ns);
    if (tick < wheel->tick)
        tick = wheel->tick;
    if (tick >= wheel->tick + WHEEL_BUCKETS)
        tick = wheel->tick + WHEEL_BUCKETS - 1;
    const size_t bucket = tick % WHEEL_BUCKETS;
    deadline->filed_tick = tick;
    deadline->next = wheel->buckets[bucket];
    deadline->link = &wheel->buckets[bucket];
    if (deadline->next)
        deadline->next->link = &deadline->next;
    wheel->buckets[bucket] = deadline;
    wheel->used[bucket / 64] |= UINT64_C(1) << (bucket % 64);
    return tick;
}

void wheel_clear(struct deadline *deadline)
{
    /* Its bucket stays marked as used: the wheel looks once, finds nothing and goes on. */
    if (deadline->link == NULL)
        return;
    *deadline->link = deadline->next;
    if (deadline->next)
        deadline->next->link = deadline->link;
    deadline->link = NULL;
}

uint64_t wheel_set(struct wheel *wheel, struct deadline *deadline, uint64_t at_ns)
{
    deadline->at_ns = at_ns;
    if (deadline->link && deadline->filed_tick <= tick_of(at_ns))
        return 0;
    wheel_clear(deadline);
    return file(wheel, deadline);
}

uint64_t wheel_next(const struct wheel *wheel)
{
    for (uint64_t step = 0; step < WHEEL_BUCKETS;) {
        const size_t bucket = (wheel->tick + step) % WHEEL_BUCKETS;
        const uint64_t bits = wheel->used[bucket / 64] >> (bucket % 64);
        if (bits)
            return wheel->tick + step + (uint64_t)__builtin_ctzll(bits);
        step += 64 - bucket % 64;
    }
    return 0;
}

static void turn_bucket(struct wheel *wheel, uint64_t tick, uint64_t now_ns)
{
    const size_t bucket = tick % WHEEL_BUCKETS;
    struct deadline *list = wheel->buckets[bucket];
    wheel->buckets[bucket] = NULL;
    wheel->used[bucket / 64] &= ~(UINT64_C(1) << (bucket % 64));
    wheel->tick = tick + 1;
    if (list)
        list->link = &list; /* so that due() may clear any of them */
    while (list) {
        struct deadline *deadline = list;
        wheel_clear(deadline);
        if (deadline->at_ns <= now_ns)
            deadline->due(deadline);
        else
            file(wheel, deadline);
    }
}

void wheel_turn(struct wheel *wheel, uint64_t now_ns)
{
    const uint64_t now_tick = now_ns / WHEEL_TICK_NS;
    for (;;) {
        const uint64_t tick = wheel_next(wheel);
        if (tick == 0 || tick > now_tick)
            break;
        turn_bucket(wheel, tick, now_ns);
    }
    if (wheel->tick <= now_tick)
        wheel->tick = now_tick + 1;
}
