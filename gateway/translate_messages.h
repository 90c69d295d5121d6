/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_messages.h: what the halves of the translation of messages share; pure.
 *
 * For:       usage and stop reasons, which whole answers and streams have alike; the names between
 *            the files.
 * Called by: translate_messages*.c alone.
 * Knows not: anything but JSON and the two APIs.
 *
 * Sources, as the comments of these files name them:
 *   Messages    Anthropic's API reference, Messages; the types of its Python SDK (types/) say the
 *               same in code
 *   Streaming   Anthropic's guide "Streaming messages"
 *   Tool calls  Anthropic's guide "Handle tool calls"
 *   Chat        OpenAI's openapi.yaml, CreateChatCompletionRequest and -Response
 *   vLLM        vllm/entrypoints/anthropic/serving.py, which does the same inside the server
 *   llama.cpp   tools/server/server-chat.cpp, as well
 *   LiteLLM     llms/anthropic/experimental_pass_through/adapters/transformation.py, as well */
#ifndef GATEWAY_TRANSLATE_MESSAGES_H
#define GATEWAY_TRANSLATE_MESSAGES_H

#include "gateway/translate.h"
#include "gateway/value.h"

/* ---- the ask ---- */

/* What is carried while an ask is written. */
struct asking {
    struct span body;
    struct writer *out;
    struct ask_problem *problem; /* written when something is refused */
    enum err err;
    bool wrote;        /* a member stands before: a comma comes next */
    const char *param; /* system or messages: where the turn being written stands */
};

/* Ends the ask with ERR_BAD_VALUE about the bytes at `at`, which lie in the body. Always false. */
bool messages_refuse(struct asking *asking, struct span at, const char *message, const char *param);

/* Writes system and messages as the messages of a chat. Either may be {NULL, 0}. */
MUST_CHECK bool messages_write_turns(struct asking *asking, struct span system,
                                     struct span messages);

/* translate_ask() of this API, with its errors. */
enum err messages_ask(struct span body, uint32_t json_depth, struct writer *out,
                      struct ask_problem *out_problem);

/* ---- the answer ---- */

/* What is to be said of an answer when it ends. */
struct ending {
    int64_t prompt, cached, created, output; /* tokens so far; 0: not known */
    struct span finish;                      /* the chat's finish_reason: static text */
    struct buffer stop;                      /* raw: the stop sequence that was met */
    bool refused;                            /* the model declined */
    bool tools;                              /* a tool is called */
};

/* One answer, whole or streamed. */
struct answering {
    struct span model, exchange_id; /* behind the struct, in the same memory */
    bool hide_thinking;             /* asked for with thinking.display = "omitted" */
    struct ending ending;
    struct stream *stream; /* NULL until the first event */
};

/* Takes the usage of a chat answer or chunk; what it does not say stays. */
void messages_take_usage(struct ending *ending, struct span usage);

/* Takes finish_reason, and the stop sequence where the server says it. false: no memory. */
MUST_CHECK bool messages_take_finish(struct ending *ending, struct span choice);

/* "stop_reason":…,"stop_sequence":… */
void messages_write_stop(const struct ending *ending, struct writer *out);

/* "usage":{…} */
void messages_write_usage(const struct ending *ending, struct writer *out);

/* {"id":…,"type":"message","role":"assistant","model":…,"content":[ */
void messages_write_opening(const struct answering *answering, struct writer *out);

/* The id of a tool call; one is made of its number when the server gave none. */
void messages_write_call_id(const struct answering *answering, struct span raw_id, uint32_t number,
                            struct writer *out);

/* The thinking in a chat message or delta: a string that is not empty, or {NULL, 0}. */
struct span messages_thinking(struct span reasoning_content, struct span reasoning);

/* Frees what translate_messages_stream.c keeps of an answer. NULL is fine. */
void messages_stream_free(struct stream *stream);

/* translator_event(), translator_end() and translator_whole(); state: a struct answering. */
enum err messages_event(void *state, struct span json, struct writer *out);
enum err messages_end(void *state, struct writer *out);
enum err messages_whole(void *state, struct span json, struct writer *out);

#endif
