/* SPDX-License-Identifier: Apache-2.0 */
/* meter/retire.h: files of the journal that have served their time.
 *
 * For:       meter.keep: deleting them without breaking the chain's proof.
 * Called by: keeper.c, on its thread alone.
 * Knows not: when it is time to look.
 *
 * Before a file goes, its open and head lines are appended to retired.jsonl: the next file's open
 * line names that head, and the head its own line before. Kept are: what the ledger has not whole,
 * the newest file of each gateway (its epoch's number must not come again), the last two files of
 * each epoch whose table exists (recovery reads them), and what was written after the newest open
 * line of its gateway (balances start there). */
#ifndef METER_RETIRE_H
#define METER_RETIRE_H

#include "meter/books_room.h"

#define RETIRED_FILE "retired.jsonl"

/* Deletes closed files written to the end before `before_us` (wall). *out_files: how many.
 * Errors: ERR_INTERNAL, ERR_NO_MEMORY, with a problem. */
MUST_CHECK enum err retire_files(struct books *books, int64_t before_us, uint32_t *out_files,
                                 char *problem, size_t problem_size);

#endif
