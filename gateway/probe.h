/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/probe.h: asks replicas how they are.
 *
 * For:       GET {base path}/health of every replica each health.check_every, on a thread of its
 *            own so that a slow name look-up or a silent host holds nobody up; what came goes to
 *            router_report_check().
 * Called by: server.c.
 * Knows not: workers, exchanges; what follows from an answer. */
#ifndef GATEWAY_PROBE_H
#define GATEWAY_PROBE_H

#include "config/config.h"

/* Starts the thread (also when checks are off: a reload may switch them on). false: no thread. */
MUST_CHECK bool probe_start(struct config *config);

/* A new snapshot is in force. */
void probe_adopt(struct config *config);

/* Ends the thread; safe when it was never started. */
void probe_stop(void);

#endif
