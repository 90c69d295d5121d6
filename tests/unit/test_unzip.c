/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_unzip.c: gzip and deflate, unpacked in pieces.
 *
 * Promises: 1. Each coding unpacks to what was packed, whatever way its bytes were cut and however
 *              little room there is.
 *           2. Output is bounded; what is not that coding is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <zlib.h>

#include "config/base/span.h"
#include "gateway/unzip.h"

#define TEXT_BYTES 5000

static char text[TEXT_BYTES];

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + (i * i) % 23);
    return 0;
}

/* Packs size bytes of text; window_bits as zlib has them. Returns the packed size. */
static size_t pack(size_t size, int window_bits, char *out, size_t room)
{
    z_stream stream = {.next_in = (Bytef *)text,
                       .avail_in = (uInt)size,
                       .next_out = (Bytef *)out,
                       .avail_out = (uInt)room};

    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return room - stream.avail_out;
}

/* Unpacks in pieces of `step` bytes with `room` bytes for each call. */
static enum err unpack(struct span packed, size_t step, size_t room, size_t ceiling, char *out,
                       size_t *out_size)
{
    struct unzip *unzip = unzip_new(ceiling);
    enum err err = OK;

    assert_non_null(unzip);
    *out_size = 0;
    while (packed.size > 0 && err == OK) {
        struct span in = {packed.data, packed.size < step ? packed.size : step};
        size_t written;

        packed = span_from(packed, in.size);
        do {
            err = unzip_some(unzip, &in, out + *out_size, room, &written);
            *out_size += written;
        } while (err == OK && (in.size > 0 || written == room));
    }
    unzip_free(unzip);
    return err;
}

static void each_coding_unpacks_however_cut(void **state)
{
    (void)state;
    static const int codings[] = {MAX_WBITS + 16, MAX_WBITS, -MAX_WBITS};
    static const struct {
        size_t step, room;
    } cuts[] = {{1, 4096}, {2, 1}, {3, 7}, {100, 64}, {10000, 9000}, {10000, 1}};

    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
        char packed[TEXT_BYTES + 100];
        const size_t size = pack(TEXT_BYTES, codings[i], packed, sizeof(packed));

        for (size_t cut = 0; cut < sizeof(cuts) / sizeof(cuts[0]); cut++) {
            static char out[TEXT_BYTES + 10000];
            size_t written;

            assert_int_equal(unpack((struct span){packed, size}, cuts[cut].step, cuts[cut].room,
                                    TEXT_BYTES, out, &written),
                             OK);
            assert_int_equal(written, TEXT_BYTES);
            assert_memory_equal(out, text, TEXT_BYTES);
        }
    }
}

static void gzip_members_may_follow_each_other(void **state)
{
    (void)state;
    char packed[400];
    const size_t size = pack(20, MAX_WBITS + 16, packed, 200);
    char out[100];
    size_t written;

    memcpy(packed + size, packed, size);
    for (size_t step = 1; step < 2 * size; step++) {
        assert_int_equal(unpack((struct span){packed, 2 * size}, step, 50, 1000, out, &written),
                         OK);
        assert_int_equal(written, 40);
        assert_memory_equal(out + 20, text, 20);
    }
}

static void output_is_bounded(void **state)
{
    (void)state;
    char packed[TEXT_BYTES + 100];
    const size_t size = pack(TEXT_BYTES, MAX_WBITS + 16, packed, sizeof(packed));
    static char out[2 * TEXT_BYTES];
    size_t written;

    assert_int_equal(unpack((struct span){packed, size}, 9999, 100, TEXT_BYTES - 1, out, &written),
                     ERR_TOO_LARGE);
    assert_int_equal(written, TEXT_BYTES - 1);
    assert_int_equal(unpack((struct span){packed, size}, 1, 2 * TEXT_BYTES, 0, out, &written),
                     ERR_TOO_LARGE);
    assert_int_equal(written, 0);
}

static void what_is_not_packed_is_told(void **state)
{
    (void)state;
    static const struct span cases[] = {
        SPAN("{\"error\":\"not packed at all\"}"),
        SPAN("\x1f\x8b\x09garbage"),
        SPAN("\x78\x9c\xff\xff\xff\xff"),
        SPAN("\xff\xff\xff\xff"),
    };
    char out[1000];
    size_t written;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(unpack(cases[i], 100, 100, 1000, out, &written), ERR_REPLICA_PROTOCOL);
}

static void what_follows_the_end_is_told(void **state)
{
    (void)state;
    char packed[200];
    char out[100];
    size_t written;
    size_t size = pack(20, MAX_WBITS, packed, 200);

    packed[size++] = 'x';
    assert_int_equal(unpack((struct span){packed, size}, 100, 50, 1000, out, &written),
                     ERR_REPLICA_PROTOCOL);
    assert_int_equal(written, 20);
}

static void codings_are_known_by_name(void **state)
{
    (void)state;
    assert_true(unzip_knows(SPAN("gzip")));
    assert_true(unzip_knows(SPAN("X-GZIP")));
    assert_true(unzip_knows(SPAN("deflate")));
    assert_false(unzip_knows(SPAN("br")));
    assert_false(unzip_knows(SPAN("gzip, gzip")));
    assert_false(unzip_knows((struct span){NULL, 0}));
    unzip_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_coding_unpacks_however_cut),
        cmocka_unit_test(gzip_members_may_follow_each_other),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(what_is_not_packed_is_told),
        cmocka_unit_test(what_follows_the_end_is_told),
        cmocka_unit_test(codings_are_known_by_name),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
