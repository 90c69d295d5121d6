/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/scrape.c: see scrape.h.
 *
 * For:       one visit per replica: a small machine over a link.
 * Called by: server.c.
 * Knows not: what follows from an answer: that is the router's and the meter's. */
#include "gateway/scrape.h"

#include <stdlib.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "gateway/exposition.h"
#include "gateway/h1.h"
#include "gateway/link.h"
#include "meter/meter.h"
#include "router/router.h"

#define PAGE_BYTES_MAX (8u << 20) /* a page of /metrics that is longer is broken off */
#define QUESTION_BYTES 1024u
#define FAILURES_BEFORE_REST 3u /* a replica that tells no load is asked less often then */
#define REST_NS (30 * NS_PER_S)
#define READS_PER_TURN 4
#define SHIFT_MAX 64u /* places that a replica may have moved in its list by a reload */

enum visit_state { VISIT_RESTING, VISIT_OPENING, VISIT_ASKING, VISIT_HEAD, VISIT_BODY };

enum question { ASK_HEALTH, ASK_LOAD };

struct visit {
    struct scrape *scrape;
    const struct config_model *model;
    const struct config_replica *replica;
    enum visit_state state;
    enum question question;
    struct link *link;
    char text[QUESTION_BYTES]; /* of the question */
    size_t text_size, sent;
    int status;
    bool keep_link;
    struct h1_body body;
    struct exposition *page;             /* while one is read */
    size_t page_bytes;                   /* of this answer's body */
    uint64_t health_due_ns, load_due_ns; /* UINT64_MAX: never */
    uint32_t failures;                   /* to tell load, in a row */
    bool unreachable;                    /* the operator has been told */
    struct wake wake;
    struct deadline deadline; /* resting: of the next question; else of this one */
};

/* All visits of one worker to the replicas of one snapshot. */
struct scrape {
    struct worker *worker;
    struct config *config; /* one reference */
    struct grave grave;
    uint32_t count;
    struct visit visits[];
};

/* ---- the pace ---- */

static uint64_t pace_ns(int64_t every_ms, uint64_t now_ns)
{
    return every_ms == 0 ? UINT64_MAX : now_ns + clock_ms_to_ns(every_ms);
}

/* How often its load is read; 0: never. */
static int64_t load_every_ms(const struct visit *visit)
{
    const int64_t wanted_ms = visit->scrape->config->health_load_every_ms;
    const int64_t least_ms = kind_row(visit->model->kind)->metrics_ms;
    if (wanted_ms == 0 || least_ms == 0)
        return 0;
    return wanted_ms > least_ms ? wanted_ms : least_ms;
}

static void rest(struct visit *visit)
{
    const uint64_t due_ns =
        visit->health_due_ns < visit->load_due_ns ? visit->health_due_ns : visit->load_due_ns;
    visit->state = VISIT_RESTING;
    if (due_ns == UINT64_MAX)
        deadline_clear(visit->scrape->worker, &visit->deadline);
    else
        deadline_set(visit->scrape->worker, &visit->deadline, due_ns);
}

/* ---- the end of a question ---- */

static void leave_link(struct visit *visit, bool keep)
{
    struct link *link = visit->link;
    visit->link = NULL;
    if (link == NULL)
        return;
    if (keep)
        link_keep(link, visit->scrape->config);
    else
        link_close(link);
}

static void tell_load(struct visit *visit, bool known, const struct load *load)
{
    const struct worker *worker = visit->scrape->worker;
    if (known) {
        router_report_load(visit->replica->state, load, worker->now_ns);
        meter_reconcile(visit->replica, load, worker->now_ns);
        visit->failures = 0;
        return;
    }
    metric_add(METRIC_scrapes_failed_total, 1);
    if (visit->status != 0 && ++visit->failures == FAILURES_BEFORE_REST)
        log_event(LOG_INFO, "replica_tells_no_load",
                  "%.*s/%.*s: GET /metrics says nothing of its load; it is asked less often",
                  (int)visit->model->name.size, visit->model->name.data,
                  (int)visit->replica->name.size, visit->replica->name.data);
    if (visit->failures >= FAILURES_BEFORE_REST)
        visit->load_due_ns = worker->now_ns + REST_NS;
}

/* good: the answer is whole and says what was asked for. ours: it failed for want of something of
 * ours, which says nothing of the replica. */
static void end_question(struct visit *visit, bool good, bool ours)
{
    struct scrape *scrape = visit->scrape;
    struct load load = LOAD_UNKNOWN;
    if (visit->question == ASK_HEALTH) {
        if (!ours)
            router_report_check(visit->replica->state, scrape->config, good,
                                scrape->worker->now_ns);
    } else if (!ours) {
        const bool known = good && exposition_end(visit->page, &load);
        tell_load(visit, known, &load);
    }
    free(visit->page);
    visit->page = NULL;
    leave_link(visit, good && visit->keep_link);
    rest(visit);
}

/* ---- asking ---- */

static bool write_question(struct visit *visit)
{
    const struct config_replica *replica = visit->replica;
    const struct span path = visit->question == ASK_HEALTH ? SPAN("/health") : SPAN("/metrics");
    struct text text;
    const size_t size = replica->base_path.size + replica->host_header.size + replica->key.size;
    if (size > sizeof visit->text - 160)
        return false;
    text_over(&text, visit->text, sizeof visit->text);
    text_put(&text, SPAN("GET "));
    text_put(&text, replica->base_path);
    text_put(&text, path);
    text_put(&text, SPAN(" HTTP/1.1\r\nhost: "));
    text_put(&text, replica->host_header);
    if (replica->key.size)
        text_field(&text, SPAN("authorization: Bearer "), replica->key);
    text_put(&text, SPAN("\r\naccept: text/plain, */*;q=0.5\r\n\r\n"));
    visit->text_size = text_span(&text).size;
    visit->sent = 0;
    return true;
}

static bool begin_page(struct visit *visit)
{
    visit->page = malloc(sizeof *visit->page);
    if (visit->page)
        exposition_init(visit->page);
    return visit->page != NULL;
}

static void begin_question(struct visit *visit, bool fresh)
{
    struct scrape *scrape = visit->scrape;
    visit->status = 0;
    visit->page_bytes = 0;
    visit->keep_link = false;
    visit->state = VISIT_OPENING;
    visit->link = write_question(visit) ? link_dial(scrape->worker, visit->replica, scrape->config,
                                                    &visit->wake, fresh)
                                        : NULL;
    if (visit->link == NULL) {
        end_question(visit, false, true);
        return;
    }
    deadline_set(scrape->worker, &visit->deadline,
                 scrape->worker->now_ns + clock_ms_to_ns(scrape->config->health_timeout_ms));
    server_wake(scrape->worker, &visit->wake);
}

/* Its time has come: the next question, or the end of one that took too long. */
static void visit_due(struct deadline *deadline)
{
    struct visit *visit = container_of(deadline, struct visit, deadline);
    const struct config *config = visit->scrape->config;
    const uint64_t now_ns = visit->scrape->worker->now_ns;
    if (visit->state != VISIT_RESTING) {
        end_question(visit, false, false);
        return;
    }
    if (now_ns >= visit->health_due_ns) {
        visit->question = ASK_HEALTH;
        visit->health_due_ns = pace_ns(config->health_check_every_ms, now_ns);
    } else {
        visit->question = ASK_LOAD;
        visit->load_due_ns = pace_ns(load_every_ms(visit), now_ns);
        meter_reading_begins(visit->replica);
    }
    begin_question(visit, false);
}

/* ---- the machine ---- */

static void send_question(struct visit *visit)
{
    struct iovec piece = {visit->text + visit->sent, visit->text_size - visit->sent};
    size_t sent;
    if (!visit->link->io.writable)
        return;
    if (io_send(&visit->link->io, &piece, 1, &sent) == IO_FAILED)
        visit->link->io.readable = true; /* the end is read from there */
    visit->sent += sent;
    if (visit->sent == visit->text_size)
        visit->state = VISIT_HEAD;
}

/* Any whole answer but a 5xx is a sign of life: not every server has /health. */
static bool is_good(const struct visit *visit)
{
    return visit->question == ASK_HEALTH ? visit->status < 500 : visit->status == 200;
}

/* Reads a head at the front of *bytes, which is moved past it. false: broken, or more must come. */
static bool read_head(struct visit *visit, struct span *bytes, bool *out_broken)
{
    static const struct h1_limits limits = {8192, 65536, 256};
    struct h1_head *head = visit->scrape->worker->head;
    struct link *link = visit->link;
    size_t size;
    enum err err;
    const enum h1_result result =
        h1_parse_response(*bytes, &limits, SPAN("GET"), &link->scanned, head, &size, &err);
    *out_broken = result == H1_BAD || (result == H1_DONE && head->status < 200);
    if (result != H1_DONE || *out_broken)
        return false;
    *bytes = span_from(*bytes, size);
    link->scanned = 0;
    visit->status = head->status;
    visit->keep_link = head->keep_alive && head->framing != H1_UNTIL_CLOSE;
    h1_body_init(&visit->body, head->framing, head->content_length);
    visit->state = VISIT_BODY;
    if (visit->question == ASK_LOAD && visit->status == 200 && !begin_page(visit))
        visit->status = 0; /* no memory: read to its end, but not told */
    return true;
}

static void read_body(struct visit *visit, struct span bytes)
{
    struct span piece;
    for (;;) {
        switch (h1_body_next(&visit->body, &bytes, &piece)) {
        case H1_PIECE_DATA:
            visit->page_bytes += piece.size;
            if (visit->page_bytes > PAGE_BYTES_MAX) {
                end_question(visit, false, false);
                return;
            }
            if (visit->page)
                exposition_feed(visit->page, piece);
            continue;
        case H1_PIECE_MORE:
            return;
        case H1_PIECE_END:
            visit->keep_link =
                visit->keep_link && visit->sent == visit->text_size && bytes.size == 0;
            end_question(visit, is_good(visit), visit->status == 0);
            return;
        case H1_PIECE_BAD:
            end_question(visit, false, false);
            return;
        }
    }
}

static void take_bytes(struct visit *visit, struct span bytes)
{
    struct buffer *in = &visit->link->in;
    if (visit->state == VISIT_BODY) {
        read_body(visit, bytes);
        return;
    }
    bool broken;
    if (!buffer_append(in, bytes)) {
        end_question(visit, false, true);
        return;
    }
    bytes = (struct span){in->data, in->size};
    if (read_head(visit, &bytes, &broken)) {
        struct buffer head = *in; /* the body's first bytes lie in it */
        *in = (struct buffer){NULL, 0, 0};
        read_body(visit, bytes);
        buffer_free(&head);
    } else if (broken) {
        end_question(visit, false, false);
    }
}

/* The replica has closed the connection: only a proper end ends a page that has no other. */
static void lost(struct visit *visit, enum io_result how)
{
    if (how == IO_END && visit->state == VISIT_BODY && visit->body.framing == H1_UNTIL_CLOSE) {
        end_question(visit, is_good(visit), visit->status == 0);
    } else if (visit->link->reused && visit->link->in.size == 0 && visit->state != VISIT_BODY) {
        leave_link(visit, false); /* kept too long: once more on a new one */
        begin_question(visit, true);
    } else {
        end_question(visit, false, false);
    }
}

static void hear(struct visit *visit)
{
    for (int i = 0; i < READS_PER_TURN && visit->link && visit->link->io.readable; i++) {
        struct worker *worker = visit->scrape->worker;
        size_t size;
        const enum io_result result =
            io_recv(&visit->link->io, worker->scratch, WORKER_SCRATCH_BYTES, &size);
        switch (result) {
        case IO_DONE:
            take_bytes(visit, (struct span){worker->scratch, size});
            break;
        case IO_AGAIN:
            return;
        case IO_END:
        case IO_FAILED:
            lost(visit, result);
            return;
        }
    }
    if (visit->link && visit->link->io.readable)
        server_wake(visit->scrape->worker, &visit->wake); /* others first */
}

/* Tells the operator why, once until it can be reached again. */
static void tell_unreachable(struct visit *visit)
{
    if (visit->unreachable || visit->link->ours)
        return;
    visit->unreachable = true;
    log_event(LOG_WARN, "replica_unreachable", "%.*s/%.*s at %.*s: %s",
              (int)visit->model->name.size, visit->model->name.data, (int)visit->replica->name.size,
              visit->replica->name.data, (int)visit->replica->url.size, visit->replica->url.data,
              visit->link->problem);
}

static void visit_run(struct wake *wake)
{
    struct visit *visit = container_of(wake, struct visit, wake);
    if (visit->link == NULL)
        return;
    if (visit->state == VISIT_OPENING) {
        switch (link_open(visit->link)) {
        case LINK_OPENING:
            return;
        case LINK_FAILED:
            tell_unreachable(visit);
            end_question(visit, false, visit->link->ours);
            return;
        default:
            visit->state = VISIT_ASKING;
            visit->unreachable = false;
        }
    }
    if (visit->state == VISIT_ASKING)
        send_question(visit);
    if (visit->state != VISIT_RESTING)
        hear(visit);
}

/* ---- start and stop ---- */

/* The visit to the same replica before a reload, if that stood near this place of the list. */
static const struct visit *visit_before(const struct scrape *before, const struct visit *visit)
{
    const uint32_t place = visit->scrape->count;
    const uint32_t first = place > SHIFT_MAX ? place - SHIFT_MAX : 0;
    for (uint32_t i = first; before && i < before->count && i <= place + SHIFT_MAX; i++)
        if (before->visits[i].replica->state == visit->replica->state)
            return &before->visits[i];
    return NULL;
}

/* A check keeps its turn: reloads that follow each other faster than checks do must not put them
 * off for ever. One that was under way begins anew. */
static void keep_turn(struct visit *visit, const struct scrape *before)
{
    const struct visit *old = visit_before(before, visit);
    if (old == NULL || visit->health_due_ns == UINT64_MAX)
        return;
    if (old->state != VISIT_RESTING && old->question == ASK_HEALTH)
        visit->health_due_ns = visit->scrape->worker->now_ns;
    else if (old->health_due_ns < visit->health_due_ns)
        visit->health_due_ns = old->health_due_ns;
}

static void begin_visit(struct scrape *scrape, const struct config_model *model,
                        const struct config_replica *replica, const struct scrape *before)
{
    struct visit *visit = &scrape->visits[scrape->count];
    const struct config *config = scrape->config;
    const uint64_t now_ns = scrape->worker->now_ns;
    visit->scrape = scrape;
    visit->model = model;
    visit->replica = replica;
    visit->wake.run = visit_run;
    visit->deadline.due = visit_due;
    /* Not all at once: spread over the first tenth of a second. */
    const uint64_t shift_ns = scrape->count++ % 100 * NS_PER_MS;
    visit->health_due_ns = pace_ns(config->health_check_every_ms, now_ns);
    visit->load_due_ns = load_every_ms(visit) ? now_ns + shift_ns : UINT64_MAX;
    if (visit->health_due_ns != UINT64_MAX)
        visit->health_due_ns += shift_ns;
    keep_turn(visit, before);
    rest(visit);
}

static void bury_scrape(struct grave *grave)
{
    struct scrape *scrape = container_of(grave, struct scrape, grave);
    config_put(scrape->config);
    free(scrape);
}

void scrape_stop(struct worker *worker)
{
    struct scrape *scrape = worker->scrape;
    if (scrape == NULL)
        return;
    for (uint32_t i = 0; i < scrape->count; i++) {
        struct visit *visit = &scrape->visits[i];
        leave_link(visit, false);
        free(visit->page);
        deadline_clear(worker, &visit->deadline);
        server_unwake(worker, &visit->wake);
    }
    worker->scrape = NULL;
    scrape->grave.bury = bury_scrape;
    server_bury(worker, &scrape->grave);
}

enum err scrape_start(struct worker *worker)
{
    const struct scrape *before = worker->scrape; /* once stopped, it lives on for this turn */
    uint32_t count = 0;
    scrape_stop(worker);
    for (uint32_t i = 0; i < worker->config->model_count; i++)
        count += worker->config->models[i].replica_count;
    struct scrape *scrape = calloc(1, sizeof *scrape + count * sizeof scrape->visits[0]);
    if (scrape == NULL)
        return ERR_NO_MEMORY;
    scrape->worker = worker;
    scrape->config = config_get(worker->config);
    for (uint32_t i = 0; i < worker->config->model_count; i++)
        for (uint32_t k = 0; k < worker->config->models[i].replica_count; k++)
            begin_visit(scrape, &scrape->config->models[i], &scrape->config->models[i].replicas[k],
                        before);
    worker->scrape = scrape;
    return OK;
}
