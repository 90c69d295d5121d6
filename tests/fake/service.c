/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/service.c: what a request gets.
 *
 * For:       keys, models, errors and directives, as one decision per request.
 * Called by: server.c, main.c.
 * Knows not: sockets, timers. */
#include "tests/fake/service.h"

#include <stdio.h>
#include <strings.h>

#include "tests/fake/audio.h"
#include "tests/fake/chat.h"
#include "tests/fake/content.h"
#include "tests/fake/control.h"
#include "tests/fake/counters.h"
#include "tests/fake/error.h"
#include "tests/fake/messages.h"
#include "tests/fake/pace.h"
#include "tests/fake/pooling.h"
#include "tests/fake/responses.h"
#include "tests/fake/stream.h"
#include "tests/fake/tokens.h"

struct service service;

static struct buffer body;     /* the answer's body being made */
static struct buffer squeezed; /* the same, compressed */
static struct buffer lines;    /* header lines of a kind's own */

#define JSON_TYPE TEXT("application/json")
static const struct text no_text = {"", 0};

static void add_whole(struct buffer *out, const struct head *head)
{
    answer_add_head(out, head);
    buffer_add(out, body.bytes, body.count);
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

bool service_key_fits(const struct request *request)
{
    static const char scheme[] = "bearer ";
    struct text given = request->authorization;

    if (service.key.bytes == 0)
        return true;
    if (request->api_key.bytes > 0 && dialect.kind == KIND_LLAMACPP)
        return text_equals(request->api_key, service.key);
    if (given.bytes < sizeof scheme - 1 || strncasecmp(given.at, scheme, sizeof scheme - 1) != 0)
        return false;
    given.at += sizeof scheme - 1;
    given.bytes -= sizeof scheme - 1;
    return text_equals(given, service.key);
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

/* How the id of an answer begins. Only vLLM makes it of the request's own id. */
static const char *const id_beginnings[] = {
    [ENDPOINT_CHAT] = "chatcmpl-",       [ENDPOINT_COMPLETIONS] = "cmpl-",
    [ENDPOINT_EMBEDDINGS] = "embd-",     [ENDPOINT_RESPONSES] = "resp_",
    [ENDPOINT_MESSAGES] = "msg_",        [ENDPOINT_COUNT_TOKENS] = "count-",
    [ENDPOINT_RERANK] = "rerank-",       [ENDPOINT_SCORE] = "score-",
    [ENDPOINT_TOKENIZE] = "tokn-",       [ENDPOINT_DETOKENIZE] = "detokn-",
    [ENDPOINT_TRANSCRIPTIONS] = "trsc-", [ENDPOINT_TRANSLATIONS] = "trsl-",
    [ENDPOINT_POOLING] = "pool-",        [ENDPOINT_CLASSIFY] = "classify-",
};

static void name_work(struct work *work, const struct request *request)
{
    static uint64_t serial;
    const char *beginning = id_beginnings[work->endpoint];

    copy_clean(work->request_id, sizeof work->request_id, request->request_id, "-");
    serial++;
    if (request->request_id.bytes > 0 && dialect.kind == KIND_VLLM) {
        size_t count = strlen(beginning);
        memcpy(work->id, beginning, count);
        memcpy(work->id + count, work->request_id, strlen(work->request_id) + 1);
    } else {
        snprintf(work->id, sizeof work->id, "%s%016llx", beginning,
                 (unsigned long long)(serial * 0x9e3779b97f4a7c15u));
    }
}

/* TGI tells its times and counts in the head (router/src/server.rs), OpenAI its own facts. */
static struct text own_lines(const struct work *work)
{
    lines.count = 0;
    if (dialect.kind == KIND_OPENAI) {
        buffer_add_literal(&lines, "x-request-id: req_");
        buffer_add_string(&lines, work->id);
        buffer_add_literal(&lines, "\r\nopenai-version: 2020-10-01\r\nopenai-processing-ms: 1\r\n");
    } else if (dialect.kind == KIND_TGI && work->stream) {
        buffer_add_literal(&lines, "x-compute-type: cpu\r\nx-accel-buffering: no\r\n");
    } else if (dialect.kind == KIND_TGI) {
        buffer_add_literal(&lines, "x-compute-type: cpu\r\nx-compute-time: 0.001\r\n"
                                   "x-total-time: 1\r\nx-validation-time: 0\r\n"
                                   "x-queue-time: 0\r\nx-inference-time: 1\r\n"
                                   "x-time-per-token: 0\r\nx-prompt-tokens: ");
        buffer_add_number(&lines, work->prompt_tokens);
        buffer_add_literal(&lines, "\r\nx-generated-tokens: ");
        buffer_add_number(&lines, work->tokens * work->choices);
        buffer_add_literal(&lines, "\r\n");
    }
    return (struct text){lines.bytes, lines.count};
}

/* An inference request that ends in an error. message and param are raw JSON text. */
static void refuse(struct work *work, struct buffer *out, struct reply *reply, int status,
                   struct text message, struct text param)
{
    struct head head = {.status = error_status(status),
                        .content_type = JSON_TYPE,
                        .lines = own_lines(work),
                        .retry_after = work->directive.retry_after,
                        .close = reply->close};

    body.count = 0;
    error_add_body(&body, work->endpoint, head.status, message, param);
    head.body_bytes = body.count;
    add_whole(out, &head);
    work->stream = false;
    work->prompt_tokens = 0;
    work->status = head.status;
    reply->failed = true;
}

static bool model_known(struct text model)
{
    if (model.bytes == 0 || !kind_row()->checks_model)
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

static bool is_audio(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_TRANSCRIPTIONS || endpoint == ENDPOINT_TRANSLATIONS;
}

/* Whether the body's media type is the one that the endpoint reads; llama.cpp does not ask. */
static bool type_fits(struct text type, enum endpoint endpoint)
{
    struct text wanted =
        is_audio(endpoint) ? TEXT("multipart/form-data") : TEXT("application/json");

    if (dialect.kind == KIND_LLAMACPP)
        return true;
    return type.bytes >= wanted.bytes && strncasecmp(type.at, wanted.at, wanted.bytes) == 0 &&
           (type.bytes == wanted.bytes || type.at[wanted.bytes] == ';' ||
            type.at[wanted.bytes] == ' ');
}

/* Whether this path asks for a key: vLLM guards only what lies under /v1 and /v2. */
static bool guarded(const struct work *work)
{
    return dialect.kind != KIND_VLLM || memcmp(work->path, "/v1/", 4) == 0 ||
           memcmp(work->path, "/v2/", 4) == 0;
}

/* What keeps a body from being served; false when something does, and the answer is written. */
static bool acceptable(const struct request *request, const struct ask *ask, bool readable,
                       struct work *work, struct buffer *out, struct reply *reply)
{
    bool strict = dialect.kind == KIND_VLLM || dialect.kind == KIND_OPENAI;

    if (guarded(work) && !service_key_fits(request)) {
        refuse(work, out, reply, 401, TEXT("Incorrect API key provided."), no_text);
    } else if (!type_fits(request->content_type, work->endpoint)) {
        refuse(work, out, reply, 400,
               is_audio(work->endpoint)
                   ? TEXT("Unsupported Media Type: Only 'multipart/form-data' is allowed")
                   : TEXT("Unsupported Media Type: Only 'application/json' is allowed"),
               no_text);
    } else if (!readable) {
        refuse(work, out, reply, 400, TEXT("JSON decode error"), TEXT("body"));
    } else if (!model_known(ask->model)) {
        refuse_model(work, out, reply);
    } else if (!ask->has_prompt) {
        refuse(work, out, reply, 400, TEXT("Field required"), TEXT("body"));
    } else if (strict && ask->stream_options && !ask->stream &&
               work->endpoint <= ENDPOINT_COMPLETIONS) {
        refuse(work, out, reply, 400,
               TEXT("Stream options can only be defined when `stream=True`."),
               TEXT("stream_options"));
    } else {
        return true;
    }
    return false;
}

/* Whether the model writes an answer of its own here. */
static bool generates(enum endpoint endpoint)
{
    switch (endpoint) {
    case ENDPOINT_CHAT:
    case ENDPOINT_COMPLETIONS:
    case ENDPOINT_RESPONSES:
    case ENDPOINT_MESSAGES:
    case ENDPOINT_TRANSCRIPTIONS:
    case ENDPOINT_TRANSLATIONS:
        return true;
    default:
        return false;
    }
}

/* How much goes in and comes out. */
static void size_work(struct work *work, const struct ask *ask)
{
    work->prompt_tokens = ask->prompt_tokens;
    if (work->endpoint == ENDPOINT_RERANK || work->endpoint == ENDPOINT_SCORE)
        work->prompt_tokens = pooling_count_tokens(ask);
    if (!generates(work->endpoint))
        return;
    work->choices = 1;
    if (work->endpoint <= ENDPOINT_COMPLETIONS)
        work->choices = ask->samples * (work->endpoint == ENDPOINT_CHAT ? 1 : ask->prompts);
    work->stream = ask->stream;
    work->include_usage = ask->include_usage;
    work->continuous_usage = ask->continuous_usage;
    work->logprobs = ask->logprobs;
    work->top_logprobs = ask->top_logprobs < 0    ? 0
                         : ask->top_logprobs > 20 ? 20
                                                  : (unsigned)ask->top_logprobs;
    work->file_bytes = ask->file_bytes;
    if (is_audio(work->endpoint)) {
        work->prompt_tokens = audio_seconds(ask->file_bytes) * 10;
        counters.audio_bytes += ask->file_bytes;
    }
    content_choose(work, ask);
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
                        .content_type = dialect.kind == KIND_LLAMACPP || dialect.kind == KIND_TGI
                                            ? TEXT("text/event-stream")
                                            : TEXT("text/event-stream; charset=utf-8"),
                        .lines = own_lines(work),
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

static void add_body(const struct work *work, const struct ask *ask)
{
    body.count = 0;
    switch (work->endpoint) {
    case ENDPOINT_CHAT:
    case ENDPOINT_COMPLETIONS:
        chat_add_body(&body, work);
        break;
    case ENDPOINT_RESPONSES:
        responses_add_body(&body, work);
        break;
    case ENDPOINT_MESSAGES:
        messages_add_body(&body, work);
        break;
    case ENDPOINT_TRANSCRIPTIONS:
    case ENDPOINT_TRANSLATIONS:
        audio_add_body(&body, work, ask);
        break;
    case ENDPOINT_COUNT_TOKENS:
    case ENDPOINT_TOKENIZE:
    case ENDPOINT_DETOKENIZE:
        tokens_add_body(&body, work, ask);
        break;
    default:
        pooling_add_body(&body, work, ask);
    }
}

static void answer_plain(struct work *work, const struct ask *ask, struct buffer *out,
                         struct reply *reply)
{
    const struct directive *directive = &work->directive;
    struct head head = {.status = 200,
                        .content_type =
                            ask->plain_text ? TEXT("text/plain; charset=utf-8") : JSON_TYPE,
                        .lines = own_lines(work),
                        .retry_after = -1,
                        .close = reply->close || directive->until_close,
                        .gzip = directive->gzip != 0};
    const struct buffer *whole = &body;

    add_body(work, ask);
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
    if (!reply->failed || directive->failed)
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

static void answer_inference(const struct request *request, struct work *work, struct buffer *out,
                             struct reply *reply)
{
    struct ask ask = {.samples = 1};
    bool readable = is_audio(work->endpoint)
                        ? ask_read_form(request->content_type, request->body, &ask)
                        : ask_read(request->body, &ask);

    counters.requests++;
    reply->inference = true;
    reply->close = request->says_close;
    work->directive = *control_defaults();
    directive_read(&work->directive, request->body);
    work->cached = work->directive.cached;
    copy_clean(work->model, sizeof work->model, ask.model, service.models[0].at);
    name_work(work, request);
    if (service.record)
        control_record(request);
    if (work->directive.close)
        reply->close = true;
    if (!acceptable(request, &ask, readable, work, out, reply))
        return;
    size_work(work, &ask);
    if (answer_fault(work, out, reply))
        return;
    if (work->directive.failed && work->endpoint == ENDPOINT_RESPONSES)
        reply->failed = true;
    int refused = pace_enter(work, &ask);
    if (refused != 0)
        refuse(work, out, reply, refused,
               refused == 400 ? TEXT("This model's maximum context length is exceeded.")
                              : TEXT("The request queue is full."),
               no_text);
    else if (work->stream)
        begin_stream(work, reply);
    else if (pace_holds(work))
        reply->next = NEXT_MODEL;
    else
        answer_plain(work, &ask, out, reply);
    if (work->endpoint == ENDPOINT_TOKENIZE || work->endpoint == ENDPOINT_COUNT_TOKENS)
        work->prompt_tokens = 0; /* counted for the client, but no model has seen them */
}

void service_add_late(struct work *work, struct buffer *out, struct reply *reply)
{
    static const struct ask nothing;

    reply->next = NEXT_REQUEST;
    answer_plain(work, &nothing, out, reply);
}

bool service_fault(struct work *work, enum next *out_next)
{
    const struct directive *directive = &work->directive;
    bool over = work->position.phase > PHASE_TOKENS && work->position.done == work->tokens;
    long events = over                                 ? INT32_MAX
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

    *out_reply =
        (struct reply){.next = NEXT_REQUEST, .close = request->says_close || !request->keep_alive};
    if (service.base_path.bytes > 0 && path.bytes >= service.base_path.bytes &&
        memcmp(path.at, service.base_path.at, service.base_path.bytes) == 0) {
        path.at += service.base_path.bytes;
        path.bytes -= service.base_path.bytes;
    }
    if (!kind_find_endpoint(path, &work->endpoint, &work->path))
        control_answer(request, path, out);
    else if (text_equals(request->method, TEXT("POST")))
        answer_inference(request, work, out, out_reply);
    else
        control_refuse(out, 405);
}
