/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger.c: the ledger's file: opened, its tables made, statements run.
 *
 * For:       ledger.h's opening and ledger_store.h.
 * Called by: books.c, ledger_*.c.
 * Knows not: the journal's files, what is asked. */
#include "meter/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "meter/ledger_batch.h"
#include "meter/ledger_store.h"

#define PROGRESS_EVERY 4000 /* steps of SQLite's machine between two looks at the clock */
#define SQL_BYTES 4096
#define ASIDE_MAX 10000
#define LEDGER_WAY_OUT "`tollgate ledger rebuild` sets it aside and makes it anew from the journal"

/* ---- statements ---- */

static bool is_damage(int code)
{
    return code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
}

enum err ledger_failed(struct ledger *ledger, char *problem, size_t problem_size)
{
    const int code = sqlite3_errcode(ledger->db);

    if (code == SQLITE_INTERRUPT)
        (void)snprintf(problem, problem_size, "ledger: the question took too long");
    else
        (void)snprintf(problem, problem_size, "ledger %s: %s%s", ledger->path,
                       sqlite3_errmsg(ledger->db), is_damage(code) ? "; " LEDGER_WAY_OUT : "");
    if (is_damage(code))
        return ERR_BAD_VALUE;
    return code == SQLITE_NOMEM ? ERR_NO_MEMORY : ERR_INTERNAL;
}

enum err ledger_run(struct ledger *ledger, const char *sql, char *problem, size_t problem_size)
{
    if (sqlite3_exec(ledger->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return OK;
    return ledger_failed(ledger, problem, problem_size);
}

enum err ledger_prepare(struct ledger *ledger, const char *sql, sqlite3_stmt **out_statement,
                        char *problem, size_t problem_size)
{
    *out_statement = NULL;
    if (sqlite3_prepare_v2(ledger->db, sql, -1, out_statement, NULL) == SQLITE_OK)
        return OK;
    return ledger_failed(ledger, problem, problem_size);
}

void ledger_bind_text(sqlite3_stmt *statement, int at, struct span text)
{
    (void)sqlite3_bind_text(statement, at, text.size > 0 ? text.data : "", (int)text.size,
                            SQLITE_STATIC);
}

struct span ledger_text(sqlite3_stmt *statement, int at)
{
    const void *bytes = sqlite3_column_blob(statement, at);

    return (struct span){bytes ? bytes : "", (size_t)sqlite3_column_bytes(statement, at)};
}

bool ledger_step(sqlite3_stmt *statement)
{
    const int code = sqlite3_step(statement);

    return sqlite3_reset(statement) == SQLITE_OK && (code == SQLITE_DONE || code == SQLITE_ROW);
}

enum err ledger_begin_reading(struct ledger *ledger, bool *out_began, char *problem,
                              size_t problem_size)
{
    *out_began = false;
    if (!sqlite3_get_autocommit(ledger->db))
        return OK;
    *out_began = true;
    return ledger_run(ledger, "BEGIN", problem, problem_size);
}

void ledger_end_reading(struct ledger *ledger, bool began)
{
    if (began)
        (void)sqlite3_exec(ledger->db, "ROLLBACK", NULL, NULL, NULL);
}

/* Must what is asked end? */
static int is_over(void *owner)
{
    const struct ledger *ledger = owner;

    return atomic_load_explicit(&ledger->interrupted, memory_order_relaxed) ||
           (ledger->deadline_ns != 0 && clock_now_ns() > ledger->deadline_ns);
}

void ledger_limit(struct ledger *ledger, uint64_t deadline_ns)
{
    ledger->deadline_ns = deadline_ns;
}

void ledger_interrupt(struct ledger *ledger, bool on)
{
    atomic_store_explicit(&ledger->interrupted, on, memory_order_relaxed);
}

bool ledger_sync(struct ledger *ledger)
{
    return sqlite3_wal_checkpoint_v2(ledger->db, NULL, SQLITE_CHECKPOINT_FULL, NULL, NULL) ==
           SQLITE_OK;
}

int64_t ledger_behind(const struct ledger *ledger)
{
    return ledger->behind;
}

/* ---- tables ---- */

/* Where the journal lies that it is fed from; at most one row. */
#define LEDGER_JOURNAL_TABLE                                                                       \
    "CREATE TABLE IF NOT EXISTS journal(one INTEGER PRIMARY KEY CHECK(one = 1),"                   \
    " path TEXT NOT NULL);"

static const char tables[] = LEDGER_JOURNAL_TABLE
    "CREATE TABLE epochs(id INTEGER PRIMARY KEY, gateway TEXT NOT NULL, epoch INTEGER NOT NULL,"
    " UNIQUE(gateway, epoch));"
    /* how much of each file of the journal is in, and its last line so far */
    "CREATE TABLE files(name TEXT PRIMARY KEY, bytes INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " sha256 TEXT NOT NULL, closed INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE tenants(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    /* id: epochs.id * 2^40 + seq */
    "CREATE TABLE rows(id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL,"
    " admitted_us INTEGER NOT NULL, line BLOB NOT NULL);"
    "CREATE INDEX rows_by_time ON rows(tenant, admitted_us);"
    /* hashes of request, exchange and trace ids, and of what adjusts name. They have no order, so
     * each part of some rows has them for itself: few pages change, however many rows there are */
    "CREATE TABLE ids(part INTEGER NOT NULL, hash INTEGER NOT NULL, row INTEGER NOT NULL,"
    " PRIMARY KEY(part, hash, row)) WITHOUT ROWID;"
    "CREATE TABLE wastes(admitted_us INTEGER NOT NULL, row INTEGER NOT NULL, n INTEGER NOT NULL,"
    " model TEXT NOT NULL, replica TEXT NOT NULL, cause TEXT NOT NULL, input INTEGER NOT NULL,"
    " cached_input INTEGER NOT NULL, cache_write INTEGER NOT NULL, output INTEGER NOT NULL,"
    " reasoning INTEGER NOT NULL, unit_cost_pusd INTEGER NOT NULL,"
    " PRIMARY KEY(admitted_us, row, n)) WITHOUT ROWID;"
    "CREATE TABLE sums(quarter_us INTEGER NOT NULL, \"group\" INTEGER NOT NULL,"
    " part INTEGER NOT NULL"
#define SUM(id, name) ", " #name " INTEGER NOT NULL"
    LEDGER_SUMS(SUM)
#undef SUM
        ", PRIMARY KEY(quarter_us, \"group\", part)) WITHOUT ROWID;";

/* The names of the groups' columns, quoted, with what stands behind each. */
static void put_columns(char *sql, size_t size, size_t *used, const char *behind)
{
    for (unsigned i = 0; i < LEDGER_GROUP_COLUMNS && *used < size; i++)
        *used += (size_t)snprintf(sql + *used, size - *used, "%s\"%s\"%s", i > 0 ? ", " : "",
                                  books_column_name((enum books_column)i), behind);
}

static enum err make_tables(struct ledger *ledger, char *problem, size_t problem_size)
{
    char sql[SQL_BYTES];
    size_t used;
    enum err err = ledger_run(ledger, tables, problem, problem_size);

    if (err != OK)
        return err;
    used = (size_t)snprintf(sql, sizeof(sql), "CREATE TABLE groups(id INTEGER PRIMARY KEY, ");
    put_columns(sql, sizeof(sql), &used, " TEXT NOT NULL");
    used += (size_t)snprintf(sql + used, sizeof(sql) - used, ", UNIQUE(");
    put_columns(sql, sizeof(sql), &used, "");
    (void)snprintf(sql + used, sizeof(sql) - used, ")); PRAGMA user_version = %d", LEDGER_VERSION);
    return ledger_run(ledger, sql, problem, problem_size);
}

static enum err read_version(struct ledger *ledger, int *out_version, char *problem,
                             size_t problem_size)
{
    sqlite3_stmt *statement;
    enum err err = ledger_prepare(ledger, "PRAGMA user_version", &statement, problem, problem_size);

    if (err != OK)
        return err;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *out_version = sqlite3_column_int(statement, 0);
    else
        err = ledger_failed(ledger, problem, problem_size);
    sqlite3_finalize(statement);
    return err;
}

/* Makes the tables in a new file; two processes may try at once. */
static enum err prepare_tables(struct ledger *ledger, char *problem, size_t problem_size)
{
    int version = 0;
    enum err err = read_version(ledger, &version, problem, problem_size);

    if (err == OK && version == 0 && !ledger->read_only) {
        err = ledger_run(ledger, "BEGIN IMMEDIATE", problem, problem_size);
        if (err == OK)
            err = read_version(ledger, &version, problem, problem_size);
        if (err == OK && version == 0) {
            err = make_tables(ledger, problem, problem_size);
            version = LEDGER_VERSION;
        }
        if (err == OK)
            err = ledger_run(ledger, "COMMIT", problem, problem_size);
    }
    if (err == OK && version == LEDGER_VERSION && !ledger->read_only)
        err = ledger_run(ledger, LEDGER_JOURNAL_TABLE, problem, problem_size);
    ledger->unmade = version == 0;
    if (err != OK || version == LEDGER_VERSION || (ledger->unmade && ledger->looking))
        return err;
    (void)snprintf(problem, problem_size,
                   "ledger %s: version %d, this program knows %d; " LEDGER_WAY_OUT, ledger->path,
                   version, LEDGER_VERSION);
    return ERR_BAD_VALUE;
}

/* ---- opening ---- */

/* SQLite makes files that others may read. */
static void make_file(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
}

/* For writing where that is allowed, else for reading. */
static enum err open_database(struct ledger *ledger, char *problem, size_t problem_size)
{
    const int flags = SQLITE_OPEN_NOMUTEX;
    struct stat about;
    int code;

    if (!ledger->read_only) {
        make_file(ledger->path);
        ledger->read_only = access(ledger->path, W_OK) != 0;
    }
    code = sqlite3_open_v2(ledger->path, &ledger->db,
                           flags | (ledger->read_only ? SQLITE_OPEN_READONLY
                                                      : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE),
                           NULL);
    if (!ledger->db)
        return ERR_NO_MEMORY;
    if (code != SQLITE_OK)
        return ledger_failed(ledger, problem, problem_size);
    if (stat(ledger->path, &about) == 0) {
        ledger->device = about.st_dev;
        ledger->inode = about.st_ino;
    }
    (void)sqlite3_busy_timeout(ledger->db, LEDGER_BUSY_MS);
    sqlite3_progress_handler(ledger->db, PROGRESS_EVERY, is_over, ledger);
    return OK;
}

/* settings NULL: it is only read. */
static enum err open_with(const char *path, const char *settings, struct ledger **out_ledger,
                          char *problem, size_t problem_size)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    enum err err;

    if (!ledger) {
        (void)snprintf(problem, problem_size, "no memory");
        return ERR_NO_MEMORY;
    }
    ledger->lock_fd = -1;
    ledger->looking = ledger->read_only = settings == NULL;
    (void)snprintf(ledger->path, sizeof(ledger->path), "%s", path);
    err = open_database(ledger, problem, problem_size);
    if (err == OK && !ledger->read_only)
        err = ledger_run(ledger, settings, problem, problem_size);
    if (err == OK)
        err = prepare_tables(ledger, problem, problem_size);
    if (err != OK) {
        ledger_close(ledger);
        return err;
    }
    *out_ledger = ledger;
    return OK;
}

enum err ledger_open(const char *path, struct ledger **out_ledger, char *problem,
                     size_t problem_size)
{
    char lock_path[PATH_MAX + 8];
    enum err err = open_with(path,
                             "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL;"
                             "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -32768;"
                             "PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY",
                             out_ledger, problem, problem_size);

    if (err != OK || (*out_ledger)->read_only)
        return err;
    (void)snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
    (*out_ledger)->lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if ((*out_ledger)->lock_fd >= 0)
        return OK;
    (void)snprintf(problem, problem_size, "%s: %s", lock_path, strerror(errno));
    ledger_close(*out_ledger);
    *out_ledger = NULL;
    return ERR_INTERNAL;
}

enum err ledger_open_aside(const char *path, struct ledger **out_ledger, char *problem,
                           size_t problem_size)
{
    return open_with(path,
                     "PRAGMA page_size = 8192; PRAGMA journal_mode = OFF;"
                     "PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
                     "PRAGMA temp_store = MEMORY",
                     out_ledger, problem, problem_size);
}

enum err ledger_look(const char *path, struct ledger **out_ledger, char *problem,
                     size_t problem_size)
{
    struct ledger *ledger = NULL;
    enum err err;

    *out_ledger = NULL;
    if (access(path, R_OK) != 0)
        return OK;
    err = open_with(path, NULL, &ledger, problem, problem_size);
    if (err == OK && ledger->unmade) {
        ledger_close(ledger);
        ledger = NULL;
    }
    *out_ledger = ledger;
    return err;
}

/* ---- another file in its place ---- */

static void rename_with(const char *path, const char *aside, const char *ending)
{
    char from[PATH_MAX + 8], to[PATH_MAX + 8];

    (void)snprintf(from, sizeof(from), "%s%s", path, ending);
    (void)snprintf(to, sizeof(to), "%s%s", aside, ending);
    (void)rename(from, to);
}

enum err ledger_set_aside(const char *path, char out_aside[PATH_MAX], char *problem,
                          size_t problem_size)
{
    for (int i = 1; i <= ASIDE_MAX; i++) {
        const int size = snprintf(out_aside, PATH_MAX, "%s.aside-%d", path, i);

        if (size < 0 || size >= PATH_MAX)
            break;
        if (renameat2(AT_FDCWD, path, AT_FDCWD, out_aside, RENAME_NOREPLACE) == 0) {
            /* What SQLite had not yet copied into it belongs to it. */
            rename_with(path, out_aside, "-wal");
            rename_with(path, out_aside, "-shm");
            return OK;
        }
        if (errno != EEXIST)
            break;
    }
    (void)snprintf(problem, problem_size, "setting ledger %s aside: %s", path, strerror(errno));
    out_aside[0] = '\0';
    return ERR_INTERNAL;
}

enum err ledger_follow(struct ledger *ledger, char *problem, size_t problem_size)
{
    struct ledger *now = NULL;
    struct stat about;
    enum err err;

    if (ledger->read_only || (stat(ledger->path, &about) == 0 && about.st_dev == ledger->device &&
                              about.st_ino == ledger->inode))
        return OK;
    err = ledger_open(ledger->path, &now, problem, problem_size);
    if (err != OK)
        return err;
    ledger_batch_free(ledger->batch);
    ledger->batch = NULL;
    (void)sqlite3_close(ledger->db);
    ledger->db = now->db;
    ledger->device = now->device;
    ledger->inode = now->inode;
    ledger->read_only = now->read_only;
    sqlite3_progress_handler(ledger->db, PROGRESS_EVERY, is_over, ledger);
    now->db = NULL;
    ledger_close(now);
    return OK;
}

const char *ledger_aside(const struct ledger *ledger)
{
    return ledger->aside;
}

void ledger_close(struct ledger *ledger)
{
    if (!ledger)
        return;
    ledger_batch_free(ledger->batch);
    (void)sqlite3_close(ledger->db);
    if (ledger->lock_fd >= 0)
        close(ledger->lock_fd);
    free(ledger);
}
