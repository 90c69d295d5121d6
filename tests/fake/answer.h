/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/answer.h: heads of answers, and parts that all APIs share.
 *
 * For:       HTTP heads as each kind of server writes them, times, compressed bodies.
 * Called by: service.c and the files that write answers.
 * Knows not: sockets, what bodies say. */
#ifndef FAKE_ANSWER_H
#define FAKE_ANSWER_H

#include <time.h>

#include "tests/fake/kind.h"
#include "tests/fake/work.h"

enum framing { FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_UNTIL_CLOSE };

struct head {
    int status;
    enum framing framing;
    size_t body_bytes;        /* FRAMING_LENGTH */
    struct text content_type; /* empty: none */
    struct text lines;        /* further header lines, each with its CRLF */
    long retry_after;         /* seconds; -1: none */
    bool close;
    bool gzip;
};

/* Sets the date that heads bear and the `created` of answers. Once a loop turn is enough. */
void answer_set_time(time_t now);
time_t answer_time(void);

void answer_add_head(struct buffer *out, const struct head *head);

/* `{"id":"...","object":"OBJECT","created":N,"model":"..."`, without a comma behind it. */
void answer_add_opening(struct buffer *out, const struct work *work, struct text object);

/* The bytes, compressed as one gzip member. */
void answer_add_gzip(struct buffer *out, const struct buffer *plain);

#endif
