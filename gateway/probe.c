/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/probe.c: see probe.h.
 *
 * For:       rounds of questions: all replicas are asked at once, with non-blocking sockets and one
 *            poll(); a round ends when all have answered or the connect timeout (at least 1 s) has
 *            passed.
 * Called by: server.c.
 * Knows not: what follows from an answer: that is the router's. */
#include "gateway/probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gateway/buffer.h"
#include "router/router.h"

#define CHECKS_MAX 256
#define HOST_BYTES_MAX 256
#define ROUND_MS_MIN 1000
#define NO_DESCRIPTOR (-2)

/* One question under way. */
struct check {
    const struct config_replica *replica;
    int fd;
    bool sent, good;
    char answer[16]; /* "HTTP/1.1 200" is enough */
    size_t answer_size;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct config *config; /* one reference */
    bool running, stopping;
} probe = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* A socket that connects; -1: it cannot; NO_DESCRIPTOR: we have none to ask with. */
static int begin_connect(const struct config_replica *replica)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses = NULL;
    char port[8], host[HOST_BYTES_MAX];
    int fd = -1;
    snprintf(port, sizeof port, "%u", replica->port);
    if (!span_to_text(replica->host, host, sizeof host) ||
        getaddrinfo(host, port, &hints, &addresses) != 0)
        return -1;
    for (struct addrinfo *at = addresses; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            freeaddrinfo(addresses);
            return NO_DESCRIPTOR;
        }
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(addresses);
    return fd;
}

static void end_check(struct check *check, bool good)
{
    check->good = good;
    close(check->fd);
    check->fd = -1;
}

static void ask(struct check *check)
{
    char text[1024];
    const struct config_replica *replica = check->replica;
    const int size = snprintf(
        text, sizeof text, "GET %.*s/health HTTP/1.1\r\nhost: %.*s\r\nconnection: close\r\n\r\n",
        (int)replica->base_path.size, replica->base_path.data ? replica->base_path.data : "",
        (int)replica->host_header.size, replica->host_header.data);
    if (size >= (int)sizeof text || send(check->fd, text, (size_t)size, MSG_NOSIGNAL) != size)
        end_check(check, false);
    check->sent = true;
}

/* Any whole status line but a 5xx counts as alive: not every server has /health. */
static void hear(struct check *check)
{
    const ssize_t got = recv(check->fd, check->answer + check->answer_size,
                             sizeof check->answer - check->answer_size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0)
        check->answer_size += (size_t)got;
    if (check->answer_size >= 12)
        end_check(check, memcmp(check->answer, "HTTP/1.", 7) == 0 && check->answer[9] != '5');
    else if (got <= 0)
        end_check(check, false);
}

static size_t still_open(const struct check *checks, size_t count, struct pollfd *fds)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++) {
        fds[i] = (struct pollfd){.fd = checks[i].fd, .events = checks[i].sent ? POLLIN : POLLOUT};
        open += checks[i].fd >= 0;
    }
    return open;
}

static void run_round(struct check *checks, size_t count, uint64_t end_ns)
{
    struct pollfd fds[CHECKS_MAX];
    while (still_open(checks, count, fds)) {
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= end_ns || poll(fds, count, (int)((end_ns - now_ns) / NS_PER_MS) + 1) < 0)
            break;
        for (size_t i = 0; i < count; i++) {
            if (fds[i].fd < 0 || fds[i].revents == 0)
                continue;
            if (checks[i].sent)
                hear(&checks[i]);
            else
                ask(&checks[i]);
        }
    }
    for (size_t i = 0; i < count; i++)
        if (checks[i].fd >= 0)
            end_check(&checks[i], false);
}

static void check_replicas(const struct config *config)
{
    struct check checks[CHECKS_MAX];
    size_t count = 0;
    const int64_t wait_ms =
        config->timeouts_connect_ms > ROUND_MS_MIN ? config->timeouts_connect_ms : ROUND_MS_MIN;
    for (uint32_t i = 0; i < config->model_count; i++) {
        for (uint32_t k = 0; k < config->models[i].replica_count && count < CHECKS_MAX; k++) {
            struct check *check = &checks[count++];
            memset(check, 0, sizeof *check);
            check->replica = &config->models[i].replicas[k];
            check->fd = begin_connect(check->replica);
            if (check->fd == NO_DESCRIPTOR)
                count--; /* says nothing of the replica */
        }
    }
    run_round(checks, count, clock_now_ns() + clock_ms_to_ns(wait_ms));
    for (size_t i = 0; i < count; i++)
        router_report_check(checks[i].replica->state, config, checks[i].good, clock_now_ns());
}

/* Sleeps until a round is due, the snapshot changes or the end. */
static void rest(int64_t pause_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const int64_t ns = until.tv_nsec + (pause_ms % 1000) * (int64_t)NS_PER_MS;
    until.tv_sec += pause_ms / 1000 + ns / (int64_t)NS_PER_S;
    until.tv_nsec = ns % (int64_t)NS_PER_S;
    pthread_cond_timedwait(&probe.changed, &probe.lock, &until);
}

static void *run_probe(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&probe.lock);
    while (!probe.stopping) {
        const int64_t pause_ms = probe.config->health_check_every_ms;
        rest(pause_ms > 0 ? pause_ms : 60000);
        if (probe.stopping || pause_ms == 0)
            continue;
        struct config *config = config_get(probe.config);
        pthread_mutex_unlock(&probe.lock);
        check_replicas(config);
        config_put(config);
        pthread_mutex_lock(&probe.lock);
    }
    pthread_mutex_unlock(&probe.lock);
    return NULL;
}

bool probe_start(struct config *config)
{
    probe.config = config_get(config);
    probe.stopping = false;
    probe.running = pthread_create(&probe.thread, NULL, run_probe, NULL) == 0;
    if (!probe.running)
        log_event(LOG_ERROR, "probe_not_started", "no thread for health checks");
    return probe.running;
}

void probe_adopt(struct config *config)
{
    pthread_mutex_lock(&probe.lock);
    struct config *before = probe.config;
    probe.config = config_get(config);
    pthread_cond_signal(&probe.changed);
    pthread_mutex_unlock(&probe.lock);
    config_put(before);
}

void probe_stop(void)
{
    if (probe.running) {
        pthread_mutex_lock(&probe.lock);
        probe.stopping = true;
        pthread_cond_signal(&probe.changed);
        pthread_mutex_unlock(&probe.lock);
        pthread_join(probe.thread, NULL);
    }
    probe.running = false;
    config_put(probe.config);
    probe.config = NULL;
}
