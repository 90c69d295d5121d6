/* SPDX-License-Identifier: Apache-2.0 */
/* meter/row.h: the lines of the journal, written; pure.
 *
 * For:       the fields of each kind of line in their order, by hand: under a microsecond a row.
 * Called by: scribe.c, adjust.c; keeper.c for anchors.
 * Knows not: files, threads, where slots live, who signs. record.h reads what is written here.
 *
 * Every line is one compact JSON object and a newline, begins with v, gateway, epoch, seq and kind,
 * and ends with prev: the SHA-256 of the line before it in the files of its epoch, newline not
 * counted, as 64 hex digits (64 zeros on the first line of an epoch). A head has its signature
 * behind prev. */
#ifndef METER_ROW_H
#define METER_ROW_H

#include "config/base/money.h"
#include "config/base/sign.h"
#include "meter/inflight.h"

/* Every text byte as six, every number at its longest, and what stands between. */
#define ROW_BYTES_MAX 8192
#define ROW_GATEWAY_BYTES_MAX 64
#define ROW_VERSION 2

/* The part of every row that is the same in one process, rendered once. */
struct row_author {
    char start[6 * ROW_GATEWAY_BYTES_MAX + 64]; /* {"v":2,"gateway":"g1","epoch":7,"seq": */
    size_t start_bytes;
};

/* gateway: at most ROW_GATEWAY_BYTES_MAX bytes. */
void row_author_init(struct row_author *author, struct span gateway, uint64_t epoch);

/* A line's place in the chain. */
struct row_link {
    uint64_t seq;
    const char *prev; /* 64 hex digits */
};

/* Writes the row of an ended slot and its newline; returns their bytes. out: ROW_BYTES_MAX.
 * price: the slot's, NULL: none. recovered: "g1-3" when the slot is a dead process's; else empty.
 */
size_t row_render(const struct row_author *author, const struct row_link *link,
                  const struct slot *slot, const struct price *price, struct span recovered,
                  char *out);

/* An adjust: a correction that names the row it corrects (or none), never an edit. */
struct row_adjust {
    struct span adjusts;            /* "g1/7/123", or empty: a credit or fee of its own */
    struct span tenant, key, model; /* key and model may be empty */
    struct usage
        usage; /* what it adds, -1: says nothing of tokens; may take away: any sign but -1 */
    int64_t cost_pusd;   /* what it adds; mostly negative */
    int64_t admitted_us; /* the moment whose price, period and budget it belongs to */
    int64_t corrects_us; /* that of the row it corrects, when another's period; 0: not so */
    int64_t at_us;       /* when it was made */
    struct span by, why; /* who, and the reason in words */
};
/* out: 1,024 bytes, and six for each byte of its texts. */
size_t row_render_adjust(const struct row_author *author, const struct row_link *link,
                         const struct row_adjust *adjust, char *out);

/* The last line of another file as it stood when a file was begun. */
struct row_before {
    char file[160];
    uint64_t seq;
    char sha256[65];
};

/* What a tenant was charged in all, as of the lines in `before`. */
struct row_balance {
    struct span tenant;
    money_sum posted_pusd;
    uint64_t rows;
};

/* The bytes an open line may take. */
size_t row_open_bytes_max(size_t before_count, size_t balance_count);

/* The first line of a file. out: row_open_bytes_max(). */
size_t row_render_open(const struct row_author *author, const struct row_link *link, int64_t at_us,
                       const struct row_before *before, size_t before_count,
                       const struct row_balance *balances, size_t balance_count, char *out);

/* The last line of a file. first_seq: of its first line. Errors: those of sign_text(). */
MUST_CHECK enum err row_render_head(const struct row_author *author, const struct row_link *link,
                                    int64_t at_us, uint64_t first_seq, struct sign_key *key,
                                    char *out, size_t *out_bytes);

/* {"gateway":"g1","epoch":7,"seq":123,"file":"g1-7-1.jsonl","sha256":"…","at_us":…,"key":"…",
 * "signature":"…"} and a newline: an anchor, which says that this line was the newest. The
 * signature is of all bytes before ,"signature". */
MUST_CHECK enum err row_render_anchor(struct span gateway, uint64_t epoch,
                                      const struct row_before *line, int64_t at_us,
                                      struct sign_key *key, char *out, size_t *out_bytes);

#endif
