/* SPDX-License-Identifier: Apache-2.0 */
/* config/tenants.c: the section tenants into a draft.
 *
 * For:       who may call, with which keys, for which models.
 * Called by: sections.c.
 * Knows not: YAML; whether two keys are the same (check.c). */
#include <pthread.h>
#include <stdio.h>

#include "config/base/hash.h"
#include "config/base/log.h"
#include "config/base/zone.h"
#include "config/sections.h"
#include "config/values.h"

#define TAGS_BYTES_MAX 200

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return -1;
}

/* "sha256:<64 hex>" or the key's own text, into a digest. */
static bool read_digest(struct span text, uint8_t out_digest[HASH_SHA256_BYTES])
{
    struct span hex;

    if (!span_starts(text, SPAN("sha256:"))) {
        hash_sha256(text, out_digest);
        return true;
    }
    hex = span_from(text, sizeof("sha256:") - 1);
    if (hex.size != (size_t)2 * HASH_SHA256_BYTES)
        return false;
    for (size_t i = 0; i < HASH_SHA256_BYTES; i++) {
        const int high = hex_digit(hex.data[2 * i]);
        const int low = hex_digit(hex.data[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out_digest[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static void read_key(const struct section *section, uint32_t tenant, uint32_t position,
                     struct config_key *key)
{
    struct draft *draft = section->draft;
    struct place place;
    const struct node *node;

    if (section_need_text_at(section, "id", TEXT_WORD, NAME_BYTES_MAX, &key->id)) {
        (void)section_find(section, "id", &place);
        section_mention(draft, MENTION_KEY_ID, key->id, tenant, position, &place);
    }
    node = section_need(section, "key", &place);
    if (node != NULL && section_is_kind(draft, node, NODE_TEXT, &place)) {
        if (!section_is_text(node->text, TEXT_SECRET, 256))
            problems_add(draft->problems, &place,
                         "expected a key of 1 to 256 printable ASCII characters without spaces");
        else if (!read_digest(node->text, key->digest))
            problems_add(draft->problems, &place,
                         "expected 64 lower-case hex digits after sha256:");
        else
            section_mention(draft, MENTION_KEY_DIGEST,
                            (struct span){(const char *)key->digest, sizeof(key->digest)}, tenant,
                            position, &place);
    }
    section_value_at(section, "expires", values_date, VALUES_DATE_EXPECTED, &key->expires_us);
}

static void read_keys(const struct section *section, uint32_t index, struct config_tenant *tenant)
{
    struct draft *draft = section->draft;
    struct place place;
    const struct node *list = section_find_list(section, "keys", 1, 65536, &place);

    if (list == NULL)
        return;
    tenant->keys = section_take(draft, list->count, sizeof(*tenant->keys));
    if (tenant->keys == NULL)
        return;
    tenant->key_count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const struct section key = section_open(draft, list->items[i], item, "tenants.*.keys[]");

        tenant->keys[i].tenant = tenant;
        read_key(&key, index, i, &tenant->keys[i]);
    }
}

/* {"team":"search"} compact, as the journal's rows have it. */
static void read_tags(const struct section *section, struct config_tenant *tenant)
{
    struct draft *draft = section->draft;
    struct place place;
    const struct node *node = section_find(section, "tags", &place);
    struct section tags;
    char json[TAGS_BYTES_MAX];
    size_t size = 0;
    bool fits = true;

    if (node == NULL)
        return;
    tags = section_open_names(draft, node, place);
    if (tags.map == NULL || node->count == 0)
        return;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node_pair *pair = &node->pairs[i];
        const struct place key = section_place(&tags.place, pair->key, pair->line);
        char name[6 * NAME_BYTES_MAX];
        char value[6 * NAME_BYTES_MAX];
        size_t name_size;
        size_t value_size;
        int wrote;

        if (!section_is_kind(draft, pair->value, NODE_TEXT, &key))
            return;
        if (pair->key.size > NAME_BYTES_MAX || pair->value->text.size > NAME_BYTES_MAX) {
            problems_add(draft->problems, &key, "expected at most %d bytes", NAME_BYTES_MAX);
            return;
        }
        name_size = log_escape(pair->key, name, sizeof(name));
        value_size = log_escape(pair->value->text, value, sizeof(value));
        wrote = snprintf(json + size, sizeof(json) - size, "%c\"%.*s\":\"%.*s\"",
                         i == 0 ? '{' : ',', (int)name_size, name, (int)value_size, value);
        if (wrote < 0 || (size_t)wrote + 1 >= sizeof(json) - size) {
            fits = false;
            break;
        }
        size += (size_t)wrote;
    }
    if (!fits) {
        problems_add(draft->problems, &place, "expected at most %d bytes as JSON", TAGS_BYTES_MAX);
        return;
    }
    json[size++] = '}';
    tenant->tags_json = section_keep(draft, (struct span){json, size});
}

static void read_allow(const struct section *section, struct config_tenant *tenant)
{
    static const char *const fields[] = {
        "priority",   "kv_transfer_params", "ec_transfer_params", "request_id", "session_id",
        "vllm_xargs", "prompt_embeds",      "chat_template",      "remote_urls"};
    static const uint32_t bits[] = {
        REFUSED_PRIORITY,      REFUSED_KV_TRANSFER_PARAMS, REFUSED_EC_TRANSFER_PARAMS,
        REFUSED_REQUEST_ID,    REFUSED_SESSION_ID,         REFUSED_VLLM_XARGS,
        REFUSED_PROMPT_EMBEDS, REFUSED_CHAT_TEMPLATE,      REFUSED_REMOTE_MEDIA};
    const int count = sizeof(fields) / sizeof(fields[0]);
    struct place place;
    const struct node *list = section_find_list(section, "allow", 0, (uint32_t)count, &place);

    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const int field = section_read_choice(
            section->draft, list->items[i], &item, fields, count,
            "priority, kv_transfer_params, ec_transfer_params, request_id, session_id, vllm_xargs, "
            "prompt_embeds, chat_template or remote_urls");

        if (field >= 0)
            tenant->allow |= bits[field];
    }
}

static pthread_once_t secret_once = PTHREAD_ONCE_INIT;
static uint8_t secret[32]; /* of this process */

static void make_secret(void)
{
    hash_random(secret, sizeof(secret));
}

/* A tenant's salt: the same for as long as the process lives, so that a reload keeps the prefixes
 * that replicas hold. */
static void make_salt(struct config_tenant *tenant)
{
    uint8_t text[sizeof(secret) + NAME_BYTES_MAX];
    uint8_t digest[HASH_SHA256_BYTES];
    const size_t size =
        tenant->name.size < NAME_BYTES_MAX ? tenant->name.size : (size_t)NAME_BYTES_MAX;

    (void)pthread_once(&secret_once, make_secret);
    memcpy(text, secret, sizeof(secret));
    if (size > 0)
        memcpy(text + sizeof(secret), tenant->name.data, size);
    hash_sha256((struct span){(const char *)text, sizeof(secret) + size}, digest);
    memcpy(tenant->salt, digest, sizeof(tenant->salt));
}

static void read_zone(const struct section *section, struct config_tenant *tenant)
{
    struct place place;
    struct span name = {NULL, 0};

    tenant->zone = zone_utc();
    section_text_at(section, "zone", TEXT_WORD, NAME_BYTES_MAX, &name);
    if (name.data == NULL || zone_find(name, &tenant->zone) == OK)
        return;
    (void)section_find(section, "zone", &place);
    problems_add(section->draft->problems, &place,
                 "expected a time zone that this system knows (tzdata), such as Europe/Berlin");
}

static void read_tenant(const struct section *section, uint32_t index, struct config_tenant *tenant)
{
    struct place place;

    make_salt(tenant);
    read_keys(section, index, tenant);
    read_tags(section, tenant);
    read_allow(section, tenant);
    read_zone(section, tenant);
    if (section_find(section, "models", &place) == NULL)
        memset(&tenant->models, 0xff, sizeof(tenant->models));
    else
        (void)section_mention_names(section, "models", CONFIG_MODELS_MAX, MENTION_TENANT_MODEL,
                                    index);
}

void sections_read_tenants(const struct section *root)
{
    struct draft *draft = root->draft;
    struct config *config = draft->config;
    struct place place;
    const struct node *node = section_find(root, "tenants", &place);
    struct section tenants;

    if (node == NULL)
        return;
    draft->tenants_line = place.line;
    tenants = section_open_names(draft, node, place);
    if (tenants.map == NULL)
        return;
    config->tenants = section_take(draft, node->count, sizeof(*config->tenants));
    if (config->tenants == NULL)
        return;
    config->tenant_count = node->count;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node_pair *pair = &node->pairs[i];
        const struct place key = section_place(&tenants.place, pair->key, pair->line);
        const struct section tenant = section_open(draft, pair->value, key, "tenants.*");

        config->tenants[i].name = section_read_name(draft, pair->key, &key);
        read_tenant(&tenant, i, &config->tenants[i]);
    }
}
