/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_batch.c: rows on their way into the ledger.
 *
 * For:       taking rows in by the thousand.
 * Called by: ledger.c, ledger_feed.c, ledger_rebuild.c.
 * Knows not: the journal's files, locks.
 *
 * A row costs three insertions: itself, its place in time, its ids, the last sorted so that pages
 * are touched in turn. Groups and tenants are known by their texts as they are spelt. */
#include "meter/ledger_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"

#define IDS_OF_ROW 4u /* request, exchange, trace, and what it adjusts */
#define SUM_INDEX_SLOTS (2u * LEDGER_BATCH_ROWS)
#define NAMES_MAX 65536u /* remembered; past them all are forgotten */
#define NAME_SLOTS (2u * NAMES_MAX)
#define SQL_BYTES 2048
#define BEGIN_MS 1000

enum statement {
    INSERT_ROW,
    INSERT_ID,
    INSERT_WASTE,
    INSERT_TENANT,
    SELECT_TENANT,
    INSERT_EPOCH,
    SELECT_EPOCH,
    INSERT_GROUP,
    SELECT_GROUP,
    SELECT_SUMS,
    REPLACE_SUMS,
    SELECT_FILE,
    REPLACE_FILE,
    DATA_VERSION,
    STATEMENTS
};

/* A tenant or a group by its texts. */
struct name {
    uint64_t hash;
    int64_t id;
    uint32_t bytes;
    char text[];
};

struct sums {
    int64_t quarter_us, group;
    int64_t sums[LEDGER_SUM_COUNT];
};

struct id {
    int64_t hash, row;
};

struct ledger_batch {
    sqlite3_stmt *statements[STATEMENTS];
    uint32_t rows;
    int64_t data_version;
    uint32_t name_count;
    struct name *names[NAME_SLOTS];
    uint32_t sum_count;
    uint32_t sum_index[SUM_INDEX_SLOTS]; /* into sums, + 1; 0: none */
    struct sums sums[LEDGER_BATCH_ROWS];
    uint32_t id_count;
    struct id ids[IDS_OF_ROW * LEDGER_BATCH_ROWS];
    char key[16384]; /* texts of the name looked for */
};

/* ---- statements ---- */

static const char *const statement_texts[STATEMENTS] = {
    [INSERT_ROW] = "INSERT OR IGNORE INTO rows VALUES(?, ?, ?, ?)",
    [INSERT_ID] = "INSERT OR IGNORE INTO ids VALUES(?, ?, ?)",
    [INSERT_WASTE] = "INSERT OR IGNORE INTO wastes VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [INSERT_TENANT] = "INSERT OR IGNORE INTO tenants(name) VALUES(?)",
    [SELECT_TENANT] = "SELECT id FROM tenants WHERE name = ?",
    [INSERT_EPOCH] = "INSERT OR IGNORE INTO epochs(gateway, epoch) VALUES(?, ?)",
    [SELECT_EPOCH] = "SELECT id FROM epochs WHERE gateway = ? AND epoch = ?",
    [SELECT_SUMS] = "SELECT part"
#define SUM(id, name) ", " #name
    LEDGER_SUMS(SUM)
#undef SUM
        " FROM sums WHERE quarter_us = ? AND \"group\" = ?"
        " ORDER BY part DESC LIMIT 1",
    [REPLACE_SUMS] = "INSERT OR REPLACE INTO sums VALUES(?, ?, ?"
#define SUM(id, name) ", ?"
    LEDGER_SUMS(SUM)
#undef SUM
        ")",
    [SELECT_FILE] = "SELECT bytes, seq, sha256, closed FROM files WHERE name = ?",
    [REPLACE_FILE] = "INSERT OR REPLACE INTO files VALUES(?, ?, ?, ?, ?)",
    [DATA_VERSION] = "PRAGMA data_version",
};

/* Statements over all columns of groups: a question mark for each, or a comparison with one. */
static void print_group_statement(enum statement which, char out[SQL_BYTES])
{
    size_t used =
        (size_t)snprintf(out, SQL_BYTES, "%s",
                         which == INSERT_GROUP ? "INSERT OR IGNORE INTO groups VALUES(NULL"
                                               : "SELECT id FROM groups WHERE 1");

    for (unsigned i = 0; i < LEDGER_GROUP_COLUMNS && used < SQL_BYTES; i++)
        used += (size_t)(which == INSERT_GROUP
                             ? snprintf(out + used, SQL_BYTES - used, ", ?")
                             : snprintf(out + used, SQL_BYTES - used, " AND \"%s\" = ?",
                                        books_column_name((enum books_column)i)));
    (void)snprintf(out + used, SQL_BYTES - used, "%s", which == INSERT_GROUP ? ")" : "");
}

static enum err prepare_all(struct ledger *ledger, char *problem, size_t problem_size)
{
    enum err err = OK;

    for (int i = 0; err == OK && i < STATEMENTS; i++) {
        char sql[SQL_BYTES];

        if (statement_texts[i])
            (void)snprintf(sql, sizeof(sql), "%s", statement_texts[i]);
        else
            print_group_statement((enum statement)i, sql);
        err = ledger_prepare(ledger, sql, &ledger->batch->statements[i], problem, problem_size);
    }
    return err;
}

enum err ledger_batch_new(struct ledger *ledger, char *problem, size_t problem_size)
{
    ledger->batch = calloc(1, sizeof(*ledger->batch));
    if (!ledger->batch) {
        (void)snprintf(problem, problem_size, "no memory");
        return ERR_NO_MEMORY;
    }
    const enum err err = prepare_all(ledger, problem, problem_size);
    if (err != OK) {
        ledger_batch_free(ledger->batch);
        ledger->batch = NULL;
    }
    return err;
}

static void forget_names(struct ledger_batch *batch)
{
    for (uint32_t i = 0; i < NAME_SLOTS; i++) {
        free(batch->names[i]);
        batch->names[i] = NULL;
    }
    batch->name_count = 0;
}

void ledger_batch_free(struct ledger_batch *batch)
{
    if (!batch)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        (void)sqlite3_finalize(batch->statements[i]);
    forget_names(batch);
    free(batch);
}

/* ---- names ---- */

/* Where the name is, or would be. */
static uint32_t find_name(const struct ledger_batch *batch, uint64_t hash, struct span key)
{
    uint32_t at = (uint32_t)hash % NAME_SLOTS;

    while (batch->names[at] &&
           (batch->names[at]->hash != hash ||
            !span_equal((struct span){batch->names[at]->text, batch->names[at]->bytes}, key)))
        at = (at + 1) % NAME_SLOTS;
    return at;
}

/* Remembers a name at the place that find_name() said. Without memory it is looked up again. */
static void keep_name(struct ledger_batch *batch, uint32_t at, uint64_t hash, struct span key,
                      int64_t id)
{
    struct name *name = malloc(sizeof(*name) + key.size);

    if (!name)
        return;
    name->hash = hash;
    name->id = id;
    name->bytes = (uint32_t)key.size;
    if (key.size > 0)
        memcpy(name->text, key.data, key.size);
    batch->names[at] = name;
    batch->name_count++;
}

/* The id that a SELECT finds, after an INSERT OR IGNORE where there is none. Both are bound. */
static enum err find_or_make(struct ledger *ledger, enum statement select, enum statement insert,
                             int64_t *out_id, char *problem, size_t problem_size)
{
    sqlite3_stmt *finder = ledger->batch->statements[select];

    for (int i = 0; i < 2; i++) {
        const int code = sqlite3_step(finder);

        if (code == SQLITE_ROW)
            *out_id = sqlite3_column_int64(finder, 0);
        if (sqlite3_reset(finder) != SQLITE_OK)
            break;
        if (code == SQLITE_ROW)
            return OK;
        if (!ledger_step(ledger->batch->statements[insert]))
            break;
    }
    return ledger_failed(ledger, problem, problem_size);
}

static enum err find_tenant(struct ledger *ledger, const struct record *record, int64_t *out_id,
                            char *problem, size_t problem_size)
{
    struct ledger_batch *batch = ledger->batch;
    const uint64_t hash = hash_text(record->tenant);
    const uint32_t at = find_name(batch, hash, record->tenant);
    char buffer[LEDGER_TEXT_BYTES];
    struct span name;
    enum err err;

    if (batch->names[at]) {
        *out_id = batch->names[at]->id;
        return OK;
    }
    name = ledger_plain(record->tenant, buffer);
    ledger_bind_text(batch->statements[SELECT_TENANT], 1, name);
    ledger_bind_text(batch->statements[INSERT_TENANT], 1, name);
    err = find_or_make(ledger, SELECT_TENANT, INSERT_TENANT, out_id, problem, problem_size);
    if (err == OK)
        keep_name(batch, at, hash, record->tenant, *out_id);
    return err;
}

/* All texts of a group behind one another, each with a byte that no text has before it. {NULL, 0}:
 * they are too long to be remembered. */
static struct span group_key(struct ledger_batch *batch, const struct record *record)
{
    const struct span texts[] = {record->tenant,  record->key,    record->tags,     record->model,
                                 record->class,   record->tier,   record->endpoint, record->replica,
                                 record->outcome, record->source, record->gateway,  record->prices};
    size_t used = 0;

    _Static_assert(sizeof(texts) / sizeof(texts[0]) == LEDGER_GROUP_COLUMNS, "all of them");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].size >= sizeof(batch->key) - used)
            return (struct span){NULL, 0};
        batch->key[used++] = '\x01';
        if (texts[i].size > 0)
            memcpy(batch->key + used, texts[i].data, texts[i].size);
        used += texts[i].size;
    }
    return (struct span){batch->key, used};
}

static enum err look_up_group(struct ledger *ledger, const struct record *record, int64_t *out_id,
                              char *problem, size_t problem_size)
{
    struct ledger_batch *batch = ledger->batch;
    char buffers[BY_TRACE][LEDGER_TEXT_BYTES];

    for (unsigned i = 0; i < LEDGER_GROUP_COLUMNS; i++) {
        const struct span text = ledger_column(record, (enum books_column)i, buffers[i]);

        ledger_bind_text(batch->statements[SELECT_GROUP], (int)i + 1, text);
        ledger_bind_text(batch->statements[INSERT_GROUP], (int)i + 1, text);
    }
    return find_or_make(ledger, SELECT_GROUP, INSERT_GROUP, out_id, problem, problem_size);
}

static enum err find_group(struct ledger *ledger, const struct record *record, int64_t *out_id,
                           char *problem, size_t problem_size)
{
    struct ledger_batch *batch = ledger->batch;
    const struct span key = group_key(batch, record);
    const uint64_t hash = key.data ? hash_text(key) : 0;
    const uint32_t at = key.data ? find_name(batch, hash, key) : 0;
    enum err err;

    if (key.data && batch->names[at]) {
        *out_id = batch->names[at]->id;
        return OK;
    }
    err = look_up_group(ledger, record, out_id, problem, problem_size);
    if (err == OK && key.data)
        keep_name(batch, at, hash, key, *out_id);
    return err;
}

enum err ledger_batch_epoch(struct ledger *ledger, const char *gateway, uint64_t epoch,
                            int64_t *out_epoch, char *problem, size_t problem_size)
{
    sqlite3_stmt *const statements[] = {ledger->batch->statements[SELECT_EPOCH],
                                        ledger->batch->statements[INSERT_EPOCH]};

    for (size_t i = 0; i < 2; i++) {
        ledger_bind_text(statements[i], 1, span_of(gateway));
        (void)sqlite3_bind_int64(statements[i], 2, (int64_t)epoch);
    }
    return find_or_make(ledger, SELECT_EPOCH, INSERT_EPOCH, out_epoch, problem, problem_size);
}

/* ---- sums ---- */

/* false: one of them would not fit; to is then as it was. */
static bool add_sums(int64_t to[LEDGER_SUM_COUNT], const int64_t more[LEDGER_SUM_COUNT])
{
    int64_t sums[LEDGER_SUM_COUNT];

    for (int i = 0; i < LEDGER_SUM_COUNT; i++)
        if (__builtin_add_overflow(to[i], more[i], &sums[i]))
            return false;
    memcpy(to, sums, sizeof(sums));
    return true;
}

/* Adds sums to what their quarter and group have: to the last part, or in a new one. */
static enum err write_sums(struct ledger *ledger, const struct sums *more, char *problem,
                           size_t problem_size)
{
    sqlite3_stmt *select = ledger->batch->statements[SELECT_SUMS];
    sqlite3_stmt *replace = ledger->batch->statements[REPLACE_SUMS];
    int64_t sums[LEDGER_SUM_COUNT] = {0};
    int64_t part = -1;
    int code;

    (void)sqlite3_bind_int64(select, 1, more->quarter_us);
    (void)sqlite3_bind_int64(select, 2, more->group);
    code = sqlite3_step(select);
    if (code == SQLITE_ROW) {
        part = sqlite3_column_int64(select, 0);
        for (int i = 0; i < LEDGER_SUM_COUNT; i++)
            sums[i] = sqlite3_column_int64(select, i + 1);
    }
    if (sqlite3_reset(select) != SQLITE_OK)
        return ledger_failed(ledger, problem, problem_size);
    if (part < 0 || !add_sums(sums, more->sums)) {
        memcpy(sums, more->sums, sizeof(sums));
        part++;
    }
    (void)sqlite3_bind_int64(replace, 1, more->quarter_us);
    (void)sqlite3_bind_int64(replace, 2, more->group);
    (void)sqlite3_bind_int64(replace, 3, part);
    for (int i = 0; i < LEDGER_SUM_COUNT; i++)
        (void)sqlite3_bind_int64(replace, i + 4, sums[i]);
    return ledger_step(replace) ? OK : ledger_failed(ledger, problem, problem_size);
}

/* The sums of a quarter and group in memory. */
static struct sums *find_sums(struct ledger_batch *batch, int64_t quarter_us, int64_t group)
{
    const uint64_t mixed =
        ((uint64_t)(quarter_us / LEDGER_QUARTER_US) ^ (uint64_t)group * 0x9e3779b97f4a7c15u) *
        0xff51afd7ed558ccdu;
    uint32_t at = (uint32_t)(mixed >> 32) % SUM_INDEX_SLOTS;

    for (; batch->sum_index[at] != 0; at = (at + 1) % SUM_INDEX_SLOTS) {
        struct sums *sums = &batch->sums[batch->sum_index[at] - 1];
        if (sums->quarter_us == quarter_us && sums->group == group)
            return sums;
    }
    batch->sums[batch->sum_count] = (struct sums){.quarter_us = quarter_us, .group = group};
    batch->sum_index[at] = batch->sum_count + 1;
    return &batch->sums[batch->sum_count++];
}

static enum err count_row(struct ledger *ledger, const struct record *record, char *problem,
                          size_t problem_size)
{
    int64_t sums[LEDGER_SUM_COUNT];
    int64_t group = 0;
    struct sums *to;
    enum err err = find_group(ledger, record, &group, problem, problem_size);

    if (err != OK)
        return err;
    ledger_sums_of(record, sums);
    to = find_sums(ledger->batch, ledger_quarter(record->admitted_us), group);
    if (add_sums(to->sums, sums))
        return OK;
    err = write_sums(ledger, to, problem, problem_size);
    memcpy(to->sums, sums, sizeof(sums));
    return err;
}

/* ---- rows ---- */

static void keep_id(struct ledger_batch *batch, struct span spelt, int64_t row)
{
    char buffer[LEDGER_TEXT_BYTES];

    if (spelt.size > 0)
        batch->ids[batch->id_count++] =
            (struct id){(int64_t)hash_text(ledger_plain(spelt, buffer)), row};
}

static enum err keep_wastes(struct ledger *ledger, const struct record *record, int64_t row,
                            char *problem, size_t problem_size)
{
    sqlite3_stmt *insert = ledger->batch->statements[INSERT_WASTE];

    for (uint32_t i = 0; i < record->waste_count; i++) {
        const struct record_waste *waste = &record->wastes[i];
        const int64_t tokens[] = {waste->usage.input, waste->usage.cached_input,
                                  waste->usage.cache_write, waste->usage.output,
                                  waste->usage.reasoning};
        char buffers[3][LEDGER_TEXT_BYTES];

        (void)sqlite3_bind_int64(insert, 1, record->admitted_us);
        (void)sqlite3_bind_int64(insert, 2, row);
        (void)sqlite3_bind_int64(insert, 3, i);
        ledger_bind_text(insert, 4, ledger_plain(record->model, buffers[0]));
        ledger_bind_text(insert, 5, ledger_plain(waste->replica, buffers[1]));
        ledger_bind_text(insert, 6, ledger_plain(waste->cause, buffers[2]));
        for (int k = 0; k < 5; k++)
            (void)sqlite3_bind_int64(insert, 7 + k, tokens[k]);
        (void)sqlite3_bind_int64(insert, 12, record->unit_cost_pusd);
        if (!ledger_step(insert))
            return ledger_failed(ledger, problem, problem_size);
    }
    return OK;
}

static enum err insert_row(struct ledger *ledger, int64_t row, int64_t tenant,
                           const struct record *record, struct span line, bool *out_new,
                           char *problem, size_t problem_size)
{
    sqlite3_stmt *insert = ledger->batch->statements[INSERT_ROW];

    (void)sqlite3_bind_int64(insert, 1, row);
    (void)sqlite3_bind_int64(insert, 2, tenant);
    (void)sqlite3_bind_int64(insert, 3, record->admitted_us);
    (void)sqlite3_bind_blob(insert, 4, line.data, (int)line.size, SQLITE_STATIC);
    if (!ledger_step(insert))
        return ledger_failed(ledger, problem, problem_size);
    *out_new = sqlite3_changes(ledger->db) > 0;
    return OK;
}

enum err ledger_batch_row(struct ledger *ledger, int64_t epoch, const struct record *record,
                          struct span line, bool *out_new, char *problem, size_t problem_size)
{
    struct ledger_batch *batch = ledger->batch;
    const int64_t row = epoch << LEDGER_SEQ_BITS | (int64_t)record->seq;
    int64_t tenant = 0;
    enum err err;

    if (record->seq >> LEDGER_SEQ_BITS != 0) {
        (void)snprintf(problem, problem_size, "seq %" PRIu64 " is too large", record->seq);
        return ERR_BAD_VALUE;
    }
    if (batch->name_count >= NAMES_MAX)
        forget_names(batch);
    err = find_tenant(ledger, record, &tenant, problem, problem_size);
    if (err == OK)
        err = insert_row(ledger, row, tenant, record, line, out_new, problem, problem_size);
    if (err != OK || !*out_new)
        return err;
    batch->rows++;
    keep_id(batch, record->exchange_id, row);
    keep_id(batch, record->trace_id, row);
    keep_id(batch, record->adjusts, row);
    if (!span_equal(record->request_id, record->exchange_id))
        keep_id(batch, record->request_id, row);
    err = keep_wastes(ledger, record, row, problem, problem_size);
    return err == OK ? count_row(ledger, record, problem, problem_size) : err;
}

uint32_t ledger_batch_rows(const struct ledger_batch *batch)
{
    return batch->rows;
}

/* ---- files ---- */

enum err ledger_batch_load(struct ledger *ledger, const char *name,
                           struct ledger_position *out_position, char *problem, size_t problem_size)
{
    sqlite3_stmt *select = ledger->batch->statements[SELECT_FILE];

    *out_position = (struct ledger_position){.bytes = 0};
    ledger_bind_text(select, 1, span_of(name));
    if (sqlite3_step(select) == SQLITE_ROW) {
        const struct span hash = ledger_text(select, 2);

        out_position->bytes = sqlite3_column_int64(select, 0);
        out_position->seq = (uint64_t)sqlite3_column_int64(select, 1);
        (void)snprintf(out_position->sha256, sizeof(out_position->sha256), "%.*s", (int)hash.size,
                       hash.data);
        out_position->closed = sqlite3_column_int(select, 3) != 0;
    }
    return sqlite3_reset(select) == SQLITE_OK ? OK : ledger_failed(ledger, problem, problem_size);
}

enum err ledger_batch_save(struct ledger *ledger, const char *name,
                           const struct ledger_position *position, char *problem,
                           size_t problem_size)
{
    sqlite3_stmt *replace = ledger->batch->statements[REPLACE_FILE];

    ledger_bind_text(replace, 1, span_of(name));
    (void)sqlite3_bind_int64(replace, 2, position->bytes);
    (void)sqlite3_bind_int64(replace, 3, (int64_t)position->seq);
    ledger_bind_text(replace, 4, span_of(position->sha256));
    (void)sqlite3_bind_int64(replace, 5, position->closed);
    return ledger_step(replace) ? OK : ledger_failed(ledger, problem, problem_size);
}

/* ---- transactions ---- */

static void forget_batch(struct ledger_batch *batch)
{
    batch->rows = 0;
    batch->id_count = 0;
    batch->sum_count = 0;
    memset(batch->sum_index, 0, sizeof(batch->sum_index));
}

enum err ledger_batch_begin(struct ledger *ledger, char *problem, size_t problem_size)
{
    struct ledger_batch *batch = ledger->batch;
    sqlite3_stmt *asked = batch->statements[DATA_VERSION];
    int64_t version = -1;

    enum err err;

    /* Feeders do not meet here: who else writes may do so for long, and questions and anchors wait
     * for this thread. */
    (void)sqlite3_busy_timeout(ledger->db, BEGIN_MS);
    err = ledger_run(ledger, "BEGIN IMMEDIATE", problem, problem_size);
    (void)sqlite3_busy_timeout(ledger->db, LEDGER_BUSY_MS);
    if (err != OK)
        return err;
    if (sqlite3_step(asked) == SQLITE_ROW)
        version = sqlite3_column_int64(asked, 0);
    (void)sqlite3_reset(asked);
    if (version != batch->data_version)
        forget_names(batch);
    batch->data_version = version;
    return OK;
}

static int compare_ids(const void *left, const void *right)
{
    const struct id *a = left;
    const struct id *b = right;

    if (a->row >> LEDGER_PART_BITS != b->row >> LEDGER_PART_BITS)
        return a->row < b->row ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static enum err write_ids(struct ledger *ledger, char *problem, size_t problem_size)
{
    struct ledger_batch *batch = ledger->batch;
    sqlite3_stmt *insert = batch->statements[INSERT_ID];

    qsort(batch->ids, batch->id_count, sizeof(batch->ids[0]), compare_ids);
    for (uint32_t i = 0; i < batch->id_count; i++) {
        (void)sqlite3_bind_int64(insert, 1, batch->ids[i].row >> LEDGER_PART_BITS);
        (void)sqlite3_bind_int64(insert, 2, batch->ids[i].hash);
        (void)sqlite3_bind_int64(insert, 3, batch->ids[i].row);
        if (!ledger_step(insert))
            return ledger_failed(ledger, problem, problem_size);
    }
    return OK;
}

enum err ledger_batch_commit(struct ledger *ledger, char *problem, size_t problem_size)
{
    struct ledger_batch *batch = ledger->batch;
    enum err err = write_ids(ledger, problem, problem_size);

    for (uint32_t i = 0; err == OK && i < batch->sum_count; i++)
        err = write_sums(ledger, &batch->sums[i], problem, problem_size);
    if (err == OK)
        err = ledger_run(ledger, "COMMIT", problem, problem_size);
    if (err == OK)
        forget_batch(batch);
    return err;
}

void ledger_batch_abort(struct ledger *ledger)
{
    (void)sqlite3_exec(ledger->db, "ROLLBACK", NULL, NULL, NULL);
    forget_batch(ledger->batch);
    forget_names(ledger->batch);
}
