/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_histogram.c: many durations in little memory.
 *
 * For:       quantiles of latencies: exact to 1 us below 200 ms, to 1 ms up to 200 s.
 * Called by: load.c, load_answer.c (also part of build/soak).
 * Knows not: what was measured. */
#include "bench/load_histogram.h"

void histogram_add(struct histogram *histogram, uint64_t duration_us)
{
    uint64_t duration_ms = duration_us / 1000;

    histogram->count++;
    if (duration_us > histogram->most_us)
        histogram->most_us = duration_us;
    if (duration_us < HISTOGRAM_FINE)
        histogram->fine[duration_us]++;
    else
        histogram->coarse[duration_ms < HISTOGRAM_COARSE ? duration_ms : HISTOGRAM_COARSE - 1]++;
}

uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_mille)
{
    uint64_t wanted = (histogram->count * per_mille + 999) / 1000;
    uint64_t seen = 0;

    if (histogram->count == 0)
        return 0;
    for (uint64_t i = 0; i < HISTOGRAM_FINE; i++) {
        seen += histogram->fine[i];
        if (seen >= wanted)
            return i;
    }
    for (uint64_t i = 0; i < HISTOGRAM_COARSE; i++) {
        seen += histogram->coarse[i];
        if (seen >= wanted)
            return i * 1000;
    }
    return histogram->most_us;
}
