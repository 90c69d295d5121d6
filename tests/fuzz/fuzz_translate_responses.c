/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_translate_responses.c: responses in terms of chat completions, with any bytes.
 *
 * Checks: what comes out is JSON, as jansson reads it; an ask has messages; a stream keeps to the
 * grammar of responses (responses_grammar.h), ends once, and says nothing behind its end; a whole
 * answer is a response.
 * An input is a body, and behind its first line feed the events of an answer, one a line; the first
 * is a whole answer, too. */
#include "tests/fuzz/trees.h"

#include "gateway/translate.h"
#include "tests/fuzz/responses_grammar.h"

#define OUT_BYTES_MAX (1u << 20)
#define EVENTS_MAX 24
#define DEPTH_MAX 64

/* Does jansson understand it? It refuses halves of surrogate pairs and numbers that overflow, which
 * pass through us: then it has no opinion on what came of them. */
NO_GUIDE static bool jansson_reads(struct span json)
{
    return json_loadb(json.size > 0 ? json.data : "", json.size, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                      NULL) != NULL;
}

static void check_ask(struct span body, bool judged)
{
    struct writer out = writer_new(OUT_BYTES_MAX);
    struct ask_problem problem = {0, NULL, NULL};
    const enum err err = translate_ask(ENDPOINT_RESPONSES, body, DEPTH_MAX, &out, &problem);

    CHECK(err == OK || err == ERR_BAD_JSON || err == ERR_BAD_VALUE);
    CHECK((err == OK) == (problem.message == NULL));
    CHECK(problem.offset <= body.size);
    if (err == OK && judged) {
        const json_t *chat = json_loadb(out.text.data, out.text.size, JSON_ALLOW_NUL, NULL);

        CHECK(json_is_array(json_object_get(chat, "messages")));
        CHECK(json_object_get(chat, "input") == NULL);
    }
    buffer_free(&out.text);
}

static struct translator *begin(struct span body)
{
    const struct translator_facts facts = {
        .model = SPAN("a\"model"),
        .exchange_id = SPAN("x1"),
        .body = body,
        .created_s = 1700000000,
    };
    struct translator *translator = translator_new(ENDPOINT_RESPONSES, &facts);

    CHECK(translator != NULL);
    return translator;
}

static void check_whole(struct span body, struct span answer, bool judged)
{
    struct translator *translator = begin(body);
    struct writer out = writer_new(OUT_BYTES_MAX);
    const enum err err = translator_whole(translator, answer, &out);

    CHECK(err == OK || err == ERR_REPLICA_PROTOCOL);
    if (err == OK && judged) {
        const json_t *response = json_loadb(out.text.data, out.text.size, JSON_ALLOW_NUL, NULL);

        CHECK(grammar_is(response, "object", "response"));
        CHECK(json_is_array(json_object_get(response, "output")));
        CHECK(!grammar_is(response, "status", "in_progress"));
    }
    buffer_free(&out.text);
    translator_free(translator);
}

/* Does this event go missing in the planted run? */
static bool is_planted(struct span sse)
{
#ifdef PLANT_BUG
    return span_starts(sse, SPAN("event: response.refusal.delta"));
#else
    (void)sse;
    return false;
#endif
}

/* One more event, or the end of the stream (json.data NULL). */
static bool step(struct translator *translator, struct span json, struct grammar *grammar,
                 bool judged)
{
    struct writer out = writer_new(OUT_BYTES_MAX);
    const bool end = json.data == NULL;
    const enum err err =
        end ? translator_end(translator, &out) : translator_event(translator, json, &out);
    const struct span sse = {out.text.size > 0 ? out.text.data : "", out.text.size};

    CHECK(err == OK || (err == ERR_REPLICA_PROTOCOL && !end));
    if (err == OK && judged && !is_planted(sse))
        grammar_feed(grammar, sse);
    buffer_free(&out.text);
    return err == OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {size > 0 ? (const char *)data : "", size};
    const char *line_end = memchr(input.data, '\n', input.size);
    const struct span body = {input.data, line_end ? (size_t)(line_end - input.data) : size};
    struct grammar grammar;

    trees_begin();
    grammar_begin(&grammar);

    bool judged = body.size == 0 || jansson_reads(body);
    struct translator *translator = begin(body);

    check_ask(body, judged);
    input = span_from(input, line_end ? body.size + 1 : size);
    for (size_t i = 0; i < EVENTS_MAX && input.size > 0; i++) {
        line_end = memchr(input.data, '\n', input.size);

        const struct span json = {input.data,
                                  line_end ? (size_t)(line_end - input.data) : input.size};
        char *copy = exact_copy(json); /* ends where its memory ends */
        const struct span exact = {copy, json.size};

        judged = judged && jansson_reads(exact);
        if (i == 0)
            check_whole(body, exact, judged);
        if (!step(translator, exact, &grammar, judged))
            judged = false; /* the stream broke off */
        free(copy);
        input = span_from(input, line_end ? json.size + 1 : json.size);
    }
    step(translator, (struct span){NULL, 0}, &grammar, judged);
    CHECK(!judged || grammar.ended);
    step(translator, (struct span){NULL, 0}, &grammar, judged);
    step(translator, SPAN("{\"choices\":[{\"delta\":{\"content\":\"late\"}}]}"), &grammar, judged);
    translator_free(translator);
    return 0;
}
