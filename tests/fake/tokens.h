/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/tokens.h: tokenize, detokenize, count_tokens.
 *
 * For:       whole answers; what was tokenized comes back whole from detokenize.
 * Called by: service.c, pace.c.
 * Knows not: sockets, streams. */
#ifndef FAKE_TOKENS_H
#define FAKE_TOKENS_H

#include "tests/fake/work.h"

/* The text of a prompt (raw JSON value: a string, strings, messages), joined; valid until the next
 * call. */
struct text tokens_gather(struct text value);

void tokens_add_body(struct buffer *out, const struct work *work, const struct ask *ask);

#endif
