/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_histogram.h: many durations in little memory.
 *
 * For:       quantiles of latencies: exact to 1 us below 200 ms, to 1 ms up to 200 s.
 * Called by: load.c, load_answer.c.
 * Knows not: what was measured. */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_FINE = 200000, HISTOGRAM_COARSE = 200000 };

/* All zero is empty. Large: keep it static. */
struct histogram {
    uint64_t count;
    uint64_t most_us;
    uint32_t fine[HISTOGRAM_FINE];
    uint32_t coarse[HISTOGRAM_COARSE];
};

void histogram_add(struct histogram *histogram, uint64_t duration_us);

/* The duration that `per_mille` thousandths of all do not exceed; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_mille);

#endif
