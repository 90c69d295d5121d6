/* SPDX-License-Identifier: Apache-2.0 */
/* meter/underway.h: what has no row yet: the slots of all tables in a journal's folder.
 *
 * For:       who must know whether rows may still come, and of which requests.
 * Called by: invoice.c, audit.c; books_pending() of books.h is in underway.c, too.
 * Knows not: ledgers, invoices. */
#ifndef METER_UNDERWAY_H
#define METER_UNDERWAY_H

#include "meter/inflight.h"

/* A slot that is taken, or what hides some. */
struct underway {
    const char *file;        /* the table's name; of the folder itself: "." */
    int table_fd;            /* -1: of the folder */
    const struct slot *slot; /* a copy, whole; NULL: see why */
    const char *why;         /* not all can be read: static; else NULL */
};

/* Shows each slot of each process, living or dead, until visit returns false. Living ones go on
 * meanwhile: a slot that is freed in between may be shown or not. */
void underway_each(int directory_fd, bool (*visit)(void *owner, const struct underway *found),
                   void *owner);

/* Does the process of this table live? */
bool underway_is_alive(int table_fd);

#endif
