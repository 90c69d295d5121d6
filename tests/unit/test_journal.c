/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_journal.c: ended slots into rows on disk (meter/journal.c, scribe.c, posted.c).
 *
 * Promises:  1. Each posted slot is one row, in the order of posting, whatever number of threads
 *               posts; it is free again only when its row is written.
 *            2. Each line says the SHA-256 of the line before, across files too.
 *            3. A file begins with what came before and the balances, and ends with a signed head;
 *               the next one begins at the size or the age that is set.
 *            4. A disk that fails or takes a part loses nothing and doubles nothing; the writer
 * says so and goes on when it can. New work ends while what is under way still fits.
 *            5. A failed sync is the end: nobody is rung, nothing is freed.
 *            6. Who waits for a row is rung once, when it is synced.
 *            7. Who tells anchors hears of each head, and of the newest line once.
 *            8. Without a directory rows are counted.
 *            9. What dead processes left becomes rows before anything else does; what they had
 *               reserved is given back. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/sha.h>

#include "config/base/clock.h"
#include "config/base/span.h"
#include "meter/journal.h"

#define PATIENCE_NS (20 * NS_PER_S) /* for what the writer thread does in a moment */
#define SLOTS_MAX 512u
#define LINES_MAX 16384u

static char home[64], key_path[96], public_path[96];
static char problem[512];

static int start(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    snprintf(home, sizeof(home), "/tmp/tollgate-journal-XXXXXX");
    if (!mkdtemp(home))
        return 1;
    snprintf(key_path, sizeof(key_path), "%s/signing.key", home);
    snprintf(public_path, sizeof(public_path), "%s/signing.pub", home);
    return 0;
}

static int stop(void **state)
{
    char command[128];

    (void)state;
    (void)umount2(home, MNT_DETACH); /* a small disk, where a test had one */
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    return system(command);
}

/* A table, its journal and all that it borrows. */
struct desk {
    struct store store;
    bool has_store;
    struct inflight table;
    struct sign_key *key;
    struct history history;
    struct journal_options options;
    _Atomic(struct meter_wait *) waits[SLOTS_MAX];
    struct journal *journal;
};

static void open_desk(struct desk *desk, uint32_t slots, bool durable, bool has_store)
{
    memset(desk, 0, sizeof(*desk));
    desk->has_store = has_store;
    if (has_store) {
        assert_int_equal(
            store_open(&desk->store, span_of(home), SPAN("g1"), problem, sizeof(problem)), OK);
        assert_int_equal(sign_key_open(key_path, true, &desk->key, problem, sizeof(problem)), OK);
    }
    assert_int_equal(inflight_init(&desk->table, -1, slots, SPAN("g1"), desk->store.epoch), OK);
    desk->options.durable = durable;
    desk->options.segment_bytes = 64 << 20;
    desk->options.segment_age_ms = 3600000;
}

static enum err begin(struct desk *desk)
{
    const struct journal_place place = {
        .store = desk->has_store ? &desk->store : NULL,
        .table = &desk->table,
        .key = desk->key,
        .history = &desk->history,
        .options = &desk->options,
        .waits = desk->options.durable ? desk->waits : NULL,
    };
    const enum err err = journal_start(&place, &desk->journal, problem, sizeof(problem));

    if (desk->has_store)
        store_started(&desk->store);
    return err;
}

static void set_up(struct desk *desk, uint32_t slots, bool durable)
{
    open_desk(desk, slots, durable, true);
    assert_int_equal(begin(desk), OK);
}

static void tear_down(struct desk *desk)
{
    inflight_fini(&desk->table);
    if (desk->has_store)
        store_close(&desk->store);
    sign_key_close(desk->key);
    history_fini(&desk->history);
}

/* Opens and ends an exchange of this number; false when the table is full. */
static bool end_one_for(struct desk *desk, uint64_t number, struct meter_wait *wait)
{
    char id[33];
    snprintf(id, sizeof(id), "%032" PRIx64, number);
    const struct meter_opening opening = {.exchange_id = {id, 32},
                                          .tenant = number % 2 == 0 ? SPAN("even") : SPAN("odd")};
    const struct meter_ending ending = {
        .outcome = OUTCOME_OK, .status = 200, .billable = true, .usage = {.input = 1}};
    struct slot *slot = inflight_open(&desk->table, &opening);

    if (!slot)
        return false;
    inflight_end(slot, &ending, (int64_t)number);
    desk->waits[inflight_index(&desk->table, slot)] = wait;
    journal_post(desk->journal, inflight_index(&desk->table, slot));
    return true;
}

static bool end_one(struct desk *desk, uint64_t number)
{
    return end_one_for(desk, number, NULL);
}

static void end_one_when_there_is_room(struct desk *desk, uint64_t number)
{
    const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;

    while (!end_one(desk, number)) {
        assert_true(clock_now_ns() < until_ns);
        sched_yield();
    }
}

static void await_rows(const struct desk *desk, uint64_t rows)
{
    const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;

    while (journal_rows(desk->journal) < rows && clock_now_ns() < until_ns)
        sched_yield();
    assert_int_equal(journal_rows(desk->journal), rows);
}

static void await(bool (*is_so)(const struct journal *journal), const struct desk *desk, bool so)
{
    const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;

    while (is_so(desk->journal) != so && clock_now_ns() < until_ns)
        sched_yield();
    assert_int_equal(is_so(desk->journal), so);
}

/* ---- reading what was written, in our own way ---- */

struct line {
    struct span text; /* without its newline */
    char file[64];
};

/* All lines of an epoch, its files in the order of their first seq. */
struct lines_read {
    size_t count, files;
    struct line lines[LINES_MAX];
    char *texts[LINES_MAX];
};

static struct lines_read all; /* large: one at a time */

static char *read_file(const char *name)
{
    char path[384];
    struct stat about;
    char *text;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", home, name);
    fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &about), 0);
    text = calloc(1, (size_t)about.st_size + 1);
    assert_non_null(text);
    assert_int_equal(read(fd, text, (size_t)about.st_size), about.st_size);
    close(fd);
    return text;
}

static void take_lines(const char *name)
{
    char *text = read_file(name);

    all.texts[all.files++] = text;
    while (*text) {
        char *newline = strchr(text, '\n');
        assert_non_null(newline); /* no file ends within a line */
        assert_true(all.count < LINES_MAX);
        struct line *line = &all.lines[all.count++];
        line->text = (struct span){text, (size_t)(newline - text)};
        snprintf(line->file, sizeof(line->file), "%s", name);
        text = newline + 1;
    }
}

static unsigned long long number_behind(const struct line *line, const char *field)
{
    const char *at = memmem(line->text.data, line->text.size, field, strlen(field));

    assert_non_null(at);
    return strtoull(at + strlen(field), NULL, 10);
}

/* The file that follows: its name says the seq behind the last line. */
static void read_epoch(uint64_t epoch)
{
    unsigned long long seq = 1;
    char name[64], path[160];

    for (size_t i = 0; i < all.files; i++)
        free(all.texts[i]);
    memset(&all, 0, sizeof(all));
    for (;;) {
        snprintf(name, sizeof(name), "g1-%" PRIu64 "-%llu.jsonl", epoch, seq);
        snprintf(path, sizeof(path), "%s/%s", home, name);
        if (access(path, F_OK) != 0)
            break;
        take_lines(name);
        seq = number_behind(&all.lines[all.count - 1], "\"seq\":") + 1;
    }
    assert_true(all.files > 0);
}

static bool line_has(const struct line *line, const char *text)
{
    return memmem(line->text.data, line->text.size, text, strlen(text)) != NULL;
}

static bool is_kind(const struct line *line, const char *kind)
{
    char field[32];

    snprintf(field, sizeof(field), "\"kind\":\"%s\"", kind);
    return line_has(line, field);
}

static void digest_of(const struct line *line, char out[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)line->text.data, line->text.size, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* seq counts from 1 and each prev is the SHA-256 of the line before, in all files. */
static void assert_chained(void)
{
    char digest[65], field[80];

    memset(digest, '0', 64);
    digest[64] = '\0';
    for (size_t i = 0; i < all.count; i++) {
        assert_int_equal(number_behind(&all.lines[i], "\"seq\":"), i + 1);
        snprintf(field, sizeof(field), ",\"prev\":\"%s\"", digest);
        assert_true(line_has(&all.lines[i], field));
        digest_of(&all.lines[i], digest);
    }
}

/* The numbers of the exchanges, in the order of their rows. Returns how many. */
static size_t numbers_of_calls(uint64_t *out_numbers, size_t room)
{
    static const char field[] = "\"exchange_id\":\"";
    size_t count = 0;

    for (size_t i = 0; i < all.count; i++) {
        if (!is_kind(&all.lines[i], "call"))
            continue;
        const char *at =
            memmem(all.lines[i].text.data, all.lines[i].text.size, field, strlen(field));
        assert_non_null(at);
        assert_true(count < room);
        out_numbers[count++] = strtoull(at + strlen(field), NULL, 16);
    }
    return count;
}

static void assert_calls_are_1_to(uint64_t last)
{
    static uint64_t numbers[LINES_MAX];

    assert_int_equal(numbers_of_calls(numbers, LINES_MAX), last);
    for (uint64_t i = 0; i < last; i++)
        assert_int_equal(numbers[i], i + 1);
}

/* A head whose signature is of all that stands before it. */
static void assert_signed(const struct line *head)
{
    struct verify_key *key = NULL;
    static const char field[] = ",\"signature\":\"";
    const char *at = memmem(head->text.data, head->text.size, field, strlen(field));

    assert_true(is_kind(head, "head"));
    assert_non_null(at);
    assert_int_equal(verify_key_open(public_path, &key, problem, sizeof(problem)), OK);
    assert_true(verify_text(key, (struct span){head->text.data, (size_t)(at - head->text.data)},
                            (struct span){at + strlen(field), SIGN_TEXT_BYTES - 1}));
    verify_key_close(key);
}

/* The descriptor by which the journal has its newest file open. */
static int journal_fd(void)
{
    DIR *listing = opendir("/proc/self/fd");
    int found = -1;

    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        char path[64], target[512];
        snprintf(path, sizeof(path), "/proc/self/fd/%.20s", entry->d_name);
        const ssize_t size = readlink(path, target, sizeof(target) - 1);
        if (size > 0 && memmem(target, (size_t)size, ".jsonl", 6))
            found = (int)strtol(entry->d_name, NULL, 10);
    }
    closedir(listing);
    assert_true(found >= 0);
    return found;
}

/* ---- rows and their chain ---- */

static void each_ended_slot_is_one_row_in_order_and_chained(void **state)
{
    (void)state;
    struct desk desk;
    set_up(&desk, 16, false);

    for (uint64_t number = 1; number <= 100; number++)
        end_one_when_there_is_room(&desk, number);
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_int_equal(all.files, 1);
    assert_int_equal(all.count, 102);
    assert_chained();
    assert_calls_are_1_to(100);
    tear_down(&desk);
}

static void without_a_directory_rows_are_counted(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 4, false, false);
    assert_int_equal(begin(&desk), OK);

    for (uint64_t number = 1; number <= 10; number++)
        end_one_when_there_is_room(&desk, number);
    await_rows(&desk, 10);

    assert_int_equal(journal_posted(desk.journal), 10);
    assert_true(journal_stop(desk.journal));
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
    set_up(&desk, 500, false); /* no power of two: ring and table differ */

    for (uint64_t i = 0; i < 4; i++) {
        posters[i] = (struct poster){&desk, i * POSTS};
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_chained();
    assert_int_equal(numbers_of_calls(numbers, 4 * POSTS), 4 * POSTS);
    for (size_t i = 0; i < 4 * POSTS; i++) {
        const uint64_t thread = numbers[i] / POSTS;
        assert_true(numbers[i] < 4 * POSTS && !seen[numbers[i]]);
        seen[numbers[i]] = true;
        assert_true(numbers[i] >= last[thread]); /* each thread's own order is kept */
        last[thread] = numbers[i];
    }
    tear_down(&desk);
}

/* ---- files ---- */

static void a_file_begins_with_what_came_before_and_ends_signed(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 16, false, true);
    desk.history.before = calloc(1, sizeof(*desk.history.before));
    desk.history.before_count = 1;
    snprintf(desk.history.before[0].file, sizeof(desk.history.before[0].file), "g1-1-1.jsonl");
    desk.history.before[0].seq = 77;
    memset(desk.history.before[0].sha256, 'a', 64);
    assert_int_equal(history_post(&desk.history, SPAN("even"), 1000), OK);
    assert_int_equal(begin(&desk), OK);

    for (uint64_t number = 1; number <= 4; number++)
        assert_true(end_one(&desk, number));
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_int_equal(all.count, 6);
    assert_true(is_kind(&all.lines[0], "open"));
    assert_true(line_has(
        &all.lines[0], "\"before\":[{\"file\":\"g1-1-1.jsonl\",\"seq\":77,\"sha256\":\""
                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}],"
                       "\"balances\":[{\"tenant\":\"even\",\"posted_pusd\":\"1000\",\"rows\":1}]"));
    assert_signed(&all.lines[5]);
    assert_true(line_has(&all.lines[5], "\"first_seq\":1,"));
    tear_down(&desk);
}

static void a_file_of_its_size_is_followed_by_the_next(void **state)
{
    (void)state;
    struct desk desk;
    unsigned long long even = 0, odd = 0;
    char field[256], digest[65];
    size_t opens = 0;
    open_desk(&desk, 4, false, true);
    desk.options.segment_bytes = 4096;
    assert_int_equal(begin(&desk), OK);

    for (uint64_t number = 1; number <= 200; number++)
        end_one_when_there_is_room(&desk, number);
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_true(all.files > 5);
    assert_chained();
    assert_calls_are_1_to(200);
    for (size_t i = 0; i < all.count; i++) {
        const struct line *line = &all.lines[i];
        if (is_kind(line, "call")) {
            *(line_has(line, "\"tenant\":\"even\"") ? &even : &odd) +=
                number_behind(line, "\"cost_pusd\":\"");
            continue;
        }
        if (!is_kind(line, "open"))
            continue;
        opens++;
        if (i == 0)
            continue;
        assert_string_not_equal(line->file, line[-1].file);
        assert_signed(&line[-1]);
        digest_of(&line[-1], digest);
        snprintf(field, sizeof(field),
                 "\"before\":[{\"file\":\"%s\",\"seq\":%zu,\"sha256\":\"%s\"}]", line[-1].file, i,
                 digest);
        assert_true(line_has(line, field));
        snprintf(field, sizeof(field), "\"tenant\":\"even\",\"posted_pusd\":\"%llu\"", even);
        assert_true(line_has(line, field));
        snprintf(field, sizeof(field), "\"tenant\":\"odd\",\"posted_pusd\":\"%llu\"", odd);
        assert_true(line_has(line, field));
    }
    assert_int_equal(opens, all.files);
    assert_int_equal(even + odd, 200 * 201 / 2);
    tear_down(&desk);
}

static void a_file_of_its_age_is_followed_by_the_next_when_it_has_rows(void **state)
{
    (void)state;
    struct desk desk;
    const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
    struct journal_news news = {.head = false};
    open_desk(&desk, 4, false, true);
    desk.options.segment_age_ms = 1;
    assert_int_equal(begin(&desk), OK);

    assert_true(end_one(&desk, 1));
    while (!news.head && clock_now_ns() < until_ns)
        (void)journal_news(desk.journal, &news);
    assert_true(news.head);
    assert_int_equal(news.line.seq, 3);
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    nanosleep(&pause, NULL); /* many ages, without a row */
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_int_equal(all.files, 2);
    assert_int_equal(all.count, 5); /* open, call, head; open, head */
    tear_down(&desk);
}

/* ---- dead processes ---- */

/* A process that dies with two requests: one had ended, one had handed out some tokens. Its table
 * is left as the kernel leaves it. */
static void leave_a_dead_table(void)
{
    static struct desk dead;
    char id[33];
    open_desk(&dead, 4, false, true);
    assert_int_equal(store_create_table(&dead.store, problem, sizeof(problem)), OK);
    inflight_fini(&dead.table);
    assert_int_equal(
        inflight_init(&dead.table, dead.store.table_fd, 4, SPAN("g1"), dead.store.epoch), OK);
    assert_int_equal(store_name_table(&dead.store, problem, sizeof(problem)), OK);
    store_started(&dead.store);
    for (uint64_t number = 1; number <= 2; number++) {
        snprintf(id, sizeof(id), "%032" PRIx64, number);
        const struct meter_opening opening = {
            .exchange_id = {id, 32}, .tenant = SPAN("even"), .endpoint = ENDPOINT_CHAT};
        struct slot *slot = inflight_open(&dead.table, &opening);
        assert_non_null(slot);
        if (number == 1) {
            const struct meter_ending ending = {.status = 200, .billable = true};
            inflight_end(slot, &ending, 30);
        }
    }
    tear_down(&dead);
}

static void what_dead_processes_left_comes_behind_the_open_line(void **state)
{
    (void)state;
    struct desk desk;
    leave_a_dead_table();

    set_up(&desk, 4, false);
    assert_int_equal(journal_recovered(desk.journal), 2);
    assert_int_equal(journal_rows(desk.journal), 0);
    assert_int_equal(desk.history.balance_count, 1);
    assert_int_equal(desk.history.balances[0].posted_pusd, 30);
    assert_true(end_one(&desk, 3));
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_chained();
    assert_int_equal(all.count, 5);
    assert_true(is_kind(&all.lines[0], "open"));
    for (size_t i = 1; i <= 2; i++)
        assert_true(line_has(&all.lines[i], "\"recovered\":\"g1-1\""));
    assert_true(line_has(&all.lines[2], "\"outcome\":\"crash_recovered\""));
    assert_false(line_has(&all.lines[3], "\"recovered\""));
    assert_calls_are_1_to(3);
    tear_down(&desk);
}

static void blocks_that_the_dead_had_reserved_are_given_back(void **state)
{
    (void)state;
    static struct desk desk;
    char dead[160], living[160];
    struct stat before, after;
    for (int i = 0; i < 2; i++) { /* two processes with reserved files; one left its table */
        char *path = i == 0 ? dead : living;
        snprintf(path, sizeof(dead), "%s/g2-%d-1.jsonl", home, i + 1);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, "kept", 4), 4);
        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1 << 20) != 0)
            skip(); /* a filesystem without reserves */
        close(fd);
    }
    snprintf(problem, sizeof(problem), "%s/g2-2.inflight", home);
    const int table = open(problem, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(table, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(stat(dead, &before), 0);
    assert_true(before.st_blocks * 512 >= 1 << 20);

    set_up(&desk, 4, false);
    assert_true(journal_stop(desk.journal));

    assert_int_equal(stat(dead, &after), 0);
    assert_int_equal(after.st_size, 4);
    assert_true(after.st_blocks * 512 < 1 << 20);
    assert_memory_equal(&after.st_mtim, &before.st_mtim, sizeof(before.st_mtim));
    assert_int_equal(stat(living, &after), 0);
    assert_true(after.st_blocks * 512 >= 1 << 20);
    close(table);
    tear_down(&desk);
}

/* ---- the disk ---- */

static void a_file_at_its_limit_keeps_the_slots_until_it_may_grow(void **state)
{
    (void)state;
    struct desk desk;
    struct rlimit before, limit;
    struct stat about;
    set_up(&desk, 4, false);
    assert_int_equal(fstat(journal_fd(), &about), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)about.st_size + 100; /* within the first row */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);

    for (uint64_t number = 1; number <= 4; number++)
        assert_true(end_one(&desk, number));
    await(journal_failing, &desk, true);
    assert_false(end_one(&desk, 5)); /* the table is full: no slot was given up */
    assert_int_equal(journal_rows(desk.journal), 0);
    assert_false(journal_failed(desk.journal));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    end_one_when_there_is_room(&desk, 5);
    await(journal_failing, &desk, false);
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_chained(); /* the row that was cut short goes on where it stopped */
    assert_calls_are_1_to(5);
    tear_down(&desk);
}

static void what_the_disk_does_not_take_stays_in_the_table_at_the_end(void **state)
{
    (void)state;
    struct desk desk;
    set_up(&desk, 4, false);
    const int fd = journal_fd();
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(dup2(full, fd), fd);

    assert_true(end_one(&desk, 1));
    assert_false(journal_stop(desk.journal));

    assert_int_equal(desk.table.slots[0].state, SLOT_ENDED);
    close(full);
    tear_down(&desk);
}

static void a_removed_file_is_no_place_for_rows(void **state)
{
    (void)state;
    struct desk desk;
    char path[160];
    set_up(&desk, 4, false);
    snprintf(path, sizeof(path), "%s/g1-%" PRIu64 "-1.jsonl", home, desk.store.epoch);
    assert_int_equal(unlink(path), 0);

    assert_true(end_one(&desk, 1));
    await(journal_failing, &desk, true);

    assert_false(journal_stop(desk.journal));
    tear_down(&desk);
}

/* Takes all blocks of a small disk, and gives them back. */
static void fill_disk(const char *path)
{
    static const char zeros[4096];
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) > 0) {
    }
    close(fd);
}

static void a_full_disk_ends_new_work_and_what_is_under_way_still_fits(void **state)
{
    (void)state;
    struct desk desk;
    char path[160];
    uint64_t number = 0;
    if (mount("tmpfs", home, "tmpfs", 0, "size=2m") != 0)
        skip(); /* not root */
    snprintf(path, sizeof(path), "%s/filler", home);
    set_up(&desk, 64, false);

    fill_disk(path);
    const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
    while (!journal_full(desk.journal) && clock_now_ns() < until_ns)
        end_one_when_there_is_room(&desk, ++number);
    assert_true(journal_full(desk.journal));
    await_rows(&desk, number);
    for (uint64_t i = 0; i < 32; i++) /* under way when it was said */
        assert_true(end_one(&desk, ++number));
    await_rows(&desk, number);
    assert_false(journal_failing(desk.journal));
    assert_int_equal(unlink(path), 0);
    await(journal_full, &desk, false);
    assert_true(end_one(&desk, ++number));
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    assert_chained();
    assert_calls_are_1_to(number);
    tear_down(&desk);
}

static void a_disk_full_at_the_start_is_said(void **state)
{
    (void)state;
    struct desk desk;
    char path[160];
    if (mount("tmpfs", home, "tmpfs", 0, "size=1m") != 0)
        skip(); /* not root */
    snprintf(path, sizeof(path), "%s/filler", home);
    open_desk(&desk, 64, false, true);
    fill_disk(path);

    assert_int_equal(begin(&desk), ERR_INTERNAL);

    assert_non_null(strstr(problem, strerror(ENOSPC)));
    tear_down(&desk);
}

/* ---- durability ---- */

/* Somebody who waits for a row, and what was known when it was rung. */
struct waiter {
    struct meter_wait wait;
    const struct desk *desk;
    _Atomic uint64_t rung, synced;
};

static void note_ring(struct meter_wait *wait)
{
    struct waiter *waiter = container_of(wait, struct waiter, wait);

    waiter->synced = journal_synced(waiter->desk->journal);
    waiter->rung++;
}

static void who_waits_is_rung_once_when_the_row_is_synced(void **state)
{
    (void)state;
    static struct waiter waiters[SLOTS_MAX];
    struct desk desk;
    set_up(&desk, SLOTS_MAX, true);

    for (uint64_t i = 0; i < SLOTS_MAX; i++) {
        waiters[i] = (struct waiter){.wait.durable = note_ring, .desk = &desk};
        assert_true(end_one_for(&desk, i + 1, i % 3 == 0 ? NULL : &waiters[i].wait));
    }
    await_rows(&desk, SLOTS_MAX);

    for (uint64_t i = 0; i < SLOTS_MAX; i++) {
        assert_int_equal(waiters[i].rung, i % 3 == 0 ? 0 : 1);
        if (i % 3 != 0)
            assert_true(waiters[i].synced >= i + 1);
    }
    assert_int_equal(journal_synced(desk.journal), SLOTS_MAX);
    assert_true(journal_stop(desk.journal));
    tear_down(&desk);
}

static void a_writer_that_sleeps_is_woken(void **state)
{
    (void)state;
    struct desk desk;
    set_up(&desk, 4, true);

    for (uint64_t number = 1; number <= 200; number++) {
        struct waiter waiter = {.wait.durable = note_ring, .desk = &desk};
        const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
        end_one_when_there_is_room(&desk, 1000 + number);
        while (!end_one_for(&desk, number, &waiter.wait))
            sched_yield();
        while (waiter.rung == 0 && clock_now_ns() < until_ns)
            sched_yield();
        assert_int_equal(waiter.rung, 1);
    }

    assert_true(journal_stop(desk.journal));
    tear_down(&desk);
}

static void after_a_failed_sync_nobody_is_rung_and_nothing_freed(void **state)
{
    (void)state;
    struct desk desk;
    struct waiter waiter = {.wait.durable = note_ring, .desk = &desk};
    int ends[2];
    set_up(&desk, 4, true);
    const int fd = journal_fd();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0); /* takes what is written, and cannot be synced */
    assert_int_equal(dup2(ends[1], fd), fd);

    assert_true(end_one_for(&desk, 1, &waiter.wait));
    await(journal_failed, &desk, true);
    assert_true(end_one(&desk, 2));
    assert_false(journal_stop(desk.journal));

    assert_int_equal(waiter.rung, 0);
    assert_int_equal(desk.table.slots[0].state, SLOT_ENDED);
    assert_int_equal(desk.table.slots[1].state, SLOT_ENDED);
    close(ends[0]);
    close(ends[1]);
    tear_down(&desk);
}

static void a_write_error_is_the_end(void **state)
{
    (void)state;
    struct desk desk;
    set_up(&desk, 4, false);
    const int fd = journal_fd();
    const int closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(closed, fd), fd);

    assert_true(end_one(&desk, 1));
    await(journal_failed, &desk, true);

    assert_int_equal(journal_rows(desk.journal), 0);
    assert_false(journal_stop(desk.journal));
    close(closed);
    tear_down(&desk);
}

/* ---- news ---- */

static void each_head_is_news_and_the_newest_line_once(void **state)
{
    (void)state;
    struct desk desk;
    struct journal_news news;
    char digest[65];
    open_desk(&desk, 4, false, true);
    desk.options.segment_bytes = 300; /* a file for each row or two */
    assert_int_equal(begin(&desk), OK);

    assert_true(journal_news(desk.journal, &news));
    assert_int_equal(news.line.seq, 1);
    assert_false(news.head);
    assert_false(journal_news(desk.journal, &news));
    for (uint64_t number = 1; number <= 4; number++)
        assert_true(end_one(&desk, number));
    await_rows(&desk, 4);
    const uint64_t until_ns = clock_now_ns() + PATIENCE_NS;
    bool head = false;
    while (!head && clock_now_ns() < until_ns)
        head = journal_news(desk.journal, &news) && news.head;
    assert_true(head);
    assert_true(journal_stop(desk.journal));

    read_epoch(desk.store.epoch);
    const struct line *line = &all.lines[news.line.seq - 1];
    assert_true(is_kind(line, "head"));
    digest_of(line, digest);
    assert_string_equal(news.line.sha256, digest);
    assert_string_equal(news.line.file, line->file);
    tear_down(&desk);
}

#define IN_HOME(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_HOME(each_ended_slot_is_one_row_in_order_and_chained),
        IN_HOME(without_a_directory_rows_are_counted),
        IN_HOME(threads_at_once_lose_nothing_and_double_nothing),
        IN_HOME(a_file_begins_with_what_came_before_and_ends_signed),
        IN_HOME(a_file_of_its_size_is_followed_by_the_next),
        IN_HOME(a_file_of_its_age_is_followed_by_the_next_when_it_has_rows),
        IN_HOME(what_dead_processes_left_comes_behind_the_open_line),
        IN_HOME(blocks_that_the_dead_had_reserved_are_given_back),
        IN_HOME(a_file_at_its_limit_keeps_the_slots_until_it_may_grow),
        IN_HOME(what_the_disk_does_not_take_stays_in_the_table_at_the_end),
        IN_HOME(a_removed_file_is_no_place_for_rows),
        IN_HOME(a_full_disk_ends_new_work_and_what_is_under_way_still_fits),
        IN_HOME(a_disk_full_at_the_start_is_said),
        IN_HOME(who_waits_is_rung_once_when_the_row_is_synced),
        IN_HOME(a_writer_that_sleeps_is_woken),
        IN_HOME(after_a_failed_sync_nobody_is_rung_and_nothing_freed),
        IN_HOME(a_write_error_is_the_end),
        IN_HOME(each_head_is_news_and_the_newest_line_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
