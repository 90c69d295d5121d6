/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tls_context.h: what all sessions of a listener or a replica share.
 *
 * For:       tls.c, which makes sessions of it; the rest of the house knows tls.h.
 * Called by: tls.c.
 * Knows not: sockets.
 * Thread:    never changes once made, but for what stands under its lock. */
#ifndef GATEWAY_TLS_CONTEXT_H
#define GATEWAY_TLS_CONTEXT_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "config/base/hash.h"
#include "gateway/tls.h"

#define TICKET_NAME_BYTES 16
#define TICKET_KEY_BYTES 32

/* What tickets are sealed with. */
struct ticket_key {
    uint8_t name[TICKET_NAME_BYTES];
    uint8_t cipher[TICKET_KEY_BYTES];
    uint8_t digest[TICKET_KEY_BYTES];
    uint64_t made_ns; /* 0: none */
};

/* The last session with one of the replicas that a context is for. */
struct kept_session {
    uint64_t place;
    SSL_SESSION *session; /* NULL: none */
};

#define SESSIONS_KEPT 16u

struct tls_context {
    struct tls_context *next;          /* of all that live; under the list's lock */
    uint32_t references;               /* likewise */
    uint8_t digest[HASH_SHA256_BYTES]; /* of all that makes it: same digest, same context */
    SSL_CTX *ssl;
    char name[256]; /* of a replica: who it must be, and what SNI says; "" for a listener */
    bool name_is_address;

    pthread_mutex_t lock;
    struct ticket_key tickets[2];                /* a listener's: the newest first */
    struct kept_session sessions[SESSIONS_KEPT]; /* of replicas, to be resumed; by place */
};

/* Why the library refused: a static text; fallback when it does not say. Empties its queue. */
const char *tls_reason(const char *fallback);

#endif
