/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_sse.c: server-sent events.
 *
 * Checks: the data of each event is that which a plain reading of the standard, byte by byte,
 * gives, whatever way the bytes were cut. */
#include "tests/fuzz/fuzz.h"

#include "gateway/sse.h"

/* The data of all events, each behind a mark; growing. */
struct record {
    char *text;
    size_t size;
};

NO_GUIDE static void add(struct record *record, struct span text)
{
    if (text.size > 0)
        memcpy(record->text + record->size, text.data, text.size);
    record->size += text.size;
}

static struct record new_record(size_t input_bytes)
{
    struct record record = {.text = malloc(4 * input_bytes + 16)};

    CHECK(record.text != NULL);
    return record;
}

/* Splits bytes given in pieces. */
NO_GUIDE static struct record split(struct span bytes, struct cuts cuts)
{
    struct record record = new_record(bytes.size);
    char *scratch = malloc(bytes.size + 1);
    struct sse sse = {0};
    size_t from = 0;

    CHECK(scratch != NULL);
    for (size_t given = 0; given < bytes.size;) {
        given += cuts_next(&cuts, given, bytes.size);
        for (;;) {
            const size_t size = sse_next(&sse, (struct span){bytes.data + from, given - from});
            const struct span event = {bytes.data + from, size};

            CHECK(size <= given - from);
            if (size == 0)
                break;

            const struct span data = sse_data(event, scratch);

            add(&record, data.data != NULL ? SPAN("\1") : SPAN("\2"));
            add(&record, data);
            if (sse_is_done(data))
                CHECK(memmem(data.data, data.size, "[DONE]", 6) != NULL);
            from += size;
#ifdef PLANT_BUG
            sse.had_lf_due = false;
#endif
        }
    }
    free(scratch);
    return record;
}

/* ---- the standard, read plainly ---- */

struct plain {
    struct record record;
    char *data; /* of the event under way */
    size_t data_size;
    bool has_data;
    size_t lines; /* of the event under way */
};

NO_GUIDE static void plain_line(struct plain *plain, struct span line)
{
    if (line.size == 0) { /* the first line of an event: a lone blank line */
        add(&plain->record, SPAN("\2"));
        return;
    }
    if (plain->lines++ == 0 && span_starts(line, SPAN("\xef\xbb\xbf")))
        line = span_from(line, 3);
    if (span_equal(line, SPAN("data")) || span_starts(line, SPAN("data:"))) {
        struct span value = span_from(line, 4);

        if (value.size > 0)
            value = span_from(value, 1);
        if (value.size > 0 && value.data[0] == ' ')
            value = span_from(value, 1);
        if (plain->has_data)
            plain->data[plain->data_size++] = '\n';
        if (value.size > 0)
            memcpy(plain->data + plain->data_size, value.data, value.size);
        plain->data_size += value.size;
        plain->has_data = true;
    }
}

NO_GUIDE static void plain_dispatch(struct plain *plain)
{
    add(&plain->record, plain->has_data ? SPAN("\1") : SPAN("\2"));
    add(&plain->record, (struct span){plain->data, plain->data_size});
    plain->data_size = plain->lines = 0;
    plain->has_data = false;
}

NO_GUIDE static struct record read_plainly(struct span bytes)
{
    struct plain plain = {.record = new_record(bytes.size), .data = malloc(bytes.size + 1)};
    size_t line = 0;

    CHECK(plain.data != NULL);
    for (size_t at = 0; at < bytes.size; at++) {
        if (bytes.data[at] != '\r' && bytes.data[at] != '\n')
            continue;
        if (at == line && plain.lines > 0)
            plain_dispatch(&plain);
        else
            plain_line(&plain, (struct span){bytes.data + line, at - line});
        if (bytes.data[at] == '\r' && at + 1 < bytes.size && bytes.data[at + 1] == '\n')
            at++;
        line = at + 1;
    }
    free(plain.data);
    return plain.record;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    char *copy = exact_copy(input);
    struct record expected = read_plainly(input);
    struct record whole = split((struct span){copy, input.size}, cuts_none(input.size));
    struct record pieced = split((struct span){copy, input.size}, cuts_of(input.size, steer));

    CHECK(span_equal((struct span){whole.text, whole.size},
                     (struct span){expected.text, expected.size}));
    CHECK(span_equal((struct span){pieced.text, pieced.size},
                     (struct span){expected.text, expected.size}));
    free(copy);
    free(expected.text);
    free(whole.text);
    free(pieced.text);
    return 0;
}
