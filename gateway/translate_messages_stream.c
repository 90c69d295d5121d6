/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_messages_stream.c: a chat stream as the events of a message.
 *
 * For:       one event in, none or several out, in an order that Anthropic's clients accept.
 * Called by: translate.c, by the row of translate_messages.c.
 * Knows not: asks, sockets, how events are framed when they come in.
 *
 * What goes out (Streaming, event types): message_start; blocks one after the other, each as
 * content_block_start, content_block_delta …, content_block_stop, numbered upwards from 0;
 * message_delta with the stop reason and cumulative usage; message_stop. Or, anywhere, error as the
 * last event. message_delta waits for translator_end(): the usage of a chat comes after its
 * finish_reason.
 *
 * Texts and thinking pass at once; a change of kind closes one block and opens the next. Tool calls
 * are numbered in a chat and may come interleaved, but blocks may not overlap: the first call that
 * is not finished passes at once, pieces of later ones are held until its arguments are a whole
 * object, or the stream ends. So are texts that come between. No known server interleaves so: then
 * nothing is held.
 *
 *   block       open: NONE, TEXT, THINKING, or TOOL (then calls[call_at] is the one)
 *   calls       before call_at closed, at call_at open or next, behind it waiting */
#include "gateway/translate_messages.h"

#include <stdlib.h>

#include "gateway/fault.h"

#define CALLS_MAX 128u         /* of one answer */
#define HELD_BYTES_MAX 262144u /* of one answer: names, ids and what waits */

enum block { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL };

/* Where the arguments of a call stand, as JSON. */
struct progress {
    uint32_t depth;
    bool in_string, escaped;
    bool whole; /* an object or list has been closed */
};

struct call {
    int64_t index;          /* as the server numbers it */
    struct buffer id, name; /* raw; empty: not said yet */
    struct buffer held;     /* raw pieces of its arguments that wait */
    struct progress progress;
    bool begun; /* its block has been opened */
};

struct stream {
    bool started; /* message_start went out */
    bool over;    /* message_stop or error went out */
    enum block block;
    uint32_t blocks; /* opened so far */
    struct call *calls;
    uint32_t call_count, call_at;
    struct buffer late_text, late_thinking; /* raw; came while a call was unfinished */
    size_t held_bytes;
};

/* One event being translated. */
struct turn {
    struct answering *answering;
    struct stream *stream;
    struct writer *out;
};

void messages_stream_free(struct stream *stream)
{
    if (stream == NULL)
        return;
    for (uint32_t i = 0; i < stream->call_count; i++) {
        buffer_free(&stream->calls[i].id);
        buffer_free(&stream->calls[i].name);
        buffer_free(&stream->calls[i].held);
    }
    buffer_free(&stream->late_text);
    buffer_free(&stream->late_thinking);
    free(stream->calls);
    free(stream);
}

static struct span kept(const struct buffer *buffer)
{
    return (struct span){buffer->data, buffer->size};
}

/* Keeps raw for later, within the bound of the whole answer. */
static enum err hold(struct stream *stream, struct buffer *buffer, struct span raw)
{
    if (raw.size > HELD_BYTES_MAX - stream->held_bytes)
        return ERR_TOO_LARGE;
    stream->held_bytes += raw.size;
    return buffer_append(buffer, raw) ? OK : ERR_NO_MEMORY;
}

static void let_go(struct stream *stream, struct buffer *buffer)
{
    stream->held_bytes -= buffer->size;
    buffer_free(buffer);
}

/* ---- how far the arguments of a call are ---- */

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* The character that raw spells at *at, which is moved behind it; 'x' for any that JSON's grammar
 * does not ask for by name. raw was checked: its escapes are well-formed. */
static char next_character(struct span raw, size_t *at)
{
    const char *here = raw.data + *at;
    int point = 0;
    if (here[0] != '\\') {
        *at += 1;
        return here[0];
    }
    if (here[1] != 'u') {
        *at += 2;
        return here[1] == '"' || here[1] == '\\' ? here[1] : 'x';
    }
    *at += 6;
    for (int i = 2; i < 6; i++)
        point = point << 4 | hex_digit(here[i]);
    return point < 0x80 ? (char)point : 'x';
}

/* Follows the arguments; returns how many raw bytes belong to them: none behind their end. */
static size_t follow(struct progress *progress, struct span raw)
{
    size_t at = 0;
    while (at < raw.size && !progress->whole) {
        const char c = next_character(raw, &at);
        if (progress->escaped)
            progress->escaped = false;
        else if (progress->in_string && c == '\\')
            progress->escaped = true;
        else if (c == '"')
            progress->in_string = !progress->in_string;
        else if (!progress->in_string && (c == '{' || c == '['))
            progress->depth++;
        else if (!progress->in_string && (c == '}' || c == ']') && progress->depth > 0)
            progress->whole = --progress->depth == 0;
    }
    return at;
}

/* ---- events ---- */

static void begin_event(struct writer *out, struct span name)
{
    writer_literal(out, "event: ");
    writer_put(out, name);
    writer_literal(out, "\ndata: {\"type\":\"");
    writer_put(out, name);
    writer_literal(out, "\"");
}

static void end_event(struct writer *out)
{
    writer_literal(out, "}\n\n");
}

/* An event about the open block. */
static void begin_block_event(struct turn *turn, struct span name)
{
    begin_event(turn->out, name);
    writer_literal(turn->out, ",\"index\":");
    writer_number(turn->out, (int64_t)turn->stream->blocks - 1);
}

static void write_delta(struct turn *turn, struct span type, struct span member, struct span raw)
{
    begin_block_event(turn, SPAN("content_block_delta"));
    writer_literal(turn->out, ",\"delta\":{\"type\":\"");
    writer_put(turn->out, type);
    writer_literal(turn->out, "\",\"");
    writer_put(turn->out, member);
    writer_literal(turn->out, "\":");
    writer_raw(turn->out, raw);
    writer_literal(turn->out, "}");
    end_event(turn->out);
}

/* Once. Usage is what is known by then: nothing, or the prompt where usage runs along. */
static void start_message(struct turn *turn)
{
    if (turn->stream->started)
        return;
    turn->stream->started = true;
    begin_event(turn->out, SPAN("message_start"));
    writer_literal(turn->out, ",\"message\":");
    messages_write_opening(turn->answering, turn->out);
    writer_literal(turn->out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    messages_write_usage(&turn->answering->ending, turn->out);
    writer_literal(turn->out, "}");
    end_event(turn->out);
}

/* A thinking block ends with its signature (Streaming, thinking delta), which is empty here. */
static void close_block(struct turn *turn)
{
    struct stream *stream = turn->stream;
    if (stream->block == BLOCK_NONE)
        return;
    if (stream->block == BLOCK_THINKING)
        write_delta(turn, SPAN("signature_delta"), SPAN("signature"), SPAN(""));
    begin_block_event(turn, SPAN("content_block_stop"));
    end_event(turn->out);
    if (stream->block == BLOCK_TOOL)
        stream->call_at++;
    stream->block = BLOCK_NONE;
}

static void open_block(struct turn *turn, enum block block)
{
    turn->stream->block = block;
    turn->stream->blocks++;
    begin_block_event(turn, SPAN("content_block_start"));
    writer_literal(turn->out, ",\"content_block\":{\"type\":\"");
    if (block == BLOCK_TEXT) {
        writer_literal(turn->out, "text\",\"text\":\"\"}");
    } else if (block == BLOCK_THINKING) {
        writer_literal(turn->out, "thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else {
        const struct call *call = &turn->stream->calls[turn->stream->call_at];
        writer_literal(turn->out, "tool_use\",\"id\":");
        messages_write_call_id(turn->answering, kept(&call->id), turn->stream->call_at, turn->out);
        writer_literal(turn->out, ",\"name\":");
        writer_raw(turn->out, kept(&call->name));
        writer_literal(turn->out, ",\"input\":{}}");
    }
    end_event(turn->out);
}

/* ---- texts ---- */

static void pass_text(struct turn *turn, enum block block, struct span raw)
{
    if (turn->stream->block != block) {
        close_block(turn);
        open_block(turn, block);
    }
    if (block == BLOCK_TEXT)
        write_delta(turn, SPAN("text_delta"), SPAN("text"), raw);
    else if (!turn->answering->hide_thinking)
        write_delta(turn, SPAN("thinking_delta"), SPAN("thinking"), raw);
}

/* Is there a call whose end has not come? */
static bool is_calling(const struct stream *stream)
{
    if (stream->call_at == stream->call_count)
        return false;
    return stream->call_count - stream->call_at > 1 || stream->block != BLOCK_TOOL ||
           !stream->calls[stream->call_at].progress.whole;
}

static enum err take_text(struct turn *turn, enum block block, struct span text)
{
    struct stream *stream = turn->stream;
    if (!value_has_text(text))
        return OK;
    const struct span raw = value_inside(text);
    if (is_calling(stream))
        return hold(stream, block == BLOCK_TEXT ? &stream->late_text : &stream->late_thinking, raw);
    pass_text(turn, block, raw);
    return OK;
}

static void pass_late_texts(struct turn *turn)
{
    struct stream *stream = turn->stream;
    if (stream->late_thinking.size > 0)
        pass_text(turn, BLOCK_THINKING, kept(&stream->late_thinking));
    if (stream->late_text.size > 0)
        pass_text(turn, BLOCK_TEXT, kept(&stream->late_text));
    let_go(stream, &stream->late_thinking);
    let_go(stream, &stream->late_text);
}

/* ---- tool calls ---- */

/* Opens the block of the call whose turn it is, with what was held of its arguments. */
static void begin_call(struct turn *turn)
{
    struct stream *stream = turn->stream;
    struct call *call = &stream->calls[stream->call_at];
    close_block(turn);
    open_block(turn, BLOCK_TOOL);
    call->begun = true;
    if (call->held.size > 0)
        write_delta(turn, SPAN("input_json_delta"), SPAN("partial_json"), kept(&call->held));
    let_go(stream, &call->held);
    let_go(stream, &call->name);
}

/* Opens and closes calls as far as they are known; at the end of the stream all of them. */
static void advance(struct turn *turn, bool at_end)
{
    struct stream *stream = turn->stream;
    while (stream->call_at < stream->call_count) {
        struct call *call = &stream->calls[stream->call_at];
        if (!call->begun) {
            if (call->name.size == 0 && !at_end)
                return;
            begin_call(turn);
        }
        if (!at_end && (!call->progress.whole || stream->call_at + 1 == stream->call_count))
            return;
        close_block(turn);
    }
}

static enum err new_call(struct stream *stream, int64_t index, struct call **out_call)
{
    if (stream->call_count == CALLS_MAX)
        return ERR_TOO_LARGE;
    if ((stream->call_count & (stream->call_count - 1)) == 0) { /* full: 0, 1, 2, 4 … */
        const size_t room = stream->call_count > 0 ? 2 * (size_t)stream->call_count : 1;
        struct call *calls = realloc(stream->calls, room * sizeof *calls);
        if (calls == NULL)
            return ERR_NO_MEMORY;
        stream->calls = calls;
    }
    *out_call = &stream->calls[stream->call_count++];
    **out_call = (struct call){.index = index};
    return OK;
}

/* The call that a piece belongs to: the latest with its index, unless the piece has another id, as
 * of servers that number all calls alike. A piece without an index belongs to the call with its id,
 * or without an id to the last. */
static enum err find_call(struct stream *stream, struct span index, struct span id,
                          struct call **out_call)
{
    int64_t number = -1;
    const bool numbered = index.data != NULL && span_to_int64(index, &number);
    for (uint32_t i = stream->call_count; i-- > 0;) {
        struct call *call = &stream->calls[i];
        if (numbered && call->index != number)
            continue;
        if (id.size > 0 && call->id.size > 0 && !span_equal(kept(&call->id), id)) {
            if (numbered)
                break;
            continue;
        }
        *out_call = call;
        return OK;
    }
    return new_call(stream, number, out_call);
}

/* Keeps what is said once: the first that is not empty. */
static enum err keep_once(struct stream *stream, struct buffer *buffer, struct span text)
{
    if (buffer->size > 0 || !value_has_text(text))
        return OK;
    return hold(stream, buffer, value_inside(text));
}

/* Passes a piece of arguments on, or holds it until its call's turn comes. Nothing goes out behind
 * the end of the object: some servers repeat themselves there. */
static enum err take_arguments(struct turn *turn, struct call *call, struct span arguments)
{
    struct stream *stream = turn->stream;
    if (!value_has_text(arguments))
        return OK;
    struct span raw = value_inside(arguments);
    raw.size = follow(&call->progress, raw);
    if (raw.size == 0)
        return OK;
    if (!call->begun)
        return hold(stream, &call->held, raw);
    write_delta(turn, SPAN("input_json_delta"), SPAN("partial_json"), raw);
    return OK;
}

static enum err take_call(struct turn *turn, struct span piece)
{
    struct member members[] = {
        {.name = SPAN("index")}, {.name = SPAN("id")}, {.name = SPAN("function")}};
    struct member function[] = {{.name = SPAN("name")}, {.name = SPAN("arguments")}};
    struct call *call;
    value_find_these(piece, members);
    value_find_these(members[2].value, function);
    const struct span id =
        value_has_text(members[1].value) ? value_inside(members[1].value) : (struct span){NULL, 0};
    enum err err = find_call(turn->stream, members[0].value, id, &call);
    turn->answering->ending.tools = true;
    if (err == OK)
        err = keep_once(turn->stream, &call->id, members[1].value);
    if (err == OK && !call->begun)
        err = keep_once(turn->stream, &call->name, function[0].value);
    if (err == OK)
        err = take_arguments(turn, call, function[1].value);
    if (err == OK)
        advance(turn, false);
    return err;
}

/* A list, or one call alone (older TGI). */
static enum err take_calls(struct turn *turn, struct span calls)
{
    struct value_walk walk;
    struct span piece;
    enum err err = OK;
    if (value_is(calls, '{'))
        return take_call(turn, calls);
    value_walk_list(&walk, calls);
    while (err == OK && value_next_element(&walk, &piece))
        err = take_call(turn, piece);
    return err;
}

/* ---- one event in ---- */

static enum err take_delta(struct turn *turn, struct span delta)
{
    struct member members[] = {{.name = SPAN("content")},
                               {.name = SPAN("refusal")},
                               {.name = SPAN("reasoning_content")},
                               {.name = SPAN("reasoning")},
                               {.name = SPAN("tool_calls")}};
    value_find_these(delta, members);
    turn->answering->ending.refused |= value_has_text(members[1].value);
    enum err err =
        take_text(turn, BLOCK_THINKING, messages_thinking(members[2].value, members[3].value));
    if (err == OK)
        err = take_text(turn, BLOCK_TEXT, members[0].value);
    if (err == OK)
        err = take_text(turn, BLOCK_TEXT, members[1].value);
    if (err == OK)
        err = take_calls(turn, members[4].value);
    if (err == OK && !is_calling(turn->stream))
        pass_late_texts(turn);
    return err;
}

/* Only the first choice: a message holds one answer, and more were not asked for. */
static enum err take_choices(struct turn *turn, struct span choices)
{
    struct member members[] = {{.name = SPAN("index")}, {.name = SPAN("delta")}};
    struct value_walk walk;
    struct span choice;
    value_walk_list(&walk, choices);
    while (value_next_element(&walk, &choice)) {
        value_find_these(choice, members);
        if (members[0].value.data != NULL && !span_equal(members[0].value, SPAN("0")))
            continue;
        if (!messages_take_finish(&turn->answering->ending, choice))
            return ERR_NO_MEMORY;
        const enum err err = take_delta(turn, members[1].value);
        if (err != OK)
            return err;
    }
    return OK;
}

/* The server has failed: nothing comes behind its error (Streaming, error events). */
static void pass_error(struct turn *turn, struct span json)
{
    struct arena arena;
    struct fault fault;
    arena_init(&arena, NULL, 0, 4 * FAULT_MESSAGE_BYTES);
    fault_read(json, &arena, &fault);
    fault_write_event(&fault, ENDPOINT_MESSAGES, turn->out);
    arena_fini(&arena);
    turn->stream->over = true;
}

/* Gets the stream ready; NULL without memory. */
static struct stream *stream_of(struct answering *answering)
{
    if (answering->stream == NULL)
        answering->stream = calloc(1, sizeof *answering->stream);
    return answering->stream;
}

enum err messages_event(void *state, struct span json, struct writer *out)
{
    struct answering *answering = state;
    struct member root[] = {{.name = SPAN("choices")},
                            {.name = SPAN("usage")},
                            {.name = SPAN("error")},
                            {.name = SPAN("object")}};
    struct turn turn = {answering, stream_of(answering), out};
    struct span object;
    if (turn.stream == NULL)
        return ERR_NO_MEMORY;
    if (turn.stream->over)
        return OK;
    if (!value_read(json, SCAN_DEPTH_MAX, &object) || !value_is(object, '{'))
        return ERR_REPLICA_PROTOCOL;
    value_find_these(object, root);
    if (root[2].value.data != NULL || value_says(root[3].value, SPAN("error"))) {
        pass_error(&turn, json);
        return out->err;
    }
    messages_take_usage(&answering->ending, root[1].value);
    start_message(&turn);
    const enum err err = take_choices(&turn, root[0].value);
    return err != OK ? err : out->err;
}

enum err messages_end(void *state, struct writer *out)
{
    struct answering *answering = state;
    struct turn turn = {answering, stream_of(answering), out};
    if (turn.stream == NULL)
        return ERR_NO_MEMORY;
    if (turn.stream->over)
        return OK;
    start_message(&turn);
    advance(&turn, true);
    pass_late_texts(&turn);
    close_block(&turn);
    begin_event(out, SPAN("message_delta"));
    writer_literal(out, ",\"delta\":{");
    messages_write_stop(&answering->ending, out);
    writer_literal(out, "},");
    messages_write_usage(&answering->ending, out);
    end_event(out);
    begin_event(out, SPAN("message_stop"));
    end_event(out);
    turn.stream->over = true;
    return out->err;
}
