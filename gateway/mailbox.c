/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/mailbox.c: see mailbox.h.
 *
 * For:       a list that any thread pushes to and its owner takes whole.
 * Called by: server.c (owner, news), exchange.c (grants).
 * Knows not: what is in a letter. */
#include "gateway/mailbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum err mailbox_init(struct mailbox *mailbox)
{
    atomic_init(&mailbox->newest, NULL);
    mailbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return mailbox->fd >= 0 ? OK : ERR_NO_MEMORY;
}

void mailbox_fini(struct mailbox *mailbox)
{
    if (mailbox->fd >= 0)
        close(mailbox->fd);
    mailbox->fd = -1;
}

void mailbox_post(struct mailbox *mailbox, struct letter *letter)
{
    struct letter *before = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    do
        letter->next = before;
    while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &before, letter,
                                                  memory_order_acq_rel, memory_order_relaxed));
    if (before == NULL) {
        const uint64_t one = 1;
        while (write(mailbox->fd, &one, sizeof one) < 0 && errno == EINTR)
            continue;
    }
}

void mailbox_read(struct mailbox *mailbox)
{
    uint64_t count;
    while (read(mailbox->fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
    struct letter *newest = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acq_rel);
    struct letter *oldest = NULL;
    while (newest) {
        struct letter *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct letter *letter = oldest;
        oldest = letter->next;
        letter->next = NULL;
        letter->read(letter);
    }
}
