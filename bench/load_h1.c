/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_h1.c: HTTP/1.1 from the client's side.
 *
 * For:       one request at a time on a link: its bytes out, its answer in.
 * Called by: load_client.c (also part of build/soak).
 * Knows not: sockets, what answers mean. */
#include <signal.h>
#include <strings.h>

#include "bench/load_client.h"

enum { LINE_MOST = 64 * 1024 };

void h1_start(struct link *link, struct call *call)
{
    struct buffer *out = &link->out;

    buffer_add_text(out, (struct text){call->form->head.bytes, call->form->head.count});
    if (call->body.bytes > 0) {
        if (out->capacity - out->count < call->body.bytes)
            buffer_grow(out, call->body.bytes);
        call_copy_body(call, 0, call->body.bytes, out->bytes + out->count);
        out->count += call->body.bytes;
    }
    link->call = call;
    link->state = H1_HEAD;
    link->close_after = false;
}

static struct text trimmed(const char *begin, const char *end)
{
    while (begin < end && *begin == ' ')
        begin++;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\r'))
        end--;
    return (struct text){begin, (size_t)(end - begin)};
}

static bool same(struct text text, struct text other)
{
    return text.bytes == other.bytes && strncasecmp(text.at, other.at, other.bytes) == 0;
}

static void take_field(struct link *link, struct text name, struct text value)
{
    if (same(name, TEXT("content-length"))) {
        link->state = H1_LENGTH;
        link->left = 0;
        for (size_t i = 0; i < value.bytes && i < 18; i++)
            link->left = link->left * 10 + (uint64_t)(value.at[i] - '0');
    } else if (same(name, TEXT("transfer-encoding"))) {
        link->state = H1_CHUNK_SIZE;
    } else if (same(name, TEXT("connection"))) {
        link->close_after = link->close_after || same(value, TEXT("close"));
    } else {
        answer_take_field(&link->call->answer, name, value);
    }
}

/* A whole head, with its empty line; false: it is none. */
static bool take_head(struct link *link, const char *at, size_t count)
{
    const char *end = at + count;
    struct answer *answer = &link->call->answer;

    if (count < 15 || memcmp(at, "HTTP/1.1 ", 9) != 0)
        return false;
    int status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
    if (status < 200)
        return true;
    answer->status = status;
    link->state = H1_UNTIL_CLOSE;
    at = (const char *)memchr(at, '\n', count) + 1;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(newline - at));
        if (colon != NULL)
            take_field(link, (struct text){at, (size_t)(colon - at)}, trimmed(colon + 1, newline));
        at = newline + 1;
    }
    if (status == 204 || status == 304) {
        link->state = H1_LENGTH;
        link->left = 0;
    }
    if (link->state == H1_UNTIL_CLOSE)
        link->close_after = true;
    return true;
}

static void finish(struct link *link, enum ending ending)
{
    struct call *call = link->call;

    link->state = H1_HEAD;
    if (ending == ENDING_CUT || link->close_after)
        link_mark_lost(link);
    call_end(call, ending);
}

static bool read_size(struct text line, uint64_t *out_size)
{
    uint64_t size = 0;

    if (line.bytes == 0 || line.bytes > 12)
        return false;
    for (size_t i = 0; i < line.bytes; i++) {
        char byte = line.at[i];
        if (byte >= '0' && byte <= '9')
            size = size * 16 + (uint64_t)(byte - '0');
        else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f')
            size = size * 16 + (uint64_t)((byte | 0x20) - 'a' + 10);
        else
            return false;
    }
    *out_size = size;
    return true;
}

/* Body bytes of a length or chunk; returns how many were used. */
static size_t take_body(struct link *link, const char *at, size_t count)
{
    struct call *call = link->call;
    size_t used = count;

    if (link->state != H1_UNTIL_CLOSE) {
        if (used > link->left)
            used = (size_t)link->left;
        link->left -= used;
    }
    answer_take_body(&call->answer, at, used, link->client->now_ns);
    if (link->state == H1_LENGTH && link->left == 0)
        finish(link, ENDING_WHOLE);
    else if (link->state == H1_CHUNK && link->left == 0)
        link->state = H1_CHUNK_END;
    return used;
}

/* A line of the framing, without its end. false: it breaks the protocol. */
static bool take_line(struct link *link, struct text line)
{
    switch (link->state) {
    case H1_CHUNK_SIZE:
        if (!read_size(line, &link->left))
            return false;
        link->state = link->left == 0 ? H1_TRAILER : H1_CHUNK;
        return true;
    case H1_CHUNK_END:
        link->state = H1_CHUNK_SIZE;
        return line.bytes == 0;
    default:
        if (line.bytes == 0)
            finish(link, ENDING_WHOLE);
        return true;
    }
}

/* One step of the answer; returns the bytes used, 0: more are needed; *out_ok false: protocol
 * broken. */
static size_t take_step(struct link *link, const char *at, size_t count, bool *out_ok)
{
    if (link->state == H1_HEAD) {
        const char *end = memmem(at, count, "\r\n\r\n", 4);
        if (end == NULL) {
            *out_ok = count < LINE_MOST;
            return 0;
        }
        size_t head_bytes = (size_t)(end - at) + 4;
        *out_ok = take_head(link, at, head_bytes);
        if (*out_ok && link->state == H1_LENGTH && link->left == 0)
            finish(link, ENDING_WHOLE);
        return head_bytes;
    }
    if (link->state == H1_LENGTH || link->state == H1_CHUNK || link->state == H1_UNTIL_CLOSE)
        return take_body(link, at, count);
    const char *newline = memchr(at, '\n', count);
    if (newline == NULL) {
        *out_ok = count < LINE_MOST;
        return 0;
    }
    *out_ok = newline > at && newline[-1] == '\r' &&
              take_line(link, (struct text){at, (size_t)(newline - 1 - at)});
    return (size_t)(newline + 1 - at);
}

void h1_take(struct link *link, const char *bytes, size_t count)
{
    bool kept = link->in.count > 0;
    size_t at = 0;
    bool ok = true;

    if (count == 0) {
        finish(link, link->state == H1_UNTIL_CLOSE ? ENDING_WHOLE : ENDING_CUT);
        return;
    }
    if (kept) {
        buffer_add(&link->in, bytes, count);
        bytes = link->in.bytes;
        count = link->in.count;
    }
    while (at < count && link->call != NULL && !link->lost) {
        size_t used = take_step(link, bytes + at, count - at, &ok);
        if (!ok) {
            finish(link, ENDING_CUT);
            return;
        }
        if (used == 0)
            break;
        at += used;
    }
    if (link->lost)
        return;
    if (kept)
        buffer_drop(&link->in, at);
    else
        buffer_add(&link->in, bytes + at, count - at);
    if (link->call == NULL && link->in.count > 0)
        link_mark_lost(link); /* bytes that nobody asked for */
    else if (link->call != NULL && link->client->call_progress != NULL)
        link->client->call_progress(link->call);
}
