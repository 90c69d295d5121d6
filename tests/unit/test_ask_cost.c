/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_ask_cost.c: what of a body decides its cost (gateway/ask.c, ask_prompt.c,
 * ask_form.c).
 *
 * Promises: 1. The tier is what the server was asked for; any other word is the standard one.
 *           2. Tools are counted, and what a template may spell anew is within the text.
 *           3. Token ids count as what they are; what only looks like them stays text.
 *           4. Each part that is no text counts once, by its kind; text in a document is text.
 *           5. What a template may be shown besides is counted, and nothing twice.
 *           6. Asks that generate are told from those that do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config/base/span.h"
#include "gateway/ask.h"

static const struct ask_limits usual = {.json_depth = 64, .n = 16};

static struct arena arena;
static struct ask ask;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, NULL, 0, 1u << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void read_body(enum endpoint endpoint, const char *body)
{
    struct ask_problem problem = {0, NULL, NULL};

    if (ask_read(endpoint, span_of(body), &usual, &arena, &ask, &problem) != OK)
        fail_msg("%s: %s (%s)", body, problem.message, problem.param);
}

#define CHAT_WITH(members)                                                                         \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]" members "}"

static void the_tier_is_what_the_server_was_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum service_tier tier;
    } cases[] = {
        {CHAT_WITH(""), TIER_STANDARD},
        {CHAT_WITH(",\"service_tier\":\"flex\""), TIER_FLEX},
        {CHAT_WITH(",\"service_tier\":\"pr\\u0069ority\""), TIER_PRIORITY},
        {CHAT_WITH(",\"service_tier\":\"fast\""), TIER_PRIORITY},
        {CHAT_WITH(",\"service_tier\":\"batch\""), TIER_BATCH},
        {CHAT_WITH(",\"service_tier\":\"auto\""), TIER_STANDARD},
        {CHAT_WITH(",\"service_tier\":\"standard\""), TIER_STANDARD},
        {CHAT_WITH(",\"service_tier\":\"Flex\""), TIER_STANDARD},
        {CHAT_WITH(",\"service_tier\":null"), TIER_STANDARD},
        {CHAT_WITH(",\"service_tier\":{\"flex\":1}"), TIER_STANDARD},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        read_body(ENDPOINT_CHAT, cases[i].body);
        assert_int_equal(ask.tier, cases[i].tier);
        assert_int_equal(ask.other_bytes, 0);
    }
}

static void tools_and_calls_are_counted(void **state)
{
    (void)state;
    read_body(ENDPOINT_CHAT, CHAT_WITH(",\"tools\":[{\"a\":1},{\"b\":2}],\"functions\":[{}]"));
    assert_true(ask.tools);
    assert_int_equal(ask.tool_count, 3);
    assert_int_equal(ask.tool_bytes, 17 + 4);
    assert_int_equal(ask.text_bytes, 2 + 17 + 4);

    read_body(ENDPOINT_CHAT, CHAT_WITH(",\"functions\":[{}]"));
    assert_false(ask.tools); /* classes look at tools alone */
    assert_int_equal(ask.tool_count, 1);

    read_body(ENDPOINT_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"Hi\","
                             "\"tool_calls\":[{\"id\":\"c\"}],\"name\":\"bob\"}]}");
    assert_int_equal(ask.tool_count, 0);
    assert_int_equal(ask.tool_bytes, 12);
    assert_int_equal(ask.text_bytes, 2 + 12 + 5);

    read_body(ENDPOINT_MESSAGES,
              "{\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":"
              "\"tool_use\",\"id\":\"t1\",\"name\":\"find\",\"input\":{\"q\":[1]}}]}]}");
    assert_int_equal(ask.tool_bytes, 9);
    assert_int_equal(ask.text_bytes, 2 + 4 + 9);
}

static void token_ids_count_as_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        int64_t ids, bytes, text_bytes, prompts;
    } cases[] = {
        {"[1, 22, 333]", 3, 12, 12, 1}, {"[[1,2],[3]]", 3, 5 + 3, 5 + 3, 2},
        {"[[1 , 2\n]]", 2, 8, 8, 1},    {"[[\"a, b, c\"]]", 0, 0, 11, 1},
        {"[[1,[2]]]", 0, 0, 7, 1},      {"[\"one\",\"two\"]", 0, 0, 6, 2},
        {"\"1,2\"", 0, 0, 3, 1},
    };
    char body[128];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(body, sizeof(body), "{\"prompt\":%s}", cases[i].prompt);
        read_body(ENDPOINT_COMPLETIONS, body);
        assert_int_equal(ask.token_ids, cases[i].ids);
        assert_int_equal(ask.token_id_bytes, cases[i].bytes);
        assert_int_equal(ask.text_bytes, cases[i].text_bytes);
        assert_int_equal(ask.prompts, cases[i].prompts);
    }
}

static void assert_parts(const char *body, const int64_t expected[PART_KINDS])
{
    for (int kind = 0; kind < PART_KINDS; kind++)
        if (ask.parts[kind] != expected[kind])
            fail_msg("%s: %lld of kind %d", body, (long long)ask.parts[kind], kind);
}

static void each_part_counts_once_by_its_kind(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        int64_t parts[PART_KINDS]; /* image, audio, video, file */
    } cases[] = {
        {"[{\"type\":\"text\",\"text\":\"a\"}]", {0, 0, 0, 0}},
        {"[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,\"}}]", {1, 0, 0, 0}},
        {"[{\"image_url\":{\"url\":\"data:,\"}},{\"type\":\"image_url\",\"image_url\":\"data:,\"}]",
         {2, 0, 0, 0}},
        {"[{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"x\"}}]", {0, 1, 0, 0}},
        {"[{\"type\":\"video_url\",\"video_url\":{\"url\":\"data:,\"}}]", {0, 0, 1, 0}},
        {"[{\"type\":\"file\",\"file\":{\"file_data\":\"x\",\"filename\":\"a\"}}]", {0, 0, 0, 1}},
        /* Told by their members alone, as servers do that find no type. */
        {"[{\"type\":\"text\",\"text\":\"a\",\"image_url\":\"data:,\",\"audio_url\":\"data:,\"}]",
         {1, 1, 0, 0}},
        {"[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"x\"}}]", {1, 0, 0, 0}},
        {"[{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"data\":\"x\"}}]", {0, 0, 0, 1}},
        {"[{\"type\":\"document\",\"source\":{\"type\":\"text\",\"data\":\"x\"}}]", {0, 0, 0, 0}},
        {"[{\"source\":{\"type\":\"content\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":"
         "\"base64\",\"data\":\"x\"}}]},\"type\":\"document\"}]",
         {1, 0, 0, 0}},
        {"[{\"type\":\"tool_result\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":"
         "\"base64\",\"data\":\"x\"}}]}]",
         {1, 0, 0, 0}},
        {"[{\"type\":\"image_url\",\"image_url\":null}]", {1, 0, 0, 0}},
    };
    char body[512];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(body, sizeof(body),
                 "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":%s}]}",
                 cases[i].content);
        read_body(ENDPOINT_CHAT, body);
        assert_parts(body, cases[i].parts);
        read_body(ENDPOINT_MESSAGES, body);
        assert_parts(body, cases[i].parts);
    }
}

static void parts_count_where_no_message_is(void **state)
{
    (void)state;
    static const char form[] =
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n"
        "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n"
        "--b\r\nContent-Disposition: form-data; name=\"language\"\r\n\r\nen\r\n--b--\r\n";
    struct ask_problem problem;

    read_body(ENDPOINT_RESPONSES, "{\"input\":[{\"type\":\"computer_call_output\",\"output\":{"
                                  "\"type\":\"input_image\",\"image_url\":\"data:,\"}}]}");
    assert_int_equal(ask.parts[PART_IMAGE], 1);
    read_body(ENDPOINT_POOLING, "{\"data\":{\"path\":\"a\"}}");
    assert_int_equal(ask.parts[PART_FILE], 1);
    read_body(ENDPOINT_EMBEDDINGS, "{\"input\":[{\"text\":\"a\"},{\"image\":\"data:,\"}]}");
    assert_int_equal(ask.parts[PART_IMAGE], 1);
    read_body(ENDPOINT_RERANK, "{\"query\":\"q\",\"documents\":[{\"text\":\"a\"},{\"content\":[{"
                               "\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,\"}}]}]}");
    assert_int_equal(ask.parts[PART_IMAGE], 1);
    read_body(ENDPOINT_RERANK, "{\"query\":{\"content\":[{\"image_url\":\"data:,\"}]},"
                               "\"documents\":[\"a\",\"b\",\"c\"]}");
    assert_int_equal(ask.parts[PART_IMAGE], 3); /* read with each document */
    assert_int_equal(ask_read_multipart(span_of(form), SPAN("multipart/form-data; boundary=b"),
                                        &usual, &ask, &problem),
                     OK);
    assert_int_equal(ask.parts[PART_AUDIO], 1);
    assert_int_equal(ask.other_bytes, 2);
    assert_true(ask.generates);
}

static void what_lies_too_deep_is_a_file_that_nobody_knows(void **state)
{
    (void)state;
    char body[1024] = "{\"messages\":[{\"content\":[";
    size_t size = strlen(body);

    for (int i = 0; i < 10; i++)
        size += (size_t)snprintf(body + size, sizeof(body) - size, "{\"content\":[");
    size += (size_t)snprintf(body + size, sizeof(body) - size, "{\"image_url\":\"data:,\"}");
    for (int i = 0; i < 10; i++)
        size += (size_t)snprintf(body + size, sizeof(body) - size, "]}");
    snprintf(body + size, sizeof(body) - size, "]}]}");
    read_body(ENDPOINT_CHAT, body);
    assert_int_equal(ask.parts[PART_IMAGE], 0);
    assert_int_equal(ask.parts[PART_FILE], 1);
}

static void what_a_template_may_be_shown_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int64_t bytes;
    } cases[] = {
        {CHAT_WITH(""), 0},
        {CHAT_WITH(",\"temperature\":0.5"), 3},
        {CHAT_WITH(",\"chat_template_kwargs\":{\"notes\":\"abc\"}"), 15},
        {CHAT_WITH(",\"response_format\":{\"type\":\"json_object\"}"), 4 + 13},
        {CHAT_WITH(",\"guided_json\":{\"a\":1}"), 7},
        {CHAT_WITH(",\"stream\":true,\"max_tokens\":5,\"metadata\":{\"a\":\"b\"}"), 0},
        {"{\"messages\":[{\"content\":[{\"text\":\"\"},{\"text\":\"\"}]}]}", 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        read_body(ENDPOINT_CHAT, cases[i].body);
        assert_int_equal(ask.other_bytes, cases[i].bytes);
    }
}

static void asks_that_generate_are_told_from_others(void **state)
{
    (void)state;
    read_body(ENDPOINT_CHAT, CHAT_WITH(""));
    assert_true(ask.generates);
    read_body(ENDPOINT_COMPLETIONS, "{\"prompt\":\"a\"}");
    assert_true(ask.generates);
    read_body(ENDPOINT_RESPONSES, "{\"input\":\"a\"}");
    assert_true(ask.generates);
    read_body(ENDPOINT_MESSAGES, "{\"max_tokens\":1,\"messages\":[]}");
    assert_true(ask.generates);
    read_body(ENDPOINT_EMBEDDINGS, "{\"input\":\"a\"}");
    assert_false(ask.generates);
    read_body(ENDPOINT_COUNT_TOKENS, "{\"messages\":[]}");
    assert_false(ask.generates);
    read_body(ENDPOINT_RERANK, "{\"query\":\"a\",\"documents\":[\"b\"]}");
    assert_false(ask.generates);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_tier_is_what_the_server_was_asked_for),
        TEST(tools_and_calls_are_counted),
        TEST(token_ids_count_as_what_they_are),
        TEST(each_part_counts_once_by_its_kind),
        TEST(parts_count_where_no_message_is),
        TEST(what_lies_too_deep_is_a_file_that_nobody_knows),
        TEST(what_a_template_may_be_shown_is_counted),
        TEST(asks_that_generate_are_told_from_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
