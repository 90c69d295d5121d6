/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/pooling.h: embeddings, rerank, score, pooling, classify.
 *
 * For:       whole answers of models that generate nothing.
 * Called by: service.c.
 * Knows not: sockets, streams. */
#ifndef FAKE_POOLING_H
#define FAKE_POOLING_H

#include "tests/fake/work.h"

/* The prompt tokens of rerank and score: the query again for each document. */
uint64_t pooling_count_tokens(const struct ask *ask);

void pooling_add_body(struct buffer *out, const struct work *work, const struct ask *ask);

#endif
