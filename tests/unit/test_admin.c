/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_admin.c: what an operator asks of one process.
 *
 * Promises:  1. Health needs no token and says what is missing.
 *            2. Everything else needs the token when there is one.
 *            3. Metrics are Prometheus text, one family after the other.
 *            4. Replicas are shown and drained by name, also by names with slashes.
 *            5. Configuration is shown without secrets; a reload says what became of it.
 *            6. Usage is asked for by /usage.
 *
 * The router's, meter's and server's answers are fakes of this file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gateway/admin.h"
#include "gateway/reply.h"
#include "gateway/usage_api.h"

static const char configuration[] =
    "listen: [{address: \"127.0.0.1:0\"}]\n"
    "admin: {address: \"127.0.0.1:0\", token: token-of-the-operator}\n"
    "models:\n"
    "  org/small:\n"
    "    kind: vllm\n"
    "    price: [{from: 2026-01-01, input: \"0.05\", output: \"0.20\"}]\n"
    "    replicas:\n"
    "      - {name: s1, url: \"http://127.0.0.1:8001\", slots: 4, key: key-of-the-replica}\n"
    "      - {name: s2, url: \"http://127.0.0.1:8002\", slots: 4}\n"
    "tenants:\n"
    "  acme: {keys: [{id: web, key: a-key-of-the-tests-1}]}\n";

static struct config *config;
static struct server server;
static struct worker worker;
static struct exchange x;

/* ---- the other rooms, as this test wants them ---- */

static bool some_replica_takes_work, journal_writable, reload_works;
static const struct config_replica *drained;
static int drains;

bool router_ready(const struct config *of)
{
    (void)of;
    return some_replica_takes_work;
}

void router_view(const struct config_replica *replica, struct router_replica_view *out_view)
{
    *out_view = (struct router_replica_view){.health = REPLICA_IN,
                                             .slots = replica->slots,
                                             .busy = 1,
                                             .work = 120,
                                             .attempts = 7,
                                             .failures = 2,
                                             .strikes = 1,
                                             .drained = replica == drained,
                                             .load = LOAD_UNKNOWN};
    if (span_equal(replica->name, SPAN("s2"))) { /* the other has not been asked yet */
        out_view->load.values[LOAD_RUNNING] = 2;
        out_view->load.values[LOAD_PREFIX_HITS] = 256;
        out_view->load_ns = 1;
    }
}

const char *router_health_name(enum replica_health health)
{
    assert_int_equal(health, REPLICA_IN);
    return "in";
}

uint32_t router_waiting(const struct config_model *model)
{
    (void)model;
    return 3;
}

void router_set_drained(struct replica_state *replica, bool drain, uint64_t now_ns)
{
    (void)replica, (void)now_ns;
    drains++;
    drained = drain ? &config->models[0].replicas[1] : NULL;
}

bool meter_ready(const struct meter *meter)
{
    (void)meter;
    return journal_writable;
}

void meter_view(const struct meter *meter, struct meter_view *out_view)
{
    (void)meter;
    *out_view = (struct meter_view){.slots = 16,
                                    .open = 5,
                                    .ended_waiting = 2,
                                    .full = true,
                                    .recovered = 3,
                                    .synced = 70,
                                    .anchor_age_ms = 1200,
                                    .ledger_behind_rows = -1};
}

void meter_replica_view(const struct config_replica *replica, const struct config *of,
                        uint64_t now_ns, struct meter_replica_view *out_view)
{
    const bool read = span_equal(replica->name, SPAN("s2"));

    (void)now_ns;
    assert_ptr_equal(of, config);
    *out_view = (struct meter_replica_view){.prompt_tokens = 900,
                                            .generation_tokens = 80,
                                            .engine_prompt_tokens = read ? 890 : -1,
                                            .engine_generation_tokens = read ? 81 : -1,
                                            .drift_prompt_tokens = read ? -10 : 0,
                                            .drift_generation_tokens = read,
                                            .drift_age_ms = read ? 250 : -1,
                                            .engine_restarts = read,
                                            .tokens_per_hour = read ? 3600 : -1,
                                            .unit_cost_pusd = read ? 555000 : -1};
}

void meter_estimate_error(const struct estimate_state *estimate, int64_t *out_prompt_permille,
                          int64_t *out_answer_permille)
{
    (void)estimate;
    *out_prompt_permille = 31;
    *out_answer_permille = -1;
}

enum err server_reload(struct server *of, struct config_problems *out_problems)
{
    (void)of;
    if (reload_works)
        return OK;
    out_problems->text = strdup("tollgate.yaml:3: models: expected a map\n");
    out_problems->size = strlen(out_problems->text);
    out_problems->count = 1;
    return ERR_BAD_VALUE;
}

void mailbox_read(struct mailbox *mailbox)
{
    assert_ptr_equal(mailbox, &worker.mailbox);
}

static int usage_asked;

void usage_api_ask_all(struct exchange *of)
{
    usage_asked++;
    reply_body(of, 200, SPAN("application/json"), SPAN("{}"));
}

/* ---- asking ---- */

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
    memset(&server, 0, sizeof server);
    some_replica_takes_work = journal_writable = reload_works = true;
    drained = NULL;
    drains = 0;
    server.worker_count = 2;
    worker.server = &server;
    worker.config = config;
    worker.now_ns = 5000000000;
    x.worker = &worker;
    x.config = config;
    x.admin = true;
    x.authorization = SPAN("Bearer token-of-the-operator");
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

/* Asks, and gives the body's text. */
static const char *ask(const char *method, const char *path)
{
    static char text[65536];

    x.method = span_of(method);
    x.path = x.target = span_of(path);
    x.answer.ready = false;
    admin_answer(&x);
    assert_true(x.answer.ready && x.rider.ended);
    text[0] = '\0';
    if (x.rider.cursor)
        (void)snprintf(text, sizeof text, "%.*s", (int)x.rider.cursor->size,
                       chunk_data(x.rider.cursor));
    return text;
}

/* ---- promise 1 ---- */

static void admin_lives_without_a_token(void **state)
{
    (void)state;
    x.authorization = (struct span){NULL, 0};
    assert_string_equal(ask("GET", "/livez"), "{\"status\":\"ok\"}");
    assert_int_equal(x.answer.status, 200);
    assert_string_equal(ask("GET", "/readyz"), "{\"status\":\"ok\"}");
    assert_int_equal(x.answer.status, 200);
    (void)ask("DELETE", "/livez");
    assert_int_equal(x.answer.status, 405);
}

static void admin_says_why_it_is_not_ready(void **state)
{
    (void)state;
    some_replica_takes_work = false;
    assert_string_equal(
        ask("GET", "/readyz"),
        "{\"status\":\"not_ready\",\"reasons\":[\"no replica of any model can take work\"]}");
    assert_int_equal(x.answer.status, 503);

    some_replica_takes_work = true;
    journal_writable = false;
    worker.draining = true;
    const char *text = ask("GET", "/readyz");
    assert_non_null(strstr(text, "draining"));
    assert_non_null(strstr(text, "journal"));
}

static void admin_answers_health_on_any_listener_and_nothing_else(void **state)
{
    (void)state;
    x.method = SPAN("GET");
    x.path = SPAN("/livez");
    assert_true(admin_answer_health(&x));
    x.path = SPAN("/metrics");
    assert_false(admin_answer_health(&x));
}

/* ---- promise 2 ---- */

static void admin_wants_its_token(void **state)
{
    static const char *const wrong[] = {"Bearer token-of-the-operato",
                                        "Bearer token-of-the-operator2", "token-of-the-operator",
                                        "Bearer ", ""};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        x.authorization = span_of(wrong[i]);
        (void)ask("GET", "/metrics");
        assert_int_equal(x.answer.status, 401);
        (void)ask("POST", "/replicas/org/small/s2/drain");
        assert_int_equal(x.answer.status, 401);
    }
    assert_int_equal(drains, 0);
}

/* ---- promise 3 ---- */

static void admin_prints_metrics_as_prometheus_reads_them(void **state)
{
    static const char *const lines[] = {
        "# TYPE tollgate_requests_total counter\ntollgate_requests_total 0\n",
        "tollgate_build_info{version=\"" TOLLGATE_VERSION "\"} 1\n",
        "# TYPE tollgate_replica_busy gauge\n"
        "tollgate_replica_busy{model_id=\"org/small\",replica=\"s1\"} 1\n"
        "tollgate_replica_busy{model_id=\"org/small\",replica=\"s2\"} 1\n",
        "tollgate_replica_up{model_id=\"org/small\",replica=\"s2\"} 1\n",
        "tollgate_replica_attempts_total{model_id=\"org/small\",replica=\"s1\"} 7\n",
        "# TYPE tollgate_replica_engine_running gauge\n"
        "tollgate_replica_engine_running{model_id=\"org/small\",replica=\"s2\"} 2\n",
        "# TYPE tollgate_replica_engine_prefix_hits_total counter\n"
        "tollgate_replica_engine_prefix_hits_total{model_id=\"org/small\",replica=\"s2\"} 256\n",
        "tollgate_model_waiting{model_id=\"org/small\"} 3\n",
        "tollgate_inflight_open 5\n",
        "tollgate_journal_full 1\n",
        "tollgate_journal_recovered_rows 3\n",
        "tollgate_journal_synced_rows 70\n",
        "tollgate_anchor_age_ms 1200\n",
        "tollgate_replica_prompt_tokens_total{model_id=\"org/small\",replica=\"s1\"} 900\n",
        "# TYPE tollgate_replica_unit_cost_pusd gauge\n"
        "tollgate_replica_unit_cost_pusd{model_id=\"org/small\",replica=\"s2\"} 555000\n",
        "# TYPE tollgate_replica_drift_tokens gauge\n"
        "tollgate_replica_drift_tokens{model_id=\"org/small\",replica=\"s2\",kind=\"prompt\"} "
        "-10\n"
        "tollgate_replica_drift_tokens{model_id=\"org/small\",replica=\"s2\","
        "kind=\"generation\"} 1\n",
        "tollgate_estimate_error_permille{model_id=\"org/small\",of=\"prompt\"} 31\n",
        "tollgate_workers 2\n",
        "# TYPE process_open_fds gauge\n",
    };

    (void)state;
    const char *text = ask("GET", "/metrics");
    assert_int_equal(x.answer.status, 200);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("missing: %s", lines[i]);
    assert_null(strstr(text, "of=\"answer\"")); /* nothing was learned of it yet */
    assert_null(strstr(text, "ledger_behind")); /* no ledger is kept */
}

/* ---- promise 4 ---- */

static void admin_shows_replicas(void **state)
{
    (void)state;
    const char *text = ask("GET", "/replicas");

    assert_non_null(strstr(text,
                           "{\"models\":[{\"model\":\"org/small\",\"waiting\":3,\"replicas\":["
                           "{\"name\":\"s1\",\"url\":\"http://127.0.0.1:8001\",\"health\":\"in\","
                           "\"drained\":false,\"slots\":4,\"busy\":1,\"work_tokens\":120,"
                           "\"attempts\":7,\"failures\":2,\"strikes\":1,\"out_for_ms\":0,"
                           "\"engine\":null,\"account\":{\"prompt_tokens\":900,"
                           "\"generation_tokens\":80,\"engine_prompt_tokens\":null,"
                           "\"engine_generation_tokens\":null,\"drift_prompt_tokens\":null,"));
    assert_non_null(strstr(text, "\"drift_prompt_tokens\":-10,\"drift_generation_tokens\":1,"
                                 "\"drift_age_ms\":250,\"engine_restarts\":1,"
                                 "\"tokens_per_hour\":3600,\"unit_cost_pusd\":555000}"));
    assert_non_null(strstr(text, "\"running\":2,\"prefix_hits\":256}"));
    assert_null(strstr(text, "key-of-the-replica"));
}

static void admin_drains_a_replica_by_name(void **state)
{
    (void)state;
    assert_non_null(strstr(ask("POST", "/replicas/org/small/s2/drain"), "\"drained\":true"));
    assert_int_equal(x.answer.status, 200);
    assert_non_null(strstr(ask("POST", "/replicas/org%2Fsmall/s2/undrain"), "\"drained\":false"));
    assert_int_equal(drains, 2);
}

static void admin_drains_nothing_unknown(void **state)
{
    static const char *const paths[] = {
        "/replicas/org/small/s3/drain",
        "/replicas/none/s1/drain",
        "/replicas/org/small/s1/stop",
        "/replicas/s1/drain",
        "/replicas/",
        "/replicas/%zz/s1/drain",
    };

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        (void)ask("POST", paths[i]);
        assert_int_equal(x.answer.status, 404);
    }
    (void)ask("GET", "/replicas/org/small/s2/drain");
    assert_int_equal(x.answer.status, 405);
    assert_int_equal(drains, 0);
}

/* ---- promise 5 ---- */

static void admin_shows_the_configuration_without_secrets(void **state)
{
    (void)state;
    const char *text = ask("GET", "/config");

    assert_int_equal(x.answer.status, 200);
    assert_non_null(strstr(text, "org/small"));
    assert_null(strstr(text, "key-of-the-replica"));
    assert_null(strstr(text, "token-of-the-operator"));
    assert_null(strstr(text, "a-key-of-the-tests-1"));
}

static void admin_reload_says_what_became_of_it(void **state)
{
    char wanted[64];

    (void)state;
    (void)snprintf(wanted, sizeof wanted, "{\"generation\":%llu}",
                   (unsigned long long)config->generation);
    assert_string_equal(ask("POST", "/reload"), wanted);
    reload_works = false;
    assert_non_null(strstr(ask("POST", "/reload"), "tollgate.yaml:3: models: expected a map"));
    assert_int_equal(x.answer.status, 400);
    (void)ask("GET", "/reload");
    assert_int_equal(x.answer.status, 405);
}

/* ---- promise 6 ---- */

static void admin_asks_for_usage_when_the_token_is_right(void **state)
{
    (void)state;
    usage_asked = 0;
    (void)ask("GET", "/usage");
    assert_int_equal(x.answer.status, 200);
    assert_int_equal(usage_asked, 1);
    (void)ask("POST", "/usage");
    assert_int_equal(x.answer.status, 405);
    x.authorization = (struct span){NULL, 0};
    (void)ask("GET", "/usage");
    assert_int_equal(x.answer.status, 401);
    assert_int_equal(usage_asked, 1);
}

static void admin_knows_no_other_path(void **state)
{
    (void)state;
    (void)ask("GET", "/v1/models");
    assert_int_equal(x.answer.status, 404);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(admin_lives_without_a_token),
        TEST(admin_says_why_it_is_not_ready),
        TEST(admin_answers_health_on_any_listener_and_nothing_else),
        TEST(admin_wants_its_token),
        TEST(admin_prints_metrics_as_prometheus_reads_them),
        TEST(admin_shows_replicas),
        TEST(admin_drains_a_replica_by_name),
        TEST(admin_drains_nothing_unknown),
        TEST(admin_shows_the_configuration_without_secrets),
        TEST(admin_reload_says_what_became_of_it),
        TEST(admin_asks_for_usage_when_the_token_is_right),
        TEST(admin_knows_no_other_path),
    };

    return cmocka_run_group_tests_name("admin", tests, load, unload);
}
