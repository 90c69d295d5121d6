/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_multipart.c: the parts of a form.
 *
 * Promises: 1. Forms as clients send them are read: curl's, browsers', the SDKs'.
 *           2. What servers could read in two ways is refused.
 *           3. Parts, headers and boundaries are bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/multipart.h"

#define DATA "content-disposition: form-data; "

/* ---- boundaries ---- */

static void boundaries_are_found(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "multipart/form-data; boundary=b",
        "multipart/form-data;boundary=b",
        "Multipart/Form-Data; charset=utf-8; BOUNDARY=b",
        "multipart/form-data; boundary=\"b\"",
        "multipart/form-data; boundary=\"b\"; x=y;",
    };
    struct multipart form;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (!multipart_init(&form, span_of(fields[i]), SPAN("--b--")))
            fail_msg("not found: %s", fields[i]);
        assert_null(form.problem);
    }
    /* 70 bytes of each kind that RFC 2046 allows, a space within. */
    assert_true(multipart_init(
        &form,
        SPAN("multipart/form-data; boundary=\"0123456789"
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst'()+_,-./:=? z\""),
        SPAN("--0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst'()+_,-./:=? z--")));
    assert_null(form.problem);
}

static void the_field_that_servers_get_has_the_boundary_alone(void **state)
{
    (void)state;
    static const struct {
        const char *field, *written;
    } cases[] = {
        {"multipart/form-data; boundary=b", "multipart/form-data; boundary=b"},
        {"Multipart/Form-Data;charset=utf-8; BOUNDARY=\"b\"; x=y;",
         "multipart/form-data; boundary=b"},
        {"multipart/form-data; boundary*=utf-8''c; boundary=b", "multipart/form-data; boundary=b"},
        {"multipart/form-data; x=\"boundary=c\"; boundary=b", "multipart/form-data; boundary=b"},
        {"multipart/form-data; boundary=\"a b:c\"", "multipart/form-data; boundary=\"a b:c\""},
    };
    char room[MULTIPART_TYPE_BYTES];
    struct span field;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(multipart_write_type(span_of(cases[i].field), room, &field));
        if (!span_equal(field, span_of(cases[i].written)))
            fail_msg("%s: %.*s", cases[i].field, (int)field.size, field.data);
    }
    assert_true(
        multipart_write_type(SPAN("multipart/form-data; boundary=\"0123456789"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst'()+_,-./:=? z\""),
                             room, &field));
    assert_false(multipart_write_type(SPAN("multipart/form-data"), room, &field));
    assert_false(multipart_write_type(SPAN("application/json; boundary=b"), room, &field));
}

static void what_names_no_boundary_is_no_form(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "",
        "application/json",
        "multipart/mixed; boundary=b",
        "multipart/form-data",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"b",
        "multipart/form-data; boundary=\"b \"",
        "multipart/form-data; boundary=\"b\\c\"",
        "multipart/form-data; boundary=\"b@\"",
        "multipart/form-data; boundary=b; boundary=b",
        "multipart/form-data; boundary=b c",
        "multipart/form-datax; boundary=b",
        "multipart/form-data boundary=b",
    };
    struct multipart form;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (multipart_init(&form, span_of(fields[i]), SPAN("--b--")))
            fail_msg("taken: %s", fields[i]);
    assert_false(multipart_init(
        &form,
        SPAN("multipart/form-data; boundary=01234567890123456789012345678901234567890123456789"
             "012345678901234567890"),
        SPAN("--b--")));
}

/* ---- parts ---- */

static void forms_as_clients_send_them_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *head; /* of the one part */
        const char *name;
        bool file;
    } cases[] = {
        {"Content-Disposition: form-data; name=\"model\"\r\n", "model", false}, /* curl */
        {"Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n"
         "Content-Type: audio/wav\r\n",
         "file", true},
        {"content-disposition:form-data;name=model\r\n", "model", false},
        {"Content-Type: text/plain\r\nContent-Transfer-Encoding: Binary\r\n"
         "Content-Disposition: FORM-DATA; NAME=\"m\"\r\n",
         "m", false},
        {DATA "filename*=utf-8''%c3%a9.wav; name=\"file\"\r\n", "file", true},
        {DATA "name=\"file\"; filename=\"a\\\"b; name=model.wav\"\r\n", "file", true},
        {DATA "name=\"caf\xc3\xa9\"\r\nx-empty:\r\n", "caf\xc3\xa9", false},
        {DATA "name=\"\"\r\n", "", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[512];
        struct multipart form;
        struct multipart_part part;

        snprintf(body, sizeof(body), "--b\r\n%s\r\none\r\n--c\n--b\r\n\r\n--b--\r\n",
                 cases[i].head);
        assert_true(multipart_init(&form, SPAN("multipart/form-data; boundary=b"), span_of(body)));
        if (!multipart_next(&form, &part))
            fail_msg("%s: %s", cases[i].head, form.problem);
        assert_true(span_equal(part.name, span_of(cases[i].name)));
        assert_int_equal(part.file, cases[i].file);
        assert_true(span_equal(part.value, SPAN("one\r\n--c\n--b\r\n")));
        assert_false(multipart_next(&form, &part));
        assert_null(form.problem);
        assert_true(form.whole);
        assert_int_equal(form.count, 1);
    }
}

static void parts_may_be_empty_and_bytes_are_any(void **state)
{
    (void)state;
    static const char body[] =
        "--b\r\n" DATA "name=a\r\n\r\n\r\n--b\r\n" DATA "name=b\r\n\r\n\0\r\n\n-\x80\r\n--b--";
    struct multipart form;
    struct multipart_part part;

    assert_true(multipart_init(&form, SPAN("multipart/form-data; boundary=b"), SPAN(body)));
    assert_true(multipart_next(&form, &part));
    assert_int_equal(part.value.size, 0);
    assert_true(multipart_next(&form, &part));
    assert_true(span_equal(part.value, SPAN("\0\r\n\n-\x80")));
    assert_false(multipart_next(&form, &part));
    assert_true(form.whole);
}

/* ---- what is refused ---- */

static void what_can_be_read_in_two_ways_is_refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        "-",
        "--b",
        "--c--",
        "\r\n--b--",
        "preamble\r\n--b--",
        "--b\r\n",
        "--b \r\n" DATA "name=a\r\n\r\n1\r\n--b--",
        "--b\n" DATA "name=a\n\n1\n--b--",
        "--b\r\n" DATA "name=a\r\n\r\n1",
        "--b\r\n" DATA "name=a\r\n\r\n1\r\n--b",
        "--b\r\n" DATA "name=a\r\n\r\n1\r\n--bc\r\n--b--",
        "--b\r\n" DATA "name=a\r\n\r\n1\r\n--b-- ",
        "--b\r\n" DATA "name=a\r\n\r\n1\r\n--b--\r\nepilogue",
        "--b\r\n" DATA "name=a\r\n\r\n--b--",
        "--b\r\n" DATA "name=a\r\n\r\n--bc\r\n--b--",
        "--b\r\n" DATA "name=a\r\n--b: x\r\n\r\n1\r\n--b--",
        "--b\r\n--b\r\n" DATA "name=a\r\n\r\n1\r\n--b--",
        "--b\r\n--b: x\r\n" DATA "name=a\r\n\r\n1\r\n--b--",
        "--b\r\n\r\n1\r\n--b--",
        "--b\r\nx: y\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a\r\n name=b\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a\nx: y\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a; name=b\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a\r\n" DATA "name=b\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a\r\nx\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a\r\nx : y\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=\"a\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=\"mod\\el\"\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=\"a\" b\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name*=utf-8''a; name=b\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "filename=a\r\n\r\n1\r\n--b--",
        "--b\r\ncontent-disposition: attachment; name=a\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a\r\ncontent-transfer-encoding: base64\r\n\r\nMQ==\r\n--b--",
        "--b\r\n" DATA "name=a\r\ncontent-transfer-encoding: quoted-printable\r\n\r\n1\r\n--b--",
        "--b\r\n" DATA "name=a\x01\r\n\r\n1\r\n--b--",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct multipart form;
        struct multipart_part part;

        assert_true(
            multipart_init(&form, SPAN("multipart/form-data; boundary=b"), span_of(bodies[i])));
        while (multipart_next(&form, &part))
            ;
        if (form.problem == NULL)
            fail_msg("taken: %s", bodies[i]);
        assert_true(form.problem_at <= form.body.size);
        assert_false(form.whole);
        assert_false(multipart_next(&form, &part));
    }
}

/* A form of so many parts, each with so many headers of so many bytes beside its name. */
static const char *problem_of(unsigned parts, unsigned headers, unsigned bytes)
{
    static char body[1u << 20];
    struct multipart form;
    struct multipart_part part;
    size_t size = 0;

    for (unsigned i = 0; i < parts; i++) {
        size += (size_t)snprintf(body + size, sizeof(body) - size, "--b\r\n" DATA "name=a\r\n");
        for (unsigned k = 0; k < headers; k++)
            size +=
                (size_t)snprintf(body + size, sizeof(body) - size, "x:%0*d\r\n", (int)bytes - 4, 0);
        size += (size_t)snprintf(body + size, sizeof(body) - size, "\r\n1\r\n");
    }
    size += (size_t)snprintf(body + size, sizeof(body) - size, "--b--");
    assert_true(
        multipart_init(&form, SPAN("multipart/form-data; boundary=b"), (struct span){body, size}));
    while (multipart_next(&form, &part))
        ;
    return form.problem;
}

static void parts_and_headers_are_bounded(void **state)
{
    (void)state;
    const unsigned own = sizeof(DATA "name=a\r\n\r\n") - 1;

    assert_null(problem_of(64, 1, 10));
    assert_string_equal(problem_of(65, 1, 10), "the form has too many parts");
    assert_null(problem_of(1, 15, 10));
    assert_string_equal(problem_of(1, 16, 10), "a part has too many headers");
    assert_null(problem_of(1, 1, 8192 - own));
    assert_string_equal(problem_of(1, 1, 8193 - own), "the headers of a part are too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries_are_found),
        cmocka_unit_test(the_field_that_servers_get_has_the_boundary_alone),
        cmocka_unit_test(what_names_no_boundary_is_no_form),
        cmocka_unit_test(forms_as_clients_send_them_are_read),
        cmocka_unit_test(parts_may_be_empty_and_bytes_are_any),
        cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(parts_and_headers_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
