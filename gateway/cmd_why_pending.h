/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_why_pending.h: requests that tollgate why finds no row of, yet.
 *
 * For:       cmd_why.c: which process has them, and when their rows come.
 * Called by: cmd_why.c.
 * Knows not: rows. */
#ifndef GATEWAY_CMD_WHY_PENDING_H
#define GATEWAY_CMD_WHY_PENDING_H

#include <jansson.h>

#include "meter/books.h"

/* The exchange or trace id in a longer id: of an answer's body (chatcmpl-ID, msg_ID, resp_ID,
 * msg_ID_0), of a traceparent. {NULL, 0}: there is none. */
struct span cmd_why_inner_id(struct span id);

/* Adds a tree for each request without a row that bears the id. What cannot be read is said on
 * standard error. false: no memory. */
MUST_CHECK bool cmd_why_add_pending(struct books *books, struct span id, json_t *array);

/* The same in words, on standard error. */
void cmd_why_print_pending(const json_t *array);

#endif
