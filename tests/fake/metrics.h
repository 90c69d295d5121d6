/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/metrics.h: GET /metrics, with the names of each kind.
 *
 * For:       what a gateway scrapes; every number is one of counters.h.
 * Called by: control.c.
 * Knows not: requests. */
#ifndef FAKE_METRICS_H
#define FAKE_METRICS_H

#include "tests/fake/buffer.h"

/* Prometheus text 0.0.4; nothing for a kind without metrics. */
void metrics_add(struct buffer *out, struct text model);

#endif
