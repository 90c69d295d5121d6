/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_row.c: the lines of the journal (meter/row.c).
 *
 * Promises:  1. Every field in its order; money as decimal text; times as numbers; prev last, and
 *               the signature behind it.
 *            2. What is not known is absent, and what is nearly always the same; a reader fills it
 *               in.
 *            3. Texts are escaped: a row is one line whatever a client calls its model.
 *            4. No slot renders to more than ROW_BYTES_MAX, no open line to more than it says.
 *            5. The rates of a call are in its row: marginal brackets as steps, a tier's factor in
 *               them.
 *            6. Heads and anchors are signed over all that stands before the signature. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/span.h"
#include "meter/price.h"
#include "meter/record.h"
#include "meter/row.h"

#define PREV "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct row_link link_42 = {.seq = 42, .prev = PREV};

/* One slot in a table of its own, ended; the row as text. */
static size_t row_of(const struct meter_opening *opening, const struct meter_route *route,
                     bool wasted, const struct meter_ending *ending, int64_t cost_pusd,
                     const char *recovered, char out[ROW_BYTES_MAX + 1])
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
    inflight_end(slot, ending, cost_pusd);
    row_author_init(&author, SPAN("g1"), 7);
    size =
        row_render(&author, &link_42, slot, route ? route->price : NULL, span_of(recovered), out);
    out[size] = '\0';
    inflight_fini(&table);
    return size;
}

static void every_field_stands_in_its_order(void **state)
{
    (void)state;
    const struct price price = {.from_us = 1767225600000000, /* 2026-01-01 */
                                .until_us = INT64_MAX,
                                .rates = {.input = 50000,
                                          .cached_input = 12500,
                                          .cache_write = 60000,
                                          .output = 200000,
                                          .reasoning = 300000},
                                .tier_ppm = {PRICE_PPM, PRICE_PPM, PRICE_PPM}};
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
        .unit_cost_pusd = 7000,
    };
    char row[ROW_BYTES_MAX + 1];

    /* 600 * 50,000 + 400 * 12,500 + 10 * 200,000 */
    row_of(&opening, &route, true, &ending, 37000000, "g1-3", row);

    assert_string_equal(
        row, "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":42,\"kind\":\"call\","
             "\"recovered\":\"g1-3\","
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
             "\"cache_write\":\"60000\",\"output\":\"200000\",\"reasoning\":\"300000\"},"
             "\"cost_pusd\":\"37000000\",\"unit_cost_pusd\":\"7000\","
             "\"admitted_us\":1790000000000001,\"queue_us\":15,\"sent_us\":1790000000000100,"
             "\"first_token_us\":1790000000020000,\"ended_us\":1790000000900000,"
             "\"bytes_in\":321,\"bytes_out\":2048,\"why\":\"header\","
             "\"prev\":\"" PREV "\"}\n");
}

static void what_is_not_known_is_absent(void **state)
{
    (void)state;
    const struct meter_opening opening = {
        .tenant = SPAN("acme"), .endpoint = ENDPOINT_EMBEDDINGS, .admitted_us = 5};
    const struct meter_ending ending = {.outcome = OUTCOME_SHED,
                                        .status = 503,
                                        .usage = USAGE_UNKNOWN,
                                        .ended_us = 6,
                                        .unit_cost_pusd = -1};
    char row[ROW_BYTES_MAX + 1];

    row_of(&opening, NULL, false, &ending, 0, "", row);

    assert_string_equal(row, "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":42,\"kind\":\"call\","
                             "\"tenant\":\"acme\",\"endpoint\":\"embeddings\",\"attempts\":0,"
                             "\"source\":\"none\",\"outcome\":\"shed\","
                             "\"status\":503,\"billable\":false,\"cost_pusd\":\"0\","
                             "\"admitted_us\":5,\"ended_us\":6,\"bytes_in\":0,\"bytes_out\":0,"
                             "\"prev\":\"" PREV "\"}\n");
}

static void texts_are_escaped_so_that_a_row_is_one_line(void **state)
{
    (void)state;
    const struct meter_opening opening = {.tenant = SPAN("a\"b\\c"),
                                          .model_asked = SPAN("x\ny\x01\xff"
                                                              "z")};
    const struct meter_ending ending = {.outcome = OUTCOME_REFUSED, .usage = USAGE_UNKNOWN};
    char row[ROW_BYTES_MAX + 1];

    size_t size = row_of(&opening, NULL, false, &ending, 0, "", row);

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
    char recovered[ROW_GATEWAY_BYTES_MAX + 22];
    memset(recovered, '\x01', sizeof(recovered) - 1);
    recovered[sizeof(recovered) - 1] = '\0';
    char other[SLOT_OPENING_BYTES]; /* of equals one is left out */
    memset(other, '\x02', sizeof(other));
    const struct rates dearest = {INT64_MAX, INT64_MAX - 1, INT64_MAX - 1, INT64_MAX,
                                  INT64_MAX - 1};
    const struct price price = {
        .from_us = INT64_MIN,
        .until_us = INT64_MAX,
        .rates = dearest,
        .tier_ppm = {PRICE_PPM, PRICE_PPM, PRICE_PPM},
        .bracket_marginal = true,
        .bracket_inclusive = true,
        .bracket_count = 3,
        .brackets = {{INT64_MAX - 2, dearest}, {INT64_MAX - 1, dearest}, {INT64_MAX, dearest}}};
    const struct meter_opening opening = {.exchange_id = text,
                                          .request_id = text,
                                          .trace_id = text,
                                          .tenant = text,
                                          .key = text,
                                          .class = text,
                                          .endpoint = ENDPOINT_COMPLETIONS,
                                          .tier = TIER_PRIORITY,
                                          .model_asked = text,
                                          .admitted_us = INT64_MIN,
                                          .bytes_in = INT64_MIN};
    const struct meter_route route = {.model = {other, sizeof(other)},
                                      .replica = text,
                                      .queue_us = INT64_MIN,
                                      .sent_us = INT64_MIN,
                                      .attempts = UINT32_MAX,
                                      .price = &price,
                                      .why = text};
    const struct meter_ending ending = {.outcome = OUTCOME_REPLICA_ERROR,
                                        .status = 65535,
                                        .usage = {INT64_MAX, 0, 0, INT64_MAX, INT64_MAX},
                                        .source = SOURCE_ESTIMATED,
                                        .flags =
                                            FLAG_USAGE_SUSPECT | FLAG_CLAMPED | FLAG_TRANSLATED,
                                        .first_token_us = INT64_MIN,
                                        .ended_us = INT64_MIN,
                                        .bytes_out = INT64_MIN,
                                        .unit_cost_pusd = INT64_MAX};
    char row[ROW_BYTES_MAX + 1];

    size_t size = row_of(&opening, &route, true, &ending, INT64_MIN, recovered, row);

    assert_true(size > 3000 && size < ROW_BYTES_MAX);
    assert_non_null(strstr(row, "\"cost_pusd\":\"-9223372036854775808\""));
    assert_non_null(strstr(row, "\"decision_cut\"]"));
    assert_non_null(strstr(row, "\"steps\":["));
}

static void numbers_of_every_length_are_spelt(void **state)
{
    (void)state;
    const struct meter_ending ending = {.usage = USAGE_UNKNOWN, .unit_cost_pusd = -1};
    char row[ROW_BYTES_MAX + 1], expected[64];

    for (int64_t power = 1;; power *= 10) {
        const int64_t numbers[] = {power - 1, power, power + power / 3, -power};
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            const struct meter_opening opening = {.tenant = SPAN("acme"), .bytes_in = numbers[i]};
            row_of(&opening, NULL, false, &ending, 0, "", row);
            (void)snprintf(expected, sizeof(expected),
                           "\"bytes_in\":%lld,\"bytes_out\":", (long long)numbers[i]);
            assert_non_null(strstr(row, expected));
        }
        if (power > INT64_MAX / 10)
            break;
    }
}

/* A price of two brackets, and a call of 250 tokens in. */
static void render_brackets(bool marginal, bool inclusive, enum service_tier tier,
                            char row[ROW_BYTES_MAX + 1])
{
    const struct price price = {
        .from_us = 5,
        .until_us = INT64_MAX,
        .rates = {10, 2, 10, 40, 40},
        .tier_ppm = {PRICE_PPM, PRICE_PPM / 2, 2 * PRICE_PPM},
        .bracket_marginal = marginal,
        .bracket_inclusive = inclusive,
        .bracket_count = 2,
        .brackets = {{100, {20, 4, 20, 80, 80}}, {250, {30, 6, 30, 90, 90}}}};
    const struct meter_opening opening = {.tenant = SPAN("acme"), .tier = tier};
    const struct meter_route route = {.model = SPAN("m"), .attempts = 1, .price = &price};
    const struct meter_ending ending = {.outcome = OUTCOME_OK,
                                        .billable = true,
                                        .usage = {.input = 250, .output = 1},
                                        .unit_cost_pusd = -1};

    row_of(&opening, &route, false, &ending, 1, "", row);
}

static void a_bracket_of_the_whole_call_is_in_the_rates(void **state)
{
    (void)state;
    char row[ROW_BYTES_MAX + 1];

    render_brackets(false, false, TIER_STANDARD, row);

    assert_non_null(strstr(row, "\"prices\":{\"from\":5,\"input\":\"20\",\"cached_input\":\"4\","
                                "\"output\":\"80\",\"above\":100},"));
}

static void marginal_brackets_are_steps(void **state)
{
    (void)state;
    char row[ROW_BYTES_MAX + 1];

    render_brackets(true, true, TIER_STANDARD, row);

    assert_non_null(strstr(row, "\"prices\":{\"from\":5,\"input\":\"10\",\"cached_input\":\"2\","
                                "\"output\":\"40\",\"at\":true,\"steps\":[{\"above\":100,"
                                "\"input\":\"20\",\"cached_input\":\"4\",\"output\":\"80\"},"
                                "{\"above\":250,"));
}

static void what_goes_without_saying_is_not_said(void **state)
{
    (void)state;
    const struct price price = {.from_us = 5,
                                .until_us = INT64_MAX,
                                .rates = {10, 10, 10, 40, 40},
                                .tier_ppm = {PRICE_PPM, PRICE_PPM, PRICE_PPM}};
    const struct meter_opening opening = {.tenant = SPAN("acme"), .model_asked = SPAN("m")};
    const struct meter_opening unnamed = {.tenant = SPAN("acme")};
    const struct meter_route route = {.model = SPAN("m"), .attempts = 1, .price = &price};
    const struct meter_ending ending = {.usage = USAGE_UNKNOWN, .unit_cost_pusd = -1};
    char row[ROW_BYTES_MAX + 1], problem[128];
    struct record record;

    size_t size = row_of(&opening, &route, false, &ending, 0, "", row);
    assert_null(strstr(row, "model_asked"));
    assert_null(strstr(row, "stream"));
    assert_null(strstr(row, "queue_us"));
    assert_non_null(strstr(row, "\"prices\":{\"from\":5,\"input\":\"10\",\"output\":\"40\"}"));
    assert_int_equal(record_read((struct span){row, size - 1}, &record, problem, sizeof(problem)),
                     OK);
    assert_true(span_equal(record.model_asked, SPAN("m")));
    assert_memory_equal(&record.tariff.rates, &price.rates, sizeof(price.rates));

    /* A model that was not asked for by name is none of those. */
    size = row_of(&unnamed, &route, false, &ending, 0, "", row);
    assert_non_null(strstr(row, "\"model_asked\":\"\",\"model\":\"m\""));
    assert_int_equal(record_read((struct span){row, size - 1}, &record, problem, sizeof(problem)),
                     OK);
    assert_int_equal(record.model_asked.size, 0);
}

static void a_tier_is_in_the_rates_and_named(void **state)
{
    (void)state;
    char row[ROW_BYTES_MAX + 1];

    render_brackets(false, false, TIER_FLEX, row);
    assert_non_null(strstr(row, "\"tier\":\"flex\""));
    assert_non_null(strstr(row, "\"input\":\"10\",\"cached_input\":\"2\""));
    render_brackets(false, false, TIER_PRIORITY, row);
    assert_non_null(strstr(row, "\"tier\":\"priority\""));
    assert_non_null(strstr(row, "\"input\":\"40\",\"cached_input\":\"8\""));
}

/* ---- the other kinds ---- */

static struct row_author author_of_g1(void)
{
    struct row_author author;

    row_author_init(&author, SPAN("g1"), 7);
    return author;
}

static void an_adjust_says_what_it_corrects_by_whom_and_why(void **state)
{
    (void)state;
    const struct row_author author = author_of_g1();
    const struct row_adjust adjust = {.adjusts = SPAN("g1/6/9"),
                                      .tenant = SPAN("acme"),
                                      .model = SPAN("small"),
                                      .usage = {-600, -1, -1, -10, -1},
                                      .cost_pusd = -32000000,
                                      .admitted_us = 5,
                                      .at_us = 9,
                                      .by = SPAN("ann"),
                                      .why = SPAN("wrong \"model\"")};
    char row[ROW_BYTES_MAX + 1];

    row[row_render_adjust(&author, &link_42, &adjust, row)] = '\0';

    assert_string_equal(
        row, "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":42,\"kind\":\"adjust\","
             "\"adjusts\":\"g1/6/9\",\"tenant\":\"acme\",\"model\":\"small\","
             "\"input\":-600,\"output\":-10,\"cost_pusd\":\"-32000000\",\"admitted_us\":5,"
             "\"at_us\":9,\"by\":\"ann\",\"why\":\"wrong \\\"model\\\"\","
             "\"prev\":\"" PREV "\"}\n");
}

static void an_open_says_what_came_before_and_the_balances(void **state)
{
    (void)state;
    const struct row_author author = author_of_g1();
    struct row_before before[2] = {{.file = "g1-6-1.jsonl", .seq = 12}, {.file = "g2-1-1.jsonl"}};
    memset(before[0].sha256, 'a', 64);
    memset(before[1].sha256, 'b', 64);
    /* 2^64 of each sign: more than a row's amount can be */
    const struct row_balance balances[] = {{SPAN("acme"), (money_sum)1 << 64, 3},
                                           {SPAN("x\n"), -((money_sum)1 << 64), 1}};
    char *row = malloc(row_open_bytes_max(2, 2) + 1);
    assert_non_null(row);

    row[row_render_open(&author, &link_42, 9, before, 2, balances, 2, row)] = '\0';

    assert_string_equal(
        row, "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":42,\"kind\":\"open\",\"at_us\":9,"
             "\"before\":[{\"file\":\"g1-6-1.jsonl\",\"seq\":12,\"sha256\":\""
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"},"
             "{\"file\":\"g2-1-1.jsonl\",\"seq\":0,\"sha256\":\""
             "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}],"
             "\"balances\":[{\"tenant\":\"acme\",\"posted_pusd\":\"18446744073709551616\","
             "\"rows\":3},{\"tenant\":\"x\\u000a\",\"posted_pusd\":\"-18446744073709551616\","
             "\"rows\":1}],\"prev\":\"" PREV "\"}\n");
    free(row);
}

static void the_largest_open_takes_what_it_says(void **state)
{
    (void)state;
    char gateway[ROW_GATEWAY_BYTES_MAX], tenant[128];
    struct row_before before[3];
    struct row_balance balances[5];
    struct row_author author;
    const struct row_link link = {.seq = UINT64_MAX, .prev = PREV};
    memset(gateway, '\x01', sizeof(gateway));
    memset(tenant, '\x01', sizeof(tenant));
    memset(before, '\x01', sizeof(before));
    for (size_t i = 0; i < 5; i++)
        balances[i] = (struct row_balance){
            {tenant, sizeof(tenant)}, (money_sum)((unsigned __int128)1 << 127), INT64_MAX};
    row_author_init(&author, (struct span){gateway, sizeof(gateway)}, UINT64_MAX);
    char *row = malloc(row_open_bytes_max(3, 5)); /* its bound is what the sanitizer watches */
    assert_non_null(row);

    assert_true(row_render_open(&author, &link, INT64_MIN, before, 3, balances, 5, row) <=
                row_open_bytes_max(3, 5));

    free(row);
}

static void heads_and_anchors_are_signed_over_all_before(void **state)
{
    (void)state;
    char home[] = "/tmp/tollgate-row-XXXXXX";
    char path[64], public_path[64], problem[256], row[ROW_BYTES_MAX + 1], start[512];
    const struct row_author author = author_of_g1();
    struct row_before line = {.file = "g1-7-1.jsonl", .seq = 41};
    struct sign_key *key = NULL;
    struct verify_key *public = NULL;
    memset(line.sha256, 'c', 64);
    assert_non_null(mkdtemp(home));
    snprintf(path, sizeof(path), "%s/signing.key", home);
    snprintf(public_path, sizeof(public_path), "%s/signing.pub", home);
    assert_int_equal(sign_key_open(path, true, &key, problem, sizeof(problem)), OK);
    assert_int_equal(verify_key_open(public_path, &public, problem, sizeof(problem)), OK);

    for (int anchor = 0; anchor < 2; anchor++) {
        size_t size = 0;
        if (anchor) {
            assert_int_equal(row_render_anchor(SPAN("g1"), 7, &line, 9, key, row, &size), OK);
            snprintf(start, sizeof(start),
                     "{\"gateway\":\"g1\",\"epoch\":7,\"seq\":41,\"file\":\"g1-7-1.jsonl\","
                     "\"sha256\":\"%s\",\"at_us\":9,\"key\":\"%s\"",
                     line.sha256, sign_key_id(key));
        } else {
            assert_int_equal(row_render_head(&author, &link_42, 9, 30, key, row, &size), OK);
            snprintf(start, sizeof(start),
                     "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":42,\"kind\":\"head\","
                     "\"at_us\":9,\"first_seq\":30,\"key\":\"%s\",\"prev\":\"" PREV "\"",
                     sign_key_id(key));
        }
        row[size] = '\0';
        assert_memory_equal(row, start, strlen(start));
        const char *rest = row + strlen(start);
        assert_memory_equal(rest, ",\"signature\":\"", 14);
        assert_true(verify_text(public, span_of(start), (struct span){rest + 14, 88}));
        assert_string_equal(rest + 14 + 88, "\"}\n");
    }
    verify_key_close(public);
    sign_key_close(key);
    assert_int_equal(unlink(path) | unlink(public_path) | rmdir(home), 0);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    char row[ROW_BYTES_MAX + 1], problem[256];
    struct record record;
    int64_t cost_pusd = 0;

    render_brackets(true, false, TIER_PRIORITY, row);

    assert_int_equal(
        record_read((struct span){row, strlen(row) - 1}, &record, problem, sizeof(problem)), OK);
    assert_int_equal(record.tariff.step_count, 2);
    assert_int_equal(record.tariff.steps[1].rates.output, 180);
    /* twice (100 * 10 + 150 * 20 + 1 * 40) */
    assert_int_equal(record_cost(&record, &cost_pusd), OK);
    assert_int_equal(cost_pusd, 8080);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_stands_in_its_order),
        cmocka_unit_test(what_is_not_known_is_absent),
        cmocka_unit_test(texts_are_escaped_so_that_a_row_is_one_line),
        cmocka_unit_test(the_largest_slot_fits),
        cmocka_unit_test(numbers_of_every_length_are_spelt),
        cmocka_unit_test(a_bracket_of_the_whole_call_is_in_the_rates),
        cmocka_unit_test(marginal_brackets_are_steps),
        cmocka_unit_test(what_goes_without_saying_is_not_said),
        cmocka_unit_test(a_tier_is_in_the_rates_and_named),
        cmocka_unit_test(an_adjust_says_what_it_corrects_by_whom_and_why),
        cmocka_unit_test(an_open_says_what_came_before_and_the_balances),
        cmocka_unit_test(the_largest_open_takes_what_it_says),
        cmocka_unit_test(heads_and_anchors_are_signed_over_all_before),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
