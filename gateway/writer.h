/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/writer.h: JSON text written into a growing, bounded buffer; pure.
 *
 * For:       what is translated from one API into another, and error bodies of unknown size.
 * Called by: translate*.c, fault.c; those that hand them one: parcel.c, relay.c, reply.c.
 * Knows not: what is written; it does not place commas.
 *
 * The first failure (no memory, or more than `most` bytes) sticks: later calls write nothing, and
 * the caller asks once, at the end. */
#ifndef GATEWAY_WRITER_H
#define GATEWAY_WRITER_H

#include "config/base/err.h"
#include "gateway/buffer.h"

struct writer {
    struct buffer text; /* the caller's to free */
    size_t most;        /* bytes that it may hold */
    enum err err;       /* OK, ERR_NO_MEMORY or ERR_TOO_LARGE */
};

/* An empty writer. */
static inline struct writer writer_new(size_t most)
{
    return (struct writer){{NULL, 0, 0}, most, OK};
}

/* Bytes as they are: punctuation, values taken over raw. */
void writer_put(struct writer *writer, struct span bytes);
#define writer_literal(writer, literal) writer_put((writer), SPAN(literal))

/* A decimal number. */
void writer_number(struct writer *writer, int64_t number);

/* text (UTF-8, no escapes) as a JSON string with its quotes. */
void writer_text(struct writer *writer, struct span text);

/* raw, the inside of a JSON string with its escapes as they came, as a JSON string with its quotes.
 */
void writer_raw(struct writer *writer, struct span raw);

#endif
