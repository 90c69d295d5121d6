/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/messages.h: /v1/messages.
 *
 * For:       whole messages, and the events of streams, in Anthropic's shape.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing. */
#ifndef FAKE_MESSAGES_H
#define FAKE_MESSAGES_H

#include "tests/fake/work.h"

void messages_add_body(struct buffer *out, const struct work *work);

/* Makes ready for the first event. */
void messages_begin(struct work *work);

/* Adds the event at the position and moves on; returns the tokens that it bears. */
uint64_t messages_add_event(struct buffer *out, struct work *work);

#endif
