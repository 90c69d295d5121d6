/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/ask.h: what a request body wants from the model.
 *
 * For:       body bytes in, the members that decide the answer out.
 * Called by: server.c, answer.c.
 * Knows not: HTTP, sockets, directives. */
#ifndef FAKE_ASK_H
#define FAKE_ASK_H

#include "tests/fake/json.h"

enum endpoint { ENDPOINT_CHAT, ENDPOINT_COMPLETIONS, ENDPOINT_EMBEDDINGS };

struct ask {
    struct text model;      /* empty when absent; points into the body */
    struct text input;      /* embeddings: the raw value of `input`; points into the body */
    long output_tokens;     /* most tokens per choice; 0 when the body does not say */
    uint64_t prompt_tokens; /* by bytes / 4 of each prompt, rounded up; ids count one each */
    unsigned prompts;       /* number of prompts or inputs */
    unsigned samples;       /* n */
    bool stream;
    bool stream_options;
    bool include_usage;
    bool continuous_usage;
    bool base64;
    bool has_prompt;
};

/* Reads the body; false when it is not one JSON object. */
bool ask_read(struct text body, struct ask *out_ask);

/* The next input of an embeddings request: true for each, `out_hash` stands for its text.
 * Begin with a json over ask.input, entered is false and first is true. */
struct ask_inputs {
    struct json json;
    bool list;
    bool done;
    bool first;
};
void ask_inputs_begin(struct ask_inputs *inputs, struct text value);
bool ask_inputs_next(struct ask_inputs *inputs, uint64_t *out_hash);

#endif
