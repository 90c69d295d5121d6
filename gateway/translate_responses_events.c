/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses_events.c: the events, items and the response object of an answer.
 *
 * For:       writing what the client sees, in an order that the API allows.
 * Called by: translate_responses_answer.c.
 * Knows not: chat completions.
 *
 * Source: OpenAI's API description (openapi.yaml), Response and the schemas Response*Event; its
 * reference page "Streaming events"; that the order suffices for clients: openai-node,
 * lib/responses/ResponseStream, which builds the answer of it (items are appended in the order of
 * their output_index, a part must have been added before its first delta, and a reasoning item's
 * text is a part of type reasoning_text).
 *
 *   response.created, response.in_progress
 *   for each item, several may be open at once:
 *     response.output_item.added
 *     message, reasoning: response.content_part.added, response.*.delta …, response.*.done,
 *                         response.content_part.done   (a message: for text, for refusal, or both)
 *     call:               response.function_call_arguments.delta …, .done
 *     response.output_item.done
 *   response.completed, response.incomplete or response.failed */
#include "gateway/translate_responses.h"

#define ITEMS_MAX 1024
#define LOGPROBS_BYTES_MAX (512u << 10)

static void put(struct answering *answering, struct span bytes)
{
    writer_put(answering->out, bytes);
}

static struct span kept(const struct buffer *buffer)
{
    return (struct span){buffer->size > 0 ? buffer->data : "", buffer->size};
}

void answering_keep(struct answering *answering, struct buffer *buffer, struct span raw)
{
    if (answering->err != OK || raw.size == 0)
        return;
    if (raw.size > answering->kept_most - answering->kept)
        answering->err = ERR_TOO_LARGE;
    else if (!buffer_append(buffer, raw))
        answering->err = ERR_NO_MEMORY;
    else
        answering->kept += raw.size;
}

/* ---- items ---- */

static struct span prefix_of(enum item_kind kind)
{
    switch (kind) {
    case ITEM_REASONING:
        return SPAN("rs_");
    case ITEM_MESSAGE:
        return SPAN("msg_");
    default:
        return SPAN("fc_");
    }
}

/* "PREFIX" EXCHANGE "_" place, in quotes. */
static void put_id(struct writer *writer, const struct answering *answering, struct span prefix,
                   size_t place)
{
    const struct span id = kept(&answering->id.text);

    writer_literal(writer, "\"");
    writer_put(writer, prefix);
    writer_put(writer, (struct span){id.data + 1, id.size - 2});
    writer_literal(writer, "_");
    writer_number(writer, (int64_t)place);
    writer_literal(writer, "\"");
}

static void put_text_part(struct answering *answering, struct span text, struct span logprobs)
{
    put(answering, SPAN("{\"type\":\"output_text\",\"text\":"));
    writer_raw(answering->out, text);
    put(answering, SPAN(",\"annotations\":[],\"logprobs\":["));
    put(answering, logprobs);
    put(answering, SPAN("]}"));
}

static void put_refusal_part(struct answering *answering, struct span refusal)
{
    put(answering, SPAN("{\"type\":\"refusal\",\"refusal\":"));
    writer_raw(answering->out, refusal);
    put(answering, SPAN("}"));
}

static void put_reasoning_part(struct answering *answering, struct span text)
{
    put(answering, SPAN("{\"type\":\"reasoning_text\",\"text\":"));
    writer_raw(answering->out, text);
    put(answering, SPAN("}"));
}

static void put_message_parts(struct answering *answering, const struct item *item)
{
    for (int i = 0; i == item->text_part || i == item->refusal_part; i++) {
        if (i > 0)
            put(answering, SPAN(","));
        if (i == item->text_part)
            put_text_part(answering, kept(&item->text), kept(&item->logprobs));
        else
            put_refusal_part(answering, kept(&item->refusal));
    }
}

/* An item as a whole or, until it is done, as it was when it began: empty. A summary of reasoning
 * is not what servers of chat completions give: they give its text (ReasoningItem.content). */
static void put_item(struct answering *answering, size_t place)
{
    const struct item *item = &answering->items[place];
    const bool done = item->done;

    put(answering, SPAN("{\"id\":"));
    put_id(answering->out, answering, prefix_of(item->kind), place);
    put(answering, SPAN(",\"status\":\""));
    put(answering, !done              ? SPAN("in_progress")
                   : item->incomplete ? SPAN("incomplete")
                                      : SPAN("completed"));
    if (item->kind == ITEM_REASONING) {
        put(answering, SPAN("\",\"type\":\"reasoning\",\"summary\":[],\"content\":["));
        if (done)
            put_reasoning_part(answering, kept(&item->text));
        put(answering, SPAN("]}"));
    } else if (item->kind == ITEM_MESSAGE) {
        put(answering, SPAN("\",\"type\":\"message\",\"role\":\"assistant\",\"content\":["));
        if (done)
            put_message_parts(answering, item);
        put(answering, SPAN("]}"));
    } else {
        put(answering, SPAN("\",\"type\":\"function_call\",\"call_id\":"));
        writer_raw(answering->out, kept(&item->call_id));
        put(answering, SPAN(",\"name\":"));
        writer_raw(answering->out, kept(&item->name));
        put(answering, SPAN(",\"arguments\":"));
        writer_raw(answering->out, done ? kept(&item->text) : SPAN(""));
        put(answering, SPAN("}"));
    }
}

/* ---- the response ---- */

static int64_t known(int64_t tokens)
{
    return tokens < 0 ? 0 : tokens;
}

/* What the server did not report is not made up: null; details that it left out are 0, as the API
 * demands numbers there. */
static void put_usage(struct answering *answering)
{
    const struct counts *counts = &answering->counts;
    const int64_t input = known(counts->prompt);
    const int64_t output = known(counts->completion);
    int64_t sum;

    put(answering, SPAN("\"usage\":"));
    if (!answering->has_counts) {
        put(answering, SPAN("null"));
        return;
    }
    if (__builtin_add_overflow(input, output, &sum))
        sum = INT64_MAX;
    put(answering, SPAN("{\"input_tokens\":"));
    writer_number(answering->out, input);
    put(answering, SPAN(",\"input_tokens_details\":{\"cached_tokens\":"));
    writer_number(answering->out, known(counts->cached));
    put(answering, SPAN(",\"cache_write_tokens\":"));
    writer_number(answering->out, known(counts->cache_write));
    put(answering, SPAN("},\"output_tokens\":"));
    writer_number(answering->out, output);
    put(answering, SPAN(",\"output_tokens_details\":{\"reasoning_tokens\":"));
    writer_number(answering->out, known(counts->reasoning));
    put(answering, SPAN("},\"total_tokens\":"));
    writer_number(answering->out, counts->total < 0 ? sum : counts->total);
    put(answering, SPAN("}"));
}

static struct span status_of(const struct answering *answering)
{
    if (!answering->ended)
        return SPAN("in_progress");
    switch (answering->ending) {
    case ENDING_LENGTH:
    case ENDING_FILTER:
        return SPAN("incomplete");
    case ENDING_FAILED:
        return SPAN("failed");
    default:
        return SPAN("completed");
    }
}

void answering_write_response(struct answering *answering)
{
    const struct span id = kept(&answering->id.text);

    put(answering, SPAN("{\"id\":\"resp_"));
    put(answering, span_from(id, 1));
    put(answering, SPAN(",\"object\":\"response\",\"created_at\":"));
    writer_number(answering->out, answering->created_s);
    put(answering, SPAN(",\"status\":\""));
    put(answering, status_of(answering));
    put(answering, SPAN("\",\"error\":"));
    if (answering->ended && answering->ending == ENDING_FAILED) {
        put(answering, SPAN("{\"code\":"));
        writer_text(answering->out, answering->error_code);
        put(answering, SPAN(",\"message\":"));
        put(answering, kept(&answering->error.text));
        put(answering, SPAN("}"));
    } else {
        put(answering, SPAN("null"));
    }
    put(answering, SPAN(",\"incomplete_details\":"));
    if (answering->ended && answering->ending == ENDING_LENGTH)
        put(answering, SPAN("{\"reason\":\"max_output_tokens\"},"));
    else if (answering->ended && answering->ending == ENDING_FILTER)
        put(answering, SPAN("{\"reason\":\"content_filter\"},"));
    else
        put(answering, SPAN("null,"));
    put(answering, kept(&answering->echo.text));
    if (answering->service_tier.size > 0) {
        put(answering, SPAN("\"service_tier\":"));
        writer_raw(answering->out, kept(&answering->service_tier));
        put(answering, SPAN(","));
    }
    put(answering, SPAN("\"output\":["));
    for (size_t i = 0; i < answering->added; i++) {
        if (i > 0)
            put(answering, SPAN(","));
        put_item(answering, i);
    }
    put(answering, SPAN("],"));
    put_usage(answering);
    put(answering, SPAN("}"));
}

/* ---- events ---- */

/* Begins an event; false: none go out. Its members begin with a comma. */
static bool begin_event(struct answering *answering, struct span type)
{
    if (!answering->streams)
        return false;
    put(answering, SPAN("event: "));
    put(answering, type);
    put(answering, SPAN("\ndata: {\"type\":\""));
    put(answering, type);
    put(answering, SPAN("\",\"sequence_number\":"));
    writer_number(answering->out, answering->sequence++);
    return true;
}

static void end_event(struct answering *answering)
{
    put(answering, SPAN("}\n\n"));
}

static void send_response(struct answering *answering, struct span type)
{
    if (!begin_event(answering, type))
        return;
    put(answering, SPAN(",\"response\":"));
    answering_write_response(answering);
    end_event(answering);
}

static void send_item(struct answering *answering, struct span type, size_t place)
{
    if (!begin_event(answering, type))
        return;
    put(answering, SPAN(",\"output_index\":"));
    writer_number(answering->out, (int64_t)place);
    put(answering, SPAN(",\"item\":"));
    put_item(answering, place);
    end_event(answering);
}

/* Begins an event about what is inside an item; part: its content_index, -1: it has none. */
static bool begin_inner(struct answering *answering, struct span type, size_t place, int part)
{
    if (!begin_event(answering, type))
        return false;
    put(answering, SPAN(",\"item_id\":"));
    put_id(answering->out, answering, prefix_of(answering->items[place].kind), place);
    put(answering, SPAN(",\"output_index\":"));
    writer_number(answering->out, (int64_t)place);
    if (part >= 0) {
        put(answering, SPAN(",\"content_index\":"));
        writer_number(answering->out, part);
    }
    return true;
}

/* An event with one text, and a list of logprobs where the API wants one. */
static void send_text(struct answering *answering, struct span type, size_t place, int part,
                      struct span member, struct span raw)
{
    if (!begin_inner(answering, type, place, part))
        return;
    put(answering, SPAN(","));
    writer_raw(answering->out, member);
    put(answering, SPAN(":"));
    writer_raw(answering->out, raw);
    end_event(answering);
}

static void send_said(struct answering *answering, struct span type, size_t place,
                      struct span member, struct span raw, struct span logprobs)
{
    if (!begin_inner(answering, type, place, answering->items[place].text_part))
        return;
    put(answering, SPAN(","));
    writer_raw(answering->out, member);
    put(answering, SPAN(":"));
    writer_raw(answering->out, raw);
    put(answering, SPAN(",\"logprobs\":["));
    put(answering, logprobs);
    put(answering, SPAN("]"));
    end_event(answering);
}

/* content_part.added, with an empty part, or .done with a whole one. */
static void send_part(struct answering *answering, struct span type, size_t place, int part,
                      bool whole)
{
    const struct item *item = &answering->items[place];
    const struct span none = SPAN("");

    if (!begin_inner(answering, type, place, part))
        return;
    put(answering, SPAN(",\"part\":"));
    if (item->kind == ITEM_REASONING)
        put_reasoning_part(answering, whole ? kept(&item->text) : none);
    else if (part == item->text_part)
        put_text_part(answering, whole ? kept(&item->text) : none,
                      whole ? kept(&item->logprobs) : none);
    else
        put_refusal_part(answering, whole ? kept(&item->refusal) : none);
    end_event(answering);
}

/* ---- what happens ---- */

void answering_begin(struct answering *answering)
{
    if (answering->begun)
        return;
    answering->begun = true;
    send_response(answering, SPAN("response.created"));
    send_response(answering, SPAN("response.in_progress"));
}

struct item *answering_new_item(struct answering *answering, enum item_kind kind)
{
    if (answering->err != OK)
        return NULL;
    if (answering->item_count == ITEMS_MAX) {
        answering->err = ERR_TOO_LARGE;
        return NULL;
    }
    if (answering->item_count == answering->item_room) {
        const size_t room = answering->item_room > 0 ? 2 * answering->item_room : 4;
        struct item *items = realloc(answering->items, room * sizeof *items);

        if (items == NULL) {
            answering->err = ERR_NO_MEMORY;
            return NULL;
        }
        answering->items = items;
        answering->item_room = room;
    }

    struct item *item = &answering->items[answering->item_count++];

    *item = (struct item){.kind = kind, .text_part = -1, .refusal_part = -1, .call_index = -1};
    return item;
}

/* A call needs an id for its output to be matched: servers that give none get one made up. */
static void name_call(struct answering *answering, size_t place)
{
    struct item *item = &answering->items[place];
    struct writer id = writer_new(ECHO_BYTES_MAX);

    if (item->call_id.size > 0)
        return;
    put_id(&id, answering, SPAN("call_"), place);
    if (id.err == OK)
        answering_keep(answering, &item->call_id,
                       (struct span){id.text.data + 1, id.text.size - 2});
    else
        answering->err = id.err;
    buffer_free(&id.text);
}

size_t answering_add_item(struct answering *answering, size_t place)
{
    const size_t to = answering->added++;
    const struct item item = answering->items[place];

    answering->items[place] = answering->items[to];
    answering->items[to] = item;
    if (item.kind == ITEM_CALL)
        name_call(answering, to);
    send_item(answering, SPAN("response.output_item.added"), to);
    if (item.kind == ITEM_REASONING) {
        answering->items[to].text_part = 0;
        send_part(answering, SPAN("response.content_part.added"), to, 0, false);
    } else if (item.kind == ITEM_CALL && item.text.size > 0) {
        send_text(answering, SPAN("response.function_call_arguments.delta"), to, -1, SPAN("delta"),
                  kept(&item.text));
    }
    return to;
}

void answering_reason(struct answering *answering, size_t place, struct span raw)
{
    answering_keep(answering, &answering->items[place].text, raw);
    send_text(answering, SPAN("response.reasoning_text.delta"), place, 0, SPAN("delta"), raw);
}

static void forget_logprobs(struct answering *answering, struct item *item)
{
    answering->kept -= item->logprobs.size;
    item->logprobs.size = 0;
}

/* Keeps more elements of the list; returns them on one line, as the data of an event must be. Those
 * of a long stream would make its last events, which repeat them four times, larger than any client
 * or gateway takes: then they stand in its deltas alone. */
static struct span keep_logprobs(struct answering *answering, struct item *item, struct span more)
{
    struct buffer *logprobs = &item->logprobs;

    if (answering->streams && more.size > 0 && logprobs->size + more.size > LOGPROBS_BYTES_MAX)
        item->logprobs_went = true;
    if (item->logprobs_went)
        forget_logprobs(answering, item);
    if (more.size > 0 && logprobs->size > 0)
        answering_keep(answering, logprobs, SPAN(","));

    const size_t from = logprobs->size;

    answering_keep(answering, logprobs, more);
    responses_join_lines(logprobs, from);
    return span_from(kept(logprobs), from);
}

void answering_say(struct answering *answering, size_t place, struct span raw, struct span logprobs)
{
    struct item *item = &answering->items[place];

    if (item->text_part < 0) {
        item->text_part = item->refusal_part + 1;
        send_part(answering, SPAN("response.content_part.added"), place, item->text_part, false);
    }
    answering_keep(answering, &item->text, raw);
    logprobs = keep_logprobs(answering, item, logprobs);
    send_said(answering, SPAN("response.output_text.delta"), place, SPAN("delta"), raw, logprobs);
    if (item->logprobs_went)
        forget_logprobs(answering, item);
}

void answering_refuse(struct answering *answering, size_t place, struct span raw)
{
    struct item *item = &answering->items[place];

    if (item->refusal_part < 0) {
        item->refusal_part = item->text_part + 1;
        send_part(answering, SPAN("response.content_part.added"), place, item->refusal_part, false);
    }
    answering_keep(answering, &item->refusal, raw);
    send_text(answering, SPAN("response.refusal.delta"), place, item->refusal_part, SPAN("delta"),
              raw);
}

void answering_argue(struct answering *answering, size_t place, struct span raw)
{
    answering_keep(answering, &answering->items[place].text, raw);
    if (place < answering->added)
        send_text(answering, SPAN("response.function_call_arguments.delta"), place, -1,
                  SPAN("delta"), raw);
}

static void finish_message(struct answering *answering, size_t place)
{
    const struct item *item = &answering->items[place];

    for (int i = 0; i == item->text_part || i == item->refusal_part; i++) {
        if (i == item->text_part)
            send_said(answering, SPAN("response.output_text.done"), place, SPAN("text"),
                      kept(&item->text), kept(&item->logprobs));
        else
            send_text(answering, SPAN("response.refusal.done"), place, i, SPAN("refusal"),
                      kept(&item->refusal));
        send_part(answering, SPAN("response.content_part.done"), place, i, true);
    }
}

/* name: openai-node's types have it, the description demands it since 2025. */
static void finish_call(struct answering *answering, size_t place)
{
    const struct item *item = &answering->items[place];

    if (!begin_inner(answering, SPAN("response.function_call_arguments.done"), place, -1))
        return;
    put(answering, SPAN(",\"name\":"));
    writer_raw(answering->out, kept(&item->name));
    put(answering, SPAN(",\"arguments\":"));
    writer_raw(answering->out, kept(&item->text));
    end_event(answering);
}

void answering_finish_item(struct answering *answering, size_t place, bool incomplete)
{
    struct item *item = &answering->items[place];

    if (item->done)
        return;
    item->done = true;
    item->incomplete = incomplete;
    if (item->kind == ITEM_MESSAGE) {
        finish_message(answering, place);
    } else if (item->kind == ITEM_CALL) {
        finish_call(answering, place);
    } else {
        send_text(answering, SPAN("response.reasoning_text.done"), place, 0, SPAN("text"),
                  kept(&item->text));
        send_part(answering, SPAN("response.content_part.done"), place, 0, true);
    }
    send_item(answering, SPAN("response.output_item.done"), place);
}

void answering_end(struct answering *answering)
{
    if (answering->ended)
        return;
    answering->ended = true;
    switch (answering->ending) {
    case ENDING_LENGTH:
    case ENDING_FILTER:
        send_response(answering, SPAN("response.incomplete"));
        break;
    case ENDING_FAILED:
        send_response(answering, SPAN("response.failed"));
        break;
    default:
        send_response(answering, SPAN("response.completed"));
    }
}
