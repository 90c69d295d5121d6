/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_ask_form.c: asks of the endpoints that take audio, and the splice of their model.
 *
 * Promises: 1. What routing and metering need is found, in whatever order.
 *           2. Fields that we must understand stand once and have a value that we can use.
 *           3. The model's name is replaced and no other byte; no name can begin another part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "config/base/span.h"
#include "gateway/ask.h"

static const struct ask_limits usual = {.json_depth = 64, .n = 16};

#define FORM_DATA SPAN("multipart/form-data; boundary=b")
#define FIELD(name, value)                                                                         \
    "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define UPLOAD                                                                                     \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n"                 \
    "Content-Type: audio/wav\r\n\r\nRIFF\r\n"
#define LAST "--b--\r\n"

static struct ask ask;
static struct ask_problem problem;

static enum err read_form(const char *body)
{
    problem = (struct ask_problem){0};
    return ask_read_multipart(span_of(body), FORM_DATA, &usual, &ask, &problem);
}

static void a_form_is_read(void **state)
{
    (void)state;
    assert_int_equal(
        read_form(UPLOAD FIELD("model", "whisper") FIELD("stream", "true")
                      FIELD("prompt", "Tollgate, Adyton") FIELD("language", "en")
                          FIELD("response_format", "json") FIELD("stream_include_usage", "1")
                              FIELD("stream_continuous_usage_stats", "True") FIELD("n", "3")
                                  FIELD("max_completion_tokens", "9")
                                      FIELD("timestamp_granularities[]", "word")
                                          FIELD("timestamp_granularities[]", "segment") LAST),
        OK);
    assert_true(span_equal(ask.model, SPAN("whisper")));
    assert_true(ask.multipart);
    assert_true(ask.stream);
    assert_true(ask.include_usage);
    assert_true(ask.continuous_usage);
    assert_true(ask.images);
    assert_int_equal(ask.text_bytes, 16);
    assert_int_equal(ask.n, 3);
    assert_int_equal(ask.max_tokens, 9);
    assert_int_equal(ask.prompts, 1);
    assert_int_equal(ask.refused, 0);
    assert_int_equal(ask.model_place.size, 7);
}

static void defaults_stand_for_what_is_absent(void **state)
{
    (void)state;
    assert_int_equal(read_form(FIELD("model", "m") UPLOAD LAST), OK);
    assert_false(ask.stream);
    assert_false(ask.include_usage);
    assert_int_equal(ask.n, 1);
    assert_int_equal(ask.max_tokens, -1);
    assert_int_equal(ask.text_bytes, 0);
    assert_int_equal(ask.messages, 0);
}

static void a_body_that_is_no_form_is_refused_as_such(void **state)
{
    (void)state;
    assert_int_equal(
        ask_read_multipart(SPAN("{}"), SPAN("application/json"), &usual, &ask, &problem),
        ERR_BAD_CONTENT_TYPE);
    assert_int_equal(
        ask_read_multipart(SPAN(UPLOAD), SPAN("multipart/form-data"), &usual, &ask, &problem),
        ERR_BAD_CONTENT_TYPE);
}

static void values_that_cannot_be_used_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param;
    } cases[] = {
        {LAST, "model"},
        {UPLOAD LAST, "model"},
        {FIELD("model", "m") LAST, "file"},
        {FIELD("model", "m") FIELD("model", "n") UPLOAD LAST, "model"},
        {FIELD("model", "m") UPLOAD UPLOAD LAST, "file"},
        {FIELD("model", "") UPLOAD LAST, "model"},
        {FIELD("model", "m") FIELD("file", "") LAST, "file"},
        {"--b\r\nContent-Disposition: form-data; name=\"model\"; filename=\"m\"\r\n\r\nm\r\n" UPLOAD
             LAST,
         "model"},
        {FIELD("model", "m") UPLOAD FIELD("stream", "yes") LAST, "stream"},
        {FIELD("model", "m") UPLOAD FIELD("stream", "") LAST, "stream"},
        {FIELD("model", "m") UPLOAD FIELD("stream", "true") FIELD("stream", "false") LAST,
         "stream"},
        {FIELD("model", "m") UPLOAD FIELD("n", "17") LAST, "n"},
        {FIELD("model", "m") UPLOAD FIELD("n", "1.0") LAST, "n"},
        {FIELD("model", "m") UPLOAD FIELD("max_completion_tokens", "-1") LAST,
         "max_completion_tokens"},
        {FIELD("model", "m") UPLOAD, NULL},
        {FIELD("model", "m") UPLOAD LAST "more", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (read_form(cases[i].body) != ERR_BAD_VALUE)
            fail_msg("not refused: %s", cases[i].body);
        assert_non_null(problem.message);
        if (cases[i].param == NULL)
            assert_null(problem.param);
        else
            assert_string_equal(problem.param, cases[i].param);
    }
}

static void fields_that_need_leave_are_marked(void **state)
{
    (void)state;
    assert_int_equal(read_form(FIELD("model", "m") UPLOAD FIELD("vllm_xargs", "{}")
                                   FIELD("priority", "1") FIELD("user", "u") LAST),
                     OK);
    assert_int_equal(ask.refused, REFUSED_VLLM_XARGS | REFUSED_PRIORITY);
}

static void the_name_is_replaced_and_no_other_byte(void **state)
{
    (void)state;
    static const struct {
        const char *model, *after; /* of the first field */
    } cases[] = {
        {"openai/whisper \"large\"", FIELD("model", "openai/whisper \"large\"")},
        {"m", FIELD("model", "m")},
        {NULL, FIELD("model", "m")},
        {"--c", FIELD("model", "--c")},
        {"a--b--", FIELD("model", "a--b--")},
    };
    const struct span body = SPAN(FIELD("model", "m") UPLOAD FIELD("stream", "1") LAST);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct splice splices[ASK_SPLICES_MAX];
        struct iovec pieces[2 * ASK_SPLICES_MAX + 1];
        char joined[1024];
        char expected[1024];
        uint32_t count;
        size_t bytes;
        size_t size = 0;

        assert_int_equal(read_form(body.data), OK);
        assert_int_equal(ask_splices(&ask, body, KIND_VLLM, span_of(cases[i].model), SPAN("00ff"),
                                     NULL, splices, &count),
                         OK);
        count = splice_pieces(body, splices, count, pieces, &bytes);
        for (uint32_t piece = 0; piece < count; piece++) {
            memcpy(joined + size, pieces[piece].iov_base, pieces[piece].iov_len);
            size += pieces[piece].iov_len;
        }
        snprintf(expected, sizeof(expected), "%s%s", cases[i].after,
                 UPLOAD FIELD("stream", "1") LAST);
        assert_int_equal(size, bytes);
        assert_true(span_equal((struct span){joined, size}, span_of(expected)));
    }
}

static void no_name_can_begin_another_part(void **state)
{
    (void)state;
    static const char *const models[] = {"m\r\n--c", "a\rb", "a\nb", "--b", "--b--", "--by"};
    const struct span body = SPAN(FIELD("model", "m") UPLOAD LAST);
    struct splice splices[ASK_SPLICES_MAX];
    uint32_t count;

    assert_int_equal(read_form(body.data), OK);
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        assert_int_equal(ask_splices(&ask, body, KIND_VLLM, span_of(models[i]),
                                     (struct span){NULL, 0}, NULL, splices, &count),
                         ERR_BAD_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_form_is_read),
        cmocka_unit_test(defaults_stand_for_what_is_absent),
        cmocka_unit_test(a_body_that_is_no_form_is_refused_as_such),
        cmocka_unit_test(values_that_cannot_be_used_are_refused_by_name),
        cmocka_unit_test(fields_that_need_leave_are_marked),
        cmocka_unit_test(the_name_is_replaced_and_no_other_byte),
        cmocka_unit_test(no_name_can_begin_another_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
