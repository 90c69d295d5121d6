/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_price.c: what a call costs (meter/price.c).
 *
 * Promises:  1. The sum over classes of tokens times rate, exact; not known counts nothing.
 *            2. What does not fit or is negative is an error, and the result is untouched.
 *            3. A bracket holds over, or at, its tokens of the whole prompt: for the whole call, or
 * for the prompt tokens beyond it, in the order cached_input, cache_write, input.
 *            4. The tier's factor is in every rate.
 *            5. The parts of a cost sum to it, and name class, tokens, rate and step.
 *            6. A month's discount is off the share beyond each step, or off all.
 * The bracket table's costs come from a model that prices a prompt token by token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meter/price.h"

#define STANDARD                                                                                   \
    {                                                                                              \
        PRICE_PPM, PRICE_PPM, PRICE_PPM                                                            \
    }

static const struct rates base = {.input = 2000000,
                                  .cached_input = 500000,
                                  .cache_write = 2500000,
                                  .output = 8000000,
                                  .reasoning = 9000000};

/* The cost of usage at a price without further ado; -1: refused. */
static int64_t cost_of(const struct price *price, enum service_tier tier, const struct usage *usage)
{
    struct tariff tariff;
    int64_t cost_pusd = -1;

    price_tariff(price, usage, tier, &tariff);
    if (price_of(usage, &tariff, &cost_pusd) != OK)
        assert_int_equal(cost_pusd, -1);
    return cost_pusd;
}

static void each_class_is_charged_at_its_own_rate(void **state)
{
    (void)state;
    const struct price price = {.rates = base, .tier_ppm = STANDARD};
    const struct usage usage = {
        .input = 600, .cached_input = 400, .cache_write = 100, .output = 10, .reasoning = 5};
    const struct {
        struct usage usage;
        int64_t cost_pusd;
    } alone[] = {
        {{.input = 3}, 6000000},   {{.cached_input = 3}, 1500000}, {{.cache_write = 3}, 7500000},
        {{.output = 3}, 24000000}, {{.reasoning = 3}, 27000000},   {{0}, 0},
    };

    /* 1,200,000,000 + 200,000,000 + 250,000,000 + 80,000,000 + 45,000,000 */
    assert_int_equal(cost_of(&price, TIER_STANDARD, &usage), 1775000000);
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
        assert_int_equal(cost_of(&price, TIER_STANDARD, &alone[i].usage), alone[i].cost_pusd);
}

static void what_is_not_known_costs_nothing(void **state)
{
    (void)state;
    const struct price price = {.rates = base, .tier_ppm = STANDARD};
    struct usage usage = USAGE_UNKNOWN;

    assert_int_equal(cost_of(&price, TIER_STANDARD, &usage), 0);
    usage.output = 11;
    assert_int_equal(cost_of(&price, TIER_STANDARD, &usage), 88000000);
}

static void the_largest_sum_that_fits_is_exact_and_one_more_is_an_error(void **state)
{
    (void)state;
    const struct price price = {.rates = {.input = 1, .output = 1}, .tier_ppm = STANDARD};
    struct usage usage = {.input = INT64_MAX - 1, .output = 1};

    assert_int_equal(cost_of(&price, TIER_STANDARD, &usage), INT64_MAX);
    usage.output = 2;
    assert_int_equal(cost_of(&price, TIER_STANDARD, &usage), -1);
}

static void absurd_and_negative_values_are_errors(void **state)
{
    (void)state;
    const struct tariff dearest = {
        .rates = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
    const struct tariff negative = {.rates = {.input = -1}};
    const struct tariff negative_step = {
        .rates = {.input = 1}, .step_count = 1, .steps = {{.above = 5, .rates = {.output = -1}}}};
    const struct tariff step = {
        .rates = {.input = 1}, .step_count = 1, .steps = {{.above = 5, .rates = {.input = 1}}}};
    const struct usage most = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    const struct usage below = {.input = -2};
    const struct usage one = {.input = 1};
    const struct usage long_prompt = {.input = INT64_MAX - 1, .cached_input = 2};
    struct charge charges[CHARGES_MAX];
    uint32_t count = 77;
    int64_t cost_pusd = 42;

    assert_int_equal(price_of(&most, &dearest, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(price_of(&below, &dearest, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(price_of(&one, &negative, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(price_of(&one, &negative_step, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(price_of(&long_prompt, &step, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(cost_pusd, 42);
    assert_int_equal(price_charges(&below, &step, charges, &count), ERR_BAD_VALUE);
    assert_int_equal(count, 77);
}

/* ---- Brackets ---- */

static const struct price_bracket brackets[PRICE_BRACKETS_MAX] = {
    {10, {3000000, 700000, 3300000, 12000000, 13000000}},
    {20, {5000000, 1100000, 5500000, 21000000, 22000000}},
    {40, {7000001, 1300001, 7700001, 31000001, 32000001}},
};

enum { OVER, AT };
enum { WHOLE, MARGINAL };

/* clang-format off */
static const struct {
    uint32_t count; /* of brackets */
    int from;
    int mode;
    struct usage usage; /* input, cached_input, cache_write, output, reasoning */
    int64_t cost_pusd;
} bracketed[] = {
    {1, OVER, WHOLE, {5, 3, 1, 2, 1}, 39000000},
    {1, OVER, WHOLE, {6, 3, 1, 2, 1}, 41000000},
    {1, OVER, WHOLE, {6, 3, 2, 2, 1}, 63700000},
    {1, OVER, WHOLE, {12, 5, 2, 0, 0}, 46100000},
    {1, OVER, WHOLE, {10, 8, 2, 1, 0}, 54200000},
    {1, OVER, WHOLE, {11, 8, 2, 1, 0}, 57200000},
    {1, OVER, WHOLE, {0, 20, 0, 1, 1}, 39000000},
    {1, OVER, WHOLE, {0, 0, 21, 1, 1}, 94300000},
    {1, OVER, WHOLE, {30, 5, 4, 1, 1}, 131700000},
    {1, OVER, WHOLE, {30, 6, 4, 1, 1}, 132400000},
    {1, OVER, WHOLE, {31, 6, 4, 1, 1}, 135400000},
    {1, OVER, WHOLE, {0, 41, 0, 0, 0}, 28700000},
    {1, OVER, WHOLE, {100, 0, 0, 3, 0}, 336000000},
    {1, OVER, MARGINAL, {5, 3, 1, 2, 1}, 39000000},
    {1, OVER, MARGINAL, {6, 3, 1, 2, 1}, 41000000},
    {1, OVER, MARGINAL, {6, 3, 2, 2, 1}, 44500000},
    {1, OVER, MARGINAL, {12, 5, 2, 0, 0}, 40500000},
    {1, OVER, MARGINAL, {10, 8, 2, 1, 0}, 47000000},
    {1, OVER, MARGINAL, {11, 8, 2, 1, 0}, 50000000},
    {1, OVER, MARGINAL, {0, 20, 0, 1, 1}, 29000000},
    {1, OVER, MARGINAL, {0, 0, 21, 1, 1}, 78300000},
    {1, OVER, MARGINAL, {30, 5, 4, 1, 1}, 118500000},
    {1, OVER, MARGINAL, {30, 6, 4, 1, 1}, 120000000},
    {1, OVER, MARGINAL, {31, 6, 4, 1, 1}, 123000000},
    {1, OVER, MARGINAL, {0, 41, 0, 0, 0}, 26700000},
    {1, OVER, MARGINAL, {100, 0, 0, 3, 0}, 314000000},
    {1, AT, WHOLE, {5, 3, 1, 2, 1}, 39000000},
    {1, AT, WHOLE, {6, 3, 1, 2, 1}, 60400000},
    {1, AT, WHOLE, {6, 3, 2, 2, 1}, 63700000},
    {1, AT, WHOLE, {12, 5, 2, 0, 0}, 46100000},
    {1, AT, WHOLE, {10, 8, 2, 1, 0}, 54200000},
    {1, AT, WHOLE, {11, 8, 2, 1, 0}, 57200000},
    {1, AT, WHOLE, {0, 20, 0, 1, 1}, 39000000},
    {1, AT, WHOLE, {0, 0, 21, 1, 1}, 94300000},
    {1, AT, WHOLE, {30, 5, 4, 1, 1}, 131700000},
    {1, AT, WHOLE, {30, 6, 4, 1, 1}, 132400000},
    {1, AT, WHOLE, {31, 6, 4, 1, 1}, 135400000},
    {1, AT, WHOLE, {0, 41, 0, 0, 0}, 28700000},
    {1, AT, WHOLE, {100, 0, 0, 3, 0}, 336000000},
    {1, AT, MARGINAL, {5, 3, 1, 2, 1}, 39000000},
    {1, AT, MARGINAL, {6, 3, 1, 2, 1}, 42000000},
    {1, AT, MARGINAL, {6, 3, 2, 2, 1}, 45500000},
    {1, AT, MARGINAL, {12, 5, 2, 0, 0}, 41500000},
    {1, AT, MARGINAL, {10, 8, 2, 1, 0}, 47800000},
    {1, AT, MARGINAL, {11, 8, 2, 1, 0}, 50800000},
    {1, AT, MARGINAL, {0, 20, 0, 1, 1}, 29200000},
    {1, AT, MARGINAL, {0, 0, 21, 1, 1}, 79100000},
    {1, AT, MARGINAL, {30, 5, 4, 1, 1}, 119500000},
    {1, AT, MARGINAL, {30, 6, 4, 1, 1}, 120800000},
    {1, AT, MARGINAL, {31, 6, 4, 1, 1}, 123800000},
    {1, AT, MARGINAL, {0, 41, 0, 0, 0}, 26900000},
    {1, AT, MARGINAL, {100, 0, 0, 3, 0}, 315000000},
    {2, OVER, WHOLE, {5, 3, 1, 2, 1}, 39000000},
    {2, OVER, WHOLE, {6, 3, 1, 2, 1}, 41000000},
    {2, OVER, WHOLE, {6, 3, 2, 2, 1}, 63700000},
    {2, OVER, WHOLE, {12, 5, 2, 0, 0}, 46100000},
    {2, OVER, WHOLE, {10, 8, 2, 1, 0}, 54200000},
    {2, OVER, WHOLE, {11, 8, 2, 1, 0}, 95800000},
    {2, OVER, WHOLE, {0, 20, 0, 1, 1}, 39000000},
    {2, OVER, WHOLE, {0, 0, 21, 1, 1}, 158500000},
    {2, OVER, WHOLE, {30, 5, 4, 1, 1}, 220500000},
    {2, OVER, WHOLE, {30, 6, 4, 1, 1}, 221600000},
    {2, OVER, WHOLE, {31, 6, 4, 1, 1}, 226600000},
    {2, OVER, WHOLE, {0, 41, 0, 0, 0}, 45100000},
    {2, OVER, WHOLE, {100, 0, 0, 3, 0}, 563000000},
    {2, OVER, MARGINAL, {5, 3, 1, 2, 1}, 39000000},
    {2, OVER, MARGINAL, {6, 3, 1, 2, 1}, 41000000},
    {2, OVER, MARGINAL, {6, 3, 2, 2, 1}, 44500000},
    {2, OVER, MARGINAL, {12, 5, 2, 0, 0}, 40500000},
    {2, OVER, MARGINAL, {10, 8, 2, 1, 0}, 47000000},
    {2, OVER, MARGINAL, {11, 8, 2, 1, 0}, 52000000},
    {2, OVER, MARGINAL, {0, 20, 0, 1, 1}, 29000000},
    {2, OVER, MARGINAL, {0, 0, 21, 1, 1}, 80500000},
    {2, OVER, MARGINAL, {30, 5, 4, 1, 1}, 156500000},
    {2, OVER, MARGINAL, {30, 6, 4, 1, 1}, 160000000},
    {2, OVER, MARGINAL, {31, 6, 4, 1, 1}, 165000000},
    {2, OVER, MARGINAL, {0, 41, 0, 0, 0}, 35100000},
    {2, OVER, MARGINAL, {100, 0, 0, 3, 0}, 474000000},
    {2, AT, WHOLE, {5, 3, 1, 2, 1}, 39000000},
    {2, AT, WHOLE, {6, 3, 1, 2, 1}, 60400000},
    {2, AT, WHOLE, {6, 3, 2, 2, 1}, 63700000},
    {2, AT, WHOLE, {12, 5, 2, 0, 0}, 46100000},
    {2, AT, WHOLE, {10, 8, 2, 1, 0}, 90800000},
    {2, AT, WHOLE, {11, 8, 2, 1, 0}, 95800000},
    {2, AT, WHOLE, {0, 20, 0, 1, 1}, 65000000},
    {2, AT, WHOLE, {0, 0, 21, 1, 1}, 158500000},
    {2, AT, WHOLE, {30, 5, 4, 1, 1}, 220500000},
    {2, AT, WHOLE, {30, 6, 4, 1, 1}, 221600000},
    {2, AT, WHOLE, {31, 6, 4, 1, 1}, 226600000},
    {2, AT, WHOLE, {0, 41, 0, 0, 0}, 45100000},
    {2, AT, WHOLE, {100, 0, 0, 3, 0}, 563000000},
    {2, AT, MARGINAL, {5, 3, 1, 2, 1}, 39000000},
    {2, AT, MARGINAL, {6, 3, 1, 2, 1}, 42000000},
    {2, AT, MARGINAL, {6, 3, 2, 2, 1}, 45500000},
    {2, AT, MARGINAL, {12, 5, 2, 0, 0}, 41500000},
    {2, AT, MARGINAL, {10, 8, 2, 1, 0}, 49800000},
    {2, AT, MARGINAL, {11, 8, 2, 1, 0}, 54800000},
    {2, AT, MARGINAL, {0, 20, 0, 1, 1}, 29600000},
    {2, AT, MARGINAL, {0, 0, 21, 1, 1}, 83500000},
    {2, AT, MARGINAL, {30, 5, 4, 1, 1}, 159500000},
    {2, AT, MARGINAL, {30, 6, 4, 1, 1}, 162800000},
    {2, AT, MARGINAL, {31, 6, 4, 1, 1}, 167800000},
    {2, AT, MARGINAL, {0, 41, 0, 0, 0}, 35700000},
    {2, AT, MARGINAL, {100, 0, 0, 3, 0}, 477000000},
    {3, OVER, WHOLE, {5, 3, 1, 2, 1}, 39000000},
    {3, OVER, WHOLE, {6, 3, 1, 2, 1}, 41000000},
    {3, OVER, WHOLE, {6, 3, 2, 2, 1}, 63700000},
    {3, OVER, WHOLE, {12, 5, 2, 0, 0}, 46100000},
    {3, OVER, WHOLE, {10, 8, 2, 1, 0}, 54200000},
    {3, OVER, WHOLE, {11, 8, 2, 1, 0}, 95800000},
    {3, OVER, WHOLE, {0, 20, 0, 1, 1}, 39000000},
    {3, OVER, WHOLE, {0, 0, 21, 1, 1}, 158500000},
    {3, OVER, WHOLE, {30, 5, 4, 1, 1}, 220500000},
    {3, OVER, WHOLE, {30, 6, 4, 1, 1}, 221600000},
    {3, OVER, WHOLE, {31, 6, 4, 1, 1}, 318600043},
    {3, OVER, WHOLE, {0, 41, 0, 0, 0}, 53300041},
    {3, OVER, WHOLE, {100, 0, 0, 3, 0}, 793000103},
    {3, OVER, MARGINAL, {5, 3, 1, 2, 1}, 39000000},
    {3, OVER, MARGINAL, {6, 3, 1, 2, 1}, 41000000},
    {3, OVER, MARGINAL, {6, 3, 2, 2, 1}, 44500000},
    {3, OVER, MARGINAL, {12, 5, 2, 0, 0}, 40500000},
    {3, OVER, MARGINAL, {10, 8, 2, 1, 0}, 47000000},
    {3, OVER, MARGINAL, {11, 8, 2, 1, 0}, 52000000},
    {3, OVER, MARGINAL, {0, 20, 0, 1, 1}, 29000000},
    {3, OVER, MARGINAL, {0, 0, 21, 1, 1}, 80500000},
    {3, OVER, MARGINAL, {30, 5, 4, 1, 1}, 156500000},
    {3, OVER, MARGINAL, {30, 6, 4, 1, 1}, 160000000},
    {3, OVER, MARGINAL, {31, 6, 4, 1, 1}, 167000001},
    {3, OVER, MARGINAL, {0, 41, 0, 0, 0}, 35300001},
    {3, OVER, MARGINAL, {100, 0, 0, 3, 0}, 594000060},
    {3, AT, WHOLE, {5, 3, 1, 2, 1}, 39000000},
    {3, AT, WHOLE, {6, 3, 1, 2, 1}, 60400000},
    {3, AT, WHOLE, {6, 3, 2, 2, 1}, 63700000},
    {3, AT, WHOLE, {12, 5, 2, 0, 0}, 46100000},
    {3, AT, WHOLE, {10, 8, 2, 1, 0}, 90800000},
    {3, AT, WHOLE, {11, 8, 2, 1, 0}, 95800000},
    {3, AT, WHOLE, {0, 20, 0, 1, 1}, 65000000},
    {3, AT, WHOLE, {0, 0, 21, 1, 1}, 158500000},
    {3, AT, WHOLE, {30, 5, 4, 1, 1}, 220500000},
    {3, AT, WHOLE, {30, 6, 4, 1, 1}, 311600042},
    {3, AT, WHOLE, {31, 6, 4, 1, 1}, 318600043},
    {3, AT, WHOLE, {0, 41, 0, 0, 0}, 53300041},
    {3, AT, WHOLE, {100, 0, 0, 3, 0}, 793000103},
    {3, AT, MARGINAL, {5, 3, 1, 2, 1}, 39000000},
    {3, AT, MARGINAL, {6, 3, 1, 2, 1}, 42000000},
    {3, AT, MARGINAL, {6, 3, 2, 2, 1}, 45500000},
    {3, AT, MARGINAL, {12, 5, 2, 0, 0}, 41500000},
    {3, AT, MARGINAL, {10, 8, 2, 1, 0}, 49800000},
    {3, AT, MARGINAL, {11, 8, 2, 1, 0}, 54800000},
    {3, AT, MARGINAL, {0, 20, 0, 1, 1}, 29600000},
    {3, AT, MARGINAL, {0, 0, 21, 1, 1}, 83500000},
    {3, AT, MARGINAL, {30, 5, 4, 1, 1}, 159500000},
    {3, AT, MARGINAL, {30, 6, 4, 1, 1}, 164800001},
    {3, AT, MARGINAL, {31, 6, 4, 1, 1}, 171800002},
    {3, AT, MARGINAL, {0, 41, 0, 0, 0}, 36100002},
    {3, AT, MARGINAL, {100, 0, 0, 3, 0}, 599000061},
};
/* clang-format on */

static struct price bracketed_price(uint32_t count, bool inclusive, bool marginal)
{
    struct price price = {.rates = base,
                          .tier_ppm = STANDARD,
                          .bracket_count = count,
                          .bracket_inclusive = inclusive,
                          .bracket_marginal = marginal};

    memcpy(price.brackets, brackets, count * sizeof(brackets[0]));
    return price;
}

static void a_bracket_begins_over_or_at_its_tokens_for_all_or_for_those_beyond(void **state)
{
    (void)state;

    for (size_t i = 0; i < sizeof(bracketed) / sizeof(bracketed[0]); i++) {
        const struct price price = bracketed_price(bracketed[i].count, bracketed[i].from == AT,
                                                   bracketed[i].mode == MARGINAL);
        const int64_t cost_pusd = cost_of(&price, TIER_STANDARD, &bracketed[i].usage);

        if (cost_pusd != bracketed[i].cost_pusd)
            fail_msg("row %zu: expected %lld, got %lld", i, (long long)bracketed[i].cost_pusd,
                     (long long)cost_pusd);
    }
}

static void the_tariff_states_the_bracket_of_the_call(void **state)
{
    (void)state;
    const struct price whole = bracketed_price(3, false, false);
    const struct price marginal = bracketed_price(2, true, true);
    const struct usage usage = {.input = 15, .cached_input = 6};
    struct tariff tariff;

    price_tariff(&whole, &usage, TIER_STANDARD, &tariff);
    assert_int_equal(tariff.above, 20);
    assert_int_equal(tariff.step_count, 0);
    assert_memory_equal(&tariff.rates, &brackets[1].rates, sizeof(struct rates));
    price_tariff(&marginal, &usage, TIER_STANDARD, &tariff);
    assert_int_equal(tariff.above, 0);
    assert_true(tariff.inclusive);
    assert_int_equal(tariff.step_count, 2);
    assert_memory_equal(&tariff.rates, &base, sizeof(struct rates));
    assert_memory_equal(&tariff.steps[1], &brackets[1], sizeof(brackets[1]));
}

static void a_prompt_too_long_to_count_is_in_the_last_bracket(void **state)
{
    (void)state;
    const struct price price = bracketed_price(3, false, false);
    const struct usage usage = {.input = INT64_MAX, .cached_input = INT64_MAX};
    struct tariff tariff;

    price_tariff(&price, &usage, TIER_STANDARD, &tariff);
    assert_int_equal(tariff.above, 40);
}

static void the_parts_of_a_cost_name_class_tokens_rate_and_step(void **state)
{
    (void)state;
    const struct price price = bracketed_price(2, false, true);
    /* Token 1-12 cached, 13-14 written, 15-25 input; steps begin with tokens 11 and 21. */
    const struct usage usage = {
        .input = 11, .cached_input = 12, .cache_write = 2, .output = 4, .reasoning = 0};
    const struct charge expected[] = {
        {CLASS_CACHED_INPUT, 10, 500000, 0}, {CLASS_CACHED_INPUT, 2, 700000, 10},
        {CLASS_CACHE_WRITE, 2, 3300000, 10}, {CLASS_INPUT, 6, 3000000, 10},
        {CLASS_INPUT, 5, 5000000, 20},       {CLASS_OUTPUT, 4, 8000000, 0},
    };
    struct tariff tariff;
    struct charge charges[CHARGES_MAX];
    uint32_t count = 0;

    price_tariff(&price, &usage, TIER_STANDARD, &tariff);
    assert_int_equal(price_charges(&usage, &tariff, charges, &count), OK);
    assert_int_equal(count, sizeof(expected) / sizeof(expected[0]));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(charges[i].class, expected[i].class);
        assert_int_equal(charges[i].tokens, expected[i].tokens);
        assert_int_equal(charges[i].rate, expected[i].rate);
        assert_int_equal(charges[i].above, expected[i].above);
    }
    assert_string_equal(token_class_name(CLASS_CACHE_WRITE), "cache_write");
}

static void every_class_across_every_step_fits_the_room_for_parts(void **state)
{
    (void)state;
    const struct price price = bracketed_price(3, false, true);
    struct tariff tariff;
    struct charge charges[CHARGES_MAX];

    for (int64_t tokens = 0; tokens < 60; tokens++) {
        const struct usage usage = {tokens, 60 - tokens, tokens / 2, 1, 1};
        uint32_t count = 0;
        money_sum sum = 0;
        int64_t cost_pusd = 0;
        int64_t counted = 0;

        price_tariff(&price, &usage, TIER_STANDARD, &tariff);
        assert_int_equal(price_charges(&usage, &tariff, charges, &count), OK);
        assert_in_range(count, 1, CHARGES_MAX);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(money_add_product(&sum, charges[i].tokens, charges[i].rate), OK);
            counted += charges[i].tokens;
        }
        assert_int_equal(price_of(&usage, &tariff, &cost_pusd), OK);
        assert_true(sum == cost_pusd);
        assert_int_equal(counted, 60 + tokens / 2 + 2);
    }
}

/* ---- Tiers ---- */

static void a_tiers_factor_is_in_every_rate_and_step(void **state)
{
    (void)state;
    struct price price = bracketed_price(2, false, true);
    const struct usage usage = {
        .input = 11, .cached_input = 12, .cache_write = 2, .output = 4, .reasoning = 1};
    struct tariff tariff;

    price.tier_ppm[TIER_FLEX] = 500000;
    price.tier_ppm[TIER_PRIORITY] = 1750000;
    /* 5,000,000 + 1,400,000 + 6,600,000 + 18,000,000 + 25,000,000 + 32,000,000 + 9,000,000 */
    assert_int_equal(cost_of(&price, TIER_STANDARD, &usage), 97000000);
    assert_int_equal(cost_of(&price, TIER_FLEX, &usage), 48500000);
    assert_int_equal(cost_of(&price, TIER_PRIORITY, &usage), 169750000);
    price_tariff(&price, &usage, TIER_PRIORITY, &tariff);
    assert_int_equal(tariff.rates.input, 3500000);
    assert_int_equal(tariff.rates.cached_input, 875000);
    assert_int_equal(tariff.rates.cache_write, 4375000);
    assert_int_equal(tariff.rates.output, 14000000);
    assert_int_equal(tariff.rates.reasoning, 15750000);
    assert_int_equal(tariff.steps[1].rates.input, 8750000);
}

static void the_dearest_price_at_the_largest_factor_still_fits(void **state)
{
    (void)state;
    struct price price = {.rates = {.input = INT64_C(1000000000000)}, .tier_ppm = STANDARD};
    const struct usage usage = {.input = 9223};

    price.tier_ppm[TIER_PRIORITY] = INT64_C(1000) * PRICE_PPM;
    assert_int_equal(cost_of(&price, TIER_PRIORITY, &usage), INT64_C(9223000000000000000));
}

/* ---- Volume ---- */

static const struct price_volume volumes[] = {{1000, 900000}, {3000, 750000}, {5000, 333333}};

/* Expected values: the share beyond each step, half to even, then its factor off, half to even;
 * worked out in decimals. */
static void a_months_discount_is_off_the_share_beyond_or_off_all(void **state)
{
    (void)state;
    const struct {
        bool marginal;
        int64_t tokens;
        int64_t amount;
        int64_t discount;
    } cases[] = {
        {true, 0, 0, 0},
        {true, 1000, 1000000, 0},
        {true, 1001, 1001000, 100},     /* one token of 1,000 pusd, a tenth off */
        {true, 3000, 3000000, 200000},  /* 2,000,000 at 0.1 */
        {true, 4000, 4000000, 450000},  /* and 1,000,000 at 0.25 */
        {true, 6000, 6000000, 1366667}, /* 200,000 + 500,000 + 1,000,000 at 0.666667 */
        {true, 1003, 1001, 0},          /* share 2.99… = 3, off 0.3 */
        {false, 1000, 1000000, 0},
        {false, 1001, 1001000, 100100},
        {false, 3000, 3000000, 300000},
        {false, 3001, 3001000, 750250},
        {false, 6000, 6000000, 4000002},
        {false, 2000, 5, 0},  /* 0.5: half to even */
        {false, 2000, 15, 2}, /* 1.5 */
        {false, 2000, 25, 2}, /* 2.5 */
    };
    struct price price = {.volume_count = 3};

    memcpy(price.volumes, volumes, sizeof(volumes));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        money_sum discount = -1;

        price.volume_marginal = cases[i].marginal;
        assert_int_equal(price_discount(&price, cases[i].tokens, cases[i].amount, &discount), OK);
        if (discount != cases[i].discount)
            fail_msg("row %zu: expected %lld, got %lld", i, (long long)cases[i].discount,
                     (long long)discount);
    }
}

static void a_price_without_volumes_gives_no_discount_and_a_huge_month_is_an_error(void **state)
{
    (void)state;
    struct price price = {.volume_marginal = true};
    money_sum discount = 7;

    assert_int_equal(price_discount(&price, INT64_MAX, 1000, &discount), OK);
    assert_true(discount == 0);
    price.volume_count = 1;
    price.volumes[0] = (struct price_volume){1, 500000};
    discount = 7;
    assert_int_equal(price_discount(&price, INT64_MAX, (money_sum)1 << 100, &discount),
                     ERR_BAD_VALUE);
    assert_true(discount == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_is_charged_at_its_own_rate),
        cmocka_unit_test(what_is_not_known_costs_nothing),
        cmocka_unit_test(the_largest_sum_that_fits_is_exact_and_one_more_is_an_error),
        cmocka_unit_test(absurd_and_negative_values_are_errors),
        cmocka_unit_test(a_bracket_begins_over_or_at_its_tokens_for_all_or_for_those_beyond),
        cmocka_unit_test(the_tariff_states_the_bracket_of_the_call),
        cmocka_unit_test(a_prompt_too_long_to_count_is_in_the_last_bracket),
        cmocka_unit_test(the_parts_of_a_cost_name_class_tokens_rate_and_step),
        cmocka_unit_test(every_class_across_every_step_fits_the_room_for_parts),
        cmocka_unit_test(a_tiers_factor_is_in_every_rate_and_step),
        cmocka_unit_test(the_dearest_price_at_the_largest_factor_still_fits),
        cmocka_unit_test(a_months_discount_is_off_the_share_beyond_or_off_all),
        cmocka_unit_test(a_price_without_volumes_gives_no_discount_and_a_huge_month_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
