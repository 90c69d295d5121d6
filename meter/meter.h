/* SPDX-License-Identifier: Apache-2.0 */
/* meter/meter.h: may they, and what did it cost; the door of this room for the data path.
 *
 * For:       one slot in the in-flight table per admitted exchange, the running tokens in it, the
 *            price, and the journal row that the writer thread makes of it. Who reads what was
 *            charged comes in by books.h.
 * Promises:  1. A slot taken by meter_admit() becomes exactly one row, whatever went wrong, and
 *            whatever instant the process is killed at.
 *            2. Running totals are in the shared table before the bytes that they count leave
 *               (meter_publish() is a few stores, the last one a release).
 *            3. Workers never write to a disk and never wait for one.
 *            4. Money is integer: picodollars; no float anywhere.
 *            5. Rows are chained by hash, and every file ends with a signed head.
 * Example:   slot = meter_admit(meter, &opening);
 *            meter_route(slot, &route);
 *            meter_publish(slot, &running);
 *            cost_pusd = meter_settle(meter, slot, &ending, NULL);
 * Called by: steps.c, exchange.c and replica.c of the gateway, its start and reload, admin.c.
 * Knows not: sockets, HTTP bodies, how a replica is chosen. */
#ifndef METER_METER_H
#define METER_METER_H

#include "config/base/load.h"
#include "config/config.h"

struct books;
struct meter;
struct slot; /* 1 KiB in the shared table; owned by one exchange from admit to settle */

/* Opens the journal directory (made if absent; config->journal empty: rows go nowhere but are still
 * counted), the in-flight table (of limits_in_flight slots, and more for what has ended), makes
 * rows of what dead processes left (recover.h), and starts the writer and, with a ledger or
 * anchors, the keeper (keeper.h).
 * One per process. problem: what is wrong, in words.
 * Errors: ERR_BAD_VALUE (gateway's name, the signing key, a journal that is damaged), ERR_INTERNAL
 * (the system), ERR_NO_MEMORY. */
MUST_CHECK enum err meter_open(const struct config *config, struct meter **out_meter, char *problem,
                               size_t problem_size);

/* Stops the keeper: queries that wait are done as refused. Before the threads go that they were
 * asked from. NULL is fine. */
void meter_quiesce(struct meter *meter);

/* Stops the writer when all ended slots are rows on disk, however long the disk takes, writes the
 * last head, and closes; false: the disk has failed, and the table is kept for the next start. No
 * other call may be under way. What meter_adopt() set ends here too. NULL is fine. */
bool meter_close(struct meter *meter);

/* Binds a snapshot, by names, outliving it: config_model.estimate, config_replica.account, and the
 * prices' rows in the book. One thread at a time, before the snapshot is published.
 * Errors: ERR_NO_MEMORY (of the book as well: this process has seen too many different prices). */
MUST_CHECK enum err meter_adopt(struct meter *meter, struct config *config);

/* A new snapshot is live: what may be changed while running is taken from it. Any thread. */
void meter_heed(struct meter *meter, const struct config *config);

/* Can what is admitted now be written down (for /readyz and admit)? */
bool meter_ready(const struct meter *meter);

/* Has the disk failed in a way after which nothing can be trusted but a new start (EIO, a failed
 * sync)? The process must end, non-zero; the table is kept for the next one. */
bool meter_failed(const struct meter *meter);

#define METER_OPENING_BYTES 392 /* of all texts of an opening together */

/* What is known when the exchange is admitted. Spans are copied (cut to what fits, flagged; tags
 * whole or not at all). */
struct meter_opening {
    struct span exchange_id; /* 32 hex digits */
    struct span request_id;
    struct span trace_id; /* 32 hex digits or absent */
    struct span tenant, key, tags_json;
    enum endpoint endpoint;
    struct span class;
    bool stream;
    enum service_tier tier;
    struct span model_asked;
    int64_t admitted_us; /* wall */
    int64_t bytes_in;
};

/* A slot, open; NULL when limits_in_flight are, or the table is full of what has ended and has no
 * row yet. Any worker. */
MUST_CHECK struct slot *meter_admit(struct meter *meter, const struct meter_opening *opening);

/* What the choice and the grant decided; again for each attempt. price may be NULL (no attempt was
 * made). */
struct meter_route {
    struct span model, replica;
    int64_t queue_us; /* time waited for the grant, total so far */
    int64_t sent_us;  /* wall, 0: not sent */
    uint32_t attempts;
    const struct price *price; /* of an adopted snapshot */
    /* What is estimated by where the server does not say all. */
    const struct estimate_state *estimate;
    int64_t prompt_bytes;
    int64_t most_input, most_output; /* tokens, from meter_bounds() */
    struct span why;                 /* reason in words, short */
};
/* Writes the route into the slot; texts are copied, cut to what fits. The slot must be open. */
void meter_route(struct slot *slot, const struct meter_route *route);

/* Running totals of the attempt under way. */
struct meter_running {
    struct usage usage;
    int64_t bytes_out;
    int64_t text_bytes; /* of the answer so far, for the estimator */
    int64_t pieces;     /* events with text so far, likewise; 0: no stream */
    uint32_t source;    /* enum usage_source */
    uint32_t delivered; /* 1: a byte of the replica's answer is about to leave, or has left */
};

/* Before the bytes that they count leave. */
void meter_publish(struct slot *slot, const struct meter_running *running);

#define METER_NO_BOUND UINT32_MAX

/* What an estimate starts from where the replica does not say all, as of the route. */
struct meter_guess {
    int64_t input;           /* tokens of the prompt */
    uint64_t answer, pieces; /* what was learned, as in struct tokens_ratio */
    uint32_t most_input;     /* tokens that the ask can come to, or METER_NO_BOUND */
    uint32_t most_output;    /* likewise; 0: its endpoint generates nothing */
};

/* An attempt that was not delivered, with the tokens it is known to have made (for the row's
 * wasted; two fit, the tokens of more join the second's). */
void meter_waste(struct slot *slot, struct span replica, const char *cause,
                 const struct usage *usage);

struct meter_ending {
    enum outcome outcome;
    int status; /* what the client got */
    bool billable;
    struct usage usage; /* classes of -1 are not known: absent in the row, free of charge */
    enum usage_source source;
    uint32_t flags;         /* enum usage_flag */
    int64_t first_token_us; /* wall; 0: none */
    int64_t ended_us;       /* wall */
    int64_t bytes_out;
    int64_t text_bytes, pieces; /* as in struct meter_running */
    int64_t unit_cost_pusd;     /* from meter_unit_cost(); -1: not known */
};

/* Who waits until a row cannot be lost any more. Embedded in the exchange. */
struct meter_wait {
    void (*durable)(struct meter_wait *wait); /* on the writer's thread: a doorbell */
};

/* Prices the slot and marks it ended: no system call, safe against kill -9. The slot is the
 * writer's from here on. What a billable ending does not say of its usage is estimated, in *ending
 * too. Returns the cost (pusd); 0 when not billable, or when it does not fit (the row, and *ending,
 * are then usage_suspect). wait: rung once when the row is synced (durability: power); NULL, and
 * with durability: process, nobody waits. */
int64_t meter_settle(struct meter *meter, struct slot *slot, struct meter_ending *ending,
                     struct meter_wait *wait);

/* Takes back the wait that the slot was settled with. false: too late, it has been or is being
 * rung; the slot may be another's by now, whose wait stays. */
bool meter_unwait(struct meter *meter, const struct slot *slot, struct meter_wait *wait);

/* Is durability power, so that answers wait for their rows? As it was when the process began. */
bool meter_is_durable(const struct meter *meter);

/* The estimator: learned bytes per token of a model, separately for prompts and answers; and tokens
 * per event of its streams. */
struct meter_sizes {
    int64_t prompt_bytes;  /* text bytes of the prompt, media parts excluded */
    int64_t answer_bytes;  /* text bytes of the answer (content deltas), as delivered */
    int64_t answer_pieces; /* events of a stream that bore text; 0: it is no stream */
};

/* Tokens estimated from sizes: input and output filled, others 0. state may be NULL (what is
 * believed before anything was learned).
 *
 * Each event of a stream that bears text is at least one token of its own, so their number is at
 * most what was generated, and what servers that write each token by itself have handed out
 * exactly. It is taken for the output, unless the model's streams were seen to put several tokens
 * into one event: then so many times as they did. */
void meter_estimate(const struct estimate_state *state, const struct meter_sizes *sizes,
                    struct usage *out_usage);

/* Teaches the estimator from a reply that reported its usage. Lock-free, any thread. */
void meter_learn(struct estimate_state *state, const struct meter_sizes *sizes,
                 const struct usage *usage);

/* How far the estimator was off lately for this model: the mean of |estimated ÷ reported − 1| over
 * recent lessons, in thousandths, of prompts and of answers; -1: nothing was learned yet. */
void meter_estimate_error(const struct estimate_state *state, int64_t *out_prompt_permille,
                          int64_t *out_answer_permille);

/* ---- what an ask would cost ---- */

/* What of an ask decides its cost. */
struct meter_ask {
    int64_t text_bytes; /* raw text of prompts, messages and tools; at least one token needs one
                         * byte, so it bounds them */
    int64_t messages;
    int64_t tools;
    int64_t tool_bytes;  /* of their JSON, calls included, within text_bytes */
    int64_t other_bytes; /* of what a chat template may be shown besides; no part of text_bytes */
    int64_t token_ids;   /* prompts given as token ids; their spelling is not in text_bytes */
    int64_t parts[PART_KINDS];
    int64_t prompts;        /* ≥ 1 */
    int64_t n;              /* answers a prompt, ≥ 1 */
    int64_t max_tokens;     /* asked for; -1: not said */
    bool opaque;            /* its prompt cannot be judged: it brings a template, or embeddings */
    bool generates;         /* false: embeddings, rerank …: no output */
    int64_t default_output; /* what no limit means upstream (completions: 16); -1: no bound */
    enum service_tier tier;
};

struct meter_quote {
    bool bounded; /* false: there is no bound (a part without part_tokens, no output limit) */
    const char *unbounded_by; /* in words, static */
    struct usage most;        /* all input at the dearest class of input, all output likewise */
    int64_t most_pusd; /* no call of this ask can cost more; -1: unbounded, or does not fit */
    struct usage probable;
    int64_t probable_pusd; /* -1: does not fit */
    struct rates rates;    /* that the probable cost is made of, the tier's factor in them … */
    int64_t price_from_us; /* … and which dated price they are of */
    int64_t output_bound;  /* max_tokens that the bound counts on; -1: none */
};

/* The most tokens that an ask can come to on a model; -1: no bound. *out_output is 0 where nothing
 * is generated. Pure. */
void meter_bounds(const struct config_model *model, const struct meter_ask *ask, int64_t *out_input,
                  int64_t *out_output);

/* What an ask costs at most and probably, on a model, admitted at a moment (wall, µs). Pure but for
 * what was learned. false: the model has no price then. */
bool meter_quote(const struct config_model *model, const struct meter_ask *ask, int64_t at_us,
                 struct meter_quote *out_quote);

/* ---- replicas: what a token costs us, and whether the engine counts as we do ---- */

/* An attempt on this replica begins; ends, with the tokens it is known to have made, delivered or
 * wasted (-1 counts 0). Any thread. */
void meter_attempt_begins(const struct config_replica *replica);
void meter_attempt_ends(const struct config_replica *replica, const struct usage *usage,
                        uint64_t now_ns);

/* What a computed token costs us on this replica now (pusd); -1: not known. */
int64_t meter_unit_cost(const struct config *config, const struct config_replica *replica,
                        uint64_t now_ns);

/* The engine is about to be asked for its counters; what they say (-1: not said). One thread at a
 * time for a replica. */
void meter_reading_begins(const struct config_replica *replica);
void meter_reconcile(const struct config_replica *replica, const struct load *load,
                     uint64_t now_ns);

/* What was counted at a replica by us, and what its engine says of itself. */
struct meter_replica_view {
    int64_t prompt_tokens, generation_tokens; /* ours: of attempts that ended */
    /* The engine's over the same time; -1. */
    int64_t engine_prompt_tokens, engine_generation_tokens;
    int64_t drift_prompt_tokens, drift_generation_tokens; /* engine − ours, at the last moment when
                                                           * nothing was under way; 0 until then */
    int64_t drift_age_ms;     /* since that moment; -1: there was none yet */
    uint64_t engine_restarts; /* times its counters fell: the comparison began anew */
    int64_t tokens_per_hour;  /* measured: tokens that had to be computed; -1: not yet */
    int64_t unit_cost_pusd; /* what such a token costs us; -1: usd_per_hour not said, or not yet */
};

/* Each number as it is now: any thread may ask, and they need not be of the same moment. */
void meter_replica_view(const struct config_replica *replica, const struct config *config,
                        uint64_t now_ns, struct meter_replica_view *out_view);

/* ---- questions to the ledger, off the workers' threads ---- */

/* Embedded in what is asked. run() is called on the keeper's thread with the books open, refused()
 * instead when there are none or they cannot be read; either ends with the asker's own doorbell. */
struct meter_query {
    struct meter_query *next;
    void (*run)(struct meter_query *query, struct books *books);
    void (*refused)(struct meter_query *query, const char *problem);
};

/* Errors: ERR_NO_LEDGER, ERR_OVERLOADED (METER_QUERIES_MAX wait already): neither function is
 * called then. Any thread. */
MUST_CHECK enum err meter_query(struct meter *meter, struct meter_query *query);

#define METER_QUERIES_MAX 64u

struct meter_view {
    uint32_t slots; /* limits_in_flight: as many may be open */
    uint32_t open, ended_waiting;
    uint64_t rows;
    bool failing;          /* the last write failed */
    bool full;             /* no room for new work: what is under way still fits the reserve */
    uint64_t recovered;    /* rows made of what dead processes left, since the start */
    uint64_t synced;       /* rows that a power cut cannot take any more */
    int64_t anchor_age_ms; /* since the last anchor was told; -1: none yet, or nowhere to tell */
    int64_t ledger_behind_rows; /* not in the ledger yet; -1: there is none */
};
/* The present numbers, each as of its own moment. Any thread. */
void meter_view(const struct meter *meter, struct meter_view *out_view);

#endif
