/* SPDX-License-Identifier: Apache-2.0 */
/* router/queue.c: tickets in the order in which they came.
 *
 * For:       a doubly linked line, so that whoever leaves early leaves in O(1).
 * Called by: router.c, under the model's lock.
 * Knows not: replicas, time, how long a line may be. */
#include "router/queue.h"

void queue_append(struct queue *queue, struct ticket *ticket)
{
    ticket->next = NULL;
    ticket->previous = queue->last;
    if (queue->last)
        queue->last->next = ticket;
    else
        queue->first = ticket;
    queue->last = ticket;
    queue->count++;
}

void queue_remove(struct queue *queue, struct ticket *ticket)
{
    if (ticket->previous)
        ticket->previous->next = ticket->next;
    else
        queue->first = ticket->next;
    if (ticket->next)
        ticket->next->previous = ticket->previous;
    else
        queue->last = ticket->previous;
    ticket->next = NULL;
    ticket->previous = NULL;
    queue->count--;
}

struct ticket *queue_earlier(struct ticket *a, struct ticket *b)
{
    if (!a)
        return b;
    if (!b)
        return a;
    return b->entered_ns < a->entered_ns ? b : a;
}
