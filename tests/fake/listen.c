/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/listen.c: where clients come in.
 *
 * For:       listening sockets: IPv4, IPv6, a path.
 * Called by: main.c, server.c.
 * Knows not: what comes of a connection. */
#include "tests/fake/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

struct listener listeners[LISTENERS_MOST];
unsigned listener_count;

/* Binds and listens; returns the descriptor or -1. */
static int open_at(const struct sockaddr *address, socklen_t address_bytes)
{
    int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, address_bytes) != 0 || listen(fd, BACKLOG) != 0) {
        int cause = errno;
        close(fd);
        errno = cause;
        return -1;
    }
    return fd;
}

static void add(int fd, const char *path)
{
    listeners[listener_count++] = (struct listener){fd, path};
}

int listen_open(const char *host, int port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.six = {.sin6_family = AF_UNSPEC}};
    socklen_t address_bytes = sizeof address.four;

    if (inet_pton(AF_INET, host, &address.four.sin_addr) == 1) {
        address.four.sin_family = AF_INET;
        address.four.sin_port = htons((uint16_t)port);
    } else if (inet_pton(AF_INET6, host, &address.six.sin6_addr) == 1) {
        address.six.sin6_family = AF_INET6;
        address.six.sin6_port = htons((uint16_t)port);
        address_bytes = sizeof address.six;
    } else {
        errno = EINVAL;
        return -1;
    }
    int fd = open_at(&address.any, address_bytes);
    if (fd < 0 || getsockname(fd, &address.any, &address_bytes) != 0)
        return -1;
    add(fd, NULL);
    return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
}

bool listen_open_path(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat there;
    size_t bytes = strlen(path);

    if (bytes >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(address.sun_path, path, bytes);
    if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode))
        unlink(path);
    int fd = open_at((const struct sockaddr *)&address, sizeof address);
    if (fd < 0)
        return false;
    add(fd, path);
    return true;
}

void listen_close(void)
{
    for (unsigned i = 0; i < listener_count; i++) {
        if (listeners[i].path != NULL)
            unlink(listeners[i].path);
        close(listeners[i].fd);
    }
    listener_count = 0;
}
