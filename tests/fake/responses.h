/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/responses.h: /v1/responses.
 *
 * For:       whole responses, and the events of streams.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing. */
#ifndef FAKE_RESPONSES_H
#define FAKE_RESPONSES_H

#include "tests/fake/work.h"

void responses_add_body(struct buffer *out, const struct work *work);

/* Makes ready for the first event. */
void responses_begin(struct work *work);

/* Adds the event at the position and moves on; returns the tokens that it bears. */
uint64_t responses_add_event(struct buffer *out, struct work *work);

#endif
