/* SPDX-License-Identifier: Apache-2.0 */
/* meter/underway.c: what has no row yet: the slots of all tables in a journal's folder.
 *
 * For:       see underway.h; and books_pending() of books.h.
 * Called by: invoice.c, audit.c; gateway/cmd_why.c through books.h.
 * Knows not: ledgers, invoices. */
#include "meter/underway.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "config/base/span.h"
#include "meter/books_room.h"
#include "meter/files.h"

/* ---- all slots ---- */

/* What is being shown, and to whom. */
struct showing {
    bool (*visit)(void *owner, const struct underway *found);
    void *owner;
};

static bool hide(const struct showing *showing, const char *file, int table_fd, const char *why)
{
    return showing->visit(showing->owner,
                          &(struct underway){.file = file, .table_fd = table_fd, .why = why});
}

typedef uint64_t __attribute__((may_alias)) word;

_Static_assert(SLOT_BYTES % sizeof(word) == 0, "a slot is whole words");

/* Each word is read before whatever is read later. A fence behind them all would do that, too, but
 * the thread sanitizer knows none. */
static void copy_words(const struct slot *slot, struct slot *out_copy)
{
    const word *from = (const void *)slot;
    word *to = (void *)out_copy;

    for (size_t i = 0; i < SLOT_BYTES / sizeof(word); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
}

/* Copies a slot; false: it is free, or was given to another while it was copied. */
static bool copy_slot(const struct slot *slot, struct slot *out_copy)
{
    uint16_t end = 0;

    if (atomic_load_explicit(&slot->state, memory_order_acquire) == SLOT_FREE)
        return false;
    copy_words(slot, out_copy);
    if (atomic_load_explicit(&slot->state, memory_order_relaxed) == SLOT_FREE ||
        slot->admitted_us != out_copy->admitted_us)
        return false;
    for (size_t i = 0; i < OPENING_TEXTS; i++) {
        if (out_copy->opening_ends[i] < end || out_copy->opening_ends[i] > SLOT_OPENING_BYTES)
            return false;
        end = out_copy->opening_ends[i];
    }
    return true;
}

static bool show_table(const struct showing *showing, const char *file, int fd)
{
    struct inflight table;
    struct slot copy;
    const char *why;
    bool more = true;

    if (inflight_open_dead(&table, fd, &why) != OK)
        return hide(showing, file, fd, why);
    if (table.damaged > 0)
        more = hide(showing, file, fd, "some of its slots are damaged");
    for (uint32_t i = 0; i < table.count && more; i++)
        if (copy_slot(&table.slots[i], &copy))
            more = showing->visit(showing->owner,
                                  &(struct underway){.file = file, .table_fd = fd, .slot = &copy});
    inflight_fini(&table);
    return more;
}

static bool is_table(const char *name)
{
    const char *ending = strrchr(name, '.');

    return ending != NULL && strcmp(ending, FILES_TABLE_ENDING) == 0;
}

void underway_each(int directory_fd, bool (*visit)(void *owner, const struct underway *found),
                   void *owner)
{
    const struct showing showing = {visit, owner};
    const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    bool more = true;

    if (listing == NULL) {
        if (fd >= 0)
            (void)close(fd);
        (void)hide(&showing, ".", -1, "the folder cannot be listed");
        return;
    }
    for (const struct dirent *entry; more && (entry = readdir(listing)) != NULL;) {
        if (!is_table(entry->d_name))
            continue;
        const int table_fd = openat(directory_fd, entry->d_name, O_RDONLY | O_CLOEXEC);
        if (table_fd >= 0) {
            more = show_table(&showing, entry->d_name, table_fd);
            (void)close(table_fd);
        } else if (errno != ENOENT) { /* else it has gone: its rows are in the journal */
            more = hide(&showing, entry->d_name, -1, "it cannot be opened");
        }
    }
    (void)closedir(listing);
}

/* ---- those that bear an id ---- */

struct seeking {
    struct span id;
    bool (*visit)(void *owner, const struct books_pending *pending);
    void *owner;
    char *problem;
    size_t problem_size;
    enum err err;
};

/* Who has the lock lives. It is shared for an instant, and at once given back: who looks for dead
 * processes in that instant looks again. */
bool underway_is_alive(int table_fd)
{
    if (flock(table_fd, LOCK_SH | LOCK_NB) != 0)
        return true;
    (void)flock(table_fd, LOCK_UN);
    return false;
}

static bool take_found(void *owner, const struct underway *found)
{
    struct seeking *seeking = owner;
    const struct slot *slot = found->slot;

    if (slot == NULL) {
        (void)snprintf(seeking->problem, seeking->problem_size, "%s: %s", found->file, found->why);
        seeking->err = ERR_BAD_VALUE;
        return true;
    }
    struct books_pending pending = {
        .process = {found->file, strlen(found->file) - (sizeof(FILES_TABLE_ENDING) - 1)},
        .exchange_id = inflight_opening_text(slot, OPENING_EXCHANGE_ID),
        .request_id = inflight_opening_text(slot, OPENING_REQUEST_ID),
        .trace_id = inflight_opening_text(slot, OPENING_TRACE_ID),
        .tenant = inflight_opening_text(slot, OPENING_TENANT),
        .admitted_us = slot->admitted_us};

    if (!span_equal(pending.exchange_id, seeking->id) &&
        !span_equal(pending.request_id, seeking->id) && !span_equal(pending.trace_id, seeking->id))
        return true;
    if (!underway_is_alive(found->table_fd))
        pending.state = PENDING_LEFT;
    else if (atomic_load_explicit(&slot->state, memory_order_relaxed) == SLOT_OPEN)
        pending.state = PENDING_UNDER_WAY;
    else
        pending.state = PENDING_ENDED;
    return seeking->visit(seeking->owner, &pending);
}

enum err books_pending(struct books *books, struct span id,
                       bool (*visit)(void *owner, const struct books_pending *pending), void *owner,
                       char *problem, size_t problem_size)
{
    struct seeking seeking = {
        .id = id, .visit = visit, .owner = owner, .problem = problem, .problem_size = problem_size};

    underway_each(books->directory_fd, take_found, &seeking);
    return seeking.err;
}
