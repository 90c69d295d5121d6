/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/names.h: the addresses of a name.
 *
 * For:       looking names up without blocking a loop. An answer is kept for a few seconds, so that
 *            a burst of new connections asks once; each asker gets the list rotated by one more, so
 *            that all addresses are used.
 * Called by: link.c (ask), server.c (poll).
 * Knows not: who connects, ports, protocols.
 * Thread:    one worker; each has names of its own. */
#ifndef GATEWAY_NAMES_H
#define GATEWAY_NAMES_H

#include <netinet/in.h>

#include "config/config.h"

#define NAME_ADDRESSES_MAX 16u

union name_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

struct name_answer {
    uint32_t count;                                   /* 0: see problem */
    const char *problem;                              /* why there is none; a static text */
    union name_address addresses[NAME_ADDRESSES_MAX]; /* port 0 */
};

/* Somebody who waits for a name. Embedded in its owner. */
struct name_wait {
    struct name_wait *next, **link; /* link NULL: not waiting */
    /* Called once, from names_ask() itself when the answer is known. The answer is borrowed. Must
     * not ask or cancel. */
    void (*answered)(struct name_wait *wait, const struct name_answer *answer);
};

struct names;

/* Asks for a host's addresses; wait->answered() tells them. names: made here when *names is NULL;
 * servers: of the configuration, asked instead of those of the system when there are any.
 * Errors: ERR_NO_MEMORY (too many names at once, too). */
MUST_CHECK enum err names_ask(struct names **names, const struct config *config, struct span host,
                              uint64_t now_ns, struct name_wait *wait);

/* Takes a question back. Safe on one that does not wait. */
void names_cancel(struct name_wait *wait);

/* Is a look-up under way, so that names_poll() must be called every few milliseconds? NULL is fine.
 */
bool names_pending(const struct names *names);

/* Hears answers. */
void names_poll(struct names *names, uint64_t now_ns);

/* Ends all look-ups (who waits is told that there is no answer) and frees. NULL is fine. */
void names_free(struct names *names);

#endif
