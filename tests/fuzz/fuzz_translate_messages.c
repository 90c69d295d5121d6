/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_translate_messages.c: asks, whole answers and streams of /v1/messages.
 *
 * Checks: any bytes end in an error or in JSON, by our scanner and by jansson; a chat that was
 * written says what the messages said; the events of any stream are in Anthropic's order, blocks
 * one after the other with deltas of their own kind, and nothing behind the end. */
#include "tests/fuzz/trees.h"

#include "gateway/scan.h"
#include "gateway/translate.h"

#define DEPTH 64
#define MOST (1u << 20)

static const struct translator_facts facts = {SPAN("m"), SPAN("0af7"), {NULL, 0}, 0};

/* The tree of what was written. Our scanner must take it; jansson takes less: no numbers that do
 * not fit, no NUL, no half of a surrogate pair. NULL: one of these. */
static json_t *tree_of(struct span json)
{
    struct scan scan;
    struct span value;
    json_error_t error;
    scan_init(&scan, json, SCAN_DEPTH_MAX);
    CHECK(scan_skip(&scan, &value) && scan_finish(&scan));
    json_t *tree =
        json_loadb(json.data, json.size, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
    CHECK(tree != NULL || json_error_code(&error) == json_error_numeric_overflow ||
          memmem(json.data, json.size, "\\u", 2) != NULL);
    return tree;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    CHECK(text != NULL);
    return text;
}

static bool is(const json_t *object, const char *name, const char *text)
{
    return strcmp(text_of(object, name), text) == 0;
}

/* ---- asks ---- */

static void check_chat_message(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    const bool assistant = is(message, "role", "assistant");
    CHECK(assistant || is(message, "role", "user") || is(message, "role", "system") ||
          is(message, "role", "tool"));
    CHECK(json_is_string(content) || json_array_size(content) > 0 ||
          json_array_size(json_object_get(message, "tool_calls")) > 0);
    CHECK(is(message, "role", "tool") == json_is_string(json_object_get(message, "tool_call_id")));
    for (size_t i = 0; i < json_array_size(content); i++)
        CHECK(is(json_array_get(content, i), "type", "text") ||
              (is(json_array_get(content, i), "type", "image_url") && is(message, "role", "user")));
    for (size_t i = 0; i < json_array_size(json_object_get(message, "tool_calls")); i++) {
        const json_t *call = json_array_get(json_object_get(message, "tool_calls"), i);
        CHECK(assistant && is(call, "type", "function") && text_of(call, "id") != NULL);
        const char *arguments = text_of(json_object_get(call, "function"), "arguments");
        struct scan scan;
        struct span value;
        scan_init(&scan, span_of(arguments), DEPTH);
        CHECK(arguments[0] == '{' && scan_skip(&scan, &value) && scan_finish(&scan));
    }
}

static void check_chat(const json_t *chat, const json_t *asked)
{
    static const char *const same[] = {"model", "stream", "max_tokens", "top_p"};
    const json_t *messages = json_object_get(chat, "messages");
    CHECK(json_is_array(messages));
    for (size_t i = 0; i < json_array_size(messages); i++)
        check_chat_message(json_array_get(messages, i));
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        const json_t *value = json_object_get(asked, same[i]);
        const json_t *written = json_object_get(chat, same[i]);
        if (json_object_size(asked) > 0)
            CHECK(value == NULL || json_is_null(value) || json_equal(value, written));
    }
    CHECK(json_object_get(chat, "n") == NULL && json_object_get(chat, "thinking") == NULL);
}

/* A second look at an object whose keys may stand twice: the last counts for jansson and for us. */
static void fuzz_ask(struct span body)
{
    struct writer writer = writer_new(MOST);
    struct ask_problem problem = {0};
    const enum err err = translate_ask(ENDPOINT_MESSAGES, body, DEPTH, &writer, &problem);
    if (err == OK) {
        json_t *asked =
            json_loadb(body.data, body.size,
                       JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
        json_t *chat = tree_of((struct span){writer.text.data, writer.text.size});
        if (chat != NULL)
            check_chat(chat, asked);
    } else {
        CHECK(err == ERR_BAD_JSON || err == ERR_BAD_VALUE || err == ERR_TOO_LARGE);
        CHECK(err == ERR_TOO_LARGE || (problem.message != NULL && problem.offset <= body.size));
    }
    buffer_free(&writer.text);
}

/* ---- whole answers ---- */

static void check_reason(const json_t *object)
{
    static const char *const reasons[] = {"end_turn", "max_tokens", "stop_sequence", "tool_use",
                                          "refusal"};
    const json_t *sequence = json_object_get(object, "stop_sequence");
    bool known = false;
    for (size_t i = 0; i < 5; i++)
        known |= is(object, "stop_reason", reasons[i]);
    CHECK(known);
    CHECK(json_is_null(sequence) ||
          (json_is_string(sequence) && is(object, "stop_reason", "stop_sequence")));
}

static void check_usage(const json_t *usage)
{
    static const char *const counts[] = {"input_tokens", "cache_creation_input_tokens",
                                         "cache_read_input_tokens", "output_tokens"};
    for (size_t i = 0; i < 4; i++)
        CHECK(json_is_number(json_object_get(usage, counts[i])) &&
              json_number_value(json_object_get(usage, counts[i])) >= 0);
}

static void check_content(const json_t *block)
{
    if (is(block, "type", "tool_use"))
        CHECK(json_is_object(json_object_get(block, "input")) &&
              json_string_length(json_object_get(block, "id")) > 0 &&
              text_of(block, "name") != NULL);
    else if (is(block, "type", "thinking"))
        CHECK(text_of(block, "thinking") != NULL && text_of(block, "signature") != NULL);
    else
        CHECK(is(block, "type", "text") && text_of(block, "text") != NULL);
}

static void fuzz_whole(struct span body)
{
    struct translator *translator = translator_new(ENDPOINT_MESSAGES, &facts);
    struct writer writer = writer_new(MOST);
    CHECK(translator != NULL);
    const enum err err = translator_whole(translator, body, &writer);
    CHECK(err == OK || err == ERR_REPLICA_PROTOCOL || err == ERR_TOO_LARGE);
    if (err == OK) {
        const json_t *message = tree_of((struct span){writer.text.data, writer.text.size});
        const json_t *content = json_object_get(message, "content");
        if (message != NULL) {
            CHECK(json_is_array(content));
            for (size_t i = 0; i < json_array_size(content); i++)
                check_content(json_array_get(content, i));
            check_reason(message);
            check_usage(json_object_get(message, "usage"));
        }
    }
    translator_free(translator);
    buffer_free(&writer.text);
}

/* ---- streams ---- */

/* Where a stream stands by Anthropic's grammar. */
struct grammar {
    bool started, told, over; /* message_start, message_delta, message_stop or error */
    int64_t blocks;
    char open; /* first letter of the open block's type; '\0': none */
};

static void check_block(struct grammar *grammar, const json_t *event)
{
    const int64_t index = (int64_t)json_number_value(json_object_get(event, "index"));
    const json_t *delta = json_object_get(event, "delta");
    if (is(event, "type", "content_block_start")) {
        CHECK(grammar->open == '\0' && index == grammar->blocks);
        grammar->blocks++;
        const json_t *block = json_object_get(event, "content_block");
        check_content(block);
        grammar->open = is(block, "type", "tool_use") ? 'u' : text_of(block, "type")[1];
        return;
    }
    CHECK(grammar->open != '\0' && index == grammar->blocks - 1);
    if (is(event, "type", "content_block_stop")) {
        grammar->open = '\0';
        return;
    }
    CHECK(is(event, "type", "content_block_delta"));
    if (is(delta, "type", "text_delta"))
        CHECK(grammar->open == 'e' && text_of(delta, "text") != NULL);
    else if (is(delta, "type", "thinking_delta"))
        CHECK(grammar->open == 'h' && text_of(delta, "thinking") != NULL);
    else if (is(delta, "type", "signature_delta"))
        CHECK(grammar->open == 'h' && text_of(delta, "signature") != NULL);
    else
        CHECK(is(delta, "type", "input_json_delta") && grammar->open == 'u' &&
              text_of(delta, "partial_json") != NULL);
}

static void check_event(struct grammar *grammar, struct span name, const json_t *event)
{
    CHECK(!grammar->over);
    CHECK(span_equal(span_of(text_of(event, "type")), name));
    if (is(event, "type", "error")) {
        grammar->over = true;
        CHECK(text_of(json_object_get(event, "error"), "type") != NULL &&
              text_of(json_object_get(event, "error"), "message") != NULL);
    } else if (is(event, "type", "message_start")) {
        CHECK(!grammar->started);
        grammar->started = true;
        check_usage(json_object_get(json_object_get(event, "message"), "usage"));
    } else if (is(event, "type", "message_delta")) {
        CHECK(grammar->started && !grammar->told && grammar->open == '\0');
        grammar->told = true;
        check_reason(json_object_get(event, "delta"));
        check_usage(json_object_get(event, "usage"));
    } else if (is(event, "type", "message_stop")) {
        CHECK(grammar->told);
        grammar->over = true;
    } else {
        CHECK(grammar->started && !grammar->told);
        check_block(grammar, event);
    }
}

/* Checks the frames of the events and what is in them; false: there is one that jansson does not
 * take. */
static bool check_events(struct grammar *grammar, struct span text)
{
    while (text.size > 0) {
        const char *end = memmem(text.data, text.size, "\n\n", 2);
        CHECK(end != NULL && span_starts(text, SPAN("event: ")));
        text = span_from(text, 7);
        const char *line = memchr(text.data, '\n', text.size);
        const struct span name = {text.data, (size_t)(line - text.data)};
        text = span_from(text, name.size + 1);
        CHECK(span_starts(text, SPAN("data: ")));
        text = span_from(text, 6);
        const struct span data = {text.data, (size_t)(end - text.data)};
        CHECK(memchr(data.data, '\n', data.size) == NULL);
        const json_t *event = tree_of(data);
        if (event == NULL)
            return false;
        check_event(grammar, name, event);
        text = span_from(text, data.size + 2);
    }
    return true;
}

/* One chunk a line. */
static void fuzz_stream(struct span body)
{
    struct translator *translator = translator_new(ENDPOINT_MESSAGES, &facts);
    struct writer writer = writer_new(MOST);
    struct grammar grammar = {0};
    enum err err = OK;
    CHECK(translator != NULL);
    while (body.size > 0 && err == OK) {
        const char *line = memchr(body.data, '\n', body.size);
        const size_t size = line != NULL ? (size_t)(line - body.data) : body.size;
        char *chunk = exact_copy((struct span){body.data, size});
        err = translator_event(translator, (struct span){chunk, size}, &writer);
        free(chunk);
        body = span_from(body, line != NULL ? size + 1 : size);
    }
    CHECK(err == OK || err == ERR_REPLICA_PROTOCOL || err == ERR_TOO_LARGE);
    if (err == OK) {
        CHECK(translator_end(translator, &writer) == OK);
        const size_t written = writer.text.size;
        CHECK(translator_end(translator, &writer) == OK && writer.text.size == written);
#ifdef PLANT_BUG
        writer.text.size -= sizeof "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n" - 1;
#endif
        if (check_events(&grammar, (struct span){writer.text.data, writer.text.size}))
            CHECK(grammar.over);
    }
    translator_free(translator);
    buffer_free(&writer.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    char *copy = exact_copy(input);
    const struct span body = {copy, input.size};
    trees_begin();
    if ((steer & 3) == 0)
        fuzz_ask(body);
    else if ((steer & 3) == 1)
        fuzz_whole(body);
    else
        fuzz_stream(body);
    free(copy);
    return 0;
}
