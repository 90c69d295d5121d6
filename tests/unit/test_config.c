/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_config.c: the promises of config/config.h, and of config/values.h beneath it.
 *
 * - A good file becomes a snapshot with every value where it belongs, defaults for the rest.
 * - Durations, sizes, shares, dates, addresses and URLs are read exactly, or refused.
 * - Prices are whole picodollars per token, read without a float; brackets, tiers, volumes too.
 * - Models are found by name and alias, keys by digest; what is not there is not found. A tenant's
 *   days are of its zone, those of anybody else of UTC.
 * - A price holds from its date on, until the next, or until it ends.
 * - The printed form has no secret, and reads as a configuration again.
 * - A snapshot lives until its last reference is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/log.h"
#include "config/base/zone.h"
#include "config/config.h"
#include "config/values.h"

static const char good[] =
    "listen:\n"
    "  - {address: \"127.0.0.1:4000\"}\n"
    "  - {address: \"[::1]:0\"}\n"
    "admin: {address: \"127.0.0.1:4001\", token: operator-secret}\n"
    "gateway: g1\n"
    "workers: 3\n"
    "cors: {origins: [\"https://app.example\"]}\n"
    "log: {access: none, level: warn}\n"
    "meter: {journal: /var/lib/tollgate}\n"
    "models:\n"
    "  small:\n"
    "    kind: vllm\n"
    "    price:\n"
    "      - {from: 2026-01-01, input: \"0.05\", cached_input: 0.0125, output: \"0.20\"}\n"
    "      - {from: 2026-07-01, input: 0.04, output: 0.16, reasoning: 0.17, cache_write: 0.06,\n"
    "         cache_hit: 0.000001}\n"
    "    context: 32768\n"
    "    output: 4096\n"
    "    upstream_model: Qwen/Qwen3-0.6B\n"
    "    aliases: [gpt-4o-mini, tiny]\n"
    "    replicas:\n"
    "      - {name: s1, url: \"http://127.0.0.1:8001/base/v1/\", key: replica-secret, slots: 8,\n"
    "         usd_per_hour: \"1.20\"}\n"
    "      - {name: s2, url: \"http://models.internal\"}\n"
    "    fallback: [large]\n"
    "  large:\n"
    "    kind: openai\n"
    "    price: [{input: 0.60, output: 2.40}]\n"
    "    replicas: [{name: l1, url: \"http://[::1]:8003/v1\"}]\n"
    "classes:\n"
    "  - {name: summarise, match: {header: {X-Task-Class: summarise}}, model: tiny}\n"
    "  - {name: code, match: {system_prompt: \"*code*\", tools: true, min_body: 1KiB}, model: "
    "large}\n"
    "  - {name: default, match: {endpoint: embeddings, images: false}, model: auto}\n"
    "tenants:\n"
    "  acme:\n"
    "    keys:\n"
    "      - {id: web, key: tenant-secret, expires: 2027-01-01}\n"
    "      - {id: \"3\", key: \"sha256:"
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}\n" /* of "abc" */
    "    tags: {team: search, note: \"a \\\"b\\\"\"}\n"
    "    models: [small]\n"
    "    allow: [priority, remote_urls]\n"
    "  other: {keys: [{id: k, key: other-secret}]}\n"
    "timeouts: {first_byte: 90s, drain: 0}\n"
    "limits: {body_bytes: 2MiB, bodies_memory: 64MiB}\n"
    "health: {most_out: 25%}\n";

/* A configuration of one model whose price is this flow sequence. */
#define PRICED(price)                                                                              \
    "listen: [{address: \"127.0.0.1:1\"}]\n"                                                       \
    "models: {m: {kind: vllm, price: " price ",\n"                                                 \
    "  replicas: [{name: r, url: \"http://h\"}]}}\n"                                               \
    "tenants: {t: {keys: [{id: k, key: s}]}}\n"

static struct config *load(const char *text)
{
    struct config *config = NULL;
    struct config_problems problems;
    const enum err err = config_load_text("test.yaml", span_of(text), &config, &problems);

    if (err != OK)
        print_error("%s", problems.text);
    assert_int_equal(err, OK);
    config_problems_free(&problems);
    return config;
}

static void assert_span(struct span actual, const char *expected)
{
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

static void the_process_is_read(void **state)
{
    (void)state;
    struct config *config = load(good);

    assert_int_equal(config->listen_count, 2);
    assert_span(config->listen[0].host, "127.0.0.1");
    assert_int_equal(config->listen[0].port, 4000);
    assert_span(config->listen[1].host, "::1");
    assert_int_equal(config->listen[1].port, 0);
    assert_true(config->admin_present);
    assert_span(config->admin_token, "operator-secret");
    assert_span(config->gateway, "g1");
    assert_int_equal(config->workers, 3);
    assert_span(config->cors_origins[0], "https://app.example");
    assert_span(config->log_access, "none");
    assert_int_equal(config->log_level, LOG_WARN);
    assert_span(config->journal, "/var/lib/tollgate");
    assert_span(config->file, "test.yaml");
    config_put(config);
}

static void the_meter_is_read(void **state)
{
    (void)state;
    struct config *config = load(PRICED(
        "[{input: 1, output: 1}]") "meter: {journal: /j, ledger: \"sqlite:/l.db\",\n"
                                   "  durability: power, signing_key: /k, opex_factor: 1.3,\n"
                                   "  anchor: {file: /a, command: \"send x\"},\n"
                                   "  segment_bytes: 1MiB, segment_age: 2m,\n"
                                   "  anchor_every: 5s, keep: 90d}\n");
    struct config *plain = load(good);

    assert_span(config->journal, "/j");
    assert_span(config->ledger, "/l.db");
    assert_true(config->durable);
    assert_span(config->signing_key, "/k");
    assert_span(config->anchor_file, "/a");
    assert_span(config->anchor_command, "send x");
    assert_int_equal(config->opex_ppm, 1300000);
    assert_int_equal(config->meter_segment_bytes, 1048576);
    assert_int_equal(config->meter_segment_age_ms, 120000);
    assert_int_equal(config->meter_anchor_every_ms, 5000);
    assert_int_equal(config->meter_keep_ms, INT64_C(90) * 86400 * 1000);
    assert_null(plain->ledger.data);
    assert_false(plain->durable);
    assert_int_equal(plain->opex_ppm, 1000000);
    assert_int_equal(plain->meter_keep_ms, 0);
    config_put(plain);
    config_put(config);
}

static void template_and_part_tokens_are_read(void **state)
{
    (void)state;
    struct config *config =
        load("listen: [{address: \"127.0.0.1:1\"}]\n"
             "models:\n"
             "  a: {kind: vllm, price: [{input: 1, output: 1}],\n"
             "    template_tokens: {fixed: 1, per_message: 2, per_tool: 3, schema: 400%},\n"
             "    part_tokens: {image: 10, audio: 20, video: 30, file: 40},\n"
             "    replicas: [{name: r, url: \"http://h\"}]}\n"
             "  b: {kind: vllm, price: [{input: 1, output: 1}], replicas: [{name: r, url: "
             "\"http://h\"}]}\n"
             "tenants: {t: {keys: [{id: k, key: s}]}}\n");
    const struct config_model *said = &config->models[0];
    const struct config_model *silent = &config->models[1];

    assert_int_equal(said->template_tokens.fixed, 1);
    assert_int_equal(said->template_tokens.per_message, 2);
    assert_int_equal(said->template_tokens.per_tool, 3);
    assert_int_equal(said->template_tokens.schema_percent, 400);
    for (int kind = 0; kind < PART_KINDS; kind++) {
        assert_int_equal(said->part_tokens[kind], 10 * (kind + 1));
        assert_int_equal(silent->part_tokens[kind], 0);
    }
    assert_int_equal(silent->template_tokens.fixed, 64);
    assert_int_equal(silent->template_tokens.schema_percent, 200);
    config_put(config);
}

static void options_are_read_and_the_others_have_their_defaults(void **state)
{
    (void)state;
    struct config *config = load(good);

    assert_int_equal(config->timeouts_first_byte_ms, 90000);
    assert_int_equal(config->timeouts_drain_ms, 0);
    assert_int_equal(config->limits_body_bytes, 2097152);
    assert_int_equal(config->limits_bodies_memory_bytes, 67108864);
    assert_int_equal(config->health_most_out_percent, 25);
    assert_int_equal(config->timeouts_head_ms, 10000);
    assert_int_equal(config->retry_attempts, 3);
    config_put(config);
}

static void models_are_read(void **state)
{
    (void)state;
    struct config *config = load(good);
    const struct config_model *small = config_find_model(config, SPAN("small"));
    const struct config_model *large = config_find_model(config, SPAN("large"));

    assert_int_equal(small->kind, KIND_VLLM);
    assert_int_equal(large->kind, KIND_OPENAI);
    assert_int_equal(small->context, 32768);
    assert_span(small->upstream_model, "Qwen/Qwen3-0.6B");
    assert_span(large->upstream_model, "large");
    assert_int_equal(small->fallback_count, 1);
    assert_ptr_equal(small->fallback[0], large);
    assert_int_equal(small->replicas[0].slots, 8);
    assert_int_equal(small->replicas[0].pusd_per_hour, 1200000000000); /* $1.20 */
    assert_span(small->replicas[0].key, "replica-secret");
    assert_int_equal(small->replicas[1].slots, 64);
    assert_int_equal(small->replicas[1].pusd_per_hour, -1);
    assert_null(small->replicas[1].key.data);
    assert_int_equal(small->replicas[1].index, 1);
    config_put(config);
}

static void urls_are_taken_apart(void **state)
{
    (void)state;
    struct config *config = load(good);
    const struct config_replica *first = &config_find_model(config, SPAN("small"))->replicas[0];
    const struct config_replica *second = &config_find_model(config, SPAN("small"))->replicas[1];
    const struct config_replica *third = &config_find_model(config, SPAN("large"))->replicas[0];

    assert_span(first->host, "127.0.0.1");
    assert_int_equal(first->port, 8001);
    assert_span(first->host_header, "127.0.0.1:8001");
    assert_span(first->base_path, "/base");
    assert_span(second->host, "models.internal");
    assert_int_equal(second->port, 80);
    assert_span(second->host_header, "models.internal");
    assert_span(second->base_path, "");
    assert_span(third->host, "::1");
    assert_span(third->host_header, "[::1]:8003");
    assert_span(third->base_path, "");
    config_put(config);
}

static void sockets_and_schemes_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host, *host_header, *socket_path, *base_path;
        uint16_t port;
        bool https;
    } cases[] = {
        {"https://h", "h", "h", "", "", 443, true},
        {"https://[::1]:8443/v1", "::1", "[::1]:8443", "", "", 8443, true},
        {"unix:/run/x.sock", "localhost", "localhost", "/run/x.sock", "", 0, false},
        {"unix:/run/x.sock:/base/v1", "localhost", "localhost", "/run/x.sock", "/base", 0, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_replica replica = {0};

        assert_true(values_url(span_of(cases[i].url), &replica));
        assert_span(replica.host, cases[i].host);
        assert_span(replica.host_header, cases[i].host_header);
        assert_span(replica.socket_path, cases[i].socket_path);
        assert_span(replica.base_path, cases[i].base_path);
        assert_int_equal(replica.port, cases[i].port);
        assert_int_equal(replica.https, cases[i].https);
    }
}

static void tls_is_read_and_its_files_lie_beside_the_configuration(void **state)
{
    (void)state;
    static const char text[] = "listen:\n"
                               "  - {address: \"127.0.0.1:1\", tls: {certificate: a.pem, key: "
                               "/k.pem, client_ca: c/ca.pem}}\n"
                               "  - {address: \"unix:/run/x.sock\", mode: \"0600\"}\n"
                               "models:\n"
                               "  a: {kind: vllm, price: [{input: 1, output: 1}], replicas: [\n"
                               "    {name: r, url: \"https://h:1\"},\n"
                               "    {name: s, url: \"https://h:2\", tls: {certificate: b.pem, "
                               "name: n, verify: false}}]}\n";
    struct config *config = NULL;
    struct config_problems problems;

    assert_int_equal(config_load_text("/etc/t.yaml", span_of(text), &config, &problems), OK);
    config_problems_free(&problems);
    const struct config_tls *first = &config->listen[0].tls;
    const struct config_replica *replicas = config->models[0].replicas;
    assert_true(config->listen[0].tls_present);
    assert_span(first->certificate, "/etc/a.pem");
    assert_span(first->key, "/k.pem");
    assert_span(first->ca, "/etc/c/ca.pem");
    assert_span(first->place, "listen[0].tls");
    assert_int_equal(first->line, 2);
    assert_false(config->listen[1].tls_present);
    assert_span(config->listen[1].socket_path, "/run/x.sock");
    assert_int_equal(config->listen[1].mode, 0600);
    assert_true(replicas[0].tls.verify);
    assert_span(replicas[0].tls.name, "h");
    assert_false(replicas[1].tls.verify);
    assert_span(replicas[1].tls.name, "n");
    assert_span(replicas[1].tls.certificate, "/etc/b.pem");
    assert_span(replicas[1].tls.key, "/etc/b.pem");
    config_put(config);
}

static void prices_are_whole_picodollars(void **state)
{
    (void)state;
    struct config *config = load(good);
    const struct config_model *small = config_find_model(config, SPAN("small"));

    assert_int_equal(small->price_count, 2);
    assert_int_equal(small->prices[0].rates.input, 50000); /* 0.05 USD a million */
    assert_int_equal(small->prices[0].rates.cached_input, 12500);
    assert_int_equal(small->prices[0].rates.cache_write, 50000); /* as input */
    assert_int_equal(small->prices[0].rates.output, 200000);
    assert_int_equal(small->prices[0].rates.reasoning, 200000); /* as output */
    assert_int_equal(small->prices[0].cache_hit, 0);
    assert_int_equal(small->prices[1].rates.reasoning, 170000);
    assert_int_equal(small->prices[1].rates.cache_write, 60000);
    assert_int_equal(small->prices[1].cache_hit, 1);
    for (size_t tier = 0; tier < SERVICE_TIERS; tier++)
        assert_int_equal(small->prices[0].tier_ppm[tier], PRICE_PPM);
    assert_int_equal(small->prices[0].bracket_count, 0);
    assert_int_equal(small->prices[0].volume_count, 0);
    config_put(config);
}

static void brackets_volumes_and_tiers_are_read(void **state)
{
    (void)state;
    struct config *config = load(
        PRICED("[{input: 1, output: 4, bracket_mode: marginal, bracket_from: at,\n"
               "  brackets: [{above: 128000, input: 2, output: 6},\n"
               "    {above: 272000, input: 3, cached_input: 0.3, cache_write: 3.75, output: 8,\n"
               "     reasoning: 9}],\n"
               "  tiers: {flex: 0.5, priority: 1.75, batch: 0.25}, volume_mode: whole,\n"
               "  volume: [{above: 1000000, factor: 0.9}, {above: 5000000, factor: \"0.75\"}]}]"));
    const struct price *price = &config->models[0].prices[0];

    assert_true(price->bracket_marginal);
    assert_true(price->bracket_inclusive);
    assert_int_equal(price->bracket_count, 2);
    assert_int_equal(price->brackets[0].above, 128000);
    assert_int_equal(price->brackets[0].rates.input, 2000000);
    assert_int_equal(price->brackets[0].rates.cached_input, 2000000); /* as input */
    assert_int_equal(price->brackets[0].rates.reasoning, 6000000);    /* as output */
    assert_int_equal(price->brackets[1].above, 272000);
    assert_int_equal(price->brackets[1].rates.cached_input, 300000);
    assert_int_equal(price->brackets[1].rates.cache_write, 3750000);
    assert_int_equal(price->brackets[1].rates.reasoning, 9000000);
    assert_int_equal(price->tier_ppm[TIER_STANDARD], 1000000);
    assert_int_equal(price->tier_ppm[TIER_FLEX], 500000);
    assert_int_equal(price->tier_ppm[TIER_PRIORITY], 1750000);
    assert_int_equal(price->tier_ppm[TIER_BATCH], 250000);
    assert_false(price->volume_marginal);
    assert_int_equal(price->volume_count, 2);
    assert_int_equal(price->volumes[0].above, 1000000);
    assert_int_equal(price->volumes[0].factor_ppm, 900000);
    assert_int_equal(price->volumes[1].factor_ppm, 750000);
    config_put(config);
}

static void brackets_and_volumes_hold_over_and_whole_or_marginal_when_not_said(void **state)
{
    (void)state;
    struct config *config = load(PRICED("[{input: 1, output: 4,\n"
                                        "  brackets: [{above: 1, input: 2, output: 6}],\n"
                                        "  volume: [{above: 1, factor: 0.5}]}]"));
    const struct price *price = &config->models[0].prices[0];

    assert_false(price->bracket_marginal);
    assert_false(price->bracket_inclusive);
    assert_true(price->volume_marginal);
    config_put(config);
}

static void a_price_holds_from_its_date_until_the_next(void **state)
{
    (void)state;
    struct config *config = load(good);
    const struct config_model *small = config_find_model(config, SPAN("small"));
    const int64_t january_us = 1767225600000000; /* date -d 2026-01-01T00:00Z +%s */
    const int64_t july_us = 1782864000000000;    /* date -d 2026-07-01T00:00Z +%s */

    assert_null(config_price_at(small, january_us - 1));
    assert_ptr_equal(config_price_at(small, january_us), &small->prices[0]);
    assert_ptr_equal(config_price_at(small, july_us - 1), &small->prices[0]);
    assert_ptr_equal(config_price_at(small, july_us), &small->prices[1]);
    config_put(config);
}

static void a_price_with_an_end_holds_no_longer(void **state)
{
    (void)state;
    struct config *config =
        load(PRICED("[{from: 2026-01-01, until: 2026-07-01, input: 1, output: 1},\n"
                    "  {from: 2026-07-01, until: 2999-01-01, input: 2, output: 2}]"));
    const struct config_model *model = &config->models[0];
    const int64_t end_us = 32472144000000000; /* date -d 2999-01-01T00:00Z +%s */

    assert_int_equal(model->prices[0].until_us, model->prices[1].from_us);
    assert_ptr_equal(config_price_at(model, end_us - 1), &model->prices[1]);
    assert_null(config_price_at(model, end_us));
    config_put(config);
}

static void classes_are_read(void **state)
{
    (void)state;
    struct config *config = load(good);

    assert_int_equal(config->class_count, 3);
    assert_span(config->classes[0].headers[0].name, "x-task-class");
    assert_span(config->classes[0].headers[0].value, "summarise");
    assert_span(config->classes[0].model->name, "small"); /* by its alias */
    assert_span(config->classes[1].system_prompt, "*code*");
    assert_int_equal(config->classes[1].tools, YES);
    assert_int_equal(config->classes[1].min_bytes, 1024);
    assert_int_equal(config->classes[1].max_bytes, -1);
    assert_int_equal(config->classes[2].endpoint, ENDPOINT_EMBEDDINGS);
    assert_int_equal(config->classes[2].images, NO);
    assert_int_equal(config->classes[2].schema, ANY);
    assert_null(config->classes[2].model);
    config_put(config);
}

static void tenants_are_read(void **state)
{
    (void)state;
    struct config *config = load(good);
    const struct config_tenant *acme = &config->tenants[0];
    const struct config_tenant *other = &config->tenants[1];

    assert_span(acme->name, "acme");
    assert_ptr_equal(acme->zone, zone_utc());
    assert_span(acme->tags_json, "{\"team\":\"search\",\"note\":\"a \\\"b\\\"\"}");
    assert_int_equal(acme->allow, REFUSED_PRIORITY | REFUSED_REMOTE_MEDIA);
    assert_true(model_set_has(&acme->models, config_find_model(config, SPAN("small"))->index));
    assert_false(model_set_has(&acme->models, config_find_model(config, SPAN("large"))->index));
    assert_true(model_set_has(&other->models, config_find_model(config, SPAN("large"))->index));
    assert_int_equal(acme->keys[0].expires_us, 1798761600000000); /* 2027-01-01 */
    assert_memory_not_equal(acme->salt, other->salt, sizeof(acme->salt));
    config_put(config);
}

static void a_tenants_zone_is_its_own_and_anybody_elses_is_utc(void **state)
{
    (void)state;
    const struct zone *berlin = NULL;

    assert_int_equal(zone_find(SPAN("Europe/Berlin"), &berlin), OK);
    struct config_tenant tenants[] = {{.name = SPAN("acme"), .zone = zone_utc()},
                                      {.name = SPAN("other"), .zone = berlin}};
    const struct config config = {.tenants = tenants, .tenant_count = 2};

    assert_ptr_equal(config_zone_of(&config, SPAN("other")), berlin);
    assert_ptr_equal(config_zone_of(&config, SPAN("acme")), zone_utc());
    assert_ptr_equal(config_zone_of(&config, SPAN("nobody")), zone_utc());
    assert_ptr_equal(config_zone_of(&config, (struct span){NULL, 0}), zone_utc());
}

static void a_tenants_salt_outlives_a_reload(void **state)
{
    (void)state;
    struct config *before = load(good);
    struct config *after = load(good);

    assert_memory_equal(before->tenants[0].salt, after->tenants[0].salt, 16);
    assert_true(after->generation > before->generation);
    config_put(before);
    config_put(after);
}

static void models_are_found_by_name_and_alias_only(void **state)
{
    (void)state;
    struct config *config = load(good);

    assert_ptr_equal(config_find_model(config, SPAN("gpt-4o-mini")),
                     config_find_model(config, SPAN("small")));
    assert_null(config_find_model(config, SPAN("Small")));
    assert_null(config_find_model(config, SPAN("Qwen/Qwen3-0.6B")));
    assert_null(config_find_model(config, SPAN("")));
    config_put(config);
}

static const struct config_key *find_key(const struct config *config, const char *text)
{
    uint8_t digest[HASH_SHA256_BYTES];

    hash_sha256(span_of(text), digest);
    return config_find_key(config, digest);
}

static void keys_are_found_by_digest_only(void **state)
{
    (void)state;
    struct config *config = load(good);
    const uint8_t zeros[HASH_SHA256_BYTES] = {0};

    assert_span(find_key(config, "tenant-secret")->id, "web");
    assert_span(find_key(config, "abc")->id, "3");
    assert_span(find_key(config, "other-secret")->tenant->name, "other");
    assert_null(find_key(config, "tenant-secre"));
    assert_null(find_key(config, ""));
    assert_null(config_find_key(config, zeros)); /* what empty places of the table hold */
    config_put(config);
}

static void every_one_of_many_keys_is_found(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)fputs("listen: [{address: \"127.0.0.1:1\"}]\n"
                "models: {m: {kind: vllm, price: [{input: 1, output: 1}],\n"
                "  replicas: [{name: r, url: \"http://h\"}]}}\n"
                "tenants:\n  t:\n    keys:\n",
                out);
    for (int i = 0; i < 1000; i++)
        (void)fprintf(out, "      - {id: k%d, key: secret-%d}\n", i, i);
    assert_int_equal(fclose(out), 0);
    struct config *config = load(text);
    for (int i = 0; i < 1000; i++) {
        char key[32];
        char id[32];

        (void)snprintf(key, sizeof(key), "secret-%d", i);
        (void)snprintf(id, sizeof(id), "k%d", i);
        assert_span(find_key(config, key)->id, id);
    }
    assert_null(find_key(config, "secret-1000"));
    config_put(config);
    free(text);
}

static void the_printed_form_has_no_secret(void **state)
{
    (void)state;
    struct config *config = load(good);
    size_t size = 0;
    char *text = config_print_redacted(config, &size);

    assert_non_null(text);
    assert_int_equal(strlen(text), size);
    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "ba7816bf"));
    assert_non_null(strstr(text, "first_byte: 90s"));
    free(text);
    config_put(config);
}

static void the_printed_form_reads_as_a_configuration_again(void **state)
{
    (void)state;
    struct config *config =
        load("listen: [{address: \"127.0.0.1:1\", tls: {certificate: a, client_ca: b}},\n"
             "  {address: \"unix:/x\", mode: 0666}]\n"
             "models:\n"
             "  a: {kind: vllm, price: [{input: 0.123456, output: 1},\n"
             "      {from: 2026-02-01, until: 2999-01-01, input: 2, output: 4, cache_hit: 1,\n"
             "       bracket_mode: marginal, brackets: [{above: 7, input: 4, output: 9}],\n"
             "       tiers: {flex: 0.25, batch: 0.75}, volume: [{above: 9, factor: 0.125}]}],\n"
             "    template_tokens: {fixed: 3, schema: 150%}, part_tokens: {image: 900, file: 7},\n"
             "    replicas: [{name: r, url: \"http://h\", usd_per_hour: 9.8},\n"
             "      {name: s, url: \"https://h\", tls: {ca: c, verify: false}}]}\n"
             "names: {servers: [\"127.0.0.1:53\"]}\n"
             "classes: [{name: c, match: {header: {a: b}, tools: true,\n"
             "  model: \"x*\", system_prompt: \"y\"}, model: a}]\n"
             "meter: {journal: /j, ledger: \"sqlite:/l.db\", durability: power, signing_key: /k,\n"
             "  anchor: {file: /a}, opex_factor: 1.25, segment_age: 5m}\n"
             "tenants: {t: {keys: [{id: k, key: \"***\"}]}}\n");
    size_t size = 0;
    char *text = config_print_redacted(config, &size);
    struct config *again = load(text);
    char *text_again = config_print_redacted(again, &size);

    /* All but the first line, which counts generations. */
    assert_string_equal(strchr(text, '\n'), strchr(text_again, '\n'));
    free(text);
    free(text_again);
    config_put(config);
    config_put(again);
}

static void a_snapshot_lives_until_its_last_reference_goes(void **state)
{
    (void)state;
    struct config *config = load(good);

    assert_ptr_equal(config_get(config), config);
    config_put(config);
    assert_span(config->gateway, "g1"); /* AddressSanitizer would tell */
    config_put(config);
    config_put(NULL);
}

static void a_file_that_is_not_there_is_a_problem(void **state)
{
    (void)state;
    struct config *config = NULL;
    struct config_problems problems;

    assert_int_equal(config_load("/nowhere/at/all.yaml", &config, &problems), ERR_BAD_VALUE);
    assert_null(config);
    assert_non_null(strstr(problems.text, "/nowhere/at/all.yaml:"));
    config_problems_free(&problems);
}

static void the_embedded_configuration_is_good(void **state)
{
    (void)state;
    struct config *config = NULL;
    struct config_problems problems;

    assert_int_equal(setenv("TOLLGATE_KEY", "demo-secret", 1), 0);
    assert_int_equal(config_load(NULL, &config, &problems), OK);
    assert_null(problems.text);
    assert_span(config->file, "(embedded)");
    assert_span(find_key(config, "demo-secret")->id, "demo");
    config_put(config);
}

/* ---- values.h ---- */

/* A written value and what it means; -1: refused. */
struct value {
    const char *text;
    int64_t value;
};

static void check_values(bool (*reader)(struct span text, int64_t *out_value),
                         const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = -1;
        const bool read = reader(span_of(values[i].text), &value);

        if (value != values[i].value || read != (values[i].value >= 0))
            fail_msg("\"%s\": expected %lld, got %lld", values[i].text, (long long)values[i].value,
                     (long long)value);
    }
}

static void durations_need_a_unit(void **state)
{
    (void)state;
    const struct value values[] = {{"150ms", 150},
                                   {"3s", 3000},
                                   {"15m", 900000},
                                   {"2h", 7200000},
                                   {"1d", 86400000},
                                   {"0", 0},
                                   {"10", -1},
                                   {"1.5s", -1},
                                   {"-1s", -1},
                                   {"s", -1},
                                   {"1 s", -1},
                                   {"", -1},
                                   {"9223372036854775807d", -1}};

    check_values(values_duration, values, sizeof(values) / sizeof(values[0]));
}

static void sizes_are_powers_of_two(void **state)
{
    (void)state;
    const struct value values[] = {{"512", 512},         {"512B", 512},
                                   {"64KiB", 65536},     {"32MiB", 33554432},
                                   {"1GiB", 1073741824}, {"1TiB", 1099511627776},
                                   {"64KB", -1},         {"64k", -1},
                                   {"1.5MiB", -1},       {"9223372036854775807KiB", -1}};

    check_values(values_bytes, values, sizeof(values) / sizeof(values[0]));
}

static void shares_end_in_percent(void **state)
{
    (void)state;
    const struct value values[] = {{"20%", 20}, {"0%", 0}, {"20", -1}, {"0.2", -1}, {"%", -1}};

    check_values(values_percent, values, sizeof(values) / sizeof(values[0]));
}

static bool read_token_price(struct span text, int64_t *out_value)
{
    return values_decimal(text, 6, out_value);
}

static void decimals_are_exact_or_refused(void **state)
{
    (void)state;
    const struct value values[] = {{"0.05", 50000},
                                   {"1", 1000000},
                                   {"0", 0},
                                   {"0.000001", 1},
                                   {"0.0000001", -1}, /* finer than a picodollar */
                                   {"0.050000000000", 50000},
                                   {"0.0500000000000", -1}, /* 13 places */
                                   {"0.1", 100000},         /* no float is exactly this */
                                   {"123456789012", 123456789012000000},
                                   {"1234567890123", -1},
                                   {"1.", -1},
                                   {".5", -1},
                                   {"1e3", -1},
                                   {"-1", -1},
                                   {"1.0.0", -1},
                                   {"", -1}};

    check_values(read_token_price, values, sizeof(values) / sizeof(values[0]));
}

static void dates_are_days_or_seconds_of_utc(void **state)
{
    (void)state;
    const struct value values[] = {{"1970-01-01", 0},
                                   {"2026-01-01", 1767225600000000},
                                   {"2024-02-29", 1709164800000000},
                                   {"2000-03-01", 951868800000000},
                                   {"2026-01-31T12:30:01Z", 1769862601000000},
                                   {"2026-02-29", -1},
                                   {"2100-02-29", -1},
                                   {"2026-13-01", -1},
                                   {"2026-1-1", -1},
                                   {"2026-01-31T24:00:00Z", -1},
                                   {"2026-01-31T12:30:01", -1},
                                   {"2026-01-31 ", -1},
                                   {"yesterday", -1},
                                   {"1969-12-31", -1}};

    check_values(values_date, values, sizeof(values) / sizeof(values[0]));
}

static void addresses_are_ip_and_port(void **state)
{
    (void)state;
    const char *const bad[] = {"",
                               "4000",
                               "127.0.0.1",
                               "127.0.0.1:",
                               "[::1]",
                               "::1:4000",
                               "unix:",
                               "unix:x",
                               "unix:/x/",
                               "[::1:4000",
                               "[nope]:4000",
                               "host:4000",
                               "1.2.3.4:65536",
                               "1.2.3.4:4 0",
                               "[::1]4000"};
    struct config_listen listen;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(values_listen(span_of(bad[i]), &listen));
    assert_true(values_listen(SPAN("localhost:80"), &listen));
    assert_span(listen.host, "127.0.0.1");
    assert_true(values_is_loopback(listen.host));
    assert_true(values_is_loopback(SPAN("::1")));
    assert_false(values_is_loopback(SPAN("0.0.0.0")));
    assert_false(values_is_loopback(SPAN("10.0.0.1")));
}

static void urls_that_mean_something_else_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {
        "http://",      "http://:80",   "http://h:0",      "http://h:99999",    "http://u@h",
        "http://h/a?b", "http://h/a#b", "http://h/a b",    "ftp://h",           "http://[::1",
        "http://h:80x", "//h",          "http://h/%2e%2e", "http://h/\xc3\xbc", "unix:x",
        "unix:/x:",     "unix:/x:b",    "unix:/x:/a?b",    "unix:/x y"};
    struct config_replica replica;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(values_url(span_of(bad[i]), &replica));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_is_read),
        cmocka_unit_test(the_meter_is_read),
        cmocka_unit_test(template_and_part_tokens_are_read),
        cmocka_unit_test(options_are_read_and_the_others_have_their_defaults),
        cmocka_unit_test(models_are_read),
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(sockets_and_schemes_are_told_apart),
        cmocka_unit_test(tls_is_read_and_its_files_lie_beside_the_configuration),
        cmocka_unit_test(prices_are_whole_picodollars),
        cmocka_unit_test(brackets_volumes_and_tiers_are_read),
        cmocka_unit_test(brackets_and_volumes_hold_over_and_whole_or_marginal_when_not_said),
        cmocka_unit_test(a_price_holds_from_its_date_until_the_next),
        cmocka_unit_test(a_price_with_an_end_holds_no_longer),
        cmocka_unit_test(classes_are_read),
        cmocka_unit_test(tenants_are_read),
        cmocka_unit_test(a_tenants_zone_is_its_own_and_anybody_elses_is_utc),
        cmocka_unit_test(a_tenants_salt_outlives_a_reload),
        cmocka_unit_test(models_are_found_by_name_and_alias_only),
        cmocka_unit_test(keys_are_found_by_digest_only),
        cmocka_unit_test(every_one_of_many_keys_is_found),
        cmocka_unit_test(the_printed_form_has_no_secret),
        cmocka_unit_test(the_printed_form_reads_as_a_configuration_again),
        cmocka_unit_test(a_snapshot_lives_until_its_last_reference_goes),
        cmocka_unit_test(a_file_that_is_not_there_is_a_problem),
        cmocka_unit_test(the_embedded_configuration_is_good),
        cmocka_unit_test(durations_need_a_unit),
        cmocka_unit_test(sizes_are_powers_of_two),
        cmocka_unit_test(shares_end_in_percent),
        cmocka_unit_test(decimals_are_exact_or_refused),
        cmocka_unit_test(dates_are_days_or_seconds_of_utc),
        cmocka_unit_test(addresses_are_ip_and_port),
        cmocka_unit_test(urls_that_mean_something_else_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
