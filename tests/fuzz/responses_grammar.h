/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/responses_grammar.h: is this a stream of events that the responses API allows?
 *
 * For:       a second opinion on what the gateway writes, built as a client builds an answer.
 * Called by: fuzz_translate_responses.c, test_translate_responses_answer.c.
 *
 * Checks: each event's name is its type; sequence numbers count from 0; created and in_progress
 * come first, one end comes last; items open in the order of output_index, parts in that of
 * content_index, and nothing happens in one that is not open; what is done repeats the deltas; the
 * end repeats the items. */
#ifndef TESTS_FUZZ_RESPONSES_GRAMMAR_H
#define TESTS_FUZZ_RESPONSES_GRAMMAR_H

#include "tests/fuzz/fuzz.h"

#include <jansson.h>

/* Its branches do not guide a fuzzer. Not all who include it need all of it. */
#define GRAMMAR NO_GUIDE static __attribute__((unused))

/* A stream under way. Its trees are jansson's; grammar_end() gives them back. */
struct grammar {
    json_int_t sequence;
    bool created, in_progress, ended;
    json_t *items; /* as the deltas made them, each with "parts": [{"type","text","over","done"}] */
    json_t *output; /* as response.output_item.done had them; null while open */
    void (*watch)(void *context, const json_t *event); /* told of each event, or NULL */
    void *context;
};

GRAMMAR void grammar_begin(struct grammar *grammar)
{
    *grammar = (struct grammar){.items = json_array(), .output = json_array()};
}

GRAMMAR void grammar_end(struct grammar *grammar)
{
    json_decref(grammar->items);
    json_decref(grammar->output);
}

GRAMMAR bool grammar_is(const json_t *object, const char *member, const char *text)
{
    const char *value = json_string_value(json_object_get(object, member));

    return value != NULL && strcmp(value, text) == 0;
}

GRAMMAR json_int_t grammar_number(const json_t *object, const char *member)
{
    const json_t *value = json_object_get(object, member);

    CHECK(json_is_integer(value));
    return json_integer_value(value);
}

GRAMMAR bool grammar_flag(const json_t *object, const char *member)
{
    return json_is_true(json_object_get(object, member));
}

/* The item that an event is about, which must be open. */
GRAMMAR json_t *grammar_item(const struct grammar *grammar, const json_t *event)
{
    json_t *item = json_array_get(grammar->items, (size_t)grammar_number(event, "output_index"));

    CHECK(item != NULL && !grammar_flag(item, "done"));
    CHECK(json_equal(json_object_get(item, "id"), json_object_get(event, "item_id")));
    return item;
}

/* The part that an event is about, which must be open and of this type. */
GRAMMAR json_t *grammar_part(const struct grammar *grammar, const json_t *event, const char *type)
{
    const json_t *item = grammar_item(grammar, event);
    json_t *part = json_array_get(json_object_get(item, "parts"),
                                  (size_t)grammar_number(event, "content_index"));

    CHECK(part != NULL && !grammar_flag(part, "done"));
    CHECK(type == NULL || grammar_is(part, "type", type));
    return part;
}

GRAMMAR void grammar_append(json_t *object, const char *member, const json_t *delta)
{
    json_t *before = json_object_get(object, member);
    const size_t size = json_string_length(before);
    const size_t more = json_string_length(delta);
    char *text = malloc(size + more + 1);

    CHECK(text != NULL && json_is_string(before) && json_is_string(delta));
    memcpy(text, json_string_value(before), size);
    memcpy(text + size, json_string_value(delta), more);
    CHECK(json_object_set_new(object, member, json_stringn(text, size + more)) == 0);
    free(text);
}

GRAMMAR const char *grammar_text_of(const json_t *part)
{
    return grammar_is(part, "type", "refusal") ? "refusal" : "text";
}

GRAMMAR void grammar_response(struct grammar *grammar, const json_t *event, const char *status)
{
    const json_t *response = json_object_get(event, "response");
    static const char *const needed[] = {"id",
                                         "created_at",
                                         "error",
                                         "incomplete_details",
                                         "instructions",
                                         "model",
                                         "parallel_tool_calls",
                                         "temperature",
                                         "tool_choice",
                                         "metadata",
                                         "tools",
                                         "top_p",
                                         "usage",
                                         "max_output_tokens",
                                         "reasoning",
                                         "output",
                                         "previous_response_id"};

    CHECK(grammar_is(response, "object", "response"));
    CHECK(grammar_is(response, "status", status));
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        CHECK(json_object_get(response, needed[i]) != NULL);
    CHECK(json_equal(json_object_get(response, "output"), grammar->output));
    CHECK(json_is_null(json_object_get(response, "error")) == (strcmp(status, "failed") != 0));
    CHECK(json_is_null(json_object_get(response, "incomplete_details")) ==
          (strcmp(status, "incomplete") != 0));
}

GRAMMAR void grammar_item_added(struct grammar *grammar, const json_t *event)
{
    const json_t *item = json_object_get(event, "item");
    json_t *mine = json_object();

    CHECK((size_t)grammar_number(event, "output_index") == json_array_size(grammar->items));
    CHECK(grammar_is(item, "status", "in_progress"));
    CHECK(json_array_size(json_object_get(item, "content")) == 0);
    json_object_set(mine, "id", json_object_get(item, "id"));
    json_object_set(mine, "type", json_object_get(item, "type"));
    json_object_set_new(mine, "parts", json_array());
    json_object_set_new(mine, "arguments", json_string(""));
    CHECK(!grammar_is(item, "type", "function_call") || grammar_is(item, "arguments", ""));
    CHECK(json_array_append_new(grammar->items, mine) == 0);
    CHECK(json_array_append_new(grammar->output, json_null()) == 0);
}

GRAMMAR void grammar_item_done(struct grammar *grammar, const json_t *event)
{
    const json_t *item = json_object_get(event, "item");
    const size_t place = (size_t)grammar_number(event, "output_index");
    json_t *mine = json_array_get(grammar->items, place);
    const json_t *parts = json_object_get(mine, "parts");

    CHECK(mine != NULL && !grammar_flag(mine, "done"));
    CHECK(json_equal(json_object_get(mine, "id"), json_object_get(item, "id")));
    CHECK(json_equal(json_object_get(mine, "type"), json_object_get(item, "type")));
    CHECK(grammar_is(item, "status", "completed") || grammar_is(item, "status", "incomplete"));
    CHECK(json_array_size(json_object_get(item, "content")) == json_array_size(parts));
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *whole = json_array_get(json_object_get(item, "content"), i);

        CHECK(grammar_flag(part, "done"));
        CHECK(json_equal(json_object_get(part, "whole"), whole));
    }
    if (grammar_is(item, "type", "function_call")) {
        CHECK(grammar_flag(mine, "over"));
        CHECK(json_equal(json_object_get(mine, "arguments"), json_object_get(item, "arguments")));
        CHECK(json_is_string(json_object_get(item, "name")));
        CHECK(json_string_length(json_object_get(item, "call_id")) > 0);
    } else {
        CHECK(json_array_size(parts) > 0);
    }
    json_object_set_new(mine, "done", json_true());
    CHECK(json_array_set(grammar->output, place, json_object_get(event, "item")) == 0);
}

GRAMMAR void grammar_part_added(struct grammar *grammar, const json_t *event)
{
    const json_t *item = grammar_item(grammar, event);
    json_t *parts = json_object_get(item, "parts");
    const json_t *part = json_object_get(event, "part");

    CHECK(!grammar_is(item, "type", "function_call"));
    CHECK((size_t)grammar_number(event, "content_index") == json_array_size(parts));
    CHECK(grammar_is(part, grammar_text_of(part), ""));
    CHECK(grammar_is(item, "type", "reasoning") == grammar_is(part, "type", "reasoning_text"));
    CHECK(json_array_append_new(parts, json_pack("{s:O,s:s}", "type", json_object_get(part, "type"),
                                                 "text", "")) == 0);
}

GRAMMAR void grammar_part_done(struct grammar *grammar, const json_t *event)
{
    json_t *mine = grammar_part(grammar, event, NULL);
    json_t *part = json_object_get(event, "part");

    CHECK(grammar_flag(mine, "over"));
    CHECK(json_equal(json_object_get(mine, "type"), json_object_get(part, "type")));
    CHECK(json_equal(json_object_get(mine, "text"), json_object_get(part, grammar_text_of(mine))));
    json_object_set_new(mine, "done", json_true());
    json_object_set(mine, "whole", part);
}

/* A delta of a part, or the text that repeats all of its deltas. */
GRAMMAR void grammar_inner(struct grammar *grammar, const json_t *event, const char *part_type,
                           bool delta)
{
    const bool call = part_type == NULL;
    json_t *mine = call ? grammar_item(grammar, event) : grammar_part(grammar, event, part_type);
    const char *member = call ? "arguments" : grammar_text_of(mine);

    CHECK(!call || grammar_is(mine, "type", "function_call"));
    CHECK(!grammar_flag(mine, "over"));
    if (!call && strcmp(part_type, "output_text") == 0)
        CHECK(json_is_array(json_object_get(event, "logprobs")));
    if (delta) {
        grammar_append(mine, call ? "arguments" : "text", json_object_get(event, "delta"));
        return;
    }
    CHECK(json_equal(json_object_get(mine, call ? "arguments" : "text"),
                     json_object_get(event, member)));
    json_object_set_new(mine, "over", json_true());
}

GRAMMAR void grammar_inside(struct grammar *grammar, const json_t *event, const char *type)
{
    if (strcmp(type, "response.output_item.added") == 0)
        grammar_item_added(grammar, event);
    else if (strcmp(type, "response.output_item.done") == 0)
        grammar_item_done(grammar, event);
    else if (strcmp(type, "response.content_part.added") == 0)
        grammar_part_added(grammar, event);
    else if (strcmp(type, "response.content_part.done") == 0)
        grammar_part_done(grammar, event);
    else if (strncmp(type, "response.output_text.", 21) == 0)
        grammar_inner(grammar, event, "output_text", strcmp(type + 21, "delta") == 0);
    else if (strncmp(type, "response.refusal.", 17) == 0)
        grammar_inner(grammar, event, "refusal", strcmp(type + 17, "delta") == 0);
    else if (strncmp(type, "response.reasoning_text.", 24) == 0)
        grammar_inner(grammar, event, "reasoning_text", strcmp(type + 24, "delta") == 0);
    else if (strncmp(type, "response.function_call_arguments.", 33) == 0)
        grammar_inner(grammar, event, NULL, strcmp(type + 33, "delta") == 0);
    else
        CHECK(false && "a type that is known");
}

GRAMMAR void grammar_event(struct grammar *grammar, const json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));

    CHECK(type != NULL && !grammar->ended);
    CHECK(grammar_number(event, "sequence_number") == grammar->sequence);
    if (grammar->sequence++ == 0) {
        CHECK(strcmp(type, "response.created") == 0);
        grammar_response(grammar, event, "in_progress");
    } else if (grammar->sequence == 2) {
        CHECK(strcmp(type, "response.in_progress") == 0);
        grammar_response(grammar, event, "in_progress");
    } else if (strcmp(type, "response.completed") == 0 ||
               strcmp(type, "response.incomplete") == 0 || strcmp(type, "response.failed") == 0) {
        grammar_response(grammar, event, type + strlen("response."));
        grammar->ended = true;
    } else {
        grammar_inside(grammar, event, type);
    }
    if (grammar->watch != NULL)
        grammar->watch(grammar->context, event);
}

/* Takes a line off the front, which must begin with what is given. */
GRAMMAR struct span grammar_line(struct span *sse, const char *with)
{
    const char *end = memchr(sse->data, '\n', sse->size);
    struct span line = {sse->data, end != NULL ? (size_t)(end - sse->data) : 0};

    CHECK(end != NULL && span_starts(line, span_of(with)));
    *sse = span_from(*sse, line.size + 1);
    return span_from(line, strlen(with));
}

/* Reads events as they are written to a client: "event: TYPE\ndata: {…}\n\n", nothing else. */
GRAMMAR void grammar_feed(struct grammar *grammar, struct span sse)
{
    while (sse.size > 0) {
        const struct span name = grammar_line(&sse, "event: ");
        const struct span data = grammar_line(&sse, "data: ");
        json_t *event = json_loadb(data.data, data.size, JSON_ALLOW_NUL, NULL);

        CHECK(grammar_line(&sse, "").size == 0);
        CHECK(event != NULL);
        CHECK(span_equal(name, span_of(json_string_value(json_object_get(event, "type")))));
        grammar_event(grammar, event);
        json_decref(event);
    }
}

#endif
