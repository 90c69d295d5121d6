/* SPDX-License-Identifier: Apache-2.0 */
/* meter/segment.h: one file of the journal while it is written.
 *
 * For:       appending, with disk blocks reserved ahead; and what an error of the disk means.
 * Called by: scribe.c, journal.c.
 * Knows not: what is in the file, who waits.
 *
 * A disk that is full, over a quota or read-only gives way some day: the same bytes may be tried
 * again. After any other error, and after every failed sync, nobody knows what the disk holds: the
 * kernel may have dropped the pages and call the next sync a success. That descriptor is done with.
 */
#ifndef METER_SEGMENT_H
#define METER_SEGMENT_H

#include "config/base/behind.h"
#include "config/base/err.h"
#include "config/base/span.h"

enum segment_state {
    SEGMENT_DONE,
    SEGMENT_WAITS, /* not now: try again later */
    SEGMENT_FAILED /* never again on this file */
};

/* One thread at a time. */
struct segment {
    int fd;              /* -1: none is open */
    int64_t bytes;       /* written so far */
    int64_t reserved_to; /* blocks are there up to this offset */
    bool can_reserve;    /* the filesystem has fallocate() */
    struct behind behind;
};

/* Begins an empty file; fd is the segment's from here on. */
void segment_begin(struct segment *segment, int fd);

/* Appends what lies behind the first *written bytes of text and counts it in *written, so that a
 * line that was cut short goes on where it stopped. A file that somebody has removed waits: what is
 * written to it is written to nobody. errno says what is wrong when not DONE. */
MUST_CHECK enum segment_state segment_append(struct segment *segment, struct span text,
                                             size_t *written);

/* Are at least `bytes` more reserved? Reserves them, and some in stock, when not. DONE as well
 * where the filesystem cannot (said once in the log). WAITS: they do not fit now. errno says why.
 */
MUST_CHECK enum segment_state segment_reserve(struct segment *segment, int64_t bytes);

/* What was written is on the disk; never WAITS. errno says what is wrong. */
MUST_CHECK enum segment_state segment_sync(struct segment *segment);

/* Gives back what is reserved and not used, and closes. Safe twice. */
void segment_end(struct segment *segment);

#endif
