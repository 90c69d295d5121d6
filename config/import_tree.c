/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_tree.c: questions asked of a LiteLLM file's tree.
 *
 * For:       values by key, with merged maps and references to the environment; why a key is left
 *            out; secrets as variables.
 * Called by: import_litellm.c, import_models.c.
 * Knows not: what model servers and settings come to here. */
#include <inttypes.h>
#include <stdio.h>

#include "config/import_litellm.h"

#define MERGES_MAX 3 /* maps merged into maps ("<<"), one in another */

/* ---- The file's tree ---- */

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

struct span import_shield(struct import_plan *plan, struct span text)
{
    return swap_marks(plan, text, SPAN("$"), dollar_mark);
}

/* A text of the file as it stands there; {NULL, 0}: it is none, or null. */
struct span import_text_of(struct import_plan *plan, const struct node *node)
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
struct import_found import_find(const struct node *map, const char *above, const char *key)
{
    const struct node_pair *pair = find_pair(map, span_of(key), 0);
    struct import_found found = {.node = pair == NULL ? NULL : pair->value,
                                 .line = pair == NULL ? 0 : pair->line};

    (void)snprintf(found.key, sizeof(found.key), "%.120s%s%.70s", above, above[0] ? "." : "", key);
    return found;
}

bool import_is_word(struct span text, size_t most)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return text.size > 0 && text.size <= most;
}

int64_t import_count_at(struct import_plan *plan, const struct import_found *found, int64_t most)
{
    const struct span text = import_text_of(plan, found->node);
    int64_t value;

    if (text.data == NULL)
        return 0;
    if (span_to_int64(text, &value) && value >= 1 && value <= most)
        return value;
    import_left_out(plan, found->line, found->key, "expected a number from 1 to %" PRId64, most);
    return 0;
}

/* ---- What has no counterpart ---- */

/* Why a key is left out. says NULL: nothing is lost without it. */
struct reason {
    const char *place; /* pattern of what it stands under */
    const char *key;   /* pattern */
    const char *says;
};

/* The first that fits holds. */
static const struct reason reasons[] = {
    {"environment_variables", "*", "set it in the environment of the gateway"},
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
    {"*", "routing_strategy_args", "the model server with the least work is taken"},
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
    {"general_settings", "max_parallel_requests", "models.*.replicas[].slots bounds that"},
    {"general_settings", "global_max_parallel_requests", "limits.in_flight bounds that"},
    {"general_settings", "max_request_size_mb", "limits.body_bytes bounds that"},
    {"general_settings", "health_check_interval", "health.check_every is that"},
    {"general_settings", "pass_through_endpoints", "only known endpoints are served"},
    {"", "include", "put the files together first"},
    {"", "guardrails", "there are none"},
    {"*", "*", "it has no counterpart here"},
};

bool import_is_off(struct import_plan *plan, const struct node *node)
{
    const struct span text = import_text_of(plan, node);

    return node->kind == NODE_TEXT && (text.data == NULL || span_equal_nocase(text, SPAN("false")));
}

static void say_why(struct import_plan *plan, const char *above, const struct node_pair *pair)
{
    char key[IMPORT_PLACE_BYTES];

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

/* merges: how many maps were merged into one another on the way here. */
static void list_rest(struct import_plan *plan, const struct node *map, const char *above,
                      const char *const *taken, int merges)
{
    if (map == NULL || map->kind != NODE_MAP || merges > MERGES_MAX)
        return;
    for (uint32_t i = 0; i < map->count; i++) {
        const struct node_pair *pair = &map->pairs[i];
        bool known = import_is_off(plan, pair->value);

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

void import_list_rest(struct import_plan *plan, const struct node *map, const char *above,
                      const char *const *taken)
{
    list_rest(plan, map, above, taken, 0);
}

/* ---- Secrets and references ---- */

/* os.environ/NAME or ${NAME} as "${NAME}"; {NULL, 0}: it is neither. */
struct span import_reference(struct import_plan *plan, struct span text)
{
    if (span_starts(text, SPAN("os.environ/")))
        return import_variable_named(plan, span_from(text, sizeof("os.environ/") - 1));
    if (span_starts(text, SPAN("${")) && text.data[text.size - 1] == '}')
        return import_variable_named(plan, (struct span){text.data + 2, text.size - 3});
    return (struct span){NULL, 0};
}

/* A secret of the file as a reference; a plain one gets a name made of owner and suffix. */
struct span import_secret_at(struct import_plan *plan, const struct import_found *found,
                             struct span owner, const char *suffix)
{
    const struct span text = import_text_of(plan, found->node);
    struct span result = {NULL, 0};
    char wanted[IMPORT_NAME_BYTES_MAX];
    int size;

    if (text.data == NULL)
        return result;
    result = import_reference(plan, text);
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

/* May the model have this name here? Says why not. */
bool import_is_good_name(struct import_plan *plan, const struct import_found *found,
                         struct span name)
{
    if (name.data != NULL && memchr(name.data, '*', name.size) != NULL)
        import_left_out(plan, found->line, found->key,
                        "models by pattern are not served: write each one down");
    else if (!import_is_word(name, IMPORT_NAME_BYTES_MAX))
        import_left_out(plan, found->line, found->key,
                        "expected a name of 1 to %d printable ASCII characters without spaces",
                        IMPORT_NAME_BYTES_MAX);
    else if (span_equal(name, SPAN("auto")))
        import_left_out(plan, found->line, found->key,
                        "expected another name: auto lets the gateway choose");
    else
        return true;
    return false;
}
