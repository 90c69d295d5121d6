/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/identity.c: see identity.h. */
#include "gateway/identity.h"

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

enum err identity_find(const struct config *config, struct span authorization, struct span api_key, int64_t wall_us,
                       const struct config_key **out_key)
{
    uint8_t digest[HASH_SHA256_BYTES];
    struct span text = identity_bearer(authorization);
    if (text.data == NULL)
        text = api_key;
    if (text.data == NULL)
        return ERR_NO_KEY;
    const bool sound = is_key_text(text);
    hash_sha256(sound ? text : SPAN("?"), digest);
    const struct config_key *key = config_find_key(config, digest);
    if (!sound || key == NULL || (key->expires_us && wall_us >= key->expires_us))
        return ERR_BAD_KEY;
    *out_key = key;
    return OK;
}
