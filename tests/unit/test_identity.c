/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_identity.c: API key to tenant (gateway/identity.c).
 *
 * Promises:  1. Bearer in any case, or x-api-key; the bearer wins.
 *            2. A connection's last key is known again without a digest, but expires all the same.
 *            3. Unknown, expired and ill-formed keys are ERR_BAD_KEY, none at all ERR_NO_KEY. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/identity.h"

static struct config *config;

static int load(void **state)
{
    static const char text[] =
        "listen: [{address: \"127.0.0.1:0\"}]\n"
        "models: {m: {kind: vllm, price: [{from: 2026-01-01, input: \"1\", output: \"1\"}],\n"
        "             replicas: [{name: r, url: \"http://127.0.0.1:1\", slots: 1}]}}\n"
        "tenants: {acme: {keys: [{id: web, key: sk-good}, {id: old, key: sk-old, expires: "
        "2026-01-01}]}}\n";
    struct config_problems problems = {NULL, 0, 0};
    (void)state;
    const enum err err =
        config_load_text("test", (struct span){text, sizeof text - 1}, &config, &problems);
    if (problems.text)
        print_message("%s", problems.text);
    config_problems_free(&problems);
    return err == OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    config_put(config);
    return 0;
}

#define IN_2025_US INT64_C(1735700000000000)
#define IN_2027_US INT64_C(1800000000000000)

static void every_credential_has_its_answer(void **state)
{
    (void)state;
    const struct {
        const char *authorization, *api_key;
        int64_t wall_us;
        enum err err;
        const char *id;
    } cases[] = {
        {"Bearer sk-good", NULL, IN_2027_US, OK, "web"},
        {"bearer sk-good", NULL, IN_2027_US, OK, "web"},
        {"BEARER   sk-good", NULL, IN_2027_US, OK, "web"},
        {NULL, "sk-good", IN_2027_US, OK, "web"},
        {"Bearer sk-good", "sk-wrong", IN_2027_US, OK, "web"},
        {"Bearer sk-wrong", "sk-good", IN_2027_US, ERR_BAD_KEY, NULL},
        {"Bearer sk-old", NULL, IN_2025_US, OK, "old"},
        {"Bearer sk-old", NULL, IN_2027_US, ERR_BAD_KEY, NULL},
        {"Bearer sk-goo", NULL, IN_2027_US, ERR_BAD_KEY, NULL},
        {"Bearer sk-good ", NULL, IN_2027_US, ERR_BAD_KEY, NULL},
        {"Bearer sk-go\tod", NULL, IN_2027_US, ERR_BAD_KEY, NULL},
        {"Basic c2stZ29vZA==", NULL, IN_2027_US, ERR_NO_KEY, NULL},
        {"Bearer", NULL, IN_2027_US, ERR_NO_KEY, NULL},
        {NULL, NULL, IN_2027_US, ERR_NO_KEY, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct config_key *key = NULL;
        const enum err err = identity_find(config, span_of(cases[i].authorization),
                                           span_of(cases[i].api_key), cases[i].wall_us, NULL, &key);
        assert_int_equal(err, cases[i].err);
        if (err == OK)
            assert_true(span_equal(key->id, span_of(cases[i].id)));
    }
}

static void a_key_of_257_bytes_is_no_key(void **state)
{
    (void)state;
    char text[8 + 257];
    const struct config_key *key = NULL;
    memcpy(text, "Bearer ", 7);
    memset(text + 7, 'k', 257);

    assert_int_equal(identity_find(config, (struct span){text, 7 + 257}, (struct span){NULL, 0},
                                   IN_2027_US, NULL, &key),
                     ERR_BAD_KEY);
}

static void a_connection_s_key_is_remembered_but_never_past_its_expiry(void **state)
{
    (void)state;
    struct identity_memory memory = {NULL, 0, 0, NULL};
    const struct span none = {NULL, 0};
    const struct config_key *first = NULL, *second = NULL;

    assert_int_equal(
        identity_find(config, SPAN("Bearer sk-old"), none, IN_2025_US, &memory, &first), OK);
    assert_non_null(memory.text);
    assert_int_equal(
        identity_find(config, SPAN("Bearer sk-old"), none, IN_2025_US, &memory, &second), OK);
    assert_ptr_equal(first, second);
    assert_int_equal(
        identity_find(config, SPAN("Bearer sk-old"), none, IN_2027_US, &memory, &second),
        ERR_BAD_KEY);
    assert_int_equal(
        identity_find(config, SPAN("Bearer sk-olD"), none, IN_2025_US, &memory, &second),
        ERR_BAD_KEY);
    memory.generation++; /* another snapshot: its pointer may not be used */
    assert_int_equal(
        identity_find(config, SPAN("Bearer sk-good"), none, IN_2025_US, &memory, &second), OK);
    assert_true(span_equal(second->id, SPAN("web")));

    identity_forget(&memory);
    assert_null(memory.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_credential_has_its_answer),
        cmocka_unit_test(a_key_of_257_bytes_is_no_key),
        cmocka_unit_test(a_connection_s_key_is_remembered_but_never_past_its_expiry),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
