/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tap.h: reads a reply's usage, errors and shape in passing; pure.
 *
 * For:       tokens as reported, whatever way the bytes were cut; where a usage member lies, to be
 *            cut out.
 * Called by: relay.c.
 * Knows not: who pays; SSE (it gets the JSON of one event, or the pieces of one plain body).
 *
 * One struct tap reads one JSON document given in any number of pieces, byte-split-proof, with no
 * allocation. Usage members count only at the top level of the document. */
#ifndef GATEWAY_TAP_H
#define GATEWAY_TAP_H

#include "config/base/err.h"
#include "config/base/span.h"
#include "config/base/vocab.h"

#define TAP_CHOICES_MAX 16 /* choices whose running usage is told apart */
#define TAP_DEPTH_MAX 256  /* deeper documents are broken */
#define TAP_PLACES 8       /* levels in which members have a meaning */
#define TAP_KEY_BYTES 32   /* longest known key, and some */

/* The raw numbers of a usage object; -1: absent or null. suspect: a number was negative (0 is
 * kept), had a fraction (its whole part is kept), was over 2^53 or no number at all (then it is
 * absent); or total is not prompt + completion; or the document had two usage objects. */
struct tap_numbers {
    int64_t prompt, completion, total;
    int64_t cached, cache_write, reasoning;
    bool suspect;
};

struct tap {
    /* the reader's own state: what it is in the middle of, and how it got there */
    uint8_t state;
    uint8_t meaning;         /* of the value that is under way or comes next */
    bool in_key;             /* the string under way is a key */
    uint8_t key_size;        /* of a key that came in pieces or has escapes */
    uint8_t unicode_digits;  /* of the \u escape under way */
    uint16_t unicode;        /* its value so far */
    uint8_t number_flags;    /* of the number under way */
    bool usage_member;       /* the top-level member under way is usage */
    bool usage_comma;        /* usage was the first member: the comma behind it is cut too */
    bool usage_has_subtotal; /* cache numbers stand beside the input, not within it */
    uint16_t depth;
    uint8_t places[TAP_PLACES]; /* meaning of the open containers */
    int64_t number;
    const char *word; /* what must still come of true, false or null */
    size_t offset;    /* bytes read so far */
    size_t origin;    /* address of the document's first byte, were it one piece with this one */
    size_t member_at; /* offset of the present top-level member's first byte (its key's quote) */
    size_t comma_at;  /* offset of the comma before it, SIZE_MAX: it is the first */
    uint64_t kinds[TAP_DEPTH_MAX / 64]; /* a bit for each open container: 1 is an object */
    char key[TAP_KEY_BYTES];

    /* results so far */
    bool broken;    /* not JSON; the results are those of what was read before */
    bool has_usage; /* a top-level usage that is an object */
    struct tap_numbers numbers;
    size_t usage_at, usage_end; /* bytes of the usage member (also when it is null) to cut: with the
                                 * comma before it or, as the first member, the comma behind it */
    bool has_error;             /* a top-level "error" that is not null or false */
    bool has_choices;           /* a top-level "choices" (or "data") list */
    bool plain;                 /* the shape of a plain body: choices with a message, or data */
    int32_t choices;            /* elements in it */
    int32_t choice_index;       /* "index" of the last choice, -1: none */
    bool finished;              /* some choice has a finish_reason that is not null */
    int64_t text_bytes; /* bytes of content, text, reasoning, refusal and tool-call arguments
                         * strings in choices (raw) */
};

/* Begins a document. */
void tap_init(struct tap *tap);

/* Reads a piece. What is not JSON sets broken; results so far stay. Cheap: strings are skipped with
 * vector compares. UTF-8 is not checked. */
void tap_feed(struct tap *tap, struct span piece);

/* Was the document whole and sound? */
bool tap_whole(const struct tap *tap);

/* Running usage of one reply (a stream's events, or one body): the last one wins,
 * merged field by field; with n > 1 the last of each choice is summed, input once. For streams of
 * several prompts the prompt side of running usage is that of one prompt only; their closing total
 * is right. */
struct tally {
    bool whole_body;          /* set by the caller after tally_init(): the reply is no stream, so
                               * its usage is the total whatever its shape */
    struct tap_numbers total; /* from the closing usage (choices empty) or a plain body */
    bool has_total;
    struct tap_numbers shared; /* prompt side of running usage */
    int64_t completion[TAP_CHOICES_MAX], reasoning[TAP_CHOICES_MAX]; /* last of each
                                                                      * choice, -1 */
    bool has_running;
    bool suspect; /* running usage is */
    int64_t text_bytes;
};

/* Begins a reply: nothing known. */
void tally_init(struct tally *tally);

/* Adds what one event (or body) said. A tap without usage adds its text_bytes only. */
void tally_add(struct tally *tally, const struct tap *tap);

/* The present totals as disjoint classes and where they come from (SOURCE_REPORTED for a closing
 * total, SOURCE_RUNNING, SOURCE_NONE). *out_flags gets
 * FLAG_USAGE_SUSPECT when numbers are suspect or classes contradict each other: then cached,
 * written and reasoning tokens are lowered to what prompt and completion leave for them, so that no
 * class is below 0 and the sums stay those that were reported. Other flags stay. */
enum usage_source tally_usage(const struct tally *tally, struct usage *out_usage,
                              uint32_t *out_flags);

#endif
