/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/api.h: the endpoints that clients call and the kinds of model servers, from the
 * tables endpoint.def and kind.def.
 *
 * For:       names, paths, shapes, which kind has which endpoint; names of service tiers.
 * Called by: config (names in files), meter (names in rows), gateway.
 * Knows not: requests. */
#ifndef CONFIG_BASE_API_H
#define CONFIG_BASE_API_H

#include "config/base/vocab.h"

/* Whose errors and events an endpoint has. */
enum api_shape { SHAPE_OPENAI, SHAPE_ANTHROPIC };

enum body_form { FORM_NONE, FORM_JSON, FORM_MULTIPART };

/* How a kind of server has an endpoint. */
enum service { SERVICE_LACKS, SERVICE_HAS, SERVICE_CHAT };

struct endpoint_row {
    struct span name;     /* in rows, logs, rules and metrics */
    struct span path;     /* as clients call it */
    struct span upstream; /* as servers have it */
    enum api_shape shape;
    enum body_form form;
    bool charged; /* its tokens are billed */
    enum service service[KIND_COUNT];
};

struct kind_row {
    struct span name;   /* in configuration files */
    bool running;       /* streams can be asked for running usage */
    bool salt;          /* takes cache_salt */
    bool whole;         /* its usage counts all choices and prompts, not one of them */
    int64_t metrics_ms; /* least pause between two readings of GET /metrics; 0: it has none */
};

/* The row of an endpoint; that of ENDPOINT_NONE is empty, its name "none". */
const struct endpoint_row *endpoint_row(enum endpoint endpoint);

/* The endpoint that this path (without query) calls, with or without /v1; for /v1/models/{id}
 * *out_rest is the id as it came, else {NULL, 0}. ENDPOINT_NONE: none of ours. */
enum endpoint endpoint_of_path(struct span path, struct span *out_rest);

/* "standard", "flex", "priority" or "batch". */
struct span service_tier_name(enum service_tier tier);

/* The tier of such a name; any other is standard. */
enum service_tier service_tier_of(struct span name);

/* The row of a kind: one of kind.def, never KIND_COUNT. */
const struct kind_row *kind_row(enum kind kind);

#endif
