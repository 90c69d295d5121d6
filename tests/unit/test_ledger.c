/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_ledger.c: the journal as tables to ask (meter/ledger*.c, meter/books.c).
 *
 * Promises:  1. Rows come in once, however often the journal is fed, from where they were left.
 *            2. Sums of money and tokens are exact past 64 bits.
 *            3. Roll-ups and rows say the same, at any edge of a period.
 *            4. Damage halts its file, with file and offset; other files go on.
 *            5. A broken chain is damage.
 *            6. Two feeders: one feeds, the other has nothing to do.
 *            7. A ledger made anew has the same totals, rows of deleted files included.
 *            8. Rows are found by request, exchange, trace and row id, with what corrects them.
 *            9. Waste is summed by model, replica and cause.
 *           10. Tags are grouped by the value of one of them.
 *           11. A ledger that cannot be written falls behind by every row; what was rolled back is
 *               not counted.
 *           12. A ledger takes rows of its journal alone, wherever that lies: told by content.
 *           13. A damaged ledger is set aside, never deleted, and made anew; who had it open goes
 *               on with the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meter/books_room.h"
#include "meter/files.h"
#include "meter/ledger_store.h"
#include "meter/record.h"

#define QUARTER_US INT64_C(900000000)
#define START_US (INT64_C(1790000000) / 900 * 900 * 1000000) /* a quarter begins */
#define NO_PREV "0000000000000000000000000000000000000000000000000000000000000000"
#define ALWAYS ((struct period){0, INT64_MAX})

static char directory[64];

static void path_of(const char *name, char out[160])
{
    (void)snprintf(out, 160, "%s/%s", directory, name);
}

static int make_directory(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof(directory), "/tmp/test_ledger_XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[96];

    (void)snprintf(command, sizeof(command), "rm -r '%s'", directory);
    return system(command);
}

/* ---- a journal ---- */

struct journal_text {
    char name[64];
    const char *gateway;
    uint64_t epoch, seq; /* of the last line */
    char prev[65];
};

static struct journal_text begin_epoch(const char *gateway, uint64_t epoch)
{
    struct journal_text journal = {.gateway = gateway, .epoch = epoch, .prev = NO_PREV};

    (void)snprintf(journal.name, sizeof(journal.name), "%s-%" PRIu64 "-1.jsonl", gateway, epoch);
    return journal;
}

static void append(const char *name, const char *text)
{
    char path[160];
    FILE *file;

    path_of(name, path);
    file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A line of this kind with these fields, chained. Returns its seq. */
static uint64_t write_line(struct journal_text *journal, const char *kind, const char *fields)
{
    char line[4096];
    const int size =
        snprintf(line, sizeof(line),
                 "{\"v\":2,\"gateway\":\"%s\",\"epoch\":%" PRIu64 ",\"seq\":%" PRIu64
                 ",\"kind\":\"%s\"%s,\"prev\":\"%s\"}",
                 journal->gateway, journal->epoch, journal->seq + 1, kind, fields, journal->prev);

    journal->seq++;
    line_hash((struct span){line, (size_t)size}, journal->prev);
    line[size] = '\n';
    line[size + 1] = '\0';
    append(journal->name, line);
    return journal->seq;
}

struct call {
    const char *tenant, *model, *replica, *request, *trace, *tags, *more;
    int64_t admitted_us, input, output, cost_pusd;
};

static uint64_t write_call(struct journal_text *journal, struct call call)
{
    char fields[2048];

    (void)snprintf(fields, sizeof(fields),
                   ",\"exchange_id\":\"x-%s-%" PRIu64 "-%" PRIu64 "\",\"request_id\":\"%s\","
                   "\"trace_id\":\"%s\",\"tenant\":\"%s\",\"key\":\"web\",\"tags\":%s,"
                   "\"stream\":false,\"model\":\"%s\",\"replica\":\"%s\",\"attempts\":1,"
                   "\"input\":%" PRId64 ",\"output\":%" PRId64 ",\"source\":\"reported\","
                   "\"outcome\":\"ok\",\"status\":200,\"billable\":true,\"cost_pusd\":\"%" PRId64
                   "\",\"unit_cost_pusd\":\"3\",\"admitted_us\":%" PRId64 ",\"sent_us\":%" PRId64
                   ",\"ended_us\":%" PRId64 ",\"bytes_in\":7,\"bytes_out\":9%s",
                   journal->gateway, journal->epoch, journal->seq + 1,
                   call.request ? call.request : "r", call.trace ? call.trace : "t",
                   call.tenant ? call.tenant : "acme", call.tags ? call.tags : "{}",
                   call.model ? call.model : "small", call.replica ? call.replica : "s1",
                   call.input, call.output, call.cost_pusd, call.admitted_us, call.admitted_us,
                   call.admitted_us + 1000, call.more ? call.more : "");
    return write_line(journal, "call", fields);
}

static void begin_file(struct journal_text *journal)
{
    (void)snprintf(journal->name, sizeof(journal->name), "%s-%" PRIu64 "-%" PRIu64 ".jsonl",
                   journal->gateway, journal->epoch, journal->seq + 1);
    (void)write_line(journal, "open", ",\"at_us\":1,\"before\":[],\"balances\":[]");
}

/* ---- asking ---- */

static struct books *open_books(void)
{
    struct config config = {.journal = span_of(directory)};
    struct books *books = NULL;
    char problem[512] = "";

    if (books_open(&config, &books, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    return books;
}

/* Feeds, expecting this many rows. */
static void feed(struct books *books, int64_t expected)
{
    char problem[512] = "";
    int64_t rows = -1;

    if (books_feed(books, INT64_MAX, &rows, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    assert_int_equal(rows, expected);
}

#define LINES_MAX 64

struct answer {
    size_t count;
    struct books_line lines[LINES_MAX];
    char by[LINES_MAX][BOOKS_BY_MAX][160];
};

static bool keep_line(void *owner, const struct books_line *line)
{
    struct answer *answer = owner;

    assert_true(answer->count < LINES_MAX);
    for (size_t i = 0; i < BOOKS_BY_MAX; i++)
        (void)snprintf(answer->by[answer->count][i], 160, "%.*s", (int)line->by[i].size,
                       line->by[i].size > 0 ? line->by[i].data : "");
    answer->lines[answer->count++] = *line;
    return true;
}

static void usage(struct books *books, const struct books_ask *ask, struct answer *answer)
{
    char problem[512] = "";

    answer->count = 0;
    if (books_usage(books, ask, keep_line, answer, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
}

static struct books_line total(struct books *books, struct period period)
{
    const struct books_ask ask = {.period = period};
    struct answer answer;

    usage(books, &ask, &answer);
    if (answer.count == 0)
        return (struct books_line){.calls = 0};
    assert_int_equal(answer.count, 1);
    return answer.lines[0];
}

static bool keep_seq(void *owner, const struct record *record, struct span line)
{
    char *seqs = owner;

    assert_true(line.size > 0);
    (void)snprintf(seqs + strlen(seqs), 128 - strlen(seqs), "%" PRIu64 "/%" PRIu64 " ",
                   record->epoch, record->seq);
    return true;
}

/* The rows that are found, as "epoch/seq epoch/seq ". */
static void rows_are(struct books *books, struct span tenant, const struct period *period,
                     const char *id, const char *expected)
{
    char seqs[128] = "";
    char problem[512] = "";

    if (books_rows(books, tenant, period, span_of(id), keep_seq, seqs, problem, sizeof(problem)) !=
        OK)
        fail_msg("%s", problem);
    assert_string_equal(seqs, expected);
}

static const struct span anybody = {NULL, 0};

/* ---- feeding ---- */

static void rows_come_in_once(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    struct books_line line;

    begin_file(&journal);
    (void)write_call(
        &journal,
        (struct call){.admitted_us = START_US, .input = 10, .output = 5, .cost_pusd = 100});
    books = open_books();
    feed(books, 1);
    feed(books, 0);
    (void)write_call(
        &journal, (struct call){.admitted_us = START_US, .input = 1, .output = 2, .cost_pusd = 7});
    append(journal.name, "{\"v\":2,\"gatew"); /* being written */
    feed(books, 1);
    assert_int_equal(books_behind(books), 0);
    books_close(books);

    books = open_books();
    feed(books, 0);
    line = total(books, ALWAYS);
    assert_int_equal(line.calls, 2);
    assert_int_equal(line.billed_calls, 2);
    assert_int_equal(line.failed_calls, 0);
    assert_int_equal(line.usage.input, 11);
    assert_int_equal(line.usage.output, 7);
    assert_int_equal(line.usage.reasoning, 0);
    assert_true(line.cost_pusd == 107);
    assert_true(line.own_cost_pusd == 3 * 18);
    assert_int_equal(line.own_cost_calls, 2);
    assert_int_equal(line.busy_us, 2000);
    assert_int_equal(line.bytes_in, 14);
    assert_int_equal(line.bytes_out, 18);
    books_close(books);
}

/* A ledger that forgot how far it was takes nothing twice. */
static void a_row_that_is_there_is_not_counted_again(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    char path[160];
    sqlite3 *db;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 100});
    books = open_books();
    feed(books, 1);
    path_of("ledger.db", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM files", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    feed(books, 0);
    assert_true(total(books, ALWAYS).cost_pusd == 100);
    books_close(books);
}

static void at_most_so_many_rows_come_in(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    char problem[512];
    struct books *books;
    int64_t rows = 0;

    begin_file(&journal);
    for (int i = 0; i < 10; i++)
        (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    books = open_books();
    assert_int_equal(books_feed(books, 4, &rows, problem, sizeof(problem)), OK);
    assert_int_equal(rows, 4);
    assert_int_equal(books_behind(books), 8); /* six rows, the second file's open line and row */
    assert_int_equal(total(books, ALWAYS).calls, 4);
    feed(books, 7);
    assert_int_equal(books_behind(books), 0);
    books_close(books);
}

/* More than one transaction, more than one part of everything. */
static void many_rows_come_in(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    struct books_line line;

    begin_file(&journal);
    for (int i = 0; i < 20000; i++) {
        char tenant[16];
        (void)snprintf(tenant, sizeof(tenant), "t%d", i % 7);
        (void)write_call(&journal, (struct call){.tenant = tenant,
                                                 .admitted_us = START_US + i * INT64_C(1000000),
                                                 .input = i,
                                                 .cost_pusd = i});
    }
    books = open_books();
    feed(books, 20000);
    line = total(books, ALWAYS);
    assert_int_equal(line.calls, 20000);
    assert_int_equal(line.usage.input, 199990000);
    assert_true(line.cost_pusd == 199990000);
    line = total(books, (struct period){START_US + 500000, START_US + 7 * QUARTER_US + 1});
    assert_int_equal(line.calls, 6300); /* seconds 1 … 6300 */
    assert_int_equal(line.usage.input, 19848150);
    books_close(books);
}

/* ---- sums ---- */

static void sums_are_exact_past_64_bits(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    money_sum expected = 0;
    char path[160];
    sqlite3_stmt *floats;
    sqlite3 *db;

    begin_file(&journal);
    for (int i = 0; i < 5; i++) {
        (void)write_call(&journal,
                         (struct call){.admitted_us = START_US, .cost_pusd = INT64_MAX - i});
        expected += INT64_MAX - i;
    }
    books = open_books();
    feed(books, 5);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = INT64_MAX});
    expected += INT64_MAX;
    feed(books, 1);
    assert_true(total(books, ALWAYS).cost_pusd == expected);
    books_close(books);

    path_of("ledger.db", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT count(*), sum(typeof(cost_pusd) = 'integer')"
                                        " FROM sums",
                                        -1, &floats, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(floats), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(floats, 0), 6);
    assert_int_equal(sqlite3_column_int(floats, 1), 6);
    (void)sqlite3_finalize(floats);
    (void)sqlite3_close(db);
}

static void tokens_past_64_bits_are_summed(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;

    begin_file(&journal);
    for (int i = 0; i < 3; i++)
        (void)write_call(&journal, (struct call){.admitted_us = START_US + i * QUARTER_US,
                                                 .input = INT64_MAX,
                                                 .output = i});
    books = open_books();
    feed(books, 3);
    assert_true(total(books, ALWAYS).usage.input == (money_sum)3 * INT64_MAX);
    assert_int_equal(total(books, ALWAYS).usage.output, 3);
    books_close(books);
}

static void adjusts_count_in_cost(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    struct books_line line;
    char fields[256];

    begin_file(&journal);
    (void)write_call(&journal,
                     (struct call){.admitted_us = START_US, .input = 10, .cost_pusd = 100});
    (void)snprintf(fields, sizeof(fields),
                   ",\"adjusts\":\"g1/1/2\",\"tenant\":\"acme\",\"input\":-4,"
                   "\"cost_pusd\":\"-40\",\"admitted_us\":%" PRId64 ",\"at_us\":5",
                   START_US);
    (void)write_line(&journal, "adjust", fields);
    books = open_books();
    feed(books, 2);
    line = total(books, ALWAYS);
    assert_int_equal(line.calls, 1);
    assert_int_equal(line.usage.input, 6);
    assert_true(line.cost_pusd == 60);
    assert_true(line.adjusted_pusd == -40);
    assert_int_equal(line.failed_calls, 0);
    books_close(books);
}

static void roll_ups_and_rows_say_the_same(void **state)
{
    (void)state;
    static const int64_t edges[] = {0,
                                    1,
                                    QUARTER_US - 1,
                                    QUARTER_US,
                                    QUARTER_US + 1,
                                    3 * QUARTER_US,
                                    4 * QUARTER_US + 5,
                                    9 * QUARTER_US};
    struct journal_text journal = begin_epoch("g1", 1);
    const size_t count = sizeof(edges) / sizeof(edges[0]);
    struct books *books;

    begin_file(&journal);
    for (size_t i = 0; i < count; i++)
        for (int64_t near = -1; near <= 1; near++)
            (void)write_call(&journal, (struct call){.admitted_us = START_US + edges[i] + near,
                                                     .input = 1,
                                                     .cost_pusd = 10 + near});
    books = open_books();
    feed(books, (int64_t)(3 * count));
    for (size_t a = 0; a < count; a++) {
        for (size_t b = a; b < count; b++) {
            const struct period period = {START_US + edges[a], START_US + edges[b]};
            const struct books_ask by_rows = {.period = period, .by = {BY_STREAM}, .by_count = 1};
            const struct books_line rolled = total(books, period);
            struct answer answer;

            usage(books, &by_rows, &answer);
            if (answer.count == 0)
                answer.lines[0] = (struct books_line){.calls = 0};
            assert_int_equal(rolled.calls, answer.lines[0].calls);
            assert_true(rolled.cost_pusd == answer.lines[0].cost_pusd);
        }
    }
    books_close(books);
}

static void lines_come_by_bucket_and_column(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books_ask ask = {.period = {START_US, START_US + 8 * QUARTER_US},
                            .zone = zone_utc(),
                            .bucketed = true,
                            .bucket = PERIOD_HOUR,
                            .by = {BY_MODEL, BY_TENANT},
                            .by_count = 2};
    const int64_t hour_us = START_US - START_US % (4 * QUARTER_US);
    struct answer answer;
    struct books *books;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.tenant = "b",
                                             .model = "x",
                                             .admitted_us = hour_us + 4 * QUARTER_US,
                                             .cost_pusd = 1});
    (void)write_call(&journal, (struct call){.tenant = "a",
                                             .model = "y",
                                             .admitted_us = hour_us + 5 * QUARTER_US,
                                             .cost_pusd = 2});
    (void)write_call(&journal, (struct call){.tenant = "a",
                                             .model = "x",
                                             .admitted_us = hour_us + 6 * QUARTER_US,
                                             .cost_pusd = 4});
    (void)write_call(&journal, (struct call){.tenant = "b",
                                             .model = "x",
                                             .admitted_us = hour_us + 7 * QUARTER_US,
                                             .cost_pusd = 8});
    books = open_books();
    feed(books, 4);
    ask.period = (struct period){hour_us, hour_us + 8 * QUARTER_US};
    usage(books, &ask, &answer);
    assert_int_equal(answer.count, 3);
    assert_string_equal(answer.by[0][0], "x");
    assert_string_equal(answer.by[0][1], "a");
    assert_string_equal(answer.by[1][1], "b");
    assert_true(answer.lines[1].cost_pusd == 9);
    assert_int_equal(answer.lines[1].bucket_us, hour_us + 4 * QUARTER_US);
    assert_string_equal(answer.by[2][0], "y");

    ask.filters[0] = (struct books_filter){BY_TENANT, SPAN("a")};
    ask.filter_count = 1;
    ask.bucketed = false;
    usage(books, &ask, &answer);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.lines[0].bucket_us, INT64_MIN);

    ask.bucket_us = 60000000; /* minutes come from rows */
    usage(books, &ask, &answer);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.lines[0].bucket_us, hour_us + 5 * QUARTER_US);
    books_close(books);
}

static void tags_are_grouped_by_one_of_them(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    const struct books_ask ask = {
        .period = ALWAYS, .by = {BY_TAGS}, .by_count = 1, .tag = SPAN("team")};
    struct answer answer;
    struct books *books;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.tags = "{\"team\":\"a\\u0062\",\"n\":\"1\"}",
                                             .admitted_us = START_US,
                                             .cost_pusd = 1});
    (void)write_call(&journal, (struct call){.tags = "{\"n\":\"2\",\"team\":\"ab\"}",
                                             .admitted_us = START_US,
                                             .cost_pusd = 2});
    (void)write_call(&journal,
                     (struct call){.tags = "{}", .admitted_us = START_US, .cost_pusd = 4});
    books = open_books();
    feed(books, 3);
    usage(books, &ask, &answer);
    assert_int_equal(answer.count, 2);
    assert_string_equal(answer.by[0][0], "");
    assert_null(answer.lines[0].by[0].data);
    assert_string_equal(answer.by[1][0], "ab");
    assert_true(answer.lines[1].cost_pusd == 3);
    books_close(books);
}

static void waste_is_summed_by_cause(void **state)
{
    (void)state;
    static const char wasted[] = ",\"wasted\":[{\"replica\":\"s2\",\"cause\":\"reset\",\"input\":5,"
                                 "\"output\":1},{\"replica\":\"s3\",\"cause\":\"timeout\"}]";
    struct journal_text journal = begin_epoch("g1", 1);
    const struct period period = ALWAYS;
    struct answer answer = {.count = 0};
    char problem[512];
    struct books *books;

    begin_file(&journal);
    for (int i = 0; i < 2; i++)
        (void)write_call(&journal, (struct call){.admitted_us = START_US, .more = wasted});
    books = open_books();
    feed(books, 2);
    assert_int_equal(books_waste(books, &period, keep_line, &answer, problem, sizeof(problem)), OK);
    assert_int_equal(answer.count, 2);
    assert_string_equal(answer.by[0][0], "small");
    assert_string_equal(answer.by[0][1], "s2");
    assert_string_equal(answer.by[0][2], "reset");
    assert_int_equal(answer.lines[0].calls, 2);
    assert_int_equal(answer.lines[0].wasted.input, 10);
    assert_int_equal(answer.lines[0].wasted.output, 2);
    assert_true(answer.lines[0].own_cost_pusd == 36);
    assert_string_equal(answer.by[1][2], "timeout");
    assert_int_equal(answer.lines[1].wasted.input, 0);
    assert_int_equal(total(books, ALWAYS).wasted.input, 10);
    books_close(books);
}

/* ---- damage ---- */

/* Feeds, expecting damage that is told so. */
static void feed_finds(struct books *books, int64_t expected, const char *says)
{
    char problem[512] = "";
    int64_t rows = -1;

    assert_int_equal(books_feed(books, INT64_MAX, &rows, problem, sizeof(problem)), ERR_BAD_VALUE);
    assert_int_equal(rows, expected);
    if (!strstr(problem, says))
        fail_msg("expected '%s' in '%s'", says, problem);
}

static void damage_halts_its_file_alone(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct journal_text other = begin_epoch("g2", 1);
    struct books *books;
    struct stat about;
    char path[160];
    char place[64];

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    path_of(journal.name, path);
    assert_int_equal(stat(path, &about), 0);
    append(journal.name, "{\"v\":2,\"gateway\":\"g1\",\"epoch\":1,\"seq\":3,\"kind\":\"c@ll\"}\n");
    journal.seq++;
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 2});
    begin_file(&other);
    (void)write_call(&other, (struct call){.admitted_us = START_US, .cost_pusd = 4});
    books = open_books();
    (void)snprintf(place, sizeof(place), "g1-1-1.jsonl: byte %lld: ", (long long)about.st_size);
    feed_finds(books, 2, place);
    feed_finds(books, 0, place);
    assert_true(total(books, ALWAYS).cost_pusd == 5);
    assert_int_equal(books_behind(books), 2);
    books_close(books);
}

static void a_broken_chain_is_damage(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    journal.prev[5] = journal.prev[5] == '0' ? '1' : '0';
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 2});
    books = open_books();
    feed_finds(books, 1, "the chain is broken");
    books_close(books);
}

static void a_chain_goes_on_in_the_next_file(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;

    begin_file(&journal);
    (void)write_line(&journal, "head", ",\"at_us\":1");
    begin_file(&journal);
    (void)write_line(&journal, "head", ",\"at_us\":1");
    books = open_books();
    feed(books, 0);
    journal.prev[7] = journal.prev[7] == '0' ? '1' : '0';
    begin_file(&journal);
    feed_finds(books, 0, "g1-1-5.jsonl: byte 0: the chain is broken");
    books_close(books);
}

static void a_missing_or_foreign_line_is_damage(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct journal_text foreign = begin_epoch("g2", 9);
    struct books *books;

    begin_file(&journal);
    journal.seq++;
    (void)write_call(&journal, (struct call){.admitted_us = START_US});
    books = open_books();
    feed_finds(books, 0, "seq 3 where 2 is due");
    books_close(books);
    (void)snprintf(foreign.name, sizeof(foreign.name), "a0-1-1.jsonl");
    (void)write_call(&foreign, (struct call){.admitted_us = START_US});
    books = open_books();
    feed_finds(books, 0, "a0-1-1.jsonl: byte 0: a line of another epoch");
    books_close(books);
}

static void nothing_stands_behind_a_head(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;

    begin_file(&journal);
    (void)write_line(&journal, "head", ",\"at_us\":1");
    (void)write_call(&journal, (struct call){.admitted_us = START_US});
    books = open_books();
    feed_finds(books, 0, "a line behind the head");
    books_close(books);
}

static void a_file_that_shrank_is_damage(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    char path[160];

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US});
    books = open_books();
    feed(books, 1);
    path_of(journal.name, path);
    assert_int_equal(truncate(path, 20), 0);
    feed_finds(books, 0, "the file ends before what was read of it");
    books_close(books);
}

/* ---- many at once ---- */

static void a_second_feeder_has_nothing_to_do(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    char path[160];
    int fd;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    books = open_books();
    path_of("ledger.db.lock", path);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    feed(books, 0);
    assert_int_equal(books_behind(books), 2); /* but it sees that there is more */
    close(fd);
    feed(books, 1);
    books_close(books);
}

static void two_feed_by_turns(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *a = open_books();
    struct books *b = open_books();

    begin_file(&journal);
    for (int i = 0; i < 6; i++) {
        char tenant[16];
        (void)snprintf(tenant, sizeof(tenant), "t%d", i / 2);
        (void)write_call(&journal,
                         (struct call){.tenant = tenant, .admitted_us = START_US, .cost_pusd = 1});
        feed(i % 2 == 0 ? a : b, 1);
    }
    assert_int_equal(total(a, ALWAYS).calls, 6);
    rows_are(b, SPAN("t1"), &ALWAYS, NULL, "1/4 1/5 ");
    books_close(a);
    books_close(b);
}

/* ---- a ledger that cannot be written ---- */

static void what_cannot_be_written_is_behind(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    char problem[512] = "";
    struct books *books;
    char path[160];
    int64_t rows = -1;
    sqlite3 *db;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    books = open_books();
    feed(books, 1);
    path_of("ledger.db", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int64_t more = 1; more <= 2; more++) {
        (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
        assert_int_equal(books_feed(books, INT64_MAX, &rows, problem, sizeof(problem)),
                         ERR_INTERNAL);
        assert_non_null(strstr(problem, "locked"));
        assert_int_equal(rows, 0);
        assert_int_equal(books_behind(books), more);
    }
    (void)sqlite3_close(db);
    feed(books, 2);
    assert_int_equal(books_behind(books), 0);
    books_close(books);
}

/* As a full disk does it: in the middle of a transaction. */
static void what_was_rolled_back_is_not_counted(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    char problem[512] = "";
    struct books *books;
    int64_t rows = -1;

    begin_file(&journal);
    for (int i = 0; i < 9000; i++)
        (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    books = open_books();
    assert_int_equal(sqlite3_exec(books->ledger->db,
                                  "CREATE TEMP TRIGGER full BEFORE INSERT ON main.rows WHEN"
                                  " NEW.id & 16383 = 8900 BEGIN SELECT RAISE(ABORT, 'full'); END",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(books_feed(books, INT64_MAX, &rows, problem, sizeof(problem)), ERR_INTERNAL);
    assert_int_equal(rows, 8192); /* one batch went in, the second did not */
    assert_int_equal(total(books, ALWAYS).calls, rows);
    assert_int_equal(books_behind(books), 9000 - rows);
    books_close(books);
}

/* ---- whose ledger it is ---- */

static char ledger_at[160];

/* The books of this journal with the ledger beside all. problem: why not. */
static enum err open_journal(const char *name, struct books **out_books, char problem[1024])
{
    static char path[160];
    struct config config = {.ledger_line = 0};

    path_of(name, path);
    path_of("ledger.sqlite", ledger_at);
    config.file = SPAN("gate.yaml");
    config.journal = span_of(path);
    config.journal_line = 7;
    config.ledger = span_of(ledger_at);
    config.ledger_line = 8;
    problem[0] = '\0';
    *out_books = NULL;
    return books_open(&config, out_books, problem, 1024);
}

/* One epoch with so many calls, in a folder of its own. */
static void write_journal_in(const char *name, int calls, int64_t cost_pusd)
{
    struct journal_text journal = begin_epoch("g1", 1);
    char path[160];

    path_of(name, path);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(journal.name, sizeof(journal.name), "%s/g1-1-1.jsonl", name);
    (void)write_line(&journal, "open", ",\"at_us\":1,\"before\":[],\"balances\":[]");
    for (int i = 0; i < calls; i++)
        (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = cost_pusd});
}

static void fed_from(const char *name)
{
    char problem[1024];
    struct books *books;

    if (open_journal(name, &books, problem) != OK)
        fail_msg("%s", problem);
    assert_int_equal(books_feed(books, INT64_MAX, NULL, problem, sizeof(problem)), OK);
    books_close(books);
}

static void another_journal_is_refused(void **state)
{
    (void)state;
    char problem[1024], path[160];
    struct books *books;

    write_journal_in("journal", 2, 5);
    write_journal_in("jounal", 3, 6); /* files of the same names */
    path_of("empty", path);
    assert_int_equal(mkdir(path, 0700), 0);
    fed_from("journal");
    static const char *const others[] = {"jounal", "empty"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open_journal(others[i], &books, problem), ERR_BAD_VALUE);
        assert_ptr_equal(strstr(problem, "gate.yaml:7: meter.journal: "), problem);
        path_of(others[i], path);
        assert_non_null(strstr(problem, path));
        path_of("journal", path);
        assert_non_null(strstr(problem, path));
        assert_non_null(strstr(problem, ledger_at));
        assert_non_null(strstr(problem, "tollgate ledger rebuild"));
    }
    fed_from("journal");
}

static void a_journal_that_was_moved_is_known(void **state)
{
    (void)state;
    char from[160], to[160];

    write_journal_in("journal", 2, 5);
    fed_from("journal");
    path_of("journal", from);
    path_of("moved", to);
    assert_int_equal(rename(from, to), 0);
    fed_from("moved");
    /* A new one in the old place is none of its own. */
    write_journal_in("journal", 1, 6);
    char problem[1024];
    struct books *books;
    assert_int_equal(open_journal("journal", &books, problem), ERR_BAD_VALUE);
    assert_non_null(strstr(problem, to));
}

static void a_journal_is_known_by_what_retention_left(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    char path[160], head[1024], problem[1024];
    struct books *books;
    int size;

    write_journal_in("journal", 0, 0);
    (void)snprintf(journal.name, sizeof(journal.name), "journal/g1-2-1.jsonl");
    journal.epoch = 2;
    size = snprintf(head, sizeof(head),
                    "{\"v\":2,\"gateway\":\"g1\",\"epoch\":2,\"seq\":1,\"kind\":\"head\","
                    "\"at_us\":1,\"first_seq\":1,\"prev\":\"" NO_PREV "\"}\n");
    append(journal.name, head);
    fed_from("journal");
    path_of(journal.name, path);
    assert_int_equal(unlink(path), 0);
    path_of("journal/g1-1-1.jsonl", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_journal("journal", &books, problem), ERR_BAD_VALUE);
    assert_true(size > 0);
    append("journal/retired.jsonl", head);
    fed_from("journal");
}

static void a_file_that_was_cut_is_its_journals_still(void **state)
{
    (void)state;
    char path[160], problem[1024];
    struct books *books;

    write_journal_in("journal", 4, 5);
    fed_from("journal");
    path_of("journal/g1-1-1.jsonl", path);
    assert_int_equal(truncate(path, 1200), 0); /* its first row is whole */
    assert_int_equal(open_journal("journal", &books, problem), OK);
    books_close(books);
    assert_int_equal(truncate(path, 20), 0); /* nothing is: it lies where it lay */
    assert_int_equal(open_journal("journal", &books, problem), OK);
    assert_int_equal(books_feed(books, INT64_MAX, NULL, problem, sizeof(problem)), ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "ends before what was read of it"));
    books_close(books);
}

static void a_check_makes_nothing(void **state)
{
    (void)state;
    struct config_problems problems = {NULL, 0, 0};
    struct config config = {.journal_line = 7};
    char path[160];

    path_of("journal", path);
    path_of("ledger.sqlite", ledger_at);
    config.file = SPAN("gate.yaml");
    config.journal = span_of(path);
    config.ledger = span_of(ledger_at);
    config.ledger_line = 8;
    assert_int_equal(books_check(&config, &problems), OK);
    assert_int_equal(access(ledger_at, F_OK), -1);
    append("ledger.sqlite", ""); /* of a start that came no further */
    assert_int_equal(books_check(&config, &problems), OK);
    write_journal_in("journal", 2, 5);
    fed_from("journal");
    config.journal = SPAN("/no-such-journal"); /* its folder is there: it is mistyped itself */
    assert_int_equal(books_check(&config, &problems), ERR_BAD_VALUE);
    assert_ptr_equal(strstr(problems.text, "gate.yaml:7: meter.journal: /no-such-journal is not"),
                     problems.text);
    config_problems_free(&problems);
    assert_int_equal(unlink(ledger_at), 0);
    append("ledger.sqlite", "this is no database, and is long enough to be seen as none: "
                            "a header has one hundred bytes, and these are some more than that.");
    config.journal = span_of(path);
    assert_int_equal(books_check(&config, &problems), ERR_BAD_VALUE);
    assert_ptr_equal(strstr(problems.text, "gate.yaml:8: meter.ledger: "), problems.text);
    assert_non_null(strstr(problems.text, "tollgate ledger rebuild"));
    config_problems_free(&problems);
}

/* ---- anew ---- */

static void a_ledger_that_is_none_is_set_aside(void **state)
{
    (void)state;
    struct config config = {.journal = span_of(directory)};
    struct journal_text journal = begin_epoch("g1", 1);
    char problem[1024] = "", path[160];
    struct books *books = NULL;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 100});
    path_of("ledger.db.aside-1", path);
    append("ledger.db.aside-1", "of an earlier time");
    append("ledger.db", "this is no database, and is long enough to be seen as none: "
                        "a header has one hundred bytes, and these are some more than that.");
    assert_int_equal(books_open(&config, &books, problem, sizeof(problem)), ERR_BAD_VALUE);
    if (books_open_for(&config, BOOKS_ANEW, &books, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    assert_non_null(strstr(books_aside(books), "/ledger.db.aside-2"));
    assert_int_equal(access(books_aside(books), F_OK), 0);
    assert_int_equal(books_rebuild(books, NULL, problem, sizeof(problem)), OK);
    assert_true(total(books, ALWAYS).cost_pusd == 100);
    books_close(books);
    books = open_books();
    assert_string_equal(books_aside(books), "");
    books_close(books);
}

/* Where the table of files begins, which an open ledger reads first. */
static int64_t page_of_files(const char *path)
{
    sqlite3_stmt *asked;
    int64_t page;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT rootpage FROM sqlite_master WHERE name = 'files'",
                                        -1, &asked, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(asked), SQLITE_ROW);
    page = sqlite3_column_int64(asked, 0);
    (void)sqlite3_finalize(asked);
    (void)sqlite3_close(db);
    return page;
}

/* It can be opened, and nearly all its pages are rubbish. */
static void a_malformed_ledger_is_set_aside_and_left(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    char problem[1024] = "", path[160];
    struct books *books, *reader;
    struct stat about;
    int fd;

    begin_file(&journal);
    for (int i = 0; i < 200; i++)
        (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    books = open_books();
    feed(books, 200);
    assert_true(ledger_sync(books->ledger));
    books_close(books);
    path_of("ledger.db", path);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &about) == 0);
    for (off_t at = 8192; at < about.st_size; at += 8192)
        if (at != (page_of_files(path) - 1) * 8192)
            assert_int_equal(pwrite(fd, "rubbish rubbish rubbish", 23, at), 23);
    close(fd);

    reader = open_books();
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    assert_int_equal(books_feed(reader, INT64_MAX, NULL, problem, sizeof(problem)), ERR_INTERNAL);
    assert_non_null(strstr(problem, "tollgate ledger rebuild"));
    books = open_books();
    if (books_rebuild(books, NULL, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    assert_non_null(strstr(books_aside(books), "/ledger.db.aside-1"));
    assert_int_equal(access(books_aside(books), F_OK), 0);
    assert_int_equal(total(books, ALWAYS).calls, 201);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    feed(reader, 1);
    assert_int_equal(total(reader, ALWAYS).calls, 202);
    assert_int_equal(total(books, ALWAYS).calls, 202);
    books_close(books);
    books_close(reader);
}

static void a_ledger_that_was_deleted_is_made_by_the_next_feed(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books;
    char path[160];

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    books = open_books();
    feed(books, 1);
    path_of("ledger.db", path);
    assert_int_equal(unlink(path), 0);
    path_of("ledger.db-wal", path);
    assert_int_equal(unlink(path), 0);
    path_of("ledger.db-shm", path);
    assert_int_equal(unlink(path), 0);
    feed(books, 1);
    assert_int_equal(total(books, ALWAYS).calls, 1);
    books_close(books);
}

static void a_rebuild_takes_the_journal_that_is_meant(void **state)
{
    (void)state;
    struct config config = {.journal_line = 0};
    char problem[1024], path[160];
    struct books *books = NULL;

    write_journal_in("journal", 2, 5);
    write_journal_in("other", 3, 6);
    fed_from("journal");
    path_of("other", path);
    config.journal = span_of(path);
    config.ledger = span_of(ledger_at);
    if (books_open_for(&config, BOOKS_ANEW, &books, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    assert_int_equal(access(books_aside(books), F_OK), 0);
    assert_int_equal(books_rebuild(books, NULL, problem, sizeof(problem)), OK);
    assert_true(total(books, ALWAYS).cost_pusd == 18); /* of the other one alone */
    books_close(books);
    fed_from("other");
}

static void a_ledger_made_anew_has_the_same_totals(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct books *books, *reader;
    char problem[512] = "";
    char path[160];
    int64_t rows = 0;

    begin_file(&journal);
    for (int i = 0; i < 50; i++)
        (void)write_call(&journal,
                         (struct call){.admitted_us = START_US + i, .input = i, .cost_pusd = i});
    (void)write_line(&journal, "head", ",\"at_us\":1");
    path_of(journal.name, path);
    begin_file(&journal);
    (void)write_call(&journal,
                     (struct call){.admitted_us = START_US, .input = 5, .cost_pusd = 1000});
    books = open_books();
    reader = open_books();
    feed(books, 51);
    assert_int_equal(unlink(path), 0); /* as retention does */
    assert_int_equal(total(reader, ALWAYS).calls, 51);

    if (books_rebuild(books, &rows, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    assert_int_equal(rows, 51);
    assert_true(total(books, ALWAYS).cost_pusd == 2225);
    assert_int_equal(total(reader, ALWAYS).usage.input, 1230);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 1});
    feed(reader, 1);
    feed(books, 0);
    assert_int_equal(total(books, ALWAYS).calls, 52);
    books_close(books);
    books_close(reader);
}

/* What was done to the old one is gone. */
static void a_ledger_made_anew_is_the_journals_again(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    char problem[512] = "";
    struct books *books;
    char path[160];
    sqlite3 *db;

    begin_file(&journal);
    (void)write_call(&journal, (struct call){.admitted_us = START_US, .cost_pusd = 100});
    books = open_books();
    feed(books, 1);
    path_of("ledger.db", path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE sums SET cost_pusd = 1", NULL, NULL, NULL),
                     SQLITE_OK);
    (void)sqlite3_close(db);
    assert_true(total(books, ALWAYS).cost_pusd == 1);
    assert_int_equal(books_rebuild(books, NULL, problem, sizeof(problem)), OK);
    assert_true(total(books, ALWAYS).cost_pusd == 100);
    books_close(books);
}

static void other_files_are_no_ledgers(void **state)
{
    (void)state;
    struct config config = {.journal = span_of(directory)};
    struct books *books = NULL;
    char problem[512] = "";
    char path[160];
    sqlite3 *db;

    append("ledger.db", "this is no database, and is long enough to be seen as none: "
                        "a header has one hundred bytes, and these are some more than that.");
    assert_int_equal(books_open(&config, &books, problem, sizeof(problem)), ERR_BAD_VALUE);
    path_of("ledger.db", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    assert_int_equal(books_open(&config, &books, problem, sizeof(problem)), ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "version 99"));
    config.journal = (struct span){NULL, 0};
    assert_int_equal(books_open(&config, &books, problem, sizeof(problem)), ERR_BAD_VALUE);
}

/* ---- rows ---- */

static void rows_are_found_by_their_ids(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 3);
    struct books *books;
    const struct period later = {START_US + 1, START_US + 100};
    char fields[256];

    begin_file(&journal);
    (void)write_call(
        &journal,
        (struct call){.request = "req-\\u0031", .trace = "tr", .admitted_us = START_US + 5});
    (void)write_call(&journal,
                     (struct call){.request = "req-2", .trace = "tr", .admitted_us = START_US});
    (void)snprintf(fields, sizeof(fields),
                   ",\"adjusts\":\"g1/3/2\",\"tenant\":\"acme\","
                   "\"cost_pusd\":\"-1\",\"admitted_us\":%" PRId64 ",\"at_us\":5",
                   START_US + 5);
    (void)write_line(&journal, "adjust", fields);
    books = open_books();
    feed(books, 3);
    rows_are(books, anybody, NULL, "req-1", "3/2 3/4 ");
    rows_are(books, anybody, NULL, "req-2", "3/3 ");
    rows_are(books, anybody, NULL, "tr", "3/3 3/2 3/4 ");
    rows_are(books, anybody, NULL, "x-g1-3-3", "3/3 ");
    rows_are(books, anybody, NULL, "g1/3/2", "3/2 3/4 ");
    rows_are(books, anybody, NULL, "g1/3/4", "3/4 ");
    rows_are(books, anybody, NULL, "g1/3/9", "");
    rows_are(books, anybody, NULL, "nobody", "");
    rows_are(books, anybody, &later, "tr", "3/2 3/4 ");
    rows_are(books, SPAN("other"), NULL, "tr", "");
    books_close(books);
}

static void rows_come_in_the_order_of_their_admission(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    struct journal_text other = begin_epoch("g2", 2);
    const struct period period = {START_US, START_US + 10};
    struct books *books;

    begin_file(&journal);
    begin_file(&other);
    (void)write_call(&journal, (struct call){.tenant = "a", .admitted_us = START_US + 9});
    (void)write_call(&journal, (struct call){.tenant = "a", .admitted_us = START_US + 3});
    (void)write_call(&journal, (struct call){.tenant = "a", .admitted_us = START_US + 10});
    (void)write_call(&other, (struct call){.tenant = "a", .admitted_us = START_US + 5});
    (void)write_call(&other, (struct call){.tenant = "b", .admitted_us = START_US + 4});
    books = open_books();
    feed(books, 5);
    rows_are(books, SPAN("a"), &period, NULL, "1/3 2/2 1/2 ");
    rows_are(books, anybody, &period, NULL, "1/3 2/3 2/2 1/2 ");
    rows_are(books, SPAN("c"), &period, NULL, "");
    books_close(books);
}

static void questions_end_at_their_limit(void **state)
{
    (void)state;
    struct journal_text journal = begin_epoch("g1", 1);
    const struct books_ask ask = {.period = ALWAYS, .by = {BY_REQUEST}, .by_count = 1};
    struct answer answer = {.count = 0};
    char problem[512] = "";
    struct books *books;

    begin_file(&journal);
    for (int i = 0; i < 2000; i++)
        (void)write_call(&journal, (struct call){.admitted_us = START_US});
    books = open_books();
    feed(books, 2000);
    ledger_limit(books->ledger, 1);
    assert_int_equal(books_usage(books, &ask, keep_line, &answer, problem, sizeof(problem)),
                     ERR_INTERNAL);
    assert_non_null(strstr(problem, "took too long"));
    ledger_limit(books->ledger, 0);
    usage(books, &ask, &answer);
    ledger_interrupt(books->ledger, true);
    assert_int_equal(books_usage(books, &ask, keep_line, &answer, problem, sizeof(problem)),
                     ERR_INTERNAL);
    books_close(books);
}

#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(rows_come_in_once),
        LEDGER_TEST(a_row_that_is_there_is_not_counted_again),
        LEDGER_TEST(at_most_so_many_rows_come_in),
        LEDGER_TEST(many_rows_come_in),
        LEDGER_TEST(sums_are_exact_past_64_bits),
        LEDGER_TEST(tokens_past_64_bits_are_summed),
        LEDGER_TEST(adjusts_count_in_cost),
        LEDGER_TEST(roll_ups_and_rows_say_the_same),
        LEDGER_TEST(lines_come_by_bucket_and_column),
        LEDGER_TEST(tags_are_grouped_by_one_of_them),
        LEDGER_TEST(waste_is_summed_by_cause),
        LEDGER_TEST(damage_halts_its_file_alone),
        LEDGER_TEST(a_broken_chain_is_damage),
        LEDGER_TEST(a_chain_goes_on_in_the_next_file),
        LEDGER_TEST(a_missing_or_foreign_line_is_damage),
        LEDGER_TEST(nothing_stands_behind_a_head),
        LEDGER_TEST(a_file_that_shrank_is_damage),
        LEDGER_TEST(a_second_feeder_has_nothing_to_do),
        LEDGER_TEST(what_cannot_be_written_is_behind),
        LEDGER_TEST(what_was_rolled_back_is_not_counted),
        LEDGER_TEST(another_journal_is_refused),
        LEDGER_TEST(a_journal_that_was_moved_is_known),
        LEDGER_TEST(a_journal_is_known_by_what_retention_left),
        LEDGER_TEST(a_file_that_was_cut_is_its_journals_still),
        LEDGER_TEST(a_check_makes_nothing),
        LEDGER_TEST(a_ledger_that_is_none_is_set_aside),
        LEDGER_TEST(a_malformed_ledger_is_set_aside_and_left),
        LEDGER_TEST(a_ledger_that_was_deleted_is_made_by_the_next_feed),
        LEDGER_TEST(a_rebuild_takes_the_journal_that_is_meant),
        LEDGER_TEST(two_feed_by_turns),
        LEDGER_TEST(a_ledger_made_anew_has_the_same_totals),
        LEDGER_TEST(a_ledger_made_anew_is_the_journals_again),
        LEDGER_TEST(other_files_are_no_ledgers),
        LEDGER_TEST(rows_are_found_by_their_ids),
        LEDGER_TEST(rows_come_in_the_order_of_their_admission),
        LEDGER_TEST(questions_end_at_their_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
