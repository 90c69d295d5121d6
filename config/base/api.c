/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/api.c: see api.h.
 *
 * For:       the two tables as arrays, and the one search in them.
 * Called by: config, meter, gateway.
 * Knows not: requests. */
#include "config/base/api.h"

#include "config/base/span.h"

enum charge { CHARGE_FREE, CHARGE_CHARGED };

/* clang-format off */
static const struct endpoint_row endpoints[ENDPOINT_COUNT] = {
    [ENDPOINT_NONE] = {.name = {"none", 4}, .path = {"", 0}, .upstream = {"", 0}},
#define ENDPOINT(id, name, path, upstream, shape, form, charge, vllm, sglang, llamacpp, tgi, openai)       \
    [ENDPOINT_##id] = {{(name), sizeof(name) - 1}, {(path), sizeof(path) - 1},                     \
                       {(upstream), sizeof(upstream) - 1}, SHAPE_##shape, FORM_##form,             \
                       CHARGE_##charge == CHARGE_CHARGED,                                          \
                       {[KIND_VLLM] = SERVICE_##vllm, [KIND_SGLANG] = SERVICE_##sglang,            \
                        [KIND_LLAMACPP] = SERVICE_##llamacpp, [KIND_TGI] = SERVICE_##tgi,          \
                        [KIND_OPENAI] = SERVICE_##openai}},
#include "config/base/endpoint.def"
#undef ENDPOINT
};

static const struct kind_row kinds[KIND_COUNT] = {
#define KIND(id, name, running, salt, whole, metrics)                                              \
    [KIND_##id] = {{(name), sizeof(name) - 1}, (running), (salt), (whole), (metrics)},
#include "config/base/kind.def"
#undef KIND
};
/* clang-format on */

const struct endpoint_row *endpoint_row(enum endpoint endpoint)
{
    return &endpoints[endpoint < ENDPOINT_COUNT ? endpoint : ENDPOINT_NONE];
}

const struct kind_row *kind_row(enum kind kind)
{
    return &kinds[kind];
}

static const struct span tiers[SERVICE_TIERS] = {
    [TIER_STANDARD] = {"standard", 8},
    [TIER_FLEX] = {"flex", 4},
    [TIER_PRIORITY] = {"priority", 8},
    [TIER_BATCH] = {"batch", 5},
};

struct span service_tier_name(enum service_tier tier)
{
    return tiers[tier];
}

enum service_tier service_tier_of(struct span name)
{
    for (enum service_tier tier = TIER_STANDARD; tier < SERVICE_TIERS; tier++)
        if (span_equal(name, tiers[tier]))
            return tier;
    return TIER_STANDARD;
}

static struct span without_version(struct span path)
{
    return span_starts(path, SPAN("/v1/")) ? span_from(path, 3) : path;
}

enum endpoint endpoint_of_path(struct span path, struct span *out_rest)
{
    *out_rest = (struct span){NULL, 0};
    path = without_version(path);
    for (enum endpoint endpoint = ENDPOINT_NONE + 1; endpoint < ENDPOINT_COUNT; endpoint++)
        if (span_equal(path, without_version(endpoints[endpoint].path)))
            return endpoint;
    if (span_starts(path, SPAN("/models/")) && path.size > 8) {
        *out_rest = span_from(path, 8);
        return ENDPOINT_MODELS;
    }
    return ENDPOINT_NONE;
}
