/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/content.h: what the model says.
 *
 * For:       decides between words, a JSON object and a tool call, and writes any stretch of it.
 * Called by: service.c and the files that write answers.
 * Knows not: the shape of answers around it.
 *
 * A token is a word (`w0 `), or four bytes of JSON text; of reasoning a word `r0 `. */
#ifndef FAKE_CONTENT_H
#define FAKE_CONTENT_H

#include "tests/fake/work.h"

/* Makes the table of words; once, before anything else. */
void content_prepare(void);

/* Chooses what is said and how long it is: work->tokens, reasoning, by_length. */
void content_choose(struct work *work, const struct ask *ask);

/* The tokens [from, to) as they stand inside a JSON string; all reasoning, or none of it. */
void content_add(struct buffer *out, const struct work *work, uint64_t from, uint64_t to);

/* All of the reasoning; all that follows it. */
void content_add_reasoning(struct buffer *out, const struct work *work);
void content_add_rest(struct buffer *out, const struct work *work);

/* How many items the answer has where reasoning is an item by itself: 1 or 2. */
unsigned content_items(const struct work *work);

/* The position after the next event of a choice: at most per_event tokens, and never over the end
 * of the reasoning. */
uint64_t content_next(const struct work *work);

/* `stop`, `length`, `tool_calls` */
struct text content_finish_reason(const struct work *work);

#endif
