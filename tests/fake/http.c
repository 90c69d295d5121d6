/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/http.c: one HTTP/1.1 request out of bytes.
 *
 * For:       finds where a request ends and the few header fields that a model server reads.
 * Called by: server.c.
 * Knows not: sockets, what paths mean. */
#include "tests/fake/http.h"

#include <strings.h>

enum { HEAD_MOST = 256 * 1024 };

static bool name_is(struct text name, struct text other)
{
    return name.bytes == other.bytes && strncasecmp(name.at, other.at, other.bytes) == 0;
}

static struct text trimmed(const char *begin, const char *end)
{
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return (struct text){begin, (size_t)(end - begin)};
}

static bool read_request_line(struct text line, struct request *request)
{
    const char *end = line.at + line.bytes;
    const char *first = memchr(line.at, ' ', line.bytes);

    if (first == NULL || first == line.at)
        return false;
    const char *second = memchr(first + 1, ' ', (size_t)(end - first - 1));
    if (second == NULL || second == first + 1)
        return false;
    struct text version = {second + 1, (size_t)(end - second - 1)};
    request->method = (struct text){line.at, (size_t)(first - line.at)};
    const char *mark = memchr(first + 1, '?', (size_t)(second - first - 1));
    request->path = (struct text){first + 1, (size_t)((mark != NULL ? mark : second) - first - 1)};
    request->query = mark != NULL ? (struct text){mark + 1, (size_t)(second - mark - 1)}
                                  : (struct text){second, 0};
    request->keep_alive = text_equals(version, TEXT("HTTP/1.1"));
    return request->keep_alive || text_equals(version, TEXT("HTTP/1.0"));
}

static bool read_length(struct text value, size_t *out_length)
{
    size_t length = 0;

    if (value.bytes == 0 || value.bytes > 15)
        return false;
    for (size_t i = 0; i < value.bytes; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return false;
        length = length * 10 + (size_t)(value.at[i] - '0');
    }
    *out_length = length;
    return true;
}

static bool read_field(struct text name, struct text value, struct request *request)
{
    switch (name.bytes) {
    case 6:
        if (name_is(name, TEXT("expect")))
            request->expects_continue = name_is(value, TEXT("100-continue"));
        break;
    case 9:
        if (name_is(name, TEXT("x-api-key")))
            request->api_key = value;
        break;
    case 10:
        if (name_is(name, TEXT("connection")) && name_is(value, TEXT("close"))) {
            request->says_close = true;
            request->keep_alive = false;
        }
        break;
    case 12:
        if (name_is(name, TEXT("content-type")))
            request->content_type = value;
        else if (name_is(name, TEXT("x-request-id")))
            request->request_id = value;
        break;
    case 13:
        if (name_is(name, TEXT("authorization")))
            request->authorization = value;
        break;
    case 14:
        if (name_is(name, TEXT("content-length")))
            return read_length(value, &request->content_length);
        break;
    case 17:
        if (name_is(name, TEXT("transfer-encoding"))) {
            request->chunked = name_is(value, TEXT("chunked"));
            return request->chunked;
        }
        break;
    default:
        break;
    }
    return true;
}

static bool read_head(struct text head, struct request *request)
{
    const char *at = head.at;
    const char *end = head.at + head.bytes;
    bool first = true;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL || newline == at || newline[-1] != '\r')
            return false;
        struct text line = {at, (size_t)(newline - 1 - at)};
        at = newline + 1;
        if (line.bytes == 0)
            return !first;
        if (first) {
            if (!read_request_line(line, request))
                return false;
            first = false;
            continue;
        }
        const char *colon = memchr(line.at, ':', line.bytes);
        if (colon == NULL || colon == line.at || colon[-1] == ' ')
            return false;
        struct text name = {line.at, (size_t)(colon - line.at)};
        if (!read_field(name, trimmed(colon + 1, line.at + line.bytes), request))
            return false;
    }
    return false;
}

/* Finds the end of a chunked body; joins the chunks in place when all are there (`join`). */
static enum http_result read_chunks(char *body, size_t count, bool join, size_t *out_bytes,
                                    size_t *out_used)
{
    size_t at = 0;
    size_t joined = 0;

    for (;;) {
        char *newline = memchr(body + at, '\n', count - at);
        if (newline == NULL)
            return count - at > 64 ? HTTP_BROKEN : HTTP_PARTIAL;
        size_t size = 0;
        size_t digits = 0;
        for (const char *digit = body + at; digit < newline && digits < 8; digit++, digits++) {
            char byte = (char)(*digit | 0x20);
            if (*digit >= '0' && *digit <= '9')
                size = size * 16 + (size_t)(*digit - '0');
            else if (byte >= 'a' && byte <= 'f')
                size = size * 16 + (size_t)(byte - 'a' + 10);
            else
                break;
        }
        if (digits == 0)
            return HTTP_BROKEN;
        at = (size_t)(newline - body) + 1;
        if (size == 0) {
            char *end = memmem(newline - 1, count - at + 2, "\r\n\r\n", 4);
            if (end == NULL)
                return HTTP_PARTIAL;
            *out_bytes = joined;
            *out_used = (size_t)(end - body) + 4;
            return HTTP_WHOLE;
        }
        if (count - at < size + 2)
            return HTTP_PARTIAL;
        if (join)
            memmove(body + joined, body + at, size);
        joined += size;
        at += size + 2;
    }
}

enum http_result http_read(char *bytes, size_t count, struct request *out_request, size_t *out_used)
{
    *out_request = (struct request){0};
    *out_used = count + 1;
    char *end = memmem(bytes, count, "\r\n\r\n", 4);
    if (end == NULL)
        return count > HEAD_MOST ? HTTP_BROKEN : HTTP_PARTIAL;
    size_t head_bytes = (size_t)(end - bytes) + 4;
    char *body = bytes + head_bytes;
    size_t there = count - head_bytes;
    out_request->head = (struct text){bytes, head_bytes};
    if (!read_head(out_request->head, out_request))
        return HTTP_BROKEN;
    if (!out_request->chunked) {
        *out_used = head_bytes + out_request->content_length;
        if (there < out_request->content_length)
            return HTTP_PARTIAL;
        out_request->body = (struct text){body, out_request->content_length};
        return HTTP_WHOLE;
    }
    size_t joined = 0;
    size_t used = 0;
    enum http_result result = read_chunks(body, there, false, &joined, &used);
    if (result != HTTP_WHOLE)
        return result;
    result = read_chunks(body, there, true, &joined, &used);
    out_request->body = (struct text){body, joined};
    *out_used = head_bytes + used;
    return result;
}
