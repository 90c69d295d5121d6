/* SPDX-License-Identifier: Apache-2.0 */
/* meter/skim.c: what a start needs of a line of the journal, and no more.
 *
 * For:       members of the outermost object alone; what is inside others is passed over, texts
 *            and brackets minded.
 * Called by: history.c.
 * Knows not: what the other fields mean. */
#include "meter/skim.h"

#include <string.h>

/* Where in the line we are. */
struct cursor {
    const char *at, *end;
};

/* A compact line has none, and a text may not have one. */
static bool has_control_bytes(struct span line)
{
    unsigned found = 0;

    for (size_t i = 0; i < line.size; i++)
        found |= (unsigned char)line.data[i] < 0x20;
    return found != 0;
}

/* The inside of a text, whose opening quote is at hand. */
static bool take_text(struct cursor *cursor, struct span *out_text)
{
    const char *start = cursor->at + 1;
    const char *quote = start;

    if (cursor->at >= cursor->end || *cursor->at != '"')
        return false;
    for (;;) {
        const char *before;
        quote = memchr(quote, '"', (size_t)(cursor->end - quote));
        if (!quote)
            return false;
        for (before = quote; before > start && before[-1] == '\\';)
            before--;
        if ((quote - before) % 2 == 0)
            break;
        quote++;
    }
    *out_text = (struct span){start, (size_t)(quote - start)};
    cursor->at = quote + 1;
    return true;
}

/* Digits with a sign, true, false or null; what they are is not minded. */
static bool pass_scalar(struct cursor *cursor)
{
    const char *start = cursor->at;

    while (cursor->at < cursor->end &&
           (*cursor->at == '-' || (*cursor->at >= '0' && *cursor->at <= '9') ||
            (*cursor->at >= 'a' && *cursor->at <= 'z')))
        cursor->at++;
    return cursor->at > start;
}

/* An object or array, whose bracket is at hand. */
static bool pass_nested(struct cursor *cursor)
{
    unsigned depth = 0;

    do {
        struct span text;
        if (cursor->at >= cursor->end)
            return false;
        if (*cursor->at == '"') {
            if (!take_text(cursor, &text))
                return false;
            continue;
        }
        if (*cursor->at == '{' || *cursor->at == '[')
            depth++;
        else if (*cursor->at == '}' || *cursor->at == ']')
            depth--;
        cursor->at++;
    } while (depth > 0);
    return true;
}

static bool to_signed(struct span text, int64_t *out_value)
{
    const bool negative = text.size > 0 && text.data[0] == '-';

    if (!span_to_int64(negative ? span_from(text, 1) : text, out_value))
        return false;
    if (negative)
        *out_value = -*out_value;
    return true;
}

/* The fields that are wanted, and which were seen. */
enum { SEEN_SEQ = 1, SEEN_KIND = 2, SEEN_TENANT = 4, SEEN_COST = 8, SEEN_ALL = 15 };

static unsigned field_of(struct span name)
{
    switch (name.size) {
    case 3:
        return span_equal(name, SPAN("seq")) ? SEEN_SEQ : 0;
    case 4:
        return span_equal(name, SPAN("kind")) ? SEEN_KIND : 0;
    case 6:
        return span_equal(name, SPAN("tenant")) ? SEEN_TENANT : 0;
    case 9:
        return span_equal(name, SPAN("cost_pusd")) ? SEEN_COST : 0;
    default:
        return 0;
    }
}

/* The value of a member; a wanted one must be plain and of its type. */
static bool take_value(struct cursor *cursor, unsigned field, struct skimmed *row)
{
    const char *start = cursor->at;
    struct span text;

    if (start >= cursor->end)
        return false;
    if (*start == '{' || *start == '[')
        return field == 0 && pass_nested(cursor);
    if (*start != '"') {
        if (!pass_scalar(cursor))
            return false;
        text = (struct span){start, (size_t)(cursor->at - start)};
        return field == 0 || (field == SEEN_SEQ && span_to_int64(text, &row->seq));
    }
    if (!take_text(cursor, &text))
        return false;
    if (field == SEEN_KIND)
        row->kind = text;
    else if (field == SEEN_TENANT)
        row->tenant = text;
    else if (field == SEEN_COST)
        return to_signed(text, &row->cost_pusd);
    return field == 0 || (field != SEEN_SEQ && !memchr(text.data, '\\', text.size));
}

bool skim_row(struct span line, struct skimmed *out_row)
{
    struct cursor cursor = {line.data + 1, line.data + line.size};
    unsigned seen = 0;
    char next = ',';

    if (line.size < 2 || line.data[0] != '{' || has_control_bytes(line))
        return false;
    while (next == ',') {
        struct span name;
        unsigned field;
        if (!take_text(&cursor, &name) || cursor.at >= cursor.end || *cursor.at++ != ':')
            return false;
        field = field_of(name);
        if ((seen & field) != 0 || !take_value(&cursor, field, out_row) || cursor.at >= cursor.end)
            return false;
        seen |= field;
        next = *cursor.at++;
    }
    return next == '}' && cursor.at == cursor.end && seen == SEEN_ALL;
}
