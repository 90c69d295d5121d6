/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_batch.h: rows on their way into the ledger.
 *
 * For:       taking rows in by the thousand: what is the same in many is looked up once, sums are
 *            added in memory, ids go in sorted.
 * Called by: ledger.c, ledger_feed.c, ledger_rebuild.c.
 * Knows not: the journal's files, locks. */
#ifndef METER_LEDGER_BATCH_H
#define METER_LEDGER_BATCH_H

#include "meter/ledger_store.h"

#define LEDGER_BATCH_ROWS 8192u

/* How far a file of the journal is in. */
struct ledger_position {
    int64_t bytes;
    uint64_t seq;    /* of the last line; 0: none */
    char sha256[65]; /* of the last line */
    bool closed;     /* its head is in */
};

/* Errors: ERR_NO_MEMORY, ERR_INTERNAL. */
MUST_CHECK enum err ledger_batch_new(struct ledger *ledger, char *problem, size_t problem_size);
void ledger_batch_free(struct ledger_batch *batch); /* NULL is fine */

/* Begins a transaction. What is remembered is forgotten when another connection has written. */
MUST_CHECK enum err ledger_batch_begin(struct ledger *ledger, char *problem, size_t problem_size);

/* The number of an epoch. */
MUST_CHECK enum err ledger_batch_epoch(struct ledger *ledger, const char *gateway, uint64_t epoch,
                                       int64_t *out_epoch, char *problem, size_t problem_size);

/* Takes a call, refusals or adjust in; *out_new: it was not there. */
MUST_CHECK enum err ledger_batch_row(struct ledger *ledger, int64_t epoch,
                                     const struct record *record, struct span line, bool *out_new,
                                     char *problem, size_t problem_size);

/* Rows since the begin. */
uint32_t ledger_batch_rows(const struct ledger_batch *batch);

/* Position of a file; seq 0 where nothing of it is in. */
MUST_CHECK enum err ledger_batch_load(struct ledger *ledger, const char *name,
                                      struct ledger_position *out_position, char *problem,
                                      size_t problem_size);
MUST_CHECK enum err ledger_batch_save(struct ledger *ledger, const char *name,
                                      const struct ledger_position *position, char *problem,
                                      size_t problem_size);

/* Writes sums and ids and commits. After an error all since the begin is gone: abort. */
MUST_CHECK enum err ledger_batch_commit(struct ledger *ledger, char *problem, size_t problem_size);
void ledger_batch_abort(struct ledger *ledger);

#endif
