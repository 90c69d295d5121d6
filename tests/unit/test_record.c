/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_record.c: one line of the journal, read (meter/record.c).
 *
 * Promises:  1. What row.c writes is read back, field by field; texts borrow from the line.
 *            2. Rows of version 1 are read: they have no prev.
 *            3. Fields that are not known are skipped, whatever is in them.
 *            4. What is not a row of ours is refused, with the byte where it goes wrong.
 *            5. No cut of a line is a row; nothing past it is read.
 *            6. Escapes are undone; a character that does not fit is left out whole.
 *            7. A cost is worked out again from the row alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter/record.h"
#include "meter/row.h"

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define START "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":123,\"kind\":\"call\""
#define PREV ",\"prev\":\"" HASH "\"}"
#define RATES                                                                                      \
    "\"input\":\"50000\",\"cached_input\":\"12500\",\"cache_write\":\"62500\","                    \
    "\"output\":\"200000\",\"reasoning\":\"300000\""

static const char whole_call[] =
    START ",\"recovered\":\"g1-3\",\"exchange_id\":\"0123456789abcdef0123456789abcdef\","
          "\"request_id\":\"req-\\u00e9\",\"trace_id\":\"fedcba9876543210fedcba9876543210\","
          "\"tenant\":\"acme\",\"key\":\"web\",\"tags\":{\"team\":\"search\",\"n\":[1,{\"a\":\"}\"}"
          "]},\"endpoint\":\"chat\",\"class\":\"code\",\"tier\":\"flex\",\"stream\":true,"
          "\"model_asked\":\"auto\",\"model\":\"small\",\"replica\":\"s1\",\"attempts\":3,"
          "\"input\":10,\"cached_input\":20,\"output\":30,\"reasoning\":40,"
          "\"source\":\"reported\",\"flags\":[\"clamped\",\"translated\"],"
          "\"wasted\":[{\"replica\":\"s2\",\"cause\":\"reset\",\"input\":5,\"output\":0},"
          "{\"replica\":\"s3\",\"cause\":\"timeout\"}],\"outcome\":\"ok\",\"status\":200,"
          "\"billable\":true,\"prices\":{\"from\":1767225600000000," RATES
          ",\"at\":true,\"steps\":[{\"above\":1000," RATES "}]},\"held_pusd\":\"77\","
          "\"cost_pusd\":\"18750000\",\"unit_cost_pusd\":\"9\",\"admitted_us\":1790000000000001,"
          "\"queue_us\":15,\"sent_us\":1790000000000100,\"first_token_us\":1790000000000200,"
          "\"ended_us\":1790000000000300,\"bytes_in\":321,\"bytes_out\":654,"
          "\"why\":\"header\"" PREV;

/* The line in memory of its own size, so that reading past it is seen. */
static enum err read_copy(const char *line, struct record *out_record, char **out_copy,
                          char problem[160])
{
    const size_t size = strlen(line);

    *out_copy = malloc(size > 0 ? size : 1);
    assert_non_null(*out_copy);
    memcpy(*out_copy, line, size);
    return record_read((struct span){*out_copy, size}, out_record, problem, 160);
}

static void is_text(struct span actual, const char *expected)
{
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

static void every_field_of_a_call_is_read(void **state)
{
    (void)state;
    struct record record;
    char problem[160];
    char *copy;

    assert_int_equal(read_copy(whole_call, &record, &copy, problem), OK);

    assert_int_equal(record.version, 2);
    is_text(record.gateway, "g1");
    assert_int_equal(record.epoch, 7);
    assert_int_equal(record.seq, 123);
    assert_int_equal(record.kind, RECORD_CALL);
    is_text(record.recovered, "g1-3");
    is_text(record.exchange_id, "0123456789abcdef0123456789abcdef");
    is_text(record.request_id, "req-\\u00e9");
    is_text(record.trace_id, "fedcba9876543210fedcba9876543210");
    is_text(record.tenant, "acme");
    is_text(record.key, "web");
    is_text(record.tags, "{\"team\":\"search\",\"n\":[1,{\"a\":\"}\"}]}");
    is_text(record.endpoint, "chat");
    is_text(record.class, "code");
    is_text(record.tier, "flex");
    assert_true(record.stream);
    is_text(record.model_asked, "auto");
    is_text(record.model, "small");
    is_text(record.replica, "s1");
    assert_int_equal(record.attempts, 3);
    assert_int_equal(record.usage.input, 10);
    assert_int_equal(record.usage.cached_input, 20);
    assert_int_equal(record.usage.cache_write, -1);
    assert_int_equal(record.usage.output, 30);
    assert_int_equal(record.usage.reasoning, 40);
    is_text(record.source, "reported");
    assert_true(record_has_flag(&record, SPAN("translated")));
    assert_false(record_has_flag(&record, SPAN("trans")));
    assert_int_equal(record.waste_count, 2);
    is_text(record.wastes[0].replica, "s2");
    is_text(record.wastes[0].cause, "reset");
    assert_int_equal(record.wastes[0].usage.input, 5);
    assert_int_equal(record.wastes[0].usage.output, 0);
    assert_int_equal(record.wastes[0].usage.reasoning, -1);
    assert_int_equal(record.wastes[1].usage.input, -1);
    is_text(record.outcome, "ok");
    assert_int_equal(record.status, 200);
    assert_true(record.billable);
    assert_int_equal(record.held_pusd, 77);
    assert_int_equal(record.cost_pusd, 18750000);
    assert_int_equal(record.unit_cost_pusd, 9);
    assert_int_equal(record.admitted_us, 1790000000000001);
    assert_int_equal(record.queue_us, 15);
    assert_int_equal(record.sent_us, 1790000000000100);
    assert_int_equal(record.first_token_us, 1790000000000200);
    assert_int_equal(record.ended_us, 1790000000000300);
    assert_int_equal(record.bytes_in, 321);
    assert_int_equal(record.bytes_out, 654);
    is_text(record.why, "header");
    is_text(record.prev, HASH);
    free(copy);
}

static void prices_are_read_with_their_steps(void **state)
{
    (void)state;
    struct record record;
    char problem[160];
    char *copy;

    assert_int_equal(read_copy(whole_call, &record, &copy, problem), OK);

    assert_true(record.has_tariff);
    assert_int_equal(record.tariff.from_us, 1767225600000000);
    assert_int_equal(record.tariff.rates.input, 50000);
    assert_int_equal(record.tariff.rates.cached_input, 12500);
    assert_int_equal(record.tariff.rates.cache_write, 62500);
    assert_int_equal(record.tariff.rates.output, 200000);
    assert_int_equal(record.tariff.rates.reasoning, 300000);
    assert_int_equal(record.tariff.above, 0);
    assert_true(record.tariff.inclusive);
    assert_int_equal(record.tariff.step_count, 1);
    assert_int_equal(record.tariff.steps[0].above, 1000);
    assert_int_equal(record.tariff.steps[0].rates.output, 200000);
    assert_memory_equal(record.prices.data, "{\"from\":1767225600000000,", 24);
    assert_int_equal(record.prices.data[record.prices.size - 1], '}');
    free(copy);
}

static void a_head_says_what_its_signature_covers(void **state)
{
    (void)state;
    static const char line[] =
        "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":9,\"kind\":\"head\","
        "\"at_us\":5,\"first_seq\":3,\"key\":\"0011223344556677\","
        "\"prev\":\"" HASH "\",\"signature\":\"abc=\"}";
    struct record record;
    char problem[160];
    char *copy;

    assert_int_equal(read_copy(line, &record, &copy, problem), OK);

    assert_int_equal(record.kind, RECORD_HEAD);
    assert_int_equal(record.at_us, 5);
    assert_int_equal(record.first_seq, 3);
    is_text(record.signing_key, "0011223344556677");
    assert_null(record.key.data);
    is_text(record.signature, "abc=");
    assert_int_equal(record.signed_bytes, strstr(line, ",\"signature\"") - line);
    free(copy);
}

static void opens_and_adjusts_are_read(void **state)
{
    (void)state;
    struct record record;
    char problem[160];
    char *copy;

    assert_int_equal(
        read_copy("{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":1,\"kind\":\"open\","
                  "\"at_us\":5,\"before\":[{\"file\":\"x\"}],\"balances\":[]" PREV,
                  &record, &copy, problem),
        OK);
    assert_int_equal(record.kind, RECORD_OPEN);
    is_text(record.before, "[{\"file\":\"x\"}]");
    is_text(record.balances, "[]");
    free(copy);

    assert_int_equal(read_copy("{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":2,\"kind\":"
                               "\"adjust\",\"adjusts\":\"g1/6/5\",\"tenant\":\"acme\",\"input\":-7,"
                               "\"cost_pusd\":\"-9223372036854775808\",\"admitted_us\":3,"
                               "\"at_us\":5,\"by\":\"ann\",\"why\":\"twice\"" PREV,
                               &record, &copy, problem),
                     OK);
    is_text(record.adjusts, "g1/6/5");
    assert_int_equal(record.usage.input, -7);
    assert_true(record.cost_pusd == INT64_MIN);
    is_text(record.by, "ann");
    free(copy);
}

static void rows_of_version_1_have_no_prev(void **state)
{
    (void)state;
    struct record record;
    char problem[160];
    char *copy;

    assert_int_equal(
        read_copy("{\"v\":1,\"gateway\":\"g1\",\"epoch\":7,\"seq\":2,\"kind\":\"call\"}", &record,
                  &copy, problem),
        OK);
    assert_null(record.prev.data);
    assert_int_equal(record.status, -1);
    assert_int_equal(record.unit_cost_pusd, -1);
    assert_int_equal(record.usage.input, -1);
    free(copy);
}

static void unknown_fields_are_skipped(void **state)
{
    (void)state;
    static const char *const values[] = {
        "1.5e-3",
        "null",
        "[]",
        "{}",
        "\"\\\"}\"",
        "[[{\"seq\":[1,2]},{}],[]]",
        "{\"seq\":99,\"kind\":\"open\"}",
        "-0",
        "true",
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct record record;
        char line[512];
        char problem[160];
        char *copy;

        (void)snprintf(line, sizeof(line), START ",\"newer\":%s,\"status\":200" PREV, values[i]);
        assert_int_equal(read_copy(line, &record, &copy, problem), OK);
        assert_int_equal(record.seq, 123);
        assert_int_equal(record.status, 200);
        free(copy);
    }
}

static void what_is_no_row_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "{",
        "{}",
        "[]",
        "null",
        "\"v\"",
        "{\"v\":2}",
        /* what every line has */
        "{\"gateway\":\"g1\",\"epoch\":7,\"seq\":123,\"kind\":\"call\"}",
        "{\"v\":2,\"epoch\":7,\"seq\":123,\"kind\":\"call\"}",
        "{\"v\":2,\"gateway\":\"g1\",\"seq\":123,\"kind\":\"call\"}",
        "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"kind\":\"call\"}",
        "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":123}",
        "{\"v\":3,\"gateway\":\"g1\",\"epoch\":7,\"seq\":123,\"kind\":\"call\"}",
        "{\"v\":2,\"gateway\":\"\",\"epoch\":7,\"seq\":123,\"kind\":\"call\"}",
        "{\"v\":2,\"gateway\":\"g1\",\"epoch\":-7,\"seq\":123,\"kind\":\"call\"}",
        "{\"v\":2,\"gateway\":\"g1\",\"epoch\":7,\"seq\":123,\"kind\":\"cell\"}",
        /* behind the end, between values */
        START "}x",
        START "}{}",
        START ",}",
        START ",,\"a\":1}",
        START " \"a\":1}",
        START ",\"a\"}",
        START ",\"a\":}",
        START ",\"a\":[1,]}",
        START ",\"a\":[1}",
        START ",\"a\":{\"b\"}}",
        START ",\"a\":tru}",
        START ",\"a\":01}",
        START ",\"a\":1.}",
        START ",\"a\":--1}",
        START ",\"a\":\"\\x\"}",
        START ",\"a\":\"\\u12g4\"}",
        START ",\"a\":\"\n\"}",
        /* a field of the wrong type, or out of range */
        START ",\"tenant\":5}",
        START ",\"status\":\"200\"}",
        START ",\"status\":2.5}",
        START ",\"status\":2e2}",
        START ",\"status\":-1}",
        START ",\"status\":007}",
        START ",\"input\":-1}",
        START ",\"input\":-5}",
        START ",\"input\":9223372036854775808}",
        START ",\"input\":18446744073709551617}",
        START ",\"cost_pusd\":5}",
        START ",\"cost_pusd\":\"5.0\"}",
        START ",\"cost_pusd\":\"\"}",
        START ",\"cost_pusd\":\"-0\"}",
        START ",\"cost_pusd\":\"9223372036854775808\"}",
        START ",\"stream\":1}",
        START ",\"tags\":[]}",
        START ",\"tags\":{\"a\":}}",
        START ",\"flags\":{}}",
        START ",\"wasted\":[{\"input\":-3}]}",
        START ",\"wasted\":[1]}",
        START ",\"wasted\":[{},{},{},{},{}]}",
        START ",\"prices\":{}}",
        START ",\"prices\":{\"from\":1,\"input\":\"1\"}}",
        START ",\"prices\":{\"from\":1," RATES ",\"input\":\"2\"}}",
        START ",\"prices\":{\"from\":1," RATES ",\"steps\":[{\"above\":1}]}}",
        START ",\"prev\":\"00\"}",
        START ",\"prev\":\"00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff\"}",
        /* twice */
        START ",\"seq\":123}",
        START ",\"status\":200,\"status\":200}",
        /* behind a signature */
        START ",\"signature\":\"a\",\"more\":1}",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct record record;
        char problem[160] = "";
        char *copy;

        if (read_copy(lines[i], &record, &copy, problem) != ERR_BAD_VALUE)
            fail_msg("taken for a row: %s", lines[i]);
        assert_memory_equal(problem, "byte ", 5);
        free(copy);
    }
}

static void the_byte_is_named(void **state)
{
    (void)state;
    struct record record;
    char problem[160];
    char *copy;

    assert_int_equal(read_copy("{\"v\":2,\"gateway\":7}", &record, &copy, problem), ERR_BAD_VALUE);
    assert_string_equal(problem, "byte 17: expected a text");
    free(copy);
}

static void no_cut_of_a_line_is_a_row(void **state)
{
    (void)state;

    for (size_t size = 0; size < strlen(whole_call); size++) {
        char *cut = malloc(size > 0 ? size : 1);
        struct record record;
        char problem[160];

        assert_non_null(cut);
        memcpy(cut, whole_call, size);
        assert_int_equal(record_read((struct span){cut, size}, &record, problem, sizeof(problem)),
                         ERR_BAD_VALUE);
        free(cut);
    }
}

static void values_within_values_have_a_bound(void **state)
{
    (void)state;
    char line[400] = START ",\"a\":";
    struct record record;
    char problem[160];
    char *copy;
    size_t used = strlen(line);

    memset(line + used, '[', 100);
    memset(line + used + 100, ']', 100);
    line[used + 200] = '}';
    assert_int_equal(read_copy(line, &record, &copy, problem), ERR_BAD_VALUE);
    free(copy);
}

static void what_row_writes_is_read_back(void **state)
{
    (void)state;
    struct row_author author;
    const struct row_link link = {.seq = 42, .prev = HASH};
    const struct row_adjust adjust = {
        .adjusts = SPAN("g\"1/7/123"),
        .tenant = SPAN("ac\nme"),
        .usage = {.input = -5, .cached_input = -1, .cache_write = 0, .output = 3, .reasoning = -2},
        .cost_pusd = -123,
        .admitted_us = 9,
        .at_us = 10,
        .by = SPAN("ann"),
        .why = SPAN("tab\there"),
    };
    char line[ROW_BYTES_MAX];
    char problem[160];
    char text[64];
    struct record record;
    size_t size;

    row_author_init(&author, SPAN("g\"1"), 7);
    size = row_render_adjust(&author, &link, &adjust, line);
    assert_int_equal(record_read((struct span){line, size - 1}, &record, problem, sizeof(problem)),
                     OK);

    (void)record_text(record.gateway, text, sizeof(text));
    assert_string_equal(text, "g\"1");
    (void)record_text(record.tenant, text, sizeof(text));
    assert_string_equal(text, "ac\nme");
    (void)record_text(record.why, text, sizeof(text));
    assert_string_equal(text, "tab\there");
    assert_int_equal(record.usage.input, -5);
    assert_int_equal(record.usage.cached_input, -1);
    assert_int_equal(record.usage.output, 3);
    assert_int_equal(record.usage.reasoning, -2);
    assert_int_equal(record.cost_pusd, -123);
}

static void escapes_are_undone(void **state)
{
    (void)state;
    static const struct {
        const char *spelt, *plain;
        size_t room;
    } cases[] = {
        {"plain", "plain", 16},
        {"a\\n\\t\\\"\\\\\\/\\b\\f\\r", "a\n\t\"\\/\b\f\r", 16},
        {"\\u00e9\\u20ac\\ud83d\\ude00", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 16},
        {"\\ud83d!", "\xef\xbf\xbd!", 16}, /* half a pair */
        {"abc", "ab", 3},
        {"a\xe2\x82\xac", "a", 4}, /* does not fit whole */
        {"a\\u20ac", "a", 4},
        {"a\xe2\x82\xac", "a\xe2\x82\xac", 5},
        {"x", "", 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[16];
        assert_int_equal(record_text(span_of(cases[i].spelt), out, cases[i].room),
                         strlen(cases[i].plain));
        assert_string_equal(out, cases[i].plain);
    }
}

static bool note_item(void *owner, struct span item)
{
    char *out = owner;

    (void)snprintf(out + strlen(out), 64 - strlen(out), "<%.*s>", (int)item.size, item.data);
    return strchr(out, 'c') == NULL;
}

static bool note_member(void *owner, struct span name, struct span value)
{
    (void)note_item(owner, name);
    return note_item(owner, value);
}

static void members_and_items_are_handed_out(void **state)
{
    (void)state;
    char out[64] = "";

    assert_true(record_members(SPAN("{\"a\":\"x\\n\",\"b\":[1, 2]}"), note_member, out));
    assert_string_equal(out, "<a><x\\n><b><[1, 2]>");
    out[0] = '\0';
    assert_true(record_items(SPAN("[ \"a\", {\"b\":1}, \"c\", \"d\"]"), note_item, out));
    assert_string_equal(out, "<a><{\"b\":1}><c>"); /* the visitor ended it */
    out[0] = '\0';
    assert_true(record_members(SPAN("{}"), note_member, out));
    assert_false(record_members(SPAN("{\"a\":1"), note_member, out));
    assert_false(record_members(SPAN("{\"a\":1}x"), note_member, out));
    assert_false(record_items(SPAN("{}"), note_item, out));
    assert_false(record_items((struct span){NULL, 0}, note_item, out));
}

static void costs_are_worked_out_again(void **state)
{
    (void)state;
    struct record record;
    char problem[160];
    char *copy;
    int64_t cost_pusd = -1;

    /* 10 × 50000 + 20 × 12500 + 30 × 200000 + 40 × 300000 */
    assert_int_equal(read_copy(whole_call, &record, &copy, problem), OK);
    assert_int_equal(record_cost(&record, &cost_pusd), OK);
    assert_int_equal(cost_pusd, 18750000);
    record.billable = false;
    assert_int_equal(record_cost(&record, &cost_pusd), OK);
    assert_int_equal(cost_pusd, 0);
    record.billable = true;
    record.has_tariff = false;
    assert_int_equal(record_cost(&record, &cost_pusd), ERR_BAD_VALUE);
    record.kind = RECORD_ADJUST;
    record.cost_pusd = -5;
    assert_int_equal(record_cost(&record, &cost_pusd), OK);
    assert_int_equal(cost_pusd, -5);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_a_call_is_read),
        cmocka_unit_test(prices_are_read_with_their_steps),
        cmocka_unit_test(a_head_says_what_its_signature_covers),
        cmocka_unit_test(opens_and_adjusts_are_read),
        cmocka_unit_test(rows_of_version_1_have_no_prev),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(what_is_no_row_is_refused),
        cmocka_unit_test(the_byte_is_named),
        cmocka_unit_test(no_cut_of_a_line_is_a_row),
        cmocka_unit_test(values_within_values_have_a_bound),
        cmocka_unit_test(what_row_writes_is_read_back),
        cmocka_unit_test(escapes_are_undone),
        cmocka_unit_test(members_and_items_are_handed_out),
        cmocka_unit_test(costs_are_worked_out_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
