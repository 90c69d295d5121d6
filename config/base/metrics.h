/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/metrics.h: numbers that anybody may bump, from the table metrics.def.
 *
 * For:       process-wide counters and gauges.
 * Called by: any room.
 * Knows not: Prometheus text; gateway/admin.c prints the table. */
#ifndef CONFIG_BASE_METRICS_H
#define CONFIG_BASE_METRICS_H

#include "config/base/vocab.h"

enum metric {
#define METRIC(name, type, help) METRIC_##name,
#include "config/base/metrics.def"
#undef METRIC
    METRIC_COUNT
};

struct metric_row {
    const char *name; /* without the tollgate_ prefix */
    const char *type; /* "counter" or "gauge" */
    const char *help;
};

/* Adds delta (may be negative for gauges). */
void metric_add(enum metric metric, int64_t delta);

/* The present value: the sum over all threads, each as last seen. */
int64_t metric_value(enum metric metric);

/* Name, type and help of a metric. */
const struct metric_row *metric_row(enum metric metric);

#endif
