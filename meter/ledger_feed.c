/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_feed.c: the journal's files into the ledger.
 *
 * For:       each file from where it was left, line by line, along its chain.
 * Called by: books.c, ledger_rebuild.c.
 * Knows not: tables.
 *
 * A line that is not a row, not the next one, or does not name the one before, halts its file; the
 * others go on. Every feed looks at a halted file again: it may have been put right. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "config/base/hash.h"
#include "meter/files.h"
#include "meter/ledger_batch.h"
#include "meter/ledger_feed.h"

#define REASON_BYTES 192

/* One feed. */
struct feeding {
    struct ledger *ledger;
    int directory_fd;
    int64_t most_rows, rows;
    int64_t committed; /* of the rows: those that stay, whatever comes */
    int64_t behind;    /* lines seen, not taken in */
    bool damaged;      /* problem says what, of the first file */
    char *problem;
    size_t problem_size;

    /* The epoch at hand. */
    const struct journal_file *before; /* its file before; NULL: none was seen */
    bool linked;                       /* all of that file is in: the next line must follow it */
    struct ledger_position last;       /* of that file */
};

static void note_damage(struct feeding *feeding, const struct journal_file *file, int64_t offset,
                        const char *says)
{
    if (!feeding->damaged)
        (void)snprintf(feeding->problem, feeding->problem_size, "%s: byte %" PRId64 ": %s",
                       file->name, offset, says);
    feeding->damaged = true;
}

/* ---- lines ---- */

/* What the next line must be. prev "": it may be any. */
struct expected {
    uint64_t seq;
    char prev[65];
};

/* Is the line the next one of its file? reason: why not. */
static bool is_next(const struct record *record, const struct journal_file *file,
                    const struct expected *expected, char reason[REASON_BYTES])
{
    char gateway[2 * sizeof(file->gateway)];

    (void)record_text(record->gateway, gateway, sizeof(gateway));
    if (strcmp(gateway, file->gateway) != 0 || record->epoch != file->epoch)
        (void)snprintf(reason, REASON_BYTES, "a line of another epoch");
    else if (record->seq != expected->seq)
        (void)snprintf(reason, REASON_BYTES, "seq %" PRIu64 " where %" PRIu64 " is due",
                       record->seq, expected->seq);
    else if (record->version > 1 && !record->prev.data)
        (void)snprintf(reason, REASON_BYTES, "prev is missing");
    else if (record->prev.data && expected->prev[0] != '\0' &&
             memcmp(record->prev.data, expected->prev, 64) != 0)
        (void)snprintf(reason, REASON_BYTES,
                       "the chain is broken: prev is not the hash of the line before");
    else
        return true;
    return false;
}

/* The lines of one file as they are taken in. */
struct reading {
    const struct journal_file *file;
    struct ledger_position position;
    struct expected expected;
    int64_t epoch; /* its number in the ledger */
    struct lines lines;
    bool changed; /* since it was saved */
};

/* Takes a line in. ERR_BAD_VALUE: it is damaged; reason says why. */
static enum err take_line(struct feeding *feeding, struct reading *reading, struct span line,
                          char reason[REASON_BYTES])
{
    struct record record;
    enum err err = record_read(line, &record, reason, REASON_BYTES);

    if (err != OK)
        return err;
    if (!is_next(&record, reading->file, &reading->expected, reason))
        return ERR_BAD_VALUE;
    if (reading->position.closed) {
        (void)snprintf(reason, REASON_BYTES, "a line behind the head");
        return ERR_BAD_VALUE;
    }
    if (record.kind != RECORD_OPEN && record.kind != RECORD_HEAD) {
        bool is_new = false;
        err = ledger_batch_row(feeding->ledger, reading->epoch, &record, line, &is_new, reason,
                               REASON_BYTES);
        if (err != OK)
            return err;
        feeding->rows += is_new;
    }
    reading->position.seq = record.seq;
    reading->position.bytes = (int64_t)reading->lines.at;
    reading->position.closed = record.kind == RECORD_HEAD;
    reading->changed = true;
    line_hash(line, reading->position.sha256);
    memcpy(reading->expected.prev, reading->position.sha256, sizeof(reading->expected.prev));
    reading->expected.seq = record.seq + 1;
    return OK;
}

/* ---- transactions ---- */

static enum err commit(struct feeding *feeding, struct reading *reading)
{
    enum err err = OK;

    if (reading->changed)
        err = ledger_batch_save(feeding->ledger, reading->file->name, &reading->position,
                                feeding->problem, feeding->problem_size);
    reading->changed = false;
    if (err == OK)
        err = ledger_batch_commit(feeding->ledger, feeding->problem, feeding->problem_size);
    if (err == OK)
        feeding->committed = feeding->rows;
    return err;
}

/* A full batch goes in, and another begins. */
static enum err commit_when_full(struct feeding *feeding, struct reading *reading)
{
    enum err err;

    if (ledger_batch_rows(feeding->ledger->batch) < LEDGER_BATCH_ROWS)
        return OK;
    err = commit(feeding, reading);
    return err == OK ? ledger_batch_begin(feeding->ledger, feeding->problem, feeding->problem_size)
                     : err;
}

/* ---- files ---- */

/* Lines until the end, the damage or the most that were asked for. */
static enum err take_lines(struct feeding *feeding, struct reading *reading)
{
    char reason[REASON_BYTES];
    struct span line;
    enum err err = OK;

    while (err == OK && feeding->rows < feeding->most_rows &&
           lines_next(&reading->lines, &line) == LINE_WHOLE) {
        err = take_line(feeding, reading, line, reason);
        if (err == ERR_BAD_VALUE) {
            note_damage(feeding, reading->file, line.data - reading->lines.data, reason);
            return OK;
        }
        if (err != OK)
            (void)snprintf(feeding->problem, feeding->problem_size, "%s", reason);
        else
            err = commit_when_full(feeding, reading);
    }
    return err;
}

/* What the first line taken of a file must be. false: it cannot be right whatever it is. */
static bool expect(struct feeding *feeding, struct reading *reading)
{
    reading->expected.seq = reading->file->first_seq;
    reading->expected.prev[0] = '\0';
    if (reading->position.seq > 0) {
        reading->expected.seq = reading->position.seq + 1;
        memcpy(reading->expected.prev, reading->position.sha256, sizeof(reading->expected.prev));
    } else if (feeding->before && feeding->linked) {
        reading->expected.seq = feeding->last.seq + 1;
        memcpy(reading->expected.prev, feeding->last.sha256, sizeof(reading->expected.prev));
    } else if (reading->file->first_seq == 1) {
        (void)snprintf(reading->expected.prev, sizeof(reading->expected.prev), RECORD_NO_PREV);
    }
    if (reading->file->bytes < reading->position.bytes) {
        note_damage(feeding, reading->file, reading->file->bytes,
                    "the file ends before what was read of it");
        return false;
    }
    return true;
}

/* What is mapped is on the disk: the ledger must not have rows that a power cut takes from the
 * journal. */
static enum err sync_file(struct feeding *feeding, const struct journal_file *file)
{
    const int fd = openat(feeding->directory_fd, file->name, O_RDONLY | O_CLOEXEC);
    const bool synced = fd < 0 ? errno == ENOENT : fdatasync(fd) == 0;

    if (!synced)
        (void)snprintf(feeding->problem, feeding->problem_size, "syncing %s: %s", file->name,
                       strerror(errno));
    if (fd >= 0)
        close(fd);
    return synced ? OK : ERR_INTERNAL;
}

/* Reads on in a file that has more than is in. */
static enum err read_on(struct feeding *feeding, struct reading *reading)
{
    const struct journal_file *file = reading->file;
    enum err err = lines_open(feeding->directory_fd, file->name, (size_t)reading->position.bytes,
                              &reading->lines);

    if (err != OK) {
        (void)snprintf(feeding->problem, feeding->problem_size, "%s: %s", file->name,
                       strerror(errno));
        return err == ERR_INTERNAL && errno == ENOENT ? OK : err; /* deleted meanwhile */
    }
    if (feeding->rows >= feeding->most_rows)
        return OK;
    err = sync_file(feeding, file);
    if (err == OK)
        err = ledger_batch_epoch(feeding->ledger, file->gateway, file->epoch, &reading->epoch,
                                 feeding->problem, feeding->problem_size);
    if (err == OK)
        err = take_lines(feeding, reading);
    if (err == OK && reading->changed)
        err = ledger_batch_save(feeding->ledger, file->name, &reading->position, feeding->problem,
                                feeding->problem_size);
    return err;
}

/* The seq of the last whole line of what is mapped; 0: there is none. */
static uint64_t last_seq(const struct lines *lines)
{
    const char *end = memrchr(lines->data, '\n', lines->bytes);
    const char *from;
    struct record record;
    char reason[REASON_BYTES];

    if (!end)
        return 0;
    from = memrchr(lines->data, '\n', (size_t)(end - lines->data));
    from = from ? from + 1 : lines->data;
    return record_read((struct span){from, (size_t)(end - from)}, &record, reason,
                       sizeof(reason)) == OK
               ? record.seq
               : 0;
}

/* How many lines of the file are not in. */
static void count_behind(struct feeding *feeding, const struct reading *reading)
{
    const uint64_t seen =
        reading->position.seq > 0 ? reading->position.seq : reading->file->first_seq - 1;
    uint64_t last;

    if (!reading->lines.data || reading->position.bytes >= (int64_t)reading->lines.bytes)
        return;
    last = last_seq(&reading->lines);
    if (last > seen)
        feeding->behind += (int64_t)(last - seen);
}

static enum err feed_file(struct feeding *feeding, const struct journal_file *file)
{
    struct reading reading = {.file = file, .changed = false};
    enum err err;

    if (!feeding->before || feeding->before->epoch != file->epoch ||
        strcmp(feeding->before->gateway, file->gateway) != 0)
        feeding->before = NULL;
    err = ledger_batch_load(feeding->ledger, file->name, &reading.position, feeding->problem,
                            feeding->problem_size);
    if (err == OK && expect(feeding, &reading) && file->bytes > reading.position.bytes)
        err = read_on(feeding, &reading);
    if (err == OK)
        count_behind(feeding, &reading);
    feeding->before = file;
    feeding->linked = reading.position.seq > 0 && reading.position.bytes >= file->bytes;
    feeding->last = reading.position;
    lines_close(&reading.lines);
    return err;
}

/* Files in one transaction, or in more when there is much; without one when none is to be taken in.
 */
static enum err feed_files(struct feeding *feeding, const struct journal_file *files, size_t count)
{
    const bool writes = feeding->most_rows > 0;
    enum err err = OK;

    if (writes)
        err = ledger_batch_begin(feeding->ledger, feeding->problem, feeding->problem_size);
    for (size_t i = 0; err == OK && i < count; i++)
        err = feed_file(feeding, &files[i]);
    if (err == OK && writes)
        err = ledger_batch_commit(feeding->ledger, feeding->problem, feeding->problem_size);
    if (err != OK && writes)
        ledger_batch_abort(feeding->ledger);
    if (err == OK)
        feeding->committed = feeding->rows;
    return err;
}

static enum err feed_all(struct feeding *feeding)
{
    struct journal_file *files = NULL;
    size_t count = 0;
    enum err err =
        files_list(feeding->directory_fd, &files, &count, feeding->problem, feeding->problem_size);

    if (err == OK)
        err = feed_files(feeding, files, count);
    free(files);
    return err;
}

/* The ledger could not be written: it falls behind, which can be read still. */
static void only_count(struct ledger *ledger, int directory_fd)
{
    char unsaid[REASON_BYTES];
    struct feeding counting = {.ledger = ledger,
                               .directory_fd = directory_fd,
                               .problem = unsaid,
                               .problem_size = sizeof(unsaid)};

    if (feed_all(&counting) == OK)
        ledger->behind = counting.behind;
}

enum err ledger_take(struct ledger *ledger, int directory_fd, int64_t most_rows, int64_t *out_rows,
                     char *problem, size_t problem_size)
{
    struct feeding feeding = {.ledger = ledger,
                              .directory_fd = directory_fd,
                              .most_rows = most_rows,
                              .problem = problem,
                              .problem_size = problem_size};
    enum err err = ledger->batch ? OK : ledger_batch_new(ledger, problem, problem_size);

    if (err != OK)
        return err;
    err = feed_all(&feeding);
    *out_rows = feeding.committed;
    if (err == OK)
        ledger->behind = feeding.behind;
    else
        only_count(ledger, directory_fd);
    if (err == ERR_BAD_VALUE)
        err = ERR_INTERNAL; /* the ledger is damaged, not the journal */
    if (err == OK && feeding.damaged)
        return ERR_BAD_VALUE;
    return err;
}

enum err ledger_feed(struct ledger *ledger, int directory_fd, int64_t most_rows, int64_t *out_rows,
                     char *problem, size_t problem_size)
{
    const bool locked = ledger->lock_fd >= 0 && flock(ledger->lock_fd, LOCK_EX | LOCK_NB) == 0;
    enum err err;

    *out_rows = 0;
    err = locked ? ledger_follow(ledger, problem, problem_size) : OK;
    if (err == OK)
        err = ledger_take(ledger, directory_fd, locked ? most_rows : 0, out_rows, problem,
                          problem_size);
    if (locked)
        (void)flock(ledger->lock_fd, LOCK_UN);
    return !locked && err == ERR_BAD_VALUE ? OK : err;
}
