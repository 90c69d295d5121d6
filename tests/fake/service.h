/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/service.h: what a request gets.
 *
 * For:       keys, models, errors and directives, as one decision per request.
 * Called by: server.c, main.c, control.c.
 * Knows not: sockets, timers. */
#ifndef FAKE_SERVICE_H
#define FAKE_SERVICE_H

#include "tests/fake/answer.h"
#include "tests/fake/http.h"

enum { MODELS_MOST = 16 };

/* Set once by main.c. */
struct service {
    struct text models[MODELS_MOST]; /* the first one is served when a body names none */
    size_t model_count;
    struct text key;       /* empty: no key is asked for */
    struct text base_path; /* taken off the front of paths; empty: none */
    bool record;           /* keep the last request for GET /fake/last */
};

extern struct service service;

/* What follows when the bytes at hand are written. */
enum next { NEXT_REQUEST, NEXT_GENERATE, NEXT_MODEL, NEXT_CLOSE, NEXT_RESET, NEXT_STALL };

struct reply {
    enum next next;
    enum framing framing; /* of a stream */
    bool inference;       /* `work` is filled and counts */
    bool failed;          /* its outcome is a failure, even when all is written */
    bool close;           /* the connection ends with this answer */
    uint64_t hold_ms;     /* wait so long before the first byte */
    uint64_t tokens;      /* generated once the bytes are written */
};

/* Decides, and writes what can be written now behind `out`.
 * work: fresh (all zero but prefix); filled for inference requests.
 * With NEXT_GENERATE nothing is written yet: the stream's head is made by
 * service_add_stream_head(). */
void service_answer(const struct request *request, struct work *work, struct buffer *out,
                    struct reply *out_reply);

/* Whether the request bears the key that is asked for. */
bool service_key_fits(const struct request *request);

/* The head of a stream, with its interim heads. */
void service_add_stream_head(struct work *work, const struct reply *reply, struct buffer *out);

/* With NEXT_MODEL: the tokens are there (pace.h), the whole answer is written behind `out`. */
void service_add_late(struct work *work, struct buffer *out, struct reply *reply);

/* uvicorn's answer to bytes that are no request. */
void service_add_refusal(struct buffer *out);

/* Whether a fault comes now, before the next event of a stream; out_next then says which. An error
 * event is put into
 * the stream here. */
bool service_fault(struct work *work, enum next *out_next);

#endif
