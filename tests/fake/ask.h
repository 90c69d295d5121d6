/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/ask.h: what a request body wants from the model.
 *
 * For:       body bytes in, the members that decide the answer out, whichever API they belong to.
 * Called by: service.c and the files that write answers.
 * Knows not: HTTP, sockets, directives. */
#ifndef FAKE_ASK_H
#define FAKE_ASK_H

#include "tests/fake/json.h"

enum endpoint {
    ENDPOINT_CHAT,
    ENDPOINT_COMPLETIONS,
    ENDPOINT_EMBEDDINGS,
    ENDPOINT_RESPONSES,
    ENDPOINT_MESSAGES,
    ENDPOINT_COUNT_TOKENS,
    ENDPOINT_RERANK,
    ENDPOINT_SCORE,
    ENDPOINT_TOKENIZE,
    ENDPOINT_DETOKENIZE,
    ENDPOINT_TRANSCRIPTIONS,
    ENDPOINT_TRANSLATIONS,
    ENDPOINT_POOLING,
    ENDPOINT_CLASSIFY,
};

enum { IMAGE_TOKENS = 100 }; /* what an image adds to a prompt */

/* Texts point into the body; a value is the raw JSON text. Empty when absent. */
struct ask {
    struct text model;
    struct text input;    /* value of `input` */
    struct text messages; /* value of `messages` */
    struct text prompt;   /* value of `prompt`, or of llama.cpp's `content` */
    struct text tools;    /* value */
    struct text tool_choice;
    struct text format;    /* value of response_format, text.format, output_config.format */
    struct text query;     /* rerank and score: value of query, queries, text_1 */
    struct text documents; /* value of documents, items, text_2 */
    struct text tokens;    /* detokenize: value */
    struct text salt;      /* cache_salt */
    long output_tokens;    /* most tokens per choice; 0 when the body does not say */
    long top_n;            /* rerank; 0: all */
    long dimensions;       /* embeddings; 0: as the model has */
    long top_logprobs;
    uint64_t prompt_tokens; /* by bytes / 4 of each prompt, rounded up; ids count one each */
    uint64_t file_bytes;    /* audio: of the part `file` */
    unsigned prompts;       /* number of prompts or inputs */
    unsigned samples;       /* n */
    bool stream;
    bool stream_options;
    bool include_usage;
    bool continuous_usage;
    bool base64;
    bool logprobs;
    bool has_prompt;
    bool plain_text; /* audio: response_format is text */
    bool verbose;    /* audio: response_format is verbose_json */
};

/* Reads a JSON body; false when it is not one JSON object. */
bool ask_read(struct text body, struct ask *out_ask);

/* Reads a multipart body: the fields model, stream, response_format, and how long the file is.
 * False when it is none, or has no file. */
bool ask_read_form(struct text content_type, struct text body, struct ask *out_ask);

/* Tokens of a string or of a list of strings, of `{"text":...}` objects too. */
uint64_t ask_tokens_of(struct text value);

/* The next of a string, a list of strings, a list of ids (one input), a list of lists of ids. */
struct ask_inputs {
    struct json json;
    bool list;
    bool done;
    bool first;
};
void ask_inputs_begin(struct ask_inputs *inputs, struct text value);

/* True for each: out_value is its raw JSON text, out_hash (may be NULL) stands for it. */
bool ask_inputs_next(struct ask_inputs *inputs, struct text *out_value, uint64_t *out_hash);

#endif
