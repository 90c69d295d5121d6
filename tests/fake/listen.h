/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/listen.h: where clients come in.
 *
 * For:       listening sockets: IPv4, IPv6, a path.
 * Called by: main.c, server.c.
 * Knows not: what comes of a connection. */
#ifndef FAKE_LISTEN_H
#define FAKE_LISTEN_H

#include <stdbool.h>

enum { LISTENERS_MOST = 2 };

struct listener {
    int fd;
    const char *path; /* of a Unix socket, else NULL */
};

extern struct listener listeners[LISTENERS_MOST];
extern unsigned listener_count;

/* Listens on a numeric address, `::1` and `::` too; returns the port, or -1 with errno set.
 * port 0: the kernel picks one. */
int listen_open(const char *host, int port);

/* Listens at a path; a socket that lies there is replaced. False with errno set. */
bool listen_open_path(const char *path);

/* Takes the paths away again. */
void listen_close(void);

#endif
