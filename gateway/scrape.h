/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/scrape.h: what replicas say of themselves.
 *
 * For:       GET /health, whose answer the router judges, and GET /metrics, whose load it is told;
 *            each replica at its own pace, on the loop of one worker.
 * Called by: server.c.
 * Knows not: what follows from an answer: that is the router's and the meter's.
 * Thread:    the worker that started it.
 *
 * Moves of a visit: resting → opening (the link) → asking → head → body → resting; from any of them
 * back to resting when its time is over or the replica breaks off. */
#ifndef GATEWAY_SCRAPE_H
#define GATEWAY_SCRAPE_H

#include "gateway/server.h"

/* Begins to visit the replicas of the worker's snapshot; called again after a reload, it forgets
 * those of the one before. ERR_NO_MEMORY: nobody is visited. */
MUST_CHECK enum err scrape_start(struct worker *worker);

/* Ends all visits. Safe when none began. */
void scrape_stop(struct worker *worker);

#endif
