/* SPDX-License-Identifier: Apache-2.0 */
/* meter/audit.h: what the parts of an audit share; private to audit*.c.
 *
 * For:       one run over the journal: its files in order, who names which line, what rows add
 *            up to.
 * Called by: audit.c, audit_files.c, audit_names.c, audit_rows.c, audit_ledger.c.
 * Knows not: how findings are shown.
 *
 * Memory: some 400 bytes for each file, 100 for each anchor and entry of before, 32 to 64 for each
 * call (its exchange id); rows themselves are streamed. */
#ifndef METER_AUDIT_H
#define METER_AUDIT_H

#include "config/base/hash.h"
#include "meter/chain.h"
#include "meter/files.h"

#define AUDIT_SAYS_BYTES 1024
#define AUDIT_NO_PIECE UINT32_MAX

/* A file of the journal, or what is left of one that retention deleted. */
struct audit_piece {
    struct journal_file file;
    bool retired;
    struct span open, head; /* of a retired one; they lie in audit->retired or retired_since */
    int64_t offset;         /* of open */
};

/* Rows of an epoch with the same seq >> AUDIT_BUCKET_BITS: the journal's, and the ledger's. */
#define AUDIT_BUCKET_BITS 12
struct audit_bucket {
    uint64_t rows[2];
    unsigned __int128 sum[2]; /* of their hashes: which rows, in whatever order */
};
enum audit_side { SIDE_JOURNAL, SIDE_LEDGER };

struct audit_epoch {
    size_t first, count;    /* its pieces */
    uint64_t protected_seq; /* an anchor reaches lines up to this one, through whatever opens */
    uint64_t last_seq;      /* of what was read */
    bool closed;            /* its last file ends in a head */
    struct audit_bucket *buckets; /* by seq >> AUDIT_BUCKET_BITS, from bucket_base on */
    uint64_t bucket_base, bucket_count, bucket_room;
};

/* Somebody says that a line of a piece has this hash. */
struct audit_naming {
    uint32_t piece;
    uint32_t from; /* the piece whose open line says so; AUDIT_NO_PIECE: an anchor */
    uint64_t seq;
    int64_t from_offset; /* of the anchor */
    bool met;
    char hash[CHAIN_HASH_BYTES];
};

struct audit_adjust {
    uint32_t piece; /* where it stands */
    uint64_t seq;
    int64_t offset;
    uint32_t target_piece;
    uint64_t target_seq;
    int64_t cost_pusd;
    int64_t row_us;  /* the moment that its row has to have */
    uint64_t tenant; /* hash_text() */
};

struct audit {
    struct chain chain; /* first: chain->tell finds the audit */
    struct books *books;
    const struct config *config;
    const struct audit_options *options;
    const char *anchors_path; /* NULL: none */
    struct keyring keys;
    int directory_fd;
    void (*visit)(void *owner, const struct audit_finding *finding);
    void *owner;
    struct audit_sums sums;
    enum err err; /* ERR_NO_MEMORY, ERR_INTERNAL: the run ends */

    struct lines anchors, retired; /* mapped for the whole run */
    struct lines retired_since;    /* the same file, read again */
    struct audit_piece *pieces;    /* by gateway, epoch, first seq */
    size_t piece_count, piece_room;
    struct audit_epoch *epochs;
    size_t epoch_count;
    struct audit_naming *namings; /* by piece and seq once sorted */
    size_t naming_count, naming_room;

    /* Where the run is. */
    const char *at_file;
    int64_t at_offset;
    const char *linked_gateway; /* the last one with an epoch of version 2 */

    uint8_t (*ids)[16]; /* a table of the exchange ids met; zeros: free */
    size_t id_count, id_room;
    struct audit_adjust *adjusts;
    size_t adjust_count, adjust_room;
};

/* ---- audit.c ---- */

/* Tells a finding, and counts it unless it is a note. file NULL, seq 0, offset -1: of no place. */
__attribute__((format(printf, 6, 7))) void audit_tell(struct audit *audit,
                                                      enum audit_finding_kind kind,
                                                      const char *file, uint64_t seq,
                                                      int64_t offset, const char *format, ...);

/* Room for one more item; false: there is no memory (audit->err says so). */
bool audit_room(struct audit *audit, void *array, size_t *room, size_t count, size_t item_bytes);

/* ---- audit_files.c: which files there are ---- */

/* Lists files and what is left of deleted ones into pieces and epochs. problem: in words. */
MUST_CHECK enum err audit_list(struct audit *audit, char *problem, size_t problem_size);
void audit_unlist(struct audit *audit);

/* Tells what in retired.jsonl stands for no file. */
void audit_check_retired(struct audit *audit);

/* The piece that a file's name means; AUDIT_NO_PIECE: none. */
uint32_t audit_piece_named(const struct audit *audit, const char *name);

/* The one that holds a row; NULL, AUDIT_NO_PIECE: none. gateway as it is, not as JSON spells it. */
struct audit_epoch *audit_epoch_of(const struct audit *audit, const char *gateway, uint64_t epoch);
uint32_t audit_piece_of(const struct audit *audit, const struct audit_epoch *epoch, uint64_t seq);

/* A file that was listed is gone: has retention deleted it since? Then the piece is retired. */
bool audit_retire(struct audit *audit, struct audit_piece *piece);

/* ---- audit_names.c: who names which line ---- */

/* Is a file named, by an open line or an anchor, that is there and came after the list was made? */
bool audit_names_more(struct audit *audit);

/* Reads the opens and the anchors: who names which line, and how far anchors reach. */
void audit_name(struct audit *audit);

/* A line was read: is it the one that is named? */
void audit_met(struct audit *audit, uint32_t piece, uint64_t seq, const char *hash);

/* The piece was read: was every line met that is named? */
void audit_unmet(struct audit *audit, uint32_t piece);

/* ---- audit_rows.c: what rows say ---- */

/* A row was read: counts and sums it up, and tells what is wrong with it by itself. */
void audit_row(struct audit *audit, uint32_t piece, struct audit_epoch *epoch,
               const struct record *record);

/* All rows were read: does every adjust correct a row of its tenant, and no more than it charged?
 */
void audit_check_adjusts(struct audit *audit);

/* "g1/7/123" into its parts. false: it is none. */
bool audit_read_id(const char *id, char *gateway, size_t gateway_bytes, uint64_t *out_epoch,
                   uint64_t *out_seq);

/* ---- audit_ledger.c ---- */

/* Counts a row into the buckets of its side. */
void audit_count(struct audit *audit, struct audit_epoch *epoch, uint64_t seq, const char *hash,
                 enum audit_side side);

/* The journal was read: feeds the ledger, and tells where its rows or sums differ. */
void audit_check_ledger(struct audit *audit);

#endif
