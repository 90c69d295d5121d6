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

/* The members of each object as lists, so that the sizes of their keys can be told from them, too:
 * most keys of an answer mean nothing, and most of these have a size that no known one has. */
/* clang-format off */

/* object says "error" in the flat errors of older vLLM and SGLang. */
#define ROOT_MEMBERS(M)                                                                            \
    M("choices", CHOICES)                                                                          \
    M("usage", USAGE)                                                                              \
    M("error", ERROR)                                                                              \
    M("data", DATA)                                                                                \
    M("object", EVENT_TYPE)

#define USAGE_MEMBERS(M)                                                                           \
    M("prompt_tokens", PROMPT_TOKENS)                                                              \
    M("completion_tokens", COMPLETION_TOKENS)                                                      \
    M("total_tokens", TOTAL_TOKENS)                                                                \
    M("prompt_tokens_details", PROMPT_DETAILS)                                                     \
    M("completion_tokens_details", COMPLETION_DETAILS)                                             \
    M("reasoning_tokens", REASONING_TOKENS) /* SGLang */                                           \
    M("input_tokens", PROMPT_TOKENS) /* responses and transcriptions */                            \
    M("output_tokens", COMPLETION_TOKENS)                                                          \
    M("input_tokens_details", PROMPT_DETAILS)                                                      \
    M("output_tokens_details", COMPLETION_DETAILS)

#define PROMPT_MEMBERS(M)                                                                          \
    M("cached_tokens", CACHED_TOKENS)                                                              \
    M("created_cache_tokens", CACHE_WRITE_TOKENS) /* vLLM */                                       \
    M("cache_write_tokens", CACHE_WRITE_TOKENS)

#define COMPLETION_MEMBERS(M)                                                                      \
    M("reasoning_tokens", REASONING_TOKENS)

#define CHOICE_MEMBERS(M)                                                                          \
    M("delta", DELTA)                                                                              \
    M("index", INDEX)                                                                              \
    M("finish_reason", FINISH_REASON)                                                              \
    M("text", TEXT)                                                                                \
    M("message", DELTA)

#define DELTA_MEMBERS(M)                                                                           \
    M("content", TEXT)                                                                             \
    M("reasoning", TEXT)                                                                           \
    M("reasoning_content", TEXT)                                                                   \
    M("refusal", TEXT)                                                                             \
    M("tool_calls", TOOL_CALLS)                                                                    \
    M("function_call", FUNCTION)

#define TOOL_CALL_MEMBERS(M)                                                                       \
    M("function", FUNCTION)

#define FUNCTION_MEMBERS(M)                                                                        \
    M("arguments", TEXT)

/* Deltas of every kind (text, reasoning, refusal, arguments) are named alike; the events that end
 * them repeat the text under other names. Of the whole answer in an event, which repeats it too,
 * the output is not read. */
#define RESPONSES_MEMBERS(M)                                                                       \
    M("type", EVENT_TYPE)                                                                          \
    M("delta", TEXT)                                                                               \
    M("sequence_number", SEQUENCE)                                                                 \
    M("usage", USAGE)                                                                              \
    M("output", OUTPUT)                                                                            \
    M("response", RESPONSE)                                                                        \
    M("error", ERROR)

#define RESPONSE_MEMBERS(M)                                                                        \
    M("usage", USAGE)                                                                              \
    M("error", ERROR)

#define OUTPUT_ITEM_MEMBERS(M)                                                                     \
    M("content", OUTPUT_PARTS)                                                                     \
    M("summary", OUTPUT_PARTS)                                                                     \
    M("arguments", TEXT)                                                                           \
    M("input", TEXT) /* of a custom tool */

#define OUTPUT_PART_MEMBERS(M)                                                                     \
    M("text", TEXT)                                                                                \
    M("refusal", TEXT)

#define MESSAGES_MEMBERS(M)                                                                        \
    M("type", EVENT_TYPE)                                                                          \
    M("delta", BLOCK_DELTA)                                                                        \
    M("usage", MESSAGES_USAGE)                                                                     \
    M("message", MESSAGE)                                                                          \
    M("content_block", BLOCK_DELTA)                                                                \
    M("content", BLOCKS)                                                                           \
    M("stop_reason", FINISH_REASON)                                                                \
    M("error", ERROR)

#define MESSAGES_USAGE_MEMBERS(M)                                                                  \
    M("input_tokens", PROMPT_TOKENS)                                                               \
    M("output_tokens", COMPLETION_TOKENS)                                                          \
    M("cache_read_input_tokens", CACHED_TOKENS)                                                    \
    M("cache_creation_input_tokens", CACHE_WRITE_TOKENS)

#define MESSAGE_MEMBERS(M)                                                                         \
    M("usage", MESSAGES_USAGE)

#define BLOCK_MEMBERS(M)                                                                           \
    M("text", TEXT)                                                                                \
    M("thinking", TEXT)                                                                            \
    M("input", TOOL_INPUT)

/* Of a block's begin as well, whose input is empty: it comes as partial_json. */
#define BLOCK_DELTA_MEMBERS(M)                                                                     \
    M("text", TEXT)                                                                                \
    M("thinking", TEXT)                                                                            \
    M("partial_json", TEXT)                                                                        \
    M("stop_reason", FINISH_REASON)

/* clang-format on */

#define KEY_BYTES_MOST 31

#define MEMBER(key, meaning)                                                                       \
    {                                                                                              \
        {(key), sizeof(key) - 1}, (meaning)                                                        \
    },
#define OR_SIZE(key, meaning) | UINT32_C(1) << (sizeof(key) - 1)
#define MEMBERS(list)                                                                              \
    {                                                                                              \
        (const struct member[]){list(MEMBER)},                                                     \
            sizeof((const struct member[]){list(MEMBER)}) / sizeof(struct member), 0 list(OR_SIZE) \
    }

static const struct {
    const struct member *members;
    size_t count;
    uint32_t sizes; /* bits: some key is so long */
} members_of[] = {
    [ROOT] = MEMBERS(ROOT_MEMBERS),
    [USAGE] = MEMBERS(USAGE_MEMBERS),
    [PROMPT_DETAILS] = MEMBERS(PROMPT_MEMBERS),
    [COMPLETION_DETAILS] = MEMBERS(COMPLETION_MEMBERS),
    [CHOICE] = MEMBERS(CHOICE_MEMBERS),
    [DELTA] = MEMBERS(DELTA_MEMBERS),
    [TOOL_CALL] = MEMBERS(TOOL_CALL_MEMBERS),
    [FUNCTION] = MEMBERS(FUNCTION_MEMBERS),
    [RESPONSES_ROOT] = MEMBERS(RESPONSES_MEMBERS),
    [RESPONSE] = MEMBERS(RESPONSE_MEMBERS),
    [OUTPUT_ITEM] = MEMBERS(OUTPUT_ITEM_MEMBERS),
    [OUTPUT_PART] = MEMBERS(OUTPUT_PART_MEMBERS),
    [MESSAGES_ROOT] = MEMBERS(MESSAGES_MEMBERS),
    [MESSAGES_USAGE] = MEMBERS(MESSAGES_USAGE_MEMBERS),
    [MESSAGE] = MEMBERS(MESSAGE_MEMBERS),
    [BLOCK] = MEMBERS(BLOCK_MEMBERS),
    [BLOCK_DELTA] = MEMBERS(BLOCK_DELTA_MEMBERS),
    [TOOL_INPUT] = {NULL, 0, 0},
};

/* Are these alike? Without a call: keys are short. size > 0. */
static inline bool is_same(const char *a, const char *b, size_t size)
{
    uint64_t from_a, from_b, to_a, to_b;

    if (size < sizeof(from_a)) {
        while (--size > 0)
            if (a[size] != b[size])
                return false;
        return a[0] == b[0];
    }
    for (size_t at = 0; at + sizeof(from_a) < size; at += sizeof(from_a)) {
        memcpy(&from_a, a + at, sizeof(from_a));
        memcpy(&from_b, b + at, sizeof(from_b));
        if (from_a != from_b)
            return false;
    }
    memcpy(&to_a, a + size - sizeof(to_a), sizeof(to_a));
    memcpy(&to_b, b + size - sizeof(to_b), sizeof(to_b));
    return to_a == to_b;
}

enum meaning meaning_of(enum meaning place, struct span key)
{
    if (place == NOTHING || key.size > KEY_BYTES_MOST ||
        (members_of[place].sizes >> key.size & 1u) == 0)
        return NOTHING;

    const struct member *member = members_of[place].members;
    const struct member *last = member + members_of[place].count;

    for (; member < last; member++)
        if (member->key.size == key.size && is_same(member->key.data, key.data, key.size))
            return member->meaning;
    return NOTHING;
}
