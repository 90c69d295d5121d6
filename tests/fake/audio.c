/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/audio.c: /v1/audio/transcriptions and /v1/audio/translations.
 *
 * For:       whole answers (JSON or text), and the events of streams.
 * Called by: service.c, stream.c.
 * Knows not: sockets, framing, forms.
 *
 * Sources: vLLM entrypoints/openai/speech_to_text (chunks like a chat's, [DONE], usage in seconds;
 * a usage chunk with stream_include_usage), openapi.yaml CreateTranscriptionResponseStreamEvent
 * (transcript.text.delta and .done, no [DONE]). SGLang follows vLLM's form here. */
#include "tests/fake/audio.h"

#include "tests/fake/answer.h"
#include "tests/fake/content.h"
#include "tests/fake/usage.h"

uint64_t audio_seconds(uint64_t file_bytes)
{
    return (file_bytes + 31999) / 32000;
}

static void add_usage(struct buffer *out, const struct work *work)
{
    uint64_t input = work_claimed_input(work);
    uint64_t output = work_claimed_output(work);

    if (!work->directive.usage_tokens) {
        buffer_add_literal(out, "\"usage\":{\"type\":\"duration\",\"seconds\":");
        buffer_add_number(out, audio_seconds(work->file_bytes));
        buffer_add_literal(out, "}");
        return;
    }
    buffer_add_literal(out, "\"usage\":{\"type\":\"tokens\",\"input_tokens\":");
    buffer_add_number(out, input);
    buffer_add_literal(out, ",\"input_token_details\":{\"text_tokens\":0,\"audio_tokens\":");
    buffer_add_number(out, input);
    buffer_add_literal(out, "},\"output_tokens\":");
    buffer_add_number(out, output);
    buffer_add_literal(out, ",\"total_tokens\":");
    buffer_add_number(out, input + output);
    buffer_add_literal(out, "}");
}

void audio_add_body(struct buffer *out, const struct work *work, const struct ask *ask)
{
    if (ask->plain_text) {
        content_add_rest(out, work);
        buffer_add_literal(out, "\n");
        return;
    }
    buffer_add_literal(out, "{\"text\":\"");
    content_add_rest(out, work);
    buffer_add_literal(out, "\"");
    if (ask->verbose) {
        buffer_add_literal(out, ",\"task\":\"transcribe\",\"language\":\"en\",\"segments\":[],"
                                "\"duration\":");
        buffer_add_number(out, audio_seconds(work->file_bytes));
    }
    if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        add_usage(out, work);
    }
    buffer_add_literal(out, "}");
}

/* ---- streams ---- */

void audio_begin(struct work *work)
{
    buffer_add_literal(&work->prefix, "data: ");
    answer_add_opening(&work->prefix, work,
                       work->endpoint == ENDPOINT_TRANSCRIPTIONS ? TEXT("transcription.chunk")
                                                                 : TEXT("translation.chunk"));
    buffer_add_literal(&work->prefix, ",\"choices\":[");
    work->position = (struct position){.phase = work->tokens > 0 ? PHASE_TOKENS : PHASE_FINISH};
}

static uint64_t add_delta(struct buffer *out, struct work *work)
{
    uint64_t from = work->position.done;
    uint64_t to = content_next(work);

    if (dialect.kind == KIND_OPENAI) {
        buffer_add_literal(out, "data: {\"type\":\"transcript.text.delta\",\"delta\":\"");
        content_add(out, work, from, to);
        buffer_add_literal(out, "\"}\n\n");
    } else {
        buffer_add(out, work->prefix.bytes, work->prefix.count);
        buffer_add_literal(out, "{\"delta\":{\"content\":\"");
        content_add(out, work, from, to);
        buffer_add_literal(out, "\"},\"finish_reason\":null,\"stop_reason\":null}]}\n\n");
    }
    work->position.events++;
    work->position.done = to;
    if (to == work->tokens)
        work->position.phase = PHASE_FINISH;
    return to - from;
}

static void add_finish(struct buffer *out, struct work *work)
{
    if (dialect.kind == KIND_OPENAI) {
        buffer_add_literal(out, "data: {\"type\":\"transcript.text.done\",\"text\":\"");
        content_add_rest(out, work);
        buffer_add_literal(out, "\"");
        if (!work->directive.no_usage) {
            buffer_add_literal(out, ",");
            add_usage(out, work);
        }
        buffer_add_literal(out, "}\n\n");
        work->position.phase = PHASE_END;
        return;
    }
    buffer_add(out, work->prefix.bytes, work->prefix.count);
    buffer_add_literal(out, "{\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\","
                            "\"stop_reason\":null}]}\n\n");
    work->position.phase =
        work->include_usage && !work->directive.no_usage ? PHASE_USAGE : PHASE_DONE;
}

uint64_t audio_add_event(struct buffer *out, struct work *work)
{
    switch (work->position.phase) {
    case PHASE_TOKENS:
        return add_delta(out, work);
    case PHASE_FINISH:
        add_finish(out, work);
        return 0;
    case PHASE_USAGE:
        buffer_add(out, work->prefix.bytes, work->prefix.count);
        buffer_add_literal(out, "],");
        usage_add(out, work);
        buffer_add_literal(out, "}\n\n");
        work->position.phase = PHASE_DONE;
        return 0;
    default:
        buffer_add_literal(out, "data: [DONE]\n\n");
        work->position.phase = PHASE_END;
        return 0;
    }
}
