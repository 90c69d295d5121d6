/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/value.h: looks into JSON values, without building a tree; pure.
 *
 * For:       members by name, elements of lists, texts: on top of scan.h, for those who know what
 *            they look for.
 * Called by: ask*.c, fault.c, translate*.c.
 * Knows not: what a member means.
 *
 * A value is its span in the JSON, without white space around it; {NULL, 0} is "there is none".
 * All but value_read() want JSON that was checked before. */
#ifndef GATEWAY_VALUE_H
#define GATEWAY_VALUE_H

#include "gateway/scan.h"

#define VALUE_NAME_BYTES 192 /* longest known name (32 bytes), each byte spelt as an escape */

/* Is this one JSON value, not deeper than that, with nothing but white space around it? */
MUST_CHECK bool value_read(struct span json, uint32_t depth_max, struct span *out_value);

/* ---- one value ---- */

/* Its kind, by its first byte: { [ " t f n. */
static inline bool value_is(struct span value, char first)
{
    return value.size > 0 && value.data[0] == first;
}

/* A string that is not empty? */
static inline bool value_has_text(struct span value)
{
    return value_is(value, '"') && value.size > 2;
}

/* Raw text between the quotes of a string; {"", 0} of anything else. */
static inline struct span value_inside(struct span value)
{
    return value_is(value, '"') ? (struct span){value.data + 1, value.size - 2}
                                : (struct span){"", 0};
}

/* ---- names: raw text, in which any byte may be spelt as an escape ---- */

static inline bool value_has_escapes(struct span raw)
{
    return raw.size > 0 && memchr(raw.data, '\\', raw.size) != NULL;
}

/* A name as written or, when it has escapes, decoded into scratch. What does not fit there is none
 * of the known names and is returned as written. */
struct span value_name(struct span raw, char scratch[VALUE_NAME_BYTES]);

/* Does raw text spell that name? */
bool value_spells(struct span raw, struct span name);

/* Is it a string that spells that name? */
bool value_says(struct span value, struct span name);

/* ---- objects and lists ---- */

/* A member to look for, and its value; {NULL, 0}: absent or null. */
struct member {
    struct span name;
    struct span value;
};

/* Finds members of an object in one pass; of two with one name the last counts. Of anything else
 * all are absent. Returns the raw key of the first member that is none of them, or stands twice;
 * {NULL, 0}: there is none. At most 64. */
struct span value_find(struct span object, struct member *members, size_t count);

/* The same for all members of an array. */
#define value_find_these(object, members)                                                          \
    value_find((object), (members), sizeof(members) / sizeof((members)[0]))

/* A walk over an object or a list; over anything else it ends at once. */
struct value_walk {
    struct scan scan;
    bool first;
};

/* Begins a walk; what is walked over is borrowed until its end. */
void value_walk_object(struct value_walk *walk, struct span object);
void value_walk_list(struct value_walk *walk, struct span list);

/* The next one; false: there is none. */
MUST_CHECK bool value_next_member(struct value_walk *walk, struct span *out_raw_key,
                                  struct span *out_value);
MUST_CHECK bool value_next_element(struct value_walk *walk, struct span *out_element);

#endif
