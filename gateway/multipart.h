/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/multipart.h: finds the parts of a form without copying them; pure.
 *
 * For:       multipart/form-data (RFC 7578, framed as RFC 2046 section 5.1 says), read so strictly
 *            that every server must find the same parts.
 * Called by: ask_form.c; parcel.c for the field that goes with a form.
 * Knows not: which fields there are.
 *
 * What RFC 2046 allows and no client sends is refused, because servers read it differently: text
 * before the first boundary or behind the last one, padding behind a boundary, bare LF, headers
 * that go on in a second line, encoded parts, a line that only begins as a boundary does. */
#ifndef GATEWAY_MULTIPART_H
#define GATEWAY_MULTIPART_H

#include "config/base/err.h"
#include "config/base/span.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 section 5.1.1 */
#define MULTIPART_TYPE_BYTES (MULTIPART_BOUNDARY_MAX + 32)
#define MULTIPART_PARTS_MAX 64
#define MULTIPART_HEADERS_MAX 16
#define MULTIPART_HEADER_BYTES_MAX 8192 /* of one part */

/* One part. Spans point into the body. */
struct multipart_part {
    struct span name;  /* as written between the quotes; holds no backslash */
    bool file;         /* it has a filename */
    struct span value; /* its content */
};

/* Once problem is set, or all parts have been taken, every further call answers false. */
struct multipart {
    struct span body;
    struct span delimiter; /* CR LF - - boundary */
    size_t at;             /* behind the last boundary that was passed */
    size_t end;            /* of the part that is being read */
    uint32_t count;        /* parts taken */
    bool whole;            /* the last boundary has been passed: nothing follows */
    const char *problem;   /* static text, NULL while all is well */
    size_t problem_at;
    char room[4 + MULTIPART_BOUNDARY_MAX];
};

/* A content-type field with the boundary of this one and nothing else, as every server reads it: of
 * parameters that say boundary in other ways (boundary*, quoted in another's value) a server might
 * make another form. The field lies in room. false: as multipart_init(). */
MUST_CHECK bool multipart_write_type(struct span content_type, char room[MULTIPART_TYPE_BYTES],
                                     struct span *out_field);

/* Begins with the boundary that a content-type field names. false: it is no multipart/form-data, or
 * its boundary is missing, stands twice or is none. */
MUST_CHECK bool multipart_init(struct multipart *form, struct span content_type, struct span body);

/* Takes the next part. false: there is none left (whole is true), or something is wrong (problem is
 * set). */
MUST_CHECK bool multipart_next(struct multipart *form, struct multipart_part *out_part);

#endif
