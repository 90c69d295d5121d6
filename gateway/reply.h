/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/reply.h: answers of our own; the only place where an error becomes HTTP.
 *
 * For:       error bodies in the API's shape, the models list, preflights; and the fields that
 *            every answer bears.
 * Called by: steps.c, exchange.c, relay.c, admin.c, access.c.
 * Knows not: protocols; what a step decides. */
#ifndef GATEWAY_REPLY_H
#define GATEWAY_REPLY_H

#include "gateway/exchange.h"

/* Adds a field to the answer (name lower case; both borrowed until the exchange closes). Past
 * ANSWER_FIELDS_MAX it is dropped with a log line. */
void reply_field(struct exchange *x, struct span name, struct span value);

/* An answer step by step: reply_begin() drops what the answer and its rider held, then come fields
 * (reply_common_fields() among them), then reply_finish(), which takes the body over (one chunk of
 * the caller's, size set; NULL: none), adds content-type when it is not empty, marks the answer
 * ready and the rider ended, and rings the protocol: no field can be added after it. */
void reply_begin(struct exchange *x, int status);
void reply_finish(struct exchange *x, struct span content_type, struct chunk *body);

/* Makes x's answer an error of ours: status, body {"error":{"message","type","param","code"}},
 * retry-after when the row says so, x-should-retry: false where trying again is useless. message
 * NULL: the row's text; else a text made for this case (copied). param may be NULL. Sets x->cause
 * when it was OK. Marks the answer ready and the rider ended. Also before the head of a stream has
 * gone; afterwards see reply_error_event(). */
void reply_error(struct exchange *x, enum err err, const char *message, const char *param);

/* 405 for a path that takes these methods ("GET, HEAD") only. */
void reply_method_error(struct exchange *x, struct span allowed);

/* The chunk of an SSE error event in the API's shape ("data: {"error":{…}}\n\n"), framed; NULL
 * without memory. sequence: the number that it bears in a stream of responses, 0: not known. */
struct chunk *reply_error_event(struct exchange *x, enum err err, int64_t sequence);

/* A whole answer with a body of ours (copied). */
void reply_body(struct exchange *x, int status, struct span content_type, struct span body);

/* The models that this key may use: list, or the one with x->path_rest (404 if it is not there). */
void reply_models(struct exchange *x);

/* OPTIONS: 204 with the CORS fields. */
void reply_preflight(struct exchange *x);

/* Fields that every answer bears: x-request-id, CORS, and, once a route was chosen,
 * x-tollgate-model, -replica, -class, -why, -overhead-ms. Called once, when the head is made. */
void reply_common_fields(struct exchange *x);

/* The client's own x-request-id if it is one (1 to 128 of A-Za-z0-9._-), else our exchange id. */
struct span reply_request_id(const struct exchange *x);

/* Why this model was chosen, in a few words: "class header", "model asked", "fallback of small";
 * with "; retry" behind when the same model had to be tried again. Static, or in the exchange's
 * arena. */
struct span reply_why(struct exchange *x);

/* text without its percent-encoding, in the arena's memory; {NULL, 0}: malformed, or no memory. */
MUST_CHECK struct span reply_decode_path(struct span text, struct arena *arena);

#endif
