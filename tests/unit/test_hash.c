/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_hash.c: the promises of config/base/hash.h.
 *
 * - SHA-256 is that of FIPS 180-4, from any thread.
 * - Equality holds for equal bytes only.
 * - Random bytes differ each time.
 * - The hash of a text depends on every byte of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "config/base/hash.h"
#include "config/base/span.h"

/* Digests of FIPS 180-4's examples. */
static const char *const abc_digest =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char *const empty_digest =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void sha256_is_the_published_one(void **state)
{
    (void)state;
    uint8_t digest[HASH_SHA256_BYTES];
    char hex[2 * HASH_SHA256_BYTES + 1];

    hash_sha256(SPAN("abc"), digest);
    hash_hex(digest, sizeof(digest), hex);
    assert_string_equal(hex, abc_digest);

    hash_sha256((struct span){NULL, 0}, digest);
    hash_hex(digest, sizeof(digest), hex);
    assert_string_equal(hex, empty_digest);
}

static void *digest_often(void *out_good)
{
    uint8_t digest[HASH_SHA256_BYTES];
    char hex[2 * HASH_SHA256_BYTES + 1];

    for (int i = 0; i < 1000; i++) {
        hash_sha256(SPAN("abc"), digest);
        hash_hex(digest, sizeof(digest), hex);
        if (strcmp(hex, abc_digest) != 0)
            return NULL;
    }
    *(bool *)out_good = true;
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    pthread_t threads[4];
    bool good[4] = {false};

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, digest_often, &good[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(good[i]);
    }
}

static void equal_bytes_are_equal_and_others_are_not(void **state)
{
    (void)state;
    const uint8_t a[4] = {1, 2, 3, 4};
    const uint8_t b[4] = {1, 2, 3, 5};
    const uint8_t c[4] = {0, 2, 3, 4};

    assert_true(hash_equal(a, a, 4));
    assert_false(hash_equal(a, b, 4));
    assert_false(hash_equal(a, c, 4));
}

static void random_bytes_differ_each_time(void **state)
{
    (void)state;
    uint8_t first[32];
    uint8_t second[32];

    hash_random(first, sizeof(first));
    hash_random(second, sizeof(second));

    assert_memory_not_equal(first, second, sizeof(first));
}

static void every_byte_of_a_text_counts(void **state)
{
    (void)state;
    char text[64];

    memset(text, 'a', sizeof(text));
    const uint64_t same = hash_text((struct span){text, sizeof(text)});
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = 'b';
        assert_true(hash_text((struct span){text, sizeof(text)}) != same);
        text[i] = 'a';
    }
    assert_true(hash_text((struct span){text, sizeof(text)}) == same);
    assert_true(hash_text((struct span){text, sizeof(text) - 1}) != same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_the_published_one),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(equal_bytes_are_equal_and_others_are_not),
        cmocka_unit_test(random_bytes_differ_each_time),
        cmocka_unit_test(every_byte_of_a_text_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
