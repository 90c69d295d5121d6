/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_estimate.c: what is learned of each model's tokens (meter/estimate.c).
 *
 * Promises:  1. What was learned outlives snapshots, by the model's name.
 *            2. A stream is estimated by its events, never above what was generated.
 *            3. A guess kept for a crash comes to what the estimate would have been.
 *            4. Thoughts are tokens of the answer, but teach nothing of its text.
 *            5. How far estimates were off, and how long answers are, is known by model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meter/estimate.h"

static struct config_model models[2];
static struct config config = {.models = models, .model_count = 2};

static int set_up(void **state)
{
    (void)state;
    models[0] = (struct config_model){.name = SPAN("small")};
    models[1] = (struct config_model){.name = SPAN("large")};
    return estimate_adopt(&config) == OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    estimate_forget();
    return 0;
}

static void learn(int times, const struct meter_sizes *sizes, const struct usage *usage)
{
    for (int i = 0; i < times; i++)
        meter_learn(models[0].estimate, sizes, usage);
}

static void what_was_learned_outlives_snapshots(void **state)
{
    (void)state;
    struct config_model after = {.name = SPAN("small")};
    struct config new = {.models = &after, .model_count = 1};
    const struct meter_sizes sizes = {.prompt_bytes = 20000, .answer_bytes = 6000};
    const struct usage reported = {
        .input = 6000, .cached_input = 4000, .cache_write = -1, .output = 1000, .reasoning = 0};
    struct usage usage;

    meter_estimate(models[0].estimate, &sizes, &usage);
    assert_int_equal(usage.input, 5556);  /* 20000 / 3.5996 */
    assert_int_equal(usage.output, 1538); /* 6000 / 3.9004 */
    learn(1000, &sizes, &reported);
    assert_int_equal(estimate_adopt(&new), OK);

    assert_ptr_equal(after.estimate, models[0].estimate);
    meter_estimate(after.estimate, &sizes, &usage);
    assert_in_range(usage.input, 9990, 10010); /* cached tokens are prompt tokens */
    assert_in_range(usage.output, 999, 1001);
    assert_int_equal(usage.cached_input, 0);
    meter_estimate(models[1].estimate, &sizes, &usage); /* each model by itself */
    assert_int_equal(usage.input, 5556);
    meter_estimate(NULL, &sizes, &usage);
    assert_int_equal(usage.input, 5556);
}

static void a_stream_is_estimated_by_its_events(void **state)
{
    (void)state;
    const struct meter_sizes stream = {.answer_bytes = 6000, .answer_pieces = 1000};
    struct usage one_each = USAGE_UNKNOWN, four_each = USAGE_UNKNOWN, usage;

    meter_estimate(models[0].estimate, &stream, &usage);
    assert_int_equal(usage.output, 1000);
    one_each.output = 1180; /* some tokens are no event of their own: half a character */
    learn(100, &stream, &one_each);
    meter_estimate(models[0].estimate, &stream, &usage);
    assert_int_equal(usage.output, 1000); /* never more than was generated */
    four_each.output = 4000;
    learn(1000, &stream, &four_each);
    meter_estimate(models[0].estimate, &stream, &usage);
    assert_in_range(usage.output, 3990, 4010);
}

static void a_guess_comes_to_what_the_estimate_would_have_been(void **state)
{
    (void)state;
    const struct meter_sizes lesson = {
        .prompt_bytes = 5000, .answer_bytes = 900, .answer_pieces = 50};
    const struct usage reported = {.input = 2000, .output = 300};
    const struct meter_sizes delivered[] = {
        {.prompt_bytes = 700, .answer_bytes = 123},
        {.prompt_bytes = 700, .answer_bytes = 123, .answer_pieces = 9},
        {.prompt_bytes = 700},
    };
    struct meter_guess guess;

    for (int round = 0; round < 2; round++) {
        guess = estimate_guess(models[0].estimate, 700);
        for (size_t i = 0; i < sizeof(delivered) / sizeof(delivered[0]); i++) {
            struct usage expected, usage;
            meter_estimate(models[0].estimate, &delivered[i], &expected);
            estimate_from_guess(&guess, delivered[i].answer_bytes, delivered[i].answer_pieces,
                                &usage);
            assert_int_equal(usage.input, expected.input);
            assert_int_equal(usage.output, expected.output);
            assert_int_equal(usage.reasoning, 0);
        }
        learn(100, &lesson, &reported);
    }
    assert_true(guess.input > 195); /* as it was learned meanwhile */
}

static void thoughts_teach_nothing_of_the_text(void **state)
{
    (void)state;
    const struct meter_sizes sizes = {.answer_bytes = 390};
    const struct usage thinking = {.output = 100, .reasoning = 900};
    struct usage before, after;

    meter_estimate(models[0].estimate, &sizes, &before);
    learn(100, &sizes, &thinking);
    meter_estimate(models[0].estimate, &sizes, &after);
    assert_int_equal(after.output, before.output);
    assert_int_equal(estimate_answer(models[0].estimate), 1000);
}

static void errors_and_lengths_are_known_by_model(void **state)
{
    (void)state;
    const struct meter_sizes sizes = {.prompt_bytes = 3600, .answer_bytes = 780};
    const struct usage reported = {.input = 500, .output = 100};
    int64_t prompt, answer;

    meter_estimate_error(models[0].estimate, &prompt, &answer);
    assert_int_equal(prompt, -1);
    assert_int_equal(answer, -1);
    assert_int_equal(estimate_answer(models[0].estimate), -1);
    learn(1, &sizes, &reported);
    meter_estimate_error(models[0].estimate, &prompt, &answer);
    assert_int_equal(prompt, 1000); /* 1000 for 500: as it was before the lesson */
    assert_int_equal(answer, 1000);
    learn(1000, &sizes, &reported);
    meter_estimate_error(models[0].estimate, &prompt, &answer);
    assert_true(prompt < 5 && answer < 5);
    assert_int_equal(estimate_answer(models[0].estimate), 100);
    meter_estimate_error(models[1].estimate, &prompt, &answer);
    assert_int_equal(prompt, -1);
    assert_int_equal(estimate_answer(NULL), -1);
}

int main(void)
{
#define ESTIMATE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ESTIMATE_TEST(what_was_learned_outlives_snapshots),
        ESTIMATE_TEST(a_stream_is_estimated_by_its_events),
        ESTIMATE_TEST(a_guess_comes_to_what_the_estimate_would_have_been),
        ESTIMATE_TEST(thoughts_teach_nothing_of_the_text),
        ESTIMATE_TEST(errors_and_lengths_are_known_by_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
