/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_audit_ledger.c: is the ledger what the journal says (meter/audit_ledger.c)?
 *
 * Promises:  1. A ledger that was fed from the journal has no findings, over many thousands of
 *               rows, months, epochs, corrections and files that retention deleted.
 *            2. A row that the ledger has otherwise, lacks, or has beyond the journal is named.
 *            3. Rows by the thousand that differ are told as that, once looked at closely enough.
 */
#include "tests/unit/paper.h"

#include "meter/books.h"

static struct paper paper;
static struct config config;
static struct audit_sums sums;
static char problem[512];
static char told[65536]; /* findings of the ledger, a line each */

static int start(void **state)
{
    static char journal[64];

    (void)state;
    paper_init(&paper);
    memcpy(journal, paper.home, sizeof(journal));
    config = (struct config){.journal = span_of(journal), .gateway = SPAN("g1")};
    return 0;
}

static int stop(void **state)
{
    (void)state;
    paper_fini(&paper);
    return 0;
}

static void keep(void *owner, const struct audit_finding *finding)
{
    const size_t size = strlen(told);

    (void)owner;
    if (finding->kind == AUDIT_LEDGER)
        (void)snprintf(told + size, sizeof(told) - size, "%s %" PRIu64 ": %s\n",
                       finding->file == NULL ? "-" : finding->file, finding->seq, finding->says);
}

/* Opens the books, which has the ledger take in what there is, and audits. */
static void run(void)
{
    const struct audit_options options = {.against_ledger = true};
    struct books *books = NULL;

    told[0] = '\0';
    assert_int_equal(books_open_for(&config, BOOKS_AUDIT, &books, problem, sizeof(problem)), OK);
    assert_int_equal(
        books_audit(books, &config, &options, keep, NULL, &sums, problem, sizeof(problem)), OK);
    books_close(books);
}

static void assert_good(void)
{
    run();
    assert_string_equal(told, "");
    assert_int_equal(sums.findings, 0);
}

static void assert_told(const char *says)
{
    run();
    if (strstr(told, says) == NULL)
        print_message("expected: %s\ngot:\n%s", says, told);
    assert_non_null(strstr(told, says));
}

static void unlink_file(const char *name)
{
    char path[384];

    paper_path(&paper, name, path);
    assert_int_equal(unlink(path), 0);
}

/* The first epoch of a journal: an open line, so many calls and a head. */
static void write_epoch(int calls)
{
    paper_begin(&paper, NULL, 0);
    for (int i = 0; i < calls; i++)
        paper_call(&paper);
    paper_head(&paper);
}

/* ---- 1 ---- */

static void a_ledger_that_was_fed_has_no_findings(void **state)
{
    const int64_t month_us = INT64_C(31) * 86400 * 1000000;

    (void)state;
    write_epoch(9000);
    paper_begin(&paper, &paper.newest, 1);
    paper_adjust(&paper, "g1/1/2", -5, PAPER_NOON_US + 1);
    for (int i = 1; i <= 24; i++)
        paper_adjust(&paper, "", i, PAPER_NOON_US + i * month_us);
    assert_good(); /* while the last file is open */
    paper_head(&paper);
    assert_good();
    assert_int_equal(sums.calls, 9000);
    assert_int_equal(sums.adjusts, 25);
}

static void rows_of_deleted_files_are_no_findings(void **state)
{
    size_t bytes, head_at;
    char *text;

    (void)state;
    write_epoch(3);
    paper_begin(&paper, &paper.newest, 1);
    paper_call(&paper);
    assert_good();
    text = paper_read(&paper, "g1-1-1.jsonl", &bytes);
    head_at = paper_line_at(text, bytes, 5);
    paper_append(&paper, "retired.jsonl", text, paper_line_at(text, bytes, 2));
    paper_append(&paper, "retired.jsonl", text + head_at, bytes - head_at);
    free(text);
    unlink_file("g1-1-1.jsonl");
    assert_good();
    assert_int_equal(sums.calls, 1);
}

/* ---- 2 ---- */

static void a_row_that_the_ledger_has_otherwise_is_named(void **state)
{
    (void)state;
    write_epoch(3);
    assert_good();
    unlink_file("g1-1-1.jsonl");
    paper.epoch = 0;
    paper.exchange = 0;
    paper_begin(&paper, NULL, 0); /* another journal of the same rows, as good as the first */
    paper_call(&paper);
    paper_call_of(&paper, 99, PAPER_COST_PUSD);
    paper_call_of(&paper, 3, PAPER_COST_PUSD);
    paper_head(&paper);
    assert_told("g1-1-1.jsonl 3: the ledger has another line for this row\n");
    assert_null(strstr(told, "g1-1-1.jsonl 2:"));
}

static void a_row_beyond_the_journal_is_named(void **state)
{
    (void)state;
    write_epoch(3);
    paper_begin(&paper, &paper.newest, 1);
    paper_call(&paper);
    assert_good();
    unlink_file("g1-2-1.jsonl");
    assert_told("- 2: the ledger has a row that the journal has not: g1/2/2\n");
}

static void a_row_that_the_ledger_lacks_is_named(void **state)
{
    (void)state;
    write_epoch(3);
    assert_good();
    unlink_file("g1-1-1.jsonl");
    paper.epoch = 0;
    paper.exchange = 10;
    write_epoch(5); /* what the ledger had taken in is another now: it takes nothing more */
    assert_told("g1-1-1.jsonl 6: the ledger lacks this row\n");
}

/* ---- 3 ---- */

static void thousands_that_differ_are_told_as_such(void **state)
{
    (void)state;
    write_epoch(9 * 4096 + 10);
    assert_good();
    unlink_file("g1-1-1.jsonl");
    paper.epoch = 0;
    paper_begin(&paper, NULL, 0);
    for (uint64_t i = 0; i < 9 * 4096 + 10; i++)
        paper_call_of(&paper, 100000 + i, PAPER_COST_PUSD);
    paper_head(&paper);
    assert_told(
        "- 32768: rows from g1/1/32768 on differ: 4096 in the journal, 4096 in the ledger\n");
    assert_non_null(strstr(told, "g1-1-1.jsonl 2: the ledger has another line for this row\n"));
    /* The feeder's own, two thousands, and the rows of eight (seq 0 is none, 1 is the open line).
     */
    assert_int_equal(sums.findings, 1 + 2 + 8 * 4096 - 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(a_ledger_that_was_fed_has_no_findings),
        TEST(rows_of_deleted_files_are_no_findings),
        TEST(a_row_that_the_ledger_has_otherwise_is_named),
        TEST(a_row_beyond_the_journal_is_named),
        TEST(a_row_that_the_ledger_lacks_is_named),
        TEST(thousands_that_differ_are_told_as_such),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
