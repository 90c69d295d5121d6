/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/nearest.c: see nearest.h.
 *
 * For:       how near a misspelt name is to a known one.
 * Called by: config, gateway (commands).
 * Knows not: what the names are of. */
#include "config/base/nearest.h"

#include "config/base/span.h"

#define COMPARED_BYTES 64
#define BEGINNING_BYTES_MIN 3 /* fewer are the beginning of anything */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t nearest_distance(struct span a, struct span b)
{
    const size_t rows = least(a.size, COMPARED_BYTES);
    const size_t columns = least(b.size, COMPARED_BYTES);
    size_t edits[3][COMPARED_BYTES + 1]; /* this row, the one above, and the one above that */

    for (size_t column = 0; column <= columns; column++)
        edits[0][column] = column;
    for (size_t row = 1; row <= rows; row++) {
        size_t *const now = edits[row % 3];
        const size_t *const above = edits[(row - 1) % 3];
        const size_t *const second = edits[(row + 1) % 3];

        now[0] = row;
        for (size_t column = 1; column <= columns; column++) {
            const char from = a.data[row - 1];
            const char to = b.data[column - 1];
            const size_t replaced = above[column - 1] + (from == to ? 0 : 1);

            now[column] = least(replaced, 1 + least(above[column], now[column - 1]));
            if (row > 1 && column > 1 && from == b.data[column - 2] && a.data[row - 2] == to)
                now[column] = least(now[column], second[column - 2] + 1);
        }
    }
    return edits[rows % 3][columns];
}

struct nearest nearest_to(struct span asked)
{
    return (struct nearest){.asked = asked, .edits = SIZE_MAX};
}

bool nearest_try(struct nearest *nearest, struct span known)
{
    const bool begins =
        nearest->asked.size >= BEGINNING_BYTES_MIN && span_starts(known, nearest->asked);
    const size_t edits = begins ? 1 : nearest_distance(nearest->asked, known);

    if (edits >= nearest->edits)
        return false;
    nearest->edits = edits;
    nearest->name = known;
    return true;
}

bool nearest_is_near(const struct nearest *nearest)
{
    return nearest->name.data != NULL && nearest->edits <= 1 + nearest->asked.size / 4;
}
