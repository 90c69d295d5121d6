/* SPDX-License-Identifier: Apache-2.0 */
/* router/router.h: which model and which replica, and when; the door of this room.
 *
 * For:       task class, candidate models, the turn on a replica, and what became of it.
 * Promises:  1. A ticket is in no line, waiting or granted. A granted one holds exactly one slot of
 *               one replica until router_return().
 *            2. First come, first served within a model; the replica is picked at the moment of the
 *               grant: least outstanding work among those that are in, have a free slot and are not
 *               excluded.
 *            3. A grant to a ticket that has left goes back under the same lock to the next in
 *               line.
 *            4. State outlives snapshots: a reload loses no slot, no strike, no waiting ticket.
 *            5. Pure but for its locks and the log lines on a replica that goes out or comes back:
 *               time comes as now_ns.
 * Example:   ticket = (struct ticket){.work = 120, .granted = wake_owner};
 *            switch (router_enter(&ticket, config, model, true, now_ns)) …
 *            router_report(&ticket, config, ATTEMPT_OK, ask_id, ttft_ns, now_ns);
 *            router_return(&ticket, now_ns);
 * Called by: the gateway's workers, its probe, its reload.
 * Knows not: sockets, JSON, tenants' keys, files; of prices only which model is cheaper. */
#ifndef ROUTER_ROUTER_H
#define ROUTER_ROUTER_H

#include <stdatomic.h>

#include "config/base/load.h"
#include "config/config.h"

/* What rules look at. Spans are borrowed for the call. */
struct router_ask {
    enum endpoint endpoint;
    struct span class_asked; /* x-task-class header or metadata.task_class; {NULL, 0}: none */
    struct span model_asked;
    struct span
        system_prompt; /* raw JSON string body of the first system message (its beginning) */
    bool tools, images, schema;
    size_t body_bytes;
    /* Looks a request header up by lower-case name; {NULL, 0} when absent. owner is handed back. */
    struct span (*header)(const void *owner, struct span name);
    const void *header_owner;
};

/* The class of an ask: the first rule that matches; an explicit class_asked that names a class of
 * the config wins over rules (a class that matches on header x-task-class is also found by
 * metadata). A class_asked that nothing knows is as none. NULL when no rule matches.
 * *out_why: static text ("header", "metadata", "rule", "none"). */
const struct config_class *router_classify(const struct config *config,
                                           const struct router_ask *ask, const char **out_why);

/* The models an ask may be served by, best first: the class's model (else the one asked for), then
 * its own fallbacks, each once, only those in allowed, at most MODEL_CANDIDATES_MAX.
 * model_asked "auto" without a class model (and no model of that name): every allowed model,
 * cheapest first (by prices[0].rates.input + .output).
 * Returns their number: 0 = the model does not exist or is not allowed. A model asked for that is
 * not allowed yields 0, not its fallbacks. */
#define MODEL_CANDIDATES_MAX 8
uint32_t router_choose(const struct config *config, const struct config_class *class,
                       struct span model_asked, const struct model_set *allowed,
                       const struct config_model *out_models[MODEL_CANDIDATES_MAX]);

enum ticket_state { TICKET_NONE, TICKET_WAITING, TICKET_GRANTED };

/* A place in a model's queue, then a slot on a replica. Lives inside its exchange; zeroed =
 * TICKET_NONE. Fields are the router's, under the model's lock, but for those marked. */
struct ticket {
    struct ticket *next, *previous;
    struct model_state *model;
    struct replica_state *replica_state;
    /* Both of the exchange's snapshot; read by the owner once granted. */
    const struct config_model *config_model;
    const struct config_replica *config_replica;
    uint64_t excluded; /* set by the owner before entering: bits of config_replica.index tried */
    uint64_t entered_ns;
    uint64_t granted_ns;
    int64_t work; /* set by the owner: estimated tokens of this ask, part of the replica's
                   * outstanding work while granted */
    enum ticket_state state;
    atomic_bool handing; /* granted() runs or is about to; router_return() waits for its end */
    /* Called, with no lock held, when a waiting ticket is granted by another's call (perhaps on
     * another thread): the gateway posts to the owner's mailbox. Set by the owner before
     * router_enter(). A doorbell: it must not call the router. Never runs after router_return(). */
    void (*granted)(struct ticket *ticket);
};

enum router_turn {
    TURN_GRANTED,
    TURN_WAIT,
    TURN_FULL, /* no slot is free, and the queue is at its limit or the ticket may not wait */
    TURN_NONE  /* every replica of the model is excluded or out: try the next model */
};

/* Takes a slot on a replica of model, or a place in its queue (when may_wait). The ticket must be
 * TICKET_NONE with granted, excluded and work set. With TURN_FULL and TURN_NONE it stays
 * TICKET_NONE. The snapshot must outlive the ticket's stay. A ticket that waits does so until a
 * slot comes, however long, even when every replica it may use goes out meanwhile: the deadline is
 * the owner's. */
MUST_CHECK enum router_turn router_enter(struct ticket *ticket, const struct config *config,
                                         const struct config_model *model, bool may_wait,
                                         uint64_t now_ns);

/* Gives the slot back (granted) or leaves the queue (waiting); the ticket is TICKET_NONE afterwards
 * and may enter again. Safe on a TICKET_NONE. Others may be granted by it: their granted() is
 * called. */
void router_return(struct ticket *ticket, uint64_t now_ns);

/* What became of an attempt on the replica of a granted ticket; before router_return().
 * ask_id (not 0) tells asks apart, so that one ask's retries do not strike twice. ttft_ns: 0 = no
 * answer began. */
void router_report(struct ticket *ticket, const struct config *config, enum attempt_result result,
                   uint64_t ask_id, uint64_t ttft_ns, uint64_t now_ns);

/* What became of an active check of a replica (GET /health). */
void router_report_check(struct replica_state *replica, const struct config *config, bool good,
                         uint64_t now_ns);

/* What a replica has said of its load. Any thread. */
void router_report_load(struct replica_state *replica, const struct load *load, uint64_t now_ns);

/* May one more retry be sent? Counts it when yes: at most retry_budget_percent of attempts under
 * way in the process, at least 3; give it back with router_retry_done(). */
MUST_CHECK bool router_retry_begin(const struct config *config);
void router_retry_done(void);

/* Binds a new snapshot to the state tables, making what is new; sets config_model.state and
 * config_replica.state. Slots of a known replica follow the new number. Called before publication,
 * one thread at a time. Then grants what new slots allow. */
MUST_CHECK enum err router_adopt(struct config *config, uint64_t now_ns);

/* What /replicas and /metrics show. A replica whose time outside is over is shown OUT until the
 * next event of its model moves it to PROBATION. */
enum replica_health { REPLICA_IN, REPLICA_OBSERVED, REPLICA_OUT, REPLICA_PROBATION };

struct router_replica_view {
    enum replica_health health;
    uint32_t slots, busy;
    int64_t work; /* estimated tokens outstanding */
    uint64_t attempts, failures, strikes;
    uint64_t out_until_ns; /* 0: not out */
    bool drained;          /* by the operator */
    struct load load;      /* as the replica said last */
    uint64_t load_ns;      /* when that was; 0: never */
};
/* The present state of one replica, under its model's lock. Any thread. */
void router_view(const struct config_replica *replica, struct router_replica_view *out_view);
const char *router_health_name(enum replica_health health);

/* Waiting tickets of a model now. */
uint32_t router_waiting(const struct config_model *model);

/* Operator's drain of one replica: no new grants while drained. */
void router_set_drained(struct replica_state *replica, bool drained, uint64_t now_ns);

/* Is any replica of any model able to take work (for /readyz)? */
bool router_ready(const struct config *config);

/* Frees all state (end of process, tests). */
void router_fini(void);

#endif
