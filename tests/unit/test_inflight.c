/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_inflight.c: the table of what is under way (meter/inflight.c).
 *
 * Promises:  1. A slot is one exchange's until it is freed; the last freed is the next taken.
 *            2. Texts are copied, cut between characters when they do not fit, and flagged.
 *            3. The newest whole totals are read, whatever the owner was doing.
 *            4. Attempts beyond those that fit keep their tokens.
 *            5. Threads never share a slot.
 *            6. A price is in the book once, and a slot names it there.
 *            7. A dead process's table is read as it was at the last store, and nothing that is
 *               damaged in it leads out of bounds. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/span.h"
#include "meter/inflight.h"

static struct inflight table_of(uint32_t slots)
{
    struct inflight table;

    assert_int_equal(inflight_init(&table, -1, slots, SPAN("g1"), 7), OK);
    return table;
}

static struct price price_of_input(int64_t pusd)
{
    return (struct price){.until_us = INT64_MAX,
                          .rates = {.input = pusd, .output = 2 * pusd},
                          .tier_ppm = {PRICE_PPM, PRICE_PPM, PRICE_PPM}};
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
        const struct meter_running running = {.usage = {.input = 10, .output = tokens},
                                              .bytes_out = 100 * tokens,
                                              .source = SOURCE_RUNNING};
        inflight_publish(slot, &running);
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
    struct price price = price_of_input(5);
    struct slot *slot = inflight_open(&table, &opening);
    assert_int_equal(inflight_book(&table, &price, &price.book), OK);

    inflight_route(slot, &(struct meter_route){.model = SPAN("small-model"),
                                               .replica = SPAN("s1"),
                                               .attempts = 1,
                                               .price = &price,
                                               .prompt_bytes = 3600,
                                               .why = SPAN("rule")});
    assert_int_equal(inflight_price(&table, slot)->rates.input, 5);
    assert_int_equal(slot->guess.input, 1000); /* 3.6 bytes a token at first */
    inflight_route(slot, &(struct meter_route){.model = SPAN("large"),
                                               .replica = SPAN("l1"),
                                               .queue_us = 30,
                                               .sent_us = 40,
                                               .attempts = 2});

    assert_text(inflight_route_text(slot, ROUTE_MODEL), "large");
    assert_text(inflight_route_text(slot, ROUTE_REPLICA), "l1");
    assert_text(inflight_route_text(slot, ROUTE_WHY), "");
    assert_int_equal(slot->attempts, 2);
    assert_null(inflight_price(&table, slot));
    assert_int_equal(slot->guess.input, 0);
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
    struct price price = price_of_input(5);
    const struct usage usage = {.input = 1, .output = 2};
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    const struct meter_ending ending = {
        .outcome = OUTCOME_OK, .usage = usage, .flags = FLAG_CLAMPED, .status = 200};
    struct slot *slot = inflight_open(&table, &opening);
    assert_int_equal(inflight_book(&table, &price, &price.book), OK);
    inflight_route(slot, &(struct meter_route){
                             .model = SPAN("m"), .attempts = 1, .sent_us = 9, .price = &price});
    inflight_waste(slot, SPAN("s1"), SPAN("reset"), &usage);
    inflight_end(slot, &ending, 12);
    assert_int_equal(atomic_load(&slot->state), SLOT_ENDED);
    assert_int_equal(inflight_running(slot)->usage.output, 2);
    assert_int_equal(slot->cost_pusd, 12);
    inflight_free(&table, (const uint32_t[]){0}, 1);

    assert_ptr_equal(inflight_open(&table, &opening), slot);

    assert_int_equal(inflight_running(slot)->usage.output, -1);
    assert_int_equal(inflight_route_text(slot, ROUTE_MODEL).size, 0);
    assert_int_equal(slot->attempts, 0);
    assert_int_equal(slot->sent_us, 0);
    assert_null(inflight_price(&table, slot));
    assert_int_equal(atomic_load(&slot->wastes), 0);
    assert_int_equal(atomic_load(&slot->flags), 0);
    inflight_fini(&table);
}

static void a_price_is_in_the_book_once(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    struct price cheap = price_of_input(5), dear = price_of_input(6);
    struct price bracketed = price_of_input(5);
    uint32_t row = 99;

    bracketed.bracket_count = 1;
    bracketed.brackets[0] = (struct price_bracket){.above = 1000, .rates = {.input = 10}};
    assert_int_equal(inflight_book(&table, &cheap, &row), OK);
    assert_int_equal(row, 0);
    assert_int_equal(inflight_book(&table, &dear, &row), OK);
    assert_int_equal(row, 1);
    assert_int_equal(inflight_book(&table, &bracketed, &row), OK);
    assert_int_equal(row, 2);
    bracketed.brackets[0].rates.input = 11;
    assert_int_equal(inflight_book(&table, &bracketed, &row), OK);
    assert_int_equal(row, 3);
    cheap.book = 77;                                               /* says nothing of the price */
    cheap.brackets[0].above = cheap.volumes[0].factor_ppm = 12345; /* beyond their counts */
    assert_int_equal(inflight_book(&table, &cheap, &row), OK);
    assert_int_equal(row, 0);
    inflight_fini(&table);
}

static void a_full_book_takes_no_other_price(void **state)
{
    (void)state;
    struct inflight table = table_of(1);
    uint32_t row = 0;

    for (uint32_t i = 0; i < INFLIGHT_BOOK_ROWS; i++) {
        const struct price price = price_of_input((int64_t)i + 1);
        assert_int_equal(inflight_book(&table, &price, &row), OK);
        assert_int_equal(row, i);
    }
    const struct price other = price_of_input(999999), known = price_of_input(7);
    assert_int_equal(inflight_book(&table, &other, &row), ERR_NO_MEMORY);
    assert_int_equal(inflight_book(&table, &known, &row), OK);
    assert_int_equal(row, 6);
    inflight_fini(&table);
}

/* ---- a dead process's table ---- */

static int file_of_table(struct inflight *table, uint32_t slots)
{
    const int fd = memfd_create("table", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(inflight_init(table, fd, slots, SPAN("g1"), 7), OK);
    return fd;
}

static void a_dead_table_says_what_was_stored_last(void **state)
{
    (void)state;
    struct inflight table, dead;
    const char *why = NULL;
    const int fd = file_of_table(&table, 4);
    struct price price = price_of_input(5);
    const struct meter_opening opening = {.exchange_id = SPAN("x1"), .tenant = SPAN("acme")};
    const struct meter_running running = {
        .usage = {.input = 3, .output = 4}, .source = SOURCE_RUNNING, .delivered = 1};
    const struct meter_ending ending = {.outcome = OUTCOME_OK, .status = 200};
    assert_int_equal(inflight_book(&table, &price, &price.book), OK);
    struct slot *open = inflight_open(&table, &opening);
    struct slot *ended = inflight_open(&table, &opening);
    inflight_route(open, &(struct meter_route){.model = SPAN("m"), .price = &price});
    inflight_publish(open, &running);
    inflight_end(ended, &ending, 0);
    inflight_fini(&table);

    assert_int_equal(inflight_open_dead(&dead, fd, &why), OK);

    assert_int_equal(dead.count, 4);
    assert_int_equal(dead.damaged, 0);
    assert_int_equal(dead.header->epoch, 7);
    assert_int_equal(atomic_load(&dead.slots[0].state), SLOT_OPEN);
    assert_int_equal(atomic_load(&dead.slots[1].state), SLOT_ENDED);
    assert_int_equal(atomic_load(&dead.slots[2].state), SLOT_FREE);
    assert_text(inflight_opening_text(&dead.slots[0], OPENING_TENANT), "acme");
    assert_text(inflight_route_text(&dead.slots[0], ROUTE_MODEL), "m");
    assert_int_equal(inflight_price(&dead, &dead.slots[0])->rates.output, 10);
    assert_int_equal(inflight_running(&dead.slots[0])->usage.output, 4);
    atomic_store(&dead.slots[0].state, SLOT_ENDED); /* of this mapping alone */
    inflight_fini(&dead);
    assert_int_equal(inflight_open_dead(&dead, fd, &why), OK);
    assert_int_equal(atomic_load(&dead.slots[0].state), SLOT_OPEN);
    inflight_fini(&dead);
    close(fd);
}

static void a_route_that_was_being_written_is_none(void **state)
{
    (void)state;
    struct inflight table, dead;
    const char *why = NULL;
    const int fd = file_of_table(&table, 1);
    struct price price = price_of_input(5);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    assert_int_equal(inflight_book(&table, &price, &price.book), OK);
    struct slot *slot = inflight_open(&table, &opening);
    inflight_route(slot, &(struct meter_route){
                             .model = SPAN("m"), .sent_us = 5, .price = &price, .prompt_bytes = 9});
    atomic_fetch_add(&slot->route_writes, 1); /* as if killed in the midst of the next */
    slot->route_ends[ROUTE_MODEL] = 65000;
    inflight_fini(&table);

    assert_int_equal(inflight_open_dead(&dead, fd, &why), OK);

    assert_int_equal(atomic_load(&dead.slots[0].state), SLOT_OPEN);
    assert_int_equal(inflight_route_text(&dead.slots[0], ROUTE_MODEL).size, 0);
    assert_int_equal(dead.slots[0].sent_us, 0);
    assert_int_equal(dead.slots[0].guess.input, 0);
    assert_null(inflight_price(&dead, &dead.slots[0]));
    inflight_fini(&dead);
    close(fd);
}

/* One way in which a slot or the book can be damaged. */
enum damage {
    STATE_UNKNOWN,
    OPENING_TOO_LONG,
    OPENING_BACKWARDS,
    ROUTE_TOO_LONG,
    ENDPOINT_UNKNOWN,
    TIER_UNKNOWN,
    SOURCE_UNKNOWN,
    BYTES_NEGATIVE,
    PIECES_HUGE,
    GUESS_OF_NO_BYTES,
    WASTES_TOO_MANY,
    ADMITTED_LONG_AGO,
    BODY_HUGE,
    QUEUED_NEGATIVE,
    SENT_FAR_AHEAD,
    FIRST_TOKEN_NEGATIVE,
    ENDED_FAR_AHEAD,
    COST_NEGATIVE,
    UNIT_COST_NEGATIVE,
    OUTCOME_UNKNOWN,
    DAMAGES
};

static void do_damage(struct slot *slot, enum damage damage)
{
    struct meter_running *running = &slot->running[atomic_load(&slot->published) % 2];

    switch (damage) {
    case STATE_UNKNOWN:
        atomic_store(&slot->state, 3);
        break;
    case OPENING_TOO_LONG:
        slot->opening_ends[OPENING_TAGS] = SLOT_OPENING_BYTES + 1;
        break;
    case OPENING_BACKWARDS:
        slot->opening_ends[OPENING_TENANT] = 0;
        break;
    case ROUTE_TOO_LONG:
        slot->route_ends[ROUTE_WHY] = SLOT_ROUTE_BYTES + 1;
        break;
    case ENDPOINT_UNKNOWN:
        slot->endpoint = 200;
        break;
    case TIER_UNKNOWN:
        slot->tier = SERVICE_TIERS;
        break;
    case SOURCE_UNKNOWN:
        running->source = SOURCE_CACHED + 1;
        break;
    case BYTES_NEGATIVE:
        running->text_bytes = -1;
        break;
    case PIECES_HUGE:
        running->pieces = INT64_MAX;
        break;
    case GUESS_OF_NO_BYTES:
        slot->guess.answer = 12; /* would be divided by nothing */
        break;
    case WASTES_TOO_MANY:
        atomic_store(&slot->wastes, SLOT_WASTES + 1);
        break;
    case ADMITTED_LONG_AGO:
        slot->admitted_us = INT64_MIN / 2;
        break;
    case BODY_HUGE:
        slot->bytes_in = INT64_MAX / 2;
        break;
    case QUEUED_NEGATIVE:
        slot->queue_us = -1;
        break;
    case SENT_FAR_AHEAD:
        slot->sent_us = INT64_MAX / 2;
        break;
    case FIRST_TOKEN_NEGATIVE:
        slot->first_token_us = -1;
        break;
    case ENDED_FAR_AHEAD:
        slot->ended_us = INT64_MAX / 2;
        break;
    case COST_NEGATIVE:
        slot->cost_pusd = -1;
        break;
    case UNIT_COST_NEGATIVE:
        slot->unit_cost_pusd = -2;
        break;
    default:
        slot->outcome = OUTCOME_COUNT;
        break;
    }
}

static void a_damaged_slot_is_counted_and_never_read(void **state)
{
    (void)state;
    const struct meter_opening opening = {.exchange_id = SPAN("x1"), .tenant = SPAN("acme")};
    const struct meter_ending ending = {.outcome = OUTCOME_OK, .status = 200};

    for (int damage = 0; damage < DAMAGES; damage++) {
        struct inflight table, dead;
        const char *why = NULL;
        const int fd = file_of_table(&table, 2);
        struct slot *slot = inflight_open(&table, &opening);
        assert_non_null(inflight_open(&table, &opening));
        inflight_end(slot, &ending, 0);
        do_damage(slot, (enum damage)damage);
        inflight_fini(&table);

        assert_int_equal(inflight_open_dead(&dead, fd, &why), OK);

        assert_int_equal(dead.damaged, 1);
        assert_int_equal(atomic_load(&dead.slots[0].state), SLOT_FREE);
        assert_int_equal(atomic_load(&dead.slots[1].state), SLOT_OPEN);
        inflight_fini(&dead);
        close(fd);
    }
}

static void a_damaged_price_is_none(void **state)
{
    (void)state;
    for (int damage = 0; damage < 6; damage++) {
        struct inflight table, dead;
        const char *why = NULL;
        const int fd = file_of_table(&table, 1);
        struct price price = price_of_input(5);
        const struct meter_opening opening = {.tenant = SPAN("acme")};
        assert_int_equal(inflight_book(&table, &price, &price.book), OK);
        struct slot *slot = inflight_open(&table, &opening);
        inflight_route(slot, &(struct meter_route){.model = SPAN("m"), .price = &price});
        if (damage == 0)
            table.book[0].bracket_count = PRICE_BRACKETS_MAX + 1;
        else if (damage == 1)
            table.book[0].rates.output = -1;
        else if (damage == 2)
            memset(&table.book[0].bracket_marginal, 7, 1);
        else if (damage == 3)
            memset(&table.book[0], 0, sizeof(table.book[0])); /* the page never came to the disk */
        else if (damage == 4)
            slot->price = 2;
        else
            slot->price = UINT32_MAX;
        inflight_fini(&table);

        assert_int_equal(inflight_open_dead(&dead, fd, &why), OK);

        assert_null(inflight_price(&dead, &dead.slots[0]));
        inflight_fini(&dead);
        close(fd);
    }
}

static void what_is_no_table_is_refused(void **state)
{
    (void)state;
    static const char *const whys[] = {"not a table",     "another version", "another version",
                                       "another version", "cut short",       "price book",
                                       "cut short"};

    for (int damage = 0; damage < 7; damage++) {
        struct inflight table, dead;
        const char *why = NULL;
        const int fd = file_of_table(&table, 2);
        if (damage == 0)
            table.header->magic[0] = 'T';
        else if (damage == 1)
            table.header->version++;
        else if (damage == 2)
            table.header->slot_bytes = 512;
        else if (damage == 3)
            table.header->price_bytes--;
        else if (damage == 4)
            table.header->slots = UINT32_MAX;
        else if (damage == 5)
            atomic_store(&table.header->book_rows, INFLIGHT_BOOK_ROWS + 1);
        inflight_fini(&table);
        if (damage == 6)
            assert_int_equal(ftruncate(fd, 20), 0);

        assert_int_equal(inflight_open_dead(&dead, fd, &why), ERR_BAD_VALUE);

        assert_non_null(strstr(why, whys[damage]));
        close(fd);
    }
}

static void an_ending_that_is_not_billed_is_none_an_instant_before_it_is_whole(void **state)
{
    (void)state;
    struct inflight table = table_of(2);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    const struct meter_running running = {.usage = {.output = 4}, .delivered = 1};

    for (int billable = 0; billable < 2; billable++) {
        const struct meter_ending ending = {.outcome = OUTCOME_OK, .billable = billable != 0};
        struct slot *slot = inflight_open(&table, &opening);
        inflight_publish(slot, &running);
        inflight_end(slot, &ending, 0);
        assert_int_equal(inflight_running(slot)->delivered, billable);
    }
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
        cmocka_unit_test(a_price_is_in_the_book_once),
        cmocka_unit_test(a_full_book_takes_no_other_price),
        cmocka_unit_test(a_dead_table_says_what_was_stored_last),
        cmocka_unit_test(a_route_that_was_being_written_is_none),
        cmocka_unit_test(a_damaged_slot_is_counted_and_never_read),
        cmocka_unit_test(a_damaged_price_is_none),
        cmocka_unit_test(what_is_no_table_is_refused),
        cmocka_unit_test(an_ending_that_is_not_billed_is_none_an_instant_before_it_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
