/* SPDX-License-Identifier: Apache-2.0 */
/* meter/record.h: one line of the journal, read; pure.
 *
 * For:       everybody who reads rows: recovery, the ledger, the audit, invoices.
 * Called by: history.c, recover.c, retire.c, chain.c, ledger*.c, audit*.c, invoice.c, adjust.c,
 *            rerate.c; the gateway's cmd_why.c.
 * Knows not: files, chains, whether an amount is right.
 *
 * Reads versions 1 (no prev, no opens and heads) and 2. Unknown fields are skipped: a newer gateway
 * may have written them. Never reads past the line, whatever is in it. */
#ifndef METER_RECORD_H
#define METER_RECORD_H

#include "meter/price.h"

enum record_kind { RECORD_CALL, RECORD_REFUSALS, RECORD_ADJUST, RECORD_OPEN, RECORD_HEAD };

#define RECORD_WASTES_MAX 4u

/* The prev of an epoch's first line. */
#define RECORD_NO_PREV "0000000000000000000000000000000000000000000000000000000000000000"

struct record_waste {
    struct span replica, cause;
    struct usage usage;
};

/* Spans borrow from the line: texts as they are spelt in JSON, between their quotes, escapes left
 * (record_text() undoes them); objects and arrays with their brackets. Absent: {NULL, 0}. */
struct record {
    int64_t version;
    struct span gateway;
    uint64_t epoch, seq;
    enum record_kind kind;
    struct span recovered; /* "g1-3" */
    struct span exchange_id, request_id, trace_id;
    struct span tenant, key, tags;
    struct span endpoint, class, tier;
    bool stream;
    struct span model_asked, model, replica;
    int64_t attempts;
    struct usage usage; /* -1: absent */
    struct span source, flags;
    uint32_t waste_count;
    struct record_waste wastes[RECORD_WASTES_MAX];
    struct span outcome;
    int64_t status; /* -1: absent */
    bool billable;
    bool has_tariff;
    struct tariff tariff;
    struct span prices;                                               /* the object as it stands */
    int64_t held_pusd, cost_pusd, unit_cost_pusd;                     /* absent: 0, 0, -1 */
    int64_t admitted_us, queue_us, sent_us, first_token_us, ended_us; /* absent: 0 */
    int64_t bytes_in, bytes_out;
    struct span why;
    struct span adjusts, by;      /* adjust */
    int64_t corrects_us;          /* adjust: the moment of the row in a closed month; absent: 0 */
    int64_t at_us;                /* adjust, open, head */
    struct span before, balances; /* open */
    uint64_t first_seq;           /* head */
    struct span signing_key, signature; /* head */
    struct span prev;                   /* 64 hex digits; {NULL, 0}: a row of version 1 */
    size_t signed_bytes;                /* head: what the signature covers, from the line's start */
};

/* Reads a line (without its newline). problem: what is wrong and at which byte, in words.
 * Errors: ERR_BAD_VALUE: not a row of ours (not one JSON object, a field of the wrong type, a
 *         number out of range, a field twice, no v, gateway, epoch, seq or kind). *out_record is
 *         then undefined. */
MUST_CHECK enum err record_read(struct span line, struct record *out_record, char *problem,
                                size_t problem_size);

/* A member of a JSON object such as tags: calls visit with name and value as they are spelt (texts
 * between their quotes) until it returns false. false: object is not well-formed. */
bool record_members(struct span object,
                    bool (*visit)(void *owner, struct span name, struct span value), void *owner);

/* The items of an array, likewise. */
bool record_items(struct span array, bool (*visit)(void *owner, struct span item), void *owner);

/* A text's escapes undone into out (NUL-terminated, cut whole characters at out_size); returns the
 * length. */
size_t record_text(struct span spelt, char *out, size_t out_size);

/* Is this a member of flags? */
bool record_has_flag(const struct record *record, struct span flag);

/* The cost worked out again from the row alone: tokens × its own rates; 0 when not billable; an
 * adjust's is what it says. Errors: ERR_BAD_VALUE (cannot be: no prices though billable, does not
 * fit). */
MUST_CHECK enum err record_cost(const struct record *record, int64_t *out_pusd);

#endif
