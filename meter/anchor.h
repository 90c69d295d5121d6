/* SPDX-License-Identifier: Apache-2.0 */
/* meter/anchor.h: the journal's newest line told to places that the operator names.
 *
 * For:       a file that anchors are appended to, a command that reads each from its standard
 *            input.
 * Called by: keeper.c, on its thread alone.
 * Knows not: where news come from, when they are due. */
#ifndef METER_ANCHOR_H
#define METER_ANCHOR_H

#include <sys/types.h>

#include "config/base/span.h"

#define ANCHOR_BYTES_MAX 2048
#define ANCHOR_COMMAND_NS (UINT64_C(30) * 1000000000)

struct anchor {
    char *file;    /* path; NULL: none */
    char *command; /* for /bin/sh -c; NULL: none */

    char line[ANCHOR_BYTES_MAX]; /* being told */
    size_t line_bytes;           /* 0: nothing is */
    bool file_due, command_due;  /* where it was not told yet */
    pid_t child;                 /* the command at work; 0: none */
    uint64_t child_ns;           /* since when */
    uint64_t retry_ns;           /* not before, after a failure */
    bool failing;                /* logged */
    char problem[256];
};

enum anchor_state { ANCHOR_IDLE, ANCHOR_UNDER_WAY, ANCHOR_TOLD };

/* Copies the paths; either may be {NULL, 0}. Errors: false without memory. */
MUST_CHECK bool anchor_init(struct anchor *anchor, struct span file, struct span command);
void anchor_fini(struct anchor *anchor); /* kills a command at work */

/* Is there a place to tell to? */
bool anchor_has_place(const struct anchor *anchor);

/* A new line, with its newline, in the place of one that could not be told. Only while no command
 * is at work. */
void anchor_begin(struct anchor *anchor, struct span line);

/* Goes on with what is to be told; waits for nothing. TOLD comes once, when the line is in all
 * places. Failures are counted, logged once, and tried again. */
enum anchor_state anchor_go_on(struct anchor *anchor, uint64_t now_ns);

#endif
