/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/json.h: walks over JSON text without building anything.
 *
 * For:       the few members that are needed are pulled out of a body.
 * Called by: ask.c, schema.c and the files that write answers.
 * Knows not: what the members mean. */
#ifndef FAKE_JSON_H
#define FAKE_JSON_H

#include <stdbool.h>

#include "tests/fake/buffer.h"

/* A place in JSON text. Once `broken` is set, every call answers "no more". */
struct json {
    const char *at;
    const char *end;
    unsigned depth;
    bool broken;
};

/* The first byte of the value that comes next, 0 at the end. */
char json_peek(struct json *json);

/* Steps into an object or array; false (and broken) when the next value is no such thing. */
bool json_enter(struct json *json, char bracket);

/* The next member of the object that was entered: its raw key. False behind the last one. */
bool json_member(struct json *json, bool *first, struct text *out_key);

/* Whether the array that was entered has another element. False behind the last one. */
bool json_element(struct json *json, bool *first);

/* A string's raw bytes between its quotes, escapes untouched. */
struct text json_string(struct json *json);

/* An integer; anything behind its digits is skipped. */
long json_integer(struct json *json);

/* A literal: true when it is `true`; any other value is skipped and counts as false. */
bool json_true(struct json *json);

/* Any value. */
void json_skip(struct json *json);

/* Any value, as its raw text. */
struct text json_value(struct json *json);

/* The raw value of an object's member; false when it has none (or is no object). */
bool json_find(struct text object, struct text name, struct text *out_value);

/* The raw bytes between the quotes when the value is a string, else the value as it is. */
struct text json_unquote(struct text value);

/* Whether only blanks are left. */
bool json_at_end(struct json *json);

#endif
