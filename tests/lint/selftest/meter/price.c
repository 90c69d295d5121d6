/* SPDX-License-Identifier: Apache-2.0 */
/* meter/price.c: planted: each marked line breaks the rule that it names.
 *
 * For:       showing that the lint can fail. */
#include "config/base/clock.h" /* lint: pure */
#include "config/base/span.h"
#include "config/config.h"
#include "config/reader.h"  /* lint: door */
#include "gateway/conn.h"   /* lint: arrow */
#include "meter/tokens.h"
#include "router/router.h"  /* lint: arrow */
#include <stdint.h>
#include <sys/socket.h>     /* lint: pure */

/* Calls in comments and texts are none: strcpy(a, b). */
static const char *text = "sprintf(a, b)";

void copy(char *to, const char *from)
{
    strcpy(to, from); /* lint: banned */
    snprintf(to, 1, "%s", text);
    (void)atoi (from); /* lint: banned */
}

/* This line is much longer than the hundred columns that a reader's window has, so it is found too. lint: columns */
