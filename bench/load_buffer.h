/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_buffer.h: bytes that grow, and texts that somebody else owns.
 *
 * For:       what is to be sent, and what has come only in part.
 * Called by: every file of the load and soak clients.
 * Knows not: HTTP, sockets. */
#ifndef LOAD_BUFFER_H
#define LOAD_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    const char *at;
    size_t bytes;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})

static inline struct text text_of(const char *string)
{
    return (struct text){string, strlen(string)};
}

static inline bool text_equals(struct text text, struct text other)
{
    return text.bytes == other.bytes && memcmp(text.at, other.at, text.bytes) == 0;
}

/* Owned bytes; all zero is a good empty buffer. */
struct buffer {
    char *bytes;
    size_t count;
    size_t capacity;
};

/* Room for `more` bytes behind what is there. Ends the program when memory is gone. */
void buffer_grow(struct buffer *buffer, size_t more);
void buffer_fini(struct buffer *buffer);

/* Takes bytes off the front. */
void buffer_drop(struct buffer *buffer, size_t count);

static inline void buffer_add(struct buffer *buffer, const char *bytes, size_t count)
{
    if (count == 0)
        return;
    if (buffer->capacity - buffer->count < count)
        buffer_grow(buffer, count);
    memcpy(buffer->bytes + buffer->count, bytes, count);
    buffer->count += count;
}

static inline void buffer_add_text(struct buffer *buffer, struct text text)
{
    buffer_add(buffer, text.at, text.bytes);
}

#define buffer_add_literal(buffer, literal) buffer_add((buffer), (literal), sizeof(literal) - 1)

#endif
