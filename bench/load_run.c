/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_run.c: one measurement.
 *
 * For:       starts requests as the plan says, judges every answer, counts.
 * Called by: load.c.
 * Knows not: the command line, protocols.
 *
 * A slot is a place for one request at a time; in a closed loop it starts the next one when its
 * answer has ended. At a
 * fixed rate requests start at their evenly spaced times; when no slot is free the wait counts as
 * latency. */
#include "bench/load_run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

struct slot {
    struct call call;
    struct link *link;
    uint64_t begun_ns; /* when it was sent, or was due to be */
    bool busy;
    bool ready; /* in the list of free slots (MODE_OPEN) */
    bool held;  /* its stream has brought its first token (the modes that hold) */
    struct slot *next_free;
};

static const struct plan *plan;
static struct outcome *outcome;
static struct client client;
static struct form form;
static struct buffer body;
static long counter_at;
static struct link *links;
static struct slot *slots;
static size_t slot_count;
static struct slot *free_slots;
static uint64_t started;
static unsigned running;
static unsigned held;
static uint64_t end_ns;       /* no request starts after; UINT64_MAX: no limit */
static unsigned failed_opens; /* in a row */
static size_t next_held;      /* the first slot that has not begun (the modes that hold) */
static volatile sig_atomic_t stop;

enum { HELD_AT_ONCE = 8 };

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

/* ---- what is sent ---- */

static void add_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_format(struct buffer *buffer, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    int count = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    buffer_add(buffer, text, (size_t)count < sizeof text ? (size_t)count : sizeof text - 1);
}

/* One body for all: only the counter in it differs, so that no two asks are the same. */
static void make_body(void)
{
    static const char filler[] =
        "The quick brown fox jumps over the lazy dog and asks what tokens cost. ";
    static const char closing[] = "\"}]}";
    bool stream = plan->kind == KIND_SSE;

    body.count = 0;
    add_format(&body, "{\"model\":\"%.*s\",\"temperature\":0,", (int)plan->model.bytes,
               plan->model.at);
    if (stream)
        add_format(&body, "\"stream\":true,%s",
                   plan->ask_usage ? "\"stream_options\":{\"include_usage\":true}," : "");
    add_format(&body, "\"messages\":[{\"role\":\"user\",\"content\":\"");
    counter_at = (long)body.count;
    add_format(&body, "0000000000 ");
    if (plan->mode == MODE_HOLD_STREAMS || plan->mode == MODE_VANISH)
        add_format(&body, "[[fake tokens=1000000 stall=1]] ");
    else if (stream || plan->say_tokens)
        add_format(&body, "[[fake tokens=%llu delay_ms=%llu%s]] ", (unsigned long long)plan->tokens,
                   (unsigned long long)plan->delay_ms, stream ? " stamp=1" : "");
    while (body.count + sizeof closing - 1 < plan->body_bytes) {
        size_t left = plan->body_bytes - body.count - (sizeof closing - 1);
        buffer_add(&body, filler, left < sizeof filler - 1 ? left : sizeof filler - 1);
    }
    add_format(&body, closing);
}

static void make_form(void)
{
    static struct buffer credential;

    form_begin(&form, TEXT("POST"), plan->authority, plan->path);
    form_add(&form, TEXT("content-type"), TEXT("application/json"));
    form_add(&form, TEXT("accept"), TEXT("*/*"));
    if (plan->key.bytes > 0) {
        buffer_add_literal(&credential, "Bearer ");
        buffer_add_text(&credential, plan->key);
        form_add(&form, TEXT("authorization"), (struct text){credential.bytes, credential.count});
    }
    for (size_t i = 0; i < plan->field_count; i++)
        form_add(&form, plan->fields[i].name, plan->fields[i].value);
    form_finish(&form, body.count);
}

/* ---- judging ---- */

/* What is wrong with an answer; NULL: nothing. */
static const char *judge(const struct answer *answer, enum ending ending)
{
    if (ending != ENDING_WHOLE)
        return "cut";
    if (answer->status != 200)
        return "status is not 200";
    if (answer->broken)
        return "body is malformed";
    if (answer->failed)
        return "error event";
    if (answer->tokens != plan->tokens)
        return "not all tokens came";
    if (plan->kind != KIND_SSE)
        return answer->usage_output == (int64_t)plan->tokens ? NULL : "usage is wrong or missing";
    if (!answer->streamed)
        return "no event stream";
    if (!answer->done)
        return "no [DONE]";
    if (answer->usage_shown != plan->ask_usage)
        return answer->usage_shown ? "usage that was not asked for" : "usage is missing";
    if (plan->ask_usage && answer->usage_output != (int64_t)plan->tokens)
        return "usage is wrong";
    return NULL;
}

static void note_wrong(const char *what, const struct answer *answer)
{
    outcome->wrong++;
    if (outcome->first_wrong[0] == '\0')
        snprintf(outcome->first_wrong, sizeof outcome->first_wrong,
                 "%s (status %d, %llu events, %llu tokens)", what, answer->status,
                 (unsigned long long)answer->events, (unsigned long long)answer->tokens);
}

/* ---- starting and ending ---- */

static bool may_start(void)
{
    return !stop && (plan->requests == 0 || started < plan->requests) && client.now_ns < end_ns;
}

static void free_slot(struct slot *slot)
{
    if (slot->ready)
        return;
    slot->ready = true;
    slot->next_free = free_slots;
    free_slots = slot;
}

/* false: the link is not there; the slot starts when it is open again. */
static bool start_slot(struct slot *slot, uint64_t begun_ns)
{
    if (!call_start(&slot->call, slot->link, &form, (struct text){body.bytes, body.count},
                    counter_at, started))
        return false;
    started++;
    running++;
    slot->busy = true;
    slot->begun_ns = begun_ns;
    return true;
}

/* What is held begins a few at a time, so that memory shows what holding costs and not what a crowd
 * does. */
static void start_next_held(void)
{
    if (next_held < slot_count && !stop)
        start_slot(&slots[next_held++], client.now_ns);
}

static void start_first_held(void)
{
    for (int i = 0; i < HELD_AT_ONCE; i++)
        start_next_held();
}

static struct slot *slot_of(struct call *call)
{
    return (struct slot *)((char *)call - offsetof(struct slot, call));
}

static void on_ended(struct call *call, enum ending ending)
{
    struct slot *slot = slot_of(call);
    struct answer *answer = &call->answer;
    const char *what = judge(answer, ending);

    running--;
    slot->busy = false;
    if (ending == ENDING_WHOLE)
        failed_opens = 0;
    outcome->requests++;
    outcome->events += answer->events;
    outcome->body_bytes += answer->body_bytes;
    if (what != NULL)
        note_wrong(what, answer);
    histogram_add(&outcome->latency, (client.now_ns - slot->begun_ns) / 1000);
    if (answer->first_token_ns != 0)
        histogram_add(&outcome->first_token, (answer->first_token_ns - slot->begun_ns) / 1000);
    bool was_held = slot->held;
    if (was_held)
        held--;
    slot->held = false;
    if (plan->churn)
        link_mark_lost(slot->link);
    else if (plan->mode == MODE_OPEN)
        free_slot(slot);
    else if (plan->mode != MODE_CLOSED && !was_held)
        start_next_held();
    else if (plan->mode == MODE_CLOSED && may_start())
        start_slot(slot, client.now_ns);
}

static void on_progress(struct call *call)
{
    struct slot *slot = slot_of(call);

    if (!slot->held && call->answer.tokens > 0) {
        slot->held = true;
        held++;
        start_next_held();
    }
}

/* A server may close between two requests; the link is opened again, unless it fails again and
 * again. */
static void on_lost(struct link *link)
{
    size_t first = (size_t)(link - links) * plan->streams;

    outcome->lost_links += !plan->churn;
    if (stop || (plan->churn && !may_start()))
        return;
    if (++failed_opens > 10 * plan->connections || !link_open(link, &client, plan->use_h2)) {
        fprintf(stderr, "load: connections fail: %s %s\n",
                client.tls_problem != NULL ? client.tls_problem : "", outcome->first_wrong);
        stop = 1;
        return;
    }
    for (size_t i = first; i < first + plan->streams && i < slot_count; i++)
        if (plan->mode == MODE_CLOSED && !slots[i].busy && may_start())
            start_slot(&slots[i], client.now_ns);
}

/* ---- the modes ---- */

static void run_closed(const sigset_t *signals)
{
    for (size_t i = 0; i < slot_count && may_start(); i++)
        start_slot(&slots[i], client.now_ns);
    while ((running > 0 || may_start()) && !stop) {
        int64_t wait_ns = -1;
        if (end_ns != UINT64_MAX)
            wait_ns = client.now_ns < end_ns ? (int64_t)(end_ns - client.now_ns) : 100000000;
        client_turn(&client, wait_ns, signals);
    }
}

static void run_open(const sigset_t *signals)
{
    uint64_t begin_ns = client.now_ns;
    uint64_t due_count = 0;
    double interval_ns = 1e9 / plan->rate;

    for (size_t i = slot_count; i-- > 0;)
        free_slot(&slots[i]);
    while (!stop) {
        uint64_t due_ns = begin_ns + (uint64_t)((double)due_count * interval_ns);
        while (due_ns <= client.now_ns && due_ns < end_ns && free_slots != NULL &&
               (plan->requests == 0 || started < plan->requests)) {
            struct slot *slot = free_slots;
            free_slots = slot->next_free;
            slot->ready = false;
            if (!start_slot(slot, due_ns)) {
                free_slot(slot);
                break;
            }
            due_count++;
            due_ns = begin_ns + (uint64_t)((double)due_count * interval_ns);
        }
        bool more = due_ns < end_ns && (plan->requests == 0 || started < plan->requests);
        if (!more && running == 0)
            return;
        client_turn(&client,
                    more && due_ns > client.now_ns ? (int64_t)(due_ns - client.now_ns) : 10000000,
                    signals);
    }
}

static void wait_for_the_end(const sigset_t *signals)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char bytes[64];

    printf("holding %u\n", plan->mode == MODE_HOLD_CONNECTIONS ? plan->connections : held);
    fflush(stdout);
    while (!stop) {
        client_turn(&client, 20000000, signals);
        if (poll(&input, 1, 0) > 0 && read(0, bytes, sizeof bytes) <= 0)
            return;
    }
}

/* Opens streams that stay silent after their first token. */
static void hold_streams(const sigset_t *signals)
{
    uint64_t limit_ns = client.now_ns + 30000000000u;

    start_first_held();
    while (held < slot_count && client.now_ns < limit_ns && !stop)
        client_turn(&client, 100000000, signals);
    if (held < slot_count)
        fprintf(stderr, "load: only %u of %zu streams began: %s\n", held, slot_count,
                outcome->first_wrong);
    outcome->requests = held;
    outcome->wrong = slot_count - held;
}

static void hold_connections(const sigset_t *signals)
{
    uint64_t limit_ns = client.now_ns + 30000000000u;

    if (plan->hold_request) {
        start_first_held();
        while (running > 0 && client.now_ns < limit_ns && !stop)
            client_turn(&client, 100000000, signals);
    } else {
        client_turn(&client, 100000000, signals);
    }
    wait_for_the_end(signals);
}

static void vanish(void)
{
    client_read_clock(&client);
    outcome->vanished_ns = client.now_ns;
    for (unsigned i = 0; i < plan->connections; i++)
        link_close(&links[i], false);
}

/* Handshakes before anything is measured, a few at a time: what they cost is a figure of its own.
 */
static bool make_handshakes(unsigned most_missing, unsigned opened, const sigset_t *signals)
{
    uint64_t limit_ns = client.now_ns + 10000000000u;

    while (opened - client.handshakes > most_missing && client.now_ns < limit_ns && !stop)
        client_turn(&client, 100000000, signals);
    if (opened - client.handshakes <= most_missing)
        return true;
    if (client.tls_problem == NULL)
        client.tls_problem = "the server does not go on with the handshake";
    return false;
}

static bool wait_for_a_line(void)
{
    char line[16];

    printf("ready\n");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}

static bool connect_links(const sigset_t *signals)
{
    bool shake = plan->use_tls && !plan->churn;

    for (unsigned i = 0; i < plan->connections; i++)
        if (!link_open(&links[i], &client, plan->use_h2) ||
            (shake && !make_handshakes(HELD_AT_ONCE, i + 1, signals)))
            return false;
    if (shake && !make_handshakes(0, plan->connections, signals))
        return false;
    client.handshakes = 0;
    client.resumed = 0;
    return !plan->wait || wait_for_a_line();
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void run_mode(const sigset_t *signals)
{
    struct rusage before;
    struct rusage after;
    uint64_t begin_ns;

    getrusage(RUSAGE_SELF, &before);
    client_read_clock(&client);
    begin_ns = client.now_ns;
    end_ns = plan->seconds > 0 ? begin_ns + (uint64_t)(plan->seconds * 1e9) : UINT64_MAX;
    switch (plan->mode) {
    case MODE_CLOSED:
        run_closed(signals);
        break;
    case MODE_OPEN:
        run_open(signals);
        break;
    case MODE_HOLD_CONNECTIONS:
        hold_connections(signals);
        break;
    case MODE_HOLD_STREAMS:
        hold_streams(signals);
        wait_for_the_end(signals);
        break;
    case MODE_VANISH:
        hold_streams(signals);
        wait_for_the_end(signals);
        vanish();
        break;
    }
    client_read_clock(&client);
    getrusage(RUSAGE_SELF, &after);
    outcome->handshakes = client.handshakes;
    outcome->resumed = client.resumed;
    outcome->seconds = (double)(client.now_ns - begin_ns) / 1e9;
    outcome->user_seconds = seconds_of(after.ru_utime) - seconds_of(before.ru_utime);
    outcome->system_seconds = seconds_of(after.ru_stime) - seconds_of(before.ru_stime);
}

static bool prepare(const sigset_t *signals)
{
    if (!client_init(&client, &plan->address))
        return false;
    if (plan->use_tls && !client_use_tls(&client, plan->resume))
        return false;
    client.sources = plan->sources;
    client.call_ended = on_ended;
    client.link_lost = on_lost;
    if (plan->mode == MODE_HOLD_STREAMS || plan->mode == MODE_VANISH)
        client.call_progress = on_progress;
    slot_count = (size_t)plan->connections * plan->streams;
    links = calloc(plan->connections, sizeof *links);
    slots = calloc(slot_count, sizeof *slots);
    if (links == NULL || slots == NULL)
        return false;
    make_body();
    make_form();
    for (size_t i = 0; i < slot_count; i++) {
        slots[i].link = &links[i / plan->streams];
        slots[i].call.answer.delivery = plan->kind == KIND_SSE ? &outcome->delivery : NULL;
    }
    return connect_links(signals);
}

static void clean_up(void)
{
    for (unsigned i = 0; i < plan->connections; i++)
        link_fini(&links[i]);
    for (size_t i = 0; i < slot_count; i++)
        answer_fini(&slots[i].call.answer);
    free(links);
    free(slots);
    buffer_fini(&body);
    form_fini(&form);
}

bool run_plan(const struct plan *the_plan, struct outcome *out_outcome)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    sigset_t signals;

    plan = the_plan;
    outcome = out_outcome;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigemptyset(&signals);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (!prepare(&signals)) {
        fprintf(stderr, "load: cannot connect: %s\n",
                client.tls_problem != NULL ? client.tls_problem : strerror(errno));
        return false;
    }
    run_mode(&signals);
    clean_up();
    return true;
}
