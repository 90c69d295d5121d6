/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_reply.c: answers of our own.
 *
 * Promises:  1. An error has the API's shape, its row's status, and the fields that its status
 *               asks for.
 *            2. Texts are escaped; what cannot stand in a field is left out.
 *            3. A key sees the models that its tenant may use, and no other.
 *            4. Browsers of the configured origins, and only they, may read answers.
 *            5. Every answer says which request it belongs to and, once a route was chosen, why it
 * went there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gateway/reply.h"

static const char configuration[] =
    "listen: [{address: \"127.0.0.1:0\"}]\n"
    "cors: {origins: [\"https://app.example\"]}\n"
    "models:\n"
    "  small:\n"
    "    kind: vllm\n"
    "    price: [{from: 2026-01-01, input: \"0.05\", output: \"0.20\"}]\n"
    "    aliases: [gpt-4o-mini]\n"
    "    replicas: [{name: s1, url: \"http://127.0.0.1:8001\", slots: 4}]\n"
    "  org/large:\n"
    "    kind: vllm\n"
    "    price: [{from: 2026-01-02, input: \"0.60\", output: \"2.40\"}]\n"
    "    replicas: [{name: l1, url: \"http://127.0.0.1:8002\", slots: 4}]\n"
    "  secret:\n"
    "    kind: vllm\n"
    "    price: [{from: 2026-01-01, input: \"0.60\", output: \"2.40\"}]\n"
    "    replicas: [{name: x1, url: \"http://127.0.0.1:8003\", slots: 4}]\n"
    "tenants:\n"
    "  acme: {keys: [{id: web, key: a-key-of-the-tests-1}], models: [small, org/large]}\n";

static struct config *config;
static struct worker worker;
static struct exchange x;
static int rung; /* how often the protocol was told */

static void ring(struct rider *rider)
{
    (void)rider;
    assert_true(x.answer.ready);
    rung++;
}

static int load(void **state)
{
    struct config_problems problems = {NULL, 0, 0};

    (void)state;
    if (config_load_text("test", span_of(configuration), &config, &problems) != OK)
        fail_msg("%s", problems.text);
    config_problems_free(&problems);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    config_put(config);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    memset(&x, 0, sizeof x);
    memset(&worker, 0, sizeof worker);
    rung = 0;
    worker.now_ns = 5000000000;
    x.worker = &worker;
    x.config = config;
    x.key = &config->tenants[0].keys[0];
    x.method = SPAN("POST");
    x.opened_ns = 4000000000;
    x.rider.fed = ring;
    memcpy(x.exchange_id, "0123456789abcdef0123456789abcdef", 33);
    arena_init(&x.arena, NULL, 0, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rider_fini(&x.rider);
    arena_fini(&x.arena);
    return 0;
}

/* The answer's body as text, "" when it has none. */
static const char *body(void)
{
    static char text[4096];
    const struct chunk *chunk = x.rider.cursor;

    assert_true(x.answer.ready && x.rider.ended && !x.rider.broken);
    assert_true(rung > 0);
    text[0] = '\0';
    if (chunk) {
        assert_null(chunk->next);
        assert_true(chunk->ours);
        assert_int_equal(chunk->size, x.answer.length);
        (void)snprintf(text, sizeof text, "%.*s", (int)chunk->size, chunk_data(x.rider.cursor));
    }
    return text;
}

/* A field's value, NULL when it is absent; never twice. */
static const char *field(const char *name)
{
    static char text[512];
    const char *found = NULL;

    for (uint32_t i = 0; i < x.answer.field_count; i++)
        if (span_equal(x.answer.fields[i].name, span_of(name))) {
            assert_null(found);
            (void)snprintf(text, sizeof text, "%.*s", (int)x.answer.fields[i].value.size,
                           x.answer.fields[i].value.data);
            found = text;
        }
    return found;
}

/* ---- promises 1 and 2 ---- */

static void reply_error_has_the_shape_of_the_api(void **state)
{
    (void)state;
    reply_error(&x, ERR_NO_MODEL, NULL, "model");

    assert_int_equal(x.answer.status, 404);
    assert_int_equal(x.answer.framing, ANSWER_LENGTH);
    assert_string_equal(field("content-type"), "application/json");
    assert_string_equal(
        body(), "{\"error\":{\"message\":\"this model does not exist here, or is not open to this "
                "key; GET /v1/models lists those that are\",\"type\":\"invalid_request_error\","
                "\"param\":\"model\",\"code\":\"model_not_found\"}}");
    assert_int_equal(x.cause, ERR_NO_MODEL);
}

static void reply_error_escapes_what_it_is_told(void **state)
{
    (void)state;
    reply_error(&x, ERR_BAD_JSON, "expected \"}\"\n\x01", NULL);

    assert_non_null(strstr(body(), "\"message\":\"expected \\\"}\\\"\\n\\u0001\""));
    assert_non_null(strstr(body(), "\"param\":null"));
}

static void reply_error_keeps_the_first_cause(void **state)
{
    (void)state;
    x.cause = ERR_REPLICA_GONE;
    reply_error(&x, ERR_NO_REPLICA, NULL, NULL);

    assert_int_equal(x.cause, ERR_REPLICA_GONE);
    assert_int_equal(x.answer.status, 503);
}

static void reply_error_says_what_its_status_asks_for(void **state)
{
    (void)state;
    reply_error(&x, ERR_OVERLOADED, NULL, NULL);
    assert_string_equal(field("retry-after"), "1");
    assert_string_equal(field("retry-after-ms"), "1000");
    assert_null(field("x-should-retry"));

    reply_error(&x, ERR_WHOLE_TIMEOUT, NULL, NULL);
    assert_null(field("retry-after"));
    assert_string_equal(field("x-should-retry"), "false");

    reply_error(&x, ERR_BAD_KEY, NULL, NULL);
    assert_string_equal(field("www-authenticate"), "Bearer");

    x.endpoint = ENDPOINT_CHAT;
    reply_error(&x, ERR_NO_METHOD, NULL, NULL);
    assert_string_equal(field("allow"), "POST, OPTIONS");
    reply_method_error(&x, SPAN("GET"));
    assert_string_equal(field("allow"), "GET");
}

static void reply_to_head_has_no_body(void **state)
{
    (void)state;
    x.method = SPAN("HEAD");
    reply_body(&x, 200, SPAN("text/plain"), SPAN("text"));

    assert_int_equal(x.answer.framing, ANSWER_NO_BODY);
    assert_string_equal(body(), "");
}

static void reply_error_event_is_an_event_of_ours(void **state)
{
    (void)state;
    struct chunk *chunk = reply_error_event(&x, ERR_REPLICA_GONE, 0);

    assert_non_null(chunk);
    const struct span text = {chunk_data(chunk), chunk->size};
    assert_true(span_starts(text, SPAN("data: {\"error\":{\"message\":\"")));
    assert_true(span_equal(span_from(text, text.size - 4), SPAN("}}\n\n")));
    assert_true(chunk->ours);
    chunk_put(chunk);
}

static void reply_drops_fields_past_the_most(void **state)
{
    (void)state;
    for (int i = 0; i < ANSWER_FIELDS_MAX + 5; i++)
        reply_field(&x, SPAN("x-many"), SPAN("value"));

    assert_int_equal(x.answer.field_count, ANSWER_FIELDS_MAX);
}

/* ---- promise 3 ---- */

static void reply_models_lists_what_the_tenant_may_use(void **state)
{
    (void)state;
    reply_models(&x);

    assert_string_equal(
        body(),
        "{\"object\":\"list\",\"data\":["
        "{\"id\":\"small\",\"object\":\"model\",\"created\":1767225600,\"owned_by\":\"tollgate\"},"
        "{\"id\":\"gpt-4o-mini\",\"object\":\"model\",\"created\":1767225600,\"owned_by\":"
        "\"tollgate\"},"
        "{\"id\":\"org/"
        "large\",\"object\":\"model\",\"created\":1767312000,\"owned_by\":\"tollgate\"}]}");
}

static void reply_models_finds_one_by_name_alias_or_encoded_path(void **state)
{
    static const char *const paths[][2] = {
        {"small", "small"},         {"gpt-4o-mini", "gpt-4o-mini"}, {"org%2Flarge", "org/large"},
        {"org/large", "org/large"}, {"%73mall", "small"},
    };
    char wanted[64];

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        x.path_rest = span_of(paths[i][0]);
        reply_models(&x);
        (void)snprintf(wanted, sizeof wanted, "{\"id\":\"%s\",\"object\":\"model\",", paths[i][1]);
        assert_memory_equal(body(), wanted, strlen(wanted));
        assert_int_equal(x.answer.status, 200);
    }
}

static void reply_models_knows_no_model_of_others(void **state)
{
    static const char *const paths[] = {"secret", "none", "%zz", "small%", "%"};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        x.path_rest = span_of(paths[i]);
        reply_models(&x);
        assert_int_equal(x.answer.status, 404);
    }
}

/* ---- promise 4 ---- */

static void reply_opens_answers_to_configured_origins(void **state)
{
    (void)state;
    x.origin = SPAN("https://app.example");
    reply_error(&x, ERR_NO_KEY, NULL, NULL);

    assert_string_equal(field("access-control-allow-origin"), "https://app.example");
    assert_non_null(strstr(field("access-control-expose-headers"), "x-request-id"));
    assert_string_equal(field("vary"), "origin");
}

static void reply_opens_nothing_to_other_origins(void **state)
{
    (void)state;
    x.origin = SPAN("https://app.example.evil");
    reply_preflight(&x);

    assert_int_equal(x.answer.status, 204);
    assert_null(field("access-control-allow-origin"));
    assert_null(field("access-control-allow-methods"));
    assert_string_equal(field("vary"), "origin");
}

static void reply_preflight_allows_what_is_wanted(void **state)
{
    (void)state;
    x.method = SPAN("OPTIONS");
    x.origin = SPAN("https://app.example");
    x.request_headers_wanted = SPAN("authorization,x-stainless-lang");
    reply_preflight(&x);

    assert_int_equal(x.answer.framing, ANSWER_NO_BODY);
    assert_string_equal(field("access-control-allow-methods"), "GET, POST, OPTIONS");
    assert_string_equal(field("access-control-allow-headers"), "authorization,x-stainless-lang");
    assert_string_equal(field("access-control-max-age"), "600");
}

static void reply_preflight_echoes_names_only(void **state)
{
    (void)state;
    x.origin = SPAN("https://app.example");
    x.request_headers_wanted = SPAN("authorization; \"x\"");
    reply_preflight(&x);

    assert_memory_equal(field("access-control-allow-headers"), "authorization, content-type", 27);
}

/* ---- promise 5 ---- */

static void reply_echoes_a_sound_request_id_and_makes_one_otherwise(void **state)
{
    static char long_id[130];

    (void)state;
    memset(long_id, 'a', 129);
    const struct span sound[] = {SPAN("a"), SPAN("Req_1.2-3"), {long_id, 128}};
    const struct span odd[] = {{NULL, 0}, SPAN(""), SPAN("a b"), SPAN("a\"b"), {long_id, 129}};
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        x.request_id = sound[i];
        assert_true(span_equal(reply_request_id(&x), sound[i]));
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        x.request_id = odd[i];
        reply_error(&x, ERR_NO_PATH, NULL, NULL);
        assert_string_equal(field("x-request-id"), "0123456789abcdef0123456789abcdef");
    }
}

static void route_to_small(void)
{
    x.candidates[0] = &config->models[0];
    x.candidates[1] = &config->models[1];
    x.candidate_count = 2;
    x.model = &config->models[0];
    x.replica = &config->models[0].replicas[0];
    x.ask.model = SPAN("small");
}

static void reply_says_where_it_went_and_what_that_took(void **state)
{
    (void)state;
    route_to_small();
    x.sent_ns = x.opened_ns + 12345678;
    x.queue_ns = 2000000;
    reply_common_fields(&x);

    assert_string_equal(field("x-tollgate-model"), "small");
    assert_string_equal(field("x-tollgate-replica"), "s1");
    assert_null(field("x-tollgate-class"));
    assert_string_equal(field("x-tollgate-why"), "model asked");
    assert_string_equal(field("x-tollgate-overhead-ms"), "10.345");
}

static void reply_writes_small_overheads_with_all_decimals(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "0.000"},      {7999, "0.007"},    {42000, "0.042"},
                 {999999, "0.999"}, {1000000, "1.000"}, {123456789000, "123456.789"}};

    (void)state;
    route_to_small();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply_begin(&x, 200);
        x.sent_ns = x.opened_ns + cases[i].ns;
        reply_common_fields(&x);
        assert_string_equal(field("x-tollgate-overhead-ms"), cases[i].text);
    }
}

static void reply_says_why(void **state)
{
    struct config_class class = {.name = SPAN("summarise"), .model = &config->models[0]};

    (void)state;
    route_to_small();
    x.class = &class;
    x.class_why = "header";
    assert_true(span_equal(reply_why(&x), SPAN("class header")));
    x.retried = true;
    assert_true(span_equal(reply_why(&x), SPAN("class header; retry")));
    x.candidate = 1;
    assert_true(span_equal(reply_why(&x), SPAN("fallback of small")));
    x.candidate = 0;
    x.retried = false;
    class.model = NULL;
    x.ask.model = SPAN("auto");
    assert_true(span_equal(reply_why(&x), SPAN("cheapest allowed")));
}

static void reply_leaves_out_a_name_that_no_field_can_hold(void **state)
{
    struct config_class class = {.name = SPAN("a\r\nset-cookie: b")};

    (void)state;
    route_to_small();
    x.class = &class;
    reply_common_fields(&x);

    assert_null(field("x-tollgate-class"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reply_error_has_the_shape_of_the_api),
        TEST(reply_error_escapes_what_it_is_told),
        TEST(reply_error_keeps_the_first_cause),
        TEST(reply_error_says_what_its_status_asks_for),
        TEST(reply_to_head_has_no_body),
        TEST(reply_error_event_is_an_event_of_ours),
        TEST(reply_drops_fields_past_the_most),
        TEST(reply_models_lists_what_the_tenant_may_use),
        TEST(reply_models_finds_one_by_name_alias_or_encoded_path),
        TEST(reply_models_knows_no_model_of_others),
        TEST(reply_opens_answers_to_configured_origins),
        TEST(reply_opens_nothing_to_other_origins),
        TEST(reply_preflight_allows_what_is_wanted),
        TEST(reply_preflight_echoes_names_only),
        TEST(reply_echoes_a_sound_request_id_and_makes_one_otherwise),
        TEST(reply_says_where_it_went_and_what_that_took),
        TEST(reply_writes_small_overheads_with_all_decimals),
        TEST(reply_says_why),
        TEST(reply_leaves_out_a_name_that_no_field_can_hold),
    };

    return cmocka_run_group_tests_name("reply", tests, load, unload);
}
