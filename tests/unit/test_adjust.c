/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_adjust.c: corrections as rows of their own (meter/adjust.c).
 *
 * Promises:  1. A correction is an epoch of its own: open, adjust, head; what was there is
 *               untouched, and an audit of all of it is good.
 *            2. A void takes back what is left of a charge, once; no correction takes back more
 *               than was charged.
 *            3. What cannot be corrected is refused, and nothing is written then.
 *            4. Tenant, key, model and moment are the corrected row's.
 *            5. What corrects a row in a closed month counts now, and says so. */
#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/paper.h"

#include "meter/books.h"
#include "meter/record.h"

#define LIVE "g1-1-1.jsonl"

static struct paper paper;
static struct config config;
static char problem[512];
static char id[128];
static int64_t pusd;

static int start(void **state)
{
    static char journal[64];

    (void)state;
    paper_init(&paper);
    memcpy(journal, paper.home, sizeof(journal));
    config = (struct config){.journal = span_of(journal), .gateway = SPAN("g1")};
    paper_begin(&paper, NULL, 0);
    paper_call(&paper);
    paper_call_of(&paper, ++paper.exchange, 0);
    problem[0] = '\0';
    return 0;
}

static int stop(void **state)
{
    (void)state;
    paper_fini(&paper);
    return 0;
}

static int64_t now_us = PAPER_NOON_US;

static enum err adjust(struct books_adjust ask)
{
    if (ask.by.size == 0)
        ask.by = SPAN("ops");
    if (ask.why.size == 0)
        ask.why = SPAN("a dispute");
    struct books_adjusted made = {.pusd = pusd};
    const enum err err = books_adjust(NULL, &config, &ask, now_us, &made, problem, sizeof(problem));

    (void)snprintf(id, sizeof(id), "%s", made.id);
    pusd = made.pusd;
    return err;
}

#define ADJUST(...) adjust((struct books_adjust){__VA_ARGS__})

/* Line number (from 1) of a file, read; its text is kept until the next call. */
static struct record row_of(const char *file, int number)
{
    static char *text;
    struct record record;
    size_t bytes, from;

    free(text);
    text = paper_read(&paper, file, &bytes);
    from = paper_line_at(text, bytes, number);
    assert_int_equal(
        record_read((struct span){text + from, paper_line_at(text, bytes, number + 1) - from - 1},
                    &record, problem, sizeof(problem)),
        OK);
    return record;
}

static size_t files(void)
{
    struct journal_file *found;
    size_t count = 0;
    const int fd = open(paper.home, O_RDONLY | O_DIRECTORY);

    assert_true(fd >= 0);
    assert_int_equal(files_list(fd, &found, &count, problem, sizeof(problem)), OK);
    free(found);
    close(fd);
    return count;
}

static void print_finding(void *owner, const struct audit_finding *finding)
{
    (void)owner;
    if (finding->kind != AUDIT_NOTE)
        print_message("%s seq %" PRIu64 ": %s\n", finding->file, finding->seq, finding->says);
}

static void assert_audit_is_good(void)
{
    const struct audit_options options = {.public_keys = {NULL}};
    struct audit_sums sums;

    assert_int_equal(
        books_audit(NULL, &config, &options, print_finding, NULL, &sums, problem, sizeof(problem)),
        OK);
    assert_int_equal(sums.findings, 0);
}

static void a_correction_is_an_epoch_of_its_own(void **state)
{
    size_t before, after;
    char *text = paper_read(&paper, LIVE, &before);
    char *same;

    (void)state;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .void_row = true), OK);
    assert_string_equal(id, "g1/2/2");
    assert_int_equal(pusd, -PAPER_COST_PUSD);
    assert_int_equal(row_of("g1-2-1.jsonl", 1).kind, RECORD_OPEN);
    assert_int_equal(row_of("g1-2-1.jsonl", 2).kind, RECORD_ADJUST);
    assert_int_equal(row_of("g1-2-1.jsonl", 3).kind, RECORD_HEAD);
    same = paper_read(&paper, LIVE, &after);
    assert_int_equal(before, after);
    assert_memory_equal(text, same, before);
    free(text);
    free(same);
    assert_audit_is_good();
    paper_call(&paper); /* who was running goes on */
    paper_head(&paper);
    assert_audit_is_good();
}

static void it_is_of_the_rows_tenant_and_moment(void **state)
{
    struct record record;

    (void)state;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -5000, .by = SPAN("anna"),
                            .why = SPAN("cut \"off\"")),
                     OK);
    record = row_of("g1-2-1.jsonl", 2);
    assert_true(span_equal(record.adjusts, SPAN("g1/1/2")));
    assert_true(span_equal(record.tenant, SPAN("acme")));
    assert_true(span_equal(record.key, SPAN("web")));
    assert_true(span_equal(record.model, SPAN("small")));
    assert_true(span_equal(record.by, SPAN("anna")));
    assert_true(span_equal(record.why, SPAN("cut \\\"off\\\"")));
    assert_int_equal(record.admitted_us, PAPER_NOON_US + 1);
    assert_int_equal(record.at_us, PAPER_NOON_US);
    assert_int_equal(record.cost_pusd, -5000);
    assert_int_equal(record.usage.input, -1);
}

static void a_second_void_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .void_row = true), OK);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .void_row = true), ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "taken back before"));
    assert_int_equal(files(), 2);
}

static void a_void_takes_what_is_left(void **state)
{
    (void)state;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -5000), OK);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = 1000), OK);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .void_row = true), OK);
    assert_int_equal(pusd, -(PAPER_COST_PUSD - 4000));
    assert_string_equal(id, "g1/4/2");
    assert_audit_is_good();
}

static void no_more_is_taken_back_than_was_charged(void **state)
{
    (void)state;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -PAPER_COST_PUSD - 1),
                     ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "0.00000002 USD are left"));
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -PAPER_COST_PUSD), OK);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -1), ERR_BAD_VALUE);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = 1), OK);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/3"), .add_pusd = -1), ERR_BAD_VALUE);
}

static void a_credit_stands_by_itself(void **state)
{
    (void)state;
    assert_int_equal(
        ADJUST(.tenant = SPAN("globex"), .add_pusd = -700, .admitted_us = 42, .amend = true), OK);
    assert_int_equal(pusd, -700);
    assert_int_equal(row_of("g1-2-1.jsonl", 2).admitted_us, 42);
    assert_true(span_equal(row_of("g1-2-1.jsonl", 2).tenant, SPAN("globex")));
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/2/2"), .add_pusd = 701), ERR_BAD_VALUE);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/2/2"), .void_row = true), OK);
    assert_int_equal(pusd, 700);
    assert_audit_is_good();
}

/* The rows are of December 2025, which closes on 2 January. */
static void a_closed_month_is_left_as_it_is(void **state)
{
    (void)state;
    const int64_t closes_us = INT64_C(1767312000000000);

    now_us = closes_us - 1;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -1), OK);
    assert_int_equal(row_of("g1-2-1.jsonl", 2).corrects_us, 0);
    assert_in_range(row_of("g1-2-1.jsonl", 2).admitted_us, PAPER_NOON_US, PAPER_NOON_US + 100);

    now_us = closes_us;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -1), OK);
    assert_in_range(row_of("g1-3-1.jsonl", 2).corrects_us, PAPER_NOON_US, PAPER_NOON_US + 100);
    assert_int_equal(row_of("g1-3-1.jsonl", 2).admitted_us, closes_us);
    assert_int_equal(ADJUST(.tenant = SPAN("globex"), .add_pusd = -1, .admitted_us = PAPER_NOON_US),
                     ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "closed"));
    assert_int_equal(ADJUST(.tenant = SPAN("globex"), .add_pusd = -1,
                            .admitted_us = closes_us + 40 * INT64_C(86400000000)),
                     ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "has not begun"));

    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -1, .amend = true), OK);
    assert_int_equal(row_of("g1-4-1.jsonl", 2).corrects_us, 0);
    assert_in_range(row_of("g1-4-1.jsonl", 2).admitted_us, PAPER_NOON_US, PAPER_NOON_US + 100);
    now_us = PAPER_NOON_US;
    assert_audit_is_good();
}

static void what_cannot_be_corrected_is_refused(void **state)
{
    char longer[600];

    (void)state;
    memset(longer, 'x', sizeof(longer));
    const struct books_adjust cases[] = {
        {.adjusts = SPAN("g1/1/9"), .void_row = true},
        {.adjusts = SPAN("g1/7/2"), .void_row = true},
        {.adjusts = SPAN("g2/1/2"), .void_row = true},
        {.adjusts = SPAN("g1/1/1"), .void_row = true}, /* an open line */
        {.adjusts = SPAN("g1/1/3"), .void_row = true}, /* charged nothing */
        {.adjusts = SPAN("g1/1"), .void_row = true},
        {.adjusts = SPAN("/1/2"), .void_row = true},
        {.adjusts = SPAN("r1"), .void_row = true},
        {.adjusts = SPAN("g1/1/-2"), .void_row = true},
        {.adjusts = SPAN("g1/1/2"), .add_pusd = 0},
        {.adjusts = SPAN("g1/1/2"), .add_pusd = (money_sum)INT64_MAX + 1},
        {.adjusts = SPAN("g1/1/2"), .add_pusd = 1, .why = {longer, sizeof(longer)}},
        {.tenant = SPAN("acme"), .add_pusd = 0},
        {.tenant = SPAN("acme"), .void_row = true},
        {.tenant = SPAN("acme"), .add_pusd = 1, .admitted_us = -1},
        {.tenant = SPAN("acme"), .add_pusd = 1, .admitted_us = INT64_C(253402300800000000)},
        {.add_pusd = 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        problem[0] = '\0';
        assert_int_equal(adjust(cases[i]), ERR_BAD_VALUE);
        assert_true(problem[0] != '\0');
        assert_int_equal(files(), 1);
    }
}

static void a_correction_is_not_corrected(void **state)
{
    (void)state;
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .add_pusd = -5), OK);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/2/2"), .void_row = true), ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "correction itself"));
}

static void what_one_that_was_killed_left_aside_is_written_over(void **state)
{
    char left[160], text[8] = "left";

    (void)state;
    (void)snprintf(left, sizeof(left), "%s/.g1.adjust", paper.home);
    const int fd = open(left, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    assert_int_equal(close(fd), 0);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .void_row = true), OK);
    assert_int_not_equal(access(left, F_OK), 0);
    assert_audit_is_good();
}

static void a_correction_tells_its_anchor(void **state)
{
    const struct audit_options options = {.anchors = paper.anchors};
    struct audit_sums sums;

    (void)state;
    config.anchor_file = span_of(paper.anchors);
    assert_int_equal(ADJUST(.adjusts = SPAN("g1/1/2"), .void_row = true), OK);
    assert_int_equal(
        books_audit(NULL, &config, &options, print_finding, NULL, &sums, problem, sizeof(problem)),
        OK);
    assert_int_equal(sums.findings, 0);
    assert_int_equal(sums.anchors, 1);
    assert_int_equal(sums.rows_after_last_anchor, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(a_correction_is_an_epoch_of_its_own),
        TEST(it_is_of_the_rows_tenant_and_moment),
        TEST(a_second_void_is_refused),
        TEST(a_void_takes_what_is_left),
        TEST(no_more_is_taken_back_than_was_charged),
        TEST(a_credit_stands_by_itself),
        TEST(a_closed_month_is_left_as_it_is),
        TEST(what_cannot_be_corrected_is_refused),
        TEST(a_correction_is_not_corrected),
        TEST(what_one_that_was_killed_left_aside_is_written_over),
        TEST(a_correction_tells_its_anchor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
