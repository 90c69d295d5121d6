/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_origin.c: which journal the ledger is fed from.
 *
 * For:       a mistyped path that would begin a new journal beside an old ledger is seen before
 *            anything is written; a folder that was moved is known again.
 * Called by: books.c.
 * Knows not: configurations.
 *
 * A journal is known by its lines: names of its files (g1-1-1.jsonl) are alike in all journals. The
 * path is remembered for messages, and for a file of which nothing is left that could tell. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meter/files.h"
#include "meter/ledger_batch.h"
#include "meter/retire.h"

enum likeness { LIKE_OTHER, LIKE_UNTOLD, LIKE_SAME };

/* ---- one file ---- */

/* Does the line that ends at this byte have this hash? */
static bool has_line_at(const struct lines *lines, int64_t end, struct span sha256)
{
    const char *last = lines->data + end - 1;
    const char *from = memrchr(lines->data, '\n', (size_t)(end - 1));
    char hash[65];

    from = from ? from + 1 : lines->data;
    if (*last != '\n')
        return false;
    line_hash((struct span){from, (size_t)(last - from)}, hash);
    return span_equal(span_of(hash), sha256);
}

/* The line of a file with this number, counted from 0. */
static bool skip_to(struct lines *lines, uint64_t number, struct span *out_line)
{
    enum line_state state;

    do
        state = lines_next(lines, out_line);
    while (state == LINE_WHOLE && number-- > 0);
    return state == LINE_WHOLE;
}

/* Its first row, as the ledger has it and as the file has it. */
static enum err compare_first_row(struct ledger *ledger, const struct journal_file *file,
                                  struct lines *lines, enum likeness *out_likeness, char *problem,
                                  size_t problem_size)
{
    const int64_t seqs = INT64_C(1) << LEDGER_SEQ_BITS;
    sqlite3_stmt *statement;
    struct span line;
    enum err err = ledger_prepare(ledger,
                                  "SELECT r.id & ?4 - 1, r.line FROM epochs e JOIN rows r"
                                  " ON r.id >= e.id * ?4 + ?3 AND r.id < (e.id + 1) * ?4"
                                  " WHERE e.gateway = ?1 AND e.epoch = ?2 ORDER BY r.id LIMIT 1",
                                  &statement, problem, problem_size);

    if (err != OK)
        return err;
    ledger_bind_text(statement, 1, span_of(file->gateway));
    (void)sqlite3_bind_int64(statement, 2, (int64_t)file->epoch);
    (void)sqlite3_bind_int64(statement, 3, (int64_t)file->first_seq);
    (void)sqlite3_bind_int64(statement, 4, seqs);
    *out_likeness = LIKE_UNTOLD;
    if (sqlite3_step(statement) == SQLITE_ROW &&
        skip_to(lines, (uint64_t)sqlite3_column_int64(statement, 0) - file->first_seq, &line))
        *out_likeness = span_equal(line, ledger_text(statement, 1)) ? LIKE_SAME : LIKE_OTHER;
    if (sqlite3_reset(statement) != SQLITE_OK)
        err = ledger_failed(ledger, problem, problem_size);
    (void)sqlite3_finalize(statement);
    return err;
}

/* The file of this name, and what the ledger has of it. */
static enum err compare_file(struct ledger *ledger, int directory_fd, struct span name,
                             int64_t bytes, struct span sha256, enum likeness *out_likeness,
                             char *problem, size_t problem_size)
{
    struct lines lines = {.data = NULL};
    struct journal_file file;
    char text[NAME_MAX + 1];
    enum err err = OK;

    *out_likeness = LIKE_OTHER;
    (void)snprintf(text, sizeof(text), "%.*s", (int)name.size, name.data);
    if (!files_parse_name(text, &file) || lines_open(directory_fd, text, 0, &lines) != OK)
        return OK;
    if (bytes > 0 && (int64_t)lines.bytes >= bytes && has_line_at(&lines, bytes, sha256))
        *out_likeness = LIKE_SAME;
    else
        err = compare_first_row(ledger, &file, &lines, out_likeness, problem, problem_size);
    lines_close(&lines);
    return err;
}

/* ---- files that retention deleted ---- */

/* Is this the last line of a file as the ledger has it? */
static bool knows_head(sqlite3_stmt *statement, const struct record *head, struct span line)
{
    char gateway[130], name[NAME_MAX + 1], hash[65];
    bool known;

    (void)record_text(head->gateway, gateway, sizeof(gateway));
    files_print_name(span_of(gateway), head->epoch, head->first_seq, name);
    line_hash(line, hash);
    ledger_bind_text(statement, 1, span_of(name));
    ledger_bind_text(statement, 2, span_of(hash));
    known = sqlite3_step(statement) == SQLITE_ROW;
    (void)sqlite3_reset(statement);
    return known;
}

static enum err compare_retired(struct ledger *ledger, int directory_fd, bool *out_same,
                                char *problem, size_t problem_size)
{
    struct lines lines = {.data = NULL};
    sqlite3_stmt *statement;
    struct record record;
    struct span line;
    char unsaid[160];
    enum err err = ledger_prepare(ledger, "SELECT 1 FROM files WHERE name = ? AND sha256 = ?",
                                  &statement, problem, problem_size);

    if (err != OK)
        return err;
    if (lines_open(directory_fd, RETIRED_FILE, 0, &lines) == OK) {
        while (!*out_same && lines_next(&lines, &line) == LINE_WHOLE)
            *out_same = record_read(line, &record, unsaid, sizeof(unsaid)) == OK &&
                        record.kind == RECORD_HEAD && knows_head(statement, &record, line);
    }
    lines_close(&lines);
    (void)sqlite3_finalize(statement);
    return err;
}

/* ---- all of them ---- */

/* The likeness of the file that is most like: the ledger need not have all of a journal, nor the
 * journal all that the ledger had. none: the ledger has no file yet. */
static enum err compare_files(struct ledger *ledger, int directory_fd, bool *out_none,
                              enum likeness *out_likeness, char *problem, size_t problem_size)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    enum err err = ledger_prepare(ledger, "SELECT name, bytes, sha256 FROM files ORDER BY closed",
                                  &statement, problem, problem_size);

    *out_none = true;
    *out_likeness = LIKE_OTHER;
    if (err != OK)
        return err;
    while (err == OK && *out_likeness != LIKE_SAME &&
           (code = sqlite3_step(statement)) == SQLITE_ROW) {
        enum likeness likeness = LIKE_OTHER;

        *out_none = false;
        err = compare_file(ledger, directory_fd, ledger_text(statement, 0),
                           sqlite3_column_int64(statement, 1), ledger_text(statement, 2), &likeness,
                           problem, problem_size);
        if (likeness > *out_likeness)
            *out_likeness = likeness;
    }
    if (err == OK && code != SQLITE_DONE && code != SQLITE_ROW)
        err = ledger_failed(ledger, problem, problem_size);
    (void)sqlite3_finalize(statement);
    return err;
}

/* Where the journal lay; "": not known. */
static void read_path(struct ledger *ledger, char out[PATH_MAX])
{
    sqlite3_stmt *statement;
    char unsaid[256];

    out[0] = '\0';
    if (ledger_prepare(ledger, "SELECT path FROM journal", &statement, unsaid, sizeof(unsaid)) !=
        OK)
        return; /* one from before this was remembered, and it may only be read */
    if (sqlite3_step(statement) == SQLITE_ROW) {
        const struct span path = ledger_text(statement, 0);
        (void)snprintf(out, PATH_MAX, "%.*s", (int)path.size, path.data);
    }
    (void)sqlite3_finalize(statement);
}

static enum err compare(struct ledger *ledger, int directory_fd, const char *path, bool *out_same,
                        char was[PATH_MAX], char *problem, size_t problem_size)
{
    enum likeness likeness = LIKE_OTHER;
    bool none = false;
    enum err err = compare_files(ledger, directory_fd, &none, &likeness, problem, problem_size);

    read_path(ledger, was);
    if (err != OK)
        return err;
    *out_same = none || likeness == LIKE_SAME ||
                (likeness == LIKE_UNTOLD && path && strcmp(path, was) == 0);
    return *out_same ? OK : compare_retired(ledger, directory_fd, out_same, problem, problem_size);
}

enum err ledger_is_of(struct ledger *ledger, int directory_fd, const char *directory,
                      bool *out_same, char was[PATH_MAX], char *problem, size_t problem_size)
{
    char *path = realpath(directory, NULL);
    bool began = false;
    enum err err = ledger_begin_reading(ledger, &began, problem, problem_size);

    *out_same = false;
    was[0] = '\0';
    if (err == OK)
        err = compare(ledger, directory_fd, path, out_same, was, problem, problem_size);
    ledger_end_reading(ledger, began);
    free(path);
    return err;
}

void ledger_remember(struct ledger *ledger, const char *directory, const char *was)
{
    char *path = realpath(directory, NULL);
    sqlite3_stmt *statement = NULL;
    char unsaid[256];

    if (path && !ledger->read_only && strcmp(path, was) != 0 &&
        ledger_prepare(ledger, "INSERT OR REPLACE INTO journal VALUES(1, ?)", &statement, unsaid,
                       sizeof(unsaid)) == OK) {
        ledger_bind_text(statement, 1, span_of(path));
        (void)sqlite3_step(statement); /* who opens it next tries again */
    }
    (void)sqlite3_finalize(statement);
    free(path);
}
