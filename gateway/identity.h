/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/identity.h: API key to tenant.
 *
 * For:       Authorization: Bearer KEY, or x-api-key: KEY.
 * Called by: steps.c; admin.c for its token.
 * Knows not: what a tenant may do.
 * Thread:    any; a memory is its connection's. */
#ifndef GATEWAY_IDENTITY_H
#define GATEWAY_IDENTITY_H

#include "config/config.h"

/* The key that a connection has shown last: the next request on it nearly always shows the same,
 * and is then known without a digest. Zeroed: none. */
struct identity_memory {
    char *text; /* own copy */
    size_t size;
    uint64_t generation; /* of the snapshot that key points into */
    const struct config_key *key;
};

/* The key of a request. wall_us decides expiry, each time. memory may be NULL.
 * Errors: ERR_NO_KEY (no credential, or another scheme), ERR_BAD_KEY (unknown, expired, or not 1 to
 * 256 printable bytes). A miss costs the same work as a hit. */
MUST_CHECK enum err identity_find(const struct config *config, struct span authorization,
                                  struct span api_key, int64_t wall_us,
                                  struct identity_memory *memory,
                                  const struct config_key **out_key);

/* Wipes and frees it. */
void identity_forget(struct identity_memory *memory);

/* The token of "Bearer TOKEN" (scheme in any case); {NULL, 0}: another scheme or none. */
struct span identity_bearer(struct span authorization);

#endif
