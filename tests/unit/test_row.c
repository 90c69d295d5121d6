/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_row.c: an ended slot as one line of the journal (meter/row.c).
 *
 * Promises:  1. Every field in its order; money as decimal text; times as numbers.
 *            2. What is not known is absent.
 *            3. Texts are escaped: a row is one line whatever a client calls its model.
 *            4. No slot renders to more than ROW_BYTES_MAX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter/row.h"

/* One slot in a table of its own, ended; the row as text. */
static size_t row_of(const struct meter_opening *opening, const struct meter_route *route,
                     bool wasted, const struct meter_ending *ending, char out[ROW_BYTES_MAX + 1])
{
    struct inflight table;
    struct row_author author;
    struct slot *slot;
    size_t size;

    assert_int_equal(inflight_init(&table, -1, 1, SPAN("g1"), 7), OK);
    slot = inflight_open(&table, opening);
    if (wasted) {
        const struct usage usage = {
            .input = 5, .cached_input = -1, .cache_write = -1, .output = 0, .reasoning = -1};
        const struct usage unknown = USAGE_UNKNOWN;
        inflight_waste(slot, SPAN("s1"), SPAN("connect_error"), &unknown);
        inflight_waste(slot, SPAN("s2"), SPAN("reset"), &usage);
    }
    if (route)
        inflight_route(slot, route);
    inflight_end(slot, ending);
    row_author_init(&author, SPAN("g1"), 7);
    size = row_render(&author, slot, 42, out);
    out[size] = '\0';
    inflight_fini(&table);
    return size;
}

static void every_field_stands_in_its_order(void **state)
{
    (void)state;
    const struct price price = {.from_us = 1767225600000000, /* 2026-01-01 */
                                .input = 50000,
                                .cached_input = 12500,
                                .cache_write = 50000,
                                .output = 200000,
                                .reasoning = 200000};
    const struct meter_opening opening = {
        .exchange_id = SPAN("0123456789abcdef0123456789abcdef"),
        .request_id = SPAN("req-1"),
        .trace_id = SPAN("fedcba9876543210fedcba9876543210"),
        .tenant = SPAN("acme"),
        .key = SPAN("web"),
        .tags_json = SPAN("{\"team\":\"search\"}"),
        .endpoint = ENDPOINT_CHAT,
        .class = SPAN("summarise"),
        .stream = true,
        .model_asked = SPAN("auto"),
        .admitted_us = 1790000000000001,
        .bytes_in = 321,
    };
    const struct meter_route route = {
        .model = SPAN("small"),
        .replica = SPAN("s1"),
        .queue_us = 15,
        .sent_us = 1790000000000100,
        .attempts = 3,
        .price = &price,
        .why = SPAN("header"),
    };
    const struct meter_ending ending = {
        .outcome = OUTCOME_OK,
        .status = 200,
        .billable = true,
        .usage =
            {.input = 600, .cached_input = 400, .cache_write = 0, .output = 10, .reasoning = 0},
        .source = SOURCE_REPORTED,
        .flags = FLAG_USAGE_SUSPECT | FLAG_CLAMPED,
        .first_token_us = 1790000000020000,
        .ended_us = 1790000000900000,
        .bytes_out = 2048,
        .cost_pusd = 37000000, /* 600 * 50,000 + 400 * 12,500 + 10 * 200,000 */
    };
    char row[ROW_BYTES_MAX + 1];

    row_of(&opening, &route, true, &ending, row);

    assert_string_equal(
        row, "{\"v\":1,\"gateway\":\"g1\",\"epoch\":7,\"seq\":42,\"kind\":\"call\","
             "\"exchange_id\":\"0123456789abcdef0123456789abcdef\",\"request_id\":\"req-1\","
             "\"trace_id\":\"fedcba9876543210fedcba9876543210\","
             "\"tenant\":\"acme\",\"key\":\"web\",\"tags\":{\"team\":\"search\"},"
             "\"endpoint\":\"chat\",\"class\":\"summarise\",\"stream\":true,"
             "\"model_asked\":\"auto\",\"model\":\"small\",\"replica\":\"s1\",\"attempts\":3,"
             "\"input\":600,\"cached_input\":400,\"cache_write\":0,\"output\":10,\"reasoning\":0,"
             "\"source\":\"reported\",\"flags\":[\"usage_suspect\",\"clamped\"],"
             "\"wasted\":[{\"replica\":\"s1\",\"cause\":\"connect_error\"},"
             "{\"replica\":\"s2\",\"cause\":\"reset\",\"input\":5,\"output\":0}],"
             "\"outcome\":\"ok\",\"status\":200,\"billable\":true,"
             "\"prices\":{\"from\":1767225600000000,\"input\":\"50000\",\"cached_input\":\"12500\","
             "\"cache_write\":\"50000\",\"output\":\"200000\",\"reasoning\":\"200000\"},"
             "\"cost_pusd\":\"37000000\","
             "\"admitted_us\":1790000000000001,\"queue_us\":15,\"sent_us\":1790000000000100,"
             "\"first_token_us\":1790000000020000,\"ended_us\":1790000000900000,"
             "\"bytes_in\":321,\"bytes_out\":2048,\"why\":\"header\"}\n");
}

static void what_is_not_known_is_absent(void **state)
{
    (void)state;
    const struct meter_opening opening = {
        .tenant = SPAN("acme"), .endpoint = ENDPOINT_EMBEDDINGS, .admitted_us = 5};
    const struct meter_ending ending = {
        .outcome = OUTCOME_SHED, .status = 503, .usage = USAGE_UNKNOWN, .ended_us = 6};
    char row[ROW_BYTES_MAX + 1];

    row_of(&opening, NULL, false, &ending, row);

    assert_string_equal(row, "{\"v\":1,\"gateway\":\"g1\",\"epoch\":7,\"seq\":42,\"kind\":\"call\","
                             "\"tenant\":\"acme\",\"endpoint\":\"embeddings\",\"stream\":false,"
                             "\"attempts\":0,\"source\":\"none\",\"outcome\":\"shed\","
                             "\"status\":503,\"billable\":false,\"cost_pusd\":\"0\","
                             "\"admitted_us\":5,\"ended_us\":6,\"bytes_in\":0,\"bytes_out\":0}\n");
}

static void texts_are_escaped_so_that_a_row_is_one_line(void **state)
{
    (void)state;
    const struct meter_opening opening = {.tenant = SPAN("a\"b\\c"),
                                          .model_asked = SPAN("x\ny\x01\xff"
                                                              "z")};
    const struct meter_ending ending = {.outcome = OUTCOME_REFUSED, .usage = USAGE_UNKNOWN};
    char row[ROW_BYTES_MAX + 1];

    size_t size = row_of(&opening, NULL, false, &ending, row);

    assert_non_null(strstr(row, "\"tenant\":\"a\\\"b\\\\c\""));
    assert_non_null(strstr(row, "\"model_asked\":\"x\\u000ay\\u0001\\ufffdz\""));
    assert_ptr_equal(strchr(row, '\n'), row + size - 1);
}

static void the_largest_slot_fits(void **state)
{
    (void)state;
    char worst[SLOT_OPENING_BYTES];
    memset(worst, '\x01', sizeof(worst));
    const struct span text = {worst, sizeof(worst)};
    const struct price price = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN,
                                INT64_MIN, INT64_MIN, INT64_MIN};
    const struct meter_opening opening = {.exchange_id = text,
                                          .request_id = text,
                                          .trace_id = text,
                                          .tenant = text,
                                          .key = text,
                                          .class = text,
                                          .endpoint = ENDPOINT_COMPLETIONS,
                                          .model_asked = text,
                                          .admitted_us = INT64_MIN,
                                          .bytes_in = INT64_MIN};
    const struct meter_route route = {.model = text,
                                      .replica = text,
                                      .queue_us = INT64_MIN,
                                      .sent_us = INT64_MIN,
                                      .attempts = UINT32_MAX,
                                      .price = &price,
                                      .why = text};
    const struct meter_ending ending = {
        .outcome = OUTCOME_REPLICA_ERROR,
        .status = 65535,
        .usage = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
        .source = SOURCE_ESTIMATED,
        .flags = FLAG_USAGE_SUSPECT | FLAG_CLAMPED,
        .first_token_us = INT64_MIN,
        .ended_us = INT64_MIN,
        .bytes_out = INT64_MIN,
        .cost_pusd = INT64_MIN};
    char row[ROW_BYTES_MAX + 1];

    size_t size = row_of(&opening, &route, true, &ending, row);

    assert_true(size > 3000 && size < ROW_BYTES_MAX);
    assert_non_null(strstr(row, "\"cost_pusd\":\"-9223372036854775808\""));
    assert_non_null(strstr(row, "\"decision_cut\"]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_stands_in_its_order),
        cmocka_unit_test(what_is_not_known_is_absent),
        cmocka_unit_test(texts_are_escaped_so_that_a_row_is_one_line),
        cmocka_unit_test(the_largest_slot_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
