/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/steps.c: the step functions, in the order of the table in exchange.h.
 *
 * For:       each reads what the steps above it wrote, writes its own fields of the exchange and
 *            says where to go.
 * Called by: exchange.c.
 * Knows not: sockets, protocols. */
#include "gateway/steps.h"

#include <stdio.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "gateway/access.h"
#include "gateway/admin.h"
#include "gateway/ending.h"
#include "gateway/identity.h"
#include "gateway/quote.h"
#include "gateway/replica.h"
#include "gateway/reply.h"
#include "gateway/usage_api.h"
#include "router/router.h"

#define REST_MS_MAX 1000 /* a replica that is busy for longer is not waited for */

/* ---- answers that are errors ---- */

/* Answers err; after an early head, as the stream's last event with broken framing. */
static enum verdict fail(struct exchange *x, enum err err, const char *message, const char *param)
{
    x->outcome = ending_outcome(err);
    if (!x->early_head) {
        reply_error(x, err, message, param);
        return ANSWER;
    }
    struct chunk *event = reply_error_event(x, err, 0);
    if (x->cause == OK)
        x->cause = err;
    x->rider.ended = x->rider.broken = true;
    if (event) {
        event->ours = true;
        rider_feed(&x->rider, event);
    } else {
        x->rider.fed(&x->rider);
    }
    return ANSWER;
}

/* ---- identify ---- */

enum verdict step_identify(struct exchange *x)
{
    if (x->question)
        return usage_api_wait(x);
    if (x->admin) {
        if (!x->body_whole)
            return WAIT;
        admin_answer(x);
        return x->question ? usage_api_wait(x) : ANSWER;
    }
    if (admin_answer_health(x))
        return ANSWER;
    x->endpoint = endpoint_of_path(x->path, &x->path_rest);
    if (x->endpoint == ENDPOINT_NONE)
        return fail(x, ERR_NO_PATH, NULL, NULL);
    if (span_equal(x->method, SPAN("OPTIONS"))) {
        reply_preflight(x);
        return ANSWER;
    }
    const bool reads = span_equal(x->method, SPAN("GET")) || span_equal(x->method, SPAN("HEAD"));
    if (endpoint_row(x->endpoint)->form == FORM_NONE ? !reads
                                                     : !span_equal(x->method, SPAN("POST")))
        return fail(x, ERR_NO_METHOD, NULL, NULL);
    const enum err err = identity_find(x->config, x->authorization, x->api_key_header, x->opened_us,
                                       x->identity, &x->key);
    if (err != OK) {
        metric_add(METRIC_requests_unauthorized_total, 1);
        return fail(x, err, NULL, NULL);
    }
    if (x->endpoint == ENDPOINT_MODELS) {
        reply_models(x);
        return ANSWER;
    }
    if (x->endpoint == ENDPOINT_USAGE || x->endpoint == ENDPOINT_COSTS) {
        usage_api_ask(x);
        return x->question ? usage_api_wait(x) : ANSWER;
    }
    if (x->endpoint != ENDPOINT_QUOTE)
        return NEXT;
    x->quote = true;
    x->endpoint = quote_endpoint(x->target);
    return x->endpoint != ENDPOINT_NONE
               ? NEXT
               : fail(x, ERR_BAD_VALUE, "this is no endpoint that is billed", "endpoint");
}

/* ---- read_ask ---- */

/* Is this a JSON body, as its header says? An absent header is taken as JSON: that is what the path
 * takes. */
static bool says_json(struct span content_type)
{
    static const struct span json = {"application/json", 16};
    if (content_type.size == 0)
        return true;
    if (content_type.size < json.size ||
        !span_equal_nocase((struct span){content_type.data, json.size}, json))
        return false;
    return content_type.size == json.size || content_type.data[json.size] == ';' ||
           content_type.data[json.size] == ' ';
}

static enum verdict refuse_body(struct exchange *x, enum err err, const struct ask_problem *problem)
{
    char message[256];
    if (problem->message == NULL)
        return fail(x, err, NULL, problem->param);
    if (err == ERR_BAD_JSON)
        snprintf(message, sizeof message, "%s: %s at byte %zu", err_row(err)->says,
                 problem->message, problem->offset);
    else
        snprintf(message, sizeof message, "%s", problem->message);
    return fail(x, err, message, problem->param);
}

static const char *refused_name(const struct ask *ask, uint32_t refused)
{
    static const char *const names[] = {"priority",      "kv_transfer_params", "ec_transfer_params",
                                        "request_id",    "session_id",         "vllm_xargs",
                                        "prompt_embeds", "chat_template",      "messages"};
    /* Some are spelt otherwise by other servers: of one that is refused alone the name is known. */
    return refused == ask->refused && (refused & (refused - 1)) == 0 && ask->refused_name.data
               ? ask->refused_name.data
               : names[__builtin_ctz(refused)];
}

/* The whole body, as the form of its endpoint is read. */
static enum err read_body(struct exchange *x, struct ask_problem *out_problem)
{
    const struct ask_limits limits = {(uint32_t)x->config->limits_json_depth, x->config->limits_n};
    const struct span body = {x->body.data, x->body.size};
    return endpoint_row(x->endpoint)->form == FORM_MULTIPART
               ? ask_read_multipart(body, x->content_type, &limits, &x->ask, out_problem)
               : ask_read(x->endpoint, body, &limits, &x->arena, &x->ask, out_problem);
}

enum verdict step_read_ask(struct exchange *x)
{
    struct ask_problem problem = {0, NULL, NULL};
    if (x->content_encoding.size && !span_equal_nocase(x->content_encoding, SPAN("identity")))
        return fail(x, ERR_BAD_ENCODING, NULL, NULL);
    if (endpoint_row(x->endpoint)->form == FORM_JSON && !says_json(x->content_type))
        return fail(x, ERR_BAD_CONTENT_TYPE, NULL, NULL);
    if (!x->body_whole)
        return WAIT;
    const enum err err = read_body(x, &problem);
    if (err == ERR_BAD_CONTENT_TYPE)
        return fail(x, err, "send the body as content-type: multipart/form-data with a boundary",
                    NULL);
    if (err != OK)
        return refuse_body(x, err, &problem);
    const uint32_t refused = x->ask.refused & ~x->key->tenant->allow;
    if (refused) {
        metric_add(METRIC_requests_refused_total, 1);
        return fail(x, ERR_FIELD_REFUSED,
                    refused & REFUSED_REMOTE_MEDIA
                        ? "remote URLs and stored files in media parts are not open to this tenant"
                        : NULL,
                    refused_name(&x->ask, refused));
    }
    /* What outlives the body. */
    if (x->ask.model.size) {
        x->ask.model = arena_copy(&x->arena, x->ask.model);
        if (x->ask.model.data == NULL)
            return fail(x, ERR_NO_MEMORY, NULL, NULL);
    }
    if (x->task_class.size == 0 && x->ask.task_class.size)
        x->task_class = arena_copy(&x->arena, x->ask.task_class);
    return NEXT;
}

/* ---- classify ---- */

static struct span kept_header(const void *owner, struct span name)
{
    const struct exchange *x = owner;
    for (uint32_t i = 0; i < x->kept_count; i++)
        if (span_equal_nocase(x->kept[i].name, name))
            return x->kept[i].value;
    return (struct span){NULL, 0};
}

/* Drops the candidates whose servers cannot answer on this endpoint. */
static void keep_able(struct exchange *x)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < x->candidate_count; i++)
        if (config_service(x->candidates[i], x->endpoint) != SERVICE_LACKS)
            x->candidates[kept++] = x->candidates[i];
    x->candidate_count = kept;
}

/* Drops the candidates that have no price when the exchange is admitted: nobody is served for
 * nothing by an oversight. */
static void keep_priced(struct exchange *x)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < x->candidate_count; i++)
        if (!endpoint_row(x->endpoint)->charged || config_price_at(x->candidates[i], x->opened_us))
            x->candidates[kept++] = x->candidates[i];
    x->candidate_count = kept;
}

enum verdict step_classify(struct exchange *x)
{
    const struct router_ask ask = {
        .endpoint = x->endpoint,
        .class_asked = x->task_class,
        .model_asked = x->ask.model,
        .system_prompt = x->ask.system_prompt,
        .tools = x->ask.tools,
        .images = x->ask.images,
        .schema = x->ask.schema,
        .body_bytes = x->body.size,
        .header = kept_header,
        .header_owner = x,
    };
    x->class = router_classify(x->config, &ask, &x->class_why);
    x->candidate_count =
        router_choose(x->config, x->class, x->ask.model, &x->key->tenant->models, x->candidates);
    const bool known = x->candidate_count > 0;
    keep_able(x);
    if (x->candidate_count > 0 && x->quote) {
        quote_answer(x);
        return ANSWER;
    }
    const bool able = x->candidate_count > 0;
    keep_priced(x);
    if (x->candidate_count > 0)
        return NEXT;
    metric_add(METRIC_requests_refused_total, 1);
    if (able)
        return fail(x, ERR_NO_REPLICA, "the model has no price now, and is not served", "model");
    if (known)
        return fail(x, ERR_NO_ENDPOINT, NULL, "model");
    if (x->ask.model.size == 0)
        return fail(x, ERR_BAD_VALUE, "the body names no model, and its task class has none",
                    "model");
    return fail(x, ERR_NO_MODEL, NULL, "model");
}

/* ---- admit ---- */

/* What the row calls tags: the tenant's, and those that the client sends as LiteLLM's clients do
 * (x-litellm-tags: a, b), under "request", cut to the room that is left beside all else. A client
 * does not push out or overrule what its operator says of it. */
static struct span row_tags(struct exchange *x, size_t room)
{
    static const struct span name = {"\"request\":", 10};
    const struct span own = x->key->tenant->tags_json;
    const size_t frame = own.size + sizeof "{,\"request\":\"\"}";
    struct text text;
    if (x->litellm_tags.size == 0 || room <= frame ||
        (own.size && memmem(own.data, own.size, name.data, name.size)) ||
        !text_init(&text, &x->arena, room))
        return own;
    text_put(&text, own.size > 2 ? (struct span){own.data, own.size - 1} : SPAN("{"));
    text_put(&text, own.size > 2 ? SPAN(",") : SPAN(""));
    text_put(&text, name);
    text_put(&text, SPAN("\""));
    text.at += log_escape(x->litellm_tags, text.at, room - frame);
    text_put(&text, SPAN("\"}"));
    return text_span(&text);
}

/* The trace id inside a traceparent of the W3C's form; {NULL, 0}: there is none. */
static struct span trace_id(struct span traceparent)
{
    if (traceparent.size < 55 || traceparent.data[2] != '-' || traceparent.data[35] != '-')
        return (struct span){NULL, 0};
    return (struct span){traceparent.data + 3, 32};
}

enum verdict step_admit(struct exchange *x)
{
    const struct span request_id = reply_request_id(x);
    const bool own_id = request_id.data == x->exchange_id; /* the row has that already */
    struct meter_opening opening = {
        .exchange_id = {x->exchange_id, 32},
        .request_id = own_id ? (struct span){NULL, 0} : request_id,
        .trace_id = trace_id(x->traceparent),
        .tenant = x->key->tenant->name,
        .key = x->key->id,
        .endpoint = x->endpoint,
        .class = x->class ? x->class->name : (struct span){NULL, 0},
        .stream = x->ask.stream,
        .tier = x->ask.tier,
        .model_asked = x->ask.model,
        .admitted_us = x->opened_us,
        .bytes_in = (int64_t)x->body.size,
    };
    const size_t texts = opening.exchange_id.size + opening.request_id.size +
                         opening.trace_id.size + opening.tenant.size + opening.key.size +
                         opening.class.size + opening.model_asked.size;
    opening.tags_json = row_tags(x, texts < METER_OPENING_BYTES ? METER_OPENING_BYTES - texts : 0);
    if (!meter_ready(x->worker->server->meter))
        return fail(x, ERR_JOURNAL, NULL, NULL);
    x->slot = meter_admit(x->worker->server->meter, &opening);
    return x->slot ? NEXT : fail(x, ERR_NO_SLOT, NULL, NULL);
}

/* ---- choose ---- */

enum verdict step_choose(struct exchange *x)
{
    x->model = x->candidates[x->candidate];
    return NEXT;
}

/* ---- queue ---- */

/* Our head and a comment go out before the replica has said anything, so that nobody between us and
 * the client takes the silence for death. */
static void send_early_head(struct exchange *x)
{
    static const struct span ping = {": ping\n\n", 8};
    if (x->rider.flight)
        return; /* step_send leaves the flight first */
    if (!x->answer.ready) {
        reply_begin(x, 200);
        reply_field(x, SPAN("content-type"), SPAN("text/event-stream; charset=utf-8"));
        reply_field(x, SPAN("cache-control"), SPAN("no-cache"));
        reply_common_fields(x);
        x->answer.framing = ANSWER_STREAM;
        x->answer.ready = true;
        x->early_head = true;
        x->rider.ended = false;
    }
    struct chunk *chunk = chunk_new(ping.size);
    if (chunk == NULL)
        return;
    memcpy(chunk_data(chunk), ping.data, ping.size);
    chunk->size = (uint32_t)ping.size;
    chunk->ours = true;
    rider_feed(&x->rider, chunk);
}

static uint64_t whole_deadline_ns(const struct exchange *x)
{
    return x->opened_ns + clock_ms_to_ns(x->config->timeouts_whole_ms);
}

/* The next moment at which a waiting stream must say something; UINT64_MAX: never. */
static uint64_t next_ping_ns(const struct exchange *x)
{
    if (!x->ask.stream)
        return UINT64_MAX;
    return x->ping_ns ? x->ping_ns
                      : x->opened_ns + clock_ms_to_ns(x->config->timeouts_stream_head_after_ms);
}

/* Pings when it is time, and sets the deadline for what comes next. */
static void wait_until(struct exchange *x, uint64_t limit_ns)
{
    const uint64_t now_ns = x->worker->now_ns;
    if (next_ping_ns(x) <= now_ns) {
        struct rider *rider = &x->rider;
        struct flight *flight = rider->flight;
        if (flight)
            flight_leave(rider);
        send_early_head(x);
        if (flight)
            flight_join(flight, rider);
        x->ping_ns = now_ns + clock_ms_to_ns(x->config->timeouts_stream_head_after_ms);
    }
    const uint64_t ping_ns = next_ping_ns(x);
    deadline_set(x->worker, &x->deadline, ping_ns < limit_ns ? ping_ns : limit_ns);
}

static void leave_queue(struct exchange *x)
{
    router_return(&x->ticket, x->worker->now_ns);
    /* Granted meanwhile: its letter is under way, and close_exchange() waits for it. */
    x->grant_awaited = x->grant_posted;
}

static enum verdict next_candidate(struct exchange *x, enum err err)
{
    if (x->candidate + 1 >= x->candidate_count)
        return fail(x, err, NULL, NULL);
    x->candidate++;
    x->excluded = 0;
    return RETRY;
}

static enum verdict granted(struct exchange *x)
{
    x->queue_ns += x->worker->now_ns - x->queued_ns;
    x->queued_ns = 0;
    return NEXT;
}

enum verdict step_queue(struct exchange *x)
{
    const uint64_t now_ns = x->worker->now_ns;
    if (now_ns < x->rest_until_ns) {
        wait_until(x, x->rest_until_ns);
        return WAIT;
    }
    if (x->queued_ns) {
        if (!x->grant_awaited)
            return granted(x);
        const uint64_t give_up_ns = x->queued_ns + clock_ms_to_ns(x->config->timeouts_queue_ms);
        if (now_ns >= give_up_ns || now_ns >= whole_deadline_ns(x)) {
            leave_queue(x);
            return fail(x, now_ns >= give_up_ns ? ERR_QUEUE_TIMEOUT : ERR_WHOLE_TIMEOUT, NULL,
                        NULL);
        }
        wait_until(x, give_up_ns < whole_deadline_ns(x) ? give_up_ns : whole_deadline_ns(x));
        return WAIT;
    }
    x->queued_ns = now_ns;
    x->ticket.granted = exchange_granted;
    x->ticket.excluded = x->excluded;
    x->ticket.work = x->ask.text_bytes / 4 + (x->ask.max_tokens > 0 ? x->ask.max_tokens : 256);
    switch (router_enter(&x->ticket, x->config, x->model, true, now_ns)) {
    case TURN_GRANTED:
        return granted(x);
    case TURN_WAIT:
        x->grant_awaited = true;
        wait_until(x, now_ns + clock_ms_to_ns(x->config->timeouts_queue_ms));
        return WAIT;
    case TURN_FULL:
        x->queued_ns = 0;
        return next_candidate(x, ERR_OVERLOADED);
    case TURN_NONE:
        break;
    }
    x->queued_ns = 0;
    return next_candidate(x, ERR_NO_REPLICA);
}

/* ---- send ---- */

/* Is there a replica or a model that has not failed this exchange yet, besides the one of this
 * attempt? */
static bool elsewhere(const struct exchange *x, const struct attempt *attempt)
{
    const uint32_t replicas = attempt->model->replica_count;
    const uint64_t all = replicas == 64 ? UINT64_MAX : (UINT64_C(1) << replicas) - 1;
    const uint64_t excluded = x->excluded | UINT64_C(1) << attempt->replica->index;
    return excluded != all || x->candidate + 1 < x->candidate_count;
}

/* How long a busy replica (429, 503) asks to be left alone, in ms; -1: it does not say, or longer
 * than is worth waiting for. */
static int64_t short_rest_ms(const struct attempt *attempt)
{
    int64_t rest_ms = -1, number;
    if (!attempt->head_ready || (attempt->status != 429 && attempt->status != 503))
        return -1;
    for (uint32_t i = 0; i < attempt->field_count; i++) {
        const struct field *field = &attempt->fields[i];
        if (span_equal(field->name, SPAN("retry-after-ms")) && span_to_int64(field->value, &number))
            return number <= REST_MS_MAX ? number : -1;
        if (span_equal(field->name, SPAN("retry-after")) && span_to_int64(field->value, &number))
            rest_ms = number <= REST_MS_MAX / 1000 ? number * 1000 : -1;
    }
    return rest_ms;
}

/* May this exchange be tried again after a failure, and is there anywhere to go? Then the budget
 * has counted it. */
static bool may_retry(struct exchange *x, const struct attempt *attempt)
{
    if (x->early_head || x->attempts >= (uint32_t)x->config->retry_attempts)
        return false;
    if (!elsewhere(x, attempt) && attempt->result != ATTEMPT_RESET && short_rest_ms(attempt) < 0)
        return false;
    if (x->retry_counted) {
        router_retry_done();
        x->retry_counted = false;
    }
    return router_retry_begin(x->config);
}

/* Is this way of failing one that another replica may mend? */
static bool is_worth_retrying(struct exchange *x, const struct attempt *attempt)
{
    if (attempt->whole || (attempt->head_ready && attempt->status != 200))
        return attempt->status >= 500 || attempt->status == 429;
    switch (attempt->result) {
    case ATTEMPT_CONNECT_ERROR:
    case ATTEMPT_PROTOCOL:
        return attempt->cause != ERR_EVENT_TOO_LARGE;
    case ATTEMPT_RESET:
        if (attempt->sent_ns == 0)
            return true;
        /* The whole request was sent: it may have been worked on. Once. */
        if (x->resent)
            return false;
        x->resent = true;
        return true;
    default:
        return false;
    }
}

static enum verdict retry(struct exchange *x)
{
    struct attempt *attempt = x->attempt;
    struct usage usage = USAGE_UNKNOWN;
    uint32_t flags = 0;
    tally_usage(&attempt->relay.tally, &usage, &flags);
    meter_waste(x->slot, attempt->replica->name,
                attempt->head_ready ? "status" : err_row(attempt->cause)->name, &usage);
    metric_add(METRIC_attempts_retried_total, 1);
    x->excluded |= UINT64_C(1) << attempt->replica->index;
    if (!elsewhere(x, attempt)) {
        /* The same one again: a reset says little of it, and one that is busy has said for how
         * long. */
        const int64_t rest_ms = short_rest_ms(attempt);
        x->excluded = 0;
        x->rest_until_ns = x->worker->now_ns + (rest_ms > 0 ? clock_ms_to_ns(rest_ms) : 0);
    }
    x->retry_counted = x->retried = true;
    attempt_drop(x, attempt_result_of(attempt->status));
    x->broke = false; /* of an answer that nobody saw */
    x->cause = OK;
    x->flags = 0;
    return RETRY;
}

/* Does the usage of this answer count all of it, and not one choice or prompt of several? */
static bool counts_whole(const struct exchange *x)
{
    const bool several = x->ask.n * x->ask.prompts > 1 && x->ask.stream_options;
    const bool summed = x->ask.stream && x->ask.prompts == 1; /* its stream counts each by itself */
    return !several || summed || kind_row(x->model->kind)->whole;
}

static enum err send_attempt(struct exchange *x, struct ask_problem *out_problem)
{
    struct meter_route route = {
        .model = x->model->name,
        .replica = x->ticket.config_replica->name,
        .queue_us = (int64_t)(x->queue_ns / 1000),
        .sent_us = x->worker->wall_us,
        .attempts = ++x->attempts,
        .price = config_price_at(x->model, x->opened_us),
        .estimate = x->model->estimate,
        .prompt_bytes = x->ask.text_bytes,
        .why = reply_why(x),
    };
    quote_bounds(x, &route.most_input, &route.most_output);
    x->replica = x->ticket.config_replica;
    if (x->sent_ns == 0)
        x->sent_ns = clock_now_ns(); /* not the turn's: what we cost lies within one turn */
    x->counts_whole = counts_whole(x);
    meter_route(x->slot, &route);
    return attempt_open(x, out_problem);
}

/* The replica's head becomes ours: its fields but for those that stay between two, then our own. */
static void make_answer_head(struct exchange *x)
{
    const struct attempt *attempt = x->attempt;
    x->answer.status = attempt->status;
    x->answer.framing = ANSWER_STREAM;
    if (attempt->framing == H1_NO_BODY) {
        x->answer.framing = ANSWER_NO_BODY;
    } else if (attempt->framing == H1_LENGTH && !attempt->relay.events && !attempt->relay.decode) {
        x->answer.framing = ANSWER_LENGTH;
        x->answer.length = attempt->length;
    }
    for (uint32_t i = 0; i < attempt->field_count; i++)
        if (!(attempt->relay.decode &&
              span_equal(attempt->fields[i].name, SPAN("content-encoding"))))
            reply_field(x, attempt->fields[i].name, attempt->fields[i].value);
    reply_common_fields(x);
    x->answer.ready = true;
}

/* The replica answers otherwise than an early head has promised. */
static enum verdict fail_after_early_head(struct exchange *x)
{
    const enum err err = x->attempt->status >= 500 || x->attempt->status == 429
                             ? ERR_NO_REPLICA
                             : ERR_REPLICA_REFUSED;
    attempt_drop(x, attempt_result_of(x->attempt->status));
    x->broke = true;
    return fail(x, err, NULL, NULL);
}

static enum verdict begin_relay(struct exchange *x)
{
    struct attempt *attempt = x->attempt;
    if (x->early_head && (attempt->status != 200 || !attempt->relay.events))
        return fail_after_early_head(x);
    if (!x->early_head)
        make_answer_head(x);
    if (attempt->parcel.to_send == 0) /* else replica.c frees it, once it is sent or given up */
        body_free(&x->body);          /* no retry from here on */
    if (attempt->status == 200)
        x->first_token_ns = x->worker->now_ns;
    deadline_set(x->worker, &x->deadline, whole_deadline_ns(x));
    x->rider.fed(&x->rider);
    return NEXT;
}

enum verdict step_send(struct exchange *x)
{
    if (x->attempt == NULL) {
        struct ask_problem problem = {0, NULL, NULL};
        const enum err err = send_attempt(x, &problem);
        if (err != OK) {
            router_return(&x->ticket, x->worker->now_ns);
            return refuse_body(x, err, &problem);
        }
    }
    struct attempt *attempt = x->attempt;
    if (attempt->state != ATTEMPT_ENDED && !attempt->head_ready) {
        if (x->worker->now_ns >= whole_deadline_ns(x)) {
            attempt_drop(x, ATTEMPT_TIMEOUT);
            return fail(x, ERR_WHOLE_TIMEOUT, NULL, NULL);
        }
        wait_until(x, whole_deadline_ns(x));
        return WAIT;
    }
    if ((!attempt->head_ready || attempt->status != 200) && is_worth_retrying(x, attempt) &&
        may_retry(x, attempt))
        return retry(x);
    if (attempt->head_ready && attempt->status == 401) {
        /* It is our key that was refused; the client's own is good. */
        attempt_drop(x, ATTEMPT_OK);
        return fail(x, ERR_REPLICA_KEY, NULL, NULL);
    }
    if (attempt->head_ready && attempt->status == 421) {
        attempt_drop(x, ATTEMPT_OK);
        return fail(x, ERR_REPLICA_REFUSED,
                    "the model server does not serve the host by which this gateway calls it",
                    NULL);
    }
    if (attempt->head_ready)
        return begin_relay(x);
    const enum err cause = attempt->cause == OK ? ERR_REPLICA_GONE : attempt->cause;
    attempt_drop(x, attempt->result);
    return fail(x, cause, NULL, NULL);
}

/* ---- relay, settle ---- */

/* The replica has answered whole, and its last bytes may not leave before its row is synced:
 * settles now. What the client has not taken yet is charged with the rest. */
static void settle_early(struct exchange *x)
{
    x->delivered_any = true;
    x->delivered_text_bytes = x->whole_text_bytes;
    x->delivered_pieces = x->whole_pieces;
    x->ended_ns = x->worker->now_ns;
    ending_settle(x, exchange_await_row(x), (int64_t)relay_waiting(&x->attempt->relay));
}

/* Lets the held end go, or breaks it off when the row took too long. */
static void end_held(struct exchange *x, bool broken)
{
    if (!broken)
        relay_release(&x->attempt->relay);
    flight_end(&x->attempt->relay.flight, broken);
}

enum verdict step_relay(struct exchange *x)
{
    if (x->answered)
        return NEXT;
    const bool too_late = x->worker->now_ns >= whole_deadline_ns(x);
    if (x->attempt && attempt_holds_end(x->attempt)) {
        if (x->slot && x->durable == DURABLE_NOT)
            settle_early(x);
        const bool given_up = too_late && exchange_unawait_row(x);
        if (x->durable == DURABLE_DONE)
            end_held(x, given_up);
        return WAIT;
    }
    /* Too long in all: what is under way is cut, so that the client sees it. */
    if (x->attempt && x->attempt->state != ATTEMPT_ENDED && too_late) {
        x->outcome = OUTCOME_TIMEOUT;
        attempt_end(x->attempt, ATTEMPT_TIMEOUT, ERR_WHOLE_TIMEOUT);
    }
    return WAIT;
}

enum verdict step_settle(struct exchange *x)
{
    if (x->ended_ns == 0)
        x->ended_ns = x->worker->now_ns;
    if (x->attempt)
        attempt_drop(x, ATTEMPT_CLIENT_GONE);
    if (x->ticket.model)
        leave_queue(x);
    if (x->retry_counted)
        router_retry_done();
    x->retry_counted = false;
    if (x->client_gone && x->cause == OK)
        x->cause = ERR_CLIENT_GONE;
    if (x->slot)
        ending_settle(x, NULL, 0);
    else if (x->client_gone)
        x->outcome = OUTCOME_CLIENT_GONE;
    access_line(x, x->cost_pusd);
    return NEXT;
}
