/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/control.h: everything that is no inference.
 *
 * For:       models, health, version, metrics, and the control plane under /fake/.
 * Called by: service.c.
 * Knows not: sockets, inference. */
#ifndef FAKE_CONTROL_H
#define FAKE_CONTROL_H

#include "tests/fake/service.h"

/* What holds for each request before its own directives. */
struct directive *control_defaults(void);

/* Keeps the request for GET /fake/last. */
void control_record(const struct request *request);

/* Answers a path that is no inference; path is without the base path. */
void control_answer(const struct request *request, struct text path, struct buffer *out);

/* Path (404) or method (405) unknown. */
void control_refuse(struct buffer *out, int status);

#endif
