/* SPDX-License-Identifier: Apache-2.0 */
/* meter/discount.c: planted: amounts that are no whole picodollars.
 *
 * For:       showing that the lint finds a float on a money path, as a type, a number or a call. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A double in a comment is none, and 1.5 neither. */
static const char *text = "a float's 0.15, 100% exact, %%g";

double discount(int64_t pusd) /* lint: money */
{
    float factor = 1; /* lint: money */
    int64_t off = (int64_t)(pusd * 0.9); /* lint: money */
    off += (int64_t)(pusd * 1e-3); /* lint: money */
    off += (int64_t)strtod(text, NULL); /* lint: money */
    printf("%.2f", pusd); /* lint: money */
    printf("%s of %d.%06d and %05d", text, 1, 0x1e5, 3);
    return off * factor;
}
