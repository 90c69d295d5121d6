/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/kind.h: whose wire is spoken.
 *
 * For:       what differs between the kinds of model servers, as one row each, and which paths a
 *            kind has.
 * Called by: every file that writes answers; main.c chooses the kind.
 * Knows not: requests, sockets. */
#ifndef FAKE_KIND_H
#define FAKE_KIND_H

#include <stdbool.h>

#include "tests/fake/ask.h"

enum kind { KIND_VLLM, KIND_SGLANG, KIND_LLAMACPP, KIND_TGI, KIND_OPENAI, KINDS };

/* What a kind says in its streams of chat completions. A chunk's choice is
 * `{"index":N` role_delta | open_content TEXT close_delta [logprobs] close_choice | ... */
struct kind_row {
    const char *name;
    struct text server;       /* the whole header line; empty: none is sent */
    struct text owner;        /* owned_by of /v1/models */
    struct text role_delta;   /* the chunk that opens a choice */
    struct text open_content; /* before a piece of content */
    struct text open_thought; /* before a piece of reasoning */
    struct text open_call;    /* before a piece of a tool call */
    struct text close_delta;  /* behind a piece of content; closes its string */
    struct text close_call;
    struct text no_logprobs;  /* what stands where logprobs would */
    struct text close_choice; /* to the end of a choice that goes on */
    struct text end_delta;    /* the chunk that ends a choice, up to the reason's quote */
    struct text end_choice;   /* behind the reason */
    struct text thought_name; /* the member of a whole message that bears reasoning */
    bool running_usage;       /* continuous_usage_stats is honoured */
    bool checks_model;        /* an unknown model is a 404, else it is ignored */
};

/* Set once by main.c. */
struct dialect {
    enum kind kind;
    bool old_errors;  /* vLLM before August 2025: flat error objects */
    bool old_metrics; /* vLLM's names before November 2025 */
};

extern struct dialect dialect;

const struct kind_row *kind_row(void);

/* The kind of this name; false: there is none. */
bool kind_of_name(const char *name, enum kind *out_kind);

/* The endpoint at this path, if the kind has it; out_path: the path as its row has it. */
bool kind_find_endpoint(struct text path, enum endpoint *out_endpoint, const char **out_path);

#endif
