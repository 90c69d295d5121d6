/* SPDX-License-Identifier: Apache-2.0 */
/* meter/tokens.h: how many tokens a text of some size is, learned from replies that say so; pure.
 *
 * For:       replies without usage, and the work that routing balances.
 * Called by: estimate.c.
 * Knows not: text, tokenizers, which model it is. */
#ifndef METER_TOKENS_H
#define METER_TOKENS_H

#include <stdatomic.h>

#include "config/base/vocab.h"

/* Two sums that fade: bytes in the high half, tokens in the low one, in sixteenths. One word, so
 * that any thread teaches and reads it without a lock. 0: nothing was learned yet. */
struct tokens_ratio {
    _Atomic uint64_t sums;
};

/* What is believed before anything was learned: bytes per token, in 1/1024. Prompts 3.6, answers
 * 3.9: the middle of English prose and code under today's vocabularies of 100,000 to 200,000. */
#define TOKENS_PROMPT_START 3686
#define TOKENS_ANSWER_START 3994

/* Tokens of a text of bytes, rounded, at least 1 when there is any text.
 * start: bytes per token in 1/1024 before anything was learned. */
int64_t tokens_estimate(const struct tokens_ratio *ratio, uint32_t start, int64_t bytes);

/* Teaches that bytes were tokens. Each lesson weighs by its size; those before it fade by 1/64.
 * What cannot be (more than 4 tokens a byte, fewer than one in 64 bytes) teaches nothing. */
void tokens_learn(struct tokens_ratio *ratio, uint32_t start, int64_t bytes, int64_t tokens);

/* A mean that fades by 1/32. 0: nothing was noted yet. */
struct tokens_mean {
    _Atomic uint64_t mean; /* 1 + the mean, in 1/1024 */
};

/* Notes one number of at least 1; others say nothing. Any thread. */
void tokens_note(struct tokens_mean *mean, int64_t tokens);

/* The mean, rounded, at least 1; -1: nothing was noted yet. */
int64_t tokens_mean(const struct tokens_mean *mean);

/* How far estimates are off. */
struct tokens_error {
    struct tokens_mean off; /* |estimated ÷ true − 1|, in thousandths */
};

/* Notes one estimate beside the truth; without both it says nothing. Any thread. */
void tokens_note_error(struct tokens_error *error, int64_t estimated, int64_t actual);

/* The mean, in thousandths; -1: nothing was noted yet. */
int64_t tokens_error(const struct tokens_error *error);

#endif
