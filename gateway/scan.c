/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/scan.c: finds and splices fields in JSON bytes without building a tree.
 *
 * For:       one pass at the speed of memory: plain text is passed 16 bytes at a time, nothing is
 *            copied.
 * Called by: ask.c.
 * Knows not: what a field means.
 *
 * JSON here is RFC 8259 to the letter: no comments, no trailing commas, no leading zeros or plus
 * signs, no control bytes in strings, UTF-8 without surrogates and overlong forms. Escapes are
 * checked for their form alone: a lone \ud800 is grammatical, and passes as it came. */
#include "gateway/scan.h"

#include "gateway/bytes.h"

static bool fail(struct scan *scan, const char *problem)
{
    if (scan->problem == NULL)
        scan->problem = problem;
    return false;
}

/* Passes white space. false: there is an error already, or the text ends here. */
static inline bool skip_space(struct scan *scan)
{
    const char *at = scan->at;

    while (at < scan->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    scan->at = at;
    if (scan->problem != NULL)
        return false;
    return at < scan->end || fail(scan, "the text ends too early");
}

void scan_init(struct scan *scan, struct span bytes, uint32_t depth_max)
{
    *scan = (struct scan){
        .start = bytes.data,
        .at = bytes.data,
        .end = bytes.size > 0 ? bytes.data + bytes.size : bytes.data,
        .depth_max = depth_max < SCAN_DEPTH_MAX ? depth_max : SCAN_DEPTH_MAX,
    };
    if (span_starts(bytes, SPAN("\xef\xbb\xbf")))
        scan->problem = "a byte order mark is not JSON";
}

/* ---- strings ---- */

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Size of the well-formed UTF-8 sequence at `at` (RFC 3629, section 4); 0: there is none. */
static size_t utf8_size(const char *at, const char *end)
{
    const unsigned char first = (unsigned char)at[0];
    const ptrdiff_t left = end - at;
    size_t size;
    unsigned char low = 0x80; /* bounds of the second byte */
    unsigned char high = 0xbf;

    if (first < 0xc2 || first > 0xf4)
        return 0;
    size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (left < (ptrdiff_t)size)
        return 0;
    if (first == 0xe0)
        low = 0xa0; /* no overlong forms */
    else if (first == 0xed)
        high = 0x9f; /* no surrogates */
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f; /* nothing above U+10FFFF */
    if ((unsigned char)at[1] < low || (unsigned char)at[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if (!is_continuation(at[i]))
            return 0;
    return size;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hex digits at `at`; -1: they are not. */
static int32_t hex4(const char *at, const char *end)
{
    int32_t unit = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int value = hex_value(at[i]);

        if (value < 0)
            return -1;
        unit = unit << 4 | value;
    }
    return unit;
}

/* Passes one escape; scan->at is at its backslash. */
static bool pass_escape(struct scan *scan)
{
    const char *at = scan->at + 1;

    if (at == scan->end)
        return fail(scan, "a string does not end");
    switch (*at) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        scan->at = at + 1;
        return true;
    case 'u':
        if (hex4(at + 1, scan->end) < 0)
            return fail(scan, "\\u needs four hexadecimal digits");
        scan->at = at + 5;
        return true;
    default:
        return fail(scan, "a string has an unknown escape");
    }
}

/* Passes a string; scan->at is at its first quote. */
static bool pass_string(struct scan *scan, bool *out_escaped)
{
    *out_escaped = false;
    scan->at++;
    for (;;) {
        scan->at = bytes_find_not_plain(scan->at, scan->end);
        if (scan->at == scan->end)
            return fail(scan, "a string does not end");
        if (*scan->at == '"') {
            scan->at++;
            return true;
        }
        if (*scan->at == '\\') {
            *out_escaped = true;
            if (!pass_escape(scan))
                return false;
        } else if ((unsigned char)*scan->at < 0x20) {
            return fail(scan, "a string has a control byte, which must be escaped");
        } else {
            do {
                const size_t size = utf8_size(scan->at, scan->end);

                if (size == 0)
                    return fail(scan, "a string is not UTF-8");
                scan->at += size;
            } while (scan->at < scan->end && (unsigned char)*scan->at >= 0x80);
        }
    }
}

/* ---- numbers and literals ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Passes one digit or more. */
static bool pass_digits(struct scan *scan)
{
    const char *at = scan->at;

    while (at < scan->end && is_digit(*at))
        at++;
    if (at == scan->at)
        return fail(scan, "a number lacks a digit");
    scan->at = at;
    return true;
}

/* Is the next byte this one? Then it is passed. */
static bool pass_byte(struct scan *scan, char c)
{
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static bool pass_number(struct scan *scan)
{
    pass_byte(scan, '-');
    if (!pass_byte(scan, '0') && !pass_digits(scan))
        return false;
    if (scan->at < scan->end && is_digit(*scan->at))
        return fail(scan, "a number begins with 0");
    if (pass_byte(scan, '.') && !pass_digits(scan))
        return false;
    if (pass_byte(scan, 'e') || pass_byte(scan, 'E')) {
        if (!pass_byte(scan, '+'))
            pass_byte(scan, '-');
        return pass_digits(scan);
    }
    return true;
}

static bool pass_word(struct scan *scan, struct span word)
{
    const struct span rest = {scan->at, (size_t)(scan->end - scan->at)};

    if (!span_starts(rest, word))
        return fail(scan, "a value was expected");
    scan->at += word.size;
    return true;
}

/* Passes a value that is no container; scan->at is at its first byte. */
static inline bool pass_scalar(struct scan *scan)
{
    bool escaped;

    switch (*scan->at) {
    case '"':
        return pass_string(scan, &escaped);
    case 't':
        return pass_word(scan, SPAN("true"));
    case 'f':
        return pass_word(scan, SPAN("false"));
    case 'n':
        return pass_word(scan, SPAN("null"));
    default:
        if (*scan->at != '-' && !is_digit(*scan->at))
            return fail(scan, "a value was expected");
        return pass_number(scan);
    }
}

/* ---- containers ---- */

static bool go_down(struct scan *scan)
{
    if (scan->depth >= scan->depth_max)
        return fail(scan, "the text is nested too deeply");
    scan->depth++;
    scan->at++;
    return true;
}

static void go_up(struct scan *scan)
{
    scan->depth--;
    scan->at++;
}

/* Passes a key and its colon; scan->at is where the key must begin. */
static bool pass_key(struct scan *scan, struct span *out_key)
{
    bool escaped;

    if (*scan->at != '"')
        return fail(scan, "a key in quotes was expected");

    const char *key = scan->at + 1;

    if (!pass_string(scan, &escaped))
        return false;
    *out_key = (struct span){key, (size_t)(scan->at - 1 - key)};
    if (!skip_space(scan))
        return false;
    if (!pass_byte(scan, ':'))
        return fail(scan, "a colon was expected");
    return true;
}

/* Stands before a member or element, or behind the last one. false: the container was left, or an
 * error. */
static inline bool next_in_container(struct scan *scan, char close, bool *first)
{
    if (!skip_space(scan))
        return false;
    if (*scan->at == close) {
        go_up(scan);
        return false;
    }
    if (!*first) {
        if (!pass_byte(scan, ','))
            return fail(scan, "a comma or the end of the list was expected");
        if (!skip_space(scan))
            return false;
        if (*scan->at == close)
            return fail(scan, "a comma stands before the end of the list");
    }
    *first = false;
    return true;
}

bool scan_peek(struct scan *scan, enum scan_type *out_type)
{
    if (!skip_space(scan))
        return false;
    switch (*scan->at) {
    case '{':
        *out_type = SCAN_OBJECT;
        return true;
    case '[':
        *out_type = SCAN_ARRAY;
        return true;
    case '"':
        *out_type = SCAN_STRING;
        return true;
    case 't':
        *out_type = SCAN_TRUE;
        return true;
    case 'f':
        *out_type = SCAN_FALSE;
        return true;
    case 'n':
        *out_type = SCAN_NULL;
        return true;
    default:
        if (*scan->at != '-' && !is_digit(*scan->at))
            return fail(scan, "a value was expected");
        *out_type = SCAN_NUMBER;
        return true;
    }
}

bool scan_enter(struct scan *scan, enum scan_type type)
{
    if (!skip_space(scan))
        return false;
    if (*scan->at != (type == SCAN_OBJECT ? '{' : '['))
        return fail(scan, type == SCAN_OBJECT ? "an object was expected" : "a list was expected");
    return go_down(scan);
}

bool scan_member(struct scan *scan, bool *first, struct span *out_key)
{
    return next_in_container(scan, '}', first) && pass_key(scan, out_key);
}

bool scan_element(struct scan *scan, bool *first)
{
    return next_in_container(scan, ']', first);
}

bool scan_string(struct scan *scan, struct span *out_raw, bool *out_escaped)
{
    if (!skip_space(scan))
        return false;
    if (*scan->at != '"')
        return fail(scan, "a string was expected");

    const char *text = scan->at + 1;

    if (!pass_string(scan, out_escaped))
        return false;
    *out_raw = (struct span){text, (size_t)(scan->at - 1 - text)};
    return true;
}

bool scan_number(struct scan *scan, struct span *out_text)
{
    if (!skip_space(scan))
        return false;
    if (*scan->at != '-' && !is_digit(*scan->at))
        return fail(scan, "a number was expected");

    const char *text = scan->at;

    if (!pass_number(scan))
        return false;
    *out_text = (struct span){text, (size_t)(scan->at - text)};
    return true;
}

/* Walks through the container at scan->at. Its kinds of containers lie on a stack of bits: 1 is an
 * object. */
static bool pass_container(struct scan *scan)
{
    uint64_t kinds[SCAN_DEPTH_MAX / 64];
    const uint32_t outside = scan->depth;
    bool first = true;
    struct span key;

    do {
        if (first) { /* at an opening bracket: go inside */
            const uint32_t level = scan->depth;
            const uint64_t bit = UINT64_C(1) << (level % 64);
            const bool object = *scan->at == '{';

            if (!go_down(scan))
                return false;
            kinds[level / 64] = object ? kinds[level / 64] | bit : kinds[level / 64] & ~bit;
        }

        const uint32_t level = scan->depth - 1;
        const bool object = (kinds[level / 64] >> (level % 64)) & 1u;

        while (next_in_container(scan, object ? '}' : ']', &first)) {
            if (object && (!pass_key(scan, &key) || !skip_space(scan)))
                return false;
            if (*scan->at == '{' || *scan->at == '[') {
                first = true;
                break;
            }
            if (!pass_scalar(scan))
                return false;
        }
        if (scan->problem != NULL)
            return false;
        if (scan->depth <= level)
            first = false; /* left: go on in the container around */
    } while (scan->depth > outside);
    return true;
}

bool scan_skip(struct scan *scan, struct span *out_value)
{
    if (!skip_space(scan))
        return false;

    const char *value = scan->at;
    const bool container = *value == '{' || *value == '[';

    if (!(container ? pass_container(scan) : pass_scalar(scan)))
        return false;
    *out_value = (struct span){value, (size_t)(scan->at - value)};
    return true;
}

bool scan_finish(struct scan *scan)
{
    const char *at = scan->at;

    if (scan->problem != NULL)
        return false;
    while (at < scan->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    scan->at = at;
    return at == scan->end || fail(scan, "something follows the value");
}

size_t scan_offset(const struct scan *scan)
{
    return (size_t)(scan->at - scan->start);
}

/* ---- decoding ---- */

/* Writes a code point as UTF-8; returns the bytes. */
static size_t put_utf8(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* The code point of the \u escape whose first digit is at *at, which is moved behind it (behind
 * both of a pair); -1: not one. */
static int32_t take_unicode(const char **at, const char *end)
{
    const int32_t unit = hex4(*at, end);

    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return -1;
    *at += 4;
    if (unit < 0xd800 || unit > 0xdfff)
        return unit;
    if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return -1;

    const int32_t low = hex4(*at + 2, end);

    if (low < 0xdc00 || low > 0xdfff)
        return -1;
    *at += 6;
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

/* What an escape of one letter stands for; -1: none. */
static int short_escape(char letter)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = letter != '\0' ? strchr(letters, letter) : NULL;

    return found != NULL ? meanings[found - letters] : -1;
}

bool scan_decode(struct span raw, char *out, size_t *out_size)
{
    const char *at = raw.data;
    const char *end = raw.size > 0 ? raw.data + raw.size : raw.data;
    char *to = out;

    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        if (end - at < 2)
            return false;
        if (at[1] == 'u') {
            at += 2;

            const int32_t point = take_unicode(&at, end);

            if (point < 0)
                return false;
            to += put_utf8((uint32_t)point, to);
        } else {
            const int meaning = short_escape(at[1]);

            if (meaning < 0)
                return false;
            *to++ = (char)meaning;
            at += 2;
        }
    }
    *out_size = (size_t)(to - out);
    return true;
}

/* ---- splices ---- */

/* Adds a piece unless it is empty. iovec has no const, but writev() only reads. */
static uint32_t add_piece(struct iovec *pieces, uint32_t count, const char *data, size_t size)
{
    if (size == 0)
        return count;
    pieces[count].iov_base = (void *)(uintptr_t)data;
    pieces[count].iov_len = size;
    return count + 1;
}

uint32_t splice_pieces(struct span body, const struct splice *splices, uint32_t count,
                       struct iovec *out_pieces, size_t *out_bytes)
{
    uint32_t pieces = 0;
    size_t at = 0;

    *out_bytes = body.size;
    for (uint32_t i = 0; i < count; i++) {
        const struct splice *splice = &splices[i];

        if (splice->at > at)
            pieces = add_piece(out_pieces, pieces, body.data + at, splice->at - at);
        pieces = add_piece(out_pieces, pieces, splice->inserted.data, splice->inserted.size);
        at = splice->at + splice->removed;
        *out_bytes += splice->inserted.size - splice->removed;
    }
    if (at < body.size)
        pieces = add_piece(out_pieces, pieces, body.data + at, body.size - at);
    return pieces;
}
