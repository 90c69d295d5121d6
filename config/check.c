/* SPDX-License-Identifier: Apache-2.0 */
/* config/check.c: what must hold between keys.
 *
 * For:       binding every name that is mentioned to what bears it, and judging the whole.
 * Called by: config.c, after sections.c.
 * Knows not: YAML, types and ranges of single values. */
#include "config/check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "config/base/nearest.h"
#include "config/values.h"

/* Where a name must be the only one. */
enum scope { SCOPE_MODELS, SCOPE_REPLICAS, SCOPE_CLASSES, SCOPE_KEY_IDS, SCOPE_DIGESTS };

struct known_name {
    struct span name; /* {NULL, 0}: free */
    enum scope scope;
    uint32_t owner; /* the model of a replica, the tenant of a key id; else 0 */
    uint32_t bearer;
    uint32_t line;
};

/* An open hash table, at most half full. */
struct name_set {
    struct known_name *names;
    size_t mask;
};

/* The entry of a name, or the free one where it would stand. */
static struct known_name *look_up(const struct name_set *set, enum scope scope, uint32_t owner,
                                  struct span name)
{
    size_t at =
        (size_t)(hash_text(name) + (uint64_t)owner * UINT64_C(0x9e3779b97f4a7c15)) + (size_t)scope;

    for (;; at++) {
        struct known_name *known = &set->names[at & set->mask];

        if (known->name.data == NULL)
            return known;
        if (known->scope == scope && known->owner == owner && span_equal(known->name, name))
            return known;
    }
}

/* Adds a name; NULL when it is new, else the one that has it already. */
static const struct known_name *add(struct name_set *set, const struct known_name *added)
{
    struct known_name *known = look_up(set, added->scope, added->owner, added->name);

    if (known->name.data != NULL)
        return known;
    *known = *added;
    return NULL;
}

static void add_mention(struct draft *draft, struct name_set *set, const struct mention *mention,
                        enum scope scope, uint32_t owner, uint32_t bearer, const char *expected)
{
    const struct known_name added = {mention->name, scope, owner, bearer, mention->line};
    const struct known_name *other = add(set, &added);

    if (other == NULL)
        return;
    if (other->line > 0)
        problems_add_at(draft->problems, mention->line, mention->key, "expected %s (see line %u)",
                        expected, other->line);
    else
        problems_add_at(draft->problems, mention->line, mention->key,
                        "expected %s (a model has this name)", expected);
}

/* First every name that somebody bears. */
static void gather_names(struct draft *draft, struct name_set *set)
{
    struct config *config = draft->config;

    for (uint32_t i = 0; i < config->model_count; i++) {
        const struct known_name added = {config->models[i].name, SCOPE_MODELS, 0, i, 0};

        if (span_equal(added.name, SPAN("auto")))
            problems_add_at(draft->problems, draft->models_line, "models.auto",
                            "expected another name: auto lets the gateway choose");
        if (added.name.data != NULL)
            (void)add(set, &added); /* a double is reported by sections.c already */
    }
    for (const struct mention *mention = draft->mentions; mention; mention = mention->next) {
        const uint32_t owner = mention->owner;

        switch (mention->what) {
        case MENTION_ALIAS:
            config->models[owner].aliases[mention->position] = mention->name;
            if (span_equal(mention->name, SPAN("auto")))
                problems_add_at(draft->problems, mention->line, mention->key,
                                "expected another name: auto lets the gateway choose");
            else
                add_mention(draft, set, mention, SCOPE_MODELS, 0, owner,
                            "a name that no other model or alias has");
            break;
        case MENTION_REPLICA:
            add_mention(draft, set, mention, SCOPE_REPLICAS, owner, 0,
                        "a name that no other replica of this model has");
            break;
        case MENTION_CLASS:
            add_mention(draft, set, mention, SCOPE_CLASSES, 0, owner,
                        "a name that no other class has");
            break;
        case MENTION_KEY_ID:
            add_mention(draft, set, mention, SCOPE_KEY_IDS, owner, 0,
                        "an id that no other key of this tenant has");
            break;
        case MENTION_KEY_DIGEST:
            add_mention(draft, set, mention, SCOPE_DIGESTS, 0, owner, "a key that nobody else has");
            break;
        case MENTION_FALLBACK:
        case MENTION_CLASS_MODEL:
        case MENTION_TENANT_MODEL:
            break;
        }
    }
}

static struct span nearest_model(const struct config *config, struct span name)
{
    struct nearest nearest = nearest_to(name);

    for (uint32_t i = 0; i < config->model_count; i++)
        (void)nearest_try(&nearest, config->models[i].name);
    return nearest.name;
}

/* The model that a mention means; NULL (and said) when there is none. */
static const struct config_model *model_of(struct draft *draft, const struct name_set *set,
                                           const struct mention *mention)
{
    const struct known_name *known = look_up(set, SCOPE_MODELS, 0, mention->name);
    const struct span nearest = nearest_model(draft->config, mention->name);

    if (known->name.data != NULL)
        return &draft->config->models[known->bearer];
    if (nearest.data != NULL)
        problems_add_at(draft->problems, mention->line, mention->key,
                        "expected a model, and \"%.*s\" is none (nearest known model: %.*s)",
                        (int)mention->name.size, mention->name.data, (int)nearest.size,
                        nearest.data);
    return NULL;
}

/* Then every name that somebody points to. */
static void bind_names(struct draft *draft, const struct name_set *set)
{
    struct config *config = draft->config;

    for (const struct mention *mention = draft->mentions; mention; mention = mention->next) {
        const struct config_model *model;
        struct model_set *models;

        if (mention->what != MENTION_FALLBACK && mention->what != MENTION_CLASS_MODEL &&
            mention->what != MENTION_TENANT_MODEL)
            continue;
        model = model_of(draft, set, mention);
        if (model == NULL)
            continue;
        if (mention->what == MENTION_CLASS_MODEL) {
            config->classes[mention->owner].model = model;
        } else if (mention->what == MENTION_TENANT_MODEL) {
            models = &config->tenants[mention->owner].models;
            models->bits[model->index / 64] |= UINT64_C(1) << (model->index % 64);
        } else if (model->index == mention->owner) {
            problems_add_at(draft->problems, mention->line, mention->key,
                            "expected another model than itself");
        } else {
            config->models[mention->owner].fallback[mention->position] = model;
        }
    }
}

static bool same_address(const struct config_listen *a, const struct config_listen *b)
{
    if (a->socket_path.data != NULL || b->socket_path.data != NULL)
        return span_equal(a->socket_path, b->socket_path);
    return a->port != 0 && a->port == b->port && span_equal(a->host, b->host);
}

static void check_listeners(struct draft *draft)
{
    const struct config *config = draft->config;

    for (uint32_t i = 0; i < config->listen_count; i++) {
        for (uint32_t k = i + 1; k < config->listen_count; k++)
            if (same_address(&config->listen[i], &config->listen[k]))
                problems_add_at(draft->problems, draft->listen_line, "listen", "expected %.*s once",
                                (int)config->listen[i].address.size,
                                config->listen[i].address.data);
        if (config->admin_present && same_address(&config->listen[i], &config->admin))
            problems_add_at(draft->problems, draft->admin_line, "admin.address",
                            "expected an address that clients do not use (see listen)");
    }
    if (config->admin_present && config->admin.host.data != NULL &&
        !values_is_loopback(config->admin.host) && config->admin_token.data == NULL)
        problems_add_at(draft->problems, draft->admin_line, "admin.token",
                        "required, as others than this machine reach %.*s",
                        (int)config->admin.address.size, config->admin.address.data);
}

static void check_limits(struct draft *draft)
{
    const struct config *config = draft->config;

    if (config->limits_bodies_memory_bytes < config->limits_body_bytes)
        problems_add_at(draft->problems, draft->limits_line, "limits.bodies_memory",
                        "expected at least body_bytes (%" PRId64 " bytes)",
                        config->limits_body_bytes);
    if (config->limits_flight_bytes < config->limits_event_bytes)
        problems_add_at(draft->problems, draft->limits_line, "limits.flight_bytes",
                        "expected at least event_bytes (%" PRId64 " bytes)",
                        config->limits_event_bytes);
}

enum err check_draft(struct draft *draft)
{
    struct name_set set = {.mask = 64};
    size_t count = draft->config->model_count;

    for (const struct mention *mention = draft->mentions; mention; mention = mention->next)
        count++;
    while (set.mask < 2 * count)
        set.mask *= 2;
    set.names = calloc(set.mask, sizeof(*set.names));
    if (set.names == NULL)
        return ERR_NO_MEMORY;
    set.mask--;

    gather_names(draft, &set);
    bind_names(draft, &set);
    check_listeners(draft);
    check_limits(draft);
    if (draft->config->tenant_count == 0)
        problems_warn_at(draft->problems, draft->tenants_line, "tenants",
                         "warning: there is none, so every request will be refused (401)");
    free(set.names);
    return draft->out_of_memory ? ERR_NO_MEMORY : OK;
}
