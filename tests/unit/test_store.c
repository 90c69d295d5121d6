/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_store.c: the journal's directory (meter/store.c).
 *
 * Promises:  1. The directory and its parents are made for their owner alone, files too.
 *            2. One process of a name starts at a time; once it has started others may.
 *            3. The epoch is larger than any seen of this gateway, whatever files are left.
 *            4. A table has its name only once it is locked, and whoever gets the lock of a named
 *               one knows that its process is dead; each dead one is handed out once.
 *            5. A name that cannot be a file's is refused. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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
    char path[128], name[NAME_MAX + 1];
    snprintf(path, sizeof(path), "%s/b", home);

    assert_int_equal(store_open(&store, span_of(path), SPAN("g1"), problem, sizeof(problem)), OK);
    int journal = store_create_journal(&store, 1, problem, sizeof(problem));
    assert_int_equal(store_create_table(&store, problem, sizeof(problem)), OK);

    assert_true(journal >= 0);
    assert_int_equal(store.epoch, 1);
    assert_int_equal(mode_of("b"), 0700);
    assert_int_equal(mode_of("b/g1.lock"), 0600);
    store_journal_name(&store, 1, name);
    assert_string_equal(name, "g1-1-1.jsonl");
    assert_int_equal(mode_of("b/g1-1-1.jsonl"), 0600);
    assert_int_equal(mode_of("b/g1-1.inflight"), 0);
    assert_int_equal(store_name_table(&store, problem, sizeof(problem)), OK);
    assert_int_equal(mode_of("b/g1-1.inflight"), 0600);
    store_remove_table(&store);
    assert_int_equal(mode_of("b/g1-1.inflight"), 0);
    close(journal);
    store_close(&store);
}

static void a_file_is_made_once(void **state)
{
    (void)state;
    struct store store;

    assert_int_equal(open_as(&store, "g1"), OK);
    int journal = store_create_journal(&store, 1, problem, sizeof(problem));
    assert_true(journal >= 0);
    assert_int_equal(store_create_journal(&store, 1, problem, sizeof(problem)), -1);
    assert_non_null(strstr(problem, "g1-1-1.jsonl"));
    close(journal);
    store_close(&store);
}

/* Gives the start lock back a moment after it was asked for. */
static void *start_a_little_later(void *argument)
{
    usleep(50000);
    store_started(argument);
    return NULL;
}

static void a_process_waits_while_another_of_its_name_starts_and_runs_beside_it_then(void **state)
{
    (void)state;
    struct store first, second, other;
    pthread_t thread;

    assert_int_equal(open_as(&first, "g1"), OK);
    assert_int_equal(open_as(&other, "g2"), OK); /* of another name: at once */
    assert_int_equal(store_create_table(&first, problem, sizeof(problem)), OK);
    assert_int_equal(store_name_table(&first, problem, sizeof(problem)), OK);
    assert_int_equal(pthread_create(&thread, NULL, start_a_little_later, &first), 0);
    assert_int_equal(open_as(&second, "g1"), OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(first.epoch, 1);
    assert_int_equal(second.epoch, 2); /* the first one's was claimed by then */
    assert_int_equal(other.epoch, 1);
    store_remove_table(&first);
    store_close(&first);
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

/* Its rows could not be read, and its table would be nobody's. */
static void there_is_no_epoch_behind_the_last(void **state)
{
    (void)state;
    struct store store;
    touch("g1-9223372036854775807-1.jsonl");

    assert_int_equal(open_as(&store, "g1"), ERR_INTERNAL);
    assert_non_null(strstr(problem, "the last epoch"));
    assert_int_equal(open_as(&store, "g2"), OK);
    store_close(&store);
}

/* A process that dies in the midst of what it was doing: its descriptors are closed, no more. */
static void die(struct store *store)
{
    close(store->directory_fd);
    close(store->table_fd);
    store_started(store);
}

static void live_with_table(struct store *store, const char *gateway)
{
    assert_int_equal(open_as(store, gateway), OK);
    assert_int_equal(store_create_table(store, problem, sizeof(problem)), OK);
    assert_int_equal(store_name_table(store, problem, sizeof(problem)), OK);
    store_started(store);
}

static void tables_of_the_dead_are_handed_out_once_and_those_of_the_living_never(void **state)
{
    (void)state;
    struct store alive, dead[3], ours;
    char name[NAME_MAX + 1], names[3][NAME_MAX + 1];
    uint64_t cursor = 0, other_cursor = 0;
    int fds[3], found[3] = {0};
    live_with_table(&dead[0], "g1");
    live_with_table(&dead[1], "g1");
    live_with_table(&dead[2], "g2");
    live_with_table(&alive, "g1");
    for (int i = 0; i < 3; i++)
        die(&dead[i]);
    touch("g1-9-1.jsonl");
    touch("g1-8.inflight.dead");
    live_with_table(&ours, "g1");

    for (int i = 0; i < 3; i++) {
        fds[i] = store_next_dead_table(&ours, &cursor, names[i]);
        assert_true(fds[i] >= 0);
        found[0] += strcmp(names[i], "g1-1.inflight") == 0;
        found[1] += strcmp(names[i], "g1-2.inflight") == 0;
        found[2] += strcmp(names[i], "g2-1.inflight") == 0;
    }

    for (int i = 0; i < 3; i++)
        assert_int_equal(found[i], 1);
    assert_int_equal(store_next_dead_table(&ours, &cursor, name), -1);
    /* Locked by us, they are nobody else's. */
    assert_int_equal(store_next_dead_table(&alive, &other_cursor, name), -1);
    store_bury_table(&ours, names[0], fds[0]);
    assert_int_equal(mode_of(names[0]), 0);
    store_set_table_aside(&ours, names[1], fds[1]);
    assert_int_equal(mode_of(names[1]), 0);
    snprintf(name, sizeof(name), "%.200s.damaged", names[1]);
    assert_int_equal(mode_of(name), 0600);
    close(fds[2]); /* not done: the next one tries again */
    other_cursor = 0;
    fds[2] = store_next_dead_table(&alive, &other_cursor, name);
    assert_true(fds[2] >= 0);
    assert_string_equal(name, names[2]);
    close(fds[2]);
    store_close(&ours);
    store_close(&alive);
}

static void a_table_that_has_no_name_yet_is_nobodys(void **state)
{
    (void)state;
    struct store first, second;
    char name[NAME_MAX + 1];
    uint64_t cursor = 0;
    assert_int_equal(open_as(&first, "g1"), OK);
    assert_int_equal(store_create_table(&first, problem, sizeof(problem)), OK);
    die(&first);

    assert_int_equal(open_as(&second, "g1"), OK);

    assert_int_equal(store_next_dead_table(&second, &cursor, name), -1);
    assert_int_equal(second.epoch, 1); /* nothing was ever written under it */
    assert_int_equal(store_create_table(&second, problem, sizeof(problem)), OK);
    assert_int_equal(mode_of(".g1-1.new"), 0600);
    store_close(&second); /* a start that fails leaves nothing */
    assert_int_equal(mode_of(".g1-1.new"), 0);
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

/* It may be mistyped, or on a disk that is not mounted. */
static void a_parent_that_is_not_there_is_not_made(void **state)
{
    (void)state;
    struct store store;
    char path[128];
    snprintf(path, sizeof(path), "%s/a/b", home);

    assert_int_equal(store_open(&store, span_of(path), SPAN("g1"), problem, sizeof(problem)),
                     ERR_INTERNAL);
    assert_non_null(strstr(problem, path));
    assert_non_null(strstr(problem, "No such file or directory (the folder that it is in)"));
    assert_int_equal(mode_of("a"), 0);
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
        STORE_TEST(a_parent_that_is_not_there_is_not_made),
        STORE_TEST(a_file_is_made_once),
        STORE_TEST(a_process_waits_while_another_of_its_name_starts_and_runs_beside_it_then),
        STORE_TEST(the_epoch_is_larger_than_any_seen_of_this_gateway),
        STORE_TEST(there_is_no_epoch_behind_the_last),
        STORE_TEST(tables_of_the_dead_are_handed_out_once_and_those_of_the_living_never),
        STORE_TEST(a_table_that_has_no_name_yet_is_nobodys),
        STORE_TEST(a_name_that_cannot_be_a_files_is_refused),
        STORE_TEST(a_directory_that_cannot_be_made_is_a_problem_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
