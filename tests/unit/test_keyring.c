/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_keyring.c: the public keys that an audit believes (meter/keyring.c).
 *
 * - Keys come from files and from folders of them; one that is there is not taken again.
 * - A key is found by its id alone.
 * - A folder without keys, a file that is none and too many keys are refused in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meter/keyring.h"

static char home[64];
static char problem[512];
static struct keyring keyring;

static int start(void **state)
{
    (void)state;
    (void)snprintf(home, sizeof(home), "/tmp/test_keyring_XXXXXX");
    keyring = (struct keyring){.count = 0};
    return mkdtemp(home) ? 0 : -1;
}

static int stop(void **state)
{
    char command[96];

    (void)state;
    keyring_close(&keyring);
    (void)snprintf(command, sizeof(command), "rm -r '%s'", home);
    return system(command);
}

/* A new pair in the folder; id: of the key. */
static void make_pair(int number, char id[SIGN_KEY_ID_BYTES])
{
    struct sign_key *key = NULL;
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/%d.key", home, number);
    assert_int_equal(sign_key_open(path, true, &key, problem, sizeof(problem)), OK);
    (void)snprintf(id, SIGN_KEY_ID_BYTES, "%s", sign_key_id(key));
    sign_key_close(key);
}

static void keys_come_from_files_and_folders_once(void **state)
{
    char ids[2][SIGN_KEY_ID_BYTES], path[96], text[KEYRING_TEXT_BYTES];

    (void)state;
    make_pair(0, ids[0]);
    make_pair(1, ids[1]);
    (void)snprintf(path, sizeof(path), "%s/1.pub", home);
    assert_int_equal(keyring_add(&keyring, path, problem, sizeof(problem)), OK);
    assert_string_equal(keyring_print(&keyring, text), ids[1]);
    assert_null(keyring_find(&keyring, span_of(ids[0])));
    assert_int_equal(keyring_add(&keyring, home, problem, sizeof(problem)), OK);
    assert_int_equal(keyring.count, 2);
    assert_ptr_equal(keyring_find(&keyring, span_of(ids[0])), &keyring.keys[1]);
    assert_ptr_equal(keyring_find(&keyring, span_of(ids[1])), &keyring.keys[0]);
    assert_null(keyring_find(&keyring, SPAN("")));
}

static void what_has_no_key_is_refused(void **state)
{
    char path[96];

    (void)state;
    assert_int_equal(keyring_add(&keyring, home, problem, sizeof(problem)), ERR_BAD_VALUE);
    assert_non_null(strstr(problem, home));
    (void)snprintf(path, sizeof(path), "%s/no.pub", home);
    assert_int_not_equal(keyring_add(&keyring, path, problem, sizeof(problem)), OK);
    assert_non_null(strstr(problem, path));
    assert_int_equal(keyring.count, 0);
}

static void keys_have_a_bound(void **state)
{
    char id[SIGN_KEY_ID_BYTES];

    (void)state;
    for (int i = 0; i <= (int)AUDIT_KEYS_MAX; i++)
        make_pair(i, id);
    assert_int_equal(keyring_add(&keyring, home, problem, sizeof(problem)), ERR_BAD_VALUE);
    assert_non_null(strstr(problem, "more than 32 public keys"));
    assert_int_equal(keyring.count, AUDIT_KEYS_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(keys_come_from_files_and_folders_once),
        TEST(what_has_no_key_is_refused),
        TEST(keys_have_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
