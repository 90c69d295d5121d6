/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/fault.h: what went wrong, read from what a model server says and written as clients
 * expect it; pure.
 *
 * For:       error bodies and error events of any known server, in the shape of the API that was
 *            called.
 * Promises:  1. Any bytes can be read; what cannot be understood is a fault without texts.
 *            2. What is written is one JSON object of the API's shape, whatever the fault holds.
 * Called by: reply.c (errors of our own), relay.c, rewrite.c, translate_*.c.
 * Knows not: HTTP, sockets, errors of our own (err.def). */
#ifndef GATEWAY_FAULT_H
#define GATEWAY_FAULT_H

#include "config/base/api.h"
#include "config/base/arena.h"
#include "config/base/span.h"
#include "gateway/writer.h"

#define FAULT_MESSAGE_BYTES 4096u /* a longer message is cut */
#define FAULT_TEXT_BYTES 1024u    /* read of a body that is no JSON */
#define FAULT_NAME_BYTES 128u     /* a longer type, param or code is left out */

/* How a server said it. */
enum fault_form {
    FAULT_NONE,      /* nothing was said: no body, or bytes that are no text */
    FAULT_OPENAI,    /* {"error":{"message":"…"}}: OpenAI, vLLM since 0.10.1, llama.cpp */
    FAULT_ANTHROPIC, /* {"type":"error","error":{"type":"…","message":"…"}} */
    FAULT_RESPONSE,  /* an event of a responses stream: response.failed, or error with its number */
    FAULT_FLAT,      /* {"message":"…","type","param","code"}: SGLang, older vLLM */
    FAULT_STRING,    /* {"error":"…"}: vLLM's 401 and 503; with error_type: TGI */
    FAULT_DETAIL,    /* {"detail":…}: FastAPI */
    FAULT_TEXT       /* no JSON, or JSON without any of these */
};

/* One error. Texts are UTF-8 without escapes; {NULL, 0}: not known. A fault may as well be made by
 * hand: all that is zero is "not known". */
struct fault {
    struct span message, type, param, code;
    int status;           /* HTTP status, 0: not known */
    int64_t sequence;     /* sequence_number that the error event of a responses stream bears */
    enum fault_form form; /* how it was read */
};

/* Reads the body of a reply, or the data of an event, that tells of an error. Texts live in arena;
 * one that has no room there is left out. out->status is the number in `code` if that is an HTTP
 * status (100 to 599), else 0: who knows the reply's status writes it over. */
void fault_read(struct span body, struct arena *arena, struct fault *out);

/* May what was read go to clients of this shape byte for byte? (An event of a responses stream is
 * OpenAI's.) */
bool fault_has_shape(const struct fault *fault, enum api_shape shape);

/* Does the server say that the prompt, or prompt and output together, are longer than the model's
 * context? Another model may then take them. */
bool fault_is_context(const struct fault *fault);

/* Writes the error as a body: {"error":{"message","type","param","code"}} or
 * {"type":"error","error":{"type","message"}}. A type that is not known follows from the status;
 * Anthropic's always does, but for one of its own types without a status. */
void fault_write(const struct fault *fault, enum api_shape shape, struct writer *out);

/* Writes the error as the last event of a stream of endpoint, with the empty line behind it. */
void fault_write_event(const struct fault *fault, enum endpoint endpoint, struct writer *out);

#endif
