/* SPDX-License-Identifier: Apache-2.0 */
/* meter/record_json.c: JSON as rows are spelt.
 *
 * For:       strict reading without copies and allocation: record_json.h, and what the texts,
 *            objects and arrays that a record borrows hold (record.h).
 * Called by: record.c; who reads records.
 * Knows not: which fields a row has. */
#include "meter/record_json.h"

#include "meter/record.h"

#define DEPTH_MAX 32u /* of values inside values */

/* ---- values of any kind ---- */

/* The first byte that is a quote, a backslash or a control character. */
static const char *find_special(const char *at, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = UINT64_C(0x8080808080808080);

    while (end - at >= 8) {
        uint64_t eight, quote, slash;

        memcpy(&eight, at, sizeof(eight));
        quote = eight ^ (ones * '"');
        slash = eight ^ (ones * '\\');
        if (((((eight - ones * 0x20) & ~eight) | ((quote - ones) & ~quote) |
              ((slash - ones) & ~slash)) &
             highs) != 0)
            break;
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
        at++;
    return at;
}

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

/* Behind a backslash. */
static bool skip_escape(struct record_reader *reader)
{
    if (reader->at == reader->end)
        return record_json_fail(reader, "a text has no end");
    if (*reader->at == 'u') {
        if (reader->end - reader->at < 5)
            return record_json_fail(reader, "an escape is cut");
        for (int i = 1; i < 5; i++)
            if (hex_digit(reader->at[i]) < 0)
                return record_json_fail(reader, "an escape that JSON does not have");
        reader->at += 5;
        return true;
    }
    if (*reader->at == '\0' || strchr("\"\\/bfnrt", *reader->at) == NULL)
        return record_json_fail(reader, "an escape that JSON does not have");
    reader->at++;
    return true;
}

/* A text: what stands between its quotes. */
bool record_json_text(struct record_reader *reader, struct span *out_text)
{
    const char *from;

    if (reader->at == reader->end || *reader->at != '"')
        return record_json_fail(reader, "expected a text");
    from = ++reader->at;
    for (;;) {
        reader->at = find_special(reader->at, reader->end);
        if (reader->at == reader->end)
            return record_json_fail(reader, "a text has no end");
        if (*reader->at == '"')
            break;
        if (*reader->at != '\\')
            return record_json_fail(reader, "a control character in a text");
        reader->at++;
        if (!skip_escape(reader))
            return false;
    }
    *out_text = (struct span){from, (size_t)(reader->at - from)};
    reader->at++;
    return true;
}

static bool skip_digits(struct record_reader *reader)
{
    const char *from = reader->at;

    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return reader->at > from || record_json_fail(reader, "expected a digit");
}

/* Any JSON number. */
static bool skip_number(struct record_reader *reader)
{
    if (*reader->at == '-')
        reader->at++;
    if (reader->at < reader->end && *reader->at == '0')
        reader->at++;
    else if (!skip_digits(reader))
        return false;
    if (reader->at < reader->end && *reader->at == '.') {
        reader->at++;
        if (!skip_digits(reader))
            return false;
    }
    if (reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
            reader->at++;
        return skip_digits(reader);
    }
    return true;
}

bool record_json_word(struct record_reader *reader, struct span word)
{
    if ((size_t)(reader->end - reader->at) < word.size ||
        memcmp(reader->at, word.data, word.size) != 0)
        return record_json_fail(reader, "expected a value");
    reader->at += word.size;
    return true;
}

static bool skip_scalar(struct record_reader *reader)
{
    struct span text;

    if (reader->at == reader->end)
        return record_json_fail(reader, "expected a value");
    switch (*reader->at) {
    case '"':
        return record_json_text(reader, &text);
    case 't':
        return record_json_word(reader, SPAN("true"));
    case 'f':
        return record_json_word(reader, SPAN("false"));
    case 'n':
        return record_json_word(reader, SPAN("null"));
    default:
        if (*reader->at == '-' || (*reader->at >= '0' && *reader->at <= '9'))
            return skip_number(reader);
        return record_json_fail(reader, "expected a value");
    }
}

/* A member's name and its colon. */
bool record_json_name(struct record_reader *reader, struct span *out_name)
{
    record_json_blanks(reader);
    if (!record_json_text(reader, out_name))
        return false;
    record_json_blanks(reader);
    if (reader->at == reader->end || *reader->at != ':')
        return record_json_fail(reader, "expected a colon");
    reader->at++;
    record_json_blanks(reader);
    return true;
}

/* Behind an opening bracket: is it closed at once? */
bool record_json_empty(struct record_reader *reader, char closing)
{
    record_json_blanks(reader);
    if (reader->at == reader->end || *reader->at != closing)
        return false;
    reader->at++;
    return true;
}

/* Behind a member or an item: *out_more says whether a comma or the end came. */
bool record_json_comma(struct record_reader *reader, char closing, bool *out_more)
{
    record_json_blanks(reader);
    if (reader->at == reader->end)
        return record_json_fail(reader, "the line ends within a value");
    if (*reader->at != ',' && *reader->at != closing)
        return record_json_fail(reader, "expected a comma or the end");
    *out_more = *reader->at == ',';
    reader->member = reader->at;
    reader->at++;
    return true;
}

/* Any value. Brackets that are open are bits: 1 an object, 0 an array. */
bool record_json_skip(struct record_reader *reader)
{
    uint32_t objects = 0;
    uint32_t depth = 0;
    struct span name;

    for (;;) {
        bool opened = false;
        bool more = false;

        if (reader->at < reader->end && (*reader->at == '{' || *reader->at == '[')) {
            const bool is_object = *reader->at == '{';

            reader->at++;
            if (!record_json_empty(reader, is_object ? '}' : ']')) {
                if (depth == DEPTH_MAX)
                    return record_json_fail(reader, "too many values within values");
                objects = objects << 1 | is_object;
                depth++;
                opened = true;
            }
        } else if (!skip_scalar(reader)) {
            return false;
        }
        while (!opened && depth > 0 && !more) {
            if (!record_json_comma(reader, (objects & 1) != 0 ? '}' : ']', &more))
                return false;
            if (!more) {
                objects >>= 1;
                depth--;
            }
        }
        if (depth == 0)
            return true;
        if ((objects & 1) == 0)
            record_json_blanks(reader);
        else if (!record_json_name(reader, &name))
            return false;
    }
}

/* ---- numbers ---- */

/* An integer as row.c spells it: no fraction, no exponent, no leading zero. */
bool record_json_integer(struct record_reader *reader, int64_t *out_value)
{
    const char *at = reader->at;
    const bool negative = at < reader->end && *at == '-';
    const char *digits = negative ? at + 1 : at;
    uint64_t value = 0;

    for (at = digits; at < reader->end && *at >= '0' && *at <= '9'; at++) {
        if (at - digits >= 19)
            return record_json_fail(reader, "a number out of range");
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (at == digits || (*digits == '0' && (at - digits > 1 || negative)) ||
        (at < reader->end && (*at == '.' || *at == 'e' || *at == 'E')))
        return record_json_fail(reader, "expected a whole number");
    if (value > (uint64_t)INT64_MAX + negative)
        return record_json_fail(reader, "a number out of range");
    *out_value = (int64_t)(negative ? 0 - value : value);
    reader->at = at;
    return true;
}

/* ---- what borrowed values hold ---- */

/* A value as record_members() and record_items() hand it out. */
static bool read_spelt(struct record_reader *reader, struct span *out_value)
{
    const char *from = reader->at;

    if (from < reader->end && *from == '"')
        return record_json_text(reader, out_value);
    if (!record_json_skip(reader))
        return false;
    *out_value = (struct span){from, (size_t)(reader->at - from)};
    return true;
}

bool record_members(struct span object,
                    bool (*visit)(void *owner, struct span name, struct span value), void *owner)
{
    struct record_reader reader = {
        .start = object.data, .at = object.data, .end = object.data + object.size};
    bool more = true;

    if (object.size == 0 || *reader.at != '{')
        return false;
    reader.at++;
    if (record_json_empty(&reader, '}'))
        return reader.at == reader.end;
    while (more) {
        struct span name, value;

        if (!record_json_name(&reader, &name) || !read_spelt(&reader, &value))
            return false;
        if (!visit(owner, name, value))
            return true;
        if (!record_json_comma(&reader, '}', &more))
            return false;
    }
    return reader.at == reader.end;
}

bool record_items(struct span array, bool (*visit)(void *owner, struct span item), void *owner)
{
    struct record_reader reader = {
        .start = array.data, .at = array.data, .end = array.data + array.size};
    bool more = true;

    if (array.size == 0 || *reader.at != '[')
        return false;
    reader.at++;
    if (record_json_empty(&reader, ']'))
        return reader.at == reader.end;
    while (more) {
        struct span item;

        record_json_blanks(&reader);
        if (!read_spelt(&reader, &item))
            return false;
        if (!visit(owner, item))
            return true;
        if (!record_json_comma(&reader, ']', &more))
            return false;
    }
    return reader.at == reader.end;
}

/* ---- escapes ---- */

static size_t put_utf8(uint32_t rune, char out[4])
{
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }
    if (rune < 0x800) {
        out[0] = (char)(0xc0 | rune >> 6);
        out[1] = (char)(0x80 | (rune & 0x3f));
        return 2;
    }
    if (rune < 0x10000) {
        out[0] = (char)(0xe0 | rune >> 12);
        out[1] = (char)(0x80 | (rune >> 6 & 0x3f));
        out[2] = (char)(0x80 | (rune & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | rune >> 18);
    out[1] = (char)(0x80 | (rune >> 12 & 0x3f));
    out[2] = (char)(0x80 | (rune >> 6 & 0x3f));
    out[3] = (char)(0x80 | (rune & 0x3f));
    return 4;
}

/* Four hex digits at `at`; -1: there are none. */
static int32_t read_unit(struct span spelt, size_t at)
{
    int32_t unit = 0;

    if (at + 4 > spelt.size)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        const int digit = hex_digit(spelt.data[at + i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Behind \u; a surrogate without its other half is U+FFFD. Moves *at behind what was read. */
static uint32_t read_rune(struct span spelt, size_t *at)
{
    const int32_t high = read_unit(spelt, *at);
    int32_t low;

    if (high < 0)
        return 0xfffd;
    *at += 4;
    if (high < 0xd800 || high > 0xdfff)
        return (uint32_t)high;
    if (high > 0xdbff || *at + 2 > spelt.size || spelt.data[*at] != '\\' ||
        spelt.data[*at + 1] != 'u')
        return 0xfffd;
    low = read_unit(spelt, *at + 2);
    if (low < 0xdc00 || low > 0xdfff)
        return 0xfffd;
    *at += 6;
    return 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
}

static size_t character_bytes(unsigned char lead, size_t left)
{
    const size_t bytes = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

    return bytes < left ? bytes : left;
}

/* The character at *at, which is moved behind it. */
static size_t read_character(struct span spelt, size_t *at, char out[4])
{
    static const char from[] = "bfnrt";
    static const char to[] = "\b\f\n\r\t";
    const char *found;

    if (spelt.data[*at] != '\\' || *at + 1 == spelt.size) {
        const size_t bytes = character_bytes((unsigned char)spelt.data[*at], spelt.size - *at);
        memcpy(out, spelt.data + *at, bytes);
        *at += bytes;
        return bytes;
    }
    *at += 2;
    if (spelt.data[*at - 1] == 'u')
        return put_utf8(read_rune(spelt, at), out);
    out[0] = spelt.data[*at - 1];
    found = memchr(from, out[0], sizeof(from) - 1);
    if (found)
        out[0] = to[found - from];
    return 1;
}

size_t record_text(struct span spelt, char *out, size_t out_size)
{
    size_t size = 0;

    if (out_size == 0)
        return 0;
    for (size_t at = 0; at < spelt.size;) {
        char character[4];
        const size_t bytes = read_character(spelt, &at, character);

        if (bytes > out_size - 1 - size)
            break;
        memcpy(out + size, character, bytes);
        size += bytes;
    }
    out[size] = '\0';
    return size;
}
