/* SPDX-License-Identifier: Apache-2.0 */
/* meter/retire.c: files of the journal that have served their time.
 *
 * For:       meter.keep: deleting them without breaking the chain's proof.
 * Called by: keeper.c, on its thread alone.
 * Knows not: when it is time to look. */
#include "meter/retire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"
#include "meter/files.h"
#include "meter/record.h"

struct retiring {
    struct books *books;
    int64_t before_us;
    const struct journal_file *files;
    size_t count;
    int fd; /* of retired.jsonl, locked */
    uint32_t deleted;
    char *problem;
    size_t problem_size;
};

static enum err fail(const struct retiring *retiring, const char *name)
{
    (void)snprintf(retiring->problem, retiring->problem_size, "%s: %s", name, strerror(errno));
    return ERR_INTERNAL;
}

/* ---- which ---- */

static bool same_gateway(const struct retiring *retiring, size_t a, size_t b)
{
    return a < retiring->count && b < retiring->count &&
           strcmp(retiring->files[a].gateway, retiring->files[b].gateway) == 0;
}

static bool same_epoch(const struct retiring *retiring, size_t a, size_t b)
{
    return same_gateway(retiring, a, b) && retiring->files[a].epoch == retiring->files[b].epoch;
}

static bool has_table(const struct retiring *retiring, const struct journal_file *file)
{
    static const char *const endings[] = {"", ".dead", ".damaged"};

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        char name[NAME_MAX + 1];
        (void)snprintf(name, sizeof(name), "%s-%" PRIu64 ".inflight%s", file->gateway, file->epoch,
                       endings[i]);
        if (faccessat(retiring->books->directory_fd, name, F_OK, 0) == 0 || errno != ENOENT)
            return true;
    }
    return false;
}

/* When the newest file of this file's gateway was begun; INT64_MIN: not known. */
static int64_t newest_open_us(const struct retiring *retiring, size_t which)
{
    struct lines lines = {.data = NULL};
    int64_t at_us = INT64_MIN;
    struct record record;
    struct span line;
    char reason[160];

    while (same_gateway(retiring, which, which + 1))
        which++;
    if (lines_open(retiring->books->directory_fd, retiring->files[which].name, 0, &lines) != OK)
        return INT64_MIN;
    if (lines_next(&lines, &line) == LINE_WHOLE &&
        record_read(line, &record, reason, sizeof(reason)) == OK && record.kind == RECORD_OPEN)
        at_us = record.at_us;
    lines_close(&lines);
    return at_us;
}

static bool may_go(const struct retiring *retiring, size_t which)
{
    const struct journal_file *file = &retiring->files[which];
    bool closed = false;
    int64_t bytes = 0;

    if (file->modified_us >= retiring->before_us || !same_gateway(retiring, which, which + 1))
        return false;
    if (!same_epoch(retiring, which, which + 2) && has_table(retiring, file))
        return false;
    if (ledger_file(retiring->books->ledger, file->name, &bytes, &closed, retiring->problem,
                    retiring->problem_size) != OK)
        return false;
    return closed && bytes == file->bytes && newest_open_us(retiring, which) > file->modified_us;
}

/* ---- what is kept of it ---- */

/* The first and the last line of a file. */
static bool find_ends(const struct lines *lines, struct span *out_first, struct span *out_last)
{
    struct lines from_start = *lines;
    const char *end;

    if (lines_next(&from_start, out_first) != LINE_WHOLE || lines->data[lines->bytes - 1] != '\n')
        return false;
    end = memrchr(lines->data, '\n', lines->bytes - 1);
    end = end ? end + 1 : lines->data;
    *out_last = (struct span){end, (size_t)(lines->data + lines->bytes - 1 - end)};
    return true;
}

/* Is the head in retired.jsonl already, from a time when the file could not be deleted? */
static bool is_kept(const struct retiring *retiring, struct span head)
{
    struct lines lines = {.data = NULL};
    struct span line;
    bool found = false;

    if (lines_open(retiring->books->directory_fd, RETIRED_FILE, 0, &lines) != OK)
        return false;
    while (!found && lines_next(&lines, &line) == LINE_WHOLE)
        found = span_equal(line, head);
    lines_close(&lines);
    return found;
}

static bool write_whole(int fd, struct span text)
{
    while (text.size > 0) {
        const ssize_t wrote = write(fd, text.data, text.size);
        if (wrote < 0 && errno != EINTR)
            return false;
        if (wrote > 0)
            text = span_from(text, (size_t)wrote);
    }
    return true;
}

/* A write that was cut left a line without its end. */
static bool end_torn_line(int fd)
{
    struct stat about;
    char last;

    if (fstat(fd, &about) != 0)
        return false;
    if (about.st_size == 0)
        return true;
    return pread(fd, &last, 1, about.st_size - 1) == 1 &&
           (last == '\n' || write_whole(fd, SPAN("\n")));
}

static enum err keep_ends(const struct retiring *retiring, const struct journal_file *file)
{
    struct lines lines = {.data = NULL};
    struct span first, last;
    bool kept;

    if (lines_open(retiring->books->directory_fd, file->name, 0, &lines) != OK)
        return fail(retiring, file->name);
    if (!find_ends(&lines, &first, &last)) {
        lines_close(&lines);
        errno = EILSEQ;
        return fail(retiring, file->name);
    }
    /* With their newlines, which are there. */
    kept = is_kept(retiring, last) ||
           (end_torn_line(retiring->fd) &&
            write_whole(retiring->fd, (struct span){first.data, first.size + 1}) &&
            write_whole(retiring->fd, (struct span){last.data, last.size + 1}) &&
            fdatasync(retiring->fd) == 0);
    lines_close(&lines);
    return kept ? OK : fail(retiring, RETIRED_FILE);
}

/* ---- the files ---- */

static enum err retire(struct retiring *retiring, const struct journal_file *file)
{
    const enum err err = keep_ends(retiring, file);

    if (err != OK)
        return err;
    if (unlinkat(retiring->books->directory_fd, file->name, 0) != 0 && errno != ENOENT)
        return fail(retiring, file->name);
    log_event(LOG_INFO, "journal", "%s was kept long enough: deleted", file->name);
    retiring->deleted++;
    return OK;
}

/* The ledger's copy must be on disk before the only other one goes. */
static enum err retire_all(struct retiring *retiring)
{
    bool synced = false;
    enum err err = OK;

    for (size_t i = 0; err == OK && i < retiring->count; i++) {
        if (!may_go(retiring, i))
            continue;
        if (!synced && !ledger_sync(retiring->books->ledger))
            return OK;
        synced = true;
        err = retire(retiring, &retiring->files[i]);
    }
    if (retiring->deleted > 0)
        (void)fsync(retiring->books->directory_fd);
    return err;
}

enum err retire_files(struct books *books, int64_t before_us, uint32_t *out_files, char *problem,
                      size_t problem_size)
{
    struct retiring retiring = {.books = books,
                                .before_us = before_us,
                                .fd = -1,
                                .problem = problem,
                                .problem_size = problem_size};
    struct journal_file *files = NULL;
    enum err err = files_list(books->directory_fd, &files, &retiring.count, problem, problem_size);

    *out_files = 0;
    if (err != OK)
        return err;
    retiring.files = files;
    retiring.fd =
        openat(books->directory_fd, RETIRED_FILE, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (retiring.fd < 0)
        err = fail(&retiring, RETIRED_FILE);
    else if (flock(retiring.fd, LOCK_EX | LOCK_NB) == 0) /* else another process is at it */
        err = retire_all(&retiring);
    if (retiring.fd >= 0)
        close(retiring.fd);
    free(files);
    *out_files = retiring.deleted;
    return err;
}
