/* SPDX-License-Identifier: Apache-2.0 */
/* meter/recover.h: what dead processes left under way becomes rows.
 *
 * For:       each slot of their tables exactly once, whatever instant they, or a recoverer before
 *            us, died at.
 * Called by: journal.c at the start, and its writer from time to time (another gateway's process
 *            may have died).
 * Knows not: how rows are written.
 *
 * A slot that ended becomes the row it would have become; one that was open becomes
 * crash_recovered, with what it had published. Slots whose exchange id stands in the dead epoch's
 * last two files, or in any file written since, have their row already; after a loss of power, in
 * which the table itself may be older than the rows, all its files since the slots were taken
 * count. The table is deleted when the new rows are synced. */
#ifndef METER_RECOVER_H
#define METER_RECOVER_H

#include "meter/inflight.h"
#include "meter/store.h"

/* Who writes the rows. */
struct recover_sink {
    /* dead: "g1-3", the process that left the slot; the slot is ENDED. */
    enum err (*write)(struct recover_sink *sink, const struct slot *slot, const struct price *price,
                      struct span dead);
    /* All of them are on disk, whatever durability says. */
    enum err (*sync)(struct recover_sink *sink);
};

struct recover_report {
    uint64_t tables, rows, crash_recovered, skipped;
};

/* All tables that nobody holds. problem: file and what is wrong. A table that cannot be read
 * (damaged, another version) is logged, left alone and not counted. Errors: those of the sink;
 * ERR_INTERNAL, ERR_NO_MEMORY. */
MUST_CHECK enum err recover_dead(const struct store *store, struct recover_sink *sink,
                                 int64_t now_us, struct recover_report *out_report, char *problem,
                                 size_t problem_size);

/* How an open slot ends when its process died; pure. The slot is then ENDED, priced.
 * now_us: its ended_us, being when it was found. */
void recover_end(struct slot *slot, const struct price *price, int64_t now_us);

#endif
