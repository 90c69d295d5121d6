/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_store.h: the ledger's file: its tables, statements and errors.
 *
 * For:       what the files behind ledger.h share.
 * Called by: ledger*.c.
 * Knows not: the journal's files, what is asked.
 *
 * Sums are INTEGER columns, which SQLite would turn into floats past 64 bits: they are added in C,
 * and a sum that would not fit goes on in a further part of its quarter. */
#ifndef METER_LEDGER_STORE_H
#define METER_LEDGER_STORE_H

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <sqlite3.h>

#include "meter/ledger.h"
#include "meter/record.h"

#define LEDGER_VERSION 1
#define LEDGER_QUARTER_US (INT64_C(900) * 1000000)
#define LEDGER_SEQ_BITS 40  /* a row's number: its epoch's number and its seq */
#define LEDGER_PART_BITS 16 /* rows of an epoch whose ids lie together */
#define LEDGER_TEXT_BYTES 2048
#define LEDGER_BUSY_MS 10000 /* how long another process that writes is waited for */

/* What is summed, by quarter and group. */
/* clang-format off */
#define LEDGER_SUMS(SUM)                      \
    SUM(CALLS,              calls)            \
    SUM(BILLED_CALLS,       billed_calls)     \
    SUM(FAILED_CALLS,       failed_calls)     \
    SUM(INPUT,              input)            \
    SUM(CACHED_INPUT,       cached_input)     \
    SUM(CACHE_WRITE,        cache_write)      \
    SUM(OUTPUT,             output)           \
    SUM(REASONING,          reasoning)        \
    SUM(COST,               cost_pusd)        \
    SUM(ADJUSTED,           adjusted_pusd)    \
    SUM(OWN_COST,           own_cost_pusd)    \
    SUM(OWN_COST_CALLS,     own_cost_calls)   \
    SUM(BUSY,               busy_us)          \
    SUM(BYTES_IN,           bytes_in)         \
    SUM(BYTES_OUT,          bytes_out)        \
    SUM(WASTED_INPUT,       wasted_input)     \
    SUM(WASTED_CACHED,      wasted_cached_input) \
    SUM(WASTED_WRITE,       wasted_cache_write)  \
    SUM(WASTED_OUTPUT,      wasted_output)    \
    SUM(WASTED_REASONING,   wasted_reasoning)
/* clang-format on */
enum ledger_sum {
#define SUM(id, name) SUM_##id,
    LEDGER_SUMS(SUM)
#undef SUM
        LEDGER_SUM_COUNT
};

/* Columns of groups: those of books_column that come from roll-ups. */
#define LEDGER_GROUP_COLUMNS ((unsigned)BY_TRACE)

struct ledger_batch; /* ledger_batch.h */

struct ledger {
    sqlite3 *db;
    char path[PATH_MAX];
    char aside[PATH_MAX]; /* where its forerunner is kept that could not be read; "": none */
    dev_t device;         /* of the file that is open, which may have another name by now */
    ino_t inode;
    int lock_fd; /* -1: may only be read, or belongs to a rebuild */
    bool read_only;
    bool looking; /* ledger_look(): it may be one whose tables are not made yet (unmade) */
    bool unmade;
    _Atomic bool interrupted;
    uint64_t deadline_ns; /* 0: none */
    int64_t behind;
    struct ledger_batch *batch; /* made by the first feed */
};

/* ---- statements ---- */

/* Says what SQLite says. Returns ERR_INTERNAL, ERR_NO_MEMORY, or ERR_BAD_VALUE (not a database). */
enum err ledger_failed(struct ledger *ledger, char *problem, size_t problem_size);

/* Runs SQL without results. */
MUST_CHECK enum err ledger_run(struct ledger *ledger, const char *sql, char *problem,
                               size_t problem_size);

/* A statement; the caller finalizes it. */
MUST_CHECK enum err ledger_prepare(struct ledger *ledger, const char *sql,
                                   sqlite3_stmt **out_statement, char *problem,
                                   size_t problem_size);

/* Text that stays where it is until the statement is reset. */
void ledger_bind_text(sqlite3_stmt *statement, int at, struct span text);
struct span ledger_text(sqlite3_stmt *statement, int at);

/* Runs a statement without results, and makes it ready for the next time. false: SQLite failed. */
MUST_CHECK bool ledger_step(sqlite3_stmt *statement);

/* The same state for all that is asked in between; nothing when the caller is in one already. */
MUST_CHECK enum err ledger_begin_reading(struct ledger *ledger, bool *out_began, char *problem,
                                         size_t problem_size);
void ledger_end_reading(struct ledger *ledger, bool began);

/* A file without lock and syncs, for a rebuild. */
MUST_CHECK enum err ledger_open_aside(const char *path, struct ledger **out_ledger, char *problem,
                                      size_t problem_size);

/* When another file has its name by now, that one is opened in its place. Not while it is asked. */
MUST_CHECK enum err ledger_follow(struct ledger *ledger, char *problem, size_t problem_size);

/* ---- rows ---- */

/* Where the quarter of an hour begins that a moment is in. */
int64_t ledger_quarter(int64_t at_us);

/* What a row adds to the sums. */
void ledger_sums_of(const struct record *record, int64_t out_sums[LEDGER_SUM_COUNT]);

/* What tokens that had to be computed cost us; false: it is not known, or fits no row. */
bool ledger_own_cost(const struct usage *usage, int64_t unit_cost_pusd, int64_t *out_pusd);

/* The value of a column, escapes undone in buffer where there are any; {"", 0}: absent. */
struct span ledger_column(const struct record *record, enum books_column column,
                          char buffer[LEDGER_TEXT_BYTES]);

/* A text of a row, likewise. */
struct span ledger_plain(struct span spelt, char buffer[LEDGER_TEXT_BYTES]);

#endif
