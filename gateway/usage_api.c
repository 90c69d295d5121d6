/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_api.c: see usage_api.h.
 *
 * For:       questions to the ledger on their way there and back.
 * Called by: steps.c, admin.c, exchange.c.
 * Knows not: how pages and reports are written (usage_page.c, cmd_usage_lines.c, report.c). */
#include "gateway/usage_api.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gateway/cmd_usage.h"
#include "gateway/reply.h"
#include "gateway/usage_ask.h"
#include "gateway/usage_page.h"
#include "meter/books.h"

#define ANSWER_WITHIN_NS (10 * NS_PER_S)
#define TEXTS_BYTES_MAX ((size_t)256 << 10)
#define PROBLEM_BYTES 512

/* Made by its exchange's worker, filled on the keeper's thread, and the worker's again once its
 * letter is read. Asked once. */
struct usage_question {
    struct meter_query query;
    struct letter letter;
    struct worker *worker;
    struct exchange *x;  /* the worker's: who waits; NULL: nobody any more */
    bool answered;       /* the worker's: the letter was read */
    uint64_t give_up_ns; /* the worker's */
    struct arena texts;  /* of what is asked */
    bool of_operator;
    enum usage_subject subject; /* a tenant's: what of */
    struct usage_params params;
    struct span tenant;
    struct books_ask ask; /* the operator's */
    enum err err;         /* what the keeper says */
    char problem[PROBLEM_BYTES];
    char *body;
    size_t body_bytes;
};

static void question_free(struct usage_question *question)
{
    arena_fini(&question->texts);
    free(question->body);
    free(question);
}

/* ---- on the keeper's thread ---- */

/* The same lines as tollgate usage --json. */
static enum err print_lines(struct usage_question *question, struct books *books, FILE *out)
{
    const struct report_frame frame = {question->ask.period, zone_name(question->ask.zone)};
    struct usage_asked asked = {.common = {.books = books}, .ask = question->ask};
    struct report report;
    enum err err;

    report_init(&report);
    err = usage_fill_lines(&asked, &report);
    if (err == OK)
        report_print_json(&report, &frame, out);
    else
        (void)snprintf(question->problem, sizeof(question->problem), "%s", asked.problem);
    report_fini(&report);
    return err;
}

static void question_run(struct meter_query *query, struct books *books)
{
    struct usage_question *question = container_of(query, struct usage_question, query);
    FILE *out = open_memstream(&question->body, &question->body_bytes);

    if (out == NULL)
        question->err = ERR_NO_MEMORY;
    else if (question->of_operator)
        question->err = print_lines(question, books, out);
    else
        question->err =
            usage_page_print(books, question->subject, &question->params, question->tenant, out,
                             question->problem, sizeof(question->problem));
    if (out && fclose(out) != 0 && question->err == OK)
        question->err = ERR_NO_MEMORY;
    mailbox_post(&question->worker->mailbox, &question->letter);
}

static void question_refused(struct meter_query *query, const char *problem)
{
    struct usage_question *question = container_of(query, struct usage_question, query);

    question->err = ERR_INTERNAL;
    (void)snprintf(question->problem, sizeof(question->problem), "%s", problem);
    mailbox_post(&question->worker->mailbox, &question->letter);
}

/* ---- on the worker's ---- */

static void read_answer(struct letter *letter)
{
    struct usage_question *question = container_of(letter, struct usage_question, letter);

    question->answered = true;
    if (question->x)
        exchange_wake(question->x);
    else
        question_free(question);
}

static void answer_error(struct exchange *x, enum err err, const char *message, const char *param)
{
    x->outcome = err == ERR_WHOLE_TIMEOUT                        ? OUTCOME_TIMEOUT
                 : err == ERR_OVERLOADED || err == ERR_NO_MEMORY ? OUTCOME_SHED
                                                                 : OUTCOME_REFUSED;
    reply_error(x, err, message, param);
}

/* What the ledger could not say. What is wrong with it is the operator's matter alone. */
static void answer_problem(struct exchange *x, const struct usage_question *question)
{
    if (question->err == ERR_TOO_LARGE) {
        answer_error(x, ERR_BAD_VALUE,
                     "the answer is too large: ask for a shorter time or fewer groups", NULL);
        return;
    }
    log_event(LOG_WARN, "usage_not_read", "exchange %s: %s", x->exchange_id, question->problem);
    answer_error(x, question->err == ERR_NO_MEMORY ? ERR_NO_MEMORY : ERR_INTERNAL,
                 question->of_operator && question->problem[0] ? question->problem
                                                               : "the ledger cannot be read now",
                 NULL);
}

static void no_longer_waits(struct exchange *x)
{
    struct usage_question *question = x->question;

    x->question = NULL;
    question->x = NULL;
    if (question->answered)
        question_free(question);
}

void usage_api_forget(struct exchange *x)
{
    if (x->question)
        no_longer_waits(x);
}

enum verdict usage_api_wait(struct exchange *x)
{
    const struct usage_question *question = x->question;

    if (!question->answered && x->worker->now_ns < question->give_up_ns) {
        deadline_set(x->worker, &x->deadline, question->give_up_ns);
        return WAIT;
    }
    if (!question->answered)
        answer_error(x, ERR_WHOLE_TIMEOUT, "the ledger did not answer within 10 seconds", NULL);
    else if (question->err != OK)
        answer_problem(x, question);
    else
        reply_body(x, 200, SPAN("application/json"),
                   (struct span){question->body, question->body_bytes});
    no_longer_waits(x);
    deadline_set(x->worker, &x->deadline,
                 x->opened_ns + clock_ms_to_ns(x->config->timeouts_whole_ms));
    return ANSWER;
}

/* ---- asking ---- */

static struct usage_question *question_new(struct exchange *x)
{
    struct usage_question *question = calloc(1, sizeof(*question));

    if (question == NULL)
        return NULL;
    arena_init(&question->texts, NULL, 0, TEXTS_BYTES_MAX);
    question->query.run = question_run;
    question->query.refused = question_refused;
    question->letter.read = read_answer;
    question->worker = x->worker;
    question->give_up_ns = x->worker->now_ns + ANSWER_WITHIN_NS;
    return question;
}

/* Sends it off; it is the keeper's from here on. */
static void send_question(struct exchange *x, struct usage_question *question)
{
    enum err err;

    question->x = x;
    x->question = question;
    err = meter_query(x->worker->server->meter, &question->query);
    if (err == OK)
        return;
    x->question = NULL;
    question_free(question);
    answer_error(x, err,
                 err == ERR_OVERLOADED ? "too many questions wait for the ledger; try again shortly"
                                       : NULL,
                 NULL);
}

static struct span query_of(const struct exchange *x)
{
    return x->target.size > x->path.size ? span_from(x->target, x->path.size + 1)
                                         : (struct span){NULL, 0};
}

/* "start_time: expected …", and the parameter by its name. */
static void refuse_param(struct exchange *x, struct span param, const char *why)
{
    const struct span name = param.data ? arena_copy(&x->arena, param) : param;
    struct span message = span_of(why);

    if (name.data)
        message = arena_format(&x->arena, "%s: %s", name.data, why);
    answer_error(x, ERR_BAD_VALUE, message.data ? message.data : why, name.data);
}

void usage_api_ask(struct exchange *x)
{
    struct usage_question *question = question_new(x);
    struct usage_refusal refusal;
    enum err err = ERR_NO_MEMORY;

    if (question) {
        question->subject = x->endpoint == ENDPOINT_COSTS ? USAGE_COSTS : USAGE_COMPLETIONS;
        question->tenant = arena_copy(&question->texts, x->key->tenant->name);
        err = usage_params_read(question->subject, query_of(x), x->opened_us, &question->texts,
                                &question->params, &refusal);
    }
    if (err == OK && question->tenant.data) {
        send_question(x, question);
        return;
    }
    if (err == ERR_BAD_VALUE)
        refuse_param(x, refusal.param, refusal.why);
    else
        answer_error(x, ERR_NO_MEMORY, NULL, NULL);
    if (question)
        question_free(question);
}

/* ---- the operator's ---- */

/* The zone asked for, else the tenant's, else UTC. */
static bool read_zone(const struct config *config, struct span name, struct span tenant,
                      const struct zone **out_zone)
{
    *out_zone = config_zone_of(config, tenant);
    return name.data == NULL || zone_find(name, out_zone) == OK;
}

/* Fills question->ask; NULL, or the parameter that is wrong (static). */
static const char *read_lines_asked(struct exchange *x, struct usage_question *question)
{
    struct books_ask *ask = &question->ask;
    struct span period = {NULL, 0}, by = period, tenant = period, zone = period, bucket = period;
    const struct {
        const char *name;
        struct span *place;
    } known[] = {{"period", &period},
                 {"by", &by},
                 {"tenant", &tenant},
                 {"zone", &zone},
                 {"bucket", &bucket}};
    struct span query = query_of(x), name, value;
    enum err err;

    while (usage_params_next(&query, &question->texts, &name, &value, &err)) {
        size_t i = 0;
        while (i < sizeof(known) / sizeof(known[0]) && !span_equal(name, span_of(known[i].name)))
            i++;
        if (i == sizeof(known) / sizeof(known[0]) || known[i].place->data)
            return "query";
        *known[i].place = value;
    }
    if (err != OK)
        return "query";
    if (!read_zone(x->config, zone, tenant, &ask->zone))
        return "zone";
    if (period_read(period.data ? period : SPAN("month"), ask->zone, x->opened_us, &ask->period) !=
        OK)
        return "period";
    if (!usage_ask_by(ask, by.data ? by : SPAN("tenant,model")))
        return "by";
    if (bucket.data && !usage_ask_bucket(ask, bucket))
        return "bucket";
    if (tenant.data)
        ask->filters[ask->filter_count++] = (struct books_filter){BY_TENANT, tenant};
    return NULL;
}

void usage_api_ask_all(struct exchange *x)
{
    struct usage_question *question = question_new(x);
    const char *wrong;

    if (question == NULL) {
        answer_error(x, ERR_NO_MEMORY, NULL, NULL);
        return;
    }
    question->of_operator = true;
    wrong = read_lines_asked(x, question);
    if (wrong == NULL) {
        send_question(x, question);
        return;
    }
    question_free(question);
    refuse_param(x, span_of(wrong),
                 "expected /usage?period=2026-11&by=tenant,model&tenant=T&zone=Z&bucket=day, each "
                 "once or not at all");
}
