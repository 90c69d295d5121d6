/* SPDX-License-Identifier: Apache-2.0 */
/* meter/price.c: what a call costs, and how an amount is written.
 *
 * For:       token counts and a price row in, picodollars out. Pure arithmetic.
 * Called by: meter.c.
 * Knows not: HTTP, JSON, the clock, who the tenant is. */
#include "meter/price.h"

#define PUSD_PER_USD UINT64_C(1000000000000)
#define FRACTION_DIGITS 12

/* Adds tokens * price to *sum; false when it does not fit. A product of two 64-bit numbers always
 * fits 128 bits. */
static bool add_class(int64_t tokens, int64_t price, __int128 *sum)
{
    if (tokens == -1)
        tokens = 0;
    if (tokens < 0 || price < 0)
        return false;
    *sum += (__int128)tokens * price;
    return *sum <= INT64_MAX;
}

enum err price_of(const struct usage *usage, const struct price *price, int64_t *out_pusd)
{
    __int128 sum = 0;

    if (!add_class(usage->input, price->input, &sum) ||
        !add_class(usage->cached_input, price->cached_input, &sum) ||
        !add_class(usage->cache_write, price->cache_write, &sum) ||
        !add_class(usage->output, price->output, &sum) ||
        !add_class(usage->reasoning, price->reasoning, &sum))
        return ERR_BAD_VALUE;
    *out_pusd = (int64_t)sum;
    return OK;
}

/* Decimal digits of value, at least least of them. */
static char *put_digits(char *at, uint64_t value, int least)
{
    char digits[20];
    int count = 0;

    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0 || count < least);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

size_t price_format_usd(int64_t pusd, char *out)
{
    uint64_t amount = pusd < 0 ? 0 - (uint64_t)pusd : (uint64_t)pusd;
    char *at = out;

    if (pusd < 0)
        *at++ = '-';
    at = put_digits(at, amount / PUSD_PER_USD, 1);
    if (amount % PUSD_PER_USD != 0) {
        *at++ = '.';
        at = put_digits(at, amount % PUSD_PER_USD, FRACTION_DIGITS);
        while (at[-1] == '0')
            at--;
    }
    *at = '\0';
    return (size_t)(at - out);
}
