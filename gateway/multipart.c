/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/multipart.c: see multipart.h.
 *
 * For:       the parts of a form.
 * Called by: ask_form.c, parcel.c.
 * Knows not: which fields there are. */
#include "gateway/multipart.h"

/* ---- small texts: RFC 9110 section 5.6 ---- */

static bool is_token_byte(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static void pass_space(struct span *rest)
{
    while (rest->size > 0 && (*rest->data == ' ' || *rest->data == '\t'))
        *rest = span_from(*rest, 1);
}

static struct span take_token(struct span *rest)
{
    size_t size = 0;

    while (size < rest->size && is_token_byte(rest->data[size]))
        size++;

    const struct span token = {rest->data, size};

    *rest = span_from(*rest, size);
    return token;
}

/* Takes a quoted string: what stands between the quotes, as written. *out_escaped: with a backslash
 * in it. */
static bool take_quoted(struct span *rest, struct span *out_text, bool *out_escaped)
{
    size_t at = 1;

    *out_escaped = false;
    while (at < rest->size && rest->data[at] != '"') {
        if (rest->data[at] == '\\') {
            *out_escaped = true;
            at++;
        }
        at++;
    }
    if (at >= rest->size)
        return false;
    *out_text = (struct span){rest->data + 1, at - 1};
    *rest = span_from(*rest, at + 1);
    return true;
}

/* A parameter of a field: ; name=value. */
struct parameter {
    struct span name, value;
    bool escaped;
};

/* Takes the next parameter; *out_any false: there is none. false: not well-formed. */
static bool take_parameter(struct span *rest, struct parameter *out_parameter, bool *out_any)
{
    pass_space(rest);
    *out_any = rest->size > 0;
    if (!*out_any)
        return true;
    if (*rest->data != ';')
        return false;
    *rest = span_from(*rest, 1);
    pass_space(rest);
    *out_any = rest->size > 0; /* a last ; alone */
    if (!*out_any)
        return true;
    out_parameter->name = take_token(rest);
    if (out_parameter->name.size == 0 || rest->size < 2 || *rest->data != '=')
        return false;
    *rest = span_from(*rest, 1);
    if (*rest->data == '"')
        return take_quoted(rest, &out_parameter->value, &out_parameter->escaped);
    out_parameter->value = take_token(rest);
    out_parameter->escaped = false;
    return out_parameter->value.size > 0;
}

/* ---- the boundary ---- */

/* RFC 2046 section 5.1.1: bchars, and no space at the end. */
static bool is_boundary(struct span text)
{
    if (text.size == 0 || text.size > MULTIPART_BOUNDARY_MAX || text.data[text.size - 1] == ' ')
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        const bool letter =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!letter && (c == 0 || strchr("'()+_,-./:=? ", c) == NULL))
            return false;
    }
    return true;
}

/* The boundary of a content-type field. */
static bool find_boundary(struct span content_type, struct span *out_boundary)
{
    const struct span form = SPAN("multipart/form-data");
    struct parameter parameter;
    bool any;

    *out_boundary = (struct span){NULL, 0};
    pass_space(&content_type);
    if (content_type.size < form.size ||
        !span_equal_nocase((struct span){content_type.data, form.size}, form))
        return false;
    content_type = span_from(content_type, form.size);
    while (take_parameter(&content_type, &parameter, &any)) {
        if (!any)
            return out_boundary->data != NULL;
        if (!span_equal_nocase(parameter.name, SPAN("boundary")))
            continue;
        if (out_boundary->data != NULL || !is_boundary(parameter.value))
            return false;
        *out_boundary = parameter.value;
    }
    return false;
}

static char *put(char *at, struct span text)
{
    memcpy(at, text.data, text.size);
    return at + text.size;
}

bool multipart_write_type(struct span content_type, char room[MULTIPART_TYPE_BYTES],
                          struct span *out_field)
{
    struct span boundary, rest;
    char *at = room;

    if (!find_boundary(content_type, &boundary))
        return false;
    rest = boundary;
    (void)take_token(&rest);

    const struct span quote = rest.size > 0 ? SPAN("\"") : SPAN("");

    at = put(at, SPAN("multipart/form-data; boundary="));
    at = put(at, quote);
    at = put(at, boundary);
    at = put(at, quote);
    *out_field = (struct span){room, (size_t)(at - room)};
    return true;
}

/* ---- parts ---- */

static bool fail(struct multipart *form, size_t at, const char *problem)
{
    form->problem = problem;
    form->problem_at = at;
    return false;
}

bool multipart_init(struct multipart *form, struct span content_type, struct span body)
{
    struct span boundary;

    if (!find_boundary(content_type, &boundary))
        return false;
    memcpy(form->room, "\r\n--", 4);
    memcpy(form->room + 4, boundary.data, boundary.size);
    form->body = body;
    form->delimiter = (struct span){form->room, boundary.size + 4};
    form->at = 0;
    form->end = 0;
    form->count = 0;
    form->whole = false;
    form->problem = NULL;
    form->problem_at = 0;
    if (!span_starts(body, span_from(form->delimiter, 2)))
        (void)fail(form, 0, "the body does not begin with its boundary");
    else
        form->at = form->delimiter.size - 2;
    return true;
}

/* Takes a header line, without its end. */
static bool take_line(struct multipart *form, struct span *out_line)
{
    const struct span rest = {form->body.data + form->at, form->end - form->at};
    const char *end = memmem(rest.data, rest.size, "\r\n", 2);

    if (end == NULL)
        return fail(form, form->at, "the headers of a part do not end");
    *out_line = (struct span){rest.data, (size_t)(end - rest.data)};
    for (size_t i = 0; i < out_line->size; i++) {
        const unsigned char c = (unsigned char)out_line->data[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return fail(form, form->at + i, "a header of a part has a control byte");
    }
    form->at += out_line->size + 2;
    return true;
}

/* Reads form-data; name="…"; filename="…". RFC 7578 section 4.2 forbids name*. */
static bool read_disposition(struct multipart *form, struct span value, struct multipart_part *part)
{
    const size_t at = (size_t)(value.data - form->body.data);
    struct parameter parameter;
    bool any;

    if (!span_equal_nocase(take_token(&value), SPAN("form-data")))
        return fail(form, at, "the content-disposition of a part is not form-data");
    while (take_parameter(&value, &parameter, &any)) {
        if (!any)
            return true;
        if (span_equal_nocase(parameter.name, SPAN("name"))) {
            if (part->name.data != NULL || parameter.escaped)
                return fail(form, at, "a part has two names, or a backslash in its name");
            part->name = parameter.value;
        } else if (span_equal_nocase(parameter.name, SPAN("filename")) ||
                   span_equal_nocase(parameter.name, SPAN("filename*"))) {
            part->file = true;
        } else if (span_equal_nocase(parameter.name, SPAN("name*"))) {
            return fail(form, at, "a part has a name of the form name*");
        }
    }
    return fail(form, at, "the content-disposition of a part is not well-formed");
}

/* Reads one header of a part; those that matter stand once. */
static bool read_header(struct multipart *form, struct span line, struct multipart_part *part)
{
    const size_t at = (size_t)(line.data - form->body.data);
    const struct span name = take_token(&line);

    if (name.size == 0 || line.size == 0 || *line.data != ':')
        return fail(form, at, "a header of a part is not well-formed");
    line = span_from(line, 1);
    pass_space(&line);
    if (span_equal_nocase(name, SPAN("content-disposition"))) {
        if (part->name.data != NULL)
            return fail(form, at, "a part has two content-dispositions");
        if (!read_disposition(form, line, part))
            return false;
        if (part->name.data == NULL)
            return fail(form, at, "a part has no name");
    } else if (span_equal_nocase(name, SPAN("content-transfer-encoding"))) {
        if (!span_equal_nocase(line, SPAN("binary")) && !span_equal_nocase(line, SPAN("8bit")) &&
            !span_equal_nocase(line, SPAN("7bit")))
            return fail(form, at, "a part is encoded: send it as binary");
    }
    return true;
}

static bool read_headers(struct multipart *form, struct multipart_part *part)
{
    const size_t start = form->at;
    struct span line;

    for (uint32_t i = 0; i <= MULTIPART_HEADERS_MAX; i++) {
        if (!take_line(form, &line))
            return false;
        if (form->at - start > MULTIPART_HEADER_BYTES_MAX)
            return fail(form, start, "the headers of a part are too long");
        if (line.size == 0)
            return part->name.data != NULL || fail(form, start, "a part has no name");
        if (!read_header(form, line, part))
            return false;
    }
    return fail(form, start, "a part has too many headers");
}

/* Passes what follows a boundary: the end of its line, or the end of the form. */
static bool pass_boundary_end(struct multipart *form)
{
    struct span rest = span_from(form->body, form->at);

    if (span_starts(rest, SPAN("--"))) {
        rest = span_from(rest, 2);
        form->whole = rest.size == 0 || span_equal(rest, SPAN("\r\n"));
        if (!form->whole)
            return fail(form, form->at + 2, "something stands behind the last boundary");
        return false;
    }
    if (!span_starts(rest, SPAN("\r\n")))
        return fail(form, form->at, "the line of a boundary does not end with it");
    form->at += 2;
    return true;
}

/* Finds where the part ends: at the first boundary behind a line end, that of its own boundary's
 * line included, so that none can hide in headers or right behind them. */
static bool find_end(struct multipart *form)
{
    const struct span rest = span_from(form->body, form->at - 2);
    const char *end = memmem(rest.data, rest.size, form->delimiter.data, form->delimiter.size);

    if (end == NULL)
        return fail(form, form->body.size, "the last boundary is missing");
    form->end = (size_t)(end - form->body.data);
    if (form->end < form->at)
        return fail(form, form->at, "a part has no name");
    return true;
}

bool multipart_next(struct multipart *form, struct multipart_part *out_part)
{
    *out_part = (struct multipart_part){.name = {NULL, 0}};
    if (form->problem != NULL || form->whole || !pass_boundary_end(form))
        return false;
    if (form->count == MULTIPART_PARTS_MAX)
        return fail(form, form->at, "the form has too many parts");
    if (!find_end(form) || !read_headers(form, out_part))
        return false;
    out_part->value = (struct span){form->body.data + form->at, form->end - form->at};
    form->at = form->end + form->delimiter.size;
    form->count++;
    return true;
}
