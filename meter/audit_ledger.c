/* SPDX-License-Identifier: Apache-2.0 */
/* meter/audit_ledger.c: is the ledger what the journal says?
 *
 * For:       rows both ways, and the ledger's sums by month against its own rows.
 * Called by: audit.c, audit_rows.c.
 * Knows not: SQL.
 *
 * Rows are compared by the thousand: as many, and the same sum of hashes. Only where that differs
 * are they looked at one by one. So a ledger of any length takes a few bytes for a thousand rows.
 */
#include "meter/audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DETAILS_MAX 8u     /* buckets that are looked at row by row */
#define BUCKETS_JUMP 65536 /* a seq further ahead is damage, and told as such */
#define FEEDS_MAX 50       /* another process feeds: it has five seconds to get there */
#define USAGE_TRIES 3
#define FAR_US (INT64_C(253402300800) * 1000000) /* behind the year 9999 */

/* ---- counting ---- */

/* The first half of a hash in hex. */
static unsigned __int128 half_of(const char *hash)
{
    unsigned __int128 half = 0;

    for (int i = 0; i < 32; i++) {
        const char digit = hash[i];
        half = half << 4 | (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    return half;
}

static struct audit_bucket *bucket_of(const struct audit_epoch *epoch, uint64_t seq)
{
    const uint64_t number = seq >> AUDIT_BUCKET_BITS;

    if (number < epoch->bucket_base || number - epoch->bucket_base >= epoch->bucket_count)
        return NULL;
    return &epoch->buckets[number - epoch->bucket_base];
}

static bool reach_bucket(struct audit *audit, struct audit_epoch *epoch, uint64_t seq)
{
    const uint64_t number = seq >> AUDIT_BUCKET_BITS;
    size_t room = epoch->bucket_room;

    if (epoch->bucket_count == 0)
        epoch->bucket_base = number;
    if (number < epoch->bucket_base ||
        number - epoch->bucket_base > epoch->bucket_count + BUCKETS_JUMP)
        return false;
    while (number - epoch->bucket_base >= epoch->bucket_count) {
        if (!audit_room(audit, &epoch->buckets, &room, epoch->bucket_count,
                        sizeof(*epoch->buckets)))
            return false;
        epoch->bucket_room = room;
        epoch->buckets[epoch->bucket_count++] = (struct audit_bucket){.rows = {0, 0}};
    }
    return true;
}

void audit_count(struct audit *audit, struct audit_epoch *epoch, uint64_t seq, const char *hash,
                 enum audit_side side)
{
    struct audit_bucket *bucket;

    if (side == SIDE_JOURNAL && !reach_bucket(audit, epoch, seq))
        return;
    bucket = bucket_of(epoch, seq);
    if (bucket == NULL)
        return;
    bucket->rows[side]++;
    bucket->sum[side] += half_of(hash);
}

static bool is_equal(const struct audit_bucket *bucket)
{
    return bucket->rows[SIDE_JOURNAL] == bucket->rows[SIDE_LEDGER] &&
           bucket->sum[SIDE_JOURNAL] == bucket->sum[SIDE_LEDGER];
}

/* ---- the ledger's rows ---- */

/* A row of an epoch that nobody knew when files were listed: has it files by now? */
static bool epoch_came(const struct audit *audit, const char *gateway, uint64_t epoch)
{
    struct journal_file *files = NULL;
    size_t count = 0;
    char problem[256];
    bool came = false;

    if (files_list(audit->directory_fd, &files, &count, problem, sizeof(problem)) != OK)
        return false;
    for (size_t i = 0; i < count; i++)
        came = came || (files[i].epoch == epoch && strcmp(files[i].gateway, gateway) == 0);
    free(files);
    return came;
}

/* Has an epoch that ended in a head when it was read gone on since, in a file of its own? */
static bool goes_on(const struct audit *audit, const struct audit_epoch *epoch)
{
    const struct journal_file *file = &audit->pieces[epoch->first].file;
    char name[NAME_MAX + 1];

    files_print_name(span_of(file->gateway), file->epoch, epoch->last_seq + 1, name);
    return faccessat(audit->directory_fd, name, F_OK, 0) == 0;
}

enum ledger_row { ROW_COUNTS, ROW_NEWER, ROW_RETIRED, ROW_UNKNOWN };

/* Which of ours the ledger's row should be. */
static enum ledger_row place_row(const struct audit *audit, const struct record *record,
                                 struct audit_epoch **out_epoch)
{
    char gateway[sizeof(((struct journal_file *)NULL)->gateway)];
    uint32_t piece;

    (void)record_text(record->gateway, gateway, sizeof(gateway));
    *out_epoch = audit_epoch_of(audit, gateway, record->epoch);
    if (*out_epoch == NULL)
        return epoch_came(audit, gateway, record->epoch) ? ROW_NEWER : ROW_UNKNOWN;
    if (record->seq > (*out_epoch)->last_seq)
        return (*out_epoch)->closed && !goes_on(audit, *out_epoch) ? ROW_UNKNOWN : ROW_NEWER;
    piece = audit_piece_of(audit, *out_epoch, record->seq);
    if (piece != AUDIT_NO_PIECE && audit->pieces[piece].retired)
        return ROW_RETIRED;
    return bucket_of(*out_epoch, record->seq) == NULL ? ROW_UNKNOWN : ROW_COUNTS;
}

static void tell_unknown(struct audit *audit, const struct record *record)
{
    audit_tell(audit, AUDIT_LEDGER, NULL, record->seq, -1,
               "the ledger has a row that the journal has not: %.*s/%" PRIu64 "/%" PRIu64,
               (int)(record->gateway.size < 64 ? record->gateway.size : 64), record->gateway.data,
               record->epoch, record->seq);
}

struct month {
    int64_t from_us;
    int64_t calls;
    money_sum cost_pusd;
};

struct months {
    struct audit *audit;
    struct month *items;
    size_t count, room;
};

static void add_month(struct months *months, int64_t from_us, int64_t calls, money_sum cost_pusd)
{
    size_t at = 0;

    while (at < months->count && months->items[at].from_us != from_us)
        at++;
    if (at == months->count) {
        if (!audit_room(months->audit, &months->items, &months->room, months->count,
                        sizeof(*months->items)))
            return;
        months->items[months->count++] = (struct month){.from_us = from_us};
    }
    months->items[at].calls += calls;
    months->items[at].cost_pusd += cost_pusd;
}

struct counting {
    struct audit *audit;
    struct months months;
    bool telling; /* the first time; later only months are summed up */
};

static bool count_row(void *owner, const struct record *record, struct span line)
{
    struct counting *counting = owner;
    struct audit *audit = counting->audit;
    struct audit_epoch *epoch;
    char hash[CHAIN_HASH_BYTES];

    if (record->kind != RECORD_CALL && record->kind != RECORD_ADJUST)
        return true;
    add_month(&counting->months,
              period_around(zone_utc(), PERIOD_MONTH, record->admitted_us).from_us,
              record->kind == RECORD_CALL ? 1 : 0, record->cost_pusd);
    if (!counting->telling)
        return audit->err == OK;
    switch (place_row(audit, record, &epoch)) {
    case ROW_COUNTS:
        line_hash(line, hash);
        audit_count(audit, epoch, record->seq, hash, SIDE_LEDGER);
        break;
    case ROW_UNKNOWN:
        tell_unknown(audit, record);
        break;
    default:
        break;
    }
    return audit->err == OK;
}

/* ---- row by row, where thousands differ ---- */

struct detail {
    uint32_t epoch;
    uint64_t bucket; /* seq >> AUDIT_BUCKET_BITS */
};

struct detail_row {
    uint32_t epoch;
    uint32_t piece;
    uint64_t seq;
    int64_t offset;
    enum audit_side side;
    char hash[CHAIN_HASH_BYTES];
};

struct details {
    struct audit *audit;
    struct detail wanted[DETAILS_MAX];
    size_t wanted_count;
    struct detail_row *rows;
    size_t count, room;
};

static bool is_wanted(const struct details *details, const struct audit_epoch *epoch, uint64_t seq)
{
    const uint32_t number = (uint32_t)(epoch - details->audit->epochs);

    for (size_t i = 0; i < details->wanted_count; i++) {
        if (details->wanted[i].epoch == number &&
            details->wanted[i].bucket == seq >> AUDIT_BUCKET_BITS)
            return true;
    }
    return false;
}

static void keep_row(struct details *details, struct detail_row row, struct span line)
{
    if (!audit_room(details->audit, &details->rows, &details->room, details->count, sizeof(row)))
        return;
    line_hash(line, row.hash);
    details->rows[details->count++] = row;
}

static bool keep_ledger_row(void *owner, const struct record *record, struct span line)
{
    struct details *details = owner;
    struct audit_epoch *epoch;

    if ((record->kind == RECORD_CALL || record->kind == RECORD_ADJUST) &&
        place_row(details->audit, record, &epoch) == ROW_COUNTS &&
        is_wanted(details, epoch, record->seq))
        keep_row(details,
                 (struct detail_row){.epoch = (uint32_t)(epoch - details->audit->epochs),
                                     .piece = AUDIT_NO_PIECE,
                                     .seq = record->seq,
                                     .offset = -1,
                                     .side = SIDE_LEDGER},
                 line);
    return details->audit->err == OK;
}

static void keep_journal_rows(struct details *details, uint32_t number, uint32_t piece)
{
    struct audit *audit = details->audit;
    struct lines lines = {0};
    struct record record;
    struct span line;
    char problem[256];

    if (audit->pieces[piece].retired ||
        lines_open(audit->directory_fd, audit->pieces[piece].file.name, 0, &lines) != OK)
        return;
    for (;;) {
        const int64_t offset = (int64_t)lines.at;
        if (lines_next(&lines, &line) != LINE_WHOLE)
            break;
        if (record_read(line, &record, problem, sizeof(problem)) == OK &&
            (record.kind == RECORD_CALL || record.kind == RECORD_ADJUST) &&
            record.seq <= audit->epochs[number].last_seq &&
            is_wanted(details, &audit->epochs[number], record.seq))
            keep_row(details,
                     (struct detail_row){.epoch = number,
                                         .piece = piece,
                                         .seq = record.seq,
                                         .offset = offset,
                                         .side = SIDE_JOURNAL},
                     line);
    }
    lines_close(&lines);
}

/* Does a file hold rows of a bucket? */
static bool overlaps(const struct audit *audit, const struct audit_epoch *epoch, size_t piece,
                     uint64_t bucket)
{
    const bool last = piece + 1 == epoch->first + epoch->count;
    const uint64_t end = last ? UINT64_MAX : audit->pieces[piece + 1].file.first_seq;

    return audit->pieces[piece].file.first_seq >> AUDIT_BUCKET_BITS <= bucket &&
           bucket <= (end - 1) >> AUDIT_BUCKET_BITS;
}

static void keep_bucket(struct details *details, const struct detail *wanted)
{
    const struct audit *audit = details->audit;
    const struct audit_epoch *epoch = &audit->epochs[wanted->epoch];
    struct details one = *details;

    one.wanted[0] = *wanted;
    one.wanted_count = 1;
    for (size_t i = epoch->first; i < epoch->first + epoch->count; i++) {
        if (overlaps(audit, epoch, i, wanted->bucket))
            keep_journal_rows(&one, wanted->epoch, (uint32_t)i);
    }
    details->rows = one.rows;
    details->count = one.count;
    details->room = one.room;
}

static int by_row(const void *left, const void *right)
{
    const struct detail_row *a = left;
    const struct detail_row *b = right;

    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    return (int)a->side - (int)b->side;
}

/* A row that one side has; behind: the ledger has not taken all in yet. */
static void tell_lone(struct audit *audit, const struct detail_row *row, bool behind)
{
    const struct journal_file *file = &audit->pieces[audit->epochs[row->epoch].first].file;

    if (row->side == SIDE_LEDGER)
        audit_tell(audit, AUDIT_LEDGER, NULL, row->seq, -1,
                   "the ledger has a row that the journal has not: %s/%" PRIu64 "/%" PRIu64,
                   file->gateway, file->epoch, row->seq);
    else if (!behind)
        audit_tell(audit, AUDIT_LEDGER, audit->pieces[row->piece].file.name, row->seq, row->offset,
                   "the ledger lacks this row");
}

static void tell_rows(struct details *details, bool behind)
{
    struct audit *audit = details->audit;

    if (details->count > 0)
        qsort(details->rows, details->count, sizeof(*details->rows), by_row);
    for (size_t i = 0; i < details->count; i++) {
        const struct detail_row *row = &details->rows[i];
        const bool both = i + 1 < details->count && row[1].epoch == row->epoch &&
                          row[1].seq == row->seq && row[1].side != row->side;

        if (!both)
            tell_lone(audit, row, behind);
        else if (strcmp(row->hash, row[1].hash) != 0)
            audit_tell(audit, AUDIT_LEDGER, audit->pieces[row->piece].file.name, row->seq,
                       row->offset, "the ledger has another line for this row");
        i += both ? 1 : 0;
    }
}

/* Buckets that differ: the first ones for a closer look, the others told as they are. */
static void find_differing(struct details *details, bool behind)
{
    struct audit *audit = details->audit;

    for (size_t i = 0; i < audit->epoch_count; i++) {
        const struct audit_epoch *epoch = &audit->epochs[i];
        const struct journal_file *file = &audit->pieces[epoch->first].file;
        for (uint64_t k = 0; k < epoch->bucket_count; k++) {
            const struct audit_bucket *bucket = &epoch->buckets[k];
            const uint64_t number = epoch->bucket_base + k;
            if (is_equal(bucket))
                continue;
            if (details->wanted_count < DETAILS_MAX)
                details->wanted[details->wanted_count++] =
                    (struct detail){.epoch = (uint32_t)i, .bucket = number};
            else if (!behind || bucket->rows[SIDE_LEDGER] >= bucket->rows[SIDE_JOURNAL])
                audit_tell(audit, AUDIT_LEDGER, NULL, number << AUDIT_BUCKET_BITS, -1,
                           "rows from %s/%" PRIu64 "/%" PRIu64 " on differ: %" PRIu64
                           " in the journal, %" PRIu64 " in the ledger",
                           file->gateway, file->epoch, number << AUDIT_BUCKET_BITS,
                           bucket->rows[SIDE_JOURNAL], bucket->rows[SIDE_LEDGER]);
        }
    }
}

/* ---- sums ---- */

static bool add_line(void *owner, const struct books_line *line)
{
    struct months *months = owner;

    add_month(months, line->bucket_us, line->calls, line->cost_pusd);
    return months->audit->err == OK;
}

static enum err sum_usage(struct audit *audit, struct months *out_months, char *problem,
                          size_t problem_size)
{
    const struct books_ask ask = {.period = {.from_us = 0, .until_us = FAR_US},
                                  .zone = zone_utc(),
                                  .bucketed = true,
                                  .bucket = PERIOD_MONTH};

    *out_months = (struct months){.audit = audit};
    return books_usage(audit->books, &ask, add_line, out_months, problem, problem_size);
}

static const struct month *month_of(const struct months *months, int64_t from_us)
{
    for (size_t i = 0; i < months->count; i++) {
        if (months->items[i].from_us == from_us)
            return &months->items[i];
    }
    return NULL;
}

/* Months of a that are others in b; tell: each is a finding. */
static size_t compare_months(struct audit *audit, const struct months *a, const struct months *b,
                             bool tell)
{
    size_t differing = 0;

    for (size_t i = 0; i < a->count; i++) {
        const struct month zero = {.from_us = a->items[i].from_us};
        const struct month *ours = &a->items[i];
        const struct month *theirs = month_of(b, ours->from_us);
        char name[PERIOD_TEXT_BYTES], rows[MONEY_TEXT_BYTES], sums[MONEY_TEXT_BYTES];
        if (theirs == NULL)
            theirs = &zero;
        if (theirs->calls == ours->calls && theirs->cost_pusd == ours->cost_pusd)
            continue;
        differing++;
        if (!tell)
            continue;
        (void)period_print_name(zone_utc(), PERIOD_MONTH, ours->from_us, name);
        (void)money_print_pusd(ours->cost_pusd, rows);
        (void)money_print_pusd(theirs->cost_pusd, sums);
        audit_tell(audit, AUDIT_LEDGER, NULL, 0, -1,
                   "%s: the ledger's rows come to %" PRId64
                   " calls and %s pusd, its sums say %" PRId64 " and %s",
                   name, ours->calls, rows, theirs->calls, sums);
    }
    return differing;
}

static bool same_months(struct audit *audit, const struct months *a, const struct months *b)
{
    return compare_months(audit, a, b, false) == 0 && compare_months(audit, b, a, false) == 0;
}

static enum err read_rows(struct audit *audit, struct counting *counting, char *problem,
                          size_t problem_size)
{
    const struct period always = {.from_us = INT64_MIN, .until_us = INT64_MAX};
    const struct span none = {NULL, 0};

    counting->audit = audit;
    counting->months = (struct months){.audit = audit};
    return books_rows(audit->books, none, &always, none, count_row, counting, problem,
                      problem_size);
}

/* Counts the ledger's rows into buckets and sums them up by month, between two equal looks at its
 * sums: another process may feed it. */
static enum err count_ledger(struct audit *audit, char *problem, size_t problem_size)
{
    struct counting counting = {.telling = true};
    bool settled = false;
    enum err err = OK;

    for (int i = 0; i < USAGE_TRIES && err == OK && !settled; i++) {
        struct months before, after = {.items = NULL};
        err = sum_usage(audit, &before, problem, problem_size);
        if (err == OK)
            err = read_rows(audit, &counting, problem, problem_size);
        if (err == OK)
            err = sum_usage(audit, &after, problem, problem_size);
        settled = err == OK && same_months(audit, &before, &after);
        if (settled) {
            (void)compare_months(audit, &counting.months, &after, true);
            for (size_t k = 0; k < after.count; k++) {
                if (month_of(&counting.months, after.items[k].from_us) == NULL)
                    audit_tell(audit, AUDIT_LEDGER, NULL, 0, -1,
                               "the ledger has sums of a month without rows");
            }
        }
        counting.telling = false;
        free(before.items);
        free(after.items);
        free(counting.months.items);
        counting.months.items = NULL;
    }
    if (err == OK && !settled)
        audit_tell(audit, AUDIT_NOTE, NULL, 0, -1,
                   "the ledger is being fed: its sums by month were not compared");
    return err;
}

/* ---- the comparison ---- */

/* The ledger takes in what the journal has, by us or by the process that feeds it. */
static enum err catch_up(struct audit *audit, char *problem, size_t problem_size)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    enum err err = books_feed(audit->books, INT64_MAX, NULL, problem, problem_size);

    for (int i = 0; i < FEEDS_MAX && err == OK && books_behind(audit->books) > 0; i++) {
        (void)nanosleep(&pause, NULL);
        err = books_feed(audit->books, INT64_MAX, NULL, problem, problem_size);
    }
    return err;
}

void audit_check_ledger(struct audit *audit)
{
    const struct period always = {.from_us = INT64_MIN, .until_us = INT64_MAX};
    const struct span none = {NULL, 0};
    struct details details = {.audit = audit};
    char problem[512] = "";
    enum err err = catch_up(audit, problem, sizeof(problem));
    const bool behind = err == OK && books_behind(audit->books) > 0;

    if (behind)
        audit_tell(audit, AUDIT_NOTE, NULL, 0, -1,
                   "another process feeds the ledger, which lacks the journal's newest rows");
    if (err == ERR_BAD_VALUE) {
        audit_tell(audit, AUDIT_LEDGER, NULL, 0, -1, "the ledger takes no more rows in: %s",
                   problem);
        err = OK;
    }
    if (err == OK)
        err = count_ledger(audit, problem, sizeof(problem));
    if (err == OK)
        find_differing(&details, behind);
    if (err == OK && details.wanted_count > 0) {
        for (size_t i = 0; i < details.wanted_count; i++)
            keep_bucket(&details, &details.wanted[i]);
        err = books_rows(audit->books, none, &always, none, keep_ledger_row, &details, problem,
                         sizeof(problem));
        tell_rows(&details, behind);
    }
    free(details.rows);
    if (err != OK)
        audit_tell(audit, AUDIT_LEDGER, NULL, 0, -1, "the ledger cannot be read: %s", problem);
}
