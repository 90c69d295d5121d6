/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_health.c: the circuit of one replica (router/health.c).
 *
 * Promises:  1. out_after strikes in a row from different asks take it out; one only marks it.
 *            2. 5xx count by rate: 20 attempts in 10 s at least, over 85 %.
 *            3. After its time it gets one attempt at a time; one good one brings it back, one bad
 *               one sends it out for longer, at most ten times as long.
 *            4. Back in, its slots grow over 10 s.
 *            5. Attempts that began before it went out say nothing new.
 *            6. A pool never loses more than its share, nor its last replica. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "router/health.h"

#define SECOND HEALTH_SECOND_NS

static const struct health_rules rules = {
    .out_after = 2, .out_for_ns = 30 * HEALTH_SECOND_NS, .may_go_out = true};

/* A replica that two strikes took out at now_ns. */
static struct health taken_out(uint64_t now_ns)
{
    struct health health = {0};

    health_strike(&health, &rules, 1, now_ns, now_ns);
    health_strike(&health, &rules, 2, now_ns, now_ns);
    assert_int_equal(health_at(&health, now_ns), REPLICA_OUT);
    return health;
}

static void one_strike_marks_and_two_from_different_asks_take_it_out(void **state)
{
    (void)state;
    struct health health = {0};
    uint64_t now = 100 * SECOND;

    health_strike(&health, &rules, 7, now, now);
    assert_int_equal(health_at(&health, now), REPLICA_OBSERVED);
    assert_int_equal(health_slots(&health, 8, now), 8);
    health_strike(&health, &rules, 7, now, now);
    assert_int_equal(health_at(&health, now), REPLICA_OBSERVED);
    health_strike(&health, &rules, 8, now, now);
    assert_int_equal(health_at(&health, now), REPLICA_OUT);
    assert_int_equal(health_slots(&health, 8, now), 0);
    assert_int_equal(health.strikes, 2);
}

static void failed_checks_are_strikes_that_always_count(void **state)
{
    (void)state;
    struct health health = {0};

    health_strike(&health, &rules, 0, SECOND, SECOND);
    health_strike(&health, &rules, 0, 11 * SECOND, 11 * SECOND);

    assert_int_equal(health_at(&health, 11 * SECOND), REPLICA_OUT);
}

static void a_good_answer_between_strikes_forgives_them(void **state)
{
    (void)state;
    struct health health = {0};

    for (uint64_t ask = 1; ask < 10; ask++) {
        health_strike(&health, &rules, ask, SECOND, SECOND);
        assert_int_equal(health_at(&health, SECOND), REPLICA_OBSERVED);
        health_good(&health, SECOND, SECOND);
        assert_int_equal(health_at(&health, SECOND), REPLICA_IN);
    }
}

static void a_replica_the_pool_cannot_spare_stays(void **state)
{
    (void)state;
    struct health_rules needed = rules;
    struct health health = {0};
    needed.may_go_out = false;

    for (uint64_t ask = 1; ask < 10; ask++)
        health_strike(&health, &needed, ask, SECOND, SECOND);
    assert_int_equal(health_at(&health, SECOND), REPLICA_OBSERVED);

    health_strike(&health, &rules, 10, SECOND, SECOND);
    assert_int_equal(health_at(&health, SECOND), REPLICA_OUT);
}

static void failed_answers_count_by_rate_only(void **state)
{
    (void)state;
    struct health health = {0};
    uint64_t now = 50 * SECOND;

    for (int i = 0; i < 19; i++)
        health_failed(&health, &rules, now, now);
    assert_int_equal(health_at(&health, now), REPLICA_IN); /* 19 attempts say nothing */
    health_failed(&health, &rules, now, now);
    assert_int_equal(health_at(&health, now), REPLICA_OUT);

    /* 17 of 20 are 85 %, which is not over it; 18 of 21 are 85.7 %. */
    health = (struct health){0};
    for (int i = 0; i < 3; i++)
        health_good(&health, now, now);
    for (int i = 0; i < 17; i++)
        health_failed(&health, &rules, now, now);
    assert_int_equal(health_at(&health, now), REPLICA_IN);
    health_failed(&health, &rules, now, now);
    assert_int_equal(health_at(&health, now), REPLICA_OUT);
}

static void failures_older_than_the_window_are_forgotten(void **state)
{
    (void)state;
    struct health health = {0};

    for (int i = 0; i < 19; i++)
        health_failed(&health, &rules, 50 * SECOND, 50 * SECOND);
    health_failed(&health, &rules, 60 * SECOND, 60 * SECOND);

    assert_int_equal(health_at(&health, 60 * SECOND), REPLICA_IN);
}

static void after_its_time_one_good_attempt_brings_it_back(void **state)
{
    (void)state;
    struct health health = taken_out(100 * SECOND);

    health_good(&health, 129 * SECOND, 129 * SECOND); /* too early: still out */
    assert_int_equal(health_at(&health, 130 * SECOND - 1), REPLICA_OUT);
    assert_int_equal(health_at(&health, 130 * SECOND), REPLICA_PROBATION);
    assert_int_equal(health_slots(&health, 8, 130 * SECOND), 1);

    health_good(&health, 130 * SECOND, 131 * SECOND);
    assert_int_equal(health_at(&health, 131 * SECOND), REPLICA_IN);
}

static void its_slots_grow_over_ten_seconds(void **state)
{
    (void)state;
    struct health health = taken_out(100 * SECOND);
    health_at(&health, 130 * SECOND);
    health_good(&health, 130 * SECOND, 130 * SECOND);

    assert_int_equal(health_slots(&health, 64, 130 * SECOND), 1);
    assert_int_equal(health_slots(&health, 64, 130 * SECOND - 1), 1); /* a clock a little behind */
    assert_int_equal(health_slots(&health, 64, 135 * SECOND), 32);
    assert_int_equal(health_slots(&health, 64, 140 * SECOND), 64);
    assert_int_equal(health_slots(&health, 64, 500 * SECOND), 64);
}

static void each_bad_return_makes_the_next_stay_longer(void **state)
{
    (void)state;
    struct health health = taken_out(100 * SECOND);

    for (uint64_t times = 1; times <= 12; times++) {
        uint64_t expected = 30 * SECOND * (times < 10 ? times : 10);
        assert_int_equal(health.out_until_ns - health.out_since_ns, expected);
        uint64_t back = health.out_until_ns;
        assert_int_equal(health_at(&health, back), REPLICA_PROBATION);
        if (times % 2 == 0)
            health_failed(&health, &rules, back, back);
        else
            health_strike(&health, &rules, 100 + times, back, back);
        assert_int_equal(health_at(&health, back), REPLICA_OUT);
    }
}

static void a_replica_that_was_well_for_long_begins_anew(void **state)
{
    (void)state;
    struct health health = taken_out(100 * SECOND);
    health_at(&health, 130 * SECOND);
    health_good(&health, 130 * SECOND, 130 * SECOND);

    /* Well for less than ramp-up and the length of the last stay: 10 s + 30 s. */
    struct health soon = health;
    health_strike(&soon, &rules, 3, 169 * SECOND, 169 * SECOND);
    health_strike(&soon, &rules, 4, 169 * SECOND, 169 * SECOND);
    assert_int_equal(soon.out_until_ns, 229 * SECOND);

    struct health later = health;
    health_strike(&later, &rules, 3, 170 * SECOND, 170 * SECOND);
    health_strike(&later, &rules, 4, 170 * SECOND, 170 * SECOND);
    assert_int_equal(later.out_until_ns, 200 * SECOND);
}

static void what_began_before_it_went_out_says_nothing_new(void **state)
{
    (void)state;
    struct health health = taken_out(100 * SECOND);
    assert_int_equal(health_at(&health, 130 * SECOND), REPLICA_PROBATION);

    health_strike(&health, &rules, 9, 99 * SECOND, 131 * SECOND);
    health_failed(&health, &rules, 99 * SECOND, 131 * SECOND);
    health_good(&health, 99 * SECOND, 131 * SECOND);

    assert_int_equal(health_at(&health, 131 * SECOND), REPLICA_PROBATION);
}

static void one_called_back_is_on_probation(void **state)
{
    (void)state;
    struct health health = taken_out(100 * SECOND);
    struct health well = {0};

    health_recall(&health);
    health_recall(&well);

    assert_int_equal(health_at(&health, 101 * SECOND), REPLICA_PROBATION);
    assert_int_equal(health_at(&well, 101 * SECOND), REPLICA_IN);
}

static void a_pool_never_loses_its_share_and_more(void **state)
{
    (void)state;
    const struct {
        uint32_t pool, percent, most;
    } cases[] = {{0, 50, 0}, {1, 50, 0}, {1, 100, 0}, {2, 50, 1},   {2, 100, 1},
                 {3, 50, 1}, {4, 50, 2}, {10, 33, 3}, {10, 100, 9}, {64, 0, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(health_most_out(cases[i].pool, cases[i].percent), cases[i].most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_strike_marks_and_two_from_different_asks_take_it_out),
        cmocka_unit_test(failed_checks_are_strikes_that_always_count),
        cmocka_unit_test(a_good_answer_between_strikes_forgives_them),
        cmocka_unit_test(a_replica_the_pool_cannot_spare_stays),
        cmocka_unit_test(failed_answers_count_by_rate_only),
        cmocka_unit_test(failures_older_than_the_window_are_forgotten),
        cmocka_unit_test(after_its_time_one_good_attempt_brings_it_back),
        cmocka_unit_test(its_slots_grow_over_ten_seconds),
        cmocka_unit_test(each_bad_return_makes_the_next_stay_longer),
        cmocka_unit_test(a_replica_that_was_well_for_long_begins_anew),
        cmocka_unit_test(what_began_before_it_went_out_says_nothing_new),
        cmocka_unit_test(one_called_back_is_on_probation),
        cmocka_unit_test(a_pool_never_loses_its_share_and_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
