/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_quote.c: what an ask would cost (meter/quote.c).
 *
 * Promises:  1. The bound counts every byte as a token, and what the server adds of its own.
 *            2. A model's context bounds each prompt and each answer; the smallest limit holds.
 *            3. What cannot be bounded is said to be so, and why.
 *            4. The bound's rates are the dearest that could apply, and no others.
 *            5. No call within the bounds costs more, whatever its classes (seeded, random).
 *            6. The estimate is made of what was learned, and never above the bound.
 *            7. No number overflows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter/estimate.h"
#include "meter/price.h"

static struct price price;
static struct config_model model;
static struct meter_quote quote;

static int set_up(void **state)
{
    (void)state;
    price = (struct price){
        .from_us = 7,
        .until_us = INT64_MAX,
        .rates = {.input = 10, .cached_input = 2, .cache_write = 12, .output = 40, .reasoning = 40},
        .tier_ppm = {PRICE_PPM, PRICE_PPM / 2, 2 * PRICE_PPM},
    };
    model = (struct config_model){
        .name = SPAN("small"),
        .prices = &price,
        .price_count = 1,
        .output = 1000,
        .template_tokens = {.fixed = 64, .per_message = 16, .per_tool = 30, .schema_percent = 150},
        .part_tokens = {[PART_IMAGE] = 500},
    };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    estimate_forget();
    return 0;
}

static struct meter_ask plain(int64_t text_bytes)
{
    return (struct meter_ask){.text_bytes = text_bytes,
                              .messages = 1,
                              .prompts = 1,
                              .n = 1,
                              .max_tokens = 100,
                              .generates = true,
                              .default_output = -1};
}

static int64_t input_of(const struct usage *usage)
{
    return usage->input + usage->cached_input + usage->cache_write;
}

static int64_t output_of(const struct usage *usage)
{
    return usage->output + usage->reasoning;
}

static void assert_bound(const struct meter_ask *ask, int64_t input, int64_t output)
{
    assert_true(meter_quote(&model, ask, 1000, &quote));
    if (!quote.bounded)
        fail_msg("unbounded: %s", quote.unbounded_by);
    assert_null(quote.unbounded_by);
    assert_int_equal(input_of(&quote.most), input);
    assert_int_equal(output_of(&quote.most), output);
}

static void every_byte_may_be_a_token_and_the_server_adds_its_own(void **state)
{
    (void)state;
    struct meter_ask ask = plain(200);

    assert_bound(&ask, 200 + 64 + 16, 100);
    ask.messages = 3;
    assert_bound(&ask, 200 + 64 + 48, 100);
    ask.other_bytes = 5;
    assert_bound(&ask, 205 + 64 + 48, 100);
    ask.tools = 2;
    ask.tool_bytes = 101; /* of the 200; by half as much again, rounded up: 152 */
    assert_bound(&ask, 205 - 101 + 152 + 60 + 64 + 48, 100);
    ask.parts[PART_IMAGE] = 2;
    assert_bound(&ask, 205 - 101 + 152 + 60 + 64 + 48 + 1000, 100);
}

static void lists_of_prompts_and_answers_multiply(void **state)
{
    (void)state;
    struct meter_ask ask = plain(200);

    ask.messages = 0;
    ask.prompts = 3;
    ask.n = 4;
    assert_bound(&ask, 200 + 3 * 64, 1200);
    ask.text_bytes = 0;
    ask.token_ids = 77;
    assert_bound(&ask, 77 + 3 * 64, 1200);
    ask.generates = false;
    assert_bound(&ask, 77 + 3 * 64, 0);
}

static void the_smallest_limit_of_the_answer_holds(void **state)
{
    (void)state;
    struct meter_ask ask = plain(0);

    assert_bound(&ask, 80, 100);
    assert_int_equal(quote.output_bound, 100);
    ask.max_tokens = 5000;
    assert_bound(&ask, 80, 1000); /* the model's output */
    model.context = 700;
    assert_bound(&ask, 80, 700);
    ask.max_tokens = -1;
    assert_bound(&ask, 80, 700);
    ask.default_output = 16;
    assert_bound(&ask, 80, 16);
    ask.max_tokens = 20; /* what was asked for, not what would be without */
    assert_bound(&ask, 80, 20);
    assert_int_equal(quote.output_bound, 20);
}

static void a_context_bounds_each_prompt(void **state)
{
    (void)state;
    struct meter_ask ask = plain(100000);

    model.context = 8000;
    assert_bound(&ask, 8000, 100);
    ask.prompts = 3;
    assert_bound(&ask, 24000, 300);
    ask.opaque = true;
    ask.text_bytes = 1;
    assert_bound(&ask, 24000, 300);
}

static void assert_unbounded(const struct meter_ask *ask, const char *word)
{
    assert_true(meter_quote(&model, ask, 1000, &quote));
    assert_false(quote.bounded);
    assert_non_null(strstr(quote.unbounded_by, word));
    assert_int_equal(quote.most_pusd, -1);
    assert_true(quote.probable_pusd >= 0);
}

static void what_cannot_be_bounded_says_why(void **state)
{
    (void)state;
    struct meter_ask ask = plain(100);

    ask.parts[PART_AUDIO] = 1;
    assert_unbounded(&ask, "part_tokens");
    model.context = 8000; /* not all that is heard or seen lies in a context */
    assert_unbounded(&ask, "part_tokens");
    ask = plain(100);
    model.context = model.output = 0;
    ask.max_tokens = -1;
    assert_unbounded(&ask, "answer");
    assert_int_equal(quote.output_bound, -1);
    ask = plain(100);
    ask.opaque = true;
    assert_unbounded(&ask, "context");
}

static void no_price_is_no_quote(void **state)
{
    (void)state;
    const struct meter_ask ask = plain(100);

    assert_false(meter_quote(&model, &ask, 6, &quote));
    price.until_us = 1000;
    assert_false(meter_quote(&model, &ask, 1000, &quote));
}

static void the_dearest_class_is_charged_at_the_tiers_factor(void **state)
{
    (void)state;
    struct meter_ask ask = plain(20); /* 100 tokens in, 100 out */

    assert_bound(&ask, 100, 100);
    assert_int_equal(quote.most.cache_write, 100);
    assert_int_equal(quote.most_pusd, 100 * 12 + 100 * 40);
    price.rates = (struct rates){20, 26, 24, 80, 82}; /* odd, but it may be */
    ask.tier = TIER_FLEX;
    assert_bound(&ask, 100, 100);
    assert_int_equal(quote.most.cached_input, 100);
    assert_int_equal(quote.most.reasoning, 100);
    assert_int_equal(quote.most_pusd, 100 * 13 + 100 * 41);
    ask.tier = TIER_PRIORITY;
    assert_bound(&ask, 100, 100);
    assert_int_equal(quote.most_pusd, 4 * (100 * 13 + 100 * 41));
}

static void brackets_within_reach_could_apply(void **state)
{
    (void)state;
    struct meter_ask ask = plain(20);

    price.bracket_count = 2;
    price.brackets[0] = (struct price_bracket){100, {30, 30, 30, 90, 90}};
    price.brackets[1] = (struct price_bracket){200, {25, 25, 25, 70, 70}};
    assert_bound(&ask, 100, 100);
    assert_int_equal(quote.most_pusd, 100 * 12 + 100 * 40); /* it must be more than 100 */
    price.bracket_inclusive = true;
    assert_bound(&ask, 100, 100);
    assert_int_equal(quote.most_pusd, 100 * 30 + 100 * 90);
    ask.text_bytes = 1000; /* the last bracket is cheaper: a prompt may stay in the one before */
    assert_bound(&ask, 1080, 100);
    assert_int_equal(quote.most_pusd, 1080 * 30 + 100 * 90);
    price.bracket_marginal = true; /* answers cost the first rates then */
    assert_bound(&ask, 1080, 100);
    assert_int_equal(quote.most_pusd, 1080 * 30 + 100 * 40);
}

static uint64_t seed = 20260101;

static int64_t below(int64_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)bound);
}

static struct rates random_rates(void)
{
    return (struct rates){2 * below(50), 2 * below(50), 2 * below(50), 2 * below(50),
                          2 * below(50)};
}

static void random_price(void)
{
    int64_t above = 0;

    price.rates = random_rates();
    price.bracket_count = (uint32_t)below(PRICE_BRACKETS_MAX + 1);
    for (uint32_t i = 0; i < price.bracket_count; i++) {
        above += 1 + below(200);
        price.brackets[i] = (struct price_bracket){above, random_rates()};
    }
    price.bracket_marginal = below(2) != 0;
    price.bracket_inclusive = below(2) != 0;
}

/* Any split of at most so many tokens. */
static struct usage random_usage(int64_t input, int64_t output)
{
    struct usage usage = {0};
    int64_t left = below(input + 1);

    usage.cached_input = below(left + 1);
    usage.cache_write = below(left - usage.cached_input + 1);
    usage.input = left - usage.cached_input - usage.cache_write;
    left = below(output + 1);
    usage.reasoning = below(left + 1);
    usage.output = left - usage.reasoning;
    return usage;
}

static void no_call_within_the_bounds_costs_more(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct meter_ask ask = plain(below(400));
        struct tariff tariff;
        int64_t cost = -1;
        ask.tier = (enum service_tier)below(SERVICE_TIERS);
        ask.max_tokens = 1 + below(100);
        ask.n = 1 + below(3);
        random_price();
        assert_true(meter_quote(&model, &ask, 1000, &quote));
        assert_true(quote.bounded);

        const struct usage usage =
            below(10) == 0 ? quote.most
                           : random_usage(input_of(&quote.most), output_of(&quote.most));
        price_tariff(&price, &usage, ask.tier, &tariff);
        assert_int_equal(price_of(&usage, &tariff, &cost), OK);
        if (cost > quote.most_pusd)
            fail_msg("round %d: %lld is more than %lld", round, (long long)cost,
                     (long long)quote.most_pusd);
    }
}

static void the_estimate_is_made_of_what_was_learned(void **state)
{
    (void)state;
    struct config config = {.models = &model, .model_count = 1};
    const struct meter_sizes sizes = {.prompt_bytes = 4000, .answer_bytes = 100};
    const struct usage reported = {.input = 1000, .output = 25};
    struct meter_ask ask = plain(400);

    assert_true(meter_quote(&model, &ask, 1000, &quote)); /* nothing known: 256, but 100 asked */
    assert_int_equal(quote.probable.output, 100);
    assert_int_equal(quote.probable.input, 111); /* 400 / 3.5996 */
    ask.max_tokens = 900;
    assert_true(meter_quote(&model, &ask, 1000, &quote));
    assert_int_equal(quote.probable.output, 256);

    assert_int_equal(estimate_adopt(&config), OK);
    for (int i = 0; i < 1000; i++)
        meter_learn(model.estimate, &sizes, &reported);
    ask.n = 2;
    assert_true(meter_quote(&model, &ask, 1000, &quote));
    assert_int_equal(quote.probable.input, 100);
    assert_int_equal(quote.probable.output, 50);
    assert_int_equal(quote.probable_pusd, 100 * 10 + 50 * 40);
    assert_int_equal(quote.rates.input, 10);
    assert_int_equal(quote.price_from_us, 7);
    ask.max_tokens = 3;
    ask.tier = TIER_PRIORITY;
    ask.token_ids = 50;
    ask.parts[PART_IMAGE] = 1;
    assert_true(meter_quote(&model, &ask, 1000, &quote));
    assert_int_equal(quote.probable.input, 100 + 50 + 500);
    assert_int_equal(quote.probable.output, 6);
    assert_int_equal(quote.probable_pusd, 2 * (650 * 10 + 6 * 40));
}

static void no_number_overflows(void **state)
{
    (void)state;
    struct meter_ask ask = plain(INT64_MAX);

    assert_true(meter_quote(&model, &ask, 1000, &quote));
    assert_false(quote.bounded);
    assert_int_equal(quote.most_pusd, -1);
    ask = plain(100);
    ask.max_tokens = INT64_MAX;
    ask.n = ask.prompts = INT64_MAX;
    ask.tool_bytes = 100;
    model.output = 0;
    assert_true(meter_quote(&model, &ask, 1000, &quote));
    assert_false(quote.bounded);
    assert_non_null(quote.unbounded_by);
    price.rates.output = price.rates.input = INT64_MAX / PRICE_PPM;
    ask.n = ask.prompts = 1;
    assert_true(meter_quote(&model, &ask, 1000, &quote));
    assert_false(quote.bounded);
    assert_int_equal(quote.most_pusd, -1);
}

int main(void)
{
#define QUOTE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        QUOTE_TEST(every_byte_may_be_a_token_and_the_server_adds_its_own),
        QUOTE_TEST(lists_of_prompts_and_answers_multiply),
        QUOTE_TEST(the_smallest_limit_of_the_answer_holds),
        QUOTE_TEST(a_context_bounds_each_prompt),
        QUOTE_TEST(what_cannot_be_bounded_says_why),
        QUOTE_TEST(no_price_is_no_quote),
        QUOTE_TEST(the_dearest_class_is_charged_at_the_tiers_factor),
        QUOTE_TEST(brackets_within_reach_could_apply),
        QUOTE_TEST(no_call_within_the_bounds_costs_more),
        QUOTE_TEST(the_estimate_is_made_of_what_was_learned),
        QUOTE_TEST(no_number_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
