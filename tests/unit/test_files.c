/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_files.c: the journal's files, read (meter/files.c).
 *
 * Promises:  1. A name says gateway, epoch and first seq, whatever the gateway is called; others
 *               are none of ours.
 *               Printed names are read back as what they were made of.
 *            2. Files come by gateway, epoch and first seq, as numbers.
 *            3. Lines are whole or torn; zeros with a line behind them are part of it.
 *            4. A line's hash is that of its bytes without the newline. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "meter/files.h"

/* A directory of one test. */
static char home[64];
static int home_fd;
static char problem[512];

static int start(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/tollgate-files-XXXXXX");
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

static void put(const char *name, const char *text, size_t bytes)
{
    const int fd = openat(home_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
}

static void assert_name(const char *name, const char *gateway, uint64_t epoch, uint64_t first_seq)
{
    struct journal_file file;

    assert_true(files_parse_name(name, &file));
    assert_string_equal(file.name, name);
    assert_string_equal(file.gateway, gateway);
    assert_int_equal(file.epoch, epoch);
    assert_int_equal(file.first_seq, first_seq);
}

static void a_name_says_gateway_epoch_and_first_seq(void **state)
{
    (void)state;
    assert_name("g1-7-1.jsonl", "g1", 7, 1);
    assert_name("g1-2-77-500.jsonl", "g1-2", 77, 500);
    assert_name("eu-west-1-3.inflight", "eu-west-1", 3, 0);
    assert_name("g.1-3.inflight.dead", "g.1", 3, 0);
    assert_name("g1-3.inflight.damaged", "g1", 3, 0);
    assert_name("g1-9223372036854775807-1.jsonl", "g1", INT64_MAX, 1);
}

static void other_names_are_none_of_ours(void **state)
{
    (void)state;
    static const char *const names[] = {"g1.lock",
                                        "signing.key",
                                        "ledger.sqlite",
                                        "g1-7.jsonl",
                                        "g1-7-1.jsonl.gz",
                                        "g1-x-1.jsonl",
                                        "g1-7-.jsonl",
                                        "-7-1.jsonl",
                                        "7-1.jsonl",
                                        "g1-07-1.jsonl",
                                        "g1-7-99999999999999999999.jsonl",
                                        ".g1-7.new",
                                        ".jsonl",
                                        ""};
    struct journal_file file;
    char longest[NAME_MAX + 1] = "";

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_false(files_parse_name(names[i], &file));
    memset(longest, 'g', 65);
    memcpy(longest + 65, "-7-1.jsonl", 11);
    assert_false(files_parse_name(longest, &file));
    assert_true(files_parse_name(longest + 1, &file));
}

static void files_come_in_the_order_of_their_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"g1-2-1.jsonl", "g1-2-9.jsonl", "g1-2-10.jsonl",
                                        "g1-10-1.jsonl", "g2-1-1.jsonl"};
    struct journal_file *files = NULL;
    size_t count = 0;
    for (size_t i = 5; i-- > 0;)
        put(names[i], "12345", i + 1);
    put("g1-3.inflight", "", 0);
    put("README", "", 0);
    assert_int_equal(mkdirat(home_fd, "g1-99-1.jsonl", 0700), 0);

    assert_int_equal(files_list(home_fd, &files, &count, problem, sizeof(problem)), OK);

    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(files[i].name, names[i]);
        assert_int_equal(files[i].bytes, i + 1);
        assert_true(files[i].modified_us > 0);
    }
    free(files);
}

static void an_empty_directory_has_no_files(void **state)
{
    (void)state;
    struct journal_file *files = NULL;
    size_t count = 9;

    assert_int_equal(files_list(home_fd, &files, &count, problem, sizeof(problem)), OK);
    assert_int_equal(count, 0);
    free(files);
    assert_int_equal(files_list(-1, &files, &count, problem, sizeof(problem)), ERR_INTERNAL);
    assert_non_null(strstr(problem, "journal directory"));
}

/* What is read of a text from an offset on: its lines with | behind each, then E or T. */
static void assert_lines(struct span text, size_t at, struct span expected)
{
    char seen[256] = "";
    size_t end = 0;
    struct lines lines;
    struct span line;
    enum line_state line_state;

    put("f", text.data, text.size);
    assert_int_equal(lines_open(home_fd, "f", at, &lines), OK);
    while ((line_state = lines_next(&lines, &line)) == LINE_WHOLE) {
        memcpy(seen + end, line.data, line.size);
        end += line.size;
        seen[end++] = '|';
    }
    seen[end++] = line_state == LINE_END ? 'E' : 'T';
    assert_int_equal(lines_next(&lines, &line), line_state); /* it stays so */
    assert_int_equal(end, expected.size);
    assert_memory_equal(seen, expected.data, end);
    lines_close(&lines);
    lines_close(&lines);
}

static void lines_are_whole_or_torn(void **state)
{
    (void)state;
    assert_lines(SPAN(""), 0, SPAN("E"));
    assert_lines(SPAN("a\nbc\n"), 0, SPAN("a|bc|E"));
    assert_lines(SPAN("a\nbc\n"), 2, SPAN("bc|E"));
    assert_lines(SPAN("a\nbc"), 0, SPAN("a|T"));
    assert_lines(SPAN("a\n\0\0\0"), 0, SPAN("a|T"));
    assert_lines(SPAN("a\nb\0\0"), 0, SPAN("a|T"));
    assert_lines(SPAN("a\n\0\0"
                      "c\nd"),
                 0,
                 SPAN("a|\0\0"
                      "c|T"));
    assert_lines(SPAN("\n"), 0, SPAN("|E"));
}

static void a_reader_beyond_the_end_finds_nothing(void **state)
{
    (void)state;
    struct lines lines;
    struct span line;

    put("f", "a\n", 2);
    assert_int_equal(lines_open(home_fd, "f", 99, &lines), OK);
    assert_int_equal(lines_next(&lines, &line), LINE_END);
    lines_close(&lines);
    assert_int_equal(lines_open(home_fd, "none", 0, &lines), ERR_INTERNAL);
}

static void a_lines_hash_is_that_of_its_bytes(void **state)
{
    (void)state;
    char digest[65];

    line_hash((struct span){"abc", 3}, digest);
    /* FIPS 180-2, appendix B.1 */
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void a_printed_name_is_read_back(void **state)
{
    (void)state;
    char name[NAME_MAX + 1];

    files_print_name(SPAN("g1-2"), INT64_MAX, 500, name);
    assert_string_equal(name, "g1-2-9223372036854775807-500.jsonl");
    assert_name(name, "g1-2", INT64_MAX, 500);
    files_print_table_name(SPAN("eu-west-1"), 3, name);
    assert_string_equal(name, "eu-west-1-3.inflight");
    assert_name(name, "eu-west-1", 3, 0);
}

int main(void)
{
#define FILES_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_says_gateway_epoch_and_first_seq),
        cmocka_unit_test(a_printed_name_is_read_back),
        cmocka_unit_test(other_names_are_none_of_ours),
        FILES_TEST(files_come_in_the_order_of_their_numbers),
        FILES_TEST(an_empty_directory_has_no_files),
        FILES_TEST(lines_are_whole_or_torn),
        FILES_TEST(a_reader_beyond_the_end_finds_nothing),
        cmocka_unit_test(a_lines_hash_is_that_of_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
