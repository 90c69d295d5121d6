/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_underway.c: what has no row yet (meter/underway.c).
 *
 * Promises:  1. A request is found by its request, exchange and trace id, in every table.
 *            2. It is told whether its process lives (has its table locked), and whether it has
 *               ended.
 *            3. A table that cannot be read is named; the others are looked through. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/span.h"
#include "meter/books_room.h"
#include "meter/inflight.h"

#define EXCHANGE "0123456789abcdef0123456789abcdef"
#define TRACE "fedcba9876543210fedcba9876543210"
#define ADMITTED_US INT64_C(1761955200000000)

static struct books books;
static char home[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(home, sizeof(home), "/tmp/test_underway.XXXXXX");
    assert_non_null(mkdtemp(home));
    books.directory_fd = open(home, O_RDONLY | O_DIRECTORY);
    return books.directory_fd < 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"g1-1.inflight", "g1-2.inflight", "g2-1.inflight"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)unlinkat(books.directory_fd, names[i], 0);
    close(books.directory_fd);
    return rmdir(home);
}

/* A table of one slot; its file is locked by what comes back. */
static int make_table(const char *name, const char *request_id, bool ended)
{
    const struct meter_opening opening = {.exchange_id = SPAN(EXCHANGE),
                                          .request_id = span_of(request_id),
                                          .trace_id = SPAN(TRACE),
                                          .tenant = SPAN("acme"),
                                          .endpoint = ENDPOINT_CHAT,
                                          .admitted_us = ADMITTED_US};
    const struct meter_ending ending = {.ended_us = ADMITTED_US + 5};
    struct inflight table;
    struct slot *slot;
    const int fd = openat(books.directory_fd, name, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(inflight_init(&table, fd, 16, SPAN("g1"), 1), OK);
    slot = inflight_open(&table, &opening);
    assert_non_null(slot);
    if (ended)
        inflight_end(slot, &ending, 0);
    inflight_fini(&table);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static struct {
    int count;
    enum books_pending_state state;
    char process[16];
} found;

static bool note(void *owner, const struct books_pending *pending)
{
    (void)owner;
    found.count++;
    found.state = pending->state;
    (void)snprintf(found.process, sizeof(found.process), "%.*s", (int)pending->process.size,
                   pending->process.data);
    assert_true(span_equal(pending->exchange_id, SPAN(EXCHANGE)));
    assert_true(span_equal(pending->trace_id, SPAN(TRACE)));
    assert_true(span_equal(pending->tenant, SPAN("acme")));
    assert_true(pending->admitted_us == ADMITTED_US);
    return true;
}

static enum err seek(const char *id)
{
    char problem[256] = "";

    found.count = 0;
    const enum err err = books_pending(&books, span_of(id), note, NULL, problem, sizeof(problem));
    if (err != OK)
        assert_non_null(strstr(problem, "g1-2.inflight"));
    return err;
}

static void a_request_is_found_by_each_of_its_ids(void **state)
{
    static const char *const ids[] = {"r-1", EXCHANGE, TRACE};
    const int fd = make_table("g1-1.inflight", "r-1", false);

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        assert_int_equal(seek(ids[i]), OK);
        assert_int_equal(found.count, 1);
        assert_string_equal(found.process, "g1-1");
    }
    assert_int_equal(seek("r-2"), OK);
    assert_int_equal(found.count, 0);
    assert_int_equal(seek("acme"), OK);
    assert_int_equal(found.count, 0);
    close(fd);
}

static void it_is_told_whether_its_process_lives_and_whether_it_has_ended(void **state)
{
    (void)state;
    int fd = make_table("g1-1.inflight", "r-1", false);

    assert_int_equal(seek("r-1"), OK);
    assert_int_equal(found.state, PENDING_UNDER_WAY);
    close(fd);
    assert_int_equal(seek("r-1"), OK);
    assert_int_equal(found.state, PENDING_LEFT);

    fd = make_table("g1-1.inflight", "r-1", true);
    assert_int_equal(seek("r-1"), OK);
    assert_int_equal(found.state, PENDING_ENDED);
    close(fd);
    assert_int_equal(seek("r-1"), OK);
    assert_int_equal(found.state, PENDING_LEFT);
    fd = openat(books.directory_fd, "g1-1.inflight", O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0); /* who asked has given the lock back */
    close(fd);
}

static void a_table_that_cannot_be_read_hides_no_other(void **state)
{
    (void)state;
    const int first = make_table("g1-1.inflight", "r-1", false);
    const int other = make_table("g2-1.inflight", "r-1", false);
    const int fd = openat(books.directory_fd, "g1-2.inflight", O_WRONLY | O_CREAT, 0600);

    assert_int_equal(write(fd, "no table", 8), 8);
    assert_int_equal(seek("r-1"), ERR_BAD_VALUE);
    assert_int_equal(found.count, 2);
    close(fd);
    close(first);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_found_by_each_of_its_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            it_is_told_whether_its_process_lives_and_whether_it_has_ended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_table_that_cannot_be_read_hides_no_other, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
