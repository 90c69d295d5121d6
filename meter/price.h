/* SPDX-License-Identifier: Apache-2.0 */
/* meter/price.h: what a call costs, and how an amount is written; pure.
 *
 * For:       token counts and a price row in, picodollars out.
 * Called by: meter.c.
 * Knows not: HTTP, JSON, the clock, who the tenant is. */
#ifndef METER_PRICE_H
#define METER_PRICE_H

#include "config/config.h"

/* The price of one call, exact: the sum over token classes of tokens times pusd per token.
 *
 * usage:  disjoint classes; -1 (not known) counts 0
 * Errors: ERR_BAD_VALUE when a count or a price is negative or the sum does not fit; *out_pusd is
 *         then untouched. */
MUST_CHECK enum err price_of(const struct usage *usage, const struct price *price,
                             int64_t *out_pusd);

/* An amount as USD decimal text without trailing zeros and a NUL: 123000000 is "0.000123".
 * out: at least 40 bytes. Returns the length. */
size_t price_format_usd(int64_t pusd, char *out);

#endif
