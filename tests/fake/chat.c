/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/chat.c: /v1/chat/completions and /v1/completions.
 *
 * For:       whole answers, and the events of streams.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing. */
#include "tests/fake/chat.h"

#include "tests/fake/answer.h"
#include "tests/fake/content.h"
#include "tests/fake/usage.h"

/* ---- log probabilities ---- */

/* `{"token":"w0 ","logprob":-0.25,"bytes":[...]`, open. Bytes are told of words alone. */
static void add_token(struct buffer *out, const struct work *work, uint64_t token, unsigned rank)
{
    buffer_add_literal(out, "{\"token\":\"");
    size_t begin = out->count;
    content_add(out, work, token, token + 1);
    size_t count = out->count - begin;
    buffer_add_literal(out, "\",\"logprob\":-");
    buffer_add_number(out, rank);
    buffer_add_literal(out, ".25,\"bytes\":");
    if (work->content != CONTENT_WORDS || token < work->reasoning) {
        buffer_add_literal(out, "null");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        buffer_add_string(out, i == 0 ? "[" : ",");
        buffer_add_number(out, (unsigned char)out->bytes[begin + i]);
    }
    buffer_add_literal(out, "]");
}

static void add_chat_logprobs(struct buffer *out, const struct work *work, uint64_t from,
                              uint64_t to)
{
    buffer_add_literal(out, ",\"logprobs\":{\"content\":[");
    for (uint64_t token = from; token < to; token++) {
        if (token > from)
            buffer_add_literal(out, ",");
        add_token(out, work, token, 0);
        buffer_add_literal(out, ",\"top_logprobs\":[");
        for (unsigned rank = 0; rank < work->top_logprobs; rank++) {
            if (rank > 0)
                buffer_add_literal(out, ",");
            add_token(out, work, token, rank);
            buffer_add_literal(out, "}");
        }
        buffer_add_literal(out, "]}");
    }
    buffer_add_literal(out, "]}");
}

/* The older form of completions: lists side by side. */
static void add_completion_logprobs(struct buffer *out, const struct work *work, uint64_t from,
                                    uint64_t to)
{
    buffer_add_literal(out, ",\"logprobs\":{\"text_offset\":[");
    for (uint64_t token = from; token < to; token++) {
        if (token > from)
            buffer_add_literal(out, ",");
        buffer_add_number(out, token);
    }
    buffer_add_literal(out, "],\"token_logprobs\":[");
    for (uint64_t token = from; token < to; token++)
        buffer_add_string(out, token == from ? "-0.25" : ",-0.25");
    buffer_add_literal(out, "],\"tokens\":[");
    for (uint64_t token = from; token < to; token++) {
        buffer_add_string(out, token == from ? "\"" : ",\"");
        content_add(out, work, token, token + 1);
        buffer_add_literal(out, "\"");
    }
    buffer_add_literal(out, "],\"top_logprobs\":null}");
}

static void add_logprobs(struct buffer *out, const struct work *work, uint64_t from, uint64_t to)
{
    if (!work->logprobs || from >= to)
        buffer_add_text(out, work->endpoint == ENDPOINT_CHAT ? kind_row()->no_logprobs
                                                             : TEXT(",\"logprobs\":null"));
    else if (work->endpoint == ENDPOINT_CHAT)
        add_chat_logprobs(out, work, from, to);
    else
        add_completion_logprobs(out, work, from, to);
}

/* ---- whole answers ---- */

/* `"id":"call_...","type":"function","function":{"name":"...","arguments":"` */
static void open_call(struct buffer *out, const struct work *work, unsigned choice)
{
    buffer_add_literal(out, "\"id\":\"call_");
    buffer_add_string(out, work->id);
    buffer_add_literal(out, "_");
    buffer_add_number(out, choice);
    buffer_add_literal(out, "\",\"type\":\"function\",\"function\":{\"name\":\"");
    buffer_add_string(out, work->tool);
    buffer_add_literal(out, "\",\"arguments\":\"");
}

static void add_big(struct buffer *out, const struct work *work)
{
    if (work->directive.big > 0)
        buffer_add_fill(out, 'x', (size_t)work->directive.big);
}

static void add_message(struct buffer *out, const struct work *work, unsigned choice)
{
    bool call = work->content == CONTENT_CALL && work->tokens > work->reasoning;
    bool rich = dialect.kind == KIND_VLLM || dialect.kind == KIND_OPENAI;
    struct text thought = kind_row()->thought_name;

    buffer_add_literal(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (call) {
        buffer_add_literal(out, "null,\"tool_calls\":[{");
        open_call(out, work, choice);
        content_add_rest(out, work);
        buffer_add_literal(out, "\"}}]");
    } else {
        buffer_add_literal(out, "\"");
        if (choice == 0)
            add_big(out, work);
        if (dialect.kind == KIND_TGI)
            content_add_reasoning(out, work);
        content_add_rest(out, work);
        buffer_add_literal(out, "\"");
        if (dialect.kind == KIND_VLLM)
            buffer_add_literal(out, ",\"tool_calls\":[]");
        else if (dialect.kind == KIND_SGLANG)
            buffer_add_literal(out, ",\"tool_calls\":null");
    }
    if (rich)
        buffer_add_literal(out, ",\"refusal\":null,\"annotations\":null,\"audio\":null,"
                                "\"function_call\":null");
    if (thought.bytes > 0 && (work->reasoning > 0 || dialect.kind != KIND_LLAMACPP)) {
        buffer_add_literal(out, ",\"");
        buffer_add_text(out, thought);
        buffer_add_literal(out, "\":");
        if (work->reasoning > 0) {
            buffer_add_literal(out, "\"");
            content_add_reasoning(out, work);
            buffer_add_literal(out, "\"");
        } else {
            buffer_add_literal(out, "null");
        }
    }
    buffer_add_literal(out, "}");
}

static void add_choice(struct buffer *out, const struct work *work, unsigned choice)
{
    buffer_add_literal(out, "{\"index\":");
    buffer_add_number(out, choice);
    if (work->endpoint == ENDPOINT_CHAT) {
        add_message(out, work, choice);
    } else {
        buffer_add_literal(out, ",\"text\":\"");
        if (choice == 0)
            add_big(out, work);
        content_add_reasoning(out, work);
        content_add_rest(out, work);
        buffer_add_literal(out, "\"");
    }
    add_logprobs(out, work, 0, work->tokens);
    buffer_add_literal(out, ",\"finish_reason\":\"");
    buffer_add_text(out, content_finish_reason(work));
    buffer_add_literal(out, "\"");
    if (dialect.kind == KIND_VLLM)
        buffer_add_literal(out, ",\"stop_reason\":null");
    else if (dialect.kind == KIND_SGLANG)
        buffer_add_literal(out, ",\"matched_stop\":null");
    buffer_add_literal(out, "}");
}

void chat_add_body(struct buffer *out, const struct work *work)
{
    answer_add_opening(out, work,
                       work->endpoint == ENDPOINT_CHAT ? TEXT("chat.completion")
                                                       : TEXT("text_completion"));
    buffer_add_literal(out, ",\"choices\":[");
    for (unsigned choice = 0; choice < work->choices; choice++) {
        if (choice > 0)
            buffer_add_literal(out, ",");
        add_choice(out, work, choice);
    }
    buffer_add_literal(out, "]");
    if (dialect.kind == KIND_VLLM || dialect.kind == KIND_OPENAI)
        buffer_add_literal(out, ",\"service_tier\":null,\"system_fingerprint\":null");
    else if (dialect.kind != KIND_SGLANG)
        buffer_add_literal(out, ",\"system_fingerprint\":\"fake\"");
    if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        usage_add(out, work);
    }
    if (dialect.kind == KIND_VLLM)
        buffer_add_literal(out, ",\"kv_transfer_params\":null");
    if (dialect.kind == KIND_SGLANG)
        buffer_add_literal(out, ",\"metadata\":{\"weight_version\":\"default\"}");
    if (dialect.kind == KIND_LLAMACPP) {
        buffer_add_literal(out, ",");
        usage_add_timings(out, work);
    }
    buffer_add_literal(out, "}");
}

/* ---- streams ---- */

/* `{"index":N` */
static void open_choice(struct buffer *out, const struct work *work)
{
    buffer_add_literal(out, "{\"index\":");
    buffer_add_number(out, work->position.choice);
}

/* What a chunk before the last says of usage. */
static void add_chunk_usage(struct buffer *out, const struct work *work, uint64_t running)
{
    if (dialect.kind == KIND_OPENAI && work->include_usage)
        buffer_add_literal(out, ",\"usage\":null");
    else if (work->include_usage && work->continuous_usage && kind_row()->running_usage)
        usage_add_running(out, work, running);
    else if (dialect.kind == KIND_SGLANG || dialect.kind == KIND_TGI)
        buffer_add_literal(out, ",\"usage\":null");
}

/* Closes the event; `running` are the tokens of this choice so far. */
static void close_event(struct buffer *out, const struct work *work, uint64_t running)
{
    buffer_add_literal(out, "]");
    if (!work->directive.no_usage)
        add_chunk_usage(out, work, running);
    if (work->position.phase == PHASE_FINISH && dialect.kind == KIND_LLAMACPP &&
        !work->include_usage) {
        buffer_add_literal(out, ",");
        usage_add_timings(out, work);
    }
    buffer_add_literal(out, "}\n\n");
}

static bool last_choice(struct work *work)
{
    if (++work->position.choice < work->choices)
        return false;
    work->position.choice = 0;
    return true;
}

/* What follows when `done` tokens are out. */
static enum phase phase_after(const struct work *work)
{
    if (work->position.done == work->tokens)
        return PHASE_FINISH;
    if (work->content == CONTENT_CALL && work->position.done == work->reasoning)
        return PHASE_OPEN;
    return PHASE_TOKENS;
}

static void add_role(struct buffer *out, struct work *work)
{
    open_choice(out, work);
    buffer_add_text(out, kind_row()->role_delta);
    buffer_add_text(out, kind_row()->no_logprobs);
    buffer_add_text(out, kind_row()->close_choice);
    close_event(out, work, 0);
    if (last_choice(work))
        work->position.phase = phase_after(work);
}

/* A call's name comes alone, with empty arguments. */
static void add_call(struct buffer *out, struct work *work)
{
    open_choice(out, work);
    buffer_add_text(out, kind_row()->open_call);
    buffer_add_literal(out, ",");
    open_call(out, work, work->position.choice);
    buffer_add_literal(out, "\"}");
    buffer_add_text(out, kind_row()->close_call);
    buffer_add_text(out, kind_row()->no_logprobs);
    buffer_add_text(out, kind_row()->close_choice);
    close_event(out, work, work->position.done);
    if (last_choice(work))
        work->position.phase = PHASE_TOKENS;
}

static void add_stamp(struct buffer *out)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    buffer_add_literal(out, "t");
    buffer_add_number(out, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    buffer_add_literal(out, " ");
}

/* The delta of a chat, or the text of a completion, without its end. */
static void open_piece(struct buffer *out, const struct work *work)
{
    const struct kind_row *kind = kind_row();
    bool call = work->content == CONTENT_CALL && !work_thinks(work);

    if (work->endpoint != ENDPOINT_CHAT) {
        buffer_add_literal(out, ",\"text\":\"");
    } else if (call) {
        buffer_add_text(out, kind->open_call);
        buffer_add_literal(out, ",\"function\":{\"arguments\":\"");
        return;
    } else {
        buffer_add_text(out, work_thinks(work) ? kind->open_thought : kind->open_content);
    }
    if (work->directive.stamp)
        add_stamp(out);
    if (work->directive.big > 0 && work->position.events == 0)
        add_big(out, work);
}

static void close_piece(struct buffer *out, const struct work *work, uint64_t from, uint64_t to)
{
    const struct kind_row *kind = kind_row();
    bool call = work->content == CONTENT_CALL && !work_thinks(work);

    if (work->endpoint != ENDPOINT_CHAT) {
        buffer_add_literal(out, "\"");
        add_logprobs(out, work, from, to);
        buffer_add_string(out, dialect.kind == KIND_VLLM
                                   ? ",\"finish_reason\":null,\"stop_reason\":null}"
                                   : ",\"finish_reason\":null}");
        return;
    }
    if (call)
        buffer_add_literal(out, "\"}");
    buffer_add_text(out, call ? kind->close_call : kind->close_delta);
    add_logprobs(out, work, from, to);
    buffer_add_text(out, kind->close_choice);
}

/* Most events of most streams differ in nothing but their words: what stands around those is made
 * once. Anything rarer (choices, reasoning, calls, log probabilities, stamps) has no frame. */
static void frame_events(struct work *work)
{
    struct buffer *prefix = &work->prefix;
    bool running = work->include_usage && work->continuous_usage && kind_row()->running_usage;

    work->frame_closes = 0;
    if (work->choices != 1 || work->content != CONTENT_WORDS || work->reasoning > 0 ||
        work->logprobs || work->directive.stamp || work->directive.big > 0)
        return;
    work->frame_counts = running && !work->directive.no_usage;
    open_choice(prefix, work);
    open_piece(prefix, work);
    work->frame_opens = prefix->count;
    close_piece(prefix, work, 0, 0);
    if (work->frame_counts) {
        buffer_add_literal(prefix, "],\"usage\":{\"prompt_tokens\":");
        buffer_add_number(prefix, work_claimed_input(work));
        buffer_add_literal(prefix, ",\"total_tokens\":");
    } else {
        close_event(prefix, work, 0);
    }
    work->frame_closes = prefix->count;
}

static uint64_t add_framed_tokens(struct buffer *out, struct work *work)
{
    const char *bytes = work->prefix.bytes;
    uint64_t from = work->position.done;
    uint64_t to = content_next(work);

    buffer_add(out, bytes, work->frame_opens);
    content_add(out, work, from, to);
    buffer_add(out, bytes + work->frame_opens, work->frame_closes - work->frame_opens);
    if (work->frame_counts) {
        buffer_add_number(out, work_claimed_input(work) + to);
        buffer_add_literal(out, ",\"completion_tokens\":");
        buffer_add_number(out, to);
        buffer_add_literal(out, "}}\n\n");
    }
    work->position.events++;
    work->position.done = to;
    if (to == work->tokens)
        work->position.phase = PHASE_FINISH;
    return to - from;
}

static uint64_t add_tokens(struct buffer *out, struct work *work)
{
    uint64_t from = work->position.done;
    uint64_t to = content_next(work);

    open_choice(out, work);
    open_piece(out, work);
    if (!work_thinks(work) || dialect.kind != KIND_OPENAI)
        content_add(out, work, from, to); /* OpenAI does not show its reasoning */
    close_piece(out, work, from, to);
    close_event(out, work, to);
    work->position.events++;
    if (last_choice(work)) {
        work->position.done = to;
        work->position.phase = phase_after(work);
    }
    return to - from;
}

static void add_finish(struct buffer *out, struct work *work)
{
    open_choice(out, work);
    if (work->endpoint == ENDPOINT_CHAT)
        buffer_add_text(out, kind_row()->end_delta);
    else
        buffer_add_literal(out, ",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"");
    buffer_add_text(out, content_finish_reason(work));
    buffer_add_text(out, kind_row()->end_choice);
    close_event(out, work, work->tokens);
    if (last_choice(work))
        work->position.phase =
            work->include_usage && !work->directive.no_usage ? PHASE_USAGE : PHASE_DONE;
}

static void add_usage(struct buffer *out, struct work *work)
{
    buffer_add_literal(out, "],");
    usage_add(out, work);
    if (dialect.kind == KIND_LLAMACPP) {
        buffer_add_literal(out, ",");
        usage_add_timings(out, work);
    }
    buffer_add_literal(out, "}\n\n");
    work->position.phase = PHASE_DONE;
}

void chat_begin(struct work *work)
{
    struct buffer *prefix = &work->prefix;

    buffer_add_literal(prefix, "data: ");
    answer_add_opening(prefix, work,
                       work->endpoint == ENDPOINT_CHAT ? TEXT("chat.completion.chunk")
                                                       : TEXT("text_completion"));
    if (dialect.kind == KIND_LLAMACPP || dialect.kind == KIND_TGI)
        buffer_add_literal(prefix, ",\"system_fingerprint\":\"fake\"");
    buffer_add_literal(prefix, ",\"choices\":[");
    work->prefix_bytes = prefix->count;
    frame_events(work);
    work->position = (struct position){.phase = work->endpoint == ENDPOINT_CHAT ? PHASE_ROLE
                                                : work->tokens > 0              ? PHASE_TOKENS
                                                                                : PHASE_FINISH};
}

uint64_t chat_add_event(struct buffer *out, struct work *work)
{
    if (work->position.phase == PHASE_DONE) {
        buffer_add_literal(out, "data: [DONE]\n\n");
        work->position.phase = PHASE_END;
        return 0;
    }
    if (work->position.phase == PHASE_TOKENS && work->frame_closes > 0)
        return add_framed_tokens(out, work);
    buffer_add(out, work->prefix.bytes, work->prefix_bytes);
    switch (work->position.phase) {
    case PHASE_ROLE:
        add_role(out, work);
        return 0;
    case PHASE_OPEN:
        add_call(out, work);
        return 0;
    case PHASE_TOKENS:
        return add_tokens(out, work);
    case PHASE_FINISH:
        add_finish(out, work);
        return 0;
    default:
        add_usage(out, work);
        return 0;
    }
}
