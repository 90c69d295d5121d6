/* SPDX-License-Identifier: Apache-2.0 */
/* meter/meter.h: may they, and what did it cost; the door of this room.
 *
 * For:       one slot in the in-flight table per admitted exchange, the running tokens in it, the
 *            price, and the journal row that the writer thread makes of it.
 * Promises:  1. A slot taken by meter_admit() becomes exactly one row, whatever went wrong.
 *            2. Running totals are in the shared table before the bytes that they count leave
 *               (meter_publish() is a few stores, the last one a release).
 *            3. Workers never write to a disk and never wait for one.
 *            4. Money is integer: picodollars; no float anywhere.
 * Example:   slot = meter_admit(meter, &opening);
 *            meter_route(slot, &route);
 *            meter_publish(slot, &usage, SOURCE_RUNNING, bytes_out);
 *            meter_settle(meter, slot, &ending);
 * Not yet:   the hash chain of rows (prev), signed heads and the recovery of a dead process's table
 *            come with billing.
 * Called by: steps.c, exchange.c and replica.c of the gateway, its start and reload, admin.c.
 * Knows not: sockets, HTTP bodies, how a replica is chosen. */
#ifndef METER_METER_H
#define METER_METER_H

#include "config/config.h"

struct meter;
struct slot; /* 1 KiB in the shared table; owned by one exchange from admit to settle */

/* Opens the journal directory (made if absent; config->journal empty: rows go nowhere but are still
 * counted), the lock, the in-flight table of limits_in_flight slots, and starts the writer thread.
 * One per process. The file is <gateway>-<epoch>-<first seq>.jsonl, the table
 * <gateway>-<epoch>.inflight, both under <gateway>.lock. A table left by a dead process is kept
 * (renamed aside as *.dead). problem: what is wrong, in words.
 * Errors: ERR_BAD_VALUE (gateway's name), ERR_INTERNAL (the system, or another process holds the
 * lock), ERR_NO_MEMORY. */
MUST_CHECK enum err meter_open(const struct config *config, struct meter **out_meter, char *problem,
                               size_t problem_size);

/* Stops the writer when all ended slots are rows on disk, however long the disk takes, and closes.
 * No other call may be under way. What meter_adopt() set ends here too. NULL is fine. */
void meter_close(struct meter *meter);

/* Binds a snapshot: sets config_model.estimate, by model name, outliving snapshots. One thread at a
 * time, before the snapshot is published. Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err meter_adopt(struct config *config);

/* Is the journal writable (for /readyz)? */
bool meter_ready(const struct meter *meter);

#define METER_OPENING_BYTES 408 /* of all texts of an opening together */

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
    struct span model_asked;
    int64_t admitted_us; /* wall */
    int64_t bytes_in;
};

/* A slot, open; NULL when the table is full. Any worker. */
MUST_CHECK struct slot *meter_admit(struct meter *meter, const struct meter_opening *opening);

/* What the choice and the grant decided; again for each attempt. price may be NULL (no attempt was
 * made). */
struct meter_route {
    struct span model, replica;
    int64_t queue_us; /* time waited for the grant, total so far */
    int64_t sent_us;  /* wall, 0: not sent */
    uint32_t attempts;
    const struct price *price;
    struct span why; /* reason in words, short */
};
/* Writes the route into the slot; texts are copied, cut to what fits. The slot must be open. */
void meter_route(struct slot *slot, const struct meter_route *route);

/* Running totals of the attempt under way: before the bytes that carry them leave. */
void meter_publish(struct slot *slot, const struct usage *usage, enum usage_source source,
                   int64_t bytes_out);

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
    int64_t cost_pusd; /* from meter_cost(); 0 when not billable */
};

/* Marks the slot ended: no system call, safe against kill -9. The slot is the writer's from here
 * on. */
void meter_settle(struct meter *meter, struct slot *slot, const struct meter_ending *ending);

/* The price of usage, exact. Classes of -1 count 0.
 * Errors: ERR_BAD_VALUE (overflow or a negative count); *out_pusd is then untouched. */
MUST_CHECK enum err meter_cost(const struct usage *usage, const struct price *price,
                               int64_t *out_pusd);

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

/* A picodollar amount as USD decimal text ("0.000123") and a NUL; returns its length. out: at least
 * 40 bytes. */
size_t meter_format_usd(int64_t pusd, char *out);

struct meter_view {
    uint32_t slots, open, ended_waiting;
    uint64_t rows;
    bool failing; /* the last write failed */
};
/* The present numbers, each as of its own moment. Any thread. */
void meter_view(const struct meter *meter, struct meter_view *out_view);

#endif
