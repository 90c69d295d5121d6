/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/server.c: see server.h. The turn of a worker is at the bottom; what it is made of stands
 * above it.
 *
 * For:       start, listeners, the loop, signals, reload, drain, the end.
 * Called by: main.c (server_run()), admin.c (reload); all that ring or set deadlines.
 * Knows not: protocols, steps. */
#include "gateway/server.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "gateway/buffer.h"
#include "gateway/conn.h"
#include "gateway/link.h"
#include "gateway/listener.h"
#include "gateway/names.h"
#include "gateway/scrape.h"
#include "gateway/tls.h"
#include "router/router.h"

#define EVENTS_PER_WAIT 256
#define IDLE_BEFORE_TRIM_NS (2 * NS_PER_S)
#define REQUESTS_WORTH_A_TRIM 1000
#define ROUNDS_PER_TURN                                                                            \
    32                      /* a client or replica that is never done does not keep others waiting \
                             */
#define FAILED_LOOK_MS 1000 /* whether the journal has failed: an idle gateway stops then, too */
#define DRAIN_LOOK_MS 50    /* between two looks whether all is settled */
#define NAMES_LOOK_MS                                                                              \
    2 /* libevent has no descriptor to wait for: it is asked while a look-up is pending */

static volatile sig_atomic_t asked_to_stop, asked_to_reload;
static struct server the_server; /* for signals and the admin listener: there is one per process */
static pthread_mutex_t reload_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- doorbells and graves ---- */

void server_wake(struct worker *worker, struct wake *wake)
{
    struct wake_queue *queue = wake->late ? &worker->late : &worker->woken;
    if (wake->queued)
        return;
    wake->queued = true;
    wake->next = NULL;
    if (queue->last)
        queue->last->next = wake;
    else
        queue->first = wake;
    queue->last = wake;
    queue->count++;
}

void server_unwake(struct worker *worker, struct wake *wake)
{
    struct wake_queue *queue = wake->late ? &worker->late : &worker->woken;
    if (!wake->queued)
        return;
    struct wake *before = NULL;
    for (struct wake *at = queue->first; at != wake; at = at->next)
        before = at;
    if (before)
        before->next = wake->next;
    else
        queue->first = wake->next;
    if (queue->last == wake)
        queue->last = before;
    queue->count--;
    wake->queued = false;
}

static struct wake *take_wake(struct wake_queue *queue)
{
    struct wake *wake = queue->first;
    if (wake == NULL)
        return NULL;
    queue->first = wake->next;
    if (queue->first == NULL)
        queue->last = NULL;
    queue->count--;
    wake->queued = false;
    return wake;
}

void server_bury(struct worker *worker, struct grave *grave)
{
    if (grave->dug)
        return;
    grave->dug = true;
    grave->next = worker->graves;
    worker->graves = grave;
}

/* ---- time ---- */

static void read_clock(struct worker *worker)
{
    worker->now_ns = clock_now_ns();
    worker->wall_us = clock_wall_us();
}

const char *server_date(struct worker *worker)
{
    const int64_t second = worker->wall_us / 1000000;
    if (second != worker->date_second) {
        const time_t time = (time_t)second;
        struct tm parts;
        gmtime_r(&time, &parts);
        strftime(worker->date, sizeof worker->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        worker->date_second = second;
    }
    return worker->date;
}

/* ---- deadlines ---- */

void deadline_set(struct worker *worker, struct deadline *deadline, uint64_t at_ns)
{
    wheel_set(&worker->wheel, deadline, at_ns);
}

void deadline_clear(struct worker *worker, struct deadline *deadline)
{
    (void)worker;
    wheel_clear(deadline);
}

/* ---- memory ---- */

/* Gives back what a busy time has left in the heap, once nothing has been under way for a while: a
 * trim takes too long to be made between two requests. */
static void trim_when_idle(struct deadline *deadline)
{
    static _Atomic int64_t trimmed_at; /* requests seen at the last trim */
    (void)deadline;
    const int64_t seen = metric_value(METRIC_requests_total);
    if (metric_value(METRIC_exchanges_open) > 0 || seen - trimmed_at < REQUESTS_WORTH_A_TRIM)
        return;
    trimmed_at = seen;
    malloc_trim(0);
}

void server_idle(struct worker *worker)
{
    if (worker->trim.link)
        return; /* requests now and then must not put it off for ever */
    deadline_set(worker, &worker->trim, worker->now_ns + IDLE_BEFORE_TRIM_NS);
}

/* ---- workers ---- */

static void server_turn(struct worker *worker);

static void mail_came(struct io *io)
{
    struct worker *worker = container_of(io, struct worker, mailbox_io);
    io->readable = false;
    server_wake(worker, &worker->mail);
}

static void read_mail(struct wake *wake)
{
    struct worker *worker = container_of(wake, struct worker, mail);
    mailbox_read(&worker->mailbox);
}

static bool open_worker(struct server *server, struct worker *worker, uint32_t index,
                        struct config *config)
{
    worker->server = server;
    worker->index = index;
    worker->config = config_get(config);
    worker->woken = worker->late = (struct wake_queue){NULL, NULL, 0};
    worker->date_second = -1;
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    worker->scratch = malloc(WORKER_SCRATCH_BYTES);
    worker->out = malloc(WORKER_SCRATCH_BYTES);
    worker->head = malloc(sizeof *worker->head);
    worker->tls_scratch = tls_scratch_new();
    hash_random(&worker->id_prefix, sizeof worker->id_prefix);
    if (worker->epoll_fd < 0 || !worker->scratch || !worker->out || !worker->head ||
        !worker->tls_scratch || mailbox_init(&worker->mailbox) != OK)
        return false;
    read_clock(worker);
    wheel_init(&worker->wheel, worker->now_ns);
    worker->mail.run = read_mail;
    worker->accept_pause.due = listener_resume;
    worker->trim.due = trim_when_idle;
    return io_open(&worker->mailbox_io, worker->epoll_fd, worker->mailbox.fd, mail_came) == OK;
}

static void close_worker(struct worker *worker)
{
    if (worker->scratch == NULL)
        return;
    listener_close_all(worker, true);
    scrape_stop(worker);
    while (worker->conns)
        conn_close(worker->conns, false);
    /* What was cut is settled, so that each has its row; grants under way are read first. */
    read_clock(worker);
    server_turn(worker);
    mailbox_read(&worker->mailbox);
    server_turn(worker);
    link_close_kept(worker);
    names_free(worker->names);
    for (struct grave *grave = worker->graves, *next; grave; grave = next) {
        next = grave->next;
        grave->bury(grave);
    }
    shelf_clear(&worker->exchanges);
    shelf_clear(&worker->attempts);
    io_close(&worker->mailbox_io, false); /* and with it the mailbox's descriptor */
    close(worker->epoll_fd);
    free(worker->scratch);
    free(worker->out);
    free(worker->head);
    tls_scratch_free(worker->tls_scratch);
    config_put(worker->config);
}

/* ---- reload, drain ---- */

/* One worker asks the replicas how they are, for all. */
static void visit_replicas(struct worker *worker)
{
    if (scrape_start(worker) != OK)
        log_event(LOG_ERROR, "out_of_memory", "replicas are not asked how they are");
}

struct news {
    struct letter letter;
    struct worker *worker;
    struct config *config; /* a new snapshot; NULL: drain */
};

static void read_news(struct letter *letter)
{
    struct news *news = container_of(letter, struct news, letter);
    struct worker *worker = news->worker;
    if (news->config) {
        config_put(worker->config);
        worker->config = news->config;
        listener_adopt(worker);
        if (worker->index == 0)
            visit_replicas(worker);
    } else if (!worker->draining) {
        worker->draining = true;
        listener_close_all(worker, false);
        for (struct conn *conn = worker->conns, *next; conn; conn = next) {
            next = conn->next;
            conn_drain(conn);
        }
    }
    free(news);
}

static void tell_workers(struct server *server, struct config *config)
{
    for (uint32_t i = 0; i < server->worker_count; i++) {
        struct news *news = calloc(1, sizeof *news);
        if (news == NULL) {
            log_event(LOG_ERROR, "out_of_memory", "worker %u was not told", i);
            continue;
        }
        news->letter.read = read_news;
        news->worker = &server->workers[i];
        news->config = config ? config_get(config) : NULL;
        mailbox_post(&server->workers[i].mailbox, &news->letter);
    }
}

static bool open_log(const struct config *config)
{
    char access[4096];
    return span_to_text(config->log_access, access, sizeof access) &&
           log_open(access, (enum log_level)config->log_level);
}

static bool listens_alike(const struct config *a, const struct config *b)
{
    if (a->listen_count != b->listen_count)
        return false;
    for (uint32_t i = 0; i < a->listen_count; i++)
        if (!span_equal(a->listen[i].address, b->listen[i].address) ||
            a->listen[i].mode != b->listen[i].mode ||
            a->listen[i].tls_present != b->listen[i].tls_present)
            return false;
    return true;
}

static bool names_alike(const struct config *a, const struct config *b)
{
    if (a->names_server_count != b->names_server_count)
        return false;
    for (uint32_t i = 0; i < a->names_server_count; i++)
        if (!span_equal(a->names_servers[i], b->names_servers[i]))
            return false;
    return true;
}

static bool books_alike(const struct config *old, const struct config *config)
{
    return span_equal(old->ledger, config->ledger) &&
           span_equal(old->signing_key, config->signing_key) &&
           span_equal(old->anchor_file, config->anchor_file) &&
           span_equal(old->anchor_command, config->anchor_command) &&
           old->durable == config->durable;
}

/* What differs but is read at start alone. Called on the first worker's thread. */
static void note_restart(struct server *server, const struct config *config)
{
    const struct config *old = server->started_with;
    const bool same_admin = old->admin_present == config->admin_present &&
                            span_equal(old->admin.address, config->admin.address);
    const struct {
        const char *name;
        bool same;
    } keys[] = {
        {"listen", listens_alike(old, config)},
        {"admin", same_admin},
        {"workers", old->workers == config->workers},
        {"gateway", span_equal(old->gateway, config->gateway)},
        {"meter.journal", span_equal(old->journal, config->journal)},
        {"meter", books_alike(old, config)},
        {"names.servers", names_alike(old, config)},
        {"limits.in_flight", old->limits_in_flight == config->limits_in_flight},
    };
    char *needed = server->restart_needed;
    size_t size = 0;
    needed[0] = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!keys[i].same)
            size += (size_t)snprintf(needed + size, sizeof server->restart_needed - size, "%s%s",
                                     size > 0 ? " " : "", keys[i].name);
    if (server->restart_needed[0])
        log_event(LOG_WARN, "restart_needed", "changed, but read at start alone: %s",
                  server->restart_needed);
}

enum err server_reload(struct server *server, struct config_problems *out_problems)
{
    struct config *config = NULL;
    enum err err;
    pthread_mutex_lock(&reload_lock);
    err = config_load(server->config_path, &config, out_problems);
    if (err == OK)
        err = tls_adopt(config, out_problems);
    if (err == OK)
        err = router_adopt(config, clock_now_ns());
    if (err == OK)
        err = meter_adopt(server->meter, config);
    if (err == OK && !open_log(config))
        log_event(LOG_WARN, "log_not_opened", "the access log stays where it was");
    if (err == OK) {
        note_restart(server, config);
        meter_heed(server->meter, config);
        tell_workers(server, config);
        metric_add(METRIC_reloads_total, 1);
        log_event(LOG_INFO, "reloaded", "configuration %llu is in force",
                  (unsigned long long)config->generation);
    } else {
        metric_add(METRIC_reloads_refused_total, 1);
    }
    config_put(config);
    pthread_mutex_unlock(&reload_lock);
    return err;
}

static void on_signal(int signal_number)
{
    if (signal_number == SIGHUP)
        asked_to_reload = 1;
    else
        asked_to_stop = asked_to_stop + 1;
    /* The first worker sleeps in its loop: an empty write wakes it. Async-signal-safe. */
    const uint64_t one = 1;
    const ssize_t written = write(the_server.workers[0].mailbox.fd, &one, sizeof one);
    (void)written;
}

static void reload_on_signal(struct server *server)
{
    struct config_problems problems = {NULL, 0, 0};
    asked_to_reload = 0;
    log_reopen();
    if (server_reload(server, &problems) != OK)
        log_event(LOG_ERROR, "reload_refused", "%s",
                  problems.text ? problems.text : "out of memory");
    config_problems_free(&problems);
}

/* ---- the turn ---- */

static bool is_woken(const struct worker *worker)
{
    return worker->woken.first || worker->late.first;
}

/* Runs those that are in the queue now; what they wake is for the next round. */
static void run_woken(struct wake_queue *queue)
{
    for (uint32_t left = queue->count; left > 0; left--) {
        struct wake *wake = take_wake(queue);
        if (wake == NULL)
            return;
        wake->run(wake);
    }
}

/* Runs the woken, then the late (flushes), until nothing is left; then frees what was closed. */
static void server_turn(struct worker *worker)
{
    for (int round = 0; round < ROUNDS_PER_TURN && is_woken(worker); round++)
        run_woken(worker->woken.first ? &worker->woken : &worker->late);
    while (worker->graves) {
        struct grave *grave = worker->graves;
        worker->graves = grave->next;
        grave->bury(grave);
    }
}

/* How long the loop may sleep, in ms; -1: until something comes. */
static int longest_sleep_ms(const struct worker *worker)
{
    const uint64_t tick = wheel_next(&worker->wheel);
    int64_t ms = -1;
    if (tick) {
        const uint64_t at_ns = tick * WHEEL_TICK_NS, now_ns = clock_now_ns();
        ms = at_ns > now_ns ? (int64_t)((at_ns - now_ns) / NS_PER_MS) + 1 : 0;
    }
    if (is_woken(worker))
        return 0;
    if (worker->draining && (ms < 0 || ms > DRAIN_LOOK_MS))
        ms = DRAIN_LOOK_MS;
    if (worker->index == 0 && (ms < 0 || ms > FAILED_LOOK_MS))
        ms = FAILED_LOOK_MS;
    if (names_pending(worker->names) && (ms < 0 || ms > NAMES_LOOK_MS))
        ms = NAMES_LOOK_MS;
    return (int)ms;
}

/* Waits, and rings the doorbells of what came. */
static void wait_for_events(struct worker *worker)
{
    struct epoll_event events[EVENTS_PER_WAIT] UNINITIALIZED;
    const int count = (int)syscall(SYS_epoll_pwait, worker->epoll_fd, events, EVENTS_PER_WAIT,
                                   longest_sleep_ms(worker), NULL, 0); /* as in io.c */
    read_clock(worker);
    for (int i = 0; i < count; i++)
        io_edge(events[i].data.ptr, events[i].events);
    if (names_pending(worker->names))
        names_poll(worker->names, worker->now_ns);
    wheel_turn(&worker->wheel, worker->now_ns);
}

/* Is a draining worker done? */
static bool drained(const struct worker *worker)
{
    if (worker->exchange_count > 0)
        return false;
    for (const struct conn *conn = worker->conns; conn; conn = conn->next)
        if (!conn->admin && conn_has_output(conn))
            return false;
    return true;
}

static bool is_hurried(struct server *server)
{
    return atomic_load_explicit(&server->hurried, memory_order_relaxed);
}

static void heed_signals(struct worker *worker)
{
    struct server *server = worker->server;
    if (asked_to_reload)
        reload_on_signal(server);
    if (server->stopping && asked_to_stop > 1)
        atomic_store_explicit(&server->hurried, true, memory_order_relaxed);
    if (asked_to_stop && !server->stopping) {
        server->stopping = true;
        log_event(LOG_INFO, "draining", "no new connections; requests under way go on");
        tell_workers(server, NULL);
    }
    if (meter_failed(server->meter) && !is_hurried(server)) {
        log_event(LOG_ERROR, "journal_failed",
                  "nothing more can be written down; the next start recovers what is under way");
        server->stopping = true;
        atomic_store_explicit(&server->hurried, true, memory_order_relaxed);
        tell_workers(server, NULL);
    }
}

/* The first worker heeds signals and the admin listener, and so is the last to go. */
static bool may_leave(struct worker *worker)
{
    _Atomic uint32_t *others = &worker->server->other_workers;
    if (worker->index == 0)
        return atomic_load_explicit(others, memory_order_acquire) == 0;
    atomic_fetch_sub_explicit(others, 1, memory_order_release);
    return true;
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    uint64_t give_up_ns = 0;
    for (;;) {
        wait_for_events(worker);
        server_turn(worker);
        if (worker->index == 0)
            heed_signals(worker);
        if (!worker->draining)
            continue;
        if (give_up_ns == 0)
            give_up_ns = worker->now_ns + clock_ms_to_ns(worker->config->timeouts_drain_ms);
        if ((drained(worker) || worker->now_ns >= give_up_ns || is_hurried(worker->server)) &&
            may_leave(worker))
            return NULL;
    }
}

/* Signals are for the first worker's thread alone, and only while it runs: before, they wait (all
 * threads that are started meanwhile keep them blocked); after, nobody is there to heed them. */
static void hold_signals(bool hold)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a journal at its size limit is a failed write like any other */
}

/* Bodies up to a MiB stay in the heap: mapping and faulting in pages for each would cost more than
 * relaying it. The heap's top is not given back after every burst either; trim_when_idle() does
 * that. */
static void tune_malloc(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

/* Conns and their replica connections: two descriptors a request. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool open_all(struct server *server, struct config *config)
{
    for (uint32_t i = 0; i < server->worker_count; i++) {
        errno = 0;
        if (!open_worker(server, &server->workers[i], i, config)) {
            log_event(LOG_ERROR, "worker_not_opened", "worker %u: %s", i,
                      errno != 0 ? strerror(errno) : "it could not be set up");
            return false;
        }
    }
    for (uint32_t i = 0; i < config->listen_count; i++)
        if (!listener_open(server, &config->listen[i], false))
            return false;
    return !config->admin_present || listener_open(server, &config->admin, true);
}

int server_run(struct config *config, const char *config_path)
{
    struct server *server = &the_server;
    char problem[512] = "";
    int code = 1;
    pthread_t threads[SERVER_WORKERS_MAX];
    uint32_t started = 0;

    hold_signals(true);
    raise_descriptor_limit();
    tune_malloc();
    server->config_path = config_path;
    server->started_with = config;
    server->started_ns = clock_now_ns();
    server->worker_count =
        config->workers < SERVER_WORKERS_MAX ? config->workers : SERVER_WORKERS_MAX;
    server->workers = calloc(server->worker_count, sizeof *server->workers);
    if (!open_log(config)) {
        log_event(LOG_ERROR, "log_not_opened", "%.*s", (int)config->log_access.size,
                  config->log_access.data);
        goto out;
    }
    if (meter_open(config, &server->meter, problem, sizeof problem) != OK) {
        log_event(LOG_ERROR, "journal_not_opened", "%s", problem);
        goto out;
    }
    if (server->workers == NULL || router_adopt(config, clock_now_ns()) != OK ||
        meter_adopt(server->meter, config) != OK) {
        log_event(LOG_ERROR, "out_of_memory", "the gateway could not start");
        goto out;
    }
    if (!open_all(server, config))
        goto out;
    catch_signals();
    log_event(LOG_INFO, "ready", "%u worker%s, configuration from %.*s", server->worker_count,
              span_plural(server->worker_count), (int)config->file.size, config->file.data);
    atomic_store(&server->other_workers, server->worker_count - 1);
    for (started = 1; started < server->worker_count; started++)
        if (pthread_create(&threads[started], NULL, run_worker, &server->workers[started]) != 0)
            break;
    if (started < server->worker_count) {
        log_event(LOG_ERROR, "worker_not_started", "no thread for worker %u", started);
        tell_workers(server, NULL);
    }
    if (started == server->worker_count) {
        hold_signals(false);
        read_clock(&server->workers[0]);
        visit_replicas(&server->workers[0]);
        run_worker(&server->workers[0]);
        hold_signals(true);
        code = meter_failed(server->meter) ? 1 : 0;
    }
    for (uint32_t i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
    log_event(LOG_INFO, "stopped", "all requests are settled or cut by the drain deadline");
out:
    meter_quiesce(server->meter);
    for (uint32_t i = 0; server->workers && i < server->worker_count; i++)
        close_worker(&server->workers[i]);
    free(server->workers);
    if (!meter_close(server->meter))
        code = 1;
    router_fini();
    log_flush();
    config_put(config);
    return code;
}
