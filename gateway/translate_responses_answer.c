/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses_answer.c: a chat answer, whole or in events, as a responses answer.
 *
 * For:       what a delta, a finish_reason, a usage and an error become.
 * Called by: translate.c, by the row.
 * Knows not: how events and items are written (translate_responses_events.c).
 *
 * Source of what comes: OpenAI's API description (openapi.yaml), CreateChatCompletionResponse and
 * CreateChatCompletionStreamResponse; vLLM, SGLang, llama.cpp and TGI where they differ, as said
 * beside each. A whole answer is read as a stream of one event that nobody watches. */
#include "gateway/fault.h"
#include "gateway/translate_responses.h"

/* Texts of a stream stand again in its last events: so much is kept of them at most. A bound of
 * max_tokens is far below that. */
#define KEPT_BYTES_MAX (4u << 20)
#define TIER_BYTES_MAX 64
#define FAULT_ARENA_BYTES (64u << 10)

/* ---- items ---- */

static bool has_open(const struct answering *answering, enum item_kind kind)
{
    return answering->open != ITEM_NONE && answering->items[answering->open].kind == kind;
}

static void close_open(struct answering *answering)
{
    if (answering->open != ITEM_NONE)
        answering_finish_item(answering, answering->open, false);
    answering->open = ITEM_NONE;
}

/* The open item is of this kind hereafter; false: answering->err says why not. */
static bool open_item(struct answering *answering, enum item_kind kind)
{
    if (has_open(answering, kind))
        return true;
    close_open(answering);
    if (answering_new_item(answering, kind) == NULL)
        return false;
    answering->open = answering_add_item(answering, answering->item_count - 1);
    return true;
}

/* Everything that is open ends: what was written last was cut, if anything was. */
static void close_all(struct answering *answering)
{
    const bool failed = answering->ending == ENDING_FAILED;
    const bool cut = answering->ending == ENDING_LENGTH || answering->ending == ENDING_FILTER;

    for (size_t i = answering->added; i < answering->item_count; i++)
        if (answering->items[i].name.size > 0 || answering->items[i].text.size > 0)
            (void)answering_add_item(answering, i);
    for (size_t i = 0; i < answering->added; i++)
        answering_finish_item(answering, i, failed || (cut && i + 1 == answering->added));
    answering->open = ITEM_NONE;
}

/* ---- calls ---- */

struct call {
    int64_t index; /* -1: not given */
    struct span id, name, arguments;
};

static bool same(const struct buffer *kept, struct span text)
{
    return span_equal((struct span){kept->data, kept->size}, text);
}

/* Does this piece belong to that call? The index says so, unless id and name are others: servers
 * that give every call the index 0. An id alone says nothing: vLLM up to 0.8 made one up for each
 * piece. Without an index a piece with an id or a name begins a call, others go on with the last.
 */
static bool is_of_call(const struct item *item, const struct call *call)
{
    if (item->kind != ITEM_CALL || item->done)
        return false;
    if (call->index < 0)
        return call->id.size > 0 ? same(&item->call_id, call->id) : call->name.size == 0;
    return item->call_index == call->index &&
           !(call->id.size > 0 && call->name.size > 0 && item->call_id.size > 0 &&
             item->name.size > 0 && !same(&item->call_id, call->id));
}

/* Place of the call that this piece belongs to, which may be new; ITEM_NONE: answering->err says
 * why not. */
static size_t place_of(struct answering *answering, const struct call *call)
{
    for (size_t i = answering->item_count; i-- > 0;)
        if (is_of_call(&answering->items[i], call))
            return i;

    struct item *item = answering_new_item(answering, ITEM_CALL);

    if (item == NULL)
        return ITEM_NONE;
    item->call_index = call->index;
    return answering->item_count - 1;
}

/* Id and name are those that came first: some servers repeat them. A call is told of when its name
 * is known, as the event that begins it bears the name. */
static void read_call(struct answering *answering, const struct call *call)
{
    close_open(answering);

    size_t place = place_of(answering, call);

    if (place == ITEM_NONE)
        return;

    struct item *item = &answering->items[place];

    if (item->call_id.size == 0)
        answering_keep(answering, &item->call_id, call->id);
    if (item->name.size == 0)
        answering_keep(answering, &item->name, call->name);
    if (place >= answering->added && item->name.size > 0)
        place = answering_add_item(answering, place);
    if (call->arguments.size > 0)
        answering_argue(answering, place, call->arguments);
}

static void read_call_value(struct answering *answering, struct span value)
{
    struct member fields[] = {
        {SPAN("index"), {NULL, 0}}, {SPAN("id"), {NULL, 0}}, {SPAN("function"), {NULL, 0}}};
    struct member function[] = {{SPAN("name"), {NULL, 0}}, {SPAN("arguments"), {NULL, 0}}};
    struct call call = {.index = -1};

    if (!value_is(value, '{'))
        return;
    value_find_these(value, fields);
    value_find_these(fields[2].value, function);
    if (!span_to_int64(fields[0].value, &call.index))
        call.index = -1;
    call.id = value_inside(fields[1].value);
    call.name = value_inside(function[0].value);
    call.arguments = value_inside(function[1].value);
    read_call(answering, &call);
}

/* A list, or one call by itself: TGI before 3. */
static void read_calls(struct answering *answering, struct span calls)
{
    struct value_walk walk;
    struct span call;

    if (value_is(calls, '{'))
        read_call_value(answering, calls);
    value_walk_list(&walk, calls);
    while (value_next_element(&walk, &call))
        read_call_value(answering, call);
}

/* ---- choices ---- */

/* Elements of the list logprobs.content, without its brackets; {"", 0}: there are none. */
static struct span logprobs_in(struct span logprobs)
{
    struct member content = {SPAN("content"), {NULL, 0}};
    struct value_walk walk;
    struct span element;

    value_find(logprobs, &content, 1);
    value_walk_list(&walk, content.value);
    if (!value_next_element(&walk, &element))
        return (struct span){"", 0};
    return (struct span){content.value.data + 1, content.value.size - 2};
}

/* The order within one piece is that in which a model speaks: it thinks, says, calls. Logprobs
 * without text are of tokens that make no whole character yet: they go with the text before. */
static void read_delta(struct answering *answering, struct span delta, struct span logprobs)
{
    struct member fields[] = {{SPAN("reasoning"), {NULL, 0}},
                              {SPAN("reasoning_content"), {NULL, 0}},
                              {SPAN("content"), {NULL, 0}},
                              {SPAN("refusal"), {NULL, 0}},
                              {SPAN("tool_calls"), {NULL, 0}}};

    value_find_these(delta, fields);

    /* vLLM's newer name; the older one, which SGLang and llama.cpp have, may bear the same text. */
    struct span thought = value_inside(fields[0].value);
    const struct span said = value_inside(fields[2].value);
    const struct span refused = value_inside(fields[3].value);

    if (thought.size == 0)
        thought = value_inside(fields[1].value);
    if (thought.size > 0 && open_item(answering, ITEM_REASONING))
        answering_reason(answering, answering->open, thought);
    if ((said.size > 0 || (logprobs.size > 0 && has_open(answering, ITEM_MESSAGE))) &&
        open_item(answering, ITEM_MESSAGE))
        answering_say(answering, answering->open, said, logprobs);
    if (refused.size > 0 && open_item(answering, ITEM_MESSAGE))
        answering_refuse(answering, answering->open, refused);
    read_calls(answering, fields[4].value);
}

static void fail(struct answering *answering, struct span message, struct span code)
{
    answering->ending = ENDING_FAILED;
    answering->error_code = code;
    answering->error.text.size = 0;
    writer_text(&answering->error, message);
    if (answering->error.err != OK)
        answering->err = answering->error.err;
}

/* stop, tool_calls, function_call, and other names for a model that came to its own end. "abort" is
 * vLLM's for an answer that was broken off, "error" its and SGLang's for an engine that failed. */
static void read_finish(struct answering *answering, struct span reason)
{
    if (!value_is(reason, '"') || answering->ending != ENDING_OPEN)
        return;
    if (value_says(reason, SPAN("length")))
        answering->ending = ENDING_LENGTH;
    else if (value_says(reason, SPAN("content_filter")))
        answering->ending = ENDING_FILTER;
    else if (value_says(reason, SPAN("abort")) || value_says(reason, SPAN("error")))
        fail(answering, SPAN("the model server broke the answer off"), SPAN("server_error"));
    else
        answering->ending = ENDING_COMPLETED;
    close_all(answering);
}

/* A response has one answer: the ask cannot want more, so choices but the first are nobody's. */
static void read_choice(struct answering *answering, struct span choice)
{
    struct member fields[] = {{SPAN("index"), {NULL, 0}},
                              {SPAN("delta"), {NULL, 0}},
                              {SPAN("message"), {NULL, 0}},
                              {SPAN("finish_reason"), {NULL, 0}},
                              {SPAN("logprobs"), {NULL, 0}}};
    int64_t index = 0;

    value_find_these(choice, fields);
    if (!value_is(choice, '{') || (span_to_int64(fields[0].value, &index) && index != 0))
        return;
    read_delta(answering, answering->streams ? fields[1].value : fields[2].value,
               logprobs_in(fields[4].value));
    read_finish(answering, fields[3].value);
}

/* ---- usage and errors ---- */

static int64_t count_in(struct span value)
{
    int64_t count;

    return span_to_int64(value, &count) ? count : -1;
}

/* The last one counts: of running usage (vLLM's continuous_usage_stats) it is the sum. */
static void read_usage(struct answering *answering, struct span usage)
{
    struct member fields[] = {{SPAN("prompt_tokens"), {NULL, 0}},
                              {SPAN("completion_tokens"), {NULL, 0}},
                              {SPAN("total_tokens"), {NULL, 0}},
                              {SPAN("prompt_tokens_details"), {NULL, 0}},
                              {SPAN("completion_tokens_details"), {NULL, 0}},
                              {SPAN("reasoning_tokens"), {NULL, 0}}}; /* SGLang: not in details */
    struct member input[] = {{SPAN("cached_tokens"), {NULL, 0}},
                             {SPAN("cache_write_tokens"), {NULL, 0}},
                             {SPAN("created_cache_tokens"), {NULL, 0}}}; /* vLLM */
    struct member reasoning = {SPAN("reasoning_tokens"), {NULL, 0}};

    if (!value_is(usage, '{'))
        return;
    value_find_these(usage, fields);
    value_find_these(fields[3].value, input);
    value_find(fields[4].value, &reasoning, 1);
    answering->has_counts = true;
    answering->counts = (struct counts){
        .prompt = count_in(fields[0].value),
        .completion = count_in(fields[1].value),
        .total = count_in(fields[2].value),
        .cached = count_in(input[0].value),
        .cache_write = count_in(input[1].value.size > 0 ? input[1].value : input[2].value),
        .reasoning = count_in(reasoning.value.size > 0 ? reasoning.value : fields[5].value),
    };
}

/* The API has few codes for a response that failed (ResponseErrorCode); two of them are a model
 * server's to have. */
static void read_error(struct answering *answering, struct span json)
{
    char first[1024];
    struct arena arena;
    struct fault fault;

    arena_init(&arena, first, sizeof first, FAULT_ARENA_BYTES);
    fault_read(json, &arena, &fault);

    const bool limited = fault.status == 429 || span_equal(fault.type, SPAN("rate_limit_error")) ||
                         span_equal(fault.code, SPAN("rate_limit_exceeded"));

    fail(answering, fault.message.size > 0 ? fault.message : SPAN("the model server failed"),
         limited ? SPAN("rate_limit_exceeded") : SPAN("server_error"));
    arena_fini(&arena);
}

/* ---- a chunk, or a whole answer ---- */

enum chat_field { ERROR, OBJECT, CHOICES, USAGE, SERVICE_TIER, CHAT_FIELD_COUNT };

static bool is_error(const struct member *fields)
{
    const struct span error = fields[ERROR].value;

    return (error.size > 0 && !value_is(error, 'f')) ||
           value_says(fields[OBJECT].value, SPAN("error")); /* older vLLM and SGLang: flat */
}

/* The tier that served, as the server says it: responses bear it too. */
static void read_tier(struct answering *answering, struct span tier)
{
    const struct span raw = value_inside(tier);

    if (raw.size > 0 && raw.size <= TIER_BYTES_MAX && answering->service_tier.size == 0)
        answering_keep(answering, &answering->service_tier, raw);
}

static enum err read_chat(struct answering *answering, struct span json)
{
    struct member fields[CHAT_FIELD_COUNT] = {
        [ERROR] = {SPAN("error"), {NULL, 0}},
        [OBJECT] = {SPAN("object"), {NULL, 0}},
        [CHOICES] = {SPAN("choices"), {NULL, 0}},
        [USAGE] = {SPAN("usage"), {NULL, 0}},
        [SERVICE_TIER] = {SPAN("service_tier"), {NULL, 0}},
    };
    struct value_walk walk;
    struct span whole;
    struct span choice;

    if (!value_read(json, SCAN_DEPTH_MAX, &whole) || !value_is(whole, '{'))
        return ERR_REPLICA_PROTOCOL;
    value_find_these(whole, fields);
    read_tier(answering, fields[SERVICE_TIER].value);
    answering_begin(answering);
    read_usage(answering, fields[USAGE].value);
    if (is_error(fields)) {
        read_error(answering, whole);
        close_all(answering);
        answering_end(answering);
        return answering->err;
    }
    if (!answering->streams && !value_is(fields[CHOICES].value, '['))
        return ERR_REPLICA_PROTOCOL;
    value_walk_list(&walk, fields[CHOICES].value);
    while (value_next_element(&walk, &choice))
        read_choice(answering, choice);
    return answering->err;
}

enum err responses_event(void *state, struct span json, struct writer *out)
{
    struct answering *answering = state;

    if (answering->ended)
        return OK;
    answering->out = out;
    answering->streams = true;

    const enum err err = read_chat(answering, json);

    return err != OK ? err : out->err;
}

enum err responses_end(void *state, struct writer *out)
{
    struct answering *answering = state;

    if (answering->ended)
        return OK;
    answering->out = out;
    answering->streams = true;
    answering_begin(answering);
    close_all(answering);
    answering_end(answering);
    return answering->err != OK ? answering->err : out->err;
}

enum err responses_whole(void *state, struct span json, struct writer *out)
{
    struct answering *answering = state;

    answering->out = out;
    answering->kept_most = out->most;

    const enum err err = read_chat(answering, json);

    if (err != OK)
        return err;
    close_all(answering);
    answering_end(answering);
    answering_write_response(answering);
    return answering->err != OK ? answering->err : out->err;
}

int64_t responses_sequence(const void *state)
{
    const struct answering *answering = state;

    return answering->sequence;
}

/* ---- life ---- */

void *responses_begin(const struct translator_facts *facts)
{
    struct answering *answering = calloc(1, sizeof *answering);

    if (answering == NULL)
        return NULL;
    answering->created_s = facts->created_s;
    answering->open = ITEM_NONE;
    answering->kept_most = KEPT_BYTES_MAX;
    answering->error = writer_new(6 * FAULT_MESSAGE_BYTES + 2); /* each byte as \u00xx */
    answering->id = writer_new(6 * facts->exchange_id.size + 2);
    writer_text(&answering->id, facts->exchange_id);
    answering->echo = writer_new(ECHO_BYTES_MAX + 6 * facts->model.size + 4096);
    responses_write_echo(&answering->echo, facts);
    if (answering->id.err != OK || answering->echo.err != OK) {
        responses_end_of_life(answering);
        return NULL;
    }
    return answering;
}

void responses_end_of_life(void *state)
{
    struct answering *answering = state;

    for (size_t i = 0; i < answering->item_count; i++) {
        struct item *item = &answering->items[i];

        buffer_free(&item->text);
        buffer_free(&item->refusal);
        buffer_free(&item->logprobs);
        buffer_free(&item->call_id);
        buffer_free(&item->name);
    }
    free(answering->items);
    buffer_free(&answering->id.text);
    buffer_free(&answering->echo.text);
    buffer_free(&answering->error.text);
    buffer_free(&answering->service_tier);
    free(answering);
}
