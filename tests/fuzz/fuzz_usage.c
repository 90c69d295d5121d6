/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_usage.c: the usage tap against jansson.
 *
 * Checks: a document of any API says the same whatever way it was cut; what the tap found is what
 * jansson finds; the document without its usage member is the tree without it; sums of a whole
 * reply hold. An input is a reply of several documents, one a line (no document has a raw line feed
 * inside a string); those past the first DOCUMENTS_MAX are not read, as many small ones make runs
 * slow. */
#include "tests/fuzz/trees.h"

#include "gateway/tally.h"

#define DOCUMENTS_MAX 24 /* more than TAP_CHOICES_MAX */
#define NUMBER_MAX (INT64_C(1) << 53)

/* Reads a document in pieces. */
NO_GUIDE static struct tap tap_in_pieces(enum tap_shape shape, struct span text, struct cuts cuts)
{
    struct tap tap;

    memset(&tap, 0xa5, sizeof(tap)); /* what tap_init() leaves must not matter */
    tap_init(&tap, shape);
    for (size_t given = 0; given < text.size;) {
        const size_t size = cuts_next(&cuts, given, text.size);
        const char *piece = text.data + given;
        const char byte = *piece;
        char *copy = NULL;

        /* Each piece has an address of its own and ends where its memory ends. */
        if (size == 1)
            piece = &byte;
        else
            piece = copy = exact_copy((struct span){piece, size});
        given += size;
#ifdef PLANT_BUG
        if (size == 1 && byte == '\\')
            tap.in_key = false;
#endif
        tap_feed(&tap, (struct span){piece, size});
        free(copy);
    }
    return tap;
}

NO_GUIDE static void check_same(const struct tap *a, const struct tap *b)
{
    CHECK(tap_whole(a) == tap_whole(b));
    CHECK(a->broken == b->broken);
    CHECK(a->has_usage == b->has_usage);
    CHECK(a->numbers.prompt == b->numbers.prompt);
    CHECK(a->numbers.completion == b->numbers.completion);
    CHECK(a->numbers.total == b->numbers.total);
    CHECK(a->numbers.cached == b->numbers.cached);
    CHECK(a->numbers.cache_write == b->numbers.cache_write);
    CHECK(a->numbers.reasoning == b->numbers.reasoning);
    CHECK(a->numbers.suspect == b->numbers.suspect);
    CHECK(a->usage_at == b->usage_at && a->usage_end == b->usage_end);
    CHECK(a->has_error == b->has_error && a->has_choices == b->has_choices);
    CHECK(a->plain == b->plain && a->finished == b->finished);
    CHECK(a->choices == b->choices && a->choice_index == b->choice_index);
    CHECK(a->started == b->started && a->ended == b->ended && a->sequence == b->sequence);
    if (!a->broken) /* bytes of a string that breaks are counted as far as they came */
        CHECK(a->text_bytes == b->text_bytes);
}

/* A number as the tap must have it; the member may be anything. */
static void check_number(const json_t *object, const char *name, int64_t actual)
{
    const json_t *value = json_object_get(object, name);

    const json_int_t number = json_integer_value(value);

    if (json_is_integer(value))
        CHECK(actual == (number > NUMBER_MAX || number < -NUMBER_MAX ? -1
                         : number < 0                                ? 0
                                                                     : number));
    else if (!json_is_number(value))
        CHECK(actual == -1);
}

static bool has(const json_t *object, const char *name)
{
    return json_object_get(object, name) != NULL;
}

/* Names of OpenAI's APIs that say the same: which one wins is not jansson's to know. */
static bool has_both_names(const json_t *usage)
{
    return (has(usage, "prompt_tokens") && has(usage, "input_tokens")) ||
           (has(usage, "completion_tokens") && has(usage, "output_tokens")) ||
           (has(usage, "prompt_tokens_details") && has(usage, "input_tokens_details")) ||
           (has(usage, "completion_tokens_details") && has(usage, "output_tokens_details"));
}

/* The member of this name or else of that. */
static const json_t *either(const json_t *object, const char *this, const char *that)
{
    return json_object_get(object, has(object, this) ? this : that);
}

static void check_openai_usage(const struct tap *tap, const json_t *usage)
{
    const json_t *prompt = either(usage, "prompt_tokens_details", "input_tokens_details");
    const json_t *completion = either(usage, "completion_tokens_details", "output_tokens_details");

    if (has_both_names(usage))
        return;
    check_number(usage, has(usage, "prompt_tokens") ? "prompt_tokens" : "input_tokens",
                 tap->numbers.prompt);
    check_number(usage, has(usage, "completion_tokens") ? "completion_tokens" : "output_tokens",
                 tap->numbers.completion);
    check_number(usage, "total_tokens", tap->numbers.total);
    check_number(prompt, "cached_tokens", tap->numbers.cached);
    if (!has(prompt, "cache_write_tokens"))
        check_number(prompt, "created_cache_tokens", tap->numbers.cache_write);
    if (!has(usage, "reasoning_tokens"))
        check_number(completion, "reasoning_tokens", tap->numbers.reasoning);
}

static void check_messages_usage(const struct tap *tap, const json_t *usage)
{
    check_number(usage, "input_tokens", tap->numbers.prompt);
    check_number(usage, "output_tokens", tap->numbers.completion);
    check_number(usage, "cache_read_input_tokens", tap->numbers.cached);
    check_number(usage, "cache_creation_input_tokens", tap->numbers.cache_write);
}

/* Usage lies at the root, and in responses and messages one level lower as well. */
static void check_usage(const struct tap *tap, const json_t *root)
{
    const json_t *outer = json_object_get(root, "usage");
    const json_t *inner = NULL;

    if (tap->shape == TAP_RESPONSES)
        inner = json_object_get(json_object_get(root, "response"), "usage");
    else if (tap->shape == TAP_MESSAGES)
        inner = json_object_get(json_object_get(root, "message"), "usage");
    CHECK(tap->has_usage == (json_is_object(outer) || json_is_object(inner)));
    CHECK((tap->usage_end > 0) == (tap->shape == TAP_CHAT && outer != NULL));
    if (json_is_object(outer) && json_is_object(inner)) {
        CHECK(tap->numbers.suspect);
        return;
    }
    if (!tap->has_usage)
        return;
    if (tap->shape == TAP_MESSAGES)
        check_messages_usage(tap, json_is_object(outer) ? outer : inner);
    else
        check_openai_usage(tap, json_is_object(outer) ? outer : inner);
}

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && json_string_length(value) == strlen(text) &&
           memcmp(json_string_value(value), text, strlen(text)) == 0;
}

static bool is_something(const json_t *value)
{
    return value != NULL && !json_is_null(value) && !json_is_false(value);
}

static void check_choices(const struct tap *tap, const json_t *root)
{
    const json_t *choices = json_object_get(root, "choices");
    const json_t *data = json_object_get(root, "data");
    bool finished = false;

    CHECK(tap->has_choices == (json_is_array(choices) || json_is_array(data)));
    CHECK((size_t)tap->choices == json_array_size(choices) + json_array_size(data));
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t *reason = json_object_get(json_array_get(choices, i), "finish_reason");

        finished = finished || (reason != NULL && !json_is_null(reason));
    }
    CHECK(tap->finished == finished);
    CHECK(tap->has_error == (is_something(json_object_get(root, "error")) ||
                             is_text(json_object_get(root, "object"), "error")));
    CHECK(!tap->started && !tap->ended && tap->sequence == -1);
}

/* Texts are counted with their escapes: an escape has two to six bytes for each that it stands for.
 */
static void add_text(const json_t *object, const char *name, size_t *bytes)
{
    *bytes += json_string_length(json_object_get(object, name));
}

static void check_responses(const struct tap *tap, const json_t *root)
{
    const json_t *type = json_object_get(root, "type");
    const json_t *output = json_object_get(root, "output");
    const json_t *inner = json_object_get(json_object_get(root, "response"), "error");
    const bool failed = is_text(type, "response.failed") || is_text(type, "error");
    size_t bytes = 0;

    CHECK(tap->ended ==
          (failed || is_text(type, "response.completed") || is_text(type, "response.incomplete")));
    CHECK(tap->has_error ==
          (failed || is_something(json_object_get(root, "error")) || is_something(inner)));
    CHECK(!tap->started && !tap->finished && !tap->has_choices && tap->choices == 0);
    add_text(root, "delta", &bytes);
    for (size_t i = 0; i < json_array_size(output); i++) {
        static const char *const lists[] = {"content", "summary"};
        const json_t *item = json_array_get(output, i);

        add_text(item, "arguments", &bytes);
        add_text(item, "input", &bytes);
        for (size_t k = 0; k < 2; k++) {
            const json_t *parts = json_object_get(item, lists[k]);

            for (size_t n = 0; n < json_array_size(parts); n++) {
                add_text(json_array_get(parts, n), "text", &bytes);
                add_text(json_array_get(parts, n), "refusal", &bytes);
            }
        }
    }
    CHECK((size_t)tap->text_bytes >= bytes && (size_t)tap->text_bytes <= 6 * bytes);
}

static void check_messages(const struct tap *tap, const json_t *root)
{
    static const char *const texts[] = {"text", "thinking", "partial_json"};
    const json_t *type = json_object_get(root, "type");
    const json_t *delta = json_object_get(root, "delta");
    const json_t *content = json_object_get(root, "content");
    const json_t *reason = json_object_get(root, "stop_reason");
    const json_t *delta_reason = json_object_get(delta, "stop_reason");
    /* A block's begin is read like a delta; it has no stop_reason, but what comes may have one. */
    const json_t *begun = json_object_get(root, "content_block");
    const json_t *begun_reason = json_object_get(begun, "stop_reason");
    const bool failed = is_text(type, "error");
    size_t bytes = 0;
    bool tools = false;

    CHECK(tap->ended == (failed || is_text(type, "message_stop")));
    CHECK(tap->started == is_text(type, "message_start"));
    CHECK(tap->has_error == (failed || is_something(json_object_get(root, "error"))));
    CHECK(tap->finished == ((reason != NULL && !json_is_null(reason)) ||
                            (delta_reason != NULL && !json_is_null(delta_reason)) ||
                            (begun_reason != NULL && !json_is_null(begun_reason))));
    for (size_t k = 0; k < 3; k++) {
        add_text(delta, texts[k], &bytes);
        add_text(begun, texts[k], &bytes);
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);

        add_text(block, "text", &bytes);
        add_text(block, "thinking", &bytes);
        tools = tools || json_is_object(json_object_get(block, "input"));
    }
    CHECK((size_t)tap->text_bytes >= bytes + (tools ? 2 : 0));
    if (!tools)
        CHECK((size_t)tap->text_bytes <= 6 * bytes);
}

static void check_shape(const struct tap *tap, const json_t *root)
{
    if (tap->shape == TAP_CHAT)
        check_choices(tap, root);
    else if (tap->shape == TAP_RESPONSES)
        check_responses(tap, root);
    else
        check_messages(tap, root);
}

/* Cuts usage out of the text and out of the tree. */
static void check_cut(const struct tap *tap, struct span text, json_t *root)
{
    const size_t size = text.size - (tap->usage_end - tap->usage_at);
    char *left = malloc(size > 0 ? size : 1);
    json_t *actual;

    CHECK(left != NULL);
    CHECK(tap->usage_at < tap->usage_end && tap->usage_end <= text.size);
    memcpy(left, text.data, tap->usage_at);
    memcpy(left + tap->usage_at, text.data + tap->usage_end, text.size - tap->usage_end);
    actual = json_loadb(left, size, JSON_ALLOW_NUL, NULL);
    CHECK(actual != NULL);
    json_object_del(root, "usage");
    CHECK(json_equal(actual, root));
    json_decref(actual);
    free(left);
}

/* Did jansson refuse what the tap does not look at? */
static bool is_its_own_limit(const json_error_t *error)
{
    const enum json_error_code code = json_error_code(error);

    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
           code == json_error_invalid_utf8 || code == json_error_duplicate_key ||
           strstr(error->text, "invalid Unicode") != NULL;
}

/* jansson takes a NUL behind the value for the end. */
static bool has_nul(struct span text)
{
    return text.size > 0 && memchr(text.data, '\0', text.size) != NULL;
}

static void check_document(enum tap_shape shape, struct span text, unsigned cut,
                           struct tally *tally)
{
    const struct tap whole = tap_in_pieces(shape, text, cuts_none(text.size));
    const struct tap pieced = tap_in_pieces(shape, text, cuts_of(text.size, cut));
    json_error_t error;
    json_t *root = json_loadb(text.data, text.size,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);

    check_same(&whole, &pieced);
    CHECK(whole.text_bytes >= 0 && (size_t)whole.text_bytes <= text.size);
    if (tap_whole(&whole)) {
        CHECK(root != NULL || is_its_own_limit(&error));
    } else {
        CHECK(root == NULL || text.size > 2u * TAP_DEPTH_MAX || has_nul(text));
    }
    if (root != NULL && tap_whole(&whole) && json_is_object(root)) {
        check_usage(&whole, root);
        check_shape(&whole, root);
        if (whole.usage_end > 0)
            check_cut(&whole, text, root);
    }
    tally_add(tally, &whole);
    json_decref(root);
}

static int64_t known(int64_t tokens)
{
    CHECK(tokens >= -1);
    return tokens < 0 ? 0 : tokens;
}

static void check_tally(const struct tally *tally)
{
    struct usage usage;
    uint32_t flags = 0;
    const enum usage_source source = tally_usage(tally, &usage, &flags);
    const int64_t prompt =
        tally->has_total && tally->total.prompt >= 0 ? tally->total.prompt : tally->shared.prompt;
    const int64_t input = usage.input + known(usage.cached_input) + known(usage.cache_write);

    CHECK((flags & ~(uint32_t)FLAG_USAGE_SUSPECT) == 0);
    CHECK(source == SOURCE_REPORTED || source == SOURCE_RUNNING || source == SOURCE_NONE);
    CHECK(source == SOURCE_NONE || usage.input >= 0 || usage.output >= 0);
    if (prompt >= 0 && tally->beside)
        CHECK(usage.input == prompt && input >= prompt);
    else if (prompt >= 0)
        CHECK(input == prompt);
    if (tally->has_total && tally->total.completion >= 0)
        CHECK(usage.output + known(usage.reasoning) == tally->total.completion);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    const enum tap_shape shape = (enum tap_shape)(steer / 2 % 3);
    struct tally tally;

    trees_begin();
    tally_init(&tally);
    tally.whole_body = steer & 1;
    tally.per_choice = steer & 64;
    for (size_t i = 0; i < DOCUMENTS_MAX && input.size > 0; i++) {
        const char *line_end = memchr(input.data, '\n', input.size);
        const size_t line = line_end != NULL ? (size_t)(line_end - input.data) : input.size;

        check_document(shape, (struct span){input.data, line}, steer / 2, &tally);
        input = span_from(input, line_end != NULL ? line + 1 : line);
        check_tally(&tally);
    }
    return 0;
}
