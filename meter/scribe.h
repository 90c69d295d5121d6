/* SPDX-License-Identifier: Apache-2.0 */
/* meter/scribe.h: this process's lines in the journal: their chain, and the files that they fill.
 *
 * For:       seq and prev of each line; the open line that begins a file and the signed head that
 *            ends it; balances as of the last line.
 * Called by: journal.c.
 * Knows not: threads, when to try again, who waits for a row.
 *
 * Lines are rendered into a batch (seq and prev move on then) and written as a whole, in as many
 * tries as the disk needs: what is in the batch is never rendered again. */
#ifndef METER_SCRIBE_H
#define METER_SCRIBE_H

#include <limits.h>

#include "config/base/hash.h"
#include "meter/history.h"
#include "meter/segment.h"
#include "meter/store.h"

#define SCRIBE_BATCH_BYTES (256u << 10)
#define SCRIBE_DIGEST_BYTES (2 * HASH_SHA256_BYTES + 1)

/* One thread at a time. */
struct scribe {
    const struct store *store; /* borrowed, as key and history */
    struct sign_key *key;
    struct history *history;
    bool has_own_before;   /* its first `before` is the head of our own file before this one */
    int64_t reserve_bytes; /* kept free ahead for what is under way */
    struct row_author author;
    uint64_t seq; /* of the next line */
    char prev[SCRIBE_DIGEST_BYTES];
    struct segment segment;
    uint64_t first_seq; /* of the file that is open */
    uint64_t file_rows; /* calls in it, the batch's too */
    int64_t open_bytes; /* of its open line */
    uint64_t opened_ns;
    struct segment next; /* made and reserved, between scribe_prepare() and scribe_enter() */
    char *batch;
    size_t batch_room, batch_bytes;
    size_t written; /* of the batch */
};

/* Makes the first file and puts its open line into the batch. slots: those of the table.
 * Errors: ERR_NO_MEMORY; ERR_INTERNAL (the disk). problem in words. *scribe then needs no
 *         scribe_close(). */
MUST_CHECK enum err scribe_open(struct scribe *scribe, const struct store *store,
                                struct sign_key *key, struct history *history, uint32_t slots,
                                uint64_t now_ns, char *problem, size_t problem_size);
void scribe_close(struct scribe *scribe); /* gives the reserve back; writes nothing */

/* Is there room for one more row in the batch? */
static inline bool scribe_has_room(const struct scribe *scribe)
{
    return scribe->batch_room - scribe->batch_bytes >= ROW_BYTES_MAX;
}

/* Adds an ended slot's row, for which there is room. Errors: those of history_post(): the balances
 * are not those of the rows any more. */
MUST_CHECK enum err scribe_add(struct scribe *scribe, const struct slot *slot,
                               const struct price *price, struct span recovered);

/* Writes what is left of the batch; it is empty when DONE. errno as segment_append()'s. */
MUST_CHECK enum segment_state scribe_write(struct scribe *scribe);

/* Has the open file its size or its age? */
bool scribe_is_due(const struct scribe *scribe, int64_t segment_bytes, int64_t segment_age_ms,
                   uint64_t now_ns);

/* The way to the next file, each step when the batch is empty:
 *   scribe_prepare()   makes and reserves it; false with a problem: stay in this one
 *   scribe_add_head()  the last line of this one; written and synced by the caller
 *   scribe_enter()     closes this one; the open line of the next is in the batch */
MUST_CHECK bool scribe_prepare(struct scribe *scribe, char *problem, size_t problem_size);
MUST_CHECK enum err scribe_add_head(struct scribe *scribe);
void scribe_enter(struct scribe *scribe, uint64_t now_ns);

/* The line last added, as others know it. */
void scribe_last_line(const struct scribe *scribe, struct row_before *out_line);

#endif
