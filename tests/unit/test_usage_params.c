/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_usage_params.c: query strings of the usage endpoints (gateway/usage_params.c).
 *
 * Promises:  1. Widths, limits and moments are as OpenAI's reference has them; what is not said has
 *               its default.
 *            2. Lists come with or without [], percent-encoded or not; group_by with commas too.
 *            3. A page begins at a bucket within what was asked for.
 *            4. What is not known, comes twice or cannot be is refused, by a name that is plain
 * text.
 *            5. No query, whatever its bytes, is read beyond its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gateway/usage_params.h"

#define S INT64_C(1000000)
#define DAY (86400 * S)
#define NOW (1764590400 * S) /* 2025-12-01 12:00 UTC */

static struct arena arena;
static struct usage_params params;
static struct usage_refusal refusal;

static enum err read_query(enum usage_subject subject, const char *query)
{
    return usage_params_read(subject, span_of(query), NOW, &arena, &params, &refusal);
}

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, NULL, 0, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void what_is_not_said_has_its_default(void **state)
{
    (void)state;
    const struct {
        enum usage_subject subject;
        const char *query;
        int64_t width_us, limit, end_us;
    } cases[] = {
        {USAGE_COMPLETIONS, "start_time=1764000000", DAY, 7, NOW + DAY / 2},
        {USAGE_COMPLETIONS, "start_time=1764000000&bucket_width=1h", 3600 * S, 24, NOW + 3600 * S},
        {USAGE_COMPLETIONS, "start_time=1764000000&bucket_width=1m", 60 * S, 60, NOW + 60 * S},
        {USAGE_COSTS, "start_time=1764000000", DAY, 7, NOW + DAY / 2},
        {USAGE_COSTS, "start_time=1764000000&limit=180&end_time=1764000001", DAY, 180,
         1764000001 * S},
        {USAGE_COMPLETIONS, "start_time=2000000000", DAY, 7, 2000000000 * S},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_query(cases[i].subject, cases[i].query), OK);
        assert_true(params.width_us == cases[i].width_us);
        assert_true(params.limit == cases[i].limit);
        assert_true(params.end_us == cases[i].end_us);
        assert_true(params.page_us == params.start_us);
        assert_int_equal(params.models.count, 0);
    }
    assert_int_equal(read_query(USAGE_COMPLETIONS, "start_time=1764000059&bucket_width=1m"), OK);
    assert_true(params.start_us == 1764000000 * S);
}

static void lists_come_in_every_spelling(void **state)
{
    (void)state;
    assert_int_equal(read_query(USAGE_COMPLETIONS, "&&start_time=1&models=a%2Fb&models[]=c+d&"
                                                   "models%5B%5D=&api_key_ids=k&group_by=model,"
                                                   "api_key_id&group_by[]=batch&batch=true"),
                     OK);
    assert_int_equal(params.models.count, 3);
    assert_true(span_equal(params.models.values[0], SPAN("a/b")));
    assert_true(span_equal(params.models.values[1], SPAN("c d")));
    assert_true(span_equal(params.models.values[2], SPAN("")));
    assert_int_equal(params.keys.count, 1);
    assert_true(params.grouped[GROUP_MODEL] && params.grouped[GROUP_KEY] &&
                params.grouped[GROUP_BATCH]);
    assert_false(params.grouped[GROUP_PROJECT] || params.grouped[GROUP_TIER]);
    assert_true(params.batch_alone);
}

static void a_page_begins_at_a_bucket_within(void **state)
{
    (void)state;
    const struct {
        const char *page;
        enum err err;
    } cases[] = {
        {"page_1764028800", OK},                     /* the midnight behind the start */
        {"page_1764028801", ERR_BAD_VALUE},          /* no bucket */
        {"page_1764000000", ERR_BAD_VALUE},          /* the start itself is no further page */
        {"page_1764201600", ERR_BAD_VALUE},          /* the end */
        {"1764028800", ERR_BAD_VALUE},               /* not a page */
        {"page_", ERR_BAD_VALUE},                    /* nor this */
        {"page_9223372036854775807", ERR_BAD_VALUE}, /* beyond all times */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char query[128];
        (void)snprintf(query, sizeof(query), "start_time=1764000000&end_time=1764201600&page=%s",
                       cases[i].page);
        assert_int_equal(read_query(USAGE_COMPLETIONS, query), cases[i].err);
        if (cases[i].err == OK)
            assert_true(params.page_us == 1764028800 * S);
        else
            assert_true(span_equal(refusal.param, SPAN("page")));
    }
    assert_true(usage_params_bucket_end(&params, 1764000000 * S) == 1764028800 * S);
}

static void what_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    const struct {
        enum usage_subject subject;
        const char *query, *param;
    } cases[] = {
        {USAGE_COMPLETIONS, "", "start_time"},
        {USAGE_COMPLETIONS, "start_time=", "start_time"},
        {USAGE_COMPLETIONS, "start_time=1.5", "start_time"},
        {USAGE_COMPLETIONS, "start_time=253402300800", "start_time"},
        {USAGE_COMPLETIONS, "start_time=1&start_time=1", "start_time"},
        {USAGE_COMPLETIONS, "start_time=2&end_time=2", "end_time"},
        {USAGE_COMPLETIONS, "start_time=1&limit=32", "limit"},
        {USAGE_COMPLETIONS, "start_time=1&limit=169&bucket_width=1h", "limit"},
        {USAGE_COMPLETIONS, "start_time=1&limit=1441&bucket_width=1m", "limit"},
        {USAGE_COMPLETIONS, "start_time=1&bucket_width=2d", "bucket_width"},
        {USAGE_COSTS, "start_time=1&bucket_width=1m", "bucket_width"},
        {USAGE_COSTS, "start_time=1&models=a", "models"},
        {USAGE_COSTS, "start_time=1&batch=true", "batch"},
        {USAGE_COSTS, "start_time=1&group_by=service_tier", "group_by"},
        {USAGE_COMPLETIONS, "start_time=1&group_by=line_item", "group_by"},
        {USAGE_COMPLETIONS, "start_time=1&color=red", "color"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_query(cases[i].subject, cases[i].query), ERR_BAD_VALUE);
        assert_true(span_equal(refusal.param, span_of(cases[i].param)));
        assert_non_null(refusal.why);
    }
    for (const char *const *query =
             (const char *const[]){"start_time=1&x=%", "start_time=1&x=%4", "%zz=1", "a=%00", NULL};
         *query; query++) {
        assert_int_equal(read_query(USAGE_COMPLETIONS, *query), ERR_BAD_VALUE);
        assert_null(refusal.param.data);
    }
}

static void a_name_of_any_bytes_is_not_said_back(void **state)
{
    (void)state;
    static const char *const queries[] = {"start_time=1&%ff=1", "start_time=1&\xc3=1",
                                          "start_time=1&a%0ab=1", "start_time=1&%7f=1"};

    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        assert_int_equal(read_query(USAGE_COMPLETIONS, queries[i]), ERR_BAD_VALUE);
        assert_null(refusal.param.data);
    }
}

static void any_bytes_are_read_to_their_end_and_no_further(void **state)
{
    (void)state;
    static const char alphabet[] = "start_time=1&models[]%2,page_\0\xff";
    uint64_t seed = 88172645463325252;

    for (int round = 0; round < 20000; round++) {
        char *query = malloc(40); /* so that a sanitizer sees its end */
        size_t size;
        assert_non_null(query);
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        size = seed % 40;
        for (size_t i = 0; i < size; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            query[40 - size + i] = alphabet[seed % sizeof(alphabet)];
        }
        (void)!usage_params_read(USAGE_COMPLETIONS, (struct span){query + 40 - size, size}, NOW,
                                 &arena, &params, &refusal);
        free(query);
        arena_fini(&arena);
        arena_init(&arena, NULL, 0, 1 << 20);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_said_has_its_default),
        TEST(lists_come_in_every_spelling),
        TEST(a_page_begins_at_a_bucket_within),
        TEST(what_cannot_be_is_refused_by_name),
        TEST(a_name_of_any_bytes_is_not_said_back),
        TEST(any_bytes_are_read_to_their_end_and_no_further),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
