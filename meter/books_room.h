/* SPDX-License-Identifier: Apache-2.0 */
/* meter/books_room.h: what the files behind books.h share.
 *
 * For:       where journal and ledger of open books lie.
 * Called by: books.c, invoice.c, adjust.c, rerate.c, audit*.c, keeper.c.
 * Knows not: SQL. */
#ifndef METER_BOOKS_ROOM_H
#define METER_BOOKS_ROOM_H

#include <limits.h>

#include "meter/books.h"
#include "meter/ledger.h"

struct books {
    int directory_fd; /* of the journal */
    char directory[PATH_MAX];
    char ledger_path[PATH_MAX];
    char aside[PATH_MAX]; /* books_aside() of what was not opened */
    struct ledger *ledger;
    bool foreign; /* the ledger is of another journal; opened for an audit */
};

#endif
