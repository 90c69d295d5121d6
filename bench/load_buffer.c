/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_buffer.c: bytes that grow.
 *
 * For:       what is to be sent, and what has come only in part.
 * Called by: every file of the load and soak clients (also part of build/soak).
 * Knows not: HTTP, sockets. */
#include "bench/load_buffer.h"

#include <stdio.h>
#include <stdlib.h>

void buffer_grow(struct buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity < 512 ? 1024 : buffer->capacity * 2;

    if (capacity < buffer->count + more)
        capacity = buffer->count + more;
    char *bytes = realloc(buffer->bytes, capacity);
    if (bytes == NULL) {
        fprintf(stderr, "out of memory\n");
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

void buffer_drop(struct buffer *buffer, size_t count)
{
    buffer->count -= count;
    if (buffer->count > 0)
        memmove(buffer->bytes, buffer->bytes + count, buffer->count);
}
