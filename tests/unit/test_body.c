/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_body.c: request bodies and their bounds (gateway/body.c).
 *
 * Promises:  1. Bytes come out as they went in, whatever the pieces.
 *            2. One byte over body_bytes is ERR_TOO_LARGE, also when it was only announced.
 *            3. Past bodies_memory new bodies are refused; past 1.25 times it half-read ones are
 * too.
 *            4. What is freed is given back to the process's account. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/metrics.h"
#include "gateway/body.h"

static struct config config = {.limits_body_bytes = 1000, .limits_bodies_memory_bytes = 4000};

static void pieces_make_the_body(void **state)
{
    (void)state;
    struct body body = {NULL, 0, 0};
    char expected[1000];

    for (size_t i = 0; i < sizeof expected; i++)
        expected[i] = (char)(i * 7);
    assert_int_equal(body_expect(&body, &config, 0), OK);
    for (size_t at = 0, step = 1; at < sizeof expected; at += step, step = step % 13 + 1) {
        if (step > sizeof expected - at)
            step = sizeof expected - at;
        assert_int_equal(body_append(&body, &config, (struct span){expected + at, step}), OK);
    }
    assert_int_equal(body.size, sizeof expected);
    assert_memory_equal(body.data, expected, sizeof expected);

    assert_int_equal(body_append(&body, &config, (struct span){"x", 1}), ERR_TOO_LARGE);
    body_free(&body);
    body_free(&body);
    assert_int_equal(metric_value(METRIC_bodies_bytes), 0);
}

static void an_announced_size_over_the_bound_is_refused(void **state)
{
    (void)state;
    struct body body = {NULL, 0, 0};

    assert_int_equal(body_expect(&body, &config, 1001), ERR_TOO_LARGE);
    assert_int_equal(body_expect(&body, &config, UINT64_MAX), ERR_TOO_LARGE);
    assert_int_equal(body_expect(&body, &config, 1000), OK);
    assert_int_equal(body.room, 1000);
    body_free(&body);
}

static void the_process_has_a_bound_too(void **state)
{
    (void)state;
    struct body bodies[6] = {{NULL, 0, 0}};
    struct body late = {NULL, 0, 0};

    for (size_t i = 0; i < 5; i++)
        assert_int_equal(body_expect(&bodies[i], &config, 1000), OK);
    assert_int_equal(metric_value(METRIC_bodies_bytes), 5000);
    assert_int_equal(body_expect(&late, &config, 10), ERR_BODIES_FULL);
    assert_int_equal(body_append(&bodies[5], &config, (struct span){"x", 1}), ERR_BODIES_FULL);

    for (size_t i = 0; i < 6; i++)
        body_free(&bodies[i]);
    assert_int_equal(body_expect(&late, &config, 10), OK);
    body_free(&late);
    assert_int_equal(metric_value(METRIC_bodies_bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_body),
        cmocka_unit_test(an_announced_size_over_the_bound_is_refused),
        cmocka_unit_test(the_process_has_a_bound_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
