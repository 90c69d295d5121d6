/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_store.c: the journal's directory (meter/store.c).
 *
 * Promises:  1. The directory and its parents are made for their owner alone, files too.
 *            2. One holder per gateway name at a time; another name may share the directory.
 *            3. The epoch is larger than any seen of this gateway, whatever files are left.
 *            4. A dead process's table is set aside, never touched or overwritten.
 *            5. A name that cannot be a file's is refused. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "meter/store.h"

/* A directory of one test. */
static char home[64];
static char problem[512];

static int start(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/tollgate-store-XXXXXX");
    problem[0] = '\0';
    return mkdtemp(home) ? 0 : 1;
}

static int stop(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    return system(command);
}

static void touch(const char *name)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", home, name);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "kept", 4), 4);
    close(fd);
}

static mode_t mode_of(const char *name)
{
    char path[256];
    struct stat about;

    snprintf(path, sizeof(path), "%s/%s", home, name);
    return stat(path, &about) == 0 ? about.st_mode & 0777 : 0;
}

static enum err open_as(struct store *store, const char *gateway)
{
    return store_open(store, span_of(home), span_of(gateway), problem, sizeof(problem));
}

static void directory_and_files_are_made_for_their_owner_alone(void **state)
{
    (void)state;
    struct store store;
    char path[128];
    snprintf(path, sizeof(path), "%s/a/b", home);

    assert_int_equal(store_open(&store, span_of(path), SPAN("g1"), problem, sizeof(problem)), OK);
    int journal = store_create_journal(&store, 1, problem, sizeof(problem));
    int table = store_create_table(&store, problem, sizeof(problem));

    assert_true(journal >= 0);
    assert_true(table >= 0);
    assert_int_equal(store.epoch, 1);
    assert_int_equal(mode_of("a"), 0700);
    assert_int_equal(mode_of("a/b"), 0700);
    assert_int_equal(mode_of("a/b/g1.lock"), 0600);
    assert_int_equal(mode_of("a/b/g1-1-1.jsonl"), 0600);
    assert_int_equal(mode_of("a/b/g1-1.inflight"), 0600);
    store_remove_table(&store);
    assert_int_equal(mode_of("a/b/g1-1.inflight"), 0);
    close(journal);
    close(table);
    store_close(&store);
}

static void one_holder_per_name_at_a_time(void **state)
{
    (void)state;
    struct store first, second, other;

    assert_int_equal(open_as(&first, "g1"), OK);
    assert_int_equal(open_as(&second, "g1"), ERR_INTERNAL);
    assert_non_null(strstr(problem, "in use by another running gateway named g1"));
    assert_int_equal(open_as(&other, "g2"), OK);
    store_close(&first);
    assert_int_equal(open_as(&second, "g1"), OK);
    store_close(&second);
    store_close(&other);
}

static void the_epoch_is_larger_than_any_seen_of_this_gateway(void **state)
{
    (void)state;
    struct store store;
    touch("g1-3-1.jsonl");
    touch("g1-12-500.jsonl");
    touch("g1-9.inflight.dead");
    touch("g1-2-77-1.jsonl"); /* of a gateway named g1-2 */
    touch("g10-88-1.jsonl");  /* of one named g10 */
    touch("g1-99-1.jsonl.gz");
    touch("g1-x-1.jsonl");

    assert_int_equal(open_as(&store, "g1"), OK);

    assert_int_equal(store.epoch, 13);
    store_close(&store);
}

static void a_dead_table_is_set_aside(void **state)
{
    (void)state;
    struct store store;
    touch("g1-4.inflight");
    touch("g2-5.inflight"); /* another's: perhaps alive */

    assert_int_equal(open_as(&store, "g1"), OK);

    assert_int_equal(store.epoch, 5);
    assert_int_equal(mode_of("g1-4.inflight"), 0);
    assert_int_equal(mode_of("g1-4.inflight.dead"), 0600);
    assert_int_equal(mode_of("g2-5.inflight"), 0600);
    store_close(&store);
}

static void a_name_that_cannot_be_a_files_is_refused(void **state)
{
    (void)state;
    const char *const names[] = {
        "",    ".hidden", "a/b",
        "a b", "a\n",     "0123456789012345678901234567890123456789012345678901234567890123456789"};
    struct store store;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(open_as(&store, names[i]), ERR_BAD_VALUE);
}

static void a_directory_that_cannot_be_made_is_a_problem_in_words(void **state)
{
    (void)state;
    struct store store;
    char path[128];
    touch("file");
    snprintf(path, sizeof(path), "%s/file/journal", home);

    assert_int_equal(store_open(&store, span_of(path), SPAN("g1"), problem, sizeof(problem)),
                     ERR_INTERNAL);
    assert_non_null(strstr(problem, path));
    assert_non_null(strstr(problem, "Not a directory"));
}

int main(void)
{
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        STORE_TEST(directory_and_files_are_made_for_their_owner_alone),
        STORE_TEST(one_holder_per_name_at_a_time),
        STORE_TEST(the_epoch_is_larger_than_any_seen_of_this_gateway),
        STORE_TEST(a_dead_table_is_set_aside),
        STORE_TEST(a_name_that_cannot_be_a_files_is_refused),
        STORE_TEST(a_directory_that_cannot_be_made_is_a_problem_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
