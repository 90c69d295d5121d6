/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_log.c: the promises of config/base/log.h.
 *
 * - Access lines reach the file whole and in order, at the next flush and not before.
 * - "none" wants no line; a path that cannot be opened changes nothing.
 * - After a rotation lines go to a new file of the same name.
 * - A full buffer drops lines and counts them; it never waits.
 * - A pipe that nobody reads does not hold the flush.
 * - Values are escaped as the inside of a JSON string, whatever bytes they have.
 * - What is UTF-8 is told from what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "config/base/span.h"

static char folder[] = "/tmp/tollgate-log-XXXXXX";
static char path[64];
static char moved[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/access.log", folder);
    (void)snprintf(moved, sizeof(moved), "%s/access.log.1", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    if (!log_open("none", LOG_INFO))
        return -1;
    (void)unlink(path);
    (void)unlink(moved);
    return rmdir(folder);
}

/* What a file holds; "" when it is not there. */
static const char *text_of(const char *name)
{
    static char text[4096];
    FILE *file = fopen(name, "r");
    const size_t size = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);

    if (file != NULL)
        (void)fclose(file);
    text[size] = '\0';
    return text;
}

static void lines_reach_the_file_in_order_at_the_flush(void **state)
{
    (void)state;
    (void)unlink(path);
    assert_true(log_open(path, LOG_INFO));
    assert_true(log_access_wanted());
    assert_false(log_access_readable());

    log_access(SPAN("{\"n\":1}\n"));
    log_access(SPAN("{\"n\":2}\n"));
    assert_string_equal(text_of(path), "");
    log_flush();

    assert_string_equal(text_of(path), "{\"n\":1}\n{\"n\":2}\n");
}

static void none_wants_no_line(void **state)
{
    (void)state;
    assert_true(log_open("none", LOG_INFO));

    assert_false(log_access_wanted());
}

static void a_path_that_cannot_be_opened_changes_nothing(void **state)
{
    (void)state;
    (void)unlink(path);
    assert_true(log_open(path, LOG_INFO));

    assert_false(log_open("/nowhere/at/all/access.log", LOG_INFO));

    log_access(SPAN("still here\n"));
    log_flush();
    assert_string_equal(text_of(path), "still here\n");
}

static void a_rotated_file_is_opened_again(void **state)
{
    (void)state;
    (void)unlink(path);
    assert_true(log_open(path, LOG_INFO));
    log_access(SPAN("old\n"));
    log_flush();
    assert_int_equal(rename(path, moved), 0);

    log_reopen();
    log_access(SPAN("new\n"));
    log_flush();

    assert_string_equal(text_of(moved), "old\n");
    assert_string_equal(text_of(path), "new\n");
}

static void a_full_buffer_drops_whole_lines_and_counts_them(void **state)
{
    (void)state;
    static char line[1000];
    const int64_t dropped_before = metric_value(METRIC_log_lines_dropped_total);
    struct stat about;

    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    (void)unlink(path);
    assert_true(log_open(path, LOG_ERROR)); /* the warning about the drop is not for this test */
    for (int i = 0; i < 2000; i++)
        log_access((struct span){line, sizeof(line)});
    log_flush();

    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, 1048000); /* 1048 lines of 1000 bytes fit into 1 MiB */
    assert_int_equal(metric_value(METRIC_log_lines_dropped_total) - dropped_before, 2000 - 1048);
}

static void a_pipe_that_nobody_reads_does_not_hold_the_flush(void **state)
{
    (void)state;
    static char line[1000];
    int ends[2];
    const int saved = dup(STDOUT_FILENO);

    memset(line, 'x', sizeof(line));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fflush(stdout), 0);
    assert_int_not_equal(dup2(ends[1], STDOUT_FILENO), -1);
    assert_true(log_open("stdout", LOG_ERROR));
    for (int i = 0; i < 500; i++)
        log_access((struct span){line, sizeof(line)});
    const uint64_t began_ns = clock_now_ns();
    log_flush();
    log_flush();
    const uint64_t took_ns = clock_now_ns() - began_ns;
    assert_int_not_equal(dup2(saved, STDOUT_FILENO), -1);
    (void)close(saved);
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_true(log_open("none", LOG_INFO));
    log_flush(); /* what was left has nowhere to go any more */

    assert_true(took_ns < 2 * NS_PER_S);
}

static void values_are_escaped_whatever_bytes_they_have(void **state)
{
    (void)state;
    const struct {
        struct span text;
        const char *escaped;
    } cases[] = {
        {SPAN("plain"), "plain"},
        {SPAN("a\"b\\c"), "a\\\"b\\\\c"},
        {SPAN("line\nend\x7f"), "line\\u000aend\\u007f"},
        {SPAN("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f"},
        {SPAN("\xff|\xc3"), "\\ufffd|\\ufffd"},
        {SPAN("\xed\xa0\x80"), "\\ufffd\\ufffd\\ufffd"}, /* a surrogate is no character */
        {SPAN("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80"},
        {SPAN("\xc0\xaf"), "\\ufffd\\ufffd"}, /* '/' spelled too long */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[64];
        const size_t size = log_escape(cases[i].text, out, sizeof(out));

        assert_int_equal(size, strlen(cases[i].escaped));
        assert_memory_equal(out, cases[i].escaped, size);
    }
}

static void an_escape_is_never_cut_in_the_middle(void **state)
{
    (void)state;
    char out[64];

    assert_int_equal(log_escape(SPAN("ab\n"), out, 7), 2);
    assert_int_equal(log_escape(SPAN("ab\n"), out, 8), 8);
    assert_int_equal(log_escape(SPAN("\xf0\x9f\x98\x80"), out, 3), 0);
    assert_int_equal(log_escape(SPAN("ab"), out, 0), 0);
}

static void what_is_utf8_is_told_from_what_is_not(void **state)
{
    (void)state;
    const struct span good[] = {
        {NULL, 0}, SPAN("a\x7f"), SPAN("\xc2\x80"), SPAN("\xed\x9f\xbf"), SPAN("\xf4\x8f\xbf\xbf")};
    /* RFC 3629, section 3: cut, alone, overlong, a surrogate, above U+10FFFF. */
    const struct span bad[] = {SPAN("a\xc3"),        SPAN("\x80"),         SPAN("\xc0\xaf"),
                               SPAN("\xe0\x80\xaf"), SPAN("\xed\xa0\x80"), SPAN("\xf4\x90\x80\x80"),
                               SPAN("\xff")};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(log_is_utf8(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(log_is_utf8(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_reach_the_file_in_order_at_the_flush),
        cmocka_unit_test(none_wants_no_line),
        cmocka_unit_test(a_path_that_cannot_be_opened_changes_nothing),
        cmocka_unit_test(a_rotated_file_is_opened_again),
        cmocka_unit_test(a_full_buffer_drops_whole_lines_and_counts_them),
        cmocka_unit_test(a_pipe_that_nobody_reads_does_not_hold_the_flush),
        cmocka_unit_test(values_are_escaped_whatever_bytes_they_have),
        cmocka_unit_test(an_escape_is_never_cut_in_the_middle),
        cmocka_unit_test(what_is_utf8_is_told_from_what_is_not),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
