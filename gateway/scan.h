/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/scan.h: finds and splices fields in JSON bytes without building a tree; pure.
 *
 * For:       one validating pass over a body that tells what lies where (RFC 8259, UTF-8 checked);
 *            splices that change a body without touching the rest of its bytes.
 * Called by: ask*.c, value.c, parcel.c (splices).
 * Knows not: what a field means. */
#ifndef GATEWAY_SCAN_H
#define GATEWAY_SCAN_H

#include <sys/uio.h>

#include "config/base/err.h"
#include "config/base/span.h"
#include "config/base/vocab.h"

/* ---- pull scanner: the caller walks values, the scanner validates every byte it passes ---- */

#define SCAN_DEPTH_MAX 1024 /* ceiling of depth_max */

enum scan_type {
    SCAN_OBJECT,
    SCAN_ARRAY,
    SCAN_STRING,
    SCAN_NUMBER,
    SCAN_TRUE,
    SCAN_FALSE,
    SCAN_NULL
};

/* Once problem is set every further call answers false. */
struct scan {
    const char *start, *at, *end;
    uint32_t depth, depth_max;
    const char *problem; /* static text of the first error, NULL while all is well; it is at `at` */
};

/* Begins a pass. A leading UTF-8 byte order mark is refused. */
void scan_init(struct scan *scan, struct span bytes, uint32_t depth_max);

/* What value comes next (white space is skipped)? false: an error, or the end. Only the first byte
 * has been looked at: taking the value may still fail. */
MUST_CHECK bool scan_peek(struct scan *scan, enum scan_type *out_type);

/* Enters an object or array. Then scan_member() or scan_element() until they return false: then
 * either the container was left properly (problem NULL) or something is wrong (problem set). */
MUST_CHECK bool scan_enter(struct scan *scan, enum scan_type type);

/* Next member: its key as raw text between the quotes (escapes as they came); the scan stands
 * before the value, which the caller must take or skip. first: in and out, true at first. */
MUST_CHECK bool scan_member(struct scan *scan, bool *first, struct span *out_key);
MUST_CHECK bool scan_element(struct scan *scan, bool *first);

/* Takes a string: raw text between the quotes. *out_escaped: contains a backslash. */
MUST_CHECK bool scan_string(struct scan *scan, struct span *out_raw, bool *out_escaped);

/* Takes a number: its text. */
MUST_CHECK bool scan_number(struct scan *scan, struct span *out_text);

/* Takes any value, validating it; *out_value spans it (without white space around). Iterative. */
MUST_CHECK bool scan_skip(struct scan *scan, struct span *out_value);

/* After the top value: only white space may follow. */
MUST_CHECK bool scan_finish(struct scan *scan);

/* Offset of the first error. */
size_t scan_offset(const struct scan *scan);

/* Decodes the escapes of a raw string to UTF-8. out has room for raw.size bytes, which is always
 * enough. false: a lone surrogate, which no UTF-8 text can hold. */
MUST_CHECK bool scan_decode(struct span raw, char *out, size_t *out_size);

/* ---- splices ---- */

/* Replace `removed` bytes at offset `at` by `inserted` (either may be empty). */
struct splice {
    size_t at;
    size_t removed;
    struct span inserted;
};

/* body with splices (ascending, not overlapping) as pieces to send: at most 2 * count + 1. Returns
 * their number; *out_bytes = sum of their lengths. */
uint32_t splice_pieces(struct span body, const struct splice *splices, uint32_t count,
                       struct iovec *out_pieces, size_t *out_bytes);

#endif
