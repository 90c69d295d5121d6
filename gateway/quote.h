/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/quote.h: POST /v1/quote: what an ask would cost, without asking anybody.
 *
 * For:       the endpoint that is quoted for, and the answer; and the bound for those who estimate.
 * Called by: steps.c.
 * Knows not: prices and tokens: the meter's door is asked. */
#ifndef GATEWAY_QUOTE_H
#define GATEWAY_QUOTE_H

#include "gateway/exchange.h"

/* The endpoint that the query of a target names (endpoint=NAME, as rows name it; chat when it names
 * none); ENDPOINT_NONE: not one that is billed. */
enum endpoint quote_endpoint(struct span target);

/* The most tokens that x's ask can come to on its model; -1: no bound. */
void quote_bounds(const struct exchange *x, int64_t *out_input, int64_t *out_output);

/* Answers with what x's ask would cost now on each of its candidates, in their order. */
void quote_answer(struct exchange *x);

#endif
