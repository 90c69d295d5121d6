/* SPDX-License-Identifier: Apache-2.0 */
/* meter/price.h: what a call costs; pure.
 *
 * For:       token counts and a price in, the rates that hold for this call and picodollars out.
 * Called by: meter.c, recover.c, row.c, and what reads rows (audit, invoice, ledger, rerate).
 * Knows not: HTTP, JSON, the clock, who the tenant is. */
#ifndef METER_PRICE_H
#define METER_PRICE_H

#include "config/base/money.h"
#include "config/config.h"

/* The rates of one call, as its row states them: enough to work its cost out again without the
 * configuration. Brackets over a whole call are in `rates` already; marginal ones are steps. */
struct tariff {
    int64_t from_us; /* which dated price */
    struct rates rates;
    int64_t above;  /* the bracket that a whole call is in; 0: none */
    bool inclusive; /* of steps: a prompt of exactly `above` tokens has its last one beyond */
    uint32_t step_count;
    struct price_bracket steps[PRICE_BRACKETS_MAX]; /* ascending */
};

enum token_class {
    CLASS_INPUT,
    CLASS_CACHED_INPUT,
    CLASS_CACHE_WRITE,
    CLASS_OUTPUT,
    CLASS_REASONING,
    TOKEN_CLASSES
};

/* "input", "cached_input", … Static. */
const char *token_class_name(enum token_class class);
int64_t usage_of_class(const struct usage *usage, enum token_class class); /* -1 counts 0 */

/* Tokens of one class at one rate. */
struct charge {
    enum token_class class;
    int64_t tokens;
    int64_t rate;  /* pusd per token */
    int64_t above; /* of the step; 0: none */
};

#define CHARGES_MAX (TOKEN_CLASSES + 3u * PRICE_BRACKETS_MAX)

/* The rates for a call with this usage. tier: its factor is in the rates (whole, as the
 * configuration was checked for). */
void price_tariff(const struct price *price, const struct usage *usage, enum service_tier tier,
                  struct tariff *out_tariff);

/* The call's cost in parts, those of 0 tokens left out.
 *
 * With steps, the prompt is laid out as the server meets it: cached_input, cache_write, input; the
 * tokens of each class that lie beyond a step cost that step's rate. output and
 * reasoning cost `rates`.
 * usage: -1 (not known) counts 0.
 * Errors: ERR_BAD_VALUE (a negative count or rate); *out_count is then untouched. */
MUST_CHECK enum err price_charges(const struct usage *usage, const struct tariff *tariff,
                                  struct charge out_charges[CHARGES_MAX], uint32_t *out_count);

/* The cost, exact: the sum over charges of tokens × rate.
 * Errors: ERR_BAD_VALUE when a count or a rate is negative or the sum does not fit 64 bits;
 *         *out_pusd is then untouched. */
MUST_CHECK enum err price_of(const struct usage *usage, const struct tariff *tariff,
                             int64_t *out_pusd);

/* The volume discount of a month: what comes off `amount`, which `tokens` of all classes together
 * cost under this price. marginal: off the share of the tokens beyond each step (amount × tokens
 * beyond ÷ tokens, half to even); whole: off all. ≥ 0.
 * Errors: ERR_BAD_VALUE (does not fit). */
MUST_CHECK enum err price_discount(const struct price *price, int64_t tokens, money_sum amount,
                                   money_sum *out_discount);

#endif
