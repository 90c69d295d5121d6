/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses_echo.c: what a response repeats of its ask.
 *
 * For:       the members that the API demands of every response though the ask has them.
 * Called by: translate_responses_answer.c.
 * Knows not: output, usage, status.
 *
 * Source: OpenAI's API description (openapi.yaml), Response, ResponseProperties and
 * ModelResponseProperties: their types and defaults. Where a server's own default is not known here
 * (temperature, top_p), null stands. */
#include "gateway/translate_responses.h"

/* The types that a member's value may have, by their first byte; 0 stands for digits. */
static bool has_type(struct span value, const char *types)
{
    const char first = value.size > 0 ? value.data[0] : 'n';

    for (; *types != '\0'; types++)
        if (*types == first || (*types == '0' && (first == '-' || (first >= '0' && first <= '9'))))
            return true;
    return false;
}

/* clang-format off */

/* What stands where the ask says nothing; without a text the member is left out. */
static const struct {
    struct span name;
    const char *types;
    struct span otherwise;
} repeated[] = {
    {SPAN("instructions"),           "\"",  SPAN("null")},
    {SPAN("max_output_tokens"),      "0",   SPAN("null")},
    {SPAN("max_tool_calls"),         "0",   SPAN("null")},
    {SPAN("metadata"),               "{",   SPAN("{}")},
    {SPAN("parallel_tool_calls"),    "tf",  SPAN("true")},
    {SPAN("reasoning"),              "{",   SPAN("{\"effort\":null,\"summary\":null}")},
    {SPAN("temperature"),            "0",   SPAN("null")},
    {SPAN("text"),                   "{",   SPAN("{\"format\":{\"type\":\"text\"}}")},
    {SPAN("tool_choice"),            "\"{", SPAN("\"auto\"")},
    {SPAN("tools"),                  "[",   SPAN("[]")},
    {SPAN("top_logprobs"),           "0",   SPAN("0")},
    {SPAN("top_p"),                  "0",   SPAN("null")},
    {SPAN("user"),                   "\"",  SPAN("")},
    {SPAN("safety_identifier"),      "\"",  SPAN("")},
    {SPAN("prompt_cache_key"),       "\"",  SPAN("")},
    {SPAN("prompt_cache_retention"), "\"",  SPAN("")},
};

/* clang-format on */

#define REPEATED_COUNT (sizeof repeated / sizeof repeated[0])

void responses_write_echo(struct writer *echo, const struct translator_facts *facts)
{
    struct member fields[REPEATED_COUNT];
    size_t left = ECHO_BYTES_MAX;

    for (size_t i = 0; i < REPEATED_COUNT; i++)
        fields[i].name = repeated[i].name;
    value_find_these(facts->body, fields);
    for (size_t i = 0; i < REPEATED_COUNT; i++) {
        const bool says =
            has_type(fields[i].value, repeated[i].types) && fields[i].value.size <= left;
        const struct span value = says ? fields[i].value : repeated[i].otherwise;

        if (value.size == 0)
            continue;
        if (says)
            left -= value.size;
        writer_raw(echo, repeated[i].name);
        writer_literal(echo, ":");
        writer_put(echo, value);
        writer_literal(echo, ",");
    }
    /* Nothing is kept here, runs in the background or is cut: an ask that wants it is refused. */
    writer_literal(echo, "\"background\":false,\"previous_response_id\":null,\"store\":false,"
                         "\"truncation\":\"disabled\",\"model\":");
    writer_text(echo, facts->model);
    writer_literal(echo, ",");
    responses_join_lines(&echo->text, 0);
}
