/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_answer.c: what an answer says, read as it comes.
 *
 * For:       counts events and tokens (`w0 w1 ...`, as the simulated model server writes them),
 *            finds usage, [DONE],
 *            error events and send times, so that every answer can be judged.
 * Called by: load_client.c, load_h1.c, load_h2.c (also part of build/soak).        (zlib)
 * Knows not: HTTP framing, sockets. */
#include "bench/load_answer.h"

#include <stdlib.h>
#include <strings.h>

static void stop_inflating(struct answer *answer)
{
    if (answer->inflate == NULL)
        return;
    inflateEnd(answer->inflate);
    free(answer->inflate);
    answer->inflate = NULL;
}

void answer_begin(struct answer *answer)
{
    stop_inflating(answer);
    struct buffer rest = answer->rest;
    struct histogram *delivery = answer->delivery;

    rest.count = 0;
    *answer =
        (struct answer){.usage_input = -1, .usage_output = -1, .delivery = delivery, .rest = rest};
}

void answer_fini(struct answer *answer)
{
    stop_inflating(answer);
    buffer_fini(&answer->rest);
}

static bool name_is(struct text name, struct text other)
{
    return name.bytes == other.bytes && strncasecmp(name.at, other.at, other.bytes) == 0;
}

static void copy_value(char *to, size_t room, struct text value)
{
    size_t count = value.bytes < room - 1 ? value.bytes : room - 1;

    memcpy(to, value.at, count);
    to[count] = '\0';
}

void answer_take_field(struct answer *answer, struct text name, struct text value)
{
    if (name_is(name, TEXT("content-type")))
        answer->streamed = value.bytes >= 17 && strncasecmp(value.at, "text/event-stream", 17) == 0;
    else if (name_is(name, TEXT("content-encoding")))
        answer->encoded = name_is(value, TEXT("gzip"));
    else if (name_is(name, TEXT("x-tollgate-model")))
        copy_value(answer->model, sizeof answer->model, value);
    else if (name_is(name, TEXT("x-tollgate-replica")))
        copy_value(answer->replica, sizeof answer->replica, value);
}

static const char *find(const char *at, const char *end, struct text needle)
{
    return memmem(at, (size_t)(end - at), needle.at, needle.bytes);
}

/* Digits at a place; *out_end is the first byte behind them. */
static uint64_t read_number(const char *at, const char *end, const char **out_end)
{
    uint64_t number = 0;

    while (at < end && *at >= '0' && *at <= '9')
        number = number * 10 + (uint64_t)(*at++ - '0');
    *out_end = at;
    return number;
}

/* Content as the simulated server writes it: words `w<number> ` are tokens, `t<ns> ` is the time of
 * sending. */
static uint64_t read_content(struct answer *answer, const char *at, const char *end,
                             uint64_t now_ns)
{
    uint64_t tokens = 0;

    while (at < end && *at != '"') {
        const char *behind;
        char kind = *at++;
        if (kind != 'w' && kind != 't')
            continue;
        uint64_t number = read_number(at, end, &behind);
        if (behind == at || behind == end || *behind != ' ')
            continue;
        at = behind + 1;
        if (kind == 'w')
            tokens++;
        else if (answer->delivery != NULL && now_ns >= number)
            histogram_add(answer->delivery, (now_ns - number) / 1000);
    }
    answer->tokens += tokens;
    return tokens;
}

static void read_usage(struct answer *answer, const char *at, const char *end)
{
    const char *behind;
    const char *usage = find(at, end, TEXT("\"usage\":{"));

    if (usage == NULL)
        return;
    answer->usage_shown = true;
    const char *input = find(usage, end, TEXT("\"prompt_tokens\":"));
    const char *output = find(usage, end, TEXT("\"completion_tokens\":"));
    if (input != NULL)
        answer->usage_input = (int64_t)read_number(input + 16, end, &behind);
    if (output != NULL)
        answer->usage_output = (int64_t)read_number(output + 20, end, &behind);
}

/* The contents of all choices in a text; returns their tokens. */
static uint64_t read_contents(struct answer *answer, const char *at, const char *end,
                              uint64_t now_ns)
{
    struct text name = find(at, end, TEXT("\"content\":\"")) != NULL ? TEXT("\"content\":\"")
                                                                     : TEXT("\"text\":\"");
    uint64_t tokens = 0;

    for (const char *content = find(at, end, name); content != NULL;
         content = find(content, end, name)) {
        content += name.bytes;
        tokens += read_content(answer, content, end, now_ns);
    }
    return tokens;
}

/* One line of an event stream, without its end. */
static void read_line(struct answer *answer, const char *at, const char *end, uint64_t now_ns)
{
    if (at == end || *at == ':')
        return;
    if (end - at < 6 || memcmp(at, "data: ", 6) != 0) {
        answer->broken = true;
        return;
    }
    at += 6;
    if (answer->done) {
        answer->broken = true;
    } else if (end - at == 6 && memcmp(at, "[DONE]", 6) == 0) {
        answer->done = true;
    } else {
        answer->events++;
        if (read_contents(answer, at, end, now_ns) > 0) {
            answer->token_events++;
            if (answer->first_token_ns == 0)
                answer->first_token_ns = now_ns;
        } else if (end - at > 9 && memcmp(at, "{\"error\":", 9) == 0) {
            answer->failed = true;
        }
        read_usage(answer, at, end);
    }
}

/* Reads all whole lines; returns how many bytes they have. */
static size_t read_lines(struct answer *answer, const char *bytes, size_t count, uint64_t now_ns)
{
    const char *at = bytes;
    const char *end = bytes + count;
    const char *newline;

    while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        const char *line_end = newline > at && newline[-1] == '\r' ? newline - 1 : newline;
        read_line(answer, at, line_end, now_ns);
        at = newline + 1;
    }
    return (size_t)(at - bytes);
}

static void take_plain(struct answer *answer, const char *bytes, size_t count, uint64_t now_ns)
{
    if (!answer->streamed) {
        buffer_add(&answer->rest, bytes, count);
    } else if (answer->rest.count == 0) {
        size_t used = read_lines(answer, bytes, count, now_ns);
        buffer_add(&answer->rest, bytes + used, count - used);
    } else {
        buffer_add(&answer->rest, bytes, count);
        size_t used = read_lines(answer, answer->rest.bytes, answer->rest.count, now_ns);
        buffer_drop(&answer->rest, used);
    }
}

static void take_encoded(struct answer *answer, const char *bytes, size_t count, uint64_t now_ns)
{
    char plain[16384];

    if (answer->inflate == NULL) {
        answer->inflate = calloc(1, sizeof *answer->inflate);
        if (answer->inflate == NULL || inflateInit2(answer->inflate, 15 + 16) != Z_OK)
            abort();
    }
    answer->inflate->next_in = (unsigned char *)(uintptr_t)bytes;
    answer->inflate->avail_in = (unsigned)count;
    do {
        answer->inflate->next_out = (unsigned char *)plain;
        answer->inflate->avail_out = sizeof plain;
        int result = inflate(answer->inflate, Z_SYNC_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
            answer->broken = true;
            return;
        }
        take_plain(answer, plain, sizeof plain - answer->inflate->avail_out, now_ns);
    } while (answer->inflate->avail_out == 0);
}

void answer_take_body(struct answer *answer, const char *bytes, size_t count, uint64_t now_ns)
{
    answer->body_bytes += count;
    if (answer->encoded)
        take_encoded(answer, bytes, count, now_ns);
    else
        take_plain(answer, bytes, count, now_ns);
}

void answer_end(struct answer *answer)
{
    struct buffer *rest = &answer->rest;

    if (answer->streamed) {
        answer->broken = answer->broken || rest->count > 0;
        return;
    }
    if (rest->count == 0)
        return;
    answer->broken = answer->broken || rest->bytes[0] != '{' || rest->bytes[rest->count - 1] != '}';
    read_contents(answer, rest->bytes, rest->bytes + rest->count, 0);
    read_usage(answer, rest->bytes, rest->bytes + rest->count);
}
