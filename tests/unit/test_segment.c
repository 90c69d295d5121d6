/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_segment.c: one file of the journal while it is written (meter/segment.c).
 *
 * Promises:  1. What a full disk or a limit refuses waits; any other error is the end.
 *            2. What was written of a text is not written again.
 *            3. Blocks are reserved beyond the end without moving it, and given back at the end.
 *            4. A failed sync is the end. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/span.h"
#include "meter/segment.h"

static char home[64];

static int start(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/tollgate-segment-XXXXXX");
    return mkdtemp(home) ? 0 : 1;
}

static int stop(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    return system(command);
}

static struct segment segment_of(const char *path, int flags)
{
    struct segment segment;
    const int fd = open(path, flags | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    segment_begin(&segment, fd);
    return segment;
}

static struct segment segment_in_home(void)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/segment", home);
    return segment_of(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND);
}

static int64_t blocks_of(const struct segment *segment)
{
    struct stat about;

    assert_int_equal(fstat(segment->fd, &about), 0);
    return (int64_t)about.st_blocks * 512;
}

static void a_full_disk_waits(void **state)
{
    (void)state;
    struct segment segment = segment_of("/dev/full", O_WRONLY);
    size_t written = 0;

    assert_int_equal(segment_append(&segment, SPAN("line\n"), &written), SEGMENT_WAITS);

    assert_int_equal(errno, ENOSPC);
    assert_int_equal(written, 0);
    segment_end(&segment);
}

static void any_other_error_is_the_end(void **state)
{
    (void)state;
    struct segment segment = segment_of("/dev/null", O_RDONLY);
    size_t written = 0;

    assert_int_equal(segment_append(&segment, SPAN("line\n"), &written), SEGMENT_FAILED);

    segment_end(&segment);
}

static void a_failed_sync_is_the_end(void **state)
{
    (void)state;
    struct segment segment = segment_of("/dev/null", O_WRONLY); /* has nothing to sync: EINVAL */
    size_t written = 0;

    assert_int_equal(segment_append(&segment, SPAN("line\n"), &written), SEGMENT_DONE);
    assert_int_equal(segment_sync(&segment), SEGMENT_FAILED);

    segment_end(&segment);
}

static void what_was_written_is_not_written_again(void **state)
{
    (void)state;
    struct segment segment;
    char text[100000], read_back[sizeof(text)];
    size_t written = 0, size = 0;
    int ends[2];
    memset(text, 'a', sizeof(text));
    memcpy(text + sizeof(text) - 4, "end\n", 4);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0); /* takes 64 KiB, then refuses */
    segment_begin(&segment, ends[1]);
    const struct span all = {text, sizeof(text)};

    assert_int_equal(segment_append(&segment, all, &written), SEGMENT_WAITS);
    assert_true(written > 0 && written < sizeof(text));
    size = (size_t)read(ends[0], read_back, written);
    assert_int_equal(segment_append(&segment, all, &written), SEGMENT_DONE);
    size += (size_t)read(ends[0], read_back + size, sizeof(text) - size);

    assert_int_equal(size, sizeof(text));
    assert_memory_equal(read_back, text, sizeof(text));
    assert_int_equal(segment.bytes, sizeof(text));
    segment_end(&segment);
    close(ends[0]);
}

static void blocks_are_reserved_beyond_the_end_and_given_back(void **state)
{
    (void)state;
    struct segment segment = segment_in_home();
    const int fd = dup(segment.fd);
    struct stat about;
    size_t written = 0;

    assert_int_equal(segment_reserve(&segment, 100000), SEGMENT_DONE);
    if (!segment.can_reserve) {
        segment_end(&segment);
        close(fd);
        skip();
    }
    assert_true(blocks_of(&segment) >= 100000);
    assert_int_equal(segment_append(&segment, SPAN("line\n"), &written), SEGMENT_DONE);
    assert_int_equal(fstat(fd, &about), 0);
    assert_int_equal(about.st_size, 5);
    segment_end(&segment);

    assert_int_equal(fstat(fd, &about), 0);
    assert_int_equal(about.st_size, 5);
    assert_true((int64_t)about.st_blocks * 512 < 100000);
    close(fd);
}

static void the_reserve_stays_ahead_of_what_is_written(void **state)
{
    (void)state;
    static char text[3 << 20];
    struct segment segment = segment_in_home();
    memset(text, 'x', sizeof(text));

    for (int i = 0; i < 5; i++) {
        size_t written = 0;
        assert_int_equal(segment_reserve(&segment, 100000), SEGMENT_DONE);
        if (segment.can_reserve)
            assert_true(segment.reserved_to - segment.bytes >= 100000);
        assert_int_equal(segment_append(&segment, (struct span){text, sizeof(text)}, &written),
                         SEGMENT_DONE);
    }
    segment_end(&segment);
}

static void without_reserves_a_file_is_written_all_the_same(void **state)
{
    (void)state;
    struct segment segment = segment_of("/dev/null", O_WRONLY);
    size_t written = 0;

    assert_int_equal(segment_reserve(&segment, 4096), SEGMENT_DONE);

    assert_false(segment.can_reserve);
    assert_int_equal(segment_append(&segment, SPAN("line\n"), &written), SEGMENT_DONE);
    segment_end(&segment);
}

static void a_removed_file_waits(void **state)
{
    (void)state;
    struct segment segment = segment_in_home();
    char path[128];
    size_t written = 0;
    snprintf(path, sizeof(path), "%s/segment", home);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(segment_append(&segment, SPAN("line\n"), &written), SEGMENT_WAITS);

    assert_int_equal(errno, ENOENT);
    segment_end(&segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_waits),
        cmocka_unit_test(any_other_error_is_the_end),
        cmocka_unit_test(a_failed_sync_is_the_end),
        cmocka_unit_test(what_was_written_is_not_written_again),
        cmocka_unit_test_setup_teardown(blocks_are_reserved_beyond_the_end_and_given_back, start,
                                        stop),
        cmocka_unit_test_setup_teardown(the_reserve_stays_ahead_of_what_is_written, start, stop),
        cmocka_unit_test(without_reserves_a_file_is_written_all_the_same),
        cmocka_unit_test_setup_teardown(a_removed_file_waits, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
