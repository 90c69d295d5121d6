/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/flight.c: see flight.h.
 *
 * For:       who may free a chunk, and when.
 * Called by: relay.c (fills), exchange.c and the protocols (take).
 * Knows not: HTTP, SSE, sockets.
 *
 * Chunks form one list per flight. A rider's cursor holds a reference on its chunk, a chunk holds
 * one on the next, the flight holds none: so what every rider has taken goes by itself, and what a
 * slow rider has not taken stays. */
#include "gateway/flight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RESUME_BELOW_BYTES 65536u

struct chunk *chunk_new(size_t room)
{
    struct chunk *chunk = malloc(sizeof *chunk + CHUNK_FRAME_BYTES + room + 2);
    if (chunk == NULL)
        return NULL;
    chunk->next = NULL;
    chunk->refs = 1;
    chunk->size = 0;
    chunk->room = (uint32_t)room;
    chunk->frame_size = 0;
    chunk->flags = 0;
    chunk->source = SOURCE_NONE;
    chunk->usage = USAGE_UNKNOWN;
    chunk->text_bytes = 0;
    chunk->pieces = 0;
    chunk->ours = false;
    return chunk;
}

void chunk_put(struct chunk *chunk)
{
    while (chunk && --chunk->refs == 0) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void chunk_frame(struct chunk *chunk)
{
    if (chunk->frame_size)
        return;
    char *at = chunk_data(chunk);
    uint32_t size = chunk->size;
    *--at = '\n';
    *--at = '\r';
    do {
        *--at = "0123456789abcdef"[size & 15u];
        size >>= 4;
    } while (size);
    chunk->frame_size = (uint32_t)(chunk_data(chunk) - at);
    memcpy(chunk_data(chunk) + chunk->size, "\r\n", 2);
}

void flight_join(struct flight *flight, struct rider *rider)
{
    assert(rider->cursor == NULL || flight->last == NULL);
    if (rider->cursor) /* what was fed to it before comes first */
        flight->last = rider->last;
    rider->flight = flight;
    rider->next = flight->riders;
    flight->riders = rider;
    if (flight->ended) {
        rider->ended = true;
        rider->broken = flight->broken;
    }
}

void flight_leave(struct rider *rider)
{
    struct flight *flight = rider->flight;
    if (flight == NULL)
        return;
    struct rider **link = &flight->riders;
    while (*link != rider)
        link = &(*link)->next;
    *link = rider->next;
    rider->flight = NULL;
    rider->last = flight->last;
    if (flight->riders == NULL)
        flight->last = NULL;
}

void flight_append(struct flight *flight, struct chunk *chunk)
{
    chunk_frame(chunk);
    if (flight->last) {
        flight->last->next = chunk;
        chunk->refs++;
    }
    for (struct rider *rider = flight->riders; rider; rider = rider->next) {
        rider->waiting += chunk->size;
        if (rider->cursor == NULL) {
            rider->cursor = chunk;
            rider->offset = 0;
            chunk->refs++;
        }
        rider->fed(rider);
    }
    flight->last = flight->riders ? chunk : NULL;
    chunk_put(chunk);
}

void flight_end(struct flight *flight, bool broken)
{
    if (flight->ended)
        return;
    flight->ended = true;
    flight->broken = broken;
    for (struct rider *rider = flight->riders; rider; rider = rider->next) {
        rider->ended = true;
        rider->broken = broken;
        rider->fed(rider);
    }
}

size_t flight_waiting(const struct flight *flight)
{
    size_t most = 0;
    for (const struct rider *rider = flight->riders; rider; rider = rider->next)
        if (rider->waiting > most)
            most = rider->waiting;
    return most;
}

void rider_feed(struct rider *rider, struct chunk *chunk)
{
    assert(rider->flight == NULL);
    chunk_frame(chunk);
    if (rider->cursor == NULL) {
        rider->cursor = chunk;
        rider->offset = 0;
    } else {
        rider->last->next = chunk;
    }
    rider->last = chunk;
    rider->waiting += chunk->size;
    if (rider->fed)
        rider->fed(rider);
}

void rider_next(struct rider *rider)
{
    struct chunk *chunk = rider->cursor;
    struct flight *flight = rider->flight;
    rider->waiting -= chunk->size;
    rider->offset = 0;
    rider->begun = false;
    rider->cursor = chunk->next;
    if (chunk->next)
        chunk->next->refs++;
    /* The last reference on the newest chunk is going: the flight must not append to it. */
    if (flight && flight->last == chunk && chunk->refs == 1)
        flight->last = NULL;
    chunk_put(chunk);
    if (flight && flight->paused && flight_waiting(flight) < RESUME_BELOW_BYTES)
        flight->drained(flight);
}

void rider_cut(struct rider *rider)
{
    struct chunk *kept = rider->cursor;
    flight_leave(rider);
    if (!rider->begun) {
        while (rider->cursor)
            rider_next(rider);
        return;
    }
    assert(kept->refs == 1);
    chunk_put(kept->next);
    kept->next = NULL;
    rider->last = kept;
    rider->waiting = kept->size;
}

void rider_fini(struct rider *rider)
{
    while (rider->cursor)
        rider_next(rider);
    flight_leave(rider);
    rider->last = NULL;
}
