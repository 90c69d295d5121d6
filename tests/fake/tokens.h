/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/tokens.h: tokenize, detokenize, count_tokens.
 *
 * For:       whole answers; what was tokenized comes back whole from detokenize.
 * Called by: service.c.
 * Knows not: sockets, streams. */
#ifndef FAKE_TOKENS_H
#define FAKE_TOKENS_H

#include "tests/fake/work.h"

void tokens_add_body(struct buffer *out, const struct work *work, const struct ask *ask);

#endif
