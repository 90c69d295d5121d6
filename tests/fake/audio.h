/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/audio.h: /v1/audio/transcriptions and /v1/audio/translations.
 *
 * For:       whole answers (JSON or text), and the events of streams.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing, forms. */
#ifndef FAKE_AUDIO_H
#define FAKE_AUDIO_H

#include "tests/fake/work.h"

/* The length of a file: 16-bit mono at 16 kHz, in whole seconds, rounded up. */
uint64_t audio_seconds(uint64_t file_bytes);

void audio_add_body(struct buffer *out, const struct work *work, const struct ask *ask);

/* Makes ready for the first event. */
void audio_begin(struct work *work);

/* Adds the event at the position and moves on; returns the tokens that it bears. */
uint64_t audio_add_event(struct buffer *out, struct work *work);

#endif
