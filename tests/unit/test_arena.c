/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_arena.c: the promises of config/base/arena.h.
 *
 * - Memory is aligned to 8 and pieces never overlap.
 * - Lent memory serves the first takes, and is never freed.
 * - At its ceiling the arena gives nothing, and what it gave stays good.
 * - Copies and formatted texts end in a NUL that their size does not count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/arena.h"
#include "config/base/span.h"

static void pieces_are_aligned_and_do_not_overlap(void **state)
{
    (void)state;
    struct arena arena;
    unsigned char *pieces[200];

    arena_init(&arena, NULL, 0, 1 << 20);
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = arena_take(&arena, i + 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 8, 0);
        memset(pieces[i], (int)i, i + 1);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k <= i; k++)
            assert_int_equal(pieces[i][k], i);
    arena_fini(&arena);
}

static void lent_memory_is_used_first_whatever_its_alignment(void **state)
{
    (void)state;
    char lent[64];
    struct arena arena;

    arena_init(&arena, lent + 1, sizeof(lent) - 1, 1 << 20);
    char *piece = arena_take(&arena, 16);

    assert_true(piece >= lent && piece + 16 <= lent + sizeof(lent));
    assert_int_equal((uintptr_t)piece % 8, 0);
    assert_null(arena.blocks); /* nothing was asked of malloc */
    piece = arena_take(&arena, 64);
    assert_true(piece < lent || piece >= lent + sizeof(lent));
    arena_fini(&arena);
}

static void a_large_piece_leaves_the_rest_of_the_block_in_use(void **state)
{
    (void)state;
    struct arena arena;

    arena_init(&arena, NULL, 0, 1 << 20);
    const char *first = arena_take(&arena, 8);
    assert_non_null(arena_take(&arena, 100000));
    const char *second = arena_take(&arena, 8);

    assert_ptr_equal(second, first + 8);
    arena_fini(&arena);
}

static void the_ceiling_holds(void **state)
{
    (void)state;
    struct arena arena;

    arena_init(&arena, NULL, 0, 1000);
    char *kept = arena_take(&arena, 900);
    assert_non_null(kept);
    memset(kept, 7, 900);

    assert_null(arena_take(&arena, 200));
    assert_null(arena_take(&arena, SIZE_MAX));
    assert_null(arena_take(&arena, SIZE_MAX - 3));
    assert_non_null(arena_take(&arena, 90));
    assert_int_equal(kept[899], 7);
    arena_fini(&arena);
}

static void zeroed_memory_is_zero(void **state)
{
    (void)state;
    char lent[256];
    struct arena arena;

    memset(lent, 0xff, sizeof(lent));
    arena_init(&arena, lent, sizeof(lent), 1 << 20);
    const char *piece = arena_take_zeroed(&arena, 100);

    for (size_t i = 0; i < 100; i++)
        assert_int_equal(piece[i], 0);
    arena_fini(&arena);
}

static void copies_end_in_a_nul(void **state)
{
    (void)state;
    struct arena arena;

    arena_init(&arena, NULL, 0, 1 << 20);
    const struct span copy = arena_copy(&arena, SPAN("small"));
    const struct span empty = arena_copy(&arena, (struct span){NULL, 0});

    assert_int_equal(copy.size, 5);
    assert_string_equal(copy.data, "small");
    assert_non_null(empty.data);
    assert_int_equal(empty.size, 0);
    arena_fini(&arena);
}

static void formatted_texts_may_be_long(void **state)
{
    (void)state;
    struct arena arena;

    arena_init(&arena, NULL, 0, 1 << 20);
    const struct span text = arena_format(&arena, "%s/%d", "replica", 7);
    const struct span padded = arena_format(&arena, "%0500d", 1);

    assert_string_equal(text.data, "replica/7");
    assert_int_equal(text.size, 9);
    assert_int_equal(padded.size, 500);
    assert_int_equal(padded.data[499], '1');
    assert_int_equal(padded.data[500], '\0');
    arena_fini(&arena);
}

static void a_text_over_the_ceiling_is_absent(void **state)
{
    (void)state;
    struct arena arena;

    arena_init(&arena, NULL, 0, 64);
    const struct span text = arena_format(&arena, "%0500d", 1);

    assert_null(text.data);
    assert_int_equal(text.size, 0);
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_do_not_overlap),
        cmocka_unit_test(lent_memory_is_used_first_whatever_its_alignment),
        cmocka_unit_test(a_large_piece_leaves_the_rest_of_the_block_in_use),
        cmocka_unit_test(the_ceiling_holds),
        cmocka_unit_test(zeroed_memory_is_zero),
        cmocka_unit_test(copies_end_in_a_nul),
        cmocka_unit_test(formatted_texts_may_be_long),
        cmocka_unit_test(a_text_over_the_ceiling_is_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
