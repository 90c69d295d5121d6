/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/metrics.c: GET /metrics, with the names of each kind.
 *
 * For:       what a gateway scrapes; every number is one of counters.h.
 * Called by: control.c.
 * Knows not: requests.
 *
 * Sources: vllm/v1/metrics/loggers.py (prefix cache counts tokens; the old names left in November
 * 2025), SGLang srt/observability/metrics_collector.py, llama.cpp tools/server/README.md, TGI
 * docs/source/reference/metrics.md (lengths are histograms, successes a counter). */
#include "tests/fake/metrics.h"

#include <stdio.h>

#include "tests/fake/counters.h"
#include "tests/fake/kind.h"

/* `# TYPE NAME TYPE` (type NULL: it stands there already), `NAME{LABELS} VALUE`. */
static void add_metric(struct buffer *out, const char *type, const char *name, const char *labels,
                       double value)
{
    char line[1024];
    int count;

    if (type != NULL) {
        count = snprintf(line, sizeof line,
                         "# HELP %s As the simulated server counts it.\n"
                         "# TYPE %s %s\n",
                         name, name, type);
        buffer_add(out, line, (size_t)count);
    }
    count = snprintf(line, sizeof line, "%s%s %.12g%s\n", name, labels, value,
                     value == (double)(uint64_t)value ? ".0" : "");
    buffer_add(out, line, (size_t)count);
}

static double kv_usage(void)
{
    return counters.all_blocks == 0 ? 0 : (double)counters.used_blocks / counters.all_blocks;
}

/* Requests in the execution batch: all but those that wait. */
static unsigned running(void)
{
    return counters.running > counters.waiting ? counters.running - counters.waiting : 0;
}

static void add_vllm_ends(struct buffer *out, const char *model)
{
    static const char name[] = "vllm:request_success_total";
    const struct {
        const char *reason;
        uint64_t count;
    } ends[] = {
        {"stop", counters.by_outcome[OUTCOME_COMPLETE] - counters.ended_by_length},
        {"length", counters.ended_by_length},
        {"abort", counters.by_outcome[OUTCOME_ABORTED]},
        {"error", counters.by_outcome[OUTCOME_FAILED]},
    };

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char labels[512];
        snprintf(labels, sizeof labels,
                 "{engine=\"0\",finished_reason=\"%s\",model_name=\"%.255s\"}", ends[i].reason,
                 model);
        add_metric(out, i == 0 ? "counter" : NULL, name, labels, (double)ends[i].count);
    }
}

static void add_vllm(struct buffer *out, const char *model)
{
    char labels[512];
    bool old = dialect.old_metrics;

    snprintf(labels, sizeof labels, "{engine=\"0\",model_name=\"%.255s\"}", model);
    add_metric(out, "gauge", "vllm:num_requests_running", labels, running());
    add_metric(out, "gauge", "vllm:num_requests_waiting", labels, counters.waiting);
    add_metric(out, "gauge", old ? "vllm:gpu_cache_usage_perc" : "vllm:kv_cache_usage_perc", labels,
               kv_usage());
    add_metric(out, "counter",
               old ? "vllm:gpu_prefix_cache_queries_total" : "vllm:prefix_cache_queries_total",
               labels, (double)counters.prompt_tokens);
    add_metric(out, "counter",
               old ? "vllm:gpu_prefix_cache_hits_total" : "vllm:prefix_cache_hits_total", labels,
               (double)counters.cached_tokens);
    add_metric(out, "counter", "vllm:num_preemptions_total", labels, (double)counters.preemptions);
    add_metric(out, "counter", "vllm:prompt_tokens_total", labels, (double)counters.prompt_tokens);
    add_metric(out, "counter", "vllm:generation_tokens_total", labels,
               (double)counters.generated_tokens);
    add_vllm_ends(out, model);
}

static void add_sglang(struct buffer *out, const char *model)
{
    char labels[512];
    double prompt = (double)counters.prompt_tokens;

    snprintf(labels, sizeof labels,
             "{engine_type=\"unified\",model_name=\"%.255s\",pp_rank=\"0\",tp_rank=\"0\"}", model);
    add_metric(out, "gauge", "sglang:num_running_reqs", labels, running());
    add_metric(out, "gauge", "sglang:num_queue_reqs", labels, counters.waiting);
    add_metric(out, "gauge", "sglang:token_usage", labels, kv_usage());
    add_metric(out, "gauge", "sglang:cache_hit_rate", labels,
               prompt > 0 ? (double)counters.cached_tokens / prompt : 0);
    add_metric(out, "gauge", "sglang:num_retracted_reqs", labels, (double)counters.preemptions);
    add_metric(out, "counter", "sglang:prompt_tokens_total", labels, prompt);
    add_metric(out, "counter", "sglang:generation_tokens_total", labels,
               (double)counters.generated_tokens);
    add_metric(out, "counter", "sglang:cached_tokens_total", labels,
               (double)counters.cached_tokens);
    add_metric(out, "counter", "sglang:num_requests_total", labels, (double)counters.requests);
    add_metric(out, "counter", "sglang:num_aborted_requests_total", labels,
               (double)counters.by_outcome[OUTCOME_ABORTED]);
}

static void add_llamacpp(struct buffer *out)
{
    uint64_t fresh = counters.prompt_tokens > counters.cached_tokens
                         ? counters.prompt_tokens - counters.cached_tokens
                         : 0;

    add_metric(out, "counter", "llamacpp:prompt_tokens_total", "", (double)fresh);
    add_metric(out, "counter", "llamacpp:tokens_predicted_total", "",
               (double)counters.generated_tokens);
    add_metric(out, "gauge", "llamacpp:requests_processing", "", running());
    add_metric(out, "gauge", "llamacpp:requests_deferred", "", counters.waiting);
    if (dialect.old_metrics)
        add_metric(out, "gauge", "llamacpp:kv_cache_usage_ratio", "", kv_usage());
}

/* A histogram with one bucket: its sum and count are what can be read from it. */
static void add_histogram(struct buffer *out, const char *name, uint64_t sum)
{
    char part[128];

    snprintf(part, sizeof part, "%s_bucket", name);
    buffer_add_literal(out, "# TYPE ");
    buffer_add_string(out, name);
    buffer_add_literal(out, " histogram\n");
    add_metric(out, NULL, part, "{le=\"+Inf\"}", (double)counters.by_outcome[OUTCOME_COMPLETE]);
    snprintf(part, sizeof part, "%s_sum", name);
    add_metric(out, NULL, part, "", (double)sum);
    snprintf(part, sizeof part, "%s_count", name);
    add_metric(out, NULL, part, "", (double)counters.by_outcome[OUTCOME_COMPLETE]);
}

static void add_tgi(struct buffer *out)
{
    add_metric(out, "gauge", "tgi_batch_current_size", "", running());
    add_metric(out, "gauge", "tgi_queue_size", "", counters.waiting);
    add_metric(out, "counter", "tgi_request_count", "", (double)counters.requests);
    add_metric(out, "counter", "tgi_request_success", "",
               (double)counters.by_outcome[OUTCOME_COMPLETE]);
    add_metric(out, "counter", "tgi_request_failure", "{err=\"overloaded\"}",
               (double)counters.by_status[429]);
    add_histogram(out, "tgi_request_input_length", counters.prompt_tokens);
    add_histogram(out, "tgi_request_generated_tokens", counters.generated_tokens);
}

void metrics_add(struct buffer *out, struct text model)
{
    char name[256];

    snprintf(name, sizeof name, "%.*s", (int)(model.bytes < 255 ? model.bytes : 255), model.at);
    switch (dialect.kind) {
    case KIND_VLLM:
        add_vllm(out, name);
        break;
    case KIND_SGLANG:
        add_sglang(out, name);
        break;
    case KIND_LLAMACPP:
        add_llamacpp(out);
        break;
    case KIND_TGI:
        add_tgi(out);
        break;
    default:
        break;
    }
}
