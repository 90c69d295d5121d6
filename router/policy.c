/* SPDX-License-Identifier: Apache-2.0 */
/* router/policy.c: which models may serve an ask, best first.
 *
 * For:       router_choose(). Pure.
 * Called by: the gateway, through router.h.
 * Knows not: load and health of replicas, tenants, the clock. */
#include "router/router.h"

struct candidates {
    const struct config_model **models; /* room for MODEL_CANDIDATES_MAX */
    uint32_t count;
};

static void add_once(struct candidates *candidates, const struct config_model *model,
                     const struct model_set *allowed)
{
    if (!model_set_has(allowed, model->index) || candidates->count == MODEL_CANDIDATES_MAX)
        return;
    for (uint32_t i = 0; i < candidates->count; i++) {
        if (candidates->models[i] == model)
            return;
    }
    candidates->models[candidates->count++] = model;
}

/* One token in and one out, pusd; saturates. */
static int64_t price_of_a_pair(const struct config_model *model)
{
    int64_t sum = 0;

    if (__builtin_add_overflow(model->prices[0].rates.input, model->prices[0].rates.output, &sum))
        return INT64_MAX;
    return sum;
}

/* Every allowed model, by insertion from the cheapest on; those of one price keep the file's
 * order. */
static void add_cheapest_first(struct candidates *candidates, const struct config *config,
                               const struct model_set *allowed)
{
    for (uint32_t i = 0; i < config->model_count; i++) {
        const struct config_model *model = &config->models[i];
        if (!model_set_has(allowed, model->index))
            continue;
        uint32_t at = candidates->count;
        while (at > 0 && price_of_a_pair(candidates->models[at - 1]) > price_of_a_pair(model))
            at--;
        if (at == MODEL_CANDIDATES_MAX)
            continue;
        if (candidates->count < MODEL_CANDIDATES_MAX)
            candidates->count++;
        for (uint32_t move = candidates->count - 1; move > at; move--)
            candidates->models[move] = candidates->models[move - 1];
        candidates->models[at] = model;
    }
}

uint32_t router_choose(const struct config *config, const struct config_class *class,
                       struct span model_asked, const struct model_set *allowed,
                       const struct config_model *out_models[MODEL_CANDIDATES_MAX])
{
    struct candidates candidates = {.models = out_models, .count = 0};
    const struct config_model *first = class ? class->model : NULL;

    if (!first) {
        first = config_find_model(config, model_asked);
        if (!first && span_equal(model_asked, SPAN("auto"))) {
            add_cheapest_first(&candidates, config, allowed);
            return candidates.count;
        }
        /* A model asked for by name is served or refused; nobody is moved to another unasked. */
        if (!first || !model_set_has(allowed, first->index))
            return 0;
    }
    add_once(&candidates, first, allowed);
    for (uint32_t i = 0; i < first->fallback_count; i++)
        add_once(&candidates, first->fallback[i], allowed);
    return candidates.count;
}
