/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/counters.c: what this server really did.
 *
 * For:       the truth that tests compare with what a gateway billed; the log, and a model server's
 *            metrics page.
 * Called by: server.c, main.c.
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
static const char *const endpoint_names[] = {"/v1/chat/completions", "/v1/completions",
                                             "/v1/embeddings"};

void counters_begin(const struct work *work)
{
    counters.prompt_tokens += work->prompt_tokens;
    if (work->directive.cached > 0)
        counters.cached_tokens += (uint64_t)work->directive.cached;
    if (work->stream)
        counters.open_streams++;
    counters.running++;
    if (counters.running > counters.most_running)
        counters.most_running = counters.running;
}

static void add_string(struct buffer *out, const char *string)
{
    buffer_add(out, string, strlen(string));
}

static void log_finished(const struct work *work, enum outcome outcome, uint64_t now_ns)
{
    if (log_lines.count == 0)
        log_since_ns = now_ns;
    add_string(&log_lines, work->request_id);
    buffer_add_literal(&log_lines, " ");
    add_string(&log_lines, endpoint_names[work->endpoint]);
    buffer_add_literal(&log_lines, " ");
    add_string(&log_lines, work->model[0] != '\0' ? work->model : "-");
    buffer_add_literal(&log_lines, " ");
    buffer_add_number(&log_lines, (uint64_t)work->status);
    buffer_add_literal(&log_lines, " ");
    buffer_add_number(&log_lines, work->prompt_tokens);
    buffer_add_literal(&log_lines, " ");
    buffer_add_number(&log_lines, work->generated);
    buffer_add_literal(&log_lines, " ");
    add_string(&log_lines, outcome_names[outcome]);
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
        .most_running = counters.running,
    };
    counters = fresh;
}

static void add_member(struct buffer *out, const char *name, uint64_t value)
{
    buffer_add_literal(out, ",\"");
    add_string(out, name);
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
        add_string(out, first ? "\"" : ",\"");
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
    add_member(out, "open_connections", counters.open_connections);
    add_member(out, "accepted_connections", counters.accepted_connections);
    add_member(out, "open_streams", counters.open_streams);
    add_member(out, "running", counters.running);
    add_member(out, "most_running", counters.most_running);
    add_member(out, "last_abort_ns", counters.last_abort_ns);
    buffer_add_literal(out, "}");
}

static void add_metric(struct buffer *out, const char *type, const char *name, const char *label,
                       const char *model, uint64_t value)
{
    char line[768];

    if (type != NULL) {
        int count = snprintf(line, sizeof line, "# TYPE vllm:%s %s\n", name, type);
        buffer_add(out, line, (size_t)count);
    }
    int count =
        snprintf(line, sizeof line, "vllm:%s{engine=\"0\"%s,model_name=\"%.255s\"} %llu.0\n", name,
                 label, model, (unsigned long long)value);
    buffer_add(out, line, (size_t)count);
}

void counters_add_metrics(struct buffer *out, const char *model)
{
    uint64_t stopped = counters.by_outcome[OUTCOME_COMPLETE] - counters.ended_by_length;

    add_metric(out, "gauge", "num_requests_running", "", model, counters.running);
    add_metric(out, "gauge", "num_requests_waiting", "", model, 0);
    add_metric(out, "gauge", "kv_cache_usage_perc", "", model, 0);
    add_metric(out, "counter", "prefix_cache_queries_total", "", model, counters.prompt_tokens);
    add_metric(out, "counter", "prefix_cache_hits_total", "", model, counters.cached_tokens);
    add_metric(out, "counter", "num_preemptions_total", "", model, 0);
    add_metric(out, "counter", "prompt_tokens_total", "", model, counters.prompt_tokens);
    add_metric(out, "counter", "generation_tokens_total", "", model, counters.generated_tokens);
    add_metric(out, "counter", "request_success_total", ",finished_reason=\"stop\"", model,
               stopped);
    add_metric(out, NULL, "request_success_total", ",finished_reason=\"length\"", model,
               counters.ended_by_length);
    add_metric(out, NULL, "request_success_total", ",finished_reason=\"abort\"", model,
               counters.by_outcome[OUTCOME_ABORTED]);
    add_metric(out, NULL, "request_success_total", ",finished_reason=\"error\"", model,
               counters.by_outcome[OUTCOME_FAILED]);
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
