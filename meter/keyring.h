/* SPDX-License-Identifier: Apache-2.0 */
/* meter/keyring.h: the public keys that an audit believes.
 *
 * For:       a journal whose signing key was replaced: each signature is held against the key that
 *            it names, and each key's are counted.
 * Called by: audit.c, audit_names.c, chain.c.
 * Knows not: what is signed. */
#ifndef METER_KEYRING_H
#define METER_KEYRING_H

#include "config/base/sign.h"
#include "meter/books.h"

struct keyring_key {
    struct verify_key *key;
    struct audit_signer signer;
};

struct keyring {
    struct keyring_key keys[AUDIT_KEYS_MAX];
    size_t count;
};

#define KEYRING_TEXT_BYTES (AUDIT_KEYS_MAX * (SIGN_KEY_ID_BYTES + 1))

/* Takes the key of a PEM file, or those of all files *.pub and *.pem of a directory; a key that is
 * there already is not taken again. problem: in words. Errors: ERR_BAD_VALUE (no key, or too many),
 * ERR_INTERNAL (the system). keyring_close() in any case. */
MUST_CHECK enum err keyring_add(struct keyring *keyring, const char *path, char *problem,
                                size_t problem_size);
void keyring_close(struct keyring *keyring);

/* The key of this id; NULL: it is none of ours. */
struct keyring_key *keyring_find(struct keyring *keyring, struct span id);

/* Their ids: "77b…, 9ce…". */
const char *keyring_print(const struct keyring *keyring, char out[KEYRING_TEXT_BYTES]);

#endif
