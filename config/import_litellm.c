/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_litellm.c: a LiteLLM proxy's configuration into a plan of ours.
 *
 * For:       operators who come from there: the door config_import_litellm(); the settings of the
 *            router, of the library and of the proxy.
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

#include "config/table.h"
#include "config/values.h"

#define FILE_BYTES_MAX ((size_t)32 << 20)
#define PLAN_BYTES_MAX ((size_t)1 << 30)

/* ---- Settings ---- */

/* What router_settings says goes before what litellm_settings says. */
static struct import_found setting(const struct node *root, const char *key)
{
    struct import_found found =
        import_find(import_find(root, "", "router_settings").node, "router_settings", key);

    if (found.node == NULL)
        found =
            import_find(import_find(root, "", "litellm_settings").node, "litellm_settings", key);
    return found;
}

/* Takes a number over if our option may have it. added: what ours counts more. */
static void read_number(struct import_plan *plan, const struct import_found *found, int64_t added,
                        const struct option *option, struct import_number *out)
{
    const struct span text = import_text_of(plan, found->node);
    const int64_t least = option->minimum - added;
    const int64_t most = option->maximum - added;
    int64_t value;

    if (text.data == NULL)
        return;
    if (span_to_int64(text, &value) && value >= least && value <= most)
        *out = (struct import_number){value + added, found->line};
    else
        import_left_out(plan, found->line, found->key,
                        "expected a whole number from %" PRId64 " to %" PRId64, least, most);
}

/* The same for seconds, which may have three places. */
static void read_seconds(struct import_plan *plan, const struct import_found *found,
                         const struct option *option, struct import_number *out)
{
    const struct span text = import_text_of(plan, found->node);
    int64_t ms;

    if (text.data == NULL)
        return;
    if (values_decimal(text, 3, &ms) && ms >= option->minimum && ms <= option->maximum)
        *out = (struct import_number){ms, found->line};
    else
        import_left_out(plan, found->line, found->key,
                        "expected seconds from %" PRId64 " ms to %" PRId64 " s", option->minimum,
                        option->maximum / 1000);
}

static void read_numbers(struct import_plan *plan, const struct node *root)
{
    const struct import_found retries = setting(root, "num_retries");
    const struct import_found fails = setting(root, "allowed_fails");
    const struct import_found cooldown = setting(root, "cooldown_time");
    struct import_found timeout = setting(root, "timeout");

    if (timeout.node == NULL)
        timeout = setting(root, "request_timeout");
    read_number(plan, &retries, 1, table_option("retry.attempts"), &plan->attempts);
    read_number(plan, &fails, 1, table_option("health.out_after"), &plan->out_after);
    read_seconds(plan, &cooldown, table_option("health.out_for"), &plan->out_for_ms);
    read_seconds(plan, &timeout, table_option("timeouts.whole"), &plan->timeout_ms);
}

/* Of the strategies, those that come near ours are good to know of. */
static void read_strategy(struct import_plan *plan, const struct node *root)
{
    const struct import_found found = setting(root, "routing_strategy");
    const struct span text = import_text_of(plan, found.node);

    if (text.data == NULL)
        return;
    if (span_equal(text, SPAN("simple-shuffle")) || span_equal(text, SPAN("least-busy")))
        import_good_to_know(plan, found.line, found.key,
                            "the model server with the least work is taken");
    else
        import_left_out(plan, found.line, found.key,
                        "the model server with the least work is taken");
}

/* One name for a model: {name: group} or {name: {model: group, hidden: true}}. */
static void read_alias(struct import_plan *plan, const char *above, const struct node_pair *pair)
{
    struct import_found found = {.node = pair->value, .line = pair->line};
    struct import_model *model;
    struct span target;

    (void)snprintf(found.key, sizeof(found.key), "%.90s.%.*s", above,
                   (int)(pair->key.size < 100 ? pair->key.size : 100), pair->key.data);
    if (!import_is_good_name(plan, &found, pair->key))
        return;
    if (pair->value->kind == NODE_MAP) {
        target = import_text_of(plan, import_find(pair->value, "", "model").node);
        if (!import_is_off(plan, pair->value) &&
            import_find(pair->value, "", "hidden").node != NULL &&
            !import_is_off(plan, import_find(pair->value, "", "hidden").node))
            import_good_to_know(plan, pair->line, found.key, "GET /v1/models does not hide it");
    } else {
        target = import_text_of(plan, pair->value);
    }
    model = target.data == NULL ? NULL : import_find_model(plan, target);
    if (model == NULL)
        import_left_out(plan, pair->line, found.key,
                        "no model that was taken over has the name that it stands for");
    else if (import_find_model(plan, pair->key) != NULL)
        import_left_out(plan, pair->line, found.key, "a model or another alias has this name");
    else if (model->alias_count == IMPORT_ALIASES_MAX)
        import_left_out(plan, pair->line, found.key, "a model has at most %d aliases",
                        IMPORT_ALIASES_MAX);
    else
        model->aliases[model->alias_count++] = pair->key;
}

static void read_aliases(struct import_plan *plan, const struct node *root)
{
    const struct import_found aliases = setting(root, "model_group_alias");

    if (aliases.node == NULL || aliases.node->kind != NODE_MAP)
        return;
    for (uint32_t i = 0; i < aliases.node->count; i++)
        read_alias(plan, aliases.key, &aliases.node->pairs[i]);
}

/* Says which items of a list of models name none. */
static void say_missing(struct import_plan *plan, const struct node *list, uint32_t line,
                        const char *key)
{
    if (list->kind != NODE_LIST)
        import_left_out(plan, line, key, "expected a list of models");
    for (uint32_t i = 0; list->kind == NODE_LIST && i < list->count; i++) {
        const struct span name = import_text_of(plan, list->items[i]);

        if (name.data == NULL)
            import_left_out(plan, list->items[i]->line, key, "expected the name of a model");
        else if (import_find_model(plan, name) == NULL)
            import_left_out(plan, list->items[i]->line, key,
                            "\"%.*s\" is no model that was taken over", (int)name.size, name.data);
    }
}

/* The models of a list, each tried when those before it cannot answer. */
static void add_fallbacks(struct import_plan *plan, struct import_model *model,
                          const struct node *list, uint32_t line, const char *key)
{
    for (uint32_t i = 0; list->kind == NODE_LIST && i < list->count; i++) {
        const struct span name = import_text_of(plan, list->items[i]);
        const struct import_model *next = name.data == NULL ? NULL : import_find_model(plan, name);

        if (next != NULL && !import_add_fallback(model, next, line))
            import_left_out(plan, list->items[i]->line, key, "\"%.*s\" has at most %d fallbacks",
                            (int)model->name.size, model->name.data, IMPORT_FALLBACK_MAX);
    }
}

/* Fallbacks for all that have none of their own: to each model that is the first of its group. */
static void read_default_fallbacks(struct import_plan *plan, const struct node *list, uint32_t line,
                                   const char *key, const bool *has_own)
{
    say_missing(plan, list, line, key);
    for (uint32_t i = 0; i < plan->model_count; i++)
        if (!has_own[i] && span_equal(plan->models[i]->name, plan->models[i]->group))
            add_fallbacks(plan, plan->models[i], list, line, key);
}

/* One item of fallbacks: maps a model to those that come after it. *out_all: the pair of "*". */
static void read_fallback(struct import_plan *plan, const struct node *item, const char *key,
                          bool *has_own, const struct node_pair **out_all)
{
    if (item->kind != NODE_MAP)
        import_left_out(plan, item->line, key, "expected a map from a model to a list");
    for (uint32_t i = 0; item->kind == NODE_MAP && i < item->count; i++) {
        const struct node_pair *pair = &item->pairs[i];
        struct import_model *model = import_find_model(plan, pair->key);

        if (span_equal(pair->key, SPAN("*"))) {
            *out_all = pair;
            continue;
        }
        if (model == NULL) {
            import_left_out(plan, pair->line, key, "\"%.*s\" is no model that was taken over",
                            (int)pair->key.size, pair->key.data);
            continue;
        }
        for (uint32_t k = 0; k < plan->model_count; k++)
            has_own[k] |= plan->models[k] == model;
        say_missing(plan, pair->value, pair->line, key);
        add_fallbacks(plan, model, pair->value, pair->line, key);
    }
}

static void read_fallbacks(struct import_plan *plan, const struct node *root)
{
    const struct import_found found = setting(root, "fallbacks");
    const struct import_found defaults = setting(root, "default_fallbacks");
    const struct node_pair *all = NULL;
    bool has_own[CONFIG_MODELS_MAX] = {false};

    if (found.node != NULL && found.node->kind != NODE_LIST && !import_is_off(plan, found.node))
        import_left_out(plan, found.line, found.key, "expected a list of maps");
    for (uint32_t i = 0; found.node && found.node->kind == NODE_LIST && i < found.node->count; i++)
        read_fallback(plan, found.node->items[i], found.key, has_own, &all);
    if (all != NULL)
        read_default_fallbacks(plan, all->value, all->line, found.key, has_own);
    if (defaults.node == NULL || import_is_off(plan, defaults.node))
        return;
    if (all == NULL)
        read_default_fallbacks(plan, defaults.node, defaults.line, defaults.key, has_own);
    else
        import_left_out(plan, defaults.line, defaults.key, "fallbacks has \"*\" already");
}

static void read_master_key(struct import_plan *plan, const struct node *root)
{
    const struct import_found general = import_find(root, "", "general_settings");
    const struct import_found found = import_find(general.node, general.key, "master_key");

    plan->master_key = import_secret_at(plan, &found, SPAN("LITELLM"), "_MASTER_KEY");
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
    static const char *const of_settings[] = {"num_retries",
                                              "allowed_fails",
                                              "cooldown_time",
                                              "timeout",
                                              "request_timeout",
                                              "model_group_alias",
                                              "routing_strategy",
                                              "fallbacks",
                                              "default_fallbacks",
                                              "default_max_parallel_requests",
                                              NULL};
    static const char *const of_general[] = {"master_key", NULL};
    static const char *const of_environment[] = {NULL};
    const struct import_found router = import_find(root, "", "router_settings");
    const struct import_found library = import_find(root, "", "litellm_settings");
    const struct import_found general = import_find(root, "", "general_settings");
    const struct import_found environment = import_find(root, "", "environment_variables");

    import_list_rest(plan, root, "", of_root);
    import_list_rest(plan, router.node, router.key, of_settings);
    import_list_rest(plan, library.node, library.key, of_settings);
    import_list_rest(plan, general.node, general.key, of_general);
    import_list_rest(plan, environment.node, environment.key, of_environment);
}

static void read_all(struct import_plan *plan, const struct node *root)
{
    const struct import_found list = import_find(root, "", "model_list");
    const struct import_found parallel = setting(root, "default_max_parallel_requests");
    const int64_t slots = import_count_at(plan, &parallel, 65536);

    if (list.node == NULL || list.node->kind != NODE_LIST || list.node->count == 0)
        import_left_out(plan, list.node == NULL ? 1 : list.line, "model_list",
                        "there is none; models that LiteLLM keeps in its database are not seen");
    for (uint32_t i = 0; list.node && list.node->kind == NODE_LIST && i < list.node->count; i++)
        import_deployment(plan, root, list.node->items[i], i, slots);
    import_say_what_is_free(plan);
    read_aliases(plan, root);
    read_fallbacks(plan, root);
    read_numbers(plan, root);
    read_strategy(plan, root);
    read_master_key(plan, root);
    list_rest_of_settings(plan, root);
}

/* ---- The door ---- */

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
    marked = import_shield(plan, text);
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
    import_reserve_names(plan, text);
    if (problems.error_count > 0)
        import_left_out(plan, 1, "file", "%zu key%s that are no names, or texts with a NUL byte",
                        problems.error_count, span_plural(problems.error_count));
    read_all(plan, root);
    err = import_plan_print(plan, out_import);

out:
    problems_fini(&problems);
    arena_fini(&arena);
    return err;
}

bool import_read_file(const char *path, char **out_text, size_t *out_size)
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
    if (!import_read_file(path, &text, &size)) {
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
