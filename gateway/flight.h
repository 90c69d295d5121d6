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

/* "ffffffff\r\n" before and "\r\n" behind the data: so that HTTP/1.1 sends a chunk in one piece. */
#define CHUNK_FRAME_BYTES 12

struct chunk {
    struct chunk *next;
    uint32_t refs;
    uint32_t size;            /* of the data */
    uint32_t room;            /* for data */
    uint32_t frame_size;      /* of the size line before the data; 0: not framed yet */
    uint32_t flags;           /* enum usage_flag */
    enum usage_source source; /* of usage; SOURCE_NONE: none known */
    struct usage usage;       /* running totals at its end */
    int64_t text_bytes;       /* of the answer up to its end, for the estimator */
    int64_t pieces;           /* events with text up to its end, likewise; 0: no stream */
    bool ours;                /* made here (pings, error events), not by a replica */
    char bytes[];             /* frame, data, CRLF */
};

/* A chunk with one reference and room for so many bytes (< 4 GiB). NULL without memory. */
MUST_CHECK struct chunk *chunk_new(size_t room);
void chunk_put(struct chunk *chunk);

static inline char *chunk_data(struct chunk *chunk)
{
    return chunk->bytes + CHUNK_FRAME_BYTES;
}

/* Writes the size line and the CRLF around the data; no more bytes may be added. Idempotent. */
void chunk_frame(struct chunk *chunk);

struct flight;

/* A seat in a flight (or, with flight NULL, at an answer of our own). Embedded in the exchange. */
struct rider {
    struct flight *flight; /* NULL: no flight (yet, or no more) */
    struct rider *next;    /* in its flight */
    struct chunk *cursor;  /* next chunk to take; NULL: all taken so far */
    struct chunk *last;    /* where a chunk of our own is put; only while flight is NULL */
    size_t offset;         /* data bytes of the cursor already taken (HTTP/2 takes parts) */
    bool begun;            /* bytes of the cursor have been handed over: set by the protocols */
    size_t waiting;        /* data bytes not taken yet */
    bool ended;            /* nothing follows the chunks that are there */
    bool broken;           /* … and the framing must be broken behind them */
    void (*fed)(struct rider *rider); /* doorbell: new chunks, or ended */
};

/* Embedded in the attempt that fills it. */
struct flight {
    struct rider *riders;
    struct chunk *last; /* the newest chunk, while somebody still has to take it */
    bool ended, broken;
    bool paused; /* the upstream is not read: a rider has flight_bytes waiting */
    void (*drained)(struct flight *flight); /* doorbell: riders have taken enough to read on */
};

/* Takes a seat; the rider sees what comes from now on. */
void flight_join(struct flight *flight, struct rider *rider);

/* Leaves; chunks not taken stay the rider's. */
void flight_leave(struct rider *rider);

/* Puts a chunk (its reference goes over) at the end, for every rider. */
void flight_append(struct flight *flight, struct chunk *chunk);

/* Nothing follows. */
void flight_end(struct flight *flight, bool broken);

/* The most bytes any rider has waiting. */
size_t flight_waiting(const struct flight *flight);

/* Puts a chunk (its reference goes over) behind what a rider without flight will take. */
void rider_feed(struct rider *rider, struct chunk *chunk);

/* Moves past the cursor's chunk: the cursor is the next chunk or NULL. */
void rider_next(struct rider *rider);

/* Leaves the flight and drops what was not begun: a chunk of which bytes have gone out must follow
 * whole. For a rider that is alone on what it holds. */
void rider_cut(struct rider *rider);

/* Leaves the flight and drops what was not taken. */
void rider_fini(struct rider *rider);

#endif
