/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/relay.h: answer bytes to the client, back-pressure, the usage tap.
 *
 * For:       a replica's body pieces to chunks of the flight: whole events, unchanged but for
 *            usage that the client did not ask for; other bodies as they come.
 * Called by: replica.c.
 * Knows not: sockets, framing. */
#ifndef GATEWAY_RELAY_H
#define GATEWAY_RELAY_H

#include "gateway/replica.h"

/* The head has come: decides how the body is read. Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err relay_begin(struct attempt *attempt);

/* A piece of the body, borrowed. room_hint: bytes that this read may still bring. Errors:
 * ERR_EVENT_TOO_LARGE, ERR_NO_MEMORY, ERR_REPLICA_PROTOCOL. */
MUST_CHECK enum err relay_piece(struct attempt *attempt, struct span piece, size_t room_hint);

/* The read is over: what it brought goes to the riders. */
void relay_flush(struct attempt *attempt);

/* Is the answer's head ready for the client? Not while its body decides what it will say. */
bool relay_has_head(const struct attempt *attempt);

/* Do bytes wait here until riders have taken more? Then nothing further is read. */
bool relay_is_behind(const struct attempt *attempt);

/* Goes on with them, as far as riders take them. Errors: as relay_piece(). */
MUST_CHECK enum err relay_catch_up(struct attempt *attempt);

/* The body is whole (framing): OK, or ERR_REPLICA_GONE when it is an event stream that ended
 * without its end. */
MUST_CHECK enum err relay_end(struct attempt *attempt);

/* Puts an error event of ours at the end of an event stream. */
void relay_error_event(struct attempt *attempt, enum err err);

/* Frees what belongs to the relay. */
void relay_fini(struct attempt *attempt);

#endif
