/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_wheel.c: deadlines (gateway/wheel.c).
 *
 * Promises:  1. A deadline comes at its moment or one tick after, never before.
 *            2. Moving it later is a store: it is not filed anew.
 *            3. Moving it earlier makes it come earlier.
 *            4. What lies beyond the ring comes at its moment all the same.
 *            5. due() may clear others of its bucket and set itself again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/wheel.h"

static int came;
static struct wheel *wheel;

static void count(struct deadline *deadline)
{
    (void)deadline;
    came++;
}

static int setup(void **state)
{
    (void)state;
    came = 0;
    wheel = malloc(sizeof *wheel);
    assert_non_null(wheel);
    wheel_init(wheel, 1000 * WHEEL_TICK_NS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(wheel);
    return 0;
}

static void comes_at_its_moment_and_not_before(void **state)
{
    (void)state;
    struct deadline deadline = {.due = count};
    const uint64_t at_ns = 1005 * WHEEL_TICK_NS + 3;

    wheel_set(wheel, &deadline, at_ns);
    wheel_turn(wheel, at_ns - 1);
    assert_int_equal(came, 0);

    wheel_turn(wheel, at_ns + WHEEL_TICK_NS);
    assert_int_equal(came, 1);
    assert_null(deadline.link);
    assert_int_equal(wheel_next(wheel), 0);
}

static void moving_later_does_not_file_anew_and_still_comes(void **state)
{
    (void)state;
    struct deadline deadline = {.due = count};

    assert_int_equal(wheel_set(wheel, &deadline, 1005 * WHEEL_TICK_NS), 1006);
    assert_int_equal(wheel_set(wheel, &deadline, 1050 * WHEEL_TICK_NS), 0);
    wheel_turn(wheel, 1010 * WHEEL_TICK_NS);
    assert_int_equal(came, 0);

    wheel_turn(wheel, 1051 * WHEEL_TICK_NS);
    assert_int_equal(came, 1);
}

static void moving_earlier_comes_earlier(void **state)
{
    (void)state;
    struct deadline deadline = {.due = count};

    wheel_set(wheel, &deadline, 2000 * WHEEL_TICK_NS);
    assert_int_equal(wheel_set(wheel, &deadline, 1002 * WHEEL_TICK_NS), 1003);
    wheel_turn(wheel, 1003 * WHEEL_TICK_NS);

    assert_int_equal(came, 1);
}

static void beyond_the_ring_comes_at_its_moment(void **state)
{
    (void)state;
    struct deadline deadline = {.due = count};
    const uint64_t far = 1000 + 3 * WHEEL_BUCKETS;

    wheel_set(wheel, &deadline, far * WHEEL_TICK_NS);
    for (uint64_t tick = 1000; tick < far; tick += 100)
        wheel_turn(wheel, tick * WHEEL_TICK_NS);
    assert_int_equal(came, 0);

    wheel_turn(wheel, (far + 1) * WHEEL_TICK_NS);
    assert_int_equal(came, 1);
}

static void a_wheel_that_slept_long_loses_nothing(void **state)
{
    (void)state;
    struct deadline deadline = {.due = count};
    const uint64_t now = 1000 + 10 * WHEEL_BUCKETS; /* nothing was set for ten rounds */

    wheel_set(wheel, &deadline, (now + 5) * WHEEL_TICK_NS);
    wheel_turn(wheel, now * WHEEL_TICK_NS);
    assert_int_equal(came, 0);
    assert_true(wheel_next(wheel) > now && wheel_next(wheel) <= now + 6);

    wheel_turn(wheel, (now + 6) * WHEEL_TICK_NS);
    assert_int_equal(came, 1);
}

static struct deadline first, second;

static void clear_the_other(struct deadline *deadline)
{
    came++;
    wheel_clear(deadline == &first ? &second : &first);
}

static void due_may_clear_another_of_its_bucket(void **state)
{
    (void)state;
    first = second = (struct deadline){.due = clear_the_other};

    wheel_set(wheel, &first, 1001 * WHEEL_TICK_NS);
    wheel_set(wheel, &second, 1001 * WHEEL_TICK_NS);
    wheel_turn(wheel, 1010 * WHEEL_TICK_NS);

    assert_int_equal(came, 1);
}

static void set_again(struct deadline *deadline)
{
    came++;
    wheel_set(wheel, deadline, deadline->at_ns + 5 * WHEEL_TICK_NS);
}

static void due_may_set_itself_again(void **state)
{
    (void)state;
    struct deadline deadline = {.due = set_again};

    wheel_set(wheel, &deadline, 1001 * WHEEL_TICK_NS);
    wheel_turn(wheel, 1003 * WHEEL_TICK_NS);
    assert_int_equal(came, 1);
    wheel_turn(wheel, 1008 * WHEEL_TICK_NS);
    assert_int_equal(came, 2);
    wheel_clear(&deadline);
    wheel_turn(wheel, 1100 * WHEEL_TICK_NS);
    assert_int_equal(came, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_at_its_moment_and_not_before, setup, teardown),
        cmocka_unit_test_setup_teardown(moving_later_does_not_file_anew_and_still_comes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(moving_earlier_comes_earlier, setup, teardown),
        cmocka_unit_test_setup_teardown(beyond_the_ring_comes_at_its_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wheel_that_slept_long_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(due_may_clear_another_of_its_bucket, setup, teardown),
        cmocka_unit_test_setup_teardown(due_may_set_itself_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
