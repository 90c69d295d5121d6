/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_skim.c: what a start needs of a line (meter/skim.c).
 *
 * Promises:  1. A plain row says what record_read() says of it, whatever its other fields hold.
 *            2. What is not plain is left to record_read().
 *            3. Of a line that was damaged anywhere, never another amount than record_read() says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter/record.h"
#include "meter/row.h"
#include "meter/skim.h"

static const char zeros[65] = "0000000000000000000000000000000000000000000000000000000000000000";

/* A call of acme that costs 42, with tags that look like fields; without its newline. */
static size_t row_of(struct span tenant, char line[ROW_BYTES_MAX])
{
    const struct meter_opening opening = {
        .exchange_id = SPAN("x1"),
        .request_id = SPAN("\",\"cost_pusd\":\"7\",\""),
        .tenant = tenant,
        .tags_json = SPAN("{\"tenant\":\"evil\",\"cost_pusd\":\"999\",\"seq\":\"}\\\\\"}"),
        .endpoint = ENDPOINT_CHAT,
    };
    const struct usage usage = {1, 2, -1, 3, -1};
    const struct meter_ending ending = {.usage = usage, .status = 200, .unit_cost_pusd = 5};
    const struct row_link link = {.seq = 17, .prev = zeros};
    struct row_author author;
    struct inflight table;
    size_t bytes;

    assert_int_equal(inflight_init(&table, -1, 1, SPAN("g1"), 1), OK);
    struct slot *slot = inflight_open(&table, &opening);
    inflight_waste(slot, SPAN("s1"), SPAN("reset"), &usage);
    inflight_end(slot, &ending, 42);
    row_author_init(&author, SPAN("g\"1"), 1);
    bytes = row_render(&author, &link, slot, NULL, (struct span){NULL, 0}, line);
    inflight_fini(&table);
    return bytes - 1;
}

static void a_plain_row_says_what_it_is(void **state)
{
    (void)state;
    char line[ROW_BYTES_MAX];
    const size_t bytes = row_of(SPAN("acme"), line);
    struct skimmed row;

    assert_true(skim_row((struct span){line, bytes}, &row));
    assert_int_equal(row.seq, 17);
    assert_true(span_equal(row.kind, SPAN("call")));
    assert_true(span_equal(row.tenant, SPAN("acme")));
    assert_int_equal(row.cost_pusd, 42);
}

static void an_amount_may_be_taken_away(void **state)
{
    (void)state;
    const struct row_adjust adjust = {.tenant = SPAN("acme"), .cost_pusd = -42};
    const struct row_link link = {.seq = 3, .prev = zeros};
    struct row_author author;
    char line[ROW_BYTES_MAX];
    struct skimmed row;

    row_author_init(&author, SPAN("g1"), 1);
    const size_t bytes = row_render_adjust(&author, &link, &adjust, line);
    assert_true(skim_row((struct span){line, bytes - 1}, &row));
    assert_int_equal(row.cost_pusd, -42);
    assert_true(span_equal(row.kind, SPAN("adjust")));
}

static void what_is_not_plain_is_left_to_others(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "{",
        "{}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\"}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"1\"",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"1\"}}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"1\",\"cost_pusd\":\"2\"}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":1}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"--1\"}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"9223372036854775808\"}",
        "{\"seq\":\"1\",\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"1\"}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":[\"a\"],\"cost_pusd\":\"1\"}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\\n\",\"cost_pusd\":\"1\"}",
        "{\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\t\",\"cost_pusd\":\"1\"}",
        "{\"x\":[{\"y\":\"]}\",\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"1\"}",
        "{\"x\":\"\\\",\"seq\":1,\"kind\":\"call\",\"tenant\":\"a\",\"cost_pusd\":\"1\"}",
    };
    char line[ROW_BYTES_MAX];
    struct skimmed row;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_false(skim_row(span_of(lines[i]), &row));
    const size_t bytes = row_of(SPAN("ac\"me"), line);
    assert_false(skim_row((struct span){line, bytes}, &row));
}

/* Every bit of a row flipped, and the row cut anywhere: memory that ends with the line. */
static void of_a_damaged_line_it_never_says_other_than_record_read(void **state)
{
    (void)state;
    char line[ROW_BYTES_MAX], problem[256];
    const size_t bytes = row_of(SPAN("acme"), line);

    for (size_t turn = 0; turn < 9 * bytes; turn++) {
        const size_t size = turn < 8 * bytes ? bytes : turn - 8 * bytes;
        char *copy = malloc(size > 0 ? size : 1);
        struct record record;
        struct skimmed row;
        assert_non_null(copy);
        memcpy(copy, line, size);
        if (turn < 8 * bytes)
            copy[turn / 8] = (char)(copy[turn / 8] ^ 1 << turn % 8);
        const struct span text = {copy, size};
        if (skim_row(text, &row) && record_read(text, &record, problem, sizeof(problem)) == OK) {
            assert_int_equal(row.seq, record.seq);
            assert_true(span_equal(row.tenant, record.tenant));
            assert_int_equal(row.cost_pusd, record.cost_pusd);
        }
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_row_says_what_it_is),
        cmocka_unit_test(an_amount_may_be_taken_away),
        cmocka_unit_test(what_is_not_plain_is_left_to_others),
        cmocka_unit_test(of_a_damaged_line_it_never_says_other_than_record_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
