/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_flight.c: chunks and their riders (gateway/flight.c).
 *
 * Promises:  1. A rider gets every chunk from the moment it joined, in order, once.
 *            2. A chunk lives until its last rider has passed it, and no longer (the leak checker
 * sees to that).
 *            3. Size line and CRLF stand around the data as HTTP/1.1 wants them.
 *            4. A flight that is not read because a rider is slow hears when the rider has caught
 * up.
 *            5. A cut drops all but the chunk of which bytes have gone out.
 *            6. What was fed to a rider before it joined comes first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/flight.h"

static int bells, drains;

static void ring(struct rider *rider)
{
    (void)rider;
    bells++;
}

static void hear_drained(struct flight *flight)
{
    flight->paused = false;
    drains++;
}

static struct chunk *chunk_of(const char *text)
{
    struct chunk *chunk = chunk_new(strlen(text));
    assert_non_null(chunk);
    memcpy(chunk_data(chunk), text, strlen(text));
    chunk->size = (uint32_t)strlen(text);
    return chunk;
}

static void take(struct rider *rider, const char *text)
{
    assert_non_null(rider->cursor);
    assert_int_equal(rider->cursor->size, strlen(text));
    assert_memory_equal(chunk_data(rider->cursor), text, strlen(text));
    rider_next(rider);
}

static int setup(void **state)
{
    (void)state;
    bells = drains = 0;
    return 0;
}

static void a_rider_takes_chunks_in_order(void **state)
{
    (void)state;
    struct flight flight = {.drained = hear_drained};
    struct rider rider = {.fed = ring};

    flight_join(&flight, &rider);
    flight_append(&flight, chunk_of("one"));
    flight_append(&flight, chunk_of("two"));
    assert_int_equal(rider.waiting, 6);
    take(&rider, "one");
    take(&rider, "two");
    assert_null(rider.cursor);
    flight_append(&flight, chunk_of("three"));
    take(&rider, "three");
    flight_end(&flight, false);

    assert_true(rider.ended);
    assert_false(rider.broken);
    assert_int_equal(bells, 4);
    rider_fini(&rider);
}

static void two_riders_each_take_all_at_their_own_pace(void **state)
{
    (void)state;
    struct flight flight = {.drained = hear_drained};
    struct rider fast = {.fed = ring}, slow = {.fed = ring};

    flight_join(&flight, &fast);
    flight_join(&flight, &slow);
    flight_append(&flight, chunk_of("a"));
    take(&fast, "a");
    flight_append(&flight, chunk_of("b"));
    take(&fast, "b");
    flight_append(&flight, chunk_of("c"));
    take(&slow, "a");
    take(&slow, "b");
    take(&slow, "c");
    take(&fast, "c");
    assert_null(fast.cursor);
    assert_null(slow.cursor);

    rider_fini(&fast);
    flight_append(&flight, chunk_of("d"));
    take(&slow, "d");
    rider_fini(&slow);
}

static void a_rider_that_leaves_takes_nobody_s_chunk_with_it(void **state)
{
    (void)state;
    struct flight flight = {.drained = hear_drained};
    struct rider leaver = {.fed = ring}, stayer = {.fed = ring};

    flight_join(&flight, &leaver);
    flight_join(&flight, &stayer);
    flight_append(&flight, chunk_of("a"));
    take(&stayer, "a");
    rider_fini(&leaver); /* it held the last reference on the newest chunk */
    flight_append(&flight, chunk_of("b"));

    take(&stayer, "b");
    assert_null(stayer.cursor);
    rider_fini(&stayer);
}

static void what_was_fed_before_joining_comes_first(void **state)
{
    (void)state;
    struct flight flight = {.drained = hear_drained};
    struct rider rider = {.fed = ring};

    rider_feed(&rider, chunk_of("ping"));
    flight_join(&flight, &rider);
    flight_append(&flight, chunk_of("event"));

    take(&rider, "ping");
    take(&rider, "event");
    rider_fini(&rider);
}

static void a_paused_flight_hears_when_its_rider_has_caught_up(void **state)
{
    (void)state;
    struct flight flight = {.drained = hear_drained};
    struct rider rider = {.fed = ring};
    struct chunk *big = chunk_new(100000);

    assert_non_null(big);
    big->size = 100000;
    memset(chunk_data(big), 'x', big->size);
    flight_join(&flight, &rider);
    flight_append(&flight, big);
    flight_append(&flight, chunk_of("tail"));
    flight.paused = true;
    rider_next(&rider);

    assert_int_equal(drains, 1);
    assert_false(flight.paused);
    rider_fini(&rider);
}

static void a_chunk_is_framed_as_http_1_1_wants_it(void **state)
{
    (void)state;
    const struct {
        uint32_t size;
        const char *line;
    } cases[] = {
        {1, "1\r\n"}, {15, "f\r\n"}, {16, "10\r\n"}, {255, "ff\r\n"}, {65536, "10000\r\n"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chunk *chunk = chunk_new(cases[i].size);
        assert_non_null(chunk);
        memset(chunk_data(chunk), 'x', cases[i].size);
        chunk->size = cases[i].size;
        chunk_frame(chunk);
        chunk_frame(chunk);
        assert_int_equal(chunk->frame_size, strlen(cases[i].line));
        assert_memory_equal(chunk_data(chunk) - chunk->frame_size, cases[i].line,
                            chunk->frame_size);
        assert_memory_equal(chunk_data(chunk) + chunk->size, "\r\n", 2);
        chunk_put(chunk);
    }
}

static void a_cut_keeps_the_chunk_that_was_begun_alone(void **state)
{
    (void)state;
    struct flight flight = {.drained = hear_drained};
    struct rider rider = {.fed = ring};

    flight_join(&flight, &rider);
    flight_append(&flight, chunk_of("begun"));
    flight_append(&flight, chunk_of("not begun"));
    rider.begun = true;
    rider_cut(&rider);
    rider_feed(&rider, chunk_of("last"));
    assert_int_equal(rider.waiting, 9);

    take(&rider, "begun");
    take(&rider, "last");
    assert_null(rider.cursor);
}

static void joining_a_flight_that_has_ended_shows_its_end(void **state)
{
    (void)state;
    struct flight flight = {.drained = hear_drained};
    struct rider rider = {.fed = ring};

    flight_end(&flight, true);
    flight_join(&flight, &rider);

    assert_true(rider.ended);
    assert_true(rider.broken);
    rider_fini(&rider);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_rider_takes_chunks_in_order, setup),
        cmocka_unit_test_setup(two_riders_each_take_all_at_their_own_pace, setup),
        cmocka_unit_test_setup(a_rider_that_leaves_takes_nobody_s_chunk_with_it, setup),
        cmocka_unit_test_setup(what_was_fed_before_joining_comes_first, setup),
        cmocka_unit_test_setup(a_paused_flight_hears_when_its_rider_has_caught_up, setup),
        cmocka_unit_test_setup(a_chunk_is_framed_as_http_1_1_wants_it, setup),
        cmocka_unit_test_setup(a_cut_keeps_the_chunk_that_was_begun_alone, setup),
        cmocka_unit_test_setup(joining_a_flight_that_has_ended_shows_its_end, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
