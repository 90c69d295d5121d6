/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/counters.c: what this server really did.
 *
 * For:       the truth that tests compare with what a gateway billed; the log; metrics.c
 *            shows it as a model server would.
 * Called by: server.c, control.c, metrics.c, main.c.
 * Knows not: sockets. Tokens are counted when they are handed to a socket, apart from any usage
 *            that is reported. */
#include "tests/fake/counters.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { LOG_BYTES = 256 * 1024 };
#define LOG_WAIT_NS 100000000u

struct counters counters;

static struct buffer log_lines;
static uint64_t log_since_ns; /* when the oldest waiting line was written */
static int log_fd = -1;

static const char *const outcome_names[OUTCOMES] = {"complete", "aborted", "failed"};

void counters_begin(const struct work *work)
{
    counters.prompt_tokens += work->prompt_tokens;
    counters.cached_tokens += work_cached(work);
    if (work->stream)
        counters.open_streams++;
    counters.running++;
    if (counters.running > counters.most_running)
        counters.most_running = counters.running;
}

static void log_finished(const struct work *work, enum outcome outcome, uint64_t now_ns)
{
    if (log_lines.count == 0)
        log_since_ns = now_ns;
    buffer_add_string(&log_lines, work->request_id);
    buffer_add_literal(&log_lines, " ");
    buffer_add_string(&log_lines, work->path);
    buffer_add_literal(&log_lines, " ");
    buffer_add_string(&log_lines, work->model[0] != '\0' ? work->model : "-");
    buffer_add_literal(&log_lines, " ");
    buffer_add_number(&log_lines, (uint64_t)work->status);
    buffer_add_literal(&log_lines, " ");
    buffer_add_number(&log_lines, work->prompt_tokens);
    buffer_add_literal(&log_lines, " ");
    buffer_add_number(&log_lines, work->generated);
    buffer_add_literal(&log_lines, " ");
    buffer_add_string(&log_lines, outcome_names[outcome]);
    buffer_add_literal(&log_lines, "\n");
    if (log_lines.count > LOG_BYTES)
        counters_flush_log();
}

void counters_finish(const struct work *work, enum outcome outcome, uint64_t now_ns)
{
    counters.by_status[work->status]++;
    counters.by_outcome[outcome]++;
    if (outcome == OUTCOME_COMPLETE && work->by_length)
        counters.ended_by_length++;
    if (outcome == OUTCOME_ABORTED)
        counters.last_abort_ns = now_ns;
    counters.running--;
    if (work->stream)
        counters.open_streams--;
    if (log_fd >= 0)
        log_finished(work, outcome, now_ns);
}

void counters_reset(void)
{
    struct counters fresh = {
        .open_connections = counters.open_connections,
        .open_streams = counters.open_streams,
        .running = counters.running,
        .waiting = counters.waiting,
        .used_blocks = counters.used_blocks,
        .all_blocks = counters.all_blocks,
        .most_running = counters.running,
    };
    counters = fresh;
}

static void add_member(struct buffer *out, const char *name, uint64_t value)
{
    buffer_add_literal(out, ",\"");
    buffer_add_string(out, name);
    buffer_add_literal(out, "\":");
    buffer_add_number(out, value);
}

void counters_add_json(struct buffer *out)
{
    bool first = true;

    buffer_add_literal(out, "{\"requests\":");
    buffer_add_number(out, counters.requests);
    buffer_add_literal(out, ",\"by_status\":{");
    for (unsigned status = 0; status < 600; status++) {
        if (counters.by_status[status] == 0)
            continue;
        buffer_add_string(out, first ? "\"" : ",\"");
        buffer_add_number(out, status);
        buffer_add_literal(out, "\":");
        buffer_add_number(out, counters.by_status[status]);
        first = false;
    }
    buffer_add_literal(out, "}");
    add_member(out, "complete", counters.by_outcome[OUTCOME_COMPLETE]);
    add_member(out, "aborted", counters.by_outcome[OUTCOME_ABORTED]);
    add_member(out, "failed", counters.by_outcome[OUTCOME_FAILED]);
    add_member(out, "prompt_tokens", counters.prompt_tokens);
    add_member(out, "generated_tokens", counters.generated_tokens);
    add_member(out, "cached_tokens", counters.cached_tokens);
    add_member(out, "audio_bytes", counters.audio_bytes);
    add_member(out, "preemptions", counters.preemptions);
    add_member(out, "waiting", counters.waiting);
    add_member(out, "used_blocks", counters.used_blocks);
    add_member(out, "open_connections", counters.open_connections);
    add_member(out, "accepted_connections", counters.accepted_connections);
    add_member(out, "open_streams", counters.open_streams);
    add_member(out, "running", counters.running);
    add_member(out, "most_running", counters.most_running);
    add_member(out, "last_abort_ns", counters.last_abort_ns);
    buffer_add_literal(out, "}");
}

bool counters_open_log(const char *path)
{
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return log_fd >= 0;
}

void counters_flush_log(void)
{
    size_t written = 0;

    while (written < log_lines.count) {
        ssize_t count = write(log_fd, log_lines.bytes + written, log_lines.count - written);
        if (count <= 0) {
            perror("fake: log");
            break;
        }
        written += (size_t)count;
    }
    log_lines.count = 0;
}

int counters_log_wait_ms(uint64_t now_ns)
{
    if (log_lines.count == 0)
        return -1;
    if (now_ns - log_since_ns >= LOG_WAIT_NS)
        return 0;
    return (int)((LOG_WAIT_NS - (now_ns - log_since_ns)) / 1000000u) + 1;
}
