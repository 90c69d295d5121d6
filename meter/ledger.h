/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger.h: the journal as tables to ask                                    (sqlite3)
 *
 * For:       rows by tenant, time and id; sums by quarter of an hour and group.
 * Called by: books.c, keeper.c, adjust.c, retire.c.
 * Knows not: prices, invoices, who asks.
 *
 * One SQLite file in WAL mode: many processes read it while one feeds it. Feeders exclude one
 * another by a lock on <path>.lock. What was taken in of each file of the journal stands in the
 * same transaction as its rows and sums, and a row that is there already is not counted again.
 *
 * Rows are kept whole, so that they can be asked for when retention has deleted their file. */
#ifndef METER_LEDGER_H
#define METER_LEDGER_H

#include <limits.h>

#include "meter/books.h"

struct ledger;

/* Opens or makes the file (0600); one that may only be read is read. One thread at a time.
 * problem: in words. Errors: ERR_BAD_VALUE (not a ledger, or one of a newer version), ERR_INTERNAL,
 * ERR_NO_MEMORY. */
MUST_CHECK enum err ledger_open(const char *path, struct ledger **out_ledger, char *problem,
                                size_t problem_size);
void ledger_close(struct ledger *ledger); /* NULL is fine */

/* The same for reading alone: makes and changes nothing. *out_ledger NULL: there is none that we
 * may read. */
MUST_CHECK enum err ledger_look(const char *path, struct ledger **out_ledger, char *problem,
                                size_t problem_size);

/* Gives a ledger's file and what belongs to it another name, <path>.aside-<number>; nothing is
 * deleted. Who has it open goes on with the new one of its name at the next feed. The caller holds
 * <path>.lock. Errors: ERR_INTERNAL. */
MUST_CHECK enum err ledger_set_aside(const char *path, char out_aside[PATH_MAX], char *problem,
                                     size_t problem_size);

/* The file that ledger_rebuild() set aside, as it could not be read; "": none. */
const char *ledger_aside(const struct ledger *ledger);

/* ---- where it comes from ---- */

/* Is it fed from the journal in this directory (directory_fd -1: there is none of this name)? Told
 * by content; true while nothing was fed. was: where that journal lay last; "": not known.
 * Errors: those of ledger_open(). */
MUST_CHECK enum err ledger_is_of(struct ledger *ledger, int directory_fd, const char *directory,
                                 bool *out_same, char was[PATH_MAX], char *problem,
                                 size_t problem_size);

/* Its journal lies here now; was: as ledger_is_of() said. */
void ledger_remember(struct ledger *ledger, const char *directory, const char *was);

/* What is asked from now on fails once this moment (clock_now_ns()) has passed; 0: never. */
void ledger_limit(struct ledger *ledger, uint64_t deadline_ns);

/* All that is asked fails while this is on. Any thread. */
void ledger_interrupt(struct ledger *ledger, bool on);

/* What was fed is on disk for good. false: it may not be, or readers are in the way: ask again. */
MUST_CHECK bool ledger_sync(struct ledger *ledger);

/* As books_feed(), books_behind(), books_rebuild(). */
MUST_CHECK enum err ledger_feed(struct ledger *ledger, int directory_fd, int64_t most_rows,
                                int64_t *out_rows, char *problem, size_t problem_size);
int64_t ledger_behind(const struct ledger *ledger);
MUST_CHECK enum err ledger_rebuild(struct ledger *ledger, int directory_fd, int64_t *out_rows,
                                   char *problem, size_t problem_size);

/* How much of a file of the journal is in; bytes 0: nothing. closed: its head, too. */
MUST_CHECK enum err ledger_file(struct ledger *ledger, const char *name, int64_t *out_bytes,
                                bool *out_closed, char *problem, size_t problem_size);

/* As books_usage(), books_waste(), books_rows(). */
MUST_CHECK enum err ledger_usage(struct ledger *ledger, const struct books_ask *ask,
                                 bool (*visit)(void *owner, const struct books_line *line),
                                 void *owner, char *problem, size_t problem_size);
MUST_CHECK enum err ledger_waste(struct ledger *ledger, const struct period *period,
                                 bool (*visit)(void *owner, const struct books_line *line),
                                 void *owner, char *problem, size_t problem_size);
MUST_CHECK enum err ledger_rows(struct ledger *ledger, struct span tenant,
                                const struct period *period, struct span id,
                                bool (*visit)(void *owner, const struct record *record,
                                              struct span line),
                                void *owner, char *problem, size_t problem_size);

#endif
