/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_span.c: the promises of config/base/span.h.
 *
 * - Equality looks at every byte; the case-blind one at ASCII letters only.
 * - Order is that of unsigned bytes, and of two that begin alike the shorter one comes first.
 * - A number is 1 to 19 digits that fit, and nothing else.
 * - In a pattern a star stands for any bytes, none too, and nothing else is special. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/span.h"

static void equality_looks_at_size_and_bytes(void **state)
{
    (void)state;

    assert_true(span_equal(SPAN("abc"), SPAN("abc")));
    assert_false(span_equal(SPAN("abc"), SPAN("abd")));
    assert_false(span_equal(SPAN("abc"), SPAN("ab")));
    assert_true(span_equal(SPAN(""), (struct span){NULL, 0}));
    assert_true(span_equal_nocase(SPAN("Content-TYPE"), SPAN("content-type")));
    assert_false(span_equal_nocase(SPAN("a-b"), SPAN("a_b")));
}

static void order_is_by_bytes_and_then_by_size(void **state)
{
    (void)state;
    const struct span sorted[] = {{NULL, 0}, SPAN("a"),    SPAN("ab"),
                                  SPAN("b"), SPAN("\x7f"), SPAN("\xc3\xa9")};
    const size_t count = sizeof(sorted) / sizeof(sorted[0]);

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            const int order = span_compare(sorted[i], sorted[k]);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
}

static void a_beginning_is_found(void **state)
{
    (void)state;

    assert_true(span_starts(SPAN("/v1/models"), SPAN("/v1/")));
    assert_false(span_starts(SPAN("/v"), SPAN("/v1")));
    assert_true(span_equal(span_from(SPAN("/v1/models"), 4), SPAN("models")));
}

static void numbers_that_fit_are_read(void **state)
{
    (void)state;
    int64_t value = -1;

    assert_true(span_to_int64(SPAN("0"), &value));
    assert_int_equal(value, 0);
    assert_true(span_to_int64(SPAN("0032768"), &value));
    assert_int_equal(value, 32768);
    assert_true(span_to_int64(SPAN("9223372036854775807"), &value));
    assert_true(value == INT64_MAX);
}

static void what_is_no_number_leaves_the_value_alone(void **state)
{
    (void)state;
    const struct span bad[] = {SPAN(""),
                               SPAN("-1"),
                               SPAN("+1"),
                               SPAN(" 1"),
                               SPAN("1 "),
                               SPAN("1.0"),
                               SPAN("0x10"),
                               SPAN("9223372036854775808"),
                               SPAN("00000000000000000001")};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t value = -7;

        assert_false(span_to_int64(bad[i], &value));
        assert_int_equal(value, -7);
    }
}

static void a_star_stands_for_any_bytes(void **state)
{
    (void)state;
    const struct {
        struct span text, pattern;
        bool matches;
    } cases[] = {
        {SPAN("You write code."), SPAN("*code*"), true},
        {SPAN("code"), SPAN("*code*"), true},
        {SPAN("CODE"), SPAN("*code*"), true},
        {SPAN("cod"), SPAN("*code*"), false},
        {SPAN(""), SPAN("*"), true},
        {SPAN(""), SPAN(""), true},
        {SPAN("a"), SPAN(""), false},
        {SPAN(""), SPAN("a"), false},
        {SPAN("summarise"), SPAN("summarise"), true},
        {SPAN("summarised"), SPAN("summarise"), false},
        {SPAN("aab"), SPAN("*ab"), true},
        {SPAN("abcabd"), SPAN("*ab*d"), true},
        {SPAN("abcabc"), SPAN("a*b*d"), false},
        {SPAN("a?c"), SPAN("a?c"), true},
        {SPAN("abc"), SPAN("a?c"), false},
        {SPAN("a*c"), SPAN("a**c"), true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(span_matches(cases[i].text, cases[i].pattern), cases[i].matches);
}

/* Two stars around a long run of the same byte: doubling back to every star would never end. */
static void many_stars_do_not_take_for_ever(void **state)
{
    (void)state;
    char text[20000];

    memset(text, 'a', sizeof(text));

    assert_false(span_matches((struct span){text, sizeof(text)}, SPAN("*a*a*a*a*a*a*a*a*b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_looks_at_size_and_bytes),
        cmocka_unit_test(order_is_by_bytes_and_then_by_size),
        cmocka_unit_test(a_beginning_is_found),
        cmocka_unit_test(numbers_that_fit_are_read),
        cmocka_unit_test(what_is_no_number_leaves_the_value_alone),
        cmocka_unit_test(a_star_stands_for_any_bytes),
        cmocka_unit_test(many_stars_do_not_take_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
