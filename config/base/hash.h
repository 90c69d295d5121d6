/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/hash.h: digests, and bytes nobody can guess          (libcrypto, in hash.c alone)
 *
 * For:       key digests, cache salts, tables of names, ids that no other process has.
 * Called by: any room.
 * Knows not: what is a secret. */
#ifndef CONFIG_BASE_HASH_H
#define CONFIG_BASE_HASH_H

#include "config/base/vocab.h"

#define HASH_SHA256_BYTES 32

/* SHA-256 of text. Cheap for short texts: the algorithm is fetched once per thread. */
void hash_sha256(struct span text, uint8_t out_digest[HASH_SHA256_BYTES]);

/* Equal? In time that does not depend on where they differ. */
bool hash_equal(const uint8_t *a, const uint8_t *b, size_t bytes);

/* Random bytes from the kernel's generator; ends the process when it has none. */
void hash_random(void *out, size_t bytes);

/* 64 mixed bits of text (FNV-1a, a finaliser): for tables of our own names, not for attackers. */
uint64_t hash_text(struct span text);

/* bytes as 2 * bytes lower-case hex digits and a NUL. */
void hash_hex(const uint8_t *bytes, size_t size, char *out_text);

#endif
