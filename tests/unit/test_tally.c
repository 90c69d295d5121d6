/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_tally.c: the tokens of one reply, from what its documents say.
 *
 * Promises: 1. The last running total wins, field by field; choices are summed, the prompt is not.
 *           2. Classes are disjoint and sum up to what was reported.
 *           3. What is not known yet is -1, never a guess. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/tally.h"

static struct tap tap_of(enum tap_shape shape, struct span text)
{
    struct tap tap;

    tap_init(&tap, shape);
    tap_feed(&tap, text);
    assert_true(tap_whole(&tap));
    return tap;
}

/* Adds documents, up to a NULL, to a new tally. */
static struct tally tally_in(enum tap_shape shape, const char *const texts[])
{
    struct tally tally;

    tally_init(&tally);
    for (size_t i = 0; texts[i] != NULL; i++) {
        const struct tap tap = tap_of(shape, span_of(texts[i]));

        tally_add(&tally, &tap);
    }
    return tally;
}

static struct tally tally_of(const char *const texts[])
{
    return tally_in(TAP_CHAT, texts);
}

static void assert_usage(const struct tally *tally, enum usage_source source, struct usage expected,
                         bool suspect)
{
    struct usage usage;
    uint32_t flags = FLAG_CLAMPED;

    assert_int_equal(tally_usage(tally, &usage, &flags), source);
    assert_int_equal(usage.input, expected.input);
    assert_int_equal(usage.cached_input, expected.cached_input);
    assert_int_equal(usage.cache_write, expected.cache_write);
    assert_int_equal(usage.output, expected.output);
    assert_int_equal(usage.reasoning, expected.reasoning);
    assert_int_equal(flags, FLAG_CLAMPED | (suspect ? (uint32_t)FLAG_USAGE_SUSPECT : 0u));
}

#define RUNNING(index, prompt, completion)                                                         \
    "{\"choices\":[{\"index\":" #index ",\"delta\":{\"content\":\"ab\"}}],\"usage\":"              \
    "{\"prompt_tokens\":" #prompt ",\"completion_tokens\":" #completion "}}"
#define CLOSING(usage) "{\"choices\":[],\"usage\":" usage "}"

static void the_closing_total_wins(void **state)
{
    (void)state;
    static const char *const texts[] = {
        RUNNING(0, 20, 1),
        RUNNING(1, 20, 1),
        RUNNING(0, 20, 2),
        RUNNING(1, 20, 3),
        CLOSING("{\"prompt_tokens\":20,\"completion_tokens\":5,\"total_tokens\":25,"
                "\"prompt_tokens_details\":{\"cached_tokens\":16}}"),
        NULL,
    };
    const struct tally tally = tally_of(texts);

    assert_usage(&tally, SOURCE_REPORTED, (struct usage){4, 16, -1, 5, -1}, false);
    assert_int_equal(tally.text_bytes, 8);
}

static void a_cut_stream_sums_the_last_of_each_choice(void **state)
{
    (void)state;
    static const char *const texts[] = {
        RUNNING(0, 20, 1), RUNNING(1, 20, 1), RUNNING(0, 20, 2), RUNNING(1, 20, 3), NULL,
    };
    const struct tally tally = tally_of(texts);

    assert_usage(&tally, SOURCE_RUNNING, (struct usage){20, -1, -1, 5, -1}, false);
}

static void totals_are_merged_field_by_field(void **state)
{
    (void)state;
    static const char *const texts[] = {
        CLOSING("{\"prompt_tokens\":20,\"completion_tokens\":1}"),
        CLOSING("{\"prompt_tokens\":null,\"completion_tokens\":5,\"cached_tokens\":3}"),
        CLOSING("null"),
        CLOSING("{}"),
        NULL,
    };
    const struct tally tally = tally_of(texts);

    assert_usage(&tally, SOURCE_REPORTED, (struct usage){20, -1, -1, 5, -1}, false);
}

static void zero_is_a_value(void **state)
{
    (void)state;
    static const char *const texts[] = {
        RUNNING(0, 20, 3),
        CLOSING("{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}"),
        NULL,
    };
    const struct tally tally = tally_of(texts);

    assert_usage(&tally, SOURCE_REPORTED, (struct usage){0, -1, -1, 0, -1}, false);
}

static void classes_are_disjoint(void **state)
{
    (void)state;
    static const struct {
        const char *usage;
        struct usage expected;
        bool suspect;
    } cases[] = {
        {"{\"prompt_tokens\":100,\"completion_tokens\":50,\"total_tokens\":150,"
         "\"prompt_tokens_details\":{\"cached_tokens\":60,\"created_cache_tokens\":30},"
         "\"completion_tokens_details\":{\"reasoning_tokens\":40}}",
         {10, 60, 30, 10, 40},
         false},
        {"{\"prompt_tokens\":10,\"completion_tokens\":5,\"prompt_tokens_details\":"
         "{\"cached_tokens\":16}}",
         {0, 10, -1, 5, -1},
         true},
        {"{\"prompt_tokens\":10,\"completion_tokens\":5,\"prompt_tokens_details\":"
         "{\"cached_tokens\":8,\"cache_write_tokens\":8}}",
         {0, 8, 2, 5, -1},
         true},
        {"{\"prompt_tokens\":10,\"completion_tokens\":5,\"reasoning_tokens\":6}",
         {10, -1, -1, 0, 5},
         true},
        {"{\"prompt_tokens\":10,\"completion_tokens\":-5}", {10, -1, -1, 0, -1}, true},
        {"{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":16}",
         {10, -1, -1, 5, -1},
         true},
        {"{\"prompt_tokens\":2147483647,\"completion_tokens\":2147483647}",
         {2147483647, -1, -1, 2147483647, -1},
         false},
        {"{\"prompt_tokens\":2147483648,\"completion_tokens\":1}",
         {2147483648, -1, -1, 1, -1},
         true},
        {"{\"prompt_tokens\":1,\"completion_tokens\":4294967296}",
         {1, -1, -1, 4294967296, -1},
         true},
        {"{\"prompt_tokens\":10,\"total_tokens\":10}", {10, -1, -1, 0, -1}, false},
        {"{\"completion_tokens\":4,\"total_tokens\":10}", {6, -1, -1, 4, -1}, false},
        {"{\"prompt_tokens\":10,\"total_tokens\":3}", {10, -1, -1, -1, -1}, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        const char *const texts[] = {text, NULL};

        snprintf(text, sizeof(text), CLOSING("%s"), cases[i].usage);

        const struct tally tally = tally_of(texts);

        assert_usage(&tally, SOURCE_REPORTED, cases[i].expected, cases[i].suspect);
    }
}

static void plain_bodies_are_totals(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"choices\":[{\"index\":0,\"message\":{}}],\"usage\":{\"prompt_tokens\":7,"
        "\"completion_tokens\":1}}",
        "{\"choices\":[{\"index\":0,\"text\":\"a\"},{\"index\":1,\"text\":\"b\"}],\"usage\":"
        "{\"prompt_tokens\":7,\"completion_tokens\":1}}",
        "{\"data\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}",
        "{\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        const char *const texts[] = {bodies[i], NULL};
        const struct tally tally = tally_of(texts);

        assert_usage(&tally, SOURCE_REPORTED, (struct usage){7, -1, -1, 1, -1}, false);
    }
}

static void a_caller_may_say_that_a_body_is_whole(void **state)
{
    (void)state;
    const struct tap tap =
        tap_of(TAP_CHAT, SPAN("{\"choices\":[{\"index\":0,\"text\":\"a\"}],\"usage\":"
                              "{\"prompt_tokens\":7,\"completion_tokens\":1}}"));
    struct tally tally;

    tally_init(&tally);
    tally_add(&tally, &tap);
    assert_usage(&tally, SOURCE_RUNNING, (struct usage){7, -1, -1, 1, -1}, false);

    tally_init(&tally);
    tally.whole_body = true;
    tally_add(&tally, &tap);
    assert_usage(&tally, SOURCE_REPORTED, (struct usage){7, -1, -1, 1, -1}, false);
}

static void nothing_known_is_said_so(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}",
        CLOSING("null"),
        NULL,
    };
    const struct tally tally = tally_of(texts);

    assert_usage(&tally, SOURCE_NONE, USAGE_UNKNOWN, false);
    assert_int_equal(tally.text_bytes, 3);
}

static void more_choices_than_are_told_apart_are_suspect(void **state)
{
    (void)state;
    static const char *const texts[] = {RUNNING(0, 20, 2), RUNNING(16, 20, 3), NULL};
    const struct tally tally = tally_of(texts);

    assert_usage(&tally, SOURCE_RUNNING, (struct usage){20, -1, -1, 2, -1}, true);
}

/* ---- responses and messages ---- */

#define RESPONSE_EVENT(type, usage) "{\"type\":\"" type "\",\"response\":{\"usage\":" usage "}}"

static void a_response_is_reported_by_its_last_event(void **state)
{
    (void)state;
    static const char *const texts[] = {
        RESPONSE_EVENT("response.created", "null"),
        "{\"type\":\"response.output_text.delta\",\"delta\":\"abc\"}",
        RESPONSE_EVENT("response.incomplete",
                       "{\"input_tokens\":6,\"output_tokens\":6,\"total_tokens\":12,"
                       "\"input_tokens_details\":{\"cached_tokens\":5}}"),
        NULL,
    };
    const struct tally tally = tally_in(TAP_RESPONSES, texts);

    assert_usage(&tally, SOURCE_REPORTED, (struct usage){1, 5, -1, 6, -1}, false);
    assert_int_equal(tally.text_bytes, 3);
}

static void usage_of_a_response_under_way_is_running(void **state)
{
    (void)state;
    static const char *const texts[] = {
        RESPONSE_EVENT("response.in_progress", "{\"input_tokens\":6,\"output_tokens\":1}"), NULL};
    const struct tally tally = tally_in(TAP_RESPONSES, texts);

    assert_usage(&tally, SOURCE_RUNNING, (struct usage){6, -1, -1, 1, -1}, false);
}

#define MESSAGE_START                                                                              \
    "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,"                     \
    "\"cache_read_input_tokens\":100,\"cache_creation_input_tokens\":20,\"output_tokens\":1}}}"

static void a_message_cut_short_has_its_input_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {
        MESSAGE_START,
        "{\"type\":\"content_block_delta\",\"delta\":{\"text\":\"abc\"}}",
        NULL,
    };
    const struct tally tally = tally_in(TAP_MESSAGES, texts);

    assert_usage(&tally, SOURCE_RUNNING, (struct usage){10, 100, 20, -1, -1}, false);
    assert_int_equal(tally.text_bytes, 3);
}

/* What the last event says of the input replaces what the first said, member by member. */
static void a_message_is_reported_by_its_delta(void **state)
{
    (void)state;
    static const struct {
        const char *usage;
        struct usage expected;
    } cases[] = {
        {"{\"output_tokens\":6}", {10, 100, 20, 6, -1}},
        {"{\"input_tokens\":10,\"output_tokens\":6}", {10, 100, 20, 6, -1}},
        {"{\"input_tokens\":110,\"cache_read_input_tokens\":0,\"output_tokens\":6}",
         {110, 0, 20, 6, -1}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char delta[256];
        const char *const texts[] = {MESSAGE_START, delta, "{\"type\":\"message_stop\"}", NULL};

        snprintf(
            delta, sizeof(delta),
            "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":%s}",
            cases[i].usage);

        const struct tally tally = tally_in(TAP_MESSAGES, texts);

        assert_usage(&tally, SOURCE_REPORTED, cases[i].expected, false);
    }
}

static void deltas_before_the_last_are_running(void **state)
{
    (void)state;
    static const char *const texts[] = {
        MESSAGE_START,
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":null},\"usage\":{"
        "\"output_tokens\":3}}",
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":null},\"usage\":{"
        "\"output_tokens\":5}}",
        NULL,
    };
    const struct tally tally = tally_in(TAP_MESSAGES, texts);

    assert_usage(&tally, SOURCE_RUNNING, (struct usage){10, 100, 20, 5, -1}, false);
}

static void a_suspect_begin_is_not_forgotten(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":-4}}}",
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
        "\"output_tokens\":3}}",
        NULL,
    };
    const struct tally tally = tally_in(TAP_MESSAGES, texts);

    assert_usage(&tally, SOURCE_REPORTED, (struct usage){0, -1, -1, 3, -1}, true);
}

static void a_whole_message_is_a_total(void **state)
{
    (void)state;
    const struct tap tap =
        tap_of(TAP_MESSAGES, SPAN("{\"usage\":{\"input_tokens\":1,\"output_tokens\":6,"
                                  "\"cache_read_input_tokens\":7}}"));
    struct tally tally;

    tally_init(&tally);
    tally.whole_body = true;
    tally_add(&tally, &tap);
    assert_usage(&tally, SOURCE_REPORTED, (struct usage){1, 7, -1, 6, -1}, false);
}

/* ---- totals of one choice each ---- */

#define CHOICE(index) "{\"choices\":[{\"index\":" #index ",\"delta\":{\"content\":\"a\"}}]}"

/* Adds the first `count` events of a stream of llama.cpp with n = 2. */
static struct tally tally_per_choice(size_t count)
{
    static const char *const texts[] = {
        CHOICE(0), CHOICE(1),
        CHOICE(1), CLOSING("{\"completion_tokens\":6,\"prompt_tokens\":8,\"total_tokens\":14}"),
        CHOICE(0), CLOSING("{\"completion_tokens\":5,\"prompt_tokens\":8,\"total_tokens\":13}"),
    };
    struct tally tally;

    tally_init(&tally);
    tally.per_choice = true;
    for (size_t i = 0; i < count; i++) {
        const struct tap tap = tap_of(TAP_CHAT, span_of(texts[i]));

        tally_add(&tally, &tap);
    }
    return tally;
}

static void totals_of_one_choice_each_are_summed(void **state)
{
    (void)state;
    const struct tally whole = tally_per_choice(6);
    const struct tally cut_short = tally_per_choice(5);
    const struct tally begun = tally_per_choice(2);

    assert_usage(&whole, SOURCE_REPORTED, (struct usage){8, -1, -1, 11, -1}, false);
    assert_usage(&cut_short, SOURCE_RUNNING, (struct usage){8, -1, -1, 6, -1}, false);
    assert_usage(&begun, SOURCE_NONE, USAGE_UNKNOWN, false);
}

static void a_body_that_tells_of_its_first_choice_alone_is_suspect(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        struct usage expected;
        bool suspect;
    } cases[] = {
        {"{\"choices\":[{\"index\":0,\"message\":{}},{\"index\":1,\"message\":{}}],\"usage\":"
         "{\"completion_tokens\":3,\"prompt_tokens\":8}}",
         {8, -1, -1, 3, -1},
         true},
        {"{\"choices\":[{\"index\":0,\"message\":{}}],\"usage\":"
         "{\"completion_tokens\":3,\"prompt_tokens\":8}}",
         {8, -1, -1, 3, -1},
         false},
        {"{\"data\":[{\"index\":0},{\"index\":1}],\"usage\":"
         "{\"prompt_tokens\":5,\"total_tokens\":5}}",
         {5, -1, -1, 0, -1},
         false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tap tap = tap_of(TAP_CHAT, span_of(cases[i].body));
        struct tally tally;

        tally_init(&tally);
        tally.whole_body = tally.per_choice = true;
        tally_add(&tally, &tap);
        assert_usage(&tally, SOURCE_REPORTED, cases[i].expected, cases[i].suspect);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_closing_total_wins),
        cmocka_unit_test(a_cut_stream_sums_the_last_of_each_choice),
        cmocka_unit_test(totals_are_merged_field_by_field),
        cmocka_unit_test(zero_is_a_value),
        cmocka_unit_test(classes_are_disjoint),
        cmocka_unit_test(plain_bodies_are_totals),
        cmocka_unit_test(a_caller_may_say_that_a_body_is_whole),
        cmocka_unit_test(nothing_known_is_said_so),
        cmocka_unit_test(more_choices_than_are_told_apart_are_suspect),
        cmocka_unit_test(a_response_is_reported_by_its_last_event),
        cmocka_unit_test(usage_of_a_response_under_way_is_running),
        cmocka_unit_test(a_message_cut_short_has_its_input_alone),
        cmocka_unit_test(a_message_is_reported_by_its_delta),
        cmocka_unit_test(deltas_before_the_last_are_running),
        cmocka_unit_test(a_suspect_begin_is_not_forgotten),
        cmocka_unit_test(a_whole_message_is_a_total),
        cmocka_unit_test(totals_of_one_choice_each_are_summed),
        cmocka_unit_test(a_body_that_tells_of_its_first_choice_alone_is_suspect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
