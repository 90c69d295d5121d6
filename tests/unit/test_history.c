/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_history.c: what a new file says of those before it (meter/history.c).
 *
 * Promises:  1. Balances are those of the newest open line and of the rows behind it and behind the
 *               lines that it names; nothing counts twice, whoever overlaps, rotates or dies.
 *            2. The last line of each epoch that wrote since is named; of other gateways too, whose
 *               rows are theirs to count.
 *            3. A torn end is fine; damage with whole lines behind it is an error with its place.
 *            4. What stands in tags is never taken for the row's own. */
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
#include "meter/files.h"
#include "meter/history.h"

/* A directory of one test. */
static char home[64];
static int home_fd;
static char problem[512];

static int start(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/tollgate-history-XXXXXX");
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

static void append(const char *name, const char *text, size_t bytes)
{
    const int fd = openat(home_fd, name, O_WRONLY | O_CREAT | O_APPEND, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
}

/* A process that writes. */
struct writer {
    const char *gateway;
    uint64_t epoch, seq; /* seq: of the next line */
    char file[96];
    char prev[65]; /* of the line last written */
    struct row_author author;
    struct history history;
    bool has_own_before;
};

static void begin(struct writer *writer, const char *gateway, uint64_t epoch)
{
    *writer = (struct writer){.gateway = gateway, .epoch = epoch, .seq = 1};
    row_author_init(&writer->author, span_of(gateway), epoch);
    memset(writer->prev, '0', 64);
}

static void put_line(struct writer *writer, const char *line, size_t bytes)
{
    append(writer->file, line, bytes);
    line_hash((struct span){line, bytes - 1}, writer->prev);
    writer->seq++;
}

static struct row_link link_of(const struct writer *writer)
{
    return (struct row_link){.seq = writer->seq, .prev = writer->prev};
}

static void begin_file(struct writer *writer)
{
    snprintf(writer->file, sizeof(writer->file), "%s-%llu-%llu.jsonl", writer->gateway,
             (unsigned long long)writer->epoch, (unsigned long long)writer->seq);
}

/* A file with its open line, at a moment. */
static void put_open(struct writer *writer, int64_t at_us)
{
    const struct history *history = &writer->history;
    const struct row_link link = link_of(writer);
    char *line = malloc(row_open_bytes_max(history->before_count, history->balance_count));

    assert_non_null(line);
    begin_file(writer);
    put_line(writer, line,
             row_render_open(&writer->author, &link, at_us, history->before, history->before_count,
                             history->balances, history->balance_count, line));
    free(line);
}

static void put_charge(struct writer *writer, const char *tenant, int64_t pusd)
{
    const struct row_adjust adjust = {.tenant = span_of(tenant), .cost_pusd = pusd};
    const struct row_link link = link_of(writer);
    char line[ROW_BYTES_MAX];

    put_line(writer, line, row_render_adjust(&writer->author, &link, &adjust, line));
    if (writer->history.before)
        assert_int_equal(history_post(&writer->history, adjust.tenant, pusd), OK);
}

static struct row_before last_of(const struct writer *writer)
{
    struct row_before last = {.seq = writer->seq - 1};

    snprintf(last.file, sizeof(last.file), "%s", writer->file);
    memcpy(last.sha256, writer->prev, sizeof(last.sha256));
    return last;
}

static void assert_names(const struct history *history, size_t at, const struct writer *writer)
{
    const struct row_before last = last_of(writer);

    assert_true(at < history->before_count);
    assert_string_equal(history->before[at].file, last.file);
    assert_int_equal(history->before[at].seq, last.seq);
    assert_string_equal(history->before[at].sha256, last.sha256);
}

static int64_t balance_of(const struct history *history, const char *tenant)
{
    for (size_t i = 0; i < history->balance_count; i++) {
        if (span_equal(history->balances[i].tenant, span_of(tenant)))
            return (int64_t)history->balances[i].posted_pusd;
    }
    return -1;
}

static void read_as(const char *gateway, struct history *history)
{
    if (history_read(home_fd, span_of(gateway), history, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
}

/* A process of g1 starts as meter.c does. */
static void live(struct writer *writer, uint64_t epoch)
{
    begin(writer, "g1", epoch);
    read_as("g1", &writer->history);
    put_open(writer, clock_wall_us());
}

static void an_empty_directory_has_no_history(void **state)
{
    (void)state;
    struct history history;

    read_as("g1", &history);
    assert_int_equal(history.before_count, 0);
    assert_int_equal(history.balance_count, 0);
    history_fini(&history);
    history_fini(&history);
}

static void charges_add_up_by_tenant_in_order(void **state)
{
    (void)state;
    struct history history = {.before = NULL};
    static const char *const tenants[] = {"b", "a", "ab", "c", "a"};
    static const char *const expected[] = {"a", "ab", "b", "c"};

    for (int i = 0; i < 5; i++)
        assert_int_equal(history_post(&history, span_of(tenants[i]), 10 + i), OK);
    assert_int_equal(history.balance_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(span_equal(history.balances[i].tenant, span_of(expected[i])));
    assert_int_equal(balance_of(&history, "a"), 25);
    assert_int_equal(history.balances[0].rows, 2);
    history_fini(&history);
}

static void a_balance_may_be_larger_than_64_bits(void **state)
{
    (void)state;
    struct writer first, second;

    live(&first, 1);
    for (int i = 0; i < 3; i++)
        put_charge(&first, "acme", INT64_MAX);
    live(&second, 2);
    assert_true(second.history.balances[0].posted_pusd == 3 * (money_sum)INT64_MAX);
    history_fini(&second.history);
    read_as("g1", &second.history); /* read back from the open line */
    assert_true(second.history.balances[0].posted_pusd == 3 * (money_sum)INT64_MAX);
    assert_int_equal(second.history.balances[0].rows, 3);
    history_fini(&first.history);
    history_fini(&second.history);
}

static void rows_behind_the_newest_open_line_are_added(void **state)
{
    (void)state;
    struct writer first, second, third;

    live(&first, 1);
    put_charge(&first, "acme", 100);
    live(&second, 2);
    assert_int_equal(balance_of(&second.history, "acme"), 100);
    assert_names(&second.history, 0, &first);
    put_charge(&second, "acme", 7);
    put_charge(&second, "zeta", -3);
    live(&third, 3);
    assert_int_equal(balance_of(&third.history, "acme"), 107);
    assert_int_equal(balance_of(&third.history, "zeta"), -3);
    assert_int_equal(third.history.before_count, 1); /* the first one ended and is counted */
    assert_names(&third.history, 0, &second);
    history_fini(&first.history);
    history_fini(&second.history);
    history_fini(&third.history);
}

static void an_epoch_that_goes_on_beside_its_successor_is_counted_once(void **state)
{
    (void)state;
    struct writer old, young, next;

    append("g1-1.inflight", "", 0); /* alive */
    live(&old, 1);
    put_charge(&old, "acme", 100);
    live(&young, 2);
    put_charge(&old, "acme", 20);
    put_open(&old, clock_wall_us()); /* its next file */
    put_charge(&old, "acme", 3);
    put_charge(&young, "acme", 4000);
    live(&next, 3);
    assert_int_equal(balance_of(&next.history, "acme"), 4123);
    assert_int_equal(next.history.before_count, 2);
    assert_names(&next.history, 0, &young);
    assert_names(&next.history, 1, &old);
    history_fini(&old.history);
    history_fini(&young.history);
    history_fini(&next.history);
}

static void an_epoch_that_may_write_again_stays_named(void **state)
{
    (void)state;
    struct writer idle, second, third, fourth;

    append("g1-1.inflight", "", 0);
    live(&idle, 1);
    live(&second, 2);
    live(&third, 3); /* nothing was written by the first since it was named */
    assert_int_equal(third.history.before_count, 2);
    put_charge(&idle, "acme", 5);
    live(&fourth, 4);
    assert_int_equal(balance_of(&fourth.history, "acme"), 5);
    history_fini(&idle.history);
    history_fini(&second.history);
    history_fini(&third.history);
    history_fini(&fourth.history);
}

static void a_process_that_never_came_to_its_open_line_is_passed_over(void **state)
{
    (void)state;
    struct writer first, next;

    live(&first, 1);
    put_charge(&first, "acme", 100);
    append("g1-2-1.jsonl", "{\"v\":2,\"gatew", 13);
    append("g1-3-1.jsonl", "\0\0\0\0", 4);
    append("g1-4-1.jsonl", "", 0);
    append("g1-5-1.jsonl", "{\"v\":2,\"gatew\n", 14); /* its middle never came to the disk */
    live(&next, 6);
    assert_int_equal(balance_of(&next.history, "acme"), 100);
    assert_int_equal(next.history.before_count, 1);
    assert_names(&next.history, 0, &first);
    history_fini(&first.history);
    history_fini(&next.history);
}

static void a_torn_end_is_no_row(void **state)
{
    (void)state;
    static const struct span ends[] = {{"{\"v\":2,\"gateway\":\"g1\"", 21},
                                       {"\0\0\0", 3},
                                       {"{\"v\":2\0\0", 9},
                                       {"\0\0\0\"}\n", 6}};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct writer first, next;
        struct row_before last;
        live(&first, 2 * i + 1);
        put_charge(&first, "acme", 1);
        last = last_of(&first);
        append(first.file, ends[i].data, ends[i].size);
        live(&next, 2 * i + 2);
        assert_int_equal(balance_of(&next.history, "acme"), i + 1);
        assert_string_equal(next.history.before[0].sha256, last.sha256);
        history_fini(&first.history);
        history_fini(&next.history);
    }
}

static void damage_with_lines_behind_it_is_an_error_with_its_place(void **state)
{
    (void)state;
    struct writer writer;
    struct history history;
    struct stat about;
    char expected[128];

    live(&writer, 1);
    put_charge(&writer, "acme", 1);
    assert_int_equal(fstatat(home_fd, writer.file, &about, 0), 0);
    append(writer.file, "{\"v\":2,\"gateway\":\"g1\"\n", 22);
    put_charge(&writer, "acme", 1);

    assert_int_equal(history_read(home_fd, SPAN("g1"), &history, problem, sizeof(problem)),
                     ERR_BAD_VALUE);

    snprintf(expected, sizeof(expected), "g1-1-1.jsonl, byte %lld: ", (long long)about.st_size);
    assert_non_null(strstr(problem, expected));
    history_fini(&writer.history);
}

static void files_from_before_there_were_open_lines_are_counted_whole(void **state)
{
    (void)state;
    static const char row[] =
        "{\"v\":1,\"gateway\":\"g1\",\"epoch\":1,\"seq\":%d,\"kind\":\"call\","
        "\"tenant\":\"acme\",\"outcome\":\"ok\",\"billable\":true,"
        "\"cost_pusd\":\"%d\"}\n";
    struct writer next;
    char line[512];

    for (int seq = 1; seq <= 3; seq++)
        append("g1-1-1.jsonl", line, (size_t)snprintf(line, sizeof(line), row, seq, 10 * seq));
    live(&next, 2);
    assert_int_equal(balance_of(&next.history, "acme"), 60);
    assert_int_equal(next.history.before_count, 1);
    assert_int_equal(next.history.before[0].seq, 3);
    history_fini(&next.history);
}

static void what_stands_in_tags_is_not_the_rows_own(void **state)
{
    (void)state;
    struct writer writer;
    struct history history;
    struct inflight table;
    char line[ROW_BYTES_MAX];
    const struct meter_opening opening = {
        .exchange_id = SPAN("x1"),
        .tenant = SPAN("ac\"me"),
        .tags_json = SPAN("{\"tenant\":\"evil\",\"cost_pusd\":\"999\",\"seq\":\"1\"}"),
        .model_asked = SPAN("\",\"cost_pusd\":\"888\",\"x\":\""),
    };
    const struct meter_ending ending = {.usage = USAGE_UNKNOWN, .unit_cost_pusd = -1};
    assert_int_equal(inflight_init(&table, -1, 1, SPAN("g1"), 1), OK);
    struct slot *slot = inflight_open(&table, &opening);
    inflight_end(slot, &ending, 42);
    live(&writer, 1);
    const struct row_link link = link_of(&writer);
    put_line(&writer, line,
             row_render(&writer.author, &link, slot, NULL, (struct span){NULL, 0}, line));

    read_as("g1", &history);

    assert_int_equal(history.balance_count, 1);
    assert_int_equal(balance_of(&history, "ac\"me"), 42);
    inflight_fini(&table);
    history_fini(&history);
    history_fini(&writer.history);
}

static void others_are_named_and_not_counted(void **state)
{
    (void)state;
    struct writer own, other, stale, next;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

    begin(&other, "g2", 1);
    begin_file(&other);
    put_charge(&other, "acme", 1000);
    begin(&stale, "g1-2", 5); /* a gateway of that name */
    begin_file(&stale);
    put_charge(&stale, "acme", 1000);
    live(&own, 1);
    assert_int_equal(own.history.before_count, 2);
    put_charge(&own, "acme", 1);
    put_charge(&other, "acme", 1000);
    append(other.file, "{\"torn", 6);
    assert_int_equal(utimensat(home_fd, stale.file, long_ago, 0), 0);

    live(&next, 2);

    assert_int_equal(balance_of(&next.history, "acme"), 1);
    assert_int_equal(next.history.before_count, 2);
    assert_names(&next.history, 0, &own);
    assert_names(&next.history, 1, &other);
    history_fini(&own.history);
    history_fini(&next.history);
}

static void at_most_so_many_are_named_the_youngest_first(void **state)
{
    (void)state;
    struct writer next;

    for (uint64_t epoch = 1; epoch <= HISTORY_BEFORE_MAX + 3; epoch++) {
        struct writer other;
        begin(&other, "g2", epoch);
        begin_file(&other);
        put_charge(&other, "acme", 1);
    }
    live(&next, 1);
    assert_int_equal(next.history.before_count, HISTORY_BEFORE_MAX);
    history_fini(&next.history);
}

/* ---- any order of events ---- */

#define WRITERS 4u

static uint32_t drawn(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* As scribe.c does: its own last line comes first. */
static void rotate(struct writer *writer)
{
    struct history *history = &writer->history;

    if (!writer->has_own_before) {
        assert_true(history->before_count < HISTORY_BEFORE_MAX);
        memmove(history->before + 1, history->before,
                history->before_count * sizeof(*history->before));
        history->before_count++;
        writer->has_own_before = true;
    }
    history->before[0] = last_of(writer);
    put_open(writer, clock_wall_us());
}

static void name_of_table(const struct writer *writer, char name[64])
{
    snprintf(name, 64, "g1-%llu.inflight", (unsigned long long)writer->epoch);
}

static void nothing_counts_twice_whoever_overlaps_rotates_or_dies(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 8; round++) {
        struct writer writers[WRITERS];
        bool alive[WRITERS] = {false};
        uint64_t seed = round, epoch = 100 * round;
        struct history history;
        int64_t charged = 0;
        char name[64];

        read_as("g1", &history); /* what the rounds before left */
        charged = history.balance_count > 0 ? balance_of(&history, "acme") : 0;
        history_fini(&history);
        for (int turn = 0; turn < 120; turn++) {
            struct writer *writer = &writers[drawn(&seed, WRITERS)];
            bool *lives = &alive[writer - writers];
            const uint32_t event = drawn(&seed, 10);
            if (!*lives) {
                live(writer, ++epoch);
                name_of_table(writer, name);
                append(name, "", 0);
                *lives = true;
                assert_int_equal(
                    writer->history.balance_count > 0 ? balance_of(&writer->history, "acme") : 0,
                    charged);
            } else if (event < 7) {
                put_charge(writer, "acme", turn + 1);
                charged += turn + 1;
            } else if (event == 7) {
                rotate(writer);
            } else {
                name_of_table(writer, name); /* dead, and recovered */
                assert_int_equal(unlinkat(home_fd, name, 0), 0);
                if (event == 8)
                    append(writer->file, "{\"torn", 6);
                history_fini(&writer->history);
                *lives = false;
            }
        }
        for (size_t i = 0; i < WRITERS; i++) {
            name_of_table(&writers[i], name);
            if (alive[i])
                assert_int_equal(unlinkat(home_fd, name, 0), 0);
            if (alive[i])
                history_fini(&writers[i].history);
        }
    }
}

int main(void)
{
#define HISTORY_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(an_empty_directory_has_no_history),
        cmocka_unit_test(charges_add_up_by_tenant_in_order),
        HISTORY_TEST(a_balance_may_be_larger_than_64_bits),
        HISTORY_TEST(rows_behind_the_newest_open_line_are_added),
        HISTORY_TEST(an_epoch_that_goes_on_beside_its_successor_is_counted_once),
        HISTORY_TEST(an_epoch_that_may_write_again_stays_named),
        HISTORY_TEST(a_process_that_never_came_to_its_open_line_is_passed_over),
        HISTORY_TEST(a_torn_end_is_no_row),
        HISTORY_TEST(damage_with_lines_behind_it_is_an_error_with_its_place),
        HISTORY_TEST(files_from_before_there_were_open_lines_are_counted_whole),
        HISTORY_TEST(what_stands_in_tags_is_not_the_rows_own),
        HISTORY_TEST(others_are_named_and_not_counted),
        HISTORY_TEST(at_most_so_many_are_named_the_youngest_first),
        HISTORY_TEST(nothing_counts_twice_whoever_overlaps_rotates_or_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
