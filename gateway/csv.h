/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/csv.h: cells of comma-separated values, as RFC 4180 wants them.
 *
 * For:       reports that other programs read.
 * Called by: report.c, focus.c.
 * Knows not: what the cells say. */
#ifndef GATEWAY_CSV_H
#define GATEWAY_CSV_H

#include <stdio.h>

#include "config/base/span.h"

#define CSV_LINE_END "\r\n"

/* Text that somebody else chose, quoted where needed. A sheet would take one that begins with = + -
 * @ or a tab for a formula: it gets a ' in front. */
void csv_print_text(FILE *out, struct span text);

/* Text of our own, such as a number with its sign: quoted where needed, else as it is. */
void csv_print_plain(FILE *out, struct span text);

#endif
