/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/server.c: the sockets of the simulated model server.
 *
 * For:       one thread, one epoll: accepts, reads, writes, waits, and notices who leaves.
 * Called by: main.c.
 * Knows not: what a request gets.
 *
 * Sockets are registered once, edge-triggered. A read is tried when the kernel says so, a write at
 * once. While an answer is under way the next request waits unread, and a client that closes or
 * half-closes ends the generation, as uvicorn does. A stream is generated only as fast as its
 * socket takes it: what is kept is the event that was cut. */
#include "tests/fake/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake/counters.h"
#include "tests/fake/listen.h"
#include "tests/fake/pace.h"
#include "tests/fake/service.h"
#include "tests/fake/stream.h"
#include "tests/fake/timers.h"

enum {
    ARRIVAL_BYTES = 256 * 1024, /* one read */
    BATCH_BYTES = 64 * 1024,    /* events of one write */
    BATCH_EVENTS = 1024,
    KEEP_BYTES = 256 * 1024, /* larger buffers are given back when empty */
    EPOLL_EVENTS = 512,
};

/* Lives from accept to the end of the loop turn in which it was closed. */
struct conn {
    int fd;
    bool closed;
    bool busy;      /* an answer is under way */
    bool unread;    /* bytes may wait in the socket */
    bool continued; /* 100 was sent for the request that is coming in */
    bool poisoned;  /* the next request meets a reset */
    bool idle;      /* in the list of idle ones */
    uint64_t idle_since_ns;
    struct conn *idle_before;
    struct conn *idle_after;
    struct conn *next_dead; /* also: next in the list of free ones */
    struct buffer input;    /* bytes of requests that are not whole yet, or not their turn yet */
    size_t needed;          /* bytes that the request in `input` needs */
    struct buffer pending;  /* bytes that wait for the socket */
    size_t pending_at;
    uint64_t pending_tokens; /* generated once `pending` is written */
    uint64_t due_ns;         /* nothing more is done before */
    uint64_t spoken_ns;      /* streams with ping_ms: when something was last written */
    struct timer timer;
    struct reply reply;
    struct work work;
};

/* What a write must know to go back behind the event that the socket cut. */
struct mark {
    size_t end;
    uint64_t tokens;
    struct position position;
};

static int epoll_fd = -1;
static uint64_t now_ns;
static struct conn *free_conns;
static struct conn *dead_conns;
static struct conn idle_list; /* a ring: longest idle first */
static struct buffer batch;
static struct mark marks[BATCH_EVENTS];
static char arrival[ARRIVAL_BYTES];

static void read_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    answer_set_time(now.tv_sec);
    pace_advance(now_ns);
}

static struct conn *conn_of_timer(struct timer *timer)
{
    return (struct conn *)((char *)timer - offsetof(struct conn, timer));
}

/* ---- the list of idle connections ---- */

static void idle_leave(struct conn *conn)
{
    if (!conn->idle)
        return;
    conn->idle = false;
    conn->idle_before->idle_after = conn->idle_after;
    conn->idle_after->idle_before = conn->idle_before;
}

static void idle_enter(struct conn *conn)
{
    conn->idle = true;
    conn->idle_since_ns = now_ns;
    conn->idle_before = idle_list.idle_before;
    conn->idle_after = &idle_list;
    conn->idle_before->idle_after = conn;
    idle_list.idle_before = conn;
}

/* ---- opening and closing ---- */

static void conn_open(int fd)
{
    struct conn *conn = free_conns;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    int on = 1;

    if (conn != NULL)
        free_conns = conn->next_dead;
    else
        conn = calloc(1, sizeof *conn);
    if (conn == NULL) {
        close(fd);
        return;
    }
    conn->fd = fd;
    event.data.ptr = conn;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        conn->next_dead = free_conns;
        free_conns = conn;
        return;
    }
    counters.open_connections++;
    counters.accepted_connections++;
}

static void conn_close(struct conn *conn)
{
    if (conn->closed)
        return;
    conn->closed = true;
    idle_leave(conn);
    timers_cancel(&conn->timer);
    close(conn->fd);
    counters.open_connections--;
    conn->next_dead = dead_conns;
    dead_conns = conn;
}

static void conn_reset(struct conn *conn)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    conn_close(conn);
}

/* Closed connections are kept until no event of this turn can name them. */
static void sweep_dead(void)
{
    while (dead_conns != NULL) {
        struct conn *conn = dead_conns;
        dead_conns = conn->next_dead;
        buffer_fini(&conn->input);
        buffer_fini(&conn->pending);
        buffer_fini(&conn->work.prefix);
        buffer_fini(&conn->work.script);
        *conn = (struct conn){0};
        conn->next_dead = free_conns;
        free_conns = conn;
    }
}

static void work_finish(struct conn *conn, enum outcome outcome)
{
    conn->busy = false;
    stream_end(&conn->work);
    pace_leave(&conn->work);
    if (conn->reply.inference)
        counters_finish(&conn->work, outcome, now_ns);
}

/* The client has left, or its socket failed. */
static void conn_gone(struct conn *conn)
{
    if (conn->busy)
        work_finish(conn, OUTCOME_ABORTED);
    conn_close(conn);
}

/* ---- writing ---- */

static void credit(struct conn *conn, uint64_t tokens)
{
    conn->work.generated += tokens;
    counters.generated_tokens += tokens;
}

static void keep(struct conn *conn, const char *bytes, size_t count, uint64_t tokens)
{
    buffer_add(&conn->pending, bytes, count);
    conn->pending_tokens += tokens;
}

/* One try; returns what the socket took, 0 when it is full or (conn->closed then) broken. */
static size_t send_some(struct conn *conn, const char *bytes, size_t count)
{
    ssize_t sent = send(conn->fd, bytes, count, MSG_NOSIGNAL);

    if (sent >= 0)
        return (size_t)sent;
    if (errno != EAGAIN && errno != EINTR)
        conn_gone(conn);
    return 0;
}

/* When a stream that says nothing gives a sign of life; UINT64_MAX: never. */
static uint64_t ping_due_ns(const struct conn *conn)
{
    if (conn->work.directive.ping_ms <= 0 || !conn->work.stream || !conn->work.head_sent)
        return UINT64_MAX;
    return conn->spoken_ns + (uint64_t)conn->work.directive.ping_ms * 1000000u;
}

static void wait_until(struct conn *conn, uint64_t due_ns)
{
    uint64_t ping_ns = ping_due_ns(conn);

    conn->due_ns = due_ns;
    timers_set(&conn->timer, ping_ns < due_ns ? ping_ns : due_ns);
}

/* Writes what waits; true when nothing waits any more. */
static bool flush_pending(struct conn *conn)
{
    struct buffer *pending = &conn->pending;

    while (conn->pending_at < pending->count) {
        size_t count = pending->count - conn->pending_at;
        size_t piece = (size_t)conn->work.directive.split;
        bool pieces = conn->reply.inference && piece > 0;
        if (pieces && count > piece)
            count = piece;
        size_t sent = send_some(conn, pending->bytes + conn->pending_at, count);
        if (conn->closed || sent == 0)
            return false;
        conn->pending_at += sent;
        if (pieces && conn->pending_at < pending->count) {
            wait_until(conn, now_ns + 1); /* the next piece in the next turn */
            return false;
        }
    }
    if (pending->count > 0) {
        credit(conn, conn->pending_tokens);
        conn->pending_tokens = 0;
        pending->count = 0;
        conn->pending_at = 0;
        if (pending->capacity > KEEP_BYTES)
            buffer_fini(pending);
    }
    return true;
}

/* The answer waits: says so if it has been silent for long enough. */
static void ping(struct conn *conn)
{
    if (ping_due_ns(conn) > now_ns || conn->pending.count > 0)
        return;
    conn->spoken_ns = now_ns;
    if (stream_add_ping(&conn->work, conn->reply.framing, &conn->pending))
        flush_pending(conn);
    if (!conn->closed)
        wait_until(conn, conn->due_ns);
}

/* Writes the batch and goes back behind the event that the socket cut, if it cut one. */
static void send_batch(struct conn *conn, size_t mark_count)
{
    size_t i = 0;

    if (conn->work.directive.split > 0) {
        uint64_t tokens = 0;
        for (i = 0; i < mark_count; i++)
            tokens += marks[i].tokens;
        keep(conn, batch.bytes, batch.count, tokens);
        return;
    }
    size_t sent = send_some(conn, batch.bytes, batch.count);
    if (conn->closed)
        return;
    while (i < mark_count && marks[i].end <= sent)
        credit(conn, marks[i++].tokens);
    if (sent == batch.count)
        return;
    keep(conn, batch.bytes + sent, marks[i].end - sent, marks[i].tokens);
    if (i + 1 < mark_count) {
        conn->work.position = marks[i].position;
        conn->reply.next = NEXT_GENERATE;
    }
}

/* Makes the next events and writes them: all that is due, in one write. */
static void generate(struct conn *conn)
{
    struct work *work = &conn->work;
    const struct directive *directive = &work->directive;
    size_t mark_count = 0;
    bool paced = directive->delay_ms > 0;
    bool wait = false;

    conn->spoken_ns = now_ns;
    batch.count = 0;
    if (!work->head_sent) {
        service_add_stream_head(work, &conn->reply, &batch);
        marks[mark_count++] = (struct mark){batch.count, 0, work->position};
        if (service_fault(work, &conn->reply.next)) {
            conn->reply.failed = true;
            wait = true;
        } else if (directive->head_ms > 0) {
            wait_until(conn, now_ns + (uint64_t)directive->head_ms * 1000000u);
            wait = true;
        }
    }
    while (!wait && batch.count < BATCH_BYTES && mark_count < BATCH_EVENTS) {
        uint64_t tokens;
        if (work->position.phase != PHASE_ROLE && service_fault(work, &conn->reply.next)) {
            conn->reply.failed = true;
            break;
        }
        if (work->position.phase == PHASE_ERROR)
            conn->reply.failed = true;
        if (work->paced && !pace_allows(work)) {
            wait_until(conn, UINT64_MAX); /* until the model has gone on */
            wait = true;
            break;
        }
        if (!stream_add_event(work, conn->reply.framing, &batch, &tokens)) {
            conn->reply.next = NEXT_REQUEST;
            break;
        }
        marks[mark_count++] = (struct mark){batch.count, tokens, work->position};
        if (work->position.phase == PHASE_END) {
            conn->reply.next = NEXT_REQUEST;
            break;
        }
        if (paced && tokens > 0 && work->position.choice == 0 &&
            work->position.phase == PHASE_TOKENS) {
            uint64_t due_ns = (conn->due_ns > 0 ? conn->due_ns : now_ns) +
                              (uint64_t)directive->delay_ms * 1000000u;
            wait_until(conn, due_ns);
            break;
        }
        if (work->deflate != NULL)
            break; /* a compressor cannot go back */
    }
    send_batch(conn, mark_count);
    if (!conn->closed && conn->reply.next == NEXT_GENERATE && !paced && !wait)
        wait_until(conn, now_ns + 1); /* let the others have their turn */
}

/* The model has all tokens of a plain answer. */
static void answer_late(struct conn *conn)
{
    batch.count = 0;
    service_add_late(&conn->work, &batch, &conn->reply);
    keep(conn, batch.bytes, batch.count, conn->reply.tokens);
}

/* The answer is written: the connection is free for the next request, or ends. */
static void answer_written(struct conn *conn)
{
    bool ends = conn->reply.close;

    if (conn->work.directive.poison && conn->reply.inference)
        conn->poisoned = true;
    work_finish(conn, conn->reply.failed ? OUTCOME_FAILED : OUTCOME_COMPLETE);
    if (ends)
        conn_close(conn);
    else
        idle_enter(conn);
}

/* Goes on with the answer under way as far as time and socket allow. */
static void pump(struct conn *conn)
{
    while (conn->busy && !conn->closed) {
        if (conn->due_ns > now_ns) {
            ping(conn);
            return;
        }
        if (!flush_pending(conn))
            return;
        switch (conn->reply.next) {
        case NEXT_GENERATE:
            generate(conn);
            break;
        case NEXT_MODEL:
            if (!pace_allows(&conn->work)) {
                wait_until(conn, UINT64_MAX);
                return;
            }
            answer_late(conn);
            break;
        case NEXT_REQUEST:
            answer_written(conn);
            return;
        case NEXT_CLOSE:
            work_finish(conn, OUTCOME_FAILED);
            conn_close(conn);
            return;
        case NEXT_RESET:
            work_finish(conn, OUTCOME_FAILED);
            conn_reset(conn);
            return;
        case NEXT_STALL:
            conn->due_ns = UINT64_MAX;
            if (ping_due_ns(conn) != UINT64_MAX)
                wait_until(conn, UINT64_MAX);
            return;
        }
    }
}

/* ---- reading ---- */

static void begin_answer(struct conn *conn, const struct request *request)
{
    struct work *work = &conn->work;
    struct buffer prefix = work->prefix;
    struct buffer script = work->script;

    idle_leave(conn);
    if (conn->poisoned) {
        conn_reset(conn);
        return;
    }
    *work = (struct work){.prefix = prefix, .script = script};
    conn->busy = true;
    conn->continued = false;
    conn->due_ns = 0;
    batch.count = 0;
    service_answer(request, work, &batch, &conn->reply);
    if (conn->reply.inference)
        counters_begin(work);
    if (conn->reply.hold_ms > 0)
        wait_until(conn, now_ns + conn->reply.hold_ms * 1000000u);
    if (batch.count > 0) {
        if (conn->reply.hold_ms > 0 || work->directive.split > 0) {
            keep(conn, batch.bytes, batch.count, conn->reply.tokens);
        } else {
            size_t sent = send_some(conn, batch.bytes, batch.count);
            if (conn->closed)
                return;
            if (sent == batch.count)
                credit(conn, conn->reply.tokens);
            else
                keep(conn, batch.bytes + sent, batch.count - sent, conn->reply.tokens);
        }
    }
    pump(conn);
}

static void refuse_bytes(struct conn *conn)
{
    batch.count = 0;
    service_add_refusal(&batch);
    send_some(conn, batch.bytes, batch.count);
    conn_close(conn);
}

/* Serves the requests at the front of the bytes; returns how many bytes were used. */
static size_t take_requests(struct conn *conn, char *bytes, size_t count)
{
    size_t used = 0;

    conn->needed = 0;
    while (!conn->busy && !conn->closed && used < count) {
        struct request request;
        size_t request_bytes;
        enum http_result result = http_read(bytes + used, count - used, &request, &request_bytes);
        if (result == HTTP_BROKEN) {
            refuse_bytes(conn);
            return count;
        }
        if (result == HTTP_PARTIAL) {
            static const char carry_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
            conn->needed = request_bytes;
            if (request.expects_continue && !conn->continued) {
                conn->continued = true;
                send_some(conn, carry_on, sizeof carry_on - 1);
            }
            break;
        }
        used += request_bytes;
        begin_answer(conn, &request);
    }
    return used;
}

/* Serves what has been read before; false when it has to wait. */
static bool take_kept(struct conn *conn)
{
    struct buffer *input = &conn->input;

    if (input->count == 0)
        return true;
    size_t used = take_requests(conn, input->bytes, input->count);
    if (conn->closed)
        return false;
    input->count -= used;
    if (input->count > 0 && used > 0)
        memmove(input->bytes, input->bytes + used, input->count);
    if (input->count == 0 && input->capacity > KEEP_BYTES)
        buffer_fini(input);
    return !conn->busy;
}

/* Reads until the socket is empty or an answer is under way. */
static void conn_read(struct conn *conn)
{
    struct buffer *input = &conn->input;

    conn->unread = true;
    while (!conn->busy && !conn->closed) {
        ssize_t count;
        size_t room = ARRIVAL_BYTES;
        if (input->count == 0) {
            count = recv(conn->fd, arrival, room, 0);
        } else {
            if (conn->needed > input->count + room)
                room = conn->needed - input->count;
            buffer_reserve(input, room);
            count = recv(conn->fd, input->bytes + input->count, room, 0);
        }
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            conn->unread = false;
            return;
        }
        if (count <= 0) {
            conn_gone(conn);
            return;
        }
        idle_leave(conn);
        if (input->count == 0) {
            size_t used = take_requests(conn, arrival, (size_t)count);
            if (conn->closed)
                return;
            buffer_add(input, arrival + used, (size_t)count - used);
        } else {
            input->count += (size_t)count;
            if (input->count >= conn->needed)
                take_kept(conn);
        }
        if ((size_t)count < room) {
            conn->unread = false;
            return;
        }
    }
}

/* An answer has ended outside of conn_read(): the next request may wait already. */
static void conn_resume(struct conn *conn)
{
    if (conn->busy || conn->closed)
        return;
    if (take_kept(conn) && conn->unread)
        conn_read(conn);
}

static void conn_event(struct conn *conn, uint32_t events)
{
    if (conn->closed)
        return;
    if (events & (EPOLLERR | EPOLLHUP)) {
        conn_gone(conn);
        return;
    }
    if (events & EPOLLIN)
        conn_read(conn);
    if (!conn->closed && (events & EPOLLRDHUP)) {
        conn_gone(conn);
        return;
    }
    if (!conn->closed && conn->busy && (events & EPOLLOUT)) {
        pump(conn);
        conn_resume(conn);
    }
}

/* ---- the loop ---- */

static void accept_all(const struct listener *listener)
{
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            conn_open(fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* The model has gone on: so do the answers that waited for it. */
static void pump_ready(void)
{
    struct work *work;

    while ((work = pace_take_ready()) != NULL) {
        struct conn *conn = (struct conn *)((char *)work - offsetof(struct conn, work));
        if (conn->due_ns != UINT64_MAX)
            continue;
        conn->due_ns = 0;
        timers_cancel(&conn->timer);
        pump(conn);
        conn_resume(conn);
    }
}

static void close_idle(uint64_t keep_alive_ns)
{
    while (idle_list.idle_after != &idle_list &&
           now_ns - idle_list.idle_after->idle_since_ns >= keep_alive_ns)
        conn_close(idle_list.idle_after);
}

/* How long the loop may sleep, in ns; -1: for ever. */
static int64_t sleep_ns(uint64_t keep_alive_ns)
{
    uint64_t wake_ns = timers_next_ns() < pace_next_ns() ? timers_next_ns() : pace_next_ns();
    int log_ms = counters_log_wait_ms(now_ns);

    if (idle_list.idle_after != &idle_list &&
        idle_list.idle_after->idle_since_ns + keep_alive_ns < wake_ns)
        wake_ns = idle_list.idle_after->idle_since_ns + keep_alive_ns;
    if (log_ms >= 0 && now_ns + (uint64_t)log_ms * 1000000u < wake_ns)
        wake_ns = now_ns + (uint64_t)log_ms * 1000000u;
    if (wake_ns == UINT64_MAX)
        return -1;
    return wake_ns <= now_ns ? 0 : (int64_t)(wake_ns - now_ns);
}

/* Waits with nanoseconds where the kernel can, else with milliseconds. */
static int wait_events(struct epoll_event *events, int64_t timeout_ns, const sigset_t *signals)
{
    static bool coarse;

    if (!coarse) {
        struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
        int count =
            epoll_pwait2(epoll_fd, events, EPOLL_EVENTS, timeout_ns < 0 ? NULL : &timeout, signals);
        if (count >= 0 || errno != ENOSYS)
            return count;
        coarse = true;
    }
    return epoll_pwait(epoll_fd, events, EPOLL_EVENTS,
                       timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000), signals);
}

static bool watch_listeners(void)
{
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        return false;
    for (unsigned i = 0; i < listener_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listeners[i]};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listeners[i].fd, &event) != 0)
            return false;
    }
    return true;
}

void server_run(int keep_alive_ms, const volatile sig_atomic_t *stop)
{
    static struct epoll_event events[EPOLL_EVENTS];
    uint64_t keep_alive_ns = (uint64_t)keep_alive_ms * 1000000u;
    sigset_t signals;
    struct timer *timer;

    sigemptyset(&signals);
    idle_list.idle_before = &idle_list;
    idle_list.idle_after = &idle_list;
    if (!watch_listeners()) {
        perror("fake: epoll");
        return;
    }
    read_clock();
    while (!*stop) {
        int count = wait_events(events, sleep_ns(keep_alive_ns), &signals);
        read_clock();
        for (int i = 0; i < count; i++) {
            void *source = events[i].data.ptr;
            if (source == &listeners[0] || source == &listeners[1])
                accept_all(source);
            else
                conn_event(source, events[i].events);
        }
        while ((timer = timers_take_due(now_ns)) != NULL) {
            struct conn *conn = conn_of_timer(timer);
            pump(conn);
            conn_resume(conn);
        }
        pump_ready();
        close_idle(keep_alive_ns);
        sweep_dead();
        if (counters_log_wait_ms(now_ns) == 0)
            counters_flush_log();
    }
    counters_flush_log();
}
