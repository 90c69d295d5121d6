/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/money.h: amounts in picodollars (1e-12 USD), and how they are written; pure.
 *
 * For:       sums that do not overflow, decimal text in and out, rounding once. No float anywhere.
 * Called by: meter, gateway (commands, endpoints), config.
 * Knows not: what is paid for. */
#ifndef CONFIG_BASE_MONEY_H
#define CONFIG_BASE_MONEY_H

#include "config/base/err.h"
#include "config/base/span.h"

/* A sum. One row's amount is an int64_t; 128 bits hold 2^63 of the largest of them. */
typedef __int128 money_sum; /* the one typedef: the type has no name of its own in C11 */

#define MONEY_PUSD_PER_USD INT64_C(1000000000000)
#define MONEY_PUSD_PER_CENT INT64_C(10000000000)

/* A sign, 39 digits, a point, "0." and a NUL. */
#define MONEY_TEXT_BYTES 56

/* "-0.000123": USD without trailing zeros (whole dollars without a point), and a NUL; returns the
 * length. */
size_t money_print_usd(money_sum pusd, char out[MONEY_TEXT_BYTES]);

/* "12.30": USD with exactly two places; the amount must be whole cents. */
size_t money_print_cents(money_sum pusd, char out[MONEY_TEXT_BYTES]);

/* "-123000000": picodollars. */
size_t money_print_pusd(money_sum pusd, char out[MONEY_TEXT_BYTES]);

/* The reverse, whole texts only: "-0.000123" (at most 12 places), "-123000000".
 * Errors: ERR_BAD_VALUE (not a number, too many places, too large). */
MUST_CHECK enum err money_read_usd(struct span text, money_sum *out_pusd);
MUST_CHECK enum err money_read_pusd(struct span text, money_sum *out_pusd);

/* pusd rounded to whole multiples of unit (> 0), half to even. */
money_sum money_round(money_sum pusd, int64_t unit);

/* tokens × pusd per token, added to *sum. Errors: ERR_BAD_VALUE (a negative count or rate, or the
 * sum does not fit); *sum is then untouched. */
MUST_CHECK enum err money_add_product(money_sum *sum, int64_t tokens, int64_t pusd_per_token);

/* a + b. Errors: ERR_BAD_VALUE (does not fit); *out is then untouched. */
MUST_CHECK enum err money_add(money_sum a, money_sum b, money_sum *out);

/* amount × numerator / denominator (> 0), half to even: factors and shares.
 * Errors: ERR_BAD_VALUE (the product does not fit). */
MUST_CHECK enum err money_scale(money_sum amount, int64_t numerator, int64_t denominator,
                                money_sum *out);

#endif
