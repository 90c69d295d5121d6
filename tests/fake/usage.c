/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/usage.c: token counts as each API and kind reports them.
 *
 * For:       `"usage":{...}` of finished answers and of chunks, `"timings":{...}` of llama.cpp.
 * Called by: the files that write answers.
 * Knows not: sockets, streams.
 *
 * Sources: vLLM openai/engine/protocol.py UsageInfo; SGLang openai/protocol.py UsageInfo (top-level
 * reasoning_tokens, cached_tokens only when there are some); llama.cpp server-task.cpp
 * usage_json_oaicompat() and result_timings; TGI router/src/lib.rs Usage; openapi.yaml
 * CompletionUsage and ResponseUsage; anthropic types/usage.py. */
#include "tests/fake/usage.h"

#include <stdio.h>

#include "tests/fake/kind.h"

static void add_member(struct buffer *out, const char *opening, uint64_t number)
{
    buffer_add_string(out, opening);
    buffer_add_number(out, number);
}

static void add_vllm_details(struct buffer *out, const struct work *work)
{
    if (work->cached >= 0) {
        add_member(out, ",\"prompt_tokens_details\":{\"cached_tokens\":", work_cached(work));
        buffer_add_literal(out, "}");
    } else if (!work->stream) {
        buffer_add_literal(out, ",\"prompt_tokens_details\":null");
    }
    if (work->reasoning > 0) {
        add_member(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":", work->reasoning);
        buffer_add_literal(out, "}");
    }
}

static void add_openai_details(struct buffer *out, const struct work *work)
{
    add_member(out, ",\"prompt_tokens_details\":{\"cached_tokens\":", work_cached(work));
    add_member(out, ",\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":",
               work->reasoning);
    buffer_add_literal(out, ",\"audio_tokens\":0,\"accepted_prediction_tokens\":0,"
                            "\"rejected_prediction_tokens\":0}");
}

static void add_sglang_details(struct buffer *out, const struct work *work)
{
    if (work->cached > 0) {
        add_member(out, ",\"prompt_tokens_details\":{\"cached_tokens\":", work_cached(work));
        buffer_add_literal(out, "}");
    } else {
        buffer_add_literal(out, ",\"prompt_tokens_details\":null");
    }
    add_member(out, ",\"reasoning_tokens\":", work->reasoning);
}

void usage_add(struct buffer *out, const struct work *work)
{
    uint64_t input = work_claimed_input(work);
    uint64_t output = work_claimed_output(work);

    add_member(out, "\"usage\":{\"prompt_tokens\":", input);
    add_member(out, ",\"total_tokens\":", input + output);
    add_member(out, ",\"completion_tokens\":", output);
    switch (dialect.kind) {
    case KIND_OPENAI:
        add_openai_details(out, work);
        break;
    case KIND_SGLANG:
        add_sglang_details(out, work);
        break;
    case KIND_LLAMACPP:
        add_member(out, ",\"prompt_tokens_details\":{\"cached_tokens\":", work_cached(work));
        buffer_add_literal(out, "}");
        break;
    case KIND_TGI:
        break;
    default:
        add_vllm_details(out, work);
    }
    buffer_add_literal(out, "}");
}

void usage_add_running(struct buffer *out, const struct work *work, uint64_t output)
{
    uint64_t input = work_claimed_input(work);

    add_member(out, ",\"usage\":{\"prompt_tokens\":", input);
    add_member(out, ",\"total_tokens\":", input + output);
    add_member(out, ",\"completion_tokens\":", output);
    buffer_add_literal(out, "}");
}

void usage_add_input(struct buffer *out, const struct work *work)
{
    uint64_t input = work_claimed_input(work);

    add_member(out, "\"usage\":{\"prompt_tokens\":", input);
    add_member(out, ",\"total_tokens\":", input);
    buffer_add_literal(out, "}");
}

void usage_add_responses(struct buffer *out, const struct work *work)
{
    uint64_t input = work_claimed_input(work);
    uint64_t output = work_claimed_output(work);

    add_member(out, "\"usage\":{\"input_tokens\":", input);
    add_member(out, ",\"input_tokens_details\":{\"cached_tokens\":", work_cached(work));
    if (dialect.kind == KIND_VLLM)
        buffer_add_literal(out, ",\"input_tokens_per_turn\":[],\"cached_tokens_per_turn\":[]");
    add_member(out, "},\"output_tokens\":", output);
    if (dialect.kind != KIND_LLAMACPP) {
        add_member(out, ",\"output_tokens_details\":{\"reasoning_tokens\":", work->reasoning);
        if (dialect.kind == KIND_VLLM)
            buffer_add_literal(out, ",\"tool_output_tokens\":0");
        buffer_add_literal(out, "}");
    }
    add_member(out, ",\"total_tokens\":", input + output);
    buffer_add_literal(out, "}");
}

void usage_add_messages(struct buffer *out, const struct work *work, uint64_t output)
{
    uint64_t input = work_claimed_input(work);
    uint64_t cached = work_cached(work);

    add_member(out, "\"usage\":{\"input_tokens\":", input > cached ? input - cached : 0);
    if (dialect.kind != KIND_LLAMACPP)
        buffer_add_literal(out, ",\"cache_creation_input_tokens\":0");
    add_member(out, ",\"cache_read_input_tokens\":", cached);
    add_member(out, ",\"output_tokens\":", output);
    buffer_add_literal(out, "}");
}

void usage_add_timings(struct buffer *out, const struct work *work)
{
    uint64_t cached = work_cached(work);
    uint64_t fresh = work->prompt_tokens > cached ? work->prompt_tokens - cached : 0;
    uint64_t output = work->tokens * work->choices;

    add_member(out, "\"timings\":{\"cache_n\":", cached);
    add_member(out, ",\"prompt_n\":", fresh);
    add_member(out, ",\"prompt_ms\":", fresh);
    buffer_add_literal(out, ",\"prompt_per_token_ms\":1.0,\"prompt_per_second\":1000.0");
    add_member(out, ",\"predicted_n\":", output);
    add_member(out, ",\"predicted_ms\":", output * 10);
    buffer_add_literal(out, ",\"predicted_per_token_ms\":10.0,\"predicted_per_second\":100.0}");
}
