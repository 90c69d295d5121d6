/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/json.c: walks over JSON text without building anything.
 *
 * For:       the few members that are needed are pulled out of a body.
 * Called by: ask.c, schema.c and the files that write answers.
 * Knows not: what the members mean. */
#include "tests/fake/json.h"

enum { DEPTH_MOST = 200 };

static bool fail(struct json *json)
{
    json->broken = true;
    return false;
}

char json_peek(struct json *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
    return json->broken || json->at == json->end ? '\0' : *json->at;
}

bool json_enter(struct json *json, char bracket)
{
    if (json_peek(json) != bracket || json->depth == DEPTH_MOST)
        return fail(json);
    json->at++;
    json->depth++;
    return true;
}

/* Steps over the comma before a further item, or out at the closing bracket. */
static bool next_item(struct json *json, bool *first, char closing)
{
    char byte = json_peek(json);

    if (byte == closing) {
        json->at++;
        json->depth--;
        return false;
    }
    if (!*first) {
        if (byte != ',')
            return fail(json);
        json->at++;
        if (json_peek(json) == closing)
            return fail(json);
    }
    *first = false;
    return json_peek(json) != '\0' || fail(json);
}

bool json_member(struct json *json, bool *first, struct text *out_key)
{
    if (!next_item(json, first, '}'))
        return false;
    *out_key = json_string(json);
    if (json_peek(json) != ':')
        return fail(json);
    json->at++;
    return true;
}

bool json_element(struct json *json, bool *first)
{
    return next_item(json, first, ']');
}

struct text json_string(struct json *json)
{
    if (json_peek(json) != '"') {
        fail(json);
        return (struct text){json->at, 0};
    }
    const char *begin = json->at + 1;
    const char *from = begin;
    for (;;) {
        const char *quote = memchr(from, '"', (size_t)(json->end - from));
        if (quote == NULL) {
            fail(json);
            return (struct text){begin, 0};
        }
        const char *before = quote;
        while (before > begin && before[-1] == '\\')
            before--;
        if ((quote - before) % 2 == 0) {
            json->at = quote + 1;
            return (struct text){begin, (size_t)(quote - begin)};
        }
        from = quote + 1;
    }
}

/* Numbers and literals: up to the next byte that cannot belong to one. */
static struct text bare_word(struct json *json)
{
    const char *begin = json->at;

    while (json->at < json->end &&
           strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *json->at) != NULL &&
           *json->at != '\0')
        json->at++;
    return (struct text){begin, (size_t)(json->at - begin)};
}

long json_integer(struct json *json)
{
    char first = json_peek(json);

    if (first != '-' && (first < '0' || first > '9')) {
        json_skip(json);
        return 0;
    }
    struct text word = bare_word(json);
    long value = 0;
    for (size_t i = first == '-' ? 1 : 0; i < word.bytes && i < 18; i++) {
        if (word.at[i] < '0' || word.at[i] > '9')
            break;
        value = value * 10 + (word.at[i] - '0');
    }
    return first == '-' ? -value : value;
}

bool json_true(struct json *json)
{
    if (json_peek(json) != 't') {
        json_skip(json);
        return false;
    }
    return text_equals(bare_word(json), TEXT("true")) || fail(json);
}

void json_skip(struct json *json)
{
    char byte = json_peek(json);
    bool first = true;
    struct text key;

    if (byte == '"') {
        json_string(json);
    } else if (byte == '{') {
        if (json_enter(json, '{'))
            while (json_member(json, &first, &key))
                json_skip(json);
    } else if (byte == '[') {
        if (json_enter(json, '['))
            while (json_element(json, &first))
                json_skip(json);
    } else {
        struct text word = bare_word(json);
        bool number =
            word.bytes > 0 && (word.at[0] == '-' || (word.at[0] >= '0' && word.at[0] <= '9'));
        if (!number && !text_equals(word, TEXT("true")) && !text_equals(word, TEXT("false")) &&
            !text_equals(word, TEXT("null")))
            fail(json);
    }
}

struct text json_value(struct json *json)
{
    json_peek(json);
    const char *begin = json->at;
    json_skip(json);
    return (struct text){begin, (size_t)(json->at - begin)};
}

bool json_find(struct text object, struct text name, struct text *out_value)
{
    struct json json = {object.at, object.at + object.bytes, 0, false};
    bool first = true;
    struct text key;

    if (json_peek(&json) != '{' || !json_enter(&json, '{'))
        return false;
    while (json_member(&json, &first, &key)) {
        if (text_equals(key, name)) {
            *out_value = json_value(&json);
            return !json.broken;
        }
        json_skip(&json);
    }
    return false;
}

struct text json_unquote(struct text value)
{
    if (value.bytes < 2 || value.at[0] != '"')
        return value;
    return (struct text){value.at + 1, value.bytes - 2};
}

bool json_at_end(struct json *json)
{
    return !json->broken && json_peek(json) == '\0' && json->at == json->end;
}
