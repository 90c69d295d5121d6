/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_h1.c: HTTP/1.1 heads and bodies.
 *
 * Promises: 1. A sound head is read once, the same way whatever way its bytes were cut.
 *           2. What could be read in two ways is refused: framing, Host, line ends, names,
 * versions.
 *           3. Limits are judged before the head is whole, each with its own error.
 *           4. A chunked body gives the same bytes whatever way it was cut; broken framing is told.
 *           5. What is between two neighbours only is known by name and by Connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "gateway/h1.h"

static const struct h1_limits usual = {.line_bytes = 8192, .header_bytes = 65536, .fields = 100};
static struct h1_head head;

static enum h1_result parse(const char *text, enum err *out_err)
{
    const struct span bytes = span_of(text);
    size_t scanned = 0;
    size_t size = 0;
    enum h1_result result;

    *out_err = OK;
    result = h1_parse_request(bytes, &usual, &scanned, &head, &size, out_err);
    if (result == H1_DONE)
        assert_int_equal(size, bytes.size);
    return result;
}

static enum h1_result parse_answer(const char *text, const char *method)
{
    size_t scanned = 0;
    size_t size;
    enum err err = OK;
    const enum h1_result result =
        h1_parse_response(span_of(text), &usual, span_of(method), &scanned, &head, &size, &err);

    if (result == H1_BAD)
        assert_int_equal(err, ERR_REPLICA_PROTOCOL);
    return result;
}

static void assert_span(struct span actual, const char *expected)
{
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

/* ---- sound heads ---- */

static const char sound[] = "POST /v1/chat/completions?a=b HTTP/1.1\r\n"
                            "Host: gateway.example:4000\r\n"
                            "authorization:Bearer key\r\n"
                            "X-Text: \t cafe\t~ \t\r\n"
                            "X-Empty:\r\n"
                            "Content-Length: 17\r\n"
                            "\r\n";

static void a_sound_head_is_read(void **state)
{
    (void)state;
    enum err err;

    assert_int_equal(parse(sound, &err), H1_DONE);

    assert_span(head.method, "POST");
    assert_span(head.target, "/v1/chat/completions?a=b");
    assert_int_equal(head.minor, 1);
    assert_int_equal(head.framing, H1_LENGTH);
    assert_int_equal(head.content_length, 17);
    assert_true(head.keep_alive);
    assert_false(head.expect_continue);
    assert_int_equal(head.field_count, 5);
    assert_span(head.fields[1].name, "authorization");
    assert_span(head.fields[1].value, "Bearer key");
    assert_span(head.fields[3].value, "");
}

static void only_space_and_tab_are_trimmed(void **state)
{
    (void)state;
    enum err err;

    assert_int_equal(parse(sound, &err), H1_DONE);

    assert_span(head.fields[2].value, "cafe\t~");
}

static void a_head_byte_by_byte_reads_the_same(void **state)
{
    (void)state;
    size_t scanned = 0;
    size_t size = 0;
    enum err err;

    for (size_t given = 0; given < sizeof(sound) - 1; given++) {
        const struct span part = {sound, given};

        assert_int_equal(h1_parse_request(part, &usual, &scanned, &head, &size, &err), H1_MORE);
    }
    assert_int_equal(h1_parse_request(SPAN(sound), &usual, &scanned, &head, &size, &err), H1_DONE);

    assert_int_equal(size, sizeof(sound) - 1);
    assert_int_equal(head.field_count, 5);
    assert_int_equal(scanned, 0);
}

static void one_empty_line_before_the_head_is_passed(void **state)
{
    (void)state;
    enum err err;

    assert_int_equal(parse("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &err), H1_DONE);
    assert_span(head.target, "/");
}

static void bytes_behind_the_head_are_left(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
    size_t scanned = 0;
    size_t size = 0;
    enum err err;

    assert_int_equal(h1_parse_request(SPAN(text), &usual, &scanned, &head, &size, &err), H1_DONE);

    assert_int_equal(size, sizeof(text) - 1 - 9);
}

static void keep_alive_follows_version_and_connection(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep_alive;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nconnection: close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
    };
    enum err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].text, &err), H1_DONE);
        assert_int_equal(head.keep_alive, cases[i].keep_alive);
    }
}

static void targets_are_reduced_to_their_path(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *target; /* NULL: refused */
    } cases[] = {
        {"GET http://a.example:80/v1/x?y HTTP/1.1\r\nHost: A.example:80\r\n\r\n", "/v1/x?y"},
        {"GET HTTPS://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", "/"},
        {"GET http://a.example/x HTTP/1.0\r\n\r\n", "/x"},
        {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "*"},
        {"GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", NULL},
        {"GET http://a.example:81/ HTTP/1.1\r\nHost: a.example\r\n\r\n", NULL},
        {"GET http://user@a.example/ HTTP/1.1\r\nHost: user@a.example\r\n\r\n", NULL},
        {"GET http://a.example?q HTTP/1.1\r\nHost: a.example\r\n\r\n", NULL},
        {"GET http:///x HTTP/1.1\r\nHost: a.example\r\n\r\n", NULL},
        {"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", NULL},
        {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
        {"GET v1/models HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
        {"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
        {"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
        {"GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
    };
    enum err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const enum h1_result result = parse(cases[i].text, &err);

        if (cases[i].target == NULL) {
            assert_int_equal(result, H1_BAD);
            assert_int_equal(err, ERR_BAD_HTTP);
        } else {
            assert_int_equal(result, H1_DONE);
            assert_span(head.target, cases[i].target);
        }
    }
}

static void an_expectation_is_100_continue_or_refused(void **state)
{
    (void)state;
    enum err err;

    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n", &err),
                     H1_DONE);
    assert_true(head.expect_continue);
    assert_int_equal(parse("POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", &err),
                     H1_DONE);
    assert_false(head.expect_continue);
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", &err), H1_BAD);
    assert_int_equal(err, ERR_EXPECTATION);
}

static void connect_has_its_own_error(void **state)
{
    (void)state;
    enum err err;

    assert_int_equal(parse("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", &err), H1_BAD);
    assert_int_equal(err, ERR_NO_METHOD);
}

/* ---- what is refused ---- */

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"

static void what_reads_in_two_ways_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        /* two framings, or one in doubt */
        POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        POST "Content-Length: 5\r\ncontent-length: 5\r\n\r\n",
        POST "Content-Length: 5, 5\r\n\r\n",
        POST "Content-Length:\r\n\r\n",
        POST "Content-Length: +5\r\n\r\n",
        POST "Content-Length: -5\r\n\r\n",
        POST "Content-Length: 0x5\r\n\r\n",
        POST "Content-Length: 1_0\r\n\r\n",
        POST "Content-Length: 5 5\r\n\r\n",
        POST "Content-Length: \2405\r\n\r\n",
        POST "Content-Length: 5\x85\r\n\r\n",
        POST "Content-Length: 12345678901234567890\r\n\r\n",
        POST "Content-Length: 00000000000000000005\r\n\r\n",
        POST "Transfer-Encoding: ,chunked\r\n\r\n",
        POST "Transfer-Encoding: chunked,\r\n\r\n",
        POST "Transfer-Encoding: xchunked\r\n\r\n",
        POST "Transfer-Encoding: \"chunked\"\r\n\r\n",
        POST "Transfer-Encoding: identity\r\n\r\n",
        POST "Transfer-Encoding: gzip, chunked\r\n\r\n",
        POST "Transfer-Encoding:\r\n\r\n",
        POST "Transfer-Encoding: \vchunked\r\n\r\n",
        POST "Transfer-Encoding: \240chunked\r\n\r\n",
        POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        /* line ends */
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        GET "X: a\rb\r\n\r\n",
        GET "X: a\nb: c\r\n\r\n",
        GET "\rX: a\r\n\r\n",
        "\r\n\r\n" GET "\r\n",
        "\n" GET "\r\n",
        "\r" GET "\r\n",
        /* fields */
        GET "X : a\r\n\r\n",
        GET "X\t: a\r\n\r\n",
        GET " X: a\r\n\r\n",
        GET "X: a\r\n folded\r\n\r\n",
        GET "X: a\r\n\tfolded\r\n\r\n",
        GET ": a\r\n\r\n",
        GET "no colon\r\n\r\n",
        GET "nocolon\r\n\r\n",
        GET "X\xc3\xa9: a\r\n\r\n",
        GET "X: \xa0\r\n\r\n",
        GET "X: caf\xc3\xa9\r\n\r\n",
        GET "X(: a\r\n\r\n",
        GET "X: a\001b\r\n\r\n",
        GET "X: a\177b\r\n\r\n",
        GET "X: a\x1b[m\r\n\r\n",
        /* Host */
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: []\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: \240a\r\n\r\n",
        /* the first line */
        "GET / HTTP/1.32\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/11\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\r\nHost: a\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / a HTTP/1.1\r\nHost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    };
    enum err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (parse(cases[i], &err) != H1_BAD)
            fail_msg("accepted: %s", cases[i]);
        assert_int_equal(err, ERR_BAD_HTTP);
    }
}

static void nul_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX-y: z\r\n\r\n";

    for (size_t at = 0; at < sizeof(text) - 1; at++) {
        char bytes[sizeof(text)];
        size_t scanned = 0;
        size_t size;
        enum err err = OK;

        memcpy(bytes, text, sizeof(text));
        bytes[at] = '\0';
        if (h1_parse_request(SPAN(bytes), &usual, &scanned, &head, &size, &err) == H1_DONE)
            fail_msg("accepted NUL at %zu", at);
    }
}

static void hosts_of_every_form_are_taken(void **state)
{
    (void)state;
    static const char *const hosts[] = {"a", "a-b_c.example", "127.0.0.1:4000", "[::1]",
                                        "[fe80::1:2]:65535"};
    enum err err;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        char text[128];

        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
        assert_int_equal(parse(text, &err), H1_DONE);
    }
}

static void a_bare_lf_is_refused_when_the_head_drips(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\nHost: a\n\n";
    size_t scanned = 0;
    size_t size;
    enum err err = OK;
    enum h1_result result = H1_MORE;

    for (size_t given = 1; given < sizeof(text) && result == H1_MORE; given++)
        result = h1_parse_request((struct span){text, given}, &usual, &scanned, &head, &size, &err);

    assert_int_equal(result, H1_BAD);
    assert_int_equal(err, ERR_BAD_HTTP);
}

/* ---- limits ---- */

static void limits_are_judged_before_the_head_is_whole(void **state)
{
    (void)state;
    const struct h1_limits small = {.line_bytes = 20, .header_bytes = 200, .fields = 3};
    static const struct {
        const char *text;
        enum err err; /* OK: more is waited for */
    } cases[] = {
        {"GET /345678 HTTP/1.1\r\n", OK},
        {"GET /3456789 HTTP/1.1\r\n", ERR_PATH_TOO_LONG},
        {"GET /34567890123456789012345", ERR_PATH_TOO_LONG},
        {"\r\nGET /34567890123456789012345", ERR_PATH_TOO_LONG},
        {"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\n\r\n", OK},
        {"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\nC: ", ERR_HEADERS_TOO_LARGE},
        /* 105 bytes, and 3 fields make 96 more */
        {"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2345678901234567890123456789012345678901234567890"
         "123456789012345678\r\n\r\n",
         ERR_HEADERS_TOO_LARGE},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t scanned = 0;
        size_t size;
        enum err err = OK;
        const enum h1_result result =
            h1_parse_request(span_of(cases[i].text), &small, &scanned, &head, &size, &err);

        assert_int_equal(result == H1_BAD, cases[i].err != OK);
        assert_int_equal(err, cases[i].err);
    }
}

static void an_endless_head_ends_at_its_limit(void **state)
{
    (void)state;
    const struct h1_limits small = {.line_bytes = 100, .header_bytes = 300, .fields = 3};
    char text[400] = "GET / HTTP/1.1\r\nX: ";
    size_t given = strlen(text);
    size_t scanned = 0;
    size_t size;
    enum err err = OK;
    enum h1_result result = H1_MORE;

    memset(text + given, 'x', sizeof(text) - given);
    for (; result == H1_MORE; given++)
        result = h1_parse_request((struct span){text, given}, &small, &scanned, &head, &size, &err);

    assert_int_equal(err, ERR_HEADERS_TOO_LARGE);
    assert_int_equal(given, 302);
}

/* ---- answers ---- */

static void answers_are_framed_by_status_method_and_fields(void **state)
{
    (void)state;
    static const struct {
        const char *text, *method;
        enum h1_framing framing;
        bool keep_alive;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "POST", H1_LENGTH, true},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", "POST", H1_CHUNKED, true},
        {"HTTP/1.1 200 OK\r\n\r\n", "POST", H1_UNTIL_CLOSE, false},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", "POST", H1_UNTIL_CLOSE, false},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", "POST",
         H1_LENGTH, true},
        {"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", "POST", H1_LENGTH, true},
        {"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n", "POST", H1_LENGTH, true},
        {"HTTP/1.1 200 D\xc3\xa9j\xc3\xa0\tvu\r\nContent-Length: 3\r\n\r\n", "POST", H1_LENGTH,
         true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD", H1_NO_BODY, true},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", "GET", H1_NO_BODY, true},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "GET", H1_NO_BODY, true},
        {"HTTP/1.1 100 Continue\r\n\r\n", "POST", H1_NO_BODY, true},
        {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "POST", H1_NO_BODY, true},
        {"HTTP/1.1 503 Busy\r\nContent-Length: 3\r\nConnection: close\r\n\r\n", "POST", H1_LENGTH,
         false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse_answer(cases[i].text, cases[i].method), H1_DONE);
        assert_int_equal(head.framing, cases[i].framing);
        assert_int_equal(head.keep_alive, cases[i].keep_alive);
    }
}

static void answers_that_read_in_two_ways_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 99 Low\r\n\r\nxxxxxxxxx",
        "HTTP/1.1 600 High\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 3\n\n",
        "HTTP/1.1 200 O\rK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (parse_answer(cases[i], "POST") != H1_BAD)
            fail_msg("accepted: %s", cases[i]);
}

static void a_status_line_is_bounded(void **state)
{
    (void)state;
    const struct h1_limits small = {.line_bytes = 20, .header_bytes = 200, .fields = 3};
    size_t scanned = 0;
    size_t size;
    enum err err = OK;

    assert_int_equal(h1_parse_response(SPAN("HTTP/1.1 200 12345678\r\n\r\n"), &small, SPAN("POST"),
                                       &scanned, &head, &size, &err),
                     H1_BAD);
    assert_int_equal(err, ERR_REPLICA_PROTOCOL);
}

static void an_answer_byte_by_byte_reads_the_same(void **state)
{
    (void)state;
    static const char text[] = "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\n";
    size_t scanned = 0;
    size_t size = 0;
    enum err err;

    for (size_t given = 0; given < sizeof(text) - 1; given++)
        assert_int_equal(h1_parse_response((struct span){text, given}, &usual, SPAN("POST"),
                                           &scanned, &head, &size, &err),
                         H1_MORE);
    assert_int_equal(
        h1_parse_response(SPAN(text), &usual, SPAN("POST"), &scanned, &head, &size, &err), H1_DONE);

    assert_int_equal(head.status, 200);
    assert_int_equal(head.content_length, 3);
}

/* ---- hop by hop ---- */

static void fields_between_neighbours_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool hop;
    } cases[] = {
        {"Connection", true},    {"Keep-Alive", true},     {"Proxy-Connection", true},
        {"Upgrade", true},       {"X-Hop", true},          {"x-other", true},
        {"Content-Type", false}, {"X-Request-Id", false},  {"TE", true},
        {"X-Ho", false},         {"http2-settings", true}, {"Trailer", true},
    };

    assert_int_equal(parse_answer("HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\n"
                                  "X-Hop: 1\r\nconnection:X-Other\r\n\r\n",
                                  "POST"),
                     H1_DONE);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(h1_is_hop_by_hop(&head, span_of(cases[i].name)), cases[i].hop);
}

/* ---- bodies ---- */

/* Reads text in pieces of `step` bytes; the data goes to out. *out_rest is what was not read. */
static enum h1_piece read_body(struct h1_body *body, struct span text, size_t step, char *out,
                               size_t *out_size, size_t *out_rest)
{
    size_t given = 0;

    *out_size = 0;
    while (given < text.size) {
        const size_t size = text.size - given < step ? text.size - given : step;
        struct span bytes = {text.data + given, size};
        struct span data;

        given += size;
        for (;;) {
            const enum h1_piece piece = h1_body_next(body, &bytes, &data);

            if (piece == H1_PIECE_MORE) {
                assert_int_equal(bytes.size, 0);
                break;
            }
            if (piece != H1_PIECE_DATA) {
                *out_rest = bytes.size + text.size - given;
                return piece;
            }
            assert_true(data.size > 0);
            memcpy(out + *out_size, data.data, data.size);
            *out_size += data.size;
        }
    }
    *out_rest = 0;
    return H1_PIECE_MORE;
}

static void a_chunked_body_reads_the_same_however_cut(void **state)
{
    (void)state;
    static const char text[] = "5\r\nhello\r\n"
                               "0a;name=\"value\";x\t\r\n, world!\r\n\r\n"
                               "00\r\nTrailer-One: a \xc3\xa9\r\nTwo:\r\n\r\nrest";

    for (size_t step = 1; step <= sizeof(text); step++) {
        struct h1_body body;
        char out[sizeof(text)];
        size_t size;
        size_t rest;

        h1_body_init(&body, H1_CHUNKED, 0);
        assert_int_equal(read_body(&body, SPAN(text), step, out, &size, &rest), H1_PIECE_END);
        assert_int_equal(size, 15);
        assert_memory_equal(out, "hello, world!\r\n", 15);
        assert_int_equal(rest, 4);
    }
}

static void broken_chunks_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "\r\n",
        ";x\r\n",
        "+5\r\nhello\r\n",
        "-5\r\nhello\r\n",
        "0x5\r\nhello\r\n",
        " 5\r\nhello\r\n",
        "5 \r\nhello\r\n",
        "5 ;x\r\nhello\r\n",
        "5\nhello\r\n",
        "5\rhello\r\n",
        "5_0\r\nhello",
        "5\r\nhello!\r\n",
        "5\r\nhello\n",
        "5\r\nhello\r5",
        "5\r\nhello0\r\n\r\n",
        "5;a\rb\r\nhello\r\n",
        "5;a\nb\r\nhello\r\n",
        "5;a\x01\r\nhello\r\n",
        "5;a\xc3\r\nhello\r\n",
        "00000000000000005\r\nhello\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\nnocolon\r\n\r\n",
        "0\r\n: a\r\n\r\n",
        "0\r\n X: a\r\n\r\n",
        "0\r\nX: a\nY: b\r\n\r\n",
        "0\r\nX: a\rY\r\n\r\n",
        "0\r\nX: a\x01\r\n\r\n",
        "0\r\n\n",
        "0\r\n\rx",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct h1_body body;
        char out[64];
        size_t size;
        size_t rest;

        h1_body_init(&body, H1_CHUNKED, 0);
        if (read_body(&body, span_of(cases[i]), 64, out, &size, &rest) != H1_PIECE_BAD)
            fail_msg("accepted: %s", cases[i]);
        assert_int_equal(read_body(&body, SPAN("5"), 1, out, &size, &rest), H1_PIECE_BAD);
    }
}

static void a_chunk_may_be_as_large_as_its_digits_say(void **state)
{
    (void)state;
    struct h1_body body;
    struct span bytes = SPAN("ffffffffffffffff\r\nab");
    struct span data;

    h1_body_init(&body, H1_CHUNKED, 0);

    assert_int_equal(h1_body_next(&body, &bytes, &data), H1_PIECE_DATA);
    assert_span(data, "ab");
    assert_true(body.left == UINT64_MAX - 2);
}

static void extensions_and_trailers_are_bounded(void **state)
{
    (void)state;
    struct h1_body body;
    char text[2048] = "1;";
    char trailer[16384] = "0\r\nX:";
    char out[64];
    size_t size;
    size_t rest;

    /* the ; counts: 1023 bytes behind it are the most, over the whole body */
    memset(text + 2, 'x', 1023);
    memcpy(text + 2 + 1023, "\r\na\r\n1;", 7);
    h1_body_init(&body, H1_CHUNKED, 0);
    assert_int_equal(read_body(&body, (struct span){text, 1031}, 9999, out, &size, &rest),
                     H1_PIECE_MORE);
    assert_int_equal(read_body(&body, (struct span){text + 1031, 1}, 9999, out, &size, &rest),
                     H1_PIECE_BAD);

    memset(trailer + 5, 'x', sizeof(trailer) - 5);
    h1_body_init(&body, H1_CHUNKED, 0);
    assert_int_equal(read_body(&body, (struct span){trailer, 3 + 8192}, 9999, out, &size, &rest),
                     H1_PIECE_MORE);
    assert_int_equal(read_body(&body, SPAN("x"), 1, out, &size, &rest), H1_PIECE_BAD);
}

static void bodies_end_by_length_or_never(void **state)
{
    (void)state;
    struct h1_body body;
    char out[64];
    size_t size;
    size_t rest;

    h1_body_init(&body, H1_LENGTH, 5);
    assert_int_equal(read_body(&body, SPAN("hellorest"), 2, out, &size, &rest), H1_PIECE_END);
    assert_int_equal(size, 5);
    assert_int_equal(rest, 4);

    h1_body_init(&body, H1_LENGTH, 0);
    assert_int_equal(read_body(&body, SPAN("rest"), 4, out, &size, &rest), H1_PIECE_END);
    assert_int_equal(rest, 4);

    h1_body_init(&body, H1_NO_BODY, 0);
    assert_int_equal(read_body(&body, SPAN("rest"), 4, out, &size, &rest), H1_PIECE_END);

    h1_body_init(&body, H1_UNTIL_CLOSE, 0);
    assert_int_equal(read_body(&body, SPAN("anything"), 3, out, &size, &rest), H1_PIECE_MORE);
    assert_int_equal(size, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_head_is_read),
        cmocka_unit_test(only_space_and_tab_are_trimmed),
        cmocka_unit_test(a_head_byte_by_byte_reads_the_same),
        cmocka_unit_test(one_empty_line_before_the_head_is_passed),
        cmocka_unit_test(bytes_behind_the_head_are_left),
        cmocka_unit_test(keep_alive_follows_version_and_connection),
        cmocka_unit_test(targets_are_reduced_to_their_path),
        cmocka_unit_test(an_expectation_is_100_continue_or_refused),
        cmocka_unit_test(connect_has_its_own_error),
        cmocka_unit_test(what_reads_in_two_ways_is_refused),
        cmocka_unit_test(nul_is_refused_wherever_it_stands),
        cmocka_unit_test(hosts_of_every_form_are_taken),
        cmocka_unit_test(a_bare_lf_is_refused_when_the_head_drips),
        cmocka_unit_test(limits_are_judged_before_the_head_is_whole),
        cmocka_unit_test(an_endless_head_ends_at_its_limit),
        cmocka_unit_test(answers_are_framed_by_status_method_and_fields),
        cmocka_unit_test(answers_that_read_in_two_ways_are_refused),
        cmocka_unit_test(a_status_line_is_bounded),
        cmocka_unit_test(an_answer_byte_by_byte_reads_the_same),
        cmocka_unit_test(fields_between_neighbours_are_known),
        cmocka_unit_test(a_chunked_body_reads_the_same_however_cut),
        cmocka_unit_test(broken_chunks_are_refused),
        cmocka_unit_test(a_chunk_may_be_as_large_as_its_digits_say),
        cmocka_unit_test(extensions_and_trailers_are_bounded),
        cmocka_unit_test(bodies_end_by_length_or_never),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
