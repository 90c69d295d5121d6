/* SPDX-License-Identifier: Apache-2.0 */
/* meter/estimate.c: what was learned of each model's tokens, outliving snapshots.
 *
 * For:       meter_estimate(), meter_learn() and meter_estimate_error() of the door, and the
 *            book-keeping behind them.
 * Called by: meter.c, inflight.c and recover.c (guesses of a crash), quote.c; the gateway by the
 *            door.
 * Knows not: slots, prices. */
#include "meter/estimate.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/span.h"

/* An event counts as so many bytes: the ratio knows 1/4 to 64 of them for one token, so 1 to 256
 * tokens an event. At first each is believed to be one token. */
#define PIECE_UNITS 64
#define TOKENS_PIECE_START (PIECE_UNITS * 1024)

/* What the estimator learned of one model. */
struct estimate_state {
    struct tokens_ratio prompt, answer;
    struct tokens_ratio pieces; /* PIECE_UNITS for each event of a stream that bore text */
    struct tokens_error prompt_error, answer_error;
    struct tokens_mean outputs; /* tokens of an answer */
    struct estimate_state *next;
    char *name;
};

/* By model name; estimate_adopt() and estimate_forget() alone walk it. */
static struct estimate_state *estimates;

static struct estimate_state *find_or_make(struct span name)
{
    struct estimate_state *estimate;

    for (estimate = estimates; estimate; estimate = estimate->next) {
        if (span_equal(span_of(estimate->name), name))
            return estimate;
    }
    estimate = calloc(1, sizeof(*estimate));
    if (!estimate)
        return NULL;
    estimate->name = strndup(name.data, name.size);
    if (!estimate->name) {
        free(estimate);
        return NULL;
    }
    estimate->next = estimates;
    estimates = estimate;
    return estimate;
}

enum err estimate_adopt(struct config *config)
{
    for (uint32_t i = 0; i < config->model_count; i++) {
        struct config_model *model = &config->models[i];
        model->estimate = find_or_make(model->name);
        if (!model->estimate)
            return ERR_NO_MEMORY;
    }
    return OK;
}

void estimate_forget(void)
{
    while (estimates) {
        struct estimate_state *estimate = estimates;
        estimates = estimate->next;
        free(estimate->name);
        free(estimate);
    }
}

/* Tokens in so many events of a stream: as many as events, unless half as many again were seen. */
static int64_t tokens_of_pieces(const struct tokens_ratio *learned, int64_t pieces)
{
    const int64_t tokens = tokens_estimate(learned, TOKENS_PIECE_START, pieces * PIECE_UNITS);

    return tokens >= pieces + pieces / 2 + 1 ? tokens : pieces;
}

static int64_t answer_tokens(const struct tokens_ratio *answer, const struct tokens_ratio *pieces,
                             int64_t text_bytes, int64_t piece_count)
{
    return piece_count > 0 ? tokens_of_pieces(pieces, piece_count)
                           : tokens_estimate(answer, TOKENS_ANSWER_START, text_bytes);
}

void meter_estimate(const struct estimate_state *state, const struct meter_sizes *sizes,
                    struct usage *out_usage)
{
    *out_usage = (struct usage){
        .input = tokens_estimate(state ? &state->prompt : NULL, TOKENS_PROMPT_START,
                                 sizes->prompt_bytes),
        .output = answer_tokens(state ? &state->answer : NULL, state ? &state->pieces : NULL,
                                sizes->answer_bytes, sizes->answer_pieces),
    };
}

struct meter_guess estimate_guess(const struct estimate_state *state, int64_t prompt_bytes)
{
    return (struct meter_guess){
        .input = tokens_estimate(state ? &state->prompt : NULL, TOKENS_PROMPT_START, prompt_bytes),
        .answer = state ? atomic_load_explicit(&state->answer.sums, memory_order_relaxed) : 0,
        .pieces = state ? atomic_load_explicit(&state->pieces.sums, memory_order_relaxed) : 0,
    };
}

void estimate_from_guess(const struct meter_guess *guess, int64_t text_bytes, int64_t pieces,
                         struct usage *out_usage)
{
    const struct tokens_ratio answer = {.sums = guess->answer};
    const struct tokens_ratio of_pieces = {.sums = guess->pieces};

    *out_usage = (struct usage){
        .input = guess->input,
        .output = answer_tokens(&answer, &of_pieces, text_bytes, pieces),
    };
}

static int64_t known(int64_t tokens)
{
    return tokens > 0 ? tokens : 0;
}

void meter_learn(struct estimate_state *state, const struct meter_sizes *sizes,
                 const struct usage *usage)
{
    const int64_t prompt =
        known(usage->input) + known(usage->cached_input) + known(usage->cache_write);
    const int64_t output = known(usage->output) + known(usage->reasoning);
    struct usage estimate;

    if (!state)
        return;
    meter_estimate(state, sizes, &estimate); /* as it would have been, before it learns */
    tokens_note_error(&state->prompt_error, estimate.input, prompt);
    tokens_note_error(&state->answer_error, estimate.output, output);
    tokens_learn(&state->prompt, TOKENS_PROMPT_START, sizes->prompt_bytes, prompt);
    tokens_note(&state->outputs, output);
    tokens_learn(&state->pieces, TOKENS_PIECE_START, sizes->answer_pieces * PIECE_UNITS, output);
    if (known(usage->reasoning) == 0) /* thoughts are tokens, but may not be in the text */
        tokens_learn(&state->answer, TOKENS_ANSWER_START, sizes->answer_bytes,
                     known(usage->output));
}

int64_t estimate_answer(const struct estimate_state *state)
{
    return state ? tokens_mean(&state->outputs) : -1;
}

void meter_estimate_error(const struct estimate_state *state, int64_t *out_prompt_permille,
                          int64_t *out_answer_permille)
{
    *out_prompt_permille = state ? tokens_error(&state->prompt_error) : -1;
    *out_answer_permille = state ? tokens_error(&state->answer_error) : -1;
}
