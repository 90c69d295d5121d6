/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_access.c: one line a request.
 *
 * Promises:  1. A line is one JSON object, with what is known and nothing else.
 *            2. Texts of clients cannot break it, however long or odd they are.
 *            3. Requests of nobody known have at most ten lines a second.
 *            4. Times are UTC, right in leap years too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "config/base/log.h"
#include "gateway/access.h"

static char path[] = "/tmp/test_access_XXXXXX";
static long read_at; /* of the log: behind the lines read so far */

static struct worker worker;
static struct exchange x;
static const struct config_tenant tenant = {.name = {"acme", 4}};
static const struct config_key key = {.id = {"web", 3}, .tenant = &tenant};
static const struct config_model model = {.name = {"small", 5}};
static const struct config_replica replica = {.name = {"s1", 2}};
static const struct config_class class = {.name = {"code", 4}};

static int open_log(void **state)
{
    const int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    assert_true(log_open(path, LOG_ERROR));
    return 0;
}

static int close_log(void **state)
{
    (void)state;
    assert_true(log_open("none", LOG_ERROR));
    return unlink(path);
}

/* A finished chat on small/s1. */
static int set_up(void **state)
{
    (void)state;
    memset(&x, 0, sizeof x);
    x.worker = &worker;
    worker.wall_us += 5000000; /* never the same second twice */
    if (worker.wall_us < 1796054127678901)
        worker.wall_us = 1796054127678901;
    memcpy(x.exchange_id, "0123456789abcdef0123456789abcdef", 33);
    x.request_id = SPAN("r-1");
    x.method = SPAN("POST");
    x.path = SPAN("/v1/chat/completions");
    x.http2 = true;
    x.endpoint = ENDPOINT_CHAT;
    x.key = &key;
    x.class = &class;
    x.model = &model;
    x.replica = &replica;
    x.attempts = 1;
    x.answer.status = 200;
    x.answer.sent = true;
    x.delivered = (struct usage){
        .input = 12, .cached_input = 0, .cache_write = -1, .output = 34, .reasoning = -1};
    x.delivered_source = SOURCE_REPORTED;
    x.opened_ns = 1000000000;
    x.first_token_ns = 1123456789;
    x.ended_ns = 2000500000;
    x.queue_ns = 1500000;
    x.bytes_in = 61;
    x.bytes_out = 533;
    return 0;
}

/* The new lines of the log; *out_count of them. */
static const char *lines(int *out_count)
{
    static char text[65536];
    FILE *log = fopen(path, "r");

    log_flush();
    assert_non_null(log);
    assert_int_equal(fseek(log, read_at, SEEK_SET), 0);
    const size_t size = fread(text, 1, sizeof text - 1, log);
    (void)fclose(log);
    read_at += (long)size;
    text[size] = '\0';
    *out_count = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        ++*out_count;
    return text;
}

static json_t *one_line(void)
{
    int count;
    json_t *tree = json_loads(lines(&count), JSON_REJECT_DUPLICATES, NULL);

    assert_int_equal(count, 1);
    assert_non_null(tree);
    return tree;
}

static void access_line_says_what_was_asked_and_how_it_ended(void **state)
{
    (void)state;
    access_line(&x, 7400000);

    int count;
    assert_string_equal(
        lines(&count),
        "{\"time\":\"2026-11-30T15:55:27.678Z\",\"level\":\"info\",\"event\":\"access\","
        "\"exchange_id\":\"0123456789abcdef0123456789abcdef\",\"request_id\":\"r-1\","
        "\"tenant\":\"acme\",\"key\":\"web\",\"method\":\"POST\",\"path\":\"/v1/chat/completions\","
        "\"protocol\":\"h2\",\"endpoint\":\"chat\",\"class\":\"code\",\"model\":\"small\","
        "\"replica\":\"s1\",\"attempts\":1,\"status\":200,\"outcome\":\"ok\",\"input_tokens\":12,"
        "\"cached_input_tokens\":0,\"output_tokens\":34,\"source\":\"reported\","
        "\"cost_usd\":\"0.0000074\",\"queue_ms\":1.500,\"ttft_ms\":123.456,\"duration_ms\":1000."
        "500,"
        "\"bytes_in\":61,\"bytes_out\":533}\n");
}

static void access_line_names_the_step_that_failed(void **state)
{
    (void)state;
    x.cause = ERR_FIRST_BYTE_TIMEOUT;
    x.stopped = STEP_send;
    x.outcome = OUTCOME_TIMEOUT;
    x.answer.status = 504;
    access_line(&x, 0);

    json_t *tree = one_line();
    assert_string_equal(json_string_value(json_object_get(tree, "cause")), "first_byte_timeout");
    assert_string_equal(json_string_value(json_object_get(tree, "step")), "send");
    assert_string_equal(json_string_value(json_object_get(tree, "level")), "error");
    json_decref(tree);
}

static void access_line_of_a_client_that_left_says_499(void **state)
{
    (void)state;
    x.client_gone = true;
    x.answer.sent = false;
    x.stopped = STEP_queue;
    x.outcome = OUTCOME_CLIENT_GONE;
    access_line(&x, 0);

    json_t *tree = one_line();
    assert_int_equal(json_integer_value(json_object_get(tree, "status")), 499);
    assert_string_equal(json_string_value(json_object_get(tree, "step")), "queue");
    json_decref(tree);
}

static void access_line_of_a_head_that_was_never_whole_is_sound(void **state)
{
    struct exchange empty = {.worker = &worker, .client_gone = true, .key = &key};

    (void)state;
    access_line(&empty, 0);

    json_decref(one_line());
}

static void access_line_survives_any_text(void **state)
{
    static char odd[100000];

    (void)state;
    for (size_t i = 0; i < sizeof odd; i++)
        odd[i] = (char)(i * 7 % 256);
    const struct config_tenant long_tenant = {.name = {odd, sizeof odd}};
    const struct config_key long_key = {.id = {odd, sizeof odd}, .tenant = &long_tenant};
    const struct config_model long_model = {.name = {odd, sizeof odd}};
    x.key = &long_key;
    x.model = &long_model;
    x.path = (struct span){odd, sizeof odd};
    x.method = (struct span){"\"}\n{", 4};
    access_line(&x, INT64_MAX);

    int count;
    const char *text = lines(&count);
    assert_int_equal(count, 1);
    assert_int_equal(text[strlen(text) - 1], '\n');
    json_t *tree = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(tree);
    json_decref(tree);
}

static void access_line_of_strangers_comes_ten_times_a_second(void **state)
{
    int count;

    (void)state;
    x.key = NULL;
    for (int i = 0; i < 100; i++)
        access_line(&x, 0);
    (void)lines(&count);
    assert_int_equal(count, 10);

    worker.wall_us += 1000000;
    access_line(&x, 0);
    (void)lines(&count);
    assert_int_equal(count, 1);
}

static void access_line_knows_the_calendar(void **state)
{
    static const struct {
        int64_t second;
        const char *time;
    } moments[] = {
        {1835395200, "2028-02-29T00:00:00.000Z"}, {1861919999, "2028-12-31T23:59:59.000Z"},
        {1861920000, "2029-01-01T00:00:00.000Z"}, {4107542399, "2100-02-28T23:59:59.000Z"},
        {4107542400, "2100-03-01T00:00:00.000Z"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        worker.wall_us = moments[i].second * 1000000;
        access_line(&x, 0);
        json_t *tree = one_line();
        assert_string_equal(json_string_value(json_object_get(tree, "time")), moments[i].time);
        json_decref(tree);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(access_line_says_what_was_asked_and_how_it_ended),
        TEST(access_line_names_the_step_that_failed),
        TEST(access_line_of_a_client_that_left_says_499),
        TEST(access_line_of_a_head_that_was_never_whole_is_sound),
        TEST(access_line_survives_any_text),
        TEST(access_line_of_strangers_comes_ten_times_a_second),
        TEST(access_line_knows_the_calendar),
    };

    return cmocka_run_group_tests_name("access", tests, open_log, close_log);
}
