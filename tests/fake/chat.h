/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/chat.h: /v1/chat/completions and /v1/completions.
 *
 * For:       whole answers, and the events of streams.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing. */
#ifndef FAKE_CHAT_H
#define FAKE_CHAT_H

#include "tests/fake/work.h"

void chat_add_body(struct buffer *out, const struct work *work);

/* Makes ready for the first event. */
void chat_begin(struct work *work);

/* Adds the event at the position and moves on; returns the tokens that it bears. */
uint64_t chat_add_event(struct buffer *out, struct work *work);

#endif
