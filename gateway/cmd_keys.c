/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_keys.c: tollgate keys new [--id ID] [--json].
 *
 * For:       operators who let a tenant in.
 * Called by: main.c.
 * Knows not: which keys exist; the file keeps only the digest that is printed here. */
#include <stdio.h>

#include "config/config.h"
#include "gateway/arguments.h"
#include "gateway/cmd.h"

#define SECRET_BYTES 32 /* 256 bits: nobody tries them all, so a plain digest is enough */

#define COMMAND "keys"
#define ID "1 to 64 letters, digits or ._-"

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
    const char *verb = NULL;
    const struct argument_option options[] = {ARGUMENT_FLAG("--json", &json),
                                              ARGUMENT_TEXT("--id", ID, &id)};
    const struct argument_word words[] = {{"new", &verb, false}};
    const struct argument_form form = {COMMAND, "usage: tollgate keys new [--id ID] [--json]\n",
                                       options, ARGUMENT_COUNT(options),
                                       words,   ARGUMENT_COUNT(words)};
    int status;

    if (!arguments_read(&form, argc, argv, &status))
        return status;
    if (strcmp(verb, "new") != 0)
        return arguments_refuse(COMMAND, "expected new, got %s", verb);
    if (!is_id(id))
        return arguments_refuse_value(COMMAND, "--id", id, ID);
    print_new_key(id, json);
    return 0;
}
