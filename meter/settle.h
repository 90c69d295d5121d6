/* SPDX-License-Identifier: Apache-2.0 */
/* meter/settle.h: what an exchange is charged, however it ended; pure.
 *
 * For:       tokens that a replica has said nothing of, and what all of them cost: the same for an
 *            exchange that its worker ends and for one that a crash cut off.
 * Called by: meter.c, recover.c.
 * Knows not: slots, tables, who ends what. */
#ifndef METER_SETTLE_H
#define METER_SETTLE_H

#include "meter/meter.h"

/* Fills in what the replica has said nothing of: all, or (a stream of messages that was cut, a
 * server that leaves a number out) the input or the output alone; never more than the ask can have
 * come to. text_bytes, pieces: of the answer, as delivered. true: it is an estimate now. */
bool settle_usage(const struct meter_guess *guess, int64_t text_bytes, int64_t pieces,
                  struct usage *usage, enum usage_source *source);

/* What these tokens cost, in picodollars. One that does not fit costs nothing and is flagged
 * FLAG_USAGE_SUSPECT. */
int64_t settle_cost(const struct price *price, enum service_tier tier, const struct usage *usage,
                    uint32_t *flags);

#endif
