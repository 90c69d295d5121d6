/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/sign.h: Ed25519 signatures, and the files of their keys   (OpenSSL).
 *
 * For:       heads and anchors of the journal, and who checks them.
 * Called by: meter.
 * Knows not: what is signed.
 *
 * Sources: RFC 8032 (Ed25519, pure), RFC 8410 (PKCS#8 and SubjectPublicKeyInfo in PEM). */
#ifndef CONFIG_BASE_SIGN_H
#define CONFIG_BASE_SIGN_H

#include "config/base/err.h"
#include "config/base/span.h"

/* 16 hex digits of SHA-256 of the public key's 32 bytes, and a NUL. */
#define SIGN_KEY_ID_BYTES 17
#define SIGN_TEXT_BYTES 89 /* a signature in base64, and a NUL */
#define SIGN_PATH_BYTES 4096

struct sign_key;   /* private and public */
struct verify_key; /* public alone */

/* Reads a private key's PEM file; makes a new key and its file (0600) when there is none and `make`
 * is set. Its public key lies beside it (0644); another key's that lies there is renamed x.ID.pub:
 * it is needed for what that key has signed. A file is whole or not there: written aside, synced,
 * linked. problem: what is wrong, in words. Errors:
 * ERR_BAD_VALUE (not such a key, or others may read the file), ERR_INTERNAL (the system). */
MUST_CHECK enum err sign_key_open(const char *path, bool make, struct sign_key **out_key,
                                  char *problem, size_t problem_size);
void sign_key_close(struct sign_key *key); /* NULL is fine */

/* Would sign_key_open() read this file? Makes nothing. Errors: as above. */
MUST_CHECK enum err sign_key_check(const char *path, char *problem, size_t problem_size);

/* Where the public key lies beside a private one: x.key and x.pem become x.pub. */
void sign_public_path(const char *path, char out[SIGN_PATH_BYTES]);

/* 16 hex digits and a NUL; lives as long as the key. */
const char *sign_key_id(const struct sign_key *key);

/* Signs text: base64 and a NUL. One thread at a time. */
MUST_CHECK enum err sign_text(struct sign_key *key, struct span text, char out[SIGN_TEXT_BYTES]);

/* Reads a public key's PEM file. Errors: as above. */
MUST_CHECK enum err verify_key_open(const char *path, struct verify_key **out_key, char *problem,
                                    size_t problem_size);
void verify_key_close(struct verify_key *key);
const char *verify_key_id(const struct verify_key *key);

/* Is this the base64 of a signature of text by this key? */
bool verify_text(const struct verify_key *key, struct span text, struct span signature);

#endif
