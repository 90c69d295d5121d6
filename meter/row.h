/* SPDX-License-Identifier: Apache-2.0 */
/* meter/row.h: an ended slot as one line of the journal; pure.
 *
 * For:       the fields of a row in their order, by hand: under a microsecond a row.
 * Called by: journal.c.
 * Knows not: files, threads, where slots live. */
#ifndef METER_ROW_H
#define METER_ROW_H

#include "meter/inflight.h"

/* Every text byte as six, every number at its longest, and what stands between. */
#define ROW_BYTES_MAX 8192
#define ROW_GATEWAY_BYTES_MAX 64

/* The part of every row that is the same in one process, rendered once. */
struct row_author {
    char start[6 * ROW_GATEWAY_BYTES_MAX + 64]; /* {"v":1,"gateway":"g1","epoch":7,"seq": */
    size_t start_bytes;
};

/* gateway: at most ROW_GATEWAY_BYTES_MAX bytes. */
void row_author_init(struct row_author *author, struct span gateway, uint64_t epoch);

/* Writes the row of an ended slot and its newline; returns their bytes. out: ROW_BYTES_MAX. */
size_t row_render(const struct row_author *author, const struct slot *slot, uint64_t seq,
                  char *out);

#endif
