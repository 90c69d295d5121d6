/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_litellm.c: a LiteLLM proxy's configuration into a plan of ours.
 *
 * For:       operators who come from there: the door config_import_litellm().
 * Called by: cmd_import.c.
 * Knows not: how our file is spelled (import_plan.c).
 *
 * What its keys mean: LiteLLM's documents of the proxy's settings and of the router, read in 2026.
 * Whatever is found and not taken over is said, null and false excepted: there they mean "not
 * said". */
#include "config/import_litellm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/reader.h"
#include "config/values.h"

#define FILE_BYTES_MAX ((size_t)32 << 20)
#define PLAN_BYTES_MAX ((size_t)1 << 30)
#define MERGES_MAX 8 /* maps merged into maps ("<<"), one in another */
#define PLACE_BYTES 200
#define NAME_BYTES_MAX 128
#define URL_BYTES_MAX 1024

/* ---- The file's tree ---- */

/* A node and where it stands. node NULL: not there. */
struct found {
    const struct node *node;
    uint32_t line;
    char key[PLACE_BYTES];
};

/* In the text that the reader gets, $ of ${ is this: it stays a reference instead of becoming the
 * environment's text. U+E000, which no text has. */
static const struct span dollar_mark = {"\xee\x80\x80", 3};

static struct span swap_marks(struct import_plan *plan, struct span text, struct span from,
                              struct span to)
{
    struct span swapped = {NULL, 0};
    char *bytes = arena_take(plan->arena, 3 * text.size + 1);
    size_t size = 0;

    if (bytes == NULL) {
        plan->out_of_memory = true;
        return swapped;
    }
    for (size_t i = 0; i < text.size;) {
        const struct span rest = span_from(text, i);

        if (span_starts(rest, from) && rest.size > from.size && rest.data[from.size] == '{') {
            memcpy(bytes + size, to.data, to.size);
            size += to.size;
            i += from.size;
        } else {
            bytes[size++] = text.data[i++];
        }
    }
    bytes[size] = '\0';
    return (struct span){bytes, size};
}

/* A text of the file as it stands there; {NULL, 0}: it is none, or null. */
static struct span text_of(struct import_plan *plan, const struct node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

    if (node == NULL || node->kind != NODE_TEXT || node->broken)
        return (struct span){NULL, 0};
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
        if (span_equal(node->text, span_of(nulls[i])))
            return (struct span){NULL, 0};
    if (memmem(node->text.data, node->text.size, dollar_mark.data, dollar_mark.size) == NULL)
        return node->text;
    return swap_marks(plan, node->text, dollar_mark, SPAN("$"));
}

/* The last pair with this key, as Python's readers have it, also of maps merged into this one. */
static const struct node_pair *find_pair(const struct node *map, struct span key, int merges)
{
    const struct node *merged = NULL;
    const struct node_pair *pair = NULL;

    if (map == NULL || map->kind != NODE_MAP || merges > MERGES_MAX)
        return NULL;
    for (uint32_t i = map->count; i > 0; i--) {
        if (span_equal(map->pairs[i - 1].key, key))
            return &map->pairs[i - 1];
        if (span_equal(map->pairs[i - 1].key, SPAN("<<")))
            merged = map->pairs[i - 1].value;
    }
    if (merged == NULL || merged->kind != NODE_LIST)
        return find_pair(merged, key, merges + 1);
    for (uint32_t i = 0; i < merged->count && pair == NULL; i++)
        pair = find_pair(merged->items[i], key, merges + 1);
    return pair;
}

/* What stands under a key of a map that stands at above ("" is the top). */
static struct found find(const struct node *map, const char *above, const char *key)
{
    const struct node_pair *pair = find_pair(map, span_of(key), 0);
    struct found found = {.node = pair == NULL ? NULL : pair->value,
                          .line = pair == NULL ? 0 : pair->line};

    (void)snprintf(found.key, sizeof(found.key), "%.120s%s%.70s", above, above[0] ? "." : "", key);
    return found;
}

static bool is_word(struct span text, size_t most)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return text.size > 0 && text.size <= most;
}

/* ---- What has no counterpart ---- */

/* Why a key is left out. says NULL: nothing is lost without it. */
struct reason {
    const char *place; /* pattern of what it stands under */
    const char *key;   /* pattern */
    const char *says;
};

static const struct reason reasons[] = {
    {"*", "supports_*", NULL},
    {"*model_info", "id", NULL},
    {"*model_info", "base_model", NULL},
    {"*model_info", "litellm_provider", NULL},
    {"*model_info", "db_model", NULL},
    {"*model_info", "description", NULL},
    {"*", "set_verbose", NULL},
    {"*", "debug_level", NULL},
    {"*", "json_logs", NULL},
    {"*litellm_params", "rpm", "there are no rates per model server; slots bounds its work"},
    {"*litellm_params", "tpm", "there are no rates per model server; slots bounds its work"},
    {"*", "weight", "the model server with the least work is taken"},
    {"*", "order", "the model server with the least work is taken; see models.*.fallback"},
    {"*litellm_params", "timeout", "timeouts hold for all models (timeouts.whole)"},
    {"*", "stream_timeout", "timeouts hold for streams and whole answers (timeouts.first_byte)"},
    {"*litellm_params", "*_retries", "retries hold for all models (retry.attempts)"},
    {"*model_info", "max_tokens",
     "it means the input to some and the answer to others; write max_output_tokens there or "
     "models.*.output here"},
    {"*", "*cost*", "prices are per token: input, cached_input, cache_write, output, reasoning"},
    {"*litellm_params", "max_tokens", "clients say it themselves"},
    {"*litellm_params", "temperature", "clients say it themselves"},
    {"*", "extra_headers", "no headers are added to what model servers get"},
    {"*", "drop_params", "bodies pass as they came; model servers say what they do not take"},
    {"*", "modify_params", "bodies pass as they came"},
    {"*", "routing_strategy*", "the model server with the least work is taken"},
    {"*", "redis_*", "gateways share no state"},
    {"*", "cache*", "answers are not cached"},
    {"*", "*callback*", "the access log, the journal and /metrics say what was done"},
    {"*", "context_window_fallbacks", "fallback is for model servers that cannot answer"},
    {"*", "content_policy_fallbacks", "fallback is for model servers that cannot answer"},
    {"*", "retry_policy", "what is tried again does not depend on the error's name"},
    {"*", "allowed_fails_policy", "health.out_after counts all failures"},
    {"*", "disable_cooldowns", "health.out_after says when a model server is taken out"},
    {"*", "default_team_settings", "there are no teams; tenants have keys, models and tags"},
    {"general_settings", "database_url",
     "keys and spend stay there; the SHA-256 of a key that LiteLLM keeps in that database can "
     "stand in tenants.*.keys as sha256:HEX, and meter.journal is where charges go"},
    {"general_settings", "global_max_parallel_requests", "limits.in_flight bounds that"},
    {"general_settings", "max_request_size_mb", "limits.body bounds that"},
    {"general_settings", "health_check_interval", "health.check_every is that"},
    {"general_settings", "pass_through_endpoints", "only known endpoints are served"},
    {"", "include", "put the files together first"},
    {"", "guardrails", "there are none"},
    {"environment_variables", "*", "set it in the environment of the gateway"},
    {"*", "*", "it has no counterpart here"},
};

static bool is_off(struct import_plan *plan, const struct node *node)
{
    const struct span text = text_of(plan, node);

    return node->kind == NODE_TEXT && (text.data == NULL || span_equal_nocase(text, SPAN("false")));
}

static void say_why(struct import_plan *plan, const char *above, const struct node_pair *pair)
{
    char key[PLACE_BYTES];

    (void)snprintf(key, sizeof(key), "%.120s%s%.*s", above, above[0] ? "." : "",
                   (int)(pair->key.size < 70 ? pair->key.size : 70), pair->key.data);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (span_matches(span_of(above), span_of(reasons[i].place)) &&
            span_matches(pair->key, span_of(reasons[i].key))) {
            if (reasons[i].says != NULL)
                import_left_out(plan, pair->line, key, "%s", reasons[i].says);
            return;
        }
}

/* Says of every key that is not among those taken (a list that ends in NULL) why it is not. */
static void list_rest(struct import_plan *plan, const struct node *map, const char *above,
                      const char *const *taken, int merges)
{
    if (map == NULL || map->kind != NODE_MAP || merges > MERGES_MAX)
        return;
    for (uint32_t i = 0; i < map->count; i++) {
        const struct node_pair *pair = &map->pairs[i];
        bool known = is_off(plan, pair->value);

        if (span_equal(pair->key, SPAN("<<"))) {
            list_rest(plan, pair->value, above, taken, merges + 1);
            for (uint32_t k = 0; pair->value->kind == NODE_LIST && k < pair->value->count; k++)
                list_rest(plan, pair->value->items[k], above, taken, merges + 1);
            continue;
        }
        for (size_t k = 0; taken[k] != NULL && !known; k++)
            known = span_equal(pair->key, span_of(taken[k]));
        if (!known)
            say_why(plan, above, pair);
    }
}

/* ---- Secrets and references ---- */

/* os.environ/NAME or ${NAME} as "${NAME}"; {NULL, 0}: it is neither. */
static struct span reference(struct import_plan *plan, struct span text)
{
    if (span_starts(text, SPAN("os.environ/")))
        return import_variable_named(plan, span_from(text, sizeof("os.environ/") - 1));
    if (span_starts(text, SPAN("${")) && text.data[text.size - 1] == '}')
        return import_variable_named(plan, (struct span){text.data + 2, text.size - 3});
    return (struct span){NULL, 0};
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

/* A secret of the file as a reference; a plain one gets a name made of owner and suffix. */
static struct span secret_at(struct import_plan *plan, const struct found *found, struct span owner,
                             const char *suffix)
{
    const struct span text = text_of(plan, found->node);
    struct span result = {NULL, 0};
    char wanted[NAME_BYTES_MAX];
    int size;

    if (text.data == NULL)
        return result;
    result = reference(plan, text);
    if (result.data != NULL)
        return result;
    if (span_starts(text, SPAN("os.environ/"))) {
        import_left_out(plan, found->line, found->key,
                        "expected os.environ/ and a variable's name");
        return result;
    }
    size = snprintf(wanted, sizeof(wanted), "%.*s%s", (int)(owner.size < 80 ? owner.size : 80),
                    owner.data, suffix);
    result = import_variable_for(plan, (struct span){wanted, (size_t)size}, text);
    if (result.data == NULL)
        import_left_out(plan, found->line, found->key, "there are too many secrets");
    else
        import_good_to_know(plan, found->line, found->key,
                            "the secret is not copied: set it as %.*s in the environment",
                            (int)result.size - 3, result.data + 2);
    return result;
}

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
    char key[PLACE_BYTES]; /* model_list[3] */
    uint32_t line;
    struct found params;
    struct found info;
    const struct node *credential; /* what litellm_credential_name points to; NULL: nothing */
    struct span name;
    struct span upstream;
    const struct provider *provider;
    struct span url;
};

static struct found param(const struct deployment *deployment, const char *key)
{
    return find(deployment->params.node, deployment->params.key, key);
}

/* Splits "provider/name"; custom_llm_provider goes before. false: said why. */
static bool read_provider(struct import_plan *plan, struct deployment *deployment)
{
    const struct found model = param(deployment, "model");
    const struct found custom = param(deployment, "custom_llm_provider");
    const struct span text = text_of(plan, model.node);
    struct span provider = text_of(plan, custom.node);
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
                        "expected provider/model; LiteLLM knows the provider of %.*s from a list "
                        "of its own",
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
    else if (!is_word(deployment->upstream, URL_BYTES_MAX))
        import_left_out(plan, model.line, model.key, "expected printable ASCII without spaces");
    return deployment->provider != NULL && is_word(deployment->upstream, URL_BYTES_MAX);
}

/* The first of api_base, base_url and the credential's api_base. */
static struct found find_base(const struct deployment *deployment)
{
    struct found base = param(deployment, "api_base");

    if (base.node == NULL)
        base = param(deployment, "base_url");
    if (base.node == NULL && find(deployment->credential, "", "api_base").node != NULL)
        base = find(deployment->credential, "credential_list[].credential_values", "api_base");
    return base;
}

static bool ends_in_version(struct span url)
{
    while (url.size > 0 && url.data[url.size - 1] == '/')
        url.size--;
    return url.size >= 3 && memcmp(url.data + url.size - 3, "/v1", 3) == 0;
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
            reference(plan, (struct span){rest.data, (size_t)(end - rest.data) + 1}).data != NULL;
    }
    return any;
}

static bool read_url(struct import_plan *plan, struct deployment *deployment)
{
    const struct provider *provider = deployment->provider;
    const struct found base = find_base(deployment);
    const struct span text = text_of(plan, base.node);
    const uint32_t line = base.node != NULL ? base.line : deployment->line;
    struct config_replica checked;

    if (text.data == NULL && provider->url == NULL) {
        import_left_out(plan, line, base.key, "expected the address of the model server (%s)",
                        provider->name);
        return false;
    }
    deployment->url = text.data == NULL ? span_of(provider->url) : text;
    if (reference(plan, deployment->url).data != NULL) {
        deployment->url = reference(plan, deployment->url);
        return true;
    }
    if (!is_word(deployment->url, URL_BYTES_MAX) ||
        memchr(deployment->url.data, '@', deployment->url.size) != NULL ||
        (!mention_variables(plan, deployment->url) && !values_url(deployment->url, &checked))) {
        import_left_out(plan, line, base.key,
                        "expected http://host:port or https://host:port, either with a /path; no "
                        "user, no query");
        return false;
    }
    if (text.data != NULL && provider->versioned && !ends_in_version(text))
        import_good_to_know(plan, line, base.key,
                            "LiteLLM adds /chat/completions to it; here /v1/chat/completions is "
                            "added");
    return true;
}

static struct span read_key(struct import_plan *plan, const struct deployment *deployment)
{
    struct found key = param(deployment, "api_key");

    if (key.node == NULL && find(deployment->credential, "", "api_key").node != NULL)
        key = find(deployment->credential, "credential_list[].credential_values", "api_key");
    if (key.node == NULL && find_base(deployment).node == NULL && deployment->provider->key != NULL)
        return import_variable_named(plan, span_of(deployment->provider->key));
    if (is_no_key(text_of(plan, key.node))) {
        import_good_to_know(plan, key.line, key.key, "taken to mean that there is none");
        return (struct span){NULL, 0};
    }
    return secret_at(plan, &key, deployment->name, "_API_KEY");
}

/* ---- Models ---- */

static struct import_model *find_model(struct import_plan *plan, struct span name)
{
    for (uint32_t i = 0; i < plan->model_count; i++) {
        if (span_equal(plan->models[i]->name, name))
            return plan->models[i];
        for (uint32_t k = 0; k < plan->models[i]->alias_count; k++)
            if (span_equal(plan->models[i]->aliases[k], name))
                return plan->models[i];
    }
    return NULL;
}

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

static bool add_fallback(struct import_model *model, const struct import_model *next, uint32_t line)
{
    for (uint32_t i = 0; i < model->fallback_count; i++)
        if (model->fallback[i] == next)
            return true;
    if (model == next)
        return true;
    if (model->fallback_count == IMPORT_FALLBACK_MAX)
        return false;
    if (model->fallback_count == 0)
        model->fallback_line = line;
    model->fallback[model->fallback_count++] = next;
    return true;
}

/* The servers of one model here are of one kind and know it by one name. Those of a group that do
 * not fit its first entry become a further model, to which the group falls back. */
static struct import_model *split_group(struct import_plan *plan,
                                        const struct deployment *deployment,
                                        struct import_model *first)
{
    char name[NAME_BYTES_MAX + 16];
    int size = 0;
    struct import_model *model;

    for (unsigned i = 2; size == 0 || find_model(plan, (struct span){name, (size_t)size}); i++)
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
                    add_fallback(first, model, deployment->line)
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
    if (find_model(plan, deployment->name) != NULL) {
        import_left_out(plan, deployment->line, deployment->key,
                        "expected another name: a model made of a group has it");
        return NULL;
    }
    return add_model(plan, deployment, deployment->name);
}

/* A count of tokens, of requests or the like; 0: not said, or said why not. */
static int64_t count_at(struct import_plan *plan, const struct found *found, int64_t most)
{
    const struct span text = text_of(plan, found->node);
    int64_t value;

    if (text.data == NULL)
        return 0;
    if (span_to_int64(text, &value) && value >= 1 && value <= most)
        return value;
    import_left_out(plan, found->line, found->key, "expected a number from 1 to %" PRId64, most);
    return 0;
}

static void read_prices(struct import_plan *plan, const struct deployment *deployment,
                        struct import_model *model)
{
    static const char *const keys[IMPORT_PRICES] = {
        [PRICE_INPUT] = "input_cost_per_token",
        [PRICE_CACHED] = "cache_read_input_token_cost",
        [PRICE_WRITE] = "cache_creation_input_token_cost",
        [PRICE_OUTPUT] = "output_cost_per_token",
        [PRICE_REASONING] = "output_cost_per_reasoning_token",
    };
    const bool first = model->price_line == 0;

    for (int i = 0; i < IMPORT_PRICES; i++) {
        struct found found = param(deployment, keys[i]);
        char text[IMPORT_PRICE_BYTES];

        if (found.node == NULL)
            found = find(deployment->info.node, deployment->info.key, keys[i]);
        if (text_of(plan, found.node).data == NULL)
            continue;
        if (!import_price(text_of(plan, found.node), text)) {
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
    const struct found mode = find(deployment->info.node, deployment->info.key, "mode");
    const struct span text = text_of(plan, mode.node);

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
    const struct found id = find(deployment->info.node, deployment->info.key, "id");
    const char *slash = memrchr(model->name.data, '/', model->name.size);
    const struct span last = slash == NULL
                                 ? model->name
                                 : span_from(model->name, (size_t)(slash - model->name.data) + 1);
    struct span wanted = text_of(plan, id.node);
    char text[NAME_BYTES_MAX];
    uint32_t number = model->replica_count + 1;

    for (bool taken = !is_word(wanted, NAME_BYTES_MAX);; taken = false) {
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
    const struct found parallel = param(deployment, "max_parallel_requests");
    struct import_replica *replica = &model->replicas[model->replica_count];

    if (model->replica_count == MODEL_REPLICAS_MAX) {
        import_left_out(plan, deployment->line, deployment->key,
                        "a model has at most %d model servers", MODEL_REPLICAS_MAX);
        return;
    }
    replica->name = replica_name(plan, deployment, model);
    replica->url = import_keep(plan, deployment->url);
    replica->key = read_key(plan, deployment);
    replica->slots = count_at(plan, &parallel, 65536);
    if (replica->slots == 0)
        replica->slots = slots;
    replica->line = deployment->line;
    model->replica_count++;
}

static void read_tokens(struct import_plan *plan, const struct deployment *deployment,
                        struct import_model *model)
{
    const struct found input =
        find(deployment->info.node, deployment->info.key, "max_input_tokens");
    const struct found output =
        find(deployment->info.node, deployment->info.key, "max_output_tokens");

    if (model->input_tokens == 0)
        model->input_tokens = count_at(plan, &input, 500000000);
    if (model->output_tokens == 0)
        model->output_tokens = count_at(plan, &output, 500000000);
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
                                            "input_cost_per_token",
                                            "output_cost_per_token",
                                            "cache_read_input_token_cost",
                                            "cache_creation_input_token_cost",
                                            "output_cost_per_reasoning_token",
                                            NULL};
    static const char *const of_info[] = {"mode",
                                          "max_input_tokens",
                                          "max_output_tokens",
                                          "input_cost_per_token",
                                          "output_cost_per_token",
                                          "cache_read_input_token_cost",
                                          "cache_creation_input_token_cost",
                                          "output_cost_per_reasoning_token",
                                          NULL};

    list_rest(plan, entry, deployment->key, of_entry, 0);
    list_rest(plan, deployment->params.node, deployment->params.key, of_params, 0);
    list_rest(plan, deployment->info.node, deployment->info.key, of_info, 0);
}

/* credential_list: what a name stands for. */
static const struct node *find_credential(struct import_plan *plan, const struct node *root,
                                          const struct deployment *deployment)
{
    const struct found wanted = param(deployment, "litellm_credential_name");
    const struct found list = find(root, "", "credential_list");
    const struct span name = text_of(plan, wanted.node);

    if (name.data == NULL)
        return NULL;
    for (uint32_t i = 0; list.node && list.node->kind == NODE_LIST && i < list.node->count; i++) {
        const struct node *item = list.node->items[i];

        if (span_equal(text_of(plan, find(item, "", "credential_name").node), name))
            return find(item, "", "credential_values").node;
    }
    import_left_out(plan, wanted.line, wanted.key, "credential_list has none of this name");
    return NULL;
}

/* May the model have this name here? Says why not. */
static bool is_good_name(struct import_plan *plan, const struct found *found, struct span name)
{
    if (name.data != NULL && memchr(name.data, '*', name.size) != NULL)
        import_left_out(plan, found->line, found->key,
                        "models by pattern are not served: write each one down");
    else if (!is_word(name, NAME_BYTES_MAX))
        import_left_out(plan, found->line, found->key,
                        "expected a name of 1 to %d printable ASCII characters without spaces",
                        NAME_BYTES_MAX);
    else if (span_equal(name, SPAN("auto")))
        import_left_out(plan, found->line, found->key,
                        "expected another name: auto lets the gateway choose");
    else
        return true;
    return false;
}

static void read_deployment(struct import_plan *plan, const struct node *root,
                            const struct node *entry, uint32_t index, int64_t slots)
{
    struct deployment deployment = {.line = entry->line};
    struct found name;
    struct import_model *model;

    (void)snprintf(deployment.key, sizeof(deployment.key), "model_list[%u]", index);
    name = find(entry, deployment.key, "model_name");
    if (name.node == NULL)
        name.line = entry->line;
    deployment.name = text_of(plan, name.node);
    deployment.params = find(entry, deployment.key, "litellm_params");
    deployment.info = find(entry, deployment.key, "model_info");
    if (!is_good_name(plan, &name, deployment.name) || !read_provider(plan, &deployment))
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

static void say_what_is_free(struct import_plan *plan)
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

/* ---- Settings ---- */

/* What router_settings says goes before what litellm_settings says. */
static struct found setting(const struct node *root, const char *key)
{
    struct found found = find(find(root, "", "router_settings").node, "router_settings", key);

    if (found.node == NULL)
        found = find(find(root, "", "litellm_settings").node, "litellm_settings", key);
    return found;
}

/* Takes a number over if it is in range. added: what ours counts more. */
static void read_number(struct import_plan *plan, const struct found *found, int64_t added,
                        int64_t least, int64_t most, struct import_number *out)
{
    const struct span text = text_of(plan, found->node);
    int64_t value;

    if (text.data == NULL)
        return;
    if (span_to_int64(text, &value) && value < most && value + added >= least &&
        value + added <= most)
        *out = (struct import_number){value + added, found->line};
    else
        import_left_out(plan, found->line, found->key,
                        "expected a whole number from %" PRId64 " to %" PRId64, least - added,
                        most - added);
}

/* The same for seconds, which may have three places. */
static void read_seconds(struct import_plan *plan, const struct found *found, int64_t least_ms,
                         int64_t most_ms, struct import_number *out)
{
    const struct span text = text_of(plan, found->node);
    int64_t ms;

    if (text.data == NULL)
        return;
    if (values_decimal(text, 3, &ms) && ms >= least_ms && ms <= most_ms)
        *out = (struct import_number){ms, found->line};
    else
        import_left_out(plan, found->line, found->key,
                        "expected seconds from %" PRId64 " ms to %" PRId64 " s", least_ms,
                        most_ms / 1000);
}

/* The ranges are those of options.def. */
static void read_numbers(struct import_plan *plan, const struct node *root)
{
    const struct found retries = setting(root, "num_retries");
    const struct found fails = setting(root, "allowed_fails");
    const struct found cooldown = setting(root, "cooldown_time");
    struct found timeout =
        find(find(root, "", "router_settings").node, "router_settings", "timeout");

    if (timeout.node == NULL)
        timeout = setting(root, "request_timeout");
    read_number(plan, &retries, 1, 1, 10, &plan->attempts);
    read_number(plan, &fails, 1, 1, 1000, &plan->out_after);
    read_seconds(plan, &cooldown, 10, 3600000, &plan->out_for_ms);
    read_seconds(plan, &timeout, 100, 86400000, &plan->timeout_ms);
}

/* One name for a model: {name: group} or {name: {model: group, hidden: true}}. */
static void read_alias(struct import_plan *plan, const char *above, const struct node_pair *pair)
{
    struct found found = {.node = pair->value, .line = pair->line};
    struct import_model *model;
    struct span target;

    (void)snprintf(found.key, sizeof(found.key), "%.90s.%.*s", above,
                   (int)(pair->key.size < 100 ? pair->key.size : 100), pair->key.data);
    if (!is_good_name(plan, &found, pair->key))
        return;
    if (pair->value->kind == NODE_MAP) {
        target = text_of(plan, find(pair->value, "", "model").node);
        if (!is_off(plan, pair->value) && find(pair->value, "", "hidden").node != NULL &&
            !is_off(plan, find(pair->value, "", "hidden").node))
            import_good_to_know(plan, pair->line, found.key, "GET /v1/models does not hide it");
    } else {
        target = text_of(plan, pair->value);
    }
    model = target.data == NULL ? NULL : find_model(plan, target);
    if (model == NULL)
        import_left_out(plan, pair->line, found.key,
                        "no model that was taken over has the name "
                        "that it stands for");
    else if (find_model(plan, pair->key) != NULL)
        import_left_out(plan, pair->line, found.key, "a model or another alias has this name");
    else if (model->alias_count == IMPORT_ALIASES_MAX)
        import_left_out(plan, pair->line, found.key, "a model has at most %d aliases",
                        IMPORT_ALIASES_MAX);
    else
        model->aliases[model->alias_count++] = pair->key;
}

static void read_aliases(struct import_plan *plan, const struct node *root)
{
    const struct found aliases = setting(root, "model_group_alias");

    if (aliases.node == NULL || aliases.node->kind != NODE_MAP)
        return;
    for (uint32_t i = 0; i < aliases.node->count; i++)
        read_alias(plan, aliases.key, &aliases.node->pairs[i]);
}

/* The models of a list, each tried when those before it cannot answer. */
static void read_fallback_list(struct import_plan *plan, struct import_model *model,
                               const struct node *list, uint32_t line, const char *key)
{
    if (list->kind != NODE_LIST) {
        import_left_out(plan, line, key, "expected a list of models");
        return;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const struct span name = text_of(plan, list->items[i]);
        const struct import_model *next = name.data == NULL ? NULL : find_model(plan, name);

        if (next == NULL)
            import_left_out(plan, list->items[i]->line, key,
                            "\"%.*s\" is no model that was taken over", (int)name.size,
                            name.data == NULL ? "" : name.data);
        else if (!add_fallback(model, next, line))
            import_left_out(plan, list->items[i]->line, key, "a model has at most %d fallbacks",
                            IMPORT_FALLBACK_MAX);
    }
}

/* Fallbacks for all that have none of their own: to each model that is the first of its group. */
static void read_default_fallbacks(struct import_plan *plan, const struct node *list, uint32_t line,
                                   const char *key, const bool *has_own)
{
    for (uint32_t i = 0; i < plan->model_count; i++)
        if (!has_own[i] && span_equal(plan->models[i]->name, plan->models[i]->group))
            read_fallback_list(plan, plan->models[i], list, line, key);
}

static void read_fallbacks(struct import_plan *plan, const struct node *root)
{
    const struct found found = setting(root, "fallbacks");
    const struct found defaults = setting(root, "default_fallbacks");
    const struct node_pair *all = NULL;
    bool has_own[CONFIG_MODELS_MAX] = {false};

    for (uint32_t i = 0; found.node && found.node->kind == NODE_LIST && i < found.node->count;
         i++) {
        const struct node *item = found.node->items[i];

        for (uint32_t k = 0; item->kind == NODE_MAP && k < item->count; k++) {
            const struct node_pair *pair = &item->pairs[k];
            struct import_model *model = find_model(plan, pair->key);

            if (span_equal(pair->key, SPAN("*"))) {
                all = pair;
            } else if (model == NULL) {
                import_left_out(plan, pair->line, found.key,
                                "\"%.*s\" is no model that was taken over", (int)pair->key.size,
                                pair->key.data);
            } else {
                for (uint32_t m = 0; m < plan->model_count; m++)
                    has_own[m] |= plan->models[m] == model;
                read_fallback_list(plan, model, pair->value, pair->line, found.key);
            }
        }
        if (item->kind != NODE_MAP)
            import_left_out(plan, item->line, found.key, "expected a map from a model to a list");
    }
    if (found.node != NULL && found.node->kind != NODE_LIST && !is_off(plan, found.node))
        import_left_out(plan, found.line, found.key, "expected a list of maps");
    if (all != NULL)
        read_default_fallbacks(plan, all->value, all->line, found.key, has_own);
    else if (defaults.node != NULL && !is_off(plan, defaults.node))
        read_default_fallbacks(plan, defaults.node, defaults.line, defaults.key, has_own);
}

static void read_master_key(struct import_plan *plan, const struct node *root)
{
    const struct found general = find(root, "", "general_settings");
    const struct found found = find(general.node, general.key, "master_key");

    plan->master_key = secret_at(plan, &found, SPAN("LITELLM"), "_MASTER_KEY");
    plan->master_key_line = plan->master_key.data == NULL ? 0 : found.line;
    if (plan->master_key.data != NULL)
        return;
    plan->master_key = import_variable_named(plan, SPAN("LITELLM_MASTER_KEY"));
    import_left_out(plan, general.node == NULL ? 1 : general.line, found.key,
                    "there is none: LiteLLM may let everybody in, and here every request needs a "
                    "key (LITELLM_MASTER_KEY in the environment)");
}

static void list_rest_of_settings(struct import_plan *plan, const struct node *root)
{
    static const char *const of_root[] = {"model_list",
                                          "router_settings",
                                          "litellm_settings",
                                          "general_settings",
                                          "credential_list",
                                          "environment_variables",
                                          NULL};
    static const char *const of_settings[] = {
        "num_retries", "allowed_fails",     "cooldown_time",
        "timeout",     "request_timeout",   "model_group_alias",
        "fallbacks",   "default_fallbacks", "default_max_parallel_requests",
        NULL};
    static const char *const of_general[] = {"master_key", NULL};
    static const char *const of_environment[] = {NULL};
    const struct found router = find(root, "", "router_settings");
    const struct found library = find(root, "", "litellm_settings");
    const struct found general = find(root, "", "general_settings");
    const struct found environment = find(root, "", "environment_variables");

    list_rest(plan, root, "", of_root, 0);
    list_rest(plan, router.node, router.key, of_settings, 0);
    list_rest(plan, library.node, library.key, of_settings, 0);
    list_rest(plan, general.node, general.key, of_general, 0);
    list_rest(plan, environment.node, environment.key, of_environment, 0);
}

static void read_all(struct import_plan *plan, const struct node *root)
{
    const struct found list = find(root, "", "model_list");
    const struct found parallel = setting(root, "default_max_parallel_requests");
    const int64_t slots = count_at(plan, &parallel, 65536);

    if (list.node == NULL || list.node->kind != NODE_LIST || list.node->count == 0)
        import_left_out(plan, list.node == NULL ? 1 : list.line, "model_list",
                        "there is none; models that LiteLLM keeps in its database are not seen");
    for (uint32_t i = 0; list.node && list.node->kind == NODE_LIST && i < list.node->count; i++)
        read_deployment(plan, root, list.node->items[i], i, slots);
    say_what_is_free(plan);
    read_aliases(plan, root);
    read_fallbacks(plan, root);
    read_numbers(plan, root);
    read_master_key(plan, root);
    list_rest_of_settings(plan, root);
}

/* ---- The door ---- */

/* Every variable that the text names, or that a provider's default names: no plain secret gets such
 * a name. */
static void reserve_names(struct import_plan *plan, struct span text)
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

enum err import_litellm_text(const char *name, struct span text, struct config_import *out_import)
{
    struct problem_list problems = {.file = span_of(name)};
    const struct node *root = NULL;
    struct import_plan *plan;
    struct arena arena;
    struct span marked;
    enum err err = ERR_NO_MEMORY;

    *out_import = (struct config_import){0};
    arena_init(&arena, NULL, 0, PLAN_BYTES_MAX);
    plan = arena_take_zeroed(&arena, sizeof(*plan));
    if (plan == NULL)
        goto out;
    import_plan_init(plan, &arena, span_of(name));
    marked = swap_marks(plan, text, SPAN("$"), dollar_mark);
    if (marked.data == NULL)
        goto out;
    err = reader_parse(marked, &arena, &problems, &root);
    if (err == OK && root->kind != NODE_MAP) {
        problems_add_at(&problems, root->line, "file", "expected a map, as LiteLLM's files are");
        err = ERR_BAD_VALUE;
    }
    if (err == ERR_BAD_VALUE && !problems_render(&problems, &out_import->notes))
        err = ERR_NO_MEMORY;
    if (err != OK)
        goto out;
    reserve_names(plan, text);
    if (problems.error_count > 0)
        import_left_out(plan, 1, "file", "%zu keys that are no names, or texts with a NUL byte",
                        problems.error_count);
    read_all(plan, root);
    err = import_plan_print(plan, out_import);

out:
    problems_fini(&problems);
    arena_fini(&arena);
    return err;
}

/* The whole file; false (errno says why) when it cannot be read. */
static bool read_file(const char *path, char **out_text, size_t *out_size)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    bool good = false;

    if (file == NULL)
        return false;
    text = malloc(FILE_BYTES_MAX + 1);
    if (text != NULL)
        size = fread(text, 1, FILE_BYTES_MAX + 1, file);
    if (text != NULL && size > FILE_BYTES_MAX)
        errno = EFBIG;
    else
        good = text != NULL && ferror(file) == 0;
    (void)fclose(file);
    if (!good) {
        free(text);
        return false;
    }
    *out_text = text;
    *out_size = size;
    return true;
}

enum err config_import_litellm(const char *path, struct config_import *out_import)
{
    struct problem_list problems = {.file = span_of(path)};
    char *text = NULL;
    size_t size = 0;
    enum err err;

    *out_import = (struct config_import){0};
    if (!read_file(path, &text, &size)) {
        problems_add_at(&problems, 0, "file", "cannot be read: %s", strerror(errno));
        if (!problems_render(&problems, &out_import->notes)) {
            problems_fini(&problems);
            return ERR_NO_MEMORY;
        }
        return ERR_BAD_VALUE;
    }
    err = import_litellm_text(path, (struct span){text, size}, out_import);
    free(text);
    return err;
}

void config_import_free(struct config_import *import)
{
    free(import->yaml);
    config_problems_free(&import->notes);
    *import = (struct config_import){0};
}
