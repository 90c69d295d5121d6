/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ending.h: how an exchange ended, and what of it is charged.
 *
 * For:       what the steps have left in the exchange, made into what the meter settles by.
 * Called by: steps.c.
 * Knows not: sockets, protocols, prices. */
#ifndef GATEWAY_ENDING_H
#define GATEWAY_ENDING_H

#include "gateway/exchange.h"

/* What an exchange that an error ends is called in its row. */
enum outcome ending_outcome(enum err err);

/* Settles x's slot, which is the meter's from here on. Writes what the row says: outcome,
 * delivered, delivered_source, cost_pusd. wait: as meter_settle(). waiting_bytes: those that the
 * client has not taken yet, and is charged for. */
void ending_settle(struct exchange *x, struct meter_wait *wait, int64_t waiting_bytes);

#endif
