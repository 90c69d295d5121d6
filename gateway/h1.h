/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/h1.h: HTTP/1.1 heads and bodies, both sides; pure.
 *
 * For:       bytes to a checked head; bytes to body pieces. Strict: what could be read in two ways
 *            is refused, never repaired (RFC 9112; the list stands in h1.c).
 * Called by: conn.c (requests), replica.c and scrape.c (answers).
 * Knows not: sockets, exchanges, what a field means to us beyond framing. */
#ifndef GATEWAY_H1_H
#define GATEWAY_H1_H

#include "config/base/err.h"
#include "config/base/span.h"
#include "config/base/vocab.h"

#define H1_FIELDS_MAX 1000 /* ceiling of limits.header_fields */

enum h1_result {
    H1_MORE, /* give more bytes (with those already given) */
    H1_DONE,
    H1_BAD /* see the err; the connection must be closed after the answer */
};

enum h1_framing {
    H1_NO_BODY,
    H1_LENGTH,
    H1_CHUNKED,
    H1_UNTIL_CLOSE /* answers only */
};

struct h1_field {
    struct span name;  /* as sent; a token, compare with span_equal_nocase() */
    struct span value; /* without SP and tab around it; no CR, LF, NUL or control byte but tab */
};

/* A parsed head. Spans point into the bytes given. Large: keep one per worker as scratch. Only the
 * fields up to field_count are written. */
struct h1_head {
    struct span method; /* requests */
    struct span target; /* requests: path with query ("/v1/x?y"); an absolute form is reduced to
                         * it after its authority was checked against Host; "*" for OPTIONS */
    int status;         /* answers */
    int minor;          /* HTTP/1.minor: 0 or 1 */
    enum h1_framing framing;
    uint64_t content_length;   /* H1_LENGTH */
    bool keep_alive;           /* after version, Connection and framing */
    bool expect_continue;      /* requests: Expect: 100-continue */
    struct span connection;    /* value of Connection when there is one such field */
    uint32_t connection_count; /* how many such fields */
    uint32_t field_count;
    struct h1_field fields[H1_FIELDS_MAX];
};

struct h1_limits {
    size_t line_bytes;   /* first line without its CRLF; over it ERR_PATH_TOO_LONG */
    size_t header_bytes; /* whole head, plus 32 per field; over it ERR_HEADERS_TOO_LARGE */
    uint32_t fields;     /* at most H1_FIELDS_MAX; over it ERR_HEADERS_TOO_LARGE */
};

/* Parses a request head at the front of bytes (one empty line before it is skipped).
 *
 * scanned:  in and out: how far the search for the head's end has come, so that a head that comes
 *           byte by byte is searched once; 0 at first, and 0 again after H1_DONE.
 * out_size: bytes of the head (with the skipped line) when H1_DONE.
 * out_err:  when H1_BAD: ERR_BAD_HTTP, ERR_HEADERS_TOO_LARGE, ERR_PATH_TOO_LONG, ERR_NO_METHOD
 *           (CONNECT), ERR_EXPECTATION.
 * Limits are judged even while the head is not whole. */
enum h1_result h1_parse_request(struct span bytes, const struct h1_limits *limits, size_t *scanned,
                                struct h1_head *out_head, size_t *out_size, enum err *out_err);

/* Parses an answer's head, in the same way. method is that of the request (HEAD has no body). 1xx
 * heads are returned as such (framing H1_NO_BODY); 101 is refused, as we never ask for an upgrade.
 * Errors: ERR_REPLICA_PROTOCOL. */
enum h1_result h1_parse_response(struct span bytes, const struct h1_limits *limits,
                                 struct span method, size_t *scanned, struct h1_head *out_head,
                                 size_t *out_size, enum err *out_err);

/* Is this field between two neighbours only (Connection, Keep-Alive, Proxy-Connection,
 * Transfer-Encoding, TE, Trailer, Upgrade, HTTP2-Settings, Proxy-Authenticate, Proxy-Authorization
 * and what Connection names)? */
bool h1_is_hop_by_hop(const struct h1_head *head, struct span name);

/* Reads a body by its framing, in place. */
struct h1_body {
    enum h1_framing framing;
    uint8_t state;  /* of the chunked reader */
    uint8_t digits; /* of the chunk size under way */
    uint16_t extension_bytes;
    uint16_t trailer_bytes;
    uint64_t left; /* bytes of the body or chunk still to come */
};

/* Begins a body. content_length: of H1_LENGTH, else 0. */
void h1_body_init(struct h1_body *body, enum h1_framing framing, uint64_t content_length);

enum h1_piece {
    H1_PIECE_DATA, /* *out_data is a piece of the body, never empty */
    H1_PIECE_MORE, /* *bytes is used up, more must come */
    H1_PIECE_END,  /* the body is whole; *bytes holds what follows it */
    H1_PIECE_BAD   /* broken framing, now and at every further call */
};

/* Takes the next piece from the front of *bytes, which is moved past it. Never copies. With
 * H1_UNTIL_CLOSE all is data and the end is the caller's to see. Trailers are read and dropped
 * (bounded to 8 KiB), chunk extensions too (1 KiB over the whole body). */
enum h1_piece h1_body_next(struct h1_body *body, struct span *bytes, struct span *out_data);

#endif
