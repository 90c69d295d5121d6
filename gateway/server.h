/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/server.h: listeners, workers, and the turn of a loop.
 *
 * For:       one process: N workers, each with its loop, listeners, conns and replica connections.
 * Promises:  1. A doorbell (struct wake) rung in a callback runs once, in server_turn(), never
 *            inside another.
 *            2. What was closed is freed at the end of the turn, never under a running function.
 *            3. A deadline that fires early re-arms itself: it costs a list move, no timer call.
 * Called by: main.c; every file of this room that waits for something.
 * Knows not: protocols, steps.
 * Lock order: reload (server.c) · a model's lines and replicas (router.c) · the log's. A worker
 *            holds no lock of the gateway's while it calls a room; under addresses (address.c) no
 *            other lock is taken. */
#ifndef GATEWAY_SERVER_H
#define GATEWAY_SERVER_H

#include "config/config.h"
#include "gateway/h1.h"
#include "gateway/io.h"
#include "gateway/mailbox.h"
#include "gateway/shelf.h"
#include "gateway/wheel.h"
#include "meter/meter.h"

/* Something that wants to run in this turn. Embedded in its owner. Late ones run when no other is
 * left: so that a conn with many answers is flushed once. */
struct wake {
    struct wake *next;
    bool queued;
    bool late;
    void (*run)(struct wake *wake);
};

struct wake_queue {
    struct wake *first, *last;
    uint32_t count;
};

/* Something closed that is to be freed at the end of the turn. Embedded in its owner. */
struct grave {
    struct grave *next;
    bool dug;
    void (*bury)(struct grave *grave);
};

struct conn;
struct names;
struct pool;
struct scrape;
struct server;
struct tls_scratch;

#define WORKER_SCRATCH_BYTES 65536

struct worker {
    struct server *server;
    uint32_t index;
    int epoll_fd;
    struct config *config; /* the snapshot for new exchanges; one reference */
    struct mailbox mailbox;
    uint64_t now_ns; /* read once a turn */
    int64_t wall_us; /* likewise */
    struct wake_queue woken, late;
    struct grave *graves;
    struct wheel wheel;
    struct listener *listeners;
    struct conn *conns; /* all open ones */
    uint32_t exchange_count;
    struct pool *pools;    /* of connections to replicas: link.c's */
    struct scrape *scrape; /* visits to them; first worker only */
    struct names *names;   /* their addresses; made with the first look-up */
    bool draining;
    uint64_t next_exchange; /* low half of exchange ids */
    uint64_t id_prefix;
    char date[32]; /* "Mon, 30 Nov 2026 15:00:00 GMT", of date_second */
    int64_t date_second;
    char *scratch;                   /* WORKER_SCRATCH_BYTES: bytes just received */
    char *out;                       /* WORKER_SCRATCH_BYTES: bytes about to be sent (h2) */
    struct h1_head *head;            /* scratch of the h1 parser */
    struct tls_scratch *tls_scratch; /* shared by the worker's TLS sessions */
    struct shelf exchanges, attempts;
    struct io mailbox_io;
    struct wake mail;             /* a letter has come */
    uint64_t next_warning_ns;     /* a replica that cannot be reached is logged once a second */
    struct deadline trim;         /* of memory, when nothing is under way */
    struct deadline accept_pause; /* after EMFILE: listeners rest until it comes */
};

#define SERVER_WORKERS_MAX 256

struct server {
    struct meter *meter;
    struct worker *workers;
    uint32_t worker_count;
    const char *config_path;           /* NULL: embedded */
    const struct config *started_with; /* what is read at start alone is still this one's */
    uint64_t started_ns;
    char restart_needed[128];       /* what the last reload changed in vain; first worker only */
    bool stopping;                  /* first worker only: the drain has been announced */
    _Atomic bool hurried;           /* a second signal: what is under way is cut and settled */
    _Atomic uint32_t other_workers; /* that still run, the first not counted */
};

/* Rings a doorbell: wake->run runs in this turn (or the next). Idempotent. Worker's thread only. */
void server_wake(struct worker *worker, struct wake *wake);

/* Takes a doorbell back, when its owner closes. */
void server_unwake(struct worker *worker, struct wake *wake);

/* Frees at the end of the turn. Idempotent. */
void server_bury(struct worker *worker, struct grave *grave);

/* Sets or moves a deadline; due() runs at or a tick after at_ns. Moving it later is free. */
void deadline_set(struct worker *worker, struct deadline *deadline, uint64_t at_ns);

/* Takes a deadline back. Safe on one that is not set. */
void deadline_clear(struct worker *worker, struct deadline *deadline);

/* The worker's last exchange has closed: memory is given back if it stays so. */
void server_idle(struct worker *worker);

/* The date header's text now. */
const char *server_date(struct worker *worker);

/* Takes a new configuration over (any thread: the calling one loads and checks). problems as
 * config_load(). */
MUST_CHECK enum err server_reload(struct server *server, struct config_problems *out_problems);

/* Runs until stopped by SIGTERM or SIGINT; returns the process's exit code. config: taken over. */
int server_run(struct config *config, const char *config_path);

#endif
