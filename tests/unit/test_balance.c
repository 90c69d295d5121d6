/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_balance.c: which replica among equals (router/balance.c).
 *
 * Promises:  1. Least work outstanding, then fewest slots taken, then fewest attempts so far.
 *            2. Equal and idle replicas take turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "router/balance.h"

static void less_work_then_fewer_slots_then_fewer_attempts(void **state)
{
    (void)state;
    const struct balance_load best_first[] = {
        {.work = 10, .busy = 9, .attempts = 99},
        {.work = 11, .busy = 1, .attempts = 50},
        {.work = 11, .busy = 2, .attempts = 7},
        {.work = 11, .busy = 2, .attempts = 8},
    };

    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 4; j++)
            assert_int_equal(balance_prefers(&best_first[i], &best_first[j]), i < j);
    }
}

static void equal_and_idle_replicas_take_turns(void **state)
{
    (void)state;
    struct balance_load a = {0}, b = {0};

    for (int turn = 0; turn < 10; turn++) {
        struct balance_load *chosen = balance_prefers(&b, &a) ? &b : &a;
        assert_ptr_equal(chosen, turn % 2 == 0 ? &a : &b);
        chosen->attempts++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_work_then_fewer_slots_then_fewer_attempts),
        cmocka_unit_test(equal_and_idle_replicas_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
