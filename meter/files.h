/* SPDX-License-Identifier: Apache-2.0 */
/* meter/files.h: the journal's files, read.
 *
 * For:       how files are called, which ones a directory has, in their order, and the lines of
 *            each.
 * Called by: history.c, recover.c, store.c, leftover.c, retire.c, adjust.c, chain.c, underway.c,
 *            ledger*.c, audit*.c.
 * Knows not: what is in a line.
 *
 * A file may be written while it is read: what is there so far is what is read. */
#ifndef METER_FILES_H
#define METER_FILES_H

#include <limits.h>

#include "config/base/err.h"
#include "config/base/span.h"

struct journal_file {
    char name[NAME_MAX + 1]; /* <gateway>-<epoch>-<first seq>.jsonl */
    char gateway[65];
    uint64_t epoch, first_seq;
    int64_t bytes;
    int64_t modified_us;
};

/* All of them, by gateway, epoch and first seq; malloc'ed, the caller frees. problem in words.
 * Errors: ERR_INTERNAL (the directory cannot be read), ERR_NO_MEMORY. */
MUST_CHECK enum err files_list(int directory_fd, struct journal_file **out_files, size_t *out_count,
                               char *problem, size_t problem_size);

#define FILES_TABLE_ENDING ".inflight" /* of a table that has its process, or was left by it */

/* What a journal's file, and what a process's table is called. */
void files_print_name(struct span gateway, uint64_t epoch, uint64_t first_seq,
                      char out[NAME_MAX + 1]);
void files_print_table_name(struct span gateway, uint64_t epoch, char out[NAME_MAX + 1]);

/* <gateway>-<epoch>-<first seq>.jsonl, or <gateway>-<epoch>.inflight (.dead, .damaged), whose
 * first_seq is 0. false: it is none of these. bytes and modified_us are left 0. */
bool files_parse_name(const char *name, struct journal_file *out_file);

/* One file's lines, mapped. */
struct lines {
    const char *data;
    size_t bytes;
    size_t at; /* where the next line begins */
};

/* Maps a file from an offset on. Errors: ERR_INTERNAL (errno says). */
MUST_CHECK enum err lines_open(int directory_fd, const char *name, size_t at,
                               struct lines *out_lines);
void lines_close(struct lines *lines); /* safe twice, and on zeroes */

enum line_state {
    LINE_WHOLE,
    LINE_END, /* nothing is left */
    LINE_TORN /* what is left has no newline behind it: half a line, or zeros */
};

/* The next line without its newline; lines->at is then behind it. On END and TORN it stays. Zeros
 * with a whole line behind them are part of that line: record_read() refuses it. */
enum line_state lines_next(struct lines *lines, struct span *out_line);

/* SHA-256 of a line (without its newline) as 64 hex digits and a NUL. */
void line_hash(struct span line, char out[65]);

#endif
