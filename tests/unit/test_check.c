/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_check.c: a bad file yields no snapshot and every error at once, each as
 * "file:line: key: what was expected" (config/check.c, sections.c, problems.c).
 *
 * - Unknown and doubled keys are refused; the nearest known key is named.
 * - Values of the wrong type or out of range are refused with what was expected.
 * - What must hold between keys is judged: names that are one of a kind, names that exist, keys
 * that nobody shares, prices in order, listeners apart, an admin listener that is guarded.
 * - Problems come in the order of the file, secrets never in them.
 * - A warning does not keep the file from being used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/config.h"
#include "config/problems.h"

#define LISTEN "listen: [{address: \"127.0.0.1:4000\"}]\n"
#define MODEL(name)                                                                                \
    "  " name ": {kind: vllm, price: [{input: 1, output: 1}], replicas: [{name: r, url: "          \
    "\"http://h\"}]}\n"
#define MODELS "models:\n" MODEL("small")
#define TENANTS "tenants: {t: {keys: [{id: k, key: secret}]}}\n"

/* Loads text, which must be refused; the caller frees what is wrong with it. */
static char *refused(const char *text)
{
    struct config *config = NULL;
    struct config_problems problems;

    assert_int_equal(config_load_text("f", span_of(text), &config, &problems), ERR_BAD_VALUE);
    assert_null(config);
    assert_non_null(problems.text);
    return problems.text;
}

/* Refused with this line among the problems. */
static void assert_problem(const char *text, const char *line)
{
    char *problems = refused(text);

    if (strstr(problems, line) == NULL)
        fail_msg("expected: %s\ngot:\n%s", line, problems);
    free(problems);
}

static void an_unknown_key_comes_with_the_nearest_known_one(void **state)
{
    (void)state;

    assert_problem(LISTEN MODELS TENANTS "timeots: {}\n",
                   "f:5: timeots: not known (nearest known key: timeouts)\n");
    assert_problem(LISTEN MODELS TENANTS "timeouts:\n  frist_byte: 1s\n",
                   "f:6: timeouts.frist_byte: not known (nearest known key: first_byte)\n");
    assert_problem("listen: [{adress: \"127.0.0.1:1\"}]\n" MODELS TENANTS,
                   "f:1: listen[0].adress: not known (nearest known key: address)\n");
    assert_problem(LISTEN MODELS "tenants: {t: {keys: [{id: k, key: s}], tier: gold}}\n",
                   "f:4: tenants.t.tier: not known");
}

static void a_doubled_key_is_refused(void **state)
{
    (void)state;

    assert_problem(LISTEN "workers: 1\n" MODELS TENANTS "workers: 2\n",
                   "f:6: workers: expected once, stands in line 2 already\n");
    assert_problem(LISTEN "models:\n" MODEL("a") MODEL("a") TENANTS,
                   "f:4: models.a: expected once, stands in line 3 already\n");
}

static void what_is_required_and_not_there_is_said(void **state)
{
    (void)state;

    assert_problem(MODELS TENANTS, "f:1: listen: required, but not there\n");
    assert_problem(LISTEN TENANTS, "f:1: models: required, but not there\n");
    assert_problem(LISTEN "models: {m: {kind: vllm, replicas: [{name: r, url: \"http://h\"}]}}\n",
                   "f:2: models.m.price: required, but not there\n");
    assert_problem(LISTEN "models: {}\n", "f:2: models: expected 1 to 256 models, got 0\n");
}

static void a_wrong_type_is_named(void **state)
{
    (void)state;

    assert_problem("listen: here\n" MODELS TENANTS,
                   "f:1: listen: expected a list, got a plain value\n");
    assert_problem(LISTEN MODELS TENANTS "limits: [1]\n",
                   "f:5: limits: expected a map, got a list\n");
    assert_problem(LISTEN MODELS TENANTS "workers: {}\n",
                   "f:5: workers: expected a plain value, got a map\n");
    assert_problem(LISTEN MODELS "tenants:\n", "f:4: tenants: expected a map, got nothing\n");
    assert_problem("- a\n", "expected a map, got a list\n");
}

static void a_value_out_of_range_comes_with_the_range(void **state)
{
    (void)state;

    assert_problem(LISTEN MODELS TENANTS "timeouts: {head: 1ms}\n",
                   "f:5: timeouts.head: expected a duration from 50ms to 10m (such as 150ms or "
                   "2m), got \"1ms\"\n");
    assert_problem(LISTEN MODELS TENANTS "limits: {n: 129}\n",
                   "f:5: limits.n: expected a number from 1 to 128, got \"129\"\n");
    assert_problem(LISTEN MODELS TENANTS "retry: {budget: 101%}\n",
                   "f:5: retry.budget: expected a share from 0% to 100%");
    assert_problem(LISTEN MODELS TENANTS "workers: 0\n",
                   "f:5: workers: expected a whole number from 1 to 256, got \"0\"\n");
}

static void names_are_one_of_a_kind(void **state)
{
    (void)state;

    assert_problem(LISTEN "models:\n"
                          "  a: {kind: vllm, price: [{input: 1, output: 1}], aliases: [b],\n"
                          "    replicas: [{name: r, url: \"http://h\"}]}\n" MODEL("b") TENANTS,
                   "f:3: models.a.aliases[0]: expected a name that no other model or alias has");
    assert_problem(LISTEN "models:\n  a: {kind: vllm, price: [{input: 1, output: 1}], replicas:\n"
                          "    [{name: r, url: \"http://h\"}, {name: r, url: \"http://i\"}]}\n",
                   "f:4: models.a.replicas[1].name: expected a name that no other replica");
    assert_problem(LISTEN MODELS TENANTS "classes: [{name: c}, {name: c}]\n",
                   "f:5: classes[1].name: expected a name that no other class has (see line 5)\n");
    assert_problem(LISTEN "models:\n" MODEL("auto"), "models.auto: expected another name");
}

/* Replicas of two models, and key ids of two tenants, may have the same name. */
static void the_same_name_elsewhere_is_no_double(void **state)
{
    (void)state;
    struct config *config = NULL;
    struct config_problems problems;
    const char *text = LISTEN "models:\n" MODEL("a") MODEL("b") "tenants:\n"
                                                                "  t: {keys: [{id: k, key: x}]}\n"
                                                                "  u: {keys: [{id: k, key: y}]}\n";

    assert_int_equal(config_load_text("f", span_of(text), &config, &problems), OK);
    assert_null(problems.text);
    config_put(config);
}

static void a_name_that_is_pointed_to_must_exist(void **state)
{
    (void)state;

    assert_problem(LISTEN MODELS TENANTS "classes: [{name: c, model: smal}]\n",
                   "f:5: classes[0].model: expected a model, and \"smal\" is none (nearest known "
                   "model: small)\n");
    assert_problem(LISTEN MODELS "tenants: {t: {keys: [{id: k, key: s}], models: [large]}}\n",
                   "f:4: tenants.t.models[0]: expected a model, and \"large\" is none");
    assert_problem(LISTEN "models:\n"
                          "  a: {kind: vllm, price: [{input: 1, output: 1}], fallback: [a, b],\n"
                          "    replicas: [{name: r, url: \"http://h\"}]}\n" TENANTS,
                   "f:3: models.a.fallback[0]: expected another model than itself\n"
                   "f:3: models.a.fallback[1]: expected a model, and \"b\" is none");
}

static void a_key_belongs_to_one_tenant(void **state)
{
    (void)state;
    char *problems = refused(LISTEN MODELS "tenants:\n"
                                           "  t: {keys: [{id: a, key: very-secret}]}\n"
                                           "  u: {keys: [{id: b, key: very-secret}]}\n");

    assert_string_equal(
        problems, "f:6: tenants.u.keys[0].key: expected a key that nobody else has (see line 5)\n");
    free(problems);
}

static void a_key_is_1_to_256_printable_bytes(void **state)
{
    (void)state;

    assert_problem(LISTEN MODELS "tenants: {t: {keys: [{id: a, key: \"\"}]}}\n",
                   "f:4: tenants.t.keys[0].key: expected a key of 1 to 256 printable ASCII");
    assert_problem(LISTEN MODELS "tenants: {t: {keys: [{id: a, key: \"a b\"}]}}\n",
                   "f:4: tenants.t.keys[0].key: expected a key of 1 to 256 printable ASCII");
    assert_problem(LISTEN MODELS "tenants: {t: {keys: [{id: a, key: \"sha256:12\"}]}}\n",
                   "f:4: tenants.t.keys[0].key: expected 64 lower-case hex digits after sha256:");
}

static void a_price_is_whole_and_later_than_the_one_before(void **state)
{
    (void)state;
    const char *const text = LISTEN "models:\n"
                                    "  a:\n"
                                    "    kind: vllm\n"
                                    "    price:\n"
                                    "      - {from: 2026-02-01, input: 0.0000001, output: 1}\n"
                                    "      - {from: 2026-01-01, input: 1, output: 1}\n"
                                    "    replicas: [{name: r, url: \"http://h\"}]\n";

    assert_problem(text, "f:6: models.a.price[0].input: expected USD per million tokens");
    assert_problem(text, "f:7: models.a.price[1]: expected a later date in from");
}

/* A price list of model m, from line 2 on; each line of it one more. */
#define PRICED(price)                                                                              \
    LISTEN "models: {m: {kind: vllm, price: [\n" price                                             \
           "], replicas: [{name: r, url: \"http://h\"}]}}\n" TENANTS

static void prices_leave_no_gap_and_do_not_overlap(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const char *line;
    } cases[] = {
        {PRICED("{from: 2026-01-01, until: 2026-02-01, input: 1, output: 1},\n"
                "{from: 2026-02-02, input: 1, output: 1}"),
         "f:4: models.m.price[1]: expected from to be the until of the price before it: nothing"},
        {PRICED("{from: 2026-01-01, until: 2026-02-02, input: 1, output: 1},\n"
                "{from: 2026-02-01, input: 1, output: 1}"),
         "f:4: models.m.price[1]: expected from to be the until of the price before it: both"},
        {PRICED(
             "{from: 2026-01-01, input: 1, output: 1},\n{from: 2026-01-01, input: 1, output: 1}"),
         "f:4: models.m.price[1]: expected a later date in from"},
        {PRICED("{from: 2026-01-01, until: 2026-01-01, input: 1, output: 1}"),
         "f:3: models.m.price[0]: expected until to be later than from"},
        {PRICED("{from: 2999-01-01, input: 1, output: 1}"),
         "f:2: models.m.price: expected a price that holds today: the first one begins later"},
        {PRICED("{until: 2001-01-01, input: 1, output: 1}"),
         "f:2: models.m.price: expected a price that holds today: the last one has ended"},
        {PRICED("{from: 2026-02-30, input: 1, output: 1}"),
         "f:3: models.m.price[0].from: expected a date"},
        {PRICED(""), "f:2: models.m.price: expected 1 to 1024 items, got 0"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_problem(cases[i].text, cases[i].line);
}

static void odd_prices_are_refused_with_their_key(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const char *line;
    } cases[] = {
        {PRICED("{output: 1}"), "f:3: models.m.price[0].input: required, but not there"},
        {PRICED("{input: 1}"), "f:3: models.m.price[0].output: required, but not there"},
        {PRICED("{input: -1, output: 1}"),
         "f:3: models.m.price[0].input: expected USD per million"},
        {PRICED("{input: 1e-3, output: 1}"), "f:3: models.m.price[0].input: expected USD"},
        {PRICED("{input: 1000001, output: 1}"), "f:3: models.m.price[0].input: expected USD"},
        {PRICED("{input: 1, output: .nan}"), "f:3: models.m.price[0].output: expected USD"},
        {PRICED("{input: 1, output: 1, cached_input: 0.0000001}"),
         "f:3: models.m.price[0].cached_input: expected USD"},
        {PRICED("{input: 1, output: 1, brackets: []}"),
         "f:3: models.m.price[0].brackets: expected 1 to 3 items, got 0"},
        {PRICED("{input: 1, output: 1, brackets: [{above: 1, input: 1, output: 1},\n"
                "{above: 1, input: 1, output: 1}]}"),
         "f:4: models.m.price[0].brackets[1].above: expected more than in the item before it"},
        {PRICED("{input: 1, output: 1, brackets: [{above: 0, input: 1, output: 1}]}"),
         "f:3: models.m.price[0].brackets[0].above: expected a whole number from 1 to "
         "1000000000000"},
        {PRICED("{input: 1, output: 1, brackets: [{input: 1, output: 1}]}"),
         "f:3: models.m.price[0].brackets[0].above: required, but not there"},
        {PRICED("{input: 1, output: 1, brackets: [{above: 5, input: 1, output: -1}]}"),
         "f:3: models.m.price[0].brackets[0].output: expected USD"},
        {PRICED("{input: 1, output: 1, bracket_mode: marginal}"),
         "f:3: models.m.price[0].bracket_mode: expected brackets beside it"},
        {PRICED("{input: 1, output: 1, bracket_from: at}"),
         "f:3: models.m.price[0].bracket_from: expected brackets beside it"},
        {PRICED("{input: 1, output: 1, bracket_mode: half, brackets: [{above: 5, input: 1, output: "
                "1}]}"),
         "f:3: models.m.price[0].bracket_mode: expected whole_request or marginal"},
        {PRICED("{input: 1, output: 1, volume_mode: whole}"),
         "f:3: models.m.price[0].volume_mode: expected volume beside it"},
        {PRICED("{input: 1, output: 1, volume: [{above: 5, factor: 1.1}]}"),
         "f:3: models.m.price[0].volume[0].factor: expected a factor of at most 1"},
        {PRICED("{input: 1, output: 1, volume: [{above: 5}]}"),
         "f:3: models.m.price[0].volume[0].factor: required, but not there"},
        {PRICED("{input: 1, output: 1, volume: [{above: 5, factor: 1}, {above: 4, factor: 1}]}"),
         "f:3: models.m.price[0].volume[1].above: expected more than in the item before it"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_problem(cases[i].text, cases[i].line);
}

static void a_tiers_factor_leaves_whole_picodollars(void **state)
{
    (void)state;

    assert_problem(
        PRICED("{input: 0.000001, output: 1, tiers: {flex: 0.5}}"),
        "f:3: models.m.price[0].tiers.flex: expected a factor that leaves every price of "
        "this row at 6 places");
    assert_problem(PRICED("{input: 1, output: 1, cached_input: 0.000003, tiers: {priority: 1.5}}"),
                   "f:3: models.m.price[0].tiers.priority: expected a factor that leaves");
    assert_problem(PRICED("{input: 1, output: 1, tiers: {flex: 0.5}, brackets: [{above: 9, input: "
                          "1, output: 0.000001}]}"),
                   "f:3: models.m.price[0].tiers.flex: expected a factor that leaves");
    assert_problem(PRICED("{input: 1, output: 1, tiers: {flex: 0.0000001}}"),
                   "f:3: models.m.price[0].tiers.flex: expected a factor as decimal text");
    assert_problem(PRICED("{input: 1, output: 1, tiers: {gold: 2}}"),
                   "f:3: models.m.price[0].tiers.gold: not known");
}

static void prices_that_look_wrong_are_warned_of(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const char *line;
    } cases[] = {
        {PRICED("{input: 2, output: 1}"),
         "f:3: models.m.price[0].input: warning: dearer than output: is that meant?\n"},
        {PRICED("{input: 1, output: 1, cached_input: 1.1}"),
         "f:3: models.m.price[0].cached_input: warning: dearer than input: is that meant?\n"},
        {PRICED("{input: 1, output: 1, brackets: [{above: 5, input: 2, output: 1}]}"),
         "f:3: models.m.price[0].brackets[0].input: warning: dearer than output: is that meant?\n"},
        {PRICED("{input: 1, output: 1, until: 2999-01-01}"),
         "f:2: models.m.price: warning: the last one has an end: from then on the model is "
         "refused\n"},
        {PRICED("{input: 1, output: 0}"), NULL}, /* as for embeddings */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config *config = NULL;
        struct config_problems problems;

        assert_int_equal(config_load_text("f", span_of(cases[i].text), &config, &problems), OK);
        if (cases[i].line == NULL)
            assert_null(problems.text);
        else
            assert_string_equal(problems.text, cases[i].line);
        config_problems_free(&problems);
        config_put(config);
    }
}

/* A model with this member. */
#define WITH(member)                                                                               \
    LISTEN "models: {m: {kind: vllm, price: [{input: 1, output: 1}],\n" member                     \
           ",\n replicas: [{name: r, url: \"http://h\"}]}}\n" TENANTS

static void template_and_part_tokens_are_in_range(void **state)
{
    (void)state;

    assert_problem(WITH("template_tokens: {fixed: -1}"),
                   "f:3: models.m.template_tokens.fixed: expected a whole number from 0 to");
    assert_problem(WITH("template_tokens: {per_message: 1.5}"),
                   "f:3: models.m.template_tokens.per_message: expected a whole number from 0 to");
    assert_problem(WITH("template_tokens: {schema: 10001%}"),
                   "f:3: models.m.template_tokens.schema: expected a share such as 200%");
    assert_problem(WITH("template_tokens: {schema: 2}"),
                   "f:3: models.m.template_tokens.schema: expected a share such as 200%");
    assert_problem(WITH("part_tokens: {image: 0}"),
                   "f:3: models.m.part_tokens.image: expected a whole number from 1 to");
    assert_problem(WITH("part_tokens: {picture: 1}"),
                   "f:3: models.m.part_tokens.picture: not known");
}

static void the_meter_is_told_whole(void **state)
{
    (void)state;

    assert_problem(LISTEN MODELS TENANTS "meter: {ledger: \"sqlite:/x\"}\n",
                   "f:5: meter: expected a journal");
    assert_problem(LISTEN MODELS TENANTS "meter: {durability: power}\n",
                   "f:5: meter: expected a journal");
    assert_problem(LISTEN MODELS TENANTS "meter: {journal: /j, ledger: /x}\n",
                   "f:5: meter.ledger: expected sqlite: and a path");
    assert_problem(LISTEN MODELS TENANTS "meter: {journal: /j, durability: disk}\n",
                   "f:5: meter.durability: expected process or power");
    assert_problem(LISTEN MODELS TENANTS "meter: {journal: /j, opex_factor: 1e3}\n",
                   "f:5: meter.opex_factor: expected a factor");
    assert_problem(LISTEN MODELS "tenants: {t: {keys: [{id: k, key: s}], zone: Mars/Olympus}}\n",
                   "f:4: tenants.t.zone: expected a time zone");
}

static void tls_is_said_whole_and_where_it_is_spoken(void **state)
{
    (void)state;

    assert_problem(LISTEN "models: {a: {kind: vllm, price: [{input: 1, output: 1}],\n"
                          "  replicas: [{name: r, url: \"http://h\", tls: {ca: x}}]}}\n",
                   "f:3: models.a.replicas[0].tls: expected a url that begins with https://\n");
    assert_problem("listen: [{address: \"127.0.0.1:1\", tls: {client_ca: x}}]\n" MODELS,
                   "f:1: listen[0].tls: expected a certificate\n");
    assert_problem(LISTEN "models: {a: {kind: vllm, price: [{input: 1, output: 1}],\n"
                          "  replicas: [{name: r, url: \"https://h\", tls: {key: x}}]}}\n",
                   "f:3: models.a.replicas[0].tls: expected a certificate for the key\n");
    assert_problem("listen: [{address: \"unix:/x\", mode: 0990}]\n" MODELS,
                   "f:1: listen[0].mode: expected permissions such as 0660");
}

static void listeners_stand_apart(void **state)
{
    (void)state;

    assert_problem("listen: [{address: \"127.0.0.1:1\"}, {address: \"127.0.0.1:1\"}]\n" MODELS,
                   "f:1: listen: expected 127.0.0.1:1 once\n");
    assert_problem("listen: [{address: \"unix:/a\"}, {address: \"unix:/a\"}]\n" MODELS,
                   "f:1: listen: expected unix:/a once\n");
    assert_problem(LISTEN "admin: {address: \"127.0.0.1:4000\"}\n" MODELS,
                   "f:2: admin.address: expected an address that clients do not use");
}

static void an_admin_listener_for_others_needs_a_token(void **state)
{
    (void)state;

    assert_problem(LISTEN "admin: {address: \"0.0.0.0:4001\"}\n" MODELS TENANTS,
                   "f:2: admin.token: required, as others than this machine reach 0.0.0.0:4001\n");
}

static void limits_fit_each_other(void **state)
{
    (void)state;

    assert_problem(LISTEN MODELS TENANTS "limits: {bodies_memory: 16MiB}\n",
                   "f:5: limits.bodies_memory: expected at least body_bytes");
}

static void problems_come_in_the_order_of_the_file_and_all_at_once(void **state)
{
    (void)state;
    char *problems = refused("workers: x\n" LISTEN "gateway: \"a b\"\n"
                             "models: {m: {kind: mlx, price: [{input: 1, output: 1}],\n"
                             "  replicas: [{name: r, url: \"http://h\"}]}}\n" TENANTS
                             "health: {most_out: 50}\n");
    const char *const places[] = {
        "f:1: workers: ", "f:3: gateway: ", "f:4: models.m.kind: ", "f:7: health.most_out: "};
    const char *at = problems;

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        at = strstr(at, places[i]);
        assert_non_null(at);
    }
    free(problems);
}

static void a_secret_is_never_repeated(void **state)
{
    (void)state;
    assert_int_equal(setenv("TOLLGATE_TEST_SECRET", "s3cret", 1), 0);

    char *problems =
        refused(LISTEN "admin: {address: \"${TOLLGATE_TEST_SECRET}\", token: \"s3c ret\"}\n"
                       "models: {a: {kind: \"${TOLLGATE_TEST_SECRET}\"}}\n");
    assert_null(strstr(problems, "s3c"));
    free(problems);
}

static void a_file_without_tenants_is_warned_about_and_used(void **state)
{
    (void)state;
    struct config *config = NULL;
    struct config_problems problems;

    assert_int_equal(config_load_text("f", span_of(LISTEN MODELS), &config, &problems), OK);
    assert_int_equal(problems.count, 1);
    assert_non_null(strstr(problems.text, "warning"));
    config_problems_free(&problems);
    config_put(config);
}

/* However a file is cut, it is taken or refused with a reason. */
static void every_cut_of_a_file_is_judged(void **state)
{
    (void)state;
    static const char text[] = LISTEN "models:\n" MODEL("a") MODEL("b") TENANTS
        "classes: [{name: c, match: {header: {a: b}}, model: a}]\ntimeouts: {head: 1s}\n";

    for (size_t size = 0; size < sizeof(text) - 1; size++) {
        struct config *config = NULL;
        struct config_problems problems;
        const enum err err = config_load_text("f", (struct span){text, size}, &config, &problems);

        assert_true(err == OK ? config != NULL : problems.text != NULL);
        config_problems_free(&problems);
        config_put(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_key_comes_with_the_nearest_known_one),
        cmocka_unit_test(a_doubled_key_is_refused),
        cmocka_unit_test(what_is_required_and_not_there_is_said),
        cmocka_unit_test(a_wrong_type_is_named),
        cmocka_unit_test(a_value_out_of_range_comes_with_the_range),
        cmocka_unit_test(names_are_one_of_a_kind),
        cmocka_unit_test(the_same_name_elsewhere_is_no_double),
        cmocka_unit_test(a_name_that_is_pointed_to_must_exist),
        cmocka_unit_test(a_key_belongs_to_one_tenant),
        cmocka_unit_test(a_key_is_1_to_256_printable_bytes),
        cmocka_unit_test(a_price_is_whole_and_later_than_the_one_before),
        cmocka_unit_test(prices_leave_no_gap_and_do_not_overlap),
        cmocka_unit_test(odd_prices_are_refused_with_their_key),
        cmocka_unit_test(a_tiers_factor_leaves_whole_picodollars),
        cmocka_unit_test(prices_that_look_wrong_are_warned_of),
        cmocka_unit_test(template_and_part_tokens_are_in_range),
        cmocka_unit_test(the_meter_is_told_whole),
        cmocka_unit_test(tls_is_said_whole_and_where_it_is_spoken),
        cmocka_unit_test(listeners_stand_apart),
        cmocka_unit_test(an_admin_listener_for_others_needs_a_token),
        cmocka_unit_test(limits_fit_each_other),
        cmocka_unit_test(problems_come_in_the_order_of_the_file_and_all_at_once),
        cmocka_unit_test(a_secret_is_never_repeated),
        cmocka_unit_test(a_file_without_tenants_is_warned_about_and_used),
        cmocka_unit_test(every_cut_of_a_file_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
