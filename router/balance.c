/* SPDX-License-Identifier: Apache-2.0 */
/* router/balance.c: which replica among equals.
 *
 * For:       comparing the load of two replicas.
 * Called by: router.c, at the moment of a grant.
 * Knows not: health, slots, tickets. */
#include "router/balance.h"

bool balance_prefers(const struct balance_load *a, const struct balance_load *b)
{
    if (a->work != b->work)
        return a->work < b->work;
    if (a->busy != b->busy)
        return a->busy < b->busy;
    return a->attempts < b->attempts;
}
