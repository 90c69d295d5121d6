/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz.h: what every fuzz target needs.
 *
 * For:       a check that stops the fuzzer, the bytes that steer a run, and how an input is cut.
 * Called by: fuzz_*.c.
 *
 * The first bytes of an input steer (how to cut, which limits), the rest is what is read. Compiled
 * with PLANT_BUG each target makes one mistake between the code and its check: a run must then find
 * it, which shows that the check looks. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/span.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Marks a check's inner loops: their branches do not guide the fuzzer, which makes runs faster. */
#ifdef __clang__
#define NO_GUIDE __attribute__((noinline, no_sanitize("coverage")))
#else
#define NO_GUIDE
#endif

/* Takes a steering byte off the front; 0 when there is none. */
static inline unsigned take_byte(struct span *input)
{
    if (input->size == 0)
        return 0;

    const unsigned byte = (unsigned char)input->data[0];

    *input = span_from(*input, 1);
    return byte;
}

#define CUT_PIECES_MAX 64 /* outside the window; more would make runs with long inputs slow */
#define CUT_WINDOW_BYTES 192

/* How an input is cut: in equal pieces, and with a window byte by byte within it. */
struct cuts {
    size_t step;
    size_t window_from, window_to;
};

/* In one piece. */
static inline struct cuts cuts_none(size_t size)
{
    return (struct cuts){.step = size};
}

/* steer: 0 … 255, for the size of the pieces and the place of the window, which has all of a short
 * input. Odd ones have no window. */
static inline struct cuts cuts_of(size_t size, unsigned steer)
{
    const size_t least = size / CUT_PIECES_MAX + 1;
    const size_t step = 1 + steer;
    const size_t from =
        size > CUT_WINDOW_BYTES ? (size - CUT_WINDOW_BYTES) * (steer * 89 % 251) / 250 : 0;

    return (struct cuts){
        .step = step > least ? step : least,
        .window_from = from,
        .window_to = steer & 1 ? from : from + CUT_WINDOW_BYTES,
    };
}

/* Size of the piece behind the first `given` bytes of `size`. */
NO_GUIDE static inline size_t cuts_next(const struct cuts *cuts, size_t given, size_t size)
{
    size_t left = size - given;

    if (given >= cuts->window_from && given < cuts->window_to)
        return 1;
    if (given < cuts->window_from && left > cuts->window_from - given)
        left = cuts->window_from - given;
    return left < cuts->step ? left : cuts->step;
}

/* A copy that ends where its memory ends, so that reading past it is seen. The caller frees it. */
static inline char *exact_copy(struct span text)
{
    char *copy = malloc(text.size > 0 ? text.size : 1);

    CHECK(copy != NULL);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    return copy;
}

#endif
