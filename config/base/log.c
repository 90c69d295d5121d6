/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/log.c: lines for the operator that never make a worker wait.
 *
 * For:       two streams of lines, events (to stderr) and accesses (to where the operator says).
 * Called by: every room; log_flush() by the journal's writer thread and at exit.
 * Knows not: what a request is.
 *
 * Each stream has two buffers of 1 MiB: threads append to one under the lock, the flush writes the
 * other without it. A reader of a pipe that stalls costs dropped lines, never a wait of more than
 * STALL_MS a flush. */
#include "config/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/base/behind.h"
#include "config/base/clock.h"
#include "config/base/metrics.h"
#include "config/base/span.h"

#define BUFFER_BYTES ((size_t)1 << 20)
#define MESSAGE_BYTES 1024
#define LINE_BYTES 4096
#define PIPE_PIECE_BYTES 4096 /* what a writable pipe takes without waiting (PIPE_BUF, pipe(7)) */
#define STALL_MS 10

struct stream {
    pthread_mutex_t lock; /* of filling, fill_bytes, dropped */
    char buffers[2][BUFFER_BYTES];
    int filling; /* which buffer takes lines now */
    size_t fill_bytes;
    uint64_t dropped;     /* lines since the last that found room */
    size_t write_bytes;   /* in the other buffer; flush only */
    size_t written;       /* of write_bytes; flush only */
    int fd;               /* -1: nowhere; flush lock */
    bool pieces;          /* a pipe or terminal, which may make a writer wait */
    struct behind behind; /* flush lock */
};

static struct stream events = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .fd = STDERR_FILENO, .pieces = true};
static struct stream accesses = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a stream's lock */
static char *access_path;                                      /* flush_lock; NULL: not a file */
static _Atomic int lowest_level = LOG_INFO;
static atomic_bool access_wanted;
static atomic_bool access_readable;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* Bytes of the UTF-8 sequence at the head of text; 0 when it is not one (RFC 3629). */
static size_t sequence_bytes(const unsigned char *text, size_t size)
{
    const unsigned char lead = text[0];
    size_t bytes;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;

    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        bytes = 2;
    else if ((lead & 0xf0) == 0xe0)
        bytes = 3;
    else if (lead >= 0xf0 && lead <= 0xf4)
        bytes = 4;
    else
        return 0;
    if (lead == 0xe0)
        low = 0xa0;
    if (lead == 0xed)
        high = 0x9f;
    if (lead == 0xf0)
        low = 0x90;
    if (lead == 0xf4)
        high = 0x8f;
    if (size < bytes || text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

bool log_is_utf8(struct span text)
{
    for (size_t at = 0, bytes; at < text.size; at += bytes) {
        bytes = sequence_bytes((const unsigned char *)text.data + at, text.size - at);
        if (bytes == 0)
            return false;
    }
    return true;
}

size_t log_escape(struct span text, char *out, size_t room)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;

    for (size_t at = 0; at < text.size;) {
        const unsigned char *byte = (const unsigned char *)text.data + at;
        const size_t bytes = sequence_bytes(byte, text.size - at);
        char escape[8];
        size_t size;

        if (bytes == 0) {
            memcpy(escape, "\\ufffd", size = 6); /* not UTF-8: the replacement character */
        } else if (*byte == '"' || *byte == '\\') {
            escape[0] = '\\';
            escape[1] = (char)*byte;
            size = 2;
        } else if (*byte < 0x20 || *byte == 0x7f) {
            memcpy(escape, "\\u00", 4);
            escape[4] = digits[*byte >> 4];
            escape[5] = digits[*byte & 15];
            size = 6;
        } else {
            memcpy(escape, byte, size = bytes);
        }
        if (size > room - used)
            break;
        memcpy(out + used, escape, size);
        used += size;
        at += bytes == 0 ? 1 : bytes;
    }
    return used;
}

/* Appends one line whole, or counts it as dropped. Takes the stream's lock. */
static void append(struct stream *stream, const char *line, size_t size)
{
    bool taken;

    (void)pthread_mutex_lock(&stream->lock);
    taken = size <= BUFFER_BYTES - stream->fill_bytes;
    if (taken) {
        memcpy(stream->buffers[stream->filling] + stream->fill_bytes, line, size);
        stream->fill_bytes += size;
    } else {
        stream->dropped++;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (!taken)
        metric_add(METRIC_log_lines_dropped_total, 1);
}

/* Text to out, room left for what follows; returns the new size. */
static size_t put(char *out, size_t size, size_t room, const char *text)
{
    const size_t bytes = strlen(text);

    if (bytes > room - size)
        return size;
    memcpy(out + size, text, bytes);
    return size + bytes;
}

static size_t put_time(char *out, size_t size, size_t room)
{
    const int64_t now_us = clock_wall_us();
    const time_t seconds = (time_t)(now_us / 1000000);
    struct tm parts;
    char text[80];

    (void)gmtime_r(&seconds, &parts);
    (void)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                   parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                   (int)(now_us / 1000 % 1000));
    return put(out, size, room, text);
}

__attribute__((__format__(__printf__, 3, 0))) static void append_event(enum log_level level,
                                                                       const char *event,
                                                                       const char *format,
                                                                       va_list arguments)
{
    char message[MESSAGE_BYTES];
    char line[LINE_BYTES];
    const size_t room = sizeof(line) - 3; /* "}\n behind the message always fit */
    const bool readable = isatty(events.fd) == 1;
    size_t size = 0;

    if (vsnprintf(message, sizeof(message), format, arguments) < 0)
        message[0] = '\0';
    size = put(line, size, room, readable ? "" : "{\"time\":\"");
    size = put_time(line, size, room);
    size = put(line, size, room, readable ? " " : "\",\"level\":\"");
    size = put(line, size, room, level_names[level]);
    size = put(line, size, room, readable ? " " : "\",\"event\":\"");
    size += log_escape(span_of(event), line + size, room - size);
    size = put(line, size, room, readable ? ": " : "\",\"message\":\"");
    size += log_escape(span_of(message), line + size, room - size);
    size = put(line, size, sizeof(line), readable ? "\n" : "\"}\n");
    append(&events, line, size);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    va_list arguments;

    if ((int)level < atomic_load_explicit(&lowest_level, memory_order_relaxed))
        return;
    va_start(arguments, format);
    append_event(level, event, format, arguments);
    va_end(arguments);
}

bool log_access_wanted(void)
{
    return atomic_load_explicit(&access_wanted, memory_order_relaxed);
}

bool log_access_readable(void)
{
    return atomic_load_explicit(&access_readable, memory_order_relaxed);
}

void log_access(struct span line)
{
    if (log_access_wanted())
        append(&accesses, line.data, line.size);
}

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

/* Writes to fd from now on; closes the file written before. Flush lock held. */
static void direct_accesses(int fd)
{
    struct stat about;

    if (accesses.fd > STDERR_FILENO)
        (void)close(accesses.fd);
    accesses.fd = fd;
    accesses.behind = (struct behind){0, 0, 0};
    accesses.pieces = fd >= 0 && (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode));
    atomic_store(&access_readable, fd >= 0 && isatty(fd) == 1);
    atomic_store(&access_wanted, fd >= 0);
}

bool log_open(const char *access, enum log_level level)
{
    char *path = NULL;
    int fd = -1;

    if (strcmp(access, "stdout") == 0) {
        fd = STDOUT_FILENO;
    } else if (strcmp(access, "stderr") == 0) {
        fd = STDERR_FILENO;
    } else if (strcmp(access, "none") != 0) {
        path = strdup(access);
        if (path == NULL)
            return false;
        fd = open_file(path);
        if (fd < 0) {
            free(path);
            return false;
        }
    }
    (void)pthread_mutex_lock(&flush_lock);
    direct_accesses(fd);
    free(access_path);
    access_path = path;
    (void)pthread_mutex_unlock(&flush_lock);
    atomic_store(&lowest_level, (int)level);
    return true;
}

void log_reopen(void)
{
    bool failed = false;

    (void)pthread_mutex_lock(&flush_lock);
    if (access_path != NULL) {
        const int fd = open_file(access_path);

        failed = fd < 0;
        if (!failed)
            direct_accesses(fd);
    }
    (void)pthread_mutex_unlock(&flush_lock);
    if (failed)
        log_event(LOG_ERROR, "log_reopen_failed", "the access log cannot be opened again: %s",
                  strerror(errno));
}

/* Writes what is left of the buffer being written. false: the reader does not keep up. */
static bool write_rest(struct stream *stream)
{
    const char *buffer = stream->buffers[1 - stream->filling];

    while (stream->written < stream->write_bytes) {
        size_t piece = stream->write_bytes - stream->written;
        struct pollfd wait = {.fd = stream->fd, .events = POLLOUT};
        ssize_t wrote;

        if (stream->fd < 0)
            break;
        if (stream->pieces) {
            if (piece > PIPE_PIECE_BYTES)
                piece = PIPE_PIECE_BYTES;
            if (poll(&wait, 1, STALL_MS) == 0)
                return false;
        }
        wrote = write(stream->fd, buffer + stream->written, piece);
        if (wrote >= 0) {
            stream->written += (size_t)wrote;
            if (!stream->pieces)
                behind_wrote(&stream->behind, stream->fd, (size_t)wrote);
        } else if (errno == EAGAIN)
            return false;
        else if (errno != EINTR)
            break; /* closed, or a full disk: these lines are lost, and there is nowhere to say so
                    */
    }
    stream->write_bytes = 0;
    stream->written = 0;
    return true;
}

/* Writes what has gathered. Flush lock held. Returns the lines dropped since the last time. */
static uint64_t flush_stream(struct stream *stream)
{
    uint64_t dropped;

    if (!write_rest(stream))
        return 0;
    (void)pthread_mutex_lock(&stream->lock);
    stream->write_bytes = stream->fill_bytes;
    stream->filling = 1 - stream->filling;
    stream->fill_bytes = 0;
    dropped = stream->dropped;
    stream->dropped = 0;
    (void)pthread_mutex_unlock(&stream->lock);
    (void)write_rest(stream); /* what a stalled reader leaves is for the next flush */
    return dropped;
}

void log_flush(void)
{
    uint64_t dropped;

    (void)pthread_mutex_lock(&flush_lock);
    dropped = flush_stream(&accesses);
    dropped += flush_stream(&events);
    (void)pthread_mutex_unlock(&flush_lock);
    if (dropped > 0)
        log_event(LOG_WARN, "log_lines_dropped", "%llu line%s found no room",
                  (unsigned long long)dropped, span_plural(dropped));
}
