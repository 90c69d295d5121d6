/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/shelf.h: pieces of one size kept for the next taker; inline.
 *
 * For:       what every request takes and gives back: no allocator in between.
 * Called by: exchange.c, replica.c.
 * Knows not: what a piece is.
 * Thread:    one worker.
 * Under the address sanitizer nothing is kept, so that a use after free is seen. */
#ifndef GATEWAY_SHELF_H
#define GATEWAY_SHELF_H

#include <stdlib.h>

#include "config/base/vocab.h"

#if defined(__SANITIZE_ADDRESS__)
#define SHELF_IS_FULL(shelf) true
#else
#define SHELF_IS_FULL(shelf) ((shelf)->count >= 256u)
#endif

/* Zeroed: empty. All pieces of one shelf have the same size, at least that of a pointer. */
struct shelf {
    void *first;
    uint32_t count;
};

/* A piece of so many bytes, not zeroed; NULL without memory. */
MUST_CHECK static inline void *shelf_take(struct shelf *shelf, size_t bytes)
{
    void *piece = shelf->first;
    if (piece == NULL)
        return malloc(bytes);
    shelf->first = *(void **)piece;
    shelf->count--;
    return piece;
}

/* Gives a piece back. */
static inline void shelf_put(struct shelf *shelf, void *piece)
{
    if (SHELF_IS_FULL(shelf)) {
        free(piece);
        return;
    }
    *(void **)piece = shelf->first;
    shelf->first = piece;
    shelf->count++;
}

/* Frees what is kept. */
static inline void shelf_clear(struct shelf *shelf)
{
    while (shelf->first) {
        void *piece = shelf->first;
        shelf->first = *(void **)piece;
        free(piece);
    }
    shelf->count = 0;
}

#endif
