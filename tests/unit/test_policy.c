/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_policy.c: which models may serve an ask (router/policy.c).
 *
 * Promises:  1. The class's model comes before the one asked for; then its fallbacks, each once.
 *            2. Only allowed models; one asked for by name that is not allowed yields none.
 *            3. "auto" takes the cheapest allowed first.
 *            4. Never more than MODEL_CANDIDATES_MAX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "router/router.h"

#define MODELS 12

static const struct model_set all = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

/* A snapshot of models m0 … m11, whose prices fall with the number; m5 is the cheapest of all. m0
 * falls back to m2 and m3. */
static struct config *house_of_twelve(void)
{
    char text[8192] = "listen: [{address: \"127.0.0.1:0\"}]\nmodels:\n";
    size_t size = strlen(text);
    struct config *config = NULL;
    struct config_problems problems = {0};

    for (int i = 0; i < MODELS; i++) {
        int output = i == 5 ? 1 : 200;
        int wrote = snprintf(text + size, sizeof(text) - size,
                             "  m%d:\n"
                             "    kind: vllm\n"
                             "    price: [{from: 2026-01-01, input: \"%d\", output: \"%d\"}]\n"
                             "    replicas: [{name: r, url: \"http://127.0.0.1:8001\", slots: 1}]\n"
                             "%s",
                             i, 100 - i, output, i == 0 ? "    fallback: [m2, m3]\n" : "");
        size += (size_t)wrote;
    }
    if (config_load_text("test", (struct span){text, size}, &config, &problems) != OK)
        fail_msg("%s", problems.text);
    config_problems_free(&problems);
    return config;
}

/* The set of these models, by number. */
static struct model_set only(const struct config *config, size_t count, const char *const *names)
{
    struct model_set set = {{0}};

    for (size_t i = 0; i < count; i++) {
        uint32_t index = config_find_model(config, span_of(names[i]))->index;
        set.bits[index / 64] |= UINT64_C(1) << (index % 64);
    }
    return set;
}

static void assert_model(const struct config_model *model, const char *name)
{
    assert_true(span_equal(model->name, span_of(name)));
}

static void the_model_asked_for_comes_first_then_its_fallbacks_once(void **state)
{
    (void)state;
    struct config *config = house_of_twelve();
    const struct config_model *models[MODEL_CANDIDATES_MAX];

    assert_int_equal(router_choose(config, NULL, SPAN("m0"), &all, models), 3);

    assert_model(models[0], "m0");
    assert_model(models[1], "m2");
    assert_model(models[2], "m3");
    config_put(config);
}

static void the_model_of_the_class_wins_over_the_one_asked_for(void **state)
{
    (void)state;
    struct config *config = house_of_twelve();
    const struct config_model *models[MODEL_CANDIDATES_MAX];
    const struct config_class class = {.name = SPAN("code"),
                                       .model = config_find_model(config, SPAN("m7"))};

    assert_int_equal(router_choose(config, &class, SPAN("m0"), &all, models), 1);

    assert_model(models[0], "m7");
    config_put(config);
}

static void only_allowed_models_are_candidates(void **state)
{
    (void)state;
    struct config *config = house_of_twelve();
    const struct config_model *models[MODEL_CANDIDATES_MAX];
    const struct config_class class = {.name = SPAN("any"),
                                       .model = config_find_model(config, SPAN("m0"))};
    const struct model_set m0_and_m3 = only(config, 2, (const char *const[]){"m0", "m3"});
    const struct model_set m3 = only(config, 1, (const char *const[]){"m3"});

    assert_int_equal(router_choose(config, NULL, SPAN("m0"), &m0_and_m3, models), 2);
    assert_model(models[1], "m3");
    assert_int_equal(router_choose(config, NULL, SPAN("m0"), &m3, models), 0);
    assert_int_equal(router_choose(config, NULL, SPAN("nobody"), &all, models), 0);
    /* The operator's class may fall back where a client's wish may not. */
    assert_int_equal(router_choose(config, &class, SPAN("m9"), &m3, models), 1);
    assert_model(models[0], "m3");
    config_put(config);
}

static void auto_takes_the_cheapest_allowed_first(void **state)
{
    (void)state;
    struct config *config = house_of_twelve();
    const struct config_model *models[MODEL_CANDIDATES_MAX];
    const struct model_set some = only(config, 3, (const char *const[]){"m1", "m5", "m9"});

    assert_int_equal(router_choose(config, NULL, SPAN("auto"), &some, models), 3);
    assert_model(models[0], "m5");
    assert_model(models[1], "m9");
    assert_model(models[2], "m1");

    assert_int_equal(router_choose(config, NULL, SPAN("auto"), &all, models), MODEL_CANDIDATES_MAX);
    assert_model(models[0], "m5");
    assert_model(models[1], "m11");
    assert_model(models[7], "m4"); /* m5, m11 … m6, m4 */
    config_put(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_asked_for_comes_first_then_its_fallbacks_once),
        cmocka_unit_test(the_model_of_the_class_wins_over_the_one_asked_for),
        cmocka_unit_test(only_allowed_models_are_candidates),
        cmocka_unit_test(auto_takes_the_cheapest_allowed_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
