/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/unzip.c: gzip and deflate, unpacked in pieces              (zlib, in this file alone)
 *
 * For:       replies that a server compressed although nobody asked.
 * Called by: relay.c.
 * Knows not: what is in a reply.
 *
 * "deflate" means zlib's wrapping (RFC 9110, section 8.4.1.2), but some servers send it bare; the
 * first two bytes tell all three codings apart. */
#include "gateway/unzip.h"

#include <stdlib.h>
#include <zlib.h>

#include "config/base/span.h"

#define HEAD_BYTES 2
#define WINDOW_BITS 15
#define WITH_GZIP 16

struct unzip {
    z_stream stream;
    bool begun;        /* the coding is known and stream is set up */
    bool gzip;         /* whose members may follow each other */
    bool ended;        /* the last one is whole */
    uint8_t head_size; /* bytes gathered in head */
    uint8_t head_read; /* bytes of it that stream has read */
    Bytef head[HEAD_BYTES];
    size_t left_bytes; /* of the ceiling */
};

bool unzip_knows(struct span content_encoding)
{
    return span_equal_nocase(content_encoding, SPAN("gzip")) ||
           span_equal_nocase(content_encoding, SPAN("x-gzip")) ||
           span_equal_nocase(content_encoding, SPAN("deflate"));
}

struct unzip *unzip_new(size_t ceiling_bytes)
{
    struct unzip *unzip = calloc(1, sizeof(*unzip));

    if (unzip != NULL)
        unzip->left_bytes = ceiling_bytes;
    return unzip;
}

void unzip_free(struct unzip *unzip)
{
    if (unzip == NULL)
        return;
    if (unzip->begun)
        (void)inflateEnd(&unzip->stream);
    free(unzip);
}

/* Sets the stream up by the first two bytes. */
static enum err begin(struct unzip *unzip)
{
    const unsigned first = unzip->head[0];
    const unsigned second = unzip->head[1];
    const bool zlib = (first & 0x0f) == Z_DEFLATED && (first << 8 | second) % 31 == 0;

    unzip->gzip = first == 0x1f && second == 0x8b;
    if (inflateInit2(&unzip->stream, unzip->gzip ? WINDOW_BITS + WITH_GZIP
                                     : zlib      ? WINDOW_BITS
                                                 : -WINDOW_BITS) != Z_OK)
        return ERR_NO_MEMORY;
    unzip->begun = true;
    return OK;
}

/* Gathers the bytes that tell the coding; false: there are not enough yet. */
static bool gather_head(struct unzip *unzip, struct span *in)
{
    while (unzip->head_size < HEAD_BYTES && in->size > 0) {
        unzip->head[unzip->head_size++] = (Bytef)in->data[0];
        *in = span_from(*in, 1);
    }
    return unzip->head_size == HEAD_BYTES;
}

/* Inflates from data, at most what an uInt holds. *out_read bytes were read of it. */
static enum err inflate_some(struct unzip *unzip, struct span data, char *out, size_t room,
                             size_t *out_read, size_t *out_size)
{
    z_stream *stream = &unzip->stream;
    const uInt given = data.size < UINT32_MAX ? (uInt)data.size : UINT32_MAX;
    const uInt space = room < UINT32_MAX ? (uInt)room : UINT32_MAX;
    int result;

    stream->next_in = (z_const Bytef *)(uintptr_t)data.data;
    stream->avail_in = given;
    stream->next_out = (Bytef *)out;
    stream->avail_out = space;
    result = inflate(stream, Z_NO_FLUSH);
    *out_read = given - stream->avail_in;
    *out_size = space - stream->avail_out;
    if (result == Z_STREAM_END)
        unzip->ended = true;
    else if (result == Z_MEM_ERROR)
        return ERR_NO_MEMORY;
    else if (result != Z_OK && result != Z_BUF_ERROR)
        return ERR_REPLICA_PROTOCOL;
    return OK;
}

/* What is to be inflated next: the first bytes, kept, then what was given. */
static struct span next_data(const struct unzip *unzip, struct span in)
{
    if (unzip->head_read == HEAD_BYTES)
        return in;
    return (struct span){(const char *)unzip->head + unzip->head_read,
                         (size_t)(HEAD_BYTES - unzip->head_read)};
}

enum err unzip_some(struct unzip *unzip, struct span *in, char *out, size_t room, size_t *out_size)
{
    enum err err = OK;
    size_t read = 1;
    size_t written = 0;
    char spare; /* room for the byte that is too much */

    *out_size = 0;
    if (!unzip->begun) {
        if (!gather_head(unzip, in))
            return OK;
        err = begin(unzip);
    }
    while (err == OK && *out_size < room && read + written > 0) {
        const struct span data = next_data(unzip, *in);
        const bool full = unzip->left_bytes == 0;
        size_t space = room - *out_size;

        if (unzip->ended) {
            if (data.size == 0)
                break;
            if (!unzip->gzip || inflateReset(&unzip->stream) != Z_OK)
                return ERR_REPLICA_PROTOCOL;
            unzip->ended = false;
        }
        if (full)
            space = 1;
        else if (space > unzip->left_bytes)
            space = unzip->left_bytes;
        err = inflate_some(unzip, data, full ? &spare : out + *out_size, space, &read, &written);
        if (unzip->head_read < HEAD_BYTES)
            unzip->head_read = (uint8_t)(unzip->head_read + read);
        else
            *in = span_from(*in, read);
        if (full && written > 0)
            return ERR_TOO_LARGE;
        *out_size += written;
        unzip->left_bytes -= written;
    }
    return err;
}
