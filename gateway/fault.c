/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/fault.c: see fault.h.
 *
 * For:       reading errors of any known server, writing them in the shape of an API.
 * Called by: reply.c (errors of our own), relay.c, rewrite.c, translate_*.c.
 * Knows not: HTTP, sockets, errors of our own. */
#include "gateway/fault.h"

#include "gateway/value.h"

#define DEPTH_MAX 64u
#define RAW_BYTES_MAX (6 * FAULT_MESSAGE_BYTES) /* of one text: an escape takes six for one */
#define NOTHING ((struct span){NULL, 0})

/* The members of one object that may say something, as JSON text; {NULL, 0}: not there. Of two of
 * the same name the last counts. */
struct members {
    struct span object, type, message, param, code; /* of OpenAI and all that are like it */
    struct span error, error_type, detail, response, sequence; /* of the outermost object */
    struct span location, text;                                /* of an element of detail */
};

/* ---- reading JSON ---- */

/* Neither there nor null, false or "". */
static bool is_nothing(struct span value)
{
    return value.size == 0 || span_equal(value, SPAN("null")) || span_equal(value, SPAN("false")) ||
           span_equal(value, SPAN("\"\""));
}

static struct span *member_of(struct members *members, struct span key)
{
    const struct {
        struct span key;
        struct span *value;
    } known[] = {
        {SPAN("object"), &members->object},
        {SPAN("type"), &members->type},
        {SPAN("message"), &members->message},
        {SPAN("param"), &members->param},
        {SPAN("code"), &members->code},
        {SPAN("error"), &members->error},
        {SPAN("detail"), &members->detail},
        {SPAN("error_type"), &members->error_type},
        {SPAN("sequence_number"), &members->sequence},
        {SPAN("response"), &members->response},
        {SPAN("loc"), &members->location},
        {SPAN("msg"), &members->text},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (span_equal(known[i].key, key))
            return known[i].value;
    return NULL;
}

/* The members of an object; false: value is none. */
static bool read_members(struct span value, struct members *out)
{
    char scratch[VALUE_NAME_BYTES];
    struct value_walk walk;
    struct span key;
    struct span member;

    *out = (struct members){0};
    value_walk_object(&walk, value);
    while (value_next_member(&walk, &key, &member)) {
        struct span *known = member_of(out, value_name(key, scratch));

        if (known != NULL)
            *known = member;
    }
    return value_is(value, '{');
}

/* The first bytes of text, at most so many, that end where a character ends. */
static struct span cut(struct span text, size_t most)
{
    if (text.size <= most)
        return text;
    while (most > 0 && ((unsigned char)text.data[most] & 0xc0) == 0x80)
        most--;
    return (struct span){text.data, most};
}

/* What a JSON value says as text: a string decoded (as it is written if it holds half of a
 * surrogate pair or had to be cut inside an escape), null nothing, all else as it is written. */
static struct span say(struct span value, struct arena *arena)
{
    struct span raw = value;
    size_t size;

    if (is_nothing(value))
        return NOTHING;
    if (value_is(value, '"'))
        raw = (struct span){value.data + 1, value.size - 2};
    raw = cut(raw, RAW_BYTES_MAX);

    char *text = arena_take(arena, raw.size);

    if (text == NULL)
        return NOTHING;
    if (value_is(value, '"') && scan_decode(raw, text, &size))
        return (struct span){text, size};
    memcpy(text, raw.data, raw.size);
    return (struct span){text, raw.size};
}

static struct span say_message(struct span value, struct arena *arena)
{
    return cut(say(value, arena), FAULT_MESSAGE_BYTES);
}

/* A type, param or code: a string or a number, and short. */
static struct span say_name(struct span value, struct arena *arena)
{
    if (value_is(value, '{') || value_is(value, '[') || value.size > FAULT_NAME_BYTES)
        return NOTHING;
    return say(value, arena);
}

/* An HTTP status written as a number; 0: it is none. */
static int status_of(struct span value)
{
    int64_t number;

    return span_to_int64(value, &number) && number >= 100 && number <= 599 ? (int)number : 0;
}

/* ---- OpenAI's members, at the root or in `error` ---- */

static void take_members(const struct members *members, struct arena *arena, struct fault *out)
{
    out->message = say_message(members->message, arena);
    if (!span_equal(members->type,
                    SPAN("\"error\""))) /* what an event is called, no type of error */
        out->type = say_name(members->type, arena);
    out->param = say_name(members->param, arena);
    out->status = status_of(members->code);
    if (out->status == 0)
        out->code = say_name(members->code, arena);
}

/* The texts of an error object, whose members are left in *inner; false: it is none. */
static bool take_nested(struct span value, struct arena *arena, struct members *inner,
                        struct fault *out)
{
    if (!read_members(value, inner))
        return false;
    take_members(inner, arena, out);
    return true;
}

/* {"error":{…}} */
static void read_nested(const struct members *root, struct arena *arena, struct fault *out)
{
    struct members inner;

    if (!take_nested(root->error, arena, &inner, out))
        return;
    if (!value_is(inner.message, '"'))
        out->form = FAULT_FLAT;
    else if (span_equal(root->type, SPAN("\"error\"")) && value_is(inner.type, '"'))
        out->form = FAULT_ANTHROPIC;
    else
        out->form = FAULT_OPENAI;
}

/* An event of a responses stream that tells of an error; false: it is none. */
static bool read_response(const struct members *root, struct arena *arena, struct fault *out)
{
    struct members response, inner;

    if (span_equal(root->type, SPAN("\"response.failed\"")) &&
        read_members(root->response, &response)) {
        (void)take_nested(response.error, arena, &inner, out);
    } else if (span_equal(root->type, SPAN("\"error\"")) && root->sequence.size > 0) {
        if (!take_nested(root->error, arena, &inner, out))
            take_members(root, arena, out);
    } else {
        return false;
    }
    if (!span_to_int64(root->sequence, &out->sequence))
        out->sequence = 0;
    out->form = FAULT_RESPONSE;
    return true;
}

/* ---- FastAPI's detail ---- */

/* Appends as much as there is room for. */
static void append(struct text *text, struct span more)
{
    text_put(text, cut(more, (size_t)(text->end - text->at)));
}

/* ["body","messages",0] as body.messages.0. */
static struct span read_location(struct span value, struct arena *arena)
{
    struct scan scan;
    struct text text;
    struct span part;
    bool first = true;

    scan_init(&scan, value, DEPTH_MAX);
    if (!value_is(value, '[') || !text_init(&text, arena, FAULT_NAME_BYTES) ||
        !scan_enter(&scan, SCAN_ARRAY))
        return NOTHING;
    while (scan_element(&scan, &first) && scan_skip(&scan, &part)) {
        if (text.at > text.start)
            append(&text, SPAN("."));
        append(&text, say_name(part, arena));
    }
    return text.at > text.start ? text_span(&text) : NOTHING;
}

/* [{"loc":["body","messages"],"msg":"Field required"}, …] as "body.messages: Field required; …". */
static void read_problems(struct span value, struct arena *arena, struct fault *out)
{
    struct scan scan;
    struct text text;
    struct span element;
    bool first = true;

    scan_init(&scan, value, DEPTH_MAX);
    if (!text_init(&text, arena, FAULT_MESSAGE_BYTES) || !scan_enter(&scan, SCAN_ARRAY))
        return;
    while (scan_element(&scan, &first) && scan_skip(&scan, &element)) {
        struct members problem;

        if (text.at == text.end || !read_members(element, &problem) || !value_is(problem.text, '"'))
            continue;

        const struct span location = read_location(problem.location, arena);

        if (text.at > text.start)
            append(&text, SPAN("; "));
        else
            out->param = location;
        if (location.size > 0) {
            append(&text, location);
            append(&text, SPAN(": "));
        }
        append(&text, say(problem.text, arena));
    }
    if (text.at > text.start)
        out->message = text_span(&text);
}

static void read_detail(struct span value, struct arena *arena, struct fault *out)
{
    out->form = FAULT_DETAIL;
    if (value_is(value, '['))
        read_problems(value, arena, out);
    if (out->message.data == NULL)
        out->message = say_message(value, arena);
}

/* ---- what is no JSON ---- */

/* Is it UTF-8 without control bytes but white space? At most FAULT_TEXT_BYTES. */
static bool is_text(struct span text)
{
    char quoted[FAULT_TEXT_BYTES + 2];
    struct span ignored;

    quoted[0] = quoted[text.size + 1] = '"';
    for (size_t i = 0; i < text.size; i++)
        quoted[i + 1] =
            text.data[i] != '\0' && strchr("\"\\\r\n\t", text.data[i]) != NULL ? ' ' : text.data[i];
    return memchr(text.data, 0x7f, text.size) == NULL &&
           value_read((struct span){quoted, text.size + 2}, DEPTH_MAX, &ignored);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void read_text(struct span body, struct arena *arena, struct fault *out)
{
    while (body.size > 0 && is_space(body.data[0]))
        body = span_from(body, 1);
    body = cut(body, FAULT_TEXT_BYTES);
    while (body.size > 0 && is_space(body.data[body.size - 1]))
        body.size--;
    if (body.size == 0 || !is_text(body))
        return;
    out->message = arena_copy(arena, body);
    out->form = FAULT_TEXT;
}

/* ---- the whole ---- */

void fault_read(struct span body, struct arena *arena, struct fault *out)
{
    struct span value;
    struct members root;

    *out = (struct fault){0};
    if (!value_read(body, DEPTH_MAX, &value) || !read_members(value, &root)) {
        read_text(body, arena, out);
    } else if (read_response(&root, arena, out)) {
        return;
    } else if (value_is(root.error, '{')) {
        read_nested(&root, arena, out);
    } else if (value_is(root.message, '"')) {
        take_members(&root, arena, out);
        out->form = FAULT_FLAT;
    } else if (value_is(root.error, '"')) {
        out->message = say_message(root.error, arena);
        out->type = say_name(root.error_type, arena);
        out->form = FAULT_STRING;
    } else if (!is_nothing(root.detail)) {
        read_detail(root.detail, arena, out);
    } else {
        read_text(body, arena, out);
    }
}

/* Anthropic's types by status. Source: its API reference, "Errors". */
static const struct {
    int status;
    struct span type;
} anthropic_types[] = {
    {400, SPAN("invalid_request_error")}, {401, SPAN("authentication_error")},
    {402, SPAN("billing_error")},         {403, SPAN("permission_error")},
    {404, SPAN("not_found_error")},       {413, SPAN("request_too_large")},
    {429, SPAN("rate_limit_error")},      {500, SPAN("api_error")},
    {503, SPAN("overloaded_error")},      {504, SPAN("timeout_error")},
    {529, SPAN("overloaded_error")},
};

/* vLLM has the shape, but types of its own in it. */
static bool is_anthropic_type(struct span type)
{
    for (size_t i = 0; i < sizeof anthropic_types / sizeof anthropic_types[0]; i++)
        if (span_equal(anthropic_types[i].type, type))
            return true;
    return false;
}

bool fault_has_shape(const struct fault *fault, enum api_shape shape)
{
    if (shape == SHAPE_ANTHROPIC)
        return fault->form == FAULT_ANTHROPIC && is_anthropic_type(fault->type);
    return fault->form == FAULT_OPENAI || fault->form == FAULT_RESPONSE;
}

/* ---- the context ---- */

/* Sources: vLLM vllm/renderers/params.py and what 0.32.0 was seen to answer (the first two); SGLang
 * managers/tokenizer_manager.py (the two that begin with "is longer" and "Requested"); llama.cpp
 * tools/server; TGI router/src/validation.rs; OpenAI's code. */
static const struct span context_messages[] = {
    SPAN("This model's maximum context length is"),
    SPAN("cannot be greater than max_model_len"),
    SPAN("is longer than the model's context length"),
    SPAN("Requested token count exceeds the model's maximum context length"),
    SPAN("exceeds the available context size"),
    SPAN("`inputs` tokens + `max_new_tokens` must be <="),
    SPAN("`inputs` must have less than"),
};

bool fault_is_context(const struct fault *fault)
{
    if (span_equal(fault->code, SPAN("context_length_exceeded")) ||
        span_equal(fault->type, SPAN("exceed_context_size_error")))
        return true;
    for (size_t i = 0; i < sizeof context_messages / sizeof context_messages[0]; i++)
        if (fault->message.size > 0 &&
            memmem(fault->message.data, fault->message.size, context_messages[i].data,
                   context_messages[i].size) != NULL)
            return true;
    return false;
}

/* ---- writing ---- */

static struct span anthropic_type(const struct fault *fault)
{
    for (size_t i = 0; i < sizeof anthropic_types / sizeof anthropic_types[0]; i++)
        if (fault->status == 0 ? span_equal(anthropic_types[i].type, fault->type)
                               : anthropic_types[i].status == fault->status)
            return anthropic_types[i].type;
    return fault->status >= 400 && fault->status < 500 ? SPAN("invalid_request_error")
                                                       : SPAN("api_error");
}

static struct span openai_type(const struct fault *fault)
{
    if (fault->type.size > 0)
        return fault->type;
    if (fault->status == 429)
        return SPAN("rate_limit_error");
    if (fault->status == 503)
        return SPAN("service_unavailable_error");
    return fault->status >= 400 && fault->status < 500 ? SPAN("invalid_request_error")
                                                       : SPAN("server_error");
}

static void write_message(const struct fault *fault, struct writer *out)
{
    writer_literal(out, "\"message\":");
    writer_text(out, fault->message.size > 0 ? fault->message
                                             : SPAN("the model server did not say what is wrong"));
}

static void write_or_null(struct span text, struct writer *out)
{
    if (text.size > 0)
        writer_text(out, text);
    else
        writer_literal(out, "null");
}

/* "error":{…} as OpenAI has it. */
static void write_openai(const struct fault *fault, struct writer *out)
{
    writer_literal(out, "\"error\":{");
    write_message(fault, out);
    writer_literal(out, ",\"type\":");
    writer_text(out, openai_type(fault));
    writer_literal(out, ",\"param\":");
    write_or_null(fault->param, out);
    writer_literal(out, ",\"code\":");
    write_or_null(fault->code, out);
    writer_literal(out, "}");
}

void fault_write(const struct fault *fault, enum api_shape shape, struct writer *out)
{
    writer_literal(out, "{");
    if (shape == SHAPE_ANTHROPIC) {
        writer_literal(out, "\"type\":\"error\",\"error\":{\"type\":");
        writer_text(out, anthropic_type(fault));
        writer_literal(out, ",");
        write_message(fault, out);
        writer_literal(out, "}");
    } else {
        write_openai(fault, out);
    }
    writer_literal(out, "}");
}

/* The members of OpenAI's ResponseErrorEvent, and `error` beside them: its Python client raises on
 * that member alone and else hands the event to the caller as any other; its Node client makes the
 * error of that member. */
static void write_response_error(const struct fault *fault, struct writer *out)
{
    writer_literal(out, "{\"type\":\"error\",\"code\":");
    write_or_null(fault->code, out);
    writer_literal(out, ",");
    write_message(fault, out);
    writer_literal(out, ",\"param\":");
    write_or_null(fault->param, out);
    writer_literal(out, ",\"sequence_number\":");
    writer_number(out, fault->sequence);
    writer_literal(out, ",");
    write_openai(fault, out);
    writer_literal(out, "}");
}

void fault_write_event(const struct fault *fault, enum endpoint endpoint, struct writer *out)
{
    const enum api_shape shape = endpoint_row(endpoint)->shape;

    if (shape == SHAPE_ANTHROPIC || endpoint == ENDPOINT_RESPONSES)
        writer_literal(out, "event: error\n");
    writer_literal(out, "data: ");
    if (endpoint == ENDPOINT_RESPONSES)
        write_response_error(fault, out);
    else
        fault_write(fault, shape, out);
    writer_literal(out, "\n\n");
}
