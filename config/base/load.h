/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/load.h: what a model server says of itself, as plain values.
 *
 * For:       carried from the scraper to the router, and shown to the operator.
 * Called by: gateway (scrape.c, admin.c), router.
 * Knows not: where it was read. */
#ifndef CONFIG_BASE_LOAD_H
#define CONFIG_BASE_LOAD_H

#include "config/base/vocab.h"

/* Quantities; counters are since the server's start. */
enum load_quantity {
    LOAD_RUNNING,           /* requests in the batch */
    LOAD_WAITING,           /* requests in its queue */
    LOAD_KV_PERMILLE,       /* KV cache in use, of 1000 */
    LOAD_PREFIX_QUERIES,    /* counter: prompt tokens looked up in the prefix cache */
    LOAD_PREFIX_HITS,       /* counter: of these, found there */
    LOAD_PROMPT_TOKENS,     /* counter */
    LOAD_GENERATION_TOKENS, /* counter */
    LOAD_PREEMPTIONS,       /* counter: requests put back for want of KV memory */
    LOAD_KV_TOKENS,         /* how many tokens its KV cache holds */
    LOAD_QUANTITIES
};

/* -1: the server does not say it. */
struct load {
    int64_t values[LOAD_QUANTITIES];
};

#define LOAD_UNKNOWN ((struct load){{-1, -1, -1, -1, -1, -1, -1, -1, -1}})

#endif
