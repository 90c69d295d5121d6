/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_settle.c: what an exchange is charged, however it ended (meter/settle.c).
 *
 * Promises:  1. What a replica has said stays; what it has not said is estimated, each side alone.
 *            2. No estimate is above what the ask can have come to.
 *            3. Where nothing is generated, no output is missing.
 *            4. An amount that does not fit is none, and is flagged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter/settle.h"

/* Nothing was learned: as many tokens as pieces. */
static const struct meter_guess thousand = {
    .input = 1000, .most_input = METER_NO_BOUND, .most_output = METER_NO_BOUND};

static struct meter_guess bounded(uint32_t input, uint32_t output)
{
    struct meter_guess guess = thousand;

    guess.most_input = input;
    guess.most_output = output;
    return guess;
}

static void what_is_not_said_is_estimated_and_no_more(void **state)
{
    (void)state;
    const struct {
        struct meter_guess guess;
        int64_t pieces;
        struct usage said;
        enum usage_source source;
        struct usage charged;
        bool estimated;
    } cases[] = {
        {thousand, 7, {3, 4, -1, 5, -1}, SOURCE_RUNNING, {3, 4, -1, 5, -1}, false},
        {thousand, 7, {0, -1, -1, 0, -1}, SOURCE_REPORTED, {0, -1, -1, 0, -1}, false},
        {thousand, 7, {-1, -1, -1, -1, -1}, SOURCE_NONE, {1000, 0, 0, 7, 0}, true},
        {thousand, 7, {-1, 4, -1, -1, -1}, SOURCE_REPORTED, {-1, 4, -1, 7, -1}, true},
        {thousand, 7, {-1, -1, -1, -1, 5}, SOURCE_RUNNING, {1000, -1, -1, -1, 5}, true},
        {thousand, 7, {-1, -1, -1, -1, -1}, SOURCE_REPORTED, {1000, -1, -1, 7, -1}, true},
        {thousand, 7, {-1, -1, -1, -1, -1}, SOURCE_CACHED, {-1, -1, -1, -1, -1}, false},
        /* never more than asked for; what a replica says is not cut */
        {bounded(900, 5), 7, {-1, -1, -1, -1, -1}, SOURCE_NONE, {900, 0, 0, 5, 0}, true},
        {bounded(1000, 7), 7, {-1, -1, -1, -1, -1}, SOURCE_NONE, {1000, 0, 0, 7, 0}, true},
        {bounded(900, 5), 7, {2000, -1, -1, -1, -1}, SOURCE_REPORTED, {2000, -1, -1, 5, -1}, true},
        {bounded(900, 5), 7, {2000, -1, -1, 6, -1}, SOURCE_REPORTED, {2000, -1, -1, 6, -1}, false},
        /* embeddings */
        {bounded(900, 0), 0, {12, -1, -1, -1, -1}, SOURCE_REPORTED, {12, -1, -1, -1, -1}, false},
        {bounded(900, 0), 3, {-1, -1, -1, -1, -1}, SOURCE_NONE, {900, 0, 0, 0, 0}, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct usage usage = cases[i].said;
        enum usage_source source = cases[i].source;

        assert_int_equal(settle_usage(&cases[i].guess, 0, cases[i].pieces, &usage, &source),
                         cases[i].estimated);
        assert_memory_equal(&usage, &cases[i].charged, sizeof(usage));
        assert_int_equal(source, cases[i].estimated ? SOURCE_ESTIMATED : cases[i].source);
    }
}

static const struct price price = {
    .until_us = INT64_MAX,
    .rates = {10, 1, 20, 100, 300},
    .tier_ppm = {PRICE_PPM, PRICE_PPM / 2, 2 * PRICE_PPM, PRICE_PPM}};

static void an_amount_that_does_not_fit_is_flagged(void **state)
{
    (void)state;
    const struct usage fits = {.input = 3, .output = 2},
                       over = {.input = INT64_MAX, .output = INT64_MAX};
    uint32_t flags = FLAG_CLAMPED;

    assert_int_equal(settle_cost(&price, TIER_PRIORITY, &fits, &flags), 2 * (3 * 10 + 2 * 100));
    assert_int_equal(flags, FLAG_CLAMPED);
    assert_int_equal(settle_cost(&price, TIER_STANDARD, &over, &flags), 0);
    assert_int_equal(flags, FLAG_CLAMPED | FLAG_USAGE_SUSPECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_said_is_estimated_and_no_more),
        cmocka_unit_test(an_amount_that_does_not_fit_is_flagged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
