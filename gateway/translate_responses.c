/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses.c: responses in terms of chat completions.
 *
 * For:       the row of the translation.
 * Called by: translate.c, by the row; translate_responses_*.c.
 * Knows not: what a member means. */
#include "gateway/translate_responses.h"

void responses_join_lines(struct buffer *json, size_t from)
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
