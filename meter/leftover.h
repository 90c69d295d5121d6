/* SPDX-License-Identifier: Apache-2.0 */
/* meter/leftover.h: disk blocks that dead processes had reserved.
 *
 * For:       giving back what lies beyond the end of a file that nobody writes any more: a process
 *            that was killed could not.
 * Called by: journal.c, once the tables of dead processes are gone.
 * Knows not: what is in a file. */
#ifndef METER_LEFTOVER_H
#define METER_LEFTOVER_H

#include "meter/store.h"

/* A file whose process has no table any more, and is not ours, has no writer: it makes its table
 * before its first file and removes it behind its last. What does not work is left for the next
 * time. */
void leftover_release(const struct store *store);

#endif
