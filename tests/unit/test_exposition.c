/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_exposition.c: what exposition.h promises.
 *
 * 1. Load is read from the page of each kind of server, under its old and its new names.
 * 2. Several engines are summed; of the share of KV memory the largest counts.
 * 3. A page that has old and new names of one quantity counts once.
 * 4. It does not matter how the page is cut into pieces.
 * 5. What is no page of a model server says so; odd lines are passed over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gateway/exposition.h"

static const char vllm_page[] =
    "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
    "# TYPE vllm:num_requests_running gauge\n"
    "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 3.0\n"
    "vllm:num_requests_running{engine=\"1\",model_name=\"tiny\"} 4.0\n"
    "vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny\"} 2.0\n"
    "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 2.0\n"
    "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a } \\\"quoted\\\"\"} 0.25\n"
    "vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"tiny\"} 0.8751\n"
    "vllm:gpu_cache_usage_perc{engine=\"1\",model_name=\"tiny\"} 0.99\n"
    "vllm:prefix_cache_queries_total{engine=\"0\"} 858.0\n"
    "vllm:prefix_cache_queries_created{engine=\"0\"} 1.7960716403611462e+09\n"
    "vllm:prefix_cache_hits_total{engine=\"0\"} 256.0\r\n"
    "vllm:prompt_tokens_total{engine=\"0\"} 1.25e+06\n"
    "vllm:generation_tokens_total{engine=\"0\"} 4000 1796071640361\n"
    "vllm:num_preemptions_total{engine=\"0\"} 7\n"
    "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",num_gpu_blocks=\"1000\"} 1.0\n"
    "vllm:time_to_first_token_seconds_bucket{le=\"0.1\"} 12";

static struct load read_page(const char *page, bool *out_known)
{
    struct exposition exposition;
    struct load load;

    exposition_init(&exposition);
    exposition_feed(&exposition, span_of(page));
    *out_known = exposition_end(&exposition, &load);
    return load;
}

static void a_page_of_vllm_is_read(void **state)
{
    (void)state;
    static const int64_t expected[LOAD_QUANTITIES] = {
        [LOAD_RUNNING] = 7, /* 3 + 4 */
        [LOAD_WAITING] = 2,
        [LOAD_KV_PERMILLE] = 875, /* the fuller engine's 0.8751 */
        [LOAD_KV_TOKENS] = 16000, /* 16 * 1000 */
        [LOAD_PREFIX_QUERIES] = 858,
        [LOAD_PREFIX_HITS] = 256,
        [LOAD_PROMPT_TOKENS] = 1250000,
        [LOAD_GENERATION_TOKENS] = 4000,
        [LOAD_PREEMPTIONS] = 7,
    };
    bool known;
    const struct load load = read_page(vllm_page, &known);

    assert_true(known);
    for (size_t i = 0; i < LOAD_QUANTITIES; i++)
        assert_int_equal(load.values[i], expected[i]);
}

static void other_kinds_and_older_names_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *page;
        enum load_quantity quantity;
        int64_t value;
    } cases[] = {
        {"vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n", LOAD_KV_PERMILLE, 500},
        {"vllm:gpu_prefix_cache_hits_total 9\n", LOAD_PREFIX_HITS, 9},
        {"sglang:num_running_reqs{tp_rank=\"0\"} 5.0\n", LOAD_RUNNING, 5},
        {"sglang:num_queue_reqs 6\n", LOAD_WAITING, 6},
        {"sglang:token_usage{engine_type=\"unified\"} 0.42\n", LOAD_KV_PERMILLE, 420},
        {"sglang:num_running_reqs 0\nsglang:cache_config_info{page_size=\"64\",num_pages=\"10\"} "
         "1\n",
         LOAD_KV_TOKENS, 640},
        {"llamacpp:requests_processing 2\n", LOAD_RUNNING, 2},
        {"llamacpp:requests_deferred 1\n", LOAD_WAITING, 1},
        {"llamacpp:tokens_predicted_total 6678\n", LOAD_GENERATION_TOKENS, 6678},
        {"llamacpp:prompt_tokens_cached_total 506\n", LOAD_PREFIX_HITS, 506},
        {"tgi_batch_current_size 8\n", LOAD_RUNNING, 8},
        {"tgi_queue_size 3\n", LOAD_WAITING, 3},
        {"tgi_request_generated_tokens_sum 77\n", LOAD_GENERATION_TOKENS, 77},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool known;
        const struct load load = read_page(cases[i].page, &known);

        assert_true(known);
        assert_int_equal(load.values[cases[i].quantity], cases[i].value);
    }
}

static void what_is_not_said_is_not_known(void **state)
{
    (void)state;
    bool known;
    const struct load load = read_page("vllm:num_requests_running 0\n", &known);

    assert_true(known);
    assert_int_equal(load.values[LOAD_RUNNING], 0);
    assert_int_equal(load.values[LOAD_WAITING], -1);
    assert_int_equal(load.values[LOAD_KV_TOKENS], -1);
}

static void pieces_do_not_matter(void **state)
{
    (void)state;
    bool known;
    const struct load whole = read_page(vllm_page, &known);

    for (size_t step = 1; step < 97; step++) {
        struct exposition exposition;
        struct load load;

        exposition_init(&exposition);
        for (size_t at = 0; at < sizeof(vllm_page) - 1; at += step) {
            const size_t left = sizeof(vllm_page) - 1 - at;

            exposition_feed(&exposition, (struct span){vllm_page + at, left < step ? left : step});
        }
        assert_true(exposition_end(&exposition, &load));
        assert_memory_equal(&load, &whole, sizeof(load));
    }
}

static void what_is_no_page_of_a_server_says_so(void **state)
{
    (void)state;
    static const char *const pages[] = {
        "",
        "\n\n#\n",
        "<html>\n</html>\n",
        "{\"detail\":\"Not Found\"}",
        "vllm:num_requests_running{engine=\"0\"\n",
        "vllm:num_requests_running{engine=\"0} 1\n",
        "vllm:num_requests_running NaN\n",
        "vllm:num_requests_running +Inf\n",
        "vllm:num_requests_running -1\n",
        "vllm:num_requests_running 1x\n",
        "vllm:num_requests_running\n",
        "vllm:num_requests_runningx 1\n",
    };

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        bool known;
        const struct load load = read_page(pages[i], &known);

        if (known || load.values[LOAD_RUNNING] != -1)
            fail_msg("%s was taken for a page", pages[i]);
    }
}

static void a_line_that_is_too_long_is_passed_over(void **state)
{
    (void)state;
    static char page[3 * EXPOSITION_LINE_BYTES];
    bool known;

    memset(page, 'x', sizeof(page));
    memcpy(page + 2 * EXPOSITION_LINE_BYTES, "\nvllm:num_requests_running 5\n", 29);
    page[2 * EXPOSITION_LINE_BYTES + 29] = '\0';
    const struct load load = read_page(page, &known);
    assert_true(known);
    assert_int_equal(load.values[LOAD_RUNNING], 5);

    struct exposition exposition;
    struct load dripped;
    exposition_init(&exposition);
    for (size_t i = 0; page[i]; i++)
        exposition_feed(&exposition, (struct span){page + i, 1});
    assert_true(exposition_end(&exposition, &dripped));
    assert_int_equal(dripped.values[LOAD_RUNNING], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_vllm_is_read),
        cmocka_unit_test(other_kinds_and_older_names_are_read),
        cmocka_unit_test(what_is_not_said_is_not_known),
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(what_is_no_page_of_a_server_says_so),
        cmocka_unit_test(a_line_that_is_too_long_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
