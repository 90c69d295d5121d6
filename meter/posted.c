/* SPDX-License-Identifier: Apache-2.0 */
/* meter/posted.c: slots that have ended, on their way from the workers to the journal's writer.
 *
 * For:       a ring that any thread puts into without a lock and one takes from.
 * Called by: journal.c.
 * Knows not: what a slot is. */
#include "meter/posted.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"

enum err posted_init(struct posted *posted, uint32_t slots, uint32_t enough)
{
    uint64_t cells = 1;

    while (cells < slots)
        cells *= 2;
    *posted = (struct posted){.mask = cells - 1, .enough = enough};
    posted->cells = calloc(cells, sizeof(*posted->cells));
    return posted->cells ? OK : ERR_NO_MEMORY;
}

void posted_fini(struct posted *posted)
{
    free(posted->cells);
    posted->cells = NULL;
}

void posted_wake(struct posted *posted)
{
    if (atomic_exchange_explicit(&posted->asleep, 0, memory_order_seq_cst) != 0)
        (void)syscall(SYS_futex, &posted->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void posted_put(struct posted *posted, uint32_t index)
{
    const uint64_t position = atomic_fetch_add_explicit(&posted->tail, 1, memory_order_acq_rel);

    /* In one order with asleep: either we see that it sleeps, or it sees the cell. */
    atomic_store_explicit(&posted->cells[position & posted->mask], (position + 1) << 32 | index,
                          memory_order_seq_cst);
    if (atomic_load_explicit(&posted->asleep, memory_order_seq_cst) != 0 &&
        position >= atomic_load_explicit(&posted->wake_at, memory_order_relaxed))
        posted_wake(posted);
}

/* Is there one at this position? */
static bool peek(const struct posted *posted, uint64_t position, uint32_t *out_index)
{
    const uint64_t cell =
        atomic_load_explicit(&posted->cells[position & posted->mask], memory_order_seq_cst);

    *out_index = (uint32_t)cell;
    return (uint32_t)(cell >> 32) == (uint32_t)(position + 1);
}

bool posted_take(struct posted *posted, uint32_t *out_index)
{
    if (!peek(posted, posted->head, out_index))
        return false;
    posted->head++;
    return true;
}

void posted_sleep(struct posted *posted, uint64_t most_ns)
{
    const struct timespec most = {.tv_sec = (time_t)(most_ns / NS_PER_S),
                                  .tv_nsec = (long)(most_ns % NS_PER_S)};
    const uint64_t last = posted->head + posted->enough - 1;
    uint32_t index;

    atomic_store_explicit(&posted->wake_at, last, memory_order_relaxed);
    atomic_store_explicit(&posted->asleep, 1, memory_order_seq_cst);
    if (!peek(posted, last, &index))
        (void)syscall(SYS_futex, &posted->asleep, FUTEX_WAIT_PRIVATE, 1, &most, NULL, 0);
    atomic_store_explicit(&posted->asleep, 0, memory_order_relaxed);
}
