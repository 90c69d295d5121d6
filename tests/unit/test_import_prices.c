/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_import_prices.c: LiteLLM's price map as price lists of ours
 * (config/import_prices.c, import_list.c).
 *
 * Promises:  1. A number is taken as it is written: 1.5e-07 is exactly 0.15 USD per million.
 *            2. A model is taken with all its standard prices or not at all; why not is said with
 *               line and field: a float's noise, finer than a picodollar, two prices for one thing.
 *            3. Prices above a length of prompt are brackets; ranges are brackets too.
 *            4. A tier whose prices are the standard ones times one factor has this factor.
 *            5. What is not priced by token, or not known, is listed; what looks wrong is noted.
 *            6. Every price of the sample data comes out as the whole picodollars that the sample
 *               says (folder TOLLGATE_DATA, else ../shared/data; skipped when it is not there). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "config/import_litellm.h"

static struct config_import imported(const char *text, const char *models)
{
    struct config_import import;

    assert_int_equal(import_prices_text("m", span_of(text), span_of(models), &import), OK);
    return import;
}

/* The lists of a map, behind the two lines that all have. */
static void assert_lists(const char *text, const char *lists)
{
    struct config_import import = imported(text, NULL);
    const char *rest = strstr(import.yaml, "models:\n");

    assert_non_null(rest);
    assert_string_equal(rest + strlen("models:\n"), lists);
    config_import_free(&import);
}

/* The notes of a map, all of them. */
static void assert_notes(const char *text, const char *notes)
{
    struct config_import import = imported(text, NULL);

    assert_string_equal(import.notes.text, notes);
    config_import_free(&import);
}

static void numbers_are_taken_as_they_are_written(void **state)
{
    (void)state;

    assert_lists(
        "{\"a/b\": {\"mode\": \"chat\", \"input_cost_per_token\": 1.5e-07,\n"
        "  \"output_cost_per_token\": 6E-7, \"cache_read_input_token_cost\": 0.000000000001,\n"
        "  \"cache_creation_input_token_cost\": 3.625e-09,\n"
        "  \"output_cost_per_reasoning_token\": \"0.00001\",\n"
        "  \"max_input_tokens\": 1000, \"max_output_tokens\": 24}}",
        "  \"a/b\":\n"
        "    price:\n"
        "      - {input: \"0.15\", cached_input: \"0.000001\", cache_write: \"0.003625\", "
        "output: \"0.6\", reasoning: \"10\"}\n"
        "    context: 1024 # input and output together\n"
        "    output: 24\n");
}

static void what_cannot_be_a_price_leaves_the_model_out_and_says_why(void **state)
{
    (void)state;

    assert_notes(
        "{\n\"noise\": {\"input_cost_per_token\": 1.2345600000000001e-07,\n"
        "  \"output_cost_per_token\": 1e-6},\n"
        "\"fine\": {\"input_cost_per_token\": 1e-6, \"output_cost_per_token\": 1.5e-12},\n"
        "\"dear\": {\"input_cost_per_token\": 2, \"output_cost_per_token\": 2},\n"
        "\"list\": {\"input_cost_per_token\": [1], \"output_cost_per_token\": 1e-6},\n"
        "\"minus\": {\"input_cost_per_token\": -1e-6, \"output_cost_per_token\": 1e-6},\n"
        "\"none\": {\"mode\": \"chat\", \"output_cost_per_token\": 1e-6},\n"
        "\"half\": {\"mode\": \"chat\", \"input_cost_per_token\": 1e-6},\n"
        "\"text\": \"x\"}",
        "m:2: noise.input_cost_per_token: left out: 1.2345600000000001e-07 is a float's "
        "noise: write the price that was meant\n"
        "m:2: noise: left out: one of its prices could not be taken\n"
        "m:4: fine.output_cost_per_token: left out: 1.5e-12: expected USD per token, whole "
        "picodollars (12 places), at most 1\n"
        "m:4: fine: left out: one of its prices could not be taken\n"
        "m:5: dear.input_cost_per_token: left out: 2: expected USD per token, whole "
        "picodollars (12 places), at most 1\n"
        "m:5: dear.output_cost_per_token: left out: 2: expected USD per token, whole "
        "picodollars (12 places), at most 1\n"
        "m:5: dear: left out: one of its prices could not be taken\n"
        "m:6: list.input_cost_per_token: left out: expected a number\n"
        "m:6: list: left out: one of its prices could not be taken\n"
        "m:7: minus.input_cost_per_token: left out: -1e-6: expected USD per token, whole "
        "picodollars (12 places), at most 1\n"
        "m:7: minus: left out: one of its prices could not be taken\n"
        "m:8: none: left out: it has no prices per input and output token\n"
        "m:9: half: left out: it has no prices per input and output token\n"
        "m:10: text: left out: expected a map\n");
}

static void a_model_that_stands_twice_holds_as_written_last(void **state)
{
    (void)state;
    const char *const text =
        "{\"a\": {\"input_cost_per_token\": 1e-6, \"output_cost_per_token\": 1e-6},\n"
        " \"a\": {\"input_cost_per_token\": 2e-6, \"output_cost_per_token\": 2e-6}}";

    assert_lists(text, "  \"a\":\n    price:\n      - {input: \"2\", output: \"2\"}\n");
    assert_notes(text, "m:1: a: left out: stands again in line 2, which holds\n");
}

static void prices_above_a_length_are_brackets(void **state)
{
    (void)state;

    assert_lists(
        "{\"a\": {\"input_cost_per_token_above_200k_tokens\": 2e-6,\n"
        "  \"output_cost_per_token_above_200k_tokens\": 4e-6,\n"
        "  \"input_cost_per_token\": 1e-6, \"output_cost_per_token\": 3e-6,\n"
        "  \"cache_read_input_token_cost\": 1e-7,\n"
        "  \"input_cost_per_token_above_128k_tokens\": 1.5e-6,\n"
        "  \"output_cost_per_token_above_128k_tokens\": 3.5e-6,\n"
        "  \"cache_read_input_token_cost_above_200k_tokens\": 2e-7}}",
        "  \"a\":\n"
        "    price:\n"
        "      - {input: \"1\", cached_input: \"0.1\", output: \"3\",\n"
        "         brackets: [{above: 128000, input: \"1.5\", cached_input: \"0.1\", output: "
        "\"3.5\"},\n"
        "                    {above: 200000, input: \"2\", cached_input: \"0.2\", output: "
        "\"4\"}]}\n");
    assert_notes("{\"a\": {\"input_cost_per_token\": 1e-6, \"output_cost_per_token\": 3e-6,\n"
                 "  \"input_cost_per_token_above_128k_tokens\": 1.5e-6}}",
                 "m:1: a.output: note: not said above 128000 tokens; the same holds there\n");
    assert_notes("{\"a\": {\"input_cost_per_token\": 1e-6, \"output_cost_per_token\": 3e-6,\n"
                 "  \"input_cost_per_token_above_1k_tokens\": 2e-6,\n"
                 "  \"input_cost_per_token_above_2k_tokens\": 2e-6,\n"
                 "  \"input_cost_per_token_above_3k_tokens\": 2e-6,\n"
                 "  \"input_cost_per_token_above_4k_tokens\": 2e-6}}",
                 "m:1: a: left out: one of its prices could not be taken\n"
                 "m:5: a.input_cost_per_token_above_4k_tokens: left out: more than 3 lengths of "
                 "prompt\n");
}

static void ranges_are_brackets(void **state)
{
    (void)state;

    assert_lists("{\"q\": {\"mode\": \"chat\", \"tiered_pricing\": [\n"
                 "  {\"range\": [0, 256000.0], \"input_cost_per_token\": 5e-08,\n"
                 "   \"output_cost_per_token\": 4e-07},\n"
                 "  {\"range\": [256000, 1000000], \"input_cost_per_token\": 2.5e-07,\n"
                 "   \"output_cost_per_token\": 2e-06}]}}",
                 "  \"q\":\n"
                 "    price:\n"
                 "      - {input: \"0.05\", output: \"0.4\",\n"
                 "         brackets: [{above: 256000, input: \"0.25\", output: \"2\"}]}\n");
    assert_notes("{\"q\": {\"tiered_pricing\": [\n"
                 "  {\"range\": [0, 10], \"input_cost_per_token\": 1e-6},\n"
                 "  {\"range\": [11, 20], \"input_cost_per_token\": 1e-6}]}}",
                 "m:1: q: left out: one of its prices could not be taken\n"
                 "m:3: q.tiered_pricing: left out: expected range: [from, to] from 0 on, without "
                 "gaps\n");
    assert_notes("{\"q\": {\"input_cost_per_token\": 1e-6, \"tiered_pricing\": []}}",
                 "m:1: q.tiered_pricing: left out: expected a list, and no prices beside it\n"
                 "m:1: q: left out: one of its prices could not be taken\n");
}

#define FLAT "\"input_cost_per_token\": 2e-6, \"output_cost_per_token\": 8e-6, "

static void a_tier_is_one_factor_or_left_out(void **state)
{
    (void)state;

    assert_lists(
        "{\"a\": {" FLAT "\"input_cost_per_token_flex\": 1e-6,\n"
        "  \"output_cost_per_token_flex\": 4e-6,\n"
        "  \"input_cost_per_token_batches\": 5e-7, \"output_cost_per_token_batches\": 2e-6,\n"
        "  \"input_cost_per_token_priority\": 3.5e-6,\n"
        "  \"output_cost_per_token_priority\": 14e-6}}",
        "  \"a\":\n    price:\n      - {input: \"2\", output: \"8\",\n"
        "         tiers: {flex: \"0.5\", priority: \"1.75\", batch: \"0.25\"}}\n");
    assert_notes(
        "{\"a\": {" FLAT "\"input_cost_per_token_flex\": 1e-6,\n"
        "  \"output_cost_per_token_flex\": 5e-6}}",
        "m:1: a.flex: left out: its prices are not the standard ones times one factor of 6 "
        "places\n");
    assert_notes("{\"a\": {" FLAT "\"input_cost_per_token_priority\": 4e-6}}",
                 "m:1: a.priority: left out: the tier's input and output prices are not both "
                 "there\n");
    assert_notes("{\"a\": {\"input_cost_per_token\": 3e-6, \"output_cost_per_token\": 3e-6,\n"
                 "  \"input_cost_per_token_priority\": 5e-6,\n"
                 "  \"output_cost_per_token_priority\": 5e-6}}", /* 1.666… */
                 "m:2: a.priority: left out: its prices are not the standard ones times one factor "
                 "of 6 places\n");
    assert_notes(
        "{\"a\": {" FLAT "\"cache_read_input_token_cost\": 1e-12,\n"
        "  \"input_cost_per_token_flex\": 1e-6, \"output_cost_per_token_flex\": 4e-6}}",
        "m:2: a.flex: left out: its prices are not the standard ones times one factor of 6 "
        "places\n"); /* half a picodollar */
    assert_notes(
        "{\"a\": {" FLAT "\"cache_read_input_token_cost\": 2e-7,\n"
        "  \"input_cost_per_token_flex\": 1e-6, \"output_cost_per_token_flex\": 4e-6}}",
        "m:2: a.flex: note: prices that the map does not give for this tier have its factor "
        "too\n");
}

static void what_is_not_priced_by_token_or_not_known_is_listed(void **state)
{
    (void)state;

    assert_notes(
        "{\"a\": {" FLAT "\"litellm_provider\": \"x\", \"supports_vision\": true,\n"
        "  \"input_cost_per_audio_token\": 1e-6,\n"
        "  \"input_cost_per_image\": 0.001,\n"
        "  \"input_cost_per_second\": 0.001,\n"
        "  \"input_cost_per_character\": 0, \"output_cost_per_pixel\": 0.0,\n"
        "  \"cache_creation_input_token_cost_above_1hr\": 4e-6,\n"
        "  \"search_context_cost_per_query\": {\"low\": 0.03},\n"
        "  \"input_cost_per_token_batches\": 1e-6,\n"
        "  \"input_cost_per_moon\": 1e-6,\n"
        "  \"input_cost_per_token_above_0k_tokens\": 1e-6,\n"
        "  \"colour\": \"red\"}}",
        "m:2: a.input_cost_per_audio_token: left out: tokens of audio have no price of "
        "their own here\n"
        "m:3: a.input_cost_per_image: left out: images have no price of their own here: "
        "they are input tokens\n"
        "m:4: a.input_cost_per_second: left out: only tokens are priced here, not seconds\n"
        "m:6: a.cache_creation_input_token_cost_above_1hr: left out: cache writes have one "
        "price here, whatever their lifetime\n"
        "m:7: a.search_context_cost_per_query: left out: only tokens are priced here, not "
        "queries\n"
        "m:8: a.batch: left out: the tier's input and output prices are not both there\n"
        "m:9: a.input_cost_per_moon: left out: no such price here: tokens of input and output have "
        "prices\n"
        "m:10: a.input_cost_per_token_above_0k_tokens: left out: no such price here: tokens of "
        "input "
        "and output have prices\n"
        "m:11: a.colour: left out: not known\n");
}

static void what_looks_wrong_is_noted(void **state)
{
    (void)state;

    assert_notes(
        "{\"a\": {\"input_cost_per_token\": 2e-6, \"output_cost_per_token\": 1e-6,\n"
        "  \"cache_read_input_token_cost\": 3e-6},\n"
        "\"b\": {\"input_cost_per_token\": 0, \"output_cost_per_token\": 0.0},\n"
        "\"c\": {" FLAT "\"input_cost_per_token_above_5k_tokens\": 1e-6,\n"
        "  \"output_cost_per_token_above_5k_tokens\": 8e-6,\n"
        "  \"cache_read_input_token_cost\": 1e-6, \"input_cost_per_token_cache_hit\": "
        "2e-6}}",
        "m:1: a.price: note: input is dearer than output: is that meant?\n"
        "m:2: a.price: note: cached input is dearer than input: is that meant?\n"
        "m:3: b.price: note: it costs nothing: is that meant?\n"
        "m:4: c: left out: one of its prices could not be taken\n"
        "m:6: c.input_cost_per_token_cache_hit: left out: another price than line 6 says\n");
    assert_notes("{\"c\": {" FLAT "\"input_cost_per_token_above_5k_tokens\": 1e-6,\n"
                 "  \"output_cost_per_token_above_5k_tokens\": 8e-6}}",
                 "m:1: c.price: note: input is cheaper in longer prompts: is that meant?\n");
}

static void models_are_picked_by_name(void **state)
{
    (void)state;
    const char *const text =
        "{\"sample_spec\": {\"input_cost_per_token\": 0, \"what\": \"x\"},\n"
        " \"a\": {\"input_cost_per_token\": 1e-6, \"output_cost_per_token\": 1e-6},\n"
        " \"b\": {\"input_cost_per_token\": 2e-6, \"output_cost_per_token\": 2e-6},\n"
        " \"e\": {\"mode\": \"embedding\", \"input_cost_per_token\": 3e-6}}";
    struct config_import import = imported(text, "b,e");

    assert_int_equal(import.model_count, 2);
    assert_null(strstr(import.yaml, "\"a\""));
    assert_non_null(
        strstr(import.yaml, "\"e\":\n    price:\n      - {input: \"3\", output: \"0\"}"));
    config_import_free(&import);
    import = imported(text, NULL);
    assert_int_equal(import.model_count, 3);
    assert_int_equal(import.notes.count, 0);
    config_import_free(&import);
    assert_int_equal(import_prices_text("m", span_of(text), SPAN("b,zz"), &import), ERR_BAD_VALUE);
    assert_string_equal(import.notes.text, "m:1: models: the file has no \"zz\"\n");
    assert_null(import.yaml);
    config_import_free(&import);
}

static void what_is_no_map_is_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"", "[1]", "{\"a\": ", "\"x\""};
    struct config_import import;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(import_prices_text("m", span_of(bad[i]), (struct span){NULL, 0}, &import),
                         ERR_BAD_VALUE);
        assert_non_null(import.notes.text);
        config_import_free(&import);
    }
    assert_int_equal(config_import_prices("/nowhere/at/all", (struct span){NULL, 0}, &import),
                     ERR_BAD_VALUE);
    config_import_free(&import);
}

/* ---- The sample data ---- */

static json_t *sample_data(void)
{
    const char *folder = getenv("TOLLGATE_DATA");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/prices-extract.json",
                   folder != NULL ? folder : "../shared/data");
    return json_load_file(path, 0, NULL);
}

/* The same map as the public one has it: numbers, not texts. */
static char *as_map(const json_t *data)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    size_t index;
    const json_t *model;
    const char *field;
    json_t *price;
    const char *between = "{";

    assert_non_null(out);
    json_array_foreach(json_object_get(data, "models"), index, model)
    {
        json_t *prices = json_object_get(model, "usd_per_token");

        (void)fprintf(out, "%s\"%s\": {\"mode\": \"%s\"", between,
                      json_string_value(json_object_get(model, "model")),
                      json_string_value(json_object_get(model, "mode")));
        json_object_foreach(prices, field, price)(void)
            fprintf(out, ",\n  \"%s\": %s", field, json_string_value(price));
        (void)fputs("}", out);
        between = ",\n";
    }
    (void)fputs("}\n", out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* A configuration of the lists, so that the gateway's own reader says what they mean. */
static struct config *as_config(const char *lists)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *line = strchr(lists, '\n') + 1; /* behind the comment */
    struct config *config = NULL;
    struct config_problems problems;

    assert_non_null(out);
    (void)fputs("listen: [{address: \"127.0.0.1:1\"}]\n", out);
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        (void)fprintf(out, "%.*s\n", (int)(end - line), line);
        if (strncmp(line, "  \"", 3) == 0)
            (void)fputs("    kind: openai\n    replicas: [{name: r, url: \"http://h\"}]\n", out);
    }
    assert_int_equal(fclose(out), 0);
    if (config_load_text("lists", (struct span){text, size}, &config, &problems) != OK)
        fail_msg("%s", problems.text);
    config_problems_free(&problems);
    free(text);
    return config;
}

static int64_t pico(const json_t *model, const char *field, int64_t otherwise)
{
    const json_t *price = json_object_get(json_object_get(model, "pico_usd_per_token"), field);

    return price != NULL ? json_integer_value(price) : otherwise;
}

/* The rates above a length of prompt against the sample's fields with this suffix. A class of which
 * it says nothing costs what it does in short prompts, or else as input or output. */
static void assert_rates(const json_t *model, const char *suffix, const struct rates *rates)
{
    const int64_t input = pico(model, "input_cost_per_token", -1);
    const struct {
        const char *field;
        int64_t otherwise;
        int64_t rate;
    } prices[] = {
        {"input_cost_per_token", input, rates->input},
        {"output_cost_per_token", pico(model, "output_cost_per_token", 0), rates->output},
        {"cache_read_input_token_cost",
         pico(model, "cache_read_input_token_cost",
              pico(model, "input_cost_per_token_cache_hit", rates->input)),
         rates->cached_input},
        {"cache_creation_input_token_cost",
         pico(model, "cache_creation_input_token_cost", rates->input), rates->cache_write},
        {"output_cost_per_reasoning_token",
         pico(model, "output_cost_per_reasoning_token", rates->output), rates->reasoning},
    };

    for (size_t i = 0; i < sizeof(prices) / sizeof(prices[0]); i++) {
        char field[100];

        (void)snprintf(field, sizeof(field), "%s%s", prices[i].field, suffix);
        if (prices[i].rate != pico(model, field, prices[i].otherwise))
            fail_msg("%s %s: expected %lld, got %lld",
                     json_string_value(json_object_get(model, "model")), field,
                     (long long)pico(model, field, prices[i].otherwise), (long long)prices[i].rate);
    }
}

static void every_price_of_the_sample_comes_out_in_whole_picodollars(void **state)
{
    (void)state;
    json_t *data = sample_data();
    struct config_import import;
    struct config *config;
    char *map;
    size_t index;
    const json_t *model;
    size_t checked = 0, batches = 0;

    if (data == NULL) {
        print_message("no prices-extract.json in TOLLGATE_DATA or ../shared/data: skipped\n");
        skip();
        return;
    }
    map = as_map(data);
    import = imported(map, NULL);
    config = as_config(import.yaml);
    json_array_foreach(json_object_get(data, "models"), index, model)
    {
        const struct config_model *ours =
            config_find_model(config, span_of(json_string_value(json_object_get(model, "model"))));
        const int64_t input = pico(model, "input_cost_per_token", -1);
        const int64_t output = pico(model, "output_cost_per_token", 0);
        const struct price *price;

        assert_true((ours != NULL) == (input >= 0)); /* ranges stand beside the sample's prices */
        if (ours == NULL)
            continue;
        price = &ours->prices[0];
        assert_rates(model, "", &price->rates);
        for (uint32_t i = 0; i < price->bracket_count; i++) {
            char suffix[40];

            (void)snprintf(suffix, sizeof(suffix), "_above_%lldk_tokens",
                           (long long)price->brackets[i].above / 1000);
            assert_rates(model, suffix, &price->brackets[i].rates);
        }
        if (price->tier_ppm[TIER_FLEX] != PRICE_PPM)
            assert_int_equal(pico(model, "input_cost_per_token_flex", -1) * PRICE_PPM,
                             input * price->tier_ppm[TIER_FLEX]);
        if (price->tier_ppm[TIER_BATCH] != PRICE_PPM) {
            assert_int_equal(pico(model, "input_cost_per_token_batches", -1) * PRICE_PPM,
                             input * price->tier_ppm[TIER_BATCH]);
            batches++;
        }
        if (price->tier_ppm[TIER_PRIORITY] != PRICE_PPM)
            assert_int_equal(pico(model, "output_cost_per_token_priority", -1) * PRICE_PPM,
                             output * price->tier_ppm[TIER_PRIORITY]);
        checked++;
    }
    assert_in_range(checked, 60, 1000);
    assert_in_range(batches, 1, 1000);
    config_put(config);
    config_import_free(&import);
    free(map);
    json_decref(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_taken_as_they_are_written),
        cmocka_unit_test(what_cannot_be_a_price_leaves_the_model_out_and_says_why),
        cmocka_unit_test(a_model_that_stands_twice_holds_as_written_last),
        cmocka_unit_test(prices_above_a_length_are_brackets),
        cmocka_unit_test(ranges_are_brackets),
        cmocka_unit_test(a_tier_is_one_factor_or_left_out),
        cmocka_unit_test(what_is_not_priced_by_token_or_not_known_is_listed),
        cmocka_unit_test(what_looks_wrong_is_noted),
        cmocka_unit_test(models_are_picked_by_name),
        cmocka_unit_test(what_is_no_map_is_refused),
        cmocka_unit_test(every_price_of_the_sample_comes_out_in_whole_picodollars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
