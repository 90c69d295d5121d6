/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/timers.c: what comes due, soonest first.
 *
 * For:       delays between events of thousands of streams; a binary heap, one place per timer.
 * Called by: server.c.
 * Knows not: what is delayed. */
#include "tests/fake/timers.h"

#include <stdlib.h>

static struct timer **heap; /* places 1 .. count */
static size_t count;
static size_t capacity;

static void put(struct timer *timer, size_t place)
{
    heap[place] = timer;
    timer->place = place;
}

static void rise(struct timer *timer, size_t place)
{
    while (place > 1 && heap[place / 2]->due_ns > timer->due_ns) {
        put(heap[place / 2], place);
        place /= 2;
    }
    put(timer, place);
}

static void sink(struct timer *timer, size_t place)
{
    for (;;) {
        size_t child = place * 2;
        if (child > count)
            break;
        if (child < count && heap[child + 1]->due_ns < heap[child]->due_ns)
            child++;
        if (heap[child]->due_ns >= timer->due_ns)
            break;
        put(heap[child], place);
        place = child;
    }
    put(timer, place);
}

void timers_set(struct timer *timer, uint64_t due_ns)
{
    if (timer->place != 0)
        timers_cancel(timer);
    timer->due_ns = due_ns;
    if (count + 2 > capacity) {
        capacity = capacity == 0 ? 256 : capacity * 2;
        heap = realloc(heap, capacity * sizeof *heap);
        if (heap == NULL)
            abort();
    }
    rise(timer, ++count);
}

void timers_cancel(struct timer *timer)
{
    size_t place = timer->place;

    if (place == 0)
        return;
    timer->place = 0;
    struct timer *last = heap[count--];
    if (last == timer)
        return;
    if (place > 1 && heap[place / 2]->due_ns > last->due_ns)
        rise(last, place);
    else
        sink(last, place);
}

struct timer *timers_take_due(uint64_t now_ns)
{
    if (count == 0 || heap[1]->due_ns > now_ns)
        return NULL;
    struct timer *timer = heap[1];
    timers_cancel(timer);
    return timer;
}

uint64_t timers_next_ns(void)
{
    return count == 0 ? UINT64_MAX : heap[1]->due_ns;
}
