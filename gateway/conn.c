/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/conn.c: see conn.h.
 *
 * For:       opening, reading, flushing and closing a client's socket; its HTTP/1.1 side is here,
 *            HTTP/2 is h2.c's.
 * Called by: server.c (accept, drain), exchange.c (an answer is ready).
 * Knows not: keys, models, replicas.
 *
 * Moves: open → closing (conn_finish(): nothing more is read but to drain; what is queued is
 * flushed, then FIN) → closed (conn_close()). */
#include "gateway/conn.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "gateway/address.h"
#include "gateway/h2.h"
#include "gateway/tls.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_BYTES 24u
#define READ_AHEAD_BYTES 65536u /* pipelined requests and read-ahead while one is under way */
#define SKIPPED_BODY_BYTES 65536u
#define LINGER_NS (2 * NS_PER_S)
#define PIECES_MAX 32
#define LAST_CHUNK_BYTES 5
#define READS_PER_TURN 16

static void conn_run(struct wake *wake);
static void conn_flush(struct wake *wake);
static void conn_due(struct deadline *deadline);

/* ---- open and close ---- */

static void conn_ready(struct io *io)
{
    struct conn *conn = container_of(io, struct conn, io);
    server_wake(conn->worker, &conn->wake);
}

static void bury_conn(struct grave *grave)
{
    free(container_of(grave, struct conn, grave));
}

/* Half of the descriptors, when the operator has not said: each conn may need one more for its
 * replica. */
static int64_t most_conns(const struct config *config)
{
    struct rlimit limit;
    if (config->limits_conns > 0)
        return config->limits_conns;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return 50000;
    return (int64_t)(limit.rlim_cur / 2);
}

/* The struct of a conn and its socket, not counted anywhere yet. NULL without memory; the socket is
 * closed then. */
static struct conn *make_conn(struct worker *worker, int fd, struct tls_context *context)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL) {
        close(fd);
        return NULL;
    }
    if (io_open(&conn->io, worker->epoll_fd, fd, conn_ready) != OK) {
        free(conn);
        return NULL;
    }
    if (context && tls_accept(&conn->io, context, worker->tls_scratch) != OK) {
        io_close(&conn->io, true);
        free(conn);
        return NULL;
    }
    conn->shaking = context != NULL;
    return conn;
}

void conn_open(struct worker *worker, int fd, const struct in6_addr *address, bool admin,
               struct tls_context *context)
{
    const bool counted = !admin && address;
    if ((!admin && metric_value(METRIC_connections_open) >= most_conns(worker->config)) ||
        (counted && !address_enter(address, (uint32_t)worker->config->limits_conns_per_ip))) {
        metric_add(METRIC_connections_refused_total, 1);
        close(fd);
        return;
    }
    struct conn *conn = make_conn(worker, fd, context);
    if (conn == NULL) {
        if (counted)
            address_leave(address);
        return;
    }
    conn->worker = worker;
    conn->admin = admin;
    conn->counted = counted;
    if (address)
        conn->address = *address;
    conn->wake.run = conn_run;
    conn->flush.run = conn_flush;
    conn->flush.late = true;
    conn->deadline.due = conn_due;
    conn->grave.bury = bury_conn;
    conn->head_began_ns = conn->progress_ns = worker->now_ns;
    conn->next = worker->conns;
    if (conn->next)
        conn->next->previous = conn;
    worker->conns = conn;
    metric_add(METRIC_connections_accepted_total, 1);
    metric_add(METRIC_connections_open, 1);
    conn_set_deadline(conn);
}

void conn_close(struct conn *conn, bool reset)
{
    if (conn->state == CONN_CLOSED)
        return;
    conn->state = CONN_CLOSED;
    if (conn->exchange)
        exchange_abandon(conn->exchange);
    conn->exchange = NULL;
    if (conn->h2)
        h2_close(conn);
    deadline_clear(conn->worker, &conn->deadline);
    server_unwake(conn->worker, &conn->wake);
    server_unwake(conn->worker, &conn->flush);
    buffer_free(&conn->in);
    buffer_free(&conn->left);
    identity_forget(&conn->identity);
    io_close(&conn->io, reset);
    if (conn->counted)
        address_leave(&conn->address);
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        conn->worker->conns = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    metric_add(METRIC_connections_open, -1);
    server_bury(conn->worker, &conn->grave);
}

/* When a closing conn is given up: soon, or, while its last bytes are unsent, as a client that
 * takes none of an answer. */
static uint64_t linger_until(const struct conn *conn)
{
    return io_has_unsent(&conn->io)
               ? conn->progress_ns +
                     clock_ms_to_ns(conn->worker->config->timeouts_write_progress_ms)
               : conn->worker->now_ns + LINGER_NS;
}

/* Says FIN and drains what the client still sends, for a moment: closing at once would reset the
 * connection under the answer that it is about to read. whole: the answer came to its end. */
static void conn_finish(struct conn *conn, bool whole)
{
    if (conn->state != CONN_OPEN)
        return;
    conn->state = CONN_CLOSING;
    buffer_free(&conn->in);
    if (conn->io.hung_up && !io_has_unsent(&conn->io)) {
        conn_close(conn, false);
        return;
    }
    io_finish(&conn->io, whole);
    deadline_set(conn->worker, &conn->deadline, linger_until(conn));
    conn->io.readable = true;
    server_wake(conn->worker, &conn->wake);
}

static void drain_input(struct conn *conn)
{
    const bool unsent = io_has_unsent(&conn->io);
    if (io_take_progress(&conn->io)) {
        conn->progress_ns = conn->worker->now_ns;
        deadline_set(conn->worker, &conn->deadline, linger_until(conn));
    }
    for (int i = 0; i < READS_PER_TURN && conn->io.readable; i++) {
        const enum io_result result =
            io_discard(&conn->io, conn->worker->scratch, WORKER_SCRATCH_BYTES);
        if (result == IO_FAILED || (result == IO_END && !unsent)) {
            conn_close(conn, false);
            return;
        }
        if (result != IO_DONE)
            break;
    }
    if (conn->io.hung_up && !unsent)
        conn_close(conn, false);
}

bool conn_has_output(const struct conn *conn)
{
    return conn->left.size > 0 || io_has_unsent(&conn->io) || conn->exchange ||
           (conn->h2 && h2_open_streams(conn) > 0);
}

bool conn_serves(struct conn *conn, struct span host)
{
    return conn->io.tls == NULL || tls_covers(&conn->io, host);
}

/* ---- h1: requests ---- */

static void h1_refuse(struct conn *conn, struct exchange *x, enum err err)
{
    conn->keep_alive = false;
    conn->reading_body = false;
    exchange_refuse(x, err);
}

/* The next answer begins from nothing. */
static void h1_reset_answer(struct conn *conn)
{
    conn->head_text = NULL;
    conn->frame_at = conn->head_at = conn->head_size = 0;
    conn->last_at = 0;
}

/* A head is whole: opens its exchange. */
static void h1_begin(struct conn *conn, const struct h1_head *head)
{
    struct exchange *x = exchange_open(conn->worker, conn);
    if (x == NULL) {
        conn_close(conn, true);
        return;
    }
    enum err err = OK;
    conn->exchange = x;
    conn->keep_alive = head->keep_alive && !conn->worker->draining;
    conn->http10 = head->minor == 0;
    conn->skipped = 0;
    h1_reset_answer(conn);
    conn->body_began_ns = conn->body_moved_ns = conn->worker->now_ns;
    x->method = arena_copy(&x->arena, head->method);
    x->target = arena_copy(&x->arena, head->target);
    if (x->method.data == NULL || x->target.data == NULL)
        err = ERR_NO_MEMORY;
    for (uint32_t i = 0; err == OK && i < head->field_count; i++) {
        const struct h1_field *field = &head->fields[i];
        err = exchange_field(x, field->name, field->value);
        if (conn->io.tls && span_equal_nocase(field->name, SPAN("host")) &&
            !conn_serves(conn, field->value))
            err = ERR_MISDIRECTED;
    }
    h1_body_init(&conn->body, head->framing, head->content_length);
    conn->reading_body =
        head->framing == H1_CHUNKED || (head->framing == H1_LENGTH && head->content_length > 0);
    if (err == OK && conn->reading_body)
        err =
            body_expect(&x->body, x->config, head->framing == H1_LENGTH ? head->content_length : 0);
    if (err != OK) {
        h1_refuse(conn, x, err);
        return;
    }
    if (head->expect_continue && conn->reading_body && !conn->http10) {
        if (!buffer_append(&conn->left, SPAN("HTTP/1.1 100 Continue\r\n\r\n"))) {
            conn_close(conn, true);
            return;
        }
        server_wake(conn->worker, &conn->flush);
    }
    exchange_begin(x);
    if (!conn->reading_body)
        exchange_body_end(x);
}

/* Takes what there is of the body. false: it is not whole, more must come. */
static bool h1_take_body(struct conn *conn, struct span *bytes)
{
    struct exchange *x = conn->exchange;
    struct span piece;
    for (;;) {
        switch (h1_body_next(&conn->body, bytes, &piece)) {
        case H1_PIECE_DATA:
            conn->body_moved_ns = conn->worker->now_ns;
            if (x->step > STEP_read_ask) {
                conn->skipped += piece.size;
                conn->keep_alive = conn->keep_alive && conn->skipped <= SKIPPED_BODY_BYTES;
            } else if (exchange_body(x, piece) != OK) {
                conn->keep_alive = false;
            }
            continue;
        case H1_PIECE_MORE:
            /* A chunk that will not fit is refused at its size line. */
            if (x->step <= STEP_read_ask &&
                conn->body.left > (uint64_t)x->config->limits_body_bytes - x->body.size)
                h1_refuse(conn, x, ERR_TOO_LARGE);
            return false;
        case H1_PIECE_END:
            conn->reading_body = false;
            exchange_body_end(x);
            return true;
        case H1_PIECE_BAD:
            h1_refuse(conn, x, ERR_BAD_HTTP);
            *bytes = (struct span){NULL, 0};
            return false;
        }
    }
}

/* Opens an exchange that only says what was wrong with a head. */
static void h1_bad_head(struct conn *conn, enum err err)
{
    struct exchange *x = exchange_open(conn->worker, conn);
    if (x == NULL) {
        conn_close(conn, true);
        return;
    }
    conn->exchange = x;
    h1_reset_answer(conn);
    conn->http10 = false;
    x->method = SPAN("GET");
    x->body_whole = true;
    h1_refuse(conn, x, err);
}

/* Reads heads and bodies at the front of *bytes, as far as one request at a time goes. */
static void h1_consume(struct conn *conn, struct span *bytes)
{
    while (bytes->size && conn->state == CONN_OPEN) {
        if (conn->exchange && !conn->reading_body)
            return; /* pipelined: its turn comes */
        if (conn->exchange) {
            if (!h1_take_body(conn, bytes))
                return;
            continue;
        }
        const struct config *config = conn->worker->config;
        const struct h1_limits limits = {8192, (size_t)config->limits_header_bytes,
                                         (uint32_t)config->limits_header_fields};
        size_t size;
        enum err err = OK;
        switch (
            h1_parse_request(*bytes, &limits, &conn->scanned, conn->worker->head, &size, &err)) {
        case H1_MORE:
            return;
        case H1_BAD:
            *bytes = (struct span){NULL, 0};
            h1_bad_head(conn, err);
            return;
        case H1_DONE:
            conn->scanned = 0;
            *bytes = span_from(*bytes, size);
            h1_begin(conn, conn->worker->head);
            break;
        }
    }
}

/* ---- reading ---- */

/* h1 or h2 by the first bytes: no HTTP/1 method begins with "PRI ". false: more bytes are needed.
 */
static bool know_protocol(struct conn *conn, struct span bytes)
{
    const size_t size = bytes.size < PREFACE_BYTES ? bytes.size : PREFACE_BYTES;
    if (memcmp(bytes.data, PREFACE, size) != 0) {
        conn->protocol = CONN_H1;
        return true;
    }
    if (size < PREFACE_BYTES)
        return false;
    conn->protocol = CONN_H2;
    if (h2_open(conn) != OK)
        conn_close(conn, true);
    return true;
}

/* All bytes that are there, those kept from before first. */
static void take_bytes(struct conn *conn, struct span came)
{
    struct span bytes = came;
    if (conn->protocol != CONN_H2 && conn->in.size == 0 && conn->exchange == NULL)
        conn->head_began_ns = conn->worker->now_ns;
    if (conn->in.size) {
        if (!buffer_append(&conn->in, came)) {
            conn_close(conn, true);
            return;
        }
        bytes = (struct span){conn->in.data, conn->in.size};
    }
    if (conn->protocol != CONN_UNKNOWN || know_protocol(conn, bytes)) {
        if (conn->state == CONN_CLOSED)
            return;
        if (conn->protocol == CONN_H2) {
            if (!h2_receive(conn, bytes))
                conn->want_close = true; /* once its GOAWAY is flushed */
            bytes = (struct span){NULL, 0};
            server_wake(conn->worker, &conn->flush);
        } else {
            h1_consume(conn, &bytes);
        }
    }
    if (conn->state == CONN_OPEN && !buffer_keep(&conn->in, bytes))
        conn_close(conn, true);
}

/* What hands shaken mean for the protocol. */
static void know_by_alpn(struct conn *conn)
{
    if (tls_chose_h2(&conn->io)) {
        conn->protocol = CONN_H2;
        if (h2_open(conn) != OK)
            conn_close(conn, true);
    } else if (tls_chose(&conn->io)) {
        conn->protocol = CONN_H1;
    } /* else by the first bytes */
}

/* Goes on with the handshake. true: it is made. */
static bool shake(struct conn *conn)
{
    switch (tls_shake(&conn->io)) {
    case IO_DONE:
        conn->shaking = false;
        conn->head_began_ns = conn->progress_ns = conn->worker->now_ns;
        metric_add(METRIC_handshakes_total, 1);
        if (tls_was_resumed(&conn->io))
            metric_add(METRIC_handshakes_resumed_total, 1);
        know_by_alpn(conn);
        return true;
    case IO_AGAIN:
        if (conn->io.readable)
            server_wake(conn->worker, &conn->wake); /* others first */
        return false;
    default:
        metric_add(METRIC_handshakes_failed_total, 1);
        log_event(LOG_DEBUG, "handshake_failed", "%s", tls_problem(&conn->io));
        conn_finish(conn, false); /* the alert that says why is on its way */
        return false;
    }
}

static void conn_run(struct wake *wake)
{
    struct conn *conn = container_of(wake, struct conn, wake);
    if (conn->state == CONN_CLOSING) {
        drain_input(conn);
        return;
    }
    if (conn->shaking && !shake(conn))
        return;
    if (io_take_progress(&conn->io))
        conn->progress_ns = conn->worker->now_ns;
    for (int i = 0; conn->state == CONN_OPEN && conn->io.readable && !conn->want_close; i++) {
        size_t size;
        if (i == READS_PER_TURN) {
            server_wake(conn->worker, &conn->wake); /* others first */
            break;
        }
        /* A client that leaves is seen even while it may not send more. */
        if (conn->exchange && !conn->reading_body) {
            if (conn->io.hung_up) {
                conn_close(conn, false);
                return;
            }
            if (conn->in.size >= READ_AHEAD_BYTES)
                break;
        }
        switch (io_recv(&conn->io, conn->worker->scratch, WORKER_SCRATCH_BYTES, &size)) {
        case IO_DONE:
            take_bytes(conn, (struct span){conn->worker->scratch, size});
            break;
        case IO_AGAIN:
            break;
        case IO_END:
        case IO_FAILED:
            conn_close(conn, false);
            return;
        }
    }
    if (conn->state == CONN_CLOSED)
        return;
    if (conn->io.writable && (conn->protocol == CONN_H2 || conn_has_output(conn)))
        server_wake(conn->worker, &conn->flush);
    conn_set_deadline(conn);
}

/* ---- h1: answers ---- */

static const char *reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 415:
        return "Unsupported Media Type";
    case 417:
        return "Expectation Failed";
    case 422:
        return "Unprocessable Content";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 502:
        return "Bad Gateway";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    default:
        return "Status";
    }
}

/* The answer's head as one text in the exchange's arena. false without memory. */
static bool h1_write_head(struct conn *conn)
{
    struct exchange *x = conn->exchange;
    const struct answer *answer = &x->answer;
    struct text text;
    size_t room = 200; /* status line, date, framing, connection */
    for (uint32_t i = 0; i < answer->field_count; i++)
        room += answer->fields[i].name.size + answer->fields[i].value.size + 4;
    if (!text_init(&text, &x->arena, room))
        return false;
    if (!x->body_whole || (answer->framing == ANSWER_STREAM && conn->http10) ||
        conn->worker->draining)
        conn->keep_alive = false;
    text_put(&text, SPAN("HTTP/1.1 "));
    text_number(&text, (uint64_t)answer->status);
    text_put(&text, SPAN(" "));
    text_put(&text, span_of(reason(answer->status)));
    for (uint32_t i = 0; i < answer->field_count; i++) {
        text_put(&text, SPAN("\r\n"));
        text_put(&text, answer->fields[i].name);
        text_put(&text, SPAN(": "));
        text_put(&text, answer->fields[i].value);
    }
    text_field(&text, SPAN("date: "), (struct span){server_date(conn->worker), 29});
    if (answer->framing == ANSWER_LENGTH) {
        text_put(&text, SPAN("\r\ncontent-length: "));
        text_number(&text, answer->length);
    } else if (answer->framing == ANSWER_STREAM && !conn->http10) {
        text_put(&text, SPAN("\r\ntransfer-encoding: chunked"));
    }
    if (!conn->keep_alive)
        text_put(&text, SPAN("\r\nconnection: close"));
    else if (conn->http10)
        text_put(&text, SPAN("\r\nconnection: keep-alive"));
    text_put(&text, SPAN("\r\n\r\n"));
    conn->head_text = text.start;
    conn->head_size = (uint32_t)(text.at - text.start);
    conn->head_at = 0;
    conn->progress_ns = conn->worker->now_ns;
    x->answer.sent = true;
    return true;
}

static bool is_chunked(const struct conn *conn)
{
    return conn->exchange->answer.framing == ANSWER_STREAM && !conn->http10;
}

/* The bytes of a chunk as they go out on this conn. */
static struct span framed(const struct conn *conn, struct chunk *chunk)
{
    if (is_chunked(conn))
        return (struct span){chunk_data(chunk) - chunk->frame_size,
                             chunk->frame_size + chunk->size + 2u};
    return (struct span){chunk_data(chunk), chunk->size};
}

static bool has_body(const struct conn *conn)
{
    const struct exchange *x = conn->exchange;
    return x->answer.framing != ANSWER_NO_BODY && !span_equal(x->method, SPAN("HEAD"));
}

/* Lays out what is to be sent now. Returns the number of pieces. */
static int h1_gather(struct conn *conn, struct iovec *pieces)
{
    static const struct span last = {"0\r\n\r\n", LAST_CHUNK_BYTES};
    struct exchange *x = conn->exchange;
    int count = 0;
    if (conn->left.size)
        pieces[count++] =
            (struct iovec){conn->left.data + conn->left_at, conn->left.size - conn->left_at};
    if (x == NULL || !x->answer.ready)
        return count;
    if (conn->head_at < conn->head_size)
        pieces[count++] =
            (struct iovec){conn->head_text + conn->head_at, conn->head_size - conn->head_at};
    if (!has_body(conn))
        return count;
    uint32_t at = conn->frame_at;
    for (struct chunk *chunk = x->rider.cursor; chunk; chunk = chunk->next, at = 0) {
        if (count >= PIECES_MAX - 1)
            return count;
        const struct span bytes = framed(conn, chunk);
        exchange_delivering(x, chunk);
        pieces[count++] = (struct iovec){(void *)(uintptr_t)(bytes.data + at), bytes.size - at};
    }
    if (x->rider.ended && !x->rider.broken && is_chunked(conn))
        pieces[count++] = (struct iovec){(void *)(uintptr_t)(last.data + conn->last_at),
                                         last.size - conn->last_at};
    return count;
}

/* Moves past what the socket took. */
static void h1_sent(struct conn *conn, size_t sent)
{
    struct exchange *x = conn->exchange;
    metric_add(METRIC_bytes_out_total, (int64_t)sent);
    if (conn->left.size) {
        const size_t step =
            sent < conn->left.size - conn->left_at ? sent : conn->left.size - conn->left_at;
        conn->left_at += step;
        sent -= step;
        if (conn->left_at == conn->left.size) {
            buffer_free(&conn->left);
            conn->left_at = 0;
        }
    }
    if (x == NULL)
        return;
    const size_t head =
        sent < conn->head_size - conn->head_at ? sent : conn->head_size - conn->head_at;
    conn->head_at += (uint32_t)head;
    sent -= head;
    while (sent && x->rider.cursor) {
        const size_t rest = framed(conn, x->rider.cursor).size - conn->frame_at;
        if (sent < rest) {
            conn->frame_at += (uint32_t)sent;
            x->rider.begun = true;
            return;
        }
        sent -= rest;
        x->bytes_out += x->rider.cursor->size;
        conn->frame_at = 0;
        rider_next(&x->rider);
    }
    conn->last_at = (uint8_t)(conn->last_at + sent);
}

/* Has all of the answer been handed to the socket? */
static bool h1_is_done(const struct conn *conn)
{
    const struct exchange *x = conn->exchange;
    if (x == NULL || !x->answer.ready || conn->left.size || conn->head_at < conn->head_size)
        return false;
    if (!has_body(conn))
        return true;
    if (!x->rider.ended || x->rider.cursor)
        return false;
    return x->rider.broken || !is_chunked(conn) || conn->last_at == LAST_CHUNK_BYTES;
}

/* The answer is out: the next request, or the end of the conn. */
static void h1_finish_exchange(struct conn *conn)
{
    struct exchange *x = conn->exchange;
    const bool broken = x->rider.broken && has_body(conn);
    conn->exchange = NULL;
    exchange_answered(x);
    if (broken && !io_has_unsent(&conn->io)) {
        conn_close(conn, false);
    } else if (broken || !conn->keep_alive || conn->reading_body) {
        conn_finish(conn, !broken);
    } else {
        conn->head_began_ns = conn->worker->now_ns;
        if (conn->in.size) {
            struct span rest = {conn->in.data, conn->in.size};
            h1_consume(conn, &rest);
            if (conn->state == CONN_OPEN && !buffer_keep(&conn->in, rest))
                conn_close(conn, true);
        }
        if (conn->state == CONN_OPEN && conn->io.readable)
            server_wake(conn->worker, &conn->wake);
    }
}

static void h1_flush(struct conn *conn)
{
    struct iovec pieces[PIECES_MAX] UNINITIALIZED;
    while (conn->io.writable && conn->state == CONN_OPEN) {
        if (conn->exchange && conn->exchange->answer.ready && !conn->exchange->answer.sent &&
            !h1_write_head(conn)) {
            conn_close(conn, true);
            return;
        }
        const int count = h1_gather(conn, pieces);
        if (count) {
            size_t sent;
            const enum io_result result = io_send(&conn->io, pieces, count, &sent);
            if (result == IO_FAILED) {
                conn_close(conn, false);
                return;
            }
            if (sent)
                conn->progress_ns = conn->worker->now_ns;
            h1_sent(conn, sent);
        }
        if (h1_is_done(conn))
            h1_finish_exchange(conn);
        else if (count == 0)
            break;
    }
}

static void conn_flush(struct wake *wake)
{
    struct conn *conn = container_of(wake, struct conn, flush);
    if (conn->state != CONN_OPEN)
        return;
    if (conn->protocol == CONN_H2) {
        const bool alive = h2_flush(conn);
        if (conn->state == CONN_CLOSED)
            return;
        if (!alive || (conn->want_close && conn->left.size == 0)) {
            /* Its GOAWAY is on the way: a reset because of unread bytes would take it back. */
            h2_close(conn);
            conn_finish(conn, true);
            return;
        }
    } else {
        h1_flush(conn);
    }
    if (conn->state == CONN_OPEN)
        conn_set_deadline(conn);
}

void conn_answer(struct exchange *x)
{
    struct conn *conn = x->conn;
    if (conn->protocol == CONN_H2)
        h2_answer(x);
    server_wake(conn->worker, &conn->flush);
}

/* ---- deadlines and drain ---- */

/* What a conn waits for, and so which of its deadlines holds. */
enum conn_wait {
    WAIT_SHAKE,  /* the client's part of the handshake */
    WAIT_H2,     /* h2.c knows */
    WAIT_WRITE,  /* the client to take bytes */
    WAIT_BODY,   /* the rest of a request's body */
    WAIT_ANSWER, /* the exchange, which has its own deadline */
    WAIT_HEAD,   /* the rest of a head */
    WAIT_IDLE    /* the next request */
};

static enum conn_wait waits_for(const struct conn *conn)
{
    if (conn->shaking)
        return WAIT_SHAKE;
    if (conn->h2)
        return WAIT_H2;
    if (conn->left.size || io_has_unsent(&conn->io) || (conn->exchange && !conn->io.writable))
        return WAIT_WRITE;
    if (conn->reading_body)
        return WAIT_BODY;
    if (conn->exchange)
        return WAIT_ANSWER;
    return conn->in.size ? WAIT_HEAD : WAIT_IDLE;
}

/* When a conn in this wait must be looked at; 0: never (what is filed fires once and finds
 * nothing). */
static uint64_t deadline_of(const struct conn *conn, enum conn_wait wait)
{
    const struct config *config = conn->worker->config;
    switch (wait) {
    case WAIT_SHAKE:
        return conn->head_began_ns + clock_ms_to_ns(config->timeouts_handshake_ms);
    case WAIT_H2:
        return h2_deadline(conn);
    case WAIT_WRITE:
        return conn->progress_ns + clock_ms_to_ns(config->timeouts_write_progress_ms);
    case WAIT_BODY: {
        const uint64_t moved_ns =
            conn->body_moved_ns + clock_ms_to_ns(config->timeouts_body_progress_ms);
        const uint64_t whole_ns = conn->body_began_ns + clock_ms_to_ns(config->timeouts_body_ms);
        return moved_ns < whole_ns ? moved_ns : whole_ns;
    }
    case WAIT_ANSWER:
        return 0;
    case WAIT_HEAD:
        return conn->head_began_ns + clock_ms_to_ns(config->timeouts_head_ms);
    case WAIT_IDLE:
        break;
    }
    return conn->head_began_ns + clock_ms_to_ns(config->timeouts_idle_h1_ms);
}

void conn_set_deadline(struct conn *conn)
{
    if (conn->state != CONN_OPEN)
        return;
    const uint64_t at_ns = deadline_of(conn, waits_for(conn));
    if (at_ns)
        deadline_set(conn->worker, &conn->deadline, at_ns);
}

/* What it waits for has not come in time. */
static void give_up(struct conn *conn)
{
    switch (waits_for(conn)) {
    case WAIT_SHAKE:
        metric_add(METRIC_handshakes_failed_total, 1);
        break;
    case WAIT_H2:
        if (h2_due(conn))
            server_wake(conn->worker, &conn->flush);
        else
            conn_close(conn, false);
        conn_set_deadline(conn);
        return;
    case WAIT_WRITE:
        if (conn->exchange)
            conn->exchange->cause = ERR_SLOW_CLIENT;
        conn_close(conn, true);
        return;
    case WAIT_BODY:
        if (conn->exchange->step <= STEP_read_ask)
            h1_refuse(conn, conn->exchange, ERR_SLOW_REQUEST);
        else
            conn_close(conn, false);
        return;
    case WAIT_ANSWER:
        return;
    case WAIT_HEAD:
        if (conn->protocol == CONN_H1) {
            buffer_free(&conn->in);
            h1_bad_head(conn, ERR_SLOW_REQUEST);
            return;
        }
        break;
    case WAIT_IDLE:
        io_bye(&conn->io);
        break;
    }
    conn_close(conn, false);
}

/* Nothing happened by the deadline that conn_set_deadline() set, if it still holds. */
static void conn_due(struct deadline *deadline)
{
    struct conn *conn = container_of(deadline, struct conn, deadline);
    const uint64_t now_ns = conn->worker->now_ns;
    if (conn->state == CONN_CLOSING) {
        conn_close(conn, false);
        return;
    }
    deadline->at_ns = 0;
    conn_set_deadline(conn);
    if (deadline->at_ns > now_ns || deadline->at_ns == 0)
        return;
    deadline_clear(conn->worker, deadline);
    give_up(conn);
}

void conn_drain(struct conn *conn)
{
    if (conn->admin || conn->state != CONN_OPEN)
        return;
    if (conn->h2) {
        h2_drain(conn);
        server_wake(conn->worker, &conn->flush);
    } else if (conn->exchange) {
        conn->keep_alive = false;
    } else if (conn->in.size == 0) {
        conn_finish(conn, true);
    }
}
