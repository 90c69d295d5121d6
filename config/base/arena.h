/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/arena.h: memory that dies together.
 *
 * For:       everything that lives as long as one exchange (or one config snapshot).
 * Called by: every room.
 * Knows not: who its owner is.
 *
 * One thread at a time. Nothing is freed singly; blocks come from malloc, the first may be lent by
 * the owner so that a small exchange makes no call at all. */
#ifndef CONFIG_BASE_ARENA_H
#define CONFIG_BASE_ARENA_H

#include "config/base/vocab.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    char *next;                 /* first free byte of the newest block */
    char *end;
    size_t used_bytes;    /* of all blocks, handed out */
    size_t ceiling_bytes; /* over it arena_take() returns NULL */
};

/* Makes an empty arena. first/first_bytes: memory lent by the owner for as long as the arena lives
 * (may be NULL, 0). */
void arena_init(struct arena *arena, void *first, size_t first_bytes, size_t ceiling_bytes);

/* Frees every block that the arena took; lent memory stays the owner's. */
void arena_fini(struct arena *arena);

/* bytes of memory, not zeroed, aligned to 8. NULL at the ceiling or without memory. */
MUST_CHECK void *arena_take(struct arena *arena, size_t bytes);

/* The same, zeroed. */
MUST_CHECK void *arena_take_zeroed(struct arena *arena, size_t bytes);

/* A copy of text, NUL-terminated behind its size bytes; {NULL, 0} when there is no memory. */
MUST_CHECK struct span arena_copy(struct arena *arena, struct span text);

/* Formats into the arena; {NULL, 0} when there is no memory. */
MUST_CHECK struct span arena_format(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
