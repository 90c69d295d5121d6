/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/unzip.h: gzip and deflate, unpacked in pieces              (zlib, in this file alone)
 *
 * For:       replies that a server compressed although nobody asked.
 * Called by: relay.c.
 * Knows not: what is in a reply. */
#ifndef GATEWAY_UNZIP_H
#define GATEWAY_UNZIP_H

#include "config/base/err.h"
#include "config/base/vocab.h"

struct unzip;

/* Does this content-encoding name a coding we can unpack (gzip, x-gzip, deflate)? */
bool unzip_knows(struct span content_encoding);

/* A reader bounded to ceiling_bytes of output in all (a bomb ends in ERR_TOO_LARGE). Which coding
 * it is, the first bytes say. NULL without memory; the caller owns it. */
MUST_CHECK struct unzip *unzip_new(size_t ceiling_bytes);
void unzip_free(struct unzip *unzip);

/* Unpacks some of *in (moved past what was read) into out. *out_size bytes were written; call again
 * while *out_size == room or *in is not empty. Errors: ERR_REPLICA_PROTOCOL (not that coding, or
 * something behind its end), ERR_TOO_LARGE, ERR_NO_MEMORY; *out_size bytes are good even then. */
MUST_CHECK enum err unzip_some(struct unzip *unzip, struct span *in, char *out, size_t room,
                               size_t *out_size);

#endif
