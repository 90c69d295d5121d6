/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/tokens.c: tokenize, detokenize, count_tokens.
 *
 * For:       whole answers; what was tokenized comes back whole from detokenize.
 * Called by: service.c, pace.c.
 * Knows not: sockets, streams.
 *
 * The id of a token is its four bytes of JSON text as a little-endian number. Ids that make no text
 * come back as words. Sources: vLLM entrypoints/serve/tokenize, SGLang openai/protocol.py
 * TokenizeResponse, llama.cpp tools/server/README.md. */
#include "tests/fake/tokens.h"

#include "tests/fake/kind.h"

static struct buffer text; /* of the prompt, or made of ids */

/* Gathers what counts as prompt text. */
static void gather(struct text value)
{
    struct json json = {value.at, value.at + value.bytes, 0, false};
    struct text key;
    bool first = true;

    if (value.bytes == 0)
        return;
    if (json_peek(&json) == '"') {
        buffer_add_text(&text, json_string(&json));
    } else if (json_peek(&json) == '[') {
        json_enter(&json, '[');
        while (json_element(&json, &first))
            gather(json_value(&json));
    } else if (json_peek(&json) == '{') {
        json_enter(&json, '{');
        while (json_member(&json, &first, &key)) {
            struct text member = json_value(&json);
            if (text_equals(key, TEXT("content")) || text_equals(key, TEXT("text")))
                gather(member);
        }
    }
}

struct text tokens_gather(struct text value)
{
    text.count = 0;
    gather(value);
    return (struct text){text.bytes, text.count};
}

static uint64_t add_ids(struct buffer *out)
{
    uint64_t count = 0;

    buffer_add_literal(out, "[");
    for (size_t i = 0; i < text.count; i += 4, count++) {
        uint32_t id = 0;
        for (size_t j = 0; j < 4 && i + j < text.count; j++)
            id |= (uint32_t)(unsigned char)text.bytes[i + j] << (8 * j);
        if (count > 0)
            buffer_add_literal(out, ",");
        buffer_add_number(out, id);
    }
    buffer_add_literal(out, "]");
    return count;
}

static void add_tokenized(struct buffer *out, const struct ask *ask)
{
    tokens_gather(ask->prompt.bytes > 0 ? ask->prompt : ask->messages);
    buffer_add_literal(out, "{\"tokens\":");
    uint64_t count = add_ids(out);
    if (dialect.kind != KIND_LLAMACPP) {
        buffer_add_literal(out, ",\"count\":");
        buffer_add_number(out, count);
        buffer_add_literal(out, ",\"max_model_len\":131072");
    }
    if (dialect.kind == KIND_VLLM)
        buffer_add_literal(out, ",\"token_strs\":null");
    buffer_add_literal(out, "}");
}

/* Whether the bytes may stand within a JSON string: whole characters, no bare quote or control. */
static bool fit_for_string(void)
{
    size_t i = 0;

    while (i < text.count) {
        unsigned char byte = (unsigned char)text.bytes[i];
        size_t more = byte < 0x80 ? 0 : byte < 0xc2 ? 9 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
        if (byte < ' ' || byte == '"' || byte > 0xf4 || i + more >= text.count)
            return false;
        if (byte == '\\')
            more =
                1; /* tokens were cut from text that was fit, so the rest of the escape follows */
        for (size_t j = 1; j <= more && byte != '\\'; j++)
            if (((unsigned char)text.bytes[i + j] & 0xc0) != 0x80)
                return false;
        i += 1 + more;
    }
    return true;
}

static void read_ids(struct text value, bool as_words)
{
    struct json json = {value.at, value.at + value.bytes, 0, false};
    bool first = true;

    text.count = 0;
    if (value.bytes == 0 || json_peek(&json) != '[' || !json_enter(&json, '['))
        return;
    while (json_element(&json, &first)) {
        uint64_t id = (uint64_t)json_integer(&json);
        if (as_words) {
            buffer_add_literal(&text, "w");
            buffer_add_number(&text, id);
            buffer_add_literal(&text, " ");
            continue;
        }
        for (uint64_t rest = id & UINT32_MAX; rest > 0; rest >>= 8) {
            char byte = (char)(rest & 255);
            buffer_add(&text, &byte, 1);
        }
    }
}

static void add_detokenized(struct buffer *out, const struct ask *ask)
{
    read_ids(ask->tokens, false);
    if (!fit_for_string())
        read_ids(ask->tokens, true);
    buffer_add_string(out, dialect.kind == KIND_SGLANG     ? "{\"text\":\""
                           : dialect.kind == KIND_LLAMACPP ? "{\"content\":\""
                                                           : "{\"prompt\":\"");
    buffer_add(out, text.bytes, text.count);
    buffer_add_literal(out, "\"}");
}

void tokens_add_body(struct buffer *out, const struct work *work, const struct ask *ask)
{
    if (work->endpoint == ENDPOINT_TOKENIZE) {
        add_tokenized(out, ask);
    } else if (work->endpoint == ENDPOINT_DETOKENIZE) {
        add_detokenized(out, ask);
    } else {
        buffer_add_literal(out, "{\"input_tokens\":");
        buffer_add_number(out, work->prompt_tokens);
        buffer_add_literal(out, "}");
    }
}
