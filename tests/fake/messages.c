/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/messages.c: /v1/messages.
 *
 * For:       whole messages, and the events of streams, in Anthropic's shape.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing.
 *
 * Sources: anthropic-sdk-python types (raw_message_stream_event and its members): the usage of
 * message_delta is cumulative, a thinking block ends with its signature. vLLM
 * entrypoints/anthropic, SGLang entrypoints/anthropic and llama.cpp server-task.cpp
 * to_json_anthropic_stream() write the same events; they send no ping of their own accord. */
#include "tests/fake/messages.h"

#include "tests/fake/content.h"
#include "tests/fake/error.h"
#include "tests/fake/usage.h"

enum block { BLOCK_THINKING, BLOCK_TEXT, BLOCK_TOOL };

static enum block block_at(const struct work *work, unsigned index)
{
    if (work->reasoning > 0 && index == 0)
        return BLOCK_THINKING;
    return work->content == CONTENT_CALL ? BLOCK_TOOL : BLOCK_TEXT;
}

static void add_stop_reason(struct buffer *out, const struct work *work)
{
    buffer_add_literal(out, "\"stop_reason\":\"");
    buffer_add_string(out, work->by_length                 ? "max_tokens"
                           : work->content == CONTENT_CALL ? "tool_use"
                                                           : "end_turn");
    buffer_add_literal(out, "\",\"stop_sequence\":null");
}

/* `{"type":"tool_use","id":"...","name":"...","input":` */
static void open_tool(struct buffer *out, const struct work *work)
{
    buffer_add_literal(out, "{\"type\":\"tool_use\",\"id\":\"toolu_");
    buffer_add_string(out, work->id);
    buffer_add_literal(out, "\",\"name\":\"");
    buffer_add_string(out, work->tool);
    buffer_add_literal(out, "\",\"input\":");
}

static void add_block(struct buffer *out, const struct work *work, enum block block)
{
    if (block == BLOCK_THINKING) {
        buffer_add_literal(out, "{\"type\":\"thinking\",\"thinking\":\"");
        content_add_reasoning(out, work);
        buffer_add_literal(out, "\",\"signature\":\"\"}");
    } else if (block == BLOCK_TEXT) {
        buffer_add_literal(out, "{\"type\":\"text\",\"text\":\"");
        if (work->directive.big > 0)
            buffer_add_fill(out, 'x', (size_t)work->directive.big);
        content_add_rest(out, work);
        buffer_add_literal(out, "\"}");
    } else {
        open_tool(out, work);
        if (work->by_length) /* what was cut is no object any more */
            buffer_add_literal(out, "{}");
        else
            buffer_add(out, work->script.bytes, work->script.count);
        buffer_add_literal(out, "}");
    }
}

/* `{"id":"...","type":"message","role":"assistant","model":"...","content":[` */
static void open_message(struct buffer *out, const struct work *work)
{
    buffer_add_literal(out, "{\"id\":\"");
    buffer_add_string(out, work->id);
    buffer_add_literal(out, "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"");
    buffer_add_string(out, work->model);
    buffer_add_literal(out, "\",\"content\":[");
}

void messages_add_body(struct buffer *out, const struct work *work)
{
    open_message(out, work);
    for (unsigned i = 0; i < content_items(work); i++) {
        if (i > 0)
            buffer_add_literal(out, ",");
        add_block(out, work, block_at(work, i));
    }
    buffer_add_literal(out, "],");
    add_stop_reason(out, work);
    if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        usage_add_messages(out, work, work_claimed_output(work));
    }
    buffer_add_literal(out, "}");
}

/* ---- streams ---- */

void messages_begin(struct work *work)
{
    work->position = (struct position){.phase = PHASE_ROLE};
}

static void move_to(struct work *work, enum phase phase)
{
    work->position.phase = phase;
    work->position.step = 0;
}

/* `event: NAME`, `data: {"type":"NAME"` */
static void open_event(struct buffer *out, const char *name)
{
    buffer_add_literal(out, "event: ");
    buffer_add_string(out, name);
    buffer_add_literal(out, "\ndata: {\"type\":\"");
    buffer_add_string(out, name);
    buffer_add_literal(out, "\"");
}

static void open_block_event(struct buffer *out, const struct work *work, const char *name)
{
    open_event(out, name);
    buffer_add_literal(out, ",\"index\":");
    buffer_add_number(out, work->position.item);
}

static void add_start(struct buffer *out, struct work *work)
{
    open_event(out, "message_start");
    buffer_add_literal(out, ",\"message\":");
    open_message(out, work);
    buffer_add_literal(out, "],\"stop_reason\":null,\"stop_sequence\":null");
    if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        usage_add_messages(out, work, 0);
    }
    buffer_add_literal(out, "}}\n\n");
    move_to(work, PHASE_OPEN);
}

static void open_block(struct buffer *out, struct work *work, enum block block)
{
    open_block_event(out, work, "content_block_start");
    buffer_add_literal(out, ",\"content_block\":");
    if (block == BLOCK_THINKING) {
        buffer_add_literal(out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else if (block == BLOCK_TEXT) {
        buffer_add_literal(out, "{\"type\":\"text\",\"text\":\"\"}");
    } else {
        open_tool(out, work);
        buffer_add_literal(out, "{}}");
    }
    buffer_add_literal(out, "}\n\n");
    move_to(work, work->tokens > 0 ? PHASE_TOKENS : PHASE_CLOSE);
}

static uint64_t add_delta(struct buffer *out, struct work *work, enum block block)
{
    static const char *const openings[] = {"{\"type\":\"thinking_delta\",\"thinking\":\"",
                                           "{\"type\":\"text_delta\",\"text\":\"",
                                           "{\"type\":\"input_json_delta\",\"partial_json\":\""};
    uint64_t from = work->position.done;
    uint64_t to = content_next(work);

    open_block_event(out, work, "content_block_delta");
    buffer_add_literal(out, ",\"delta\":");
    buffer_add_string(out, openings[block]);
    if (work->directive.big > 0 && block == BLOCK_TEXT && from == work->reasoning)
        buffer_add_fill(out, 'x', (size_t)work->directive.big);
    content_add(out, work, from, to);
    buffer_add_literal(out, "\"}}\n\n");
    work->position.events++;
    work->position.done = to;
    if (to == work->tokens || to == work->reasoning)
        move_to(work, PHASE_CLOSE);
    return to - from;
}

static void close_block(struct buffer *out, struct work *work, enum block block)
{
    if (block == BLOCK_THINKING && work->position.step++ == 0) {
        open_block_event(out, work, "content_block_delta");
        buffer_add_literal(out,
                           ",\"delta\":{\"type\":\"signature_delta\",\"signature\":\"\"}}\n\n");
        return;
    }
    open_block_event(out, work, "content_block_stop");
    buffer_add_literal(out, "}\n\n");
    work->position.item++;
    move_to(work, work->position.item < content_items(work) ? PHASE_OPEN : PHASE_FINISH);
}

static void add_end(struct buffer *out, struct work *work)
{
    if (work->position.step++ == 0) {
        open_event(out, "message_delta");
        buffer_add_literal(out, ",\"delta\":{");
        add_stop_reason(out, work);
        buffer_add_literal(out, "}");
        if (!work->directive.no_usage) {
            buffer_add_literal(out, ",");
            usage_add_messages(out, work, work_claimed_output(work));
        }
        buffer_add_literal(out, "}\n\n");
        return;
    }
    open_event(out, "message_stop");
    buffer_add_literal(out, "}\n\n");
    move_to(work, PHASE_END);
}

uint64_t messages_add_event(struct buffer *out, struct work *work)
{
    enum block block = block_at(work, work->position.item);

    switch (work->position.phase) {
    case PHASE_ROLE:
        add_start(out, work);
        return 0;
    case PHASE_OPEN:
        open_block(out, work, block);
        return 0;
    case PHASE_TOKENS:
        return add_delta(out, work, block);
    case PHASE_CLOSE:
        close_block(out, work, block);
        return 0;
    case PHASE_ERROR:
        error_add_event(out, work->endpoint, 500, TEXT("EngineCore encountered an issue."));
        move_to(work, PHASE_END);
        return 0;
    default:
        add_end(out, work);
        return 0;
    }
}
