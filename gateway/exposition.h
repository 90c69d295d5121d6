/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/exposition.h: what a model server says of its load, read from its /metrics page; pure.
 *
 * For:       Prometheus text (version 0.0.4) in any pieces; only the few families that routing and
 *            reconciliation want, under every name that they have had.
 * Called by: scrape.c.
 * Knows not: sockets, which replica it is.
 *
 * Memory is fixed: a line that is longer than EXPOSITION_LINE_BYTES is passed over. */
#ifndef GATEWAY_EXPOSITION_H
#define GATEWAY_EXPOSITION_H

#include "config/base/load.h"
#include "config/base/span.h"

#define EXPOSITION_LINE_BYTES 8192

/* Ways to say the same, newer names first: a page that has both counts once. */
#define EXPOSITION_NAMES_MAX 4

struct exposition {
    char line[EXPOSITION_LINE_BYTES]; /* one that has come in part */
    size_t line_size;
    bool too_long; /* the line under way does not fit: it is passed over */
    /* Sums (or the largest) of each quantity under each of its names; NAN: not said. */
    double values[LOAD_QUANTITIES][EXPOSITION_NAMES_MAX];
    double block_tokens, blocks; /* of cache_config_info; NAN: not said */
    uint64_t lines;              /* that had a number we want */
};

/* Begins a page. */
void exposition_init(struct exposition *exposition);

/* Reads a piece of the page. What is no sample is passed over. */
void exposition_feed(struct exposition *exposition, struct span piece);

/* The page has ended: what it says. Quantities that it does not say are -1. false: it says nothing
 * that we know, so it is no page of a model server. */
MUST_CHECK bool exposition_end(struct exposition *exposition, struct load *out_load);

#endif
