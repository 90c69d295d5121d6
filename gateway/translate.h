/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate.h: an API in terms of chat completions, for servers that lack it; pure.
 *
 * For:       /v1/messages and /v1/responses to /v1/chat/completions, and the answers back: whole
 *            bodies and streams, event by event.
 * Promises:  1. What means the same in both APIs is carried over, values that need no change byte
 *               for byte (numbers, schemas, texts with their escapes).
 *            2. What chat completions cannot express is refused with the field's name, never
 *               dropped in silence, unless dropping it changes nothing but a hint (each rule says
 *               so where it stands, with its source).
 *            3. However an answer's events come, those that go out are a sequence that the API
 *               allows, and end as it demands.
 * Called by: parcel.c (the ask), rewrite.c (the answer).
 * Knows not: sockets, SSE framing of what comes in, who pays. What goes out is SSE text. */
#ifndef GATEWAY_TRANSLATE_H
#define GATEWAY_TRANSLATE_H

#include "gateway/ask.h"
#include "gateway/writer.h"

/* Writes the body of endpoint `from` (ENDPOINT_MESSAGES or ENDPOINT_RESPONSES) as one of chat
 * completions: model and stream go over as they are; stream_options, cache_salt and the model's
 * name for the server are spliced in later, as for any chat body. body was accepted by ask_read();
 * json_depth as there.
 *
 * Errors: ERR_BAD_VALUE (*out_problem says which field; its texts are static), ERR_BAD_JSON,
 * ERR_NO_MEMORY, ERR_TOO_LARGE. What was written then is of no use. */
MUST_CHECK enum err translate_ask(enum endpoint from, struct span body, uint32_t json_depth,
                                  struct writer *out, struct ask_problem *out_problem);

/* For the translations: the body as one JSON object; ERR_BAD_JSON (*out_problem says why). */
MUST_CHECK enum err translate_read_object(struct span body, uint32_t json_depth,
                                          struct span *out_object, struct ask_problem *out_problem);

/* What an answer bears that the server does not say. Borrowed for translator_new(). */
struct translator_facts {
    struct span model;       /* the name that the client asked for */
    struct span exchange_id; /* ids of the answer are made of it */
    struct span body;  /* the client's own body: some of its fields stand in the answer again */
    int64_t created_s; /* wall clock, seconds since 1970 UTC */
};

struct translator;

/* Begins an answer in the API `to`. NULL without memory. */
MUST_CHECK struct translator *translator_new(enum endpoint to,
                                             const struct translator_facts *facts);

/* Safe on NULL. */
void translator_free(struct translator *translator);

/* One event of a chat stream (its data, JSON) becomes none, one or several events. Errors:
 * ERR_REPLICA_PROTOCOL (not JSON), ERR_NO_MEMORY, ERR_TOO_LARGE. */
MUST_CHECK enum err translator_event(struct translator *translator, struct span json,
                                     struct writer *out);

/* The chat stream has come to its end ("[DONE]", or its end without one after a finish_reason):
 * what the API demands at its end goes out. Idempotent. The same errors. */
MUST_CHECK enum err translator_end(struct translator *translator, struct writer *out);

/* A whole chat answer (status 200) as a whole answer of the API. The same errors. */
MUST_CHECK enum err translator_whole(struct translator *translator, struct span json,
                                     struct writer *out);

/* The sequence_number of the event that comes next; 0 where events bear none. Only of a stream. */
int64_t translator_sequence(const struct translator *translator);

/* One row per API that is translated: what stands behind the functions above. */
struct translation {
    enum endpoint endpoint;
    enum err (*ask)(struct span body, uint32_t json_depth, struct writer *out,
                    struct ask_problem *out_problem);
    void *(*begin)(const struct translator_facts *facts); /* NULL without memory */
    void (*end_of_life)(void *state);
    enum err (*event)(void *state, struct span json, struct writer *out);
    enum err (*end)(void *state, struct writer *out);
    enum err (*whole)(void *state, struct span json, struct writer *out);
    int64_t (*sequence)(const void *state); /* NULL: events bear no number */
};

extern const struct translation translation_messages;  /* translate_messages.c */
extern const struct translation translation_responses; /* translate_responses.c */

#endif
