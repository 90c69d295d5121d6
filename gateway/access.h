/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/access.h: one line a request, for the operator.
 *
 * For:       JSON (or a readable form on a terminal) of what an exchange was and how it ended.
 * Called by: steps.c, as the last act of settle. Never a key, a prompt or an answer.
 * Knows not: where lines go (config/base/log.h). */
#ifndef GATEWAY_ACCESS_H
#define GATEWAY_ACCESS_H

#include "gateway/exchange.h"

/* Writes the line of a finished exchange to the access log, if there is one. */
void access_line(const struct exchange *x, int64_t cost_pusd);

#endif
