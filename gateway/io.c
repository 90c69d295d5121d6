/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/io.c: see io.h.
 *
 * For:       recv and send. One of each is most of what a relayed request costs, so neither is made
 *            without a reason to expect bytes (or room) for it.
 * Called by: conn.c, h2.c, link.c, replica.c; server.c registers, accepts and tells edges; tls.c.
 * Knows not: what the bytes mean. */
#include "gateway/io.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gateway/tls.h"

#define TOGETHER_BYTES_MAX 4096u

void io_edge(struct io *io, uint32_t events)
{
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        io->readable = io->hung_up = true;
    if (events & EPOLLIN)
        io->readable = true;
    if (events & EPOLLOUT)
        io->writable = true;
    if (io->tls)
        tls_edge(io, events);
    io->ready(io);
}

enum err io_open(struct io *io, int epoll_fd, int fd, void (*ready)(struct io *io))
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = io};
    io->fd = fd;
    io->tls = NULL;
    io->readable = false;
    io->writable = true;
    io->hung_up = false;
    io->connecting = false;
    io->ready = ready;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        io->fd = -1;
        return ERR_NO_MEMORY;
    }
    return OK;
}

void io_close(struct io *io, bool reset)
{
    if (io->fd < 0)
        return;
    if (reset) {
        const struct linger linger = {.l_onoff = 1, .l_linger = 0};
        setsockopt(io->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    tls_free(io);
    close(io->fd);
    io->fd = -1;
    io->readable = io->writable = false;
}

void io_finish(struct io *io, bool whole)
{
    if (io->tls)
        tls_finish(io, whole);
    else
        shutdown(io->fd, SHUT_WR);
}

void io_bye(struct io *io)
{
    if (io->tls)
        tls_bye(io);
}

bool io_has_unsent(const struct io *io)
{
    return io->tls && tls_has_unsent(io);
}

bool io_take_progress(struct io *io)
{
    return io->tls && tls_take_progress(io);
}

/* Straight to the kernel: libc's recv() and send() are cancellation points, which a process with
 * threads pays for at every call, and nobody here is ever cancelled. */
ssize_t io_receive(const struct io *io, char *out, size_t room)
{
    ssize_t got;
    do
        got = syscall(SYS_recvfrom, io->fd, out, room, 0, NULL, NULL);
    while (got < 0 && errno == EINTR);
    return got;
}

static enum io_result receive(struct io *io, char *out, size_t room, size_t *out_size)
{
    const ssize_t got = io_receive(io, out, room);
    *out_size = 0;
    if (got > 0) {
        *out_size = (size_t)got;
        /* A short read has emptied the socket; the next edge tells of more. After a hang-up no edge
         * comes. */
        if ((size_t)got < room && !io->hung_up)
            io->readable = false;
        return IO_DONE;
    }
    io->readable = false;
    if (got == 0)
        return IO_END;
    return errno == EAGAIN || errno == EWOULDBLOCK ? IO_AGAIN : IO_FAILED;
}

enum io_result io_recv(struct io *io, char *out, size_t room, size_t *out_size)
{
    return io->tls ? tls_recv(io, out, room, out_size) : receive(io, out, room, out_size);
}

enum io_result io_discard(struct io *io, char *scratch, size_t room)
{
    size_t size;
    return receive(io, scratch, room, &size);
}

ssize_t io_transmit(const struct io *io, const char *bytes, size_t size)
{
    ssize_t sent;
    do
        sent = syscall(SYS_sendto, io->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
    while (sent < 0 && errno == EINTR);
    return sent;
}

/* A few small pieces cost less copied together than told to the kernel one by one. */
static ssize_t transmit(int fd, struct iovec *pieces, int count, size_t bytes)
{
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    char together[TOGETHER_BYTES_MAX] UNINITIALIZED;
    const char *from = together;
    if (bytes > sizeof together) {
        const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
        return syscall(SYS_sendmsg, fd, &message, flags);
    }
    if (count == 1)
        from = pieces[0].iov_base;
    for (size_t i = 0, at = 0; count > 1 && i < (size_t)count; at += pieces[i++].iov_len)
        memcpy(together + at, pieces[i].iov_base, pieces[i].iov_len);
    return syscall(SYS_sendto, fd, from, bytes, flags, NULL, 0);
}

enum io_result io_send(struct io *io, struct iovec *pieces, int count, size_t *out_size)
{
    size_t wanted = 0;
    ssize_t sent;
    if (io->tls)
        return tls_send(io, pieces, count, out_size);
    *out_size = 0;
    for (int i = 0; i < count; i++)
        wanted += pieces[i].iov_len;
    do
        sent = transmit(io->fd, pieces, count, wanted);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        *out_size = (size_t)sent;
        io->writable = (size_t)sent == wanted;
        return IO_DONE;
    }
    io->writable = false;
    return errno == EAGAIN || errno == EWOULDBLOCK ? IO_AGAIN : IO_FAILED;
}

int io_connect_error(struct io *io)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    return error;
}
