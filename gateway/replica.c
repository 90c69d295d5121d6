/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/replica.c: see replica.h.
 *
 * For:       the moves of an attempt: HTTP/1.1 on a link.
 * Called by: steps.c (open, drop), server.c (deadlines, the turn).
 * Knows not: who asks, what an event says, which replica should have been chosen, how it is
 *            reached. */
#include "gateway/replica.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "gateway/buffer.h"
#include "gateway/relay.h"

#define READS_PER_TURN 8
#define INTERIMS_MAX 8
#define ANSWER_HEAD_BYTES 65536u

static void attempt_run(struct wake *wake);

/* ---- deadlines of an attempt ---- */

static void set_attempt_deadline(struct attempt *attempt)
{
    const struct config *config = attempt->exchange->config;
    const uint64_t now_ns = attempt->worker->now_ns;
    int64_t ms;
    switch (attempt->state) {
    case ATTEMPT_CONNECTING:
        deadline_set(attempt->worker, &attempt->deadline,
                     attempt->began_ns + clock_ms_to_ns(config->timeouts_connect_ms));
        return;
    case ATTEMPT_SENDING:
    case ATTEMPT_WAITING:
        ms = config->timeouts_first_byte_ms;
        break;
    case ATTEMPT_BODY:
        /* A head without a first event is still a wait for the first byte. */
        ms = attempt->relay.events && !attempt->relay.begun ? config->timeouts_first_byte_ms
                                                            : config->timeouts_between_bytes_ms;
        break;
    default:
        return;
    }
    deadline_set(attempt->worker, &attempt->deadline, now_ns + clock_ms_to_ns(ms));
}

/* Tells the operator, at most once a second and worker, why a replica cannot be reached. */
static void warn_unreachable(const struct attempt *attempt, const char *problem)
{
    struct worker *worker = attempt->worker;
    if (worker->now_ns < worker->next_warning_ns)
        return;
    worker->next_warning_ns = worker->now_ns + NS_PER_S;
    log_event(LOG_WARN, "replica_unreachable", "%.*s/%.*s at %.*s: %s",
              (int)attempt->model->name.size, attempt->model->name.data,
              (int)attempt->replica->name.size, attempt->replica->name.data,
              (int)attempt->replica->url.size, attempt->replica->url.data, problem);
}

static void end_unreachable(struct attempt *attempt, const char *problem)
{
    warn_unreachable(attempt, problem);
    attempt_end(attempt, ATTEMPT_CONNECT_ERROR, ERR_NO_REPLICA);
}

static void attempt_due(struct deadline *deadline)
{
    struct attempt *attempt = container_of(deadline, struct attempt, deadline);
    if (attempt->relay.flight.paused) {
        set_attempt_deadline(attempt); /* we are the ones who do not read */
        return;
    }
    if (attempt->state == ATTEMPT_CONNECTING)
        end_unreachable(attempt, link_waits_for(attempt->link));
    else if (attempt->state == ATTEMPT_BODY && attempt->relay.begun)
        attempt_end(attempt, ATTEMPT_TIMEOUT, ERR_IDLE_TIMEOUT);
    else
        attempt_end(attempt, ATTEMPT_TIMEOUT, ERR_FIRST_BYTE_TIMEOUT);
}

/* ---- connecting ---- */

/* The link has moved on: what of the attempt. */
static void heed_link(struct attempt *attempt)
{
    struct link *link = attempt->link;
    switch (link_open(link)) {
    case LINK_READY:
        attempt->state = ATTEMPT_SENDING;
        return;
    case LINK_FAILED:
        if (link->ours)
            attempt_end(attempt, ATTEMPT_CLIENT_GONE, ERR_NO_MEMORY);
        else
            end_unreachable(attempt, link->problem);
        return;
    default:
        return;
    }
}

/* Takes a kept connection, or begins to open one. */
static enum err get_link(struct attempt *attempt)
{
    attempt->state = ATTEMPT_CONNECTING;
    attempt->link = link_dial(attempt->worker, attempt->replica, attempt->exchange->config,
                              &attempt->wake, attempt->fresh_only);
    if (attempt->link == NULL)
        return ERR_NO_MEMORY;
    heed_link(attempt);
    return OK;
}

/* ---- open, end, drop ---- */

static void flight_drained(struct flight *flight)
{
    struct attempt *attempt = container_of(flight, struct attempt, relay.flight);
    flight->paused = false;
    server_wake(attempt->worker, &attempt->wake);
}

static void bury_attempt(struct grave *grave)
{
    struct attempt *attempt = container_of(grave, struct attempt, grave);
    parcel_free(&attempt->parcel);
    shelf_put(&attempt->worker->attempts, attempt);
}

enum err attempt_open(struct exchange *x, struct ask_problem *out_problem)
{
    struct attempt *attempt = shelf_take(&x->worker->attempts, sizeof *attempt);
    if (attempt == NULL)
        return ERR_NO_MEMORY;
    memset(attempt, 0, sizeof *attempt);
    attempt->worker = x->worker;
    attempt->exchange = x;
    attempt->model = x->ticket.config_model;
    attempt->replica = x->ticket.config_replica;
    attempt->began_ns = x->worker->now_ns;
    attempt->wake.run = attempt_run;
    attempt->deadline.due = attempt_due;
    attempt->grave.bury = bury_attempt;
    attempt->relay.flight.drained = flight_drained;
    enum err err = parcel_pack(&attempt->parcel, x, attempt->model, attempt->replica, out_problem);
    if (err != OK) {
        bury_attempt(&attempt->grave);
        return err;
    }
    x->attempt = attempt;
    flight_join(&attempt->relay.flight, &x->rider);
    metric_add(METRIC_attempts_total, 1);
    meter_attempt_begins(attempt->replica);
    err = get_link(attempt);
    if (err != OK)
        attempt_end(attempt, ATTEMPT_CLIENT_GONE, err);
    if (attempt->state == ATTEMPT_SENDING) /* a kept connection takes it at once */
        attempt_run(&attempt->wake);
    else if (attempt->state != ATTEMPT_ENDED)
        set_attempt_deadline(attempt);
    return OK;
}

/* Leaves the connection: kept when the answer ended cleanly on it, else closed. */
static void leave_link(struct attempt *attempt, bool keep)
{
    struct link *link = attempt->link;
    if (link == NULL)
        return;
    attempt->link = NULL;
    if (keep)
        link_keep(link, attempt->exchange->config);
    else
        link_close(link);
}

/* The replica's account: what this attempt is known to have made it compute. */
static void account(struct attempt *attempt)
{
    struct usage made = USAGE_UNKNOWN;
    uint32_t flags = 0;
    (void)tally_usage(&attempt->relay.tally, &made, &flags);
    meter_attempt_ends(attempt->replica, &made, attempt->worker->now_ns);
}

void attempt_end(struct attempt *attempt, enum attempt_result result, enum err cause)
{
    struct exchange *x = attempt->exchange;
    if (attempt->state == ATTEMPT_ENDED)
        return;
    const bool whole = attempt->whole;
    if (attempt->relay.events && attempt->relay.begun)
        attempt->head_ready = true; /* an event that has come is delivered, whatever follows */
    const bool cut = !whole && attempt->head_ready && !attempt->dropped;
    leave_link(attempt, whole && attempt->keep_link && attempt->parcel.to_send == 0);
    attempt->state = ATTEMPT_ENDED;
    attempt->result = result;
    attempt->cause = cause;
    deadline_clear(attempt->worker, &attempt->deadline);
    if (cut && attempt->relay.events)
        relay_error_event(attempt, cause);
    attempt->relay.ending = whole;
    relay_flush(&attempt->relay);
    if (whole && attempt->status == 200) {
        x->whole_source = tally_usage(&attempt->relay.tally, &x->whole, &x->flags);
        x->whole_text_bytes = attempt->relay.tally.text_bytes;
        x->whole_pieces = attempt->relay.tally.pieces;
        if (!attempt->relay.events)
            exchange_publish(x);
    }
    account(attempt);
    if (cut || attempt->relay.error_seen)
        x->broke = true;
    if (cut && x->cause == OK)
        x->cause = cause;
    router_report(&x->ticket, x->config, result, x->worker->id_prefix + x->exchange_number,
                  attempt->head_ns ? attempt->head_ns - attempt->sent_ns : 0,
                  attempt->worker->now_ns);
    router_return(&x->ticket, attempt->worker->now_ns);
    if (!attempt_holds_end(attempt)) { /* else step_relay() ends it */
        relay_release(&attempt->relay);
        flight_end(&attempt->relay.flight, cut);
    }
    exchange_wake(x);
}

bool attempt_holds_end(const struct attempt *attempt)
{
    return attempt->state == ATTEMPT_ENDED && attempt->whole && !attempt->dropped &&
           attempt->relay.holds && !attempt->relay.flight.ended;
}

void attempt_drop(struct exchange *x, enum attempt_result result)
{
    struct attempt *attempt = x->attempt;
    attempt->dropped = true;
    if (x->early_head) /* a chunk may be half sent already: what came is delivered */
        rider_cut(&x->rider);
    else
        rider_fini(&x->rider);
    x->rider.ended = x->rider.broken = false;
    attempt_end(attempt, result, ERR_CLIENT_GONE);
    relay_fini(&attempt->relay);
    server_unwake(attempt->worker, &attempt->wake);
    server_bury(attempt->worker, &attempt->grave);
    x->attempt = NULL;
}

/* ---- the answer ---- */

/* Fields that stay between the replica and us. */
static bool is_dropped(struct span name)
{
    static const struct span dropped[] = {
        {"date", 4},
        {"server", 6},
        {"alt-svc", 7},
        {"request-id", 10},
        {"set-cookie", 10},
        {"x-request-id", 12},
        {"content-length", 14},
        {"strict-transport-security", 25},
    };
    if (name.size >= 11 && span_equal_nocase((struct span){name.data, 11}, SPAN("x-tollgate-")))
        return true;
    if (name.size >= 15 && span_equal_nocase((struct span){name.data, 15}, SPAN("access-control-")))
        return true;
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
        if (span_equal_nocase(dropped[i], name))
            return true;
    return false;
}

static enum err keep_fields(struct attempt *attempt, const struct h1_head *head)
{
    struct arena *arena = &attempt->exchange->arena;
    uint32_t kept[H1_FIELDS_MAX] UNINITIALIZED;
    uint32_t count = 0;
    for (uint32_t i = 0; i < head->field_count; i++)
        if (!is_dropped(head->fields[i].name) && !h1_is_hop_by_hop(head, head->fields[i].name))
            kept[count++] = i;
    attempt->fields = arena_take(arena, (count + 1) * sizeof *attempt->fields);
    if (attempt->fields == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct h1_field *field = &head->fields[kept[i]];
        const struct span name = arena_copy(arena, field->name);
        const struct span value = arena_copy(arena, field->value);
        if (name.data == NULL || value.data == NULL)
            return ERR_NO_MEMORY;
        for (size_t k = 0; k < name.size; k++)
            if (name.data[k] >= 'A' && name.data[k] <= 'Z')
                ((char *)(uintptr_t)name.data)[k] |= 0x20;
        if (span_equal(name, SPAN("content-encoding")))
            attempt->content_encoding = value;
        attempt->fields[attempt->field_count++] = (struct field){name, value};
    }
    return OK;
}

/* Reads a head at the front of *bytes, which is moved past it. OK with head_ns still 0: more must
 * come. */
static enum err read_head(struct attempt *attempt, struct span *bytes)
{
    static const struct h1_limits limits = {8192, ANSWER_HEAD_BYTES, 256};
    struct link *link = attempt->link;
    struct h1_head *head = attempt->worker->head;
    size_t size;
    enum err err;
    for (;;) {
        const enum h1_result result =
            h1_parse_response(*bytes, &limits, SPAN("POST"), &link->scanned, head, &size, &err);
        if (result == H1_BAD)
            return ERR_REPLICA_PROTOCOL;
        if (result == H1_MORE)
            return OK;
        *bytes = span_from(*bytes, size);
        link->scanned = 0;
        if (head->status >= 200)
            break;
        if (head->status == 101 || ++attempt->interims > INTERIMS_MAX)
            return ERR_REPLICA_PROTOCOL;
    }
    attempt->head_ns = attempt->worker->now_ns;
    attempt->status = head->status;
    attempt->framing = head->framing;
    attempt->length = head->content_length;
    attempt->keep_link = head->keep_alive && head->framing != H1_UNTIL_CLOSE;
    h1_body_init(&attempt->body, head->framing, head->content_length);
    if ((err = keep_fields(attempt, head)) != OK || (err = relay_begin(attempt)) != OK)
        return err;
    attempt->state = ATTEMPT_BODY;
    return OK;
}

enum attempt_result attempt_result_of(int status)
{
    if (status == 429 || status == 503)
        return ATTEMPT_BUSY;
    return status >= 500 ? ATTEMPT_FAILED : ATTEMPT_OK;
}

/* What came cannot be read: because of what the replica says or, which says nothing of it, because
 * a bound or the memory of ours did not suffice. */
static void end_unreadable(struct attempt *attempt, enum err err)
{
    const bool ours = err == ERR_NO_MEMORY || err == ERR_EVENT_TOO_LARGE;
    attempt_end(attempt, ours ? ATTEMPT_CLIENT_GONE : ATTEMPT_PROTOCOL, err);
}

/* The body is whole: ends the attempt as its status says. */
static void end_whole(struct attempt *attempt, size_t bytes_behind)
{
    if (bytes_behind)
        attempt->keep_link = false;
    if (relay_is_behind(&attempt->relay)) {
        attempt->relay.end_seen = true; /* once its riders have taken more: receive() */
        attempt->relay.flight.paused = true;
        return;
    }
    const enum err err = relay_end(attempt);
    if (err != OK) {
        attempt->head_ready = attempt->head_ready || attempt->relay.begun;
        attempt_end(attempt, ATTEMPT_RESET, err);
        return;
    }
    attempt->head_ready = attempt->whole = true;
    attempt_end(attempt, attempt_result_of(attempt->status), OK);
}

/* Reads the body in bytes. */
static void read_body(struct attempt *attempt, struct span bytes)
{
    const size_t hint = bytes.size;
    struct span piece;
    for (;;) {
        switch (h1_body_next(&attempt->body, &bytes, &piece)) {
        case H1_PIECE_DATA: {
            const enum err err = relay_piece(attempt, piece, hint);
            if (err == OK)
                continue;
            end_unreadable(attempt, err);
            return;
        }
        case H1_PIECE_MORE:
            return;
        case H1_PIECE_END:
            end_whole(attempt, bytes.size);
            return;
        case H1_PIECE_BAD:
            attempt_end(attempt, ATTEMPT_PROTOCOL, ERR_REPLICA_PROTOCOL);
            return;
        }
    }
}

/* What one recv has brought. */
static void take_bytes(struct attempt *attempt, struct span bytes)
{
    struct link *link = attempt->link;
    if (attempt->state != ATTEMPT_BODY) {
        if (link->in.size) {
            if (!buffer_append(&link->in, bytes)) {
                attempt_end(attempt, ATTEMPT_CLIENT_GONE, ERR_NO_MEMORY);
                return;
            }
            bytes = (struct span){link->in.data, link->in.size};
        }
        const enum err err = read_head(attempt, &bytes);
        if (err != OK) {
            end_unreadable(attempt, err);
            return;
        }
        if (attempt->state != ATTEMPT_BODY) {
            if (link->in.size == 0 ? !buffer_append(&link->in, bytes)
                                   : !buffer_keep(&link->in, bytes))
                attempt_end(attempt, ATTEMPT_CLIENT_GONE, ERR_NO_MEMORY);
            return;
        }
    }
    read_body(attempt, bytes);
    if (attempt->state == ATTEMPT_ENDED)
        return;
    buffer_free(&link->in);
    if (attempt->parcel.to_send == 0)
        parcel_free(&attempt->parcel);
    relay_flush(&attempt->relay);
    if (!attempt->head_ready && relay_has_head(&attempt->relay)) {
        attempt->head_ready = true;
        exchange_wake(attempt->exchange);
    }
    set_attempt_deadline(attempt);
}

/* The replica has closed the connection (clean), or it failed: which is no end of an answer that
 * goes on until the connection is closed. */
static void lost(struct attempt *attempt, bool clean)
{
    if (attempt->state == ATTEMPT_BODY && attempt->framing == H1_UNTIL_CLOSE && clean) {
        end_whole(attempt, 0);
        return;
    }
    if (attempt->link->reused && !attempt->any_byte && !attempt->fresh_only) {
        /* Kept too long: closed before it saw the request. */
        metric_add(METRIC_attempts_stale_total, 1);
        leave_link(attempt, false);
        attempt->fresh_only = true;
        attempt->began_ns = attempt->worker->now_ns;
        struct ask_problem problem; /* none: it was packed before */
        if (parcel_pack(&attempt->parcel, attempt->exchange, attempt->model, attempt->replica,
                        &problem) != OK ||
            get_link(attempt) != OK)
            attempt_end(attempt, ATTEMPT_CLIENT_GONE, ERR_NO_MEMORY);
        else if (attempt->state != ATTEMPT_ENDED)
            set_attempt_deadline(attempt);
        return;
    }
    attempt_end(attempt, ATTEMPT_RESET, ERR_REPLICA_GONE);
}

/* Goes on with what was read but not passed on. true: there is nothing left of it. */
static bool catch_up(struct attempt *attempt)
{
    if (!relay_is_behind(&attempt->relay))
        return true;
    const enum err err = relay_catch_up(attempt);
    if (err != OK) {
        end_unreadable(attempt, err);
        return false;
    }
    relay_flush(&attempt->relay);
    if (relay_is_behind(&attempt->relay)) {
        attempt->relay.flight.paused = true;
        return false;
    }
    if (attempt->relay.end_seen)
        end_whole(attempt, 0);
    return attempt->state != ATTEMPT_ENDED;
}

static void receive(struct attempt *attempt)
{
    const size_t most = (size_t)attempt->exchange->config->limits_flight_bytes;
    if (!catch_up(attempt))
        return;
    for (int i = 0; i < READS_PER_TURN && attempt->link && attempt->link->io.readable; i++) {
        size_t size;
        if (flight_waiting(&attempt->relay.flight) >= most) {
            attempt->relay.flight.paused = true;
            return;
        }
        switch (
            io_recv(&attempt->link->io, attempt->worker->scratch, WORKER_SCRATCH_BYTES, &size)) {
        case IO_DONE:
            attempt->any_byte = true;
            take_bytes(attempt, (struct span){attempt->worker->scratch, size});
            if (relay_is_behind(&attempt->relay)) {
                attempt->relay.flight.paused = true;
                return;
            }
            break;
        case IO_AGAIN:
            return;
        case IO_END:
            lost(attempt, true);
            return;
        case IO_FAILED:
            lost(attempt, false);
            return;
        }
    }
    if (attempt->link && attempt->link->io.readable)
        server_wake(attempt->worker, &attempt->wake); /* others first */
}

/* ---- the run of an attempt ---- */

static void send_request(struct attempt *attempt)
{
    struct parcel *parcel = &attempt->parcel;
    while (parcel->to_send && attempt->link->io.writable) {
        size_t sent;
        const enum io_result result = io_send(&attempt->link->io, parcel->pieces + parcel->at,
                                              parcel->count - parcel->at, &sent);
        if (result == IO_FAILED) {
            /* An answer may have come all the same (a 413 before the body was read): read it. */
            attempt->link->io.readable = true;
            return;
        }
        parcel_sent(parcel, sent);
    }
    set_attempt_deadline(attempt); /* each piece that the replica takes is progress */
    if (parcel->to_send)
        return;
    if (attempt->exchange->step >= STEP_relay) /* the answer began before all was sent */
        body_free(&attempt->exchange->body);
    attempt->sent_ns = attempt->worker->now_ns;
    if (attempt->state == ATTEMPT_SENDING)
        attempt->state = ATTEMPT_WAITING;
}

static void attempt_run(struct wake *wake)
{
    struct attempt *attempt = container_of(wake, struct attempt, wake);
    if (attempt->state == ATTEMPT_CONNECTING)
        heed_link(attempt);
    if (attempt->state == ATTEMPT_SENDING ||
        (attempt->state == ATTEMPT_BODY && attempt->parcel.to_send && attempt->link->io.writable))
        send_request(attempt);
    if (attempt->state != ATTEMPT_ENDED && attempt->state > ATTEMPT_CONNECTING)
        receive(attempt);
}
