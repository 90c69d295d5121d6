/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/mailbox.h: from one worker to another.
 *
 * For:       a multi-producer list and an eventfd, written only when the list was empty.
 * Called by: server.c (owner, news), exchange.c (grants).
 * Knows not: what is in a letter. */
#ifndef GATEWAY_MAILBOX_H
#define GATEWAY_MAILBOX_H

#include <stdatomic.h>

#include "config/base/err.h"
#include "config/base/vocab.h"

/* Embedded in what is sent; in one mailbox at a time. */
struct letter {
    struct letter *next;
    void (*read)(struct letter *letter); /* on the owner's thread */
};

struct mailbox {
    _Atomic(struct letter *) newest;
    int fd; /* eventfd, readable when a letter waits */
};

/* An empty mailbox. Errors: ERR_NO_MEMORY (no descriptor for it). */
MUST_CHECK enum err mailbox_init(struct mailbox *mailbox);

/* Closes its descriptor (a worker's is closed by the io that waits for it). Letters that still lie
 * in it are not read. */
void mailbox_fini(struct mailbox *mailbox);

/* Any thread. The letter belongs to the receiver until read() is called. */
void mailbox_post(struct mailbox *mailbox, struct letter *letter);

/* Owner's thread: reads all letters in the order they were posted. */
void mailbox_read(struct mailbox *mailbox);

#endif
