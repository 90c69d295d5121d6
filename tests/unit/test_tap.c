/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_tap.c: usage, errors and shape of a reply, read in passing.
 *
 * Promises: 1. A document says the same whatever way its bytes were cut.
 *           2. Usage counts where the API has it, and nowhere else; zero is a value, null is none;
 *              numbers that cannot be are flagged and never negative.
 *           3. Cutting usage out leaves the document without that member, and nothing else changed.
 *           4. What the model wrote is counted once, however often an API repeats it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <jansson.h>

#include "gateway/tap.h"

static struct tap tap_of(enum tap_shape shape, struct span text)
{
    struct tap tap;

    tap_init(&tap, shape);
    tap_feed(&tap, text);
    return tap;
}

static struct tap tap_in_one(struct span text)
{
    return tap_of(TAP_CHAT, text);
}

static void assert_numbers_equal(const struct tap_numbers *a, const struct tap_numbers *b)
{
    assert_int_equal(a->prompt, b->prompt);
    assert_int_equal(a->completion, b->completion);
    assert_int_equal(a->total, b->total);
    assert_int_equal(a->cached, b->cached);
    assert_int_equal(a->cache_write, b->cache_write);
    assert_int_equal(a->reasoning, b->reasoning);
    assert_int_equal(a->suspect, b->suspect);
}

static void assert_results_equal(const struct tap *a, const struct tap *b)
{
    assert_int_equal(tap_whole(a), tap_whole(b));
    assert_int_equal(a->has_usage, b->has_usage);
    assert_numbers_equal(&a->numbers, &b->numbers);
    assert_int_equal(a->usage_at, b->usage_at);
    assert_int_equal(a->usage_end, b->usage_end);
    assert_int_equal(a->has_error, b->has_error);
    assert_int_equal(a->has_choices, b->has_choices);
    assert_int_equal(a->plain, b->plain);
    assert_int_equal(a->choices, b->choices);
    assert_int_equal(a->choice_index, b->choice_index);
    assert_int_equal(a->finished, b->finished);
    assert_int_equal(a->started, b->started);
    assert_int_equal(a->ended, b->ended);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->text_bytes, b->text_bytes);
}

static const char *const documents[] = {
    "{\"id\":\"c\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"caf\xc3\xa9 "
    "\\u00e9\\n\\\"\"},"
    "\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":2,"
    "\"total_tokens\":22,\"prompt_tokens_details\":{\"cached_tokens\":16},"
    "\"completion_tokens_details\":{\"reasoning_tokens\":1}},\"x\":[1,-0.5e+3,true,false,{}]}",
    "{\"us\\u0061ge\" : { \"prompt_tokens\" : 1 } , \"choices\" : [ ] }",
    "{\"usage\":null,\"error\":{\"message\":\"boom\",\"code\":500}}",
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"hi\",\"tool_calls\":[{\"function\":"
    "{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}],\"usage\":{}}",
    "{\"data\":[{\"index\":0,\"embedding\":[0.1,-2E-5,0]},{}],\"usage\":{\"prompt_tokens\":0,"
    "\"total_tokens\":0}}",
    " [ \"a\\\\\" , { \"usage\" : { \"prompt_tokens\" : 5 } } ] ",
    "\"text\"",
    "-12.5e3",
    "null",
};

static void assert_the_same_however_cut(enum tap_shape shape, struct span text)
{
    const struct tap whole = tap_of(shape, text);
    struct tap dripped;

    assert_true(tap_whole(&whole));
    for (size_t at = 0; at <= text.size; at++) {
        struct tap parted;

        tap_init(&parted, shape);
        tap_feed(&parted, (struct span){text.data, at});
        if (at < text.size && text.data[0] != '-')
            assert_true(text.data[at] == ' ' || !tap_whole(&parted));
        tap_feed(&parted, span_from(text, at));
        assert_results_equal(&parted, &whole);
    }
    tap_init(&dripped, shape);
    for (size_t at = 0; at < text.size; at++) {
        const char byte = text.data[at]; /* at another address each time */

        tap_feed(&dripped, (struct span){&byte, 1});
    }
    assert_results_equal(&dripped, &whole);
}

static void a_document_says_the_same_however_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        assert_the_same_however_cut(TAP_CHAT, span_of(documents[i]));
}

static void an_event_tells_all_it_has(void **state)
{
    (void)state;
    const struct tap tap = tap_in_one(span_of(documents[0]));

    assert_true(tap.has_usage);
    assert_int_equal(tap.numbers.prompt, 20);
    assert_int_equal(tap.numbers.completion, 2);
    assert_int_equal(tap.numbers.total, 22);
    assert_int_equal(tap.numbers.cached, 16);
    assert_int_equal(tap.numbers.cache_write, -1);
    assert_int_equal(tap.numbers.reasoning, 1);
    assert_false(tap.numbers.suspect);
    assert_true(tap.has_choices);
    assert_int_equal(tap.choices, 1);
    assert_int_equal(tap.choice_index, 1);
    assert_false(tap.finished);
    assert_false(tap.plain);
    assert_false(tap.has_error);
    assert_int_equal(tap.text_bytes, 6 + 6 + 2 + 2);
}

static void text_of_every_kind_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {
        {"{\"choices\":[{\"text\":\"abc\"}]}", 3},
        {"{\"choices\":[{\"delta\":{\"content\":\"a\",\"reasoning\":\"bc\",\"refusal\":\"d\"}}]}",
         4},
        {"{\"choices\":[{\"delta\":{\"reasoning_content\":\"abc\"}},{\"text\":\"d\"}]}", 4},
        {"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"x\",\"function\":{\"name\":\"f\","
         "\"arguments\":\"{\\\"a\\\":1}\"}}]}}]}",
         9},
        {"{\"choices\":[{\"delta\":{\"function_call\":{\"arguments\":\"ab\"}}}]}", 2},
        {"{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}", 0},
        {"{\"content\":\"abc\",\"text\":\"d\",\"delta\":{\"content\":\"e\"}}", 0},
        {"{\"choices\":{\"text\":\"abc\"}}", 0},
        {"{\"choices\":[[{\"text\":\"abc\"}]]}", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tap tap = tap_in_one(span_of(cases[i].text));

        assert_true(tap_whole(&tap));
        assert_int_equal(tap.text_bytes, cases[i].bytes);
    }
}

static void errors_and_endings_are_seen(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool error, finished;
    } cases[] = {
        {"{\"error\":{}}", true, false},
        {"{\"error\":\"Unauthorized\"}", true, false},
        {"{\"error\":500}", true, false},
        {"{\"error\":[]}", true, false},
        {"{\"error\":true}", true, false},
        {"{\"error\":null}", false, false},
        {"{\"error\":false}", false, false},
        {"{\"x\":{\"error\":1}}", false, false},
        {"{\"object\":\"error\",\"message\":\"flat\",\"code\":400}", true, false},
        {"{\"object\":\"chat.completion.chunk\"}", false, false},
        {"{\"x\":{\"object\":\"error\"}}", false, false},
        {"{\"choices\":[{\"finish_reason\":\"length\"},{\"finish_reason\":null}]}", false, true},
        {"{\"choices\":[{\"finish_reason\":null}]}", false, false},
        {"{\"choices\":[{\"error\":1}]}", false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tap tap = tap_in_one(span_of(cases[i].text));

        assert_int_equal(tap.has_error, cases[i].error);
        assert_int_equal(tap.finished, cases[i].finished);
    }
}

static void usage_counts_at_the_top_level_only(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{\"x\":{\"usage\":{\"prompt_tokens\":5}}}",
        "[{\"usage\":{\"prompt_tokens\":5}}]",
        "{\"choices\":[{\"usage\":{\"prompt_tokens\":5}}]}",
        "{\"usage\":null}",
        "{\"usage\":[{\"prompt_tokens\":5}]}",
        "{\"usage\":7,\"prompt_tokens\":5}",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tap tap = tap_in_one(span_of(cases[i]));

        assert_true(tap_whole(&tap));
        assert_false(tap.has_usage);
        assert_int_equal(tap.numbers.prompt, -1);
    }
}

static void numbers_that_cannot_be_are_flagged(void **state)
{
    (void)state;
    static const struct {
        const char *usage;
        int64_t prompt;
        bool suspect;
    } cases[] = {
        {"{\"prompt_tokens\":0}", 0, false},
        {"{\"prompt_tokens\":2147483648}", 2147483648, false},
        {"{\"prompt_tokens\":9007199254740992}", INT64_C(1) << 53, false},
        {"{\"prompt_tokens\":9007199254740993}", -1, true},
        {"{\"prompt_tokens\":18446744073709551617}", -1, true},
        {"{\"prompt_tokens\":-5}", 0, true},
        {"{\"prompt_tokens\":-9007199254740993}", -1, true},
        {"{\"prompt_tokens\":5.5}", 5, true},
        {"{\"prompt_tokens\":5e1}", 5, true},
        {"{\"prompt_tokens\":\"5\"}", -1, true},
        {"{\"prompt_tokens\":true}", -1, true},
        {"{\"prompt_tokens\":[5]}", -1, true},
        {"{\"prompt_tokens\":null}", -1, false},
        {"{\"prompt_tokens\":5,\"prompt_tokens\":6}", 6, false},
        {"{\"prompt_tokens\":5,\"completion_tokens\":1,\"total_tokens\":7}", 5, true},
        {"{\"prompt_tokens\":5,\"completion_tokens\":1,\"total_tokens\":6}", 5, false},
        {"{\"prompt_tokens\":5,\"prompt_tokens_details\":null}", 5, false},
        {"{\"prompt_tokens\":5,\"prompt_tokens_details\":{\"prompt_tokens\":9}}", 5, false},
        {"{\"input_tokens\":5,\"cache_read_input_tokens\":3,\"cache_creation_input_tokens\":2}", 5,
         false},
        {"{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":3}}", 5, false},
        {"{\"prompt_tokens\":1},\"usage\":{\"prompt_tokens\":2}", 2, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];

        snprintf(text, sizeof(text), "{\"usage\":%s}", cases[i].usage);

        const struct tap tap = tap_in_one(span_of(text));

        assert_true(tap_whole(&tap));
        assert_true(tap.has_usage);
        if (tap.numbers.prompt != cases[i].prompt || tap.numbers.suspect != cases[i].suspect)
            fail_msg("%s: %lld %d", text, (long long)tap.numbers.prompt, tap.numbers.suspect);
    }
}

static void what_is_not_json_is_broken(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",         " ",         "{",           "[1",     "[1,]",      "{\"a\":1,}", "{\"a\"}",
        "{\"a\":}", "{a:1}",     "{1:1}",       "[1}",    "{\"a\":1]", "]",          "[] []",
        "01",       "-",         "-a",          "1.",     "1.e1",      "1e",         "1e+",
        "1ea",      "+1",        ".5",          "tru",    "trux",      "nul",        "nulll",
        "\"a",      "\"\\x\"",   "\"\\u12g4\"", "\"\\",   "\"a\nb\"",  "\"\\u00",    "{,}",
        "[,1]",     "{\"a\" 1}", "[1 2]",       "[DONE]", "x",         "\"a\"b",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tap tap = tap_in_one(span_of(cases[i]));
        struct tap dripped;

        if (tap_whole(&tap))
            fail_msg("accepted: %s", cases[i]);
        tap_init(&dripped, TAP_CHAT);
        for (const char *at = cases[i]; *at != '\0'; at++)
            tap_feed(&dripped, (struct span){at, 1});
        assert_int_equal(dripped.broken, tap.broken);
    }
}

static void what_was_read_before_a_break_stays(void **state)
{
    (void)state;
    struct tap tap = tap_in_one(SPAN("{\"usage\":{\"prompt_tokens\":5},\"x\":}"));

    assert_true(tap.broken);
    tap_feed(&tap, SPAN("\"usage\":{\"prompt_tokens\":6}"));
    assert_int_equal(tap.numbers.prompt, 5);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char text[2 * TAP_DEPTH_MAX + 2];

    memset(text, '[', TAP_DEPTH_MAX + 1);
    memset(text + TAP_DEPTH_MAX + 1, ']', TAP_DEPTH_MAX + 1);

    const struct tap deep = tap_in_one((struct span){text + 1, 2 * TAP_DEPTH_MAX});
    const struct tap too_deep = tap_in_one(SPAN(text));

    assert_true(tap_whole(&deep));
    assert_true(too_deep.broken);
}

static void keys_that_are_nearly_known_are_not(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{\"usag\":{\"prompt_tokens\":5}}",
        "{\"usage \":{\"prompt_tokens\":5}}",
        "{\"u\\nsage\":{\"prompt_tokens\":5}}",
        "{\"us\\u0161ge\":{\"prompt_tokens\":5}}",
        "{\"a_key_that_is_longer_than_any_known_one_\\u0061\":{\"prompt_tokens\":5}}",
        "{\"\":{\"prompt_tokens\":5}}",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tap tap = tap_in_one(span_of(cases[i]));

        assert_true(tap_whole(&tap));
        assert_false(tap.has_usage);
    }
}

/* ---- cutting ---- */

static void cutting_usage_leaves_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *text, *left;
    } cases[] = {
        {"{\"a\":1,\"usage\":{\"prompt_tokens\":5},\"b\":2}", "{\"a\":1,\"b\":2}"},
        {"{\"usage\":{},\"b\":2}", "{\"b\":2}"},
        {"{\"a\":1,\"usage\":{}}", "{\"a\":1}"},
        {"{\"usage\":{}}", "{}"},
        {"{ \"usage\" : { } , \"b\" : 2 }", "{  \"b\" : 2 }"},
        {"{ \"a\" : 1 , \"usage\" : { } }", "{ \"a\" : 1  }"},
        {"{\"a\":1,\"usage\":null,\"b\":2}", "{\"a\":1,\"b\":2}"},
        {"{\"a\":1,\"usage\":[1,{}],\"b\":2}", "{\"a\":1,\"b\":2}"},
        {"{\"a\":1,\"usage\":12,\"b\":2}", "{\"a\":1,\"b\":2}"},
        {"{\"usage\":12}", "{}"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct span text = span_of(cases[i].text);
        const struct tap tap = tap_in_one(text);
        char left[128];
        size_t size = tap.usage_at;

        memcpy(left, text.data, tap.usage_at);
        memcpy(left + size, text.data + tap.usage_end, text.size - tap.usage_end);
        size += text.size - tap.usage_end;
        left[size] = '\0';
        assert_string_equal(left, cases[i].left);

        json_t *expected = json_loads(cases[i].text, 0, NULL);
        json_t *actual = json_loads(left, 0, NULL);

        json_object_del(expected, "usage");
        assert_true(json_equal(actual, expected));
        json_decref(expected);
        json_decref(actual);
    }
}

static void without_usage_there_is_nothing_to_cut(void **state)
{
    (void)state;
    const struct tap tap = tap_in_one(SPAN("{\"a\":{\"usage\":{}},\"b\":[]}"));

    assert_int_equal(tap.usage_at, 0);
    assert_int_equal(tap.usage_end, 0);
}

/* ---- responses and messages: bodies and events as servers send them ---- */

static const char *const responses_documents[] = {
    "{\"type\":\"response.created\",\"response\":{\"output\":[],\"usage\":null,\"error\":null},"
    "\"sequence_number\":0}",
    "{\"content_index\":0,\"delta\":\"caf\\u00e9\",\"item_id\":\"m\",\"sequence_number\":5,"
    "\"type\":\"response.output_text.delta\"}",
    "{\"item_id\":\"m\",\"sequence_number\":6,\"text\":\"caf\\u00e9\","
    "\"type\":\"response.output_text.done\"}",
    "{\"response\":{\"status\":\"completed\",\"output\":[{\"content\":[{\"text\":\"caf\\u00e9\"}],"
    "\"type\":\"message\"}],\"usage\":{\"input_tokens\":20,\"input_tokens_details\":"
    "{\"cached_tokens\":16,\"cache_write_tokens\":2,\"input_tokens_per_turn\":[20]},"
    "\"output_tokens\":7,\"output_tokens_details\":{\"reasoning_tokens\":3,"
    "\"tool_output_tokens\":0},\"total_tokens\":27}},\"sequence_number\":9,"
    "\"t\\u0079pe\":\"response\\u002ecompleted\"}",
    "{\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\","
    "\"message\":\"boom\"},\"usage\":null}}",
    "{\"object\":\"response\",\"error\":null,\"output\":[{\"type\":\"reasoning\",\"summary\":"
    "[{\"text\":\"ab\"}],\"content\":[{\"text\":\"cde\"}]},{\"type\":\"message\",\"content\":"
    "[{\"text\":\"fghi\"},{\"refusal\":\"j\"}]},{\"type\":\"function_call\",\"arguments\":"
    "\"{\\\"a\\\":1}\"}],\"usage\":{\"input_tokens\":5,\"output_tokens\":2,\"total_tokens\":7}}",
    NULL,
};

static const char *const messages_documents[] = {
    "{\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"content\":[],\"stop_reason\":"
    "null,\"usage\":{\"cache_read_input_tokens\":7,\"input_tokens\":1,\"output_tokens\":1}}}",
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\","
    "\"input\":{}}}",
    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":"
    "\"abc\"}}",
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"thinking_delta\","
    "\"thinking\":\"abcd\"}}",
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\","
    "\"partial_json\":\"{\\\"a\\\"\"}}",
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"signature_delta\","
    "\"signature\":\"xxxx\"}}",
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":"
    "{\"output_tokens\":6}}",
    "{\"type\":\"message_stop\"}",
    "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
    "{\"type\":\"message\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"ab\"},{\"type\":"
    "\"text\",\"text\":\"cde\"},{\"type\":\"tool_use\",\"name\":\"f\",\"input\": { \"text\":"
    "[1,{}] } }],\"stop_reason\":\"tool_use\",\"usage\":{\"input_tokens\":8,\"output_tokens\":6,"
    "\"cache_creation_input_tokens\":3,\"cache_read_input_tokens\":2}}",
    NULL,
};

static void documents_of_every_api_say_the_same_however_cut(void **state)
{
    (void)state;
    const struct {
        enum tap_shape shape;
        const char *const *documents;
    } cases[] = {{TAP_RESPONSES, responses_documents}, {TAP_MESSAGES, messages_documents}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (const char *const *document = cases[i].documents; *document != NULL; document++)
            assert_the_same_however_cut(cases[i].shape, span_of(*document));
}

static void responses_say_usage_in_their_last_event(void **state)
{
    (void)state;
    const struct tap created = tap_of(TAP_RESPONSES, span_of(responses_documents[0]));
    const struct tap completed = tap_of(TAP_RESPONSES, span_of(responses_documents[3]));
    const struct tap plain = tap_of(TAP_RESPONSES, span_of(responses_documents[5]));

    assert_false(created.has_usage || created.ended || created.has_error);
    assert_int_equal(created.sequence, 0);
    assert_true(completed.has_usage && completed.ended);
    assert_false(completed.has_error);
    assert_int_equal(completed.sequence, 9);
    assert_int_equal(completed.numbers.prompt, 20);
    assert_int_equal(completed.numbers.cached, 16);
    assert_int_equal(completed.numbers.cache_write, 2);
    assert_int_equal(completed.numbers.completion, 7);
    assert_int_equal(completed.numbers.reasoning, 3);
    assert_int_equal(completed.numbers.total, 27);
    assert_false(completed.numbers.suspect);
    assert_true(plain.has_usage);
    assert_false(plain.ended || plain.has_error);
    assert_int_equal(plain.numbers.completion, 2);
    assert_int_equal(plain.sequence, -1);
}

static void messages_say_usage_at_their_begin_and_end(void **state)
{
    (void)state;
    const struct tap start = tap_of(TAP_MESSAGES, span_of(messages_documents[0]));
    const struct tap delta = tap_of(TAP_MESSAGES, span_of(messages_documents[6]));
    const struct tap plain = tap_of(TAP_MESSAGES, span_of(messages_documents[9]));

    assert_true(start.has_usage && start.started);
    assert_false(start.finished || start.ended);
    assert_int_equal(start.numbers.prompt, 1);
    assert_int_equal(start.numbers.cached, 7);
    assert_true(delta.has_usage && delta.finished);
    assert_false(delta.started || delta.ended);
    assert_int_equal(delta.numbers.prompt, -1);
    assert_int_equal(delta.numbers.completion, 6);
    assert_true(plain.has_usage && plain.finished);
    assert_int_equal(plain.numbers.prompt, 8);
    assert_int_equal(plain.numbers.cached, 2);
    assert_int_equal(plain.numbers.cache_write, 3);
}

static void events_that_end_a_stream_are_known(void **state)
{
    (void)state;
    static const struct {
        enum tap_shape shape;
        const char *type;
        bool ended, error;
    } cases[] = {
        {TAP_RESPONSES, "response.completed", true, false},
        {TAP_RESPONSES, "response.incomplete", true, false},
        {TAP_RESPONSES, "response.failed", true, true},
        {TAP_RESPONSES, "error", true, true},
        {TAP_RESPONSES, "response.in_progress", false, false},
        {TAP_RESPONSES, "response.function_call_arguments.delta", false, false},
        {TAP_RESPONSES, "message_stop", false, false},
        {TAP_MESSAGES, "message_stop", true, false},
        {TAP_MESSAGES, "error", true, true},
        {TAP_MESSAGES, "ping", false, false},
        {TAP_MESSAGES, "response.completed", false, false},
        {TAP_CHAT, "error", false, false},
        {TAP_CHAT, "message_stop", false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];

        snprintf(text, sizeof(text), "{\"type\":\"%s\"}", cases[i].type);

        const struct tap tap = tap_of(cases[i].shape, span_of(text));

        if (tap.ended != cases[i].ended || tap.has_error != cases[i].error)
            fail_msg("%s: %d %d", text, tap.ended, tap.has_error);
        assert_the_same_however_cut(cases[i].shape, span_of(text));
    }
}

static void what_the_model_wrote_is_counted_once(void **state)
{
    (void)state;
    static const int64_t responses[] = {0, 9, 0, 0, 0, 2 + 3 + 4 + 1 + 9};
    static const int64_t messages[] = {0, 0, 3, 4, 6, 0, 0, 0, 0, 2 + 3 + 17};

    for (size_t i = 0; responses_documents[i] != NULL; i++)
        assert_int_equal(tap_of(TAP_RESPONSES, span_of(responses_documents[i])).text_bytes,
                         responses[i]);
    for (size_t i = 0; messages_documents[i] != NULL; i++)
        assert_int_equal(tap_of(TAP_MESSAGES, span_of(messages_documents[i])).text_bytes,
                         messages[i]);
}

static void only_chat_streams_have_usage_to_cut(void **state)
{
    (void)state;
    const struct tap responses = tap_of(TAP_RESPONSES, span_of(responses_documents[5]));
    const struct tap messages = tap_of(TAP_MESSAGES, span_of(messages_documents[6]));

    assert_int_equal(responses.usage_end, 0);
    assert_int_equal(messages.usage_end, 0);
}

static void usage_of_two_places_is_suspect(void **state)
{
    (void)state;
    const struct tap tap =
        tap_of(TAP_MESSAGES, SPAN("{\"usage\":{\"output_tokens\":1},\"message\":{\"usage\":"
                                  "{\"output_tokens\":2}}}"));

    assert_true(tap.numbers.suspect);
    assert_int_equal(tap.numbers.completion, 2);
}

/* Audio is paid by the second where usage says so: no tokens, and nothing wrong. */
static void transcriptions_say_tokens_or_seconds(void **state)
{
    (void)state;
    const struct tap tokens =
        tap_in_one(SPAN("{\"text\":\"hi\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,"
                        "\"input_token_details\":{\"text_tokens\":0,\"audio_tokens\":14},"
                        "\"output_tokens\":5,\"total_tokens\":19}}"));
    const struct tap seconds =
        tap_in_one(SPAN("{\"text\":\"hi\",\"usage\":{\"type\":\"duration\",\"seconds\":3}}"));

    assert_int_equal(tokens.numbers.prompt, 14);
    assert_int_equal(tokens.numbers.completion, 5);
    assert_false(tokens.numbers.suspect);
    assert_int_equal(seconds.numbers.prompt, -1);
    assert_int_equal(seconds.numbers.completion, -1);
    assert_false(seconds.numbers.suspect);
}

static void quirks_of_servers_are_read(void **state)
{
    (void)state;
    const struct tap sglang =
        tap_in_one(SPAN("{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"total_tokens\":9,"
                        "\"completion_tokens\":4,\"prompt_tokens_details\":null,"
                        "\"reasoning_tokens\":3}}"));
    const struct tap llamacpp =
        tap_in_one(SPAN("{\"choices\":[],\"usage\":{\"completion_tokens\":6,\"prompt_tokens\":8,"
                        "\"total_tokens\":14,\"prompt_tokens_details\":{\"cached_tokens\":7}},"
                        "\"timings\":{\"cache_n\":7,\"prompt_n\":1,\"predicted_n\":6}}"));

    assert_int_equal(sglang.numbers.reasoning, 3);
    assert_int_equal(sglang.numbers.cached, -1);
    assert_int_equal(llamacpp.numbers.prompt, 8);
    assert_int_equal(llamacpp.numbers.cached, 7);
    assert_false(llamacpp.numbers.suspect);
}

static void events_that_begin_alike_are_read_as_any_other(void **state)
{
    (void)state;
    static const char *const events[] = {
        "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"choices\":"
        "[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
        "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"choices\":"
        "[{\"index\":0,\"delta\":{\"content\":\"abc\"}}],\"usage\":{\"prompt_tokens\":3,"
        "\"completion_tokens\":1,\"total_tokens\":4}}",
        "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"choices\":"
        "[{\"index\":0,\"delta\":{\"content\":\"defg\"},\"finish_reason\":\"stop\"}],\"usage\":"
        "{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}",
        "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"choices\":"
        "[{\"index\":1,\"delta\":{\"content\":\"x\"}}]}",
        "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"choices\":"
        "[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":3,\"total_tokens\":6}}",
        "{\"error\":{\"message\":\"no\"}}",
        "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1,"
        "\"choices\":"
        "[{\"index\":0,\"delta\":{",
        "null",
    };
    struct tap_memo memo = {0};

    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
            const struct span event = span_of(events[i]);
            struct tap fresh, alike;

            tap_init(&fresh, TAP_CHAT);
            tap_feed(&fresh, event);
            tap_read_event(&alike, &memo, TAP_CHAT, event);
            assert_memory_equal(&alike, &fresh, offsetof(struct tap, number));
            assert_int_equal(tap_whole(&alike), tap_whole(&fresh));
        }
    assert_true(memo.alike >= 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_says_the_same_however_cut),
        cmocka_unit_test(an_event_tells_all_it_has),
        cmocka_unit_test(text_of_every_kind_is_counted),
        cmocka_unit_test(errors_and_endings_are_seen),
        cmocka_unit_test(usage_counts_at_the_top_level_only),
        cmocka_unit_test(numbers_that_cannot_be_are_flagged),
        cmocka_unit_test(what_is_not_json_is_broken),
        cmocka_unit_test(what_was_read_before_a_break_stays),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(keys_that_are_nearly_known_are_not),
        cmocka_unit_test(cutting_usage_leaves_the_rest),
        cmocka_unit_test(without_usage_there_is_nothing_to_cut),
        cmocka_unit_test(documents_of_every_api_say_the_same_however_cut),
        cmocka_unit_test(responses_say_usage_in_their_last_event),
        cmocka_unit_test(messages_say_usage_at_their_begin_and_end),
        cmocka_unit_test(events_that_end_a_stream_are_known),
        cmocka_unit_test(what_the_model_wrote_is_counted_once),
        cmocka_unit_test(only_chat_streams_have_usage_to_cut),
        cmocka_unit_test(usage_of_two_places_is_suspect),
        cmocka_unit_test(transcriptions_say_tokens_or_seconds),
        cmocka_unit_test(quirks_of_servers_are_read),
        cmocka_unit_test(events_that_begin_alike_are_read_as_any_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
