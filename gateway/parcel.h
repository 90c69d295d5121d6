/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/parcel.h: an ask as one replica gets it, head and body, as pieces to be sent.
 *
 * For:       what goes to a replica and nothing else: our path, a few fields, the body with its
 *            splices or, where the replica lacks the API that was asked for, translated.
 * Called by: replica.c.
 * Knows not: sockets, answers.
 * Memory:    on the heap, not in the arena: a stream that runs for minutes does not keep its
 *            request. The pieces point into the exchange's body, which must stay until all is
 *            sent. */
#ifndef GATEWAY_PARCEL_H
#define GATEWAY_PARCEL_H

#include <sys/uio.h>

#include "gateway/exchange.h"

struct parcel {
    struct iovec *pieces; /* head and body as they go out; NULL: none laid out, or forgotten */
    int count, at;        /* pieces in all, and the first that is not sent whole */
    size_t to_send;       /* bytes not sent yet */
    struct body written;  /* a translated body, which the pieces then point into */
};

/* Lays out the ask of x for a replica of model; anew when it was laid out before. Errors:
 * ERR_NO_MEMORY, ERR_BODIES_FULL; ERR_BAD_VALUE and what ask_read() says when the ask cannot be
 * translated (*out_problem then says why). */
MUST_CHECK enum err parcel_pack(struct parcel *parcel, struct exchange *x,
                                const struct config_model *model,
                                const struct config_replica *replica,
                                struct ask_problem *out_problem);

/* So many bytes were sent. */
void parcel_sent(struct parcel *parcel, size_t bytes);

/* Frees it. Safe twice. */
void parcel_free(struct parcel *parcel);

#endif
