/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/link.h: one connection to a replica.
 *
 * For:       name look-up, connect, handshake; and pools of connections kept for the next user.
 * Called by: replica.c for attempts, and whoever else has something to ask a replica.
 * Knows not: what is sent on it.
 * Thread:    one worker.
 * Promises:  1. Two replicas share a connection only when all that makes it is equal: address and
 *            port or path, and everything of TLS.
 *            2. A link that is taken holds no byte of its last user.
 *            3. Nothing is borrowed after link_dial().
 * Example:   link = link_dial(worker, replica, config, &mine->wake, false);
 *            … and whenever the wake runs:
 *            enum link_state state = link_open(link);
 *            if (state == LINK_OPENING)     return, to be rung again: the deadline is the user's
 *            if (state == LINK_FAILED)      say(link->problem), link_close(link)
 *            if (state == LINK_READY)       … io_send(&link->io, …), io_recv(&link->io, …)
 *            at the end: link_keep(link, config) when the answer was whole, else link_close(link).
 *
 * Moves of a link: opening → ready → kept → ready …, or failed from opening; closed from any. */
#ifndef GATEWAY_LINK_H
#define GATEWAY_LINK_H

#include "gateway/buffer.h"
#include "gateway/io.h"
#include "gateway/server.h"

enum link_state {
    LINK_OPENING, /* the name is looked up, the socket connects, hands are shaken */
    LINK_READY,   /* its user's */
    LINK_KEPT,    /* in its pool */
    LINK_FAILED   /* problem says why; to be closed */
};

struct link {
    struct io io;
    struct worker *worker;
    enum link_state state;
    struct wake *user;   /* rung when it moves, has bytes or takes some; NULL while kept */
    const char *problem; /* once failed: a static text */
    bool ours;           /* once failed: for want of memory or a descriptor of ours, which says
                            nothing of the replica */
    bool reused;         /* it was kept: the replica may have closed it meanwhile */
    struct buffer in;    /* the user's: bytes of a head that is not whole; empty when kept */
    size_t scanned;      /* the user's: of in; 0 when kept */

    struct pool *pool;
    struct link *next, *previous; /* in the pool, newest first */
    struct opening *opening;      /* until it is ready */
    uint64_t kept_ns;
    struct deadline deadline;
    struct grave grave;
};

/* A kept connection to the replica, ready; or a new one that opens. fresh: never a kept one.
 * NULL: no memory. */
MUST_CHECK struct link *link_dial(struct worker *worker, const struct config_replica *replica,
                                  const struct config *config, struct wake *user, bool fresh);

/* Goes on opening it; to be called when the user is rung. Returns its state. */
enum link_state link_open(struct link *link);

/* What an opening link waits for, as a text for the operator when it came too late. */
const char *link_waits_for(const struct link *link);

/* Gives it back for the next user, or closes it: when as many are kept, or it is not quiet. Its
 * answer must be whole. */
void link_keep(struct link *link, const struct config *config);

/* Closes it, in any state. */
void link_close(struct link *link);

/* Closes all kept connections of a worker. */
void link_close_kept(struct worker *worker);

#endif
