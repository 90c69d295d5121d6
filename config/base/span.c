/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/span.c: the questions about borrowed bytes that are too long to be inline; pure.
 *
 * For:       numbers and patterns in names, headers and configuration.
 * Called by: every room.
 * Knows not: where the bytes live. */
#include "config/base/span.h"

bool span_to_int64(struct span text, int64_t *out_value)
{
    int64_t value = 0;

    if (text.size < 1 || text.size > 19)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const int digit = text.data[i] - '0';

        if (digit < 0 || digit > 9)
            return false;
        if (value > (INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out_value = value;
    return true;
}

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte + ('a' - 'A')) : byte;
}

bool span_matches(struct span text, struct span pattern)
{
    size_t at = 0;          /* in text */
    size_t part = 0;        /* in pattern */
    size_t star = SIZE_MAX; /* behind the last star met; SIZE_MAX: none yet */
    size_t star_at = 0;     /* where in text that star's bytes end, so far */

    while (at < text.size) {
        if (part < pattern.size && pattern.data[part] == '*') {
            star = ++part;
            star_at = at;
        } else if (part < pattern.size && lower(pattern.data[part]) == lower(text.data[at])) {
            part++;
            at++;
        } else if (star != SIZE_MAX) {
            part = star;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (part < pattern.size && pattern.data[part] == '*')
        part++;
    return part == pattern.size;
}
