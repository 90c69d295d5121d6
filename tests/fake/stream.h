/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/stream.h: a streamed answer, event by event.
 *
 * For:       the next server-sent event of whichever API, framed as a model server frames it.
 * Called by: server.c.
 * Knows not: sockets, timers, faults. */
#ifndef FAKE_STREAM_H
#define FAKE_STREAM_H

#include "tests/fake/answer.h"

/* Makes ready for the first event. */
void stream_begin(struct work *work);
void stream_end(struct work *work);

/* Adds the next event and moves the position on; false when the stream is at its end.
 * framing: with FRAMING_CHUNKED the event is one chunk, and the end of the body follows the last
 * event.
 * out_tokens: how many tokens the event bears. */
bool stream_add_event(struct work *work, enum framing framing, struct buffer *out,
                      uint64_t *out_tokens);

/* Adds a sign of life; false when this stream can bear none (compressed, or measured before). */
bool stream_add_ping(const struct work *work, enum framing framing, struct buffer *out);

/* Bytes of all events together; the position stays. */
size_t stream_measure(struct work *work);

#endif
