/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_tokens.c: tokens estimated from sizes (meter/tokens.c).
 *
 * Promises:  1. Before anything was learned the start value holds.
 *            2. What replies report moves the estimate there, large replies more than small ones.
 *            3. What cannot be teaches nothing.
 *            4. No size overflows; any thread may teach.
 *            5. Means fade: what comes again and again is what they say. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meter/tokens.h"

static int64_t estimate(const struct tokens_ratio *ratio, int64_t bytes)
{
    return tokens_estimate(ratio, TOKENS_PROMPT_START, bytes);
}

static void before_anything_was_learned_the_start_value_holds(void **state)
{
    (void)state;
    struct tokens_ratio nothing = {0};

    assert_int_equal(estimate(&nothing, 36000), 10001); /* 3686/1024 is a little under 3.6 */
    assert_int_equal(estimate(NULL, 36000), 10001);
    assert_int_equal(tokens_estimate(NULL, TOKENS_ANSWER_START, 39000), 9999);
    assert_int_equal(estimate(&nothing, 1), 1); /* some text is one token at least */
    assert_int_equal(estimate(&nothing, 0), 0);
    assert_int_equal(estimate(&nothing, -5), 0);
}

static void replies_move_the_estimate_to_what_they_report(void **state)
{
    (void)state;
    struct tokens_ratio ratio = {0};

    for (int i = 0; i < 1000; i++)
        tokens_learn(&ratio, TOKENS_PROMPT_START, 2000, 1000);

    int64_t tokens = estimate(&ratio, 100000);
    assert_true(tokens >= 49900 && tokens <= 50100);
}

static void one_reply_moves_it_by_its_weight(void **state)
{
    (void)state;
    struct tokens_ratio ratio = {0};

    /* The start counts as 3686 bytes of 1024 tokens, of which 1/64 fades: 3628.4 and 1008. With a
     * reply of 1000 bytes and 1000 tokens: 2008 tokens in 4628.4 bytes. */
    tokens_learn(&ratio, TOKENS_PROMPT_START, 1000, 1000);

    int64_t tokens = estimate(&ratio, 46284);
    assert_true(tokens >= 20075 && tokens <= 20085);
}

static void what_cannot_be_teaches_nothing(void **state)
{
    (void)state;
    struct tokens_ratio ratio = {0};
    const int64_t lessons[][2] = {{0, 5},   {5, 0},      {-1, 5},        {5, -1},
                                  {10, 44}, {6500, 100}, {1, INT64_MAX}, {INT64_MAX, 1}};

    for (size_t i = 0; i < sizeof(lessons) / sizeof(lessons[0]); i++)
        tokens_learn(&ratio, TOKENS_PROMPT_START, lessons[i][0], lessons[i][1]);

    assert_int_equal(atomic_load(&ratio.sums), 0);
}

static void no_size_overflows(void **state)
{
    (void)state;
    struct tokens_ratio ratio = {0};

    for (int i = 0; i < 10000; i++)
        tokens_learn(&ratio, TOKENS_PROMPT_START, INT64_MAX, INT64_MAX / 4);
    int64_t tokens = estimate(&ratio, 4000000);
    assert_true(tokens >= 999000 && tokens <= 1001000);

    for (int i = 0; i < 10000; i++)
        tokens_learn(&ratio, TOKENS_PROMPT_START, INT64_MAX / 8, INT64_MAX / 2);
    assert_int_equal(estimate(&ratio, INT64_MAX), INT64_MAX);
}

static void *teach(void *argument)
{
    struct tokens_ratio *ratio = argument;

    for (int i = 0; i < 20000; i++) {
        tokens_learn(ratio, TOKENS_PROMPT_START, 500, 100);
        assert_true(estimate(ratio, 500) >= 100);
    }
    return NULL;
}

static void any_thread_may_teach(void **state)
{
    (void)state;
    struct tokens_ratio ratio = {0};
    pthread_t threads[2];

    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, teach, &ratio), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    int64_t tokens = estimate(&ratio, 500000);
    assert_true(tokens >= 99000 && tokens <= 101000);
}

static void a_mean_is_what_comes_again_and_again(void **state)
{
    (void)state;
    struct tokens_mean mean = {0};

    assert_int_equal(tokens_mean(&mean), -1);
    tokens_note(&mean, 0);
    tokens_note(&mean, -7);
    assert_int_equal(tokens_mean(&mean), -1);
    tokens_note(&mean, 320); /* the first is all that is known */
    assert_int_equal(tokens_mean(&mean), 320);
    tokens_note(&mean, 640);
    assert_int_equal(tokens_mean(&mean), 330); /* a thirty-second of the way */
    for (int i = 0; i < 1000; i++)
        tokens_note(&mean, 1);
    assert_int_equal(tokens_mean(&mean), 1);
    for (int i = 0; i < 2000; i++)
        tokens_note(&mean, INT64_MAX);
    assert_true(tokens_mean(&mean) > INT64_MAX / 4096);
}

static void an_error_is_told_in_thousandths(void **state)
{
    (void)state;
    struct tokens_error error = {0};

    assert_int_equal(tokens_error(&error), -1);
    tokens_note_error(&error, 0, 10);
    tokens_note_error(&error, 10, 0);
    assert_int_equal(tokens_error(&error), -1);
    tokens_note_error(&error, 110, 100);
    assert_int_equal(tokens_error(&error), 100);
    for (int i = 0; i < 1000; i++)
        tokens_note_error(&error, 50, 100); /* too few is as wrong as too many */
    assert_in_range(tokens_error(&error), 495, 500);
    for (int i = 0; i < 1000; i++)
        tokens_note_error(&error, 200, 200);
    assert_int_equal(tokens_error(&error), 0);
    tokens_note_error(&error, INT64_MAX, 1); /* a hundredfold at most */
    assert_in_range(tokens_error(&error), 3124, 3126);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_anything_was_learned_the_start_value_holds),
        cmocka_unit_test(replies_move_the_estimate_to_what_they_report),
        cmocka_unit_test(one_reply_moves_it_by_its_weight),
        cmocka_unit_test(what_cannot_be_teaches_nothing),
        cmocka_unit_test(no_size_overflows),
        cmocka_unit_test(any_thread_may_teach),
        cmocka_unit_test(a_mean_is_what_comes_again_and_again),
        cmocka_unit_test(an_error_is_told_in_thousandths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
