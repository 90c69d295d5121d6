/* SPDX-License-Identifier: Apache-2.0 */
/* meter/store.c: the journal's directory: who writes in it, under which epoch, in which files.
 *
 * For:       locking, the next epoch, names.
 * Called by: meter.c, recover.c, journal.c, adjust.c.
 * Knows not: what is in the files.
 *
 * All locks are flocks, which go with their process however it ends. */
#include "meter/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/base/hash.h"
#include "config/base/log.h"
#include "meter/files.h"

#define DAMAGED_ENDING ".damaged"
#define LOCK_PAUSE_MS 10

static bool is_file_name(struct span gateway)
{
    if (gateway.size == 0 || gateway.size > STORE_GATEWAY_BYTES_MAX || gateway.data[0] == '.')
        return false;
    for (size_t i = 0; i < gateway.size; i++) {
        unsigned char byte = (unsigned char)gateway.data[i];
        if (byte < 0x21 || byte == 0x7f || byte == '/')
            return false;
    }
    return true;
}

static int open_directory(struct span directory, char *problem, size_t problem_size)
{
    char *path = strndup(directory.data, directory.size);
    int fd = -1;

    /* Not with its parents: one that is not there is mistyped, or a disk that is not mounted. */
    if (path && (mkdir(path, 0700) == 0 || errno == EEXIST))
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        (void)snprintf(problem, problem_size, "journal directory %s: %s%s", path ? path : "",
                       strerror(errno), errno == ENOENT ? " (the folder that it is in)" : "");
    free(path);
    return fd;
}

/* Another process of this name that starts has the lock for a moment. */
static bool wait_for_lock(int fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000};

    for (int waited_ms = 0; waited_ms <= STORE_LOCK_WAIT_MS; waited_ms += LOCK_PAUSE_MS) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    errno = EWOULDBLOCK;
    return false;
}

static int take_start_lock(const struct store *store, char *problem, size_t problem_size)
{
    char name[NAME_MAX + 1];
    int fd;

    (void)snprintf(name, sizeof(name), "%s.lock", store->gateway);
    fd = openat(store->directory_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && wait_for_lock(fd))
        return fd;
    if (fd >= 0 && errno == EWOULDBLOCK)
        (void)snprintf(problem, problem_size,
                       "another process named %s has been starting for %d s (it holds %s in the "
                       "journal directory)",
                       store->gateway, STORE_LOCK_WAIT_MS / 1000, name);
    else
        (void)snprintf(problem, problem_size, "journal lock %s: %s", name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static DIR *open_listing(const struct store *store)
{
    const int fd = openat(store->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);

    if (!listing && fd >= 0)
        close(fd);
    return listing;
}

/* Under the start lock. */
static bool find_epoch(struct store *store, char *problem, size_t problem_size)
{
    DIR *listing = open_listing(store);
    const struct dirent *entry;
    bool good = listing != NULL;

    store->epoch = 1;
    while (good && (errno = 0, entry = readdir(listing)) != NULL) {
        struct journal_file file;
        if (files_parse_name(entry->d_name, &file) && strcmp(file.gateway, store->gateway) == 0 &&
            file.epoch >= store->epoch)
            store->epoch = file.epoch + 1;
    }
    good = good && errno == 0;
    if (!good)
        (void)snprintf(problem, problem_size, "reading the journal directory: %s", strerror(errno));
    if (good && store->epoch > INT64_MAX) {
        (void)snprintf(problem, problem_size,
                       "the journal directory has a file of %s of the last epoch there is: it was "
                       "not made by a gateway",
                       store->gateway);
        good = false;
    }
    if (listing)
        closedir(listing);
    return good;
}

enum err store_open(struct store *store, struct span directory, struct span gateway, char *problem,
                    size_t problem_size)
{
    *store = (struct store){.directory_fd = -1, .start_lock_fd = -1, .table_fd = -1};
    if (!is_file_name(gateway)) {
        (void)snprintf(problem, problem_size,
                       "gateway: the name must be 1 to %d bytes without spaces and slashes, as "
                       "files are named after it",
                       STORE_GATEWAY_BYTES_MAX);
        return ERR_BAD_VALUE;
    }
    memcpy(store->gateway, gateway.data, gateway.size);
    store->directory_fd = open_directory(directory, problem, problem_size);
    if (store->directory_fd < 0)
        return ERR_INTERNAL;
    store->start_lock_fd = take_start_lock(store, problem, problem_size);
    if (store->start_lock_fd < 0 || !find_epoch(store, problem, problem_size)) {
        store_close(store);
        return ERR_INTERNAL;
    }
    return OK;
}

void store_started(struct store *store)
{
    if (store->start_lock_fd >= 0)
        close(store->start_lock_fd);
    store->start_lock_fd = -1;
}

/* ---- files of this epoch ---- */

static enum err sync_directory(const struct store *store, const char *name, char *problem,
                               size_t problem_size)
{
    if (fsync(store->directory_fd) == 0)
        return OK;
    (void)snprintf(problem, problem_size, "syncing the journal directory for %s: %s", name,
                   strerror(errno));
    return ERR_INTERNAL;
}

static int create(const struct store *store, const char *name, int flags, char *problem,
                  size_t problem_size)
{
    const int fd = openat(store->directory_fd, name, flags | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        (void)snprintf(problem, problem_size, "creating %s in the journal directory: %s", name,
                       strerror(errno));
    return fd;
}

void store_journal_name(const struct store *store, uint64_t first_seq, char *out)
{
    files_print_name(span_of(store->gateway), store->epoch, first_seq, out);
}

void store_key_path(const struct config *config, char out[SIGN_PATH_BYTES])
{
    if (config->signing_key.size > 0)
        (void)snprintf(out, SIGN_PATH_BYTES, "%.*s", (int)config->signing_key.size,
                       config->signing_key.data);
    else
        (void)snprintf(out, SIGN_PATH_BYTES, "%.*s/" STORE_KEY_NAME, (int)config->journal.size,
                       config->journal.data);
}

int store_create_journal(const struct store *store, uint64_t first_seq, char *problem,
                         size_t problem_size)
{
    char name[NAME_MAX + 1];
    int fd;

    store_journal_name(store, first_seq, name);
    fd = create(store, name, O_WRONLY | O_APPEND, problem, problem_size);
    if (fd >= 0 && sync_directory(store, name, problem, problem_size) != OK) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A table's name, or the one that it has before it is locked and filled. */
static void name_table(const struct store *store, bool named, char name[NAME_MAX + 1])
{
    if (named)
        files_print_table_name(span_of(store->gateway), store->epoch, name);
    else
        (void)snprintf(name, NAME_MAX + 1, ".%s-%llu.new", store->gateway,
                       (unsigned long long)store->epoch);
}

enum err store_create_table(struct store *store, char *problem, size_t problem_size)
{
    char name[NAME_MAX + 1];

    name_table(store, false, name);
    (void)unlinkat(store->directory_fd, name, 0); /* of a start that was killed */
    store->table_fd = create(store, name, O_RDWR, problem, problem_size);
    if (store->table_fd < 0)
        return ERR_INTERNAL;
    if (flock(store->table_fd, LOCK_EX | LOCK_NB) == 0)
        return OK;
    (void)snprintf(problem, problem_size, "locking the in-flight table: %s", strerror(errno));
    store_remove_table(store);
    return ERR_INTERNAL;
}

enum err store_name_table(struct store *store, char *problem, size_t problem_size)
{
    char before[NAME_MAX + 1], name[NAME_MAX + 1];

    name_table(store, false, before);
    name_table(store, true, name);
    /* A table whose head a power cut took would be nobody's, and stay for ever. */
    if (fsync(store->table_fd) != 0 ||
        renameat(store->directory_fd, before, store->directory_fd, name) != 0) {
        (void)snprintf(problem, problem_size, "in-flight table %s: %s", name, strerror(errno));
        return ERR_INTERNAL;
    }
    store->table_named = true;
    return sync_directory(store, name, problem, problem_size);
}

void store_sync_table(const struct store *store)
{
    if (fdatasync(store->table_fd) != 0)
        log_event(LOG_WARN, "table_unsynced",
                  "a power cut may take the prices of what is under way: %s", strerror(errno));
}

void store_remove_table(struct store *store)
{
    char name[NAME_MAX + 1];

    if (store->table_fd < 0)
        return;
    name_table(store, store->table_named, name);
    (void)unlinkat(store->directory_fd, name, 0);
    close(store->table_fd);
    store->table_fd = -1;
}

void store_close(struct store *store)
{
    if (!store->table_named)
        store_remove_table(store);
    else if (store->table_fd >= 0)
        close(store->table_fd);
    store_started(store);
    if (store->directory_fd >= 0)
        close(store->directory_fd);
    store->table_fd = -1;
    store->directory_fd = -1;
}

/* ---- tables of the dead ---- */

static bool is_table_name(const char *name)
{
    struct journal_file file;
    const size_t size = strlen(name);
    const size_t ending = sizeof(FILES_TABLE_ENDING) - 1;

    return size > ending && strcmp(name + size - ending, FILES_TABLE_ENDING) == 0 &&
           files_parse_name(name, &file);
}

/* The table that comes next in the order of their names' hashes: an order that holds while others
 * come and go. false: there is none. */
static bool find_next_table(const struct store *store, uint64_t *cursor, char *name)
{
    DIR *listing = open_listing(store);
    const struct dirent *entry;
    uint64_t least = UINT64_MAX;

    while (listing && (entry = readdir(listing)) != NULL) {
        const uint64_t hash = hash_text(span_of(entry->d_name));
        if (hash <= *cursor || hash >= least || !is_table_name(entry->d_name))
            continue;
        least = hash;
        (void)snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
    }
    if (listing)
        closedir(listing);
    *cursor = least;
    return least != UINT64_MAX;
}

/* Opens and locks a table; -1: somebody lives in it, or it has gone. */
static int take_table(const struct store *store, const char *name)
{
    const int fd = openat(store->directory_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat ours, theirs;

    if (fd < 0) {
        if (errno != ENOENT)
            log_event(LOG_WARN, "table_unreadable", "%s: %s", name, strerror(errno));
        return -1;
    }
    /* Locked after somebody else has recovered and deleted it, it has the name no more. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 &&
        fstatat(store->directory_fd, name, &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino)
        return fd;
    close(fd);
    return -1;
}

int store_next_dead_table(const struct store *store, uint64_t *cursor, char *name)
{
    while (find_next_table(store, cursor, name)) {
        const int fd = take_table(store, name);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

static void end_table(const struct store *store, const char *name, int fd, bool done)
{
    if (!done || fsync(store->directory_fd) != 0)
        log_event(LOG_WARN, "table_kept", "%s: %s", name, strerror(errno));
    close(fd);
}

void store_bury_table(const struct store *store, const char *name, int fd)
{
    end_table(store, name, fd, unlinkat(store->directory_fd, name, 0) == 0);
}

void store_set_table_aside(const struct store *store, const char *name, int fd)
{
    char aside[NAME_MAX + sizeof(DAMAGED_ENDING)];

    (void)snprintf(aside, sizeof(aside), "%s" DAMAGED_ENDING, name);
    end_table(store, name, fd,
              renameat(store->directory_fd, name, store->directory_fd, aside) == 0);
}
