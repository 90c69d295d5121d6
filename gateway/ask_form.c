/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask_form.c: a form to an ask, for the endpoints that take audio.
 *
 * For:       what routing, metering and limits need to know of a multipart body, in one pass.
 * Called by: steps.c.
 * Knows not: sockets, tenants, prices; audio.
 *
 * Fields: OpenAI's API reference (audio) and vLLM's protocol of transcriptions, which flattens
 * stream_options into fields of their own. */
#include "gateway/ask_reader.h"
#include "gateway/multipart.h"

/* What is carried through the parts. */
struct form_reader {
    struct multipart form;
    const struct ask_limits *limits;
    struct ask ask;
    struct ask_problem problem;
    uint32_t seen; /* bits of the fields read so far */
};

/* A field that matters. */
struct form_field {
    struct span name;
    bool (*read)(struct form_reader *reader, const struct form_field *field, struct span value);
};

static bool refuse(struct form_reader *reader, size_t at, const char *message, const char *param)
{
    reader->problem = (struct ask_problem){.offset = at, .message = message, .param = param};
    return false;
}

static size_t offset_of(const struct form_reader *reader, struct span value)
{
    return (size_t)(value.data - reader->form.body.data);
}

static bool bad_value(struct form_reader *reader, const struct form_field *field, struct span value,
                      const char *message)
{
    return refuse(reader, offset_of(reader, value), message, field->name.data);
}

static bool read_model(struct form_reader *reader, const struct form_field *field,
                       struct span value)
{
    if (value.size == 0)
        return bad_value(reader, field, value, "this field is empty");
    reader->ask.model = value;
    reader->ask.model_place = (struct ask_place){offset_of(reader, value), value.size};
    return true;
}

static bool read_file(struct form_reader *reader, const struct form_field *field, struct span value)
{
    if (value.size == 0)
        return bad_value(reader, field, value, "this file is empty");
    reader->ask.images = true;
    reader->ask.parts[PART_AUDIO] = 1;
    return true;
}

static bool read_text(struct form_reader *reader, const struct form_field *field, struct span value)
{
    (void)field;
    reader->ask.text_bytes += (int64_t)value.size;
    return true;
}

/* As the servers' frameworks read the text of a boolean; other spellings that they take are not
 * sent by clients. */
static bool read_flag(struct form_reader *reader, const struct form_field *field, struct span value,
                      bool *out_flag)
{
    const bool yes = span_equal_nocase(value, SPAN("true")) || span_equal(value, SPAN("1"));
    const bool no = span_equal_nocase(value, SPAN("false")) || span_equal(value, SPAN("0"));

    if (!yes && !no)
        return bad_value(reader, field, value, "this field must be true or false");
    *out_flag = yes;
    return true;
}

static bool read_stream(struct form_reader *reader, const struct form_field *field,
                        struct span value)
{
    return read_flag(reader, field, value, &reader->ask.stream);
}

static bool read_include_usage(struct form_reader *reader, const struct form_field *field,
                               struct span value)
{
    return read_flag(reader, field, value, &reader->ask.include_usage);
}

static bool read_continuous_usage(struct form_reader *reader, const struct form_field *field,
                                  struct span value)
{
    return read_flag(reader, field, value, &reader->ask.continuous_usage);
}

static bool read_count(struct form_reader *reader, const struct form_field *field,
                       struct span value, int64_t minimum, int64_t maximum, int64_t *out_count)
{
    int64_t count;

    if (!span_to_int64(value, &count))
        return bad_value(reader, field, value, "this must be a whole number");
    if (count < minimum || count > maximum)
        return bad_value(reader, field, value, "this number is out of the range served here");
    *out_count = count;
    return true;
}

static bool read_n(struct form_reader *reader, const struct form_field *field, struct span value)
{
    return read_count(reader, field, value, 1, reader->limits->n, &reader->ask.n);
}

static bool read_tokens(struct form_reader *reader, const struct form_field *field,
                        struct span value)
{
    return read_count(reader, field, value, 0, INT64_MAX, &reader->ask.max_tokens);
}

static const struct form_field fields[] = {
    {SPAN("model"), read_model},
    {SPAN("file"), read_file},
    {SPAN("prompt"), read_text},
    {SPAN("hotwords"), read_text},
    {SPAN("stream"), read_stream},
    {SPAN("stream_include_usage"), read_include_usage},
    {SPAN("stream_continuous_usage_stats"), read_continuous_usage},
    {SPAN("n"), read_n},
    {SPAN("max_completion_tokens"), read_tokens},
};

#define SEEN_MODEL (1u << 0)
#define SEEN_FILE (1u << 1)

/* Reads a part, if its field matters; such a field stands once, and is a text if it is no file. */
static bool read_part(struct form_reader *reader, const struct multipart_part *part)
{
    for (uint32_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct form_field *field = &fields[i];

        if (!span_equal(part->name, field->name))
            continue;
        if (reader->seen & 1u << i)
            return bad_value(reader, field, part->value, "this field stands twice in the form");
        if (part->file && field->read != read_file)
            return bad_value(reader, field, part->value, "this field must be a text, not a file");
        reader->seen |= 1u << i;
        return field->read(reader, field, part->value);
    }
    reader->ask.refused |= ask_refused_bits(part->name);
    reader->ask.other_bytes += (int64_t)part->value.size;
    return true;
}

static bool read_parts(struct form_reader *reader)
{
    struct multipart_part part;

    while (multipart_next(&reader->form, &part))
        if (!read_part(reader, &part))
            return false;
    if (reader->form.problem != NULL)
        return refuse(reader, reader->form.problem_at, reader->form.problem, NULL);
    if (!(reader->seen & SEEN_MODEL))
        return refuse(reader, 0, "this field is missing", "model");
    if (!(reader->seen & SEEN_FILE))
        return refuse(reader, 0, "this field is missing", "file");
    return true;
}

enum err ask_read_multipart(struct span body, struct span content_type,
                            const struct ask_limits *limits, struct ask *out_ask,
                            struct ask_problem *out_problem)
{
    struct form_reader reader = {
        .limits = limits,
        .ask = {.n = 1, .prompts = 1, .max_tokens = -1, .generates = true, .multipart = true},
    };

    if (!multipart_init(&reader.form, content_type, body))
        return ERR_BAD_CONTENT_TYPE;
    if (!read_parts(&reader)) {
        *out_problem = reader.problem;
        return ERR_BAD_VALUE;
    }
    reader.ask.continuous_usage = reader.ask.continuous_usage && reader.ask.include_usage;
    *out_ask = reader.ask;
    return OK;
}
