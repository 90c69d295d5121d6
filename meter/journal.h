/* SPDX-License-Identifier: Apache-2.0 */
/* meter/journal.h: the durable record of charges: one writer thread.
 *
 * For:       ended slots into rows on disk, in the order in which they ended, each exactly once.
 * Called by: meter.c.
 * Knows not: directories, the exchange behind a slot.
 *
 * A slot that was posted is not freed before its row is on disk: when the disk fails, slots stay,
 * the rest of a line begun is written first when it works again, and in the end the table is full
 * and new exchanges are refused. Rows have no hash chain (prev) and no signed heads yet, and a dead
 * process's table is not recovered: these come with billing. */
#ifndef METER_JOURNAL_H
#define METER_JOURNAL_H

#include "meter/inflight.h"

struct journal;

/* Starts the writer. fd: the file to append to, the caller's until journal_stop(); -1: rows are
 * counted and written nowhere. The table is borrowed as long.
 * Errors: ERR_NO_MEMORY, ERR_INTERNAL (no thread). */
MUST_CHECK enum err journal_start(struct inflight *table, int fd, struct span gateway,
                                  uint64_t epoch, struct journal **out_journal);

/* Waits until every posted slot is a row on disk, ends the writer and frees all. NULL is fine. */
bool journal_stop(struct journal *journal);

/* An ended slot, by index; the writer's from here on. Any thread, no system call, no lock. */
void journal_post(struct journal *journal, uint32_t index);

/* Rows so far; slots posted in all; did the last write fail? */
uint64_t journal_rows(const struct journal *journal);
uint64_t journal_posted(const struct journal *journal);
bool journal_failing(const struct journal *journal);

#endif
