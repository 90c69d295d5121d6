/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tap.h: reads a reply's usage, errors and shape in passing; pure.
 *
 * For:       tokens as reported, whatever way the bytes were cut; where a usage member lies, to be
 *            cut out.
 * Called by: relay.c, tally.c.
 * Knows not: who pays; SSE (it gets the JSON of one event, or the pieces of one plain body).
 *
 * One struct tap reads one JSON document given in any number of pieces, byte-split-proof, with no
 * allocation. Usage counts only where the shape has it: at the top level, and in the response or
 * message that an event bears. */
#ifndef GATEWAY_TAP_H
#define GATEWAY_TAP_H

#include "config/base/err.h"
#include "config/base/span.h"
#include "config/base/vocab.h"

#define TAP_CHOICES_MAX 16 /* choices whose running usage is told apart */
#define TAP_DEPTH_MAX 256  /* deeper documents are broken */
#define TAP_PLACES 8       /* levels in which members have a meaning */
#define TAP_KEY_BYTES 32   /* longest known key, and some */

/* Whose documents are read. */
enum tap_shape {
    TAP_CHAT,      /* chat completions; and embeddings, rerank, transcriptions and all others that
                    * have their usage at the top level, if any */
    TAP_RESPONSES, /* bodies and events of /v1/responses */
    TAP_MESSAGES   /* bodies and events of /v1/messages */
};

/* The raw numbers of a usage object; -1: absent or null. suspect: a number was negative (0 is
 * kept), had a fraction (its whole part is kept), was over 2^53 or no number at all (then it is
 * absent); or total is not prompt + completion; or the document had two usage objects. In
 * TAP_MESSAGES prompt is without cached and cache_write, elsewhere with them. */
struct tap_numbers {
    int64_t prompt, completion, total;
    int64_t cached, cache_write, reasoning;
    bool suspect;
};

struct tap {
    /* the reader's own state: what it is in the middle of, and how it got there */
    uint8_t state;
    uint8_t shape;
    uint8_t meaning;        /* of the value that is under way or comes next */
    bool in_key;            /* the string under way is a key */
    bool kept;              /* it goes to `key`: it is a key or an event's type */
    uint8_t key_size;       /* of a key that came in pieces or has escapes */
    uint8_t unicode_digits; /* of the \u escape under way */
    uint16_t unicode;       /* its value so far */
    uint8_t number_flags;   /* of the number under way */
    bool usage_member;      /* the top-level member under way is usage, and may be cut out */
    bool usage_comma;       /* usage was the first member: the comma behind it is cut too */
    uint16_t depth;
    uint8_t places[TAP_PLACES]; /* meaning of the open containers */
    size_t offset;              /* bytes read so far */
    size_t comma_at; /* offset of the comma before the present top-level member, SIZE_MAX: it is the
                      * first */

    /* results so far */
    bool broken;    /* not JSON; the results are those of what was read before */
    bool has_usage; /* a usage that is an object */
    struct tap_numbers numbers;
    size_t usage_at, usage_end; /* TAP_CHAT: bytes of the usage member (also when it is null) to
                                 * cut: with the comma before it or, as the first member, the comma
                                 * behind it */
    bool has_error;       /* an "error" that is not null or false, or an event that tells of one */
    bool started;         /* the event message_start */
    bool ended;           /* an event with which its stream ends: response.completed, .incomplete or
                           * .failed, message_stop, error */
    bool has_choices;     /* a top-level "choices" (or "data") list */
    bool plain;           /* the shape of a plain body: choices with a message, or data */
    bool finished;        /* some choice has a finish_reason (the message a stop_reason) that is not
                           * null */
    int32_t choices;      /* elements in it */
    int32_t choice_index; /* "index" of the last choice, -1: none */
    int64_t sequence;     /* sequence_number of a responses event, -1: none */
    int64_t text_bytes;   /* bytes of what the model wrote (raw): content, text, reasoning, refusal,
                           * arguments of tool calls */

    /* the reader's own again, written before it is read */
    int64_t number;
    const char *word; /* what must still come of true, false or null */
    size_t origin;    /* address of the document's first byte, were it one piece with this one */
    size_t member_at; /* offset of the present top-level member's first byte (its key's quote) */
    size_t input_at;  /* offset of a tool's input */
    uint64_t kinds[TAP_DEPTH_MAX / 64]; /* a bit for each open container: 1 is an object */
    char key[TAP_KEY_BYTES];
};

/* Begins a document. */
void tap_init(struct tap *tap, enum tap_shape shape);

/* Reads a piece. What is not JSON sets broken; results so far stay. Cheap: strings are skipped with
 * vector compares. UTF-8 is not checked. */
void tap_feed(struct tap *tap, struct span piece);

/* How the events of one stream begin: most have their first half in common, which is then read
 * once. Zeroed: nothing is known yet. */
#define TAP_MEMO_BYTES 224
struct tap_memo {
    uint16_t seen;  /* bytes kept of the first event; 0: none has come */
    uint16_t alike; /* bytes that the others are expected to begin with; 0: not known */
    bool settled;   /* alike is known, or there is nothing to gain */
    char text[TAP_MEMO_BYTES];
    struct tap after; /* the reader behind the first `alike` bytes of text */
};

/* Reads one event whole, as tap_init() and tap_feed() would: the results are the same. */
void tap_read_event(struct tap *tap, struct tap_memo *memo, enum tap_shape shape,
                    struct span event);

/* Was the document whole and sound? */
bool tap_whole(const struct tap *tap);

#endif
