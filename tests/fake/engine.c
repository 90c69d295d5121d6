/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/engine.c: a timing model of continuous batching.
 *
 * For:       when each token of each request would be there on one accelerator. Pure: time is an
 *            argument.
 * Called by: pace.c.
 * Knows not: requests, sockets, what tokens say. */
#include "tests/fake/engine.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS_MOST = 1 << 20, NO_BLOCK = 0 };

const struct engine_options engine_defaults = {
    .prefill_tps = 8000,
    .step_ms = 8,
    .step_ms_per_seq = 0.2,
    .blocks = 4096,
    .block = 16,
    .max_running = 256,
    .max_waiting = 0,
    .chunk = 2048,
};

/* A block of the KV cache. Number 0 is the anchor of the ring of free ones. */
struct block {
    uint64_t hash; /* 0: holds nothing that can be found */
    unsigned users;
    uint32_t before; /* in the ring of free ones, least recently used first */
    uint32_t after;
    uint32_t chain; /* next block of the same bucket */
};

struct engine {
    struct engine_options options;
    struct block *blocks;
    uint32_t *buckets; /* as many as there are blocks */
    unsigned free_blocks;
    struct engine_job running; /* rings, oldest first */
    struct engine_job waiting;
    struct engine_counts counts;
    struct engine_job *progressed;
    uint64_t step_end_ns; /* UINT64_MAX: no step is under way */
};

/* ---- options ---- */

static bool set_option(struct engine_options *options, const char *name, size_t bytes, double value)
{
    const struct {
        const char *name;
        double *real;
        long *whole;
    } rows[] = {
        {"prefill_tps", &options->prefill_tps, NULL},
        {"step_ms", &options->step_ms, NULL},
        {"step_ms_per_seq", &options->step_ms_per_seq, NULL},
        {"blocks", NULL, &options->blocks},
        {"block", NULL, &options->block},
        {"max_running", NULL, &options->max_running},
        {"max_waiting", NULL, &options->max_waiting},
        {"chunk", NULL, &options->chunk},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].name) != bytes || memcmp(rows[i].name, name, bytes) != 0)
            continue;
        if (rows[i].real != NULL)
            *rows[i].real = value;
        else
            *rows[i].whole = (long)value;
        return true;
    }
    return false;
}

bool engine_read_options(const char *text, struct engine_options *out_options)
{
    struct engine_options options = *out_options;

    while (*text != '\0') {
        const char *sign = strchr(text, '=');
        char *end;
        if (sign == NULL)
            return false;
        double value = strtod(sign + 1, &end);
        if (end == sign + 1 || value < 0 || value > 1e9 ||
            !set_option(&options, text, (size_t)(sign - text), value))
            return false;
        while (*end == ',' || *end == '\n')
            end++;
        text = end;
    }
    if (options.prefill_tps <= 0 || options.blocks < 1 || options.blocks >= BLOCKS_MOST ||
        options.block < 1 || options.max_running < 1 || options.chunk < 1)
        return false;
    *out_options = options;
    return true;
}

/* ---- blocks ---- */

static uint32_t *bucket_of(struct engine *engine, uint64_t hash)
{
    return &engine->buckets[hash % (uint64_t)engine->options.blocks];
}

static uint32_t find_block(struct engine *engine, uint64_t hash)
{
    uint32_t i = *bucket_of(engine, hash);

    while (i != NO_BLOCK && engine->blocks[i].hash != hash)
        i = engine->blocks[i].chain;
    return i;
}

static void forget_hash(struct engine *engine, uint32_t number)
{
    struct block *block = &engine->blocks[number];

    if (block->hash == 0)
        return;
    uint32_t *place = bucket_of(engine, block->hash);
    while (*place != number)
        place = &engine->blocks[*place].chain;
    *place = block->chain;
    block->hash = 0;
}

static void learn_hash(struct engine *engine, uint32_t number, uint64_t hash)
{
    struct block *block = &engine->blocks[number];
    uint32_t *bucket = bucket_of(engine, hash);

    if (block->hash != 0 || find_block(engine, hash) != NO_BLOCK)
        return;
    block->hash = hash;
    block->chain = *bucket;
    *bucket = number;
}

static void leave_free(struct engine *engine, uint32_t number)
{
    struct block *block = &engine->blocks[number];

    engine->blocks[block->before].after = block->after;
    engine->blocks[block->after].before = block->before;
    engine->free_blocks--;
}

static void use_block(struct engine *engine, uint32_t number)
{
    if (engine->blocks[number].users++ == 0)
        leave_free(engine, number);
}

static void release_block(struct engine *engine, uint32_t number)
{
    struct block *blocks = engine->blocks;
    struct block *block = &blocks[number];

    if (--block->users > 0)
        return;
    block->before = blocks[0].before;
    block->after = 0;
    blocks[block->before].after = number;
    blocks[0].before = number;
    engine->free_blocks++;
}

/* The end of a sequence is given back first, so that beginnings are found for longer. */
static void release_all(struct engine *engine, struct engine_job *job)
{
    while (job->block_count > 0)
        release_block(engine, job->table[--job->block_count]);
}

/* ---- rings of jobs ---- */

static void ring_insert(struct engine_job *before, struct engine_job *job)
{
    job->before = before;
    job->after = before->after;
    before->after->before = job;
    before->after = job;
}

static void ring_remove(struct engine_job *job)
{
    job->before->after = job->after;
    job->after->before = job->before;
}

static void stop_running(struct engine *engine, struct engine_job *job)
{
    ring_remove(job);
    release_all(engine, job);
    job->computed = 0;
    job->planned = 0;
    engine->counts.running--;
}

/* Back to the front of the queue; what it has produced stays produced. */
static void preempt(struct engine *engine, struct engine_job *job)
{
    stop_running(engine, job);
    ring_insert(&engine->waiting, job);
    job->state = ENGINE_WAITING;
    engine->counts.waiting++;
    engine->counts.preemptions++;
}

/* ---- a step ---- */

/* Room for so many tokens of the job; takes it from newer sequences if `may_preempt`. False: there
 * is none, and the job may have been put back itself. */
static bool make_room(struct engine *engine, struct engine_job *job, uint64_t tokens,
                      bool may_preempt)
{
    uint64_t block = (uint64_t)engine->options.block;
    size_t needed = (size_t)((tokens + block - 1) / block);

    while (job->block_count < needed) {
        if (engine->free_blocks == 0) {
            struct engine_job *newest = engine->running.before;
            if (!may_preempt)
                return false;
            preempt(engine, newest);
            if (newest == job)
                return false;
            continue;
        }
        uint32_t number = engine->blocks[0].after;
        forget_hash(engine, number);
        use_block(engine, number);
        job->table[job->block_count++] = number;
    }
    return true;
}

/* Plans the job's share of the step; returns the tokens that it takes of the budget. */
static uint64_t plan(struct engine *engine, struct engine_job *job, uint64_t budget, bool running)
{
    uint64_t left = job->prompt_tokens + job->produced - job->computed;
    uint64_t share = left < budget ? left : budget;

    if (share == 0 || !make_room(engine, job, job->computed + share, running))
        return 0;
    job->planned = share;
    return share;
}

/* Takes the known beginning of the prompt from the cache; the last token is always computed. */
static void find_prefix(struct engine *engine, struct engine_job *job)
{
    uint64_t block = (uint64_t)engine->options.block;

    for (size_t i = 0; i < job->hash_count && (i + 1) * block < job->prompt_tokens; i++) {
        uint32_t number = find_block(engine, job->hashes[i]);
        if (number == NO_BLOCK)
            break;
        use_block(engine, number);
        job->table[job->block_count++] = number;
        job->computed += block;
    }
    if (!job->started)
        job->cached = job->computed;
}

/* Starts the oldest that waits; returns its share, 0 when it has to wait on. */
static uint64_t start_next(struct engine *engine, uint64_t budget)
{
    struct engine_job *job = engine->waiting.after;

    if (job == &engine->waiting || (long)engine->counts.running >= engine->options.max_running)
        return 0;
    find_prefix(engine, job);
    uint64_t share = plan(engine, job, budget, false);
    if (share == 0) {
        release_all(engine, job);
        job->computed = 0;
        return 0;
    }
    ring_remove(job);
    ring_insert(engine->running.before, job);
    job->state = ENGINE_RUNNING;
    job->started = true;
    engine->counts.waiting--;
    engine->counts.running++;
    return share;
}

static void begin_step(struct engine *engine, uint64_t now_ns)
{
    const struct engine_options *options = &engine->options;
    uint64_t budget = (uint64_t)options->chunk;
    uint64_t prompt_tokens = 0;
    unsigned decoding = 0;
    uint64_t share;
    bool crowded = false;

    engine->step_end_ns = UINT64_MAX;
    for (struct engine_job *job = engine->running.after; job != &engine->running;) {
        struct engine_job *after = job->after;
        uint64_t before = engine->counts.preemptions;
        bool decodes = job->computed + 1 == job->prompt_tokens + job->produced;
        share = plan(engine, job, budget, true);
        crowded = crowded || engine->counts.preemptions > before;
        if (job->state == ENGINE_RUNNING)
            after = job->after; /* newer ones may have gone */
        else
            after = &engine->running;
        budget -= share;
        decoding += share > 0 && decodes;
        prompt_tokens += decodes ? 0 : share;
        job = after;
    }
    while (!crowded && budget > 0 && (share = start_next(engine, budget)) > 0) {
        budget -= share;
        prompt_tokens += share;
    }
    if (engine->counts.running == 0)
        return;
    double ms = options->step_ms + options->step_ms_per_seq * decoding +
                (double)prompt_tokens * 1000.0 / options->prefill_tps;
    engine->step_end_ns = now_ns + (uint64_t)(ms * 1e6) + 1;
}

static void note_progress(struct engine *engine, struct engine_job *job)
{
    if (job->progressed)
        return;
    job->progressed = true;
    job->next_progressed = engine->progressed;
    engine->progressed = job;
}

static void end_step(struct engine *engine)
{
    uint64_t block = (uint64_t)engine->options.block;

    for (struct engine_job *job = engine->running.after; job != &engine->running;) {
        struct engine_job *after = job->after;
        size_t full = (size_t)(job->computed / block);
        job->computed += job->planned;
        for (; full < job->hash_count && (full + 1) * block <= job->computed; full++)
            learn_hash(engine, job->table[full], job->hashes[full]);
        if (job->planned > 0 && job->computed == job->prompt_tokens + job->produced) {
            job->produced++;
            note_progress(engine, job);
        }
        job->planned = 0;
        if (job->produced >= job->output_tokens) {
            stop_running(engine, job);
            job->state = ENGINE_OUT;
        }
        job = after;
    }
}

/* ---- the door ---- */

struct engine *engine_new(const struct engine_options *options)
{
    struct engine *engine = calloc(1, sizeof *engine);
    size_t count = (size_t)options->blocks + 1;

    if (engine == NULL)
        abort();
    engine->options = *options;
    engine->blocks = calloc(count, sizeof *engine->blocks);
    engine->buckets = calloc(count, sizeof *engine->buckets);
    if (engine->blocks == NULL || engine->buckets == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++) {
        engine->blocks[i].before = i == 0 ? (uint32_t)count - 1 : i - 1;
        engine->blocks[i].after = i + 1 == count ? 0 : i + 1;
    }
    engine->free_blocks = (unsigned)options->blocks;
    engine->running.before = engine->running.after = &engine->running;
    engine->waiting.before = engine->waiting.after = &engine->waiting;
    engine->step_end_ns = UINT64_MAX;
    return engine;
}

void engine_free(struct engine *engine)
{
    if (engine == NULL)
        return;
    free(engine->blocks);
    free(engine->buckets);
    free(engine);
}

static void drop_memory(struct engine_job *job)
{
    free(job->hashes);
    free(job->table);
    job->hashes = NULL;
    job->table = NULL;
    job->hash_count = 0;
}

enum engine_answer engine_enter(struct engine *engine, struct engine_job *job, uint64_t now_ns)
{
    const struct engine_options *options = &engine->options;
    uint64_t block = (uint64_t)options->block;
    uint64_t blocks = (job->prompt_tokens + job->output_tokens + block - 1) / block;

    if (blocks > (uint64_t)options->blocks) {
        drop_memory(job);
        return ENGINE_TOO_LONG;
    }
    if (options->max_waiting > 0 && (long)engine->counts.waiting >= options->max_waiting) {
        drop_memory(job);
        return ENGINE_FULL;
    }
    job->table = calloc(blocks + 1, sizeof *job->table);
    if (job->table == NULL)
        abort();
    ring_insert(engine->waiting.before, job);
    job->state = ENGINE_WAITING;
    engine->counts.waiting++;
    if (engine->step_end_ns == UINT64_MAX)
        begin_step(engine, now_ns);
    return ENGINE_TAKEN;
}

void engine_leave(struct engine *engine, struct engine_job *job)
{
    struct engine_job **link = &engine->progressed;

    if (job->state == ENGINE_RUNNING) {
        stop_running(engine, job);
    } else if (job->state == ENGINE_WAITING) {
        ring_remove(job);
        engine->counts.waiting--;
    }
    job->state = ENGINE_OUT;
    while (job->progressed && *link != job)
        link = &(*link)->next_progressed;
    if (job->progressed)
        *link = job->next_progressed;
    job->progressed = false;
    drop_memory(job);
}

uint64_t engine_next_ns(const struct engine *engine)
{
    return engine->step_end_ns;
}

void engine_advance(struct engine *engine, uint64_t now_ns)
{
    while (engine->step_end_ns <= now_ns) {
        uint64_t end_ns = engine->step_end_ns;
        end_step(engine);
        begin_step(engine, end_ns);
    }
}

struct engine_job *engine_take_progressed(struct engine *engine)
{
    struct engine_job *job = engine->progressed;

    if (job == NULL)
        return NULL;
    engine->progressed = job->next_progressed;
    job->progressed = false;
    return job;
}

struct engine_counts engine_count(const struct engine *engine)
{
    struct engine_counts counts = engine->counts;

    counts.used_blocks = (unsigned)engine->options.blocks - engine->free_blocks;
    return counts;
}
