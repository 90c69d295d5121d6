/* SPDX-License-Identifier: Apache-2.0 */
/* router/queue.h: tickets in the order in which they came; pure.
 *
 * For:       the line before a model's slots.
 * Called by: router.c, under the model's lock.
 * Knows not: replicas, time, how long a line may be. */
#ifndef ROUTER_QUEUE_H
#define ROUTER_QUEUE_H

#include "router/router.h"

/* A line of tickets, linked through them; zeroed = empty. A ticket stands in one line at most. */
struct queue {
    struct ticket *first, *last;
    uint32_t count;
};

/* Puts a ticket at the end. O(1). */
void queue_append(struct queue *queue, struct ticket *ticket);

/* Takes a ticket of this queue out, wherever it stands. O(1). */
void queue_remove(struct queue *queue, struct ticket *ticket);

/* The ticket that came first of two, either of which may be NULL; a wins a tie. */
struct ticket *queue_earlier(struct ticket *a, struct ticket *b);

#endif
