/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_sse.c: server-sent events out of bytes cut anywhere.
 *
 * Promises: 1. Events and their data are the same whatever way the bytes were cut.
 *           2. An event is whole as soon as its blank line is there, whatever ends its lines.
 *           3. Comments, other fields and odd spacing are no data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/sse.h"

/* Splits text given in pieces of `step` bytes; each event's data, then "|", goes to out ("-" for an
 * event without data). Returns the bytes left over. */
static size_t split(struct span text, size_t step, char *out)
{
    struct sse sse = {0};
    size_t from = 0;
    size_t size = 0;
    char scratch[1024];

    for (size_t given = 0; given < text.size;) {
        given = text.size - given < step ? text.size : given + step;
        for (;;) {
            const size_t event = sse_next(&sse, (struct span){text.data + from, given - from});

            if (event == 0)
                break;

            const struct span data = sse_data((struct span){text.data + from, event}, scratch);

            if (data.data == NULL)
                out[size++] = '-';
            else if (data.size > 0)
                memcpy(out + size, data.data, data.size);
            size += data.size;
            out[size++] = '|';
            from += event;
        }
    }
    out[size] = '\0';
    /* the LF of the last line end may be left alone: it opens no event */
    if (text.size - from == 1 && text.data[from] == '\n')
        from++;
    return text.size - from;
}

static void events_are_the_same_however_cut(void **state)
{
    (void)state;
    static const struct {
        const char *text, *events;
        size_t left;
    } cases[] = {
        {"data: a\n\ndata: b\n\n", "a|b|", 0},
        {"data: a\r\n\r\ndata: b\r\n\r\n", "a|b|", 0},
        {"data: a\r\rdata: b\r\r", "a|b|", 0},
        {"data:a\n\ndata:  b\n\n", "a| b|", 0},
        {"data: a\ndata: b\ndata\ndata:\n\n", "a\nb\n\n|", 0},
        {"data\n\n", "|", 0},
        {": ping\n\n", "-|", 0},
        {"event: message\nid: 1\ndata: x\nretry: 5\n\n", "x|", 0},
        {"database: no\ndatum: no\n data: no\nData: no\n\n", "-|", 0},
        {"\xef\xbb\xbf"
         "data: a\n\n",
         "a|", 0},
        {"data: {\"a\":\n\ndata: open", "{\"a\":|", 10},
        {"data: a\r\n", "", 9},
        {"data: a\n\rdata: b\n\n", "a|b|", 0},
        {"data: a long event of many more than sixteen bytes, 0123456789\n\n",
         "a long event of many more than sixteen bytes, 0123456789|", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            char out[256];
            const size_t left = split(span_of(cases[i].text), step, out);

            assert_string_equal(out, cases[i].events);
            assert_int_equal(left, cases[i].left);
        }
    }
}

static void a_lone_blank_line_is_an_empty_event(void **state)
{
    (void)state;
    char out[64];

    assert_int_equal(split(SPAN("\n\ndata: a\n\n\r\n"), 99, out), 0);
    assert_string_equal(out, "-|-|a|-|");
}

static void a_cr_at_the_very_end_closes_the_event(void **state)
{
    (void)state;
    struct sse sse = {0};

    assert_int_equal(sse_next(&sse, SPAN("data: a\r\n\r")), 10);
    assert_true(sse.had_lf_due);
    assert_int_equal(sse_next(&sse, SPAN("\ndata: b\n\n")), 10);
    assert_false(sse.had_lf_due);
    assert_int_equal(sse_next(&sse, SPAN("\ndata: b\n\n")), 1);
}

static void an_lf_that_is_due_stands_alone(void **state)
{
    (void)state;
    struct sse sse = {0};
    char scratch[16];

    assert_int_equal(sse_next(&sse, SPAN("data: a\r\r")), 9);
    assert_int_equal(sse_next(&sse, SPAN("\n")), 0);
    assert_int_equal(sse_next(&sse, SPAN("\ndata: b\n\n")), 10);
    assert_int_equal(sse_data(SPAN("\ndata: b\n\n"), scratch).size, 1);
}

static void nothing_is_searched_twice(void **state)
{
    (void)state;
    struct sse sse = {0};

    assert_int_equal(sse_next(&sse, (struct span){NULL, 0}), 0);
    assert_int_equal(sse_next(&sse, SPAN("data: 0123456789")), 0);
    assert_int_equal(sse.scanned, 16);
    assert_int_equal(sse_next(&sse, SPAN("data: 0123456789")), 0);
    assert_int_equal(sse_next(&sse, SPAN("data: 0123456789\n")), 0);
    assert_int_equal(sse_next(&sse, SPAN("data: 0123456789\n\n")), 18);
}

static void the_end_mark_is_known(void **state)
{
    (void)state;
    assert_true(sse_is_done(SPAN("[DONE]")));
    assert_true(sse_is_done(SPAN(" [DONE] ")));
    assert_false(sse_is_done(SPAN("[DONE")));
    assert_false(sse_is_done(SPAN("\"[DONE]\"")));
    assert_false(sse_is_done((struct span){NULL, 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_the_same_however_cut),
        cmocka_unit_test(a_lone_blank_line_is_an_empty_event),
        cmocka_unit_test(a_cr_at_the_very_end_closes_the_event),
        cmocka_unit_test(an_lf_that_is_due_stands_alone),
        cmocka_unit_test(nothing_is_searched_twice),
        cmocka_unit_test(the_end_mark_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
