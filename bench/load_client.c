/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_client.c: connections to a server and the requests on them, from one thread.
 *
 * For:       sockets, the loop, and what both protocols share.
 * Called by: load.c, the soak client (part of build/soak, as are load_h1.c and load_h2.c).
 * Knows not: why a request is made.
 *
 * Sockets are registered once, edge-triggered; a write is tried at once, one for all that a link
 * has to say. With TLS the same bytes pass through load_tls.c on their way. */
#include "bench/load_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ARRIVAL_BYTES = 256 * 1024, EPOLL_EVENTS = 256 };

static char arrival[ARRIVAL_BYTES];
static char opened[ARRIVAL_BYTES]; /* the same without TLS around it */

/* ---- forms ---- */

void form_begin(struct form *form, struct text method, struct text authority, struct text path)
{
    struct buffer head = form->head;

    head.count = 0;
    form->method = method;
    form->path = path;
    form->authority = authority;
    form->field_count = 0;
    form->head = head;
}

void form_add(struct form *form, struct text name, struct text value)
{
    if (form->field_count < FIELDS_MOST)
        form->fields[form->field_count++] = (struct field){name, value};
}

void form_finish(struct form *form, size_t body_bytes)
{
    struct buffer *head = &form->head;

    if (body_bytes > 0) {
        snprintf(form->length_text, sizeof form->length_text, "%zu", body_bytes);
        form_add(form, TEXT("content-length"), text_of(form->length_text));
    }
    buffer_add_text(head, form->method);
    buffer_add_literal(head, " ");
    buffer_add_text(head, form->path);
    buffer_add_literal(head, " HTTP/1.1\r\nhost: ");
    buffer_add_text(head, form->authority);
    for (size_t i = 0; i < form->field_count; i++) {
        buffer_add_literal(head, "\r\n");
        buffer_add_text(head, form->fields[i].name);
        buffer_add_literal(head, ": ");
        buffer_add_text(head, form->fields[i].value);
    }
    buffer_add_literal(head, "\r\n\r\n");
}

void form_fini(struct form *form)
{
    buffer_fini(&form->head);
}

/* ---- the client ---- */

void client_read_clock(struct client *client)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    client->now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool client_init(struct client *client, const struct sockaddr_in *address)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    *client = (struct client){.address = *address, .h2_window = 256 * 1024};
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    client_read_clock(client);
    return client->epoll_fd >= 0;
}

bool client_use_tls(struct client *client, bool resume)
{
    client->tls = tls_link_context();
    client->tls_resume = resume;
    return client->tls != NULL;
}

void link_mark_dirty(struct link *link)
{
    if (link->dirty || link->fd < 0)
        return;
    link->dirty = true;
    link->next_dirty = link->client->dirty;
    link->client->dirty = link;
}

void link_mark_lost(struct link *link)
{
    if (link->lost)
        return;
    link->lost = true;
    link->next_lost = link->client->lost;
    link->client->lost = link;
}

/* The connection is of no more use: its calls end, and the program hears of it after this turn. */
static void link_break(struct link *link)
{
    if (link->lost)
        return;
    link_mark_lost(link);
    if (link->tls != NULL && !link->tls->shaken && link->client->tls_problem == NULL)
        link->client->tls_problem = "the server closed during the handshake";
    if (link->h2 != NULL)
        h2_end_calls(link);
    else if (link->call != NULL)
        call_end(link->call, ENDING_CUT);
}

/* Takes what HTTP/2 has to say when all before it is gone. false: there is nothing to send, or the
 * connection is of no more use. */
static bool link_fill(struct link *link)
{
    if (link->out_at < link->out.count)
        return true;
    link->out_at = 0;
    link->out.count = 0;
    if (link->h2 != NULL && !h2_fill(link)) {
        link_break(link);
        return false;
    }
    return link->out.count > 0;
}

/* Goes on with the handshake. false: it failed. */
static bool link_shake(struct link *link)
{
    struct client *client = link->client;

    if (link->tls->shaken)
        return true;
    if (!tls_link_shake(link->tls, &client->tls_problem))
        return false;
    if (link->tls->shaken) {
        client->handshakes++;
        client->resumed += tls_link_resumed(link->tls);
    }
    return true;
}

/* The same as link_fill(), sealed, and what the handshake has to say before it. */
static bool link_fill_sealed(struct link *link)
{
    struct tls_link *tls = link->tls;

    if (tls->sealed_at < tls->sealed.count)
        return true;
    tls->sealed_at = 0;
    tls->sealed.count = 0;
    bool ok = link_shake(link);
    if (ok && tls->shaken && link_fill(link)) {
        ok = tls_link_seal(tls, link->out.bytes, link->out.count);
        link->out_at = link->out.count;
    }
    if (!ok)
        link_break(link);
    return tls->sealed.count > 0;
}

/* Writes as much as the socket takes. */
static void link_flush(struct link *link)
{
    const struct buffer *from = link->tls != NULL ? &link->tls->sealed : &link->out;
    size_t *at = link->tls != NULL ? &link->tls->sealed_at : &link->out_at;

    if (link->fd < 0 || link->lost)
        return;
    while (link->tls != NULL ? link_fill_sealed(link) : link_fill(link)) {
        ssize_t sent = send(link->fd, from->bytes + *at, from->count - *at, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR)
                link_break(link);
            return;
        }
        *at += (size_t)sent;
    }
}

static void flush_dirty(struct client *client)
{
    while (client->dirty != NULL) {
        struct link *link = client->dirty;
        client->dirty = link->next_dirty;
        link->dirty = false;
        link_flush(link);
    }
}

/* Bytes for the protocol of a link. */
static void link_take(struct link *link, const char *bytes, size_t count)
{
    if (link->h2 == NULL)
        h1_take(link, bytes, count);
    else if (!h2_take(link, bytes, count))
        link_break(link);
}

/* The same, sealed. */
static void link_take_sealed(struct link *link, const char *bytes, size_t count)
{
    struct tls_link *tls = link->tls;

    tls_link_arrive(tls, bytes, count);
    bool ok = link_shake(link);
    while (tls->shaken && ok && link->fd >= 0 && !link->lost) {
        size_t size = tls_link_read(tls, opened, sizeof opened, &ok);
        if (size > 0)
            link_take(link, opened, size);
        else
            break;
    }
    if (!ok)
        link_break(link);
}

/* Reads what is there. An edge is reported once: with `to_end` the server has closed, and its end
 * is read, too. */
static void link_read(struct link *link, bool to_end)
{
    while (link->fd >= 0 && !link->lost) {
        if (link->h2 == NULL && link->call != NULL && link->call->paused) {
            link->unread = true;
            link->unread_end = link->unread_end || to_end;
            return;
        }
        ssize_t count = recv(link->fd, arrival, sizeof arrival, 0);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0) {
            if (link->h2 == NULL && link->call != NULL && count == 0)
                h1_take(link, arrival, 0);
            link_break(link);
            return;
        }
        client_read_clock(link->client);
        if (link->tls != NULL)
            link_take_sealed(link, arrival, (size_t)count);
        else
            link_take(link, arrival, (size_t)count);
        link_mark_dirty(link);
        if ((size_t)count < sizeof arrival && !to_end)
            return;
    }
}

static void link_event(struct link *link, uint32_t events)
{
    if (link->fd < 0 || link->lost)
        return;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        link_read(link, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    if (events & (EPOLLERR | EPOLLHUP))
        link_break(link);
    else if ((events & EPOLLOUT) && (link->out.count > 0 || link->h2 != NULL || link->tls != NULL))
        link_mark_dirty(link);
}

static void report_lost(struct client *client)
{
    while (client->lost != NULL) {
        struct link *link = client->lost;
        client->lost = link->next_lost;
        link_close(link, false);
        client->link_lost(link);
    }
}

bool client_turn(struct client *client, int64_t timeout_ns, const sigset_t *signals)
{
    struct epoll_event events[EPOLL_EVENTS];
    struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};

    flush_dirty(client);
    report_lost(client);
    flush_dirty(client);
    int count = epoll_pwait2(client->epoll_fd, events, EPOLL_EVENTS,
                             timeout_ns < 0 ? NULL : &timeout, signals);
    if (count < 0 && errno == ENOSYS)
        count = epoll_pwait(client->epoll_fd, events, EPOLL_EVENTS,
                            timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000), signals);
    client_read_clock(client);
    for (int i = 0; i < count; i++) {
        link_event(events[i].data.ptr, events[i].events);
        flush_dirty(client);
    }
    report_lost(client);
    return count >= 0 || errno != EINTR;
}

/* ---- links ---- */

/* Load may come from several loopback addresses, where a server caps connections per address. */
static bool bind_source(struct client *client, int fd)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    int on = 1;

    if (client->sources == 0)
        return true;
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + client->next_source++ % client->sources);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    return bind(fd, (struct sockaddr *)&source, sizeof source) == 0;
}

/* Hangs TLS on a link that connects; what it was before tells of its last session. */
static bool link_add_tls(struct link *link, struct tls_link *before, bool use_h2)
{
    link->tls = before != NULL ? before : calloc(1, sizeof *link->tls);
    return link->tls != NULL &&
           tls_link_open(link->tls, link->client->tls, use_h2, link->client->tls_resume);
}

bool link_open(struct link *link, struct client *client, bool use_h2)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = link};
    struct buffer out = link->out;
    struct buffer in = link->in;
    struct tls_link *tls = link->tls;
    int on = 1;

    out.count = 0;
    in.count = 0;
    *link = (struct link){.client = client, .fd = -1, .out = out, .in = in, .tls = tls};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!bind_source(client, fd) ||
        (connect(fd, (const struct sockaddr *)&client->address, sizeof client->address) != 0 &&
         errno != EINPROGRESS) ||
        epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return false;
    }
    link->fd = fd;
    if ((client->tls != NULL && !link_add_tls(link, tls, use_h2)) || (use_h2 && !h2_open(link))) {
        link_close(link, false);
        return false;
    }
    return true;
}

/* close_notify, unless something before it has not left. */
static void link_say_goodbye(struct link *link, bool reset)
{
    struct tls_link *tls = link->tls;
    bool all_left = tls->sealed_at == tls->sealed.count;

    tls_link_close(tls);
    if (all_left && !reset && tls->sealed.count > tls->sealed_at)
        (void)send(link->fd, tls->sealed.bytes + tls->sealed_at, tls->sealed.count - tls->sealed_at,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
}

void link_close(struct link *link, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (link->tls != NULL && link->fd >= 0)
        link_say_goodbye(link, reset);
    if (link->fd >= 0) {
        if (reset)
            setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(link->fd);
        link->fd = -1;
    }
    h2_close(link);
    link->call = NULL;
    link->running = 0;
}

void link_fini(struct link *link)
{
    link_close(link, false);
    if (link->tls != NULL)
        tls_link_fini(link->tls);
    free(link->tls);
    link->tls = NULL;
    buffer_fini(&link->out);
    buffer_fini(&link->in);
}

/* ---- calls ---- */

bool call_start(struct call *call, struct link *link, const struct form *form, struct text body,
                long counter_at, uint64_t counter)
{
    if (link->fd < 0 || link->lost || (link->h2 == NULL && link->call != NULL))
        return false;
    call->link = link;
    call->form = form;
    call->body = body;
    call->counter_at = counter_at;
    call->counter = counter;
    call->body_sent = 0;
    call->paused = false;
    call->kept_back = 0;
    answer_begin(&call->answer);
    if (link->h2 == NULL) {
        h1_start(link, call);
    } else if (!h2_start(link, call)) {
        call->link = NULL;
        return false;
    }
    link->running++;
    link_mark_dirty(link);
    return true;
}

void call_end(struct call *call, enum ending ending)
{
    struct link *link = call->link;

    if (link == NULL)
        return;
    call->link = NULL;
    link->running--;
    if (link->call == call)
        link->call = NULL;
    if (ending == ENDING_WHOLE)
        answer_end(&call->answer);
    link->client->call_ended(call, ending);
}

void call_abort(struct call *call)
{
    struct link *link = call->link;

    if (link == NULL)
        return;
    call->link = NULL;
    link->running--;
    if (link->h2 != NULL) {
        h2_cancel(link, call);
        link_mark_dirty(link);
        return;
    }
    link->call = NULL;
    link_mark_lost(link);
}

void call_pause(struct call *call, bool paused)
{
    struct link *link = call->link;

    call->paused = paused;
    if (paused || link == NULL)
        return;
    if (link->h2 != NULL) {
        h2_pay_back(link, call);
        link_mark_dirty(link);
    } else if (link->unread) {
        link->unread = false;
        link_read(link, link->unread_end);
    }
}

void call_copy_body(const struct call *call, size_t at, size_t count, char *to)
{
    memcpy(to, call->body.at + at, count);
    if (call->counter_at < 0)
        return;
    uint64_t number = call->counter;
    for (size_t i = COUNTER_DIGITS; i-- > 0; number /= 10) {
        size_t place = (size_t)call->counter_at + i;
        if (place >= at && place < at + count)
            to[place - at] = (char)('0' + number % 10);
    }
}
