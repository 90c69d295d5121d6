/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/reply.c: see reply.h.
 *
 * For:       answers of our own, and the fields that every answer bears.
 * Called by: steps.c, exchange.c, relay.c, admin.c, access.c.
 * Knows not: protocols; what a step decides. */
#include "gateway/reply.h"

#include <string.h>

#include "config/base/log.h"
#include "gateway/fault.h"

#define FEW_FIELDS 12u /* enough for nearly every answer */
#define REQUEST_ID_BYTES_MAX 128u
#define WANTED_HEADERS_BYTES_MAX 1024u
#define NUMBER_BYTES 24u
#define ERROR_BYTES_MAX 16384u
#define RETRY_AFTER_SECONDS "1"
#define RETRY_AFTER_MS "1000"

#define METHODS "GET, POST, OPTIONS"
#define HEADERS_ALLOWED                                                                            \
    "authorization, content-type, x-api-key, x-request-id, x-task-class, accept, traceparent, "    \
    "tracestate, anthropic-version, anthropic-beta"
#define HEADERS_EXPOSED                                                                            \
    "x-request-id, retry-after, retry-after-ms, x-should-retry, x-tollgate-model, "                \
    "x-tollgate-replica, x-tollgate-class, x-tollgate-why, x-tollgate-overhead-ms"

/* ---- fields ---- */

void reply_field(struct exchange *x, struct span name, struct span value)
{
    struct answer *answer = &x->answer;

    if (answer->field_count == 0 || answer->field_count == FEW_FIELDS) {
        const uint32_t room = answer->field_count == 0 ? FEW_FIELDS : ANSWER_FIELDS_MAX;
        struct field *fields = arena_take(&x->arena, room * sizeof *fields);
        if (fields == NULL)
            return;
        if (answer->field_count > 0)
            memcpy(fields, answer->fields, answer->field_count * sizeof *fields);
        answer->fields = fields;
    }
    if (answer->field_count == ANSWER_FIELDS_MAX) {
        log_event(LOG_WARN, "answer_field_dropped",
                  "exchange %s: more than %d fields, %.*s is left out", x->exchange_id,
                  ANSWER_FIELDS_MAX, (int)name.size, name.data);
        return;
    }
    answer->fields[answer->field_count++] = (struct field){name, value};
}

static bool has_field(const struct answer *answer, struct span name)
{
    for (uint32_t i = 0; i < answer->field_count; i++)
        if (span_equal(answer->fields[i].name, name))
            return true;
    return false;
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_request_id(struct span text)
{
    if (text.size == 0 || text.size > REQUEST_ID_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        if (!is_letter_or_digit(c) && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

struct span reply_request_id(const struct exchange *x)
{
    return is_request_id(x->request_id) ? x->request_id : span_of(x->exchange_id);
}

/* ---- CORS (the Fetch standard, section 3.2) ---- */

static void cors_fields(struct exchange *x)
{
    const struct config *config = x->config;

    if (config->cors_origin_count == 0)
        return;
    for (uint32_t i = 0; i < config->cors_origin_count; i++) {
        const bool any = span_equal(config->cors_origins[i], SPAN("*"));
        if (x->origin.size == 0 || !(any || span_equal(config->cors_origins[i], x->origin)))
            continue;
        reply_field(x, SPAN("access-control-allow-origin"), any ? SPAN("*") : x->origin);
        reply_field(x, SPAN("access-control-expose-headers"), SPAN(HEADERS_EXPOSED));
        break;
    }
    reply_field(x, SPAN("vary"),
                SPAN("origin")); /* also when it was not allowed: caches must know */
}

/* May what a browser asks to send be echoed: names, commas, spaces and nothing else? */
static bool is_name_list(struct span text)
{
    if (text.size == 0 || text.size > WANTED_HEADERS_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        if (!is_letter_or_digit(c) && memchr("-_., ", c, 5) == NULL)
            return false;
    }
    return true;
}

void reply_preflight(struct exchange *x)
{
    reply_begin(x, 204);
    reply_field(x, SPAN("allow"), SPAN(METHODS));
    reply_common_fields(x);
    if (has_field(&x->answer, SPAN("access-control-allow-origin"))) {
        reply_field(x, SPAN("access-control-allow-methods"), SPAN(METHODS));
        reply_field(x, SPAN("access-control-allow-headers"),
                    is_name_list(x->request_headers_wanted) ? x->request_headers_wanted
                                                            : SPAN(HEADERS_ALLOWED));
        reply_field(x, SPAN("access-control-max-age"), SPAN("600"));
    }
    reply_finish(x, SPAN(""), NULL);
}

/* ---- what was decided, in header fields ---- */

/* Why this model: static text, or in the arena when it names one. */
struct span reply_why(struct exchange *x)
{
    if (x->candidate > 0 && x->candidate < x->candidate_count) {
        const struct span first = x->candidates[0]->name;
        return arena_format(&x->arena, "fallback of %.*s", (int)first.size, first.data);
    }
    if (x->class && x->class->model) {
        const struct span why = x->class_why ? span_of(x->class_why) : SPAN("rule");
        if (span_equal(why, SPAN("header")))
            return x->retried ? SPAN("class header; retry") : SPAN("class header");
        if (span_equal(why, SPAN("metadata")))
            return x->retried ? SPAN("class metadata; retry") : SPAN("class metadata");
        return x->retried ? SPAN("class rule; retry") : SPAN("class rule");
    }
    if (span_equal(x->ask.model, SPAN("auto")))
        return x->retried ? SPAN("cheapest allowed; retry") : SPAN("cheapest allowed");
    return x->retried ? SPAN("model asked; retry") : SPAN("model asked");
}

/* Milliseconds with three decimals, of nanoseconds. */
static struct span write_ms(uint64_t ns, char *room, size_t room_bytes)
{
    char *at = room + room_bytes;
    uint64_t us = ns / 1000;
    int digits = 0;

    do {
        if (digits == 3)
            *--at = '.';
        *--at = (char)('0' + us % 10);
        us /= 10;
        digits++;
    } while (us > 0 || digits < 4);
    return (struct span){at, (size_t)(room + room_bytes - at)};
}

/* What we added before the ask was handed over: from the head's begin to the send, the queue left
 * out. */
static void overhead_field(struct exchange *x)
{
    const uint64_t until_ns = x->sent_ns > 0 ? x->sent_ns : x->worker->now_ns;
    const uint64_t passed_ns = until_ns > x->opened_ns ? until_ns - x->opened_ns : 0;
    char *room = arena_take(&x->arena, NUMBER_BYTES);

    if (room)
        reply_field(
            x, SPAN("x-tollgate-overhead-ms"),
            write_ms(passed_ns > x->queue_ns ? passed_ns - x->queue_ns : 0, room, NUMBER_BYTES));
}

/* Names come from the operator's file and may be any text; a field value may not (RFC 9110
 * section 5.5). */
static void name_field(struct exchange *x, struct span name, struct span value)
{
    for (size_t i = 0; i < value.size; i++)
        if ((unsigned char)value.data[i] < 0x20 || value.data[i] == 0x7f)
            return;
    if (value.size > 0)
        reply_field(x, name, value);
}

void reply_common_fields(struct exchange *x)
{
    reply_field(x, SPAN("x-request-id"), reply_request_id(x));
    if (endpoint_row(x->endpoint)->shape == SHAPE_ANTHROPIC) /* where its SDKs look for it */
        reply_field(x, SPAN("request-id"), reply_request_id(x));
    cors_fields(x);
    if (x->candidate_count == 0)
        return;
    const struct config_model *model = x->model;
    if (model == NULL && x->candidate < x->candidate_count)
        model = x->candidates[x->candidate];
    if (model)
        name_field(x, SPAN("x-tollgate-model"), model->name);
    if (x->replica)
        name_field(x, SPAN("x-tollgate-replica"), x->replica->name);
    if (x->class)
        name_field(x, SPAN("x-tollgate-class"), x->class->name);
    name_field(x, SPAN("x-tollgate-why"), reply_why(x));
    overhead_field(x);
}

/* ---- whole answers ---- */

void reply_begin(struct exchange *x, int status)
{
    rider_fini(&x->rider);
    x->answer.field_count = 0;
    x->answer.status = status;
}

void reply_finish(struct exchange *x, struct span content_type, struct chunk *body)
{
    struct answer *answer = &x->answer;
    const bool head_only = answer->status == 204 || span_equal(x->method, SPAN("HEAD"));

    if (content_type.size > 0)
        reply_field(x, SPAN("content-type"), content_type);
    answer->framing = head_only ? ANSWER_NO_BODY : ANSWER_LENGTH;
    answer->length = body ? body->size : 0;
    x->rider.ended = true;
    x->rider.broken = false;
    answer->ready = true;
    if (body && !head_only && body->size > 0) {
        body->ours = true;
        rider_feed(&x->rider, body); /* rings the protocol */
        return;
    }
    chunk_put(body);
    if (x->rider.fed)
        x->rider.fed(&x->rider);
}

void reply_body(struct exchange *x, int status, struct span content_type, struct span body)
{
    struct chunk *chunk = chunk_new(body.size);

    if (chunk == NULL) {
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
        return;
    }
    if (body.size > 0)
        memcpy(chunk_data(chunk), body.data, body.size);
    chunk->size = (uint32_t)body.size;
    reply_begin(x, status);
    reply_common_fields(x);
    reply_finish(x, content_type, chunk);
}

/* ---- errors ---- */

/* Appends text that is known to fit. */
static char *put(char *at, struct span text)
{
    memcpy(at, text.data, text.size);
    return at + text.size;
}

static char *put_quoted(char *at, struct span text)
{
    *at++ = '"';
    at += log_escape(text, at, 6 * text.size);
    *at++ = '"';
    return at;
}

/* An error of ours; param may be NULL. */
static struct fault fault_of(const struct err_row *row, const char *message, const char *param)
{
    return (struct fault){.message = span_of(message ? message : row->says),
                          .type = span_of(row->type),
                          .param = span_of(param),
                          .code = span_of(row->code),
                          .status = row->status};
}

/* What was written as a chunk of ours; NULL without memory. */
static struct chunk *written_chunk(struct writer *writer)
{
    struct chunk *chunk = writer->err == OK ? chunk_new(writer->text.size) : NULL;

    if (chunk) {
        memcpy(chunk_data(chunk), writer->text.data, writer->text.size);
        chunk->size = (uint32_t)writer->text.size;
        chunk->ours = true;
    }
    buffer_free(&writer->text);
    return chunk;
}

/* Which methods the path takes (RFC 9110 section 15.5.6 wants to be told). */
static struct span methods_of(const struct exchange *x)
{
    if (x->endpoint == ENDPOINT_NONE)
        return SPAN(METHODS);
    return endpoint_row(x->endpoint)->form == FORM_NONE ? SPAN("GET, HEAD, OPTIONS")
                                                        : SPAN("POST, OPTIONS");
}

static void error_fields(struct exchange *x, const struct err_row *row)
{
    if (row->retry) {
        reply_field(x, SPAN("retry-after"), SPAN(RETRY_AFTER_SECONDS));
        reply_field(x, SPAN("retry-after-ms"), SPAN(RETRY_AFTER_MS));
    }
    if (row->status == 504) /* the SDKs would, and pay for the long answer again */
        reply_field(x, SPAN("x-should-retry"), SPAN("false"));
    if (row->status == 401)
        reply_field(x, SPAN("www-authenticate"), SPAN("Bearer"));
}

/* What is refused before its first step has no endpoint yet, but its error has a shape. */
static void find_endpoint(struct exchange *x)
{
    const char *query = x->target.size ? memchr(x->target.data, '?', x->target.size) : NULL;
    const struct span path = {x->target.data,
                              query ? (size_t)(query - x->target.data) : x->target.size};
    struct span rest;

    if (x->endpoint == ENDPOINT_NONE && !x->admin && path.size > 0)
        x->endpoint = endpoint_of_path(path, &rest);
}

/* An error of ours; allowed: what a 405 says of the path. */
static void answer_error(struct exchange *x, enum err err, const char *message, const char *param,
                         struct span allowed)
{
    const struct err_row *row = err_row(err);
    const struct fault fault = fault_of(row, message, param);
    struct writer writer = writer_new(ERROR_BYTES_MAX);

    find_endpoint(x);
    fault_write(&fault, endpoint_row(x->endpoint)->shape, &writer);
    struct chunk *chunk = written_chunk(&writer);
    if (x->cause == OK)
        x->cause = err;
    reply_begin(x, row->status);
    reply_common_fields(x);
    error_fields(x, row);
    if (row->status == 405)
        reply_field(x, SPAN("allow"), allowed);
    reply_finish(x, chunk ? SPAN("application/json") : SPAN(""), chunk);
}

void reply_error(struct exchange *x, enum err err, const char *message, const char *param)
{
    answer_error(x, err, message, param, methods_of(x));
}

void reply_method_error(struct exchange *x, struct span allowed)
{
    answer_error(x, ERR_NO_METHOD, NULL, NULL, allowed);
}

struct chunk *reply_error_event(struct exchange *x, enum err err, int64_t sequence)
{
    const struct err_row *row = err_row(err);
    struct fault fault = fault_of(row, NULL, NULL);
    struct writer writer = writer_new(ERROR_BYTES_MAX);

    fault.sequence = sequence;
    fault_write_event(&fault, x->endpoint, &writer);
    struct chunk *chunk = written_chunk(&writer);
    if (chunk == NULL)
        return NULL;
    chunk->text_bytes = x->delivered_text_bytes;
    chunk_frame(chunk);
    return chunk;
}

/* ---- the models list ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

struct span reply_decode_path(struct span text, struct arena *arena)
{
    char *out = arena_take(arena, text.size);
    size_t size = 0;

    if (out == NULL)
        return (struct span){NULL, 0};
    for (size_t i = 0; i < text.size; i++) {
        out[size] = text.data[i];
        if (text.data[i] == '%') {
            const int high = i + 2 < text.size ? hex_digit(text.data[i + 1]) : -1;
            const int low = i + 2 < text.size ? hex_digit(text.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return (struct span){NULL, 0};
            out[size] = (char)(high * 16 + low);
            i += 2;
        }
        size++;
    }
    return (struct span){out, size};
}

/* Bytes that write_model() needs at most. */
static size_t model_bytes(struct span name)
{
    return 6 * name.size + 100;
}

/* One model object under one of its names. created: since when it has a price, in seconds. */
static char *write_model(char *at, const struct config_model *model, struct span name)
{
    int64_t seconds = model->prices[0].from_us / 1000000;
    char digits[NUMBER_BYTES];
    size_t first = sizeof digits;

    if (seconds < 0)
        seconds = 0;
    do {
        digits[--first] = (char)('0' + seconds % 10);
        seconds /= 10;
    } while (seconds > 0);
    at = put_quoted(put(at, SPAN("{\"id\":")), name);
    at = put(at, SPAN(",\"object\":\"model\",\"created\":"));
    at = put(at, (struct span){digits + first, sizeof digits - first});
    return put(at, SPAN(",\"owned_by\":\"tollgate\"}"));
}

static void reply_json(struct exchange *x, struct chunk *chunk, const char *end)
{
    chunk->size = (uint32_t)(end - chunk_data(chunk));
    reply_begin(x, 200);
    reply_common_fields(x);
    reply_finish(x, SPAN("application/json"), chunk);
}

static void reply_one_model(struct exchange *x)
{
    const struct span name = reply_decode_path(x->path_rest, &x->arena);
    const struct config_model *model = name.size > 0 ? config_find_model(x->config, name) : NULL;

    if (model == NULL || !model_set_has(&x->key->tenant->models, model->index)) {
        reply_error(x, ERR_NO_MODEL, NULL, "model");
        return;
    }
    struct chunk *chunk = chunk_new(model_bytes(name));
    if (chunk == NULL)
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
    else
        reply_json(x, chunk, write_model(chunk_data(chunk), model, name));
}

void reply_models(struct exchange *x)
{
    const struct config *config = x->config;
    const struct model_set *allowed = &x->key->tenant->models;
    size_t room = 40;
    bool first = true;

    if (x->path_rest.size > 0) {
        reply_one_model(x);
        return;
    }
    for (uint32_t i = 0; i < config->model_count; i++) {
        room += model_bytes(config->models[i].name) + 1;
        for (uint32_t k = 0; k < config->models[i].alias_count; k++)
            room += model_bytes(config->models[i].aliases[k]) + 1;
    }
    struct chunk *chunk = chunk_new(room);
    if (chunk == NULL) {
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
        return;
    }
    char *at = put(chunk_data(chunk), SPAN("{\"object\":\"list\",\"data\":["));
    for (uint32_t i = 0; i < config->model_count; i++) {
        const struct config_model *model = &config->models[i];
        if (!model_set_has(allowed, model->index))
            continue;
        if (!first)
            *at++ = ',';
        first = false;
        at = write_model(at, model, model->name);
        for (uint32_t k = 0; k < model->alias_count; k++) {
            *at++ = ',';
            at = write_model(at, model, model->aliases[k]);
        }
    }
    reply_json(x, chunk, put(at, SPAN("]}")));
}
