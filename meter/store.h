/* SPDX-License-Identifier: Apache-2.0 */
/* meter/store.h: the journal's directory: who may write in it, under which epoch, in which files.
 *
 * For:       one process per gateway name, and file names that tell them apart for good:
 *              <gateway>.lock                     held while the process lives
 *              <gateway>-<epoch>-<first seq>.jsonl the journal
 *              <gateway>-<epoch>.inflight         the table of what is under way
 *              <gateway>-<epoch>.inflight.dead    one that a dead process left; never touched here
 * Called by: meter.c.
 * Knows not: what is in the files. */
#ifndef METER_STORE_H
#define METER_STORE_H

#include "config/config.h"

#define STORE_GATEWAY_BYTES_MAX 64

struct store {
    int directory_fd;
    int lock_fd;
    uint64_t epoch; /* larger than any that the directory knows of this gateway */
    char gateway[STORE_GATEWAY_BYTES_MAX + 1];
};

/* Makes the directory (0700) with its parents if absent, locks it for this gateway and finds the
 * epoch. problem: what is wrong, in words, when not OK.
 * Errors: ERR_BAD_VALUE (the gateway's name cannot be a file's), ERR_INTERNAL (the system, or
 * another process holds the lock). *store then needs no store_close(). */
MUST_CHECK enum err store_open(struct store *store, struct span directory, struct span gateway,
                               char *problem, size_t problem_size);
void store_close(struct store *store);

/* New files of this epoch (0600), opened; -1 with a problem. The caller closes them. */
MUST_CHECK int store_create_journal(const struct store *store, uint64_t first_seq, char *problem,
                                    size_t problem_size);
MUST_CHECK int store_create_table(const struct store *store, char *problem, size_t problem_size);

/* Nothing is under way any more: the table of this epoch is not needed. */
void store_remove_table(const struct store *store);

#endif
