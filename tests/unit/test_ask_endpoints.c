/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_ask_endpoints.c: asks of the endpoints beside chat and completions.
 *
 * Promises: 1. Each endpoint's own members are read: input, system prompt, bounds, media.
 *           2. Pairs are counted as often as a model reads them.
 *           3. What would need kept state, or an address to be fetched, is not passed on.
 *           4. Only what is for us, or what a server does not take, is taken out of a body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "config/base/span.h"
#include "gateway/ask.h"

static const struct ask_limits usual = {.json_depth = 64, .n = 16};

struct fixture {
    struct arena arena;
    struct ask ask;
    struct ask_problem problem;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    if (fixture == NULL)
        return -1;
    arena_init(&fixture->arena, NULL, 0, 1u << 20);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    arena_fini(&fixture->arena);
    free(fixture);
    return 0;
}

/* Reads a body that must be sound. */
static const struct ask *sound(struct fixture *fixture, enum endpoint endpoint, const char *body)
{
    if (ask_read(endpoint, span_of(body), &usual, &fixture->arena, &fixture->ask,
                 &fixture->problem) != OK)
        fail_msg("%s: %s (%s)", body, fixture->problem.message, fixture->problem.param);
    return &fixture->ask;
}

static void assert_refused(struct fixture *fixture, enum endpoint endpoint, const char *body,
                           const char *param)
{
    if (ask_read(endpoint, span_of(body), &usual, &fixture->arena, &fixture->ask,
                 &fixture->problem) != ERR_BAD_VALUE)
        fail_msg("not refused: %s", body);
    assert_string_equal(fixture->problem.param, param);
    assert_non_null(fixture->problem.message);
}

static void assert_span(struct span actual, const char *expected)
{
    if (expected == NULL) {
        assert_null(actual.data);
        return;
    }
    assert_non_null(actual.data);
    if (!span_equal(actual, span_of(expected)))
        fail_msg("%.*s is not %s", (int)actual.size, actual.data, expected);
}

/* ---- responses ---- */

static void a_response_is_read(void **state)
{
    const struct ask *ask =
        sound(*state, ENDPOINT_RESPONSES,
              "{\"model\":\"small\",\"instructions\":\"Be brief.\",\"input\":\"hello\",\"stream\":"
              "true,\"max_output_tokens\":7,\"max_tokens\":9,\"store\":false,\"tools\":[{}],"
              "\"text\":{\"verbosity\":\"low\",\"format\":{\"type\":\"json_schema\"}},\"n\":5,"
              "\"metadata\":{\"task_class\":\"sum\"},\"previous_response_id\":null,"
              "\"conversation\":null,\"prompt\":null,\"background\":false}");

    assert_span(ask->model, "small");
    assert_span(ask->system_prompt, "Be brief.");
    assert_span(ask->task_class, "sum");
    assert_true(ask->stream);
    assert_true(ask->tools);
    assert_true(ask->schema);
    assert_int_equal(ask->max_tokens, 7);
    assert_int_equal(ask->n, 1);
    assert_int_equal(ask->messages, 2);
    assert_int_equal(ask->text_bytes, 9 + 5 + 4);
    assert_false(ask->stream_options);
}

static void items_of_the_input_are_read(void **state)
{
    static const struct {
        const char *item, *prompt;
        int64_t text_bytes;
        bool images, remote;
    } cases[] = {
        {"{\"role\":\"user\",\"content\":\"hello\"}", NULL, 5, false, false},
        {"{\"role\":\"developer\",\"content\":\"terse\"}", "terse", 5, false, false},
        {"{\"role\":\"system\",\"content\":[{\"type\":\"input_text\",\"text\":\"abc\"}]}", "abc", 3,
         false, false},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":"
         "\"data:image/png;base64,AA\"}]}",
         NULL, 0, true, false},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":"
         "\"https://x/y\"}]}",
         NULL, 0, true, true},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"input_file\",\"file_url\":\"https://x\"}]}",
         NULL, 0, true, true},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"input_file\",\"filename\":\"a:b\","
         "\"file_data\":\"data:x,A\"}]}",
         NULL, 3, true, false},
        {"{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"four\"}", NULL,
         22 + 3 + 4, false, false},
        {"{\"type\":\"function_call_output\",\"output\":[{\"type\":\"input_image\",\"image_url\":"
         "\"http://x\"}]}",
         NULL, 22, true, true},
        {"{\"type\":\"reasoning\",\"summary\":[]}", NULL, 11 + 2, false, false},
        {"{\"type\":\"input_image\",\"image_url\":\"http://x\"}", NULL, 13, true, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[256];

        snprintf(body, sizeof(body), "{\"input\":[%s]}", cases[i].item);

        const struct ask *ask = sound(*state, ENDPOINT_RESPONSES, body);

        assert_span(ask->system_prompt, cases[i].prompt);
        assert_int_equal(ask->messages, 1);
        if (ask->images != cases[i].images ||
            ask->refused != (cases[i].remote ? (uint32_t)REFUSED_REMOTE_MEDIA : 0u))
            fail_msg("%s: %d %u", cases[i].item, ask->images, ask->refused);
        assert_int_equal(ask->text_bytes, cases[i].text_bytes);
    }
}

static void instructions_stand_before_all_messages(void **state)
{
    assert_span(sound(*state, ENDPOINT_RESPONSES,
                      "{\"input\":[{\"role\":\"system\",\"content\":\"later\"}],\"instructions\":"
                      "\"first\"}")
                    ->system_prompt,
                "first");
    assert_span(sound(*state, ENDPOINT_RESPONSES,
                      "{\"input\":[{\"role\":\"system\",\"content\":\"only\"}],\"instructions\":"
                      "null}")
                    ->system_prompt,
                "only");
}

static void what_needs_kept_state_is_refused_by_name(void **state)
{
    static const struct {
        const char *member, *param, *says;
    } cases[] = {
        {"\"previous_response_id\":\"resp_1\"", "previous_response_id", "whole conversation"},
        {"\"conversation\":{\"id\":\"c\"}", "conversation", "whole conversation"},
        {"\"background\":true", "background", "stream"},
        {"\"prompt\":{\"id\":\"p\"}", "prompt", "instructions and input"},
        {"\"previous_\\u0072esponse_id\":\"resp_1\"", "previous_response_id", "whole conversation"},
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[128];

        snprintf(body, sizeof(body), "{\"input\":\"x\",%s}", cases[i].member);
        assert_refused(fixture, ENDPOINT_RESPONSES, body, cases[i].param);
        assert_non_null(strstr(fixture->problem.message, cases[i].says));
    }
    assert_refused(fixture, ENDPOINT_RESPONSES,
                   "{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_1\"}]}", "input");
    sound(fixture, ENDPOINT_CHAT, "{\"messages\":[],\"background\":true,\"conversation\":\"c\"}");
}

/* ---- messages ---- */

static void a_message_is_read(void **state)
{
    const struct ask *ask =
        sound(*state, ENDPOINT_MESSAGES,
              "{\"model\":\"small\",\"max_tokens\":7,\"system\":[{\"type\":\"text\",\"text\":"
              "\"Be brief.\",\"cache_control\":{}}],\"messages\":[{\"role\":\"user\",\"content\":"
              "\"hello\"}],\"stream\":true,\"tools\":[{\"name\":\"t\"}],\"metadata\":{\"user_id\":"
              "\"u\"},\"output_config\":{\"format\":{\"type\":\"json_schema\"}}}");

    assert_span(ask->model, "small");
    assert_span(ask->system_prompt, "Be brief.");
    assert_true(ask->stream);
    assert_true(ask->tools);
    assert_true(ask->schema);
    assert_int_equal(ask->max_tokens, 7);
    assert_int_equal(ask->messages, 2);
    assert_int_equal(ask->text_bytes, 9 + 2 + 5 + 14);
    assert_span(
        sound(*state, ENDPOINT_MESSAGES, "{\"max_tokens\":1,\"messages\":[],\"system\":\"terse\"}")
            ->system_prompt,
        "terse");
}

static void parts_of_messages_are_read(void **state)
{
    static const struct {
        const char *part;
        int64_t text_bytes;
        bool images, remote;
    } cases[] = {
        {"{\"type\":\"text\",\"text\":\"see http://x\"}", 12, false, false},
        {"{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","
         "\"data\":\"AAAA\"}}",
         0, true, false},
        {"{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://x\"}}", 0, true, true},
        {"{\"source\":{\"url\":\"https\\u003A//x\",\"type\":\"url\"},\"type\":\"image\"}", 0, true,
         true},
        {"{\"type\":\"image\",\"source\":{\"type\":\"file\",\"file_id\":\"f_1\"}}", 0, true, false},
        {"{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"A\\u002BA=\"}}", 0, true,
         false},
        {"{\"type\":\"document\",\"source\":{\"type\":\"text\",\"media_type\":\"text/plain\","
         "\"data\":\"to: you\"},\"title\":\"mail\"}",
         7 + 4, true, false},
        {"{\"type\":\"document\",\"source\":{\"data\":\"to: you\",\"type\":\"text\"}}", 7, true,
         false},
        {"{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"data\":\"http://x\"}}", 0, true,
         true},
        {"{\"type\":\"document\",\"source\":{\"type\":\"content\",\"content\":[{\"type\":\"text\","
         "\"text\":\"abc\"},{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"http://x\"}}"
         "]}}",
         3, true, true},
        {"{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"n\",\"input\":{\"url\":\"http://x\"}}",
         1 + 1 + 18, false, false},
        {"{\"type\":\"tool_result\",\"tool_use_id\":\"i\",\"content\":\"four\"}", 1 + 4, false,
         false},
        {"{\"type\":\"tool_result\",\"content\":[{\"type\":\"text\",\"text\":\"ab\"},{\"type\":"
         "\"image\",\"source\":{\"type\":\"base64\",\"data\":\"AAAA\"}}]}",
         2, true, false},
        {"{\"type\":\"tool_result\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"url\","
         "\"url\":\"http://x\"}}]}",
         0, true, true},
        {"{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"}", 2 + 1, false, false},
        {"{\"type\":\"search_result\",\"source\":\"https://x\",\"title\":\"t\",\"content\":[{"
         "\"type\":\"text\",\"text\":\"abc\"}]}",
         9 + 1 + 3, false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[512];

        snprintf(body, sizeof(body),
                 "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[%s]}]}",
                 cases[i].part);

        const struct ask *ask = sound(*state, ENDPOINT_MESSAGES, body);

        if (ask->text_bytes != cases[i].text_bytes || ask->images != cases[i].images ||
            ask->refused != (cases[i].remote ? (uint32_t)REFUSED_REMOTE_MEDIA : 0u))
            fail_msg("%s: %lld %d %u", cases[i].part, (long long)ask->text_bytes, ask->images,
                     ask->refused);
    }
}

/* {"content":{"content":… as deep as is allowed, with an address in the middle. */
static void an_address_is_found_however_deep_it_lies(void **state)
{
    char body[1024] = "{\"max_tokens\":1,\"messages\":[{\"content\":[";
    static const char part[] = "{\"type\":\"tool_result\",\"content\":[";

    for (int i = 0; i < 25; i++)
        strncat(body, part, sizeof(body) - strlen(body) - 1);
    strncat(body, "{\"image_url\":\"http://x\"}", sizeof(body) - strlen(body) - 1);
    for (int i = 0; i < 25; i++)
        strncat(body, "]}", sizeof(body) - strlen(body) - 1);
    strncat(body, "]}]}", sizeof(body) - strlen(body) - 1);

    assert_int_equal(sound(*state, ENDPOINT_MESSAGES, body)->refused, REFUSED_REMOTE_MEDIA);
}

static void count_tokens_needs_no_bound(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(sound(fixture, ENDPOINT_COUNT_TOKENS,
                           "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}")
                         ->text_bytes,
                     5);
    assert_refused(fixture, ENDPOINT_MESSAGES, "{\"messages\":[]}", "max_tokens");
    assert_refused(fixture, ENDPOINT_MESSAGES, "{\"messages\":[],\"max_tokens\":null}",
                   "max_tokens");
}

/* ---- pairs ---- */

static void pairs_are_counted_as_often_as_they_are_read(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *body;
        int64_t prompts, text_bytes;
    } cases[] = {
        {ENDPOINT_RERANK, "{\"query\":\"abc\",\"documents\":[\"a\",\"bb\"]}", 2, 2 * 3 + 1 + 2},
        {ENDPOINT_RERANK_V2, "{\"documents\":[{\"text\":\"a\"},{\"text\":\"bb\"}],\"query\":\"q\"}",
         2, 2 * 1 + 1 + 2},
        {ENDPOINT_RERANK, "{\"query\":\"abc\",\"texts\":[\"a\"]}", 1, 3 + 1},
        {ENDPOINT_RERANK, "{\"query\":\"abc\",\"documents\":\"a\"}", 1, 3 + 1},
        {ENDPOINT_SCORE, "{\"text_1\":\"abc\",\"text_2\":[\"a\",\"b\",\"c\"]}", 3, 3 * 3 + 3},
        {ENDPOINT_SCORE, "{\"text_1\":[\"abc\",\"d\"],\"text_2\":[\"a\",\"b\"]}", 2, 4 + 2},
        {ENDPOINT_SCORE, "{\"queries\":\"abc\",\"documents\":[\"a\",\"b\"]}", 2, 2 * 3 + 2},
        {ENDPOINT_SCORE, "{\"queries\":[\"abc\"],\"items\":[\"a\",\"b\"]}", 2, 2 * 3 + 2},
        {ENDPOINT_SCORE, "{\"query\":[1,2],\"items\":[[1],[2,3]]}", 2, 2 * 2 + 3 + 5},
        {ENDPOINT_SCORE, "{\"data_1\":\"a\",\"data_2\":\"b\"}", 1, 2},
        {ENDPOINT_SCORE,
         "{\"text_1\":\"a\",\"text_2\":{\"content\":[{\"type\":\"text\",\"text\":"
         "\"bc\"}]}}",
         1, 1 + 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct ask *ask = sound(*state, cases[i].endpoint, cases[i].body);

        if (ask->prompts != cases[i].prompts || ask->text_bytes != cases[i].text_bytes)
            fail_msg("%s: %lld %lld", cases[i].body, (long long)ask->prompts,
                     (long long)ask->text_bytes);
    }
    assert_int_equal(sound(*state, ENDPOINT_SCORE,
                           "{\"text_1\":\"a\",\"text_2\":{\"content\":[{\"type\":\"image_url\","
                           "\"image_url\":{\"url\":\"http://x\"}}]}}")
                         ->refused,
                     REFUSED_REMOTE_MEDIA);
}

/* ---- the small ones ---- */

static void inputs_of_the_small_endpoints_are_read(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *body;
        int64_t prompts, text_bytes;
        bool images;
    } cases[] = {
        {ENDPOINT_EMBEDDINGS, "{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}", 1, 3,
         false},
        {ENDPOINT_EMBEDDINGS, "{\"input\":[{\"text\":\"a\"},{\"image\":\"AAAA\"}]}", 2, 1, true},
        {ENDPOINT_EMBEDDINGS,
         "{\"input\":{\"prompt_string\":\"ab\",\"multimodal_data\":[\"AAAA\"]}}", 1, 2, true},
        {ENDPOINT_POOLING, "{\"input\":[1,2]}", 1, 5, false},
        {ENDPOINT_POOLING, "{\"data\":{\"x\":\"y\"}}", 1, 0, true},
        {ENDPOINT_CLASSIFY, "{\"input\":[\"a\",\"bc\"]}", 2, 3, false},
        {ENDPOINT_CLASSIFY, "{\"messages\":[{\"content\":\"ab\"}]}", 1, 2, false},
        {ENDPOINT_TOKENIZE, "{\"prompt\":\"abc\"}", 1, 3, false},
        {ENDPOINT_TOKENIZE, "{\"messages\":[{\"content\":\"ab\"}],\"tools\":[]}", 1, 4, false},
        {ENDPOINT_TOKENIZE, "{\"content\":[\"a\",1]}", 1, 7, false},
        {ENDPOINT_DETOKENIZE, "{\"tokens\":[1,2]}", 1, 5, false},
        {ENDPOINT_DETOKENIZE, "{\"tokens\":[]}", 1, 2, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct ask *ask = sound(*state, cases[i].endpoint, cases[i].body);

        if (ask->prompts != cases[i].prompts || ask->text_bytes != cases[i].text_bytes ||
            ask->images != cases[i].images)
            fail_msg("%s: %lld %lld %d", cases[i].body, (long long)ask->prompts,
                     (long long)ask->text_bytes, ask->images);
    }
    assert_int_equal(
        sound(*state, ENDPOINT_POOLING, "{\"data\":{\"data\":\"https://x\"}}")->refused,
        REFUSED_REMOTE_MEDIA);
}

/* ---- on all endpoints ---- */

/* The least that each endpoint takes. */
static const struct {
    enum endpoint endpoint;
    const char *least;
} all[] = {
    {ENDPOINT_CHAT, "\"messages\":[]"},
    {ENDPOINT_COMPLETIONS, "\"prompt\":\"a\""},
    {ENDPOINT_EMBEDDINGS, "\"input\":\"a\""},
    {ENDPOINT_RESPONSES, "\"input\":\"a\""},
    {ENDPOINT_MESSAGES, "\"messages\":[],\"max_tokens\":1"},
    {ENDPOINT_COUNT_TOKENS, "\"messages\":[]"},
    {ENDPOINT_RERANK, "\"query\":\"a\",\"documents\":[\"b\"]"},
    {ENDPOINT_RERANK_V2, "\"query\":\"a\",\"documents\":[\"b\"]"},
    {ENDPOINT_SCORE, "\"text_1\":\"a\",\"text_2\":\"b\""},
    {ENDPOINT_TOKENIZE, "\"prompt\":\"a\""},
    {ENDPOINT_DETOKENIZE, "\"tokens\":[1]"},
    {ENDPOINT_POOLING, "\"input\":\"a\""},
    {ENDPOINT_CLASSIFY, "\"input\":\"a\""},
};

#define ALL_COUNT (sizeof(all) / sizeof(all[0]))

static void fields_that_need_leave_are_marked_on_every_endpoint(void **state)
{
    for (size_t i = 0; i < ALL_COUNT; i++) {
        char body[512];

        snprintf(body, sizeof(body),
                 "{%s,\"priority\":0,\"kv_transfer_params\":{},\"ec_transfer_params\":{},"
                 "\"request_id\":\"\",\"session_id\":\"s\",\"vllm_xargs\":{},\"prompt_embeds\":"
                 "\"\",\"chat_template\":\"t\"}",
                 all[i].least);
        assert_int_equal(sound(*state, all[i].endpoint, body)->refused,
                         REFUSED_PRIORITY | REFUSED_KV_TRANSFER_PARAMS |
                             REFUSED_EC_TRANSFER_PARAMS | REFUSED_REQUEST_ID | REFUSED_SESSION_ID |
                             REFUSED_VLLM_XARGS | REFUSED_PROMPT_EMBEDS | REFUSED_CHAT_TEMPLATE);
    }
}

static void what_another_server_calls_otherwise_needs_the_same_leave(void **state)
{
    static const struct {
        const char *member;
        uint32_t refused;
    } cases[] = {
        {"rid", REFUSED_REQUEST_ID},
        {"extra_key", REFUSED_VLLM_XARGS},
        {"session_params", REFUSED_SESSION_ID},
        {"bootstrap_host", REFUSED_KV_TRANSFER_PARAMS},
        {"bootstrap_room", REFUSED_KV_TRANSFER_PARAMS},
        {"data_parallel_rank", REFUSED_KV_TRANSFER_PARAMS},
        {"custom_logit_processor", REFUSED_VLLM_XARGS},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[128];

        snprintf(body, sizeof(body), "{\"prompt\":\"a\",\"%s\":\"x\"}", cases[i].member);
        const struct ask *ask = sound(*state, ENDPOINT_COMPLETIONS, body);
        assert_int_equal(ask->refused, cases[i].refused);
        assert_true(span_equal(ask->refused_name, span_of(cases[i].member)));
    }
}

static void what_is_missing_is_named(void **state)
{
    static const char *const params[ALL_COUNT] = {
        "messages", "prompt", "input",  "input",  "messages", "messages", "query",
        "query",    "text_1", "prompt", "tokens", "input",    "input"};
    struct fixture *fixture = *state;

    for (size_t i = 0; i < ALL_COUNT; i++)
        assert_refused(fixture, all[i].endpoint, "{\"model\":\"m\"}", params[i]);
    assert_refused(fixture, ENDPOINT_RERANK, "{\"query\":\"a\"}", "documents");
    assert_refused(fixture, ENDPOINT_SCORE, "{\"text_1\":\"a\"}", "text_2");
    assert_refused(fixture, ENDPOINT_RESPONSES, "{\"input\":null,\"stream\":true}", "input");
}

static void values_that_cannot_be_used_are_refused(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *body, *param;
    } cases[] = {
        {ENDPOINT_RESPONSES, "{\"input\":7}", "input"},
        {ENDPOINT_RESPONSES, "{\"input\":[\"x\"]}", "input"},
        {ENDPOINT_RESPONSES, "{\"input\":\"x\",\"max_output_tokens\":-1}", "max_output_tokens"},
        {ENDPOINT_RESPONSES, "{\"input\":\"x\",\"background\":1}", "background"},
        {ENDPOINT_RESPONSES, "{\"input\":\"x\",\"instructions\":{}}", "instructions"},
        {ENDPOINT_MESSAGES, "{\"messages\":{},\"max_tokens\":1}", "messages"},
        {ENDPOINT_MESSAGES, "{\"messages\":[],\"max_tokens\":1,\"system\":7}", "system"},
        {ENDPOINT_RERANK, "{\"query\":\"a\",\"documents\":[]}", "documents"},
        {ENDPOINT_RERANK, "{\"query\":\"a\",\"documents\":[null]}", "documents"},
        {ENDPOINT_RERANK, "{\"query\":true,\"documents\":[\"a\"]}", "query"},
        {ENDPOINT_COMPLETIONS, "{\"prompt\":[{}]}", "prompt"},
        {ENDPOINT_EMBEDDINGS, "{\"input\":[\"a\",{}]}", "input"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"cache\":true}", "cache"},
        {ENDPOINT_RERANK, "{\"query\":\"a\",\"documents\":[\"a\"],\"cache\":[]}", "cache"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_refused(*state, cases[i].endpoint, cases[i].body, cases[i].param);
}

/* ---- splices ---- */

static void assert_spliced(struct fixture *fixture, enum endpoint endpoint, enum kind kind,
                           const char *before, const char *after)
{
    const struct span body = span_of(before);
    struct splice splices[ASK_SPLICES_MAX];
    struct iovec pieces[2 * ASK_SPLICES_MAX + 1];
    char joined[1024];
    uint32_t count;
    size_t bytes;
    size_t size = 0;

    sound(fixture, endpoint, before);
    assert_int_equal(ask_splices(&fixture->ask, body, kind, SPAN("up"), SPAN("00ff"),
                                 &fixture->arena, splices, &count),
                     OK);
    count = splice_pieces(body, splices, count, pieces, &bytes);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(joined + size, pieces[i].iov_base, pieces[i].iov_len);
        size += pieces[i].iov_len;
    }
    assert_int_equal(size, bytes);
    assert_span((struct span){joined, size}, after);
}

static void the_model_is_named_on_every_endpoint_and_nothing_else_changes(void **state)
{
    for (size_t i = 0; i < ALL_COUNT; i++) {
        char before[128];
        char after[128];

        snprintf(before, sizeof(before), "{ %s , \"model\":\"m\",\"x\":1e0}", all[i].least);
        snprintf(after, sizeof(after), "{ %s , \"model\":\"up\",\"x\":1e0}", all[i].least);
        assert_spliced(*state, all[i].endpoint, KIND_OPENAI, before, after);
        snprintf(before, sizeof(before), "{%s}", all[i].least);
        snprintf(after, sizeof(after), "{\"model\":\"up\",%s}", all[i].least);
        assert_spliced(*state, all[i].endpoint, KIND_VLLM, before, after);
    }
}

static void usage_of_streams_is_asked_for_only_where_it_can_be(void **state)
{
    struct fixture *fixture = *state;

    assert_spliced(fixture, ENDPOINT_CHAT, KIND_SGLANG,
                   "{\"model\":\"up\",\"messages\":[],\"stream\":true}",
                   "{\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true},"
                   "\"model\":\"up\",\"messages\":[],\"stream\":true}");
    assert_spliced(fixture, ENDPOINT_COMPLETIONS, KIND_LLAMACPP,
                   "{\"model\":\"up\",\"prompt\":\"a\",\"stream\":true}",
                   "{\"stream_options\":{\"include_usage\":true},\"model\":\"up\",\"prompt\":\"a\","
                   "\"stream\":true}");
    assert_spliced(fixture, ENDPOINT_RESPONSES, KIND_VLLM,
                   "{\"model\":\"up\",\"input\":\"a\",\"stream\":true,\"stream_options\":"
                   "{\"include_obfuscation\":false}}",
                   "{\"model\":\"up\",\"input\":\"a\",\"stream\":true,\"stream_options\":"
                   "{\"include_obfuscation\":false}}");
    assert_spliced(fixture, ENDPOINT_MESSAGES, KIND_VLLM,
                   "{\"model\":\"up\",\"messages\":[],\"max_tokens\":1,\"stream\":true}",
                   "{\"model\":\"up\",\"messages\":[],\"max_tokens\":1,\"stream\":true}");
}

static void what_is_not_for_a_server_is_taken_out(void **state)
{
    static const struct {
        enum kind kind;
        const char *before, *after;
    } cases[] = {
        {KIND_VLLM, "{\"model\":\"up\",\"cache\":{\"no-cache\":true},\"messages\":[]}",
         "{\"model\":\"up\",\"messages\":[]}"},
        {KIND_VLLM, "{\"cache\" : {} , \"messages\":[],\"model\":\"up\"}",
         "{ \"messages\":[],\"model\":\"up\"}"},
        {KIND_VLLM, "{\"model\":\"up\",\"messages\":[] , \"cache\":{\"ttl\":1} }",
         "{\"model\":\"up\",\"messages\":[]  }"},
        {KIND_VLLM, "{\"model\":\"up\",\"messages\":[],\"c\\u0061che\":null}",
         "{\"model\":\"up\",\"messages\":[]}"},
        {KIND_VLLM, "{\"cache\":{},\"messages\":[]}", "{\"model\":\"up\",\"messages\":[]}"},
        {KIND_OPENAI, "{\"cache\":{},\"messages\":[],\"stream\":true}",
         "{\"model\":\"up\",\"stream_options\":{\"include_usage\":true},\"messages\":[],"
         "\"stream\":true}"},
        {KIND_SGLANG, "{\"cache_salt\":\"s\",\"cache\":{},\"messages\":[],\"model\":\"up\"}",
         "{\"cache_salt\":\"00ff\",\"messages\":[],\"model\":\"up\"}"},
        {KIND_TGI, "{\"cache_salt\":\"s\",\"messages\":[],\"model\":\"up\"}",
         "{\"messages\":[],\"model\":\"up\"}"},
        {KIND_TGI, "{\"messages\":[],\"model\":\"up\",\"cache_salt\":null}",
         "{\"messages\":[],\"model\":\"up\"}"},
        {KIND_TGI, "{\"cache_salt\":\"s\",\"cache\":{},\"messages\":[],\"model\":\"up\"}",
         "{\"messages\":[],\"model\":\"up\"}"},
        {KIND_TGI, "{\"messages\":[],\"model\":\"up\",\"cache_salt\":\"s\" , \"cache\":{}}",
         "{\"messages\":[],\"model\":\"up\"}"},
        {KIND_TGI, "{\"cache\":{},\"messages\":[],\"model\":\"up\",\"cache_salt\":\"s\"}",
         "{\"messages\":[],\"model\":\"up\"}"},
        {KIND_TGI, "{\"messages\":[],\"cache\":{},\"model\":\"up\",\"cache_salt\":\"s\",\"x\":1}",
         "{\"messages\":[],\"model\":\"up\",\"x\":1}"},
        {KIND_VLLM, "{\"messages\":[],\"model\":\"up\",\"litellm_metadata\":{},\"user\":\"u\"}",
         "{\"messages\":[],\"model\":\"up\",\"litellm_metadata\":{},\"user\":\"u\"}"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_spliced(*state, ENDPOINT_CHAT, cases[i].kind, cases[i].before, cases[i].after);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_response_is_read),
        TEST(items_of_the_input_are_read),
        TEST(instructions_stand_before_all_messages),
        TEST(what_needs_kept_state_is_refused_by_name),
        TEST(a_message_is_read),
        TEST(parts_of_messages_are_read),
        TEST(an_address_is_found_however_deep_it_lies),
        TEST(count_tokens_needs_no_bound),
        TEST(pairs_are_counted_as_often_as_they_are_read),
        TEST(inputs_of_the_small_endpoints_are_read),
        TEST(fields_that_need_leave_are_marked_on_every_endpoint),
        TEST(what_another_server_calls_otherwise_needs_the_same_leave),
        TEST(what_is_missing_is_named),
        TEST(values_that_cannot_be_used_are_refused),
        TEST(the_model_is_named_on_every_endpoint_and_nothing_else_changes),
        TEST(usage_of_streams_is_asked_for_only_where_it_can_be),
        TEST(what_is_not_for_a_server_is_taken_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
