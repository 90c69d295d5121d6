/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_tls.h: TLS 1.3 between a link and its socket.
 *
 * For:       what a link has to say is sealed, what came is opened; touches no socket.
 * Called by: load_client.c.
 * Knows not: HTTP but for the names that ALPN gives its versions.
 *
 * Every server is offered the same and nothing else: TLS 1.3, TLS_AES_128_GCM_SHA256, X25519 first,
 * one protocol by ALPN. No certificate is verified: servers stand on loopback, in the hands of
 * whoever measures them. */
#ifndef LOAD_TLS_H
#define LOAD_TLS_H

#include <openssl/ssl.h>

#include "bench/load_buffer.h"

/* The TLS of a link; it lives across connections, for the session's sake. */
struct tls_link {
    SSL *ssl;             /* NULL: no connection */
    SSL_SESSION *session; /* to be resumed; NULL: none yet, or not wanted */
    bool shaken;          /* the handshake is made */
    bool use_h2;
    const char *bytes; /* sealed bytes under way to the library */
    size_t count;
    struct buffer sealed; /* to be sent */
    size_t sealed_at;
};

/* The context of all links; NULL: OpenSSL refuses. */
SSL_CTX *tls_link_context(void);

/* Begins a connection; with `resume` by the session that the last one was given. */
bool tls_link_open(struct tls_link *tls, SSL_CTX *context, bool use_h2, bool resume);

/* Goes on with the handshake. false: it failed, *out_problem says why. */
bool tls_link_shake(struct tls_link *tls, const char **out_problem);

/* Was the handshake shortened by a session? */
bool tls_link_resumed(const struct tls_link *tls);

/* Hands over bytes that came; they are borrowed until tls_link_read() has returned 0. */
void tls_link_arrive(struct tls_link *tls, const char *bytes, size_t count);

/* Opens what is there into `to`. Returns 0 when there is no more, as behind the server's closing
 * word; false in *out_ok: broken. */
size_t tls_link_read(struct tls_link *tls, char *to, size_t room, bool *out_ok);

/* Seals bytes behind what is to be sent; false: broken. */
bool tls_link_seal(struct tls_link *tls, const char *bytes, size_t count);

/* Seals the closing word and ends the connection; `sealed` can still be sent. */
void tls_link_close(struct tls_link *tls);
void tls_link_fini(struct tls_link *tls);

#endif
