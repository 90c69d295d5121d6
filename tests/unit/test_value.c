/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_value.c: the promises of gateway/value.h.
 *
 * - One value is read with the white space around it left out; more, less or deeper is none.
 * - A name is the same however its bytes are spelt; what is too long for any known one stays.
 * - Members are found by name, the last of two, null as absent; strangers and doubles are told.
 * - A walk over what is no container ends at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gateway/value.h"

#define assert_span(actual, expected) assert_true(span_equal((actual), SPAN(expected)))

static void one_value_is_read(void **state)
{
    (void)state;
    static const char *const none[] = {"", " ", "1 2", "{", "{} x", "[[[1]]]", "\"a"};
    struct span value;

    assert_true(value_read(SPAN(" \n{\"a\": 1}\t"), 2, &value));
    assert_span(value, "{\"a\": 1}");
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (value_read(span_of(none[i]), 2, &value))
            fail_msg("read: %s", none[i]);
}

static void names_may_be_spelt_with_escapes(void **state)
{
    (void)state;
    char scratch[VALUE_NAME_BYTES];
    char longest[VALUE_NAME_BYTES + 2];

    assert_true(value_says(SPAN("\"t\\u0079pe\""), SPAN("type")));
    assert_true(value_says(SPAN("\"type\""), SPAN("type")));
    assert_false(value_says(SPAN("\"types\""), SPAN("type")));
    assert_false(value_says(SPAN("type"), SPAN("type")));
    assert_false(value_says((struct span){NULL, 0}, SPAN("")));
    assert_true(value_spells(SPAN(""), SPAN("")));
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "\\n", 2);
    const struct span fits = {longest, VALUE_NAME_BYTES};
    const struct span too_long = {longest, VALUE_NAME_BYTES + 1};
    assert_int_equal(value_name(fits, scratch).size, VALUE_NAME_BYTES - 1);
    assert_ptr_equal(value_name(too_long, scratch).data, longest);
    assert_span(value_name(SPAN("\\ud800"), scratch), "\\ud800"); /* no text: as written */
}

static void members_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *object;
        const char *a, *b; /* NULL: absent */
        const char *odd;
    } cases[] = {
        {"{\"a\": 1, \"b\":[2]}", "1", "[2]", NULL},
        {"{\"\\u0061\":1}", "1", NULL, NULL},
        {"{\"a\":1,\"a\":2}", "2", NULL, "a"},
        {"{\"a\":null,\"c\":3,\"d\":4}", NULL, NULL, "c"},
        {"{\"x\":{\"a\":1}}", NULL, NULL, "x"},
        {"{}", NULL, NULL, NULL},
        {"[1]", NULL, NULL, NULL},
        {"\"a\"", NULL, NULL, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct member members[] = {{.name = SPAN("a")}, {.name = SPAN("b")}};
        const struct span odd = value_find(span_of(cases[i].object), members, 2);

        if (!span_equal(members[0].value, span_of(cases[i].a)) ||
            !span_equal(members[1].value, span_of(cases[i].b)) ||
            !span_equal(odd, span_of(cases[i].odd)))
            fail_msg("%s", cases[i].object);
    }
}

static void walks_end(void **state)
{
    (void)state;
    struct value_walk walk;
    struct span key;
    struct span value;

    value_walk_list(&walk, SPAN("[1, [2], \"3\"]"));
    assert_true(value_next_element(&walk, &value));
    assert_span(value, "1");
    assert_true(value_next_element(&walk, &value));
    assert_span(value, "[2]");
    assert_true(value_next_element(&walk, &value));
    assert_span(value_inside(value), "3");
    assert_false(value_next_element(&walk, &value));
    value_walk_object(&walk, SPAN("{\"k\\n\": {}}"));
    assert_true(value_next_member(&walk, &key, &value));
    assert_span(key, "k\\n");
    assert_span(value, "{}");
    assert_false(value_next_member(&walk, &key, &value));
    value_walk_list(&walk, SPAN("{\"a\":1}"));
    assert_false(value_next_element(&walk, &value));
    value_walk_object(&walk, (struct span){NULL, 0});
    assert_false(value_next_member(&walk, &key, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_is_read),
        cmocka_unit_test(names_may_be_spelt_with_escapes),
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(walks_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
