/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_usage_ask.c: columns and buckets as an operator writes them
 * (gateway/usage_ask.c).
 *
 * Promises:  1. Columns are added in their order; a tag stands for all tags.
 *            2. What is not known, empty, there already or too much is refused.
 *            3. Buckets are hours, days, weeks and months. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/usage_ask.h"

static void columns_come_in_the_order_that_was_asked(void **state)
{
    (void)state;
    struct books_ask ask = {.by_count = 0};

    assert_true(usage_ask_by(&ask, SPAN("model,tag:team,tenant")));

    assert_int_equal(ask.by_count, 3);
    assert_int_equal(ask.by[0], BY_MODEL);
    assert_int_equal(ask.by[1], BY_TAGS);
    assert_int_equal(ask.by[2], BY_TENANT);
    assert_true(span_equal(ask.tag, SPAN("team")));
}

static void what_cannot_be_asked_for_is_refused(void **state)
{
    (void)state;
    const char *const names[] = {
        "",
        "colour",
        "model,",
        "tag:",
        "model,model",
        ",model",
        "tag:a,tag:b",
        "tag:a,tag:a",
        "tags,tag:a",
        "Model",
        "tenant,key,model,class,tier,endpoint,replica",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct books_ask ask = {.by_count = 0};
        if (usage_ask_by(&ask, span_of(names[i])))
            fail_msg("%s", names[i]);
    }
}

static void buckets_are_hours_days_weeks_and_months(void **state)
{
    (void)state;
    struct books_ask ask = {.by_count = 0};

    assert_false(usage_ask_bucket(&ask, SPAN("year")));
    assert_false(usage_ask_bucket(&ask, SPAN("")));
    assert_false(ask.bucketed);
    assert_true(usage_ask_bucket(&ask, SPAN("week")));
    assert_true(ask.bucketed);
    assert_int_equal(ask.bucket, PERIOD_WEEK);
    assert_true(usage_ask_bucket(&ask, SPAN("month")));
    assert_int_equal(ask.bucket, PERIOD_MONTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_in_the_order_that_was_asked),
        cmocka_unit_test(what_cannot_be_asked_for_is_refused),
        cmocka_unit_test(buckets_are_hours_days_weeks_and_months),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
