/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/rewrite.h: answers that do not pass byte for byte.
 *
 * For:       error bodies of a shape that the client does not know, and answers translated from
 *            chat completions into the API that was asked for.
 * Called by: relay.c.
 * Knows not: sockets, framing, usage.
 *
 * As in relay.h: what needs the exchange or the answer's head takes the attempt. */
#ifndef GATEWAY_REWRITE_H
#define GATEWAY_REWRITE_H

#include "config/base/err.h"
#include "gateway/writer.h"

struct attempt;
struct relay;

/* What becomes of an attempt's answer. */
enum rewrite {
    REWRITE_NOTHING, /* it passes as it comes */
    REWRITE_ERROR, /* kept until it is whole, then put into the client's shape if it has another */
    REWRITE_WHOLE, /* kept until it is whole, then translated */
    REWRITE_EVENTS /* translated event by event */
};

/* The head has come (status, events, content coding are set): decides. Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err rewrite_begin(struct attempt *attempt);

/* Keeps a piece of a body that is to be whole. ERR_TOO_LARGE: there is more than is kept; an error
 * body then passes as it came (rewrite_give_up()), a translated one cannot. ERR_NO_MEMORY. */
MUST_CHECK enum err rewrite_keep(struct attempt *attempt, struct span piece);

/* Takes what was kept out, and rewrites nothing further. The caller frees it. */
struct buffer rewrite_give_up(struct relay *relay);

/* The body is whole: what the client gets of it goes to out. Errors: ERR_REPLICA_PROTOCOL (not what
 * the API says), ERR_NO_MEMORY, ERR_TOO_LARGE. */
MUST_CHECK enum err rewrite_whole(struct attempt *attempt, struct writer *out);

/* One event's data, translated; and the end of the stream. The same errors. */
MUST_CHECK enum err rewrite_event(struct relay *relay, struct span data, struct writer *out);
MUST_CHECK enum err rewrite_events_end(struct relay *relay, struct writer *out);

/* The number that the next event bears, where events have one. */
int64_t rewrite_sequence(const struct relay *relay);

/* Frees what belongs to it. */
void rewrite_fini(struct relay *relay);

#endif
