/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/clock.h: the only place that asks what time it is.
 *
 * For:       time as a number; every pure file takes it as an argument.
 * Called by: the rim: workers once a turn, the journal's writer, the log, the health checks.
 * Knows not: what waits for a moment (gateway/wheel.h). */
#ifndef CONFIG_BASE_CLOCK_H
#define CONFIG_BASE_CLOCK_H

#include "config/base/vocab.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* A configured time, not negative, in nanoseconds. */
static inline uint64_t clock_ms_to_ns(int64_t ms)
{
    return (uint64_t)ms * NS_PER_MS;
}

/* Monotonic nanoseconds. */
uint64_t clock_now_ns(void);

/* Wall clock: microseconds since 1970 UTC. */
int64_t clock_wall_us(void);

#endif
