/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/flight.h: one attempt's answer under way, and the riders that it feeds.
 *
 * For:       answer bytes as immutable counted chunks, each with the running usage at its end; each
 *            rider has its own cursor.
 * Called by: relay.c (fills), exchange.c and the protocols (take).
 * Knows not: HTTP, SSE, sockets.
 * Thread:    one worker. */
#ifndef GATEWAY_FLIGHT_H
#define GATEWAY_FLIGHT_H

#include "config/base/err.h"
#include "config/base/vocab.h"

struct flight;

/* "ffffffffffffffff\r\n" before and "\r\n" behind the data: so that HTTP/1.1 sends a chunk in one piece. */
#define CHUNK_FRAME_BYTES 20

struct chunk {
    struct chunk *next;
    uint32_t      refs;
    uint32_t      size;       /* of the data */
    uint32_t      room;       /* for data */
    uint32_t      frame_size; /* of the size line before the data; 0: not framed yet */
    struct usage  usage;      /* running totals at its end; USAGE_UNKNOWN: none known */
    int64_t       text_bytes; /* of the answer up to its end, for the estimator */
    uint32_t      events;     /* whole events in it */
    char          bytes[];    /* frame, data, CRLF */
};

/* A chunk with one reference and room for so many bytes. NULL without memory. */
MUST_CHECK struct chunk *chunk_new(size_t room);
void chunk_put(struct chunk *chunk);

static inline char *chunk_data(struct chunk *chunk)
{
    return chunk->bytes + CHUNK_FRAME_BYTES;
}

/* Writes the size line and the CRLF around the data; no more bytes may be added. Idempotent. */
void chunk_frame(struct chunk *chunk);

/* A seat in a flight (or, with flight NULL, at an answer of our own). Embedded in the exchange. */
struct rider {
    struct flight *flight;   /* NULL: no flight (yet, or no more) */
    struct chunk  *cursor;   /* next chunk to take (one reference); NULL: all taken so far */
    size_t         offset;   /* bytes of it already taken (data bytes; the protocol counts framed ones itself) */
    bool           ended;    /* nothing follows the chunks that are there */
    bool           broken;   /* … and the framing must be broken behind them */
    void (*fed)(struct rider *rider); /* doorbell: new chunks, or ended */
};

/* Bytes waiting for a rider. */
size_t rider_waiting(const struct rider *rider);

/* Puts a chunk (its reference goes over) at the end of what a rider without flight will take. */
void rider_feed(struct rider *rider, struct chunk *chunk);

/* Moves past the cursor's chunk: the reference goes, the cursor is the next chunk or NULL. */
void rider_next(struct rider *rider);

/* Drops what was not taken. */
void rider_fini(struct rider *rider);

#endif
