/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_keeper.c: the thread that keeps the books (meter/keeper.c, anchor.c, retire.c).
 *
 * Promises:  1. What is settled comes into the ledger, and questions are answered from it.
 *            2. A bounded number of questions waits; those that wait at the end are refused.
 *            3. Anchors are signed lines of the newest row: appended to a file, read by a command.
 *            4. A command that fails is tried again; one that hangs holds nobody up.
 *            5. Endless questions keep neither rows nor anchors waiting.
 *            6. Old files go once they are in the ledger; what proves the chain is kept, and what
 *               others still need stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/base/sign.h"
#include "meter/books_room.h"
#include "meter/files.h"
#include "meter/meter.h"
#include "meter/record.h"
#include "meter/retire.h"

#define TRIES_MAX 2000 /* of 10 ms: how long something is waited for that must come */
#define NO_PREV "0000000000000000000000000000000000000000000000000000000000000000"

static char directory[64];
static char ledger_path[96], anchor_path[96];
static char problem[512];

static int make_directory(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof(directory), "/tmp/test_keeper_XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    (void)snprintf(ledger_path, sizeof(ledger_path), "%s/ledger.db", directory);
    (void)snprintf(anchor_path, sizeof(anchor_path), "%s/anchors", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[96];

    (void)snprintf(command, sizeof(command), "rm -r '%s'", directory);
    return system(command);
}

static void pause_a_while(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    (void)nanosleep(&pause, NULL);
}

static struct config config_of(void)
{
    return (struct config){.journal = span_of(directory),
                           .ledger = span_of(ledger_path),
                           .gateway = SPAN("g1"),
                           .limits_in_flight = 16,
                           .meter_segment_bytes = 64 << 20,
                           .meter_segment_age_ms = 3600000,
                           .meter_anchor_every_ms = 1};
}

static struct meter *open_meter(const struct config *config)
{
    struct meter *meter = NULL;

    if (meter_open(config, &meter, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    return meter;
}

static void close_meter(struct meter *meter)
{
    meter_close(meter);
}

/* One call, settled. */
static void settle_one(struct meter *meter)
{
    const struct meter_opening opening = {.exchange_id = SPAN("0123456789abcdef0123456789abcdef"),
                                          .request_id = SPAN("req-1"),
                                          .tenant = SPAN("acme"),
                                          .endpoint = ENDPOINT_CHAT,
                                          .admitted_us = 1790000000000000};
    struct meter_ending ending = {.outcome = OUTCOME_OK,
                                  .status = 200,
                                  .usage = USAGE_UNKNOWN,
                                  .ended_us = 1790000000000001,
                                  .unit_cost_pusd = -1};
    struct slot *slot = meter_admit(meter, &opening);

    assert_non_null(slot);
    (void)meter_settle(meter, slot, &ending, NULL);
}

/* ---- questions ---- */

struct question {
    struct meter_query query;
    _Atomic int done;   /* 1: answered, 2: refused */
    _Atomic bool *hold; /* answered only once this is set; NULL: at once */
    int64_t calls;
};

static bool count_calls(void *owner, const struct books_line *line)
{
    *(int64_t *)owner = line->calls;
    return true;
}

static void answer(struct meter_query *query, struct books *books)
{
    struct question *question = container_of(query, struct question, query);
    const struct books_ask ask = {.period = {0, INT64_MAX}};
    char why[256];

    while (question->hold && !atomic_load(question->hold))
        pause_a_while();
    if (books_usage(books, &ask, count_calls, &question->calls, why, sizeof(why)) == OK)
        atomic_store(&question->done, 1);
    else
        atomic_store(&question->done, 2);
}

static void refuse(struct meter_query *query, const char *why)
{
    struct question *question = container_of(query, struct question, query);

    (void)why;
    atomic_store(&question->done, 2);
}

static void prepare(struct question *question, _Atomic bool *hold)
{
    *question = (struct question){.query = {.run = answer, .refused = refuse}, .hold = hold};
}

static int wait_for(struct question *question)
{
    for (int i = 0; i < TRIES_MAX && atomic_load(&question->done) == 0; i++)
        pause_a_while();
    return atomic_load(&question->done);
}

static void what_is_settled_is_answered(void **state)
{
    (void)state;
    const struct config config = config_of();
    struct meter *meter = open_meter(&config);
    struct question question;
    struct meter_view view;

    settle_one(meter);
    settle_one(meter);
    for (int i = 0; i < TRIES_MAX; i++) {
        prepare(&question, NULL);
        assert_int_equal(meter_query(meter, &question.query), OK);
        assert_int_equal(wait_for(&question), 1);
        if (question.calls == 2)
            break;
        pause_a_while();
    }
    assert_int_equal(question.calls, 2);
    meter_view(meter, &view);
    assert_int_equal(view.ledger_behind_rows, 0);
    close_meter(meter);
}

static void questions_have_a_bound(void **state)
{
    (void)state;
    static struct question questions[METER_QUERIES_MAX + 2];
    const struct config config = config_of();
    struct meter *meter = open_meter(&config);
    _Atomic bool hold = false;
    size_t asked = 0;

    while (asked < METER_QUERIES_MAX + 2) {
        prepare(&questions[asked], &hold);
        if (meter_query(meter, &questions[asked].query) != OK)
            break;
        asked++;
    }
    /* One may have been taken from those that wait. */
    assert_in_range(asked, METER_QUERIES_MAX, METER_QUERIES_MAX + 1);
    atomic_store(&hold, true);
    meter_quiesce(meter);
    for (size_t i = 0; i < asked; i++)
        assert_int_not_equal(atomic_load(&questions[i].done), 0);
    close_meter(meter);
}

static void without_a_ledger_nothing_is_asked(void **state)
{
    (void)state;
    struct config config = config_of();
    struct question question;
    struct meter *meter;

    config.ledger = (struct span){NULL, 0};
    config.anchor_file = span_of(anchor_path);
    meter = open_meter(&config);
    prepare(&question, NULL);
    assert_int_equal(meter_query(meter, &question.query), ERR_NO_LEDGER);
    close_meter(meter);
    config.anchor_file = (struct span){NULL, 0};
    meter = open_meter(&config);
    assert_int_equal(meter_query(meter, &question.query), ERR_NO_LEDGER);
    close_meter(meter);
}

/* ---- anchors ---- */

/* The file's text, once it has so many lines. */
static void await_lines(const char *path, int lines, char *out, size_t size)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        const int fd = open(path, O_RDONLY);
        const ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);
        int found = 0;

        if (fd >= 0)
            close(fd);
        out[got > 0 ? got : 0] = '\0';
        for (const char *at = out; (at = strchr(at, '\n')) != NULL; at++)
            found++;
        if (found >= lines)
            return;
        pause_a_while();
    }
    fail_msg("%s has not %d lines: %s", path, lines, out);
}

static void anchors_are_signed_lines_of_a_file(void **state)
{
    (void)state;
    static char text[65536];
    struct config config = config_of();
    struct verify_key *key = NULL;
    struct span line, signed_part, signature;
    char path[128];
    struct meter *meter;
    const char *mark;

    config.anchor_file = span_of(anchor_path);
    meter = open_meter(&config);
    settle_one(meter);
    await_lines(anchor_path, 1, text, sizeof(text));
    line = (struct span){text, (size_t)(strchr(text, '\n') - text)};
    assert_memory_equal(text, "{\"gateway\":\"g1\",\"epoch\":1,\"seq\":", 31);
    mark = memmem(line.data, line.size, ",\"signature\":\"", 14);
    assert_non_null(mark);
    signed_part = (struct span){line.data, (size_t)(mark - line.data)};
    signature = (struct span){mark + 14, line.size - signed_part.size - 16};
    (void)snprintf(path, sizeof(path), "%s/signing.pub", directory);
    assert_int_equal(verify_key_open(path, &key, problem, sizeof(problem)), OK);
    assert_true(verify_text(key, signed_part, signature));
    verify_key_close(key);
    close_meter(meter);
}

/* What a cut write left is ended before the next line. */
static void a_torn_anchor_is_left_behind(void **state)
{
    (void)state;
    static char text[65536];
    struct config config = config_of();
    struct meter *meter;
    FILE *file = fopen(anchor_path, "w");

    assert_non_null(file);
    assert_true(fputs("{\"gatew", file) >= 0);
    assert_int_equal(fclose(file), 0);
    config.anchor_file = span_of(anchor_path);
    meter = open_meter(&config);
    await_lines(anchor_path, 2, text, sizeof(text));
    assert_memory_equal(text, "{\"gatew\n{\"gateway\":\"g1\",", 24);
    close_meter(meter);
}

static void a_command_reads_anchors_and_is_tried_again(void **state)
{
    (void)state;
    static char text[65536];
    struct config config = config_of();
    char command[320];
    struct meter_view view;
    struct meter *meter;

    (void)snprintf(command, sizeof(command),
                   "test -e %s/tried || { touch %s/tried; exit 3; }; cat >> %s", directory,
                   directory, anchor_path);
    config.anchor_command = span_of(command);
    meter = open_meter(&config);
    await_lines(anchor_path, 1, text, sizeof(text));
    assert_memory_equal(text, "{\"gateway\":\"g1\",", 16);
    for (int i = 0; i < TRIES_MAX; i++) {
        meter_view(meter, &view);
        if (view.anchor_age_ms >= 0)
            break;
        pause_a_while();
    }
    assert_true(view.anchor_age_ms >= 0);
    close_meter(meter);
}

static void a_command_that_hangs_holds_nobody_up(void **state)
{
    (void)state;
    struct config config = config_of();
    struct question question;
    struct meter *meter;

    config.anchor_command = SPAN("sleep 1000");
    meter = open_meter(&config);
    settle_one(meter);
    prepare(&question, NULL);
    assert_int_equal(meter_query(meter, &question.query), OK);
    assert_int_equal(wait_for(&question), 1);
    close_meter(meter); /* comes back: the command is killed */
}

/* A question that is asked anew whenever it was answered. */
struct endless {
    struct question question;
    struct meter *meter;
    _Atomic bool over, ended;
};

static void ask_again(struct meter_query *query, struct books *books)
{
    struct endless *endless = container_of(query, struct endless, question.query);

    (void)books;
    pause_a_while();
    if (atomic_load(&endless->over) || meter_query(endless->meter, query) != OK)
        atomic_store(&endless->ended, true);
}

static void who_keeps_on_asking_keeps_neither_rows_nor_anchors_waiting(void **state)
{
    (void)state;
    static struct endless endless[2];
    static char text[65536];
    struct config config = config_of();
    struct meter *meter;

    config.anchor_file = span_of(anchor_path);
    meter = open_meter(&config);
    for (size_t i = 0; i < 2; i++) {
        endless[i] = (struct endless){.meter = meter};
        endless[i].question.query = (struct meter_query){.run = ask_again, .refused = refuse};
        assert_int_equal(meter_query(meter, &endless[i].question.query), OK);
    }
    settle_one(meter);
    for (int i = 0; i < TRIES_MAX && !strstr(text, ",\"seq\":2,"); i++) {
        await_lines(anchor_path, 1, text, sizeof(text));
        pause_a_while();
    }
    assert_non_null(strstr(text, ",\"seq\":2,")); /* of the row: 1 is the file's open line */
    for (size_t i = 0; i < 2; i++)
        atomic_store(&endless[i].over, true);
    for (size_t i = 0; i < 2; i++)
        for (int tries = 0; tries < TRIES_MAX && !atomic_load(&endless[i].ended); tries++)
            pause_a_while();
    close_meter(meter);
}

/* ---- old files ---- */

static char prev[65];
static uint64_t seq;

static void path_in(const char *name, char out[160])
{
    (void)snprintf(out, 160, "%s/%s", directory, name);
}

static void append_line(const char *name, uint64_t epoch, const char *kind)
{
    char path[160];
    char line[1024];
    const int size = snprintf(line, sizeof(line),
                              "{\"v\":2,\"gateway\":\"g1\",\"epoch\":%" PRIu64 ",\"seq\":%" PRIu64
                              ",\"kind\":\"%s\",\"at_us\":1790000000000000,\"prev\":\"%s\"}",
                              epoch, ++seq, kind, prev);
    FILE *file;

    line_hash((struct span){line, (size_t)size}, prev);
    path_in(name, path);
    file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", line) > 0);
    assert_int_equal(fclose(file), 0);
}

/* A file of an open, a call and, perhaps, a head, last written at this second. */
static void write_file(uint64_t epoch, bool closed, int64_t modified_s)
{
    const struct timespec times[2] = {{.tv_sec = modified_s}, {.tv_sec = modified_s}};
    char name[64];
    char path[160];

    (void)snprintf(name, sizeof(name), "g1-%" PRIu64 "-%" PRIu64 ".jsonl", epoch, seq + 1);
    append_line(name, epoch, "open");
    append_line(name, epoch, "call");
    if (closed)
        append_line(name, epoch, "head");
    path_in(name, path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void begin_epoch(void)
{
    seq = 0;
    memcpy(prev, NO_PREV, sizeof(prev));
}

static bool is_there(const char *name)
{
    char path[160];

    path_in(name, path);
    return access(path, F_OK) == 0;
}

static struct books *open_fed_books(bool feed)
{
    const struct config config = config_of();
    struct books *books = NULL;

    assert_int_equal(books_open(&config, &books, problem, sizeof(problem)), OK);
    if (feed)
        assert_int_equal(books_feed(books, INT64_MAX, NULL, problem, sizeof(problem)), OK);
    return books;
}

static uint32_t retire(struct books *books, int64_t before_s)
{
    uint32_t files = 0;

    if (retire_files(books, before_s * 1000000, &files, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    return files;
}

static void old_files_go_and_their_ends_are_kept(void **state)
{
    (void)state;
    struct lines lines = {.data = NULL};
    struct record record;
    struct books *books;
    struct span line;

    begin_epoch();
    write_file(1, true, 1000);
    write_file(1, true, 2000);
    write_file(1, true, 3000);
    write_file(1, false, 4000);
    books = open_fed_books(false);
    assert_int_equal(retire(books, 2500), 0); /* not in the ledger */
    assert_int_equal(books_feed(books, INT64_MAX, NULL, problem, sizeof(problem)), OK);
    assert_int_equal(retire(books, 2500), 2);
    assert_false(is_there("g1-1-1.jsonl"));
    assert_false(is_there("g1-1-4.jsonl"));
    assert_true(is_there("g1-1-7.jsonl"));

    assert_int_equal(lines_open(books->directory_fd, RETIRED_FILE, 0, &lines), OK);
    for (uint64_t expected = 1; expected <= 6; expected += expected % 3 == 1 ? 2 : 1) {
        assert_int_equal(lines_next(&lines, &line), LINE_WHOLE);
        assert_int_equal(record_read(line, &record, problem, sizeof(problem)), OK);
        assert_int_equal(record.seq, expected);
        assert_int_equal(record.kind, expected % 3 == 1 ? RECORD_OPEN : RECORD_HEAD);
    }
    assert_int_equal(lines_next(&lines, &line), LINE_END);
    lines_close(&lines);

    /* The ledger still has their rows, and the chain goes on. */
    assert_int_equal(books_feed(books, INT64_MAX, NULL, problem, sizeof(problem)), OK);
    assert_int_equal(retire(books, INT64_C(5000)), 1);
    books_close(books);
}

static void what_others_need_stays(void **state)
{
    (void)state;
    struct books *books;
    char path[160];
    int fd;

    begin_epoch();
    write_file(1, true, 1000);
    write_file(1, true, 1000);
    write_file(1, true, 1000);
    begin_epoch();
    write_file(2, true, 1000); /* the newest of its gateway */
    path_in("g1-1.inflight", path);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    close(fd);
    books = open_fed_books(true);
    assert_int_equal(retire(books, 5000), 1); /* recovery reads the last two of epoch 1 */
    assert_true(is_there("g1-1-4.jsonl"));
    assert_true(is_there("g1-1-7.jsonl"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(retire(books, 5000), 2);
    assert_true(is_there("g1-2-1.jsonl"));
    books_close(books);
}

/* Balances start at the newest open line: what was written since must be readable. */
static void what_was_written_since_the_newest_open_line_stays(void **state)
{
    (void)state;
    struct books *books;

    begin_epoch();
    write_file(1, true, 1790000001); /* a second after the open line below */
    begin_epoch();
    write_file(2, false, 1790000002);
    books = open_fed_books(true);
    assert_int_equal(retire(books, 1800000000), 0);
    books_close(books);
}

#define KEEPER_TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEEPER_TEST(what_is_settled_is_answered),
        KEEPER_TEST(questions_have_a_bound),
        KEEPER_TEST(without_a_ledger_nothing_is_asked),
        KEEPER_TEST(anchors_are_signed_lines_of_a_file),
        KEEPER_TEST(a_torn_anchor_is_left_behind),
        KEEPER_TEST(a_command_reads_anchors_and_is_tried_again),
        KEEPER_TEST(a_command_that_hangs_holds_nobody_up),
        KEEPER_TEST(who_keeps_on_asking_keeps_neither_rows_nor_anchors_waiting),
        KEEPER_TEST(old_files_go_and_their_ends_are_kept),
        KEEPER_TEST(what_others_need_stays),
        KEEPER_TEST(what_was_written_since_the_newest_open_line_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
