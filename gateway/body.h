/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/body.h: a request body outside the arena, bounded per request and per process.
 *
 * For:       bytes kept until the answer begins, since a retry needs them again; counted, so that
 *            all bodies together stay within limits.bodies_memory.
 * Called by: exchange.c (pieces), conn.c and h2.c (sizes announced), steps.c (frees it).
 * Knows not: what is in a body, how it was framed.
 * Thread:    one worker; the count of all of them is a metric. */
#ifndef GATEWAY_BODY_H
#define GATEWAY_BODY_H

#include "config/config.h"
#include "gateway/buffer.h"

struct body {
    char *data;
    size_t size, room;
};

/* Makes room for a body of so many bytes announced (0: not known). Errors: ERR_TOO_LARGE,
 * ERR_BODIES_FULL, ERR_NO_MEMORY. */
MUST_CHECK enum err body_expect(struct body *body, const struct config *config, uint64_t bytes);

/* Appends. The same errors; past 1.25 × bodies_memory a half-read body gives way too. */
MUST_CHECK enum err body_append(struct body *body, const struct config *config, struct span piece);

/* Takes over the buffer's memory, in place of what the body held. ERR_BODIES_FULL: freed instead.
 */
MUST_CHECK enum err body_adopt(struct body *body, const struct config *config,
                               struct buffer *buffer);

/* Frees it. Safe twice. */
void body_free(struct body *body);

#endif
