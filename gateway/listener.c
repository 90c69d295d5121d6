/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/listener.c: see listener.h.
 *
 * For:       opening, accepting, resting when there is no descriptor left.
 * Called by: server.c.
 * Knows not: what clients say. */
#include "gateway/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gateway/address.h"
#include "gateway/conn.h"
#include "gateway/tls.h"

#define ACCEPTS_PER_TURN 64
#define LISTEN_BACKLOG 4096
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS)

/* One listening socket of one worker. */
struct listener {
    struct listener *next;
    struct worker *worker;
    const struct config_listen *listen_to; /* of the configuration at start, which outlives it */
    struct tls_context *context;           /* for new handshakes; one reference; NULL: no TLS */
    struct io io;
    struct wake wake;
    bool admin;
    dev_t device; /* of a Unix socket's file, and which one it is: ours alone is removed */
    ino_t inode;
};

/* ---- accepting ---- */

void listener_resume(struct deadline *deadline)
{
    struct worker *worker = container_of(deadline, struct worker, accept_pause);
    for (struct listener *listener = worker->listeners; listener; listener = listener->next)
        server_wake(worker, &listener->wake);
}

/* Out of descriptors or memory: rest a little instead of spinning on a socket that stays readable.
 */
static void pause_accepting(struct worker *worker)
{
    deadline_set(worker, &worker->accept_pause, worker->now_ns + ACCEPT_PAUSE_NS);
    log_event(LOG_WARN, "accept_paused", "no descriptor or memory for another connection");
}

static struct in6_addr address_of(const struct sockaddr_storage *from)
{
    struct in6_addr address = IN6ADDR_ANY_INIT;
    if (from->ss_family == AF_INET6) {
        address = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    } else if (from->ss_family == AF_INET) {
        address.s6_addr[10] = address.s6_addr[11] = 0xff;
        memcpy(&address.s6_addr[12], &((const struct sockaddr_in *)(const void *)from)->sin_addr,
               4);
    }
    return address;
}

static void listener_ready(struct io *io)
{
    struct listener *listener = container_of(io, struct listener, io);
    server_wake(listener->worker, &listener->wake);
}

static void accept_waiting(struct wake *wake)
{
    struct listener *listener = container_of(wake, struct listener, wake);
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        const int conn_fd = accept4(listener->io.fd, (struct sockaddr *)(void *)&from, &size,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (conn_fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                pause_accepting(listener->worker);
            else if (errno == EINTR || errno == ECONNABORTED)
                continue;
            return;
        }
        const struct in6_addr address = address_of(&from);
        conn_open(listener->worker, conn_fd, listener->inode ? NULL : &address, listener->admin,
                  listener->context);
    }
    server_wake(listener->worker, wake); /* more may wait; others first */
}

void listener_adopt(struct worker *worker)
{
    const struct config *config = worker->config;
    for (struct listener *listener = worker->listeners; listener; listener = listener->next) {
        for (uint32_t i = 0; i < config->listen_count; i++) {
            const struct config_listen *now = &config->listen[i];
            if (listener->context == NULL || now->context == NULL ||
                !span_equal(now->address, listener->listen_to->address))
                continue;
            tls_context_put(listener->context);
            listener->context = tls_context_get(now->context);
        }
    }
}

/* ---- opening ---- */

static void log_failure(const struct config_listen *listen_to, const char *why)
{
    log_event(LOG_ERROR, "listen_failed", "%.*s: %s", (int)listen_to->address.size,
              listen_to->address.data, why);
}

/* One worker's listener on a socket, which it takes over. NULL without memory. */
static struct listener *add(struct worker *worker, const struct config_listen *listen_to, int fd,
                            bool admin)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL) {
        close(fd);
        return NULL;
    }
    if (io_open(&listener->io, worker->epoll_fd, fd, listener_ready) != OK) {
        free(listener);
        return NULL;
    }
    listener->worker = worker;
    listener->listen_to = listen_to;
    listener->context = tls_context_get(listen_to->context);
    listener->admin = admin;
    listener->wake.run = accept_waiting;
    listener->next = worker->listeners;
    worker->listeners = listener;
    return listener;
}

static int open_tcp_socket(const struct config_listen *listen_to,
                           const struct sockaddr_storage *address, socklen_t size)
{
    const int on = 1;
    const int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        log_failure(listen_to, strerrordesc_np(errno));
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    /* Inherited by accepted sockets: no call per connection. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)(const void *)address, size) != 0 ||
        listen(fd, LISTEN_BACKLOG) != 0) {
        log_failure(listen_to, strerrordesc_np(errno));
        close(fd);
        return -1;
    }
    return fd;
}

/* Does somebody listen there already, another gateway with SO_REUSEPORT included? It would share
 * our port without a word. */
static bool is_taken(const struct sockaddr_storage *address, socklen_t size)
{
    const int on = 1;
    const int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool taken =
        bind(fd, (const struct sockaddr *)(const void *)address, size) != 0 && errno == EADDRINUSE;
    close(fd);
    return taken;
}

/* With port 0 the first socket's port is used by the others. */
static bool open_tcp(struct server *server, const struct config_listen *listen_to, bool admin,
                     uint16_t *out_port)
{
    struct sockaddr_storage address;
    socklen_t size;
    if (!address_parse(listen_to->host, listen_to->port, &address, &size)) {
        log_failure(listen_to, "it is not an address");
        return false;
    }
    /* The admin port alone may be shared: an old process that drains answers there to its end. */
    if (!admin && listen_to->port != 0 && is_taken(&address, size)) {
        log_failure(listen_to, "another process listens there");
        return false;
    }
    const uint32_t workers = admin ? 1 : server->worker_count;
    for (uint32_t i = 0; i < workers; i++) {
        const int fd = open_tcp_socket(listen_to, &address, size);
        if (fd < 0 || add(&server->workers[i], listen_to, fd, admin) == NULL)
            return false;
        getsockname(fd, (struct sockaddr *)(void *)&address, &size);
    }
    *out_port =
        ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&address)->sin6_port
                                            : ((struct sockaddr_in *)(void *)&address)->sin_port);
    return true;
}

/* A socket file that a process has left behind goes. false: it is in use, or no socket. */
static bool clear_path(const struct config_listen *listen_to, const struct sockaddr_un *address)
{
    struct stat file;
    if (lstat(address->sun_path, &file) != 0)
        return true;
    if (!S_ISSOCK(file.st_mode)) {
        log_failure(listen_to, "it is there, and no socket");
        return false;
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const bool dead =
        connect(fd, (const struct sockaddr *)(const void *)address, sizeof *address) != 0 &&
        errno == ECONNREFUSED;
    close(fd);
    if (dead && unlink(address->sun_path) == 0)
        return true;
    log_failure(listen_to, "another process listens there");
    return false;
}

static int open_unix_socket(const struct config_listen *listen_to,
                            const struct sockaddr_un *address, struct stat *out_file)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Nobody can connect before listen(), so that the permissions hold from the first one on. */
    if (bind(fd, (const struct sockaddr *)(const void *)address, sizeof *address) == 0 &&
        chmod(address->sun_path, (mode_t)listen_to->mode) == 0 && listen(fd, LISTEN_BACKLOG) == 0 &&
        lstat(address->sun_path, out_file) == 0)
        return fd;
    log_failure(listen_to, strerrordesc_np(errno));
    close(fd);
    return -1;
}

/* One socket, shared: the kernel has no way to spread a Unix socket's clients. */
static bool open_unix(struct server *server, const struct config_listen *listen_to, bool admin)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat file;
    memcpy(address.sun_path, listen_to->socket_path.data, listen_to->socket_path.size);
    if (!clear_path(listen_to, &address))
        return false;
    const int first = open_unix_socket(listen_to, &address, &file);
    if (first < 0)
        return false;
    const uint32_t workers = admin ? 1 : server->worker_count;
    for (uint32_t i = 0; i < workers; i++) {
        const int fd = i == 0 ? first : fcntl(first, F_DUPFD_CLOEXEC, 0);
        struct listener *listener = fd < 0 ? NULL : add(&server->workers[i], listen_to, fd, admin);
        if (listener == NULL)
            return false;
        listener->device = file.st_dev;
        listener->inode = file.st_ino;
    }
    return true;
}

bool listener_open(struct server *server, const struct config_listen *listen_to, bool admin)
{
    const char *event = admin ? "listening_admin" : "listening";
    uint16_t port = 0;
    if (listen_to->socket_path.data) {
        if (!open_unix(server, listen_to, admin))
            return false;
        log_event(LOG_INFO, event, "%.*s", (int)listen_to->address.size, listen_to->address.data);
        return true;
    }
    if (!open_tcp(server, listen_to, admin, &port))
        return false;
    log_event(LOG_INFO, event, "%.*s port %u%s", (int)listen_to->address.size,
              listen_to->address.data, port, listen_to->context ? ", TLS" : "");
    return true;
}

/* ---- closing ---- */

/* The first worker removes the file, unless a successor has put its own there. */
static void remove_file(const struct listener *listener)
{
    struct stat file;
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    if (listener->inode == 0 || listener->worker->index != 0 ||
        !span_to_text(listener->listen_to->socket_path, path, sizeof path))
        return;
    if (lstat(path, &file) == 0 && file.st_dev == listener->device &&
        file.st_ino == listener->inode)
        (void)unlink(path);
}

void listener_close_all(struct worker *worker, bool admin_too)
{
    struct listener **place = &worker->listeners;
    while (*place) {
        struct listener *listener = *place;
        if (listener->admin && !admin_too) {
            place = &listener->next;
            continue;
        }
        *place = listener->next;
        server_unwake(worker, &listener->wake);
        remove_file(listener);
        io_close(&listener->io, false);
        tls_context_put(listener->context);
        free(listener);
    }
}
