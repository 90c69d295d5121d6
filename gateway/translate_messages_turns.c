/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_messages_turns.c: the conversation of /v1/messages as that of a chat.
 *
 * For:       system, user and assistant turns with their content blocks.
 * Called by: translate_messages_ask.c.
 * Knows not: the members around it.
 *
 * What becomes of a block (sources: translate_messages.h):
 *   text               text: alone a string, among others a part
 *   image              part image_url: base64 as a data: URL, url as it is (vLLM, llama.cpp)
 *   document           of type text: a text; its title and context are texts before it. Others are
 *                      refused: a chat has no place for them that servers share
 *   tool_use           tool_calls, its input's bytes as the string `arguments`
 *   tool_result        a message of role tool. All of a turn come first, for Anthropic wants them
 *                      first in the content (Tool calls, formatting rules), and a chat right behind
 *                      their calls. Images in them stand in the user message that follows, as vLLM
 *                      has it: a message of role tool holds text only (Chat). is_error has no place
 *                      in a chat: the text begins with "Error: " instead
 *   thinking           reasoning_content, which servers that send it take back (llama.cpp), if its
 *                      signature is empty: then it came from a chat. One that is signed was made by
 *                      a model behind another API: it is dropped, as Anthropic drops without an
 *                      error what the model cannot read (its guide "Preserved thinking", switching
 *                      models)
 *   redacted_thinking  dropped: sealed for the server that made it (vLLM)
 *   all others         refused */
#include "gateway/translate_messages.h"

#include <assert.h>

/* ---- blocks ---- */

enum block_kind {
    BLOCK_TEXT,
    BLOCK_IMAGE,
    BLOCK_DOCUMENT,
    BLOCK_TOOL_USE,
    BLOCK_TOOL_RESULT,
    BLOCK_THINKING,
    BLOCK_REDACTED_THINKING,
    BLOCK_KINDS
};

enum block_member {
    IN_TYPE,
    IN_CACHE_CONTROL, /* a hint, see drop_hint() */
    IN_TEXT,
    IN_CITATIONS,
    IN_SOURCE,
    IN_TITLE,
    IN_CONTEXT,
    IN_ID,
    IN_NAME,
    IN_INPUT,
    IN_CALLER,
    IN_TOOL_USE_ID,
    IN_CONTENT,
    IN_IS_ERROR,
    IN_THINKING,
    IN_SIGNATURE,
    IN_DATA,
    BLOCK_MEMBERS
};

#define BIT(member) (1u << (member))

/* Who may say it, and what it may hold besides type and cache_control. */
#define USER 1u
#define ASSISTANT 2u
#define SYSTEM 4u
#define RESULT 8u /* inside of a tool_result */

struct block_row {
    struct span name;
    uint32_t places;
    uint32_t members;
};

struct block {
    enum block_kind kind;
    struct span at;
    struct member members[BLOCK_MEMBERS];
};

/* clang-format off */
static const struct block_row block_rows[BLOCK_KINDS] = {
    [BLOCK_TEXT] =              {SPAN("text"),              USER | ASSISTANT | SYSTEM | RESULT, BIT(IN_TEXT) | BIT(IN_CITATIONS)},
    [BLOCK_IMAGE] =             {SPAN("image"),             USER | RESULT, BIT(IN_SOURCE)},
    [BLOCK_DOCUMENT] =          {SPAN("document"),          USER | RESULT, BIT(IN_SOURCE) | BIT(IN_TITLE) | BIT(IN_CONTEXT) | BIT(IN_CITATIONS)},
    [BLOCK_TOOL_USE] =          {SPAN("tool_use"),          ASSISTANT,     BIT(IN_ID) | BIT(IN_NAME) | BIT(IN_INPUT) | BIT(IN_CALLER)},
    [BLOCK_TOOL_RESULT] =       {SPAN("tool_result"),       USER,          BIT(IN_TOOL_USE_ID) | BIT(IN_CONTENT) | BIT(IN_IS_ERROR)},
    [BLOCK_THINKING] =          {SPAN("thinking"),          ASSISTANT,     BIT(IN_THINKING) | BIT(IN_SIGNATURE)},
    [BLOCK_REDACTED_THINKING] = {SPAN("redacted_thinking"), ASSISTANT,     BIT(IN_DATA)},
};

static const struct span member_names[BLOCK_MEMBERS] = {
    SPAN("type"), SPAN("cache_control"), SPAN("text"), SPAN("citations"), SPAN("source"),
    SPAN("title"), SPAN("context"), SPAN("id"), SPAN("name"), SPAN("input"), SPAN("caller"),
    SPAN("tool_use_id"), SPAN("content"), SPAN("is_error"), SPAN("thinking"), SPAN("signature"),
    SPAN("data"),
};
/* clang-format on */

static bool refuse(struct asking *asking, struct span at, const char *message)
{
    return messages_refuse(asking, at, message, asking->param);
}

/* Citations that are asked for would have to be made by the server; those of an earlier answer have
 * no place in a chat. An empty list, and enabled: false, are none. */
static bool has_citations(struct span citations)
{
    struct member members[] = {{.name = SPAN("enabled")}};
    struct value_walk walk;
    struct span element;
    value_walk_list(&walk, citations);
    value_find_these(citations, members);
    return value_next_element(&walk, &element) || value_is(members[0].value, 't');
}

/* What is called by other code than the model's own turn is nothing that a chat knows. */
static bool is_called_directly(struct span caller)
{
    struct member members[] = {{.name = SPAN("type")}};
    value_find_these(caller, members);
    return caller.data == NULL || value_says(members[0].value, SPAN("direct"));
}

/* Reads a block of a content that stands in one of the places. */
static bool read_block(struct asking *asking, struct span value, uint32_t places,
                       struct block *block)
{
    uint32_t unfit = 0;
    for (size_t i = 0; i < BLOCK_MEMBERS; i++)
        block->members[i].name = member_names[i];
    block->at = value;
    const struct span odd = value_find(value, block->members, BLOCK_MEMBERS);
    const struct span type = block->members[IN_TYPE].value;
    unsigned kind = 0;
    while (kind < BLOCK_KINDS && !value_says(type, block_rows[kind].name))
        kind++;
    if (kind == BLOCK_KINDS || !(block_rows[kind].places & places))
        return refuse(asking, type.data != NULL ? type : value,
                      "the servers of this model do not take a block of this type here");
    for (unsigned i = IN_TEXT; i < BLOCK_MEMBERS; i++)
        if (block->members[i].value.data != NULL && !(block_rows[kind].members & BIT(i)))
            unfit |= BIT(i);
    if (odd.data != NULL || unfit)
        return refuse(asking, odd.data != NULL ? odd : value,
                      "a block has a member that is not known for its type, or stands twice");
    if (has_citations(block->members[IN_CITATIONS].value))
        return refuse(asking, block->members[IN_CITATIONS].value,
                      "the servers of this model know no citations");
    if (!is_called_directly(block->members[IN_CALLER].value))
        return refuse(asking, block->members[IN_CALLER].value,
                      "the servers of this model run no code that calls tools");
    block->kind = (enum block_kind)kind;
    return true;
}

/* ---- the parts of one content ---- */

/* A content is walked twice: to count its parts, then to write them. */
struct parts {
    struct asking *asking;
    bool writing;
    bool list;  /* written as a list of parts, not as one string */
    bool error; /* of a tool result that is an error */
    bool media; /* one of them is no text */
    size_t count;
};

/* Walks some content, adding its parts. */
typedef bool walk_parts(struct parts *parts, struct span content);

static void begin_part(struct parts *parts)
{
    if (parts->writing && parts->count > 0)
        writer_literal(parts->asking->out, ",");
    parts->count++;
}

static bool add_text(struct parts *parts, struct span text)
{
    struct writer *out = parts->asking->out;
    if (!value_is(text, '"'))
        return refuse(parts->asking, text, "a text must be a string");
    begin_part(parts);
    if (!parts->writing)
        return true;
    if (parts->list)
        writer_literal(out, "{\"type\":\"text\",\"text\":");
    if (parts->error && parts->count == 1) {
        writer_literal(out, "\"Error: ");
        writer_put(out, span_from(text, 1));
    } else {
        writer_put(out, text);
    }
    if (parts->list)
        writer_literal(out, "}");
    return true;
}

enum source_member { SOURCE_TYPE, SOURCE_MEDIA_TYPE, SOURCE_DATA, SOURCE_URL, SOURCE_MEMBERS };

static bool read_source(struct asking *asking, const struct block *block,
                        struct member members[SOURCE_MEMBERS])
{
    static const struct span names[SOURCE_MEMBERS] = {SPAN("type"), SPAN("media_type"),
                                                      SPAN("data"), SPAN("url")};
    const struct span source = block->members[IN_SOURCE].value;
    for (size_t i = 0; i < SOURCE_MEMBERS; i++)
        members[i].name = names[i];
    const struct span odd = value_find(source, members, SOURCE_MEMBERS);
    if (!value_is(source, '{') || odd.data != NULL)
        return refuse(asking, odd.data != NULL ? odd : block->at,
                      "a block needs a source of a type that the servers of this model take");
    return true;
}

static bool add_image(struct parts *parts, const struct block *block)
{
    struct writer *out = parts->asking->out;
    struct member source[SOURCE_MEMBERS];
    if (!read_source(parts->asking, block, source))
        return false;
    const bool inlined = value_says(source[SOURCE_TYPE].value, SPAN("base64")) &&
                         value_has_text(source[SOURCE_MEDIA_TYPE].value) &&
                         value_is(source[SOURCE_DATA].value, '"');
    if (!inlined && !(value_says(source[SOURCE_TYPE].value, SPAN("url")) &&
                      value_is(source[SOURCE_URL].value, '"')))
        return refuse(parts->asking, block->members[IN_SOURCE].value,
                      "an image must be given as base64 with its media_type and data, or by url");
    begin_part(parts);
    parts->media = true;
    if (!parts->writing)
        return true;
    writer_literal(out, "{\"type\":\"image_url\",\"image_url\":{\"url\":");
    if (inlined) {
        writer_literal(out, "\"data:");
        writer_put(out, value_inside(source[SOURCE_MEDIA_TYPE].value));
        writer_literal(out, ";base64,");
        writer_put(out, span_from(source[SOURCE_DATA].value, 1));
    } else {
        writer_put(out, source[SOURCE_URL].value);
    }
    writer_literal(out, "}}");
    return true;
}

static bool add_document(struct parts *parts, const struct block *block)
{
    struct member source[SOURCE_MEMBERS];
    if (!read_source(parts->asking, block, source))
        return false;
    if (!value_says(source[SOURCE_TYPE].value, SPAN("text")) ||
        !value_is(source[SOURCE_DATA].value, '"'))
        return refuse(parts->asking, block->members[IN_SOURCE].value,
                      "the servers of this model take documents as plain text only");
    for (unsigned i = IN_TITLE; i <= IN_CONTEXT; i++)
        if (block->members[i].value.data != NULL && !add_text(parts, block->members[i].value))
            return false;
    return add_text(parts, source[SOURCE_DATA].value);
}

/* Adds a block that is a part of its own; others are written elsewhere. */
static bool add_block(struct parts *parts, const struct block *block)
{
    if (block->kind == BLOCK_TEXT)
        return add_text(parts, block->members[IN_TEXT].value.data != NULL
                                   ? block->members[IN_TEXT].value
                                   : block->at);
    if (block->kind == BLOCK_IMAGE)
        return add_image(parts, block);
    return block->kind != BLOCK_DOCUMENT || add_document(parts, block);
}

/* Writes content as a string if it is one text, as a list of parts, or as `nothing`. */
static bool write_parts(struct asking *asking, walk_parts *walk, struct span content, bool error,
                        struct span nothing)
{
    struct parts parts = {.asking = asking, .error = error};
    if (!walk(&parts, content))
        return false;
    if (parts.count == 0) {
        writer_put(asking->out, nothing);
        return true;
    }
    parts.list = parts.count > 1 || parts.media;
    parts.writing = true;
    parts.count = 0;
    if (parts.list)
        writer_literal(asking->out, "[");
    if (!walk(&parts, content))
        return false;
    if (parts.list)
        writer_literal(asking->out, "]");
    return true;
}

static void begin_message(struct asking *asking, struct span role)
{
    if (asking->wrote)
        writer_literal(asking->out, ",");
    asking->wrote = true;
    writer_literal(asking->out, "{\"role\":\"");
    writer_put(asking->out, role);
    writer_literal(asking->out, "\"");
}

/* ---- tool results ---- */

/* Texts of a result's content, or its images. */
static bool walk_result(struct parts *parts, struct span content, bool images)
{
    struct value_walk walk;
    struct span value;
    struct block block;
    if (value_is(content, '"'))
        return images || add_text(parts, content);
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value)) {
        if (!read_block(parts->asking, value, RESULT, &block))
            return false;
        if ((block.kind == BLOCK_IMAGE) == images && !add_block(parts, &block))
            return false;
    }
    return true;
}

static bool walk_result_texts(struct parts *parts, struct span content)
{
    return walk_result(parts, content, false);
}

static bool write_result(struct asking *asking, const struct block *block)
{
    const struct span id = block->members[IN_TOOL_USE_ID].value;
    const struct span content = block->members[IN_CONTENT].value;
    const bool error = value_is(block->members[IN_IS_ERROR].value, 't');
    if (!value_is(id, '"'))
        return refuse(asking, block->at, "a tool_result needs the tool_use_id of its call");
    if (content.data != NULL && !value_is(content, '"') && !value_is(content, '['))
        return refuse(asking, content, "content must be a string or a list of blocks");
    begin_message(asking, SPAN("tool"));
    writer_literal(asking->out, ",\"tool_call_id\":");
    writer_put(asking->out, id);
    writer_literal(asking->out, ",\"content\":");
    if (!write_parts(asking, walk_result_texts, content, error,
                     error ? SPAN("\"Error\"") : SPAN("\"\"")))
        return false;
    writer_literal(asking->out, "}");
    return true;
}

/* ---- turns ---- */

/* Images of tool results, then all other parts of a user's turn. */
static bool walk_user(struct parts *parts, struct span content)
{
    struct value_walk walk;
    struct span value;
    struct block block;
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value))
        if (!read_block(parts->asking, value, USER, &block) ||
            !walk_result(parts, block.members[IN_CONTENT].value, true))
            return false;
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value))
        if (!read_block(parts->asking, value, USER, &block) || !add_block(parts, &block))
            return false;
    return true;
}

static bool write_user(struct asking *asking, struct span content)
{
    struct parts counted = {.asking = asking};
    struct value_walk walk;
    struct span value;
    struct block block;
    bool results = false;
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value)) {
        if (!read_block(asking, value, USER, &block))
            return false;
        if (block.kind != BLOCK_TOOL_RESULT)
            continue;
        results = true;
        if (!write_result(asking, &block))
            return false;
    }
    if (!walk_user(&counted, content))
        return false;
    if (counted.count == 0 && results)
        return true;
    begin_message(asking, SPAN("user"));
    writer_literal(asking->out, ",\"content\":");
    if (!write_parts(asking, walk_user, content, false, SPAN("\"\"")))
        return false;
    writer_literal(asking->out, "}");
    return true;
}

/* Texts of an assistant's turn or of a system prompt. */
static bool walk_assistant(struct parts *parts, struct span content)
{
    struct value_walk walk;
    struct span value;
    struct block block;
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value))
        if (!read_block(parts->asking, value, ASSISTANT, &block) || !add_block(parts, &block))
            return false;
    return true;
}

static bool walk_system(struct parts *parts, struct span content)
{
    struct value_walk walk;
    struct span value;
    struct block block;
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value))
        if (!read_block(parts->asking, value, SYSTEM, &block) || !add_block(parts, &block))
            return false;
    return true;
}

static bool write_call(struct asking *asking, const struct block *block)
{
    const struct span id = block->members[IN_ID].value;
    const struct span name = block->members[IN_NAME].value;
    const struct span input = block->members[IN_INPUT].value;
    if (!value_is(id, '"') || !value_is(name, '"') || !value_is(input, '{'))
        return refuse(asking, block->at, "a tool_use needs an id, a name and an input");
    writer_literal(asking->out, "{\"id\":");
    writer_put(asking->out, id);
    writer_literal(asking->out, ",\"type\":\"function\",\"function\":{\"name\":");
    writer_put(asking->out, name);
    writer_literal(asking->out, ",\"arguments\":");
    writer_text(asking->out, input);
    writer_literal(asking->out, "}}");
    return true;
}

/* The thinking that goes back, as the inside of one string, or the tool calls, as that of a list;
 * opening and closing only if there is some. */
static bool write_of_kind(struct asking *asking, struct span content, enum block_kind kind,
                          struct span opening, struct span closing)
{
    struct value_walk walk;
    struct span value;
    struct block block;
    size_t count = 0;
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value)) {
        if (!read_block(asking, value, ASSISTANT, &block))
            return false;
        const bool signature = value_has_text(block.members[IN_SIGNATURE].value);
        if (block.kind != kind || signature)
            continue;
        if (count++ == 0)
            writer_put(asking->out, opening);
        else if (kind == BLOCK_TOOL_USE)
            writer_literal(asking->out, ",");
        if (kind == BLOCK_TOOL_USE) {
            if (!write_call(asking, &block))
                return false;
        } else if (!value_is(block.members[IN_THINKING].value, '"')) {
            return refuse(asking, block.at, "a thinking block needs its thinking");
        } else {
            writer_put(asking->out, value_inside(block.members[IN_THINKING].value));
        }
    }
    if (count > 0)
        writer_put(asking->out, closing);
    return true;
}

/* Is there a tool_use among the blocks? A content of null is then what a chat has. */
static bool calls_tools(struct span content)
{
    struct value_walk walk;
    struct span value;
    struct member type[] = {{.name = SPAN("type")}};
    value_walk_list(&walk, content);
    while (value_next_element(&walk, &value)) {
        value_find_these(value, type);
        if (value_says(type[0].value, block_rows[BLOCK_TOOL_USE].name))
            return true;
    }
    return false;
}

/* A text behind a tool call goes before it: a chat has one content and then the calls. */
static bool write_assistant(struct asking *asking, struct span content)
{
    begin_message(asking, SPAN("assistant"));
    writer_literal(asking->out, ",\"content\":");
    if (!write_parts(asking, walk_assistant, content, false,
                     calls_tools(content) ? SPAN("null") : SPAN("\"\"")) ||
        !write_of_kind(asking, content, BLOCK_THINKING, SPAN(",\"reasoning_content\":\""),
                       SPAN("\"")) ||
        !write_of_kind(asking, content, BLOCK_TOOL_USE, SPAN(",\"tool_calls\":["), SPAN("]")))
        return false;
    writer_literal(asking->out, "}");
    return true;
}

/* One of the system: before the conversation or, as newer clients have it, within (Messages, role
 * system): a chat has it in the same place. */
static bool write_system(struct asking *asking, struct span content)
{
    begin_message(asking, SPAN("system"));
    writer_literal(asking->out, ",\"content\":");
    if (value_is(content, '"'))
        writer_put(asking->out, content);
    else if (!write_parts(asking, walk_system, content, false, SPAN("\"\"")))
        return false;
    writer_literal(asking->out, "}");
    return true;
}

static bool write_plain(struct asking *asking, struct span role, struct span content)
{
    begin_message(asking, role);
    writer_literal(asking->out, ",\"content\":");
    writer_put(asking->out, content);
    writer_literal(asking->out, "}");
    return true;
}

/* *out_assistant: the turn is the assistant's. */
static bool write_turn(struct asking *asking, struct span message, bool *out_assistant)
{
    struct member members[] = {{.name = SPAN("role")}, {.name = SPAN("content")}};
    const struct span odd = value_find_these(message, members);
    const struct span role = members[0].value;
    const struct span content = members[1].value;
    const bool user = value_says(role, SPAN("user"));
    const bool assistant = value_says(role, SPAN("assistant"));
    *out_assistant = assistant;
    if (!value_is(message, '{') || odd.data != NULL)
        return refuse(asking, odd.data != NULL ? odd : message,
                      "a message has a role and a content, each once, and nothing else");
    if (!value_is(content, '"') && !value_is(content, '['))
        return refuse(asking, message, "content must be a string or a list of blocks");
    if (value_says(role, SPAN("system")))
        return write_system(asking, content);
    if (!user && !assistant)
        return refuse(asking, message, "role must be user, assistant or system");
    if (value_is(content, '"'))
        return write_plain(asking, user ? SPAN("user") : SPAN("assistant"), content);
    return user ? write_user(asking, content) : write_assistant(asking, content);
}

/* Is there nothing in this system prompt? Then a chat has none. */
static bool is_empty_system(struct span system)
{
    struct value_walk walk;
    struct span value;
    if (!value_is(system, '['))
        return system.data == NULL || system.size == 2;
    value_walk_list(&walk, system);
    return !value_next_element(&walk, &value);
}

bool messages_write_turns(struct asking *asking, struct span system, struct span messages)
{
    struct value_walk walk;
    struct span message;
    bool assistant = false;
    asking->wrote = false;
    asking->param = "system";
    if (system.data != NULL && !value_is(system, '"') && !value_is(system, '['))
        return refuse(asking, system, "system must be a string or a list of text blocks");
    if (!is_empty_system(system) && !write_system(asking, system))
        return false;
    asking->param = "messages";
    if (messages.data != NULL && !value_is(messages, '['))
        return refuse(asking, messages, "messages must be a list");
    value_walk_list(&walk, messages);
    while (value_next_element(&walk, &message))
        if (!write_turn(asking, message, &assistant))
            return false;
    /* Anthropic's answer goes on where such a message ends (Messages, messages); a chat begins a
     * turn of its own: another answer. */
    return !assistant || refuse(asking, messages,
                                "the servers of this model cannot go on with an assistant's "
                                "message: the last one must be the user's");
}
