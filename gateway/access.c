/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/access.c: see access.h.
 *
 * For:       one line a request, written by hand into a buffer on the stack: it is hot.
 * Called by: steps.c, as the last act of settle.
 * Knows not: where lines go. */
#include "gateway/access.h"

#include <pthread.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/money.h"
#include "gateway/reply.h"

#define LINE_BYTES 8192     /* every text at its longest, each byte escaped to six, fits */
#define TEXT_BYTES_MAX 128u /* of one value; what is longer is cut */
#define PATH_BYTES_MAX 256u
#define STRANGERS_PER_SECOND 10

/* Lines end in a newline that must fit, too. */
struct line {
    char *at, *end;
    char text[LINE_BYTES];
};

static const char *const outcome_names[OUTCOME_COUNT] = {
    [OUTCOME_OK] = "ok",
    [OUTCOME_CLIENT_GONE] = "client_gone",
    [OUTCOME_REPLICA_ERROR] = "replica_error",
    [OUTCOME_TIMEOUT] = "timeout",
    [OUTCOME_REFUSED] = "refused",
    [OUTCOME_SHED] = "shed",
};

static const char *const source_names[] = {
    [SOURCE_NONE] = "none",           [SOURCE_REPORTED] = "reported", [SOURCE_RUNNING] = "running",
    [SOURCE_ESTIMATED] = "estimated", [SOURCE_CACHED] = "cached",
};

/* ---- writing ---- */

static void put(struct line *line, struct span text)
{
    if (text.size > (size_t)(line->end - line->at))
        text.size = (size_t)(line->end - line->at);
    if (text.size > 0)
        memcpy(line->at, text.data, text.size);
    line->at += text.size;
}

static void put_number(struct line *line, int64_t number)
{
    char digits[24];
    char *first = digits + sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    do {
        *--first = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        *--first = '-';
    put(line, (struct span){first, (size_t)(digits + sizeof digits - first)});
}

static void put_digits(struct line *line, uint64_t number, int count)
{
    char digits[8];

    for (int i = count - 1; i >= 0; i--) {
        digits[i] = (char)('0' + number % 10);
        number /= 10;
    }
    put(line, (struct span){digits, (size_t)count});
}

/* Escaped, cut to size_max. */
static void put_text(struct line *line, struct span text, size_t size_max)
{
    if (text.size > size_max)
        text.size = size_max;
    line->at += log_escape(text, line->at, (size_t)(line->end - line->at));
}

/* A moment in UTC as 2026-11-30T15:04:05.678Z (ISO 8601); proleptic Gregorian days counted from
 * March. */
static void put_time(struct line *line, int64_t wall_us)
{
    const uint64_t ms = wall_us > 0 ? (uint64_t)wall_us / 1000 : 0;
    const uint64_t second = ms / 1000 % 86400;
    const uint64_t days = ms / 86400000 + 719468; /* since 0000-03-01 */
    const uint64_t era_day = days % 146097;       /* of 400 years */
    const uint64_t era_year = (era_day - era_day / 1460 + era_day / 36524 - era_day / 146096) / 365;
    const uint64_t year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    const uint64_t march_month = (5 * year_day + 2) / 153;
    const uint64_t day = year_day - (153 * march_month + 2) / 5 + 1;
    const uint64_t month = march_month < 10 ? march_month + 3 : march_month - 9;
    const uint64_t year = days / 146097 * 400 + era_year + (month <= 2 ? 1 : 0);

    put_digits(line, year, 4);
    put(line, SPAN("-"));
    put_digits(line, month, 2);
    put(line, SPAN("-"));
    put_digits(line, day, 2);
    put(line, SPAN("T"));
    put_digits(line, second / 3600, 2);
    put(line, SPAN(":"));
    put_digits(line, second / 60 % 60, 2);
    put(line, SPAN(":"));
    put_digits(line, second % 60, 2);
    put(line, SPAN("."));
    put_digits(line, ms % 1000, 3);
    put(line, SPAN("Z"));
}

/* Milliseconds with three decimals. */
static void put_ms(struct line *line, uint64_t ns)
{
    put_number(line, (int64_t)(ns / NS_PER_MS));
    put(line, SPAN("."));
    put_digits(line, ns / 1000 % 1000, 3);
}

/* ,"name":"text" when there is a text. name: with its punctuation. */
static void text_member(struct line *line, struct span name, struct span text, size_t size_max)
{
    if (text.size == 0)
        return;
    put(line, name);
    put_text(line, text, size_max);
    put(line, SPAN("\""));
}

/* ,"name":number when it is known (not negative). */
static void number_member(struct line *line, struct span name, int64_t number)
{
    if (number < 0)
        return;
    put(line, name);
    put_number(line, number);
}

static void ms_member(struct line *line, struct span name, uint64_t ns)
{
    put(line, name);
    put_ms(line, ns);
}

/* ---- what is said ---- */

/* The times of a finished exchange, from when its head came. */
static uint64_t duration_ns(const struct exchange *x)
{
    const uint64_t ended_ns = x->ended_ns > 0 ? x->ended_ns : x->worker->now_ns;

    return ended_ns > x->opened_ns ? ended_ns - x->opened_ns : 0;
}

static bool has_cause(const struct exchange *x)
{
    return x->cause != OK || x->client_gone;
}

static const char *cause_name(const struct exchange *x)
{
    return err_row(x->cause != OK ? x->cause : ERR_CLIENT_GONE)->name;
}

/* What the client got; 499 when it left before there was anything to get. */
static int status_of(const struct exchange *x)
{
    return x->answer.status > 0 && !(x->client_gone && !x->answer.sent)
               ? x->answer.status
               : err_row(ERR_CLIENT_GONE)->status;
}

static const char *level_of(const struct exchange *x)
{
    if (x->outcome == OUTCOME_REPLICA_ERROR || x->outcome == OUTCOME_TIMEOUT)
        return "error";
    return has_cause(x) ? "warn" : "info";
}

static void put_who(struct line *line, const struct exchange *x)
{
    put(line, SPAN(",\"level\":\""));
    put(line, span_of(level_of(x)));
    put(line, SPAN("\",\"event\":\"access\",\"exchange_id\":\""));
    put(line, span_of(x->exchange_id));
    if (reply_request_id(x).data != x->exchange_id) { /* the client has named it */
        put(line, SPAN("\",\"request_id\":\""));
        put(line, reply_request_id(x));
    }
    put(line, SPAN("\""));
    if (x->key) {
        text_member(line, SPAN(",\"tenant\":\""), x->key->tenant->name, TEXT_BYTES_MAX);
        text_member(line, SPAN(",\"key\":\""), x->key->id, TEXT_BYTES_MAX);
    }
}

static void put_what(struct line *line, const struct exchange *x)
{
    text_member(line, SPAN(",\"method\":\""), x->method, 16);
    text_member(line, SPAN(",\"path\":\""), x->path, PATH_BYTES_MAX);
    put(line, x->http2 ? SPAN(",\"protocol\":\"h2\"") : SPAN(",\"protocol\":\"h1\""));
    if (x->endpoint != ENDPOINT_NONE)
        text_member(line, SPAN(",\"endpoint\":\""), endpoint_row(x->endpoint)->name, 32);
    if (x->class)
        text_member(line, SPAN(",\"class\":\""), x->class->name, TEXT_BYTES_MAX);
    if (x->model)
        text_member(line, SPAN(",\"model\":\""), x->model->name, TEXT_BYTES_MAX);
    if (x->replica)
        text_member(line, SPAN(",\"replica\":\""), x->replica->name, TEXT_BYTES_MAX);
    if (x->attempts > 0)
        number_member(line, SPAN(",\"attempts\":"), x->attempts);
}

static void put_ending(struct line *line, const struct exchange *x)
{
    number_member(line, SPAN(",\"status\":"), status_of(x));
    put(line, SPAN(",\"outcome\":\""));
    put(line, span_of(outcome_names[x->outcome]));
    put(line, SPAN("\""));
    if (has_cause(x)) {
        text_member(line, SPAN(",\"cause\":\""), span_of(cause_name(x)), 64);
        text_member(line, SPAN(",\"step\":\""), span_of(exchange_step_name(x->stopped)), 32);
    }
}

static void put_cost(struct line *line, const struct exchange *x, int64_t cost_pusd)
{
    char usd[MONEY_TEXT_BYTES];

    if (x->delivered_source != SOURCE_NONE) {
        number_member(line, SPAN(",\"input_tokens\":"), x->delivered.input);
        number_member(line, SPAN(",\"cached_input_tokens\":"), x->delivered.cached_input);
        number_member(line, SPAN(",\"output_tokens\":"), x->delivered.output);
        number_member(line, SPAN(",\"reasoning_tokens\":"), x->delivered.reasoning);
    }
    if (x->attempts > 0) {
        text_member(line, SPAN(",\"source\":\""), span_of(source_names[x->delivered_source]), 16);
        put(line, SPAN(",\"cost_usd\":\""));
        put(line, (struct span){usd, money_print_usd(cost_pusd, usd)});
        put(line, SPAN("\""));
    }
}

static void put_times(struct line *line, const struct exchange *x)
{
    if (x->attempts > 0 || x->queue_ns > 0)
        ms_member(line, SPAN(",\"queue_ms\":"), x->queue_ns);
    if (x->first_token_ns > x->opened_ns)
        ms_member(line, SPAN(",\"ttft_ms\":"), x->first_token_ns - x->opened_ns);
    ms_member(line, SPAN(",\"duration_ms\":"), duration_ns(x));
    number_member(line, SPAN(",\"bytes_in\":"), x->bytes_in);
    number_member(line, SPAN(",\"bytes_out\":"), x->bytes_out);
}

static void put_json(struct line *line, const struct exchange *x, int64_t cost_pusd)
{
    put(line, SPAN("{\"time\":\""));
    put_time(line, x->worker->wall_us);
    put(line, SPAN("\""));
    put_who(line, x);
    put_what(line, x);
    put_ending(line, x);
    put_cost(line, x, cost_pusd);
    put_times(line, x);
    line->end++; /* room kept for the brace */
    put(line, SPAN("}"));
}

/* 15:04:05.678 200 POST /v1/chat/completions acme small/s1 12+34 tokens 0.000123 USD 45.678 ms */
static void put_readable(struct line *line, const struct exchange *x, int64_t cost_pusd)
{
    char usd[MONEY_TEXT_BYTES];

    put_time(line, x->worker->wall_us);
    put(line, SPAN(" "));
    put_number(line, status_of(x));
    put(line, SPAN(" "));
    put_text(line, x->method, 16);
    put(line, SPAN(" "));
    put_text(line, x->path, PATH_BYTES_MAX);
    put(line, x->key ? SPAN(" ") : SPAN(" -"));
    if (x->key)
        put_text(line, x->key->tenant->name, TEXT_BYTES_MAX);
    if (x->model) {
        put(line, SPAN(" "));
        put_text(line, x->model->name, TEXT_BYTES_MAX);
        put(line, SPAN("/"));
        if (x->replica)
            put_text(line, x->replica->name, TEXT_BYTES_MAX);
    }
    if (x->delivered_source != SOURCE_NONE) {
        put(line, SPAN(" "));
        put_number(line, x->delivered.input > 0 ? x->delivered.input : 0);
        put(line, SPAN("+"));
        put_number(line, x->delivered.output > 0 ? x->delivered.output : 0);
        put(line, SPAN(" tokens "));
        put(line, (struct span){usd, money_print_usd(cost_pusd, usd)});
        put(line, SPAN(" USD"));
    }
    if (has_cause(x)) {
        put(line, SPAN(" "));
        put(line, span_of(cause_name(x)));
        put(line, SPAN(" in "));
        put(line, span_of(exchange_step_name(x->stopped)));
    }
    put(line, SPAN(" "));
    put_ms(line, duration_ns(x));
    put(line, SPAN(" ms"));
}

/* ---- those whom nobody knows ---- */

/* Lines about requests without a tenant, in the present second: anybody can make them. */
static pthread_mutex_t strangers_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t strangers_second;
static int64_t strangers_seen;

/* May this one have its line? *out_left_out: how many of the last second had none, to be told once.
 */
static bool stranger_may(int64_t wall_us, int64_t *out_left_out)
{
    const int64_t second = wall_us / 1000000;

    *out_left_out = 0;
    (void)pthread_mutex_lock(&strangers_lock);
    if (second > strangers_second) {
        if (strangers_seen > STRANGERS_PER_SECOND)
            *out_left_out = strangers_seen - STRANGERS_PER_SECOND;
        strangers_second = second;
        strangers_seen = 0;
    }
    const bool may = ++strangers_seen <= STRANGERS_PER_SECOND;
    (void)pthread_mutex_unlock(&strangers_lock);
    return may;
}

void access_line(const struct exchange *x, int64_t cost_pusd)
{
    struct line line;

    if (!log_access_wanted())
        return;
    if (x->key == NULL && !x->admin) {
        int64_t left_out;
        const bool may = stranger_may(x->worker->wall_us, &left_out);
        if (left_out > 0)
            log_event(LOG_INFO, "access_lines_left_out",
                      "%lld request%s of nobody known in one second", (long long)left_out,
                      span_plural((uint64_t)left_out));
        if (!may)
            return;
    }
    line.at = line.text;
    line.end = line.text + sizeof line.text - 2; /* brace and newline always fit */
    if (log_access_readable())
        put_readable(&line, x, cost_pusd);
    else
        put_json(&line, x, cost_pusd);
    *line.at++ = '\n';
    log_access((struct span){line.text, (size_t)(line.at - line.text)});
}
