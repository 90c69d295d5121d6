/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/value.c: see value.h.
 *
 * For:       looking for what is known by name.
 * Called by: ask*.c, fault.c, translate*.c.
 * Knows not: what a member means. */
#include "gateway/value.h"

#include <assert.h>

bool value_read(struct span json, uint32_t depth_max, struct span *out_value)
{
    struct scan scan;

    scan_init(&scan, json, depth_max);
    return scan_skip(&scan, out_value) && scan_finish(&scan);
}

struct span value_name(struct span raw, char scratch[VALUE_NAME_BYTES])
{
    size_t size;

    if (!value_has_escapes(raw) || raw.size > VALUE_NAME_BYTES || !scan_decode(raw, scratch, &size))
        return raw;
    return (struct span){scratch, size};
}

bool value_spells(struct span raw, struct span name)
{
    char scratch[VALUE_NAME_BYTES];

    return span_equal(value_name(raw, scratch), name);
}

bool value_says(struct span value, struct span name)
{
    return value_is(value, '"') && value_spells(value_inside(value), name);
}

/* The member of that name; NULL: none. */
static struct member *member_of(struct span key, struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (span_equal(members[i].name, key))
            return &members[i];
    return NULL;
}

struct span value_find(struct span object, struct member *members, size_t count)
{
    struct span odd = {NULL, 0};
    char scratch[VALUE_NAME_BYTES];
    struct value_walk walk;
    struct span key;
    struct span value;
    uint64_t seen = 0;

    assert(count <= 64); /* bits of seen */
    for (size_t i = 0; i < count; i++)
        members[i].value = (struct span){NULL, 0};
    value_walk_object(&walk, object);
    while (value_next_member(&walk, &key, &value)) {
        struct member *member = member_of(value_name(key, scratch), members, count);
        const uint64_t bit = member != NULL ? UINT64_C(1) << (member - members) : 0;

        if ((bit == 0 || (seen & bit)) && odd.data == NULL)
            odd = key;
        seen |= bit;
        if (member != NULL)
            member->value = value_is(value, 'n') ? (struct span){NULL, 0} : value;
    }
    return odd;
}

static void begin_walk(struct value_walk *walk, struct span container, enum scan_type type)
{
    walk->first = true;
    scan_init(&walk->scan, container, SCAN_DEPTH_MAX);
    if (!scan_enter(&walk->scan, type))
        walk->scan.at = walk->scan.end;
}

void value_walk_object(struct value_walk *walk, struct span object)
{
    begin_walk(walk, value_is(object, '{') ? object : SPAN("{}"), SCAN_OBJECT);
}

void value_walk_list(struct value_walk *walk, struct span list)
{
    begin_walk(walk, value_is(list, '[') ? list : SPAN("[]"), SCAN_ARRAY);
}

bool value_next_member(struct value_walk *walk, struct span *out_raw_key, struct span *out_value)
{
    return scan_member(&walk->scan, &walk->first, out_raw_key) && scan_skip(&walk->scan, out_value);
}

bool value_next_element(struct value_walk *walk, struct span *out_element)
{
    return scan_element(&walk->scan, &walk->first) && scan_skip(&walk->scan, out_element);
}
