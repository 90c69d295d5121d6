/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/http.h: one HTTP/1.1 request out of bytes.
 *
 * For:       finds where a request ends and the few header fields that a model server reads.
 * Called by: server.c.
 * Knows not: sockets, what paths mean. */
#ifndef FAKE_HTTP_H
#define FAKE_HTTP_H

#include <stdbool.h>

#include "tests/fake/buffer.h"

/* All texts point into the bytes that were given. */
struct request {
    struct text method;
    struct text path; /* without the query */
    struct text query;
    struct text request_id;
    struct text content_type;
    struct text authorization;
    struct text api_key; /* x-api-key */
    struct text head;    /* as received, with the empty line */
    struct text body;    /* chunks already joined */
    size_t content_length;
    bool chunked;
    bool keep_alive;
    bool says_close; /* connection: close was sent */
    bool expects_continue;
};

enum http_result { HTTP_WHOLE, HTTP_PARTIAL, HTTP_BROKEN };

/* Reads one request from the front of the bytes.
 *
 * HTTP_WHOLE:   *out_request is filled, *out_used bytes belong to it (a chunked body has been
 *               joined in place)
 * HTTP_PARTIAL: more bytes are needed; *out_used = how many there must be at least, as far as is
 *               known;
 *               out_request->expects_continue is set once the head is there and asks for it
 * HTTP_BROKEN:  no HTTP request */
enum http_result http_read(char *bytes, size_t count, struct request *out_request,
                           size_t *out_used);

#endif
