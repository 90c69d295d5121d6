/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/usage.h: token counts as each API and kind reports them.
 *
 * For:       `"usage":{...}` of finished answers and of chunks, `"timings":{...}` of llama.cpp.
 * Called by: the files that write answers.
 * Knows not: sockets, streams. */
#ifndef FAKE_USAGE_H
#define FAKE_USAGE_H

#include "tests/fake/work.h"

/* Chat, completions, embeddings and their like. */
void usage_add(struct buffer *out, const struct work *work);

/* Running counts of one choice, `output` so far. */
void usage_add_running(struct buffer *out, const struct work *work, uint64_t output);

/* Only prompt and total, as rerank has it. */
void usage_add_input(struct buffer *out, const struct work *work);

/* /v1/responses: input, output, total, with their details. */
void usage_add_responses(struct buffer *out, const struct work *work);

/* /v1/messages: input without the cached part, output so far. */
void usage_add_messages(struct buffer *out, const struct work *work, uint64_t output);

/* llama.cpp's timings, made up of the token counts at a fixed speed. */
void usage_add_timings(struct buffer *out, const struct work *work);

#endif
