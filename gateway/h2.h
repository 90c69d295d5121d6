/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/h2.h: HTTP/2 to exchanges and back                         (nghttp2, in h2.c alone)
 *
 * For:       one session per conn; our own counts of header bytes and fields, resets, odd frames.
 * Called by: conn.c.
 * Knows not: keys, models, steps.
 * Thread:    that of the conn. */
#ifndef GATEWAY_H2_H
#define GATEWAY_H2_H

#include "gateway/conn.h"

/* Begins a session on a conn whose first bytes were the preface. Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err h2_open(struct conn *conn);

/* Frees the session; open exchanges are abandoned first. */
void h2_close(struct conn *conn);

/* Bytes that came. false: the conn must be closed (what is pending is flushed first by h2_flush).
 */
MUST_CHECK bool h2_receive(struct conn *conn, struct span bytes);

/* An exchange's answer moved on: submits the head, resumes deferred data, or resets. Flushing comes
 * later. */
void h2_answer(struct exchange *x);

/* Gathers frames and sends, until the socket is full or nothing is left. false: the conn is
 * finished and flushed (or failed): close it. */
MUST_CHECK bool h2_flush(struct conn *conn);

/* GOAWAY; streams under way go on. */
void h2_drain(struct conn *conn);

/* When the conn must be looked at again (idle, settings, ping, write progress); 0: never. */
uint64_t h2_deadline(const struct conn *conn);

/* The deadline came. false: close the conn. */
MUST_CHECK bool h2_due(struct conn *conn);

/* Requests under way. */
uint32_t h2_open_streams(const struct conn *conn);

#endif
