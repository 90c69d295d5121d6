/* SPDX-License-Identifier: Apache-2.0 */
/* meter/books.c: opening the books, and handing questions to the ledger.
 *
 * For:       the part of books.h that is the ledger's.
 * Called by: the gateway's commands; keeper.c.
 * Knows not: SQL, invoices, corrections, audits. */
#include "meter/books.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "meter/books_room.h"
#include "meter/store.h"

#define PROBLEM_BYTES (3 * PATH_MAX)

/* Puts the paths of journal and ledger together. */
static enum err find_paths(struct books *books, const struct config *config, char *problem,
                           size_t problem_size)
{
    int size;

    if (config->journal.size == 0) {
        (void)snprintf(problem, problem_size, "no journal is configured (meter.journal)");
        return ERR_BAD_VALUE;
    }
    if (config->journal.size >= sizeof(books->directory)) {
        (void)snprintf(problem, problem_size, "the journal's path is too long");
        return ERR_BAD_VALUE;
    }
    memcpy(books->directory, config->journal.data, config->journal.size);
    books->directory[config->journal.size] = '\0';
    if (config->ledger.size > 0)
        size = snprintf(books->ledger_path, sizeof(books->ledger_path), "%.*s",
                        (int)config->ledger.size, config->ledger.data);
    else
        size = snprintf(books->ledger_path, sizeof(books->ledger_path), "%s/ledger.db",
                        books->directory);
    if (size >= 0 && (size_t)size < sizeof(books->ledger_path))
        return OK;
    (void)snprintf(problem, problem_size, "the ledger's path is too long");
    return ERR_BAD_VALUE;
}

/* ---- is it the ledger of this journal? ---- */

/* Puts "file:line: key: " before what is said of a key. */
static void put_place(const struct config *config, struct span key, uint32_t line, char *problem,
                      size_t problem_size)
{
    char says[PROBLEM_BYTES];

    if (config->file.size == 0 || line == 0)
        return; /* said on the command line, or by nobody */
    (void)snprintf(says, sizeof(says), "%s", problem);
    (void)snprintf(problem, problem_size, "%.*s:%u: %.*s: %s", (int)config->file.size,
                   config->file.data, line, (int)key.size, key.data, says);
}

/* Is this the journal that the ledger is fed from? Errors: ERR_BAD_VALUE with a problem: no. */
static enum err compare(struct books *books, struct ledger *ledger, char *problem,
                        size_t problem_size)
{
    char was[PATH_MAX];
    bool same = false;
    enum err err = ledger_is_of(ledger, books->directory_fd, books->directory, &same, was, problem,
                                problem_size);

    if (err != OK)
        return err;
    if (same) {
        if (books->directory_fd >= 0)
            ledger_remember(ledger, books->directory, was);
        return OK;
    }
    (void)snprintf(problem, problem_size,
                   "%s %s the journal that the ledger %s is fed from%s%s%s: mend the path, or move "
                   "that journal's folder here; if this journal is meant, `tollgate ledger rebuild`"
                   " sets the ledger aside and makes it anew",
                   books->directory,
                   books->directory_fd < 0 ? "is not there, so it is not" : "is not",
                   books->ledger_path, was[0] ? " (" : "", was, was[0] ? ")" : "");
    return ERR_BAD_VALUE;
}

void books_key_path(const struct config *config, char out[SIGN_PATH_BYTES])
{
    store_key_path(config, out);
}

/* Without the slashes at its end, but for that of the root. */
static struct span trimmed(struct span path)
{
    while (path.size > 1 && path.data[path.size - 1] == '/')
        path.size--;
    return path;
}

bool books_has_folder(const struct config *config, const char *path, char *problem,
                      size_t problem_size)
{
    struct span folder = trimmed(span_of(path));
    char text[PATH_MAX];

    while (folder.size > 0 && folder.data[folder.size - 1] != '/')
        folder.size--;
    folder = trimmed(folder);
    (void)snprintf(text, sizeof(text), "%.*s", (int)folder.size, folder.data);
    if (folder.size == 0 || access(text, F_OK) == 0 || span_equal(folder, trimmed(config->journal)))
        return true;
    (void)snprintf(problem, problem_size,
                   "expected a path in a folder that there is: %s: %s; the start would fail", text,
                   strerror(errno));
    return false;
}

/* What books_open() would meet. *out_key: what is at fault, in *out_line. */
static enum err look(struct books *books, const struct config *config, struct span *out_key,
                     uint32_t *out_line, char *problem, size_t problem_size)
{
    struct ledger *ledger = NULL;
    enum err err = find_paths(books, config, problem, problem_size);

    *out_key = SPAN("meter.journal");
    *out_line = config->journal_line;
    if (err == OK && !books_has_folder(config, books->directory, problem, problem_size))
        err = ERR_BAD_VALUE;
    if (err != OK || config->ledger.size == 0)
        return err;
    *out_key = SPAN("meter.ledger");
    *out_line = config->ledger_line;
    if (!books_has_folder(config, books->ledger_path, problem, problem_size))
        err = ERR_BAD_VALUE;
    if (err == OK)
        err = ledger_look(books->ledger_path, &ledger, problem, problem_size);
    if (err == OK && ledger) {
        *out_key = SPAN("meter.journal");
        *out_line = config->journal_line;
        books->directory_fd = open(books->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        err = compare(books, ledger, problem, problem_size);
    }
    ledger_close(ledger);
    return err;
}

enum err books_check(const struct config *config, struct config_problems *problems)
{
    char problem[PROBLEM_BYTES];
    struct books *books;
    struct span key;
    uint32_t line;
    enum err err;

    if (config->journal.size == 0)
        return OK;
    books = calloc(1, sizeof(*books));
    if (!books)
        return ERR_NO_MEMORY;
    books->directory_fd = -1;
    err = look(books, config, &key, &line, problem, sizeof(problem));
    books_close(books);
    /* What cannot be looked at now, such as a ledger that somebody has locked, may be good. */
    if (err != ERR_BAD_VALUE)
        return err == ERR_NO_MEMORY ? err : OK;
    return config_problems_add(problems, config, key, line, problem) == OK ? ERR_BAD_VALUE
                                                                           : ERR_NO_MEMORY;
}

/* ---- opening ---- */

static enum err open_directory(struct books *books, const struct config *config, char *problem,
                               size_t problem_size)
{
    books->directory_fd = open(books->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (books->directory_fd >= 0)
        return OK;
    (void)snprintf(problem, problem_size, "no journal is there: %s: %s", books->directory,
                   strerror(errno));
    put_place(config, SPAN("meter.journal"), config->journal_line, problem, problem_size);
    return ERR_INTERNAL;
}

static enum err open_ledger(struct books *books, const struct config *config, bool any,
                            char *problem, size_t problem_size)
{
    enum err err = ledger_open(books->ledger_path, &books->ledger, problem, problem_size);

    if (err == ERR_BAD_VALUE)
        put_place(config, SPAN("meter.ledger"), config->ledger_line, problem, problem_size);
    if (err != OK)
        return err;
    err = compare(books, books->ledger, problem, problem_size);
    if (err == ERR_BAD_VALUE)
        put_place(config, SPAN("meter.journal"), config->journal_line, problem, problem_size);
    if (err != ERR_BAD_VALUE || !any)
        return err;
    books->foreign = true;
    return OK;
}

/* Gives a ledger that was refused another name, unless somebody feeds it at this moment. */
static enum err set_aside(struct books *books, char *problem, size_t problem_size)
{
    char path[PATH_MAX + 8];
    int fd;
    enum err err = ERR_INTERNAL;

    ledger_close(books->ledger);
    books->ledger = NULL;
    (void)snprintf(path, sizeof(path), "%s.lock", books->ledger_path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
        (void)snprintf(problem, problem_size, "%s: %s", path,
                       fd < 0 ? strerror(errno) : "another process feeds the ledger");
    else
        err = ledger_set_aside(books->ledger_path, books->aside, problem, problem_size);
    if (fd >= 0)
        close(fd);
    return err;
}

enum err books_open_for(const struct config *config, enum books_purpose purpose,
                        struct books **out_books, char *problem, size_t problem_size)
{
    struct books *books = calloc(1, sizeof(*books));
    enum err err;

    if (!books) {
        (void)snprintf(problem, problem_size, "no memory");
        return ERR_NO_MEMORY;
    }
    books->directory_fd = -1;
    err = find_paths(books, config, problem, problem_size);
    if (err == OK)
        err = open_directory(books, config, problem, problem_size);
    if (err == OK) {
        err = open_ledger(books, config, purpose == BOOKS_AUDIT, problem, problem_size);
        if (err == ERR_BAD_VALUE && purpose == BOOKS_ANEW) {
            err = set_aside(books, problem, problem_size);
            if (err == OK)
                err = open_ledger(books, config, false, problem, problem_size);
        }
    }
    if (err != OK) {
        books_close(books);
        return err;
    }
    *out_books = books;
    return OK;
}

enum err books_open(const struct config *config, struct books **out_books, char *problem,
                    size_t problem_size)
{
    return books_open_for(config, BOOKS_USE, out_books, problem, problem_size);
}

const char *books_aside(const struct books *books)
{
    const char *aside = ledger_aside(books->ledger);

    return aside[0] != '\0' ? aside : books->aside;
}

void books_close(struct books *books)
{
    if (!books)
        return;
    ledger_close(books->ledger);
    if (books->directory_fd >= 0)
        close(books->directory_fd);
    free(books);
}

enum err books_feed(struct books *books, int64_t most_rows, int64_t *out_rows, char *problem,
                    size_t problem_size)
{
    int64_t rows = 0;
    const enum err err = books->foreign ? compare(books, books->ledger, problem, problem_size)
                                        : ledger_feed(books->ledger, books->directory_fd, most_rows,
                                                      &rows, problem, problem_size);

    if (out_rows)
        *out_rows = rows;
    return err;
}

int64_t books_behind(const struct books *books)
{
    return ledger_behind(books->ledger);
}

enum err books_rebuild(struct books *books, int64_t *out_rows, char *problem, size_t problem_size)
{
    int64_t rows = 0;
    const enum err err =
        ledger_rebuild(books->ledger, books->directory_fd, &rows, problem, problem_size);

    if (out_rows)
        *out_rows = rows;
    return err;
}

enum err books_usage(struct books *books, const struct books_ask *ask,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner,
                     char *problem, size_t problem_size)
{
    return ledger_usage(books->ledger, ask, visit, owner, problem, problem_size);
}

enum err books_waste(struct books *books, const struct period *period,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner,
                     char *problem, size_t problem_size)
{
    return ledger_waste(books->ledger, period, visit, owner, problem, problem_size);
}

enum err books_rows(struct books *books, struct span tenant, const struct period *period,
                    struct span id,
                    bool (*visit)(void *owner, const struct record *record, struct span line),
                    void *owner, char *problem, size_t problem_size)
{
    return ledger_rows(books->ledger, tenant, period, id, visit, owner, problem, problem_size);
}
