/* SPDX-License-Identifier: Apache-2.0 */
/* meter/chain.h: lines of the journal, one after another: is each where it belongs; pure.
 *
 * For:       the audit: v, gateway, epoch, seq, prev, the first and the last line of files, and
 *            heads' signatures.
 * Called by: audit.c.
 * Knows not: files, amounts, what other epochs say of this one.
 *
 *   chain_begin()                         an epoch
 *     chain_retired() | chain_file()      its files in their order
 *       chain_line() …                    every whole line
 *     chain_file_end()
 *
 * What is wrong is told once: behind a fault the chain goes on from the line as it is. */
#ifndef METER_CHAIN_H
#define METER_CHAIN_H

#include "meter/books.h"
#include "meter/keyring.h"
#include "meter/record.h"

#define CHAIN_HASH_BYTES 65 /* 64 hex digits and a NUL */
#define CHAIN_SAYS_BYTES 640

struct chain {
    /* Set by the owner before chain_begin(). */
    struct keyring *keys; /* NULL: signatures are not checked */
    void (*tell)(struct chain *chain, enum audit_finding_kind kind, uint64_t seq, const char *says);

    /* Read by the owner. */
    uint64_t seq;                /* of the line before; 0: none yet */
    char hash[CHAIN_HASH_BYTES]; /* of that line */
    uint64_t heads;              /* good ones, in all */
    bool unlinked;               /* an epoch of version 1: its lines have no prev */

    /* Its own. */
    const char *gateway;
    uint64_t epoch;
    bool began_file, ended_file; /* the file's first line was read; its head was */
    bool read_any;               /* a line of the epoch that is a row */
    uint64_t first_seq;
};

/* An epoch; gateway is borrowed while it lasts. */
void chain_begin(struct chain *chain, const char *gateway, uint64_t epoch);

/* What is left of a file that retention deleted: its first and its last line. */
void chain_retired(struct chain *chain, struct span open, struct span head);

/* A file whose name says that it begins with first_seq. */
void chain_file(struct chain *chain, uint64_t first_seq);

/* The next whole line. chain->seq is then its number, or what it should be when it is damaged.
 * false: it is not a row; *out_record is then undefined. */
MUST_CHECK bool chain_line(struct chain *chain, struct span line, struct record *out_record);

/* The file's whole lines are over. torn: bytes without a line's end are left. last: the epoch has
 * no file behind it. */
void chain_file_end(struct chain *chain, bool torn, bool last);

#endif
