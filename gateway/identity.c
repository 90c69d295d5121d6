/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/identity.c: see identity.h.
 *
 * For:       credential, digest, the snapshot's table of keys; the last one of a conn remembered.
 * Called by: steps.c; admin.c for its token; conn.c forgets.
 * Knows not: sockets, what a tenant may do. */
#include "gateway/identity.h"

#include <stdlib.h>
#include <string.h>

#define KEY_BYTES_MAX 256

struct span identity_bearer(struct span authorization)
{
    static const struct span scheme = {"bearer", 6};
    if (authorization.size <= scheme.size ||
        !span_equal_nocase((struct span){authorization.data, scheme.size}, scheme) ||
        authorization.data[scheme.size] != ' ')
        return (struct span){NULL, 0};
    struct span token = span_from(authorization, scheme.size);
    while (token.size && token.data[0] == ' ')
        token = span_from(token, 1);
    return token;
}

static bool is_key_text(struct span text)
{
    if (text.size == 0 || text.size > KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < 0x21 || text.data[i] > 0x7e)
            return false;
    return true;
}

static bool is_remembered(const struct identity_memory *memory, const struct config *config,
                          struct span text)
{
    return memory && memory->key && memory->generation == config->generation &&
           memory->size == text.size &&
           hash_equal((const uint8_t *)memory->text, (const uint8_t *)text.data, text.size);
}

static void remember(struct identity_memory *memory, const struct config *config, struct span text,
                     const struct config_key *key)
{
    if (memory == NULL)
        return;
    identity_forget(memory);
    memory->text = malloc(text.size);
    if (memory->text == NULL)
        return;
    memcpy(memory->text, text.data, text.size);
    memory->size = text.size;
    memory->generation = config->generation;
    memory->key = key;
}

void identity_forget(struct identity_memory *memory)
{
    if (memory->text)
        explicit_bzero(memory->text, memory->size);
    free(memory->text);
    *memory = (struct identity_memory){NULL, 0, 0, NULL};
}

enum err identity_find(const struct config *config, struct span authorization, struct span api_key,
                       int64_t wall_us, struct identity_memory *memory,
                       const struct config_key **out_key)
{
    uint8_t digest[HASH_SHA256_BYTES];
    const struct config_key *key;
    struct span text = identity_bearer(authorization);
    if (text.data == NULL)
        text = api_key;
    if (text.data == NULL)
        return ERR_NO_KEY;
    if (is_remembered(memory, config, text)) {
        key = memory->key;
    } else {
        const bool sound = is_key_text(text);
        hash_sha256(sound ? text : SPAN("?"), digest);
        key = config_find_key(config, digest);
        if (!sound || key == NULL)
            return ERR_BAD_KEY;
        remember(memory, config, text, key);
    }
    if (key->expires_us && wall_us >= key->expires_us)
        return ERR_BAD_KEY;
    *out_key = key;
    return OK;
}
