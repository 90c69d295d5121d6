/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_nearest.c: which known name was meant (config/base/nearest.c).
 *
 * - The distance of two names counts edits.
 * - The nearest of the known names is kept, the first of equals.
 * - A name that begins with what was asked was meant; one that is too far was not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/base/nearest.h"
#include "config/base/span.h"

static void the_distance_of_two_names_counts_edits(void **state)
{
    (void)state;
    const struct {
        struct span a, b;
        size_t edits;
    } cases[] = {
        {SPAN("listen"), SPAN("listen"), 0}, {SPAN("adress"), SPAN("address"), 1},
        {SPAN("frist"), SPAN("first"), 1},   {SPAN("kitten"), SPAN("sitting"), 3},
        {SPAN(""), SPAN("abc"), 3},          {SPAN("abc"), SPAN(""), 3},
        {SPAN("models"), SPAN("model"), 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(nearest_distance(cases[i].a, cases[i].b), cases[i].edits);
}

static void the_nearest_known_name_is_kept(void **state)
{
    (void)state;
    struct nearest nearest = nearest_to(SPAN("--perod"));

    assert_false(nearest_is_near(&nearest));
    assert_true(nearest_try(&nearest, SPAN("--tenant")));
    assert_false(nearest_is_near(&nearest));
    assert_true(nearest_try(&nearest, SPAN("--period")));
    assert_false(nearest_try(&nearest, SPAN("--perido")));
    assert_false(nearest_try(&nearest, SPAN("--zone")));

    assert_true(nearest_is_near(&nearest));
    assert_true(span_equal(nearest.name, SPAN("--period")));
}

static void what_may_have_been_meant_is_near(void **state)
{
    (void)state;
    const struct {
        struct span asked, known;
        bool near;
    } cases[] = {
        {SPAN("acne"), SPAN("acme"), true},       {SPAN("acme"), SPAN("acme-research"), true},
        {SPAN("amce"), SPAN("acme"), true},       {SPAN("beta"), SPAN("acme"), false},
        {SPAN("ac"), SPAN("acme-lab"), false},    {SPAN("--foo"), SPAN("--by"), false},
        {SPAN("--ledgr"), SPAN("--ledger"), true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nearest nearest = nearest_to(cases[i].asked);

        (void)nearest_try(&nearest, cases[i].known);
        assert_int_equal(nearest_is_near(&nearest), cases[i].near);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distance_of_two_names_counts_edits),
        cmocka_unit_test(the_nearest_known_name_is_kept),
        cmocka_unit_test(what_may_have_been_meant_is_near),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
