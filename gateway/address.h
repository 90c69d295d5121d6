/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/address.h: how many connections an address has.
 *
 * For:       limits.conns_per_ip, over all workers.
 * Called by: conn.c.
 * Knows not: sockets.
 * One short lock; IPv6 counts by /64, since one host has all of it. */
#ifndef GATEWAY_ADDRESS_H
#define GATEWAY_ADDRESS_H

#include <netinet/in.h>

#include "config/base/vocab.h"

/* Counts one more; false (and not counted): the address has as many as it may, or there is no
 * memory. */
MUST_CHECK bool address_enter(const struct in6_addr *address, uint32_t most);

/* Counts one less. */
void address_leave(const struct in6_addr *address);

#endif
