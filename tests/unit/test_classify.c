/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_classify.c: task classes by rule (router/classify.c).
 *
 * Promises:  1. The first rule of which every part agrees wins.
 *            2. A class asked for by name wins over rules, said in the header or in the body.
 *            3. A rule on x-task-class is met by the body's metadata too.
 *            4. A pattern does not match what is absent.
 *            5. The reason says which way it was found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "router/router.h"

/* One request header, as the gateway would show it. */
struct one_header {
    struct span name, value;
};

static struct span find_header(const void *owner, struct span name)
{
    const struct one_header *header = owner;

    return span_equal(header->name, name) ? header->value : (struct span){NULL, 0};
}

static struct config_class any_class(const char *name)
{
    return (struct config_class){.name = span_of(name), .min_bytes = -1, .max_bytes = -1};
}

static const char *class_of(struct config_class *classes, uint32_t count,
                            const struct router_ask *ask, const char **out_why)
{
    const struct config config = {.classes = classes, .class_count = count};
    const struct config_class *class = router_classify(&config, ask, out_why);

    return class ? class->name.data : "(none)";
}

static void every_part_of_a_rule_must_agree(void **state)
{
    (void)state;
    struct config_header_match team = {SPAN("x-team"), SPAN("sea*")};
    struct config_class full = any_class("full");
    full.endpoint = ENDPOINT_CHAT;
    full.headers = &team;
    full.header_count = 1;
    full.model_asked = SPAN("gpt-*");
    full.system_prompt = SPAN("*code*");
    full.tools = YES;
    full.images = NO;
    full.schema = YES;
    full.min_bytes = 100;
    full.max_bytes = 200;
    const struct one_header header = {SPAN("x-team"), SPAN("Search")};
    const struct router_ask agreeing = {.endpoint = ENDPOINT_CHAT,
                                        .model_asked = SPAN("GPT-4o"),
                                        .system_prompt = SPAN("You write Code well"),
                                        .tools = true,
                                        .schema = true,
                                        .body_bytes = 100,
                                        .header = find_header,
                                        .header_owner = &header};
    struct router_ask broken[10];
    const char *why = NULL;

    assert_string_equal(class_of(&full, 1, &agreeing, &why), "full");
    assert_string_equal(why, "rule");

    for (size_t i = 0; i < 10; i++)
        broken[i] = agreeing;
    broken[0].endpoint = ENDPOINT_COMPLETIONS;
    broken[1].model_asked = SPAN("llama");
    broken[2].system_prompt = SPAN("You cook");
    broken[3].system_prompt = (struct span){NULL, 0};
    broken[4].tools = false;
    broken[5].images = true;
    broken[6].schema = false;
    broken[7].body_bytes = 99;
    broken[8].body_bytes = 201;
    broken[9].header = NULL;
    for (size_t i = 0; i < 10; i++) {
        assert_string_equal(class_of(&full, 1, &broken[i], &why), "(none)");
        assert_string_equal(why, "none");
    }
}

static void the_first_rule_that_matches_wins(void **state)
{
    (void)state;
    struct config_class classes[3] = {any_class("tools"), any_class("chat"), any_class("default")};
    classes[0].tools = YES;
    classes[1].endpoint = ENDPOINT_CHAT;
    const struct router_ask tools = {.endpoint = ENDPOINT_CHAT, .tools = true};
    const struct router_ask chat = {.endpoint = ENDPOINT_CHAT};
    const struct router_ask other = {.endpoint = ENDPOINT_EMBEDDINGS};
    const char *why = NULL;

    assert_string_equal(class_of(classes, 3, &tools, &why), "tools");
    assert_string_equal(class_of(classes, 3, &chat, &why), "chat");
    assert_string_equal(class_of(classes, 3, &other, &why), "default");
    assert_string_equal(why, "rule");
}

static void a_class_asked_for_by_name_wins_over_rules(void **state)
{
    (void)state;
    struct config_class classes[2] = {any_class("default"), any_class("code")};
    const struct one_header header = {SPAN("x-task-class"), SPAN("code")};
    const struct router_ask by_header = {
        .class_asked = SPAN("code"), .header = find_header, .header_owner = &header};
    const struct router_ask by_body = {.class_asked = SPAN("code")};
    const char *why = NULL;

    assert_string_equal(class_of(classes, 2, &by_header, &why), "code");
    assert_string_equal(why, "header");
    assert_string_equal(class_of(classes, 2, &by_body, &why), "code");
    assert_string_equal(why, "metadata");
}

static void a_rule_on_the_task_class_header_is_met_by_metadata_too(void **state)
{
    (void)state;
    struct config_header_match match = {SPAN("x-task-class"), SPAN("summar*")};
    struct config_class classes[2] = {any_class("short"), any_class("default")};
    classes[0].headers = &match;
    classes[0].header_count = 1;
    const struct router_ask by_body = {.class_asked = SPAN("Summarise")};
    const struct router_ask unasked = {.endpoint = ENDPOINT_CHAT};
    const char *why = NULL;

    assert_string_equal(class_of(classes, 2, &by_body, &why), "short");
    assert_string_equal(why, "metadata");
    assert_string_equal(class_of(classes, 2, &unasked, &why), "default");
    assert_string_equal(why, "rule");
}

static void a_class_nobody_knows_is_as_none(void **state)
{
    (void)state;
    struct config_class classes[1] = {any_class("default")};
    const struct router_ask ask = {.class_asked = SPAN("poetry")};
    const char *why = NULL;

    assert_string_equal(class_of(classes, 1, &ask, &why), "default");
    assert_string_equal(why, "rule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_a_rule_must_agree),
        cmocka_unit_test(the_first_rule_that_matches_wins),
        cmocka_unit_test(a_class_asked_for_by_name_wins_over_rules),
        cmocka_unit_test(a_rule_on_the_task_class_header_is_met_by_metadata_too),
        cmocka_unit_test(a_class_nobody_knows_is_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
