/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/sign.c: Ed25519 signatures, and the files of their keys   (OpenSSL).
 *
 * For:       heads and anchors of the journal, and who checks them.
 * Called by: meter.
 * Knows not: what is signed. */
#include "config/base/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/hash.h"

#define PUBLIC_BYTES 32
#define SIGNATURE_BYTES 64
#define OTHERS (S_IRWXG | S_IRWXO)

struct sign_key {
    EVP_PKEY *key;
    EVP_MD_CTX *context;
    char id[SIGN_KEY_ID_BYTES];
};

struct verify_key {
    EVP_PKEY *key;
    char id[SIGN_KEY_ID_BYTES];
};

static bool name_key(EVP_PKEY *key, char id[SIGN_KEY_ID_BYTES])
{
    uint8_t public_bytes[PUBLIC_BYTES];
    uint8_t digest[HASH_SHA256_BYTES];
    size_t size = sizeof(public_bytes);

    if (EVP_PKEY_get_raw_public_key(key, public_bytes, &size) != 1 || size != PUBLIC_BYTES)
        return false;
    hash_sha256((struct span){(const char *)public_bytes, sizeof(public_bytes)}, digest);
    hash_hex(digest, (SIGN_KEY_ID_BYTES - 1) / 2, id);
    return true;
}

static bool is_ed25519(const EVP_PKEY *key)
{
    return key != NULL && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519;
}

/* ---- making ---- */

void sign_public_path(const char *path, char out[SIGN_PATH_BYTES])
{
    size_t size = strlen(path);

    if (size > 4 && (strcmp(path + size - 4, ".key") == 0 || strcmp(path + size - 4, ".pem") == 0))
        size -= 4;
    (void)snprintf(out, SIGN_PATH_BYTES, "%.*s.pub", (int)size, path);
}

/* The name of a file is on disk only when its directory is. */
static bool sync_directory_of(const char *path)
{
    char directory[SIGN_PATH_BYTES];
    char *slash;
    bool good;
    int fd;

    (void)snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (slash)
        slash[1] = '\0';
    fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

/* Writes aside, syncs, links: a file is whole or not there. A file that is there stays. */
static bool write_file(const char *path, mode_t mode, EVP_PKEY *key, bool private)
{
    char aside[SIGN_PATH_BYTES + 32];
    FILE *file = NULL;
    bool good = false;
    int fd;

    (void)snprintf(aside, sizeof(aside), "%s.%ld.new", path, (long)getpid());
    fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd >= 0)
        file = fdopen(fd, "w");
    if (file == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    good = private ? PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1
                   : PEM_write_PUBKEY(file, key) == 1;
    good = good && fflush(file) == 0 && fsync(fd) == 0;
    good = fclose(file) == 0 && good;
    /* link() and not rename(): of two processes that make a key, the first one's stays. */
    good = good && (link(aside, path) == 0 || errno == EEXIST);
    (void)unlink(aside);
    return good && sync_directory_of(path);
}

static enum err make_files(const char *path, char *problem, size_t problem_size)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    enum err err = OK;

    if (key == NULL || !write_file(path, 0600, key, true)) {
        (void)snprintf(problem, problem_size, "making the signing key %s: %s", path,
                       strerror(errno));
        err = ERR_INTERNAL;
    }
    EVP_PKEY_free(key);
    return err;
}

/* ---- reading ---- */

static enum err read_private(const char *path, EVP_PKEY **out_key, char *problem,
                             size_t problem_size)
{
    FILE *file = fopen(path, "re");
    struct stat about;
    enum err err = OK;

    if (file == NULL) {
        (void)snprintf(problem, problem_size, "signing key %s: %s", path, strerror(errno));
        return errno == ENOENT ? ERR_BAD_VALUE : ERR_INTERNAL;
    }
    if (fstat(fileno(file), &about) != 0 || (about.st_mode & OTHERS) != 0) {
        (void)snprintf(problem, problem_size,
                       "signing key %s: others may read it; chmod 600 it, and make a new one if "
                       "somebody has",
                       path);
        err = ERR_BAD_VALUE;
    } else {
        *out_key = PEM_read_PrivateKey(file, NULL, NULL, (void *)(uintptr_t) "");
        if (!is_ed25519(*out_key)) {
            (void)snprintf(problem, problem_size,
                           "signing key %s: expected an Ed25519 private key in PEM without a "
                           "passphrase",
                           path);
            err = ERR_BAD_VALUE;
        }
    }
    (void)fclose(file);
    return err;
}

/* The public key beside the private one, for who checks. It may be refused, where the key is only
 * read. */
static void keep_public(const char *path, const struct sign_key *key)
{
    char beside[SIGN_PATH_BYTES], old[SIGN_PATH_BYTES + SIGN_KEY_ID_BYTES], problem[64];
    struct verify_key *found = NULL;
    bool same;

    sign_public_path(path, beside);
    if (verify_key_open(beside, &found, problem, sizeof(problem)) == OK) {
        same = strcmp(found->id, key->id) == 0;
        (void)snprintf(old, sizeof(old), "%.*s.%s.pub", (int)strlen(beside) - 4, beside, found->id);
        verify_key_close(found);
        if (same || rename(beside, old) != 0)
            return;
    }
    (void)write_file(beside, 0644, key->key, false);
}

static enum err open_key(const char *path, struct sign_key *key, char *problem, size_t problem_size)
{
    const enum err err = read_private(path, &key->key, problem, problem_size);

    if (err != OK)
        return err;
    key->context = EVP_MD_CTX_new();
    if (key->context == NULL || !name_key(key->key, key->id)) {
        (void)snprintf(problem, problem_size, "signing key %s: no memory", path);
        return ERR_NO_MEMORY;
    }
    keep_public(path, key);
    return OK;
}

enum err sign_key_check(const char *path, char *problem, size_t problem_size)
{
    EVP_PKEY *key = NULL;
    const enum err err = read_private(path, &key, problem, problem_size);

    EVP_PKEY_free(key);
    return err;
}

enum err sign_key_open(const char *path, bool make, struct sign_key **out_key, char *problem,
                       size_t problem_size)
{
    struct sign_key *key = calloc(1, sizeof(*key));
    enum err err = key == NULL ? ERR_NO_MEMORY : OK;

    if (err == OK && make && access(path, F_OK) != 0 && errno == ENOENT)
        err = make_files(path, problem, problem_size);
    if (err == OK)
        err = open_key(path, key, problem, problem_size);
    if (err != OK) {
        sign_key_close(key);
        return err;
    }
    *out_key = key;
    return OK;
}

void sign_key_close(struct sign_key *key)
{
    if (key == NULL)
        return;
    EVP_MD_CTX_free(key->context);
    EVP_PKEY_free(key->key);
    free(key);
}

const char *sign_key_id(const struct sign_key *key)
{
    return key->id;
}

enum err sign_text(struct sign_key *key, struct span text, char out[SIGN_TEXT_BYTES])
{
    unsigned char signature[SIGNATURE_BYTES];
    size_t size = sizeof(signature);

    if (EVP_DigestSignInit(key->context, NULL, NULL, NULL, key->key) != 1 ||
        EVP_DigestSign(key->context, signature, &size, (const unsigned char *)text.data,
                       text.size) != 1)
        return ERR_INTERNAL;
    (void)EVP_EncodeBlock((unsigned char *)out, signature, (int)size);
    return OK;
}

/* ---- checking ---- */

enum err verify_key_open(const char *path, struct verify_key **out_key, char *problem,
                         size_t problem_size)
{
    FILE *file = fopen(path, "re");
    struct verify_key *key;

    if (file == NULL) {
        (void)snprintf(problem, problem_size, "public key %s: %s", path, strerror(errno));
        return errno == ENOENT ? ERR_BAD_VALUE : ERR_INTERNAL;
    }
    key = calloc(1, sizeof(*key));
    if (key != NULL)
        key->key = PEM_read_PUBKEY(file, NULL, NULL, NULL);
    (void)fclose(file);
    if (key == NULL)
        return ERR_NO_MEMORY;
    if (!is_ed25519(key->key) || !name_key(key->key, key->id)) {
        (void)snprintf(problem, problem_size,
                       "public key %s: expected an Ed25519 public key in PEM", path);
        verify_key_close(key);
        return ERR_BAD_VALUE;
    }
    *out_key = key;
    return OK;
}

void verify_key_close(struct verify_key *key)
{
    if (key == NULL)
        return;
    EVP_PKEY_free(key->key);
    free(key);
}

const char *verify_key_id(const struct verify_key *key)
{
    return key->id;
}

/* Exactly the base64 that sign_text() writes: 88 characters, the last two of them padding. */
static bool decode(struct span text, unsigned char out[SIGNATURE_BYTES])
{
    unsigned char bytes[SIGN_TEXT_BYTES];
    char again[SIGN_TEXT_BYTES];

    if (text.size != SIGN_TEXT_BYTES - 1 ||
        EVP_DecodeBlock(bytes, (const unsigned char *)text.data, (int)text.size) < SIGNATURE_BYTES)
        return false;
    memcpy(out, bytes, SIGNATURE_BYTES);
    /* One signature has one spelling: spare bits of the last character are not free to choose. */
    (void)EVP_EncodeBlock((unsigned char *)again, out, SIGNATURE_BYTES);
    return memcmp(again, text.data, text.size) == 0;
}

bool verify_text(const struct verify_key *key, struct span text, struct span signature)
{
    unsigned char bytes[SIGNATURE_BYTES];
    EVP_MD_CTX *context;
    bool good;

    if (!decode(signature, bytes))
        return false;
    context = EVP_MD_CTX_new();
    good = context != NULL && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key->key) == 1 &&
           EVP_DigestVerify(context, bytes, sizeof(bytes), (const unsigned char *)text.data,
                            text.size) == 1;
    EVP_MD_CTX_free(context);
    return good;
}
