/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/load.h: what a model server says of itself, as plain values.
 *
 * For:       carried from the scraper to the router, and shown to the operator.
 * Called by: gateway (scrape.c, admin.c), router.
 * Knows not: where it was read. */
#ifndef CONFIG_BASE_LOAD_H
#define CONFIG_BASE_LOAD_H

#include "config/base/vocab.h"

/* clang-format off */
/* One row per quantity: its name, as /replicas and /metrics say it, whether it goes up and down or
 * counts since the server's start, help. */
#define LOAD_ROWS(ROW)                                                                            \
    ROW(RUNNING,           running,           gauge,   "requests in its batch, as it says")       \
    ROW(WAITING,           waiting,           gauge,   "requests in its own queue, as it says")   \
    ROW(KV_PERMILLE,       kv_permille,       gauge,   "KV cache in use, of 1000")                \
    ROW(KV_TOKENS,         kv_tokens,         gauge,   "tokens that its KV cache holds")          \
    ROW(PREFIX_QUERIES,    prefix_queries,    counter, "tokens looked up in its prefix cache")    \
    ROW(PREFIX_HITS,       prefix_hits,       counter, "tokens found in its prefix cache")        \
    ROW(PROMPT_TOKENS,     prompt_tokens,     counter, "prompt tokens, as it counts them")        \
    ROW(GENERATION_TOKENS, generation_tokens, counter, "generated tokens, as it counts them")     \
    ROW(PREEMPTIONS,       preemptions,       counter, "requests put back for want of KV memory")
/* clang-format on */

enum load_quantity {
#define ROW(id, name, type, help) LOAD_##id,
    LOAD_ROWS(ROW)
#undef ROW
        LOAD_QUANTITIES
};

/* -1: the server does not say it. */
struct load {
    int64_t values[LOAD_QUANTITIES];
};

#define LOAD_UNKNOWN_ROW(id, name, type, help) -1,
#define LOAD_UNKNOWN ((struct load){{LOAD_ROWS(LOAD_UNKNOWN_ROW)}})

#endif
