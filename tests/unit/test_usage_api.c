/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_usage_api.c: questions to the ledger and their exchanges (gateway/usage_api.c).
 *
 * Promises:  1. An answer wakes its exchange, which answers it and lets the question go.
 *            2. An exchange may go before its answer comes, or before it has taken it: nothing is
 * left over and nothing is touched that has gone (the sanitizers look).
 *            3. After ten seconds the exchange answers 504; what then comes is dropped.
 *            4. What the ledger refuses is an error without its details for a tenant, with them for
 * the operator.
 *            5. What cannot be asked is answered at once.
 * Server, exchange, replies, meter and books are doubles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "gateway/reply.h"
#include "gateway/usage_api.h"
#include "meter/books.h"

/* ---- the doubles ---- */

static struct {
    struct meter_query *query; /* that waits for the keeper */
    enum err query_err;
    int wakes, status;
    enum err err;
    char body[4096], message[256], param[64];
    uint64_t deadline_ns;
} seen;

enum err meter_query(struct meter *meter, struct meter_query *query)
{
    (void)meter;
    if (seen.query_err == OK)
        seen.query = query;
    return seen.query_err;
}

void exchange_wake(struct exchange *x)
{
    (void)x;
    seen.wakes++;
}

void deadline_set(struct worker *worker, struct deadline *deadline, uint64_t at_ns)
{
    (void)worker, (void)deadline;
    seen.deadline_ns = at_ns;
}

void reply_body(struct exchange *x, int status, struct span content_type, struct span body)
{
    (void)x;
    assert_true(span_equal(content_type, SPAN("application/json")));
    seen.status = status;
    (void)snprintf(seen.body, sizeof(seen.body), "%.*s", (int)body.size, body.data);
}

void reply_error(struct exchange *x, enum err err, const char *message, const char *param)
{
    (void)x;
    seen.status = err_row(err)->status;
    seen.err = err;
    (void)snprintf(seen.message, sizeof(seen.message), "%s", message ? message : "");
    (void)snprintf(seen.param, sizeof(seen.param), "%s", param ? param : "");
}

enum err books_usage(struct books *books, const struct books_ask *ask,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner,
                     char *problem, size_t problem_size)
{
    const struct books_line line = {.bucket_us = ask->period.from_us,
                                    .by = {SPAN("chat"), SPAN("chat")},
                                    .billed_calls = 2,
                                    .usage = {.input = 3, .output = 4},
                                    .cost_pusd = 60000000000};

    (void)books, (void)problem, (void)problem_size;
    (void)visit(owner, &line);
    return OK;
}

enum err books_waste(struct books *books, const struct period *period,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner,
                     char *problem, size_t problem_size)
{
    (void)books, (void)period, (void)visit, (void)owner, (void)problem, (void)problem_size;
    return OK;
}

/* ---- an exchange ---- */

static struct config_tenant tenant = {.name = {"acme", 4}};
static struct config_key key = {.tenant = &tenant};
static struct config config = {.timeouts_whole_ms = 60000};
static struct server server;
static struct worker worker;

static struct exchange *new_exchange(const char *target)
{
    struct exchange *x = calloc(1, sizeof(*x)); /* so that a sanitizer sees it go */

    assert_non_null(x);
    memset(&seen, 0, sizeof(seen));
    arena_init(&x->arena, NULL, 0, 1 << 20);
    x->worker = &worker;
    x->config = &config;
    x->key = &key;
    x->endpoint = ENDPOINT_COSTS;
    x->target = x->path = span_of(target);
    x->path.size = strcspn(target, "?");
    x->opened_us = INT64_C(1764590400000000);
    x->opened_ns = worker.now_ns = 5 * NS_PER_S;
    return x;
}

static void free_exchange(struct exchange *x)
{
    usage_api_forget(x);
    arena_fini(&x->arena);
    free(x);
}

static struct exchange *ask(void)
{
    struct exchange *x =
        new_exchange("/v1/organization/costs?start_time=1764547200&end_time=1764547260");

    usage_api_ask(x);
    assert_non_null(x->question);
    assert_non_null(seen.query);
    assert_int_equal(usage_api_wait(x), WAIT);
    assert_true(seen.deadline_ns == worker.now_ns + 10 * NS_PER_S);
    return x;
}

/* The keeper answers, and the worker reads its mail. */
static void answer(void)
{
    seen.query->run(seen.query, NULL);
    mailbox_read(&worker.mailbox);
}

static void an_answer_wakes_its_exchange(void **state)
{
    (void)state;
    struct exchange *x = ask();

    answer();
    assert_int_equal(seen.wakes, 1);
    assert_int_equal(usage_api_wait(x), ANSWER);
    assert_null(x->question);
    assert_int_equal(seen.status, 200);
    assert_string_equal(
        seen.body,
        "{\"object\":\"page\",\"data\":[{\"object\":\"bucket\",\"start_time\":1764547200,"
        "\"end_time\":1764547260,\"results\":[{\"object\":\"organization.costs.result\","
        "\"amount\":{\"value\":0.06,\"currency\":\"usd\"},\"line_item\":null,"
        "\"project_id\":null,\"api_key_id\":null}]}],\"has_more\":false,"
        "\"next_page\":null}");
    assert_true(seen.deadline_ns == x->opened_ns + 60 * NS_PER_S);
    free_exchange(x);
}

static void an_exchange_may_go_at_any_moment(void **state)
{
    (void)state;
    struct exchange *x = ask();

    free_exchange(x); /* before the keeper has answered */
    answer();
    assert_int_equal(seen.wakes, 0);

    x = ask();
    seen.query->run(seen.query, NULL);
    free_exchange(x); /* before the letter is read */
    mailbox_read(&worker.mailbox);
    assert_int_equal(seen.wakes, 0);

    x = ask();
    answer();
    free_exchange(x); /* before the answer is taken */
    assert_int_equal(seen.status, 0);
}

static void after_ten_seconds_nobody_waits(void **state)
{
    (void)state;
    struct exchange *x = ask();

    worker.now_ns += 10 * NS_PER_S - 1;
    assert_int_equal(usage_api_wait(x), WAIT);
    worker.now_ns += 1;
    assert_int_equal(usage_api_wait(x), ANSWER);
    assert_int_equal(seen.status, 504);
    assert_null(x->question);
    free_exchange(x);
    answer();
    assert_int_equal(seen.wakes, 0);
}

static void details_of_the_ledger_are_the_operators_alone(void **state)
{
    (void)state;
    struct exchange *x = ask();

    seen.query->refused(seen.query, "/secret/ledger.db is broken");
    mailbox_read(&worker.mailbox);
    assert_int_equal(usage_api_wait(x), ANSWER);
    assert_int_equal(seen.status, 500);
    assert_null(strstr(seen.message, "secret"));
    free_exchange(x);

    x = new_exchange("/usage?by=model");
    usage_api_ask_all(x);
    seen.query->refused(seen.query, "/secret/ledger.db is broken");
    mailbox_read(&worker.mailbox);
    assert_int_equal(usage_api_wait(x), ANSWER);
    assert_int_equal(seen.status, 500);
    assert_non_null(strstr(seen.message, "secret"));
    free_exchange(x);
}

static void what_cannot_be_asked_is_answered_at_once(void **state)
{
    (void)state;
    struct exchange *x = new_exchange("/v1/organization/costs?start_time=x");

    usage_api_ask(x);
    assert_null(x->question);
    assert_int_equal(seen.status, 400);
    assert_string_equal(seen.param, "start_time");
    free_exchange(x);
    const struct {
        enum err err;
        int status;
    } cases[] = {{ERR_NO_LEDGER, 404}, {ERR_OVERLOADED, 503}};

    for (size_t i = 0; i < 2; i++) {
        x = new_exchange("/v1/organization/costs?start_time=1");
        seen.query_err = cases[i].err;
        usage_api_ask(x);
        assert_null(x->question);
        assert_int_equal(seen.status, cases[i].status);
        free_exchange(x);
    }
    x = new_exchange("/usage?by=nothing");
    usage_api_ask_all(x);
    assert_null(x->question);
    assert_string_equal(seen.param, "by");
    free_exchange(x);
}

static int set_up(void **state)
{
    (void)state;
    worker.server = &server;
    return mailbox_init(&worker.mailbox) == OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    mailbox_fini(&worker.mailbox);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_wakes_its_exchange),
        cmocka_unit_test(an_exchange_may_go_at_any_moment),
        cmocka_unit_test(after_ten_seconds_nobody_waits),
        cmocka_unit_test(details_of_the_ledger_are_the_operators_alone),
        cmocka_unit_test(what_cannot_be_asked_is_answered_at_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
