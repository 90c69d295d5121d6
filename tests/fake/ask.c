/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/ask.c: what a request body wants from the model.
 *
 * For:       body bytes in, the members that decide the answer out.
 * Called by: server.c, answer.c.
 * Knows not: HTTP, sockets, directives. */
#include "tests/fake/ask.h"

static uint64_t tokens_of(uint64_t text_bytes)
{
    return (text_bytes + 3) / 4;
}

/* The text bytes of a message's content: a string, or parts that bear a text. */
static uint64_t content_bytes(struct json *json)
{
    uint64_t bytes = 0;
    bool first = true;
    bool first_member;
    struct text key;

    if (json_peek(json) == '"')
        return json_string(json).bytes;
    if (json_peek(json) != '[') {
        json_skip(json);
        return 0;
    }
    json_enter(json, '[');
    while (json_element(json, &first)) {
        if (json_peek(json) != '{') {
            json_skip(json);
            continue;
        }
        json_enter(json, '{');
        first_member = true;
        while (json_member(json, &first_member, &key)) {
            if (text_equals(key, TEXT("text")) && json_peek(json) == '"')
                bytes += json_string(json).bytes;
            else
                json_skip(json);
        }
    }
    return bytes;
}

static void read_messages(struct json *json, struct ask *ask)
{
    uint64_t bytes = 0;
    bool first = true;
    bool first_member;
    struct text key;

    if (!json_enter(json, '['))
        return;
    while (json_element(json, &first)) {
        first_member = true;
        if (!json_enter(json, '{'))
            return;
        while (json_member(json, &first_member, &key)) {
            if (text_equals(key, TEXT("content")))
                bytes += content_bytes(json);
            else
                json_skip(json);
        }
    }
    ask->prompt_tokens = tokens_of(bytes);
    ask->prompts = 1;
    ask->has_prompt = true;
}

/* A prompt or input: a string, a list of strings, a list of ids, or a list of lists of ids. */
static void read_prompt(struct json *json, struct ask *ask)
{
    bool first = true;
    bool first_id;
    uint64_t ids = 0;

    ask->has_prompt = true;
    if (json_peek(json) == '"') {
        ask->prompt_tokens = tokens_of(json_string(json).bytes);
        ask->prompts = 1;
        return;
    }
    if (!json_enter(json, '['))
        return;
    while (json_element(json, &first)) {
        if (json_peek(json) == '"') {
            ask->prompt_tokens += tokens_of(json_string(json).bytes);
            ask->prompts++;
        } else if (json_peek(json) == '[') {
            json_enter(json, '[');
            first_id = true;
            while (json_element(json, &first_id)) {
                json_skip(json);
                ask->prompt_tokens++;
            }
            ask->prompts++;
        } else {
            json_skip(json);
            ids++;
        }
    }
    if (ids > 0) {
        ask->prompt_tokens += ids;
        ask->prompts++;
    }
}

static void read_stream_options(struct json *json, struct ask *ask)
{
    bool first = true;
    struct text key;

    if (json_peek(json) != '{') {
        json_skip(json);
        return;
    }
    json_enter(json, '{');
    ask->stream_options = true;
    while (json_member(json, &first, &key)) {
        if (text_equals(key, TEXT("include_usage")))
            ask->include_usage = json_true(json);
        else if (text_equals(key, TEXT("continuous_usage_stats")))
            ask->continuous_usage = json_true(json);
        else
            json_skip(json);
    }
}

static void read_member(struct json *json, struct text key, struct ask *ask)
{
    if (text_equals(key, TEXT("model"))) {
        if (json_peek(json) == '"')
            ask->model = json_string(json);
        else
            json_skip(json);
    } else if (text_equals(key, TEXT("messages"))) {
        read_messages(json, ask);
    } else if (text_equals(key, TEXT("prompt"))) {
        read_prompt(json, ask);
    } else if (text_equals(key, TEXT("input"))) {
        const char *begin = json->at;
        read_prompt(json, ask);
        ask->input = (struct text){begin, (size_t)(json->at - begin)};
    } else if (text_equals(key, TEXT("stream"))) {
        ask->stream = json_true(json);
    } else if (text_equals(key, TEXT("stream_options"))) {
        read_stream_options(json, ask);
    } else if (text_equals(key, TEXT("max_completion_tokens"))) {
        long value = json_integer(json);
        if (value > 0)
            ask->output_tokens = value;
    } else if (text_equals(key, TEXT("max_tokens"))) {
        long value = json_integer(json);
        if (ask->output_tokens == 0 && value > 0)
            ask->output_tokens = value;
    } else if (text_equals(key, TEXT("n"))) {
        long value = json_integer(json);
        ask->samples = value < 1 ? 1 : value > 1024 ? 1024 : (unsigned)value;
    } else if (text_equals(key, TEXT("encoding_format"))) {
        if (json_peek(json) == '"')
            ask->base64 = text_equals(json_string(json), TEXT("base64"));
        else
            json_skip(json);
    } else {
        json_skip(json);
    }
}

bool ask_read(struct text body, struct ask *out_ask)
{
    struct json json = {body.at, body.at + body.bytes, 0, false};
    struct ask ask = {.samples = 1};
    bool first = true;
    struct text key;

    if (!json_enter(&json, '{'))
        return false;
    while (json_member(&json, &first, &key))
        read_member(&json, key, &ask);
    *out_ask = ask;
    return json_at_end(&json);
}

void ask_inputs_begin(struct ask_inputs *inputs, struct text value)
{
    *inputs = (struct ask_inputs){{value.at, value.at + value.bytes, 0, false}, false, false, true};
    if (json_peek(&inputs->json) == '[') {
        struct json ahead = inputs->json;
        bool first = true;
        json_enter(&ahead, '[');
        if (json_element(&ahead, &first) &&
            (json_peek(&ahead) == '"' || json_peek(&ahead) == '[')) {
            inputs->list = true;
            json_enter(&inputs->json, '[');
        }
    }
}

bool ask_inputs_next(struct ask_inputs *inputs, uint64_t *out_hash)
{
    if (inputs->done)
        return false;
    if (!inputs->list)
        inputs->done = true;
    else if (!json_element(&inputs->json, &inputs->first))
        return false;
    json_peek(&inputs->json);
    const char *begin = inputs->json.at;
    json_skip(&inputs->json);
    uint64_t hash = 14695981039346656037u; /* FNV-1a, 64 bits */
    for (const char *at = begin; at < inputs->json.at; at++)
        hash = (hash ^ (uint64_t)(unsigned char)*at) * 1099511628211u;
    *out_hash = hash;
    return !inputs->json.broken;
}
