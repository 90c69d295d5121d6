/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_fault.c: errors of any server, read and written.
 *
 * Promises: 1. What every known server says is read: message, type, param, code, and its form.
 *           2. What has a client's shape already is known to have it.
 *           3. Bytes that are no error give no error texts, and never a broken one.
 *           4. What is written is one JSON object of the API's shape.
 *           5. An overlong context is known by each server's own words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <jansson.h>

#include "gateway/fault.h"

#define ABSENT NULL

static struct arena arena;

static int begin(void **state)
{
    (void)state;
    arena_init(&arena, NULL, 0, 1u << 20);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static struct fault read_text(struct span body)
{
    struct fault fault;

    memset(&fault, 0xa5, sizeof(fault));
    fault_read(body, &arena, &fault);
    return fault;
}

static void assert_text(struct span actual, const char *expected, const char *body)
{
    if (!span_equal(actual, span_of(expected)))
        fail_msg("%s: got '%.*s', expected '%s'", body, (int)actual.size, actual.data,
                 expected ? expected : "(absent)");
}

/* ---- reading ---- */

static const struct {
    const char *body;
    enum fault_form form;
    const char *message, *type, *param, *code;
    int status;
} bodies[] = {
    /* OpenAI */
    {"{\"error\":{\"message\":\"no such model\",\"type\":\"invalid_request_error\",\"param\":null,"
     "\"code\":\"model_not_found\"}}",
     FAULT_OPENAI, "no such model", "invalid_request_error", ABSENT, "model_not_found", 0},
    /* vLLM since 0.10.1, and its form before */
    {"{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens. However, your "
     "prompt contains at least 8193 input tokens\",\"type\":\"BadRequestError\",\"param\":"
     "\"input_tokens\",\"code\":400}}",
     FAULT_OPENAI,
     "This model's maximum context length is 8192 tokens. However, your prompt contains at least "
     "8193 input tokens",
     "BadRequestError", "input_tokens", ABSENT, 400},
    {"{\"object\":\"error\",\"message\":\"The model `x` does not exist.\",\"type\":"
     "\"NotFoundError\",\"param\":null,\"code\":404}",
     FAULT_FLAT, "The model `x` does not exist.", "NotFoundError", ABSENT, ABSENT, 404},
    {"{\"error\":\"Unauthorized\"}", FAULT_STRING, "Unauthorized", ABSENT, ABSENT, ABSENT, 0},
    {"{\"detail\":\"Not Found\"}", FAULT_DETAIL, "Not Found", ABSENT, ABSENT, ABSENT, 0},
    {"{\"type\":\"error\",\"error\":{\"type\":\"NotFoundError\",\"message\":\"The model `nobody` "
     "does not exist. Valid aliases: tiny.\"}}",
     FAULT_ANTHROPIC, "The model `nobody` does not exist. Valid aliases: tiny.", "NotFoundError",
     ABSENT, ABSENT, 0},
    /* llama.cpp */
    {"{\"error\":{\"code\":400,\"message\":\"request (36003 tokens) exceeds the available context "
     "size (8192 tokens), try increasing it\",\"type\":\"exceed_context_size_error\","
     "\"n_prompt_tokens\":36003,\"n_ctx\":8192}}",
     FAULT_OPENAI,
     "request (36003 tokens) exceeds the available context size (8192 tokens), try increasing it",
     "exceed_context_size_error", ABSENT, ABSENT, 400},
    {"{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}",
     FAULT_OPENAI, "Loading model", "unavailable_error", ABSENT, ABSENT, 503},
    /* TGI, whole and in a stream */
    {"{\"error\":\"Model is overloaded\",\"error_type\":\"overloaded\"}", FAULT_STRING,
     "Model is overloaded", "overloaded", ABSENT, ABSENT, 0},
    /* Anthropic */
    {"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"},"
     "\"request_id\":\"r\"}",
     FAULT_ANTHROPIC, "Overloaded", "overloaded_error", ABSENT, ABSENT, 0},
    /* FastAPI's own validation */
    {"{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\",\"messages\",0],\"msg\":\"Field "
     "required\",\"input\":{}},{\"loc\":[\"body\"],\"msg\":\"Bad\"},{\"msg\":\"Worse\"},7]}",
     FAULT_DETAIL, "body.messages.0: Field required; body: Bad; Worse", ABSENT, "body.messages.0",
     ABSENT, 0},
    {"{\"detail\":{\"why\":1}}", FAULT_DETAIL, "{\"why\":1}", ABSENT, ABSENT, ABSENT, 0},
    /* events of a responses stream */
    {"{\"type\":\"error\",\"code\":\"server_error\",\"message\":\"boom\",\"param\":null,"
     "\"sequence_number\":7}",
     FAULT_RESPONSE, "boom", ABSENT, ABSENT, "server_error", 0},
    {"{\"type\":\"error\",\"error\":{\"type\":\"server_error\",\"code\":null,\"message\":\"boom\"},"
     "\"sequence_number\":7}",
     FAULT_RESPONSE, "boom", "server_error", ABSENT, ABSENT, 0},
    {"{\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"rate_limit_exceeded\","
     "\"message\":\"slow down\"}},\"sequence_number\":7}",
     FAULT_RESPONSE, "slow down", ABSENT, ABSENT, "rate_limit_exceeded", 0},
    {"{\"type\":\"response.failed\",\"response\":{}}", FAULT_RESPONSE, ABSENT, ABSENT, ABSENT,
     ABSENT, 0},
    /* no JSON */
    {"\r\n Internal Server Error \n", FAULT_TEXT, "Internal Server Error", ABSENT, ABSENT, ABSENT,
     0},
    {"Invalid \"HTTP\" request\tre\\ceived.", FAULT_TEXT, "Invalid \"HTTP\" request\tre\\ceived.",
     ABSENT, ABSENT, ABSENT, 0},
    {"{\"error\":{\"message\":\"cut", FAULT_TEXT, "{\"error\":{\"message\":\"cut", ABSENT, ABSENT,
     ABSENT, 0},
    {"{\"error\":null}", FAULT_TEXT, "{\"error\":null}", ABSENT, ABSENT, ABSENT, 0},
    {"[\"error\"]", FAULT_TEXT, "[\"error\"]", ABSENT, ABSENT, ABSENT, 0},
    {"", FAULT_NONE, ABSENT, ABSENT, ABSENT, ABSENT, 0},
    {" \n ", FAULT_NONE, ABSENT, ABSENT, ABSENT, ABSENT, 0},
    {"\xff\xfe", FAULT_NONE, ABSENT, ABSENT, ABSENT, ABSENT, 0},
    {"\x1b[31mred", FAULT_NONE, ABSENT, ABSENT, ABSENT, ABSENT, 0},
    {"del\x7f", FAULT_NONE, ABSENT, ABSENT, ABSENT, ABSENT, 0},
    /* what is nearly one of them */
    {"{\"error\":{\"message\":{\"text\":\"a\"},\"type\":[1],\"code\":1234}}", FAULT_FLAT,
     "{\"text\":\"a\"}", ABSENT, ABSENT, "1234", 0},
    {"{\"error\":{}}", FAULT_FLAT, ABSENT, ABSENT, ABSENT, ABSENT, 0},
    {"{\"error\":true,\"message\":\"a\"}", FAULT_FLAT, "a", ABSENT, ABSENT, ABSENT, 0},
    {"{\"err\\u006fr\":{\"mess\\u0061ge\":\"caf\\u00e9 \\ud83d\\ude00\\n\",\"code\":\"\"}}",
     FAULT_OPENAI, "caf\xc3\xa9 \xf0\x9f\x98\x80\n", ABSENT, ABSENT, ABSENT, 0},
    {"{\"error\":{\"message\":\"half \\ud83d\"}}", FAULT_OPENAI, "half \\ud83d", ABSENT, ABSENT,
     ABSENT, 0},
    {"{\"error\":{\"message\":\"a\",\"message\":\"b\"}}", FAULT_OPENAI, "b", ABSENT, ABSENT, ABSENT,
     0},
};

static void every_known_form_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const struct fault fault = read_text(span_of(bodies[i].body));

        if (fault.form != bodies[i].form || fault.status != bodies[i].status)
            fail_msg("%s: form %d, status %d", bodies[i].body, (int)fault.form, fault.status);
        assert_text(fault.message, bodies[i].message, bodies[i].body);
        assert_text(fault.type, bodies[i].type, bodies[i].body);
        assert_text(fault.param, bodies[i].param, bodies[i].body);
        assert_text(fault.code, bodies[i].code, bodies[i].body);
    }
}

static void the_number_of_an_event_is_kept(void **state)
{
    (void)state;
    const struct fault numbered =
        read_text(SPAN("{\"type\":\"error\",\"message\":\"a\",\"sequence_number\":7}"));
    const struct fault strange =
        read_text(SPAN("{\"type\":\"error\",\"message\":\"a\",\"sequence_number\":-7}"));

    assert_int_equal(numbered.sequence, 7);
    assert_int_equal(strange.sequence, 0);
}

static void a_shape_is_that_of_one_api(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const struct fault fault = read_text(span_of(bodies[i].body));

        assert_int_equal(fault_has_shape(&fault, SHAPE_OPENAI),
                         fault.form == FAULT_OPENAI || fault.form == FAULT_RESPONSE);
        /* vLLM has the shape with types of its own */
        assert_int_equal(fault_has_shape(&fault, SHAPE_ANTHROPIC),
                         fault.form == FAULT_ANTHROPIC &&
                             !span_equal(fault.type, SPAN("BadRequestError")) &&
                             !span_equal(fault.type, SPAN("NotFoundError")));
    }
}

/* {"error":{"message":"é…"}} with a message of this many bytes, an odd one first. */
static struct span long_message(char *room, size_t bytes)
{
    static const char head[] = "{\"error\":{\"message\":\"a";
    size_t size = sizeof(head) - 1;

    memcpy(room, head, size);
    for (size_t i = 1; i + 1 < bytes; i += 2, size += 2)
        memcpy(room + size, "\xc3\xa9", 2);
    memcpy(room + size, "\"}}", 3);
    return (struct span){room, size + 3};
}

static void long_texts_are_cut_where_a_character_ends(void **state)
{
    (void)state;
    char room[3 * FAULT_MESSAGE_BYTES];
    const struct fault fault = read_text(long_message(room, 2 * FAULT_MESSAGE_BYTES));
    const struct fault text = read_text((struct span){room, 2 * FAULT_TEXT_BYTES});

    assert_int_equal(fault.message.size, FAULT_MESSAGE_BYTES - 1);
    assert_int_equal((unsigned char)fault.message.data[fault.message.size - 1], 0xa9);
    assert_int_equal(text.form, FAULT_TEXT);
    assert_in_range(text.message.size, FAULT_TEXT_BYTES - 1, FAULT_TEXT_BYTES);
}

static void a_message_that_has_no_room_is_left_out(void **state)
{
    (void)state;
    struct arena small;
    struct fault fault;

    arena_init(&small, NULL, 0, 0);
    fault_read(SPAN("{\"error\":{\"message\":\"a\",\"type\":\"b\"}}"), &small, &fault);
    assert_int_equal(fault.form, FAULT_OPENAI);
    assert_null(fault.message.data);
    fault_read(SPAN("{\"detail\":[{\"loc\":[\"a\"],\"msg\":\"b\"}]}"), &small, &fault);
    assert_int_equal(fault.form, FAULT_DETAIL);
    assert_null(fault.message.data);
    arena_fini(&small);
}

/* ---- the context ---- */

static void an_overlong_context_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool context;
    } cases[] = {
        /* vLLM */
        {"{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens. However\","
         "\"code\":400}}",
         true},
        {"{\"error\":{\"message\":\"max_tokens=999999 cannot be greater than max_model_len=8192. "
         "Please request fewer output tokens.\",\"param\":\"max_tokens\",\"code\":400}}",
         true},
        /* SGLang */
        {"{\"object\":\"error\",\"message\":\"The input (9000 tokens) is longer than the model's "
         "context length (8192 tokens).\",\"code\":400}",
         true},
        {"{\"object\":\"error\",\"message\":\"Requested token count exceeds the model's maximum "
         "context length of 8192 tokens.\",\"code\":400}",
         true},
        /* llama.cpp */
        {"{\"error\":{\"code\":400,\"message\":\"m\",\"type\":\"exceed_context_size_error\"}}",
         true},
        /* TGI */
        {"{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
         "Given: 6 `inputs` tokens and 4091 `max_new_tokens`\",\"error_type\":\"validation\"}",
         true},
        {"{\"error\":\"Input validation error: `inputs` must have less than 4096 tokens. Given: "
         "5000\",\"error_type\":\"validation\"}",
         true},
        /* OpenAI */
        {"{\"error\":{\"message\":\"m\",\"code\":\"context_length_exceeded\"}}", true},
        {"{\"error\":{\"message\":\"no such model\",\"code\":\"model_not_found\"}}", false},
        {"{\"error\":\"Unauthorized\"}", false},
        {"", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct fault fault = read_text(span_of(cases[i].body));

        if (fault_is_context(&fault) != cases[i].context)
            fail_msg("%s", cases[i].body);
    }
}

/* ---- writing ---- */

static void assert_written(struct writer *writer, const char *expected)
{
    assert_int_equal(writer->err, OK);
    assert_int_equal(writer->text.size, strlen(expected));
    assert_memory_equal(writer->text.data, expected, writer->text.size);
    buffer_free(&writer->text);
}

static void assert_body(const struct fault *fault, enum api_shape shape, const char *expected)
{
    struct writer writer = writer_new(1u << 16);

    fault_write(fault, shape, &writer);
    assert_written(&writer, expected);
}

static void assert_event(const struct fault *fault, enum endpoint endpoint, const char *expected)
{
    struct writer writer = writer_new(1u << 16);

    fault_write_event(fault, endpoint, &writer);
    assert_written(&writer, expected);
}

static void a_body_has_the_shape_of_its_api(void **state)
{
    (void)state;
    const struct fault full = {.message = SPAN("say \"a\"\n\x01"),
                               .type = SPAN("T"),
                               .param = SPAN("p"),
                               .code = SPAN("c"),
                               .status = 404};
    const struct fault empty = {0};

    assert_body(
        &full, SHAPE_OPENAI,
        "{\"error\":{\"message\":\"say \\\"a\\\"\\n\\u0001\",\"type\":\"T\",\"param\":\"p\","
        "\"code\":\"c\"}}");
    assert_body(&full, SHAPE_ANTHROPIC,
                "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"say "
                "\\\"a\\\"\\n\\u0001\"}}");
    assert_body(&empty, SHAPE_OPENAI,
                "{\"error\":{\"message\":\"the model server did not say what is wrong\",\"type\":"
                "\"server_error\",\"param\":null,\"code\":null}}");
    assert_body(&empty, SHAPE_ANTHROPIC,
                "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"the model "
                "server did not say what is wrong\"}}");
}

static void types_follow_from_the_status(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *openai, *anthropic;
    } cases[] = {
        {400, "invalid_request_error", "invalid_request_error"},
        {401, "invalid_request_error", "authentication_error"},
        {402, "invalid_request_error", "billing_error"},
        {403, "invalid_request_error", "permission_error"},
        {404, "invalid_request_error", "not_found_error"},
        {413, "invalid_request_error", "request_too_large"},
        {422, "invalid_request_error", "invalid_request_error"},
        {429, "rate_limit_error", "rate_limit_error"},
        {500, "server_error", "api_error"},
        {502, "server_error", "api_error"},
        {503, "service_unavailable_error", "overloaded_error"},
        {504, "server_error", "timeout_error"},
        {529, "server_error", "overloaded_error"},
        {599, "server_error", "api_error"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct fault fault = {.message = SPAN("m"), .status = cases[i].status};
        char expected[256];

        snprintf(expected, sizeof(expected),
                 "{\"error\":{\"message\":\"m\",\"type\":\"%s\",\"param\":null,\"code\":null}}",
                 cases[i].openai);
        assert_body(&fault, SHAPE_OPENAI, expected);
        snprintf(expected, sizeof(expected),
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"m\"}}",
                 cases[i].anthropic);
        assert_body(&fault, SHAPE_ANTHROPIC, expected);
    }
}

static void without_a_status_anthropics_own_type_stays(void **state)
{
    (void)state;
    const struct fault own = {.message = SPAN("m"), .type = SPAN("overloaded_error")};
    const struct fault other = {.message = SPAN("m"), .type = SPAN("BadRequestError")};

    assert_body(&own, SHAPE_ANTHROPIC,
                "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}");
    assert_body(&other, SHAPE_ANTHROPIC,
                "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"m\"}}");
}

static void a_last_event_has_the_shape_of_its_stream(void **state)
{
    (void)state;
    const struct fault fault = {
        .message = SPAN("m"), .code = SPAN("c"), .status = 500, .sequence = 12};

    assert_event(&fault, ENDPOINT_CHAT,
                 "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,"
                 "\"code\":\"c\"}}\n\n");
    assert_event(&fault, ENDPOINT_MESSAGES,
                 "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
                 "\"message\":\"m\"}}\n\n");
    assert_event(&fault, ENDPOINT_RESPONSES,
                 "event: error\ndata: {\"type\":\"error\",\"code\":\"c\",\"message\":\"m\","
                 "\"param\":null,\"sequence_number\":12,\"error\":{\"message\":\"m\",\"type\":"
                 "\"server_error\",\"param\":null,\"code\":\"c\"}}\n\n");
}

/* What we write we read again as it was. */
static void what_is_written_is_read_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const struct fault fault = read_text(span_of(bodies[i].body));

        for (int shape = SHAPE_OPENAI; shape <= SHAPE_ANTHROPIC; shape++) {
            struct writer writer = writer_new(1u << 16);
            json_t *tree;

            fault_write(&fault, (enum api_shape)shape, &writer);
            assert_int_equal(writer.err, OK);
            tree = json_loadb(writer.text.data, writer.text.size, 0, NULL);
            assert_non_null(tree);
            json_decref(tree);

            const struct fault again = read_text((struct span){writer.text.data, writer.text.size});

            assert_true(fault_has_shape(&again, (enum api_shape)shape));
            if (fault.message.size > 0)
                assert_true(span_equal(again.message, fault.message));
            buffer_free(&writer.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_known_form_is_read),
        cmocka_unit_test(the_number_of_an_event_is_kept),
        cmocka_unit_test(a_shape_is_that_of_one_api),
        cmocka_unit_test(long_texts_are_cut_where_a_character_ends),
        cmocka_unit_test(a_message_that_has_no_room_is_left_out),
        cmocka_unit_test(an_overlong_context_is_known),
        cmocka_unit_test(a_body_has_the_shape_of_its_api),
        cmocka_unit_test(types_follow_from_the_status),
        cmocka_unit_test(without_a_status_anthropics_own_type_stays),
        cmocka_unit_test(a_last_event_has_the_shape_of_its_stream),
        cmocka_unit_test(what_is_written_is_read_again),
    };

    return cmocka_run_group_tests(tests, begin, finish);
}
