/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/conn.h: one client socket: h1 or h2 by ALPN or by the first bytes.
 *
 * For:       bytes in to exchanges, answers to bytes out.
 * Called by: listener.c (accept), exchange.c (an answer is ready); h2.c shares the struct.
 * Knows not: keys, models, replicas.
 * Thread:    one worker. */
#ifndef GATEWAY_CONN_H
#define GATEWAY_CONN_H

#include <netinet/in.h>

#include "gateway/buffer.h"
#include "gateway/exchange.h"
#include "gateway/identity.h"
#include "gateway/io.h"
#include "gateway/server.h"

enum conn_protocol { CONN_UNKNOWN, CONN_H1, CONN_H2 };

/* Legal moves of a conn: open → closing (no new request is read, what is queued is flushed) →
 * closed (unlinked, in its grave). With TLS it opens shaking: no byte is read before hands are
 * shaken. */
enum conn_state { CONN_OPEN, CONN_CLOSING, CONN_CLOSED };

struct h2;

struct conn {
    struct io io;
    struct worker *worker;
    struct conn *next, *previous; /* worker->conns */
    enum conn_protocol protocol;
    enum conn_state state;
    bool admin;              /* of the admin listener */
    bool counted;            /* by its address */
    bool shaking;            /* TLS: the handshake is under way */
    struct in6_addr address; /* of the peer; IPv4 mapped */
    struct buffer in;        /* received, not yet understood */
    struct buffer left; /* copied output that the socket did not take (h2; h1 interim answers) */
    size_t left_at;
    struct wake wake;  /* something came */
    struct wake flush; /* late: something is to be sent */
    struct deadline deadline;
    struct grave grave;
    struct identity_memory identity;
    uint64_t progress_ns; /* last byte moved: for the write deadline */

    /* h1 */
    struct exchange *exchange; /* the request under way, NULL between two */
    struct h1_body body;       /* its body's reader */
    size_t scanned;            /* of the head under way */
    size_t skipped;            /* body bytes skipped after an early answer */
    uint64_t head_began_ns, body_began_ns, body_moved_ns;
    bool reading_body, keep_alive, http10, want_close;
    uint32_t frame_at; /* framed bytes of the cursor's chunk already sent */
    uint32_t head_at, head_size;
    char *head_text; /* the answer's head, in the exchange's arena */
    uint8_t last_at; /* bytes of "0\r\n\r\n" already sent */

    struct h2 *h2;
};

struct tls_context;

/* Takes an accepted, non-blocking socket over. address: NULL of a Unix socket, which is not
 * counted; context: NULL without TLS. */
void conn_open(struct worker *worker, int fd, const struct in6_addr *address, bool admin,
               struct tls_context *context);

/* Closes now: open exchanges are abandoned, the rest is freed at the end of the turn. */
void conn_close(struct conn *conn, bool reset);

/* An exchange's answer has moved on (head ready, rider fed or ended): flush in this turn. */
void conn_answer(struct exchange *x);

/* The process drains: idle conns close, h1 says connection: close, h2 says GOAWAY. */
void conn_drain(struct conn *conn);

/* May this host, as Host: or :authority says it, be asked for here? With TLS, the certificate must
 * cover it (RFC 9110 section 7.4). */
bool conn_serves(struct conn *conn, struct span host);

/* Is an answer of this conn under way, or bytes of one unsent? */
bool conn_has_output(const struct conn *conn);

/* Sets the conn's deadline to what its state asks for. */
void conn_set_deadline(struct conn *conn);

#endif
