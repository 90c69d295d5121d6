/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/ask.c: what a request body wants from the model.
 *
 * For:       body bytes in, the members that decide the answer out, whichever API they belong to.
 * Called by: service.c and the files that write answers.
 * Knows not: HTTP, sockets, directives. */
#include "tests/fake/ask.h"

#include <strings.h>

/* What a prompt has been found to contain. */
struct found {
    uint64_t bytes;
    uint64_t images;
};

static uint64_t tokens_of(uint64_t text_bytes)
{
    return (text_bytes + 3) / 4;
}

static bool image_type(struct text type)
{
    return text_equals(type, TEXT("image_url")) || text_equals(type, TEXT("image")) ||
           text_equals(type, TEXT("input_image"));
}

static void read_content(struct json *json, struct found *found);

/* A part of a content: its text, an image, or the content of a tool's result. */
static void read_part(struct json *json, struct found *found)
{
    bool first = true;
    struct text key;

    if (json_peek(json) != '{') {
        json_skip(json);
        return;
    }
    json_enter(json, '{');
    while (json_member(json, &first, &key)) {
        if (text_equals(key, TEXT("text")) && json_peek(json) == '"')
            found->bytes += json_string(json).bytes;
        else if (text_equals(key, TEXT("type")) && json_peek(json) == '"')
            found->images += image_type(json_string(json));
        else if (text_equals(key, TEXT("content")))
            read_content(json, found);
        else
            json_skip(json);
    }
}

/* A message's content: a string, or parts. */
static void read_content(struct json *json, struct found *found)
{
    bool first = true;

    if (json_peek(json) == '"') {
        found->bytes += json_string(json).bytes;
        return;
    }
    if (json_peek(json) != '[') {
        json_skip(json);
        return;
    }
    json_enter(json, '[');
    while (json_element(json, &first))
        read_part(json, found);
}

/* Messages of a chat, or items of a response's input. */
static void read_messages(struct json *json, struct ask *ask)
{
    struct found found = {0};
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
            if (text_equals(key, TEXT("content")) || text_equals(key, TEXT("output")))
                read_content(json, &found);
            else
                json_skip(json);
        }
    }
    ask->prompt_tokens += tokens_of(found.bytes) + found.images * IMAGE_TOKENS;
    ask->prompts = 1;
    ask->has_prompt = true;
}

/* `system` of messages, `instructions` of responses. */
static void read_system(struct json *json, struct ask *ask)
{
    struct found found = {0};

    read_content(json, &found);
    ask->prompt_tokens += tokens_of(found.bytes) + found.images * IMAGE_TOKENS;
}

static bool list_of_objects(const struct json *json)
{
    struct json ahead = *json;
    bool first = true;

    return json_enter(&ahead, '[') && json_element(&ahead, &first) && json_peek(&ahead) == '{';
}

/* A prompt or input: a string, a list of strings, a list of ids, a list of lists of ids, or items.
 */
static void read_prompt(struct json *json, struct ask *ask)
{
    bool first = true;
    bool first_id;
    uint64_t ids = 0;

    ask->has_prompt = true;
    if (json_peek(json) == '"') {
        ask->prompt_tokens += tokens_of(json_string(json).bytes);
        ask->prompts = 1;
        return;
    }
    if (json_peek(json) == '[' && list_of_objects(json)) {
        read_messages(json, ask);
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

static struct text read_string(struct json *json)
{
    if (json_peek(json) == '"')
        return json_string(json);
    json_skip(json);
    return TEXT("");
}

/* The member `format` of an object: `text` of responses, `output_config` of messages. */
static void read_format(struct json *json, struct ask *ask)
{
    struct text format;

    if (json_find(json_value(json), TEXT("format"), &format))
        ask->format = format;
}

static void read_limit(struct json *json, struct ask *ask, bool wins)
{
    long value = json_integer(json);

    if (value > 0 && (wins || ask->output_tokens == 0))
        ask->output_tokens = value;
}

/* logprobs: a boolean in a chat, a number in a completion. */
static void read_logprobs(struct json *json, struct ask *ask)
{
    char byte = json_peek(json);

    if (byte >= '0' && byte <= '9') {
        ask->top_logprobs = json_integer(json);
        ask->logprobs = true;
    } else {
        ask->logprobs = json_true(json);
    }
}

/* Members that say how the answer is to be made. */
static bool read_setting(struct json *json, struct text key, struct ask *ask)
{
    if (text_equals(key, TEXT("stream"))) {
        ask->stream = json_true(json);
    } else if (text_equals(key, TEXT("stream_options"))) {
        read_stream_options(json, ask);
    } else if (text_equals(key, TEXT("max_completion_tokens")) ||
               text_equals(key, TEXT("max_output_tokens"))) {
        read_limit(json, ask, true);
    } else if (text_equals(key, TEXT("max_tokens"))) {
        read_limit(json, ask, false);
    } else if (text_equals(key, TEXT("n"))) {
        long value = json_integer(json);
        ask->samples = value < 1 ? 1 : value > 1024 ? 1024 : (unsigned)value;
    } else if (text_equals(key, TEXT("encoding_format"))) {
        ask->base64 = text_equals(read_string(json), TEXT("base64"));
    } else if (text_equals(key, TEXT("dimensions"))) {
        ask->dimensions = json_integer(json);
    } else if (text_equals(key, TEXT("top_n"))) {
        ask->top_n = json_integer(json);
    } else if (text_equals(key, TEXT("logprobs"))) {
        read_logprobs(json, ask);
    } else if (text_equals(key, TEXT("top_logprobs"))) {
        ask->top_logprobs = json_integer(json);
    } else if (text_equals(key, TEXT("tools"))) {
        ask->tools = json_value(json);
    } else if (text_equals(key, TEXT("tool_choice"))) {
        ask->tool_choice = json_value(json);
    } else if (text_equals(key, TEXT("response_format")) ||
               text_equals(key, TEXT("output_format"))) {
        ask->format = json_value(json);
    } else if (text_equals(key, TEXT("text")) || text_equals(key, TEXT("output_config"))) {
        read_format(json, ask);
    } else if (text_equals(key, TEXT("cache_salt"))) {
        ask->salt = read_string(json);
    } else {
        return false;
    }
    return true;
}

/* Everything that pooling endpoints compare. */
static bool read_texts(struct json *json, struct text key, struct ask *ask)
{
    if (text_equals(key, TEXT("query")) || text_equals(key, TEXT("queries")) ||
        text_equals(key, TEXT("text_1")))
        ask->query = json_value(json);
    else if (text_equals(key, TEXT("documents")) || text_equals(key, TEXT("items")) ||
             text_equals(key, TEXT("text_2")))
        ask->documents = json_value(json);
    else if (text_equals(key, TEXT("tokens")))
        ask->tokens = json_value(json);
    else
        return false;
    ask->has_prompt = true;
    return true;
}

static void read_member(struct json *json, struct text key, struct ask *ask)
{
    const char *begin = json->at;

    if (text_equals(key, TEXT("model"))) {
        ask->model = read_string(json);
    } else if (text_equals(key, TEXT("messages"))) {
        read_messages(json, ask);
        ask->messages = (struct text){begin, (size_t)(json->at - begin)};
    } else if (text_equals(key, TEXT("prompt")) || text_equals(key, TEXT("content"))) {
        read_prompt(json, ask);
        ask->prompt = (struct text){begin, (size_t)(json->at - begin)};
    } else if (text_equals(key, TEXT("input"))) {
        read_prompt(json, ask);
        ask->input = (struct text){begin, (size_t)(json->at - begin)};
    } else if (text_equals(key, TEXT("system")) || text_equals(key, TEXT("instructions"))) {
        read_system(json, ask);
    } else if (!read_setting(json, key, ask) && !read_texts(json, key, ask)) {
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

static struct text boundary_of(struct text content_type)
{
    static const char name[] = "boundary=";
    const char *end = content_type.at + content_type.bytes;
    const char *begin = content_type.bytes == 0
                            ? NULL
                            : memmem(content_type.at, content_type.bytes, name, sizeof name - 1);

    if (begin == NULL)
        return TEXT("");
    begin += sizeof name - 1;
    if (begin < end && *begin == '"') {
        begin++;
        const char *quote = memchr(begin, '"', (size_t)(end - begin));
        return (struct text){begin, quote == NULL ? 0 : (size_t)(quote - begin)};
    }
    const char *mark = memchr(begin, ';', (size_t)(end - begin));
    return (struct text){begin, (size_t)((mark == NULL ? end : mark) - begin)};
}

/* One part of a form: `name="..."` in its head, and its value. */
static void read_field(struct text head, struct text value, struct ask *ask)
{
    static const char mark[] = " name=\"";
    const char *begin = memmem(head.at, head.bytes, mark, sizeof mark - 1);

    if (begin == NULL)
        return;
    begin += sizeof mark - 1;
    const char *end = memchr(begin, '"', (size_t)(head.at + head.bytes - begin));
    if (end == NULL)
        return;
    struct text name = {begin, (size_t)(end - begin)};
    if (text_equals(name, TEXT("file"))) {
        ask->file_bytes = value.bytes;
        ask->has_prompt = true;
    } else if (text_equals(name, TEXT("model"))) {
        ask->model = value;
    } else if (text_equals(name, TEXT("stream"))) {
        ask->stream = value.bytes == 4 && strncasecmp(value.at, "true", 4) == 0;
    } else if (text_equals(name, TEXT("response_format"))) {
        ask->plain_text = text_equals(value, TEXT("text"));
        ask->verbose = text_equals(value, TEXT("verbose_json"));
    } else if (text_equals(name, TEXT("stream_include_usage"))) {
        ask->include_usage = value.bytes == 4 && strncasecmp(value.at, "true", 4) == 0;
    }
}

bool ask_read_form(struct text content_type, struct text body, struct ask *out_ask)
{
    struct text boundary = boundary_of(content_type);
    struct ask ask = {.samples = 1, .prompts = 1};
    char line[80]; /* a boundary has at most 70 bytes (RFC 2046 section 5.1.1) */
    const char *end = body.at + body.bytes;

    if (boundary.bytes == 0 || boundary.bytes > 70)
        return false;
    memcpy(line, "\r\n--", 4);
    memcpy(line + 4, boundary.at, boundary.bytes);
    size_t line_bytes = boundary.bytes + 4;
    if (body.bytes < line_bytes || memcmp(body.at, line + 2, line_bytes - 2) != 0)
        return false;
    const char *at = body.at + line_bytes - 2;
    while (end - at >= 2 && memcmp(at, "\r\n", 2) == 0) {
        const char *blank = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
        if (blank == NULL)
            return false;
        const char *value = blank + 4;
        const char *next = memmem(value, (size_t)(end - value), line, line_bytes);
        if (next == NULL)
            return false;
        read_field((struct text){at, (size_t)(blank - at)},
                   (struct text){value, (size_t)(next - value)}, &ask);
        at = next + line_bytes;
    }
    *out_ask = ask;
    return end - at >= 2 && memcmp(at, "--", 2) == 0;
}

uint64_t ask_tokens_of(struct text value)
{
    struct json json = {value.at, value.at + value.bytes, 0, false};
    struct found found;
    uint64_t tokens = 0;
    bool first = true;

    if (value.bytes == 0)
        return 0;
    if (json_peek(&json) == '"')
        return tokens_of(json_string(&json).bytes);
    if (json_peek(&json) != '[')
        return 0;
    json_enter(&json, '[');
    while (json_element(&json, &first)) {
        found = (struct found){0};
        if (json_peek(&json) == '"')
            found.bytes = json_string(&json).bytes;
        else
            read_part(&json, &found);
        tokens += tokens_of(found.bytes);
    }
    return tokens;
}

void ask_inputs_begin(struct ask_inputs *inputs, struct text value)
{
    *inputs = (struct ask_inputs){
        {value.at, value.at + value.bytes, 0, false}, false, value.bytes == 0, true};
    if (json_peek(&inputs->json) == '[') {
        struct json ahead = inputs->json;
        bool first = true;
        json_enter(&ahead, '[');
        if (json_element(&ahead, &first) && strchr("\"[{", json_peek(&ahead)) != NULL) {
            inputs->list = true;
            json_enter(&inputs->json, '[');
        }
    }
}

bool ask_inputs_next(struct ask_inputs *inputs, struct text *out_value, uint64_t *out_hash)
{
    if (inputs->done)
        return false;
    if (!inputs->list)
        inputs->done = true;
    else if (!json_element(&inputs->json, &inputs->first))
        return false;
    *out_value = json_value(&inputs->json);
    if (out_hash != NULL) {
        uint64_t hash = 14695981039346656037u; /* FNV-1a, 64 bits */
        for (size_t i = 0; i < out_value->bytes; i++)
            hash = (hash ^ (uint64_t)(unsigned char)out_value->at[i]) * 1099511628211u;
        *out_hash = hash;
    }
    return !inputs->json.broken;
}
