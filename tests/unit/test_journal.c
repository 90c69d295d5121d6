/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_journal.c: ended slots into rows on disk (meter/journal.c).
 *
 * Promises:  1. Each posted slot is one row, in the order of posting, numbered from 1.
 *            2. A slot is free again only when its row is written.
 *            3. A disk that fails or takes a part loses nothing and doubles nothing; the writer
 * says that it fails, and goes on when it can.
 *            4. Any number of threads post at once.
 *            5. Without a file rows are counted. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "meter/journal.h"

#define PATIENCE_NS (20 * NS_PER_S) /* for what the writer thread does in a moment */

/* A table, its journal and what it writes to. */
struct desk {
    struct inflight table;
    struct journal *journal;
    int fd;
};

static void set_up(struct desk *desk, uint32_t slots, int fd)
{
    desk->fd = fd;
    assert_int_equal(inflight_init(&desk->table, -1, slots, SPAN("g1"), 7), OK);
    assert_int_equal(journal_start(&desk->table, fd, SPAN("g1"), 7, &desk->journal), OK);
}

static void tear_down(struct desk *desk)
{
    inflight_fini(&desk->table);
    if (desk->fd >= 0)
        close(desk->fd);
}

static int memory_file(void)
{
    int fd = memfd_create("journal", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* Opens and ends an exchange of this number; false when the table is full. */
static bool end_one(struct desk *desk, uint64_t number)
{
    char id[33];
    snprintf(id, sizeof(id), "%032llx", (unsigned long long)number);
    const struct meter_opening opening = {.exchange_id = {id, 32}, .tenant = SPAN("acme")};
    const struct meter_ending ending = {
        .outcome = OUTCOME_OK, .status = 200, .usage = {.input = (int64_t)number}};
    struct slot *slot = inflight_open(&desk->table, &opening);

    if (!slot)
        return false;
    inflight_end(slot, &ending);
    journal_post(desk->journal, inflight_index(&desk->table, slot));
    return true;
}

static void end_one_when_there_is_room(struct desk *desk, uint64_t number)
{
    uint64_t until_ns = clock_now_ns() + PATIENCE_NS;

    while (!end_one(desk, number)) {
        assert_true(clock_now_ns() < until_ns);
        sched_yield();
    }
}

/* Reads a row's own number and its exchange's; false when it is not a whole row. */
static bool read_row(const char *line, uint64_t *out_seq, uint64_t *out_number)
{
    unsigned long long seq, number;
    const char *end = strchr(line, '\n');

    if (!end || end[-1] != '}' ||
        sscanf(line,
               "{\"v\":1,\"gateway\":\"g1\",\"epoch\":7,\"seq\":%llu,\"kind\":\"call\","
               "\"exchange_id\":\"%llx\"",
               &seq, &number) != 2)
        return false;
    *out_seq = seq;
    *out_number = number;
    return true;
}

/* All of text must be rows 1 … n; numbers[i] is what row i + 1 is about. Returns n. */
static size_t read_rows(const char *text, uint64_t *numbers, size_t room)
{
    size_t rows = 0;

    while (*text) {
        uint64_t seq = 0;
        assert_true(rows < room);
        assert_true(read_row(text, &seq, &numbers[rows]));
        assert_int_equal(seq, rows + 1);
        rows++;
        text = strchr(text, '\n') + 1;
    }
    return rows;
}

static char *text_of(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);

    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)size, 0), size);
    return text;
}

static void each_ended_slot_is_one_row_in_order(void **state)
{
    (void)state;
    struct desk desk;
    uint64_t numbers[100];
    set_up(&desk, 16, memory_file());

    for (uint64_t number = 1; number <= 100; number++)
        end_one_when_there_is_room(&desk, number);
    journal_stop(desk.journal);

    char *text = text_of(desk.fd);
    assert_int_equal(read_rows(text, numbers, 100), 100);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(numbers[i], i + 1);
    free(text);
    tear_down(&desk);
}

static void without_a_file_rows_are_counted(void **state)
{
    (void)state;
    struct desk desk;
    set_up(&desk, 4, -1);

    for (uint64_t number = 1; number <= 10; number++)
        end_one_when_there_is_room(&desk, number);
    uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (journal_rows(desk.journal) < 10 && clock_now_ns() < until_ns)
        sched_yield();

    assert_int_equal(journal_rows(desk.journal), 10);
    assert_int_equal(journal_posted(desk.journal), 10);
    journal_stop(desk.journal);
    tear_down(&desk);
}

static void a_full_disk_keeps_the_slots_until_it_has_room(void **state)
{
    (void)state;
    struct desk desk;
    uint64_t numbers[3];
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    set_up(&desk, 2, full);

    assert_true(end_one(&desk, 1));
    assert_true(end_one(&desk, 2));
    uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (!journal_failing(desk.journal) && clock_now_ns() < until_ns)
        sched_yield();
    assert_true(journal_failing(desk.journal));
    assert_false(end_one(&desk, 3)); /* the table is full: no slot was given up */
    assert_int_equal(journal_rows(desk.journal), 0);

    int file = memory_file();
    assert_int_equal(dup2(file, full), full); /* the disk has room again */
    end_one_when_there_is_room(&desk, 3);
    journal_stop(desk.journal);

    char *text = text_of(file);
    assert_int_equal(read_rows(text, numbers, 3), 3);
    free(text);
    close(file);
    tear_down(&desk);
}

/* Reads a pipe to its end, slowly enough that writes come short. */
static char *drain_pipe(int fd, size_t room)
{
    char *text = calloc(1, room + 1);
    size_t size = 0;
    ssize_t got;

    assert_non_null(text);
    while ((got = read(fd, text + size, room - size < 1000 ? room - size : 1000)) > 0)
        size += (size_t)got;
    return text;
}

struct drain {
    int fd;
    size_t room;
    char *text;
};

static void *run_drain(void *argument)
{
    struct drain *drain = argument;

    drain->text = drain_pipe(drain->fd, drain->room);
    return NULL;
}

static void short_writes_leave_every_row_whole_and_single(void **state)
{
    (void)state;
    struct desk desk;
    uint64_t numbers[1000];
    int ends[2];
    pthread_t reader;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    set_up(&desk, 1024, ends[1]);

    /* 1000 rows are more than a pipe holds: the write that fills it comes short. */
    for (uint64_t number = 1; number <= 1000; number++)
        assert_true(end_one(&desk, number));
    uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (!journal_failing(desk.journal) && clock_now_ns() < until_ns)
        sched_yield();
    assert_true(journal_failing(desk.journal));
    struct drain drain = {.fd = ends[0], .room = 1000 * 1000};
    assert_int_equal(pthread_create(&reader, NULL, run_drain, &drain), 0);
    journal_stop(desk.journal);
    close(desk.fd);
    desk.fd = -1;
    assert_int_equal(pthread_join(reader, NULL), 0);

    assert_int_equal(read_rows(drain.text, numbers, 1000), 1000);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i + 1);
    free(drain.text);
    close(ends[0]);
    tear_down(&desk);
}

struct poster {
    struct desk *desk;
    uint64_t first;
};

#define POSTS 3000

static void *post_many(void *argument)
{
    const struct poster *poster = argument;

    for (uint64_t i = 0; i < POSTS; i++)
        end_one_when_there_is_room(poster->desk, poster->first + i);
    return NULL;
}

static void threads_at_once_lose_nothing_and_double_nothing(void **state)
{
    (void)state;
    static uint64_t numbers[4 * POSTS];
    static bool seen[4 * POSTS];
    struct desk desk;
    struct poster posters[4];
    pthread_t threads[4];
    uint64_t last[4] = {0};
    set_up(&desk, 500, memory_file()); /* no power of two: ring and table differ */

    for (uint64_t i = 0; i < 4; i++) {
        posters[i] = (struct poster){&desk, i * POSTS};
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    journal_stop(desk.journal);

    char *text = text_of(desk.fd);
    size_t rows = read_rows(text, numbers, 4 * POSTS);
    assert_int_equal(rows, 4 * POSTS);
    for (size_t i = 0; i < rows; i++) {
        uint64_t thread = numbers[i] / POSTS;
        assert_true(numbers[i] < 4 * POSTS && !seen[numbers[i]]);
        seen[numbers[i]] = true;
        assert_true(numbers[i] >= last[thread]); /* each thread's own order is kept */
        last[thread] = numbers[i];
    }
    free(text);
    tear_down(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ended_slot_is_one_row_in_order),
        cmocka_unit_test(without_a_file_rows_are_counted),
        cmocka_unit_test(a_full_disk_keeps_the_slots_until_it_has_room),
        cmocka_unit_test(short_writes_leave_every_row_whole_and_single),
        cmocka_unit_test(threads_at_once_lose_nothing_and_double_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
