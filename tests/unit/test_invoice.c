/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_invoice.c: an invoice from what the ledger says (meter/invoice.c).
 *
 * Promises:  1. Where sums say enough no row is read; prices with steps are charged row by row.
 *            2. A correction is a line; only the hours that have one are read.
 *            3. A row that was charged otherwise than its tokens come to is a line with its id.
 *            4. Sums and rows that do not agree are asked for again; at last a closed period is an
 *               error, an open one a draft of what its rows say.
 *            5. A period is closed when it is over by the grace, the ledger has all rows, and no
 *               table has work of the tenant's that was admitted in it, or cannot be read.
 *            6. The ledger's errors come through.
 *            7. An adjust of a month that was closed is a correction; one that gives back for no
 *               row is a credit.
 * The books are doubles: lines and rows that a test lays out. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "meter/books_room.h"
#include "meter/inflight.h"
#include "meter/record.h"

#define NOVEMBER_US INT64_C(1761955200000000) /* 2025-11-01 UTC */
#define DECEMBER_US INT64_C(1764547200000000)
#define HOUR_US INT64_C(3600000000)
#define RATES                                                                                      \
    "\"input\":\"2\",\"cached_input\":\"2\",\"cache_write\":\"2\",\"output\":\"5\","               \
    "\"reasoning\":\"5\""
#define FLAT "{\"from\":7," RATES "}"
#define STEPPED                                                                                    \
    "{\"from\":7," RATES ",\"steps\":[{\"above\":100,\"input\":\"9\",\"cached_input\":\"9\","      \
    "\"cache_write\":\"9\",\"output\":\"5\",\"reasoning\":\"5\"}]}"
#define LEVEL "{\"from\":7," RATES ",\"steps\":[{\"above\":100," RATES "}]}"

static const struct period november = {NOVEMBER_US, DECEMBER_US};

/* ---- the doubles ---- */

static struct {
    struct books_line groups[4]; /* by month, model, tier and prices */
    size_t group_count;
    int64_t hours[4]; /* that have corrections */
    size_t hour_count;
    const char *rows[8];
    size_t row_count;
    int rows_asked, sums_asked;
    int64_t rows_from_us, rows_until_us; /* of the newest question */
    int64_t behind;
    money_sum grows_pusd; /* the first group's cost, with every question */
    enum err fails;
} ledger;

int64_t books_behind(const struct books *books)
{
    (void)books;
    return ledger.behind;
}

enum err books_usage(struct books *books, const struct books_ask *ask,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner,
                     char *problem, size_t problem_size)
{
    (void)books;
    ledger.sums_asked++;
    if (ledger.fails != OK) {
        (void)snprintf(problem, problem_size, "it fails");
        return ledger.fails;
    }
    assert_true(ask->bucketed);
    if (ask->bucket == PERIOD_HOUR) {
        for (size_t i = 0; i < ledger.hour_count; i++)
            if (!visit(owner, &(struct books_line){.bucket_us = ledger.hours[i]}))
                return OK;
        return OK;
    }
    assert_int_equal(ask->bucket, PERIOD_MONTH);
    for (size_t i = 0; i < ledger.group_count; i++)
        if (!visit(owner, &ledger.groups[i]))
            return OK;
    ledger.groups[0].cost_pusd += ledger.grows_pusd;
    return OK;
}

enum err books_rows(struct books *books, struct span tenant, const struct period *period,
                    struct span id,
                    bool (*visit)(void *owner, const struct record *record, struct span line),
                    void *owner, char *problem, size_t problem_size)
{
    (void)books;
    assert_true(span_equal(tenant, SPAN("acme")));
    assert_null(id.data);
    ledger.rows_asked++;
    ledger.rows_from_us = period->from_us;
    ledger.rows_until_us = period->until_us;
    for (size_t i = 0; i < ledger.row_count; i++) {
        struct record record;
        const struct span line = span_of(ledger.rows[i]);
        assert_int_equal(record_read(line, &record, problem, problem_size), OK);
        if (record.admitted_us >= period->from_us && record.admitted_us < period->until_us &&
            !visit(owner, &record, line))
            return OK;
    }
    return OK;
}

static struct books books;
static char home[64];

static int set_up(void **state)
{
    (void)state;
    memset(&ledger, 0, sizeof(ledger));
    (void)snprintf(home, sizeof(home), "/tmp/tollgate-invoice-XXXXXX");
    assert_non_null(mkdtemp(home));
    books.directory_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return books.directory_fd >= 0 ? 0 : 1;
}

static int tear_down(void **state)
{
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/g1-1.inflight", home);
    (void)unlink(path);
    close(books.directory_fd);
    return rmdir(home);
}

static struct books_line group_of(const char *prices, int64_t input, money_sum cost_pusd)
{
    return (struct books_line){
        .bucket_us = NOVEMBER_US,
        .by = {{"small", 5}, {NULL, 0}, {prices, strlen(prices)}},
        .billed_calls = 1,
        .usage = {.input = input},
        .cost_pusd = cost_pusd,
    };
}

static void add_group(struct books_line line)
{
    ledger.groups[ledger.group_count++] = line;
}

#define ROW(seq, kind, admitted, more)                                                             \
    "{\"v\":2,\"gateway\":\"g1\",\"epoch\":1,\"seq\":" #seq ",\"kind\":\"" kind                    \
    "\",\"tenant\":\"acme\",\"model\":\"small\"," more ",\"admitted_us\":" admitted "}"
#define CALL(seq, tokens, prices, cost)                                                            \
    ROW(seq, "call", "1761955200000000",                                                           \
        "\"input\":" #tokens ",\"billable\":true,\"prices\":" prices ",\"cost_pusd\":\"" #cost     \
        "\"")

static void add_row(const char *line)
{
    ledger.rows[ledger.row_count++] = line;
}

static const struct config config = {.generation = 1};

static enum err make(int64_t now_us, struct invoice **out_invoice)
{
    char problem[256];

    *out_invoice = NULL;
    return books_invoice(&books, &config, SPAN("acme"), &november, now_us, out_invoice, problem,
                         sizeof(problem));
}

static const int64_t long_after_us = DECEMBER_US + INVOICE_GRACE_US;

/* ---- the tests ---- */

static void where_sums_say_enough_no_row_is_read(void **state)
{
    (void)state;
    struct invoice *invoice;

    add_group(group_of(FLAT, 1000, 2000));
    assert_int_equal(make(long_after_us, &invoice), OK);
    assert_int_equal(ledger.rows_asked, 0);
    assert_int_equal(invoice->line_count, 1);
    assert_int_equal(invoice->lines[0].tokens, 1000);
    assert_int_equal(invoice->lines[0].rate_pusd, 2);
    assert_true(invoice->exact_pusd == 2000);
    assert_true(invoice_is_closed(invoice));
    books_invoice_free(invoice);
}

static void prices_with_steps_are_charged_row_by_row(void **state)
{
    (void)state;
    struct invoice *invoice;

    /* 90 at 2; 100 at 2 and 50 at 9. One prompt of 240 would have 140 at 9. */
    add_group(group_of(STEPPED, 240, 830));
    add_group(group_of(FLAT, 10, 20));
    add_row(CALL(1, 90, STEPPED, 180));
    add_row(CALL(2, 150, STEPPED, 650));
    add_row(CALL(3, 10, FLAT, 20)); /* in its group's sum already */
    assert_int_equal(make(long_after_us, &invoice), OK);

    assert_int_equal(invoice->line_count, 2);
    assert_int_equal(invoice->lines[0].above, 0);
    assert_int_equal(invoice->lines[0].tokens, 200);
    assert_int_equal(invoice->lines[1].above, 100);
    assert_int_equal(invoice->lines[1].tokens, 50);
    assert_true(invoice->exact_pusd == 850);
    books_invoice_free(invoice);
}

static void steps_of_one_rate_are_told_apart_all_the_same(void **state)
{
    (void)state;
    struct invoice *invoice;

    /* Two prompts below the step; their sum would be beyond it, and cost the same. */
    add_group(group_of(LEVEL, 180, 360));
    add_row(CALL(1, 90, LEVEL, 180));
    add_row(CALL(2, 90, LEVEL, 180));
    assert_int_equal(make(long_after_us, &invoice), OK);
    assert_int_equal(invoice->line_count, 1);
    assert_int_equal(invoice->lines[0].above, 0);
    books_invoice_free(invoice);
}

static void a_correction_is_a_line_and_its_hour_alone_is_read(void **state)
{
    (void)state;
    struct invoice *invoice;
    struct books_line adjusts = group_of("", 0, -500);

    adjusts.billed_calls = 0;
    adjusts.adjusted_pusd = -500;
    add_group(adjusts);
    add_group(group_of(FLAT, 1000, 2000));
    add_row(CALL(1, 1000, FLAT, 2000));
    add_row(ROW(9, "adjust", "1761958800000001",
                "\"adjusts\":\"g1/1/1\",\"by\":\"ann\",\"why\":\"a \\\"test\\\"\","
                "\"cost_pusd\":\"-500\""));
    ledger.hours[ledger.hour_count++] = NOVEMBER_US + HOUR_US;
    assert_int_equal(make(long_after_us, &invoice), OK);

    assert_int_equal(ledger.rows_asked, 1);
    assert_true(ledger.rows_from_us == NOVEMBER_US + HOUR_US);
    assert_true(ledger.rows_until_us == NOVEMBER_US + 2 * HOUR_US);
    assert_int_equal(invoice->line_count, 2);
    assert_int_equal(invoice->lines[1].kind, INVOICE_ADJUST);
    assert_true(span_equal(invoice->lines[1].id, SPAN("g1/1/9")));
    assert_true(span_equal(invoice->lines[1].class, SPAN("a \"test\"")));
    assert_true(span_equal(invoice->lines[1].model, SPAN("small")));
    assert_true(invoice->exact_pusd == 1500);
    books_invoice_free(invoice);
}

static void what_was_charged_otherwise_is_named(void **state)
{
    (void)state;
    struct invoice *invoice;

    add_group(group_of(FLAT, 30, 47));
    add_row(CALL(1, 10, FLAT, 20));
    add_row(CALL(2, 10, FLAT, 27));
    add_row(CALL(3, 10, FLAT, 0));
    assert_int_equal(make(long_after_us, &invoice), OK);

    assert_int_equal(invoice->line_count, 2);
    assert_int_equal(invoice->lines[0].tokens, 10);
    assert_int_equal(invoice->lines[1].kind, INVOICE_ADJUST);
    assert_true(span_equal(invoice->lines[1].id, SPAN("g1/1/2")));
    assert_true(invoice->lines[1].exact_pusd == 27);
    assert_true(invoice->exact_pusd == 47);
    books_invoice_free(invoice);
}

static void a_ledger_that_grows_is_asked_again(void **state)
{
    (void)state;
    struct invoice *invoice;

    add_group(group_of(STEPPED, 10, 10));
    add_row(CALL(1, 10, STEPPED, 20));
    ledger.grows_pusd = 5;
    assert_int_equal(make(long_after_us, &invoice), OK);
    assert_int_equal(ledger.sums_asked, 6); /* two each: 10, 15, 20 */
    assert_true(invoice->exact_pusd == 20);
    books_invoice_free(invoice);
}

static void what_never_agrees_is_an_error_or_a_draft(void **state)
{
    (void)state;
    struct invoice *invoice;

    add_group(group_of(STEPPED, 10, 21));
    add_row(CALL(1, 10, STEPPED, 20));
    assert_int_equal(make(long_after_us, &invoice), ERR_INTERNAL);
    assert_null(invoice);
    assert_int_equal(make(long_after_us - 1, &invoice), OK);
    assert_false(invoice_is_closed(invoice));
    assert_true(invoice->exact_pusd == 20);
    books_invoice_free(invoice);
}

/* A table of one slot in the journal's directory; its slot is open. */
static void leave_table(const char *tenant, int64_t admitted_us)
{
    const struct meter_opening opening = {.exchange_id = SPAN("0123456789abcdef0123456789abcdef"),
                                          .tenant = span_of(tenant),
                                          .endpoint = ENDPOINT_CHAT,
                                          .admitted_us = admitted_us};
    struct inflight table;
    const int fd = openat(books.directory_fd, "g1-1.inflight", O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(inflight_init(&table, fd, 16, SPAN("g1"), 1), OK);
    assert_non_null(inflight_open(&table, &opening));
    inflight_fini(&table);
    close(fd);
}

static enum invoice_state state_at(int64_t now_us)
{
    struct invoice *invoice;
    enum invoice_state found;

    assert_int_equal(make(now_us, &invoice), OK);
    assert_true(invoice->closes_us == long_after_us);
    found = invoice->state;
    books_invoice_free(invoice);
    return found;
}

static void a_period_is_closed_when_nothing_of_it_can_come_any_more(void **state)
{
    (void)state;
    int fd;

    assert_int_equal(state_at(long_after_us), INVOICE_CLOSED);
    assert_int_equal(state_at(long_after_us - 1), INVOICE_GRACE);
    assert_int_equal(state_at(DECEMBER_US), INVOICE_GRACE);
    assert_int_equal(state_at(DECEMBER_US - 1), INVOICE_RUNNING);
    assert_int_equal(state_at(0), INVOICE_AHEAD);
    ledger.behind = 1;
    assert_int_equal(state_at(long_after_us), INVOICE_WAITING);
    ledger.behind = 0;

    leave_table("acme", DECEMBER_US - 1);
    assert_int_equal(state_at(long_after_us), INVOICE_WAITING);
    leave_table("globex", DECEMBER_US - 1);
    assert_int_equal(state_at(long_after_us), INVOICE_CLOSED);
    leave_table("acme", DECEMBER_US);
    assert_int_equal(state_at(long_after_us), INVOICE_CLOSED);
    leave_table("acme", NOVEMBER_US - 1);
    assert_int_equal(state_at(long_after_us), INVOICE_CLOSED);

    fd = openat(books.directory_fd, "g1-1.inflight", O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "no table", 8), 8);
    close(fd);
    assert_int_equal(state_at(long_after_us), INVOICE_WAITING);
}

static void errors_of_the_ledger_come_through(void **state)
{
    (void)state;
    struct invoice *invoice;
    char problem[64] = "";

    ledger.fails = ERR_INTERNAL;
    assert_int_equal(books_invoice(&books, &config, SPAN("acme"), &november, 0, &invoice, problem,
                                   sizeof(problem)),
                     ERR_INTERNAL);
    assert_string_equal(problem, "it fails");
    ledger.fails = OK;
    add_group(group_of(FLAT, 1000, 2000));
    ledger.groups[0].usage.output = INT64_MAX;
    ledger.groups[0].cost_pusd = 2000 + (money_sum)INT64_MAX * 5;
    add_group(ledger.groups[0]);
    assert_int_equal(books_invoice(&books, &config, SPAN("acme"), &november, 0, &invoice, problem,
                                   sizeof(problem)),
                     ERR_BAD_VALUE);
    assert_string_equal(problem, "a sum does not fit");
}

static void an_adjust_of_a_closed_month_is_a_correction(void **state)
{
    (void)state;
    struct record adjust = {.admitted_us = DECEMBER_US - 1, .at_us = long_after_us - 1};

    assert_false(invoice_row_corrects(&adjust, zone_utc()));
    adjust.at_us++;
    assert_true(invoice_row_corrects(&adjust, zone_utc()));
    adjust.admitted_us++; /* the month after it is open */
    assert_false(invoice_row_corrects(&adjust, zone_utc()));
    adjust.corrects_us = NOVEMBER_US;
    assert_true(invoice_row_corrects(&adjust, zone_utc()));
}

static void an_adjust_of_no_row_that_gives_back_is_a_credit(void **state)
{
    (void)state;
    struct record adjust = {.cost_pusd = -1};

    assert_true(invoice_row_credits(&adjust));
    adjust.cost_pusd = 1;
    assert_false(invoice_row_credits(&adjust));
    adjust = (struct record){.cost_pusd = -1, .adjusts = SPAN("g1/7/123")};
    assert_false(invoice_row_credits(&adjust));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(where_sums_say_enough_no_row_is_read),
        TEST(prices_with_steps_are_charged_row_by_row),
        TEST(steps_of_one_rate_are_told_apart_all_the_same),
        TEST(a_correction_is_a_line_and_its_hour_alone_is_read),
        TEST(what_was_charged_otherwise_is_named),
        TEST(a_ledger_that_grows_is_asked_again),
        TEST(what_never_agrees_is_an_error_or_a_draft),
        TEST(a_period_is_closed_when_nothing_of_it_can_come_any_more),
        TEST(errors_of_the_ledger_come_through),
        cmocka_unit_test(an_adjust_of_a_closed_month_is_a_correction),
        cmocka_unit_test(an_adjust_of_no_row_that_gives_back_is_a_credit),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
