/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tap.h: reads a reply's usage, errors and shape in passing; pure.
 *
 * For:       tokens as reported, whatever way the bytes were cut; where a usage member lies, so that it can be cut out.
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

#define TAP_CHOICES_MAX 16

/* The raw numbers of a usage object; -1: absent or null. Numbers over 2^62, negative or with a fraction set suspect. */
struct tap_numbers {
    int64_t prompt, completion, total;
    int64_t cached, cache_write, reasoning;
    bool    suspect;
};

struct tap {
    /* the reader's own state: depth, container kinds, key under way, number under way … */
    uint8_t  state;
    uint8_t  key_size;
    uint16_t depth;
    uint64_t containers;       /* bit per level (up to 64): 1 = object; deeper levels are only counted */
    uint64_t deep_containers;
    char     key[40];
    uint8_t  path[4];          /* meaning of the key at levels 1 to 4 */
    int64_t  number;
    bool     number_bad, escaped, in_key, broken;
    uint8_t  utf;              /* spare */
    size_t   offset;           /* bytes read so far */
    size_t   member_at;        /* offset of the present top-level member's first byte (its key's quote) */
    size_t   comma_at;         /* offset of the comma before it, SIZE_MAX: it is the first */

    /* results so far */
    bool     has_usage;        /* a top-level usage that is an object */
    struct tap_numbers numbers;
    size_t   usage_at, usage_end; /* bytes of the usage member to cut: with the comma before it, or, as the first member, the comma after */
    bool     has_error;        /* a top-level "error" that is not null or false */
    bool     has_choices;      /* a top-level "choices" (or "data") list */
    int32_t  choices;          /* elements in it */
    int32_t  choice_index;     /* "index" of the last choice, -1: none */
    bool     finished;         /* some choice has a finish_reason that is not null */
    int64_t  text_bytes;       /* bytes of content, text, reasoning, refusal and tool-call arguments strings in choices (raw) */
};

void tap_init(struct tap *tap);

/* Reads a piece. What is not JSON sets broken; results so far stay. Cheap: strings are skipped with vector
 * compares. */
void tap_feed(struct tap *tap, struct span piece);

/* Was the document whole and sound? */
bool tap_whole(const struct tap *tap);

/* Running usage of one reply (a stream's events, or one body): DESIGN section 6, "the last wins, merged
 * field by field; with n > 1 the last of each choice is summed, input once". */
struct tally {
    struct tap_numbers total;   /* from the closing usage (choices empty) or a plain body */
    bool               has_total;
    struct tap_numbers shared;  /* prompt side of running usage */
    int64_t            completion[TAP_CHOICES_MAX], reasoning[TAP_CHOICES_MAX]; /* last of each choice, -1 */
    bool               has_running;
    bool               suspect;
    int64_t            text_bytes;
};

void tally_init(struct tally *tally);

/* Adds what one event (or body) said. A tap without usage adds its text_bytes only. */
void tally_add(struct tally *tally, const struct tap *tap);

/* The present totals as disjoint classes (facts: metering §4) and where they come from (SOURCE_REPORTED for a closing total,
 * SOURCE_RUNNING, SOURCE_NONE). *out_flags gets FLAG_USAGE_SUSPECT when classes contradict each other: then numbers are
 * clamped at 0 and the flag says so. */
enum usage_source tally_usage(const struct tally *tally, struct usage *out_usage, uint32_t *out_flags);

#endif
