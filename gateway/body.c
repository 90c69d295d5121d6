/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/body.c: see body.h.
 *
 * For:       growing by doubling, so that a body of unknown size is copied at most once more than
 *            it is long; an announced size is taken at once, up to 1 MiB: a lie costs us no more.
 * Called by: exchange.c and the protocols.
 * Knows not: what is in a body, who sends it. */
#include "gateway/body.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/metrics.h"

#define TRUSTED_ANNOUNCEMENT_BYTES (1u << 20)
#define FIRST_ROOM_BYTES 1024u

static bool over_memory(const struct config *config, size_t more)
{
    const int64_t held = metric_value(METRIC_bodies_bytes) + (int64_t)more;
    return held > config->limits_bodies_memory_bytes + config->limits_bodies_memory_bytes / 4;
}

static enum err grow(struct body *body, const struct config *config, size_t room)
{
    if (over_memory(config, room - body->room))
        return ERR_BODIES_FULL;
    char *data = realloc(body->data, room);
    if (data == NULL)
        return ERR_NO_MEMORY;
    metric_add(METRIC_bodies_bytes, (int64_t)(room - body->room));
    body->data = data;
    body->room = room;
    return OK;
}

enum err body_expect(struct body *body, const struct config *config, uint64_t bytes)
{
    if (bytes > (uint64_t)config->limits_body_bytes)
        return ERR_TOO_LARGE;
    if (metric_value(METRIC_bodies_bytes) > config->limits_bodies_memory_bytes)
        return ERR_BODIES_FULL;
    if (bytes <= body->room)
        return OK;
    return grow(body, config,
                bytes < TRUSTED_ANNOUNCEMENT_BYTES ? (size_t)bytes : TRUSTED_ANNOUNCEMENT_BYTES);
}

enum err body_append(struct body *body, const struct config *config, struct span piece)
{
    if (piece.size > (uint64_t)config->limits_body_bytes - body->size)
        return ERR_TOO_LARGE;
    const size_t needed = body->size + piece.size;
    if (needed > body->room) {
        size_t room = body->room ? body->room * 2 : FIRST_ROOM_BYTES;
        while (room < needed)
            room *= 2;
        if (room > (size_t)config->limits_body_bytes)
            room = (size_t)config->limits_body_bytes;
        const enum err err = grow(body, config, room);
        if (err != OK)
            return err;
    }
    memcpy(body->data + body->size, piece.data, piece.size);
    body->size = needed;
    return OK;
}

enum err body_adopt(struct body *body, const struct config *config, struct buffer *buffer)
{
    body_free(body);
    if (over_memory(config, buffer->room)) {
        buffer_free(buffer);
        return ERR_BODIES_FULL;
    }
    metric_add(METRIC_bodies_bytes, (int64_t)buffer->room);
    *body = (struct body){buffer->data, buffer->size, buffer->room};
    *buffer = (struct buffer){NULL, 0, 0};
    return OK;
}

void body_free(struct body *body)
{
    if (body->data) {
        metric_add(METRIC_bodies_bytes, -(int64_t)body->room);
        free(body->data);
    }
    *body = (struct body){NULL, 0, 0};
}
