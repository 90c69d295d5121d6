/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_messages_answer.c: a whole chat answer as a message.
 *
 * For:       bodies; usage and stop reasons, which streams have alike.
 * Called by: translate.c, by the row of translate_messages.c; translate_messages_stream.c.
 * Knows not: asks, SSE. */
#include "gateway/translate_messages.h"

#include <stdlib.h>

#define ARGUMENTS_DEPTH_MAX 256u

/* ---- usage ---- */

/* A count of tokens; what is no whole number is not known. */
static void take_count(struct span value, int64_t *count)
{
    int64_t number;
    if (value.data != NULL && span_to_int64(value, &number))
        *count = number;
}

/* created_cache_tokens is vLLM's name for what OpenAI calls cache_write_tokens. */
void messages_take_usage(struct ending *ending, struct span usage)
{
    struct member members[] = {{.name = SPAN("prompt_tokens")},
                               {.name = SPAN("completion_tokens")},
                               {.name = SPAN("prompt_tokens_details")}};
    struct member details[] = {{.name = SPAN("cached_tokens")},
                               {.name = SPAN("created_cache_tokens")},
                               {.name = SPAN("cache_write_tokens")}};
    value_find_these(usage, members);
    value_find_these(members[2].value, details);
    take_count(members[0].value, &ending->prompt);
    take_count(members[1].value, &ending->output);
    take_count(details[0].value, &ending->cached);
    take_count(details[1].value, &ending->created);
    take_count(details[2].value, &ending->created);
}

/* A chat's prompt holds all tokens; Messages counts in three classes that add up to it (Messages,
 * usage; vLLM subtracts the same way). */
void messages_write_usage(const struct ending *ending, struct writer *out)
{
    const int64_t prompt = ending->prompt;
    const int64_t cached = ending->cached < prompt ? ending->cached : prompt;
    const int64_t created = ending->created < prompt - cached ? ending->created : prompt - cached;
    writer_literal(out, "\"usage\":{\"input_tokens\":");
    writer_number(out, prompt - cached - created);
    writer_literal(out, ",\"cache_creation_input_tokens\":");
    writer_number(out, created);
    writer_literal(out, ",\"cache_read_input_tokens\":");
    writer_number(out, cached);
    writer_literal(out, ",\"output_tokens\":");
    writer_number(out, ending->output);
    writer_literal(out, "}");
}

/* ---- the end ---- */

/* clang-format off */

/* Sources: Chat, finish_reason; Messages, stop_reason; stop_sequence is TGI's. Reasons that are not
 * known here (abort, repetition) are an end of the turn, for Messages has no word for them. */
static const struct {
    struct span finish, stop;
} reasons[] = {
    {SPAN("stop"),           SPAN("end_turn")},
    {SPAN("length"),         SPAN("max_tokens")},
    {SPAN("tool_calls"),     SPAN("tool_use")},
    {SPAN("function_call"),  SPAN("tool_use")},
    {SPAN("content_filter"), SPAN("refusal")},
    {SPAN("stop_sequence"),  SPAN("stop_sequence")},
};

/* clang-format on */

/* The stop sequence stands in stop_reason (vLLM) or matched_stop (SGLang); a number there is the id
 * of a token. */
bool messages_take_finish(struct ending *ending, struct span choice)
{
    struct member members[] = {{.name = SPAN("finish_reason")},
                               {.name = SPAN("stop_reason")},
                               {.name = SPAN("matched_stop")}};
    value_find_these(choice, members);
    if (!value_is(members[0].value, '"'))
        return true;
    ending->finish = SPAN("stop");
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (value_says(members[0].value, reasons[i].finish))
            ending->finish = reasons[i].finish;
    const struct span stop = value_is(members[1].value, '"') ? members[1].value : members[2].value;
    if (!value_has_text(stop))
        return true;
    buffer_free(&ending->stop);
    return buffer_append(&ending->stop, value_inside(stop));
}

/* Tools that are called make it tool_use, for clients run them by that word, also when the server
 * says stop (Chat does for a tool that the client named); without any it is none. */
void messages_write_stop(const struct ending *ending, struct writer *out)
{
    struct span reason = SPAN("end_turn");
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (span_equal(ending->finish, reasons[i].finish))
            reason = reasons[i].stop;
    if (span_equal(reason, SPAN("tool_use")) && !ending->tools)
        reason = SPAN("end_turn");
    if (span_equal(reason, SPAN("end_turn"))) {
        if (ending->stop.size > 0)
            reason = SPAN("stop_sequence");
        else if (ending->refused)
            reason = SPAN("refusal");
        else if (ending->tools)
            reason = SPAN("tool_use");
    }
    writer_literal(out, "\"stop_reason\":");
    writer_text(out, reason);
    writer_literal(out, ",\"stop_sequence\":");
    if (span_equal(reason, SPAN("stop_sequence")) && ending->stop.size > 0)
        writer_raw(out, (struct span){ending->stop.data, ending->stop.size});
    else
        writer_literal(out, "null");
}

/* ---- the message ---- */

void messages_write_opening(const struct answering *answering, struct writer *out)
{
    writer_literal(out, "{\"id\":\"msg_");
    writer_put(out, answering->exchange_id);
    writer_literal(out, "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    writer_text(out, answering->model);
    writer_literal(out, ",\"content\":[");
}

void messages_write_call_id(const struct answering *answering, struct span raw_id, uint32_t number,
                            struct writer *out)
{
    if (raw_id.size > 0) {
        writer_raw(out, raw_id);
        return;
    }
    writer_literal(out, "\"toolu_");
    writer_put(out, answering->exchange_id);
    writer_literal(out, "_");
    writer_number(out, number);
    writer_literal(out, "\"");
}

/* reasoning_content is the older name (DeepSeek, SGLang, llama.cpp), reasoning the newer (vLLM);
 * some servers send the same text under both. */
struct span messages_thinking(struct span reasoning_content, struct span reasoning)
{
    if (value_has_text(reasoning_content))
        return reasoning_content;
    return value_has_text(reasoning) ? reasoning : (struct span){NULL, 0};
}

/* Blocks of one message: where a comma is due, and tools are numbered. */
struct content {
    struct answering *answering;
    struct writer *out;
    bool wrote;
    uint32_t calls;
};

static void begin_block(struct content *content)
{
    if (content->wrote)
        writer_literal(content->out, ",");
    content->wrote = true;
}

static void write_text(struct content *content, struct span text)
{
    if (!value_has_text(text))
        return;
    begin_block(content);
    writer_literal(content->out, "{\"type\":\"text\",\"text\":");
    writer_put(content->out, text);
    writer_literal(content->out, "}");
}

/* The signature is empty: nobody signed it, but the SDKs' types need one (ThinkingBlock). */
static void write_thinking(struct content *content, struct span thinking)
{
    if (thinking.data == NULL)
        return;
    begin_block(content);
    writer_literal(content->out, "{\"type\":\"thinking\",\"thinking\":");
    writer_put(content->out, content->answering->hide_thinking ? SPAN("\"\"") : thinking);
    writer_literal(content->out, ",\"signature\":\"\"}");
}

/* The arguments are a string with an object's JSON in it (TGI: the object itself). One with
 * something else goes out as {"INVALID_JSON": the string}, for Anthropic's guide "Fine-grained tool
 * streaming" has such inputs wrapped in an object (handling invalid JSON): a tool that is run with
 * {} instead would do what nobody asked for. */
static enum err write_input(struct writer *out, struct span arguments)
{
    if (value_is(arguments, '{')) {
        writer_put(out, arguments);
        return OK;
    }
    if (!value_has_text(arguments)) {
        writer_literal(out, "{}");
        return OK;
    }
    const struct span raw = value_inside(arguments);
    char *text = malloc(raw.size);
    struct span value = {NULL, 0};
    size_t size;
    bool object = false;
    if (text == NULL)
        return ERR_NO_MEMORY;
    if (scan_decode(raw, text, &size)) {
        const bool sound = value_read((struct span){text, size}, ARGUMENTS_DEPTH_MAX, &value);
        object = sound && value_is(value, '{');
    }
    if (object) {
        writer_put(out, value);
    } else {
        writer_literal(out, "{\"INVALID_JSON\":");
        writer_put(out, arguments);
        writer_literal(out, "}");
    }
    free(text);
    return OK;
}

static enum err write_call(struct content *content, struct span call)
{
    struct member members[] = {{.name = SPAN("id")}, {.name = SPAN("function")}};
    struct member function[] = {{.name = SPAN("name")}, {.name = SPAN("arguments")}};
    value_find_these(call, members);
    value_find_these(members[1].value, function);
    begin_block(content);
    writer_literal(content->out, "{\"type\":\"tool_use\",\"id\":");
    messages_write_call_id(content->answering,
                           value_has_text(members[0].value) ? value_inside(members[0].value)
                                                            : (struct span){NULL, 0},
                           content->calls++, content->out);
    writer_literal(content->out, ",\"name\":");
    writer_put(content->out, value_is(function[0].value, '"') ? function[0].value : SPAN("\"\""));
    writer_literal(content->out, ",\"input\":");
    const enum err err = write_input(content->out, function[1].value);
    writer_literal(content->out, "}");
    return err;
}

/* Thinking, text, tools: the order in which a model makes them. */
static enum err write_content(struct content *content, struct span message)
{
    struct member members[] = {{.name = SPAN("content")},
                               {.name = SPAN("refusal")},
                               {.name = SPAN("reasoning_content")},
                               {.name = SPAN("reasoning")},
                               {.name = SPAN("tool_calls")}};
    struct value_walk walk;
    struct span call;
    enum err err = OK;
    value_find_these(message, members);
    write_thinking(content, messages_thinking(members[2].value, members[3].value));
    write_text(content, members[0].value);
    write_text(content, members[1].value);
    content->answering->ending.refused = value_has_text(members[1].value);
    value_walk_list(&walk, members[4].value);
    while (err == OK && value_next_element(&walk, &call))
        err = write_call(content, call);
    content->answering->ending.tools = content->calls > 0;
    return err;
}

enum err messages_whole(void *state, struct span json, struct writer *out)
{
    struct answering *answering = state;
    struct content content = {.answering = answering, .out = out};
    struct member root[] = {{.name = SPAN("choices")}, {.name = SPAN("usage")}};
    struct member choice[] = {{.name = SPAN("message")}};
    struct value_walk walk;
    struct span object;
    struct span first;
    if (!value_read(json, SCAN_DEPTH_MAX, &object))
        return ERR_REPLICA_PROTOCOL;
    value_find_these(object, root);
    if (!value_is(root[0].value, '['))
        return ERR_REPLICA_PROTOCOL;
    value_walk_list(&walk, root[0].value);
    if (!value_next_element(&walk, &first))
        first = (struct span){NULL, 0};
    value_find_these(first, choice);
    messages_take_usage(&answering->ending, root[1].value);
    if (!messages_take_finish(&answering->ending, first))
        return ERR_NO_MEMORY;
    messages_write_opening(answering, out);
    const enum err err = write_content(&content, choice[0].value);
    if (err != OK)
        return err;
    writer_literal(out, "],");
    messages_write_stop(&answering->ending, out);
    writer_literal(out, ",");
    messages_write_usage(&answering->ending, out);
    writer_literal(out, "}");
    return out->err;
}
