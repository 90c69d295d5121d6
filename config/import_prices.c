/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_prices.c: LiteLLM's public price map into price lists of ours.
 *
 * For:       operators who sell at list prices or start from them: the door config_import_prices().
 * Called by: cmd_import.c.
 * Knows not: what a price costs a tenant (meter/price.c); that there are sockets.
 *
 * The map is JSON, one object a model. It is read as YAML, which JSON is: the reader keeps a number
 * as it is written, so that 1.5e-07 becomes 0.15 USD per million tokens by moving its point, and no
 * float is ever made of it. A model is taken with all its standard prices or not at all: a price
 * that is missing would be billed as another one.
 *
 * What its fields mean: the map's own sample and LiteLLM's documents, read in 2026: "above" is over
 * so many tokens of the whole prompt, for the whole call. */
#include "config/import_prices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/values.h"

#define ARENA_BYTES_MAX ((size_t)1 << 30)
#define NOISE_DIGITS 15 /* of a double's 17; nobody's list price has as many */

/* Where a field of a model stands, for notes. */
const char *import_entry_place(const struct import_entry *entry, struct span field,
                               char out[IMPORT_PLACE_BYTES])
{
    (void)snprintf(out, IMPORT_PLACE_BYTES, "%.*s.%.*s",
                   (int)(entry->name.size < 100 ? entry->name.size : 100), entry->name.data,
                   (int)(field.size < 90 ? field.size : 90), field.data);
    return out;
}

/* ---- Names of fields ---- */

/* What a field's name says: input_cost_per_token_above_200k_tokens_priority. */
struct field {
    enum import_price price;
    enum service_tier tier;
    int64_t above;
};

/* Takes with from the front of *text, if it is there. */
static bool take(struct span *text, struct span with)
{
    if (!span_starts(*text, with))
        return false;
    *text = span_from(*text, with.size);
    return true;
}

/* Takes "_above_200k_tokens". */
static bool take_above(struct span *text, int64_t *out_above)
{
    struct span rest = *text;
    size_t digits = 0;
    int64_t thousands;

    if (!take(&rest, SPAN("_above_")))
        return false;
    while (digits < rest.size && rest.data[digits] >= '0' && rest.data[digits] <= '9')
        digits++;
    if (digits > 6 || !span_to_int64((struct span){rest.data, digits}, &thousands) ||
        thousands == 0)
        return false;
    rest = span_from(rest, digits);
    if (!take(&rest, SPAN("k_tokens")))
        return false;
    *out_above = thousands * 1000;
    *text = rest;
    return true;
}

/* false: it is no price of a token that we know. */
static bool read_field_name(struct span name, struct field *out)
{
    static const struct {
        const char *name;
        enum import_price price;
    } prices[] = {
        {"input_cost_per_token_cache_hit", PRICE_CACHED}, /* as some entries have it */
        {"input_cost_per_token", PRICE_INPUT},
        {"output_cost_per_token", PRICE_OUTPUT},
        {"output_cost_per_reasoning_token", PRICE_REASONING},
        {"cache_read_input_token_cost", PRICE_CACHED},
        {"cache_creation_input_token_cost", PRICE_WRITE},
    };
    const size_t count = sizeof(prices) / sizeof(prices[0]);
    size_t i = 0;

    while (i < count && !take(&name, span_of(prices[i].name)))
        i++;
    if (i == count)
        return false;
    *out = (struct field){.price = prices[i].price, .tier = TIER_STANDARD};
    while (name.size > 0) {
        if (take(&name, SPAN("_flex")))
            out->tier = TIER_FLEX;
        else if (take(&name, SPAN("_priority")))
            out->tier = TIER_PRIORITY;
        else if (take(&name, SPAN("_batches")))
            out->tier = TIER_BATCH;
        else if (!take_above(&name, &out->above))
            return false;
    }
    return true;
}

/* ---- Prices ---- */

/* How many digits a number has, without zeros before them and its exponent. */
static size_t digits_of(struct span number)
{
    size_t digits = 0;

    for (size_t i = 0; i < number.size && number.data[i] != 'e' && number.data[i] != 'E'; i++)
        if (number.data[i] >= '0' && number.data[i] <= '9' && (digits > 0 || number.data[i] != '0'))
            digits++;
    return digits;
}

/* USD per token as written, into picodollars; false (and said) when it is no price. */
static bool read_price(const struct import_entry *entry, struct span field,
                       const struct node_pair *pair, int64_t *out_pusd)
{
    const struct span text = import_text_of(entry->plan, pair->value);
    char million[IMPORT_PRICE_BYTES];
    char place[IMPORT_PLACE_BYTES];

    if (text.data != NULL && import_price(text, million) &&
        values_decimal(span_of(million), 6, out_pusd))
        return true;
    (void)import_entry_place(entry, field, place);
    if (text.data == NULL)
        import_left_out(entry->plan, pair->line, place, "expected a number");
    else if (digits_of(text) >= NOISE_DIGITS)
        import_left_out(entry->plan, pair->line, place,
                        "%.40s is a float's noise: write the price that was meant", text.data);
    else
        import_left_out(entry->plan, pair->line, place,
                        "%.40s: expected USD per token, whole picodollars (12 places), at most 1",
                        text.data);
    return false;
}

static void put_price(struct import_entry *entry, const struct field *field,
                      const struct node_pair *pair)
{
    char place[IMPORT_PLACE_BYTES];
    struct import_band *band = import_entry_band(entry, field->above);
    struct import_cell *cell;
    int64_t pusd = 0;

    if (band == NULL) {
        import_left_out(entry->plan, pair->line, import_entry_place(entry, pair->key, place),
                        "more than %u lengths of prompt", PRICE_BRACKETS_MAX);
        entry->unusable = true;
        return;
    }
    if (!read_price(entry, pair->key, pair, &pusd)) {
        entry->tier_odd[field->tier] = true;
        return;
    }
    cell = &band->cells[field->tier][field->price];
    if (cell->said && cell->pusd != pusd) {
        import_left_out(entry->plan, pair->line, import_entry_place(entry, pair->key, place),
                        "another price than line %u says", cell->line);
        entry->tier_odd[field->tier] = true;
        return;
    }
    *cell = (struct import_cell){.said = true, .line = pair->line, .pusd = pusd};
}

/* Is it null, or 0 as the map has it for what a model has not? */
static bool says_nothing(const struct import_entry *entry, const struct node *value)
{
    const struct span text = import_text_of(entry->plan, value);

    if (value->kind != NODE_TEXT)
        return false;
    return text.data == NULL || span_equal(text, SPAN("0")) || span_equal(text, SPAN("0.0"));
}

/* ---- What is no price of a token ---- */

static bool contains(struct span text, const char *part)
{
    return memmem(text.data, text.size, part, strlen(part)) != NULL;
}

/* Fields of the map that say nothing about money. */
static bool is_about_no_money(struct span field)
{
    static const char *const starts[] = {"supports_", "supported_", "max_", "uses_", "provider_"};
    static const char *const whole[] = {"mode",
                                        "litellm_provider",
                                        "source",
                                        "rpm",
                                        "tpm",
                                        "rpd",
                                        "metadata",
                                        "comment",
                                        "output_vector_size",
                                        "deprecation_date",
                                        "tool_use_system_prompt_tokens",
                                        "default_image_size"};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (span_starts(field, span_of(starts[i])))
            return true;
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (span_equal(field, span_of(whole[i])))
            return true;
    return false;
}

static void say_why_not(const struct import_entry *entry, const struct node_pair *pair)
{
    static const struct {
        const char *part;
        const char *why;
    } reasons[] = {
        {"_above_1hr", "cache writes have one price here, whatever their lifetime"},
        {"audio", "tokens of audio have no price of their own here"},
        {"image", "images have no price of their own here: they are input tokens"},
        {"video", "video has no price of its own here"},
        {"per_second", "only tokens are priced here, not seconds"},
        {"per_pixel", "only tokens are priced here, not pixels"},
        {"per_character", "only tokens are priced here, not characters"},
        {"per_page", "only tokens are priced here, not pages"},
        {"per_query", "only tokens are priced here, not queries"},
        {"search", "only tokens are priced here, not searches"},
        {"session", "only tokens are priced here, not sessions"},
        {"cost", "no such price here: tokens of input and output have prices"},
    };
    char place[IMPORT_PLACE_BYTES];
    const char *why = "not known";

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (contains(pair->key, reasons[i].part)) {
            why = reasons[i].why;
            break;
        }
    }
    import_left_out(entry->plan, pair->line, import_entry_place(entry, pair->key, place), "%s",
                    why);
}

/* ---- One model ---- */

static void read_fields(struct import_entry *entry)
{
    for (uint32_t i = 0; i < entry->map->count; i++) {
        const struct node_pair *pair = &entry->map->pairs[i];
        struct field field;

        if (span_equal(pair->key, SPAN("tiered_pricing")) || is_about_no_money(pair->key) ||
            (pair->value->kind == NODE_TEXT &&
             import_text_of(entry->plan, pair->value).data == NULL))
            continue;
        if (!read_field_name(pair->key, &field)) {
            if (!says_nothing(entry, pair->value))
                say_why_not(entry, pair);
        } else {
            put_price(entry, &field, pair);
        }
    }
}

/* The number of tokens that a range begins with, or ends before; -1: it is none. */
static int64_t read_edge(const struct import_entry *entry, const struct node *range, uint32_t item)
{
    int64_t tokens = -1;
    struct span text;

    if (range == NULL || range->kind != NODE_LIST || range->count != 2)
        return -1;
    text = import_text_of(entry->plan, range->items[item]);
    if (text.data == NULL || !values_decimal(text, 0, &tokens) || tokens > INT64_C(1000000000000))
        return -1;
    return tokens;
}

/* tiered_pricing: [{range: [0, 32000], input_cost_per_token: …}, {range: [32000, 128000], …}]. */
static void read_ranges(struct import_entry *entry)
{
    const struct import_found list = import_find(entry->map, "", "tiered_pricing");
    const struct node *ranges = list.node;
    char place[IMPORT_PLACE_BYTES];
    int64_t before = 0;

    if (ranges == NULL)
        return;
    (void)import_entry_place(entry, SPAN("tiered_pricing"), place);
    if (entry->band_count > 0 || ranges->kind != NODE_LIST || ranges->count == 0) {
        import_left_out(entry->plan, list.line, place, "expected a list, and no prices beside it");
        entry->unusable = true;
        return;
    }
    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct import_found range = import_find(ranges->items[i], "", "range");
        const int64_t above = read_edge(entry, range.node, 0);

        if (above != before || (i > 0 && above == 0)) {
            import_left_out(entry->plan, ranges->items[i]->line, place,
                            "expected range: [from, to] from 0 on, without gaps");
            entry->unusable = true;
            return;
        }
        for (uint32_t k = 0; k < ranges->items[i]->count; k++) {
            const struct node_pair *pair = &ranges->items[i]->pairs[k];
            struct field field;

            if (span_equal(pair->key, SPAN("range")))
                continue;
            if (!read_field_name(pair->key, &field) || field.above != 0) {
                say_why_not(entry, pair);
                continue;
            }
            field.above = above;
            put_price(entry, &field, pair);
        }
        before = read_edge(entry, range.node, 1);
    }
}

/* ---- All models ---- */

/* Is name among names with commas between? */
static bool is_named(struct span names, struct span name)
{
    while (names.size > 0) {
        const char *comma = memchr(names.data, ',', names.size);
        const size_t size = comma == NULL ? names.size : (size_t)(comma - names.data);

        if (span_equal((struct span){names.data, size}, name))
            return true;
        names = span_from(names, size < names.size ? size + 1 : size);
    }
    return false;
}

/* true: a price list was printed. */
static bool take_model(struct import_plan *plan, const struct node *root, uint32_t index, FILE *out)
{
    const struct node_pair *pair = &root->pairs[index];
    struct import_entry entry = {
        .plan = plan, .name = pair->key, .map = pair->value, .line = pair->line};
    struct import_found found = {.node = pair->value, .line = pair->line};
    const size_t shown = pair->key.size < 190 ? pair->key.size : 190;

    (void)snprintf(found.key, sizeof(found.key), "%.*s", (int)shown, pair->key.data);
    if (!import_is_good_name(plan, &found, pair->key))
        return false;
    for (uint32_t i = index + 1; i < root->count; i++) {
        if (span_equal(root->pairs[i].key, pair->key)) {
            import_left_out(plan, pair->line, found.key, "stands again in line %u, which holds",
                            root->pairs[i].line);
            return false;
        }
    }
    if (pair->value->kind != NODE_MAP) {
        import_left_out(plan, pair->line, found.key, "expected a map");
        return false;
    }
    read_fields(&entry);
    read_ranges(&entry);
    if (entry.unusable || entry.tier_odd[TIER_STANDARD]) {
        import_left_out(plan, pair->line, found.key, "one of its prices could not be taken");
        return false;
    }
    if (!import_entry_finish(&entry)) {
        import_left_out(plan, pair->line, found.key, "it has no prices per input and output token");
        return false;
    }
    import_entry_print(out, &entry);
    return true;
}

/* Says which of the names that were asked for the map has not; false: there is one. */
static bool has_all(struct problem_list *problems, const struct node *root, struct span names)
{
    bool all = true;

    while (names.size > 0) {
        const char *comma = memchr(names.data, ',', names.size);
        const size_t size = comma == NULL ? names.size : (size_t)(comma - names.data);
        const struct span name = {names.data, size};
        bool found = false;

        for (uint32_t i = 0; i < root->count && !found; i++)
            found = span_equal(root->pairs[i].key, name);
        if (!found)
            problems_add_at(problems, 1, "models", "the file has no \"%.*s\"",
                            (int)(size < 128 ? size : 128), name.data);
        all = all && found;
        names = span_from(names, size < names.size ? size + 1 : size);
    }
    return all;
}

static enum err take_all(struct import_plan *plan, const struct node *root, struct span models,
                         struct config_import *out_import)
{
    FILE *out = open_memstream(&out_import->yaml, &out_import->yaml_size);

    if (out == NULL)
        return ERR_NO_MEMORY;
    (void)fputs(
        "# Prices in USD per million tokens. Each model lacks its kind and replicas.\nmodels:\n",
        out);
    for (uint32_t i = 0; i < root->count; i++) {
        const struct span name = root->pairs[i].key;

        if (models.data != NULL ? is_named(models, name) : !span_equal(name, SPAN("sample_spec")))
            out_import->model_count += take_model(plan, root, i, out) ? 1 : 0;
    }
    if (fclose(out) != 0 || plan->out_of_memory)
        return ERR_NO_MEMORY;
    out_import->left_out_count = plan->left_out_count;
    return import_print_notes(plan, &out_import->notes);
}

enum err import_prices_text(const char *name, struct span text, struct span models,
                            struct config_import *out_import)
{
    struct problem_list problems = {.file = span_of(name)};
    const struct node *root = NULL;
    struct import_plan *plan;
    struct arena arena;
    struct span marked;
    enum err err = ERR_NO_MEMORY;

    *out_import = (struct config_import){0};
    arena_init(&arena, NULL, 0, ARENA_BYTES_MAX);
    plan = arena_take_zeroed(&arena, sizeof(*plan));
    if (plan == NULL)
        goto out;
    import_plan_init(plan, &arena, span_of(name));
    marked = import_shield(plan, text);
    if (marked.data == NULL)
        goto out;
    err = reader_parse(marked, &arena, &problems, &root);
    if (err == OK && root->kind != NODE_MAP) {
        problems_add_at(&problems, root->line, "file", "expected a map of models");
        err = ERR_BAD_VALUE;
    }
    if (err == OK && !has_all(&problems, root, models))
        err = ERR_BAD_VALUE;
    if (err == OK)
        err = take_all(plan, root, models, out_import);
    else if (err == ERR_BAD_VALUE && !problems_render(&problems, &out_import->notes))
        err = ERR_NO_MEMORY;

out:
    if (err != OK) {
        free(out_import->yaml);
        out_import->yaml = NULL;
    }
    problems_fini(&problems);
    arena_fini(&arena);
    return err;
}

enum err config_import_prices(const char *path, struct span models,
                              struct config_import *out_import)
{
    struct problem_list problems = {.file = span_of(path)};
    char *text = NULL;
    size_t size = 0;
    enum err err;

    *out_import = (struct config_import){0};
    if (import_read_file(path, &text, &size)) {
        err = import_prices_text(path, (struct span){text, size}, models, out_import);
        free(text);
        return err;
    }
    problems_add_at(&problems, 0, "file", "cannot be read: %s", strerror(errno));
    err = problems_render(&problems, &out_import->notes) ? ERR_BAD_VALUE : ERR_NO_MEMORY;
    problems_fini(&problems);
    return err;
}
