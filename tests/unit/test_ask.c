/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_ask.c: request bodies to asks, and the splices for a replica.
 *
 * Promises: 1. What routing and metering need is found, however it is spelt.
 *           2. Top-level keys stand once, also when they differ in escapes; the work is bounded.
 *           3. Values that we must understand and cannot are refused, with the field's name.
 *           4. Splices make the body fit its replica and touch no other byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

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

static enum err read_as(struct fixture *fixture, enum endpoint endpoint, const char *body)
{
    return ask_read(endpoint, span_of(body), &usual, &fixture->arena, &fixture->ask,
                    &fixture->problem);
}

/* Reads a chat that must be sound. */
static const struct ask *chat(struct fixture *fixture, const char *body)
{
    if (read_as(fixture, ENDPOINT_CHAT, body) != OK)
        fail_msg("%s: %s at %zu", body, fixture->problem.message, fixture->problem.offset);
    return &fixture->ask;
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

/* ---- endpoints ---- */

static void paths_name_their_endpoint(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum endpoint endpoint;
        const char *rest;
    } cases[] = {
        {"/v1/chat/completions", ENDPOINT_CHAT, NULL},
        {"/chat/completions", ENDPOINT_CHAT, NULL},
        {"/v1/completions", ENDPOINT_COMPLETIONS, NULL},
        {"/embeddings", ENDPOINT_EMBEDDINGS, NULL},
        {"/v1/models", ENDPOINT_MODELS, NULL},
        {"/v1/quote", ENDPOINT_QUOTE, NULL},
        {"/quote", ENDPOINT_QUOTE, NULL},
        {"/v1/organization/usage/completions", ENDPOINT_USAGE, NULL},
        {"/v1/organization/costs", ENDPOINT_COSTS, NULL},
        {"/v1/models/a%2Fb", ENDPOINT_MODELS, "a%2Fb"},
        {"/models/Qwen/Qwen3", ENDPOINT_MODELS, "Qwen/Qwen3"},
        {"/v1/models/", ENDPOINT_NONE, NULL},
        {"/v1/v1/models", ENDPOINT_NONE, NULL},
        {"/v1/chat/completions/", ENDPOINT_NONE, NULL},
        {"/v1//completions", ENDPOINT_NONE, NULL},
        {"/v1", ENDPOINT_NONE, NULL},
        {"/v2/completions", ENDPOINT_NONE, NULL},
        {"/v2/rerank", ENDPOINT_RERANK_V2, NULL},
        {"/rerank", ENDPOINT_RERANK, NULL},
        {"/tokenize", ENDPOINT_TOKENIZE, NULL},
        {"/v1/tokenize", ENDPOINT_TOKENIZE, NULL},
        {"/messages/count_tokens", ENDPOINT_COUNT_TOKENS, NULL},
        {"/v1/audio/transcriptions", ENDPOINT_TRANSCRIPTIONS, NULL},
        {"/metrics", ENDPOINT_NONE, NULL},
        {"", ENDPOINT_NONE, NULL},
    };
    struct span rest;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(endpoint_of_path(span_of(cases[i].path), &rest), cases[i].endpoint);
        assert_span(rest, cases[i].rest);
    }
    assert_span(endpoint_row(ENDPOINT_CHAT)->upstream, "/v1/chat/completions");
    assert_span(endpoint_row(ENDPOINT_EMBEDDINGS)->name, "embeddings");
}

/* ---- what is found ---- */

static void a_chat_is_read(void **state)
{
    const struct ask *ask =
        chat(*state, "{\"model\":\"small\",\"messages\":[{\"role\":\"system\",\"content\":\"Be "
                     "brief.\"},{\"role\":\"user\",\"content\":\"caf\\u00e9\"}],\"stream\":true,"
                     "\"stream_options\":{\"include_usage\":true},\"n\":2,\"max_tokens\":7,"
                     "\"seed\":18446744073709551616,\"metadata\":{\"task_class\":\"sum\"}}");

    assert_span(ask->model, "small");
    assert_true(ask->stream);
    assert_true(ask->include_usage);
    assert_false(ask->continuous_usage);
    assert_int_equal(ask->n, 2);
    assert_int_equal(ask->max_tokens, 7);
    assert_int_equal(ask->messages, 2);
    assert_int_equal(ask->prompts, 1);
    assert_int_equal(ask->text_bytes, 9 + 9);
    assert_span(ask->task_class, "sum");
    assert_span(ask->system_prompt, "Be brief.");
    assert_false(ask->tools);
    assert_false(ask->images);
    assert_false(ask->schema);
    assert_int_equal(ask->refused, 0);
    assert_int_equal(ask->open_at, 1);
}

static void defaults_stand_for_what_is_absent_or_null(void **state)
{
    static const char *const bodies[] = {
        "{\"messages\":[]}",
        "{\"messages\":[],\"model\":null,\"stream\":null,\"stream_options\":null,\"n\":null,"
        "\"max_tokens\":null,\"max_completion_tokens\":null,\"metadata\":null,\"tools\":null,"
        "\"cache_salt\":null,\"priority\":null,\"response_format\":null,\"guided_json\":null}",
        "{\"model\":\"\",\"messages\":[],\"tools\":[],\"metadata\":7}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const struct ask *ask = chat(*state, bodies[i]);

        assert_span(ask->model, NULL);
        assert_false(ask->stream);
        assert_false(ask->include_usage);
        assert_int_equal(ask->n, 1);
        assert_int_equal(ask->max_tokens, -1);
        assert_int_equal(ask->text_bytes, i == 2 ? 2 : 0);
        assert_span(ask->task_class, NULL);
        assert_span(ask->system_prompt, NULL);
        assert_false(ask->tools);
        assert_false(ask->schema);
        assert_int_equal(ask->refused, 0);
        assert_int_equal(ask->cache_salt_place.size, 0);
    }
}

static void max_completion_tokens_wins(void **state)
{
    assert_int_equal(
        chat(*state, "{\"messages\":[],\"max_completion_tokens\":5,\"max_tokens\":9}")->max_tokens,
        5);
    assert_int_equal(
        chat(*state, "{\"messages\":[],\"max_tokens\":9,\"max_completion_tokens\":0}")->max_tokens,
        0);
}

static void escapes_hide_nothing(void **state)
{
    const struct ask *ask =
        chat(*state,
             "{\"mod\\u0065l\":\"sm\\u0061ll\",\"messages\":[{\"r\\u006fle\":\"syst\\u0065m\","
             "\"cont\\u0065nt\":[{\"typ\\u0065\":\"\\u0069mage_url\",\"\\u0069mage_url\":"
             "{\"\\u0075rl\":\"http\\u003a//x\"}}]}],\"\\u0070riority\":1,\"stre\\u0061m\":true}");

    assert_span(ask->model, "small");
    assert_true(ask->stream);
    assert_true(ask->images);
    assert_int_equal(ask->refused, REFUSED_PRIORITY | REFUSED_REMOTE_MEDIA);
}

static void the_first_system_prompt_is_kept(void **state)
{
    static const struct {
        const char *messages, *prompt;
    } cases[] = {
        {"[{\"content\":\"x\",\"role\":\"system\"},{\"role\":\"system\",\"content\":\"y\"}]", "x"},
        {"[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"developer\",\"content\":\"d\"}]", "d"},
        {"[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":\"b\"}]}"
         "]",
         "a"},
        {"[{\"role\":\"system\",\"content\":[\"p\",\"q\"]}]", "p"},
        {"[{\"role\":\"system\",\"content\":null},{\"role\":\"system\",\"content\":\"z\"}]", "z"},
        {"[{\"role\":\"user\",\"content\":\"u\"}]", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[256];

        snprintf(body, sizeof(body), "{\"messages\":%s}", cases[i].messages);
        assert_span(chat(*state, body)->system_prompt, cases[i].prompt);
    }
}

static void a_long_system_prompt_is_cut(void **state)
{
    static char body[8192] = "{\"messages\":[{\"role\":\"system\",\"content\":\"";
    const size_t at = strlen(body);

    memset(body + at, 'x', 5000);
    memcpy(body + at + 5000, "\"}]}", 5);

    assert_int_equal(chat(*state, body)->system_prompt.size, 4096);
    assert_int_equal(chat(*state, body)->text_bytes, 5000);
}

static void tools_and_schemas_are_seen(void **state)
{
    const struct ask *ask = chat(*state, "{\"messages\":[],\"tools\":[{\"type\":\"function\"}],"
                                         "\"response_format\":{\"type\":\"json_schema\"}}");

    assert_true(ask->tools);
    assert_int_equal(ask->text_bytes, 21);
    assert_true(ask->schema);
    assert_true(
        chat(*state, "{\"messages\":[],\"response_format\":{\"type\":\"json_object\"}}")->schema);
    assert_true(chat(*state, "{\"messages\":[],\"guided_json\":{}}")->schema);
    assert_true(chat(*state, "{\"messages\":[],\"structured_outputs\":{}}")->schema);
    assert_false(chat(*state, "{\"messages\":[],\"response_format\":{\"type\":\"text\"}}")->schema);
}

static void media_parts_are_seen_and_remote_ones_marked(void **state)
{
    static const struct {
        const char *part;
        bool images, remote;
        int64_t text_bytes;
    } cases[] = {
        {"{\"type\":\"text\",\"text\":\"see http://x\"}", false, false, 12},
        {"{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}", true,
         false, 0},
        {"{\"type\":\"image_url\",\"image_url\":{\"url\":\"DATA:image/png,A\",\"detail\":\"low\"}}",
         true, false, 0},
        {"{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://x/y.png\"}}", true, true, 0},
        {"{\"type\":\"image_url\",\"image_url\":\"http://x\"}", true, true, 0},
        {"{\"image_url\":{\"url\":\" file:///etc/passwd\"}}", true, true, 0},
        {"{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,A\"},\"image_url\":"
         "{\"url\":\"ht\\ntp://x\"}}",
         true, true, 0},
        {"{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"AA\\/A==\",\"format\":\"wav\"}}",
         true, false, 0},
        {"{\"type\":\"video_url\",\"video_url\":{\"url\":\"ftp://x\"}}", true, true, 0},
        {"{\"type\":\"file\",\"file\":{\"file_id\":\"f-1\"}}", true, true, 0},
        {"{\"type\":\"file\",\"file\":{\"file_data\":\"AA\",\"filename\":\"c:x\"}}", true, false,
         0},
        {"{\"type\":\"image_url\",\"image_url\":null,\"uuid\":\"a:b\"}", true, false, 3},
        {"{\"type\":\"text\",\"text\":\"ab\",\"cache_control\":{\"type\":\"x\"}}", false, false,
         2 + 12},
        {"null", false, false, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[512];

        snprintf(body, sizeof(body), "{\"messages\":[{\"role\":\"user\",\"content\":[%s]}]}",
                 cases[i].part);

        const struct ask *ask = chat(*state, body);

        if (ask->images != cases[i].images ||
            ask->refused != (cases[i].remote ? (uint32_t)REFUSED_REMOTE_MEDIA : 0u) ||
            ask->text_bytes != cases[i].text_bytes)
            fail_msg("%s: %d %u %lld", cases[i].part, ask->images, ask->refused,
                     (long long)ask->text_bytes);
    }
}

static void what_messages_carry_beside_content_is_counted(void **state)
{
    const struct ask *ask =
        chat(*state, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":"
                     "[{\"id\":\"1\"}]},{\"role\":\"tool\",\"content\":\"ok\"}],"
                     "\"documents\":[1]}");

    assert_int_equal(ask->text_bytes, 12 + 2 + 3);
}

static void fields_that_need_leave_are_marked(void **state)
{
    assert_int_equal(chat(*state,
                          "{\"messages\":[],\"priority\":0,\"kv_transfer_params\":{},"
                          "\"ec_transfer_params\":{},\"request_id\":\"\",\"session_id\":\"s\","
                          "\"vllm_xargs\":{},\"prompt_embeds\":\"\",\"chat_template\":\"t\"}")
                         ->refused,
                     REFUSED_PRIORITY | REFUSED_KV_TRANSFER_PARAMS | REFUSED_EC_TRANSFER_PARAMS |
                         REFUSED_REQUEST_ID | REFUSED_SESSION_ID | REFUSED_VLLM_XARGS |
                         REFUSED_PROMPT_EMBEDS | REFUSED_CHAT_TEMPLATE);
}

static void prompts_of_every_shape_are_counted(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *body;
        int64_t prompts, text_bytes;
    } cases[] = {
        {"{\"prompt\":\"hello\"}", 1, 5},
        {"{\"prompt\":[\"ab\",\"c\"]}", 2, 3},
        {"{\"prompt\":[1,22,333]}", 1, 10},
        {"{\"prompt\":[[1,2],[3]]}", 2, 8},
        {"{\"prompt\":\"ab\",\"suffix\":\"c\"}", 1, 5},
        {"{\"prompt\":null,\"prompt_embeds\":\"AAAA\"}", 1, 0},
        {"{\"prompt_embeds\":[\"AAAA\"]}", 1, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_as(fixture, ENDPOINT_COMPLETIONS, cases[i].body), OK);
        assert_int_equal(fixture->ask.prompts, cases[i].prompts);
        assert_int_equal(fixture->ask.text_bytes, cases[i].text_bytes);
    }
    assert_int_equal(read_as(fixture, ENDPOINT_EMBEDDINGS, "{\"input\":[\"a\",\"b\",\"c\"]}"), OK);
    assert_int_equal(fixture->ask.prompts, 3);
    assert_int_equal(
        read_as(fixture, ENDPOINT_COMPLETIONS, "{\"prompt\":\"a\",\"n\":2,\"best_of\":5}"), OK);
    assert_int_equal(fixture->ask.n, 5);
}

static void messages_beside_an_input_are_judged_too(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(read_as(fixture, ENDPOINT_EMBEDDINGS,
                             "{\"input\":\"a\",\"messages\":[{\"content\":[{\"image_url\":"
                             "\"http://x\"}]}]}"),
                     OK);
    assert_int_equal(fixture->ask.refused, REFUSED_REMOTE_MEDIA);
}

/* ---- what is refused ---- */

static void what_is_no_json_object_is_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *body;
        size_t offset;
    } cases[] = {
        {"", 0},
        {"null", 0},
        {"[\"x\"]", 0},
        {"\xef\xbb\xbf{}", 0},
        {"{\"messages\":[]} x", 16},
        {"{\"messages\":[],}", 15},
        {"{\"model\":\"a\",\"messages\":[],\"model\":\"b\"}", 27},
        {"{\"model\":\"a\",\"messages\":[],\"mod\\u0065l\":\"b\"}", 27},
        {"{\"x\":1,\"y\":2,\"\\u0078\":3,\"messages\":[]}", 13},
        {"{\"\\ud800\":1}", 2},
        {"{\"stream\":true,\"messages\":[],\"stream_options\":{\"include_usage\":true,"
         "\"include_\\u0075sage\":false}}",
         68},
        {"{\"messages\":[{\"role\":}]}", 21},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (read_as(fixture, ENDPOINT_CHAT, cases[i].body) != ERR_BAD_JSON)
            fail_msg("not refused: %s", cases[i].body);
        assert_non_null(fixture->problem.message);
        if (fixture->problem.offset != cases[i].offset)
            fail_msg("%s: offset %zu", cases[i].body, fixture->problem.offset);
    }
}

static void values_that_cannot_be_used_are_refused_by_name(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        enum endpoint endpoint;
        const char *body, *param;
    } cases[] = {
        {ENDPOINT_CHAT, "{}", "messages"},
        {ENDPOINT_CHAT, "{\"prompt\":\"x\"}", "messages"},
        {ENDPOINT_CHAT, "{\"messages\":null}", "messages"},
        {ENDPOINT_CHAT, "{\"messages\":\"x\"}", "messages"},
        {ENDPOINT_CHAT, "{\"messages\":[\"x\"]}", "messages"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"model\":7}", "model"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"model\":12}", "model"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"model\":\"\\udc00\"}", "model"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"stream\":\"true\"}", "stream"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"stream\":1}", "stream"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"stream_options\":{}}", "stream_options"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"stream\":false,\"stream_options\":{}}",
         "stream_options"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"stream\":true,\"stream_options\":[]}",
         "stream_options"},
        {ENDPOINT_CHAT,
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":1}}",
         "stream_options"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"n\":0}", "n"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"n\":17}", "n"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"n\":1.0}", "n"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"n\":\"1\"}", "n"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"max_tokens\":-1}", "max_tokens"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"max_tokens\":1e3}", "max_tokens"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"max_completion_tokens\":9223372036854775808}",
         "max_completion_tokens"},
        {ENDPOINT_CHAT, "{\"messages\":[],\"cache_salt\":1}", "cache_salt"},
        {ENDPOINT_COMPLETIONS, "{\"messages\":[]}", "prompt"},
        {ENDPOINT_COMPLETIONS, "{\"prompt\":{}}", "prompt"},
        {ENDPOINT_COMPLETIONS, "{\"prompt\":[]}", "prompt"},
        {ENDPOINT_COMPLETIONS, "{\"prompt\":[\"a\",1]}", "prompt"},
        {ENDPOINT_COMPLETIONS, "{\"prompt\":[null]}", "prompt"},
        {ENDPOINT_COMPLETIONS, "{\"prompt\":null,\"prompt_embeds\":null}", "prompt"},
        {ENDPOINT_COMPLETIONS, "{\"prompt\":\"a\",\"best_of\":99}", "best_of"},
        {ENDPOINT_EMBEDDINGS, "{\"prompt\":\"a\"}", "input"},
        {ENDPOINT_EMBEDDINGS, "{\"input\":true}", "input"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (read_as(fixture, cases[i].endpoint, cases[i].body) != ERR_BAD_VALUE)
            fail_msg("not refused: %s", cases[i].body);
        assert_string_equal(fixture->problem.param, cases[i].param);
        assert_non_null(fixture->problem.message);
    }
}

/* {"messages":[],"k0":0,…} with count keys beside messages; the last one again when twice. */
static char *many_members(unsigned count, bool twice)
{
    const size_t room = 32 + ((size_t)count + 1) * 16;
    char *body = malloc(room);
    size_t size;

    assert_non_null(body);
    size = (size_t)snprintf(body, room, "{\"messages\":[]");
    for (unsigned i = 0; i < count; i++)
        size += (size_t)snprintf(body + size, room - size, ",\"k%u\":0", i);
    if (twice)
        size += (size_t)snprintf(body + size, room - size, ",\"k%u\":0", count / 2);
    snprintf(body + size, room - size, "}");
    return body;
}

static void keys_stand_once_however_many_there_are(void **state)
{
    struct fixture *fixture = *state;
    static const unsigned counts[] = {1, 30, 31, 32, 33, 64, 100, 1000, 9999};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char *sound = many_members(counts[i], false);
        char *twice = many_members(counts[i], true);

        assert_int_equal(read_as(fixture, ENDPOINT_CHAT, sound), OK);
        assert_int_equal(read_as(fixture, ENDPOINT_CHAT, twice), ERR_BAD_JSON);
        free(sound);
        free(twice);
        arena_fini(&fixture->arena);
        arena_init(&fixture->arena, NULL, 0, 1u << 20);
    }

    char *too_many = many_members(10000, false);

    assert_int_equal(read_as(fixture, ENDPOINT_CHAT, too_many), ERR_BAD_JSON);
    assert_string_equal(fixture->problem.message, "the object has too many members");
    free(too_many);
}

static void no_memory_is_told(void **state)
{
    struct fixture *fixture = *state;
    struct splice splices[ASK_SPLICES_MAX];
    uint32_t count;
    char *body = many_members(40, false);
    struct arena none;

    arena_init(&none, NULL, 0, 0);
    assert_int_equal(
        ask_read(ENDPOINT_CHAT, span_of(body), &usual, &none, &fixture->ask, &fixture->problem),
        ERR_NO_MEMORY);
    assert_int_equal(ask_read(ENDPOINT_CHAT, SPAN("{\"\\u0061\":1}"), &usual, &none, &fixture->ask,
                              &fixture->problem),
                     ERR_NO_MEMORY);
    assert_int_equal(ask_read(ENDPOINT_CHAT, SPAN("{\"messages\":[],\"model\":\"\\n\"}"), &usual,
                              &none, &fixture->ask, &fixture->problem),
                     ERR_NO_MEMORY);
    free(body);

    const struct ask *ask = chat(fixture, "{\"messages\":[]}");

    assert_int_equal(ask_splices(ask, SPAN("{\"messages\":[]}"), KIND_VLLM, SPAN("up"),
                                 (struct span){NULL, 0}, &none, splices, &count),
                     ERR_NO_MEMORY);
}

/* ---- splices ---- */

static void splices_make_the_body_fit(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        enum kind kind;
        const char *model, *salt, *before, *after;
    } cases[] = {
        {KIND_VLLM, "up", NULL, "{\"model\":\"small\",\"messages\":[]}",
         "{\"model\":\"up\",\"messages\":[]}"},
        {KIND_VLLM, "up", NULL, "{\"model\":\"up\",\"messages\":[]}",
         "{\"model\":\"up\",\"messages\":[]}"},
        {KIND_VLLM, "up", NULL, "{\"model\":\"\\u0075p\",\"messages\":[]}",
         "{\"model\":\"\\u0075p\",\"messages\":[]}"},
        {KIND_VLLM, "up", NULL, "{ \"messages\" : [] , \"model\" : null }",
         "{ \"messages\" : [] , \"model\" : \"up\" }"},
        {KIND_VLLM, "up", NULL, "{\"model\":\"\",\"messages\":[]}",
         "{\"model\":\"up\",\"messages\":[]}"},
        {KIND_VLLM, "a\"b\\c\n", NULL, " {\"messages\":[]}",
         " {\"model\":\"a\\\"b\\\\c\\u000a\",\"messages\":[]}"},
        {KIND_VLLM, NULL, NULL, "{\"messages\":[],\"model\":\"x\"}",
         "{\"messages\":[],\"model\":\"x\"}"},
        {KIND_VLLM, NULL, NULL, "{\"messages\":[],\"stream\":true}",
         "{\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true},"
         "\"messages\":[],\"stream\":true}"},
        {KIND_OPENAI, NULL, NULL, "{\"messages\":[],\"stream\":true}",
         "{\"stream_options\":{\"include_usage\":true},\"messages\":[],\"stream\":true}"},
        {KIND_VLLM, "up", NULL, "{\"messages\":[],\"stream\":true}",
         "{\"model\":\"up\",\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":"
         "true},\"messages\":[],\"stream\":true}"},
        {KIND_OPENAI, "up", NULL,
         "{\"stream_options\":null,\"model\":\"x\",\"messages\":[],\"stream\":true}",
         "{\"stream_options\":{\"include_usage\":true},\"model\":\"up\",\"messages\":[],\"stream\":"
         "true}"},
        {KIND_VLLM, NULL, NULL, "{\"messages\":[],\"stream\":true,\"stream_options\":{}}",
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":true,"
         "\"continuous_usage_stats\":true}}"},
        {KIND_OPENAI, NULL, NULL, "{\"messages\":[],\"stream\":true,\"stream_options\":{ }}",
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":true }}"},
        {KIND_VLLM, NULL, NULL,
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":false,\"x\":1}}",
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true,"
         "\"include_usage\":true,\"x\":1}}"},
        {KIND_OPENAI, NULL, NULL,
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"x\":1, \"include_usage\": null}}",
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"x\":1, \"include_usage\": true}}"},
        {KIND_VLLM, NULL, NULL,
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":false,"
         "\"include_usage\":true}}",
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true,"
         "\"include_usage\":true}}"},
        {KIND_VLLM, NULL, NULL,
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":true,"
         "\"continuous_usage_stats\":true}}",
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":true,"
         "\"continuous_usage_stats\":true}}"},
        {KIND_OPENAI, NULL, NULL,
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":false}}",
         "{\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":true,"
         "\"continuous_usage_stats\":false}}"},
        {KIND_VLLM, NULL, "00ff", "{\"cache_salt\":\"mine\",\"messages\":[]}",
         "{\"cache_salt\":\"00ff\",\"messages\":[]}"},
        {KIND_VLLM, NULL, "00ff", "{\"messages\":[]}", "{\"messages\":[]}"},
        {KIND_VLLM, NULL, NULL, "{\"cache_salt\":\"mine\",\"messages\":[]}",
         "{\"cache_salt\":\"mine\",\"messages\":[]}"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct span body = span_of(cases[i].before);
        struct splice splices[ASK_SPLICES_MAX];
        struct iovec pieces[2 * ASK_SPLICES_MAX + 1];
        char joined[1024];
        uint32_t count;
        size_t bytes;
        size_t size = 0;

        chat(fixture, cases[i].before);
        assert_int_equal(ask_splices(&fixture->ask, body, cases[i].kind, span_of(cases[i].model),
                                     span_of(cases[i].salt), &fixture->arena, splices, &count),
                         OK);
        count = splice_pieces(body, splices, count, pieces, &bytes);
        for (uint32_t piece = 0; piece < count; piece++) {
            memcpy(joined + size, pieces[piece].iov_base, pieces[piece].iov_len);
            size += pieces[piece].iov_len;
        }
        assert_int_equal(size, bytes);
        assert_span((struct span){joined, size}, cases[i].after);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(paths_name_their_endpoint),
        TEST(a_chat_is_read),
        TEST(defaults_stand_for_what_is_absent_or_null),
        TEST(max_completion_tokens_wins),
        TEST(escapes_hide_nothing),
        TEST(the_first_system_prompt_is_kept),
        TEST(a_long_system_prompt_is_cut),
        TEST(tools_and_schemas_are_seen),
        TEST(media_parts_are_seen_and_remote_ones_marked),
        TEST(what_messages_carry_beside_content_is_counted),
        TEST(fields_that_need_leave_are_marked),
        TEST(prompts_of_every_shape_are_counted),
        TEST(messages_beside_an_input_are_judged_too),
        TEST(what_is_no_json_object_is_refused),
        TEST(values_that_cannot_be_used_are_refused_by_name),
        TEST(keys_stand_once_however_many_there_are),
        TEST(no_memory_is_told),
        TEST(splices_make_the_body_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
