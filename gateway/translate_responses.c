/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses.c: responses in terms of chat completions: the row, and its tools.
 *
 * For:       walking JSON that was checked before, value by value.
 * Called by: translate.c, by the row; translate_responses_*.c.
 * Knows not: what a member means. */
#include "gateway/translate_responses.h"

#define KEY_BYTES_MAX 192 /* longest known name (32 bytes), each byte spelt as an escape */

/* A key without its escapes, in scratch of KEY_BYTES_MAX bytes where it has some. What does not fit
 * is none of the known names. */
static struct span plain_key(struct span raw, char *scratch)
{
    size_t size;

    if (raw.size == 0 || raw.size > KEY_BYTES_MAX || memchr(raw.data, '\\', raw.size) == NULL ||
        !scan_decode(raw, scratch, &size))
        return raw;
    return (struct span){scratch, size};
}

bool fields_visit(struct span object,
                  bool (*visit)(void *context, struct span raw_key, struct span key,
                                struct span value),
                  void *context)
{
    struct scan scan;
    struct span raw;
    struct span value;
    char scratch[KEY_BYTES_MAX];
    bool first = true;

    scan_init(&scan, object, SCAN_DEPTH_MAX);
    if (!scan_enter(&scan, SCAN_OBJECT))
        return false;
    while (scan_member(&scan, &first, &raw))
        if (!scan_skip(&scan, &value) || !visit(context, raw, plain_key(raw, scratch), value))
            return false;
    return scan.problem == NULL;
}

struct finding {
    struct field *fields;
    size_t count;
};

static bool note_field(void *context, struct span raw_key, struct span key, struct span value)
{
    const struct finding *finding = context;

    (void)raw_key;
    for (size_t i = 0; i < finding->count; i++)
        if (span_equal(finding->fields[i].name, key))
            finding->fields[i].value = value_is(value, 'n') ? (struct span){NULL, 0} : value;
    return true;
}

bool fields_find(struct span object, struct field *fields, size_t count)
{
    struct finding finding = {fields, count};

    for (size_t i = 0; i < count; i++)
        fields[i].value = (struct span){NULL, 0};
    return value_is(object, '{') && fields_visit(object, note_field, &finding);
}

bool list_next(struct span list, const char **at, struct span *out_element)
{
    struct scan scan;
    bool first = *at == NULL;

    if (!value_is(list, '['))
        return false;
    scan_init(&scan, list, SCAN_DEPTH_MAX);
    if (first && !scan_enter(&scan, SCAN_ARRAY))
        return false;
    if (!first) { /* as if the list had been walked to here */
        scan.at = *at;
        scan.depth = 1;
    }
    if (!scan_element(&scan, &first) || !scan_skip(&scan, out_element))
        return false;
    *at = scan.at;
    return true;
}

void json_to_line(struct buffer *json, size_t from)
{
    for (size_t i = from; i < json->size; i++)
        if (json->data[i] == '\n' || json->data[i] == '\r')
            json->data[i] = ' ';
}

const struct translation translation_responses = {
    .endpoint = ENDPOINT_RESPONSES,
    .ask = responses_ask,
    .begin = responses_begin,
    .end_of_life = responses_end_of_life,
    .event = responses_event,
    .end = responses_end,
    .whole = responses_whole,
    .sequence = responses_sequence,
};
