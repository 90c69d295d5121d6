/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/buffer.h: bytes that grow.
 *
 * For:       answers are built here and kept here when a socket does not take them at once.
 * Called by: every file of the simulated model server.
 * Knows not: HTTP, JSON, sockets. */
#ifndef FAKE_BUFFER_H
#define FAKE_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A piece of text that somebody else owns. */
struct text {
    const char *at;
    size_t bytes;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})

/* Owned bytes; all zero is a good empty buffer. */
struct buffer {
    char *bytes;
    size_t count;
    size_t capacity;
};

/* Room for `more` bytes behind what is there. Ends the program when memory is gone: this is a test
 * tool. */
void buffer_grow(struct buffer *buffer, size_t more);
void buffer_fini(struct buffer *buffer);

/* A number as decimal or (chunk sizes) hexadecimal text. */
void buffer_add_number(struct buffer *buffer, uint64_t number);
void buffer_add_hex(struct buffer *buffer, uint64_t number);

/* `count` times the same byte. */
void buffer_add_fill(struct buffer *buffer, char byte, size_t count);

static inline void buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->capacity - buffer->count < more)
        buffer_grow(buffer, more);
}

static inline void buffer_add(struct buffer *buffer, const char *bytes, size_t count)
{
    if (count == 0)
        return;
    buffer_reserve(buffer, count);
    memcpy(buffer->bytes + buffer->count, bytes, count);
    buffer->count += count;
}

static inline void buffer_add_text(struct buffer *buffer, struct text text)
{
    buffer_add(buffer, text.at, text.bytes);
}

static inline void buffer_add_string(struct buffer *buffer, const char *string)
{
    buffer_add(buffer, string, strlen(string));
}

#define buffer_add_literal(buffer, literal) buffer_add((buffer), (literal), sizeof(literal) - 1)

static inline int text_equals(struct text text, struct text other)
{
    return text.bytes == other.bytes &&
           (text.bytes == 0 || memcmp(text.at, other.at, text.bytes) == 0);
}

#endif
