/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/server.h: the sockets of the simulated model server.
 *
 * For:       one thread, one epoll: accepts, reads, writes, waits, and notices who leaves.
 * Called by: main.c.
 * Knows not: what a request gets. */
#ifndef FAKE_SERVER_H
#define FAKE_SERVER_H

#include <signal.h>
#include <stdbool.h>

/* Serves what listen.h listens to, until `stop` is set by a signal handler.
 * keep_alive_ms: an idle connection is closed so long after its last answer. */
void server_run(int keep_alive_ms, const volatile sig_atomic_t *stop);

#endif
