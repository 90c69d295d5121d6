/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_inflight.c: the table of what is under way (meter/inflight.c).
 *
 * Promises:  1. A slot is one exchange's until it is freed; the last freed is the next taken.
 *            2. Texts are copied, cut between characters when they do not fit, and flagged.
 *            3. The newest whole totals are read, whatever the owner was doing.
 *            4. Attempts beyond those that fit keep their tokens.
 *            5. Threads never share a slot. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter/inflight.h"

static struct inflight table_of(uint32_t slots)
{
    struct inflight table;

    assert_int_equal(inflight_init(&table, -1, slots, SPAN("g1"), 7), OK);
    return table;
}

static void assert_text(struct span text, const char *expected)
{
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.data, expected, text.size);
}

static void the_header_says_whose_table_it_is(void **state)
{
    (void)state;
    struct inflight table = table_of(3);

    assert_memory_equal(table.header->magic, "tollgate", 8);
    assert_int_equal(table.header->slot_bytes, 1024);
    assert_int_equal(table.header->slots, 3);
    assert_int_equal(table.header->epoch, 7);
    assert_string_equal(table.header->gateway, "g1");
    inflight_fini(&table);
}

static void slots_are_taken_until_none_is_left_and_the_last_freed_comes_first(void **state)
{
    (void)state;
    struct inflight table = table_of(3);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    struct slot *slots[3];

    for (uint32_t i = 0; i < 3; i++) {
        slots[i] = inflight_open(&table, &opening);
        assert_int_equal(inflight_index(&table, slots[i]), i);
        assert_int_equal(atomic_load(&slots[i]->state), SLOT_OPEN);
    }
    assert_null(inflight_open(&table, &opening));

    inflight_free(&table, (const uint32_t[]){0, 2}, 2);
    assert_int_equal(atomic_load(&slots[0]->state), SLOT_FREE);
    assert_ptr_equal(inflight_open(&table, &opening), slots[2]);
    assert_ptr_equal(inflight_open(&table, &opening), slots[0]);
    assert_null(inflight_open(&table, &opening));
    inflight_fini(&table);
}

static void what_was_known_at_admission_is_read_back(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    const struct meter_opening opening = {
        .exchange_id = SPAN("0123456789abcdef0123456789abcdef"),
        .request_id = SPAN("req-1"),
        .tenant = SPAN("acme"),
        .key = SPAN("web"),
        .tags_json = SPAN("{\"team\":\"search\"}"),
        .endpoint = ENDPOINT_CHAT,
        .class = SPAN("code"),
        .stream = true,
        .model_asked = SPAN("auto"),
        .admitted_us = 1000,
        .bytes_in = 77,
    };
    const struct slot *slot = inflight_open(&table, &opening);

    assert_text(inflight_opening_text(slot, OPENING_EXCHANGE_ID),
                "0123456789abcdef0123456789abcdef");
    assert_text(inflight_opening_text(slot, OPENING_REQUEST_ID), "req-1");
    assert_text(inflight_opening_text(slot, OPENING_TRACE_ID), "");
    assert_text(inflight_opening_text(slot, OPENING_TENANT), "acme");
    assert_text(inflight_opening_text(slot, OPENING_KEY), "web");
    assert_text(inflight_opening_text(slot, OPENING_TAGS), "{\"team\":\"search\"}");
    assert_text(inflight_opening_text(slot, OPENING_CLASS), "code");
    assert_text(inflight_opening_text(slot, OPENING_MODEL_ASKED), "auto");
    assert_int_equal(slot->admitted_us, 1000);
    assert_int_equal(atomic_load(&slot->flags), 0);
    inflight_fini(&table);
}

static void texts_that_do_not_fit_are_cut_between_characters_and_flagged(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    char model[66], tags[SLOT_OPENING_BYTES];
    memset(model, 'm', 63);
    memcpy(model + 63, "\xc3\xa9", 2); /* é would lie across the limit of 64 */
    memset(tags, 't', sizeof(tags));
    const struct meter_opening opening = {
        .tenant = SPAN("acme"), .model_asked = {model, 65}, .tags_json = {tags, sizeof(tags)}};

    const struct slot *slot = inflight_open(&table, &opening);

    assert_int_equal(inflight_opening_text(slot, OPENING_MODEL_ASKED).size, 63);
    assert_int_equal(inflight_opening_text(slot, OPENING_TAGS).size,
                     0); /* half an object is none */
    assert_int_equal(atomic_load(&slot->flags), FLAG_DECISION_CUT);
    inflight_fini(&table);
}

static void the_newest_whole_totals_are_read(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    struct slot *slot = inflight_open(&table, &opening);

    assert_int_equal(inflight_running(slot)->usage.output, -1);
    for (int64_t tokens = 1; tokens < 5; tokens++) {
        const struct usage usage = {.input = 10, .output = tokens};
        inflight_publish(slot, &usage, SOURCE_RUNNING, 100 * tokens);
        assert_int_equal(inflight_running(slot)->usage.output, tokens);
        assert_int_equal(inflight_running(slot)->bytes_out, 100 * tokens);
    }
    /* As if killed in the middle of the next one: the copy that is not named is torn. */
    slot->running[(atomic_load(&slot->published) + 1) % 2].usage.output = 999;
    assert_int_equal(inflight_running(slot)->usage.output, 4);
    inflight_fini(&table);
}

static void each_attempt_writes_the_route_anew(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    const struct price price = {.input = 5, .output = 6};
    struct slot *slot = inflight_open(&table, &opening);

    inflight_route(slot, &(struct meter_route){.model = SPAN("small-model"),
                                               .replica = SPAN("s1"),
                                               .attempts = 1,
                                               .price = &price,
                                               .why = SPAN("rule")});
    inflight_route(slot, &(struct meter_route){.model = SPAN("large"),
                                               .replica = SPAN("l1"),
                                               .queue_us = 30,
                                               .sent_us = 40,
                                               .attempts = 2});

    assert_text(inflight_route_text(slot, ROUTE_MODEL), "large");
    assert_text(inflight_route_text(slot, ROUTE_REPLICA), "l1");
    assert_text(inflight_route_text(slot, ROUTE_WHY), "");
    assert_int_equal(slot->attempts, 2);
    assert_false(slot->price_known);
    assert_int_equal(atomic_load(&slot->route_writes), 4); /* even: whole */
    inflight_fini(&table);
}

static void attempts_beyond_those_that_fit_keep_their_tokens(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    const struct usage unknown = USAGE_UNKNOWN;
    const struct usage some = {.input = 10, .cached_input = -1, .output = 3};
    struct slot *slot = inflight_open(&table, &opening);

    inflight_waste(slot, SPAN("s1"), SPAN("connect"), &unknown);
    inflight_waste(slot, SPAN("s2"), SPAN("reset"), &unknown);
    inflight_waste(slot, SPAN("s3"), SPAN("timeout"), &some);
    inflight_waste(slot, SPAN("s4"), SPAN("timeout"), &some);

    assert_int_equal(atomic_load(&slot->wastes), 2);
    assert_string_equal(slot->waste[0].replica, "s1");
    assert_string_equal(slot->waste[1].cause, "reset");
    assert_int_equal(slot->waste[1].usage.input, 20);
    assert_int_equal(slot->waste[1].usage.output, 6);
    assert_int_equal(slot->waste[1].usage.cached_input, -1);
    assert_int_equal(atomic_load(&slot->flags), FLAG_DECISION_CUT);
    inflight_fini(&table);
}

static void a_slot_used_again_remembers_nothing(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    const struct price price = {.input = 5};
    const struct usage usage = {.input = 1, .output = 2};
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    const struct meter_ending ending = {
        .outcome = OUTCOME_OK, .usage = usage, .flags = FLAG_CLAMPED, .status = 200};
    struct slot *slot = inflight_open(&table, &opening);
    inflight_route(slot, &(struct meter_route){
                             .model = SPAN("m"), .attempts = 1, .sent_us = 9, .price = &price});
    inflight_waste(slot, SPAN("s1"), SPAN("reset"), &usage);
    inflight_end(slot, &ending);
    assert_int_equal(atomic_load(&slot->state), SLOT_ENDED);
    assert_int_equal(inflight_running(slot)->usage.output, 2);
    inflight_free(&table, (const uint32_t[]){0}, 1);

    assert_ptr_equal(inflight_open(&table, &opening), slot);

    assert_int_equal(inflight_running(slot)->usage.output, -1);
    assert_int_equal(inflight_route_text(slot, ROUTE_MODEL).size, 0);
    assert_int_equal(slot->attempts, 0);
    assert_int_equal(slot->sent_us, 0);
    assert_false(slot->price_known);
    assert_int_equal(atomic_load(&slot->wastes), 0);
    assert_int_equal(atomic_load(&slot->flags), 0);
    inflight_fini(&table);
}

/* A thread that takes slots, marks them and gives them back. */
struct taker {
    struct inflight *table;
    int64_t mark;
};

static void *take_and_free(void *argument)
{
    const struct taker *taker = argument;
    const struct meter_opening opening = {.bytes_in = taker->mark};

    for (int turn = 0; turn < 20000; turn++) {
        struct slot *slots[3];
        uint32_t indexes[3];
        size_t taken = 0;
        while (taken < 3 && (slots[taken] = inflight_open(taker->table, &opening)) != NULL) {
            indexes[taken] = inflight_index(taker->table, slots[taken]);
            taken++;
        }
        for (size_t i = 0; i < taken; i++)
            assert_int_equal(slots[i]->bytes_in, taker->mark);
        inflight_free(taker->table, indexes, taken);
    }
    return NULL;
}

static void threads_never_share_a_slot(void **state)
{
    (void)state;
    struct inflight table = table_of(8);
    struct taker takers[4];
    pthread_t threads[4];
    const struct meter_opening opening = {.bytes_in = 0};

    for (size_t i = 0; i < 4; i++) {
        takers[i] = (struct taker){&table, (int64_t)i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_free, &takers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    for (int i = 0; i < 8; i++) /* none was lost */
        assert_non_null(inflight_open(&table, &opening));
    assert_null(inflight_open(&table, &opening));
    inflight_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_says_whose_table_it_is),
        cmocka_unit_test(slots_are_taken_until_none_is_left_and_the_last_freed_comes_first),
        cmocka_unit_test(what_was_known_at_admission_is_read_back),
        cmocka_unit_test(texts_that_do_not_fit_are_cut_between_characters_and_flagged),
        cmocka_unit_test(the_newest_whole_totals_are_read),
        cmocka_unit_test(each_attempt_writes_the_route_anew),
        cmocka_unit_test(attempts_beyond_those_that_fit_keep_their_tokens),
        cmocka_unit_test(a_slot_used_again_remembers_nothing),
        cmocka_unit_test(threads_never_share_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
