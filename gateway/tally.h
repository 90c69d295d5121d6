/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tally.h: the tokens of one reply, from what its documents say; pure.
 *
 * For:       a whole body's usage, or a stream's: running numbers, and the total that closes it.
 * Called by: relay.c.
 * Knows not: bytes (tap.h reads them), who pays.
 *
 * The last number wins, field by field; with n > 1 the last of each choice is summed, input once.
 * For streams of several prompts the prompt side of running usage is that of one prompt only; their
 * closing total is right. */
#ifndef GATEWAY_TALLY_H
#define GATEWAY_TALLY_H

#include "config/base/vocab.h"
#include "gateway/tap.h"

struct tally {
    bool whole_body;          /* set by the caller after tally_init(): the reply is no stream, so
                               * its usage is the total whatever its shape */
    bool per_choice;          /* set likewise: what closes a stream of several choices is said once
                               * for each, when it has ended, and a whole body tells of its first
                               * alone (llama.cpp) */
    struct tap_numbers total; /* from the closing usage (choices empty) or a plain body */
    bool has_total;
    struct tap_numbers shared; /* prompt side of running usage */
    int64_t completion[TAP_CHOICES_MAX], reasoning[TAP_CHOICES_MAX]; /* last of each
                                                                      * choice, -1 */
    bool has_running;
    bool suspect;  /* running usage is */
    uint32_t seen; /* per_choice: bits of the choices that have come */
    int32_t last;  /* per_choice: the last of them */
    bool beside;   /* cache numbers stand beside the prompt's, not within (TAP_MESSAGES) */
    int64_t text_bytes;
    int64_t pieces; /* events that bore text */
};

/* Begins a reply: nothing known. */
void tally_init(struct tally *tally);

/* Adds what one event (or body) said. A tap without usage adds its text_bytes only. */
void tally_add(struct tally *tally, const struct tap *tap);

/* The present totals as disjoint classes and where they come from: SOURCE_REPORTED for a closing
 * total, SOURCE_RUNNING before it, SOURCE_NONE without any number.
 *
 * A class that is not known is -1. Of SOURCE_RUNNING that can be all that was written: a message's
 * stream names its input with its first event and its output with its last, so when it is cut in
 * between, input is what was reported and output and reasoning are -1. Who wants them must estimate
 * them, by text_bytes.
 *
 * *out_flags gets FLAG_USAGE_SUSPECT when numbers are suspect or classes contradict each other:
 * then cached, written and reasoning tokens are lowered to what prompt and completion leave for
 * them, so that no class is below 0 and the sums stay those that were reported. Other flags stay.
 */
enum usage_source tally_usage(const struct tally *tally, struct usage *out_usage,
                              uint32_t *out_flags);

#endif
