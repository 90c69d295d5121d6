/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_messages.c: Anthropic's messages in terms of chat completions.
 *
 * For:       the row of the translation; looking into JSON; the life of an answer.
 * Called by: translate.c, by its row; translate_messages_*.c.
 * Knows not: what the fields mean. */
#include "gateway/translate_messages.h"

#include <stdlib.h>

#define NAME_BYTES_MAX 192 /* longest known name (32 bytes), each byte spelt as an escape */

/* ---- JSON that was checked before ---- */

bool messages_read_json(struct span json, uint32_t depth, struct span *out_value,
                        struct ask_problem *out_problem)
{
    struct scan scan;
    scan_init(&scan, json, depth);
    if (scan_skip(&scan, out_value) && scan_finish(&scan))
        return true;
    *out_problem = (struct ask_problem){scan_offset(&scan), scan.problem, NULL};
    return false;
}

bool messages_spells(struct span raw, struct span name)
{
    char text[NAME_BYTES_MAX];
    size_t size;
    if (raw.size > sizeof text || memchr(raw.data, '\\', raw.size) == NULL)
        return span_equal(raw, name);
    return scan_decode(raw, text, &size) && span_equal((struct span){text, size}, name);
}

bool messages_says(struct span value, struct span name)
{
    return messages_is(value, '"') && messages_spells(messages_inside(value), name);
}

/* The member of that name; NULL: none. */
static struct member *member_of(struct span key, struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (messages_spells(key, members[i].name))
            return &members[i];
    return NULL;
}

struct span messages_find(struct span object, struct member *members, size_t count)
{
    struct span odd = {NULL, 0};
    struct scan scan;
    struct span key;
    struct span value;
    uint64_t seen = 0;
    bool first = true;
    for (size_t i = 0; i < count; i++)
        members[i].value = (struct span){NULL, 0};
    if (!messages_is(object, '{'))
        return odd;
    scan_init(&scan, object, SCAN_DEPTH_MAX);
    if (!scan_enter(&scan, SCAN_OBJECT))
        return odd;
    while (scan_member(&scan, &first, &key) && scan_skip(&scan, &value)) {
        struct member *member = member_of(key, members, count);
        const uint64_t bit = member != NULL ? UINT64_C(1) << (member - members) : 0;
        if ((bit == 0 || (seen & bit)) && odd.data == NULL)
            odd = key;
        seen |= bit;
        if (member != NULL)
            member->value = messages_is(value, 'n') ? (struct span){NULL, 0} : value;
    }
    return odd;
}

void messages_walk(struct elements *elements, struct span list)
{
    elements->first = true;
    scan_init(&elements->scan, messages_is(list, '[') ? list : SPAN("[]"), SCAN_DEPTH_MAX);
    if (!scan_enter(&elements->scan, SCAN_ARRAY))
        elements->scan.at = elements->scan.end;
}

bool messages_next(struct elements *elements, struct span *out_element)
{
    return scan_element(&elements->scan, &elements->first) &&
           scan_skip(&elements->scan, out_element);
}

/* ---- the life of an answer ---- */

/* Did the client ask for thinking without its text (Messages: thinking.display)? */
static bool wants_no_thinking(struct span body)
{
    struct member root[] = {{.name = SPAN("thinking")}};
    struct member thinking[] = {{.name = SPAN("display")}};
    struct ask_problem problem;
    struct span object;
    if (!messages_read_json(body, SCAN_DEPTH_MAX, &object, &problem))
        return false;
    messages_find(object, root, 1);
    messages_find(root[0].value, thinking, 1);
    return messages_says(thinking[0].value, SPAN("omitted"));
}

static void *begin(const struct translator_facts *facts)
{
    const size_t texts = facts->model.size + facts->exchange_id.size;
    struct answer *answer = calloc(1, sizeof *answer + texts);
    if (answer == NULL)
        return NULL;
    char *text = (char *)(answer + 1);
    if (facts->model.size > 0)
        memcpy(text, facts->model.data, facts->model.size);
    if (facts->exchange_id.size > 0)
        memcpy(text + facts->model.size, facts->exchange_id.data, facts->exchange_id.size);
    answer->model = (struct span){text, facts->model.size};
    answer->exchange_id = (struct span){text + facts->model.size, facts->exchange_id.size};
    answer->hide_thinking = wants_no_thinking(facts->body);
    return answer;
}

static void end_of_life(void *state)
{
    struct answer *answer = state;
    messages_stream_free(answer->stream);
    buffer_free(&answer->ending.stop);
    free(answer);
}

const struct translation translation_messages = {
    .endpoint = ENDPOINT_MESSAGES,
    .ask = messages_ask,
    .begin = begin,
    .end_of_life = end_of_life,
    .event = messages_event,
    .end = messages_end,
    .whole = messages_whole,
};
