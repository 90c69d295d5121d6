/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/pace.h: how fast answers come.
 *
 * For:       joins requests with the timing model of engine.h, if one was asked for.
 * Called by: service.c, server.c, main.c.
 * Knows not: sockets. With a model, chats, completions, responses and messages are paced by it,
 *            whatever their choices as one sequence; everything else is instant. */
#ifndef FAKE_PACE_H
#define FAKE_PACE_H

#include "tests/fake/work.h"

/* Options, or the path of a file with them; false: neither. pace_begin() makes the model, once the
 * kind is known: vLLM and llama.cpp queue without bound. */
bool pace_set(const char *words);
void pace_begin(void);

/* Whether the work has its tokens from the model. */
bool pace_holds(const struct work *work);

/* The work is sized and wants to begin; 0, or the status with which it is refused. Time is that of
 * pace_advance(). */
int pace_enter(struct work *work, const struct ask *ask);
void pace_leave(struct work *work);

/* Whether the next event (of a stream), or the whole answer, may be written. */
bool pace_allows(const struct work *work);

/* When pace_advance() has something to do; UINT64_MAX: never. */
uint64_t pace_next_ns(void);
void pace_advance(uint64_t now_ns);

/* A work that may go on; NULL: none is left. */
struct work *pace_take_ready(void);

#endif
