/* SPDX-License-Identifier: Apache-2.0 */
/* meter/audit_rows.c: what rows say: amounts, exchanges, corrections.
 *
 * For:       every amount worked out again, no exchange twice, adjusts that correct what is there
 *            and take back no more than was charged.
 * Called by: audit.c.
 * Knows not: chains, signatures. */
#include "meter/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- amounts ---- */

/* A cost that did not fit 64 bits is 0 in its row, which says so. */
static bool did_not_fit(const struct record *record)
{
    return record->cost_pusd == 0 && record_has_flag(record, SPAN("usage_suspect"));
}

static void check_amount(struct audit *audit, const struct record *record)
{
    int64_t cost_pusd = 0;

    if (record_cost(record, &cost_pusd) != OK) {
        if (!did_not_fit(record))
            audit_tell(audit, AUDIT_PRICE, audit->at_file, record->seq, audit->at_offset,
                       "%" PRId64 " pusd were charged, and the row cannot be priced",
                       record->cost_pusd);
    } else if (cost_pusd != record->cost_pusd) {
        audit_tell(audit, AUDIT_PRICE, audit->at_file, record->seq, audit->at_offset,
                   "%" PRId64 " pusd were charged, its tokens and rates come to %" PRId64,
                   record->cost_pusd, cost_pusd);
    }
}

/* ---- exchanges ---- */

static bool is_free(const uint8_t id[16])
{
    static const uint8_t zeros[16];

    return memcmp(id, zeros, sizeof(zeros)) == 0;
}

/* The cell of an id, or the free one where it belongs. */
static uint8_t *find_id(uint8_t (*ids)[16], size_t room, const uint8_t id[16])
{
    size_t at;

    memcpy(&at, id, sizeof(at));
    for (at &= room - 1; !is_free(ids[at]) && memcmp(ids[at], id, 16) != 0;
         at = (at + 1) & (room - 1))
        ;
    return ids[at];
}

static bool grow_ids(struct audit *audit)
{
    const size_t room = audit->id_room == 0 ? 1024 : 2 * audit->id_room;
    uint8_t(*ids)[16];

    if (2 * audit->id_count < audit->id_room)
        return true;
    ids = calloc(room, sizeof(*ids));
    if (ids == NULL) {
        audit->err = ERR_NO_MEMORY;
        return false;
    }
    for (size_t i = 0; i < audit->id_room; i++) {
        if (!is_free(audit->ids[i]))
            memcpy(find_id(ids, room, audit->ids[i]), audit->ids[i], 16);
    }
    free(audit->ids);
    audit->ids = ids;
    audit->id_room = room;
    return true;
}

static void check_exchange(struct audit *audit, const struct record *record)
{
    uint8_t digest[HASH_SHA256_BYTES];
    uint8_t *cell;

    if (record->exchange_id.size == 0 || !grow_ids(audit))
        return;
    hash_sha256(record->exchange_id, digest);
    cell = find_id(audit->ids, audit->id_room, digest);
    if (!is_free(cell)) {
        audit_tell(audit, AUDIT_TWICE, audit->at_file, record->seq, audit->at_offset,
                   "exchange %.*s has a row before this one",
                   (int)(record->exchange_id.size < 64 ? record->exchange_id.size : 64),
                   record->exchange_id.data);
        return;
    }
    memcpy(cell, digest, 16);
    audit->id_count++;
}

/* ---- corrections ---- */

static bool take_number(const char *from, const char *until, uint64_t *out_number)
{
    int64_t number = 0;

    if (!span_to_int64((struct span){from, (size_t)(until - from)}, &number))
        return false;
    *out_number = (uint64_t)number;
    return true;
}

bool audit_read_id(const char *id, char *gateway, size_t gateway_bytes, uint64_t *out_epoch,
                   uint64_t *out_seq)
{
    const char *seq = strrchr(id, '/');
    const char *epoch = seq == NULL ? NULL : memrchr(id, '/', (size_t)(seq - id));

    if (epoch == NULL || epoch == id || (size_t)(epoch - id) >= gateway_bytes ||
        !take_number(epoch + 1, seq, out_epoch) ||
        !take_number(seq + 1, strchr(seq, '\0'), out_seq))
        return false;
    memcpy(gateway, id, (size_t)(epoch - id));
    gateway[epoch - id] = '\0';
    return true;
}

/* Which row an adjust corrects is looked up once all files were read. */
static void keep_adjust(struct audit *audit, uint32_t piece, const struct record *record)
{
    char id[256], gateway[sizeof(((struct journal_file *)NULL)->gateway)];
    struct audit_adjust adjust = {.piece = piece,
                                  .seq = record->seq,
                                  .offset = audit->at_offset,
                                  .target_piece = AUDIT_NO_PIECE,
                                  .cost_pusd = record->cost_pusd,
                                  .row_us = record->corrects_us != 0 ? record->corrects_us
                                                                     : record->admitted_us,
                                  .tenant = hash_text(record->tenant)};
    const struct audit_epoch *epoch = NULL;
    uint64_t number = 0;

    if (record->adjusts.size == 0)
        return; /* of its own: a credit or a fee */
    (void)record_text(record->adjusts, id, sizeof(id));
    if (audit_read_id(id, gateway, sizeof(gateway), &number, &adjust.target_seq))
        epoch = audit_epoch_of(audit, gateway, number);
    if (epoch != NULL)
        adjust.target_piece = audit_piece_of(audit, epoch, adjust.target_seq);
    if (adjust.target_piece == AUDIT_NO_PIECE) {
        audit_tell(audit, AUDIT_MISSING, audit->at_file, record->seq, audit->at_offset,
                   "the row that it corrects, %s, is not there", id);
        return;
    }
    if (audit_room(audit, &audit->adjusts, &audit->adjust_room, audit->adjust_count,
                   sizeof(adjust)))
        audit->adjusts[audit->adjust_count++] = adjust;
}

static int by_target(const void *left, const void *right)
{
    const struct audit_adjust *a = left;
    const struct audit_adjust *b = right;

    if (a->target_piece != b->target_piece)
        return a->target_piece < b->target_piece ? -1 : 1;
    if (a->target_seq != b->target_seq)
        return a->target_seq < b->target_seq ? -1 : 1;
    if (a->piece != b->piece)
        return a->piece < b->piece ? -1 : 1;
    return a->seq == b->seq ? 0 : a->seq < b->seq ? -1 : 1;
}

static void tell_of_adjust(struct audit *audit, enum audit_finding_kind kind,
                           const struct audit_adjust *adjust, const char *what)
{
    const struct journal_file *target = &audit->pieces[adjust->target_piece].file;

    audit_tell(audit, kind, audit->pieces[adjust->piece].file.name, adjust->seq, adjust->offset,
               "%s: %s/%" PRIu64 "/%" PRIu64, what, target->gateway, target->epoch,
               adjust->target_seq);
}

/* The adjusts of one row against it: what is left of a charge never changes its sign. */
static void check_against(struct audit *audit, const struct audit_adjust *adjusts, size_t count,
                          const struct record *record)
{
    money_sum left = record->cost_pusd;

    for (size_t i = 0; i < count; i++) {
        if (record->kind != RECORD_CALL && record->kind != RECORD_ADJUST)
            tell_of_adjust(audit, AUDIT_MISSING, &adjusts[i],
                           "it corrects a line that charges nothing");
        else if (record->kind == RECORD_ADJUST && record->adjusts.size > 0)
            tell_of_adjust(audit, AUDIT_PRICE, &adjusts[i], "it corrects a correction");
        else if (hash_text(record->tenant) != adjusts[i].tenant)
            tell_of_adjust(audit, AUDIT_PRICE, &adjusts[i], "it corrects another tenant's row");
        else if (record->admitted_us != adjusts[i].row_us)
            tell_of_adjust(audit, AUDIT_PRICE, &adjusts[i],
                           "it belongs to another moment than its row");
        left += adjusts[i].cost_pusd;
    }
    if ((record->cost_pusd >= 0 && left < 0) || (record->cost_pusd < 0 && left > 0))
        tell_of_adjust(audit, AUDIT_PRICE, &adjusts[count - 1],
                       "more was taken back than was charged");
}

/* The adjusts from `first` on that correct the same row. */
static size_t same_target(const struct audit *audit, size_t first)
{
    const struct audit_adjust *adjust = &audit->adjusts[first];
    size_t end = first + 1;

    while (end < audit->adjust_count && audit->adjusts[end].target_piece == adjust->target_piece &&
           audit->adjusts[end].target_seq == adjust->target_seq)
        end++;
    return end;
}

/* One pass over a file for all its rows that were corrected; returns the first adjust of the next.
 */
static size_t check_piece(struct audit *audit, size_t first)
{
    const uint32_t piece = audit->adjusts[first].target_piece;
    struct lines lines = {0};
    struct record record;
    struct span line;
    char problem[256];

    if (!audit->pieces[piece].retired &&
        lines_open(audit->directory_fd, audit->pieces[piece].file.name, 0, &lines) == OK) {
        while (first < audit->adjust_count && audit->adjusts[first].target_piece == piece &&
               lines_next(&lines, &line) == LINE_WHOLE) {
            if (record_read(line, &record, problem, sizeof(problem)) != OK ||
                record.seq != audit->adjusts[first].target_seq)
                continue;
            const size_t end = same_target(audit, first);
            check_against(audit, &audit->adjusts[first], end - first, &record);
            first = end;
        }
        lines_close(&lines);
    }
    for (; first < audit->adjust_count && audit->adjusts[first].target_piece == piece; first++) {
        if (audit->pieces[piece].retired)
            tell_of_adjust(audit, AUDIT_NOTE, &audit->adjusts[first],
                           "it corrects a row of a file that retention deleted");
        else
            tell_of_adjust(audit, AUDIT_MISSING, &audit->adjusts[first],
                           "the row that it corrects is not there");
    }
    return first;
}

void audit_check_adjusts(struct audit *audit)
{
    if (audit->adjust_count > 0)
        qsort(audit->adjusts, audit->adjust_count, sizeof(*audit->adjusts), by_target);
    for (size_t i = 0; i < audit->adjust_count;)
        i = check_piece(audit, i);
}

/* ---- one row ---- */

void audit_row(struct audit *audit, uint32_t piece, struct audit_epoch *epoch,
               const struct record *record)
{
    if (record->kind != RECORD_CALL && record->kind != RECORD_ADJUST)
        return;
    check_amount(audit, record);
    if (record->kind == RECORD_CALL) {
        audit->sums.calls++;
        check_exchange(audit, record);
    } else {
        audit->sums.adjusts++;
        keep_adjust(audit, piece, record);
    }
    audit->sums.charged_pusd += record->cost_pusd;
    if (record->seq > epoch->protected_seq)
        audit->sums.rows_after_last_anchor++;
    if (audit->options->against_ledger)
        audit_count(audit, epoch, record->seq, audit->chain.hash, SIDE_JOURNAL);
}
