/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/money.c: amounts in picodollars, and how they are written.
 *
 * For:       sums that do not overflow, decimal text in and out, rounding once.
 * Called by: meter, gateway (commands, endpoints), config.
 * Knows not: what is paid for. */
#include "config/base/money.h"

#include <string.h>

#define FRACTION_DIGITS 12
#define CENT_DIGITS 2
#define DIGITS_MAX 39 /* of 2^127 */

typedef unsigned __int128 magnitude;

static magnitude magnitude_of(money_sum amount)
{
    return amount < 0 ? 0 - (magnitude)amount : (magnitude)amount;
}

/* Decimal digits of value, at least least of them. */
static char *put_digits(char *at, magnitude value, int least)
{
    char digits[DIGITS_MAX];
    int count = 0;

    do {
        digits[count++] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value > 0 || count < least);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static char *put_sign(char *at, money_sum amount)
{
    if (amount < 0)
        *at++ = '-';
    return at;
}

size_t money_print_usd(money_sum pusd, char out[MONEY_TEXT_BYTES])
{
    const magnitude amount = magnitude_of(pusd);
    char *at = put_sign(out, pusd);

    at = put_digits(at, amount / (magnitude)MONEY_PUSD_PER_USD, 1);
    if (amount % (magnitude)MONEY_PUSD_PER_USD != 0) {
        *at++ = '.';
        at = put_digits(at, amount % (magnitude)MONEY_PUSD_PER_USD, FRACTION_DIGITS);
        while (at[-1] == '0')
            at--;
    }
    *at = '\0';
    return (size_t)(at - out);
}

size_t money_print_cents(money_sum pusd, char out[MONEY_TEXT_BYTES])
{
    const magnitude cents = magnitude_of(pusd) / (magnitude)MONEY_PUSD_PER_CENT;
    char *at = put_sign(out, pusd);

    at = put_digits(at, cents / 100, 1);
    *at++ = '.';
    at = put_digits(at, cents % 100, CENT_DIGITS);
    *at = '\0';
    return (size_t)(at - out);
}

size_t money_print_pusd(money_sum pusd, char out[MONEY_TEXT_BYTES])
{
    char *at = put_digits(put_sign(out, pusd), magnitude_of(pusd), 1);

    *at = '\0';
    return (size_t)(at - out);
}

/* Digits from *at on into *value, at most so many; how many there were, -1: too many or too large.
 */
static int take_digits(struct span text, size_t *at, int most, money_sum *value)
{
    int count = 0;

    for (; *at < text.size && text.data[*at] >= '0' && text.data[*at] <= '9'; ++*at) {
        if (++count > most || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, text.data[*at] - '0', value))
            return -1;
    }
    return count;
}

/* An amount with at most places digits behind its point, in units of the last of them. */
static enum err read_amount(struct span text, int places, money_sum *out)
{
    const bool negative = text.size > 0 && text.data[0] == '-';
    size_t at = negative ? 1 : 0;
    money_sum value = 0;
    int behind = 0;

    if (take_digits(text, &at, DIGITS_MAX, &value) < 1)
        return ERR_BAD_VALUE;
    if (places > 0 && at < text.size && text.data[at] == '.') {
        at++;
        behind = take_digits(text, &at, places, &value);
        if (behind < 1)
            return ERR_BAD_VALUE;
    }
    if (at != text.size)
        return ERR_BAD_VALUE;
    for (; behind < places; behind++) {
        if (__builtin_mul_overflow(value, 10, &value))
            return ERR_BAD_VALUE;
    }
    *out = negative ? -value : value;
    return OK;
}

enum err money_read_usd(struct span text, money_sum *out_pusd)
{
    return read_amount(text, FRACTION_DIGITS, out_pusd);
}

enum err money_read_pusd(struct span text, money_sum *out_pusd)
{
    return read_amount(text, 0, out_pusd);
}

/* amount ÷ unit, half to even. */
static money_sum divide(money_sum amount, money_sum unit)
{
    money_sum whole = amount / unit;
    const magnitude rest = magnitude_of(amount % unit);
    const magnitude other = (magnitude)unit - rest;

    if (rest > other || (rest == other && whole % 2 != 0))
        whole += amount < 0 ? -1 : 1;
    return whole;
}

money_sum money_round(money_sum pusd, int64_t unit)
{
    return divide(pusd, unit) * unit;
}

enum err money_add_product(money_sum *sum, int64_t tokens, int64_t pusd_per_token)
{
    if (tokens < 0 || pusd_per_token < 0)
        return ERR_BAD_VALUE;
    return money_add(*sum, (money_sum)tokens * pusd_per_token, sum);
}

enum err money_add(money_sum a, money_sum b, money_sum *out)
{
    money_sum sum;

    if (__builtin_add_overflow(a, b, &sum))
        return ERR_BAD_VALUE;
    *out = sum;
    return OK;
}

enum err money_scale(money_sum amount, int64_t numerator, int64_t denominator, money_sum *out)
{
    money_sum product;

    if (denominator <= 0 || __builtin_mul_overflow(amount, numerator, &product))
        return ERR_BAD_VALUE;
    *out = divide(product, denominator);
    return OK;
}
