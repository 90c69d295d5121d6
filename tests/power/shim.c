/* SPDX-License-Identifier: Apache-2.0 */
/* tests/power/shim.c: a disk that can lose its power, fail, fill up or be slow; for LD_PRELOAD.
 *
 * For:       what is done to the files of one folder goes by here. What a power cut cannot take any
 *            more is written to a log, so that disk.py can make the folder what it would be after
 *            one; errors and delays come from a page of numbers that the test may change at any
 *            moment.
 * Called by: the C library's callers in the gateway; power.py and disk.py set it up.
 * Knows not: what is in the files. What is mapped and not synced, the test copies itself.
 *
 * Environment: DISK_FOLDER the folder, as realpath() writes it; DISK_CONTROL a file of struct
 * control; DISK_LOG and DISK_TRASH (both or none) the log and a folder for what was unlinked;
 * DISK_BOOT a file to read in the place of the kernel's boot id.
 *
 * Log: "S <inode> <bytes>" so many first bytes of a file are on the disk; "D <inode>:<name>/…" the
 * folder's entries are. Nothing is really synced then: the disk is the log's. Of a table the trash
 * has an image as of its last sync. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES (1 << 20)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* Errors are errno values, 0: none. All but space_error are of journal files alone. */
struct control {
    _Atomic int64_t write_error;
    _Atomic int64_t sync_error;
    _Atomic int64_t sync_delay_us;
    _Atomic int64_t sync_delay_varies; /* from 0 to sync_delay_us */
    _Atomic int64_t sync_held;         /* syncs do not end while it is not 0 */
    _Atomic int64_t space_error;       /* of new files and of reserving blocks */
    _Atomic int64_t reserve_most;      /* bytes to reserve at once, more do not fit; 0: any */
    _Atomic int64_t syncs_begun, syncs_done;
};

static struct control no_control;
static struct control *control = &no_control;
static const char *folder, *trash, *boot;
static ssize_t (*next_write)(int, const void *, size_t);
static int log_fd = -1;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_line[LOG_LINE_BYTES]; /* under log_lock */

__attribute__((constructor)) static void set_up(void)
{
    const char *log = getenv("DISK_LOG");
    const char *path = getenv("DISK_CONTROL");
    const int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;

    *(void **)&next_write = dlsym(RTLD_NEXT, "write");
    folder = getenv("DISK_FOLDER");
    trash = getenv("DISK_TRASH");
    boot = getenv("DISK_BOOT");
    if (log)
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED)
            control = page;
        close(fd);
    }
    if (!folder || (path && control == &no_control) || (log && (log_fd < 0 || !trash)))
        abort(); /* a test that would test nothing */
}

/* ---- which file ---- */

enum place { ELSEWHERE, THE_FOLDER, IN_FOLDER, A_JOURNAL };

static bool ends_in(const char *text, size_t size, const char *ending)
{
    const size_t bytes = strlen(ending);

    return size >= bytes && memcmp(text + size - bytes, ending, bytes) == 0;
}

static enum place place_of_path(const char *path, size_t size)
{
    const size_t folder_size = strlen(folder);

    if (size < folder_size || memcmp(path, folder, folder_size) != 0)
        return ELSEWHERE;
    if (size == folder_size)
        return THE_FOLDER;
    if (path[folder_size] != '/')
        return ELSEWHERE;
    return ends_in(path, size, ".jsonl") ? A_JOURNAL : IN_FOLDER;
}

static enum place place_of(int fd)
{
    char link[64], path[PATH_MAX];
    ssize_t size;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof(path));
    return size < 0 ? ELSEWHERE : place_of_path(path, (size_t)size);
}

/* Of a name as openat() and its kin take it. */
static enum place place_at(int directory_fd, const char *name)
{
    if (name[0] == '/')
        return place_of_path(name, strlen(name));
    if (directory_fd == AT_FDCWD || place_of(directory_fd) != THE_FOLDER)
        return ELSEWHERE;
    return ends_in(name, strlen(name), ".jsonl") ? A_JOURNAL : IN_FOLDER;
}

static int fail(int64_t problem)
{
    errno = (int)problem;
    return -1;
}

/* ---- the log ---- */

static void log_write(size_t size)
{
    if (syscall(SYS_write, log_fd, log_line, size) != (long)size)
        abort();
}

static void log_file(const struct stat *about)
{
    pthread_mutex_lock(&log_lock);
    log_write((size_t)snprintf(log_line, sizeof(log_line), "S %llu %lld\n",
                               (unsigned long long)about->st_ino, (long long)about->st_size));
    pthread_mutex_unlock(&log_lock);
}

static void log_folder(void)
{
    const struct dirent *entry;
    size_t size = 1;
    DIR *listing;

    pthread_mutex_lock(&log_lock);
    log_line[0] = 'D';
    listing = opendir(folder);
    while (listing && (entry = readdir(listing)) != NULL) {
        if (size + NAME_MAX + 32 > sizeof(log_line))
            abort();
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            size += (size_t)snprintf(log_line + size, sizeof(log_line) - size, " %llu:%s/",
                                     (unsigned long long)entry->d_ino, entry->d_name);
    }
    if (listing)
        closedir(listing);
    log_line[size++] = '\n';
    log_write(size);
    pthread_mutex_unlock(&log_lock);
}

/* What is mapped changes under its sync: its bytes are kept as they are just before, under its
 * inode's number and ".synced". */
static void keep_image(int fd, const struct stat *about)
{
    static char bytes[1 << 16];
    char path[PATH_MAX];
    off_t at = 0;
    ssize_t size;
    int copy;

    (void)snprintf(path, sizeof(path), "%s/%llu.synced", trash, (unsigned long long)about->st_ino);
    pthread_mutex_lock(&log_lock);
    copy = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while ((size = pread(fd, bytes, sizeof(bytes), at)) > 0) {
        if (syscall(SYS_write, copy, bytes, size) != size)
            abort();
        at += size;
    }
    close(copy);
    pthread_mutex_unlock(&log_lock);
}

static bool is_written(int fd)
{
    return (fcntl(fd, F_GETFL) & O_APPEND) != 0;
}

/* ---- syncing ---- */

static void delay(void)
{
    static _Atomic uint64_t turns;
    int64_t us = atomic_load(&control->sync_delay_us);
    struct timespec left;

    if (us > 0 && atomic_load(&control->sync_delay_varies)) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        us = (int64_t)(((uint64_t)now.tv_nsec + atomic_fetch_add(&turns, 1)) *
                       UINT64_C(2654435761) % (uint64_t)us);
    }
    left = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (us > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
    while (atomic_load(&control->sync_held))
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int sync_file(long call, int fd, enum place place)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return -1;
    if (place == A_JOURNAL) {
        atomic_fetch_add(&control->syncs_begun, 1);
        delay();
        if (atomic_load(&control->sync_error))
            return fail(atomic_load(&control->sync_error));
    }
    if (log_fd >= 0 && place == IN_FOLDER && !is_written(fd))
        keep_image(fd, &about);
    if (log_fd >= 0)
        log_file(&about); /* its size from before the delay: what came meanwhile is not in it */
    else if (syscall(call, fd) != 0)
        return -1;
    if (place == A_JOURNAL)
        atomic_fetch_add(&control->syncs_done, 1);
    return 0;
}

static int sync_any(long call, int fd)
{
    const enum place place = place_of(fd);

    if (place == ELSEWHERE || (place == THE_FOLDER && log_fd < 0))
        return (int)syscall(call, fd);
    if (place != THE_FOLDER)
        return sync_file(call, fd, place);
    log_folder();
    return 0;
}

int fsync(int fd)
{
    return sync_any(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_any(SYS_fdatasync, fd);
}

/* ---- writing ---- */

/* A sanitizer that lies behind must see it: an event descriptor's write orders threads. */
static ssize_t write_behind(int fd, const void *data, size_t size)
{
    return next_write ? next_write(fd, data, size) : syscall(SYS_write, fd, data, size);
}

ssize_t write(int fd, const void *data, size_t size)
{
    const int64_t problem = atomic_load(&control->write_error);

    if (problem && place_of(fd) == A_JOURNAL)
        return fail(problem);
    return write_behind(fd, data, size);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    const int64_t problem = atomic_load(&control->space_error);
    const int64_t most = atomic_load(&control->reserve_most);

    if ((problem || (most && size > most)) && place_of(fd) == A_JOURNAL)
        return fail(problem ? problem : ENOSPC);
    return (int)syscall(SYS_fallocate, fd, mode, at, size);
}

/* ---- names ---- */

static int open_file(int directory_fd, const char *name, int flags, mode_t mode)
{
    const int64_t problem = atomic_load(&control->space_error);

    if (boot && strcmp(name, BOOT_ID) == 0)
        name = boot;
    if (problem && (flags & O_CREAT) && place_at(directory_fd, name) == A_JOURNAL)
        return fail(problem);
    return (int)syscall(SYS_openat, directory_fd, name, flags, mode);
}

static mode_t mode_of(int flags, va_list *arguments)
{
    return flags & O_CREAT ? va_arg(*arguments, mode_t) : 0;
}

int openat(int directory_fd, const char *name, int flags, ...)
{
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = mode_of(flags, &arguments);
    va_end(arguments);
    return open_file(directory_fd, name, flags, mode);
}

int open(const char *name, int flags, ...)
{
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = mode_of(flags, &arguments);
    va_end(arguments);
    return open_file(AT_FDCWD, name, flags, mode);
}

/* What a power cut may bring back is kept under its inode's number. */
static void keep(int directory_fd, const char *name)
{
    char path[PATH_MAX];
    struct stat about;

    if (log_fd < 0 || place_at(directory_fd, name) < IN_FOLDER ||
        fstatat(directory_fd, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    (void)snprintf(path, sizeof(path), "%s/%llu", trash, (unsigned long long)about.st_ino);
    if (linkat(directory_fd, name, AT_FDCWD, path, 0) != 0 && errno != EEXIST)
        abort();
}

int unlinkat(int directory_fd, const char *name, int flags)
{
    keep(directory_fd, name);
    return (int)syscall(SYS_unlinkat, directory_fd, name, flags);
}

int unlink(const char *name)
{
    keep(AT_FDCWD, name);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, name, 0);
}
