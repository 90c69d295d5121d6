/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/answer.h: heads and whole answers as a model server writes them.
 *
 * For:       everything that goes out in one piece, and parts that streams share.
 * Called by: server.c, stream.c.
 * Knows not: sockets. */
#ifndef FAKE_ANSWER_H
#define FAKE_ANSWER_H

#include <time.h>

#include "tests/fake/work.h"

enum framing { FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_UNTIL_CLOSE };

struct head {
    int status;
    enum framing framing;
    size_t body_bytes;        /* FRAMING_LENGTH */
    struct text content_type; /* empty: none */
    struct text request_id;   /* empty: no x-request-id */
    long retry_after;         /* seconds; -1: none */
    bool close;
    bool gzip;
};

/* Sets the date that heads bear and the `created` of answers. Once a loop turn is enough. */
void answer_set_time(time_t now);
time_t answer_time(void);

void answer_add_head(struct buffer *out, const struct head *head);

/* The body of an error in the shape of the kind of server. message and param are raw JSON text. */
void answer_add_error(struct buffer *out, bool openai, int status, struct text message,
                      struct text param);

/* The whole body of a chat completion, a completion; of embeddings, `ask` gives the inputs. */
void answer_add_body(struct buffer *out, const struct work *work, const struct ask *ask);

/* The words of tokens [from, to) */
void answer_add_words(struct buffer *out, uint64_t from, uint64_t to);

/* `"usage":{...}` of a finished answer. */
void answer_add_usage(struct buffer *out, const struct work *work);

/* The bytes, compressed as one gzip member. */
void answer_add_gzip(struct buffer *out, const struct buffer *plain);

/* Makes the table of words; once, before anything else. */
void answer_prepare(void);

#endif
