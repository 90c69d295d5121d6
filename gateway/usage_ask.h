/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_ask.h: columns and buckets of a question to the books, as an operator writes them.
 *
 * For:       one reading of them, on the command line and in a query string.
 * Called by: cmd_usage.c, usage_api.c.
 * Knows not: where the words come from, what is answered. */
#ifndef GATEWAY_USAGE_ASK_H
#define GATEWAY_USAGE_ASK_H

#include "meter/books.h"

/* A column's name, or tag:NAME. Only one tag in a question: it stands in the place of all. Texts
 * are borrowed, here and below. false: there is no such column, or it is a second tag. */
MUST_CHECK bool usage_ask_column(struct books_ask *ask, struct span name,
                                 enum books_column *out_column);

/* Adds the columns of "tenant,model". false: one is not known or comes twice, or too many. */
MUST_CHECK bool usage_ask_by(struct books_ask *ask, struct span names);

/* "hour", "day", "week" or "month". false: it is none of them. */
MUST_CHECK bool usage_ask_bucket(struct books_ask *ask, struct span unit);

#endif
