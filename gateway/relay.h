/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/relay.h: answer bytes to the client, back-pressure, the usage tap.
 *
 * For:       a replica's body pieces to chunks of the flight: whole events, unchanged but for
 *            usage that the client did not ask for; other bodies as they come.
 * Called by: replica.c; steps.c reads what it has found.
 * Knows not: sockets, framing.
 *
 * A relay is a part of its attempt (replica.h). What needs only the relay takes it; what also needs
 * the worker, the exchange, the model or the answer's head takes the attempt, which has them. */
#ifndef GATEWAY_RELAY_H
#define GATEWAY_RELAY_H

#include "gateway/buffer.h"
#include "gateway/flight.h"
#include "gateway/rewrite.h"
#include "gateway/sse.h"
#include "gateway/tally.h"

struct attempt;
struct translator;
struct unzip;

/* All zero before relay_begin(), but for the flight, which riders join earlier. */
struct relay {
    struct flight flight;
    struct chunk *building; /* what this read has brought so far */
    struct chunk *held, *held_last; /* the answer's last bytes, while they wait for its row */
    struct sse sse;
    struct buffer pending; /* bytes of an event that is not whole, empty mostly */
    struct tap_memo *memo; /* of an event stream; on the heap, since other answers need none */
    struct tap tap;
    struct tally tally;
    struct unzip *unzip;
    enum rewrite rewrite;
    struct translator *translator; /* of an answer that is translated */
    struct buffer kept;            /* of a body that must be whole before it can be passed on */
    struct buffer packed;          /* compressed bytes that wait until riders have taken more */
    bool unzip_more;               /* unzip holds more for them, perhaps without further input */
    bool end_seen;                 /* the body's end was read, but packed is not passed on yet */
    bool events;                   /* text/event-stream */
    bool decode;                   /* the client gets it unpacked */
    bool begun;                    /* an event (or a body byte) is for the client */
    bool done_seen, finish_seen, error_seen;
    bool holds;  /* the last bytes wait until the answer's row is synced (durability: power) */
    bool ending; /* what is flushed now is the last */
};

/* The head has come: decides how the body is read. Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err relay_begin(struct attempt *attempt);

/* A piece of the body, borrowed. room_hint: bytes that this read may still bring. Errors:
 * ERR_EVENT_TOO_LARGE, ERR_NO_MEMORY, ERR_REPLICA_PROTOCOL. */
MUST_CHECK enum err relay_piece(struct attempt *attempt, struct span piece, size_t room_hint);

/* The read is over: what it brought goes to the riders, or is held. */
void relay_flush(struct relay *relay);

/* What was held goes to the riders. Safe when nothing was. */
void relay_release(struct relay *relay);

/* Bytes of the answer that riders have not been given yet, or have not taken. */
size_t relay_waiting(const struct relay *relay);

/* Is the answer's head ready for the client? Not while its body decides what it will say. */
bool relay_has_head(const struct relay *relay);

/* Do bytes wait here until riders have taken more? Then nothing further is read. */
bool relay_is_behind(const struct relay *relay);

/* Goes on with them, as far as riders take them. Errors: as relay_piece(). */
MUST_CHECK enum err relay_catch_up(struct attempt *attempt);

/* The body is whole (framing): OK, or ERR_REPLICA_GONE when it is an event stream that ended
 * without its end. */
MUST_CHECK enum err relay_end(struct attempt *attempt);

/* Puts an error event of ours at the end of an event stream. */
void relay_error_event(struct attempt *attempt, enum err err);

/* Frees what belongs to the relay. */
void relay_fini(struct relay *relay);

#endif
