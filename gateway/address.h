/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/address.h: what an address is, and how many connections it has.
 *
 * For:       hosts written as addresses; limits.conns_per_ip, over all workers.
 * Called by: listener.c, link.c and tls_context.c (parse), conn.c (count).
 * Knows not: sockets, names.
 * One short lock; IPv6 counts by /64, since one host has all of it. */
#ifndef GATEWAY_ADDRESS_H
#define GATEWAY_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "config/base/vocab.h"

/* host (IPv4 or IPv6, without brackets) and port as a socket address of *out_size bytes; false:
 * host is not an address. */
MUST_CHECK bool address_parse(struct span host, uint16_t port, struct sockaddr_storage *out,
                              socklen_t *out_size);

/* Counts one more; false (and not counted): the address has as many as it may, or there is no
 * memory. */
MUST_CHECK bool address_enter(const struct in6_addr *address, uint32_t most);

/* Counts one less. */
void address_leave(const struct in6_addr *address);

#endif
