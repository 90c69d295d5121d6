/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/responses.c: /v1/responses.
 *
 * For:       whole responses, and the events of streams.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing.
 *
 * Sources: openapi.yaml Response and ResponseStreamEvent; vLLM entrypoints/openai/responses. Each
 * event has its name in `event:` and in `type`, and a sequence_number; there is no [DONE].
 * llama.cpp writes the same names with fewer members (server-task.cpp
 * to_json_oaicompat_resp_stream()): no sequence_number, no indexes. */
#include "tests/fake/responses.h"

#include "tests/fake/answer.h"
#include "tests/fake/content.h"
#include "tests/fake/error.h"
#include "tests/fake/usage.h"

enum item { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL };

static const char *const item_ids[] = {"rs_", "msg_", "fc_"};

/* Which kind the item at an index is. */
static enum item item_at(const struct work *work, unsigned index)
{
    if (work->reasoning > 0 && index == 0)
        return ITEM_REASONING;
    return work->content == CONTENT_CALL ? ITEM_CALL : ITEM_MESSAGE;
}

static void add_item_id(struct buffer *out, const struct work *work, enum item item)
{
    buffer_add_string(out, item_ids[item]);
    buffer_add_string(out, work->id + sizeof "resp_" - 1);
}

static void add_text(struct buffer *out, const struct work *work, enum item item)
{
    if (item == ITEM_REASONING) {
        content_add_reasoning(out, work);
        return;
    }
    if (work->directive.big > 0 && item == ITEM_MESSAGE)
        buffer_add_fill(out, 'x', (size_t)work->directive.big);
    content_add_rest(out, work);
}

/* `{"type":"output_text","text":"..."...}` */
static void add_part(struct buffer *out, const struct work *work, enum item item, bool filled)
{
    buffer_add_string(out, item == ITEM_REASONING
                               ? "{\"type\":\"reasoning_text\",\"text\":\""
                               : "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],"
                                 "\"text\":\"");
    if (filled)
        add_text(out, work, item);
    buffer_add_literal(out, "\"}");
}

static void add_item(struct buffer *out, const struct work *work, enum item item, bool filled)
{
    static const char *const openings[] = {
        "{\"type\":\"reasoning\",\"summary\":[],\"id\":\"",
        "{\"type\":\"message\",\"role\":\"assistant\",\"id\":\"",
        "{\"type\":\"function_call\",\"id\":\"",
    };
    bool cut = work->by_length && item != ITEM_REASONING;

    buffer_add_string(out, openings[item]);
    add_item_id(out, work, item);
    buffer_add_literal(out, "\",\"status\":\"");
    buffer_add_string(out, !filled ? "in_progress" : cut ? "incomplete" : "completed");
    if (item == ITEM_CALL) {
        buffer_add_literal(out, "\",\"call_id\":\"call_");
        buffer_add_string(out, work->id);
        buffer_add_literal(out, "\",\"name\":\"");
        buffer_add_string(out, work->tool);
        buffer_add_literal(out, "\",\"arguments\":\"");
        if (filled)
            add_text(out, work, item);
        buffer_add_literal(out, "\"}");
        return;
    }
    buffer_add_literal(out, "\",\"content\":[");
    if (filled)
        add_part(out, work, item, true);
    buffer_add_literal(out, "]}");
}

static const char *final_status(const struct work *work)
{
    return work->directive.failed ? "failed" : work->by_length ? "incomplete" : "completed";
}

/* The response object. status: in_progress, or how it ended (then with items and usage). */
static void add_response(struct buffer *out, const struct work *work, const char *status)
{
    bool open = strcmp(status, "in_progress") == 0;
    bool failed = strcmp(status, "failed") == 0;

    buffer_add_literal(out, "{\"id\":\"");
    buffer_add_string(out, work->id);
    buffer_add_literal(out, "\",\"object\":\"response\",\"created_at\":");
    buffer_add_number(out, (uint64_t)answer_time());
    buffer_add_literal(out, ",\"status\":\"");
    buffer_add_string(out, status);
    buffer_add_literal(out, "\",\"model\":\"");
    buffer_add_string(out, work->model);
    buffer_add_literal(out, "\",\"error\":");
    buffer_add_string(out, failed ? "{\"code\":\"server_error\",\"message\":\"This failure was "
                                    "asked for.\"}"
                                  : "null");
    buffer_add_literal(out, ",\"incomplete_details\":");
    buffer_add_string(out, strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}"
                                                             : "null");
    buffer_add_literal(out, ",\"instructions\":null,\"metadata\":{},\"parallel_tool_calls\":true,"
                            "\"temperature\":1.0,\"tool_choice\":\"auto\",\"tools\":[],"
                            "\"top_p\":1.0,\"output\":[");
    for (unsigned i = 0; !open && !failed && i < content_items(work); i++) {
        if (i > 0)
            buffer_add_literal(out, ",");
        add_item(out, work, item_at(work, i), true);
    }
    buffer_add_literal(out, "]");
    if (open || failed) {
        buffer_add_literal(out, ",\"usage\":null");
    } else if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        usage_add_responses(out, work);
    }
    buffer_add_literal(out, "}");
}

void responses_add_body(struct buffer *out, const struct work *work)
{
    add_response(out, work, final_status(work));
}

/* ---- streams ---- */

void responses_begin(struct work *work)
{
    work->position = (struct position){.phase = PHASE_ROLE};
}

/* `event: NAME`, `data: {"type":"NAME","sequence_number":N` */
static void open_event(struct buffer *out, struct work *work, const char *name)
{
    buffer_add_literal(out, "event: ");
    buffer_add_string(out, name);
    buffer_add_literal(out, "\ndata: {\"type\":\"");
    buffer_add_string(out, name);
    buffer_add_literal(out, "\"");
    if (dialect.kind == KIND_LLAMACPP)
        return;
    buffer_add_literal(out, ",\"sequence_number\":");
    buffer_add_number(out, work->position.sequence++);
}

static void add_response_event(struct buffer *out, struct work *work, const char *name,
                               const char *status)
{
    open_event(out, work, name);
    buffer_add_literal(out, ",\"response\":");
    add_response(out, work, status);
    buffer_add_literal(out, "}\n\n");
}

/* `,"output_index":N,"item_id":"..."[,"content_index":0]` */
static void add_place(struct buffer *out, const struct work *work, enum item item)
{
    if (dialect.kind != KIND_LLAMACPP) {
        buffer_add_literal(out, ",\"output_index\":");
        buffer_add_number(out, work->position.item);
        if (item != ITEM_CALL)
            buffer_add_literal(out, ",\"content_index\":0");
    }
    buffer_add_literal(out, ",\"item_id\":\"");
    add_item_id(out, work, item);
    buffer_add_literal(out, "\"");
}

static void add_item_event(struct buffer *out, struct work *work, const char *name, enum item item,
                           bool filled)
{
    open_event(out, work, name);
    if (dialect.kind != KIND_LLAMACPP) {
        buffer_add_literal(out, ",\"output_index\":");
        buffer_add_number(out, work->position.item);
    }
    buffer_add_literal(out, ",\"item\":");
    add_item(out, work, item, filled);
    buffer_add_literal(out, "}\n\n");
}

static void add_part_event(struct buffer *out, struct work *work, const char *name, enum item item,
                           bool filled)
{
    open_event(out, work, name);
    add_place(out, work, item);
    buffer_add_literal(out, ",\"part\":");
    add_part(out, work, item, filled);
    buffer_add_literal(out, "}\n\n");
}

static void move_to(struct work *work, enum phase phase)
{
    work->position.phase = phase;
    work->position.step = 0;
}

static void add_opening(struct buffer *out, struct work *work)
{
    add_response_event(out, work,
                       work->position.step == 0 ? "response.created" : "response.in_progress",
                       "in_progress");
    if (work->position.step++ == 1)
        move_to(work, PHASE_OPEN);
}

static void open_item(struct buffer *out, struct work *work, enum item item)
{
    if (work->position.step++ == 0)
        add_item_event(out, work, "response.output_item.added", item, false);
    else
        add_part_event(out, work,
                       item == ITEM_REASONING ? "response.reasoning_part.added"
                                              : "response.content_part.added",
                       item, false);
    if (work->position.step == 2 || item == ITEM_CALL)
        move_to(work, work->tokens > 0 ? PHASE_TOKENS : PHASE_CLOSE);
}

static uint64_t add_delta(struct buffer *out, struct work *work, enum item item)
{
    static const char *const names[] = {"response.reasoning_text.delta",
                                        "response.output_text.delta",
                                        "response.function_call_arguments.delta"};
    uint64_t from = work->position.done;
    uint64_t to = content_next(work);

    open_event(out, work, names[item]);
    add_place(out, work, item);
    if (item == ITEM_MESSAGE && dialect.kind != KIND_LLAMACPP)
        buffer_add_literal(out, ",\"logprobs\":[]");
    buffer_add_literal(out, ",\"delta\":\"");
    if (work->directive.big > 0 && item == ITEM_MESSAGE && from == work->reasoning)
        buffer_add_fill(out, 'x', (size_t)work->directive.big);
    content_add(out, work, from, to);
    buffer_add_literal(out, "\"}\n\n");
    work->position.events++;
    work->position.done = to;
    if (to == work->tokens || to == work->reasoning)
        move_to(work, PHASE_CLOSE);
    return to - from;
}

static void close_text(struct buffer *out, struct work *work, enum item item)
{
    static const char *const names[] = {"response.reasoning_text.done", "response.output_text.done",
                                        "response.function_call_arguments.done"};

    open_event(out, work, names[item]);
    add_place(out, work, item);
    if (item == ITEM_CALL) {
        buffer_add_literal(out, ",\"name\":\"");
        buffer_add_string(out, work->tool);
        buffer_add_literal(out, "\",\"arguments\":\"");
    } else {
        buffer_add_string(out, item == ITEM_MESSAGE && dialect.kind != KIND_LLAMACPP
                                   ? ",\"logprobs\":[],\"text\":\""
                                   : ",\"text\":\"");
    }
    add_text(out, work, item);
    buffer_add_literal(out, "\"}\n\n");
}

static void close_item(struct buffer *out, struct work *work, enum item item)
{
    unsigned step = work->position.step++;

    if (step == 0) {
        close_text(out, work, item);
        if (item == ITEM_CALL)
            work->position.step = 2;
    } else if (step == 1) {
        add_part_event(out, work,
                       item == ITEM_REASONING ? "response.reasoning_part.done"
                                              : "response.content_part.done",
                       item, true);
    } else {
        add_item_event(out, work, "response.output_item.done", item, true);
        work->position.item++;
        move_to(work, work->position.item < content_items(work) ? PHASE_OPEN : PHASE_FINISH);
    }
}

static void add_ending(struct buffer *out, struct work *work)
{
    const char *status = final_status(work);

    add_response_event(out, work,
                       work->directive.failed ? "response.failed"
                       : work->by_length      ? "response.incomplete"
                                              : "response.completed",
                       status);
    move_to(work, PHASE_END);
}

static void add_failure(struct buffer *out, struct work *work)
{
    if (dialect.kind == KIND_LLAMACPP)
        error_add_event(out, work->endpoint, 500, TEXT("This failure was asked for."));
    else
        add_response_event(out, work, "response.failed", "failed");
    move_to(work, PHASE_END);
}

uint64_t responses_add_event(struct buffer *out, struct work *work)
{
    enum item item = item_at(work, work->position.item);

    switch (work->position.phase) {
    case PHASE_ROLE:
        add_opening(out, work);
        return 0;
    case PHASE_OPEN:
        open_item(out, work, item);
        return 0;
    case PHASE_TOKENS:
        return add_delta(out, work, item);
    case PHASE_CLOSE:
        close_item(out, work, item);
        return 0;
    case PHASE_ERROR:
        add_failure(out, work);
        return 0;
    default:
        add_ending(out, work);
        return 0;
    }
}
