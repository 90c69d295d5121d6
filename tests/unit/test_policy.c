/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_policy.c: which models may serve an ask (router/policy.c).
 *
 * Promises:  1. The class's model comes before the one asked for; then its fallbacks, each once.
 *            2. Only allowed models; one asked for by name that is not allowed yields none.
 *            3. "auto" takes the cheapest allowed first.
 *            4. Never more than MODEL_CANDIDATES_MAX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "router/router.h"

#define MODELS 12

/* m0 … m11; prices fall with the number but for m5, the cheapest. */
struct house {
    struct config config;
    struct config_model models[MODELS];
    struct price prices[MODELS];
    const struct config_model *fallback[3];
};

static const char *const names[MODELS] = {"m0", "m1", "m2", "m3", "m4",  "m5",
                                          "m6", "m7", "m8", "m9", "m10", "m11"};
static const struct model_set all = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

static void build(struct house *house)
{
    *house = (struct house){0};
    for (uint32_t i = 0; i < MODELS; i++) {
        house->prices[i] = (struct price){.input = 1000 - i, .output = i == 5 ? 1 : 2000};
        house->models[i] = (struct config_model){
            .name = span_of(names[i]), .index = i, .prices = &house->prices[i], .price_count = 1};
    }
    house->fallback[0] = &house->models[2];
    house->fallback[1] = &house->models[0];
    house->fallback[2] = &house->models[3];
    house->models[0].fallback = house->fallback;
    house->models[0].fallback_count = 3;
    house->config.models = house->models;
    house->config.model_count = MODELS;
}

static void the_model_asked_for_comes_first_then_its_fallbacks_once(void **state)
{
    (void)state;
    struct house house;
    const struct config_model *models[MODEL_CANDIDATES_MAX];
    build(&house);

    assert_int_equal(router_choose(&house.config, NULL, SPAN("m0"), &all, models), 3);

    assert_string_equal(models[0]->name.data, "m0");
    assert_string_equal(models[1]->name.data, "m2");
    assert_string_equal(models[2]->name.data, "m3");
}

static void the_model_of_the_class_wins_over_the_one_asked_for(void **state)
{
    (void)state;
    struct house house;
    const struct config_model *models[MODEL_CANDIDATES_MAX];
    build(&house);
    const struct config_class class = {.name = SPAN("code"), .model = &house.models[7]};

    assert_int_equal(router_choose(&house.config, &class, SPAN("m0"), &all, models), 1);

    assert_string_equal(models[0]->name.data, "m7");
}

static void only_allowed_models_are_candidates(void **state)
{
    (void)state;
    struct house house;
    const struct config_model *models[MODEL_CANDIDATES_MAX];
    build(&house);
    const struct config_class class = {.name = SPAN("any"), .model = &house.models[0]};
    const struct model_set m0_and_m3 = {{1u << 0 | 1u << 3}};
    const struct model_set m3 = {{1u << 3}};

    assert_int_equal(router_choose(&house.config, NULL, SPAN("m0"), &m0_and_m3, models), 2);
    assert_string_equal(models[1]->name.data, "m3");
    assert_int_equal(router_choose(&house.config, NULL, SPAN("m0"), &m3, models), 0);
    assert_int_equal(router_choose(&house.config, NULL, SPAN("nobody"), &all, models), 0);
    /* The operator's class may fall back where a client's wish may not. */
    assert_int_equal(router_choose(&house.config, &class, SPAN("m9"), &m3, models), 1);
    assert_string_equal(models[0]->name.data, "m3");
}

static void auto_takes_the_cheapest_allowed_first(void **state)
{
    (void)state;
    struct house house;
    const struct config_model *models[MODEL_CANDIDATES_MAX];
    build(&house);
    const struct model_set some = {{1u << 1 | 1u << 5 | 1u << 9}};

    assert_int_equal(router_choose(&house.config, NULL, SPAN("auto"), &some, models), 3);
    assert_string_equal(models[0]->name.data, "m5");
    assert_string_equal(models[1]->name.data, "m9");
    assert_string_equal(models[2]->name.data, "m1");

    assert_int_equal(router_choose(&house.config, NULL, SPAN("auto"), &all, models),
                     MODEL_CANDIDATES_MAX);
    assert_string_equal(models[0]->name.data, "m5");
    assert_string_equal(models[1]->name.data, "m11");
    assert_string_equal(models[7]->name.data, "m4"); /* m5, m11 … m6, m4 */
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
