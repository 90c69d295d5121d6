/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/io.h: a socket's bytes in and out, in the clear or by TLS.
 *
 * For:       registered once with the worker's epoll (edge-triggered, read and write), written
 *            before it is waited for.
 * Called by: conn.c, h2.c, link.c, replica.c, scrape.c, listener.c, server.c (edges); tls.c, which
 *            stands between the two halves of this file when a session is hung on the socket.
 * Knows not: what the bytes mean.
 * Thread:    the worker whose epoll it is registered with.
 *
 * These sockets are not libevent's: it reports a reset (EPOLLERR) as plain readiness, so that one
 * which comes with the last bytes could only be seen by a second recv after every read. */
#ifndef GATEWAY_IO_H
#define GATEWAY_IO_H

#include <sys/epoll.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "config/base/err.h"
#include "config/base/vocab.h"

struct tls;

struct io {
    int fd;          /* -1: closed */
    struct tls *tls; /* the session that the bytes pass through; NULL: they go in the clear */
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

/* Unregisters and closes. Safe twice. reset: with RST instead of FIN. What is unsent is lost, and
 * the other side of a session sees that it was cut. */
void io_close(struct io *io, bool reset);

/* Says that nothing more will be sent: FIN, as soon as nothing is unsent. whole: what was sent has
 * come to its proper end (a session says so before the FIN). */
void io_finish(struct io *io, bool whole);

/* Says goodbye on a session in good order, before it is closed while idle. In the clear: nothing.
 */
void io_bye(struct io *io);

/* Has io_send() taken bytes that the socket has not? (Only of a session: at most what two calls of
 * io_send() pass on, see tls.c. They are sent when the socket takes them, without being asked.) */
bool io_has_unsent(const struct io *io);

/* Has the socket taken some of them since the last call? */
bool io_take_progress(struct io *io);

enum io_result { IO_DONE, IO_AGAIN, IO_END, IO_FAILED };

/* Receives once into room bytes. IO_DONE: *out_size > 0. IO_AGAIN: nothing now, `ready` rings when
 * there is. IO_END: the peer has closed its side. After a short read without a hang-up no second
 * recv is made. */
MUST_CHECK enum io_result io_recv(struct io *io, char *out, size_t room, size_t *out_size);

/* Sends once. IO_DONE: *out_size bytes were taken (perhaps fewer than given: then writable is false
 * and `ready` rings later). IO_AGAIN: none. Never raises SIGPIPE. */
MUST_CHECK enum io_result io_send(struct io *io, struct iovec *pieces, int count, size_t *out_size);

/* Receives once and throws away, session or not: of a peer that is no longer listened to. Results
 * are those of io_recv(). */
MUST_CHECK enum io_result io_discard(struct io *io, char *scratch, size_t room);

/* For tls.c: one recv and one send of the socket itself, with errno as they leave it, never EINTR.
 */
ssize_t io_receive(const struct io *io, char *out, size_t room);
ssize_t io_transmit(const struct io *io, const char *bytes, size_t size);

/* The pending error of a connecting socket, 0 when it is connected. */
int io_connect_error(struct io *io);

#endif
