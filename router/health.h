/* SPDX-License-Identifier: Apache-2.0 */
/* router/health.h: the circuit of one replica: when it is left alone, and how it comes back; pure.
 *
 * For:       turning what became of attempts and checks into "may be used, and how much".
 * Called by: router.c, under the lock of the replica's model.
 * Knows not: tickets, the other replicas of the pool, logs.
 *
 *   from       to         made by          when
 *   IN         OBSERVED   health_strike    a first strike
 *   OBSERVED   IN         health_good      anything good
 *   IN, OBS.   OUT        health_strike    out_after strikes in a row from different asks
 *   IN, OBS.   OUT        health_failed    20 or more attempts in 10 s, over 85 % of them failed
 *   OUT        PROBATION  health_at        its time is over
 *   OUT        PROBATION  health_recall    nobody else is left
 *   PROBATION  OUT        health_strike, health_failed   one bad attempt is enough
 *   PROBATION  IN         health_good      one good attempt or check; slots grow over 10 s
 *
 * IN, OBSERVED: all slots (fewer while ramping up). PROBATION: one attempt at a time. OUT: none. */
#ifndef ROUTER_HEALTH_H
#define ROUTER_HEALTH_H

#include "router/router.h"

#define HEALTH_WINDOW_S 10
#define HEALTH_WINDOW_LEAST 20   /* attempts before a rate says anything */
#define HEALTH_FAILED_PERCENT 85 /* over it: out */
#define HEALTH_SECOND_NS UINT64_C(1000000000)
#define HEALTH_RAMP_NS (10 * HEALTH_SECOND_NS)
#define HEALTH_LONGEST_TIMES 10 /* a stay outside is at most this many times out_for */

/* What happened in one second. */
struct health_second {
    uint64_t second;
    uint32_t attempts, failed;
};

/* Zeroed = IN, nothing known. Under the lock of its model. */
struct health {
    enum replica_health state; /* written by move_to() of health.c alone */
    uint32_t in_a_row;         /* strikes since the last good answer */
    uint64_t last_ask_id;      /* of the last strike; its retries do not strike again */
    uint32_t times_out;        /* stays outside that followed closely on one another */
    uint64_t out_since_ns, out_until_ns;
    uint64_t back_since_ns; /* 0: was never out; ramp-up counts from here */
    uint64_t strikes;       /* in all */
    struct health_second window[HEALTH_WINDOW_S];
};

/* What holds at the moment of a strike or a failure. */
struct health_rules {
    uint32_t out_after; /* strikes */
    uint64_t out_for_ns;
    bool may_go_out; /* the pool can spare it */
};

/* The state now; one whose time outside is over goes to PROBATION by it. */
enum replica_health health_at(struct health *health, uint64_t now_ns);

/* A whole answer (began_ns: when its attempt began) or a good check (began_ns = now_ns). */
void health_good(struct health *health, uint64_t began_ns, uint64_t now_ns);

/* A strike. ask_id: 0 for a check, which always counts. An attempt that began before the replica
 * went out says nothing new and does not count. */
void health_strike(struct health *health, const struct health_rules *rules, uint64_t ask_id,
                   uint64_t began_ns, uint64_t now_ns);

/* A 5xx: counts by rate, but while in probation like a strike. */
void health_failed(struct health *health, const struct health_rules *rules, uint64_t began_ns,
                   uint64_t now_ns);

/* Of a replica that is OUT: to PROBATION at once. */
void health_recall(struct health *health);

/* How many attempts at once it may have now, of slots. Ask health_at() first. */
uint32_t health_slots(const struct health *health, uint32_t slots, uint64_t now_ns);

/* How many of a pool may be out (or on probation) at once: the share asked for, never all. */
uint32_t health_most_out(uint32_t pool, uint32_t percent);

#endif
