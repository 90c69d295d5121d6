/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/behind.h: keeps files that are only appended to out of the page cache.
 *
 * For:       the journal and the access log. What was written is sent to the disk soon, in the
 *            background, and its pages are given back: so that no burst of write-back comes later,
 *            other programs' pages stay, and the next page is one that was used before. A page
 *            never used before costs a virtual machine a fault in its host, more than all else that
 *            a row costs.
 * Called by: meter/journal.c, log.c.
 * Knows not: what is in the file; durability (it waits for nothing and promises nothing). */
#ifndef CONFIG_BASE_BEHIND_H
#define CONFIG_BASE_BEHIND_H

#include "config/base/vocab.h"

/* Of one open file; zeroed for another. One thread at a time. */
struct behind {
    size_t since_bytes; /* written since the last push */
    int64_t pushed_to;  /* offsets in the file */
    int64_t dropped_to;
};

/* So many bytes were appended to fd. Cheap but for one call in 256 KiB. Does nothing to pipes and
 * terminals. */
void behind_wrote(struct behind *behind, int fd, size_t bytes);

#endif
