/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/schema.c: a value that fits a JSON schema.
 *
 * For:       arguments of tool calls and structured output.
 * Called by: content.c.
 * Knows not: requests. */
#include "tests/fake/schema.h"

enum { DEPTH_MOST = 16, ITEMS_MOST = 64 };

static void add_value(struct buffer *out, struct text root, struct text schema, unsigned depth);

/* The first element of an array's raw text; empty when it has none. */
static struct text first_element(struct text array)
{
    struct json json = {array.at, array.at + array.bytes, 0, false};
    bool first = true;

    if (json_peek(&json) != '[' || !json_enter(&json, '[') || !json_element(&json, &first))
        return TEXT("");
    return json_value(&json);
}

static bool has_element(struct text array, struct text wanted)
{
    struct json json = {array.at, array.at + array.bytes, 0, false};
    bool first = true;

    if (json_peek(&json) != '[' || !json_enter(&json, '['))
        return false;
    while (json_element(&json, &first))
        if (text_equals(json_unquote(json_value(&json)), wanted))
            return true;
    return false;
}

/* `#/$defs/Name` within the root; the root itself when the way does not exist. */
static struct text follow(struct text root, struct text way)
{
    struct text place = root;
    const char *at = way.at;
    const char *end = way.at + way.bytes;

    if (at == end || *at != '#')
        return TEXT("");
    at++;
    while (at < end && *at == '/') {
        const char *slash = memchr(at + 1, '/', (size_t)(end - at - 1));
        struct text name = {at + 1, (size_t)((slash == NULL ? end : slash) - at - 1)};
        if (!json_find(place, name, &place))
            return TEXT("");
        at += 1 + name.bytes;
    }
    return place;
}

static void add_object(struct buffer *out, struct text root, struct text schema, unsigned depth)
{
    struct text properties;
    struct text required;
    struct text key;
    bool chosen = json_find(schema, TEXT("required"), &required) && first_element(required).bytes;
    bool first = true;
    bool none = true;

    buffer_add_literal(out, "{");
    if (depth < DEPTH_MOST && json_find(schema, TEXT("properties"), &properties)) {
        struct json json = {properties.at, properties.at + properties.bytes, 0, false};
        json_enter(&json, '{');
        while (json_member(&json, &first, &key)) {
            struct text value = json_value(&json);
            if (chosen && !has_element(required, key))
                continue;
            if (!none)
                buffer_add_literal(out, ",");
            none = false;
            buffer_add_literal(out, "\"");
            buffer_add_text(out, key);
            buffer_add_literal(out, "\":");
            add_value(out, root, value, depth + 1);
        }
    }
    buffer_add_literal(out, "}");
}

static void add_array(struct buffer *out, struct text root, struct text schema, unsigned depth)
{
    struct text items = TEXT("");
    struct text least;
    long count = 1;

    json_find(schema, TEXT("items"), &items);
    if (json_find(schema, TEXT("minItems"), &least)) {
        struct json json = {least.at, least.at + least.bytes, 0, false};
        count = json_integer(&json);
        count = count < 1 ? 1 : count > ITEMS_MOST ? ITEMS_MOST : count;
    }
    if (depth >= DEPTH_MOST)
        count = 0;
    buffer_add_literal(out, "[");
    for (long i = 0; i < count; i++) {
        if (i > 0)
            buffer_add_literal(out, ",");
        add_value(out, root, items, depth + 1);
    }
    buffer_add_literal(out, "]");
}

static void add_of_type(struct buffer *out, struct text root, struct text schema, struct text type,
                        unsigned depth)
{
    struct text least;

    if (text_equals(type, TEXT("object"))) {
        add_object(out, root, schema, depth);
    } else if (text_equals(type, TEXT("array"))) {
        add_array(out, root, schema, depth);
    } else if (text_equals(type, TEXT("integer")) || text_equals(type, TEXT("number"))) {
        if (json_find(schema, TEXT("minimum"), &least))
            buffer_add_text(out, least);
        else
            buffer_add_literal(out, "1");
    } else if (text_equals(type, TEXT("boolean"))) {
        buffer_add_literal(out, "true");
    } else if (text_equals(type, TEXT("null"))) {
        buffer_add_literal(out, "null");
    } else {
        buffer_add_literal(out, "\"w0 w1\"");
    }
}

static void add_value(struct buffer *out, struct text root, struct text schema, unsigned depth)
{
    struct text found;

    if (depth < DEPTH_MOST && json_find(schema, TEXT("$ref"), &found)) {
        add_value(out, root, follow(root, json_unquote(found)), depth + 1);
    } else if (json_find(schema, TEXT("const"), &found) ||
               json_find(schema, TEXT("default"), &found)) {
        buffer_add_text(out, found);
    } else if (json_find(schema, TEXT("enum"), &found)) {
        buffer_add_text(out, first_element(found));
    } else if (depth < DEPTH_MOST && (json_find(schema, TEXT("anyOf"), &found) ||
                                      json_find(schema, TEXT("oneOf"), &found) ||
                                      json_find(schema, TEXT("allOf"), &found))) {
        add_value(out, root, first_element(found), depth + 1);
    } else if (json_find(schema, TEXT("type"), &found)) {
        if (found.at[0] == '[')
            found = first_element(found);
        add_of_type(out, root, schema, json_unquote(found), depth);
    } else if (json_find(schema, TEXT("properties"), &found)) {
        add_object(out, root, schema, depth);
    } else {
        add_of_type(out, root, schema, TEXT("string"), depth);
    }
}

void schema_add_value(struct buffer *out, struct text schema)
{
    add_value(out, schema, schema, 0);
}
