/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/sse.h: splits server-sent events; pure.
 *
 * For:       whole events out of bytes that were cut anywhere (WHATWG HTML, section 9.2.6).
 * Called by: relay.c.
 * Knows not: what is in an event. */
#ifndef GATEWAY_SSE_H
#define GATEWAY_SSE_H

#include "config/base/span.h"
#include "config/base/vocab.h"

/* Where the search stands in the bytes of an event that is not whole yet. Zeroed at first. */
struct sse {
    size_t scanned;  /* bytes of the unfinished event already searched */
    bool line_full;  /* the line at `scanned` has bytes before it */
    bool after_cr;   /* the byte before `scanned` was CR: an LF belongs to it */
    bool had_lf_due; /* the last event ended in a CR at the end of its bytes: a leading LF of the
                      * next bytes belongs to that line end */
};

/* Size of the first event at the front of bytes, its blank line included; 0: not whole yet, call
 * again with the same bytes and more behind them. A lone blank line counts as an (empty) event.
 * Lines end in LF, CR or CRLF; an event whose blank line ends in CR at the very end of bytes is
 * whole (a following LF goes to the front of the next event's bytes, and may be all that is left at
 * the end of a stream). Searches each byte once. */
size_t sse_next(struct sse *sse, struct span bytes);

/* The data of an event: its data lines joined with LF. One line: points into event; several: joined
 * into scratch (at least event.size bytes). {NULL, 0}: the event has no data line (comment, id only
 * …). */
struct span sse_data(struct span event, char *scratch);

/* Is this data the end mark ("[DONE]")? Spaces around it are allowed. */
bool sse_is_done(struct span data);

#endif
