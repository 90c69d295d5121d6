/* SPDX-License-Identifier: Apache-2.0 */
/* meter/journal.h: the durable record of charges: one writer thread.
 *
 * For:       ended slots into rows on disk, in the order in which they ended, each exactly once,
 *            chained by hash, in files that begin with what came before and end with a signed head.
 * Called by: meter.c; keeper.c for its news.
 * Knows not: the exchange behind a slot, the ledger.
 *
 * A slot that was posted is not freed before its row is on disk. Disk blocks for what is under way
 * are reserved ahead (a row for each slot of the table, and the head): when the disk is full
 * nothing new is admitted, and what is under way still fits. It begins again by itself when there
 * is room. An I/O error, or a failed sync, is the end (reliability: what a disk says after one
 * cannot be trusted): journal_failed(). */
#ifndef METER_JOURNAL_H
#define METER_JOURNAL_H

#include "meter/history.h"
#include "meter/recover.h"

struct journal;

struct journal_options {
    bool durable; /* sync each group of rows, and ring who waits */
    _Atomic int64_t segment_bytes, segment_age_ms;
};

/* A line that others are to hear of: a head, or the newest line a while after it was written. */
struct journal_news {
    struct row_before line;
    bool head;
};

struct journal_place {
    struct store *store; /* NULL: rows are counted and written nowhere */
    struct inflight *table;
    struct sign_key *key;    /* NULL: only without a store */
    struct history *history; /* taken over */
    const struct journal_options *options;
    _Atomic(struct meter_wait *) *waits; /* one for each slot, set before the slot is posted; the
                                          * writer takes it out and rings it. NULL: nobody waits */
};

/* Writes the first file's open line, then makes rows of what dead processes left, then starts the
 * writer. problem: what is wrong, in words. All that place points to is borrowed until
 * journal_stop().
 * Errors: ERR_NO_MEMORY, ERR_INTERNAL (no thread, the disk), ERR_BAD_VALUE. */
MUST_CHECK enum err journal_start(const struct journal_place *place, struct journal **out_journal,
                                  char *problem, size_t problem_size);

/* Waits until every posted slot is a row on disk, writes the head and ends the writer; false: rows
 * were left in the table. Its news can still be asked for. NULL is fine. */
bool journal_end(struct journal *journal);

/* The same, and frees all. */
bool journal_stop(struct journal *journal);

/* An ended slot, by index; the writer's from here on. Any thread, no lock; no system call unless
 * durable and the writer sleeps. */
void journal_post(struct journal *journal, uint32_t index);

/* Numbers, each as of its own moment. Any thread. */
uint64_t journal_rows(const struct journal *journal); /* of slots that were posted here */
uint64_t journal_posted(const struct journal *journal);
uint64_t journal_synced(const struct journal *journal);
uint64_t journal_recovered(const struct journal *journal);
bool journal_failing(const struct journal *journal); /* the last write failed */
bool journal_full(const struct journal *journal);    /* no new work */
bool journal_failed(const struct journal *journal);  /* the process must end */

/* The newest line on disk, for anchors; false: it was told already. Any thread but one at a time.
 */
bool journal_news(struct journal *journal, struct journal_news *out_news);

#endif
