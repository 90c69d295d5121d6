/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_scan.c: JSON bytes walked without a tree, and spliced.
 *
 * Promises: 1. What RFC 8259 calls JSON is taken, and nothing else, with the offset of the error.
 *           2. Values are spans of the bytes that came: no number, escape or space is changed.
 *           3. Depth is bounded; skipping takes no stack that the body could use up.
 *           4. Splices change what they name and no other byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/scan.h"

static bool scan_whole(struct span bytes, uint32_t depth_max, struct scan *scan)
{
    struct span value;

    scan_init(scan, bytes, depth_max);
    return scan_skip(scan, &value) && scan_finish(scan);
}

static void assert_span(struct span actual, const char *expected)
{
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

static void json_is_taken(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "null",
        " true ",
        "\t\r\n false\n",
        "0",
        "-0",
        "12.50e+3",
        "1E-9",
        "18446744073709551616",
        "\"\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
        "\"\\ud800\"",
        "\"\x7f\"",
        "\"caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x9a\x80 \xf4\x8f\xbf\xbf \xed\x9f\xbf\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1,[2,{\"a\":[]}],\"x\"]",
        "{\"a\":{\"b\":{\"c\":[{},[],{\"d\":null}]}},\"e\":-1.5}",
        "{ \"a\" : 1 , \"a\" : [ 1 , 2 ] }",
        "\"a long text of more than sixteen bytes, so that vectors see it\"",
    };
    struct scan scan;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (!scan_whole(span_of(cases[i]), 64, &scan))
            fail_msg("refused: %s: %s", cases[i], scan.problem);
}

static void what_is_not_json_is_refused_with_its_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t offset;
    } cases[] = {
        {"", 0},
        {"  ", 2},
        {"nul", 0},
        {"nulll", 4},
        {"True", 0},
        {"+1", 0},
        {"-", 1},
        {"01", 1},
        {"-01", 2},
        {"1.", 2},
        {".5", 0},
        {"1e", 2},
        {"1e+", 3},
        {"1 2", 2},
        {"NaN", 0},
        {"0x1", 1},
        {"\"", 1},
        {"\"a", 2},
        {"'a'", 0},
        {"\"a\\", 2},
        {"\"\\x\"", 1},
        {"\"\\u12\"", 1},
        {"\"\\u12g4\"", 1},
        {"\"a\nb\"", 2},
        {"\"a\tb\"", 2},
        {"\"0123456789abcdef\x1f\"", 17},
        {"\"\x80\"", 1},
        {"\"\xc0\x80\"", 1},
        {"\"\xc3\"", 1},
        {"\"\xc3", 1},
        {"\"\xe0\x80\x80\"", 1},
        {"\"\xed\xa0\x80\"", 1},
        {"\"\xf0\x80\x80\x80\"", 1},
        {"\"\xf4\x90\x80\x80\"", 1},
        {"\"\xf5\x80\x80\x80\"", 1},
        {"\"\xe6\x97\"", 1},
        {"\"\xe6\x97\xa5\xff\"", 4},
        {"[", 1},
        {"[1", 2},
        {"[1,", 3},
        {"[1,]", 3},
        {"[,1]", 1},
        {"[1 2]", 3},
        {"[1}", 2},
        {"]", 0},
        {"{", 1},
        {"{\"a\"", 4},
        {"{\"a\":", 5},
        {"{\"a\":}", 5},
        {"{\"a\" 1}", 5},
        {"{\"a\":1,}", 7},
        {"{,}", 1},
        {"{a:1}", 1},
        {"{1:1}", 1},
        {"{\"a\":1]", 6},
        {"[{\"a\":1,\"b\":[1,2}]", 16},
        {"[] []", 3},
        {"// x\n1", 0},
        {"\xef\xbb\xbf{}", 0},
        {"\xff", 0},
    };
    struct scan scan;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (scan_whole(span_of(cases[i].text), 64, &scan))
            fail_msg("accepted: %s", cases[i].text);
        assert_non_null(scan.problem);
        if (scan_offset(&scan) != cases[i].offset)
            fail_msg("%s: offset %zu", cases[i].text, scan_offset(&scan));
    }
}

static void nul_bytes_are_no_end(void **state)
{
    (void)state;
    struct scan scan;

    assert_false(scan_whole(SPAN("{}\0"), 64, &scan));
    assert_false(scan_whole(SPAN("\"a\0b\""), 64, &scan));
    assert_true(scan_whole(SPAN("\"a\\u0000b\""), 64, &scan));
}

static void depth_is_bounded(void **state)
{
    (void)state;
    const size_t levels = 100000;
    char *text = malloc(2 * levels);
    struct scan scan;

    assert_non_null(text);
    memset(text, '[', levels);
    memset(text + levels, ']', levels);

    assert_false(scan_whole((struct span){text, 2 * levels}, 64, &scan));
    assert_int_equal(scan_offset(&scan), 64);
    assert_true(scan_whole((struct span){text + levels - 64, 128}, 64, &scan));
    assert_false(scan_whole((struct span){text + levels - 65, 130}, 64, &scan));
    assert_true(scan_whole((struct span){text + levels - 1024, 2048}, 9999, &scan));
    assert_false(scan_whole((struct span){text + levels - 1025, 2050}, 9999, &scan));
    free(text);
}

static void members_and_elements_are_walked(void **state)
{
    (void)state;
    const struct span body =
        SPAN(" {\"n\": 12 ,\"s\":\"a\\nb\",\"l\":[1, {} ,\"x\"],\"\\u006d\":null} ");
    struct scan scan;
    bool first = true;
    bool first_element = true;
    bool escaped;
    enum scan_type type;
    struct span key;
    struct span value;

    scan_init(&scan, body, 64);
    assert_true(scan_enter(&scan, SCAN_OBJECT));

    assert_true(scan_member(&scan, &first, &key));
    assert_span(key, "n");
    assert_true(scan_peek(&scan, &type));
    assert_int_equal(type, SCAN_NUMBER);
    assert_true(scan_number(&scan, &value));
    assert_span(value, "12");

    assert_true(scan_member(&scan, &first, &key));
    assert_true(scan_string(&scan, &value, &escaped));
    assert_span(value, "a\\nb");
    assert_true(escaped);

    assert_true(scan_member(&scan, &first, &key));
    assert_true(scan_enter(&scan, SCAN_ARRAY));
    assert_true(scan_element(&scan, &first_element));
    assert_true(scan_skip(&scan, &value));
    assert_span(value, "1");
    assert_true(scan_element(&scan, &first_element));
    assert_true(scan_skip(&scan, &value));
    assert_span(value, "{}");
    assert_true(scan_element(&scan, &first_element));
    assert_true(scan_string(&scan, &value, &escaped));
    assert_false(escaped);
    assert_false(scan_element(&scan, &first_element));
    assert_null(scan.problem);

    assert_true(scan_member(&scan, &first, &key));
    assert_span(key, "\\u006d");
    assert_true(scan_peek(&scan, &type));
    assert_int_equal(type, SCAN_NULL);
    assert_true(scan_skip(&scan, &value));
    assert_false(scan_member(&scan, &first, &key));
    assert_null(scan.problem);
    assert_true(scan_finish(&scan));
}

static void after_an_error_nothing_is_taken(void **state)
{
    (void)state;
    struct scan scan;
    enum scan_type type;
    struct span value;
    bool escaped;
    bool first = true;

    scan_init(&scan, SPAN("5 {}"), 64);
    assert_false(scan_enter(&scan, SCAN_OBJECT));

    assert_false(scan_peek(&scan, &type));
    assert_false(scan_number(&scan, &value));
    assert_false(scan_string(&scan, &value, &escaped));
    assert_false(scan_skip(&scan, &value));
    assert_false(scan_enter(&scan, SCAN_ARRAY));
    assert_false(scan_member(&scan, &first, &value));
    assert_false(scan_finish(&scan));
    assert_string_equal(scan.problem, "an object was expected");
}

static void escapes_are_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *raw, *text; /* text NULL: refused */
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"mod\\u0065l", "model"},
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
        {"\\u00E9\\u65e5", "\xc3\xa9\xe6\x97\xa5"},
        {"\\ud83d\\ude80", "\xf0\x9f\x9a\x80"},
        {"\\ud800", NULL},
        {"\\udc00\\ud800", NULL},
        {"\\ud83d\\u0041", NULL},
        {"\\ud83dx", NULL},
        {"\\x", NULL},
        {"\\u12", NULL},
        {"\\", NULL},
    };
    char out[64];
    size_t size;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool sound = scan_decode(span_of(cases[i].raw), out, &size);

        assert_int_equal(sound, cases[i].text != NULL);
        if (sound)
            assert_span(((struct span){out, size}), cases[i].text);
    }
}

static void splices_touch_nothing_else(void **state)
{
    (void)state;
    const struct span body = SPAN("0123456789");
    const struct splice splices[] = {
        {.at = 0, .removed = 0, .inserted = SPAN("<")},
        {.at = 2, .removed = 3, .inserted = SPAN("ab")},
        {.at = 5, .removed = 1, .inserted = {NULL, 0}},
        {.at = 10, .removed = 0, .inserted = SPAN(">")},
    };
    struct iovec pieces[9];
    char joined[64];
    size_t bytes;
    size_t size = 0;

    const uint32_t count = splice_pieces(body, splices, 4, pieces, &bytes);

    for (uint32_t i = 0; i < count; i++) {
        memcpy(joined + size, pieces[i].iov_base, pieces[i].iov_len);
        size += pieces[i].iov_len;
    }
    assert_int_equal(size, bytes);
    assert_span((struct span){joined, size}, "<01ab6789>");
    assert_int_equal(splice_pieces(body, NULL, 0, pieces, &bytes), 1);
    assert_int_equal(bytes, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_taken),
        cmocka_unit_test(what_is_not_json_is_refused_with_its_offset),
        cmocka_unit_test(nul_bytes_are_no_end),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(members_and_elements_are_walked),
        cmocka_unit_test(after_an_error_nothing_is_taken),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(splices_touch_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
