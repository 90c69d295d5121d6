/* SPDX-License-Identifier: Apache-2.0 */
/* meter/history.h: what a new file of the journal says of those before it.
 *
 * For:       the last line of each, and what each tenant was charged as of these lines: so that a
 *            start reads one file of each process, and not all that was ever written.
 * Called by: meter.c at the start; scribe.c for each row and each new file; adjust.c.
 * Knows not: threads, slots. */
#ifndef METER_HISTORY_H
#define METER_HISTORY_H

#include "meter/row.h"

struct history {
    /* The last line of each epoch that has written since this gateway's last open line, and of its
     * own epochs that may write again; at most HISTORY_BEFORE_MAX, its own first, newest first. */
    struct row_before *before;
    size_t before_count;
    struct row_balance *balances; /* of this gateway's rows, by tenant; texts owned */
    size_t balance_count, balance_room;
};

#define HISTORY_BEFORE_MAX 64u

/* Reads this gateway's newest open line, the rows behind it, and those behind the lines that it
 * names. A damaged line with whole ones behind it is an error; a torn end is not.
 * problem: file, offset and what is wrong. Errors: ERR_BAD_VALUE (damage), ERR_INTERNAL,
 * ERR_NO_MEMORY. */
MUST_CHECK enum err history_read(int directory_fd, struct span gateway, struct history *out_history,
                                 char *problem, size_t problem_size);
void history_fini(struct history *history);

/* Adds a charge to a tenant's balance. Errors: ERR_NO_MEMORY, ERR_BAD_VALUE (does not fit). */
MUST_CHECK enum err history_post(struct history *history, struct span tenant, int64_t cost_pusd);

#endif
