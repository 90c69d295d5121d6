/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/buffer.h: bytes kept between two reads, and texts written into an arena; inline.
 *
 * For:       what came but is not understood yet (on the heap only while there is some), and
 *            heads as one text.
 * Called by: whoever receives or writes bytes here; some for texts that end in a NUL alone.
 * Knows not: what the bytes mean. */
#ifndef GATEWAY_BUFFER_H
#define GATEWAY_BUFFER_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/arena.h"
#include "config/base/span.h"

struct buffer {
    char *data;
    size_t size, room;
};

static inline void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){NULL, 0, 0};
}

/* Appends; false without memory. */
MUST_CHECK static inline bool buffer_append(struct buffer *buffer, struct span more)
{
    if (more.size > buffer->room - buffer->size) {
        const size_t needed = buffer->size + more.size;
        const size_t room = needed < 512 ? 512 : needed + needed / 2;
        char *data = realloc(buffer->data, room);
        if (data == NULL)
            return false;
        buffer->data = data;
        buffer->room = room;
    }
    if (more.size)
        memcpy(buffer->data + buffer->size, more.data, more.size);
    buffer->size += more.size;
    return true;
}

/* Makes rest all that is kept; it may lie in the buffer itself. false without memory. */
MUST_CHECK static inline bool buffer_keep(struct buffer *buffer, struct span rest)
{
    if (rest.size == 0) {
        buffer_free(buffer);
        return true;
    }
    if (buffer->data && rest.data >= buffer->data && rest.data < buffer->data + buffer->size) {
        memmove(buffer->data, rest.data, rest.size);
        buffer->size = rest.size;
        return true;
    }
    buffer->size = 0;
    return buffer_append(buffer, rest);
}

/* text with a NUL behind it, for calls that want one; false: it has no room, or holds a NUL itself.
 */
MUST_CHECK static inline bool span_to_text(struct span text, char *out, size_t room)
{
    if (text.size >= room || memchr(text.data, '\0', text.size))
        return false;
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return true;
}

/* A text under way, in memory of a known size. */
struct text {
    char *start, *at, *end;
};

/* Writes into memory of the caller's. */
static inline void text_over(struct text *text, char *memory, size_t room)
{
    text->start = text->at = memory;
    text->end = memory + room;
}

/* Takes room bytes of the arena; false without memory. */
MUST_CHECK static inline bool text_init(struct text *text, struct arena *arena, size_t room)
{
    char *memory = arena_take(arena, room);
    if (memory)
        text_over(text, memory, room);
    return memory != NULL;
}

static inline void text_put(struct text *text, struct span more)
{
    assert(more.size <= (size_t)(text->end - text->at));
    if (more.size)
        memcpy(text->at, more.data, more.size);
    text->at += more.size;
}

/* CRLF, "name: ", value. */
static inline void text_field(struct text *text, struct span name_and_colon, struct span value)
{
    text_put(text, SPAN("\r\n"));
    text_put(text, name_and_colon);
    text_put(text, value);
}

static inline void text_number(struct text *text, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    text_put(text, (struct span){digits + at, sizeof digits - at});
}

static inline struct span text_span(const struct text *text)
{
    return (struct span){text->start, (size_t)(text->at - text->start)};
}

#endif
