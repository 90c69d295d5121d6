/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/engine.h: a timing model of continuous batching.
 *
 * For:       when each token of each request would be there on one accelerator. Pure: time is an
 *            argument.
 * Called by: pace.c.
 * Knows not: requests, sockets, what tokens say.
 *
 * Work is done in steps. A step takes one token of every sequence that decodes, and prompt tokens
 * of others up to `chunk` tokens in all; it lasts step_ms + step_ms_per_seq * decoding sequences +
 * prompt tokens / prefill_tps. Sequences come in by arrival, up to max_running; beyond max_waiting
 * they are refused. The KV cache has `blocks` blocks of `block` tokens. When none is free the
 * newest sequence is put back to the front of the queue and computed anew later. Full blocks of
 * prompts are found again by their hashes until they are needed (least recently used first);
 * generated tokens are not found again. */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine_options {
    double prefill_tps; /* prompt tokens a second */
    double step_ms;
    double step_ms_per_seq;
    long blocks;
    long block; /* tokens in one */
    long max_running;
    long max_waiting; /* 0: no bound */
    long chunk;       /* tokens of one step at most */
};

enum engine_state { ENGINE_OUT, ENGINE_WAITING, ENGINE_RUNNING };

/* One sequence; lives in its owner, who fills the first part. */
struct engine_job {
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    uint64_t *hashes; /* of the prompt's full blocks; freed by the engine */
    size_t hash_count;

    enum engine_state state;
    uint64_t produced; /* output tokens that are there */
    uint64_t cached;   /* prompt tokens found in the cache at its first start */
    bool started;      /* has been started once */
    bool progressed;   /* in the list of engine_take_progressed() */
    uint64_t computed; /* tokens in the KV cache */
    uint64_t planned;  /* of them, to be computed by the step under way */
    uint32_t *table;   /* its blocks; owned */
    size_t block_count;
    struct engine_job *before; /* in the queue or among the running, oldest first */
    struct engine_job *after;
    struct engine_job *next_progressed;
};

struct engine_counts {
    unsigned running;
    unsigned waiting;
    unsigned used_blocks;
    uint64_t preemptions;
};

enum engine_answer { ENGINE_TAKEN, ENGINE_FULL, ENGINE_TOO_LONG };

/* Reads `name=value,...`; unnamed options keep what out_options has. False: no such name, or no
 * such value. */
bool engine_read_options(const char *text, struct engine_options *out_options);

extern const struct engine_options engine_defaults;

struct engine *engine_new(const struct engine_options *options);
void engine_free(struct engine *engine);

/* A sequence comes; the job is kept until it is finished or engine_leave() is called. When it is
 * not taken, its hashes are freed. */
enum engine_answer engine_enter(struct engine *engine, struct engine_job *job, uint64_t now_ns);

/* It goes, finished or not. Safe for a job that is out. */
void engine_leave(struct engine *engine, struct engine_job *job);

/* When the step under way ends; UINT64_MAX: there is nothing to do. */
uint64_t engine_next_ns(const struct engine *engine);

/* Ends all steps that are due. */
void engine_advance(struct engine *engine, uint64_t now_ns);

/* A job that has produced tokens since it was last taken; NULL: none is left. */
struct engine_job *engine_take_progressed(struct engine *engine);

struct engine_counts engine_count(const struct engine *engine);

#endif
