/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_h1_head.c: heads of requests and answers.
 *
 * Checks: a head reads the same whatever way it was cut; one that is taken, written afresh from its
 * parts, reads the same again; nothing that could be read in two ways is in it. */
#include "tests/fuzz/fuzz.h"

#include "gateway/h1.h"

static const struct h1_limits usual = {.line_bytes = 8192, .header_bytes = 65536, .fields = 100};
static const struct h1_limits small = {.line_bytes = 48, .header_bytes = 400, .fields = 4};
static const struct h1_limits large = {1u << 20, 1u << 20, H1_FIELDS_MAX};

static struct h1_head head, other;

struct reading {
    bool answer;
    struct span method; /* of an answer's request */
    const struct h1_limits *limits;
};

static enum h1_result parse(const struct reading *reading, struct span bytes, size_t *scanned,
                            struct h1_head *out_head, size_t *out_size)
{
    enum err err = OK;
    enum h1_result result;

    if (reading->answer)
        result = h1_parse_response(bytes, reading->limits, reading->method, scanned, out_head,
                                   out_size, &err);
    else
        result = h1_parse_request(bytes, reading->limits, scanned, out_head, out_size, &err);
    CHECK((result == H1_BAD) == (err != OK));
    CHECK(!reading->answer || err == OK || err == ERR_REPLICA_PROTOCOL);
    return result;
}

/* Gives bytes in pieces. */
NO_GUIDE static enum h1_result parse_in_pieces(const struct reading *reading, struct span bytes,
                                               struct cuts cuts, size_t *out_size)
{
    enum h1_result result = H1_MORE;
    size_t scanned = 0;

    for (size_t given = 0; given < bytes.size && result == H1_MORE;) {
        given += cuts_next(&cuts, given, bytes.size);
        result = parse(reading, (struct span){bytes.data, given}, &scanned, &other, out_size);
        CHECK(result != H1_DONE || scanned == 0);
        CHECK(result != H1_MORE || scanned == given);
    }
    return result;
}

static size_t put(char *out, size_t at, struct span text)
{
    if (text.size > 0)
        memcpy(out + at, text.data, text.size);
    return at + text.size;
}

/* Writes a head afresh from its parts. */
NO_GUIDE static size_t write_head(const struct h1_head *from, bool answer, char *out)
{
    size_t at = 0;

    if (answer) {
        at = (size_t)snprintf(out, 64, "HTTP/1.%d %03d\r\n", from->minor, from->status);
    } else {
        at = put(out, at, from->method);
        at = put(out, at, SPAN(" "));
        at = put(out, at, from->target);
        at += (size_t)snprintf(out + at, 16, " HTTP/1.%d\r\n", from->minor);
    }
    for (uint32_t i = 0; i < from->field_count; i++) {
        at = put(out, at, from->fields[i].name);
        at = put(out, at, SPAN(": "));
        at = put(out, at, from->fields[i].value);
        at = put(out, at, SPAN("\r\n"));
    }
    return put(out, at, SPAN("\r\n"));
}

NO_GUIDE static void check_same(const struct h1_head *a, const struct h1_head *b)
{
    CHECK(span_equal(a->method, b->method));
    CHECK(span_equal(a->target, b->target));
    CHECK(a->status == b->status);
    CHECK(a->minor == b->minor);
    CHECK(a->framing == b->framing);
    CHECK(a->content_length == b->content_length);
    CHECK(a->keep_alive == b->keep_alive);
    CHECK(a->expect_continue == b->expect_continue);
    CHECK(a->field_count == b->field_count);
    for (uint32_t i = 0; i < a->field_count; i++) {
        CHECK(span_equal(a->fields[i].name, b->fields[i].name));
        CHECK(span_equal(a->fields[i].value, b->fields[i].value));
        CHECK(h1_is_hop_by_hop(a, a->fields[i].name) == h1_is_hop_by_hop(b, b->fields[i].name));
    }
}

/* Said again in other words than h1.c has: no field holds what could end it, and framing is that of
 * exactly one field. */
NO_GUIDE static void check_sound(const struct reading *reading)
{
    uint32_t lengths = 0;
    uint32_t codings = 0;
    uint32_t hosts = 0;

    CHECK(head.field_count <= reading->limits->fields);
    for (uint32_t i = 0; i < head.field_count; i++) {
        const struct span name = head.fields[i].name;
        const struct span value = head.fields[i].value;

        CHECK(name.size > 0);
        for (size_t at = 0; at < name.size; at++)
            CHECK(name.data[at] > ' ' && name.data[at] < 0x7f &&
                  strchr("\"(),/:;<=>?@[\\]{}", name.data[at]) == NULL);
        for (size_t at = 0; at < value.size; at++)
            CHECK((unsigned char)value.data[at] >= ' ' || value.data[at] == '\t');
        if (value.size > 0)
            CHECK(strchr(" \t", value.data[0]) == NULL &&
                  strchr(" \t", value.data[value.size - 1]) == NULL);
        lengths += span_equal_nocase(name, SPAN("content-length"));
        codings += span_equal_nocase(name, SPAN("transfer-encoding"));
        hosts += span_equal_nocase(name, SPAN("host"));
    }
    CHECK(lengths + codings <= 1);
    if (reading->answer) {
        CHECK(head.status >= 100 && head.status <= 599 && head.status != 101);
        return;
    }
    CHECK(hosts == 1 || (hosts == 0 && head.minor == 0));
    CHECK((head.framing == H1_CHUNKED) == (codings == 1));
    CHECK((head.framing == H1_LENGTH) == (lengths == 1));
    CHECK(head.target.data[0] == '/' || span_equal(head.target, SPAN("*")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    const unsigned cut = take_byte(&input);
    const struct reading reading = {
        .answer = steer & 1,
        .method = steer & 2 ? SPAN("HEAD") : SPAN("POST"),
        .limits = steer & 4 ? &small : &usual,
    };
    const struct reading again = {reading.answer, reading.method, &large};
    char *copy = exact_copy(input);
    const struct span bytes = {copy, input.size};
    size_t scanned = 0;
    size_t head_size = 0;
    size_t step_size = 0;
    const enum h1_result result = parse(&reading, bytes, &scanned, &head, &head_size);
    const enum h1_result stepped =
        parse_in_pieces(&reading, bytes, cuts_of(bytes.size, cut), &step_size);

#ifdef PLANT_BUG
    if (result == H1_DONE && head.framing == H1_CHUNKED)
        head.framing = H1_LENGTH;
#endif
    /* A head that is bad early is told at once when it comes whole, at its end when it drips. */
    CHECK((result == H1_DONE) == (stepped == H1_DONE));
    CHECK(stepped != H1_BAD || result == H1_BAD);
    if (result == H1_DONE) {
        char *written = malloc(2 * head_size + 64);
        size_t written_size;
        size_t again_size = 0;

        CHECK(written != NULL);
        CHECK(head_size == step_size && head_size <= input.size);
        check_sound(&reading);
        written_size = write_head(&head, reading.answer, written);
        scanned = 0;
        CHECK(parse(&again, (struct span){written, written_size}, &scanned, &other, &again_size) ==
              H1_DONE);
        CHECK(again_size == written_size);
        check_same(&head, &other);
        free(written);
    }
    free(copy);
    return 0;
}
