/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/steps.h: the step functions of the table in exchange.h, in its order.
 *
 * For:       one declaration a row.
 * Called by: exchange.c alone.
 * Knows not: how a step is reached. */
#ifndef GATEWAY_STEPS_H
#define GATEWAY_STEPS_H

#include "gateway/exchange.h"

#define STEP(name, says) enum verdict step_##name(struct exchange *x);
EXCHANGE_STEPS(STEP)
#undef STEP

#endif
