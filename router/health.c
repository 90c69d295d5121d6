/* SPDX-License-Identifier: Apache-2.0 */
/* router/health.c: the circuit of one replica.
 *
 * For:       the table of moves in health.h.
 * Called by: router.c, under the lock of the replica's model.
 * Knows not: tickets, the other replicas of the pool, logs. */
#include "router/health.h"

#include <string.h>

/* Workers read the clock once a turn, so that one's now may lie a little before another's. */
static uint64_t time_since(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* The only place that changes the state; what a state begins with is set here. */
static void move_to(struct health *health, enum replica_health state, uint64_t now_ns)
{
    if (state == REPLICA_IN && health->state == REPLICA_PROBATION) {
        health->back_since_ns = now_ns;
        memset(health->window, 0, sizeof(health->window)); /* what it did before is settled */
    }
    if (state != REPLICA_OBSERVED)
        health->in_a_row = 0;
    health->state = state;
}

/* A stay is longer when it follows on another before the replica was well for as long as that one
 * lasted. */
static void go_out(struct health *health, const struct health_rules *rules, uint64_t now_ns)
{
    uint64_t last_stay_ns = health->out_until_ns - health->out_since_ns;
    bool soon = health->times_out > 0 &&
                (health->state == REPLICA_PROBATION ||
                 time_since(health->back_since_ns, now_ns) < HEALTH_RAMP_NS + last_stay_ns);

    if (!soon)
        health->times_out = 1;
    else if (health->times_out < HEALTH_LONGEST_TIMES)
        health->times_out++;
    health->out_since_ns = now_ns;
    health->out_until_ns = now_ns + rules->out_for_ns * health->times_out;
    move_to(health, REPLICA_OUT, now_ns);
}

static void count_in_window(struct health *health, bool failed, uint64_t now_ns)
{
    uint64_t second = now_ns / HEALTH_SECOND_NS;
    struct health_second *slot = &health->window[second % HEALTH_WINDOW_S];

    if (slot->second != second)
        *slot = (struct health_second){.second = second};
    slot->attempts++;
    slot->failed += failed;
}

static bool fails_too_often(const struct health *health, uint64_t now_ns)
{
    uint64_t second = now_ns / HEALTH_SECOND_NS;
    uint64_t attempts = 0, failed = 0;

    for (size_t i = 0; i < HEALTH_WINDOW_S; i++) {
        const struct health_second *slot = &health->window[i];
        if (slot->second + HEALTH_WINDOW_S > second) {
            attempts += slot->attempts;
            failed += slot->failed;
        }
    }
    return attempts >= HEALTH_WINDOW_LEAST && failed * 100 > attempts * HEALTH_FAILED_PERCENT;
}

/* Did the attempt begin before the verdict that is being served or was served last? */
static bool is_old_news(const struct health *health, uint64_t began_ns)
{
    return health->times_out > 0 && began_ns < health->out_since_ns;
}

enum replica_health health_at(struct health *health, uint64_t now_ns)
{
    if (health->state == REPLICA_OUT && now_ns >= health->out_until_ns)
        move_to(health, REPLICA_PROBATION, now_ns);
    return health->state;
}

void health_good(struct health *health, uint64_t began_ns, uint64_t now_ns)
{
    enum replica_health state = health_at(health, now_ns);

    if (state == REPLICA_OUT || (state == REPLICA_PROBATION && is_old_news(health, began_ns)))
        return;
    if (state != REPLICA_IN)
        move_to(health, REPLICA_IN, now_ns);
    count_in_window(health, false, now_ns);
}

void health_strike(struct health *health, const struct health_rules *rules, uint64_t ask_id,
                   uint64_t began_ns, uint64_t now_ns)
{
    enum replica_health state = health_at(health, now_ns);

    if (state == REPLICA_OUT || is_old_news(health, began_ns))
        return;
    count_in_window(health, false, now_ns);
    if (ask_id != 0 && health->in_a_row > 0 && ask_id == health->last_ask_id)
        return;
    health->strikes++;
    health->last_ask_id = ask_id;
    if (state == REPLICA_PROBATION) {
        go_out(health, rules, now_ns);
        return;
    }
    if (state == REPLICA_IN)
        move_to(health, REPLICA_OBSERVED, now_ns);
    health->in_a_row++;
    if (health->in_a_row >= rules->out_after && rules->may_go_out)
        go_out(health, rules, now_ns);
}

void health_failed(struct health *health, const struct health_rules *rules, uint64_t began_ns,
                   uint64_t now_ns)
{
    enum replica_health state = health_at(health, now_ns);

    if (state == REPLICA_OUT || is_old_news(health, began_ns))
        return;
    count_in_window(health, true, now_ns);
    if (state == REPLICA_PROBATION || (rules->may_go_out && fails_too_often(health, now_ns)))
        go_out(health, rules, now_ns);
}

void health_recall(struct health *health)
{
    if (health->state == REPLICA_OUT)
        move_to(health, REPLICA_PROBATION, health->out_since_ns);
}

uint32_t health_slots(const struct health *health, uint32_t slots, uint64_t now_ns)
{
    uint64_t back_ns = time_since(health->back_since_ns, now_ns);

    if (health->state == REPLICA_OUT)
        return 0;
    if (health->state == REPLICA_PROBATION)
        return slots > 0 ? 1 : 0;
    if (health->back_since_ns == 0 || back_ns >= HEALTH_RAMP_NS)
        return slots;
    uint32_t grown = (uint32_t)(slots * back_ns / HEALTH_RAMP_NS);
    return grown > 0 ? grown : 1;
}

uint32_t health_most_out(uint32_t pool, uint32_t percent)
{
    uint32_t most = (uint32_t)((uint64_t)pool * percent / 100);

    if (pool == 0)
        return 0;
    return most < pool ? most : pool - 1;
}
