/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_keys.c: tollgate keys new [--id ID] [--json].
 *
 * For:       operators who let a tenant in.
 * Called by: main.c.
 * Knows not: which keys exist; the file keeps only the digest that is printed here. */
#include <stdio.h>

#include "config/config.h"
#include "gateway/cmd.h"

#define SECRET_BYTES 32 /* 256 bits: nobody tries them all, so a plain digest is enough */

static int usage(void)
{
    (void)fprintf(stderr, "usage: tollgate keys new [--id ID] [--json]\n");
    return 2;
}

/* Letters, digits and ._-: what needs no quotes in the entry. */
static bool is_id(const char *id)
{
    const size_t size = strlen(id);

    return size >= 1 && size <= 64 &&
           strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size;
}

static void print_new_key(const char *id, bool json)
{
    uint8_t secret[SECRET_BYTES];
    uint8_t digest[HASH_SHA256_BYTES];
    char hex[2 * HASH_SHA256_BYTES + 1];
    char key[sizeof("tg-") + sizeof(hex)];

    hash_random(secret, sizeof(secret));
    hash_hex(secret, sizeof(secret), hex);
    (void)snprintf(key, sizeof(key), "tg-%s", hex);
    hash_sha256(span_of(key), digest);
    hash_hex(digest, sizeof(digest), hex);
    if (json)
        (void)printf("{\"id\":\"%s\",\"key\":\"%s\",\"digest\":\"sha256:%s\"}\n", id, key, hex);
    else
        (void)printf("key (shown once, give it to the tenant):\n%s\n"
                     "entry (for keys of the tenant in the file):\n"
                     "- {id: \"%s\", key: \"sha256:%s\"}\n",
                     key, id, hex);
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(key, sizeof(key));
}

int cmd_keys(int argc, char **argv)
{
    const char *id = "key";
    bool json = false;

    if (argc < 2 || strcmp(argv[1], "new") != 0)
        return usage();
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--id") == 0 && i + 1 < argc && is_id(argv[i + 1]))
            id = argv[++i];
        else
            return usage();
    }
    print_new_key(id, json);
    return 0;
}
