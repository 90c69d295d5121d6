/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_fault.c: errors of any server against jansson.
 *
 * Checks: any bytes can be read; what was read is what jansson finds; a body that is said to have a
 * client's shape has it; what is written is JSON of the API's shape, with our texts in it, and is
 * read again as it was. */
#include "tests/fuzz/trees.h"

#include "gateway/fault.h"

#define ARENA_BYTES (256u << 10)

static const char *text_at(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool is_same(struct span text, const json_t *value)
{
    return json_is_string(value) && json_string_length(value) == text.size &&
           (text.size == 0 || memcmp(json_string_value(value), text.data, text.size) == 0);
}

/* Is it text of the tree: whole, or its beginning when it was too long? */
NO_GUIDE static void check_text(struct span text, const json_t *value, size_t most)
{
    const size_t size = json_string_length(value);

    if (size <= most / 6) /* longer ones may have been cut by their escapes */
        CHECK(is_same(text, value) || (size == 0 && text.data == NULL));
    CHECK(text.size <= most);
}

/* The object that the texts were read from; NULL: they are not from one. */
static const json_t *source_of(const struct fault *fault, const json_t *root)
{
    const json_t *error = json_object_get(root, "error");

    switch (fault->form) {
    case FAULT_OPENAI:
    case FAULT_ANTHROPIC:
        return error;
    case FAULT_FLAT:
        return json_is_object(error) ? error : root;
    case FAULT_RESPONSE:
        if (strcmp(text_at(root, "type"), "response.failed") == 0)
            return json_object_get(json_object_get(root, "response"), "error");
        return json_is_object(error) ? error : root;
    default:
        return NULL;
    }
}

/* Is the tree what its form says? */
static void check_form(const struct fault *fault, const json_t *root)
{
    const json_t *error = json_object_get(root, "error");
    const bool nested = json_is_object(error);
    const char *type = text_at(root, "type");

    if (fault_has_shape(fault, SHAPE_ANTHROPIC)) {
        CHECK(type != NULL && strcmp(type, "error") == 0);
        CHECK(text_at(error, "type") != NULL && text_at(error, "message") != NULL);
    }
    if (fault->form == FAULT_OPENAI)
        CHECK(text_at(error, "message") != NULL);
    else if (nested && fault->form != FAULT_RESPONSE && fault->form != FAULT_ANTHROPIC)
        CHECK(fault->form == FAULT_FLAT && text_at(error, "message") == NULL);
    if (fault->form == FAULT_RESPONSE)
        CHECK(type != NULL);
    if (fault->form == FAULT_STRING)
        CHECK(json_is_string(error));
    if (fault->form == FAULT_DETAIL)
        CHECK(json_object_get(root, "detail") != NULL);
}

static void check_read(const struct fault *fault, const json_t *root)
{
    const json_t *source = source_of(fault, root);
    const json_t *message = json_object_get(source, "message");
    const json_t *code = json_object_get(source, "code");

    check_form(fault, root);
    if (json_is_string(message))
        check_text(fault->message, message, FAULT_MESSAGE_BYTES);
    if (json_is_integer(code)) {
        const json_int_t number = json_integer_value(code);

        CHECK(fault->status == (number >= 100 && number <= 599 ? (int)number : 0));
    }
    CHECK(fault->type.size <= FAULT_NAME_BYTES && fault->code.size <= FAULT_NAME_BYTES);
    CHECK(fault->param.size <= FAULT_NAME_BYTES);
}

/* Is text exactly JSON of this shape, with the fault's message? */
static void check_body(struct span text, const struct fault *fault, enum api_shape shape)
{
    const json_t *root = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
    const json_t *error = json_object_get(root, "error");

    CHECK(json_is_object(error) && text_at(error, "message") != NULL);
    CHECK(json_string_length(json_object_get(error, "type")) > 0);
    if (fault->message.size > 0)
        CHECK(is_same(fault->message, json_object_get(error, "message")));
    if (shape == SHAPE_ANTHROPIC) {
        CHECK(json_object_size(root) == 2 && json_object_size(error) == 2);
        CHECK(strcmp(text_at(root, "type"), "error") == 0);
        return;
    }
    CHECK(json_object_size(error) == 4);
    CHECK(fault->param.size > 0 ? is_same(fault->param, json_object_get(error, "param"))
                                : json_is_null(json_object_get(error, "param")));
    CHECK(fault->code.size > 0 ? is_same(fault->code, json_object_get(error, "code"))
                               : json_is_null(json_object_get(error, "code")));
}

static void check_written(const struct fault *fault, enum api_shape shape, struct arena *arena)
{
    struct writer writer = writer_new(ARENA_BYTES);
    struct fault again;

    fault_write(fault, shape, &writer);
    CHECK(writer.err == OK);
#ifdef PLANT_BUG
    for (size_t i = 0; i < writer.text.size; i++)
        if (writer.text.data[i] == '\\') /* a text that was not escaped */
            writer.text.data[i] = '"';
#endif

    const struct span text = {writer.text.data, writer.text.size};

    check_body(text, fault, shape);
    fault_read(text, arena, &again);
    CHECK(fault_has_shape(&again, shape));
    CHECK(fault->message.size == 0 || span_equal(again.message, fault->message));
    buffer_free(&writer.text);
}

static void check_event(const struct fault *fault, enum endpoint endpoint)
{
    struct writer writer = writer_new(ARENA_BYTES);
    const bool named = endpoint != ENDPOINT_CHAT;
    const struct span begin = named ? SPAN("event: error\ndata: ") : SPAN("data: ");
    struct span text;

    fault_write_event(fault, endpoint, &writer);
    CHECK(writer.err == OK);
    text = (struct span){writer.text.data, writer.text.size};
    CHECK(span_starts(text, begin));
    text = span_from(text, begin.size);
    CHECK(text.size > 2 && memcmp(text.data + text.size - 2, "\n\n", 2) == 0);
    text.size -= 2;
    CHECK(memchr(text.data, '\n', text.size) == NULL && memchr(text.data, '\r', text.size) == NULL);
    check_body(text, fault, endpoint == ENDPOINT_MESSAGES ? SHAPE_ANTHROPIC : SHAPE_OPENAI);
    buffer_free(&writer.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    char *body = exact_copy(input);
    struct arena arena;
    struct fault fault;
    json_t *root;

    trees_begin();
    arena_init(&arena, NULL, 0, ARENA_BYTES);
    fault_read((struct span){body, input.size}, &arena, &fault);
    free(body); /* what was read lives in the arena */
    root = json_loadb(input.data, input.size, JSON_ALLOW_NUL, NULL);
    if (root != NULL && fault.form != FAULT_NONE && fault.form != FAULT_TEXT)
        check_read(&fault, root);
    (void)fault_is_context(&fault);
    if (steer != 0)
        fault.status = (int)(steer * 5 / 2); /* 2 … 637 */
    check_written(&fault, SHAPE_OPENAI, &arena);
    check_written(&fault, SHAPE_ANTHROPIC, &arena);
    check_event(&fault, ENDPOINT_CHAT);
    check_event(&fault, ENDPOINT_MESSAGES);
    check_event(&fault, ENDPOINT_RESPONSES);
    arena_fini(&arena);
    return 0;
}
