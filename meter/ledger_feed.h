/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_feed.h: feeding without the lock.
 *
 * For:       who holds it, or fills a ledger that nobody else knows of.
 * Called by: ledger_feed.c, ledger_rebuild.c.
 * Knows not: tables. */
#ifndef METER_LEDGER_FEED_H
#define METER_LEDGER_FEED_H

#include "meter/ledger.h"

/* As ledger_feed(); the caller has seen to it that nobody else feeds. */
MUST_CHECK enum err ledger_take(struct ledger *ledger, int directory_fd, int64_t most_rows,
                                int64_t *out_rows, char *problem, size_t problem_size);

#endif
