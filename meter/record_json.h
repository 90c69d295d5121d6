/* SPDX-License-Identifier: Apache-2.0 */
/* meter/record_json.h: JSON as rows are spelt, read; pure.
 *
 * For:       values, names and what stands between them, one after another.
 * Called by: record.c.
 * Knows not: which fields a row has.
 *
 * Each function begins at reader->at and leaves it behind what it read. false: it is not there;
 * reader->fault says what is wrong at reader->at. Spans borrow from what is read. */
#ifndef METER_RECORD_JSON_H
#define METER_RECORD_JSON_H

#include "config/base/err.h"
#include "config/base/span.h"

struct record_reader {
    const char *start, *at, *end;
    const char *member; /* the comma or bracket before the member at hand */
    const char *fault;  /* what is wrong at `at`; static */
};

/* Returns false, for who gives up. */
static inline bool record_json_fail(struct record_reader *reader, const char *fault)
{
    reader->fault = fault;
    return false;
}

static inline void record_json_blanks(struct record_reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' ||
                                        *reader->at == '\r' || *reader->at == '\n'))
        reader->at++;
}

/* A text: what stands between its quotes, escapes left. */
MUST_CHECK bool record_json_text(struct record_reader *reader, struct span *out_text);

/* An integer as row.c spells it: no fraction, no exponent, no leading zero. */
MUST_CHECK bool record_json_integer(struct record_reader *reader, int64_t *out_value);

/* true, false or null. */
MUST_CHECK bool record_json_word(struct record_reader *reader, struct span word);

/* Any value, passed over. */
MUST_CHECK bool record_json_skip(struct record_reader *reader);

/* A member's name and its colon. */
MUST_CHECK bool record_json_name(struct record_reader *reader, struct span *out_name);

/* Behind an opening bracket: is it closed at once? Then it is passed; false is no fault. */
MUST_CHECK bool record_json_empty(struct record_reader *reader, char closing);

/* Behind a member or an item: *out_more says whether a comma or the end came. */
MUST_CHECK bool record_json_comma(struct record_reader *reader, char closing, bool *out_more);

#endif
