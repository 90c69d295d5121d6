/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/metrics.c: the rows of metrics.def as atomics.
 *
 * For:       counting from any thread for the price of one relaxed addition.
 * Called by: every room; printed by gateway/admin.c.
 * Knows not: Prometheus text. */
#include "config/base/metrics.h"

#include <stdatomic.h>

#define TYPE_COUNTER "counter"
#define TYPE_GAUGE "gauge"

static const struct metric_row rows[METRIC_COUNT] = {
#define METRIC(name, type, help) [METRIC_##name] = {#name, TYPE_##type, help},
#include "config/base/metrics.def"
#undef METRIC
};

static _Atomic int64_t values[METRIC_COUNT];

void metric_add(enum metric metric, int64_t delta)
{
    atomic_fetch_add_explicit(&values[metric], delta, memory_order_relaxed);
}

int64_t metric_value(enum metric metric)
{
    return atomic_load_explicit(&values[metric], memory_order_relaxed);
}

const struct metric_row *metric_row(enum metric metric)
{
    return &rows[metric];
}
