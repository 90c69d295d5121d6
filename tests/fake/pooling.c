/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/pooling.c: embeddings, rerank, score, pooling, classify.
 *
 * For:       whole answers of models that generate nothing.
 * Called by: service.c.
 * Knows not: sockets, streams.
 *
 * Numbers are drawn from hashes of the texts: equal texts have equal vectors and scores.
 * Sources: vLLM entrypoints/pooling; SGLang openai/serving_rerank.py, serving_score.py,
 * serving_classify.py; llama.cpp tools/server/server-common.cpp format_response_rerank(). */
#include "tests/fake/pooling.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/fake/answer.h"
#include "tests/fake/usage.h"

enum { DIMENSIONS = 8, DIMENSIONS_MOST = 8192, DOCUMENTS_MOST = 4096 };

static void add_base64(struct buffer *out, const unsigned char *bytes, size_t count)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < count; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (i + 1 < count)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < count)
            group |= bytes[i + 2];
        char quad[4] = {letters[group >> 18], letters[(group >> 12) & 63],
                        i + 1 < count ? letters[(group >> 6) & 63] : '=',
                        i + 2 < count ? letters[group & 63] : '='};
        buffer_add(out, quad, sizeof quad);
    }
}

/* Sixteenths, exact as decimals and as floats. */
static float element(uint64_t hash, size_t i)
{
    uint64_t turned = i < 8 ? hash : (hash ^ i) * 0x9e3779b97f4a7c15u;

    return (float)((turned >> (8 * (i % 8))) & 15) / 16.0f;
}

static size_t dimensions_of(const struct ask *ask)
{
    if (ask->dimensions <= 0)
        return DIMENSIONS;
    return ask->dimensions < DIMENSIONS_MOST ? (size_t)ask->dimensions : DIMENSIONS_MOST;
}

static void add_vector(struct buffer *out, uint64_t hash, size_t dimensions, bool base64)
{
    if (base64) {
        static float vector[DIMENSIONS_MOST];
        for (size_t i = 0; i < dimensions; i++)
            vector[i] = element(hash, i);
        buffer_add_literal(out, "\""); /* little-endian floats, as all our machines have them */
        add_base64(out, (const unsigned char *)vector, dimensions * sizeof vector[0]);
        buffer_add_literal(out, "\"");
        return;
    }
    buffer_add_literal(out, "[");
    for (size_t i = 0; i < dimensions; i++) {
        char digits[16];
        int count =
            snprintf(digits, sizeof digits, "%s%g", i > 0 ? "," : "", (double)element(hash, i));
        buffer_add(out, digits, (size_t)count);
    }
    buffer_add_literal(out, "]");
}

static void add_score(struct buffer *out, uint64_t hash)
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%g", (double)(hash >> 32 & 1023) / 1024.0);

    buffer_add(out, digits, (size_t)count);
}

static void close_body(struct buffer *out, const struct work *work)
{
    buffer_add_literal(out, "]");
    if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        usage_add(out, work);
    }
    buffer_add_literal(out, "}");
}

static void open_element(struct buffer *out, uint64_t index)
{
    buffer_add_string(out, index > 0 ? ",{\"index\":" : "{\"index\":");
    buffer_add_number(out, index);
}

/* One element for each input: an embedding, pooled data, or a class. */
static void add_inputs(struct buffer *out, const struct work *work, const struct ask *ask)
{
    struct ask_inputs inputs;
    struct text value;
    uint64_t hash;
    struct text source = ask->input.bytes > 0 ? ask->input : ask->messages;

    answer_add_opening(out, work, TEXT("list"));
    buffer_add_literal(out, ",\"data\":[");
    ask_inputs_begin(&inputs, source);
    for (uint64_t index = 0; ask_inputs_next(&inputs, &value, &hash); index++) {
        open_element(out, index);
        if (work->endpoint == ENDPOINT_CLASSIFY) {
            buffer_add_string(out, hash & 1 ? ",\"label\":\"LABEL_1\",\"probs\":[0.25,0.75]"
                                            : ",\"label\":\"LABEL_0\",\"probs\":[0.75,0.25]");
            buffer_add_literal(out, ",\"num_classes\":2}");
            continue;
        }
        buffer_add_string(out, work->endpoint == ENDPOINT_POOLING
                                   ? ",\"object\":\"pooling\",\"data\":"
                                   : ",\"object\":\"embedding\",\"embedding\":");
        add_vector(out, hash, dimensions_of(ask), ask->base64);
        buffer_add_literal(out, "}");
    }
    close_body(out, work);
}

struct ranked {
    struct text value;
    uint64_t hash;
    uint64_t index;
};

static int higher_first(const void *left, const void *right)
{
    uint64_t a = ((const struct ranked *)left)->hash >> 32 & 1023;
    uint64_t b = ((const struct ranked *)right)->hash >> 32 & 1023;

    return a < b ? 1 : a > b ? -1 : 0;
}

/* Reads the documents, best first; at most DOCUMENTS_MOST of them. */
static size_t rank(struct text documents, struct ranked *ranked)
{
    struct ask_inputs inputs;
    size_t count = 0;

    ask_inputs_begin(&inputs, documents);
    while (count < DOCUMENTS_MOST &&
           ask_inputs_next(&inputs, &ranked[count].value, &ranked[count].hash)) {
        ranked[count].index = count;
        count++;
    }
    qsort(ranked, count, sizeof *ranked, higher_first);
    return count;
}

/* The document as results bear it: `{"text":...}`. */
static void add_document(struct buffer *out, struct text value)
{
    if (value.bytes > 0 && value.at[0] == '{') {
        buffer_add_text(out, value);
        return;
    }
    buffer_add_literal(out, "{\"text\":");
    buffer_add_text(out, value);
    buffer_add_literal(out, "}");
}

static void add_sglang_rerank(struct buffer *out, const struct work *work,
                              const struct ranked *ranked, size_t count)
{
    buffer_add_literal(out, "[");
    for (size_t i = 0; i < count; i++) {
        buffer_add_string(out, i > 0 ? ",{\"score\":" : "{\"score\":");
        add_score(out, ranked[i].hash);
        buffer_add_literal(out, ",\"document\":");
        buffer_add_text(out, ranked[i].value);
        buffer_add_literal(out, ",\"index\":");
        buffer_add_number(out, ranked[i].index);
        buffer_add_literal(out, ",\"meta_info\":{\"id\":\"");
        buffer_add_string(out, work->id);
        buffer_add_literal(out, "\",\"prompt_tokens\":");
        buffer_add_number(out, work->prompt_tokens / (count > 0 ? count : 1));
        buffer_add_literal(out, "}}");
    }
    buffer_add_literal(out, "]");
}

static void add_rerank(struct buffer *out, const struct work *work, const struct ask *ask)
{
    static struct ranked ranked[DOCUMENTS_MOST];
    size_t count = rank(ask->documents, ranked);

    if (ask->top_n > 0 && (size_t)ask->top_n < count)
        count = (size_t)ask->top_n;
    if (dialect.kind == KIND_SGLANG) {
        add_sglang_rerank(out, work, ranked, count);
        return;
    }
    buffer_add_literal(out, "{");
    if (dialect.kind == KIND_VLLM) {
        buffer_add_literal(out, "\"id\":\"");
        buffer_add_string(out, work->id);
        buffer_add_literal(out, "\",");
    } else {
        buffer_add_literal(out, "\"object\":\"list\",");
    }
    buffer_add_literal(out, "\"model\":\"");
    buffer_add_string(out, work->model);
    buffer_add_literal(out, "\",");
    if (!work->directive.no_usage) {
        usage_add_input(out, work);
        buffer_add_literal(out, ",");
    }
    buffer_add_literal(out, "\"results\":[");
    for (size_t i = 0; i < count; i++) {
        buffer_add_string(out, i > 0 ? ",{\"index\":" : "{\"index\":");
        buffer_add_number(out, ranked[i].index);
        if (dialect.kind == KIND_VLLM) {
            buffer_add_literal(out, ",\"document\":");
            add_document(out, ranked[i].value);
        }
        buffer_add_literal(out, ",\"relevance_score\":");
        add_score(out, ranked[i].hash);
        buffer_add_literal(out, "}");
    }
    buffer_add_literal(out, "]}");
}

static void add_scores(struct buffer *out, const struct work *work, const struct ask *ask)
{
    struct ask_inputs inputs;
    struct text value;
    uint64_t hash;

    if (dialect.kind == KIND_SGLANG)
        buffer_add_literal(out, "{\"object\":\"scoring\",\"scores\":[");
    else {
        answer_add_opening(out, work, TEXT("list"));
        buffer_add_literal(out, ",\"data\":[");
    }
    ask_inputs_begin(&inputs, ask->documents);
    for (uint64_t index = 0; ask_inputs_next(&inputs, &value, &hash); index++) {
        if (dialect.kind == KIND_SGLANG) {
            buffer_add_string(out, index > 0 ? ",[" : "[");
            add_score(out, hash);
            buffer_add_literal(out, "]");
            continue;
        }
        open_element(out, index);
        buffer_add_literal(out, ",\"object\":\"score\",\"score\":");
        add_score(out, hash);
        buffer_add_literal(out, "}");
    }
    close_body(out, work);
}

uint64_t pooling_count_tokens(const struct ask *ask)
{
    struct ask_inputs inputs;
    struct text value;
    uint64_t documents = 0;

    ask_inputs_begin(&inputs, ask->documents);
    while (ask_inputs_next(&inputs, &value, NULL))
        documents++;
    return ask_tokens_of(ask->query) * documents + ask_tokens_of(ask->documents);
}

void pooling_add_body(struct buffer *out, const struct work *work, const struct ask *ask)
{
    if (work->endpoint == ENDPOINT_RERANK)
        add_rerank(out, work, ask);
    else if (work->endpoint == ENDPOINT_SCORE)
        add_scores(out, work, ask);
    else
        add_inputs(out, work, ask);
}
