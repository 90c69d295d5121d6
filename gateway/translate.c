/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate.c: see translate.h.
 *
 * For:       finding the translation of an endpoint; a translator is that and its state.
 * Called by: parcel.c, rewrite.c.
 * Knows not: any API. */
#include "gateway/translate.h"

#include <assert.h>
#include <stdlib.h>

struct translator {
    const struct translation *row;
    void *state;
};

static const struct translation *translation_of(enum endpoint endpoint)
{
    static const struct translation *const rows[] = {&translation_messages, &translation_responses,
                                                     NULL};
    for (size_t i = 0; rows[i]; i++)
        if (rows[i]->endpoint == endpoint)
            return rows[i];
    assert(false && "this endpoint is not translated");
    return NULL;
}

enum err translate_ask(enum endpoint from, struct span body, uint32_t json_depth,
                       struct writer *out, struct ask_problem *out_problem)
{
    return translation_of(from)->ask(body, json_depth, out, out_problem);
}

enum err translate_read_object(struct span body, uint32_t json_depth, struct span *out_object,
                               struct ask_problem *out_problem)
{
    struct scan scan;
    scan_init(&scan, body, json_depth);
    if (!scan_skip(&scan, out_object) || !scan_finish(&scan))
        *out_problem = (struct ask_problem){scan_offset(&scan), scan.problem, NULL};
    else if (out_object->data[0] != '{')
        *out_problem = (struct ask_problem){0, "the body must be an object", NULL};
    else
        return OK;
    return ERR_BAD_JSON;
}

struct translator *translator_new(enum endpoint to, const struct translator_facts *facts)
{
    struct translator *translator = malloc(sizeof *translator);
    if (translator == NULL)
        return NULL;
    translator->row = translation_of(to);
    translator->state = translator->row->begin(facts);
    if (translator->state == NULL) {
        free(translator);
        return NULL;
    }
    return translator;
}

void translator_free(struct translator *translator)
{
    if (translator == NULL)
        return;
    translator->row->end_of_life(translator->state);
    free(translator);
}

enum err translator_event(struct translator *translator, struct span json, struct writer *out)
{
    return translator->row->event(translator->state, json, out);
}

enum err translator_end(struct translator *translator, struct writer *out)
{
    return translator->row->end(translator->state, out);
}

enum err translator_whole(struct translator *translator, struct span json, struct writer *out)
{
    return translator->row->whole(translator->state, json, out);
}

int64_t translator_sequence(const struct translator *translator)
{
    return translator->row->sequence ? translator->row->sequence(translator->state) : 0;
}
