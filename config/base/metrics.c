/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/metrics.c: the rows of metrics.def, counted by each thread for itself.
 *
 * For:       counting from any thread for the price of a plain addition; reading sums up.
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

#define SHARDS 288u /* workers, their helpers, and one that all further threads share */

/* The numbers of one thread, on cache lines of its own. Only their sums mean something: what one
 * thread opens another may close. */
struct shard {
    _Alignas(64) _Atomic int64_t values[METRIC_COUNT];
};

static struct shard shards[SHARDS];
static _Atomic uint32_t taken; /* shards that threads have, the shared one not counted */
static _Thread_local struct shard *my_shard; /* NULL until the thread counts for the first time */

static struct shard *find_shard(void)
{
    const uint32_t index = atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
    my_shard = &shards[index < SHARDS - 1 ? index : SHARDS - 1];
    return my_shard;
}

void metric_add(enum metric metric, int64_t delta)
{
    struct shard *shard = my_shard ? my_shard : find_shard();
    _Atomic int64_t *value = &shard->values[metric];
    if (shard == &shards[SHARDS - 1])
        atomic_fetch_add_explicit(value, delta, memory_order_relaxed);
    else /* nobody else writes it: a load and a store, without the locked addition */
        atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + delta,
                              memory_order_relaxed);
}

int64_t metric_value(enum metric metric)
{
    const uint32_t count = atomic_load_explicit(&taken, memory_order_relaxed);
    int64_t sum = atomic_load_explicit(&shards[SHARDS - 1].values[metric], memory_order_relaxed);
    for (uint32_t i = 0; i < count && i < SHARDS - 1; i++)
        sum += atomic_load_explicit(&shards[i].values[metric], memory_order_relaxed);
    return sum;
}

const struct metric_row *metric_row(enum metric metric)
{
    return &rows[metric];
}
