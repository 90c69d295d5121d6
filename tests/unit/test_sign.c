/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_sign.c: Ed25519 signatures and the files of their keys (config/base/sign.c).
 *
 * Promises:  1. Signatures are those of RFC 8032; any change of text, key or signature is seen.
 *            2. A key that is not there is made once: its file for its owner alone, the public one
 *               beside it.
 *            3. A key that others may read, or that is none of ours, is refused by name.
 *            4. A key's name is from its public bytes; another key's public file beside a private
 * one is kept under its name. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/sign.h"
#include "config/base/span.h"

static char home[64], key_path[96], public_path[96];
static char problem[512];

static int start(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/tollgate-sign-XXXXXX");
    if (!mkdtemp(home))
        return 1;
    snprintf(key_path, sizeof(key_path), "%s/signing.key", home);
    snprintf(public_path, sizeof(public_path), "%s/signing.pub", home);
    return 0;
}

static int stop(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    return system(command);
}

static void write_text(const char *path, const char *text, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static mode_t mode_of(const char *path)
{
    struct stat about;

    assert_int_equal(stat(path, &about), 0);
    return about.st_mode & 07777;
}

static struct sign_key *make_key(void)
{
    struct sign_key *key = NULL;

    assert_int_equal(sign_key_open(key_path, true, &key, problem, sizeof(problem)), OK);
    return key;
}

static struct verify_key *open_public(const char *path)
{
    struct verify_key *key = NULL;

    assert_int_equal(verify_key_open(path, &key, problem, sizeof(problem)), OK);
    return key;
}

/* RFC 8032, 7.1, test 2: the seed 4ccd089b… behind the sixteen bytes that PKCS#8 puts before it. */
static const char rfc_key[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
                              "-----END PRIVATE KEY-----\n";
static const unsigned char rfc_signature[] = {
    0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8, 0x72, 0x0e, 0x82, 0x0b, 0x5f, 0x64, 0x25, 0x40,
    0xa2, 0xb2, 0x7b, 0x54, 0x16, 0x50, 0x3f, 0x8f, 0xb3, 0x76, 0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda,
    0x08, 0x5a, 0xc1, 0xe4, 0x3e, 0x15, 0x99, 0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c,
    0x38, 0x7b, 0x2e, 0xae, 0xb4, 0x30, 0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00};

/* Base64, by hand. */
static void spell(const unsigned char *bytes, size_t size, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < size; i += 3) {
        const unsigned one = bytes[i];
        const unsigned two = i + 1 < size ? bytes[i + 1] : 0;
        const unsigned three = i + 2 < size ? bytes[i + 2] : 0;
        *out++ = digits[one >> 2];
        *out++ = digits[(one & 3) << 4 | two >> 4];
        *out++ = i + 1 < size ? digits[(two & 15) << 2 | three >> 6] : '=';
        *out++ = i + 2 < size ? digits[three & 63] : '=';
    }
    *out = '\0';
}

static void signatures_are_those_of_the_rfc(void **state)
{
    (void)state;
    struct sign_key *key = NULL;
    char signature[SIGN_TEXT_BYTES], expected[SIGN_TEXT_BYTES];
    write_text(key_path, rfc_key, 0600);
    spell(rfc_signature, sizeof(rfc_signature), expected);

    assert_int_equal(sign_key_open(key_path, false, &key, problem, sizeof(problem)), OK);
    assert_int_equal(sign_text(key, SPAN("\x72"), signature), OK);

    assert_string_equal(signature, expected);
    sign_key_close(key);
}

static void any_change_is_seen(void **state)
{
    (void)state;
    struct sign_key *key = make_key();
    struct verify_key *public = open_public(public_path);
    char text[] = "{\"seq\":12,\"kind\":\"head\"";
    char signature[SIGN_TEXT_BYTES];
    assert_int_equal(sign_text(key, span_of(text), signature), OK);
    assert_true(verify_text(public, span_of(text), span_of(signature)));

    for (size_t i = 0; i < 8 * strlen(text); i++) {
        text[i / 8] = (char)(text[i / 8] ^ 1 << i % 8);
        assert_false(
            verify_text(public, (struct span){text, sizeof(text) - 1}, span_of(signature)));
        text[i / 8] = (char)(text[i / 8] ^ 1 << i % 8);
    }
    for (size_t i = 0; i < 8 * (SIGN_TEXT_BYTES - 1); i++) {
        const struct span changed = {signature, SIGN_TEXT_BYTES - 1};
        signature[i / 8] = (char)(signature[i / 8] ^ 1 << i % 8);
        assert_false(verify_text(public, span_of(text), changed));
        signature[i / 8] = (char)(signature[i / 8] ^ 1 << i % 8);
    }
    assert_false(verify_text(public, span_of(text), (struct span){signature, 87}));
    assert_false(verify_text(public, span_of(text), (struct span){NULL, 0}));
    assert_true(verify_text(public, span_of(text), span_of(signature)));
    verify_key_close(public);
    sign_key_close(key);
}

static void another_key_does_not_vouch(void **state)
{
    (void)state;
    struct sign_key *key = make_key();
    struct sign_key *other_private = NULL;
    char other_path[96], signature[SIGN_TEXT_BYTES];
    snprintf(other_path, sizeof(other_path), "%s/other.pem", home);
    write_text(other_path, rfc_key, 0600);
    assert_int_equal(sign_key_open(other_path, false, &other_private, problem, sizeof(problem)),
                     OK);
    sign_key_close(other_private);
    snprintf(other_path, sizeof(other_path), "%s/other.pub", home);
    struct verify_key *other = open_public(other_path);
    assert_int_equal(sign_text(key, SPAN("text"), signature), OK);

    assert_false(verify_text(other, SPAN("text"), span_of(signature)));

    assert_string_not_equal(verify_key_id(other), sign_key_id(key));
    verify_key_close(other);
    sign_key_close(key);
}

static void a_key_is_made_once_for_its_owner_alone(void **state)
{
    (void)state;
    char id[SIGN_KEY_ID_BYTES];
    const mode_t before = umask(022);
    struct sign_key *key = make_key();
    (void)umask(before);
    snprintf(id, sizeof(id), "%s", sign_key_id(key));
    assert_int_equal(strlen(id), SIGN_KEY_ID_BYTES - 1);
    sign_key_close(key);

    assert_int_equal(mode_of(key_path), 0600);
    assert_int_equal(mode_of(public_path), 0644);
    key = make_key();
    assert_string_equal(sign_key_id(key), id);
    sign_key_close(key);
    struct verify_key *public = open_public(public_path);
    assert_string_equal(verify_key_id(public), id);
    verify_key_close(public);
    /* who is given the private one in its place is told */
    assert_int_equal(verify_key_open(key_path, &public, problem, sizeof(problem)), ERR_BAD_VALUE);
}

static void a_lost_public_key_is_written_again(void **state)
{
    (void)state;
    sign_key_close(make_key());
    assert_int_equal(unlink(public_path), 0);

    struct sign_key *key = make_key();

    struct verify_key *public = open_public(public_path);
    assert_string_equal(verify_key_id(public), sign_key_id(key));
    verify_key_close(public);
    sign_key_close(key);
}

static void a_new_key_has_its_own_public_key_beside_it(void **state)
{
    (void)state;
    sign_key_close(make_key());
    assert_int_equal(unlink(key_path), 0);

    struct sign_key *key = make_key();

    struct verify_key *public = open_public(public_path);
    assert_string_equal(verify_key_id(public), sign_key_id(key));
    verify_key_close(public);
    sign_key_close(key);
}

static void another_keys_public_key_is_kept_beside_its_own(void **state)
{
    (void)state;
    char old_path[160], old_id[SIGN_KEY_ID_BYTES];
    struct sign_key *key = make_key();
    snprintf(old_id, sizeof(old_id), "%s", sign_key_id(key));
    sign_key_close(key);
    write_text(key_path, rfc_key, 0600); /* put in its place by hand */

    assert_int_equal(sign_key_check(key_path, problem, sizeof(problem)), OK);
    key = make_key();

    struct verify_key *public = open_public(public_path);
    assert_string_equal(verify_key_id(public), sign_key_id(key));
    verify_key_close(public);
    snprintf(old_path, sizeof(old_path), "%s/signing.%s.pub", home, old_id);
    public = open_public(old_path);
    assert_string_equal(verify_key_id(public), old_id);
    verify_key_close(public);
    sign_key_close(key);
}

static void a_key_that_is_not_there_is_not_made_unasked(void **state)
{
    (void)state;
    struct sign_key *key = NULL;

    assert_int_equal(sign_key_open(key_path, false, &key, problem, sizeof(problem)), ERR_BAD_VALUE);

    assert_non_null(strstr(problem, key_path));
    assert_int_not_equal(access(key_path, F_OK), 0);
}

static void a_key_that_others_may_read_is_refused(void **state)
{
    (void)state;
    struct sign_key *key = NULL;
    write_text(key_path, rfc_key, 0640);

    assert_int_equal(sign_key_open(key_path, true, &key, problem, sizeof(problem)), ERR_BAD_VALUE);

    assert_non_null(strstr(problem, "others may read it"));
}

static void what_is_no_key_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "not PEM",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        /* a P-256 key */
        "-----BEGIN EC PRIVATE KEY-----\n"
        "MHcCAQEEIAZA1cs+1dpwgAwgx4TZZuTykNpMGLl/jpOTK3pzEAGhoAoGCCqGSM49\n"
        "AwEHoUQDQgAE\n-----END EC PRIVATE KEY-----\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sign_key *key = NULL;
        struct verify_key *public = NULL;
        write_text(key_path, texts[i], 0600);
        assert_int_equal(sign_key_open(key_path, true, &key, problem, sizeof(problem)),
                         ERR_BAD_VALUE);
        assert_non_null(strstr(problem, "expected an Ed25519 private key"));
        assert_int_equal(verify_key_open(key_path, &public, problem, sizeof(problem)),
                         ERR_BAD_VALUE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(signatures_are_those_of_the_rfc, start, stop),
        cmocka_unit_test_setup_teardown(any_change_is_seen, start, stop),
        cmocka_unit_test_setup_teardown(another_key_does_not_vouch, start, stop),
        cmocka_unit_test_setup_teardown(a_key_is_made_once_for_its_owner_alone, start, stop),
        cmocka_unit_test_setup_teardown(a_lost_public_key_is_written_again, start, stop),
        cmocka_unit_test_setup_teardown(a_new_key_has_its_own_public_key_beside_it, start, stop),
        cmocka_unit_test_setup_teardown(another_keys_public_key_is_kept_beside_its_own, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_key_that_is_not_there_is_not_made_unasked, start, stop),
        cmocka_unit_test_setup_teardown(a_key_that_others_may_read_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(what_is_no_key_is_refused, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
