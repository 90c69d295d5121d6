/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/io.h: a socket's bytes in and out.
 *
 * For:       registered once with the worker's epoll (edge-triggered, read and write), written
 *            before it is waited for.
 * Called by: conn.c, h2.c, replica.c; server.c (listeners, its mailbox, edges).
 * Knows not: what the bytes mean.
 * Thread:    the worker whose epoll it is registered with.
 *
 * These sockets are not libevent's: it reports a reset (EPOLLERR) as plain readiness, so that one
 * which comes with the last bytes could only be seen by a second recv after every read. */
#ifndef GATEWAY_IO_H
#define GATEWAY_IO_H

#include <sys/epoll.h>
#include <sys/uio.h>

#include "config/base/err.h"
#include "config/base/vocab.h"

struct io {
    int fd;          /* -1: closed */
    bool readable;   /* an edge came and was not read to its end */
    bool writable;   /* the last send took all */
    bool hung_up;    /* the peer has sent FIN or RST: after what is buffered comes the end */
    bool connecting; /* until the first writable edge */
    void (*ready)(struct io *io); /* doorbell: an edge came; runs nothing in place */
};

/* Takes over a non-blocking fd. Errors: ERR_NO_MEMORY (the fd is closed). */
MUST_CHECK enum err io_open(struct io *io, int epoll_fd, int fd, void (*ready)(struct io *io));

/* What epoll_wait() said of this socket: sets the flags and rings the doorbell. */
void io_edge(struct io *io, uint32_t events);

/* Unregisters and closes. Safe twice. reset: with RST instead of FIN. */
void io_close(struct io *io, bool reset);

enum io_result { IO_DONE, IO_AGAIN, IO_END, IO_FAILED };

/* Receives once into room bytes. IO_DONE: *out_size > 0. IO_AGAIN: nothing now, `ready` rings when
 * there is. IO_END: the peer has closed its side. After a short read without a hang-up no second
 * recv is made. */
MUST_CHECK enum io_result io_recv(struct io *io, char *out, size_t room, size_t *out_size);

/* Sends once. IO_DONE: *out_size bytes were taken (perhaps fewer than given: then writable is false
 * and `ready` rings later). IO_AGAIN: none. Never raises SIGPIPE. */
MUST_CHECK enum io_result io_send(struct io *io, struct iovec *pieces, int count, size_t *out_size);

/* The pending error of a connecting socket, 0 when it is connected. */
int io_connect_error(struct io *io);

#endif
