/* SPDX-License-Identifier: Apache-2.0 */
/* meter/estimate.h: what was learned of each model's tokens, outliving snapshots.
 *
 * For:       meter_estimate(), meter_learn() and meter_estimate_error() of the door, and the
 *            book-keeping behind them.
 * Called by: meter.c, inflight.c (guesses), settle.c, quote.c.
 * Knows not: slots, prices. */
#ifndef METER_ESTIMATE_H
#define METER_ESTIMATE_H

#include "meter/meter.h"
#include "meter/tokens.h"

/* Sets config_model.estimate of each model, by name. One thread at a time. Errors: ERR_NO_MEMORY.
 */
MUST_CHECK enum err estimate_adopt(struct config *config);

/* Frees all of them; no snapshot that points there may be in use. */
void estimate_forget(void);

/* What is estimated by where the replica does not say all: tokens of the prompt, and the ratios of
 * its answer as they are now; its bounds are the caller's. */
struct meter_guess estimate_guess(const struct estimate_state *state, int64_t prompt_bytes);

/* Tokens of an answer lately (a mean that fades); -1: none was seen yet. */
int64_t estimate_answer(const struct estimate_state *state);

/* The usage that a guess comes to, for what had been delivered; input and output filled, others 0.
 * Pure. */
void estimate_from_guess(const struct meter_guess *guess, int64_t text_bytes, int64_t pieces,
                         struct usage *out_usage);

#endif
