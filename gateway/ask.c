/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask.c: a JSON body to an ask, in one pass.
 *
 * For:       what routing, metering and limits need to know of a body, for every endpoint.
 * Called by: steps.c, parcel.c.
 * Knows not: sockets, tenants, prices; how the body got here.
 *
 * A table names the members that matter, the endpoints that have them, and the function that reads
 * each; all others are passed over and go on as they came. */
#include "gateway/ask.h"

#include "gateway/ask_prompt.h"

/* ---- members of the outermost object ---- */

static bool read_model(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    reader->ask.model_place = ask_place_of(reader, value);
    if (value_is(value, 'n'))
        return true;
    if (!value_is(value, '"'))
        return ask_bad_value(reader, value, "model must be a string", member->name.data);
    if (value_inside(value).size == 0)
        return true;
    return ask_take_text(reader, value, member->name.data, &reader->ask.model);
}

/* Takes true, false or null. */
static bool read_flag(struct ask_reader *reader, const char *message, const char *param,
                      bool *out_flag, struct ask_place *out_place)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (value.data[0] != 't' && value.data[0] != 'f' && !value_is(value, 'n'))
        return ask_bad_value(reader, value, message, param);
    *out_flag = value.data[0] == 't';
    *out_place = ask_place_of(reader, value);
    return true;
}

static bool read_stream(struct ask_reader *reader, const struct ask_member *member)
{
    return read_flag(reader, "stream must be true or false", member->name.data, &reader->ask.stream,
                     &reader->ask.stream_place);
}

/* Takes the members of stream_options; the two that we set may stand there once. */
static bool read_stream_options(struct ask_reader *reader, const struct ask_member *member)
{
    struct scan *scan = &reader->scan;
    struct ask *ask = &reader->ask;
    bool first = true;
    char scratch[VALUE_NAME_BYTES];
    enum scan_type type;
    struct span key;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;

    const char *start = scan->at;

    if (type == SCAN_NULL) {
        if (!scan_skip(scan, &value))
            return false;
        ask->stream_options_place = ask_place_of(reader, value);
        return true;
    }
    if (type != SCAN_OBJECT)
        return ask_bad_value(reader, ask_here(reader), "stream_options must be an object",
                             member->name.data);
    reader->has_options = true;
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const struct span name = value_name(key, scratch);
        const bool usage = span_equal(name, SPAN("include_usage"));
        const bool running = span_equal(name, SPAN("continuous_usage_stats"));
        struct ask_place *place = usage ? &ask->include_usage_place : &ask->continuous_usage_place;

        if (!usage && !running) {
            if (!scan_skip(scan, &value))
                return false;
            continue;
        }
        if (place->size > 0)
            return ask_refuse(reader, ERR_BAD_JSON, key.data - 1,
                              "this key stands twice in the object", member->name.data);
        if (!read_flag(reader, "include_usage and continuous_usage_stats must be true or false",
                       member->name.data, usage ? &ask->include_usage : &ask->continuous_usage,
                       place))
            return false;
    }
    if (scan->problem != NULL)
        return false;
    ask->stream_options_place =
        ask_place_of(reader, (struct span){start, (size_t)(scan->at - start)});
    return true;
}

/* Takes a whole number of at least `minimum`, or null. */
static bool read_count(struct ask_reader *reader, const struct ask_member *member, int64_t minimum,
                       int64_t maximum, int64_t *out_count)
{
    struct span value;
    int64_t count;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (value_is(value, 'n'))
        return true;
    if (!span_to_int64(value, &count))
        return ask_bad_value(reader, value, "this must be a whole number", member->name.data);
    if (count < minimum || count > maximum)
        return ask_bad_value(reader, value, "this number is out of the range served here",
                             member->name.data);
    *out_count = count;
    return true;
}

static bool read_n(struct ask_reader *reader, const struct ask_member *member)
{
    return read_count(reader, member, 1, reader->limits->n, &reader->ask.n);
}

static bool read_best_of(struct ask_reader *reader, const struct ask_member *member)
{
    return read_count(reader, member, 1, reader->limits->n, &reader->best_of);
}

static bool read_tokens(struct ask_reader *reader, const struct ask_member *member)
{
    return read_count(reader, member, 0, INT64_MAX, &reader->tokens);
}

static bool read_completion_tokens(struct ask_reader *reader, const struct ask_member *member)
{
    return read_count(reader, member, 0, INT64_MAX, &reader->completion_tokens);
}

static bool read_metadata(struct ask_reader *reader, const struct ask_member *member)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    char scratch[VALUE_NAME_BYTES];
    enum scan_type type;
    struct span key;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_OBJECT)
        return scan_skip(scan, &value);
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        if (!scan_skip(scan, &value))
            return false;
        if (value_is(value, '"') && span_equal(value_name(key, scratch), SPAN("task_class")) &&
            !ask_take_text(reader, value, member->name.data, &reader->ask.task_class))
            return false;
    }
    return scan->problem == NULL;
}

/* The place of the member whose value has just been taken, its key included. */
static struct ask_place whole_member(const struct ask_reader *reader)
{
    const char *key = reader->member_at;

    return ask_place_of(reader, (struct span){key, (size_t)(reader->scan.at - key)});
}

static bool read_cache_salt(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    reader->ask.cache_salt_member = whole_member(reader);
    if (value_is(value, 'n'))
        return true;
    if (!value_is(value, '"'))
        return ask_bad_value(reader, value, "cache_salt must be a string", member->name.data);
    reader->ask.cache_salt_place = ask_place_of(reader, value);
    return true;
}

/* What LiteLLM's clients say about a cache: for us, not for a model server. */
static bool read_cache(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (value.data[0] != '{' && !value_is(value, 'n'))
        return ask_bad_value(reader, value, "cache must be an object", member->name.data);
    reader->ask.cache_place = whole_member(reader);
    return true;
}

static bool read_refused(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!value_is(value, 'n')) {
        reader->ask.refused |= member->bits;
        reader->ask.refused_name = member->name;
    }
    return true;
}

static bool read_prompt_embeds(struct ask_reader *reader, const struct ask_member *member)
{
    if (!read_refused(reader, member))
        return false;
    if (reader->ask.refused & REFUSED_PROMPT_EMBEDS)
        reader->given |= GIVEN_FIRST;
    return true;
}

/* tools or functions; with bits they are the tools that classes look at. */
static bool read_tools(struct ask_reader *reader, const struct ask_member *member)
{
    struct scan *scan = &reader->scan;
    struct ask *ask = &reader->ask;
    enum scan_type type;
    bool first = true;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_ARRAY)
        return ask_read_text(reader, member);

    const char *start = scan->at;

    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first)) {
        ask->tool_count++;
        if (!scan_skip(scan, &value))
            return false;
    }
    ask->tools = ask->tools || (member->bits && ask->tool_count > 0);
    ask->text_bytes += scan->at - start;
    ask->tool_bytes += scan->at - start;
    return scan->problem == NULL;
}

static bool read_service_tier(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    (void)member;
    if (!scan_skip(&reader->scan, &value))
        return false;
    for (enum service_tier tier = TIER_STANDARD; tier < SERVICE_TIERS; tier++)
        if (value_says(value, service_tier_name(tier)))
            reader->ask.tier = tier;
    if (value_says(value, SPAN("fast"))) /* OpenAI's other name for it */
        reader->ask.tier = TIER_PRIORITY;
    return true;
}

static bool read_response_format(struct ask_reader *reader, const struct ask_member *member)
{
    struct scan *scan = &reader->scan;
    enum scan_type type;
    bool first = true;
    char scratch[VALUE_NAME_BYTES];
    struct span key;
    struct span value;

    (void)member;
    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_OBJECT)
        return scan_skip(scan, &value);
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        if (!scan_skip(scan, &value))
            return false;
        reader->ask.other_bytes += (int64_t)(key.size + value.size);
        if (!value_is(value, '"') || !span_equal(value_name(key, scratch), SPAN("type")))
            continue;

        const struct span name = value_name(value_inside(value), scratch);

        if (span_equal(name, SPAN("json_schema")) || span_equal(name, SPAN("json_object")))
            reader->ask.schema = true;
    }
    return scan->problem == NULL;
}

static bool read_schema(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    (void)member;
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!value_is(value, 'n')) {
        reader->ask.schema = true;
        reader->ask.other_bytes += (int64_t)value.size;
    }
    return true;
}

/* text and output_config: their member "format" is a response format. */
static bool read_format_within(struct ask_reader *reader, const struct ask_member *member)
{
    struct scan *scan = &reader->scan;
    enum scan_type type;
    bool first = true;
    char scratch[VALUE_NAME_BYTES];
    struct span key;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_OBJECT)
        return scan_skip(scan, &value);
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const bool format = span_equal(value_name(key, scratch), SPAN("format"));

        if (!(format ? read_response_format(reader, member) : scan_skip(scan, &value)))
            return false;
    }
    return scan->problem == NULL;
}

/* What needs state that no gateway keeps: responses are served without any, so that each can go to
 * any replica. */
static bool read_stateful(struct ask_reader *reader, const struct ask_member *member)
{
    static const char *const instead[] = {
        "responses are not kept here: send the whole conversation as input, not its id",
        "conversations are not kept here: send the whole conversation as input",
        "stored prompts are not kept here: send their text as instructions and input",
    };
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!value_is(value, 'n'))
        return ask_bad_value(reader, value, instead[member->bits], member->name.data);
    return true;
}

static bool read_background(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (value.data[0] != 'f' && !value_is(value, 'n'))
        return ask_bad_value(reader, value,
                             "responses are not kept here: leave background out, and stream the "
                             "answer if it takes long",
                             member->name.data);
    return true;
}

/* ---- the table, and the pass ---- */

#define IN(endpoint) (1u << ENDPOINT_##endpoint)
#define IN_CHAT IN(CHAT)
#define IN_TEXT IN(COMPLETIONS)
#define IN_BOTH (IN_CHAT | IN_TEXT)
#define IN_RESPONSES IN(RESPONSES)
#define IN_CLAUDE (IN(MESSAGES) | IN(COUNT_TOKENS))
#define IN_RANKS (IN(RERANK) | IN(RERANK_V2))
#define IN_SCORES IN(SCORE)
#define IN_VECTORS (IN(EMBEDDINGS) | IN(POOLING) | IN(CLASSIFY))
#define IN_TOKENS IN(TOKENIZE)
#define IN_ALL (~0u)

/* clang-format off */

/* By size, so that a look-up is short. What SGLang calls by other names than vLLM is refused with
 * the same leave: rid, session_params, bootstrap_ and dp rank; its custom_logit_processor is code.
 */
static const struct ask_member members[] = {
    {SPAN("n"),                     IN_BOTH,      read_n,                 0},
    {SPAN("rid"),                   IN_ALL,       read_refused,           REFUSED_REQUEST_ID},
    {SPAN("data"),                  IN(POOLING),  ask_read_data,          0},
    {SPAN("text"),                  IN_RESPONSES, read_format_within,     0},
    {SPAN("cache"),                 IN_ALL,       read_cache,             0},
    {SPAN("input"),                 IN_RESPONSES, ask_read_items,         0},
    {SPAN("input"),                 IN_VECTORS,   ask_read_prompt,        INPUT_OBJECTS},
    {SPAN("items"),                 IN_SCORES,    ask_read_side,          GIVEN_SECOND},
    {SPAN("model"),                 IN_ALL,       read_model,             0},
    {SPAN("query"),                 IN_RANKS | IN_SCORES, ask_read_side,  GIVEN_FIRST},
    {SPAN("texts"),                 IN_RANKS,     ask_read_side,          GIVEN_SECOND},
    {SPAN("tools"),                 IN_CHAT | IN_RESPONSES | IN_CLAUDE | IN_TOKENS, read_tools, 1},
    {SPAN("data_1"),                IN_SCORES,    ask_read_side,          GIVEN_FIRST},
    {SPAN("data_2"),                IN_SCORES,    ask_read_side,          GIVEN_SECOND},
    {SPAN("prompt"),                IN_TEXT | IN_TOKENS, ask_read_prompt, 0},
    {SPAN("prompt"),                IN_RESPONSES, read_stateful,          2},
    {SPAN("stream"),                IN_BOTH | IN_RESPONSES | IN(MESSAGES), read_stream, 0},
    {SPAN("suffix"),                IN_TEXT,      ask_read_text,          0},
    {SPAN("system"),                IN_CLAUDE,    ask_read_instructions,  0},
    {SPAN("text_1"),                IN_SCORES,    ask_read_side,          GIVEN_FIRST},
    {SPAN("text_2"),                IN_SCORES,    ask_read_side,          GIVEN_SECOND},
    {SPAN("tokens"),                IN(DETOKENIZE), ask_read_text,        GIVEN_FIRST},
    {SPAN("best_of"),               IN_TEXT,      read_best_of,           0},
    {SPAN("content"),               IN_TOKENS,    ask_read_text,          GIVEN_FIRST},
    {SPAN("queries"),               IN_SCORES,    ask_read_side,          GIVEN_FIRST},
    {SPAN("messages"),              IN_CHAT | IN_CLAUDE | IN_VECTORS | IN_TOKENS, ask_read_messages, 0},
    {SPAN("metadata"),              IN_ALL,       read_metadata,          0},
    {SPAN("priority"),              IN_ALL,       read_refused,           REFUSED_PRIORITY},
    {SPAN("documents"),             IN_CHAT,      ask_read_text,          0},
    {SPAN("documents"),             IN_RANKS | IN_SCORES, ask_read_side,  GIVEN_SECOND},
    {SPAN("functions"),             IN_CHAT,      read_tools,             0},
    {SPAN("extra_key"),             IN_ALL,       read_refused,           REFUSED_VLLM_XARGS},
    {SPAN("background"),            IN_RESPONSES, read_background,        0},
    {SPAN("cache_salt"),            IN_ALL,       read_cache_salt,        0},
    {SPAN("max_tokens"),            IN_BOTH | IN(MESSAGES), read_tokens,  0},
    {SPAN("request_id"),            IN_ALL,       read_refused,           REFUSED_REQUEST_ID},
    {SPAN("session_id"),            IN_ALL,       read_refused,           REFUSED_SESSION_ID},
    {SPAN("vllm_xargs"),            IN_ALL,       read_refused,           REFUSED_VLLM_XARGS},
    {SPAN("guided_json"),           IN_BOTH | IN_RESPONSES, read_schema,  0},
    {SPAN("conversation"),          IN_RESPONSES, read_stateful,          1},
    {SPAN("instructions"),          IN_RESPONSES, ask_read_instructions,  0},
    {SPAN("service_tier"),          IN_BOTH | IN_RESPONSES | IN(MESSAGES), read_service_tier, 0},
    {SPAN("chat_template"),         IN_ALL,       read_refused,           REFUSED_CHAT_TEMPLATE},
    {SPAN("output_config"),         IN_CLAUDE,    read_format_within,     0},
    {SPAN("output_format"),         IN_CLAUDE,    read_response_format,   0},
    {SPAN("prompt_embeds"),         IN_TEXT,      read_prompt_embeds,     REFUSED_PROMPT_EMBEDS},
    {SPAN("prompt_embeds"),         IN_ALL,       read_refused,           REFUSED_PROMPT_EMBEDS},
    {SPAN("stream_options"),        IN_BOTH,      read_stream_options,    0},
    {SPAN("session_params"),        IN_ALL,       read_refused,           REFUSED_SESSION_ID},
    {SPAN("bootstrap_host"),        IN_ALL,       read_refused,           REFUSED_KV_TRANSFER_PARAMS},
    {SPAN("bootstrap_port"),        IN_ALL,       read_refused,           REFUSED_KV_TRANSFER_PARAMS},
    {SPAN("bootstrap_room"),        IN_ALL,       read_refused,           REFUSED_KV_TRANSFER_PARAMS},
    {SPAN("routed_dp_rank"),        IN_ALL,       read_refused,           REFUSED_KV_TRANSFER_PARAMS},
    {SPAN("response_format"),       IN_BOTH,      read_response_format,   0},
    {SPAN("max_output_tokens"),     IN_RESPONSES, read_tokens,            0},
    {SPAN("previous_response"),     IN_RESPONSES, ask_read_text,          0},
    {SPAN("ec_transfer_params"),    IN_ALL,       read_refused,           REFUSED_EC_TRANSFER_PARAMS},
    {SPAN("kv_transfer_params"),    IN_ALL,       read_refused,           REFUSED_KV_TRANSFER_PARAMS},
    {SPAN("structured_outputs"),    IN_BOTH | IN_RESPONSES, read_schema,  0},
    {SPAN("data_parallel_rank"),    IN_ALL,       read_refused,           REFUSED_KV_TRANSFER_PARAMS},
    {SPAN("previous_response_id"),  IN_RESPONSES, read_stateful,          0},
    {SPAN("max_completion_tokens"), IN_CHAT,      read_completion_tokens, 0},
    {SPAN("custom_logit_processor"), IN_ALL,      read_refused,           REFUSED_VLLM_XARGS},
    {SPAN("previous_input_messages"), IN_RESPONSES, ask_read_text,        0},
};

/* clang-format on */

#define MEMBER_COUNT (sizeof(members) / sizeof(members[0]))

/* The member of this name that the endpoint has; NULL: it is none of ours. */
static const struct ask_member *find_member(struct span key, uint32_t endpoint_bit)
{
    size_t at = 0;

    for (size_t step = 32; step > 0; step /= 2)
        if (at + step <= MEMBER_COUNT && members[at + step - 1].name.size < key.size)
            at += step;
    for (; at < MEMBER_COUNT && members[at].name.size == key.size; at++)
        if ((members[at].endpoints & endpoint_bit) &&
            memcmp(members[at].name.data, key.data, key.size) == 0)
            return &members[at];
    return NULL;
}

uint32_t ask_refused_bits(struct span name)
{
    const struct ask_member *member = find_member(name, IN(TRANSCRIPTIONS));

    return member != NULL && member->read == read_refused ? member->bits : 0;
}

static bool read_members(struct ask_reader *reader, uint32_t endpoint_bit)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    struct span raw;
    struct span key;
    struct span value;

    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    reader->ask.open_at = scan_offset(scan);
    while (scan_member(scan, &first, &raw)) {
        if (!ask_take_key(reader, raw, &key))
            return false;

        const struct ask_member *member = find_member(key, endpoint_bit);

        reader->member_at = raw.data - 1;
        if (member != NULL) {
            if (!member->read(reader, member))
                return false;
            continue;
        }
        if (!scan_skip(scan, &value))
            return false;
        reader->ask.other_bytes += (int64_t)value.size;
    }
    reader->ask.empty = reader->keys.count == 0;
    return scan_finish(scan);
}

#define IN_GENERATED (IN_BOTH | IN_RESPONSES | IN(MESSAGES))

/* What an endpoint cannot do without, as its own documents name it. */
struct needed {
    const char *first, *second;
};

static const struct needed needs[ENDPOINT_COUNT] = {
    [ENDPOINT_CHAT] = {"messages", NULL},       [ENDPOINT_COMPLETIONS] = {"prompt", NULL},
    [ENDPOINT_EMBEDDINGS] = {"input", NULL},    [ENDPOINT_RESPONSES] = {"input", NULL},
    [ENDPOINT_MESSAGES] = {"messages", NULL},   [ENDPOINT_COUNT_TOKENS] = {"messages", NULL},
    [ENDPOINT_RERANK] = {"query", "documents"}, [ENDPOINT_RERANK_V2] = {"query", "documents"},
    [ENDPOINT_SCORE] = {"text_1", "text_2"},    [ENDPOINT_TOKENIZE] = {"prompt", NULL},
    [ENDPOINT_DETOKENIZE] = {"tokens", NULL},   [ENDPOINT_POOLING] = {"input", NULL},
    [ENDPOINT_CLASSIFY] = {"input", NULL},
};

static bool missing(struct ask_reader *reader, const char *name)
{
    return ask_refuse(reader, ERR_BAD_VALUE, reader->scan.start, "this field is missing", name);
}

/* What must hold between the members. */
static bool judge_members(struct ask_reader *reader, enum endpoint endpoint)
{
    const struct needed *needed = &needs[endpoint];
    struct ask *ask = &reader->ask;

    if (!(reader->given & GIVEN_FIRST))
        return missing(reader, needed->first);
    if (needed->second != NULL && !(reader->given & GIVEN_SECOND))
        return missing(reader, needed->second);
    if (endpoint == ENDPOINT_MESSAGES && reader->tokens < 0)
        return missing(reader, "max_tokens");
    if (reader->has_options && !ask->stream)
        return ask_refuse(reader, ERR_BAD_VALUE, reader->scan.start + ask->stream_options_place.at,
                          "stream_options needs stream: true", "stream_options");
    ask->max_tokens = reader->completion_tokens >= 0 ? reader->completion_tokens : reader->tokens;
    if (reader->best_of > ask->n)
        ask->n = reader->best_of;
    ask->continuous_usage = ask->continuous_usage && ask->include_usage;
    if (reader->instructions.data != NULL)
        ask->system_prompt = reader->instructions;
    ask_count_pairs(reader);
    return true;
}

enum err ask_read(enum endpoint endpoint, struct span body, const struct ask_limits *limits,
                  struct arena *arena, struct ask *out_ask, struct ask_problem *out_problem)
{
    struct ask_reader
        reader; /* members are set one by one: the keys seen are large and need no zeros */

    scan_init(&reader.scan, body, limits->json_depth);
    reader.arena = arena;
    reader.limits = limits;
    reader.ask = (struct ask){.n = 1,
                              .prompts = 1,
                              .max_tokens = -1,
                              .generates = ((1u << endpoint) & IN_GENERATED) != 0,
                              .stream_options = ((1u << endpoint) & IN_BOTH) != 0};
    reader.problem = (struct ask_problem){0};
    reader.err = OK;
    reader.given = 0;
    reader.has_options = false;
    reader.nested = 0;
    reader.completion_tokens = reader.tokens = reader.best_of = -1;
    reader.instructions = (struct span){NULL, 0};
    reader.sides[0] = reader.sides[1] = (struct side){0};
    reader.keys.count = reader.keys.slot_count = 0;
    reader.keys.probes = 0;
    reader.keys.slots = NULL;

    if (!read_members(&reader, 1u << endpoint) || !judge_members(&reader, endpoint)) {
        if (reader.err == OK) {
            reader.err = ERR_BAD_JSON;
            reader.problem =
                (struct ask_problem){scan_offset(&reader.scan), reader.scan.problem, NULL};
        }
        *out_problem = reader.problem;
        return reader.err;
    }
    *out_ask = reader.ask;
    return OK;
}
