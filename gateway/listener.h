/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/listener.h: listening sockets.
 *
 * For:       each worker accepts on sockets of its own (TCP) or on a shared one (Unix), and knows
 *            with which certificate.
 * Called by: server.c.
 * Knows not: what clients say. */
#ifndef GATEWAY_LISTENER_H
#define GATEWAY_LISTENER_H

#include "gateway/server.h"

/* Opens an address on every worker (the admin's on the first alone). false: it cannot, and the log
 * says why. */
MUST_CHECK bool listener_open(struct server *server, const struct config_listen *listen_to,
                              bool admin);

/* The worker has a new configuration: new handshakes use its certificates. */
void listener_adopt(struct worker *worker);

/* A deadline: those that rested for want of descriptors accept again. */
void listener_resume(struct deadline *deadline);

/* Closes the worker's; the file of a Unix socket goes, too. */
void listener_close_all(struct worker *worker, bool admin_too);

#endif
