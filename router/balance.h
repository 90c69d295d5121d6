/* SPDX-License-Identifier: Apache-2.0 */
/* router/balance.h: which replica among equals; pure.
 *
 * For:       comparing the load of two replicas.
 * Called by: router.c, at the moment of a grant.
 * Knows not: health, slots, tickets. */
#ifndef ROUTER_BALANCE_H
#define ROUTER_BALANCE_H

#include "config/base/vocab.h"

/* What a replica has to do and has had to do. Under the lock of its model. */
struct balance_load {
    int64_t work;      /* estimated tokens outstanding */
    uint32_t busy;     /* slots taken */
    uint64_t attempts; /* granted since the start of the process */
};

/* Is a the better choice than b? Least work outstanding; then fewest slots taken; then fewest
 * attempts so far, so that equal and idle replicas take turns. false on a full tie. */
bool balance_prefers(const struct balance_load *a, const struct balance_load *b);

#endif
