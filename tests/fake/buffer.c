/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/buffer.c: bytes that grow.
 *
 * For:       answers are built here and kept here when a socket does not take them at once.
 * Called by: every file of the simulated model server.
 * Knows not: HTTP, JSON, sockets. */
#include "tests/fake/buffer.h"

#include <stdio.h>
#include <stdlib.h>

void buffer_grow(struct buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity < 512 ? 1024 : buffer->capacity * 2;

    if (capacity < buffer->count + more)
        capacity = buffer->count + more;
    char *bytes = realloc(buffer->bytes, capacity);
    if (bytes == NULL) {
        fprintf(stderr, "fake: out of memory\n");
        abort();
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
}

void buffer_fini(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

void buffer_add_number(struct buffer *buffer, uint64_t number)
{
    char digits[24];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    buffer_add(buffer, digits + at, sizeof digits - at);
}

void buffer_add_hex(struct buffer *buffer, uint64_t number)
{
    char digits[16];
    size_t at = sizeof digits;

    do {
        digits[--at] = "0123456789abcdef"[number & 15];
        number >>= 4;
    } while (number != 0);
    buffer_add(buffer, digits + at, sizeof digits - at);
}

void buffer_add_fill(struct buffer *buffer, char byte, size_t count)
{
    buffer_reserve(buffer, count);
    memset(buffer->bytes + buffer->count, byte, count);
    buffer->count += count;
}
