/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_router.c: the turn on a replica (router/router.c).
 *
 * Promises:  1. A granted ticket holds one slot until it is returned; then the next in line has it.
 *            2. First come, first served; who cannot use the free slot does not hold up who can.
 *            3. Equal replicas take turns; the one with less outstanding work comes first.
 *            4. The queue is bounded; tried replicas are not tried again; nothing left means NONE.
 *            5. A replica goes out and comes back; never more than the pool can spare.
 *            6. State outlives snapshots.
 *            7. Retries stay within their budget.
 *            8. Any number of threads at once. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "router/router.h"

#define NOW (1000 * NS_PER_S)

/* One snapshot: model "m" with up to four replicas. */
struct house {
    struct config config;
    struct config_model model;
    struct config_replica replicas[4];
};

static const char *const replica_names[4] = {"r0", "r1", "r2", "r3"};

static void build(struct house *house, uint32_t replicas, uint32_t slots)
{
    *house = (struct house){0};
    for (uint32_t i = 0; i < replicas; i++)
        house->replicas[i] =
            (struct config_replica){.name = span_of(replica_names[i]), .slots = slots, .index = i};
    house->model = (struct config_model){
        .name = SPAN("m"), .replicas = house->replicas, .replica_count = replicas};
    house->config.models = &house->model;
    house->config.model_count = 1;
    house->config.limits_queue = 4;
    house->config.health_out_after = 2;
    house->config.health_out_for_ms = 30000;
    house->config.health_most_out_percent = 50;
    house->config.retry_budget_percent = 20;
    assert_int_equal(router_adopt(&house->config, NOW), OK);
}

static struct ticket *rung[8];
static size_t rung_count;

static void note_ring(struct ticket *ticket)
{
    assert_true(rung_count < 8);
    rung[rung_count++] = ticket;
}

static enum router_turn enter(struct house *house, struct ticket *ticket)
{
    ticket->granted = note_ring;
    return router_enter(ticket, &house->config, &house->model, true, NOW);
}

static struct router_replica_view view_of(struct house *house, uint32_t replica)
{
    struct router_replica_view view;

    router_view(&house->replicas[replica], &view);
    return view;
}

static int start(void **state)
{
    (void)state;
    rung_count = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    router_fini();
    return 0;
}

static void a_slot_is_held_until_returned_and_goes_to_the_next_in_line(void **state)
{
    (void)state;
    struct house house;
    struct ticket first = {.work = 10}, second = {.work = 20}, third = {.work = 30};
    build(&house, 1, 1);

    assert_int_equal(enter(&house, &first), TURN_GRANTED);
    assert_ptr_equal(first.config_replica, &house.replicas[0]);
    assert_int_equal(enter(&house, &second), TURN_WAIT);
    assert_int_equal(enter(&house, &third), TURN_WAIT);
    assert_int_equal(router_waiting(&house.model), 2);
    assert_int_equal(view_of(&house, 0).work, 10);

    router_return(&first, NOW);
    assert_int_equal(rung_count, 1);
    assert_ptr_equal(rung[0], &second);
    assert_ptr_equal(second.config_replica, &house.replicas[0]);
    assert_int_equal(first.state, TICKET_NONE);
    assert_int_equal(view_of(&house, 0).work, 20);
    assert_int_equal(view_of(&house, 0).busy, 1);

    router_return(&second, NOW);
    router_return(&third, NOW);
    router_return(&third, NOW); /* a second time does nothing */
    assert_int_equal(view_of(&house, 0).busy, 0);
    assert_int_equal(view_of(&house, 0).work, 0);
    assert_int_equal(view_of(&house, 0).attempts, 3);
}

static void one_that_leaves_the_line_is_passed_over(void **state)
{
    (void)state;
    struct house house;
    struct ticket first = {0}, second = {0}, third = {0};
    build(&house, 1, 1);
    assert_int_equal(enter(&house, &first), TURN_GRANTED);
    assert_int_equal(enter(&house, &second), TURN_WAIT);
    assert_int_equal(enter(&house, &third), TURN_WAIT);

    router_return(&second, NOW);
    router_return(&first, NOW);

    assert_int_equal(rung_count, 1);
    assert_ptr_equal(rung[0], &third);
    router_return(&third, NOW);
}

static void who_cannot_use_the_free_slot_does_not_hold_up_who_can(void **state)
{
    (void)state;
    struct house house;
    struct ticket a = {0}, b = {0}, picky = {.excluded = 1}, easy = {0};
    build(&house, 2, 1);
    assert_int_equal(enter(&house, &a), TURN_GRANTED); /* r0 */
    assert_int_equal(enter(&house, &b), TURN_GRANTED); /* r1 */
    assert_int_equal(enter(&house, &picky), TURN_WAIT);
    assert_int_equal(enter(&house, &easy), TURN_WAIT);

    router_return(&a, NOW); /* r0, which picky has tried */
    assert_ptr_equal(rung[0], &easy);
    router_return(&b, NOW);
    assert_ptr_equal(rung[1], &picky);
    assert_ptr_equal(picky.config_replica, &house.replicas[1]);

    router_return(&easy, NOW);
    router_return(&picky, NOW);
}

static void equal_replicas_take_turns(void **state)
{
    (void)state;
    struct house house;
    build(&house, 2, 8);

    for (uint32_t turn = 0; turn < 6; turn++) {
        struct ticket ticket = {.work = 5};
        assert_int_equal(enter(&house, &ticket), TURN_GRANTED);
        assert_int_equal(ticket.config_replica->index, turn % 2);
        router_return(&ticket, NOW);
    }
}

static void the_replica_with_less_outstanding_work_comes_first(void **state)
{
    (void)state;
    struct house house;
    struct ticket heavy = {.work = 1000}, light[3] = {{.work = 10}, {.work = 10}, {.work = 10}};
    build(&house, 2, 8);

    assert_int_equal(enter(&house, &heavy), TURN_GRANTED);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(enter(&house, &light[i]), TURN_GRANTED);
        assert_int_equal(light[i].config_replica->index, 1);
    }
    router_return(&heavy, NOW);
    for (size_t i = 0; i < 3; i++)
        router_return(&light[i], NOW);
}

static void a_full_queue_and_an_empty_choice_are_told_apart(void **state)
{
    (void)state;
    struct house house;
    struct ticket holder = {0}, waiting[4] = {{0}, {0}, {0}, {0}}, late = {0};
    struct ticket impatient = {.granted = note_ring}, hopeless = {.excluded = 1};
    build(&house, 1, 1);
    assert_int_equal(enter(&house, &holder), TURN_GRANTED);

    assert_int_equal(router_enter(&impatient, &house.config, &house.model, false, NOW), TURN_FULL);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(enter(&house, &waiting[i]), TURN_WAIT);
    assert_int_equal(enter(&house, &late), TURN_FULL);
    assert_int_equal(late.state, TICKET_NONE);
    assert_int_equal(enter(&house, &hopeless), TURN_NONE);
    assert_int_equal(hopeless.state, TICKET_NONE);

    for (size_t i = 0; i < 4; i++)
        router_return(&waiting[i], NOW);
    router_return(&holder, NOW);
}

/* Enters with all but one replica excluded, so that the attempt is on that one. */
static void report_on(struct house *house, uint32_t replica, enum attempt_result result,
                      uint64_t ask_id, uint64_t now_ns)
{
    struct ticket ticket = {.granted = note_ring, .excluded = ~(UINT64_C(1) << replica)};

    assert_int_equal(router_enter(&ticket, &house->config, &house->model, false, now_ns),
                     TURN_GRANTED);
    router_report(&ticket, &house->config, result, ask_id, 0, now_ns);
    router_return(&ticket, now_ns);
}

static void strikes_take_a_replica_out_and_success_brings_it_back(void **state)
{
    (void)state;
    struct house house;
    struct ticket ticket = {0};
    const uint64_t after = NOW + 30 * NS_PER_S;
    build(&house, 2, 8);

    report_on(&house, 0, ATTEMPT_CONNECT_ERROR, 1, NOW);
    assert_int_equal(view_of(&house, 0).health, REPLICA_OBSERVED);
    report_on(&house, 0, ATTEMPT_BUSY, 2, NOW);
    report_on(&house, 0, ATTEMPT_CLIENT_GONE, 3, NOW);
    assert_int_equal(view_of(&house, 0).strikes, 1);
    report_on(&house, 0, ATTEMPT_RESET, 4, NOW);
    assert_int_equal(view_of(&house, 0).health, REPLICA_OUT);
    assert_int_equal(view_of(&house, 0).out_until_ns, after);
    assert_int_equal(view_of(&house, 0).failures, 2);

    ticket.excluded = 2; /* the other one was tried */
    assert_int_equal(enter(&house, &ticket), TURN_NONE);

    report_on(&house, 0, ATTEMPT_OK, 5, after);
    assert_int_equal(view_of(&house, 0).health, REPLICA_IN);
    assert_true(router_ready(&house.config));
}

static void on_probation_one_attempt_at_a_time(void **state)
{
    (void)state;
    struct house house;
    struct ticket probe = {.granted = note_ring, .excluded = 2};
    struct ticket next = {.granted = note_ring, .excluded = 2};
    const uint64_t after = NOW + 30 * NS_PER_S;
    build(&house, 2, 8);
    report_on(&house, 0, ATTEMPT_TIMEOUT, 1, NOW);
    report_on(&house, 0, ATTEMPT_PROTOCOL, 2, NOW);

    assert_int_equal(router_enter(&probe, &house.config, &house.model, true, after), TURN_GRANTED);
    assert_int_equal(router_enter(&next, &house.config, &house.model, true, after), TURN_WAIT);
    router_return(&probe, after); /* says nothing: still on probation, the next may try */
    assert_int_equal(rung_count, 1);
    router_report(&next, &house.config, ATTEMPT_OK, 2, 0, after);
    router_return(&next, after);
    assert_int_equal(view_of(&house, 0).health, REPLICA_IN);
}

static void the_pool_never_loses_more_than_it_can_spare(void **state)
{
    (void)state;
    struct house house;
    build(&house, 2, 8);

    for (uint64_t ask = 1; ask <= 4; ask++) {
        if (view_of(&house, 0).health != REPLICA_OUT)
            report_on(&house, 0, ATTEMPT_RESET, ask, NOW);
        report_on(&house, 1, ATTEMPT_RESET, ask, NOW);
    }

    assert_int_equal(view_of(&house, 0).health, REPLICA_OUT);
    assert_int_equal(view_of(&house, 1).health, REPLICA_OBSERVED);
}

static void checks_strike_and_bring_back_and_wake_who_waits(void **state)
{
    (void)state;
    struct house house;
    struct ticket a = {0}, b = {0};
    const uint64_t after = NOW + 30 * NS_PER_S;
    build(&house, 2, 1);
    router_report_check(house.replicas[0].state, &house.config, false, NOW);
    router_report_check(house.replicas[0].state, &house.config, false, NOW);
    assert_int_equal(view_of(&house, 0).health, REPLICA_OUT);
    assert_int_equal(enter(&house, &a), TURN_GRANTED);
    assert_int_equal(enter(&house, &b), TURN_WAIT);

    router_report_check(house.replicas[0].state, &house.config, true, after);

    assert_int_equal(view_of(&house, 0).health, REPLICA_IN);
    assert_ptr_equal(rung[0], &b);
    router_return(&a, after);
    router_return(&b, after);
}

static void a_drained_replica_gets_nothing_new(void **state)
{
    (void)state;
    struct house house;
    struct ticket a = {0}, b = {0};
    build(&house, 1, 2);
    assert_int_equal(enter(&house, &a), TURN_GRANTED);

    router_set_drained(house.replicas[0].state, true, NOW);
    assert_true(view_of(&house, 0).drained);
    assert_false(router_ready(&house.config));
    assert_int_equal(enter(&house, &b), TURN_NONE);
    router_set_drained(house.replicas[0].state, false, NOW);
    assert_int_equal(enter(&house, &b), TURN_GRANTED);

    router_return(&a, NOW);
    router_return(&b, NOW);
}

static void draining_the_last_one_in_calls_back_those_outside(void **state)
{
    (void)state;
    struct house house;
    build(&house, 2, 1);
    router_report_check(house.replicas[0].state, &house.config, false, NOW);
    router_report_check(house.replicas[0].state, &house.config, false, NOW);

    router_set_drained(house.replicas[1].state, true, NOW);

    assert_int_equal(view_of(&house, 0).health, REPLICA_PROBATION);
}

static void a_reload_loses_no_slot_no_strike_and_no_one_in_line(void **state)
{
    (void)state;
    struct house before, after;
    struct ticket held = {.work = 7}, waiting = {0};
    build(&before, 1, 1);
    assert_int_equal(enter(&before, &held), TURN_GRANTED);
    assert_int_equal(enter(&before, &waiting), TURN_WAIT);
    router_report(&held, &before.config, ATTEMPT_RESET, 1, 0, NOW);

    build(&after, 2, 2); /* r0 has two slots now, r1 is new: the one in line is served at once */

    assert_ptr_equal(rung[0], &waiting);
    assert_ptr_equal(waiting.config_replica, &before.replicas[0]); /* of its own snapshot */
    assert_int_equal(view_of(&after, 0).busy, 2);
    assert_int_equal(view_of(&after, 0).slots, 2);
    assert_int_equal(view_of(&after, 0).work, 7);
    assert_int_equal(view_of(&after, 0).strikes, 1);
    assert_int_equal(view_of(&after, 1).busy, 0);
    router_return(&held, NOW);
    router_return(&waiting, NOW);
    assert_int_equal(view_of(&after, 0).busy, 0);
}

static void retries_stay_within_a_fifth_of_the_attempts_but_three_are_free(void **state)
{
    (void)state;
    struct house house;
    struct ticket tickets[20] = {{0}};
    build(&house, 1, 64);

    for (int i = 0; i < 3; i++)
        assert_true(router_retry_begin(&house.config));
    assert_false(router_retry_begin(&house.config));
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(enter(&house, &tickets[i]), TURN_GRANTED);
    assert_true(router_retry_begin(&house.config)); /* 20 % of 20 is 4 */
    assert_false(router_retry_begin(&house.config));
    router_retry_done();
    assert_true(router_retry_begin(&house.config));

    for (size_t i = 0; i < 20; i++)
        router_return(&tickets[i], NOW);
}

/* A worker that enters and returns; every third time it gives up while it waits. */
struct worker {
    struct house *house;
    atomic_int *inside; /* per replica: slots seen taken at once */
    uint64_t seed;
    uint32_t turns;
};

struct rider {
    struct ticket ticket;
    atomic_bool rung;
};

static void ring_rider(struct ticket *ticket)
{
    atomic_store(&container_of(ticket, struct rider, ticket)->rung, true);
}

static void use_slot(struct worker *worker, struct ticket *ticket)
{
    uint32_t replica = ticket->config_replica->index;
    enum attempt_result result = worker->seed % 50 == 0 ? ATTEMPT_RESET : ATTEMPT_OK;

    assert_true(atomic_fetch_add(&worker->inside[replica], 1) < 2);
    router_report(ticket, &worker->house->config, result, worker->seed, 1, NOW + worker->turns);
    atomic_fetch_sub(&worker->inside[replica], 1);
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;

    for (worker->turns = 0; worker->turns < 20000; worker->turns++) {
        struct rider rider = {.ticket = {.work = 3, .granted = ring_rider}};
        struct ticket *ticket = &rider.ticket;
        const struct config_model *model = &worker->house->model;
        worker->seed = worker->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        enum router_turn turn =
            router_enter(ticket, &worker->house->config, model, true, NOW + worker->turns);
        if (turn == TURN_GRANTED) {
            use_slot(worker, ticket);
        } else if (turn == TURN_WAIT && (worker->seed >> 33) % 3 != 0) {
            while (!atomic_load(&rider.rung))
                sched_yield();
            use_slot(worker, ticket);
        }
        router_return(ticket, NOW + worker->turns);
    }
    return NULL;
}

static void threads_at_once_never_share_a_slot_and_lose_none(void **state)
{
    (void)state;
    struct house house;
    atomic_int inside[2] = {0, 0};
    struct worker workers[4];
    pthread_t threads[4];
    build(&house, 2, 2);
    house.config.limits_queue = 2; /* so that some are turned away too */

    for (size_t i = 0; i < 4; i++) {
        workers[i] = (struct worker){.house = &house, .inside = inside, .seed = 77 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(view_of(&house, i).busy, 0);
        assert_int_equal(view_of(&house, i).work, 0);
    }
    assert_int_equal(router_waiting(&house.model), 0);
}

int main(void)
{
#define ROUTER_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        ROUTER_TEST(a_slot_is_held_until_returned_and_goes_to_the_next_in_line),
        ROUTER_TEST(one_that_leaves_the_line_is_passed_over),
        ROUTER_TEST(who_cannot_use_the_free_slot_does_not_hold_up_who_can),
        ROUTER_TEST(equal_replicas_take_turns),
        ROUTER_TEST(the_replica_with_less_outstanding_work_comes_first),
        ROUTER_TEST(a_full_queue_and_an_empty_choice_are_told_apart),
        ROUTER_TEST(strikes_take_a_replica_out_and_success_brings_it_back),
        ROUTER_TEST(on_probation_one_attempt_at_a_time),
        ROUTER_TEST(the_pool_never_loses_more_than_it_can_spare),
        ROUTER_TEST(checks_strike_and_bring_back_and_wake_who_waits),
        ROUTER_TEST(a_drained_replica_gets_nothing_new),
        ROUTER_TEST(draining_the_last_one_in_calls_back_those_outside),
        ROUTER_TEST(a_reload_loses_no_slot_no_strike_and_no_one_in_line),
        ROUTER_TEST(retries_stay_within_a_fifth_of_the_attempts_but_three_are_free),
        ROUTER_TEST(threads_at_once_never_share_a_slot_and_lose_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
