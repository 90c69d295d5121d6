/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/service.c: what a request gets.
 *
 * For:       paths, keys, models, errors, directives and the control plane, as one decision per
 *            request.
 * Called by: server.c, main.c.
 * Knows not: sockets, timers. */
#include "tests/fake/service.h"

#include <stdio.h>
#include <strings.h>

#include "tests/fake/counters.h"
#include "tests/fake/stream.h"

struct service service;

static struct directive defaults; /* set by POST /fake/set */
static bool defaults_ready;
static struct buffer body;         /* the answer's body being made */
static struct buffer squeezed;     /* the same, compressed */
static struct buffer last_request; /* head and body, when recording */

#define JSON_TYPE TEXT("application/json")
static const struct text no_text = {"", 0};

static void add_whole(struct buffer *out, const struct head *head)
{
    answer_add_head(out, head);
    buffer_add(out, body.bytes, body.count);
}

/* An answer that is no inference. */
static void reply_plain(struct buffer *out, int status, struct text type)
{
    struct head head = {
        .status = status, .content_type = type, .body_bytes = body.count, .retry_after = -1};

    add_whole(out, &head);
}

static void reply_error(struct buffer *out, int status, struct text message, struct text param)
{
    body.count = 0;
    answer_add_error(&body, service.openai, status, message, param);
    reply_plain(out, status, JSON_TYPE);
}

/* Path or method unknown: here the type is the status phrase. */
static void reply_unknown(struct buffer *out, int status)
{
    body.count = 0;
    if (service.openai)
        answer_add_error(&body, true, status, TEXT("Unknown request URL."), no_text);
    else if (status == 404)
        buffer_add_literal(
            &body, "{\"error\":{\"message\":\"Not Found\",\"type\":\"Not Found\",\"param\":null,"
                   "\"code\":404}}");
    else
        buffer_add_literal(
            &body, "{\"error\":{\"message\":\"Method Not Allowed\",\"type\":\"Method Not Allowed\","
                   "\"param\":null,\"code\":405}}");
    reply_plain(out, status, JSON_TYPE);
}

void service_add_refusal(struct buffer *out)
{
    struct head head = {.status = 400,
                        .content_type = TEXT("text/plain; charset=utf-8"),
                        .retry_after = -1,
                        .close = true};

    body.count = 0;
    buffer_add_literal(&body, "Invalid HTTP request received.");
    head.body_bytes = body.count;
    add_whole(out, &head);
}

static bool key_fits(const struct request *request)
{
    static const char scheme[] = "bearer ";
    struct text given = request->authorization;

    if (service.key.bytes == 0)
        return true;
    if (given.bytes < sizeof scheme - 1 || strncasecmp(given.at, scheme, sizeof scheme - 1) != 0)
        return false;
    given.at += sizeof scheme - 1;
    given.bytes -= sizeof scheme - 1;
    return text_equals(given, service.key);
}

static void list_models(struct buffer *out)
{
    body.count = 0;
    buffer_add_literal(&body, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < service.model_count; i++) {
        if (i > 0)
            buffer_add_literal(&body, ",");
        buffer_add_literal(&body, "{\"id\":\"");
        buffer_add_text(&body, service.models[i]);
        buffer_add_literal(&body, "\",\"object\":\"model\",\"created\":");
        buffer_add_number(&body, (uint64_t)answer_time());
        buffer_add_literal(&body, ",\"owned_by\":\"vllm\",\"root\":\"");
        buffer_add_text(&body, service.models[i]);
        buffer_add_literal(&body, "\",\"parent\":null,\"max_model_len\":131072,\"permission\":[]}");
    }
    buffer_add_literal(&body, "]}");
    reply_plain(out, 200, JSON_TYPE);
}

static struct directive *defaults_now(void)
{
    if (!defaults_ready)
        defaults = directive_default;
    defaults_ready = true;
    return &defaults;
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
        *defaults_now() = directive_default;
        if (!directive_apply(&defaults, request->query, &once)) {
            buffer_add_literal(&body, "{\"ok\":false}");
            reply_plain(out, 400, JSON_TYPE);
            return;
        }
    } else {
        reply_unknown(out, 404);
        return;
    }
    buffer_add_literal(&body, "{\"ok\":true}");
    reply_plain(out, 200, JSON_TYPE);
}

/* Everything but inference; false when the path is none of these. */
static bool answer_small(const struct request *request, struct text path, struct buffer *out)
{
    static const char control[] = "/fake/";

    body.count = 0;
    if (path.bytes > sizeof control - 1 && memcmp(path.at, control, sizeof control - 1) == 0) {
        answer_control(
            request, (struct text){path.at + sizeof control - 1, path.bytes - (sizeof control - 1)},
            out);
    } else if (text_equals(path, TEXT("/health")) || text_equals(path, TEXT("/ping"))) {
        reply_plain(out, service.openai ? 404 : 200, no_text);
    } else if (text_equals(path, TEXT("/version"))) {
        buffer_add_literal(&body, "{\"version\":\"0.0.0\"}");
        reply_plain(out, 200, JSON_TYPE);
    } else if (text_equals(path, TEXT("/metrics"))) {
        counters_add_metrics(&body, service.models[0].at);
        reply_plain(out, service.openai ? 404 : 200,
                    TEXT("text/plain; version=0.0.4; charset=utf-8"));
    } else if (text_equals(path, TEXT("/v1/models"))) {
        if (key_fits(request))
            list_models(out);
        else
            reply_error(out, 401, TEXT("Incorrect API key provided."), no_text);
    } else {
        return false;
    }
    return true;
}

/* A copy that may stand inside JSON text and in a log line; `fallback` when there is nothing to
 * copy. */
static void copy_clean(char *to, size_t room, struct text from, const char *fallback)
{
    size_t count = from.bytes < room - 1 ? from.bytes : room - 1;

    if (count == 0) {
        snprintf(to, room, "%s", fallback);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char byte = from.at[i];
        to[i] = byte <= ' ' || byte == '"' || byte == '\\' || byte == 0x7f ? '_' : byte;
    }
    to[count] = '\0';
}

static void name_work(struct work *work, const struct request *request)
{
    static const char *const beginnings[] = {"chatcmpl-", "cmpl-", "embd-"};
    static uint64_t serial;
    const char *beginning = beginnings[work->endpoint];

    copy_clean(work->request_id, sizeof work->request_id, request->request_id, "-");
    serial++;
    if (request->request_id.bytes > 0 && !work->openai) {
        size_t count = strlen(beginning);
        memcpy(work->id, beginning, count);
        memcpy(work->id + count, work->request_id, strlen(work->request_id) + 1);
    } else {
        snprintf(work->id, sizeof work->id, "%s%016llx", beginning,
                 (unsigned long long)(serial * 0x9e3779b97f4a7c15u));
    }
}

/* An inference request that ends in an error. message and param are raw JSON text. */
static void refuse(struct work *work, struct buffer *out, struct reply *reply, int status,
                   struct text message, struct text param)
{
    struct head head = {.status = status,
                        .content_type = JSON_TYPE,
                        .retry_after = work->directive.retry_after,
                        .close = reply->close};

    body.count = 0;
    answer_add_error(&body, work->openai, status, message, param);
    head.body_bytes = body.count;
    add_whole(out, &head);
    work->stream = false;
    work->prompt_tokens = 0;
    work->status = status;
    reply->failed = true;
}

static bool model_known(struct text model)
{
    if (model.bytes == 0)
        return true;
    for (size_t i = 0; i < service.model_count; i++)
        if (text_equals(model, service.models[i]))
            return true;
    return false;
}

static void refuse_model(struct work *work, struct buffer *out, struct reply *reply)
{
    char message[320];
    int count = snprintf(message, sizeof message, "The model `%s` does not exist.", work->model);

    refuse(work, out, reply, 404, (struct text){message, (size_t)count}, TEXT("model"));
}

/* What keeps a body from being served; false when something does, and the answer is written. */
static bool acceptable(const struct request *request, const struct ask *ask, bool readable,
                       struct work *work, struct buffer *out, struct reply *reply)
{
    struct text type = request->content_type;

    if (!key_fits(request)) {
        refuse(work, out, reply, 401, TEXT("Incorrect API key provided."), no_text);
    } else if (type.bytes < 16 || strncasecmp(type.at, "application/json", 16) != 0 ||
               (type.bytes > 16 && type.at[16] != ';' && type.at[16] != ' ')) {
        refuse(work, out, reply, 400,
               TEXT("Unsupported Media Type: Only 'application/json' is allowed"), no_text);
    } else if (!readable) {
        refuse(work, out, reply, 400, TEXT("JSON decode error"), TEXT("body"));
    } else if (!model_known(ask->model)) {
        refuse_model(work, out, reply);
    } else if (!ask->has_prompt) {
        refuse(work, out, reply, 400, TEXT("Field required"), TEXT("body"));
    } else if (ask->stream_options && !ask->stream) {
        refuse(work, out, reply, 400,
               TEXT("Stream options can only be defined when `stream=True`."),
               TEXT("stream_options"));
    } else {
        return true;
    }
    return false;
}

/* How much is generated: the directive, or the model's own natural length, and never more than the
 * body allows. */
static void size_work(struct work *work, const struct ask *ask)
{
    bool chat = work->endpoint == ENDPOINT_CHAT;
    uint64_t most = (uint64_t)ask->output_tokens;

    work->prompt_tokens = ask->prompt_tokens;
    if (work->endpoint == ENDPOINT_EMBEDDINGS)
        return;
    work->choices = ask->samples * (chat ? 1 : ask->prompts);
    work->stream = ask->stream;
    work->include_usage = ask->include_usage;
    work->continuous_usage = ask->continuous_usage;
    work->tokens = work->directive.tokens >= 0 ? (uint64_t)work->directive.tokens : chat ? 8 : 16;
    if (most > 0 && most < work->tokens)
        work->tokens = most;
    work->by_length = work->tokens == (most == 0 && !chat ? 16 : most);
}

static void add_interim(const struct work *work, struct buffer *out)
{
    if (work->directive.interim)
        buffer_add_literal(out,
                           "HTTP/1.1 100 Continue\r\n\r\n"
                           "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n");
}

void service_add_stream_head(struct work *work, const struct reply *reply, struct buffer *out)
{
    struct head head = {.status = 200,
                        .framing = reply->framing,
                        .content_type = TEXT("text/event-stream; charset=utf-8"),
                        .retry_after = -1,
                        .close = reply->close,
                        .gzip = work->directive.gzip != 0};

    if (reply->framing == FRAMING_LENGTH)
        head.body_bytes = stream_measure(work);
    add_interim(work, out);
    answer_add_head(out, &head);
    work->status = 200;
    work->head_sent = true;
}

static void begin_stream(struct work *work, struct reply *reply)
{
    reply->next = NEXT_GENERATE;
    reply->framing = FRAMING_CHUNKED;
    if (work->directive.until_close) {
        reply->framing = FRAMING_UNTIL_CLOSE;
        reply->close = true;
    } else if (work->directive.length_body && !work->directive.gzip) {
        reply->framing = FRAMING_LENGTH;
        work->directive.stamp = 0;
    }
    if (work->directive.first_ms > 0)
        reply->hold_ms = (uint64_t)work->directive.first_ms;
    stream_begin(work);
}

/* A fault of a plain answer: after the head, or (N) with half of the body. Returns how much of the
 * body is written. */
static size_t cut_plain(const struct work *work, size_t whole, struct reply *reply)
{
    const struct directive *directive = &work->directive;
    long when;

    if (directive->reset != WHEN_NEVER) {
        when = directive->reset;
        reply->next = NEXT_RESET;
    } else if (directive->fin != WHEN_NEVER) {
        when = directive->fin;
        reply->next = NEXT_CLOSE;
    } else if (directive->stall != WHEN_NEVER) {
        when = directive->stall;
        reply->next = NEXT_STALL;
    } else {
        return whole;
    }
    reply->failed = true;
    return when == WHEN_HEAD ? 0 : whole / 2;
}

static void answer_plain(struct work *work, const struct ask *ask, struct buffer *out,
                         struct reply *reply)
{
    const struct directive *directive = &work->directive;
    struct head head = {.status = 200,
                        .content_type = JSON_TYPE,
                        .retry_after = -1,
                        .close = reply->close || directive->until_close,
                        .gzip = directive->gzip != 0};
    const struct buffer *whole = &body;

    body.count = 0;
    answer_add_body(&body, work, ask);
    if (directive->gzip) {
        squeezed.count = 0;
        answer_add_gzip(&squeezed, &body);
        whole = &squeezed;
    }
    head.framing = directive->until_close    ? FRAMING_UNTIL_CLOSE
                   : directive->chunked_body ? FRAMING_CHUNKED
                                             : FRAMING_LENGTH;
    head.body_bytes = whole->count;
    reply->close = head.close;
    add_interim(work, out);
    answer_add_head(out, &head);
    size_t written = cut_plain(work, whole->count, reply);
    if (head.framing == FRAMING_CHUNKED) {
        buffer_add_hex(out, whole->count);
        buffer_add_literal(out, "\r\n");
    }
    buffer_add(out, whole->bytes, written);
    if (head.framing == FRAMING_CHUNKED && written == whole->count)
        buffer_add_literal(out, "\r\n0\r\n\r\n");
    work->status = 200;
    if (!reply->failed)
        reply->tokens = work->tokens * work->choices;
    if (directive->first_ms > 0)
        reply->hold_ms += (uint64_t)directive->first_ms;
    if (directive->delay_ms > 0)
        reply->hold_ms +=
            (uint64_t)directive->delay_ms *
            ((work->tokens + (uint64_t)directive->per_event - 1) / (uint64_t)directive->per_event);
}

/* Faults that come before any byte, and errors on demand; false when there is none. */
static bool answer_fault(struct work *work, struct buffer *out, struct reply *reply)
{
    const struct directive *directive = &work->directive;

    if (directive->first_ms > 0)
        reply->hold_ms = (uint64_t)directive->first_ms;
    if (directive->reset == WHEN_BEFORE) {
        reply->next = NEXT_RESET;
    } else if (directive->fin == WHEN_BEFORE) {
        reply->next = NEXT_CLOSE;
    } else if (directive->stall == WHEN_BEFORE) {
        reply->next = NEXT_STALL;
    } else if (directive->junk) {
        buffer_add_literal(out, "\x15\x03\x01 this is no HTTP at all\r\n\r\n");
        reply->next = NEXT_CLOSE;
    } else if (directive->status_only >= 200 && directive->status_only < 600) {
        struct head head = {.status = (int)directive->status_only,
                            .retry_after = directive->retry_after,
                            .close = reply->close};
        answer_add_head(out, &head);
        work->status = head.status;
    } else if (directive->fail >= 300 && directive->fail < 600) {
        refuse(work, out, reply, (int)directive->fail, TEXT("This failure was asked for."),
               no_text);
    } else {
        reply->hold_ms = 0;
        return false;
    }
    work->stream = false;
    work->prompt_tokens = 0;
    reply->failed = true;
    return true;
}

static void record_request(const struct request *request)
{
    last_request.count = 0;
    buffer_add_text(&last_request, request->head);
    buffer_add_text(&last_request, request->body);
}

static void answer_inference(const struct request *request, struct work *work, struct buffer *out,
                             struct reply *reply)
{
    struct ask ask = {.samples = 1};
    bool readable = ask_read(request->body, &ask);

    counters.requests++;
    reply->inference = true;
    reply->close = request->says_close;
    work->openai = service.openai;
    work->directive = *defaults_now();
    directive_read(&work->directive, request->body);
    copy_clean(work->model, sizeof work->model, ask.model, service.models[0].at);
    name_work(work, request);
    if (service.record)
        record_request(request);
    if (work->directive.close)
        reply->close = true;
    if (!acceptable(request, &ask, readable, work, out, reply))
        return;
    size_work(work, &ask);
    if (answer_fault(work, out, reply))
        return;
    if (work->stream)
        begin_stream(work, reply);
    else
        answer_plain(work, &ask, out, reply);
}

bool service_fault(struct work *work, enum next *out_next)
{
    const struct directive *directive = &work->directive;
    long events = work->position.phase > PHASE_TOKENS  ? INT32_MAX
                  : work->position.phase == PHASE_ROLE ? WHEN_HEAD
                                                       : (long)work->position.events;

    if (directive->reset != WHEN_NEVER && events >= directive->reset) {
        *out_next = NEXT_RESET;
        return true;
    }
    if (directive->fin != WHEN_NEVER && events >= directive->fin) {
        *out_next = NEXT_CLOSE;
        return true;
    }
    if (directive->stall != WHEN_NEVER && events >= directive->stall) {
        *out_next = NEXT_STALL;
        return true;
    }
    if (directive->error_event >= 0 && events >= directive->error_event &&
        work->position.phase <= PHASE_USAGE)
        work->position.phase = PHASE_ERROR;
    return false;
}

void service_answer(const struct request *request, struct work *work, struct buffer *out,
                    struct reply *out_reply)
{
    struct text path = request->path;
    bool post = text_equals(request->method, TEXT("POST"));

    *out_reply =
        (struct reply){.next = NEXT_REQUEST, .close = request->says_close || !request->keep_alive};
    if (service.base_path.bytes > 0 && path.bytes >= service.base_path.bytes &&
        memcmp(path.at, service.base_path.at, service.base_path.bytes) == 0) {
        path.at += service.base_path.bytes;
        path.bytes -= service.base_path.bytes;
    }
    if (text_equals(path, TEXT("/v1/chat/completions")))
        work->endpoint = ENDPOINT_CHAT;
    else if (text_equals(path, TEXT("/v1/completions")))
        work->endpoint = ENDPOINT_COMPLETIONS;
    else if (text_equals(path, TEXT("/v1/embeddings")))
        work->endpoint = ENDPOINT_EMBEDDINGS;
    else {
        if (!answer_small(request, path, out))
            reply_unknown(out, 404);
        return;
    }
    if (post)
        answer_inference(request, work, out, out_reply);
    else
        reply_unknown(out, 405);
}
