/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_recover.c: what dead processes left under way becomes rows (meter/recover.c).
 *
 * Promises:  1. An open slot is charged what it had published: as the server counted, else as
 *               estimated; nothing when nothing was delivered.
 *               No estimate is above what was asked for; where nothing is generated, no output is
 *               missing.
 *            2. An ended slot becomes the row that it would have become.
 *            3. Each slot has exactly one row, whatever instant its process or any recoverer died
 *               at, and the table goes only when all are synced.
 *            4. A table that cannot be read is left alone; damaged slots keep theirs. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "meter/files.h"
#include "meter/record.h"
#include "meter/recover.h"
#include "meter/row.h"

#define SLOTS 8u
#define NOW_US INT64_C(1700000000000000)

/* ---- how one slot ends ---- */

/* A slot of a chat that was routed, in a table of its own. */
struct single {
    struct inflight table;
    struct slot *slot;
    struct price price;
};

static struct single single_of(enum endpoint endpoint)
{
    struct single single = {.price = {.until_us = INT64_MAX,
                                      .rates = {.input = 10, .cached_input = 1, .output = 100},
                                      .tier_ppm = {PRICE_PPM, PRICE_PPM / 2, 2 * PRICE_PPM}}};
    const struct meter_opening opening = {.tenant = SPAN("acme"), .endpoint = endpoint};

    assert_int_equal(inflight_init(&single.table, -1, 1, SPAN("g1"), 1), OK);
    assert_int_equal(inflight_book(&single.table, &single.price, &single.price.book), OK);
    single.slot = inflight_open(&single.table, &opening);
    inflight_route(single.slot, &(struct meter_route){.model = SPAN("m"),
                                                      .attempts = 1,
                                                      .price = &single.price,
                                                      .prompt_bytes = 3600,
                                                      .most_input = -1,
                                                      .most_output = -1});
    return single;
}

/* What was published of it, and what the row is to say. */
struct ending_case {
    struct meter_running running;
    enum endpoint endpoint;
    struct usage usage;
    enum usage_source source;
    bool billable;
    int status;
    int64_t cost_pusd;
};

static void an_open_slot_is_charged_what_it_had_published(void **state)
{
    (void)state;
    static const struct ending_case cases[] = {
        /* as the server counted */
        {.running = {.usage = {3, 4, -1, 5, -1}, .source = SOURCE_RUNNING, .delivered = 1},
         .endpoint = ENDPOINT_CHAT,
         .usage = {3, 4, -1, 5, -1},
         .source = SOURCE_RUNNING,
         .billable = true,
         .status = 200,
         .cost_pusd = 3 * 10 + 4 * 1 + 5 * 100},
        /* it said nothing: 3600 bytes of prompt, 7 events of text */
        {.running = {.usage = {-1, -1, -1, -1, -1}, .text_bytes = 30, .pieces = 7, .delivered = 1},
         .endpoint = ENDPOINT_CHAT,
         .usage = {1000, 0, 0, 7, 0},
         .source = SOURCE_ESTIMATED,
         .billable = true,
         .status = 200,
         .cost_pusd = 1000 * 10 + 7 * 100},
        /* it said what the prompt was, and not what it wrote so far */
        {.running =
             {.usage = {3, 4, -1, -1, -1}, .source = SOURCE_REPORTED, .pieces = 7, .delivered = 1},
         .endpoint = ENDPOINT_CHAT,
         .usage = {3, 4, -1, 7, -1},
         .source = SOURCE_ESTIMATED,
         .billable = true,
         .status = 200,
         .cost_pusd = 3 * 10 + 4 * 1 + 7 * 100},
        /* and the reverse */
        {.running = {.usage = {-1, -1, -1, 5, -1}, .source = SOURCE_RUNNING, .delivered = 1},
         .endpoint = ENDPOINT_CHAT,
         .usage = {1000, -1, -1, 5, -1},
         .source = SOURCE_ESTIMATED,
         .billable = true,
         .status = 200,
         .cost_pusd = 1000 * 10 + 5 * 100},
        /* none of it left */
        {.running = {.usage = {3, 4, -1, 5, -1}, .source = SOURCE_RUNNING, .delivered = 0},
         .endpoint = ENDPOINT_CHAT,
         .usage = {-1, -1, -1, -1, -1},
         .source = SOURCE_NONE},
        /* free of charge */
        {.running = {.usage = {3, 4, -1, 5, -1}, .source = SOURCE_REPORTED, .delivered = 1},
         .endpoint = ENDPOINT_MODELS,
         .usage = {3, 4, -1, 5, -1},
         .source = SOURCE_REPORTED,
         .status = 200},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct single single = single_of(cases[i].endpoint);
        inflight_publish(single.slot, &cases[i].running);

        recover_end(single.slot, inflight_price(&single.table, single.slot), NOW_US);

        const struct meter_running *running = inflight_running(single.slot);
        assert_int_equal(atomic_load(&single.slot->state), SLOT_ENDED);
        assert_int_equal(single.slot->outcome, OUTCOME_CRASH_RECOVERED);
        assert_int_equal(single.slot->status, cases[i].status);
        assert_int_equal(single.slot->billable, cases[i].billable);
        assert_int_equal(single.slot->cost_pusd, cases[i].cost_pusd);
        assert_int_equal(single.slot->ended_us, NOW_US);
        assert_int_equal(single.slot->unit_cost_pusd, -1);
        assert_int_equal(running->source, cases[i].source);
        assert_memory_equal(&running->usage, &cases[i].usage, sizeof(running->usage));
        inflight_fini(&single.table);
    }
}

/* 3600 bytes of prompt; streams of the model have 4 tokens in an event. */
static struct single bounded_single_of(enum endpoint endpoint, int64_t most_output)
{
    struct single single = single_of(endpoint);

    inflight_route(single.slot, &(struct meter_route){.model = SPAN("m"),
                                                      .attempts = 1,
                                                      .price = &single.price,
                                                      .prompt_bytes = 3600,
                                                      .most_input = 900,
                                                      .most_output = most_output});
    single.slot->guess.pieces = UINT64_C(64) << 32 | 4; /* an event counts as 64 bytes */
    return single;
}

static void nobody_is_charged_for_more_than_he_asked_for(void **state)
{
    (void)state;
    static const struct usage limited = {900, 0, 0, 5, 0}, unlimited = {900, 0, 0, 12, 0};
    const struct meter_running running = {
        .usage = {-1, -1, -1, -1, -1}, .pieces = 3, .delivered = 1};
    struct single five = bounded_single_of(ENDPOINT_CHAT, 5);
    struct single any = bounded_single_of(ENDPOINT_CHAT, -1);
    inflight_publish(five.slot, &running);
    inflight_publish(any.slot, &running);

    recover_end(five.slot, inflight_price(&five.table, five.slot), NOW_US);
    recover_end(any.slot, inflight_price(&any.table, any.slot), NOW_US);

    assert_memory_equal(&inflight_running(five.slot)->usage, &limited, sizeof(limited));
    assert_memory_equal(&inflight_running(any.slot)->usage, &unlimited, sizeof(unlimited));
    assert_int_equal(five.slot->cost_pusd, 900 * 10 + 5 * 100);
    inflight_fini(&five.table);
    inflight_fini(&any.table);
}

static void what_generates_nothing_lacks_no_output(void **state)
{
    (void)state;
    static const struct usage said = {12, -1, -1, -1, -1};
    const struct meter_running running = {.usage = said, .source = SOURCE_REPORTED, .delivered = 1};
    struct single single = bounded_single_of(ENDPOINT_EMBEDDINGS, 0);
    inflight_publish(single.slot, &running);

    recover_end(single.slot, inflight_price(&single.table, single.slot), NOW_US);

    assert_memory_equal(&inflight_running(single.slot)->usage, &said, sizeof(said));
    assert_int_equal(inflight_running(single.slot)->source, SOURCE_REPORTED);
    assert_int_equal(single.slot->cost_pusd, 12 * 10);
    inflight_fini(&single.table);
}

static void flags_are_kept_and_the_tier_is_charged(void **state)
{
    (void)state;
    struct single single = single_of(ENDPOINT_CHAT);
    const struct meter_running running = {
        .usage = {.input = 3, .output = 5}, .source = SOURCE_RUNNING, .delivered = 1};
    single.slot->tier = TIER_PRIORITY;
    atomic_store(&single.slot->flags, FLAG_CLAMPED);
    inflight_publish(single.slot, &running);

    recover_end(single.slot, inflight_price(&single.table, single.slot), NOW_US);

    assert_int_equal(atomic_load(&single.slot->flags), FLAG_CLAMPED);
    assert_int_equal(single.slot->cost_pusd, 2 * (3 * 10 + 5 * 100));
    inflight_fini(&single.table);
}

static void without_a_price_nothing_is_charged(void **state)
{
    (void)state;
    struct single single = single_of(ENDPOINT_CHAT);
    const struct meter_running running = {
        .usage = {.input = 3, .output = 5}, .source = SOURCE_RUNNING, .delivered = 1};
    inflight_publish(single.slot, &running);

    recover_end(single.slot, NULL, NOW_US);

    assert_false(single.slot->billable);
    assert_int_equal(single.slot->cost_pusd, 0);
    assert_int_equal(inflight_running(single.slot)->usage.output, 5);
    inflight_fini(&single.table);
}

static void an_amount_that_does_not_fit_is_suspect(void **state)
{
    (void)state;
    struct single single = single_of(ENDPOINT_CHAT);
    const struct meter_running running = {
        .usage = {.input = INT64_MAX, .output = 5}, .source = SOURCE_RUNNING, .delivered = 1};
    inflight_publish(single.slot, &running);

    recover_end(single.slot, inflight_price(&single.table, single.slot), NOW_US);

    assert_int_equal(single.slot->cost_pusd, 0);
    assert_int_equal(atomic_load(&single.slot->flags), FLAG_USAGE_SUSPECT);
    inflight_fini(&single.table);
}

/* ---- tables of the dead ---- */

/* A directory of one test. */
static char home[64];
static int home_fd;
static char problem[512];

static int start(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/tollgate-recover-XXXXXX");
    problem[0] = '\0';
    if (!mkdtemp(home))
        return 1;
    home_fd = open(home, O_RDONLY | O_DIRECTORY);
    return home_fd < 0;
}

static int stop(void **state)
{
    char command[128];

    (void)state;
    close(home_fd);
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    return system(command);
}

static bool exists(const char *name)
{
    return faccessat(home_fd, name, F_OK, 0) == 0;
}

/* A process: its table, and a journal file of its own. */
struct process {
    struct recover_sink sink;
    struct store store;
    struct inflight table;
    struct price price;
    struct row_author author;
    int journal_fd;
    uint64_t seq;
    /* As a recoverer: what it gets to. */
    uint32_t rows_left; /* rows after which it dies */
    bool dies_at_sync;
    uint32_t written, synced;
    const char *expected_table; /* is still there at the sync */
};

static char zeros[65] = "0000000000000000000000000000000000000000000000000000000000000000";

static size_t render(struct process *process, const struct slot *slot, const struct price *price,
                     struct span dead, char *line)
{
    const struct row_link link = {.seq = process->seq++, .prev = zeros};

    return row_render(&process->author, &link, slot, price, dead, line);
}

static void put_row(struct process *process, const struct slot *slot, const struct price *price,
                    struct span dead)
{
    char line[ROW_BYTES_MAX];
    const size_t bytes = render(process, slot, price, dead, line);

    assert_int_equal(write(process->journal_fd, line, bytes), (ssize_t)bytes);
}

/* Half of the row comes to the file of a recoverer that dies at it. */
static enum err sink_write(struct recover_sink *sink, const struct slot *slot,
                           const struct price *price, struct span dead)
{
    struct process *process = (struct process *)(void *)sink;
    char line[ROW_BYTES_MAX];

    assert_int_equal(atomic_load(&slot->state), SLOT_ENDED);
    if (process->rows_left == 0) {
        const size_t half = render(process, slot, price, dead, line) / 2;
        assert_int_equal(write(process->journal_fd, line, half), (ssize_t)half);
        return ERR_INTERNAL;
    }
    process->rows_left--;
    process->written++;
    put_row(process, slot, price, dead);
    return OK;
}

static enum err sink_sync(struct recover_sink *sink)
{
    struct process *process = (struct process *)(void *)sink;

    if (process->expected_table)
        assert_true(exists(process->expected_table));
    process->synced = process->written;
    return process->dies_at_sync ? ERR_INTERNAL : OK;
}

static void live(struct process *process, const char *gateway)
{
    *process = (struct process){
        .sink = {sink_write, sink_sync},
        .price = {.until_us = INT64_MAX,
                  .rates = {.input = 10, .output = 100},
                  .tier_ppm = {PRICE_PPM, PRICE_PPM, PRICE_PPM}},
        .seq = 1,
        .rows_left = UINT32_MAX,
    };
    if (store_open(&process->store, span_of(home), span_of(gateway), problem, sizeof(problem)) !=
            OK ||
        store_create_table(&process->store, problem, sizeof(problem)) != OK ||
        inflight_init(&process->table, process->store.table_fd, SLOTS, span_of(gateway),
                      process->store.epoch) != OK ||
        store_name_table(&process->store, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    process->journal_fd = store_create_journal(&process->store, 1, problem, sizeof(problem));
    assert_true(process->journal_fd >= 0);
    store_started(&process->store);
    row_author_init(&process->author, span_of(gateway), process->store.epoch);
    assert_int_equal(inflight_book(&process->table, &process->price, &process->price.book), OK);
}

static void die(struct process *process)
{
    inflight_fini(&process->table);
    close(process->journal_fd);
    store_close(&process->store); /* the table's file stays */
}

static void leave(struct process *process)
{
    inflight_fini(&process->table);
    close(process->journal_fd);
    store_remove_table(&process->store);
    store_close(&process->store);
}

static struct slot *admit(struct process *process, unsigned exchange)
{
    char id[33];
    struct meter_opening opening = {
        .tenant = SPAN("acme"), .endpoint = ENDPOINT_CHAT, .tags_json = SPAN("{\"a\":\"b\"}")};
    const struct meter_running running = {
        .usage = {1, -1, -1, exchange, -1}, .source = SOURCE_RUNNING, .delivered = 1};
    struct slot *slot;

    snprintf(id, sizeof(id), "%032x", exchange);
    opening.exchange_id = span_of(id);
    slot = inflight_open(&process->table, &opening);
    assert_non_null(slot);
    inflight_route(slot, &(struct meter_route){.model = SPAN("m"), .price = &process->price});
    inflight_publish(slot, &running);
    return slot;
}

static void end(struct slot *slot, unsigned exchange)
{
    const struct meter_ending ending = {.outcome = OUTCOME_OK,
                                        .status = 200,
                                        .billable = true,
                                        .usage = {1, -1, -1, exchange, -1},
                                        .source = SOURCE_REPORTED,
                                        .ended_us = 5,
                                        .unit_cost_pusd = -1};

    inflight_end(slot, &ending, 10 + 100 * (int64_t)exchange);
}

static enum err recover(struct process *process, struct recover_report *report)
{
    return recover_dead(&process->store, &process->sink, NOW_US, report, problem, sizeof(problem));
}

/* How often each exchange has a row in all files, up to which number. */
static void count_rows(uint32_t *counts, unsigned exchanges)
{
    struct journal_file *files = NULL;
    size_t file_count = 0;

    memset(counts, 0, exchanges * sizeof(*counts));
    assert_int_equal(files_list(home_fd, &files, &file_count, problem, sizeof(problem)), OK);
    for (size_t i = 0; i < file_count; i++) {
        struct lines lines;
        struct span line;
        assert_int_equal(lines_open(home_fd, files[i].name, 0, &lines), OK);
        while (lines_next(&lines, &line) == LINE_WHOLE) {
            struct record record;
            char id[33];
            assert_true(log_is_utf8(line));
            if (record_read(line, &record, problem, sizeof(problem)) != OK)
                fail_msg("%s: %s", files[i].name, problem);
            snprintf(id, sizeof(id), "%.*s", (int)record.exchange_id.size, record.exchange_id.data);
            unsigned long exchange = strtoul(id, NULL, 16);
            assert_true(exchange < exchanges);
            counts[exchange]++;
            assert_int_equal(record.usage.output, exchange);
            assert_int_equal(record.cost_pusd, 10 + 100 * exchange);
        }
        lines_close(&lines);
    }
    free(files);
}

static void assert_each_once(unsigned exchanges)
{
    uint32_t counts[64];

    assert_true(exchanges <= 64);
    count_rows(counts, exchanges);
    for (unsigned i = 0; i < exchanges; i++)
        assert_int_equal(counts[i], 1);
}

/* A process dies with exchanges 0 … 5: 0 and 1 are rows, 1 is not freed yet; 2 and 3 have ended;
 * 4 and 5 are open. */
static void leave_six(struct process *process, const char *gateway)
{
    live(process, gateway);
    for (unsigned exchange = 0; exchange < 6; exchange++) {
        struct slot *slot = admit(process, exchange);
        if (exchange < 4)
            end(slot, exchange);
        if (exchange < 2)
            put_row(process, slot, &process->price, SPAN(""));
    }
    inflight_free(&process->table, (const uint32_t[]){0}, 1);
    die(process);
}

static void each_slot_becomes_one_row_and_the_table_goes(void **state)
{
    (void)state;
    struct process dead, next;
    struct recover_report report;
    leave_six(&dead, "g1");
    live(&next, "g1");
    next.expected_table = "g1-1.inflight";

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.tables, 1);
    assert_int_equal(report.rows, 4);
    assert_int_equal(report.crash_recovered, 2);
    assert_int_equal(report.skipped, 1);
    assert_int_equal(next.synced, 4);
    assert_false(exists("g1-1.inflight"));
    assert_true(exists("g1-2.inflight")); /* its own */
    assert_each_once(6);
    assert_int_equal(recover(&next, &report), OK);
    assert_int_equal(report.tables, 0);
    leave(&next);
}

static void rows_say_whose_they_were_and_how_they_ended(void **state)
{
    (void)state;
    struct process dead, next;
    struct recover_report report;
    struct lines lines;
    struct span line;
    struct record record;
    leave_six(&dead, "g1");
    live(&next, "g2");
    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(lines_open(home_fd, "g2-1-1.jsonl", 0, &lines), OK);
    for (unsigned exchange = 2; exchange < 6; exchange++) {
        assert_int_equal(lines_next(&lines, &line), LINE_WHOLE);
        assert_int_equal(record_read(line, &record, problem, sizeof(problem)), OK);
        assert_true(span_equal(record.recovered, SPAN("g1-1")));
        assert_true(span_equal(record.gateway, SPAN("g2")));
        assert_true(
            span_equal(record.outcome, exchange < 4 ? SPAN("ok") : SPAN("crash_recovered")));
        assert_true(span_equal(record.source, exchange < 4 ? SPAN("reported") : SPAN("running")));
        assert_int_equal(record.ended_us, exchange < 4 ? 5 : NOW_US);
        assert_int_equal(record.status, 200);
        assert_true(record.billable);
        assert_true(record.has_tariff);
    }
    assert_int_equal(lines_next(&lines, &line), LINE_END);
    lines_close(&lines);
    leave(&next);
}

static void a_recoverer_that_dies_leaves_the_rest_to_the_next(void **state)
{
    (void)state;
    for (uint32_t first_rows = 0; first_rows <= 4; first_rows++) {
        for (uint32_t second_rows = 0; second_rows <= 4; second_rows++) {
            struct process dead, first, second, third;
            struct recover_report report;
            uint32_t counts[6];
            assert_int_equal(stop(NULL), 0);
            assert_int_equal(start(NULL), 0);
            leave_six(&dead, "g1");
            live(&first, "g1");
            first.rows_left = first_rows;
            first.dies_at_sync = true;
            assert_int_equal(recover(&first, &report), ERR_INTERNAL);
            assert_non_null(strstr(problem, "g1-1.inflight"));
            die(&first);
            live(&second, "g2"); /* another gateway's */
            second.rows_left = second_rows;
            second.dies_at_sync = true;
            if (recover(&second, &report) != OK)
                assert_true(exists("g1-1.inflight"));
            die(&second);
            live(&third, "g1");

            assert_int_equal(recover(&third, &report), OK);

            count_rows(counts, 6);
            assert_each_once(6);
            assert_false(exists("g1-1.inflight"));
            assert_false(exists("g1-2.inflight"));
            assert_false(exists("g2-1.inflight"));
            leave(&third);
        }
    }
}

static void rows_of_a_recoverer_whose_clock_was_set_back_are_found(void **state)
{
    (void)state;
    struct process dead, first, second;
    struct recover_report report;
    struct timespec earlier[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 0}};
    leave_six(&dead, "g1");
    live(&first, "g2");
    first.rows_left = 2;
    assert_int_equal(recover(&first, &report), ERR_INTERNAL);
    die(&first);
    earlier[1].tv_sec = (time_t)(clock_wall_us() / 1000000 - 3500);
    assert_int_equal(utimensat(home_fd, "g2-1-1.jsonl", earlier, 0), 0);
    live(&second, "g1");

    assert_int_equal(recover(&second, &report), OK);

    assert_int_equal(report.skipped, 3);
    assert_each_once(6);
    leave(&second);
}

static void the_last_two_files_of_the_dead_are_looked_through(void **state)
{
    (void)state;
    struct process dead, next;
    struct recover_report report;
    live(&dead, "g1");
    for (unsigned exchange = 0; exchange < 3; exchange++) {
        struct slot *slot = admit(&dead, exchange);
        end(slot, exchange);
        put_row(&dead, slot, &dead.price, SPAN(""));
        close(dead.journal_fd);
        dead.journal_fd = store_create_journal(&dead.store, dead.seq, problem, sizeof(problem));
    }
    inflight_free(&dead.table, (const uint32_t[]){0, 1}, 2);
    die(&dead);
    live(&next, "g1");

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.rows, 0);
    assert_int_equal(report.skipped, 1);
    assert_each_once(3);
    leave(&next);
}

static void behind_a_loss_of_power_older_files_are_looked_through_too(void **state)
{
    (void)state;
    struct process dead, next;
    struct recover_report report;
    live(&dead, "g1");
    for (unsigned exchange = 0; exchange < 4; exchange++) {
        struct slot *slot = admit(&dead, exchange);
        slot->admitted_us = clock_wall_us();
        end(slot, exchange);
        put_row(&dead, slot, &dead.price, SPAN(""));
        close(dead.journal_fd);
        dead.journal_fd = store_create_journal(&dead.store, dead.seq, problem, sizeof(problem));
    }
    /* The pages that say that they are free never came to the disk. */
    dead.table.header->boot[0] ^= 1;
    die(&dead);
    live(&next, "g1");

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.rows, 0);
    assert_int_equal(report.skipped, 4);
    assert_each_once(4);
    leave(&next);
}

static void tags_that_look_like_fields_hide_no_row(void **state)
{
    (void)state;
    struct process dead, next;
    struct recover_report report;
    uint32_t counts[3];
    live(&dead, "g1");
    for (unsigned exchange = 1; exchange < 3; exchange++)
        end(admit(&dead, exchange), exchange);
    /* A row of exchange 0 whose tags name exchange 1, and the dead process. */
    const struct meter_opening opening = {
        .exchange_id = SPAN("00000000000000000000000000000000"),
        .tenant = SPAN("acme"),
        .tags_json = SPAN("{\"exchange_id\":\"00000000000000000000000000000001\","
                          "\"recovered\":\"g1-1\"}"),
    };
    struct slot *slot = inflight_open(&dead.table, &opening);
    end(slot, 0);
    put_row(&dead, slot, NULL, SPAN(""));
    inflight_free(&dead.table, (const uint32_t[]){inflight_index(&dead.table, slot)}, 1);
    die(&dead);
    live(&next, "g1");

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.rows, 2);
    count_rows(counts, 3);
    assert_each_once(3);
    leave(&next);
}

static void tables_of_the_living_are_left_alone(void **state)
{
    (void)state;
    struct process alive, next;
    struct recover_report report;
    live(&alive, "g1");
    end(admit(&alive, 1), 1);
    live(&next, "g1");

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.tables, 0);
    assert_true(exists("g1-1.inflight"));
    leave(&next);
    leave(&alive);
}

static void an_empty_table_goes_without_a_row(void **state)
{
    (void)state;
    struct process dead, next;
    struct recover_report report;
    live(&dead, "g1");
    die(&dead);
    live(&next, "g1");
    next.dies_at_sync = true; /* there is nothing to sync */

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.tables, 1);
    assert_int_equal(report.rows, 0);
    assert_false(exists("g1-1.inflight"));
    leave(&next);
}

static void a_table_that_cannot_be_read_is_left_alone(void **state)
{
    (void)state;
    struct process dead, other, next;
    struct recover_report report;
    leave_six(&other, "g2");
    live(&dead, "g1");
    end(admit(&dead, 6), 6);
    dead.table.header->version = 1;
    die(&dead);
    live(&next, "g1");

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.tables, 1);
    assert_true(exists("g1-1.inflight"));
    assert_false(exists("g2-1.inflight"));
    assert_each_once(6);
    leave(&next);
}

static void a_table_with_damaged_slots_is_kept_for_a_person(void **state)
{
    (void)state;
    struct process dead, next;
    struct recover_report report;
    uint32_t counts[5];
    live(&dead, "g1");
    for (unsigned exchange = 0; exchange < 5; exchange++) {
        struct slot *slot = admit(&dead, exchange);
        const struct span tags = inflight_opening_text(slot, OPENING_TAGS);
        end(slot, exchange);
        if (exchange == 1)
            slot->opening_ends[OPENING_KEY] = 9999;
        if (exchange == 2)
            slot->opening_text[tags.data - slot->opening_text] = '\n';
        if (exchange == 3)
            memcpy(slot->opening_text + (tags.data - slot->opening_text), "{\n}      ", 9);
        if (exchange == 4)
            memcpy(slot->opening_text + (tags.data - slot->opening_text), "{\"a\":\"\xeb\"}", 9);
    }
    die(&dead);
    live(&next, "g1");

    assert_int_equal(recover(&next, &report), OK);

    assert_int_equal(report.rows, 4);
    assert_false(exists("g1-1.inflight"));
    assert_true(exists("g1-1.inflight.damaged"));
    count_rows(counts, 5);
    assert_int_equal(counts[0] + counts[2] + counts[3] + counts[4], 4);
    assert_int_equal(counts[1], 0);
    leave(&next);
}

int main(void)
{
#define RECOVER_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_slot_is_charged_what_it_had_published),
        cmocka_unit_test(nobody_is_charged_for_more_than_he_asked_for),
        cmocka_unit_test(what_generates_nothing_lacks_no_output),
        cmocka_unit_test(flags_are_kept_and_the_tier_is_charged),
        cmocka_unit_test(without_a_price_nothing_is_charged),
        cmocka_unit_test(an_amount_that_does_not_fit_is_suspect),
        RECOVER_TEST(each_slot_becomes_one_row_and_the_table_goes),
        RECOVER_TEST(rows_say_whose_they_were_and_how_they_ended),
        RECOVER_TEST(a_recoverer_that_dies_leaves_the_rest_to_the_next),
        RECOVER_TEST(rows_of_a_recoverer_whose_clock_was_set_back_are_found),
        RECOVER_TEST(the_last_two_files_of_the_dead_are_looked_through),
        RECOVER_TEST(behind_a_loss_of_power_older_files_are_looked_through_too),
        RECOVER_TEST(tags_that_look_like_fields_hide_no_row),
        RECOVER_TEST(tables_of_the_living_are_left_alone),
        RECOVER_TEST(an_empty_table_goes_without_a_row),
        RECOVER_TEST(a_table_that_cannot_be_read_is_left_alone),
        RECOVER_TEST(a_table_with_damaged_slots_is_kept_for_a_person),
    };
    if (!log_open("none", LOG_ERROR))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
