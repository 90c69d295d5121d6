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
#include <unistd.h>

#include "meter/books_room.h"

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

enum err books_open(const struct config *config, struct books **out_books, char *problem,
                    size_t problem_size)
{
    struct books *books = calloc(1, sizeof(*books));
    enum err err;

    if (!books) {
        (void)snprintf(problem, problem_size, "no memory");
        return ERR_NO_MEMORY;
    }
    books->directory_fd = -1;
    err = find_paths(books, config, problem, problem_size);
    if (err == OK) {
        books->directory_fd = open(books->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (books->directory_fd < 0) {
            (void)snprintf(problem, problem_size, "%s: %s", books->directory, strerror(errno));
            err = ERR_INTERNAL;
        }
    }
    if (err == OK)
        err = ledger_open(books->ledger_path, &books->ledger, problem, problem_size);
    if (err != OK) {
        books_close(books);
        return err;
    }
    *out_books = books;
    return OK;
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
    const enum err err =
        ledger_feed(books->ledger, books->directory_fd, most_rows, &rows, problem, problem_size);

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
