/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/address.c: see address.h.
 *
 * For:       chained buckets under one lock; an entry lives while its address has a connection.
 * Called by: listener.c, link.c, tls_context.c, conn.c.
 * Knows not: sockets, names. */
#include "gateway/address.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"
#include "gateway/buffer.h"

#define BUCKETS 4096u
#define SAME_HOST_BYTES 8u

struct entry {
    struct entry *next;
    uint8_t name[16];
    uint32_t count;
};

static struct entry *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool address_parse(struct span host, uint16_t port, struct sockaddr_storage *out,
                   socklen_t *out_size)
{
    char text[INET6_ADDRSTRLEN];
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)out;

    memset(out, 0, sizeof *out);
    if (!span_to_text(host, text, sizeof text))
        return false;
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        *out_size = sizeof *four;
        return true;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        *out_size = sizeof *six;
        return true;
    }
    return false;
}

/* The address as it is counted. */
static void name_of(const struct in6_addr *address, uint8_t out[16])
{
    memcpy(out, address->s6_addr, 16);
    if (!IN6_IS_ADDR_V4MAPPED(address))
        memset(out + SAME_HOST_BYTES, 0, 16 - SAME_HOST_BYTES);
}

static struct entry **find(const uint8_t name[16])
{
    struct entry **link = &buckets[hash_text((struct span){(const char *)name, 16}) % BUCKETS];
    while (*link && memcmp((*link)->name, name, 16) != 0)
        link = &(*link)->next;
    return link;
}

bool address_enter(const struct in6_addr *address, uint32_t most)
{
    uint8_t name[16];
    bool entered = false;
    name_of(address, name);
    pthread_mutex_lock(&lock);
    struct entry **link = find(name);
    if (*link == NULL) {
        *link = calloc(1, sizeof **link);
        if (*link)
            memcpy((*link)->name, name, 16);
    }
    if (*link && (*link)->count < most) {
        (*link)->count++;
        entered = true;
    }
    pthread_mutex_unlock(&lock);
    return entered;
}

void address_leave(const struct in6_addr *address)
{
    uint8_t name[16];
    name_of(address, name);
    pthread_mutex_lock(&lock);
    struct entry **link = find(name);
    struct entry *entry = *link;
    if (entry && --entry->count == 0) {
        *link = entry->next;
        free(entry);
    }
    pthread_mutex_unlock(&lock);
}
