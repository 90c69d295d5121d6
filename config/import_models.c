/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_models.c: LiteLLM's model_list into models, replicas and prices.
 *
 * For:       entries of one name become one model; providers become kinds.
 * Called by: import_litellm.c.
 * Knows not: LiteLLM's settings, how our file is spelled. */
#include <inttypes.h>
#include <stdio.h>

#include "config/import_litellm.h"
#include "config/values.h"

#define URL_BYTES_MAX 1024

/* ---- Model servers ---- */

/* A provider of LiteLLM's whose servers can stand behind this gateway. */
struct provider {
    const char *name;
    enum kind kind;
    const char *url;  /* where it is when the file does not say; NULL: then it cannot be taken */
    const char *key;  /* variable with its key when the file does not say; NULL: none */
    bool versioned;   /* api_base is expected to end in /v1 */
    const char *says; /* good to know; NULL: nothing */
};

static const struct provider providers[] = {
    {"hosted_vllm", KIND_VLLM, "${HOSTED_VLLM_API_BASE}", NULL, true, NULL},
    {"vllm", KIND_VLLM, NULL, NULL, true, NULL},
    {"openai", KIND_OPENAI, "https://api.openai.com/v1", "OPENAI_API_KEY", true,
     "kind: openai is taken; if the server is vllm, sglang, llamacpp or tgi, say so: its load, its "
     "usage and more endpoints are then known"},
    {"text-completion-openai", KIND_OPENAI, "https://api.openai.com/v1", "OPENAI_API_KEY", true,
     "kind: openai is taken; if the server is vllm, sglang, llamacpp or tgi, say so"},
    {"openai_like", KIND_OPENAI, NULL, NULL, true, NULL},
    {"custom_openai", KIND_OPENAI, NULL, NULL, true, NULL},
    {"aiohttp_openai", KIND_OPENAI, NULL, NULL, true, NULL},
    {"litellm_proxy", KIND_OPENAI, "${LITELLM_PROXY_API_BASE}", "LITELLM_PROXY_API_KEY", false,
     NULL},
    {"lm_studio", KIND_OPENAI, "${LM_STUDIO_API_BASE}", NULL, true, NULL},
    {"llamafile", KIND_LLAMACPP, "http://127.0.0.1:8080/v1", NULL, true,
     "kind: llamacpp is taken, whose server a llamafile carries"},
    {"docker_model_runner", KIND_OPENAI, NULL, NULL, false, NULL},
    {"nvidia_nim", KIND_OPENAI, NULL, NULL, true, NULL},
    {"xinference", KIND_OPENAI, NULL, NULL, true, NULL},
    {"ollama", KIND_OPENAI, "http://127.0.0.1:11434", NULL, false,
     "its OpenAI-compatible endpoints (/v1) are used, not its own"},
    {"ollama_chat", KIND_OPENAI, "http://127.0.0.1:11434", NULL, false,
     "its OpenAI-compatible endpoints (/v1) are used, not its own"},
    {"huggingface", KIND_TGI, NULL, NULL, false,
     "kind: tgi is taken, as api_base names a server of its own"},
};

/* One entry of model_list on its way into a model. */
struct deployment {
    char key[IMPORT_PLACE_BYTES]; /* model_list[3] */
    uint32_t line;
    struct import_found params;
    struct import_found info;
    const struct node *credential; /* what litellm_credential_name points to; NULL: nothing */
    struct span name;
    struct span upstream;
    const struct provider *provider;
    struct span url;
};

static struct import_found param(const struct deployment *deployment, const char *key)
{
    return import_find(deployment->params.node, deployment->params.key, key);
}

/* Splits "provider/name"; custom_llm_provider goes before. false: said why. */
static bool read_provider(struct import_plan *plan, struct deployment *deployment)
{
    const struct import_found model = param(deployment, "model");
    const struct import_found custom = param(deployment, "custom_llm_provider");
    const struct span text = import_text_of(plan, model.node);
    struct span provider = import_text_of(plan, custom.node);
    const char *slash = text.data == NULL ? NULL : memchr(text.data, '/', text.size);
    struct span first = {text.data, slash == NULL ? 0 : (size_t)(slash - text.data)};

    if (text.data == NULL) {
        import_left_out(plan, deployment->line, model.key, "expected provider/model");
        return false;
    }
    deployment->upstream = text;
    if (provider.data == NULL)
        provider = first;
    if (provider.size == 0) {
        import_left_out(plan, model.line, model.key,
                        "expected provider/model, such as openai/%.*s: LiteLLM knows the provider "
                        "from a list of its own",
                        (int)text.size, text.data);
        return false;
    }
    if (slash != NULL && span_equal(first, provider))
        deployment->upstream = span_from(text, first.size + 1);
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
        if (span_equal(provider, span_of(providers[i].name)))
            deployment->provider = &providers[i];
    if (deployment->provider == NULL)
        import_left_out(plan, model.line, model.key,
                        "\"%.*s\" speaks no protocol that model servers here have (vllm, sglang, "
                        "llamacpp, tgi, openai)",
                        (int)provider.size, provider.data);
    else if (!import_is_word(deployment->upstream, URL_BYTES_MAX))
        import_left_out(plan, model.line, model.key, "expected printable ASCII without spaces");
    return deployment->provider != NULL && import_is_word(deployment->upstream, URL_BYTES_MAX);
}

/* The first of api_base, base_url and the credential's api_base. */
static struct import_found find_base(const struct deployment *deployment)
{
    struct import_found base = param(deployment, "api_base");

    if (base.node == NULL)
        base = param(deployment, "base_url");
    if (base.node == NULL && import_find(deployment->credential, "", "api_base").node != NULL)
        base =
            import_find(deployment->credential, "credential_list[].credential_values", "api_base");
    return base;
}

static struct span without_slashes(struct span url)
{
    while (url.size > 0 && url.data[url.size - 1] == '/')
        url.size--;
    return url;
}

static bool ends_in(struct span url, struct span end)
{
    return url.size >= end.size && memcmp(url.data + url.size - end.size, end.data, end.size) == 0;
}

/* The base without the path of an endpoint, which some write behind it. */
static struct span without_endpoint(struct span url)
{
    static const char *const endpoints[] = {"/chat/completions", "/completions", "/embeddings",
                                            "/rerank", "/audio/transcriptions"};

    url = without_slashes(url);
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++)
        if (ends_in(url, span_of(endpoints[i])))
            return (struct span){url.data, url.size - strlen(endpoints[i])};
    return url;
}

/* Variables within a longer text: what must be set for it. */
static bool mention_variables(struct import_plan *plan, struct span text)
{
    bool any = false;

    for (size_t at = 0; at < text.size; at++) {
        const struct span rest = span_from(text, at);
        const char *end = memchr(rest.data, '}', rest.size);

        if (!span_starts(rest, SPAN("${")) || end == NULL)
            continue;
        any |=
            import_reference(plan, (struct span){rest.data, (size_t)(end - rest.data) + 1}).data !=
            NULL;
    }
    return any;
}

static bool read_url(struct import_plan *plan, struct deployment *deployment)
{
    const struct provider *provider = deployment->provider;
    const struct import_found base = find_base(deployment);
    const struct span text = import_text_of(plan, base.node);
    const uint32_t line = base.node != NULL ? base.line : deployment->line;
    struct config_replica checked;

    if (text.data == NULL && provider->url == NULL) {
        import_left_out(plan, line, base.key, "expected the address of the model server (%s)",
                        provider->name);
        return false;
    }
    deployment->url = text.data == NULL ? span_of(provider->url) : without_endpoint(text);
    if (import_reference(plan, deployment->url).data != NULL) {
        deployment->url = import_reference(plan, deployment->url);
        return true;
    }
    if (!import_is_word(deployment->url, URL_BYTES_MAX) ||
        memchr(deployment->url.data, '@', deployment->url.size) != NULL ||
        (!mention_variables(plan, deployment->url) && !values_url(deployment->url, &checked))) {
        import_left_out(plan, line, base.key,
                        "expected http://host:port or https://host:port, either with a /path; no "
                        "user, no query");
        return false;
    }
    if (text.data != NULL && provider->versioned && !ends_in(deployment->url, SPAN("/v1")))
        import_good_to_know(plan, line, base.key,
                            "LiteLLM adds /chat/completions to it; here /v1/chat/completions is "
                            "added");
    return true;
}

/* What people write for a server that wants no key. */
static bool is_no_key(struct span text)
{
    static const char *const words[] = {
        "none",       "empty", "dummy", "fake",     "fake-key",          "no-key",
        "not-needed", "n/a",   "na",    "anything", "sk-no-key-required"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (span_equal_nocase(text, span_of(words[i])))
            return true;
    return false;
}

static struct span read_key(struct import_plan *plan, const struct deployment *deployment)
{
    struct import_found key = param(deployment, "api_key");

    if (key.node == NULL && import_find(deployment->credential, "", "api_key").node != NULL)
        key = import_find(deployment->credential, "credential_list[].credential_values", "api_key");
    if (key.node == NULL && find_base(deployment).node == NULL && deployment->provider->key != NULL)
        return import_variable_named(plan, span_of(deployment->provider->key));
    if (is_no_key(import_text_of(plan, key.node))) {
        import_good_to_know(plan, key.line, key.key, "taken to mean that there is none");
        return (struct span){NULL, 0};
    }
    return import_secret_at(plan, &key, deployment->name, "_API_KEY");
}

/* ---- Models ---- */

static struct import_model *add_model(struct import_plan *plan, const struct deployment *deployment,
                                      struct span name)
{
    struct import_model *model;

    if (plan->model_count == CONFIG_MODELS_MAX) {
        import_left_out(plan, deployment->line, deployment->key, "there are %d models already",
                        CONFIG_MODELS_MAX);
        return NULL;
    }
    model = arena_take_zeroed(plan->arena, sizeof(*model));
    if (model == NULL) {
        plan->out_of_memory = true;
        return NULL;
    }
    model->name = import_keep(plan, name);
    model->group = deployment->name;
    model->upstream = deployment->upstream;
    model->kind = deployment->provider->kind;
    model->line = deployment->line;
    model->answers_tokens = true;
    plan->models[plan->model_count++] = model;
    return model;
}

/* The servers of one model here are of one kind and know it by one name. Those of a group that do
 * not fit its first entry become a further model, to which the group falls back. */
static struct import_model *split_group(struct import_plan *plan,
                                        const struct deployment *deployment,
                                        struct import_model *first)
{
    char name[IMPORT_NAME_BYTES_MAX + 16];
    int size = 0;
    struct import_model *model;

    for (unsigned i = 2; size == 0 || import_find_model(plan, (struct span){name, (size_t)size});
         i++)
        size = snprintf(name, sizeof(name), "%.*s-%u",
                        (int)(deployment->name.size < 110 ? deployment->name.size : 110),
                        deployment->name.data, i);
    model = add_model(plan, deployment, (struct span){name, (size_t)size});
    if (model == NULL)
        return NULL;
    import_left_out(plan, deployment->line, deployment->key,
                    "sharing load with line %u: servers of one model are of one kind and know it "
                    "by one name; it becomes %s, %s",
                    first->line, name,
                    import_add_fallback(first, model, deployment->line)
                        ? "tried when those of the first cannot answer"
                        : "which nothing falls back to");
    return model;
}

static struct import_model *model_for(struct import_plan *plan, const struct deployment *deployment)
{
    struct import_model *first = NULL;

    for (uint32_t i = 0; i < plan->model_count; i++) {
        struct import_model *model = plan->models[i];

        if (!span_equal(model->group, deployment->name))
            continue;
        if (model->kind == deployment->provider->kind &&
            span_equal(model->upstream, deployment->upstream))
            return model;
        if (first == NULL)
            first = model;
    }
    if (first != NULL)
        return split_group(plan, deployment, first);
    /* A model that a split made may have taken the name. */
    if (import_find_model(plan, deployment->name) != NULL) {
        import_left_out(plan, deployment->line, deployment->key,
                        "expected another name: a model made of a group has it");
        return NULL;
    }
    return add_model(plan, deployment, deployment->name);
}

/* In the order of enum import_price. */
#define PRICE_KEYS                                                                                 \
    "input_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",      \
        "output_cost_per_token", "output_cost_per_reasoning_token"

static void read_prices(struct import_plan *plan, const struct deployment *deployment,
                        struct import_model *model)
{
    static const char *const keys[IMPORT_PRICES] = {PRICE_KEYS};
    const bool first = model->price_line == 0;

    for (int i = 0; i < IMPORT_PRICES; i++) {
        struct import_found found = param(deployment, keys[i]);
        char text[IMPORT_PRICE_BYTES];

        if (found.node == NULL)
            found = import_find(deployment->info.node, deployment->info.key, keys[i]);
        if (import_text_of(plan, found.node).data == NULL)
            continue;
        if (!import_price(import_text_of(plan, found.node), text)) {
            import_left_out(plan, found.line, found.key,
                            "expected USD per token, in whole picodollars");
        } else if (first) {
            model->prices[i] = import_keep(plan, span_of(text));
            if (model->price_line == 0)
                model->price_line = found.line;
        } else if (!span_equal(model->prices[i], span_of(text))) {
            import_left_out(plan, found.line, found.key,
                            "a model has one price; that of line %u stays", model->price_line);
        }
    }
}

static void read_mode(struct import_plan *plan, const struct deployment *deployment,
                      struct import_model *model)
{
    static const char *const tokens[] = {"chat", "completion", "responses"};
    static const char *const others[] = {"embedding", "rerank", "audio_transcription"};
    const struct import_found mode =
        import_find(deployment->info.node, deployment->info.key, "mode");
    const struct span text = import_text_of(plan, mode.node);

    if (text.data == NULL)
        return;
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
        if (span_equal(text, span_of(tokens[i])))
            return;
    model->answers_tokens = false;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (span_equal(text, span_of(others[i])))
            return;
    import_left_out(plan, mode.line, mode.key, "no endpoint here serves it");
}

/* model_info.id if it can be a name that no other replica has, else the model's name and a number.
 */
static struct span replica_name(struct import_plan *plan, const struct deployment *deployment,
                                const struct import_model *model)
{
    const struct import_found id = import_find(deployment->info.node, deployment->info.key, "id");
    const char *slash = memrchr(model->name.data, '/', model->name.size);
    const struct span last = slash == NULL
                                 ? model->name
                                 : span_from(model->name, (size_t)(slash - model->name.data) + 1);
    struct span wanted = import_text_of(plan, id.node);
    char text[IMPORT_NAME_BYTES_MAX];
    uint32_t number = model->replica_count + 1;

    for (bool taken = !import_is_word(wanted, IMPORT_NAME_BYTES_MAX);; taken = false) {
        for (uint32_t i = 0; i < model->replica_count && !taken; i++)
            taken = span_equal(model->replicas[i].name, wanted);
        if (!taken)
            return import_keep(plan, wanted);
        wanted = (struct span){text, (size_t)snprintf(text, sizeof(text), "%.*s-%u",
                                                      (int)(last.size < 110 ? last.size : 110),
                                                      last.data, number++)};
    }
}

static void add_replica(struct import_plan *plan, const struct deployment *deployment,
                        struct import_model *model, int64_t slots)
{
    const struct import_found parallel = param(deployment, "max_parallel_requests");
    struct import_replica *replica = &model->replicas[model->replica_count];

    if (model->replica_count == MODEL_REPLICAS_MAX) {
        import_left_out(plan, deployment->line, deployment->key,
                        "a model has at most %d model servers", MODEL_REPLICAS_MAX);
        return;
    }
    replica->name = replica_name(plan, deployment, model);
    replica->url = import_keep(plan, deployment->url);
    replica->key = read_key(plan, deployment);
    replica->slots = import_count_at(plan, &parallel, 65536);
    if (replica->slots == 0)
        replica->slots = slots;
    replica->line = deployment->line;
    model->replica_count++;
}

static void read_tokens(struct import_plan *plan, const struct deployment *deployment,
                        struct import_model *model)
{
    const struct import_found input =
        import_find(deployment->info.node, deployment->info.key, "max_input_tokens");
    const struct import_found output =
        import_find(deployment->info.node, deployment->info.key, "max_output_tokens");

    if (model->input_tokens == 0)
        model->input_tokens = import_count_at(plan, &input, 500000000);
    if (model->output_tokens == 0)
        model->output_tokens = import_count_at(plan, &output, 500000000);
}

static void list_rest_of_deployment(struct import_plan *plan, const struct node *entry,
                                    const struct deployment *deployment)
{
    static const char *const of_entry[] = {"model_name", "litellm_params", "model_info", NULL};
    static const char *const of_params[] = {"model",
                                            "custom_llm_provider",
                                            "api_base",
                                            "base_url",
                                            "api_key",
                                            "max_parallel_requests",
                                            "litellm_credential_name",
                                            PRICE_KEYS,
                                            NULL};
    static const char *const of_info[] = {"mode", "max_input_tokens", "max_output_tokens",
                                          PRICE_KEYS, NULL};

    import_list_rest(plan, entry, deployment->key, of_entry);
    import_list_rest(plan, deployment->params.node, deployment->params.key, of_params);
    import_list_rest(plan, deployment->info.node, deployment->info.key, of_info);
}

/* credential_list: what a name stands for. */
static const struct node *find_credential(struct import_plan *plan, const struct node *root,
                                          const struct deployment *deployment)
{
    const struct import_found wanted = param(deployment, "litellm_credential_name");
    const struct import_found list = import_find(root, "", "credential_list");
    const struct span name = import_text_of(plan, wanted.node);

    if (name.data == NULL)
        return NULL;
    for (uint32_t i = 0; list.node && list.node->kind == NODE_LIST && i < list.node->count; i++) {
        const struct node *item = list.node->items[i];

        if (span_equal(import_text_of(plan, import_find(item, "", "credential_name").node), name))
            return import_find(item, "", "credential_values").node;
    }
    import_left_out(plan, wanted.line, wanted.key, "credential_list has none of this name");
    return NULL;
}

void import_deployment(struct import_plan *plan, const struct node *root, const struct node *entry,
                       uint32_t index, int64_t slots)
{
    struct deployment deployment = {.line = entry->line};
    struct import_found name;
    struct import_model *model;

    (void)snprintf(deployment.key, sizeof(deployment.key), "model_list[%u]", index);
    name = import_find(entry, deployment.key, "model_name");
    if (name.node == NULL)
        name.line = entry->line;
    deployment.name = import_text_of(plan, name.node);
    deployment.params = import_find(entry, deployment.key, "litellm_params");
    deployment.info = import_find(entry, deployment.key, "model_info");
    if (!import_is_good_name(plan, &name, deployment.name) || !read_provider(plan, &deployment))
        return;
    deployment.credential = find_credential(plan, root, &deployment);
    if (!read_url(plan, &deployment))
        return;
    model = model_for(plan, &deployment);
    if (model == NULL)
        return;
    if (deployment.provider->says != NULL && model->replica_count == 0 &&
        find_base(&deployment).node != NULL)
        import_good_to_know(plan, deployment.line, deployment.key, "%s", deployment.provider->says);
    add_replica(plan, &deployment, model, slots);
    read_prices(plan, &deployment, model);
    read_mode(plan, &deployment, model);
    read_tokens(plan, &deployment, model);
    list_rest_of_deployment(plan, entry, &deployment);
}

void import_say_what_is_free(struct import_plan *plan)
{
    for (uint32_t i = 0; i < plan->model_count; i++) {
        const struct import_model *model = plan->models[i];
        const bool input = model->prices[PRICE_INPUT].data != NULL;
        const bool output = model->prices[PRICE_OUTPUT].data != NULL || !model->answers_tokens;

        if (!input || !output)
            import_good_to_know(plan, model->line, "model_list",
                                "no price of %s is known for \"%.*s\": it is 0, and nothing is "
                                "charged for them",
                                !input && !output ? "tokens"
                                : input           ? "output tokens"
                                                  : "input tokens",
                                (int)model->name.size, model->name.data);
    }
}

/* Every variable that the text names, or that a provider's default names: no plain secret gets such
 * a name. */
void import_reserve_names(struct import_plan *plan, struct span text)
{
    static const struct span before = {"os.environ/", 11};

    for (const char *at = text.data; at != NULL;) {
        struct span rest = {at, (size_t)(text.data + text.size - at)};

        at = rest.size == 0 ? NULL : memmem(rest.data, rest.size, before.data, before.size);
        if (at == NULL)
            break;
        at += before.size;
        rest = (struct span){at, (size_t)(text.data + text.size - at)};
        import_variable_reserve(plan, rest);
    }
    for (size_t i = 0; i + 2 < text.size; i++)
        if (span_starts(span_from(text, i), SPAN("${")))
            import_variable_reserve(plan, span_from(text, i + 2));
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
        if (providers[i].key != NULL)
            import_variable_reserve(plan, span_of(providers[i].key));
}
