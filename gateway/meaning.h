/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/meaning.h: what a value of a reply means to the tap, by where it stands; pure.
 *
 * For:       one name for what each API calls in its own way.
 * Called by: tap.c.
 * Knows not: bytes, what is done with a value. */
#ifndef GATEWAY_MEANING_H
#define GATEWAY_MEANING_H

#include "config/base/span.h"

/* Of containers what they hold, of all else what they say. The order counts: objects, lists, the
 * rest; numbers of usage last. */
enum meaning {
    NOTHING,
    /* objects; ROOT is that of chat completions and all that has none of its own */
    ROOT,
    PROMPT_DETAILS,
    COMPLETION_DETAILS,
    CHOICE,
    DELTA,
    TOOL_CALL,
    FUNCTION,
    RESPONSES_ROOT,
    RESPONSE, /* the whole answer in an event */
    OUTPUT_ITEM,
    OUTPUT_PART,
    MESSAGES_ROOT,
    MESSAGE, /* the answer's begin in an event */
    BLOCK,
    BLOCK_DELTA,
    MESSAGES_USAGE, /* from here to DATA: to open them says something, see note_open() */
    USAGE,
    TOOL_INPUT, /* counted as text, whole */
    /* lists */
    CHOICES,
    DATA,
    TOOL_CALLS,
    OUTPUT,
    OUTPUT_PARTS,
    BLOCKS,
    /* the rest: scalars */
    ERROR,
    FINISH_REASON,
    INDEX,
    SEQUENCE,
    EVENT_TYPE,
    TEXT,
    PROMPT_TOKENS,
    COMPLETION_TOKENS,
    TOTAL_TOKENS,
    CACHED_TOKENS,
    CACHE_WRITE_TOKENS,
    REASONING_TOKENS
};

/* Of the member `key` (without escapes) of an object that means `place`; NOTHING: it is passed
 * over. */
enum meaning meaning_of(enum meaning place, struct span key);

#endif
