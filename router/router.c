/* SPDX-License-Identifier: Apache-2.0 */
/* router/router.c: the turn on a replica, from entering the line to giving the slot back.
 *
 * For:       the state that outlives snapshots (models, their lines, their replicas) and its locks.
 * Called by: the gateway's workers and its checks, through router.h.
 * Knows not: how a replica is reached, what is asked of it.
 *
 * Threads:   one mutex per model guards its lines, its replicas and every ticket that is theirs.
 *            The list of models grows in router_adopt() only; others reach models through a
 *            snapshot.
 * Granting:  what must be told is gathered under the lock and told after it. Between the two,
 *            handing keeps the ticket alive: its owner cannot get through router_return() before
 *            the end. */
#include "router/router.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "router/balance.h"
#include "router/health.h"
#include "router/queue.h"

/* How far down a line a free slot is offered: those in front may have tried its replica already. */
#define OFFERS_MAX 64
#define RETRIES_LEAST 3
#define CACHE_LINE_BYTES 64

struct replica_state {
    struct replica_state *next; /* of the same model */
    struct model_state *model;
    char *name;
    uint32_t slots;
    bool in_pool; /* the newest snapshot has it */
    bool drained;
    struct balance_load load;
    struct health health;
    struct load told;  /* by the replica itself */
    uint64_t told_ns;  /* 0: never */
    uint64_t failures; /* attempts that struck or failed */
};

/* Two lines, so that tickets which exclude replicas (retries) cannot hide those that do not. */
struct model_state {
    pthread_mutex_t lock;
    struct queue fresh, again;
    struct replica_state *replicas;
    struct model_state *next;
    char *name;
};

static struct {
    struct model_state *models; /* router_adopt() and router_fini() alone */
    atomic_int_fast64_t attempts_now;
    atomic_int_fast64_t retries_now;
} router;

static uint64_t bit_of(const struct config_replica *replica)
{
    return UINT64_C(1) << (replica->index % MODEL_REPLICAS_MAX);
}

static bool is_usable(struct replica_state *replica, uint64_t now_ns)
{
    return !replica->drained && health_at(&replica->health, now_ns) != REPLICA_OUT;
}

static bool has_room(struct replica_state *replica, uint64_t now_ns)
{
    return is_usable(replica, now_ns) &&
           replica->load.busy < health_slots(&replica->health, replica->slots, now_ns);
}

/* May any replica of the ticket's pool ever take it, as things stand? */
static bool has_hope(const struct ticket *ticket, uint64_t now_ns)
{
    const struct config_model *model = ticket->config_model;

    for (uint32_t i = 0; i < model->replica_count; i++) {
        const struct config_replica *replica = &model->replicas[i];
        if (!(ticket->excluded & bit_of(replica)) && is_usable(replica->state, now_ns))
            return true;
    }
    return false;
}

/* The replica that the ticket would get now; NULL when none is free for it. */
static const struct config_replica *pick_replica(const struct ticket *ticket, uint64_t now_ns)
{
    const struct config_model *model = ticket->config_model;
    const struct config_replica *best = NULL;

    for (uint32_t i = 0; i < model->replica_count; i++) {
        const struct config_replica *replica = &model->replicas[i];
        if ((ticket->excluded & bit_of(replica)) || !has_room(replica->state, now_ns))
            continue;
        if (!best || balance_prefers(&replica->state->load, &best->state->load))
            best = replica;
    }
    return best;
}

static bool any_room(const struct model_state *model, uint64_t now_ns)
{
    for (struct replica_state *replica = model->replicas; replica; replica = replica->next) {
        if (has_room(replica, now_ns))
            return true;
    }
    return false;
}

static void take_slot(struct ticket *ticket, const struct config_replica *replica, uint64_t now_ns)
{
    ticket->config_replica = replica;
    ticket->replica_state = replica->state;
    ticket->granted_ns = now_ns;
    ticket->state = TICKET_GRANTED;
    replica->state->load.work += ticket->work;
    replica->state->load.busy++;
    replica->state->load.attempts++;
    atomic_fetch_add_explicit(&router.attempts_now, 1, memory_order_relaxed);
}

static void give_slot_back(struct ticket *ticket)
{
    struct balance_load *load = &ticket->replica_state->load;

    load->work -= ticket->work;
    load->busy--;
    atomic_fetch_sub_explicit(&router.attempts_now, 1, memory_order_relaxed);
}

static struct queue *line_of(struct model_state *model, const struct ticket *ticket)
{
    return ticket->excluded ? &model->again : &model->fresh;
}

/* The first of a line that a free slot suits. */
static struct ticket *first_fitting(const struct queue *line, uint64_t now_ns)
{
    struct ticket *ticket = line->first;

    for (int offers = 0; ticket && offers < OFFERS_MAX; offers++) {
        if (pick_replica(ticket, now_ns))
            return ticket;
        ticket = ticket->next;
    }
    return NULL;
}

/* Grants what free slots allow, in order. Returns those granted, linked by next: tell_granted(). */
static struct ticket *grant_waiting(struct model_state *model, uint64_t now_ns)
{
    struct queue granted = {0};

    while ((model->fresh.first || model->again.first) && any_room(model, now_ns)) {
        struct ticket *ticket = queue_earlier(first_fitting(&model->fresh, now_ns),
                                              first_fitting(&model->again, now_ns));
        if (!ticket)
            break;
        queue_remove(line_of(model, ticket), ticket);
        take_slot(ticket, pick_replica(ticket, now_ns), now_ns);
        atomic_store_explicit(&ticket->handing, true, memory_order_relaxed);
        queue_append(&granted, ticket);
    }
    return granted.first;
}

/* Rings the doorbells, with no lock held. A ticket is its owner's again once handing is false. */
static void tell_granted(struct ticket *ticket)
{
    while (ticket) {
        struct ticket *next = ticket->next;
        ticket->granted(ticket);
        atomic_store_explicit(&ticket->handing, false, memory_order_release);
        ticket = next;
    }
}

enum router_turn router_enter(struct ticket *ticket, const struct config *config,
                              const struct config_model *model, bool may_wait, uint64_t now_ns)
{
    struct model_state *state = model->state;
    struct ticket *others = NULL;
    const struct config_replica *replica;
    enum router_turn turn = TURN_GRANTED;

    ticket->config_model = model;
    ticket->model = state;
    ticket->entered_ns = now_ns;
    ticket->next = NULL;
    ticket->previous = NULL;
    pthread_mutex_lock(&state->lock);
    /* Time alone frees slots (ramp-up, the end of a stay outside): they belong to those who
     * wait. */
    if (state->fresh.first || state->again.first)
        others = grant_waiting(state, now_ns);
    replica = pick_replica(ticket, now_ns);
    if (replica) {
        take_slot(ticket, replica, now_ns);
    } else if (!has_hope(ticket, now_ns)) {
        turn = TURN_NONE;
    } else if (!may_wait || state->fresh.count + state->again.count >= config->limits_queue) {
        turn = TURN_FULL;
    } else {
        queue_append(line_of(state, ticket), ticket);
        ticket->state = TICKET_WAITING;
        turn = TURN_WAIT;
    }
    pthread_mutex_unlock(&state->lock);
    if (turn == TURN_FULL || turn == TURN_NONE)
        ticket->model = NULL;
    tell_granted(others);
    return turn;
}

void router_return(struct ticket *ticket, uint64_t now_ns)
{
    struct model_state *model = ticket->model;
    struct ticket *others;

    if (!model)
        return;
    pthread_mutex_lock(&model->lock);
    while (atomic_load_explicit(&ticket->handing, memory_order_acquire)) {
        pthread_mutex_unlock(&model->lock); /* its doorbell is being rung: a matter of a moment */
        sched_yield();
        pthread_mutex_lock(&model->lock);
    }
    if (ticket->state == TICKET_WAITING)
        queue_remove(line_of(model, ticket), ticket);
    else
        give_slot_back(ticket);
    ticket->state = TICKET_NONE;
    others = grant_waiting(model, now_ns);
    pthread_mutex_unlock(&model->lock);
    ticket->model = NULL;
    ticket->replica_state = NULL;
    ticket->config_replica = NULL;
    tell_granted(others);
}

/* Can the pool spare this one? What is out or on probation already counts; what an operator drained
 * serves nobody and is no part of the pool. */
static bool can_spare(const struct replica_state *one, const struct config *config, uint64_t now_ns)
{
    uint32_t pool = 0, away = 0;

    if (one->drained || !one->in_pool)
        return true;
    for (struct replica_state *other = one->model->replicas; other; other = other->next) {
        if (other->drained || !other->in_pool)
            continue;
        enum replica_health health = health_at(&other->health, now_ns);
        pool++;
        away += health == REPLICA_OUT || health == REPLICA_PROBATION;
    }
    return away < health_most_out(pool, (uint32_t)config->health_most_out_percent);
}

static struct health_rules rules_for(const struct replica_state *replica,
                                     const struct config *config, uint64_t now_ns)
{
    return (struct health_rules){
        .out_after = (uint32_t)config->health_out_after,
        .out_for_ns = clock_ms_to_ns(config->health_out_for_ms),
        .may_go_out = can_spare(replica, config, now_ns),
    };
}

/* What the operator should hear of; logged with no lock held. */
struct news {
    enum replica_health before, after;
    uint64_t out_for_ms;
};

static struct news news_of(const struct replica_state *replica, enum replica_health before)
{
    const struct health *health = &replica->health;

    return (struct news){before, health->state,
                         (health->out_until_ns - health->out_since_ns) / NS_PER_MS};
}

static void log_news(const struct replica_state *replica, const struct news *news)
{
    if (news->after == REPLICA_OUT && news->before != REPLICA_OUT)
        log_event(LOG_WARN, "replica_out", "%s/%s is out for %llu ms", replica->model->name,
                  replica->name, (unsigned long long)news->out_for_ms);
    if (news->after == REPLICA_IN && news->before == REPLICA_PROBATION)
        log_event(LOG_INFO, "replica_back", "%s/%s is back, its slots grow over 10 s",
                  replica->model->name, replica->name);
}

static void judge(struct replica_state *replica, const struct config *config,
                  enum attempt_result result, uint64_t ask_id, uint64_t began_ns, uint64_t now_ns)
{
    struct health_rules rules;

    switch (result) {
    case ATTEMPT_OK:
        health_good(&replica->health, began_ns, now_ns);
        break;
    case ATTEMPT_CLIENT_GONE:
    case ATTEMPT_BUSY:
        break;
    case ATTEMPT_FAILED:
        rules = rules_for(replica, config, now_ns);
        replica->failures++;
        health_failed(&replica->health, &rules, began_ns, now_ns);
        break;
    case ATTEMPT_CONNECT_ERROR:
    case ATTEMPT_RESET:
    case ATTEMPT_TIMEOUT:
    case ATTEMPT_PROTOCOL:
        rules = rules_for(replica, config, now_ns);
        replica->failures++;
        health_strike(&replica->health, &rules, ask_id, began_ns, now_ns);
        break;
    }
}

void router_report(struct ticket *ticket, const struct config *config, enum attempt_result result,
                   uint64_t ask_id, uint64_t ttft_ns, uint64_t now_ns)
{
    struct replica_state *replica = ticket->replica_state;
    enum replica_health before;
    struct news news;

    (void)ttft_ns; /* part of the report from the start; predictions will learn from it */
    if (!replica)
        return;
    pthread_mutex_lock(&replica->model->lock);
    before = health_at(&replica->health, now_ns);
    judge(replica, config, result, ask_id, ticket->granted_ns, now_ns);
    news = news_of(replica, before);
    pthread_mutex_unlock(&replica->model->lock);
    if (news.before != news.after)
        log_news(replica, &news);
}

void router_report_check(struct replica_state *replica, const struct config *config, bool good,
                         uint64_t now_ns)
{
    struct model_state *model = replica->model;
    struct ticket *others;
    enum replica_health before;
    struct news news;

    pthread_mutex_lock(&model->lock);
    before = health_at(&replica->health, now_ns);
    if (good) {
        health_good(&replica->health, now_ns, now_ns);
    } else {
        struct health_rules rules = rules_for(replica, config, now_ns);
        health_strike(&replica->health, &rules, 0, now_ns, now_ns);
    }
    news = news_of(replica, before);
    others = grant_waiting(model, now_ns);
    pthread_mutex_unlock(&model->lock);
    log_news(replica, &news);
    tell_granted(others);
}

bool router_retry_begin(const struct config *config)
{
    int_fast64_t attempts = atomic_load_explicit(&router.attempts_now, memory_order_relaxed);
    int_fast64_t most = attempts * config->retry_budget_percent / 100;
    int_fast64_t now = atomic_load_explicit(&router.retries_now, memory_order_relaxed);

    if (most < RETRIES_LEAST)
        most = RETRIES_LEAST;
    do {
        if (now >= most)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&router.retries_now, &now, now + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void router_retry_done(void)
{
    atomic_fetch_sub_explicit(&router.retries_now, 1, memory_order_relaxed);
}

static struct model_state *find_or_make_model(struct span name)
{
    struct model_state *model;
    void *memory = NULL;

    for (model = router.models; model; model = model->next) {
        if (span_equal(span_of(model->name), name))
            return model;
    }
    if (posix_memalign(&memory, CACHE_LINE_BYTES, sizeof(*model)) != 0)
        return NULL;
    model = memory;
    memset(model, 0, sizeof(*model));
    model->name = strndup(name.data, name.size);
    if (!model->name || pthread_mutex_init(&model->lock, NULL) != 0) {
        free(model->name);
        free(model);
        return NULL;
    }
    model->next = router.models;
    router.models = model;
    return model;
}

/* Under the model's lock. */
static struct replica_state *find_or_make_replica(struct model_state *model, struct span name)
{
    struct replica_state *replica;

    for (replica = model->replicas; replica; replica = replica->next) {
        if (span_equal(span_of(replica->name), name))
            return replica;
    }
    replica = calloc(1, sizeof(*replica));
    if (!replica)
        return NULL;
    replica->name = strndup(name.data, name.size);
    if (!replica->name) {
        free(replica);
        return NULL;
    }
    replica->told = LOAD_UNKNOWN;
    replica->model = model;
    replica->next = model->replicas;
    model->replicas = replica;
    return replica;
}

/* When a reload or a drain took the last replica that was in, those outside get their chance. */
static void recall_if_none_left(struct model_state *model, uint64_t now_ns)
{
    struct replica_state *replica;

    for (replica = model->replicas; replica; replica = replica->next) {
        if (replica->in_pool && is_usable(replica, now_ns))
            return;
    }
    for (replica = model->replicas; replica; replica = replica->next) {
        if (replica->in_pool && !replica->drained)
            health_recall(&replica->health);
    }
}

/* Under the model's lock. */
static enum err adopt_replicas(struct model_state *model, struct config_model *wanted,
                               uint64_t now_ns)
{
    struct replica_state *replica;

    for (uint32_t i = 0; i < wanted->replica_count; i++) {
        wanted->replicas[i].state = find_or_make_replica(model, wanted->replicas[i].name);
        if (!wanted->replicas[i].state)
            return ERR_NO_MEMORY;
    }
    for (replica = model->replicas; replica; replica = replica->next)
        replica->in_pool = false;
    for (uint32_t i = 0; i < wanted->replica_count; i++) {
        wanted->replicas[i].state->slots = wanted->replicas[i].slots;
        wanted->replicas[i].state->in_pool = true;
    }
    recall_if_none_left(model, now_ns);
    return OK;
}

enum err router_adopt(struct config *config, uint64_t now_ns)
{
    for (uint32_t i = 0; i < config->model_count; i++) {
        struct config_model *wanted = &config->models[i];
        struct model_state *model = find_or_make_model(wanted->name);
        struct ticket *others;
        enum err err;

        if (!model)
            return ERR_NO_MEMORY;
        wanted->state = model;
        pthread_mutex_lock(&model->lock);
        err = adopt_replicas(model, wanted, now_ns);
        others = grant_waiting(model, now_ns);
        pthread_mutex_unlock(&model->lock);
        tell_granted(others);
        if (err != OK)
            return err;
    }
    return OK;
}

void router_view(const struct config_replica *replica, struct router_replica_view *out_view)
{
    struct replica_state *state = replica->state;

    pthread_mutex_lock(&state->model->lock);
    *out_view = (struct router_replica_view){
        .health = state->health.state,
        .slots = state->slots,
        .busy = state->load.busy,
        .work = state->load.work,
        .attempts = state->load.attempts,
        .failures = state->failures,
        .strikes = state->health.strikes,
        .out_until_ns = state->health.state == REPLICA_OUT ? state->health.out_until_ns : 0,
        .drained = state->drained,
        .load = state->told,
        .load_ns = state->told_ns,
    };
    pthread_mutex_unlock(&state->model->lock);
}

void router_report_load(struct replica_state *replica, const struct load *load, uint64_t now_ns)
{
    pthread_mutex_lock(&replica->model->lock);
    replica->told = *load;
    replica->told_ns = now_ns;
    pthread_mutex_unlock(&replica->model->lock);
}

const char *router_health_name(enum replica_health health)
{
    static const char *const names[] = {
        [REPLICA_IN] = "in",
        [REPLICA_OBSERVED] = "observed",
        [REPLICA_OUT] = "out",
        [REPLICA_PROBATION] = "probation",
    };
    return names[health];
}

uint32_t router_waiting(const struct config_model *model)
{
    struct model_state *state = model->state;
    uint32_t waiting;

    pthread_mutex_lock(&state->lock);
    waiting = state->fresh.count + state->again.count;
    pthread_mutex_unlock(&state->lock);
    return waiting;
}

void router_set_drained(struct replica_state *replica, bool drained, uint64_t now_ns)
{
    struct model_state *model = replica->model;
    struct ticket *others;

    pthread_mutex_lock(&model->lock);
    replica->drained = drained;
    recall_if_none_left(model, now_ns);
    others = grant_waiting(model, now_ns);
    pthread_mutex_unlock(&model->lock);
    tell_granted(others);
}

bool router_ready(const struct config *config)
{
    for (uint32_t i = 0; i < config->model_count; i++) {
        const struct config_model *model = &config->models[i];
        for (uint32_t j = 0; j < model->replica_count; j++) {
            struct router_replica_view view;
            router_view(&model->replicas[j], &view);
            if (!view.drained && view.health != REPLICA_OUT)
                return true;
        }
    }
    return false;
}

void router_fini(void)
{
    while (router.models) {
        struct model_state *model = router.models;
        router.models = model->next;
        while (model->replicas) {
            struct replica_state *replica = model->replicas;
            model->replicas = replica->next;
            free(replica->name);
            free(replica);
        }
        pthread_mutex_destroy(&model->lock);
        free(model->name);
        free(model);
    }
    atomic_store(&router.attempts_now, 0);
    atomic_store(&router.retries_now, 0);
}
