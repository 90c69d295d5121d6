/* SPDX-License-Identifier: Apache-2.0 */
/* meter/tokens.c: how many tokens a text of some size is.
 *
 * For:       a ratio of two fading sums, in whole numbers.
 * Called by: estimate.c.
 * Knows not: text, tokenizers, which model it is.
 *
 * Bounds: a lesson is at most 2^21 bytes (larger ones are scaled down), in sixteenths 2^25; fading
 * by 1/64 the sum stays under 64 times that, 2^31, and so within its half of the word. */
#include "meter/tokens.h"

#define FADE_SHIFT 6
#define UNIT_SHIFT 4
#define LESSON_BYTES_MAX (INT64_C(1) << 21)
#define START_TOKENS 1024 /* what is believed at first weighs as much as a lesson of this size */
#define TOKENS_PER_BYTE_MAX 4
#define BYTES_PER_TOKEN_MAX 64

static uint64_t bytes_of(uint64_t sums)
{
    return sums >> 32;
}

static uint64_t tokens_of(uint64_t sums)
{
    return sums & UINT32_MAX;
}

static uint64_t pack(uint64_t bytes, uint64_t tokens)
{
    return bytes << 32 | tokens;
}

static uint64_t believed(uint64_t sums, uint32_t start)
{
    if (sums != 0)
        return sums;
    return pack((uint64_t)start << UNIT_SHIFT, (uint64_t)START_TOKENS << UNIT_SHIFT);
}

/* Rounded up, so that the sums never fade to nothing. */
static uint64_t faded(uint64_t sum)
{
    return sum - (sum >> FADE_SHIFT);
}

int64_t tokens_estimate(const struct tokens_ratio *ratio, uint32_t start, int64_t bytes)
{
    uint64_t sums = ratio ? atomic_load_explicit(&ratio->sums, memory_order_relaxed) : 0;
    unsigned __int128 tokens;

    if (bytes <= 0)
        return 0;
    sums = believed(sums, start);
    tokens = (unsigned __int128)(uint64_t)bytes * tokens_of(sums);
    tokens = (tokens + bytes_of(sums) / 2) / bytes_of(sums);
    if (tokens > INT64_MAX)
        return INT64_MAX;
    return tokens > 0 ? (int64_t)tokens : 1;
}

void tokens_learn(struct tokens_ratio *ratio, uint32_t start, int64_t bytes, int64_t tokens)
{
    uint64_t before = atomic_load_explicit(&ratio->sums, memory_order_relaxed);
    uint64_t after;

    if (bytes <= 0 || tokens <= 0 || tokens / TOKENS_PER_BYTE_MAX > bytes ||
        bytes / BYTES_PER_TOKEN_MAX > tokens)
        return;
    while (bytes > LESSON_BYTES_MAX || tokens > LESSON_BYTES_MAX) {
        bytes = bytes / 2;
        tokens = tokens / 2;
    }
    do {
        uint64_t sums = believed(before, start);
        after = pack(faded(bytes_of(sums)) + ((uint64_t)bytes << UNIT_SHIFT),
                     faded(tokens_of(sums)) + ((uint64_t)tokens << UNIT_SHIFT));
    } while (!atomic_compare_exchange_weak_explicit(&ratio->sums, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
}

#define MEAN_UNIT 1024
#define MEAN_FADE 32
#define MEAN_MAX (INT64_MAX / MEAN_UNIT / 2)
#define ERROR_MAX 100000 /* a hundredfold: one wild reply counts no more */

/* Takes a number, in 1/1024, into the mean. */
static void note(struct tokens_mean *mean, int64_t number)
{
    uint64_t before = atomic_load_explicit(&mean->mean, memory_order_relaxed);
    uint64_t after;

    do {
        const int64_t was = before == 0 ? number : (int64_t)(before - 1);
        after = (uint64_t)(was + (number - was) / MEAN_FADE) + 1;
    } while (!atomic_compare_exchange_weak_explicit(&mean->mean, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
}

void tokens_note(struct tokens_mean *mean, int64_t tokens)
{
    if (tokens > 0)
        note(mean, (tokens < MEAN_MAX ? tokens : MEAN_MAX) * MEAN_UNIT);
}

int64_t tokens_mean(const struct tokens_mean *mean)
{
    const uint64_t found = atomic_load_explicit(&mean->mean, memory_order_relaxed);
    const int64_t tokens = (int64_t)((found - 1 + MEAN_UNIT / 2) / MEAN_UNIT);

    if (found == 0)
        return -1;
    return tokens > 0 ? tokens : 1;
}

void tokens_note_error(struct tokens_error *error, int64_t estimated, int64_t actual)
{
    __int128 off;

    if (estimated <= 0 || actual <= 0)
        return;
    off = (__int128)(estimated > actual ? estimated - actual : actual - estimated) * 1000 *
          MEAN_UNIT / actual;
    note(&error->off,
         off > (__int128)ERROR_MAX * MEAN_UNIT ? (int64_t)ERROR_MAX * MEAN_UNIT : (int64_t)off);
}

int64_t tokens_error(const struct tokens_error *error)
{
    const uint64_t mean = atomic_load_explicit(&error->off.mean, memory_order_relaxed);

    return mean == 0 ? -1 : (int64_t)((mean - 1) / MEAN_UNIT);
}
