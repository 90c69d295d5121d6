/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/answer.c: heads of answers, and parts that all APIs share.
 *
 * For:       HTTP heads as each kind of server writes them, times, compressed bodies.
 * Called by: service.c and the files that write answers.
 * Knows not: sockets, what bodies say. */
#include "tests/fake/answer.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/fake/error.h"

static char date_line[64];
static size_t date_line_bytes;
static char created_text[24];
static size_t created_bytes;
static time_t current_time;

void answer_set_time(time_t now)
{
    struct tm parts;

    if (now == current_time)
        return;
    current_time = now;
    gmtime_r(&now, &parts);
    date_line_bytes =
        strftime(date_line, sizeof date_line, "date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    created_bytes = (size_t)snprintf(created_text, sizeof created_text, "%lld", (long long)now);
}

time_t answer_time(void)
{
    return current_time;
}

void answer_add_head(struct buffer *out, const struct head *head)
{
    buffer_add_literal(out, "HTTP/1.1 ");
    if (head->status == 200) {
        buffer_add_literal(out, "200 OK\r\n");
    } else {
        buffer_add_number(out, (uint64_t)head->status);
        buffer_add_literal(out, " ");
        buffer_add_text(out, error_phrase(head->status));
        buffer_add_literal(out, "\r\n");
    }
    buffer_add(out, date_line, date_line_bytes);
    buffer_add_text(out, kind_row()->server);
    buffer_add_text(out, head->lines);
    if (head->retry_after >= 0) {
        buffer_add_literal(out, "retry-after: ");
        buffer_add_number(out, (uint64_t)head->retry_after);
        buffer_add_literal(out, "\r\n");
    }
    if (head->framing == FRAMING_LENGTH) {
        buffer_add_literal(out, "content-length: ");
        buffer_add_number(out, head->body_bytes);
        buffer_add_literal(out, "\r\n");
    }
    if (head->content_type.bytes > 0) {
        buffer_add_literal(out, "content-type: ");
        buffer_add_text(out, head->content_type);
        buffer_add_literal(out, "\r\n");
    }
    if (head->gzip)
        buffer_add_literal(out, "content-encoding: gzip\r\n");
    if (head->close)
        buffer_add_literal(out, "connection: close\r\n");
    if (head->framing == FRAMING_CHUNKED)
        buffer_add_literal(out, "transfer-encoding: chunked\r\n");
    buffer_add_literal(out, "\r\n");
}

void answer_add_opening(struct buffer *out, const struct work *work, struct text object)
{
    buffer_add_literal(out, "{\"id\":\"");
    buffer_add_string(out, work->id);
    buffer_add_literal(out, "\",\"object\":\"");
    buffer_add_text(out, object);
    buffer_add_literal(out, "\",\"created\":");
    buffer_add(out, created_text, created_bytes);
    buffer_add_literal(out, ",\"model\":\"");
    buffer_add_string(out, work->model);
    buffer_add_literal(out, "\"");
}

void answer_add_gzip(struct buffer *out, const struct buffer *plain)
{
    z_stream deflater = {0};

    if (deflateInit2(&deflater, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    size_t bound = deflateBound(&deflater, plain->count);
    buffer_reserve(out, bound);
    deflater.next_in = (unsigned char *)plain->bytes;
    deflater.avail_in = (unsigned)plain->count;
    deflater.next_out = (unsigned char *)out->bytes + out->count;
    deflater.avail_out = (unsigned)bound;
    if (deflate(&deflater, Z_FINISH) != Z_STREAM_END)
        abort();
    out->count += bound - deflater.avail_out;
    deflateEnd(&deflater);
}
