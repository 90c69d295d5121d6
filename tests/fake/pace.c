/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/pace.c: how fast answers come.
 *
 * For:       joins requests with the timing model of engine.h, if one was asked for.
 * Called by: service.c, server.c, main.c.
 * Knows not: sockets. */
#include "tests/fake/pace.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/fake/counters.h"
#include "tests/fake/kind.h"
#include "tests/fake/tokens.h"

static struct engine *engine; /* NULL: answers are instant */
static struct engine_options options;
static bool wanted;
static uint64_t current_ns;

bool pace_set(const char *words)
{
    char file_words[4096];

    options = engine_defaults;
    if (strchr(words, '=') == NULL) {
        FILE *file = fopen(words, "r");
        if (file == NULL)
            return false;
        size_t count = fread(file_words, 1, sizeof file_words - 1, file);
        fclose(file);
        file_words[count] = '\0';
        words = file_words;
    }
    wanted = engine_read_options(words, &options);
    return wanted;
}

void pace_begin(void)
{
    if (!wanted)
        return;
    if (dialect.kind == KIND_VLLM || dialect.kind == KIND_LLAMACPP)
        options.max_waiting = 0; /* these queue without bound */
    engine = engine_new(&options);
    counters.all_blocks = (unsigned)options.blocks;
}

static void show_counts(void)
{
    static uint64_t preemptions;
    struct engine_counts counts = engine_count(engine);

    counters.waiting = counts.waiting;
    counters.used_blocks = counts.used_blocks;
    counters.preemptions += counts.preemptions - preemptions;
    preemptions = counts.preemptions;
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) /* FNV-1a, 64 bits */
        hash = (hash ^ (uint64_t)(unsigned char)bytes[i]) * 1099511628211u;
    return hash;
}

/* Each block's hash contains those before it; model and cache_salt stand at the front. */
static void hash_prompt(struct engine_job *job, const struct work *work, const struct ask *ask)
{
    struct text prompt = tokens_gather(ask->prompt.bytes > 0  ? ask->prompt
                                       : ask->input.bytes > 0 ? ask->input
                                                              : ask->messages);
    size_t block_bytes = (size_t)options.block * 4;
    uint64_t hash = hash_bytes(14695981039346656037u, work->model, strlen(work->model));

    hash = hash_bytes(hash, ask->salt.at, ask->salt.bytes);
    job->hash_count = prompt.bytes / block_bytes;
    if (job->hash_count > job->prompt_tokens / (uint64_t)options.block)
        job->hash_count = (size_t)(job->prompt_tokens / (uint64_t)options.block);
    job->hashes = calloc(job->hash_count + 1, sizeof *job->hashes);
    if (job->hashes == NULL)
        abort();
    for (size_t i = 0; i < job->hash_count; i++) {
        hash = hash_bytes(hash, prompt.at + i * block_bytes, block_bytes);
        job->hashes[i] = hash == 0 ? 1 : hash;
    }
}

static struct work *work_of(struct engine_job *job)
{
    return (struct work *)((char *)job - offsetof(struct work, job));
}

bool pace_holds(const struct work *work)
{
    return work->paced;
}

int pace_enter(struct work *work, const struct ask *ask)
{
    bool fits = work->endpoint == ENDPOINT_CHAT || work->endpoint == ENDPOINT_COMPLETIONS ||
                work->endpoint == ENDPOINT_RESPONSES || work->endpoint == ENDPOINT_MESSAGES;

    if (engine == NULL || !fits || work->tokens == 0)
        return 0;
    work->job = (struct engine_job){
        .prompt_tokens = work->prompt_tokens > 0 ? work->prompt_tokens : 1,
        .output_tokens = work->tokens,
    };
    hash_prompt(&work->job, work, ask);
    enum engine_answer answer = engine_enter(engine, &work->job, current_ns);
    show_counts();
    if (answer == ENGINE_TOO_LONG)
        return 400;
    if (answer == ENGINE_FULL)
        return dialect.kind == KIND_SGLANG ? 503 : 429;
    work->paced = true;
    return 0;
}

/* Tokens found in the cache are known once the sequence has started. */
static void note_cached(struct work *work)
{
    if (!work->job.started || work->cache_noted)
        return;
    work->cache_noted = true;
    if (work->directive.cached >= 0)
        return;
    work->cached = (int64_t)work->job.cached;
    counters.cached_tokens += work->job.cached;
}

void pace_leave(struct work *work)
{
    if (!work->paced)
        return;
    note_cached(work);
    engine_leave(engine, &work->job);
    work->paced = false;
    show_counts();
}

bool pace_allows(const struct work *work)
{
    uint64_t needed = work->tokens;

    if (!work->paced)
        return true;
    if (work->stream) { /* nothing comes before the first token, but for the events of a response */
        if (work->position.phase != PHASE_TOKENS || work->position.choice > 0)
            return work->endpoint == ENDPOINT_RESPONSES || work->job.produced > 0;
        needed = work->position.done + (uint64_t)work->directive.per_event;
        if (needed > work->tokens)
            needed = work->tokens;
    }
    return work->job.produced >= needed;
}

uint64_t pace_next_ns(void)
{
    return engine == NULL ? UINT64_MAX : engine_next_ns(engine);
}

void pace_advance(uint64_t now_ns)
{
    current_ns = now_ns;
    if (engine == NULL || engine_next_ns(engine) > now_ns)
        return;
    engine_advance(engine, now_ns);
    show_counts();
}

struct work *pace_take_ready(void)
{
    struct engine_job *job = engine == NULL ? NULL : engine_take_progressed(engine);

    if (job == NULL)
        return NULL;
    note_cached(work_of(job));
    return work_of(job);
}
