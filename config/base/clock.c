/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/clock.c: the only place that asks what time it is.
 *
 * For:       the rim, which hands time on as a number.
 * Called by: gateway, the journal's writer, log.
 * Knows not: time zones. */
#include "config/base/clock.h"

#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

int64_t clock_wall_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
