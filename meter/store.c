/* SPDX-License-Identifier: Apache-2.0 */
/* meter/store.c: the journal's directory: who may write in it, under which epoch, in which files.
 *
 * For:       locking, the next epoch, names.
 * Called by: meter.c.
 * Knows not: what is in the files. */
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
#include <unistd.h>

#include "config/base/log.h"

/* A name of ours: the gateway's, two numbers and the longest ending. */
#define NAME_BYTES (STORE_GATEWAY_BYTES_MAX + 2 * 20 + 32)
#define TABLE_ENDING ".inflight"
#define DEAD_ENDING ".dead"

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

/* Like mkdir -p; what exists is left as it is. */
static bool make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int made = mkdir(path, 0700);
        *slash = '/';
        if (made != 0 && errno != EEXIST)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static int open_directory(struct span directory, char *problem, size_t problem_size)
{
    char *path = strndup(directory.data, directory.size);
    int fd = -1;

    if (path && make_directories(path))
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        snprintf(problem, problem_size, "journal directory %s: %s", path ? path : "",
                 strerror(errno));
    free(path);
    return fd;
}

/* The lock goes with the process, however it ends. */
static int take_lock(const struct store *store, char *problem, size_t problem_size)
{
    char name[NAME_BYTES];
    int fd;

    snprintf(name, sizeof(name), "%s.lock", store->gateway);
    fd = openat(store->directory_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        snprintf(problem, problem_size, "journal lock %s: %s", name, strerror(errno));
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (errno == EWOULDBLOCK)
        snprintf(problem, problem_size,
                 "the journal directory is in use by another running gateway named %s (it holds "
                 "%s); stop it, or give this one another name (gateway:) or directory",
                 store->gateway, name);
    else
        snprintf(problem, problem_size, "journal lock %s: %s", name, strerror(errno));
    close(fd);
    return -1;
}

/* Reads digits at *text and moves it behind them. */
static bool take_number(const char **text, uint64_t *out_number)
{
    char *end = NULL;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *out_number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* Is name "<gateway>-<epoch>" and then -<seq>.jsonl, .inflight or .inflight.dead? *out_rest: from
 * behind the epoch on. */
static bool is_ours(const struct store *store, const char *name, uint64_t *out_epoch,
                    const char **out_rest)
{
    size_t size = strlen(store->gateway);
    uint64_t seq;

    if (strncmp(name, store->gateway, size) != 0 || name[size] != '-')
        return false;
    name += size + 1;
    if (!take_number(&name, out_epoch))
        return false;
    *out_rest = name;
    if (strcmp(name, TABLE_ENDING) == 0 || strcmp(name, TABLE_ENDING DEAD_ENDING) == 0)
        return true;
    return *name++ == '-' && take_number(&name, &seq) && strcmp(name, ".jsonl") == 0;
}

/* A table without its process waits aside for whoever recovers it. */
static bool set_aside(const struct store *store, const char *name)
{
    char dead[NAME_MAX + sizeof(DEAD_ENDING)];

    snprintf(dead, sizeof(dead), "%s" DEAD_ENDING, name);
    return renameat(store->directory_fd, name, store->directory_fd, dead) == 0;
}

/* Under the lock: finds the next epoch and sets dead tables aside. */
static bool look_through(struct store *store, char *problem, size_t problem_size)
{
    int fd = openat(store->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool good = directory != NULL;

    if (!directory && fd >= 0)
        close(fd);
    store->epoch = 1;
    while (good && (errno = 0, entry = readdir(directory)) != NULL) {
        const char *rest = NULL;
        uint64_t epoch = 0;
        if (!is_ours(store, entry->d_name, &epoch, &rest))
            continue;
        if (epoch >= store->epoch)
            store->epoch = epoch + 1;
        if (strcmp(rest, TABLE_ENDING) == 0) {
            good = set_aside(store, entry->d_name);
            log_event(LOG_WARN, "table_set_aside",
                      "%s" DEAD_ENDING ": a process died with requests under way; their rows are "
                      "not written yet",
                      entry->d_name);
        }
    }
    good = good && errno == 0;
    if (!good)
        snprintf(problem, problem_size, "reading the journal directory: %s", strerror(errno));
    if (directory)
        closedir(directory);
    return good;
}

enum err store_open(struct store *store, struct span directory, struct span gateway, char *problem,
                    size_t problem_size)
{
    *store = (struct store){.directory_fd = -1, .lock_fd = -1};
    if (!is_file_name(gateway)) {
        snprintf(problem, problem_size,
                 "gateway: the name must be 1 to %d bytes without spaces and slashes, as files are "
                 "named after it",
                 STORE_GATEWAY_BYTES_MAX);
        return ERR_BAD_VALUE;
    }
    memcpy(store->gateway, gateway.data, gateway.size);
    store->directory_fd = open_directory(directory, problem, problem_size);
    if (store->directory_fd < 0)
        return ERR_INTERNAL;
    store->lock_fd = take_lock(store, problem, problem_size);
    if (store->lock_fd < 0 || !look_through(store, problem, problem_size)) {
        store_close(store);
        return ERR_INTERNAL;
    }
    return OK;
}

void store_close(struct store *store)
{
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    if (store->directory_fd >= 0)
        close(store->directory_fd);
    store->lock_fd = -1;
    store->directory_fd = -1;
}

static int create(const struct store *store, const char *name, int flags, char *problem,
                  size_t problem_size)
{
    int fd = openat(store->directory_fd, name, flags | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        snprintf(problem, problem_size, "creating %s in the journal directory: %s", name,
                 strerror(errno));
    return fd;
}

int store_create_journal(const struct store *store, uint64_t first_seq, char *problem,
                         size_t problem_size)
{
    char name[NAME_BYTES];

    snprintf(name, sizeof(name), "%s-%llu-%llu.jsonl", store->gateway,
             (unsigned long long)store->epoch, (unsigned long long)first_seq);
    return create(store, name, O_WRONLY | O_APPEND, problem, problem_size);
}

static void name_table(const struct store *store, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s-%llu" TABLE_ENDING, store->gateway,
             (unsigned long long)store->epoch);
}

int store_create_table(const struct store *store, char *problem, size_t problem_size)
{
    char name[NAME_BYTES];

    name_table(store, name);
    return create(store, name, O_RDWR, problem, problem_size);
}

void store_remove_table(const struct store *store)
{
    char name[NAME_BYTES];

    name_table(store, name);
    unlinkat(store->directory_fd, name, 0);
}
