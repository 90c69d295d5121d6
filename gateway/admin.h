/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/admin.h: health, metrics, replicas, config, reload         (jansson, in admin.c alone)
 *
 * For:       the operator, on the admin listener; /livez and /readyz on the public one too.
 * Called by: steps.c.
 * Knows not: tenants' keys, protocols. */
#ifndef GATEWAY_ADMIN_H
#define GATEWAY_ADMIN_H

#include "gateway/exchange.h"

#define TOLLGATE_VERSION "0.1.0"

/* Answers a request that came in on the admin listener (whole body read). Checks the token. */
void admin_answer(struct exchange *x);

/* Answers /livez or /readyz on any listener; false: the path is neither. No key is asked for. */
bool admin_answer_health(struct exchange *x);

#endif
