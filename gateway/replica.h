/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/replica.h: attempts on model servers.
 *
 * For:       one try of an exchange on the replica that its ticket names: a link (link.h), the
 *            request out, head and body in, and the relay (relay.h) that the body goes through.
 * Called by: steps.c; feeds relay.c.
 * Knows not: who asks, what an event says.
 * Thread:    one worker.
 *
 * Moves of an attempt: connecting → sending → waiting → body → ended, or ended from
 * anywhere (attempt_end() makes that move, reports to the router and gives the ticket back). A kept
 * connection is sent on at once; one that turns out closed before any byte came goes back to
 * connecting, once. We never half-close: a model server takes FIN for "the client has left". */
#ifndef GATEWAY_REPLICA_H
#define GATEWAY_REPLICA_H

#include "gateway/exchange.h"
#include "gateway/link.h"
#include "gateway/parcel.h"
#include "gateway/relay.h"

enum attempt_state {
    ATTEMPT_CONNECTING,
    ATTEMPT_SENDING,
    ATTEMPT_WAITING, /* for the head */
    ATTEMPT_BODY,
    ATTEMPT_ENDED /* the connection is gone from here: back in the pool or closed */
};

struct link;
struct resolve;

struct attempt {
    struct worker *worker;
    struct exchange *exchange;
    const struct config_model *model; /* borrowed from the exchange's snapshot */
    const struct config_replica *replica;
    struct link *link; /* the connection; NULL before and after */
    enum attempt_state state;
    enum attempt_result result; /* once ended */
    enum err cause;             /* once ended, OK if all went well */
    uint64_t began_ns, sent_ns, head_ns;
    struct parcel parcel; /* what is sent, until the answer's body begins */
    bool any_byte;        /* the replica has said something on this connection */
    bool fresh_only;      /* a kept connection was stale: open a new one */
    bool keep_link;       /* the answer allows another request on the connection */
    bool whole;           /* the answer came to its proper end */
    bool dropped;         /* its exchange does not want it any more */
    uint32_t interims;    /* 1xx heads seen */
    struct h1_body body;

    /* the answer's head, for step_send */
    bool head_ready; /* status and fields are there; for event streams the first event, too */
    int status;
    enum h1_framing framing;
    uint64_t length;
    struct field *fields; /* in the exchange's arena, names in lower case */
    uint32_t field_count;
    struct span content_encoding;

    struct relay relay; /* its body on the way to the client */

    struct wake wake;
    struct deadline deadline;
    struct grave grave;
};

/* Opens x->attempt on the replica of its granted ticket. Errors: those of parcel_pack() (the ticket
 * stays granted). */
MUST_CHECK enum err attempt_open(struct exchange *x, struct ask_problem *out_problem);

/* Drops x->attempt and what its rider has not taken: an answer under way is cut (the connection is
 * closed), with this result. One that has ended already keeps the result that it had. */
void attempt_drop(struct exchange *x, enum attempt_result result);

/* Has the whole answer come, and waits its end for its row (durability: power)? Then step_relay()
 * releases it and ends the flight. */
bool attempt_holds_end(const struct attempt *attempt);

/* Ends an attempt: the connection is kept or closed, the router is told, the ticket goes back,
 * riders see the end. For replica.c and relay.c. */
void attempt_end(struct attempt *attempt, enum attempt_result result, enum err cause);

/* What a whole answer with this status says of its replica. */
enum attempt_result attempt_result_of(int status);

#endif
