/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/link.c: see link.h.
 *
 * For:       pools of kept connections, and opening new ones: every address of a name in its turn.
 * Called by: replica.c (attempts), server.c (edges, deadlines, the end).
 * Knows not: what is sent on a link. */
#include "gateway/link.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/hash.h"
#include "config/base/metrics.h"
#include "gateway/address.h"
#include "gateway/names.h"
#include "gateway/tls.h"

#define KEPT_LINKS_MAX 1024
#define PATIENCE_NS_MIN (50 * NS_PER_MS)

/* Links of one worker to one replica, or to several that are reached in the very same way. Lives as
 * long as it has a link. */
struct pool {
    struct pool *next;
    struct span host;            /* or a socket's path; own copy */
    uint16_t port;               /* 0: a socket */
    struct tls_context *context; /* one reference; NULL: in the clear. All that makes TLS differ
                                    makes another context */
    struct link *idle;
    uint32_t idle_count;
    uint32_t link_count; /* these and those in use */
};

/* What a link needs until it is ready. */
struct opening {
    struct link *link;
    struct name_wait wait;
    uint16_t port;
    uint64_t connect_ns; /* for all addresses together */
    uint32_t count, next;
    union name_address addresses[NAME_ADDRESSES_MAX];
};

/* ---- pools ---- */

/* What is connected to: a host's name or address, or a socket's path. */
static struct span place_of(const struct config_replica *replica)
{
    return replica->socket_path.data ? replica->socket_path : replica->host;
}

static bool is_pool_of(const struct pool *pool, const struct config_replica *replica)
{
    return pool->port == replica->port && pool->context == replica->context &&
           span_equal(pool->host, place_of(replica));
}

static struct pool *find_pool(struct worker *worker, const struct config_replica *replica)
{
    for (struct pool *pool = worker->pools; pool; pool = pool->next)
        if (is_pool_of(pool, replica))
            return pool;
    const struct span place = place_of(replica);
    struct pool *pool = calloc(1, sizeof *pool + place.size);
    if (pool == NULL)
        return NULL;
    char *host = (char *)(pool + 1);
    memcpy(host, place.data, place.size);
    pool->host = (struct span){host, place.size};
    pool->port = replica->port;
    pool->context = tls_context_get(replica->context);
    pool->next = worker->pools;
    worker->pools = pool;
    return pool;
}

static void leave_pool(struct worker *worker, struct pool *pool)
{
    if (--pool->link_count > 0)
        return;
    struct pool **link = &worker->pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    tls_context_put(pool->context);
    free(pool);
}

/* Takes a kept link out of those of its pool. */
static void unkeep(struct link *link)
{
    if (link->previous)
        link->previous->next = link->next;
    else
        link->pool->idle = link->next;
    if (link->next)
        link->next->previous = link->previous;
    link->next = link->previous = NULL;
    link->pool->idle_count--;
}

/* The newest kept link that is not too old; NULL: none. */
static struct link *take_kept(struct pool *pool, const struct config *config, uint64_t now_ns)
{
    struct link *link = pool->idle;
    if (link == NULL || now_ns - link->kept_ns > clock_ms_to_ns(config->timeouts_replica_idle_ms))
        return NULL; /* all others are older still; their deadlines close them */
    unkeep(link);
    assert(link->in.size == 0 && link->scanned == 0);
    link->reused = true;
    link->state = LINK_READY;
    return link;
}

/* Has the replica neither spoken nor hung up? An edge alone says little: bytes that came while the
 * socket was being read ring once more although they have been taken. */
static bool is_quiet(struct link *link)
{
    char byte;
    size_t size;
    return !link->io.readable || io_recv(&link->io, &byte, 1, &size) == IO_AGAIN;
}

void link_keep(struct link *link, const struct config *config)
{
    struct pool *pool = link->pool;
    const uint64_t idle_ns = clock_ms_to_ns(config->timeouts_replica_idle_ms);
    if (idle_ns == 0 || pool->idle_count >= KEPT_LINKS_MAX || link->worker->draining ||
        io_has_unsent(&link->io) || !is_quiet(link)) {
        link_close(link);
        return;
    }
    /* What is kept for the next request, perhaps another tenant's, holds no byte of this answer. */
    buffer_free(&link->in);
    link->scanned = 0;
    link->user = NULL;
    link->state = LINK_KEPT;
    link->next = pool->idle;
    if (pool->idle)
        pool->idle->previous = link;
    pool->idle = link;
    pool->idle_count++;
    link->kept_ns = link->worker->now_ns;
    deadline_set(link->worker, &link->deadline, link->kept_ns + idle_ns);
}

void link_close_kept(struct worker *worker)
{
    for (struct pool *pool = worker->pools, *next; pool; pool = next) {
        next = pool->next;
        for (uint32_t left = pool->idle_count; left > 0; left--)
            link_close(pool->idle); /* the last one may take the pool with it */
    }
}

/* ---- opening ---- */

static void fail(struct link *link, const char *problem)
{
    link->state = LINK_FAILED;
    link->problem = problem;
}

static void fail_for_want(struct link *link, int problem)
{
    link->ours = true;
    fail(link, strerrordesc_np(problem));
}

static void close_socket(struct link *link)
{
    if (link->io.fd < 0)
        return;
    if (link->state == LINK_KEPT)
        io_bye(&link->io);
    io_close(&link->io, false);
    metric_add(METRIC_replica_connections_open, -1);
}

/* It has bytes, room, or an end: its user's. An idle one that speaks or hangs up is of no use. */
static void link_ready(struct io *io)
{
    struct link *link = container_of(io, struct link, io);
    if (link->user)
        server_wake(link->worker, link->user);
    else if (link->state == LINK_KEPT && !is_quiet(link))
        link_close(link);
}

/* Begins to connect to one address. false: refused at once (link->problem), try another; or the
 * link has failed. */
static bool connect_to(struct link *link, const struct sockaddr *address, socklen_t size)
{
    const int on = 1;
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail_for_want(link, errno);
        return false;
    }
    const int result = connect(fd, address, size);
    if (result != 0 && errno != EINPROGRESS) {
        link->problem = strerrordesc_np(errno);
        close(fd);
        return false;
    }
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (io_open(&link->io, link->worker->epoll_fd, fd, link_ready) != OK) {
        fail_for_want(link, ENOMEM);
        return false;
    }
    link->io.connecting = result != 0;
    link->io.writable = result == 0;
    metric_add(METRIC_replica_connections_open, 1);
    metric_add(METRIC_replica_connections_total, 1);
    return true;
}

/* Connects to the next address that does not refuse at once. */
static void connect_next(struct link *link)
{
    struct opening *opening = link->opening;
    close_socket(link);
    while (opening->next < opening->count && link->state != LINK_FAILED) {
        const uint32_t left = opening->count - opening->next;
        union name_address *address = &opening->addresses[opening->next++];
        const bool six = address->any.sa_family == AF_INET6;
        *(six ? &address->six.sin6_port : &address->four.sin_port) = htons(opening->port);
        if (!connect_to(link, &address->any, six ? sizeof address->six : sizeof address->four))
            continue;
        /* One that does not answer leaves time for the others. */
        if (left > 1) {
            const uint64_t share_ns = opening->connect_ns / opening->count;
            deadline_set(link->worker, &link->deadline,
                         link->worker->now_ns +
                             (share_ns > PATIENCE_NS_MIN ? share_ns : PATIENCE_NS_MIN));
        }
        return;
    }
    if (link->state != LINK_FAILED)
        fail(link, link->problem ? link->problem : "the name has no address");
}

static void name_answered(struct name_wait *wait, const struct name_answer *answer)
{
    struct opening *opening = container_of(wait, struct opening, wait);
    struct link *link = opening->link;
    opening->count = answer->count;
    memcpy(opening->addresses, answer->addresses, answer->count * sizeof answer->addresses[0]);
    link->problem = answer->count ? NULL : answer->problem;
    if (link->user)
        server_wake(link->worker, link->user);
}

static void connect_to_socket(struct link *link, struct span path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path.data, path.size);
    if (!connect_to(link, (const struct sockaddr *)&address, sizeof address) &&
        link->state != LINK_FAILED)
        fail(link, link->problem);
}

/* Begins with an address, or with the question for them. */
static void begin(struct link *link, const struct config_replica *replica,
                  const struct config *config)
{
    struct opening *opening = link->opening;
    struct sockaddr_storage address;
    socklen_t size;
    opening->link = link;
    opening->wait.answered = name_answered;
    opening->port = replica->port;
    opening->connect_ns = clock_ms_to_ns(config->timeouts_connect_ms);
    if (replica->socket_path.data) {
        connect_to_socket(link, replica->socket_path);
    } else if (address_parse(replica->host, replica->port, &address, &size)) {
        memcpy(&opening->addresses[0], &address, size);
        opening->count = 1;
        connect_next(link);
    } else if (names_ask(&link->worker->names, config, replica->host, link->worker->now_ns,
                         &opening->wait) != OK) {
        fail_for_want(link, ENOMEM);
    } else if (opening->wait.link == NULL) {
        connect_next(link); /* known already */
    }
}

static void bury_link(struct grave *grave)
{
    struct link *link = container_of(grave, struct link, grave);
    free(link->opening);
    free(link);
}

/* A kept one is too old; the address under way has had its time. */
static void link_due(struct deadline *deadline)
{
    struct link *link = container_of(deadline, struct link, deadline);
    if (link->state == LINK_KEPT) {
        link_close(link);
    } else if (link->state == LINK_OPENING && link->opening->next < link->opening->count) {
        link->problem = strerrordesc_np(ETIMEDOUT);
        connect_next(link);
        server_wake(link->worker, link->user);
    }
}

struct link *link_dial(struct worker *worker, const struct config_replica *replica,
                       const struct config *config, struct wake *user, bool fresh)
{
    struct pool *pool = find_pool(worker, replica);
    if (pool == NULL)
        return NULL;
    struct link *link = fresh ? NULL : take_kept(pool, config, worker->now_ns);
    if (link) {
        link->user = user;
        return link;
    }
    pool->link_count++;
    link = calloc(1, sizeof *link);
    struct opening *opening = calloc(1, sizeof *opening);
    if (link == NULL || opening == NULL) {
        free(link);
        free(opening);
        leave_pool(worker, pool);
        return NULL;
    }
    link->io.fd = -1;
    link->worker = worker;
    link->pool = pool;
    link->user = user;
    link->opening = opening;
    link->state = LINK_OPENING;
    link->deadline.due = link_due;
    link->grave.bury = bury_link;
    begin(link, replica, config);
    (void)link_open(link); /* a socket of this machine may be connected at once */
    return link;
}

/* Goes on with TLS on a connected socket. true: nothing more is to be done for it. */
static bool shake(struct link *link)
{
    struct io *io = &link->io;
    if (link->pool->context == NULL)
        return true;
    if (io->tls == NULL && tls_connect(io, link->pool->context, link->worker->tls_scratch,
                                       hash_text(link->pool->host) + link->pool->port) != OK) {
        fail_for_want(link, ENOMEM);
        return false;
    }
    switch (tls_shake(io)) {
    case IO_DONE:
        metric_add(METRIC_replica_handshakes_total, 1);
        if (tls_was_resumed(io))
            metric_add(METRIC_replica_handshakes_resumed_total, 1);
        return true;
    case IO_AGAIN:
        if (io->readable)
            server_wake(link->worker, link->user); /* others first */
        return false;
    default:
        metric_add(METRIC_replica_handshakes_failed_total, 1);
        fail(link, tls_problem(io)); /* another address of the name would say the same */
        return false;
    }
}

/* ready → the link is its user's. */
static void set_ready(struct link *link)
{
    deadline_clear(link->worker, &link->deadline);
    free(link->opening);
    link->opening = NULL;
    link->state = LINK_READY;
}

enum link_state link_open(struct link *link)
{
    struct io *io = &link->io;
    while (link->state == LINK_OPENING && link->opening->wait.link == NULL) {
        if (io->fd < 0) {
            connect_next(link); /* the name was looked up */
        } else if (!io->connecting) {
            if (!shake(link))
                break;
            set_ready(link);
        } else if (io->writable || io->readable) {
            const int problem = io_connect_error(io);
            io->connecting = false;
            io->writable = true;
            if (problem != 0) {
                link->problem = strerrordesc_np(problem);
                connect_next(link);
            }
        } else {
            break;
        }
    }
    return link->state;
}

const char *link_waits_for(const struct link *link)
{
    if (link->opening && link->opening->wait.link)
        return "its name was not looked up in time";
    if (link->io.tls)
        return "it did not finish the TLS handshake in time";
    return "it did not take the connection in time";
}

void link_close(struct link *link)
{
    if (link->state == LINK_KEPT)
        unkeep(link);
    if (link->opening)
        names_cancel(&link->opening->wait);
    deadline_clear(link->worker, &link->deadline);
    buffer_free(&link->in);
    close_socket(link);
    link->user = NULL;
    link->state = LINK_FAILED;
    leave_pool(link->worker, link->pool);
    server_bury(link->worker, &link->grave);
}
