/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz.h: what every fuzz target needs.
 *
 * For:       a check that stops the fuzzer, and the bytes that steer a run.
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

/* Takes a steering byte off the front; 0 when there is none. */
static inline unsigned take_byte(struct span *input)
{
    if (input->size == 0)
        return 0;

    const unsigned byte = (unsigned char)input->data[0];

    *input = span_from(*input, 1);
    return byte;
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
