/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/content.c: what the model says.
 *
 * For:       decides between words, a JSON object and a tool call, and writes any stretch of it.
 * Called by: service.c and the files that write answers.
 * Knows not: the shape of answers around it. */
#include "tests/fake/content.h"

#include <stdio.h>

#include "tests/fake/schema.h"

enum { WORDS = 16384, SCRIPT_TOKEN_BYTES = 4 };

static struct buffer words; /* "w0 w1 w2 ..." */
static uint32_t word_begins[WORDS + 1];

void content_prepare(void)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        word_begins[i] = (uint32_t)words.count;
        buffer_add_literal(&words, "w");
        buffer_add_number(&words, i);
        buffer_add_literal(&words, " ");
    }
    word_begins[WORDS] = (uint32_t)words.count;
}

static void add_words(struct buffer *out, char letter, uint64_t from, uint64_t to)
{
    if (to <= WORDS && letter == 'w') {
        buffer_add(out, words.bytes + word_begins[from], word_begins[to] - word_begins[from]);
        return;
    }
    for (uint64_t i = from; i < to; i++) {
        buffer_add(out, &letter, 1);
        buffer_add_number(out, i);
        buffer_add_literal(out, " ");
    }
}

/* Where a token of the script begins: never within a character. */
static size_t script_place(const struct work *work, uint64_t token)
{
    size_t place = (size_t)token * SCRIPT_TOKEN_BYTES;

    if (place >= work->script.count)
        return work->script.count;
    while (place > 0 && ((unsigned char)work->script.bytes[place] & 0xc0) == 0x80)
        place--;
    return place;
}

static void add_script(struct buffer *out, const struct work *work, uint64_t from, uint64_t to)
{
    size_t end = script_place(work, to);

    for (size_t i = script_place(work, from); i < end; i++) {
        char byte = work->script.bytes[i];
        if (byte == '"' || byte == '\\')
            buffer_add_literal(out, "\\");
        buffer_add(out, (unsigned char)byte < ' ' ? " " : &byte, 1);
    }
}

void content_add(struct buffer *out, const struct work *work, uint64_t from, uint64_t to)
{
    if (from < work->reasoning)
        add_words(out, 'r', from, to);
    else if (work->content == CONTENT_WORDS)
        add_words(out, 'w', from - work->reasoning, to - work->reasoning);
    else
        add_script(out, work, from - work->reasoning, to - work->reasoning);
}

void content_add_reasoning(struct buffer *out, const struct work *work)
{
    if (work->reasoning > 0)
        content_add(out, work, 0, work->reasoning);
}

void content_add_rest(struct buffer *out, const struct work *work)
{
    if (work->tokens > work->reasoning)
        content_add(out, work, work->reasoning, work->tokens);
}

unsigned content_items(const struct work *work)
{
    return work->reasoning > 0 && work->tokens > work->reasoning ? 2 : 1;
}

uint64_t content_next(const struct work *work)
{
    uint64_t end = work_thinks(work) ? work->reasoning : work->tokens;
    uint64_t to = work->position.done + (uint64_t)work->directive.per_event;

    return to < end ? to : end;
}

struct text content_finish_reason(const struct work *work)
{
    if (work->by_length)
        return TEXT("length");
    return work->content == CONTENT_CALL ? TEXT("tool_calls") : TEXT("stop");
}

/* The members of a tool: below `function` in a chat, at its top elsewhere. */
static struct text tool_members(struct text tool)
{
    struct text members;

    return json_find(tool, TEXT("function"), &members) ? members : tool;
}

/* The tool of this name, or the first that has one; empty: none. */
static struct text find_tool(struct text tools, struct text name)
{
    struct json json = {tools.at, tools.at + tools.bytes, 0, false};
    bool first = true;
    struct text found;

    if (tools.bytes == 0 || json_peek(&json) != '[')
        return TEXT("");
    json_enter(&json, '[');
    while (json_element(&json, &first)) {
        struct text members = tool_members(json_value(&json));
        if (json_find(members, TEXT("name"), &found) &&
            (name.bytes == 0 || text_equals(json_unquote(found), name)))
            return members;
    }
    return TEXT("");
}

/* Whether the choice demands a call; out_name: of which tool, empty when of any. */
static bool call_demanded(struct text choice, struct text *out_name)
{
    struct text kind;
    struct text name;

    *out_name = TEXT("");
    if (choice.bytes == 0)
        return false;
    if (choice.at[0] == '"')
        return text_equals(json_unquote(choice), TEXT("required"));
    if (json_find(tool_members(choice), TEXT("name"), &name)) {
        *out_name = json_unquote(name);
        return true;
    }
    return json_find(choice, TEXT("type"), &kind) &&
           text_equals(json_unquote(kind), TEXT("any")); /* Anthropic's word for required */
}

/* The body or the test wants a tool call: its name and arguments. */
static bool choose_call(struct work *work, const struct ask *ask)
{
    struct text name = {work->directive.tool, strlen(work->directive.tool)};
    struct text schema = TEXT("{\"type\":\"object\"}");
    struct text found;

    if (name.bytes == 0 && (ask->tools.bytes == 0 || !call_demanded(ask->tool_choice, &name)))
        return false;
    struct text tool = find_tool(ask->tools, name);
    if (tool.bytes > 0 && json_find(tool, TEXT("name"), &found))
        name = json_unquote(found);
    if (tool.bytes > 0 && !json_find(tool, TEXT("parameters"), &schema))
        json_find(tool, TEXT("input_schema"), &schema);
    if (name.bytes == 0)
        return false;
    if (name.bytes >= sizeof work->tool)
        name.bytes = sizeof work->tool - 1;
    memcpy(work->tool, name.at, name.bytes);
    work->tool[name.bytes] = '\0';
    work->content = CONTENT_CALL;
    schema_add_value(&work->script, schema);
    return true;
}

static void choose_json(struct work *work, const struct ask *ask)
{
    struct text kind;
    struct text schema;
    struct text wrapper = ask->format;

    if (!json_find(ask->format, TEXT("type"), &kind))
        return;
    kind = json_unquote(kind);
    if (text_equals(kind, TEXT("json_object"))) {
        work->content = CONTENT_JSON;
        buffer_add_literal(&work->script, "{\"answer\":\"w0 w1 w2\"}");
    } else if (text_equals(kind, TEXT("json_schema"))) {
        json_find(ask->format, TEXT("json_schema"), &wrapper);
        if (!json_find(wrapper, TEXT("schema"), &schema))
            schema = TEXT("{\"type\":\"object\"}");
        work->content = CONTENT_JSON;
        schema_add_value(&work->script, schema);
    }
}

void content_choose(struct work *work, const struct ask *ask)
{
    bool sixteen = work->endpoint == ENDPOINT_COMPLETIONS;
    uint64_t most = ask->output_tokens > 0 ? (uint64_t)ask->output_tokens : sixteen ? 16 : 0;
    uint64_t length = sixteen ? 16 : 8; /* the model's own natural length */

    work->script.count = 0;
    if (!sixteen && !choose_call(work, ask) && ask->format.bytes > 0)
        choose_json(work, ask);
    if (work->content != CONTENT_WORDS)
        length = (work->script.count + SCRIPT_TOKEN_BYTES - 1) / SCRIPT_TOKEN_BYTES;
    else if (work->directive.tokens >= 0)
        length = (uint64_t)work->directive.tokens;
    work->reasoning = work->directive.reasoning > 0 ? (uint64_t)work->directive.reasoning : 0;
    work->tokens = work->reasoning + length;
    if (most > 0 && most < work->tokens)
        work->tokens = most;
    if (work->reasoning > work->tokens)
        work->reasoning = work->tokens;
    work->by_length = most > 0 && work->tokens == most &&
                      (work->content == CONTENT_WORDS || most < work->reasoning + length);
}
