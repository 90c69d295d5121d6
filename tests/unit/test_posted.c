/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_posted.c: slots on their way to the journal's writer (meter/posted.c).
 *
 * Promises:  1. What is put is taken once, in the order of putting, round after round.
 *            2. A taker that sleeps is woken by what is put, also when both happen at once.
 *            3. Where it waits for several, it is woken by the last of them, or by hand. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "meter/posted.h"

#define PATIENCE_NS (20 * NS_PER_S)
#define FOREVER_NS (1000000 * NS_PER_S) /* no test takes so long: only a wake-up ends it */
#define ROUNDS 20000u

static void what_is_put_is_taken_once_in_order(void **state)
{
    (void)state;
    struct posted posted;
    uint32_t index = 0;
    assert_int_equal(posted_init(&posted, 3, 3), OK); /* no power of two */

    for (uint32_t round = 0; round < 100; round++) {
        assert_false(posted_take(&posted, &index));
        for (uint32_t i = 0; i < 3; i++)
            posted_put(&posted, (i + round) % 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(posted_take(&posted, &index));
            assert_int_equal(index, (i + round) % 3);
        }
    }

    assert_int_equal(posted_count(&posted), 300);
    posted_fini(&posted);
}

struct taker {
    struct posted posted;
    _Atomic uint32_t taken;
};

static void *take_all(void *argument)
{
    struct taker *taker = argument;
    uint32_t index;

    while (taker->taken < ROUNDS) {
        if (posted_take(&taker->posted, &index))
            taker->taken++;
        else
            posted_sleep(&taker->posted, FOREVER_NS);
    }
    return NULL;
}

static void a_taker_that_sleeps_is_woken(void **state)
{
    (void)state;
    static struct taker taker;
    const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
    pthread_t thread;
    assert_int_equal(posted_init(&taker.posted, 1, 1), OK);
    assert_int_equal(pthread_create(&thread, NULL, take_all, &taker), 0);

    for (uint32_t round = 0; round < ROUNDS; round++) {
        posted_put(&taker.posted, 0);
        while (taker.taken <= round && clock_now_ns() < until_ns)
            sched_yield();
        assert_int_equal(taker.taken, round + 1);
    }

    assert_int_equal(pthread_join(thread, NULL), 0);
    posted_fini(&taker.posted);
}

static void *sleep_once(void *argument)
{
    struct taker *taker = argument;

    posted_sleep(&taker->posted, FOREVER_NS);
    taker->taken = 1;
    return NULL;
}

static void wait_until_asleep(struct taker *taker, pthread_t *out_thread)
{
    taker->taken = 0;
    assert_int_equal(pthread_create(out_thread, NULL, sleep_once, taker), 0);
    while (atomic_load(&taker->posted.asleep) == 0 && taker->taken == 0)
        sched_yield();
}

static void a_taker_that_waits_for_several_is_woken_by_the_last(void **state)
{
    (void)state;
    static struct taker taker;
    pthread_t thread;
    uint32_t index;
    assert_int_equal(posted_init(&taker.posted, 8, 3), OK);

    for (uint32_t round = 0; round < 100; round++) {
        wait_until_asleep(&taker, &thread);
        posted_put(&taker.posted, 0);
        posted_put(&taker.posted, 1);
        assert_int_equal(taker.posted.asleep, 1);
        posted_put(&taker.posted, 2);
        assert_int_equal(taker.posted.asleep, 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        while (posted_take(&taker.posted, &index))
            continue;
    }
    wait_until_asleep(&taker, &thread);
    posted_wake(&taker.posted);
    assert_int_equal(pthread_join(thread, NULL), 0);

    posted_fini(&taker.posted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_taken_once_in_order),
        cmocka_unit_test(a_taker_that_sleeps_is_woken),
        cmocka_unit_test(a_taker_that_waits_for_several_is_woken_by_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
