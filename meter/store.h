/* SPDX-License-Identifier: Apache-2.0 */
/* meter/store.h: the journal's directory: who writes in it, under which epoch, in which files.
 *
 * For:       file names that tell processes apart for good:
 *              <gateway>.lock                      held while a process of this name starts
 *              <gateway>-<epoch>-<first seq>.jsonl the journal
 *              <gateway>-<epoch>.inflight          the table of what is under way; its process
 *                                                  has it locked (flock) for life: who gets the
 *                                                  lock knows that the process is dead
 *              <gateway>-<epoch>.inflight.damaged  such a table, of which not all could be read
 *              signing.key, signing.pub            unless the operator keeps them elsewhere
 *
 *            Two processes of one name may overlap (a successor starts while the old one drains):
 *            each has its epoch.
 * Called by: meter.c, recover.c, journal.c, scribe.c, adjust.c.
 * Knows not: what is in the files. */
#ifndef METER_STORE_H
#define METER_STORE_H

#include "config/base/sign.h"
#include "config/config.h"

#define STORE_GATEWAY_BYTES_MAX 64
#define STORE_LOCK_WAIT_MS 10000

struct store {
    int directory_fd;
    int start_lock_fd; /* -1 once store_started() */
    int table_fd;      /* -1: none was made */
    bool table_named;  /* its file has the table's name */
    uint64_t epoch;    /* larger than any that the directory knows of this gateway */
    char gateway[STORE_GATEWAY_BYTES_MAX + 1];
};

/* Makes the directory (0700) if absent, but none that it is in, takes the start lock (waiting at
 * most STORE_LOCK_WAIT_MS) and finds the epoch. problem: what is wrong, in words, when not OK.
 * Errors: ERR_BAD_VALUE (the gateway's name cannot be a file's), ERR_INTERNAL (the system, or
 * another process is starting for too long). *store then needs no store_close(). */
MUST_CHECK enum err store_open(struct store *store, struct span directory, struct span gateway,
                               char *problem, size_t problem_size);

/* The epoch has a file: others of this name may start. */
void store_started(struct store *store);

/* Gives locks and descriptors back; files stay. */
void store_close(struct store *store);

#define STORE_KEY_NAME "signing.key"

/* Where the key lies that heads and anchors are signed with: the operator's, or in the journal. */
void store_key_path(const struct config *config, char out[SIGN_PATH_BYTES]);

/* A new journal file of this epoch (0600), opened for appending, its name synced to the directory;
 * -1 with a problem. The caller closes it. */
MUST_CHECK int store_create_journal(const struct store *store, uint64_t first_seq, char *problem,
                                    size_t problem_size);

/* The name of that file. out: NAME_MAX + 1 bytes. */
void store_journal_name(const struct store *store, uint64_t first_seq, char *out);

/* The table's file of this epoch (0600), locked; kept in store->table_fd. It has its name only once
 * it is locked and store_name_table() was called: nobody takes it for a dead one's before.
 * Errors: ERR_INTERNAL with a problem. */
MUST_CHECK enum err store_create_table(struct store *store, char *problem, size_t problem_size);
MUST_CHECK enum err store_name_table(struct store *store, char *problem, size_t problem_size);

/* What the table has now is on the disk: prices, without which a slot that outlives a loss of power
 * is worth nothing. A failure is logged. Any thread. */
void store_sync_table(const struct store *store);

/* Nothing is under way any more: the table of this epoch is not needed. */
void store_remove_table(struct store *store);

/* The next table of a dead process (of any gateway), locked by us and opened; -1: there is no more.
 * *cursor begins as 0. The caller ends each with store_bury_table(), store_set_table_aside() or
 * close(). name: NAME_MAX + 1 bytes. */
MUST_CHECK int store_next_dead_table(const struct store *store, uint64_t *cursor, char *name);

/* Its rows are on disk: deletes the file, syncs the directory and closes fd. */
void store_bury_table(const struct store *store, const char *name, int fd);

/* Its rows are on disk, but some slots could not be read: the file is kept under another name
 * (<table>.damaged), for a person to look at. Syncs the directory and closes fd. */
void store_set_table_aside(const struct store *store, const char *name, int fd);

#endif
