/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_money.c: amounts in picodollars (config/base/money.c).
 *
 * Promises:  1. Amounts are written in USD without losing a picodollar, and read back the same.
 *            2. What is no amount, or too fine, or too large, is refused; the result is untouched.
 *            3. Rounding is half to even, the same on both sides of zero.
 *            4. Sums, products and shares are exact, or an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/money.h"

#define TEN_TO_18 ((money_sum)INT64_C(1000000000000000000))
#define LARGEST ((money_sum)(~(unsigned __int128)0 >> 1)) /* 2^127 - 1 */

static void amounts_are_written_in_usd_to_the_last_picodollar(void **state)
{
    (void)state;
    const struct {
        money_sum pusd;
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
        {TEN_TO_18 * TEN_TO_18, "1000000000000000000000000"},
        {LARGEST, "170141183460469231731687303.715884105727"},
        {-LARGEST, "-170141183460469231731687303.715884105727"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[MONEY_TEXT_BYTES];
        money_sum again = -1;

        assert_int_equal(money_print_usd(cases[i].pusd, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
        assert_int_equal(money_read_usd(span_of(text), &again), OK);
        assert_true(again == cases[i].pusd);
    }
}

static void the_lowest_amount_is_written_too(void **state)
{
    (void)state;
    char text[MONEY_TEXT_BYTES];

    assert_int_equal(money_print_pusd(-LARGEST - 1, text), 40);
    assert_string_equal(text, "-170141183460469231731687303715884105728");
}

static void picodollars_are_written_whole_and_read_back(void **state)
{
    (void)state;
    const struct {
        money_sum pusd;
        const char *text;
    } cases[] = {{0, "0"},
                 {-7, "-7"},
                 {INT64_MAX, "9223372036854775807"},
                 {LARGEST, "170141183460469231731687303715884105727"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[MONEY_TEXT_BYTES];
        money_sum again = -1;

        assert_int_equal(money_print_pusd(cases[i].pusd, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
        assert_int_equal(money_read_pusd(span_of(text), &again), OK);
        assert_true(again == cases[i].pusd);
    }
}

static void cents_have_two_places(void **state)
{
    (void)state;
    const struct {
        int64_t cents;
        const char *text;
    } cases[] = {{0, "0.00"}, {5, "0.05"}, {-5, "-0.05"}, {1230, "12.30"}, {-100, "-1.00"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[MONEY_TEXT_BYTES];

        assert_int_equal(money_print_cents((money_sum)cases[i].cents * MONEY_PUSD_PER_CENT, text),
                         strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void what_is_no_amount_is_refused(void **state)
{
    (void)state;
    const char *const bad_usd[] = {"",
                                   "-",
                                   "+1",
                                   " 1",
                                   "1 ",
                                   "1.",
                                   ".5",
                                   "1e3",
                                   "0x1",
                                   "1.2.3",
                                   "--1",
                                   "1,000",
                                   "NaN",
                                   "$1",
                                   "1.0000000000001",
                                   "170141183460469231731687303.715884105728",
                                   "1000000000000000000000000000000000000000"};
    const char *const bad_pusd[] = {"", "-", "1.0", "1e3",
                                    "170141183460469231731687303715884105728"};
    money_sum value = 42;

    for (size_t i = 0; i < sizeof(bad_usd) / sizeof(bad_usd[0]); i++)
        assert_int_equal(money_read_usd(span_of(bad_usd[i]), &value), ERR_BAD_VALUE);
    for (size_t i = 0; i < sizeof(bad_pusd) / sizeof(bad_pusd[0]); i++)
        assert_int_equal(money_read_pusd(span_of(bad_pusd[i]), &value), ERR_BAD_VALUE);
    assert_true(value == 42);
    assert_int_equal(money_read_usd((struct span){"12.5x", 4}, &value), OK); /* size says the end */
    assert_true(value == (money_sum)12500000000000);
}

static void rounding_is_half_to_even_on_both_sides_of_zero(void **state)
{
    (void)state;
    const struct {
        int64_t amount;
        int64_t rounded; /* to tens */
    } cases[] = {{0, 0},    {4, 0},     {5, 0},     {6, 10},    {14, 10}, {15, 20},
                 {16, 20},  {24, 20},   {25, 20},   {26, 30},   {-4, 0},  {-5, 0},
                 {-6, -10}, {-15, -20}, {-25, -20}, {-26, -30}, {10, 10}, {-10, -10}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_true(money_round(cases[i].amount, 10) == cases[i].rounded);
    assert_true(money_round(7, 1) == 7);
    assert_true(money_round(TEN_TO_18 * TEN_TO_18 + 5000000000, MONEY_PUSD_PER_CENT) ==
                TEN_TO_18 * TEN_TO_18);
    assert_true(money_round(TEN_TO_18 * TEN_TO_18 + 5000000001, MONEY_PUSD_PER_CENT) ==
                TEN_TO_18 * TEN_TO_18 + MONEY_PUSD_PER_CENT);
    assert_true(money_round(5, 3) == 6); /* an odd unit has no halves */
    assert_true(money_round(4, 3) == 3);
}

static void sums_and_products_are_exact_or_an_error(void **state)
{
    (void)state;
    money_sum sum = LARGEST - (money_sum)INT64_MAX * INT64_MAX;

    assert_int_equal(money_add_product(&sum, INT64_MAX, INT64_MAX), OK);
    assert_true(sum == LARGEST);
    assert_int_equal(money_add_product(&sum, 1, 1), ERR_BAD_VALUE);
    assert_int_equal(money_add_product(&sum, -1, 1), ERR_BAD_VALUE);
    assert_int_equal(money_add_product(&sum, 1, -1), ERR_BAD_VALUE);
    assert_int_equal(money_add(LARGEST, 1, &sum), ERR_BAD_VALUE);
    assert_int_equal(money_add(-LARGEST, -2, &sum), ERR_BAD_VALUE);
    assert_true(sum == LARGEST);
    assert_int_equal(money_add(LARGEST, -LARGEST, &sum), OK);
    assert_true(sum == 0);
}

static void shares_are_half_to_even_or_an_error(void **state)
{
    (void)state;
    money_sum share = 42;

    assert_int_equal(money_scale(1, 1, 0, &share), ERR_BAD_VALUE);
    assert_int_equal(money_scale(1, 1, -1, &share), ERR_BAD_VALUE);
    assert_int_equal(money_scale(LARGEST, 2, 2, &share), ERR_BAD_VALUE);
    assert_true(share == 42);
    assert_int_equal(money_scale(5, 1, 2, &share), OK);
    assert_true(share == 2);
    assert_int_equal(money_scale(7, 1, 2, &share), OK);
    assert_true(share == 4);
    assert_int_equal(money_scale(-5, 1, 2, &share), OK);
    assert_true(share == -2);
    assert_int_equal(money_scale(1000000, 333333, 1000000, &share), OK);
    assert_true(share == 333333);
    assert_int_equal(money_scale(100, 2, 3, &share), OK);
    assert_true(share == 67);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_written_in_usd_to_the_last_picodollar),
        cmocka_unit_test(the_lowest_amount_is_written_too),
        cmocka_unit_test(picodollars_are_written_whole_and_read_back),
        cmocka_unit_test(cents_have_two_places),
        cmocka_unit_test(what_is_no_amount_is_refused),
        cmocka_unit_test(rounding_is_half_to_even_on_both_sides_of_zero),
        cmocka_unit_test(sums_and_products_are_exact_or_an_error),
        cmocka_unit_test(shares_are_half_to_even_or_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
