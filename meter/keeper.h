/* SPDX-License-Identifier: Apache-2.0 */
/* meter/keeper.h: one thread that keeps the books while the gateway runs.
 *
 * For:       feeds the ledger from the journal, answers questions to it, tells anchors, deletes
 *            files of the journal that have served their time.
 * Called by: meter.c.
 * Knows not: slots, exchanges, SQL.
 *
 * Nothing waits for it but a query; what fails is logged once, counted, and tried again. */
#ifndef METER_KEEPER_H
#define METER_KEEPER_H

#include "meter/books.h"
#include "meter/journal.h"

struct keeper;

struct keeper_place {
    const struct config *config; /* borrowed for the call */
    const struct store *store;
    struct journal *journal;
    struct sign_key *key; /* for anchors; the keeper's alone beside the journal's own */
};

/* *out_keeper: NULL when neither a ledger nor a place for anchors is configured.
 * Errors: ERR_NO_MEMORY, ERR_INTERNAL (no thread), those of books_open(); problem says why. */
MUST_CHECK enum err keeper_start(const struct keeper_place *place, struct keeper **out_keeper,
                                 char *problem, size_t problem_size);

/* Refuses the queries that wait and all that come; returns when nobody who asked is called any
 * more. NULL is fine. */
void keeper_refuse(struct keeper *keeper);

/* The same; then feeds and tells what is left for at most a second, and ends. NULL is fine. */
void keeper_stop(struct keeper *keeper);

/* As meter_query(). */
MUST_CHECK enum err keeper_query(struct keeper *keeper, struct meter_query *query);

/* meter.anchor_every and meter.keep of a new snapshot. */
void keeper_heed(struct keeper *keeper, const struct config *config);

/* How long ago an anchor was told last; -1: none was yet. Any thread, as below. */
int64_t keeper_anchor_age_ms(const struct keeper *keeper);

/* Lines of the journal that the ledger lacked when it was fed last; -1: there is no ledger. */
int64_t keeper_ledger_behind(const struct keeper *keeper);

#endif
