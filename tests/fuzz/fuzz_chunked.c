/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_chunked.c: bodies by their framing.
 *
 * Checks: a body gives the same bytes, the same ending and the same rest whatever way it was cut;
 * what it gave, chunked afresh, gives the same again. */
#include "tests/fuzz/fuzz.h"

#include "gateway/h1.h"

/* What a body gave. */
struct reading {
    char *data;
    size_t size;
    size_t taken;         /* bytes of the input */
    enum h1_piece ending; /* MORE, END or BAD */
};

/* Reads bytes in pieces; the caller frees the data. */
NO_GUIDE static struct reading read_body(struct span bytes, struct cuts cuts,
                                         enum h1_framing framing, uint64_t length)
{
    struct reading reading = {.data = malloc(bytes.size + 1), .ending = H1_PIECE_MORE};
    struct h1_body body;

    CHECK(reading.data != NULL);
    h1_body_init(&body, framing, length);
    for (size_t given = 0; given < bytes.size && reading.ending == H1_PIECE_MORE;) {
        const size_t size = cuts_next(&cuts, given, bytes.size);
        const char byte = bytes.data[given];
        char *copy = size > 1 ? exact_copy((struct span){bytes.data + given, size}) : NULL;
        const char *piece = size > 1 ? copy : &byte;
        struct span rest = {piece, size};
        struct span data;

#ifdef PLANT_BUG
        if (size == 1 && byte == ';')
            rest = span_from(rest, 1);
#endif
        do {
            reading.ending = h1_body_next(&body, &rest, &data);
            if (reading.ending == H1_PIECE_DATA) {
                CHECK(data.size > 0 && data.data >= piece && data.data + data.size <= piece + size);
                CHECK(reading.size + data.size <= bytes.size);
                memcpy(reading.data + reading.size, data.data, data.size);
                reading.size += data.size;
            }
        } while (reading.ending == H1_PIECE_DATA);
        CHECK(reading.ending != H1_PIECE_MORE || rest.size == 0);
        given += size;
        reading.taken = given - rest.size;
        free(copy);
    }
    if (reading.ending != H1_PIECE_MORE) { /* and stays so */
        struct span rest = SPAN("0\r\n\r\n");
        struct span data;

        CHECK(h1_body_next(&body, &rest, &data) == reading.ending && rest.size == 5);
    }
    return reading;
}

static void check_same(const struct reading *a, const struct reading *b)
{
    CHECK(a->ending == b->ending);
    CHECK(a->taken == b->taken);
    CHECK(a->size == b->size);
    CHECK(memcmp(a->data, b->data, a->size) == 0);
}

/* Chunks the data afresh and reads that. */
static void check_again(const struct reading *reading)
{
    char *written = malloc(reading->size + 64);
    size_t size = 0;
    struct reading again;

    CHECK(written != NULL);
    if (reading->size > 0) {
        size = (size_t)snprintf(written, 64, "%zX\r\n", reading->size);
        memcpy(written + size, reading->data, reading->size);
        size += reading->size;
        memcpy(written + size, "\r\n", 2);
        size += 2;
    }
    memcpy(written + size, "0\r\n\r\n", 5);
    size += 5;
    again = read_body((struct span){written, size}, cuts_none(size), H1_CHUNKED, 0);
    CHECK(again.ending == H1_PIECE_END && again.taken == size && again.size == reading->size);
    CHECK(memcmp(again.data, reading->data, again.size) == 0);
    free(again.data);
    free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    const enum h1_framing framing = (steer & 3) == 1   ? H1_LENGTH
                                    : (steer & 3) == 2 ? H1_UNTIL_CLOSE
                                    : (steer & 3) == 3 ? H1_NO_BODY
                                                       : H1_CHUNKED;
    struct reading whole = read_body(input, cuts_none(input.size), framing, steer);
    struct reading pieced = read_body(input, cuts_of(input.size, steer / 4), framing, steer);

    check_same(&whole, &pieced);
    if (framing == H1_CHUNKED && whole.ending == H1_PIECE_END)
        check_again(&whole);
    free(whole.data);
    free(pieced.data);
    return 0;
}
