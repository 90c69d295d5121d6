/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_import_litellm.c: the promises of config/import_litellm.h.
 *
 * - A price per token becomes one per million tokens exactly, or is refused.
 * - A provider becomes a kind, an address and the name that its servers know.
 * - References to the environment stay references; none is looked up.
 * - No text of a file, cut anywhere, gets more than a map or a refusal, and what is made of it is a
 *   configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/import_litellm.h"

static void a_price_moves_its_point_and_is_exact(void **state)
{
    (void)state;
    static const struct {
        const char *per_token;
        const char *per_million;
    } cases[] = {
        {"1.5e-07", "0.15"},
        {"1.5E-7", "0.15"},
        {"0.00000015", "0.15"},
        {".15e-6", "0.15"},
        {"5e-08", "0.05"},
        {"3e-6", "3"},
        {"0.000003", "3"},
        {"0.00003", "30"},
        {"1.25e-8", "0.0125"},
        {"1e-12", "0.000001"},
        {"1.234567e-06", "1.234567"},
        {"0.000001234567000", "1.234567"},
        {"12.5e-06", "12.5"},
        {"0.1", "100000"},
        {"1", "1000000"},
        {"1.0", "1000000"},
        {"+2.5e-06", "2.5"},
        {"1e-6", "1"},
        {"0", "0"},
        {"0.0", "0"},
        {"0e-300", "0"},
        {"1.1", NULL}, /* over a million USD per million tokens */
        {"1e1", NULL},
        {"1e-13", NULL}, /* finer than a picodollar */
        {"1.0000001e-6", NULL},
        {"-1e-6", NULL},
        {"", NULL},
        {".", NULL},
        {"e-6", NULL},
        {"1e", NULL},
        {"1e-", NULL},
        {"1e-9999", NULL},
        {"1.2.3", NULL},
        {"1,5e-7", NULL},
        {"nan", NULL},
        {"inf", NULL},
        {"$0.1", NULL},
        {"0.00000000000000000000000000000000000000000000000000000000000000000000000000000000015",
         NULL},
        {"1111111111111111111111111111111111111111111111111111111111111111111111111e-80", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[IMPORT_PRICE_BYTES] = "untouched";
        const bool good = import_price(span_of(cases[i].per_token), text);

        if (good != (cases[i].per_million != NULL))
            fail_msg("\"%s\" gave %s", cases[i].per_token, good ? text : "nothing");
        assert_string_equal(text, good ? cases[i].per_million : "untouched");
    }
}

/* What one deployment with these litellm_params comes to. */
static struct config_import import_params(const char *params)
{
    struct config_import made;
    char text[1024];
    const int size = snprintf(text, sizeof(text),
                              "model_list: [{model_name: m, litellm_params: {%s}}]\n", params);

    assert_int_equal(import_litellm_text("t", (struct span){text, (size_t)size}, &made), OK);
    return made;
}

static void a_provider_becomes_a_kind_an_address_and_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        const char *parts[4]; /* of the new file; NULL first: the deployment is left out */
    } cases[] = {
        {"model: hosted_vllm/org/x, api_base: \"http://h:1/v1\"",
         {"kind: vllm", "url: \"http://h:1/v1\"}", "upstream_model: \"org/x\""}},
        {"model: vllm/x, api_base: \"http://h:1/v1/rerank/\"", {"url: \"http://h:1/v1\"}"}},
        {"model: vllm/x, api_base: \"http://h:1\"", {"kind: vllm", "upstream_model: \"x\""}},
        {"model: hosted_vllm/x", {"kind: vllm", "url: \"${HOSTED_VLLM_API_BASE}\"}"}},
        {"model: openai/x, api_base: \"http://h:1/v1\"",
         {"kind: openai", "url: \"http://h:1/v1\"}"}},
        {"model: openai/gpt-4o",
         {"kind: openai", "url: \"https://api.openai.com/v1\"", "key: \"${OPENAI_API_KEY}\""}},
        {"model: org/x, custom_llm_provider: openai, base_url: \"https://h/v1\"",
         {"kind: openai", "upstream_model: \"org/x\"", "url: \"https://h/v1\"}"}},
        {"model: huggingface/org/x, api_base: \"https://h\"", {"kind: tgi"}},
        {"model: llamafile/x", {"kind: llamacpp", "url: \"http://127.0.0.1:8080/v1\""}},
        {"model: ollama_chat/x", {"kind: openai", "url: \"http://127.0.0.1:11434\""}},
        {"model: vllm/x", {NULL}},
        {"model: huggingface/org/x", {NULL}},
        {"model: azure/x, api_base: \"https://h\"", {NULL}},
        {"model: anthropic/x", {NULL}},
        {"model: bedrock/x", {NULL}},
        {"model: gpt-4o", {NULL}},
        {"model: openai/", {NULL}},
        {"model: openai/x, api_base: \"http://u:p@h/v1\"", {NULL}},
        {"model: openai/x, api_base: \"http://u:p@${H}/v1\"", {NULL}},
        {"model: openai/x, api_base: \"http://h/v1?key=1\"", {NULL}},
        {"model: openai/x, api_base: \"ftp://h\"", {NULL}},
        {"api_base: \"http://h\"", {NULL}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_import made = import_params(cases[i].params);

        if (made.model_count != (cases[i].parts[0] != NULL ? 1 : 0))
            fail_msg("%s: %s", cases[i].params, made.notes.text);
        if (cases[i].parts[0] == NULL)
            assert_int_equal(made.left_out_count, 2); /* the deployment, and no master key */
        for (size_t k = 0; k < 4 && cases[i].parts[k] != NULL; k++)
            if (strstr(made.yaml, cases[i].parts[k]) == NULL)
                fail_msg("%s: no %s in %s", cases[i].params, cases[i].parts[k], made.yaml);
        config_import_free(&made);
    }
}

static void references_to_the_environment_stay_references(void **state)
{
    (void)state;
    assert_int_equal(setenv("TOLLGATE_TEST", "s3cret", 1), 0);
    static const char *const keys[] = {"os.environ/TOLLGATE_TEST", "\"${TOLLGATE_TEST}\""};

    for (size_t i = 0; i < 2; i++) {
        char params[200];

        (void)snprintf(params, sizeof(params),
                       "model: vllm/x, api_base: \"http://${TOLLGATE_TEST}:1/v1\", api_key: %s",
                       keys[i]);
        struct config_import made = import_params(params);

        assert_non_null(strstr(made.yaml, "url: \"http://${TOLLGATE_TEST}:1/v1\", "
                                          "key: \"${TOLLGATE_TEST}\""));
        assert_non_null(strstr(made.yaml, "#   TOLLGATE_TEST\n"));
        assert_null(strstr(made.yaml, "s3cret"));
        assert_null(strstr(made.notes.text, "s3cret"));
        config_import_free(&made);
    }
}

/* As many entries as fill a model and more: no note is lost, and the rest is said. */
static void what_does_not_fit_is_said(void **state)
{
    (void)state;
    struct config_import made;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    (void)fprintf(out, "general_settings: {master_key: os.environ/K}\nmodel_list:\n");
    for (int i = 0; i < 700; i++)
        (void)fprintf(
            out,
            "- {model_name: m, litellm_params: {model: vllm/x, api_base: \"http://h:%d\", "
            "rpm: 1}}\n",
            i + 1);
    assert_int_equal(fclose(out), 0);

    assert_int_equal(import_litellm_text("t", (struct span){text, size}, &made), OK);

    assert_int_equal(made.model_count, 1);
    assert_int_equal(made.replica_count, MODEL_REPLICAS_MAX);
    assert_int_equal(made.left_out_count, 700 + 700 - MODEL_REPLICAS_MAX);
    config_import_free(&made);
    free(text);
}

static const char whole[] =
    "model_list:\n"
    "- &d {model_name: a, litellm_params: {model: vllm/x, api_base: \"http://h:1/v1\", api_key: "
    "k,\n"
    "    input_cost_per_token: 1e-6}, model_info: {max_input_tokens: 10, mode: chat, id: i}}\n"
    "- {<<: *d, model_name: b}\n"
    "- {model_name: a, litellm_params: {<<: {model: openai/x}}}\n"
    "router_settings: {model_group_alias: {c: a, d: {model: b, hidden: true}}, num_retries: 1,\n"
    "  fallbacks: [{a: [b]}, {\"*\": [a]}], timeout: 1.5}\n"
    "litellm_settings: {cache: true, allowed_fails: 2, cooldown_time: 5}\n"
    "general_settings: {master_key: sk-1}\n";

static void every_cut_of_a_file_is_made_a_configuration_or_refused(void **state)
{
    (void)state;
    assert_int_equal(setenv("A_API_KEY", "k", 1), 0);
    assert_int_equal(setenv("OPENAI_API_KEY", "k", 1), 0);
    assert_int_equal(setenv("LITELLM_MASTER_KEY", "k", 1), 0);

    for (size_t size = 0; size < sizeof(whole); size++) {
        struct config_import made;
        const enum err err = import_litellm_text("t", (struct span){whole, size}, &made);

        assert_true(err == OK ? made.yaml != NULL : made.yaml == NULL && made.notes.count > 0);
        if (err == OK && made.model_count > 0) {
            struct config *config = NULL;
            struct config_problems problems;

            if (config_load_text("made", (struct span){made.yaml, made.yaml_size}, &config,
                                 &problems) != OK)
                fail_msg("%zu: %s%s", size, problems.text, made.yaml);
            assert_int_equal(config->model_count, made.model_count);
            config_problems_free(&problems);
            config_put(config);
        }
        config_import_free(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_price_moves_its_point_and_is_exact),
        cmocka_unit_test(a_provider_becomes_a_kind_an_address_and_a_name),
        cmocka_unit_test(references_to_the_environment_stay_references),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(every_cut_of_a_file_is_made_a_configuration_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
