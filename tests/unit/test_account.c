/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_account.c: a replica's tokens (meter/account.c, meter/accounts.c).
 *
 * Promises:  1. Tokens an hour are those that had to be computed, over the time since the first.
 *            2. A token's cost is exact, half to even; what is not known has none.
 *            3. Drift is what the engine counts beyond ours, and is told when nothing was under way
 *               while it was asked.
 *            4. What the engine counted before the comparison began is no drift, nor is what it
 *               counts late.
 *            5. A new start of the engine begins the comparison anew.
 *            6. Accounts outlive snapshots, by the names of model and replica. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meter/accounts.h"

#define HOUR_NS (UINT64_C(3600) * 1000000000)
#define START_NS (HOUR_NS * 1000)

static struct config_replica replica;
static struct config_model model;
static struct config config;

static int set_up(void **state)
{
    (void)state;
    replica = (struct config_replica){.name = SPAN("s1"), .pusd_per_hour = -1};
    model = (struct config_model){.name = SPAN("small"), .replicas = &replica, .replica_count = 1};
    config = (struct config){.models = &model, .model_count = 1, .opex_ppm = PRICE_PPM};
    return accounts_adopt(&config) == OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    accounts_forget();
    return 0;
}

static void attempt(int64_t input, int64_t output, uint64_t at_ns)
{
    const struct usage made = {
        .input = input, .cached_input = -1, .cache_write = -1, .output = output, .reasoning = -1};

    meter_attempt_begins(&replica);
    meter_attempt_ends(&replica, &made, at_ns);
}

static void tokens_an_hour_are_those_that_had_to_be_computed(void **state)
{
    (void)state;
    struct replica_account *account = replica.account;
    const struct usage cached = {
        .input = 100, .cached_input = 5000, .cache_write = 20, .output = 300, .reasoning = 30};

    assert_int_equal(account_tokens_per_hour(account, START_NS), -1);
    account_begin(account);
    account_end(account, &cached, START_NS);
    assert_int_equal(account_tokens_per_hour(account, START_NS), 450 * 12); /* 5 minutes at least */
    assert_int_equal(account_tokens_per_hour(account, START_NS + HOUR_NS / 2), 900);
    for (int minute = 0; minute < 600; minute++)
        attempt(1000, 500, START_NS + HOUR_NS + (uint64_t)minute * HOUR_NS / 60);
    assert_int_equal(account_tokens_per_hour(account, START_NS + 11 * HOUR_NS - 1), 90000);
    assert_int_equal(account_tokens_per_hour(account, START_NS + 13 * HOUR_NS), 0);
}

static void an_unknown_usage_computes_nothing(void **state)
{
    (void)state;
    const struct usage unknown = USAGE_UNKNOWN;
    struct meter_replica_view view;

    meter_attempt_begins(&replica);
    meter_attempt_ends(&replica, &unknown, START_NS);
    meter_replica_view(&replica, &config, START_NS, &view);
    assert_int_equal(view.prompt_tokens, 0);
    assert_int_equal(view.tokens_per_hour, -1);
}

static void a_tokens_cost_is_exact(void **state)
{
    (void)state;
    assert_int_equal(account_unit_cost(2000000000000, PRICE_PPM, 1000000), 2000000);
    assert_int_equal(account_unit_cost(2000000000000, 1500000, 1000000), 3000000);
    assert_int_equal(account_unit_cost(5, PRICE_PPM, 2), 2); /* half to even */
    assert_int_equal(account_unit_cost(7, PRICE_PPM, 2), 4);
    assert_int_equal(account_unit_cost(0, PRICE_PPM, 2), 0);
    assert_int_equal(account_unit_cost(-1, PRICE_PPM, 2), -1);
    assert_int_equal(account_unit_cost(5, PRICE_PPM, 0), -1);
    assert_int_equal(account_unit_cost(5, PRICE_PPM, -1), -1);
    assert_int_equal(account_unit_cost(INT64_MAX, INT64_MAX, 1), -1);
}

static void a_replica_without_a_price_has_no_unit_cost(void **state)
{
    (void)state;
    attempt(50, 50, START_NS);
    assert_int_equal(meter_unit_cost(&config, &replica, START_NS), -1);
    replica.pusd_per_hour = 2400000;
    assert_int_equal(meter_unit_cost(&config, &replica, START_NS), 2000); /* 1200 tokens an hour */
    config.opex_ppm = 2 * PRICE_PPM;
    assert_int_equal(meter_unit_cost(&config, &replica, START_NS), 4000);
}

static void hear(int64_t prompt, int64_t generation)
{
    struct load load = LOAD_UNKNOWN;

    load.values[LOAD_PROMPT_TOKENS] = prompt;
    load.values[LOAD_GENERATION_TOKENS] = generation;
    meter_reconcile(&replica, &load, START_NS);
}

/* Asks, and hears that. */
static void reading(int64_t prompt, int64_t generation)
{
    meter_reading_begins(&replica);
    hear(prompt, generation);
}

static struct meter_replica_view seen(void)
{
    struct meter_replica_view view;

    meter_replica_view(&replica, &config, START_NS, &view);
    return view;
}

static void assert_drift(int64_t prompt, int64_t generation)
{
    assert_true(seen().drift_age_ms >= 0);
    assert_int_equal(seen().drift_prompt_tokens, prompt);
    assert_int_equal(seen().drift_generation_tokens, generation);
}

static void drift_is_what_the_engine_counts_beyond_ours(void **state)
{
    (void)state;
    attempt(7, 3, START_NS); /* before anything was read */
    assert_int_equal(seen().drift_age_ms, -1);
    assert_int_equal(seen().engine_prompt_tokens, -1);
    reading(1000, 500);
    assert_int_equal(seen().drift_age_ms, -1); /* it may still count what it has sent */
    reading(1000, 500);
    assert_drift(0, 0);
    attempt(100, 20, START_NS);
    reading(1100, 520);
    assert_drift(0, 0);
    assert_int_equal(seen().prompt_tokens, 107);
    assert_int_equal(seen().engine_prompt_tokens, 107);
    reading(1150, 521); /* somebody else uses it */
    assert_drift(50, 1);
    attempt(10, 10, START_NS);
    reading(1150, 521); /* it counts less than we do */
    assert_drift(40, -9);
}

static void what_is_under_way_is_not_compared(void **state)
{
    (void)state;
    const struct usage made = {.input = 10, .output = 5};

    reading(0, 0);
    reading(0, 0);
    meter_attempt_begins(&replica);
    reading(10, 2);
    assert_drift(0, 0);
    meter_reading_begins(&replica);
    meter_attempt_ends(&replica, &made, START_NS); /* between the question and the answer */
    hear(10, 4);
    assert_drift(0, 0);
    meter_reading_begins(&replica);
    attempt(1, 1, START_NS); /* began and ended between them */
    hear(10, 5);
    assert_drift(0, 0);
    reading(11, 6);
    assert_drift(0, 0);
    assert_int_equal(seen().engine_prompt_tokens, 11);
}

static void what_is_counted_late_stays_out_of_the_base(void **state)
{
    (void)state;
    attempt(100, 10, START_NS);
    reading(0, 0);
    reading(100, 10); /* late, but it came */
    assert_int_equal(seen().drift_age_ms, -1);
    attempt(1, 1, START_NS);
    reading(100, 10); /* as before, but not of the same moment */
    assert_int_equal(seen().drift_age_ms, -1);
    reading(101, 11);
    assert_int_equal(seen().drift_age_ms, -1);
    reading(101, 11);
    attempt(5, 5, START_NS);
    reading(106, 16);
    assert_drift(0, 0);
}

static void a_new_start_begins_the_comparison_anew(void **state)
{
    (void)state;
    reading(1000, 500);
    reading(1000, 500);
    reading(1005, 500);
    assert_drift(5, 0);
    attempt(10, 3, START_NS);
    reading(20, 3);
    assert_int_equal(seen().engine_restarts, 1);
    assert_int_equal(seen().engine_prompt_tokens, -1);
    reading(20, 3);
    assert_drift(0, 0);
    assert_int_equal(seen().engine_restarts, 1);
    attempt(10, 3, START_NS);
    reading(30, 6);
    assert_drift(0, 0);
}

static void an_engine_that_says_nothing_is_not_compared(void **state)
{
    (void)state;
    reading(-1, 5);
    reading(-1, 5);
    reading(5, -1);
    assert_int_equal(seen().drift_age_ms, -1);
    assert_int_equal(seen().engine_generation_tokens, -1);
}

static void accounts_outlive_snapshots_by_name(void **state)
{
    (void)state;
    struct config_replica replicas[] = {{.name = SPAN("s2")}, {.name = SPAN("s1")}};
    struct config_model after = {.name = SPAN("small"), .replicas = replicas, .replica_count = 2};
    struct config new = {.models = &after, .model_count = 1};

    assert_int_equal(accounts_adopt(&new), OK);
    assert_ptr_equal(replicas[1].account, replica.account);
    assert_ptr_not_equal(replicas[0].account, replica.account);
    after.name = SPAN("large");
    assert_int_equal(accounts_adopt(&new), OK);
    assert_ptr_not_equal(replicas[1].account, replica.account);
}

int main(void)
{
#define ACCOUNT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ACCOUNT_TEST(tokens_an_hour_are_those_that_had_to_be_computed),
        ACCOUNT_TEST(an_unknown_usage_computes_nothing),
        ACCOUNT_TEST(a_tokens_cost_is_exact),
        ACCOUNT_TEST(a_replica_without_a_price_has_no_unit_cost),
        ACCOUNT_TEST(drift_is_what_the_engine_counts_beyond_ours),
        ACCOUNT_TEST(what_is_under_way_is_not_compared),
        ACCOUNT_TEST(what_is_counted_late_stays_out_of_the_base),
        ACCOUNT_TEST(a_new_start_begins_the_comparison_anew),
        ACCOUNT_TEST(an_engine_that_says_nothing_is_not_compared),
        ACCOUNT_TEST(accounts_outlive_snapshots_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
