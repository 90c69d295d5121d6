/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/trees.h: jansson with a memory of its own.
 *
 * For:       trees to compare with, quickly: the sanitizer watches our memory, not jansson's.
 * Called by: fuzz_*.c that have jansson as their second opinion.
 *
 * Trees live until the next run begins. */
#ifndef TESTS_FUZZ_TREES_H
#define TESTS_FUZZ_TREES_H

#include "tests/fuzz/fuzz.h"

#include <jansson.h>

#define TREES_BYTES (8u << 20) /* far more than a few trees of an input of 8 KiB need */

static struct {
    _Alignas(16) char bytes[TREES_BYTES];
    size_t used;
} trees;

NO_GUIDE static void *trees_take(size_t size)
{
    char *taken = trees.bytes + trees.used;

    CHECK(size <= TREES_BYTES - trees.used);
    trees.used += (size + 15) & ~(size_t)15;
    return taken;
}

NO_GUIDE static void trees_give_back(void *memory)
{
    (void)memory;
}

/* To be called when a run begins: all trees of the run before are gone. */
NO_GUIDE static inline void trees_begin(void)
{
    json_set_alloc_funcs(trees_take, trees_give_back);
    trees.used = 0;
}

#endif
