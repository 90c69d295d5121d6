/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/control.c: everything that is no inference.
 *
 * For:       models, health, version, metrics, and the control plane under /fake/.
 * Called by: service.c.
 * Knows not: sockets, inference. */
#include "tests/fake/control.h"

#include "tests/fake/counters.h"
#include "tests/fake/error.h"
#include "tests/fake/metrics.h"

#define JSON_TYPE TEXT("application/json")

static struct directive defaults; /* set by POST /fake/set */
static bool defaults_ready;
static struct buffer body;         /* the answer's body being made */
static struct buffer last_request; /* head and body, when recording */

struct directive *control_defaults(void)
{
    if (!defaults_ready)
        defaults = directive_default;
    defaults_ready = true;
    return &defaults;
}

void control_record(const struct request *request)
{
    last_request.count = 0;
    buffer_add_text(&last_request, request->head);
    buffer_add_text(&last_request, request->body);
}

static void reply_plain(struct buffer *out, int status, struct text type)
{
    struct head head = {
        .status = status, .content_type = type, .body_bytes = body.count, .retry_after = -1};

    if (body.count == 0)
        head.content_type = TEXT("");
    answer_add_head(out, &head);
    buffer_add(out, body.bytes, body.count);
}

void control_refuse(struct buffer *out, int status)
{
    body.count = 0;
    error_add_unknown(&body, error_status(status));
    reply_plain(out, error_status(status), JSON_TYPE);
}

/* One model, in the list or alone. */
static void add_model(struct text model)
{
    buffer_add_literal(&body, "{\"id\":\"");
    buffer_add_text(&body, model);
    buffer_add_literal(&body, "\",\"object\":\"model\",\"created\":");
    buffer_add_number(&body, (uint64_t)answer_time());
    buffer_add_literal(&body, ",\"owned_by\":\"");
    buffer_add_text(&body, kind_row()->owner);
    buffer_add_literal(&body, "\"");
    if (dialect.kind == KIND_VLLM || dialect.kind == KIND_SGLANG) {
        buffer_add_literal(&body, ",\"root\":\"");
        buffer_add_text(&body, model);
        buffer_add_literal(&body, "\",\"parent\":null,\"max_model_len\":131072");
    }
    if (dialect.kind == KIND_VLLM)
        buffer_add_literal(&body, ",\"permission\":[]");
    if (dialect.kind == KIND_LLAMACPP)
        buffer_add_literal(&body, ",\"meta\":{\"n_ctx_train\":131072}");
    buffer_add_literal(&body, "}");
}

static void list_models(struct buffer *out)
{
    body.count = 0;
    buffer_add_literal(&body, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < service.model_count; i++) {
        if (i > 0)
            buffer_add_literal(&body, ",");
        add_model(service.models[i]);
    }
    buffer_add_literal(&body, "]}");
    reply_plain(out, 200, JSON_TYPE);
}

/* GET /v1/models/{id}: SGLang and OpenAI have it. */
static void show_model(struct text name, struct buffer *out)
{
    body.count = 0;
    for (size_t i = 0; i < service.model_count; i++)
        if (text_equals(service.models[i], name))
            add_model(name);
    if (body.count > 0 && (dialect.kind == KIND_SGLANG || dialect.kind == KIND_OPENAI)) {
        reply_plain(out, 200, JSON_TYPE);
        return;
    }
    control_refuse(out, 404);
}

/* Sources: vLLM and TGI answer with an empty body, llama.cpp with a status or the error of a model
 * that is still being loaded (tools/server/README.md). */
static void answer_health(struct buffer *out)
{
    int status = control_defaults()->health > 0 ? (int)control_defaults()->health : 200;

    if (dialect.kind == KIND_OPENAI) {
        control_refuse(out, 404);
        return;
    }
    body.count = 0;
    if (dialect.kind == KIND_LLAMACPP && status == 200)
        buffer_add_literal(&body, "{\"status\":\"ok\"}");
    else if (dialect.kind == KIND_LLAMACPP)
        error_add_body(&body, ENDPOINT_CHAT, status, TEXT("Loading model"), TEXT(""));
    else if (dialect.kind == KIND_TGI && status != 200)
        buffer_add_literal(&body, "{\"error\":\"unhealthy\",\"error_type\":\"healthcheck\"}");
    reply_plain(out, status, JSON_TYPE);
}

static void answer_control(const struct request *request, struct text what, struct buffer *out)
{
    struct text once;

    body.count = 0;
    if (text_equals(what, TEXT("counters"))) {
        counters_add_json(&body);
        reply_plain(out, 200, JSON_TYPE);
        return;
    }
    if (text_equals(what, TEXT("last"))) {
        buffer_add(&body, last_request.bytes, last_request.count);
        reply_plain(out, 200, TEXT("application/octet-stream"));
        return;
    }
    if (text_equals(what, TEXT("flush"))) {
        counters_flush_log();
    } else if (text_equals(what, TEXT("reset"))) {
        counters_reset();
        directive_forget();
        last_request.count = 0;
    } else if (text_equals(what, TEXT("set"))) {
        *control_defaults() = directive_default;
        if (!directive_apply(&defaults, request->query, &once)) {
            buffer_add_literal(&body, "{\"ok\":false}");
            reply_plain(out, 400, JSON_TYPE);
            return;
        }
    } else {
        control_refuse(out, 404);
        return;
    }
    buffer_add_literal(&body, "{\"ok\":true}");
    reply_plain(out, 200, JSON_TYPE);
}

static void answer_models(const struct request *request, struct text path, struct buffer *out)
{
    static const size_t list_bytes = sizeof "/v1/models" - 1;

    if (!service_key_fits(request)) {
        body.count = 0;
        error_add_body(&body, ENDPOINT_CHAT, 401, TEXT("Incorrect API key provided."), TEXT(""));
        reply_plain(out, 401, JSON_TYPE);
    } else if (path.bytes == list_bytes) {
        list_models(out);
    } else {
        show_model((struct text){path.at + list_bytes + 1, path.bytes - list_bytes - 1}, out);
    }
}

static bool begins_with(struct text path, struct text beginning)
{
    return path.bytes > beginning.bytes && memcmp(path.at, beginning.at, beginning.bytes) == 0;
}

void control_answer(const struct request *request, struct text path, struct buffer *out)
{
    struct text control = TEXT("/fake/");

    body.count = 0;
    if (begins_with(path, control)) {
        answer_control(request, (struct text){path.at + control.bytes, path.bytes - control.bytes},
                       out);
    } else if (text_equals(path, TEXT("/health")) ||
               (text_equals(path, TEXT("/ping")) && dialect.kind == KIND_VLLM)) {
        answer_health(out);
    } else if (text_equals(path, TEXT("/version")) && dialect.kind == KIND_VLLM) {
        buffer_add_literal(&body, "{\"version\":\"0.0.0\"}");
        reply_plain(out, 200, JSON_TYPE);
    } else if (text_equals(path, TEXT("/metrics")) && dialect.kind != KIND_OPENAI) {
        metrics_add(&body, service.models[0]);
        reply_plain(out, 200, TEXT("text/plain; version=0.0.4; charset=utf-8"));
    } else if (text_equals(path, TEXT("/v1/models")) || begins_with(path, TEXT("/v1/models/"))) {
        answer_models(request, path, out);
    } else {
        control_refuse(out, 404);
    }
}
