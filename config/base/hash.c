/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/hash.c: digests, and bytes nobody can guess (OpenSSL's libcrypto).
 *
 * For:       key digests, file digests, random keys, tables of our own names.
 * Called by: every room.
 * Knows not: what is digested. */
#include "config/base/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

/* Fetching an algorithm takes locks and look-ups: once per process. The working context is one per
 * thread, freed when the thread ends. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t context_key;
static EVP_MD *sha256;

static void free_context(void *context)
{
    EVP_MD_CTX_free(context);
}

static void fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (sha256 == NULL || pthread_key_create(&context_key, free_context) != 0)
        abort(); /* a libcrypto without SHA-256: no key could ever be checked */
}

/* This thread's context. */
static EVP_MD_CTX *own_context(void)
{
    EVP_MD_CTX *context;

    (void)pthread_once(&once, fetch);
    context = pthread_getspecific(context_key);
    if (context == NULL) {
        context = EVP_MD_CTX_new();
        if (context == NULL || pthread_setspecific(context_key, context) != 0)
            abort();
    }
    return context;
}

void hash_sha256(struct span text, uint8_t out_digest[HASH_SHA256_BYTES])
{
    EVP_MD_CTX *context = own_context();

    if (EVP_DigestInit_ex(context, sha256, NULL) != 1 ||
        EVP_DigestUpdate(context, text.data, text.size) != 1 ||
        EVP_DigestFinal_ex(context, out_digest, NULL) != 1)
        abort(); /* fails on a broken libcrypto only; an unset digest must never be compared */
}

bool hash_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    return CRYPTO_memcmp(a, b, bytes) == 0;
}

void hash_random(void *out, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t got = getrandom((char *)out + done, bytes - done, 0);

        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR)
            abort(); /* keys that somebody could guess are worse than no gateway */
    }
}

uint64_t hash_text(struct span text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a's offset and prime, 64 bits */

    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (uint8_t)text.data[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd); /* MurmurHash3's finaliser */
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 33);
}

void hash_hex(const uint8_t *bytes, size_t size, char *out_text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        *out_text++ = digits[bytes[i] >> 4];
        *out_text++ = digits[bytes[i] & 15];
    }
    *out_text = '\0';
}
