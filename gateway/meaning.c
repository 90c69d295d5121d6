/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/meaning.c: see meaning.h.
 *
 * For:       members by the object they stand in, one table each.
 * Called by: tap.c.
 * Knows not: bytes, what is done with a value. */
#include "gateway/meaning.h"

struct member {
    struct span key;
    enum meaning meaning;
};

/* object says "error" in the flat errors of older vLLM and SGLang. */
static const struct member root_members[] = {
    {SPAN("choices"), CHOICES}, {SPAN("usage"), USAGE},       {SPAN("error"), ERROR},
    {SPAN("data"), DATA},       {SPAN("object"), EVENT_TYPE},
};

static const struct member usage_members[] = {
    {SPAN("prompt_tokens"), PROMPT_TOKENS},
    {SPAN("completion_tokens"), COMPLETION_TOKENS},
    {SPAN("total_tokens"), TOTAL_TOKENS},
    {SPAN("prompt_tokens_details"), PROMPT_DETAILS},
    {SPAN("completion_tokens_details"), COMPLETION_DETAILS},
    {SPAN("reasoning_tokens"), REASONING_TOKENS}, /* SGLang */
    {SPAN("input_tokens"), PROMPT_TOKENS},        /* responses and transcriptions */
    {SPAN("output_tokens"), COMPLETION_TOKENS},
    {SPAN("input_tokens_details"), PROMPT_DETAILS},
    {SPAN("output_tokens_details"), COMPLETION_DETAILS},
};

static const struct member prompt_members[] = {
    {SPAN("cached_tokens"), CACHED_TOKENS},
    {SPAN("created_cache_tokens"), CACHE_WRITE_TOKENS}, /* vLLM */
    {SPAN("cache_write_tokens"), CACHE_WRITE_TOKENS},
};

static const struct member completion_members[] = {
    {SPAN("reasoning_tokens"), REASONING_TOKENS},
};

static const struct member choice_members[] = {
    {SPAN("delta"), DELTA}, {SPAN("index"), INDEX},   {SPAN("finish_reason"), FINISH_REASON},
    {SPAN("text"), TEXT},   {SPAN("message"), DELTA},
};

static const struct member delta_members[] = {
    {SPAN("content"), TEXT}, {SPAN("reasoning"), TEXT},        {SPAN("reasoning_content"), TEXT},
    {SPAN("refusal"), TEXT}, {SPAN("tool_calls"), TOOL_CALLS}, {SPAN("function_call"), FUNCTION},
};

static const struct member tool_call_members[] = {
    {SPAN("function"), FUNCTION},
};

static const struct member function_members[] = {
    {SPAN("arguments"), TEXT},
};

/* Deltas of every kind (text, reasoning, refusal, arguments) are named alike; the events that end
 * them repeat the text under other names. Of the whole answer in an event, which repeats it too,
 * the output is not read. */
static const struct member responses_members[] = {
    {SPAN("type"), EVENT_TYPE}, {SPAN("delta"), TEXT},    {SPAN("sequence_number"), SEQUENCE},
    {SPAN("usage"), USAGE},     {SPAN("output"), OUTPUT}, {SPAN("response"), RESPONSE},
    {SPAN("error"), ERROR},
};

static const struct member response_members[] = {
    {SPAN("usage"), USAGE},
    {SPAN("error"), ERROR},
};

static const struct member output_item_members[] = {
    {SPAN("content"), OUTPUT_PARTS},
    {SPAN("summary"), OUTPUT_PARTS},
    {SPAN("arguments"), TEXT},
    {SPAN("input"), TEXT}, /* of a custom tool */
};

static const struct member output_part_members[] = {
    {SPAN("text"), TEXT},
    {SPAN("refusal"), TEXT},
};

static const struct member messages_members[] = {
    {SPAN("type"), EVENT_TYPE},           {SPAN("delta"), BLOCK_DELTA},
    {SPAN("usage"), MESSAGES_USAGE},      {SPAN("message"), MESSAGE},
    {SPAN("content_block"), BLOCK_DELTA}, {SPAN("content"), BLOCKS},
    {SPAN("stop_reason"), FINISH_REASON}, {SPAN("error"), ERROR},
};

static const struct member messages_usage_members[] = {
    {SPAN("input_tokens"), PROMPT_TOKENS},
    {SPAN("output_tokens"), COMPLETION_TOKENS},
    {SPAN("cache_read_input_tokens"), CACHED_TOKENS},
    {SPAN("cache_creation_input_tokens"), CACHE_WRITE_TOKENS},
};

static const struct member message_members[] = {
    {SPAN("usage"), MESSAGES_USAGE},
};

static const struct member block_members[] = {
    {SPAN("text"), TEXT},
    {SPAN("thinking"), TEXT},
    {SPAN("input"), TOOL_INPUT},
};

/* Of a block's begin as well, whose input is empty: it comes as partial_json. */
static const struct member block_delta_members[] = {
    {SPAN("text"), TEXT},
    {SPAN("thinking"), TEXT},
    {SPAN("partial_json"), TEXT},
    {SPAN("stop_reason"), FINISH_REASON},
};

#define MEMBERS(list)                                                                              \
    {                                                                                              \
        list, sizeof(list) / sizeof((list)[0])                                                     \
    }

static const struct {
    const struct member *members;
    size_t count;
} members_of[] = {
    [ROOT] = MEMBERS(root_members),
    [USAGE] = MEMBERS(usage_members),
    [PROMPT_DETAILS] = MEMBERS(prompt_members),
    [COMPLETION_DETAILS] = MEMBERS(completion_members),
    [CHOICE] = MEMBERS(choice_members),
    [DELTA] = MEMBERS(delta_members),
    [TOOL_CALL] = MEMBERS(tool_call_members),
    [FUNCTION] = MEMBERS(function_members),
    [RESPONSES_ROOT] = MEMBERS(responses_members),
    [RESPONSE] = MEMBERS(response_members),
    [OUTPUT_ITEM] = MEMBERS(output_item_members),
    [OUTPUT_PART] = MEMBERS(output_part_members),
    [MESSAGES_ROOT] = MEMBERS(messages_members),
    [MESSAGES_USAGE] = MEMBERS(messages_usage_members),
    [MESSAGE] = MEMBERS(message_members),
    [BLOCK] = MEMBERS(block_members),
    [BLOCK_DELTA] = MEMBERS(block_delta_members),
    [TOOL_INPUT] = {block_members, 0}, /* none */
};

enum meaning meaning_of(enum meaning place, struct span key)
{
    if (place == NOTHING)
        return NOTHING;

    const struct member *member = members_of[place].members;
    const struct member *last = member + members_of[place].count;

    for (; member < last; member++)
        if (member->key.size == key.size && member->key.data[0] == key.data[0] &&
            member->key.data[key.size - 1] == key.data[key.size - 1] &&
            memcmp(member->key.data, key.data, key.size) == 0)
            return member->meaning;
    return NOTHING;
}
