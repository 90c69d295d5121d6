/* SPDX-License-Identifier: Apache-2.0 */
/* meter/leftover.c: disk blocks that dead processes had reserved.
 *
 * For:       giving back what lies beyond the end of a file that nobody writes any more.
 * Called by: journal.c.
 * Knows not: what is in a file. */
#include "meter/leftover.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meter/files.h"

#define BLOCK_BYTES 512        /* of st_blocks */
#define WORTH_BYTES (64 << 10) /* less than this beyond the end is the filesystem's own */

static bool has_reserve(const struct stat *about)
{
    return (int64_t)about->st_blocks * BLOCK_BYTES > about->st_size + WORTH_BYTES;
}

static bool has_writer(const struct store *store, const struct journal_file *file)
{
    char name[NAME_MAX + 1];

    if (file->epoch == store->epoch && strcmp(file->gateway, store->gateway) == 0)
        return true;
    files_print_table_name(span_of(file->gateway), file->epoch, name);
    return faccessat(store->directory_fd, name, F_OK, 0) == 0;
}

/* Its size and its time stay what they were. */
static void cut_reserve(const struct store *store, const char *name)
{
    const int fd = openat(store->directory_fd, name, O_WRONLY | O_CLOEXEC);
    struct stat about;

    if (fd < 0)
        return;
    if (fstat(fd, &about) == 0 && ftruncate(fd, about.st_size) == 0) {
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, about.st_mtim};
        (void)futimens(fd, times);
    }
    close(fd);
}

void leftover_release(const struct store *store)
{
    struct journal_file *files = NULL;
    size_t count = 0;
    char problem[256];

    if (files_list(store->directory_fd, &files, &count, problem, sizeof(problem)) != OK)
        return;
    for (size_t i = 0; i < count; i++) {
        struct stat about;
        if (fstatat(store->directory_fd, files[i].name, &about, 0) == 0 && has_reserve(&about) &&
            !has_writer(store, &files[i]))
            cut_reserve(store, files[i].name);
    }
    free(files);
}
