/* SPDX-License-Identifier: Apache-2.0 */
/* config/models.c: the sections models and classes into a draft.
 *
 * For:       what clients may ask for, what it costs, where it runs, and which task goes to it.
 * Called by: sections.c.
 * Knows not: YAML, tenants; whether a name that is mentioned exists (check.c). */
#include "config/base/clock.h"
#include "config/base/span.h"
#include "config/sections.h"
#include "config/values.h"

#define FALLBACK_MAX 7 /* with the model itself: router.h's MODEL_CANDIDATES_MAX */
#define TOKENS_MAX INT64_C(1000000000)
#define SHARE_MAX 10000 /* per cent */

static bool read_dollars(struct span text, int64_t *out_pusd)
{
    return values_decimal(text, 12, out_pusd);
}

static void read_url(const struct section *section, struct config_replica *replica)
{
    struct draft *draft = section->draft;
    struct place place;
    const struct node *node = section_need(section, "url", &place);

    if (node == NULL ||
        !section_read_text(draft, node, &place, TEXT_WORD, TEXT_BYTES_MAX, &replica->url))
        return;
    if (!values_url(replica->url, replica)) {
        problems_add(draft->problems, &place,
                     "expected http://host:port, https://host:port (either with a /path) or "
                     "unix:/socket");
        return;
    }
    /* Texts of their own: look-ups and the kernel want them to end. */
    replica->host = section_keep(draft, replica->host);
    if (replica->socket_path.data != NULL)
        replica->socket_path = section_keep(draft, replica->socket_path);
}

static void read_replica_tls(const struct section *section, struct config_replica *replica)
{
    struct config_tls *tls = &replica->tls;

    if (sections_read_tls(section, "models.*.replicas[].tls", tls) && !replica->https &&
        replica->url.data != NULL)
        problems_add_at(section->draft->problems, tls->line, tls->place.data,
                        "expected a url that begins with https://");
    if (tls->name.data != NULL)
        replica->host_header = tls->name;
    else
        tls->name = replica->host;
}

static void read_replica(const struct section *section, const struct config_model *model,
                         struct config_replica *replica)
{
    struct place place;
    const struct node *node;
    int64_t slots = 64;

    if (section_need_text_at(section, "name", TEXT_WORD, NAME_BYTES_MAX, &replica->name)) {
        (void)section_find(section, "name", &place);
        section_mention(section->draft, MENTION_REPLICA, replica->name, model->index,
                        replica->index, &place);
    }
    read_url(section, replica);
    read_replica_tls(section, replica);
    section_text_at(section, "key", TEXT_SECRET, TEXT_BYTES_MAX, &replica->key);
    section_number_at(section, "slots", 1, 65536, &slots);
    replica->slots = (uint32_t)slots;
    replica->pusd_per_hour = -1;
    node = section_find(section, "usd_per_hour", &place);
    if (node != NULL)
        (void)section_read_value(section->draft, node, &place, read_dollars,
                                 "USD as decimal text with at most 12 places",
                                 &replica->pusd_per_hour);
}

static void read_replicas(const struct section *section, struct config_model *model)
{
    struct draft *draft = section->draft;
    struct place place;
    const struct node *list = section_find_list(section, "replicas", 1, MODEL_REPLICAS_MAX, &place);

    if (list == NULL)
        return;
    model->replicas = section_take(draft, list->count, sizeof(*model->replicas));
    if (model->replicas == NULL)
        return;
    model->replica_count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const struct section replica =
            section_open(draft, list->items[i], item, "models.*.replicas[]");

        model->replicas[i].index = i;
        read_replica(&replica, model, &model->replicas[i]);
    }
}

static void read_translate(const struct section *section, struct config_model *model)
{
    static const char *const endpoints[] = {"messages", "responses"};
    static const enum endpoint endpoint_of[] = {ENDPOINT_MESSAGES, ENDPOINT_RESPONSES};
    struct place place;
    const struct node *list = section_find_list(section, "translate", 0, 2, &place);

    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const int endpoint = section_read_choice(section->draft, list->items[i], &item, endpoints,
                                                 2, "messages or responses");

        if (endpoint >= 0)
            model->translate |= 1u << endpoint_of[endpoint];
    }
}

static bool read_share(struct span text, int64_t *out_percent)
{
    return values_percent(text, out_percent) && *out_percent <= SHARE_MAX;
}

static void read_template(const struct section *section, struct config_model *model)
{
    struct config_template *template = &model->template_tokens;
    struct place place;
    const struct node *node = section_find(section, "template_tokens", &place);
    struct section tokens;

    *template = (struct config_template){
        .fixed = 64, .per_message = 16, .per_tool = 64, .schema_percent = 200};
    if (node == NULL)
        return;
    tokens = section_open(section->draft, node, place, "models.*.template_tokens");
    section_number_at(&tokens, "fixed", 0, TOKENS_MAX, &template->fixed);
    section_number_at(&tokens, "per_message", 0, TOKENS_MAX, &template->per_message);
    section_number_at(&tokens, "per_tool", 0, TOKENS_MAX, &template->per_tool);
    section_value_at(&tokens, "schema", read_share, "a share such as 200%, at most 10000%",
                     &template->schema_percent);
}

static void read_parts(const struct section *section, struct config_model *model)
{
    static const char *const kinds[PART_KINDS] = {"image", "audio", "video", "file"};
    struct place place;
    const struct node *node = section_find(section, "part_tokens", &place);
    struct section parts;

    if (node == NULL)
        return;
    parts = section_open(section->draft, node, place, "models.*.part_tokens");
    for (size_t i = 0; i < PART_KINDS; i++)
        section_number_at(&parts, kinds[i], 1, TOKENS_MAX, &model->part_tokens[i]);
}

static void read_model(const struct section *section, struct config_model *model)
{
    static const char *const kinds[] = {
#define KIND(id, name, running, salt, whole, metrics) [KIND_##id] = (name),
#include "config/base/kind.def"
#undef KIND
    };
    struct draft *draft = section->draft;
    struct place place;
    const struct node *node = section_need(section, "kind", &place);

    if (node != NULL) {
        const int kind = section_read_choice(draft, node, &place, kinds, KIND_COUNT,
                                             "vllm, sglang, llamacpp, tgi or openai");

        if (kind >= 0)
            model->kind = (enum kind)kind;
    }
    read_translate(section, model);
    sections_read_prices(section, model);
    read_template(section, model);
    read_parts(section, model);
    section_number_at(section, "context", 1, TOKENS_MAX, &model->context);
    section_number_at(section, "output", 1, TOKENS_MAX, &model->output);
    model->upstream_model = model->name;
    section_text_at(section, "upstream_model", TEXT_WORD, TEXT_BYTES_MAX, &model->upstream_model);
    read_replicas(section, model);
    model->alias_count =
        section_mention_names(section, "aliases", 256, MENTION_ALIAS, model->index);
    model->aliases = section_take(draft, model->alias_count, sizeof(*model->aliases));
    model->fallback_count =
        section_mention_names(section, "fallback", FALLBACK_MAX, MENTION_FALLBACK, model->index);
    model->fallback = section_take(draft, model->fallback_count, sizeof(struct config_model *));
}

void sections_read_models(const struct section *root)
{
    struct draft *draft = root->draft;
    struct config *config = draft->config;
    struct place place;
    const struct node *node = section_need(root, "models", &place);
    struct section models;

    if (node == NULL)
        return;
    draft->models_line = place.line;
    models = section_open_names(draft, node, place);
    if (models.map == NULL)
        return;
    if (node->count < 1 || node->count > CONFIG_MODELS_MAX) {
        problems_add(draft->problems, &place, "expected 1 to %d models, got %u", CONFIG_MODELS_MAX,
                     node->count);
        return;
    }
    config->models = section_take(draft, node->count, sizeof(*config->models));
    if (config->models == NULL)
        return;
    config->model_count = node->count;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node_pair *pair = &node->pairs[i];
        const struct place key = section_place(&models.place, pair->key, pair->line);
        const struct section model = section_open(draft, pair->value, key, "models.*");

        config->models[i].index = i;
        config->models[i].name = section_read_name(draft, pair->key, &key);
        read_model(&model, &config->models[i]);
    }
}

/* ---- Classes ---- */

static void read_header_match(const struct section *match, struct config_class *class)
{
    struct draft *draft = match->draft;
    struct place place;
    const struct node *node = section_find(match, "header", &place);
    struct section headers;

    if (node == NULL)
        return;
    headers = section_open_names(draft, node, place);
    if (headers.map == NULL)
        return;
    class->headers = section_take(draft, node->count, sizeof(*class->headers));
    if (class->headers == NULL)
        return;
    class->header_count = node->count;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct node_pair *pair = &node->pairs[i];
        const struct place key = section_place(&headers.place, pair->key, pair->line);
        char name[NAME_BYTES_MAX];

        if (!section_is_text(pair->key, TEXT_WORD, sizeof(name))) {
            problems_add(draft->problems, &key, "expected a header's name");
            continue;
        }
        for (size_t k = 0; k < pair->key.size; k++) {
            const char byte = pair->key.data[k];

            name[k] = byte >= 'A' && byte <= 'Z' ? (char)(byte + ('a' - 'A')) : byte;
        }
        class->headers[i].name = section_keep(draft, (struct span){name, pair->key.size});
        (void)section_read_text(draft, pair->value, &key, TEXT_ANY, TEXT_BYTES_MAX,
                                &class->headers[i].value);
    }
}

static void read_match(const struct section *section, struct config_class *class)
{
    static const char *const endpoints[] = {
#define ENDPOINT(id, name, path, upstream, shape, form, charge, vllm, sglang, llamacpp, tgi,       \
                 openai)                                                                           \
    [ENDPOINT_##id - 1] = (name),
#include "config/base/endpoint.def"
#undef ENDPOINT
    };
    struct place place;
    const struct node *node = section_find(section, "match", &place);
    struct section match;

    class->min_bytes = -1;
    class->max_bytes = -1;
    if (node == NULL)
        return;
    match = section_open(section->draft, node, place, "classes[].match");
    read_header_match(&match, class);
    node = section_find(&match, "endpoint", &place);
    if (node != NULL) {
        const int endpoint =
            section_read_choice(section->draft, node, &place, endpoints, ENDPOINT_MODELS - 1,
                                "an endpoint, such as chat, completions or embeddings");

        if (endpoint >= 0)
            class->endpoint = (enum endpoint)(endpoint + 1);
    }
    section_text_at(&match, "model", TEXT_ANY, TEXT_BYTES_MAX, &class->model_asked);
    section_text_at(&match, "system_prompt", TEXT_ANY, TEXT_BYTES_MAX, &class->system_prompt);
    section_tristate_at(&match, "tools", &class->tools);
    section_tristate_at(&match, "images", &class->images);
    section_tristate_at(&match, "schema", &class->schema);
    section_value_at(&match, "min_body", values_bytes, "a size such as 64KiB", &class->min_bytes);
    section_value_at(&match, "max_body", values_bytes, "a size such as 64KiB", &class->max_bytes);
    if (class->max_bytes >= 0 && class->min_bytes > class->max_bytes)
        problems_add(section->draft->problems, &match.place, "expected min_body <= max_body");
}

static void read_class(const struct section *section, uint32_t index, struct config_class *class)
{
    struct draft *draft = section->draft;
    struct place place;
    const struct node *node;
    struct span model;

    if (section_need_text_at(section, "name", TEXT_WORD, NAME_BYTES_MAX, &class->name)) {
        (void)section_find(section, "name", &place);
        section_mention(draft, MENTION_CLASS, class->name, index, 0, &place);
    }
    read_match(section, class);
    node = section_find(section, "model", &place);
    if (node != NULL && section_read_text(draft, node, &place, TEXT_WORD, NAME_BYTES_MAX, &model) &&
        !span_equal(model, SPAN("auto")))
        section_mention(draft, MENTION_CLASS_MODEL, model, index, 0, &place);
}

void sections_read_classes(const struct section *root)
{
    struct draft *draft = root->draft;
    struct config *config = draft->config;
    struct place place;
    const struct node *list = section_find_list(root, "classes", 0, 1024, &place);

    if (list == NULL)
        return;
    config->classes = section_take(draft, list->count, sizeof(*config->classes));
    if (config->classes == NULL)
        return;
    config->class_count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const struct section class = section_open(draft, list->items[i], item, "classes[]");

        read_class(&class, i, &config->classes[i]);
    }
}
