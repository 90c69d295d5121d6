/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_price.c: what a call costs, and how an amount is written (meter/price.c).
 *
 * Promises:  1. The sum over classes of tokens times price, exact; not known counts nothing.
 *            2. What does not fit or is negative is an error, and the result is untouched.
 *            3. Amounts are written in USD without losing a picodollar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meter/price.h"

static void each_class_is_charged_at_its_own_rate(void **state)
{
    (void)state;
    const struct price price = {.input = 2000000,
                                .cached_input = 500000,
                                .cache_write = 2500000,
                                .output = 8000000,
                                .reasoning = 9000000}; /* pusd per token */
    const struct usage usage = {
        .input = 600, .cached_input = 400, .cache_write = 100, .output = 10, .reasoning = 5};
    int64_t cost_pusd = -1;

    assert_int_equal(price_of(&usage, &price, &cost_pusd), OK);

    /* 1,200,000,000 + 200,000,000 + 250,000,000 + 80,000,000 + 45,000,000 */
    assert_int_equal(cost_pusd, 1775000000);
}

static void what_is_not_known_costs_nothing(void **state)
{
    (void)state;
    const struct price price = {
        .input = 7, .cached_input = 7, .cache_write = 7, .output = 3, .reasoning = 7};
    struct usage usage = USAGE_UNKNOWN;
    int64_t cost_pusd = -1;

    assert_int_equal(price_of(&usage, &price, &cost_pusd), OK);
    assert_int_equal(cost_pusd, 0);
    usage.output = 11;
    assert_int_equal(price_of(&usage, &price, &cost_pusd), OK);
    assert_int_equal(cost_pusd, 33);
}

static void the_largest_sum_that_fits_is_exact_and_one_more_is_an_error(void **state)
{
    (void)state;
    const struct price price = {.input = 1, .output = 1};
    struct usage usage = {.input = INT64_MAX - 1, .output = 1};
    int64_t cost_pusd = -1;

    assert_int_equal(price_of(&usage, &price, &cost_pusd), OK);
    assert_int_equal(cost_pusd, INT64_MAX);
    usage.output = 2;
    cost_pusd = 42;
    assert_int_equal(price_of(&usage, &price, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(cost_pusd, 42);
}

static void absurd_and_negative_values_are_errors(void **state)
{
    (void)state;
    const struct price dearest = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                                  INT64_MAX, INT64_MAX, INT64_MAX};
    const struct price negative = {.input = -1};
    const struct usage most = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    const struct usage below = {.input = -2};
    const struct usage one = {.input = 1};
    int64_t cost_pusd = 42;

    assert_int_equal(price_of(&most, &dearest, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(price_of(&below, &dearest, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(price_of(&one, &negative, &cost_pusd), ERR_BAD_VALUE);
    assert_int_equal(cost_pusd, 42);
}

static void amounts_are_written_in_usd_to_the_last_picodollar(void **state)
{
    (void)state;
    const struct {
        int64_t pusd;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "0.000000000001"},
        {123000000, "0.000123"},
        {1000000000000, "1"},
        {1500000000000, "1.5"},
        {-250000000000, "-0.25"},
        {INT64_MAX, "9223372.036854775807"},
        {INT64_MIN, "-9223372.036854775808"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[40];
        assert_int_equal(price_format_usd(cases[i].pusd, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_is_charged_at_its_own_rate),
        cmocka_unit_test(what_is_not_known_costs_nothing),
        cmocka_unit_test(the_largest_sum_that_fits_is_exact_and_one_more_is_an_error),
        cmocka_unit_test(absurd_and_negative_values_are_errors),
        cmocka_unit_test(amounts_are_written_in_usd_to_the_last_picodollar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
