/* SPDX-License-Identifier: Apache-2.0 */
/* meter/segment.c: one file of the journal while it is written.
 *
 * For:       appending, with disk blocks reserved ahead; and what an error of the disk means.
 * Called by: scribe.c, journal.c.
 * Knows not: what is in the file, who waits. */
#include "meter/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"

/* Reserved at once beyond what is needed, so that the next rows need no call. */
#define STOCK_BYTES (4 << 20)

void segment_begin(struct segment *segment, int fd)
{
    *segment = (struct segment){.fd = fd, .can_reserve = true};
}

/* What gives way by itself or by the operator's hand. */
static bool is_passing(int problem)
{
    switch (problem) {
    case ENOSPC:
    case EDQUOT:
    case EROFS:
    case EFBIG:
    case EAGAIN:
        return true;
    default:
        return false;
    }
}

static enum segment_state state_of(int problem)
{
    return is_passing(problem) ? SEGMENT_WAITS : SEGMENT_FAILED;
}

static bool is_removed(int fd)
{
    struct stat about;

    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 0;
}

enum segment_state segment_append(struct segment *segment, struct span text, size_t *written)
{
    if (is_removed(segment->fd)) {
        errno = ENOENT;
        return SEGMENT_WAITS;
    }
    while (*written < text.size) {
        const ssize_t wrote = write(segment->fd, text.data + *written, text.size - *written);
        if (wrote > 0) {
            *written += (size_t)wrote;
            segment->bytes += wrote;
            behind_wrote(&segment->behind, segment->fd, (size_t)wrote);
        } else if (wrote == 0) {
            errno = EIO;
            return SEGMENT_FAILED;
        } else if (errno != EINTR) {
            return state_of(errno);
        }
    }
    return SEGMENT_DONE;
}

/* 0, or errno. The file's size stays what was written: its end is a line's end for who reads it. */
static int reserve_to(struct segment *segment, int64_t end)
{
    int result;

    do {
        result = fallocate(segment->fd, FALLOC_FL_KEEP_SIZE, segment->bytes, end - segment->bytes);
    } while (result != 0 && errno == EINTR);
    if (result != 0)
        return errno;
    segment->reserved_to = end;
    return 0;
}

enum segment_state segment_reserve(struct segment *segment, int64_t bytes)
{
    const int64_t need = segment->bytes + bytes;
    int problem;

    if (!segment->can_reserve || need <= segment->reserved_to)
        return SEGMENT_DONE;
    problem = reserve_to(segment, need + STOCK_BYTES);
    if (problem != 0 && is_passing(problem))
        problem = reserve_to(segment, need);
    if (problem == 0)
        return SEGMENT_DONE;
    errno = problem;
    if (is_passing(problem) || problem == EIO)
        return state_of(problem);
    segment->can_reserve = false;
    log_event(LOG_WARN, "journal_unreserved",
              "no disk blocks are reserved for what is under way: when the disk is full, rows wait "
              "in memory: %s",
              strerror(problem));
    return SEGMENT_DONE;
}

enum segment_state segment_sync(struct segment *segment)
{
    return fdatasync(segment->fd) == 0 ? SEGMENT_DONE : SEGMENT_FAILED;
}

void segment_end(struct segment *segment)
{
    if (segment->fd < 0)
        return;
    if (segment->reserved_to > segment->bytes)
        (void)!ftruncate(segment->fd, segment->bytes);
    close(segment->fd);
    segment->fd = -1;
}
