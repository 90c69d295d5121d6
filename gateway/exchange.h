/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/exchange.h: one HTTP request and its response.
 *
 * For:       the table of steps, the runner, open and close; and the two faces that the protocols
 *            see: the request as they hand it in, the answer as they send it out.
 * Called by: conn.c (h1) and h2.c; steps.c and the files it calls read and write the struct.
 * Knows not: how a protocol frames.
 * Thread:    lives and dies on one worker. */
#ifndef GATEWAY_EXCHANGE_H
#define GATEWAY_EXCHANGE_H

#include "config/base/arena.h"
#include "config/config.h"
#include "gateway/ask.h"
#include "gateway/body.h"
#include "gateway/flight.h"
#include "gateway/identity.h"
#include "gateway/server.h"
#include "meter/meter.h"
#include "router/router.h"

struct attempt;
struct h2_stream;
struct usage_question;

/* clang-format off */
#define EXCHANGE_STEPS(STEP)                                              \
    STEP(identify, "whose key is this")                                   \
    STEP(read_ask, "which model, which messages, streamed or whole")      \
    STEP(classify, "what kind of task, and which models may do it")       \
    STEP(admit,    "a place in the in-flight table")                      \
    STEP(choose,   "which model")                                         \
    STEP(queue,    "when is its turn, and on which replica")              \
    STEP(send,     "hand the ask over, wait for the answer's head")       \
    STEP(relay,    "carry the answer back, counting as it passes")        \
    STEP(settle,   "charge what was used, log")
/* clang-format on */

enum step {
#define STEP(name, says) STEP_##name,
    EXCHANGE_STEPS(STEP)
#undef STEP
        STEP_done
};

/* What a step says of itself: NEXT (the row below), WAIT (run me again when woken), ANSWER (down to
 * relay: an answer of our own or an error), RETRY (up to choose). */
enum verdict { NEXT, WAIT, ANSWER, RETRY };

/* A header field; names in lower case. */
struct field {
    struct span name, value;
};

#define ANSWER_FIELDS_MAX 48

enum answer_framing {
    ANSWER_NO_BODY, /* HEAD, 204, 304: the head is all */
    ANSWER_LENGTH,  /* answer.length bytes follow */
    ANSWER_STREAM /* unknown length: h1 chunked (HTTP/1.0: until close), h2 DATA until END_STREAM */
};

/* The answer's head, ready to send once `ready`. The body is what x->rider holds. */
struct answer {
    bool ready; /* the head may go out */
    bool sent;  /* the protocol has put it into its output */
    int status;
    enum answer_framing framing;
    uint64_t length;
    uint32_t field_count;
    struct field *fields; /* in the arena; no connection-level fields, no content-length, no date */
};

/* An answer that may not end before its row is synced (durability: power). */
enum durable {
    DURABLE_NOT,   /* it is not settled yet, or need not wait */
    DURABLE_WAITS, /* settled; the writer will ring */
    DURABLE_DONE   /* rung, or waited for in vain */
};

struct exchange {
    /* open: written by the protocol before exchange_begin(), borrowed texts copied to the arena */
    struct worker *worker;
    struct conn *conn;                /* NULL once the client has gone */
    struct h2_stream *stream;         /* h2 only: the protocol's own */
    struct identity_memory *identity; /* of the conn; NULL once the client has gone */
    struct arena arena;
    struct config *config; /* snapshot held from open to close */
    struct span method, target, path;
    struct span authorization, api_key_header, content_type, content_encoding, accept_encoding;
    struct span request_id, task_class, traceparent, tracestate, origin, accept;
    struct span anthropic_version, anthropic_beta;
    struct span litellm_tags; /* x-litellm-tags: words of the client's for its rows */
    struct field *kept;       /* fields that a class of the config looks at */
    uint32_t kept_count;
    struct span request_headers_wanted; /* CORS preflight */
    uint64_t exchange_number;
    char exchange_id[33];
    bool admin; /* came in on the admin listener */
    bool http2; /* came over HTTP/2 */
    uint64_t opened_ns;
    int64_t opened_us;

    struct body body; /* read_ask: own buffer, freed at the first answer byte */
    bool body_whole;  /* the protocol: the body is all there */

    const struct config_key *key; /* identify: borrowed from config */
    enum endpoint endpoint;       /* identify; of a quote, that which is quoted for */
    bool quote;                   /* identify: it asks what an ask would cost, and is not one */
    struct span path_rest;        /* identify: {id} of /v1/models/{id} */
    struct usage_question *question; /* identify: asked of the ledger, NULL before and after */
    struct ask ask; /* read_ask: spans point into body; what outlives it is copied to arena */
    const struct config_class *class; /* classify */
    const char *class_why;
    const struct config_model *candidates[MODEL_CANDIDATES_MAX]; /* classify: best first */
    uint32_t candidate_count;
    struct slot *slot;                /* admit; ended in settle */
    uint32_t candidate;               /* which of candidates; queue and send move on to the next */
    const struct config_model *model; /* choose: candidates[candidate] */
    const struct config_replica *replica; /* send: of the newest attempt */
    uint64_t excluded;  /* send: replicas of the candidate that failed it, as bits of their index */
    uint32_t attempts;  /* send: so far, this one included */
    bool retry_counted; /* send: this attempt is a retry that the budget knows of */
    bool retried;       /* send: why says so */
    bool resent;        /* send: a reset behind the whole request has been retried: once only */
    struct ticket ticket; /* queue: a slot on the replica, back when its answer ends */
    struct letter grant_letter;
    bool grant_awaited;      /* in the queue: not freed before its letter, if one comes */
    bool grant_posted;       /* the letter is under way; whoever grants writes it, read after
                                router_return() */
    uint64_t queue_ns;       /* queue: time waited in all attempts */
    struct attempt *attempt; /* send: the one under way; NULL before and after */
    struct rider rider;      /* send: our seat: cursor, flight */
    struct answer answer;    /* send, relay: the head */
    /* relay: running totals handed to the socket, and where they come from */
    struct usage delivered;
    enum usage_source delivered_source;
    int64_t delivered_text_bytes, delivered_pieces;
    /* relay: those of the replica's whole answer, once it has ended well; source NONE before */
    struct usage whole;
    enum usage_source whole_source;
    int64_t whole_text_bytes, whole_pieces;
    bool delivered_any; /* a byte of the replica's body has been handed over */
    uint32_t flags;
    bool counts_whole; /* send: the server's usage counts all that it makes for this ask */
    /* relay: written by exchange_settled_early() and those it rings */
    enum durable durable;
    struct meter_wait durable_wait;
    struct letter durable_letter;
    const struct slot *durable_slot;
    int64_t cost_pusd; /* settle, or relay when it is settled early */
    uint64_t rest_until_ns; /* send: a busy replica asked for so long a rest; queue heeds it */
    uint64_t queued_ns;     /* queue: when it began to wait */
    uint64_t ping_ns;       /* when the next comment goes out on an early head */
    uint64_t sent_ns;       /* send: of the first attempt */
    uint64_t first_token_ns, ended_ns;
    int64_t bytes_in;  /* of the body, as it came */
    int64_t bytes_out; /* counted by the protocol: body bytes */
    enum outcome outcome;
    bool broke;        /* relay: the replica's answer was cut or said that it failed */
    enum err cause;    /* first error met, OK if none */
    enum step step;    /* written by exchange_move() alone, in exchange.c */
    enum step stopped; /* the step in which cause came up or the client left, for the log */
    bool early_head;   /* our head went out before the replica's: no retry any more */
    bool client_gone;
    bool answered; /* the protocol has handed the whole answer to the socket (or gave up) */
    struct wake wake;
    struct deadline deadline;
    struct grave grave;
};

/* A new exchange with a snapshot and an arena; NULL without memory. The protocol fills what stands
 * under "open". */
MUST_CHECK struct exchange *exchange_open(struct worker *worker, struct conn *conn);

/* Takes one header field in (name in any case): copies what we look at. ERR_NO_MEMORY; ERR_BAD_HTTP
 * for a field that may come once only and came twice. */
MUST_CHECK enum err exchange_field(struct exchange *x, struct span name, struct span value);

/* The head is whole (method, target set): the steps begin. */
void exchange_begin(struct exchange *x);

/* The head could not be read: answers err, asking nobody. (h1 only; the conn closes after.) */
void exchange_refuse(struct exchange *x, enum err err);

/* A piece of the body came. Errors: ERR_TOO_LARGE, ERR_BODIES_FULL, ERR_NO_MEMORY: the exchange
 * answers it by itself; the protocol skips what still comes. */
enum err exchange_body(struct exchange *x, struct span piece);

/* The body is whole. */
void exchange_body_end(struct exchange *x);

/* The client has gone (FIN, RST, RST_STREAM, connection closed): x->conn and x->stream are not used
 * any more. */
void exchange_abandon(struct exchange *x);

/* Before the first byte of the cursor's chunk leaves: its running totals are published. For each
 * chunk, at least once. */
void exchange_delivering(struct exchange *x, const struct chunk *chunk);

/* Puts its running totals into the in-flight table. */
void exchange_publish(struct exchange *x);

/* It waits for its row to be synced: the wait to settle its slot with, which leads to durable =
 * DURABLE_DONE and a turn of its steps. */
struct meter_wait *exchange_await_row(struct exchange *x);

/* Waits no longer; false: it did not wait, or the writer has begun to ring already. */
bool exchange_unawait_row(struct exchange *x);

/* The protocol has handed the whole answer to the socket: the exchange may settle. bytes: what was
 * sent, framing included. */
void exchange_answered(struct exchange *x);

/* A waiting ticket was granted by another exchange's return, perhaps on another thread. */
void exchange_granted(struct ticket *ticket);

/* Runs its steps in this turn. */
void exchange_wake(struct exchange *x);

/* "send", "relay" … for logs. */
const char *exchange_step_name(enum step step);

#endif
