/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_rebuild.c: the ledger made anew.
 *
 * For:       a ledger that is the journal's again, whatever was done to it.
 * Called by: books.c.
 * Knows not: what is asked.
 *
 * A new file is filled beside the old one and then put in its place by SQLite's own copying: who
 * has the old one open, in whatever process, sees the new one from its next question on, and a
 * crash in the middle leaves the old. Rows whose files retention has deleted come from the old
 * ledger. When that cannot be read it is set aside under another name, never deleted: it may hold
 * rows that nothing else has any more. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "meter/files.h"
#include "meter/ledger_batch.h"
#include "meter/ledger_feed.h"

#define LOCK_TRIES 200
#define PAUSE_NS 50000000L

struct rebuild {
    struct ledger *old, *new;
    int directory_fd;
    int64_t rows;
    bool damaged; /* the old one is: not all of it could be read, or it cannot be written */
    char *problem;
    size_t problem_size;
};

static void pause_a_while(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    (void)nanosleep(&pause, NULL);
}

static enum err take_lock(const struct rebuild *rebuild)
{
    for (int i = 0; rebuild->old->lock_fd >= 0 && i < LOCK_TRIES; i++) {
        if (flock(rebuild->old->lock_fd, LOCK_EX | LOCK_NB) == 0)
            return OK;
        pause_a_while();
    }
    (void)snprintf(rebuild->problem, rebuild->problem_size, "ledger %s: %s", rebuild->old->path,
                   rebuild->old->lock_fd < 0 ? "may only be read" : "another process feeds it");
    return ERR_INTERNAL;
}

/* ---- rows whose file is gone ---- */

static enum err take_row(struct rebuild *rebuild, int64_t epoch, struct span line)
{
    struct record record;
    bool is_new = false;
    enum err err = record_read(line, &record, rebuild->problem, rebuild->problem_size);

    if (err == OK)
        err = ledger_batch_row(rebuild->new, epoch, &record, line, &is_new, rebuild->problem,
                               rebuild->problem_size);
    rebuild->rows += is_new;
    if (err != OK || ledger_batch_rows(rebuild->new->batch) < LEDGER_BATCH_ROWS)
        return err;
    err = ledger_batch_commit(rebuild->new, rebuild->problem, rebuild->problem_size);
    return err == OK ? ledger_batch_begin(rebuild->new, rebuild->problem, rebuild->problem_size)
                     : err;
}

static enum err take_rows(struct rebuild *rebuild, const struct journal_file *file,
                          const struct ledger_position *position)
{
    sqlite3_stmt *statement;
    int64_t epoch = 0;
    int code = SQLITE_DONE;
    enum err err = ledger_batch_epoch(rebuild->new, file->gateway, file->epoch, &epoch,
                                      rebuild->problem, rebuild->problem_size);

    if (err == OK)
        err = ledger_prepare(rebuild->old,
                             "SELECT r.line FROM epochs e CROSS JOIN rows r ON r.id BETWEEN"
                             " e.id * (1 << 40) + ?3 AND e.id * (1 << 40) + ?4"
                             " WHERE e.gateway = ?1 AND e.epoch = ?2",
                             &statement, rebuild->problem, rebuild->problem_size);
    if (err != OK)
        return err;
    ledger_bind_text(statement, 1, span_of(file->gateway));
    (void)sqlite3_bind_int64(statement, 2, (int64_t)file->epoch);
    (void)sqlite3_bind_int64(statement, 3, (int64_t)file->first_seq);
    (void)sqlite3_bind_int64(statement, 4, (int64_t)position->seq);
    while (err == OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        err = take_row(rebuild, epoch, ledger_text(statement, 0));
    if (err == OK && code != SQLITE_DONE)
        err = ledger_failed(rebuild->old, rebuild->problem, rebuild->problem_size);
    (void)sqlite3_finalize(statement);
    return err == OK ? ledger_batch_save(rebuild->new, file->name, position, rebuild->problem,
                                         rebuild->problem_size)
                     : err;
}

/* A file that the old ledger knows: its rows, when it is not on disk any more. */
static enum err take_file(struct rebuild *rebuild, sqlite3_stmt *statement)
{
    struct ledger_position position = {.bytes = sqlite3_column_int64(statement, 1),
                                       .seq = (uint64_t)sqlite3_column_int64(statement, 2),
                                       .closed = sqlite3_column_int(statement, 4) != 0};
    const struct span hash = ledger_text(statement, 3);
    const struct span name = ledger_text(statement, 0);
    struct journal_file file;
    char text[NAME_MAX + 1];

    (void)snprintf(position.sha256, sizeof(position.sha256), "%.*s", (int)hash.size, hash.data);
    (void)snprintf(text, sizeof(text), "%.*s", (int)name.size, name.data);
    if (faccessat(rebuild->directory_fd, text, F_OK, 0) == 0 || errno != ENOENT ||
        !files_parse_name(text, &file))
        return OK;
    return take_rows(rebuild, &file, &position);
}

/* What is damaged in the old one is left behind; what can be read is taken. */
static enum err pass_over(struct rebuild *rebuild, enum err err)
{
    if (err != ERR_BAD_VALUE)
        return err;
    rebuild->damaged = true;
    return OK;
}

static enum err take_files(struct rebuild *rebuild)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    enum err err =
        ledger_prepare(rebuild->old, "SELECT name, bytes, seq, sha256, closed FROM files",
                       &statement, rebuild->problem, rebuild->problem_size);

    if (err != OK)
        return err;
    while (err == OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        err = pass_over(rebuild, take_file(rebuild, statement));
    if (err == OK && code != SQLITE_DONE)
        err = ledger_failed(rebuild->old, rebuild->problem, rebuild->problem_size);
    (void)sqlite3_finalize(statement);
    return err;
}

static enum err take_deleted(struct rebuild *rebuild)
{
    enum err err = ledger_batch_new(rebuild->new, rebuild->problem, rebuild->problem_size);

    if (err == OK)
        err = ledger_batch_begin(rebuild->new, rebuild->problem, rebuild->problem_size);
    if (err == OK)
        err = pass_over(rebuild, take_files(rebuild));
    return err == OK ? ledger_batch_commit(rebuild->new, rebuild->problem, rebuild->problem_size)
                     : err;
}

/* Is every page of the old one what it should be? What is damaged is kept, not written over. */
static bool is_sound(struct ledger *ledger)
{
    sqlite3_stmt *statement;
    char unsaid[256];
    bool sound = false;

    if (ledger_prepare(ledger, "PRAGMA quick_check(1)", &statement, unsaid, sizeof(unsaid)) != OK)
        return false;
    if (sqlite3_step(statement) == SQLITE_ROW)
        sound = span_equal(ledger_text(statement, 0), SPAN("ok"));
    (void)sqlite3_finalize(statement);
    return sound;
}

/* ---- the new one in the place of the old ---- */

static enum err copy_over(struct rebuild *rebuild)
{
    sqlite3_backup *copying;
    int code = SQLITE_BUSY;

    ledger_batch_free(rebuild->old->batch);
    rebuild->old->batch = NULL;
    copying = sqlite3_backup_init(rebuild->old->db, "main", rebuild->new->db, "main");
    for (int i = 0; copying && i < LOCK_TRIES; i++) {
        code = sqlite3_backup_step(copying, -1);
        if (code != SQLITE_BUSY && code != SQLITE_LOCKED)
            break;
        pause_a_while();
    }
    if (copying && sqlite3_backup_finish(copying) == SQLITE_OK && code == SQLITE_DONE)
        return OK;
    return ledger_failed(rebuild->old, rebuild->problem, rebuild->problem_size);
}

static bool sync_path(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool synced = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return synced;
}

/* The old one gets another name, the new one its own. */
static enum err replace(struct rebuild *rebuild, const char *path)
{
    struct ledger *old = rebuild->old;
    enum err err;

    ledger_close(rebuild->new);
    rebuild->new = NULL;
    if (!sync_path(path)) {
        (void)snprintf(rebuild->problem, rebuild->problem_size, "syncing %s: %s", path,
                       strerror(errno));
        return ERR_INTERNAL;
    }
    err = ledger_set_aside(old->path, old->aside, rebuild->problem, rebuild->problem_size);
    if (err != OK)
        return err;
    if (rename(path, old->path) != 0) {
        (void)snprintf(rebuild->problem, rebuild->problem_size, "renaming %s: %s", path,
                       strerror(errno));
        return ERR_INTERNAL;
    }
    return ledger_follow(old, rebuild->problem, rebuild->problem_size);
}

static enum err put_in_place(struct rebuild *rebuild, const char *path)
{
    const int64_t behind = rebuild->new->behind;
    enum err err = rebuild->damaged ? OK : pass_over(rebuild, copy_over(rebuild));

    if (err == OK && rebuild->damaged)
        err = replace(rebuild, path);
    rebuild->old->behind = behind;
    return err;
}

static enum err make_anew(struct rebuild *rebuild, const char *path)
{
    enum err err = ledger_open_aside(path, &rebuild->new, rebuild->problem, rebuild->problem_size);
    enum err damage = OK;
    int64_t rows = 0;

    if (err == OK)
        err = take_deleted(rebuild);
    if (err == OK)
        damage = ledger_take(rebuild->new, rebuild->directory_fd, INT64_MAX, &rows,
                             rebuild->problem, rebuild->problem_size);
    rebuild->rows += rows;
    /* What is before the damage is in, as in every feed. */
    if (err == OK && damage != OK && damage != ERR_BAD_VALUE)
        err = damage;
    if (err == OK)
        err = put_in_place(rebuild, path);
    ledger_close(rebuild->new);
    return err == OK ? damage : err;
}

enum err ledger_rebuild(struct ledger *ledger, int directory_fd, int64_t *out_rows, char *problem,
                        size_t problem_size)
{
    struct rebuild rebuild = {.old = ledger,
                              .directory_fd = directory_fd,
                              .problem = problem,
                              .problem_size = problem_size};
    char path[PATH_MAX + 8];
    enum err err = take_lock(&rebuild);

    if (err != OK)
        return err;
    (void)snprintf(path, sizeof(path), "%s.new", ledger->path);
    (void)unlink(path);
    rebuild.damaged = !is_sound(ledger);
    err = make_anew(&rebuild, path);
    (void)unlink(path);
    (void)flock(ledger->lock_fd, LOCK_UN);
    *out_rows = rebuild.rows;
    return err;
}
