/* SPDX-License-Identifier: Apache-2.0 */
/* meter/accounts.h: the accounts of replicas, by name, outliving snapshots.
 *
 * For:       meter_attempt_begins(), meter_attempt_ends(), meter_unit_cost(), meter_replica_view(),
 *            meter_reading_begins() and meter_reconcile() of the door, and the table behind them.
 * Called by: meter.c.
 * Knows not: slots, prices. */
#ifndef METER_ACCOUNTS_H
#define METER_ACCOUNTS_H

#include "meter/account.h"

/* Sets config_replica.account of each replica, by "model/replica". One thread at a time.
 * Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err accounts_adopt(struct config *config);

/* Frees all of them; no snapshot that points there may be in use. */
void accounts_forget(void);

#endif
