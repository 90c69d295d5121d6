/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_multipart.c: forms read as asks and spliced, against a plain cut at boundaries.
 *
 * Checks: a form that is accepted is exactly what cutting it at each boundary gives; spliced, it
 * has the same parts, but for the model's name; whatever else is refused, and told why.
 *
 * An input is a steering byte, a content-type field up to LF, and a body. */
#include "tests/fuzz/fuzz.h"

#include "gateway/ask.h"
#include "gateway/multipart.h"

static const struct ask_limits limits = {.json_depth = 64, .n = 16};

static struct span until(struct span text, const char *mark, size_t mark_bytes)
{
    const char *end = text.size > 0 ? memmem(text.data, text.size, mark, mark_bytes) : NULL;

    return end == NULL ? text : (struct span){text.data, (size_t)(end - text.data)};
}

/* Cuts a sound form at its boundaries: the part of this index, headers and all. */
static bool cut_part(struct span body, unsigned index, struct span *out_head,
                     struct span *out_value)
{
    char delimiter[2 + 2 + MULTIPART_BOUNDARY_MAX] = "\r\n";
    const struct span first = until(body, "\r\n", 2); /* --boundary */
    const size_t size = first.size + 2;

    if (first.size > sizeof(delimiter) - 2)
        return false;
    memcpy(delimiter + 2, first.data, first.size);
    body = span_from(body, first.size);
    for (; index > 0 && body.size > 0; index--) {
        const struct span part = until(body, delimiter, size);

        if (part.size == body.size)
            return false;
        body = span_from(body, part.size + size);
    }
    if (span_starts(body, SPAN("--")) || body.size == 0)
        return false;
    body = until(body, delimiter, size);
    *out_head = until(body, "\r\n\r\n", 4);
    CHECK(out_head->size < body.size);
    *out_value = span_from(body, out_head->size + 4);
    return true;
}

/* Are these the same parts, but for the value of the model? */
static void check_same(struct span content_type, struct span before, struct span after,
                       struct span model)
{
    struct multipart old, new;
    struct multipart_part a, b;

    CHECK(multipart_init(&old, content_type, before) && multipart_init(&new, content_type, after));
    for (unsigned i = 0; multipart_next(&old, &a); i++) {
        struct span head, value;

        CHECK(multipart_next(&new, &b));
        CHECK(span_equal(a.name, b.name) && a.file == b.file);
        CHECK(span_equal(b.value, span_equal(a.name, SPAN("model")) ? model : a.value));
        CHECK(cut_part(before, i, &head, &value) && span_equal(value, a.value));
        CHECK(a.name.data > head.data && a.name.data < head.data + head.size);
        CHECK(cut_part(after, i, &head, &value) && span_equal(value, b.value));
    }
    CHECK(old.whole && !multipart_next(&new, &b) && new.whole &&new.problem == NULL);
    CHECK(!cut_part(before, old.count, &a.name, &a.value));
}

/* The body with its splices. The caller frees it. */
static char *splice(const struct ask *ask, struct span body, struct span model, size_t *out_bytes)
{
    struct splice splices[ASK_SPLICES_MAX];
    struct iovec pieces[2 * ASK_SPLICES_MAX + 1];
    uint32_t count;
    size_t size = 0;
    const enum err err =
        ask_splices(ask, body, KIND_VLLM, model, (struct span){NULL, 0}, NULL, splices, &count);

    if (err != OK) {
        CHECK(err == ERR_BAD_VALUE);
        CHECK(memchr(model.data, '\r', model.size) != NULL ||
              memchr(model.data, '\n', model.size) != NULL ||
              span_starts(model, until(body, "\r\n", 2)));
        return NULL;
    }
#ifdef PLANT_BUG
    if (count > 0)
        splices[0].removed--;
#endif
    count = splice_pieces(body, splices, count, pieces, out_bytes);

    char *joined = malloc(*out_bytes);

    CHECK(joined != NULL);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(joined + size, pieces[i].iov_base, pieces[i].iov_len);
        size += pieces[i].iov_len;
    }
    CHECK(size == *out_bytes);
    return joined;
}

static void check_accepted(const struct ask *ask, struct span content_type, struct span body,
                           struct span model)
{
    struct ask again;
    struct ask_problem problem;
    size_t bytes = 0;

    CHECK(ask->multipart && ask->images && ask->model.size > 0);
    CHECK(ask->model.data == body.data + ask->model_place.at);
    CHECK(ask->n >= 1 && ask->n <= limits.n && ask->prompts == 1 && ask->max_tokens >= -1);
    CHECK(ask->text_bytes >= 0 && (size_t)ask->text_bytes < body.size);

    char *joined = splice(ask, body, model, &bytes);

    if (joined == NULL)
        return;

    const struct span spliced = {joined, bytes};

    CHECK(ask_read_multipart(spliced, content_type, &limits, &again, &problem) == OK);
    CHECK(span_equal(again.model, model));
    CHECK(again.stream == ask->stream && again.text_bytes == ask->text_bytes);
    check_same(content_type, body, spliced, model);
    free(joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct span models[] = {SPAN("up"),   SPAN("openai/whisper-large-v3"),
                                         SPAN("--b"),  SPAN("a\r\n--b"),
                                         SPAN("x\ny"), SPAN("m")};
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    const struct span content_type = until(input, "\n", 1);

    input = span_from(input, content_type.size);
    if (input.size > 0)
        input = span_from(input, 1);

    char *copy = exact_copy(input);
    char *field = exact_copy(content_type);
    const struct span body = {copy, input.size};
    struct ask ask;
    struct ask_problem problem = {0};
    const enum err err =
        ask_read_multipart(body, (struct span){field, content_type.size}, &limits, &ask, &problem);

    if (err == OK) {
        check_accepted(&ask, content_type, body,
                       models[steer % (sizeof(models) / sizeof(models[0]))]);
    } else {
        CHECK(err == ERR_BAD_CONTENT_TYPE || err == ERR_BAD_VALUE);
        CHECK((err == ERR_BAD_VALUE) == (problem.message != NULL));
        CHECK(problem.offset <= body.size);
    }
    free(field);
    free(copy);
    return 0;
}
