/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_lookup.c: rows by tenant and time, or by an id.
 *
 * For:       whole rows in the order of their admission; which of a file are in.
 * Called by: books.c, keeper.c.
 * Knows not: sums. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"
#include "meter/ledger_store.h"

#define ROW_ID_BYTES 160

struct picked {
    int64_t admitted_us, row;
};

/* A look-up under way. */
struct looking {
    struct ledger *ledger;
    struct span tenant;          /* {NULL, 0}: all */
    const struct period *period; /* NULL: any time */
    bool (*visit)(void *owner, const struct record *record, struct span line);
    void *owner;
    bool ended; /* visit said so */
    struct picked *picked;
    size_t count, room;
    char *problem;
    size_t problem_size;
};

static enum err sqlite_failed(const struct looking *looking)
{
    return ledger_failed(looking->ledger, looking->problem, looking->problem_size);
}

static enum err prepare(const struct looking *looking, const char *sql, sqlite3_stmt **out)
{
    return ledger_prepare(looking->ledger, sql, out, looking->problem, looking->problem_size);
}

static enum err pick(struct looking *looking, int64_t admitted_us, int64_t row)
{
    if (looking->count == looking->room) {
        const size_t room = looking->room > 0 ? 2 * looking->room : 64;
        struct picked *more = realloc(looking->picked, room * sizeof(*more));
        if (!more) {
            (void)snprintf(looking->problem, looking->problem_size, "no memory for so many rows");
            return ERR_NO_MEMORY;
        }
        looking->picked = more;
        looking->room = room;
    }
    looking->picked[looking->count++] = (struct picked){admitted_us, row};
    return OK;
}

/* A line of the ledger, read. */
static enum err read_line(const struct looking *looking, struct span line, int64_t row,
                          struct record *out_record)
{
    char reason[160];

    if (record_read(line, out_record, reason, sizeof(reason)) == OK)
        return OK;
    (void)snprintf(looking->problem, looking->problem_size, "ledger %s: row %" PRId64 ": %s",
                   looking->ledger->path, row, reason);
    return ERR_BAD_VALUE;
}

static bool is_wanted(const struct looking *looking, const struct record *record)
{
    char buffer[LEDGER_TEXT_BYTES];

    if (looking->tenant.data && !span_equal(ledger_plain(record->tenant, buffer), looking->tenant))
        return false;
    return !looking->period || (record->admitted_us >= looking->period->from_us &&
                                record->admitted_us < looking->period->until_us);
}

static enum err show(struct looking *looking, struct span line, int64_t row)
{
    struct record record;
    const enum err err = read_line(looking, line, row, &record);

    if (err == OK && is_wanted(looking, &record))
        looking->ended = !looking->visit(looking->owner, &record, line);
    return err;
}

/* ---- what was picked, in order ---- */

static int compare_picked(const void *left, const void *right)
{
    const struct picked *a = left;
    const struct picked *b = right;

    if (a->admitted_us != b->admitted_us)
        return a->admitted_us < b->admitted_us ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static enum err show_picked(struct looking *looking)
{
    sqlite3_stmt *statement;
    enum err err = prepare(looking, "SELECT line FROM rows WHERE id = ?", &statement);

    if (looking->count > 0)
        qsort(looking->picked, looking->count, sizeof(*looking->picked), compare_picked);
    for (size_t i = 0; err == OK && i < looking->count && !looking->ended; i++) {
        const int64_t row = looking->picked[i].row;

        if (i > 0 && row == looking->picked[i - 1].row)
            continue;
        (void)sqlite3_bind_int64(statement, 1, row);
        if (sqlite3_step(statement) == SQLITE_ROW)
            err = show(looking, ledger_text(statement, 0), row);
        if (sqlite3_reset(statement) != SQLITE_OK)
            err = sqlite_failed(looking);
    }
    (void)sqlite3_finalize(statement);
    return err;
}

/* ---- by time ---- */

/* Of one tenant: the index has them in order. */
static enum err show_tenant(struct looking *looking)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    enum err err = prepare(looking,
                           "SELECT line, id FROM rows WHERE tenant ="
                           " (SELECT id FROM tenants WHERE name = ?) AND admitted_us >= ?"
                           " AND admitted_us < ? ORDER BY admitted_us, id",
                           &statement);

    if (err != OK)
        return err;
    ledger_bind_text(statement, 1, looking->tenant);
    (void)sqlite3_bind_int64(statement, 2, looking->period->from_us);
    (void)sqlite3_bind_int64(statement, 3, looking->period->until_us);
    while (err == OK && !looking->ended && (code = sqlite3_step(statement)) == SQLITE_ROW)
        err = show(looking, ledger_text(statement, 0), sqlite3_column_int64(statement, 1));
    if (err == OK && !looking->ended && code != SQLITE_DONE)
        err = sqlite_failed(looking);
    (void)sqlite3_finalize(statement);
    return err;
}

static enum err pick_period(struct looking *looking)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    enum err err = prepare(looking,
                           "SELECT admitted_us, id FROM rows WHERE admitted_us >= ?"
                           " AND admitted_us < ? AND tenant IN (SELECT id FROM tenants)",
                           &statement);

    if (err != OK)
        return err;
    (void)sqlite3_bind_int64(statement, 1, looking->period->from_us);
    (void)sqlite3_bind_int64(statement, 2, looking->period->until_us);
    while (err == OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        err = pick(looking, sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1));
    if (err == OK && code != SQLITE_DONE)
        err = sqlite_failed(looking);
    (void)sqlite3_finalize(statement);
    return err;
}

/* ---- by id ---- */

/* Two ids may have one hash: is it really this one? */
static bool bears(const struct record *record, struct span id)
{
    const struct span ids[] = {record->request_id, record->exchange_id, record->trace_id,
                               record->adjusts};
    char buffer[LEDGER_TEXT_BYTES];

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i].size > 0 && span_equal(ledger_plain(ids[i], buffer), id))
            return true;
    return false;
}

static enum err pick_by_id(struct looking *looking, struct span id)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    enum err err = prepare(looking,
                           "WITH RECURSIVE parts(part) AS (SELECT min(part) FROM ids UNION ALL"
                           " SELECT (SELECT min(part) FROM ids WHERE part > parts.part) FROM parts"
                           " WHERE parts.part IS NOT NULL)"
                           " SELECT r.line, r.id FROM parts p CROSS JOIN ids i ON i.part = p.part"
                           " CROSS JOIN rows r ON r.id = i.row WHERE i.hash = ?",
                           &statement);

    if (err != OK)
        return err;
    (void)sqlite3_bind_int64(statement, 1, (int64_t)hash_text(id));
    while (err == OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const int64_t row = sqlite3_column_int64(statement, 1);
        struct record record;

        err = read_line(looking, ledger_text(statement, 0), row, &record);
        if (err == OK && bears(&record, id))
            err = pick(looking, record.admitted_us, row);
    }
    if (err == OK && code != SQLITE_DONE)
        err = sqlite_failed(looking);
    (void)sqlite3_finalize(statement);
    return err;
}

/* Splits "g1/7/123". */
static bool split_row_id(struct span id, struct span *out_gateway, int64_t *out_epoch,
                         int64_t *out_seq)
{
    const char *slash = memrchr(id.data, '/', id.size);
    size_t size;

    if (!slash)
        return false;
    size = (size_t)(slash - id.data);
    if (!span_to_int64(span_from(id, size + 1), out_seq) || *out_seq >> LEDGER_SEQ_BITS != 0)
        return false;
    slash = memrchr(id.data, '/', size);
    if (!slash)
        return false;
    *out_gateway = (struct span){id.data, (size_t)(slash - id.data)};
    return span_to_int64((struct span){slash + 1, size - out_gateway->size - 1}, out_epoch);
}

/* The row of this number itself. */
static enum err pick_row(struct looking *looking, struct span id)
{
    sqlite3_stmt *statement;
    struct span gateway;
    int64_t epoch, seq;
    enum err err;

    if (!split_row_id(id, &gateway, &epoch, &seq))
        return OK;
    err = prepare(looking,
                  "SELECT r.admitted_us, r.id FROM epochs e CROSS JOIN rows r"
                  " ON r.id = e.id * (1 << 40) + ?3 WHERE e.gateway = ?1 AND e.epoch = ?2",
                  &statement);
    if (err != OK)
        return err;
    ledger_bind_text(statement, 1, gateway);
    (void)sqlite3_bind_int64(statement, 2, epoch);
    (void)sqlite3_bind_int64(statement, 3, seq);
    if (sqlite3_step(statement) == SQLITE_ROW)
        err = pick(looking, sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1));
    if (sqlite3_finalize(statement) != SQLITE_OK)
        err = sqlite_failed(looking);
    return err;
}

/* "g1/7/123" of a row's number; "": it is not there. */
static enum err name_row(const struct looking *looking, int64_t row, char out[ROW_ID_BYTES])
{
    sqlite3_stmt *statement;
    enum err err = prepare(looking, "SELECT gateway, epoch FROM epochs WHERE id = ?", &statement);

    out[0] = '\0';
    if (err != OK)
        return err;
    (void)sqlite3_bind_int64(statement, 1, row >> LEDGER_SEQ_BITS);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        const struct span gateway = ledger_text(statement, 0);
        (void)snprintf(out, ROW_ID_BYTES, "%.*s/%" PRId64 "/%" PRId64, (int)gateway.size,
                       gateway.data, (int64_t)sqlite3_column_int64(statement, 1),
                       row & ((INT64_C(1) << LEDGER_SEQ_BITS) - 1));
    }
    return sqlite3_finalize(statement) == SQLITE_OK ? OK : sqlite_failed(looking);
}

/* Rows of an id, and what corrects them. */
static enum err pick_with_adjusts(struct looking *looking, struct span id)
{
    enum err err = pick_row(looking, id);
    size_t found;

    if (err == OK)
        err = pick_by_id(looking, id);
    found = looking->count;
    for (size_t i = 0; err == OK && i < found; i++) {
        char name[ROW_ID_BYTES];

        err = name_row(looking, looking->picked[i].row, name);
        if (err == OK)
            err = pick_by_id(looking, span_of(name));
    }
    return err;
}

/* ---- the door ---- */

static enum err look(struct looking *looking, struct span id)
{
    enum err err;

    if (id.size == 0 && looking->tenant.data)
        return show_tenant(looking);
    err = id.size > 0 ? pick_with_adjusts(looking, id) : pick_period(looking);
    return err == OK ? show_picked(looking) : err;
}

enum err ledger_rows(struct ledger *ledger, struct span tenant, const struct period *period,
                     struct span id,
                     bool (*visit)(void *owner, const struct record *record, struct span line),
                     void *owner, char *problem, size_t problem_size)
{
    struct looking looking = {.ledger = ledger,
                              .tenant = tenant,
                              .period = period,
                              .visit = visit,
                              .owner = owner,
                              .problem = problem,
                              .problem_size = problem_size};
    bool began = false;
    enum err err;

    if (id.size == 0 && !period) {
        (void)snprintf(problem, problem_size, "neither an id nor a period");
        return ERR_BAD_VALUE;
    }
    err = ledger_begin_reading(ledger, &began, problem, problem_size);
    if (err == OK)
        err = look(&looking, id);
    ledger_end_reading(ledger, began);
    free(looking.picked);
    return err;
}

enum err ledger_file(struct ledger *ledger, const char *name, int64_t *out_bytes, bool *out_closed,
                     char *problem, size_t problem_size)
{
    sqlite3_stmt *statement;
    enum err err = ledger_prepare(ledger, "SELECT bytes, closed FROM files WHERE name = ?",
                                  &statement, problem, problem_size);

    if (err != OK)
        return err;
    *out_bytes = 0;
    *out_closed = false;
    ledger_bind_text(statement, 1, span_of(name));
    if (sqlite3_step(statement) == SQLITE_ROW) {
        *out_bytes = sqlite3_column_int64(statement, 0);
        *out_closed = sqlite3_column_int(statement, 1) != 0;
    }
    if (sqlite3_finalize(statement) != SQLITE_OK)
        err = ledger_failed(ledger, problem, problem_size);
    return err;
}
