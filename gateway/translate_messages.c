/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_messages.c: Anthropic's messages in terms of chat completions.
 *
 * For:       the row of the translation, and the life of an answer.
 * Called by: translate.c, by its row.
 * Knows not: what the fields mean. */
#include "gateway/translate_messages.h"

#include <stdlib.h>

/* Did the client ask for thinking without its text (Messages: thinking.display)? */
static bool wants_no_thinking(struct span body)
{
    struct member root[] = {{.name = SPAN("thinking")}};
    struct member thinking[] = {{.name = SPAN("display")}};
    struct span object;
    if (!value_read(body, SCAN_DEPTH_MAX, &object))
        return false;
    value_find_these(object, root);
    value_find_these(root[0].value, thinking);
    return value_says(thinking[0].value, SPAN("omitted"));
}

static void *begin(const struct translator_facts *facts)
{
    const size_t texts = facts->model.size + facts->exchange_id.size;
    struct answering *answering = calloc(1, sizeof *answering + texts);
    if (answering == NULL)
        return NULL;
    char *text = (char *)(answering + 1);
    if (facts->model.size > 0)
        memcpy(text, facts->model.data, facts->model.size);
    if (facts->exchange_id.size > 0)
        memcpy(text + facts->model.size, facts->exchange_id.data, facts->exchange_id.size);
    answering->model = (struct span){text, facts->model.size};
    answering->exchange_id = (struct span){text + facts->model.size, facts->exchange_id.size};
    answering->hide_thinking = wants_no_thinking(facts->body);
    return answering;
}

static void end_of_life(void *state)
{
    struct answering *answering = state;
    messages_stream_free(answering->stream);
    buffer_free(&answering->ending.stop);
    free(answering);
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
