/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/sse.c: splits and writes server-sent events.
 *
 * For:       whole events out of bytes that were cut anywhere (WHATWG HTML, section 9.2.6).
 * Called by: relay.c.
 * Knows not: what is in an event. */
#include "gateway/sse.h"

#include "gateway/bytes.h"

size_t sse_next(struct sse *sse, struct span bytes)
{
    if (sse->scanned >= bytes.size)
        return 0;

    const char *end = bytes.data + bytes.size;
    const char *at = bytes.data + sse->scanned;
    bool line_full = sse->line_full;

    if (*at == '\n' && (sse->after_cr || (sse->scanned == 0 && sse->had_lf_due)))
        at++;
    for (;;) {
        const char *stop = bytes_find_line_end(at, end);

        line_full = line_full || stop > at;
        if (stop == end) {
            *sse = (struct sse){.scanned = bytes.size, .line_full = line_full};
            return 0;
        }

        const bool cr = *stop == '\r';

        at = stop + 1;
        if (cr && at < end && *at == '\n')
            at++;
        if (!line_full) {
            *sse = (struct sse){.had_lf_due = cr && at == end && end[-1] == '\r'};
            return (size_t)(at - bytes.data);
        }
        line_full = false;
        if (at == end) {
            *sse = (struct sse){.scanned = bytes.size, .after_cr = end[-1] == '\r'};
            return 0;
        }
    }
}

/* Takes the first line, without its end, from the front of *rest. */
static bool next_line(struct span *rest, struct span *out_line)
{
    if (rest->size == 0)
        return false;

    const char *end = rest->data + rest->size;
    const char *stop = bytes_find_line_end(rest->data, end);

    *out_line = (struct span){rest->data, (size_t)(stop - rest->data)};
    if (stop < end)
        stop += *stop == '\r' && end - stop >= 2 && stop[1] == '\n' ? 2 : 1;
    *rest = (struct span){stop, (size_t)(end - stop)};
    return true;
}

/* The value of a data line: behind the colon and one space. */
static bool data_of_line(struct span line, struct span *out_value)
{
    if (!span_starts(line, SPAN("data")))
        return false;
    *out_value = span_from(line, 4);
    if (out_value->size == 0)
        return true;
    if (out_value->data[0] != ':')
        return false;
    *out_value = span_from(*out_value, 1);
    if (out_value->size > 0 && out_value->data[0] == ' ')
        *out_value = span_from(*out_value, 1);
    return true;
}

struct span sse_data(struct span event, char *scratch)
{
    struct span data = {NULL, 0};
    bool joined = false;
    struct span line;
    struct span value;

    /* The LF of the line end before may stand in front. And a stream may begin with a byte order
     * mark, which is no part of its first line. */
    if (event.size > 1 && event.data[0] == '\n')
        event = span_from(event, 1);
    if (span_starts(event, SPAN("\xef\xbb\xbf")))
        event = span_from(event, 3);
    while (next_line(&event, &line)) {
        if (!data_of_line(line, &value))
            continue;
        if (data.data == NULL) {
            data = value;
            continue;
        }
        if (!joined && data.size > 0)
            memcpy(scratch, data.data, data.size);
        scratch[data.size] = '\n';
        if (value.size > 0)
            memcpy(scratch + data.size + 1, value.data, value.size);
        data = (struct span){scratch, data.size + 1 + value.size};
        joined = true;
    }
    return data;
}

bool sse_is_done(struct span data)
{
    while (data.size > 0 && data.data[0] == ' ')
        data = span_from(data, 1);
    while (data.size > 0 && data.data[data.size - 1] == ' ')
        data.size--;
    return span_equal(data, SPAN("[DONE]"));
}
