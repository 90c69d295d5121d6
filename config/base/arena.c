/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/arena.c: memory that dies together.
 *
 * For:       many small takes for the price of a pointer's move, one free at the end.
 * Called by: every room.
 * Knows not: what lies in the memory. */
#include "config/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 8u
#define BLOCK_BYTES_MIN 1024u /* malloc's own head included */
#define BLOCK_BYTES_MAX 4096u

struct arena_block {
    struct arena_block *older;
    max_align_t memory[]; /* what is handed out */
};

/* What a block has besides what it hands out: malloc's head and ours. */
#define BLOCK_OVERHEAD (16u + sizeof(struct arena_block))

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

void arena_init(struct arena *arena, void *first, size_t first_bytes, size_t ceiling_bytes)
{
    const size_t skew = round_up((size_t)(uintptr_t)first) - (size_t)(uintptr_t)first;

    *arena = (struct arena){.ceiling_bytes = ceiling_bytes};
    if (first != NULL && first_bytes > skew) {
        arena->next = (char *)first + skew;
        arena->end = (char *)first + first_bytes;
    }
}

void arena_fini(struct arena *arena)
{
    while (arena->blocks != NULL) {
        struct arena_block *block = arena->blocks;

        arena->blocks = block->older;
        free(block);
    }
    *arena = (struct arena){0};
}

/* What the next block has to hand out: about as much as was taken so far, so that a small exchange
 * stays small and a large one makes few calls. */
static size_t next_room(const struct arena *arena)
{
    size_t bytes = BLOCK_BYTES_MIN;
    while (bytes < arena->used_bytes && bytes < BLOCK_BYTES_MAX)
        bytes *= 2;
    return bytes - BLOCK_OVERHEAD;
}

/* A new block with room for bytes; NULL without memory. */
static char *add_block(struct arena *arena, size_t bytes)
{
    struct arena_block *block = malloc(sizeof(*block) + bytes);

    if (block == NULL)
        return NULL;
    block->older = arena->blocks;
    arena->blocks = block;
    return (char *)block->memory;
}

void *arena_take(struct arena *arena, size_t bytes)
{
    const size_t rounded = round_up(bytes == 0 ? 1 : bytes);
    char *taken;

    if (rounded < bytes || rounded > arena->ceiling_bytes - arena->used_bytes)
        return NULL;
    if (rounded > (size_t)(arena->end - arena->next)) {
        /* A large piece gets a block of its own, and the rest of the newest one stays in use. */
        const size_t room = next_room(arena);
        const bool large = rounded > room / 4;
        char *memory = add_block(arena, large ? rounded : room);

        if (memory == NULL)
            return NULL;
        if (large) {
            arena->used_bytes += rounded;
            return memory;
        }
        arena->next = memory;
        arena->end = memory + room;
    }
    taken = arena->next;
    arena->next += rounded;
    arena->used_bytes += rounded;
    return taken;
}

void *arena_take_zeroed(struct arena *arena, size_t bytes)
{
    void *taken = arena_take(arena, bytes);

    return taken == NULL ? NULL : memset(taken, 0, bytes);
}

struct span arena_copy(struct arena *arena, struct span text)
{
    char *copy = text.size == SIZE_MAX ? NULL : arena_take(arena, text.size + 1);

    if (copy == NULL)
        return (struct span){NULL, 0};
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return (struct span){copy, text.size};
}

struct span arena_format(struct arena *arena, const char *format, ...)
{
    char small[256];
    char *text;
    int size;
    va_list arguments;

    va_start(arguments, format);
    size = vsnprintf(small, sizeof(small), format, arguments);
    va_end(arguments);
    if (size < 0)
        return (struct span){NULL, 0};
    if ((size_t)size < sizeof(small))
        return arena_copy(arena, (struct span){small, (size_t)size});

    text = arena_take(arena, (size_t)size + 1);
    if (text == NULL)
        return (struct span){NULL, 0};
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)size + 1, format, arguments);
    va_end(arguments);
    return (struct span){text, (size_t)size};
}
