/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/admin.c: see admin.h.
 *
 * For:       what the operator asks of one running process.
 * Called by: steps.c.
 * Knows not: how the numbers come about; each room's door is asked for them. */
#include "gateway/admin.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/metrics.h"
#include "gateway/identity.h"
#include "gateway/reply.h"
#include "gateway/server.h"
#include "gateway/usage_api.h"
#include "meter/meter.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- answers ---- */

/* Answers with a JSON tree, which it frees. */
static void answer_json(struct exchange *x, int status, json_t *tree)
{
    char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;

    json_decref(tree);
    if (text == NULL) {
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
        return;
    }
    reply_body(x, status, SPAN("application/json"), span_of(text));
    free(text);
}

static bool is_reading(const struct exchange *x)
{
    return span_equal(x->method, SPAN("GET")) || span_equal(x->method, SPAN("HEAD"));
}

/* ---- health ---- */

/* {"status":"ok"}, or what is missing. */
static void answer_ready(struct exchange *x)
{
    json_t *reasons = json_array();
    bool ready = true;
    const struct {
        bool missing;
        const char *reason;
    } checks[] = {
        {x->worker->draining, "draining: no new work is taken"},
        {!router_ready(x->config), "no replica of any model can take work"},
        {!meter_ready(x->worker->server->meter), "the journal cannot be written"},
    };

    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].missing) {
            ready = false;
            (void)json_array_append_new(reasons, json_string(checks[i].reason));
        }
    json_t *tree = json_pack("{s:s}", "status", ready ? "ok" : "not_ready");
    if (!ready)
        (void)json_object_set(tree, "reasons", reasons);
    json_decref(reasons);
    answer_json(x, ready ? 200 : 503, tree);
}

bool admin_answer_health(struct exchange *x)
{
    /* The second names are LiteLLM's: its users have probes set up with them. */
    const bool live = span_equal(x->path, SPAN("/livez")) ||
                      span_equal(x->path, SPAN("/health/liveliness")) ||
                      span_equal(x->path, SPAN("/health/liveness"));

    if (!live && !span_equal(x->path, SPAN("/readyz")) &&
        !span_equal(x->path, SPAN("/health/readiness")))
        return false;
    if (!is_reading(x))
        reply_method_error(x, SPAN("GET, HEAD"));
    else if (live)
        reply_body(x, 200, SPAN("application/json"), SPAN("{\"status\":\"ok\"}"));
    else
        answer_ready(x);
    return true;
}

/* ---- metrics: Prometheus text format 0.0.4 ---- */

static void print_family(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_single(FILE *out, const char *name, const char *type, const char *help,
                         int64_t value)
{
    print_family(out, name, type, help);
    fprintf(out, "%s %lld\n", name, (long long)value);
}

/* The inside of a label's quotes. */
static void print_label(FILE *out, struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\n') {
            fputs("\\n", out);
            continue;
        }
        if (text.data[i] == '"' || text.data[i] == '\\')
            fputc('\\', out);
        fputc(text.data[i], out);
    }
}

static void print_table(FILE *out)
{
    char name[96];

    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = metric_row((enum metric)i);
        (void)snprintf(name, sizeof name, "tollgate_%s", row->name);
        print_single(out, name, row->type, row->help, metric_value((enum metric)i));
    }
}

/* One row per number of a replica: name, type, how it is read from its view, help. */
/* clang-format off */
#define REPLICA_FAMILIES(FAMILY)                                                                  \
    FAMILY(up, "gauge", view->health != REPLICA_OUT && !view->drained, "1: takes work")           \
    FAMILY(drained, "gauge", view->drained, "1: drained by the operator")                         \
    FAMILY(slots, "gauge", view->slots, "requests it takes at once")                              \
    FAMILY(busy, "gauge", view->busy, "requests it works on now")                                 \
    FAMILY(work_tokens, "gauge", view->work, "estimated tokens outstanding")                      \
    FAMILY(attempts_total, "counter", (int64_t)view->attempts, "attempts that ended")             \
    FAMILY(failures_total, "counter", (int64_t)view->failures, "attempts that failed")            \
    FAMILY(strikes, "gauge", (int64_t)view->strikes, "failures in a row that count against it")   \
    LOAD_ROWS(ENGINE)                                                                             \
    FAMILY(engine_age_ms, "gauge",                                                                \
           view->load_ns ? (int64_t)((clock_now_ns() - view->load_ns) / NS_PER_MS) : -1,          \
           "how old what it says is")                                                             \
    FAMILY(prompt_tokens_total, "counter", account->prompt_tokens,                                \
           "prompt tokens, as we count them: of attempts that ended")                             \
    FAMILY(generation_tokens_total, "counter", account->generation_tokens,                        \
           "generated tokens, as we count them: of attempts that ended")                          \
    FAMILY(drift_age_ms, "gauge", account->drift_age_ms,                                          \
           "since the engine's counters were compared with ours")                                 \
    FAMILY(engine_restarts_total, "counter", (int64_t)account->engine_restarts,                   \
           "times the engine's counters fell: the comparison began anew")                         \
    FAMILY(tokens_per_hour, "gauge", account->tokens_per_hour,                                    \
           "tokens that had to be computed, in the last hour")                                    \
    FAMILY(unit_cost_pusd, "gauge", account->unit_cost_pusd,                                      \
           "what such a token costs us, in picodollars")
#define ENGINE(id, name, type, help) ENGINE_##type(id, name, help)
#define ENGINE_gauge(id, name, help)                                                              \
    FAMILY(engine_##name, "gauge", view->load.values[LOAD_##id], help)
#define ENGINE_counter(id, name, help)                                                            \
    FAMILY(engine_##name##_total, "counter", view->load.values[LOAD_##id], help)
/* clang-format on */

#define FAMILY(name, type, expression, help)                                                       \
    static int64_t replica_##name(const struct router_replica_view *view,                          \
                                  const struct meter_replica_view *account)                        \
    {                                                                                              \
        (void)view, (void)account;                                                                 \
        return expression;                                                                         \
    }
REPLICA_FAMILIES(FAMILY)
#undef FAMILY

static const struct replica_family {
    const char *name, *type, *help;
    int64_t (*read)(const struct router_replica_view *view,
                    const struct meter_replica_view *account);
} replica_families[] = {
#define FAMILY(name, type, expression, help)                                                       \
    {"tollgate_replica_" #name, type, help, replica_##name},
    REPLICA_FAMILIES(FAMILY)
#undef FAMILY
};

/* A line of a family; more: further labels. */
static void print_of_replica(FILE *out, const char *family, const struct config_model *model,
                             uint32_t replica, const char *more, int64_t value)
{
    fprintf(out, "%s{model_id=\"", family);
    print_label(out, model->name);
    fputs("\",replica=\"", out);
    print_label(out, model->replicas[replica].name);
    fprintf(out, "\"%s} %lld\n", more, (long long)value);
}

static void print_replica_family(FILE *out, const struct replica_family *family,
                                 const struct config *config)
{
    print_family(out, family->name, family->type, family->help);
    for (uint32_t i = 0; i < config->model_count; i++) {
        const struct config_model *model = &config->models[i];
        for (uint32_t k = 0; k < model->replica_count; k++) {
            struct router_replica_view view;
            struct meter_replica_view account;
            router_view(&model->replicas[k], &view);
            meter_replica_view(&model->replicas[k], config, clock_now_ns(), &account);
            const int64_t value = family->read(&view, &account);
            if (value >= 0) /* else it is not known */
                print_of_replica(out, family->name, model, k, "", value);
        }
    }
}

/* Engine − ours: the one number of a replica that may be negative. */
static void print_drift(FILE *out, const struct config *config)
{
    print_family(out, "tollgate_replica_drift_tokens", "gauge",
                 "tokens that the engine has counted beyond ours, when last compared");
    for (uint32_t i = 0; i < config->model_count; i++) {
        const struct config_model *model = &config->models[i];
        for (uint32_t k = 0; k < model->replica_count; k++) {
            struct meter_replica_view account;
            meter_replica_view(&model->replicas[k], config, clock_now_ns(), &account);
            if (account.drift_age_ms < 0)
                continue; /* not compared yet */
            print_of_replica(out, "tollgate_replica_drift_tokens", model, k, ",kind=\"prompt\"",
                             account.drift_prompt_tokens);
            print_of_replica(out, "tollgate_replica_drift_tokens", model, k, ",kind=\"generation\"",
                             account.drift_generation_tokens);
        }
    }
}

/* How far the estimator was off lately, by model. */
static void print_estimates(FILE *out, const struct config *config)
{
    print_family(out, "tollgate_estimate_error_permille", "gauge",
                 "mean of |estimated tokens / reported tokens - 1| lately, in thousandths");
    for (uint32_t i = 0; i < config->model_count; i++) {
        int64_t off[2];
        meter_estimate_error(config->models[i].estimate, &off[0], &off[1]);
        for (int k = 0; k < 2; k++) {
            if (off[k] < 0)
                continue; /* nothing was learned yet */
            fputs("tollgate_estimate_error_permille{model_id=\"", out);
            print_label(out, config->models[i].name);
            fprintf(out, "\",of=\"%s\"} %lld\n", k == 0 ? "prompt" : "answer", (long long)off[k]);
        }
    }
}

static void print_models(FILE *out, const struct config *config)
{
    print_family(out, "tollgate_model_waiting", "gauge",
                 "requests waiting for a replica of the model");
    for (uint32_t i = 0; i < config->model_count; i++) {
        fputs("tollgate_model_waiting{model_id=\"", out);
        print_label(out, config->models[i].name);
        fprintf(out, "\"} %u\n", router_waiting(&config->models[i]));
    }
    for (size_t i = 0; i < sizeof replica_families / sizeof *replica_families; i++)
        print_replica_family(out, &replica_families[i], config);
    print_drift(out, config);
    print_estimates(out, config);
}

static void print_meter(FILE *out, const struct meter *meter)
{
    struct meter_view view;

    meter_view(meter, &view);
    print_single(out, "tollgate_inflight_slots", "gauge", "requests that may be under way",
                 view.slots);
    print_single(out, "tollgate_inflight_open", "gauge", "requests under way", view.open);
    print_single(out, "tollgate_journal_waiting", "gauge", "ended requests not yet rows on disk",
                 view.ended_waiting);
    print_single(out, "tollgate_journal_failing", "gauge",
                 "1: the last write of the journal failed", view.failing);
    print_single(out, "tollgate_journal_full", "gauge",
                 "1: the disk has no room for new work; what is under way fits its reserve",
                 view.full);
    print_single(out, "tollgate_journal_synced_rows", "counter",
                 "rows that a power cut cannot take any more", (int64_t)view.synced);
    print_single(out, "tollgate_journal_recovered_rows", "counter",
                 "rows made of what dead processes left", (int64_t)view.recovered);
    if (view.anchor_age_ms >= 0)
        print_single(out, "tollgate_anchor_age_ms", "gauge", "since the last anchor was told",
                     view.anchor_age_ms);
    if (view.ledger_behind_rows >= 0)
        print_single(out, "tollgate_ledger_behind_rows", "gauge",
                     "rows of the journal that are not in the ledger yet", view.ledger_behind_rows);
}

static int64_t resident_bytes(void)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    long long pages = 0;

    if (statm == NULL)
        return 0;
    if (fscanf(statm, "%*d %lld", &pages) != 1)
        pages = 0;
    (void)fclose(statm);
    return pages * sysconf(_SC_PAGESIZE);
}

static int64_t open_descriptors(void)
{
    DIR *listing = opendir("/proc/self/fd");
    int64_t count = 0;

    if (listing == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (entry->d_name[0] != '.')
            count++;
    (void)closedir(listing);
    return count - 1; /* that of the listing itself */
}

/* Names as every Prometheus client library has them. */
static void print_process(FILE *out)
{
    struct rusage used;

    print_single(out, "process_resident_memory_bytes", "gauge", "resident memory",
                 resident_bytes());
    print_single(out, "process_open_fds", "gauge", "open file descriptors", open_descriptors());
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        const int64_t us = ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                           used.ru_utime.tv_usec + used.ru_stime.tv_usec;
        print_family(out, "process_cpu_seconds_total", "counter", "processor time used");
        fprintf(out, "process_cpu_seconds_total %lld.%06lld\n", (long long)(us / 1000000),
                (long long)(us % 1000000));
    }
}

static void answer_metrics(struct exchange *x)
{
    const struct server *server = x->worker->server;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
        return;
    }
    print_family(out, "tollgate_build_info", "gauge", "1, with the version as a label");
    fprintf(out, "tollgate_build_info{version=\"%s\"} 1\n", TOLLGATE_VERSION);
    print_single(out, "tollgate_config_generation", "gauge", "the configuration in force",
                 (int64_t)x->config->generation);
    print_single(out, "tollgate_draining", "gauge", "1: no new work is taken", x->worker->draining);
    print_single(out, "tollgate_workers", "gauge", "worker threads", server->worker_count);
    print_single(out, "tollgate_uptime_seconds", "gauge", "since the start",
                 (int64_t)((x->worker->now_ns - server->started_ns) / NS_PER_S));
    print_table(out);
    print_models(out, x->config);
    print_meter(out, server->meter);
    print_process(out);
    if (fclose(out) != 0 || text == NULL)
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
    else
        reply_body(x, 200, SPAN(METRICS_CONTENT_TYPE), (struct span){text, size});
    free(text);
}

/* ---- replicas ---- */

static json_t *json_text(struct span text)
{
    return json_stringn_nocheck(text.data, text.size);
}

/* What a replica has said of itself; null: nothing. */
static json_t *load_tree(const struct router_replica_view *view, uint64_t now_ns)
{
    static const char *const names[LOAD_QUANTITIES] = {
#define ROW(id, name, type, help) [LOAD_##id] = #name,
        LOAD_ROWS(ROW)
#undef ROW
    };
    if (view->load_ns == 0)
        return json_null();
    const uint64_t age_ns = now_ns > view->load_ns ? now_ns - view->load_ns : 0;
    json_t *tree = json_pack("{s:I}", "age_ms", (json_int_t)(age_ns / NS_PER_MS));
    for (size_t i = 0; i < LOAD_QUANTITIES; i++)
        if (view->load.values[i] >= 0)
            (void)json_object_set_new(tree, names[i], json_integer(view->load.values[i]));
    return tree;
}

static json_t *known_tree(bool known, int64_t number)
{
    return known ? json_integer(number) : json_null();
}

/* Our tokens beside the engine's, and what one costs us; null: not known. */
static json_t *account_tree(const struct config_replica *replica, const struct config *config,
                            uint64_t now_ns)
{
    struct meter_replica_view view;

    meter_replica_view(replica, config, now_ns, &view);
    const bool compared = view.drift_age_ms >= 0;
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "prompt_tokens",
                     (json_int_t)view.prompt_tokens, "generation_tokens",
                     (json_int_t)view.generation_tokens, "engine_prompt_tokens",
                     known_tree(view.engine_prompt_tokens >= 0, view.engine_prompt_tokens),
                     "engine_generation_tokens",
                     known_tree(view.engine_generation_tokens >= 0, view.engine_generation_tokens),
                     "drift_prompt_tokens", known_tree(compared, view.drift_prompt_tokens),
                     "drift_generation_tokens", known_tree(compared, view.drift_generation_tokens),
                     "drift_age_ms", known_tree(compared, view.drift_age_ms), "engine_restarts",
                     (json_int_t)view.engine_restarts, "tokens_per_hour",
                     known_tree(view.tokens_per_hour >= 0, view.tokens_per_hour), "unit_cost_pusd",
                     known_tree(view.unit_cost_pusd >= 0, view.unit_cost_pusd));
}

static json_t *replica_tree(const struct config_replica *replica, const struct config *config,
                            uint64_t now_ns)
{
    struct router_replica_view view;

    router_view(replica, &view);
    const json_int_t out_for_ms =
        view.out_until_ns > now_ns ? (json_int_t)((view.out_until_ns - now_ns) / NS_PER_MS) : 0;
    return json_pack("{s:o, s:o, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "name",
                     json_text(replica->name), "url", json_text(replica->url), "health",
                     router_health_name(view.health), "drained", view.drained, "slots",
                     (json_int_t)view.slots, "busy", (json_int_t)view.busy, "work_tokens",
                     (json_int_t)view.work, "attempts", (json_int_t)view.attempts, "failures",
                     (json_int_t)view.failures, "strikes", (json_int_t)view.strikes, "out_for_ms",
                     out_for_ms, "engine", load_tree(&view, now_ns), "account",
                     account_tree(replica, config, now_ns));
}

static void answer_replicas(struct exchange *x)
{
    json_t *models = json_array();

    for (uint32_t i = 0; i < x->config->model_count; i++) {
        const struct config_model *model = &x->config->models[i];
        json_t *replicas = json_array();
        for (uint32_t k = 0; k < model->replica_count; k++)
            (void)json_array_append_new(
                replicas, replica_tree(&model->replicas[k], x->config, x->worker->now_ns));
        (void)json_array_append_new(
            models, json_pack("{s:o, s:I, s:o}", "model", json_text(model->name), "waiting",
                              (json_int_t)router_waiting(model), "replicas", replicas));
    }
    answer_json(x, 200, json_pack("{s:o}", "models", models));
}

/* Cuts the part behind the last slash off path, percent-decoded. */
static struct span cut_last_part(struct span *path, struct arena *arena)
{
    const char *slash = memrchr(path->data, '/', path->size);

    if (slash == NULL)
        return (struct span){NULL, 0};
    const size_t at = (size_t)(slash - path->data);
    const struct span part = span_from(*path, at + 1);
    path->size = at;
    return reply_decode_path(part, arena);
}

static const struct config_replica *find_replica(const struct config_model *model, struct span name)
{
    for (uint32_t i = 0; i < model->replica_count; i++)
        if (span_equal(model->replicas[i].name, name))
            return &model->replicas[i];
    return NULL;
}

/* POST /replicas/{model}/{replica}/drain or /undrain; a model's name may hold slashes. */
static void answer_drain(struct exchange *x)
{
    struct span left = span_from(x->path, sizeof "/replicas/" - 1);
    const struct span verb = cut_last_part(&left, &x->arena);
    const struct span name = cut_last_part(&left, &x->arena);
    const struct span model_name = reply_decode_path(left, &x->arena);
    const bool drain = span_equal(verb, SPAN("drain"));

    const struct config_model *model = config_find_model(x->config, model_name);
    const struct config_replica *replica = model ? find_replica(model, name) : NULL;
    if (replica == NULL || !(drain || span_equal(verb, SPAN("undrain")))) {
        reply_error(x, ERR_NO_PATH,
                    "no such replica; POST /replicas/{model}/{replica}/drain or /undrain", NULL);
        return;
    }
    router_set_drained(replica->state, drain, x->worker->now_ns);
    answer_json(x, 200, replica_tree(replica, x->config, x->worker->now_ns));
}

/* ---- configuration ---- */

static void answer_config(struct exchange *x)
{
    size_t size = 0;
    char *text = config_print_redacted(x->config, &size);

    if (text == NULL)
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
    else
        reply_body(x, 200, SPAN("application/yaml"), (struct span){text, size});
    free(text);
}

static void answer_reload(struct exchange *x)
{
    struct config_problems problems = {NULL, 0, 0};
    const enum err err = server_reload(x->worker->server, &problems);
    const char *restart = x->worker->server->restart_needed;

    if (err == OK) {
        mailbox_read(
            &x->worker->mailbox); /* this worker learns of it now, so that we can say which */
        answer_json(x, 200,
                    json_pack("{s:I, s:s*}", "generation",
                              (json_int_t)x->worker->config->generation, "needs_restart",
                              restart[0] ? restart : NULL));
    } else {
        reply_error(x, err, problems.text, NULL);
    }
    config_problems_free(&problems);
}

/* ---- the door ---- */

static const struct page {
    struct span path;
    bool posts; /* POST; else GET and HEAD */
    void (*answer)(struct exchange *x);
} pages[] = {
    {{"/metrics", 8}, false, answer_metrics},
    {{"/replicas", 9}, false, answer_replicas},
    {{"/config", 7}, false, answer_config},
    {{"/reload", 7}, true, answer_reload},
    {{"/usage", 6}, false, usage_api_ask_all}, /* answers later: see x->question */
};

/* The token that the config wants, compared by digest so that time tells nothing of it. */
static bool has_token(const struct exchange *x)
{
    uint8_t given[HASH_SHA256_BYTES];
    uint8_t wanted[HASH_SHA256_BYTES];

    if (x->config->admin_token.data == NULL)
        return true;
    hash_sha256(identity_bearer(x->authorization), given);
    hash_sha256(x->config->admin_token, wanted);
    return hash_equal(given, wanted, sizeof given);
}

void admin_answer(struct exchange *x)
{
    const bool posting = span_equal(x->method, SPAN("POST"));

    if (admin_answer_health(x))
        return;
    if (!has_token(x)) {
        reply_error(
            x, x->authorization.data ? ERR_BAD_KEY : ERR_NO_KEY,
            "the admin listener wants Authorization: Bearer and the token of its configuration",
            NULL);
        return;
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (!span_equal(x->path, pages[i].path))
            continue;
        if (pages[i].posts ? posting : is_reading(x))
            pages[i].answer(x);
        else
            reply_method_error(x, pages[i].posts ? SPAN("POST") : SPAN("GET, HEAD"));
        return;
    }
    if (!span_starts(x->path, SPAN("/replicas/")))
        reply_error(x, ERR_NO_PATH, NULL, NULL);
    else if (posting)
        answer_drain(x);
    else
        reply_method_error(x, SPAN("POST"));
}
