/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_scan.c: the JSON scanner against jansson.
 *
 * Checks: both take and refuse the same texts, but for what each says it does not do; the tree that
 * a walk with the scanner gives is the tree that jansson reads. */
#include "tests/fuzz/trees.h"

#include "gateway/scan.h"

#define DEPTH_MAX 64

static bool is_whole(struct span text, uint32_t depth_max, size_t *out_offset)
{
    struct scan scan;
    struct span value;
    bool whole;

    scan_init(&scan, text, depth_max);
    whole = scan_skip(&scan, &value) && scan_finish(&scan);
    CHECK(whole == (scan.problem == NULL));
    CHECK(scan_offset(&scan) <= text.size);
    *out_offset = scan_offset(&scan);
    return whole;
}

/* Did jansson refuse what RFC 8259 allows: half surrogate pairs, NUL in keys, numbers beyond
 * double? */
static bool is_its_own_limit(const json_error_t *error)
{
    const enum json_error_code code = json_error_code(error);

    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
           strstr(error->text, "invalid Unicode") != NULL;
}

/* jansson takes a NUL behind the value for the end. */
static bool has_nul(struct span text)
{
    return text.size > 0 && memchr(text.data, '\0', text.size) != NULL;
}

/* ---- the walk ---- */

static json_t *walk_value(struct scan *scan);

/* A string's value; NULL when jansson has none for it. */
static json_t *text_value(struct span raw)
{
    char *text = malloc(raw.size + 1);
    size_t size = 0;
    json_t *value = NULL;

    CHECK(text != NULL);
    if (scan_decode(raw, text, &size))
        value = json_stringn(text, size);
    free(text);
    return value;
}

static bool walk_object(struct scan *scan, json_t *object)
{
    bool first = true;
    struct span key;

    while (scan_member(scan, &first, &key)) {
        char *name = malloc(key.size + 1);
        size_t size = 0;
        bool decoded;
        json_t *value = walk_value(scan);

        CHECK(name != NULL);
        decoded = scan_decode(key, name, &size);
        name[decoded ? size : 0] = '\0';
        if (value == NULL || !decoded || strlen(name) != size) {
            json_decref(value);
            free(name);
            return false;
        }
        CHECK(json_object_set_new(object, name, value) == 0);
        free(name);
    }
    return scan->problem == NULL;
}

static bool walk_array(struct scan *scan, json_t *array)
{
    bool first = true;

    while (scan_element(scan, &first)) {
        json_t *value = walk_value(scan);

        if (value == NULL)
            return false;
        CHECK(json_array_append_new(array, value) == 0);
    }
    return scan->problem == NULL;
}

static json_t *walk_container(struct scan *scan, enum scan_type type)
{
    json_t *value = type == SCAN_OBJECT ? json_object() : json_array();

    if (!scan_enter(scan, type) ||
        !(type == SCAN_OBJECT ? walk_object(scan, value) : walk_array(scan, value))) {
        json_decref(value);
        return NULL;
    }
    return value;
}

/* NULL: an error, or a value that jansson cannot hold. */
static json_t *walk_value(struct scan *scan)
{
    enum scan_type type;
    struct span text;
    bool escaped;

    if (!scan_peek(scan, &type))
        return NULL;
    switch (type) {
    case SCAN_OBJECT:
    case SCAN_ARRAY:
        return walk_container(scan, type);
    case SCAN_STRING:
        if (!scan_string(scan, &text, &escaped))
            return NULL;
        CHECK(escaped == (text.size > 0 && memchr(text.data, '\\', text.size) != NULL));
        return text_value(text);
    case SCAN_NUMBER:
        if (!scan_number(scan, &text))
            return NULL;
        return json_loadb(text.data, text.size, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    default:
        if (!scan_skip(scan, &text))
            return NULL;
#ifdef PLANT_BUG
        if (type == SCAN_FALSE)
            return json_true();
#endif
        return type == SCAN_NULL ? json_null() : json_boolean(type == SCAN_TRUE);
    }
}

static void check_walk(struct span text, bool whole, const json_t *expected)
{
    struct scan scan;
    json_t *value;

    scan_init(&scan, text, DEPTH_MAX);
    value = walk_value(&scan);
    if (value != NULL) {
        CHECK(scan_finish(&scan) == whole);
        if (expected != NULL && whole)
            CHECK(json_equal(value, expected));
    } else {
        CHECK(!whole || expected == NULL);
    }
    json_decref(value);
}

/* Decoding and splicing take any bytes. */
static void check_decode_and_splice(struct span text, unsigned at)
{
    char *out = malloc(text.size > 0 ? text.size : 1);
    size_t size = 0;
    struct splice splices[2] = {{at % (text.size + 1), 0, SPAN("in")}, {text.size, 0, SPAN("")}};
    struct iovec pieces[5];
    size_t bytes;
    size_t sum = 0;

    CHECK(out != NULL);
    if (scan_decode(text, out, &size))
        CHECK(size <= text.size);
    splices[0].removed = (text.size - splices[0].at) / 2;

    const uint32_t count = splice_pieces(text, splices, 2, pieces, &bytes);

    CHECK(count <= 5);
    for (uint32_t i = 0; i < count; i++)
        sum += pieces[i].iov_len;
    CHECK(sum == bytes && sum == text.size - splices[0].removed + 2);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {(const char *)data, size};
    const unsigned at = take_byte(&input);
    char *copy = exact_copy(input);
    struct span text = {copy, input.size};
    size_t offset;
    size_t deep_offset;
    const bool whole = is_whole(text, DEPTH_MAX, &offset);
    const bool deep_whole = is_whole(text, SCAN_DEPTH_MAX, &deep_offset);
    json_error_t error;
    json_t *expected;

    trees_begin();
    expected = json_loadb(text.data, text.size,
                          JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    CHECK(!whole || deep_whole);
    if (whole)
        CHECK(expected != NULL || is_its_own_limit(&error));
    if (!deep_whole && !has_nul(text))
        CHECK(expected == NULL || text.size > 2u * SCAN_DEPTH_MAX);
    check_walk(text, whole, expected);
    check_decode_and_splice(text, at);
    json_decref(expected);
    free(copy);
    return 0;
}
