/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/behind.c: see behind.h.
 *
 * For:       pushing what was written out early, and dropping its pages once they are clean.
 * Called by: meter/journal.c, log.c.
 * Knows not: what is in the file. */
#include "config/base/behind.h"

#include <fcntl.h>
#include <unistd.h>

#define PUSH_BYTES (256 << 10)
#define KEPT_BYTES (1 << 20)  /* on their way to the disk: not clean yet, so not dropped */
#define AGAIN_BYTES (4 << 20) /* looked at once more: what was late the first time */

void behind_wrote(struct behind *behind, int fd, size_t bytes)
{
    behind->since_bytes += bytes;
    if (behind->since_bytes < PUSH_BYTES)
        return;
    behind->since_bytes = 0;
    const int64_t end = lseek(fd, 0, SEEK_END);
    if (end < behind->pushed_to) /* a pipe (-1), or a file that was cut short */
        return;
    sync_file_range(fd, behind->pushed_to, end - behind->pushed_to, SYNC_FILE_RANGE_WRITE);
    behind->pushed_to = end;
    const int64_t old = end - KEPT_BYTES;
    const int64_t from = behind->dropped_to > AGAIN_BYTES ? behind->dropped_to - AGAIN_BYTES : 0;
    if (old > from) {
        posix_fadvise(fd, from, old - from, POSIX_FADV_DONTNEED);
        behind->dropped_to = old;
    }
}
