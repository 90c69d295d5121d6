/* SPDX-License-Identifier: Apache-2.0 */
/* meter/keyring.c: the public keys that an audit believes.
 *
 * For:       reading them, and finding the one that a signature names.
 * Called by: audit.c, audit_names.c, chain.c.
 * Knows not: what is signed. */
#include "meter/keyring.h"

#include <dirent.h>
#include <stdio.h>

static enum err add_file(struct keyring *keyring, const char *path, char *problem,
                         size_t problem_size)
{
    struct verify_key *key = NULL;
    struct keyring_key *place = &keyring->keys[keyring->count];
    enum err err;

    if (keyring->count == AUDIT_KEYS_MAX) {
        (void)snprintf(problem, problem_size, "%s: more than %u public keys", path, AUDIT_KEYS_MAX);
        return ERR_BAD_VALUE;
    }
    err = verify_key_open(path, &key, problem, problem_size);
    if (err != OK)
        return err;
    if (keyring_find(keyring, span_of(verify_key_id(key)))) {
        verify_key_close(key);
        return OK;
    }
    *place = (struct keyring_key){.key = key};
    (void)snprintf(place->signer.key, sizeof(place->signer.key), "%s", verify_key_id(key));
    keyring->count++;
    return OK;
}

static bool is_key_name(const char *name)
{
    const char *ending = strrchr(name, '.');

    return ending && name[0] != '.' && (strcmp(ending, ".pub") == 0 || strcmp(ending, ".pem") == 0);
}

static enum err add_directory(struct keyring *keyring, DIR *listing, const char *path,
                              char *problem, size_t problem_size)
{
    const struct dirent *entry;
    bool any = false;
    enum err err = OK;

    while (err == OK && (entry = readdir(listing)) != NULL) {
        char file[SIGN_PATH_BYTES];
        const int size = snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);

        if (!is_key_name(entry->d_name) || size < 0 || (size_t)size >= sizeof(file))
            continue;
        err = add_file(keyring, file, problem, problem_size);
        any = true;
    }
    if (err != OK || any)
        return err;
    (void)snprintf(problem, problem_size, "%s: no file *.pub or *.pem in it", path);
    return ERR_BAD_VALUE;
}

enum err keyring_add(struct keyring *keyring, const char *path, char *problem, size_t problem_size)
{
    DIR *listing = opendir(path);
    enum err err;

    if (!listing) /* it is no directory, or verify_key_open() says what else is wrong with it */
        return add_file(keyring, path, problem, problem_size);
    err = add_directory(keyring, listing, path, problem, problem_size);
    (void)closedir(listing);
    return err;
}

void keyring_close(struct keyring *keyring)
{
    for (size_t i = 0; i < keyring->count; i++)
        verify_key_close(keyring->keys[i].key);
    keyring->count = 0;
}

struct keyring_key *keyring_find(struct keyring *keyring, struct span id)
{
    for (size_t i = 0; i < keyring->count; i++)
        if (span_equal(span_of(keyring->keys[i].signer.key), id))
            return &keyring->keys[i];
    return NULL;
}

const char *keyring_print(const struct keyring *keyring, char out[KEYRING_TEXT_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < keyring->count && used < KEYRING_TEXT_BYTES; i++)
        used += (size_t)snprintf(out + used, KEYRING_TEXT_BYTES - used, "%s%s", i > 0 ? ", " : "",
                                 keyring->keys[i].signer.key);
    return out;
}
