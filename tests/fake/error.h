/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/error.h: errors in the shape of each kind.
 *
 * For:       status phrases, bodies of errors, and errors within streams.
 * Called by: answer.c, service.c, stream.c.
 * Knows not: requests, sockets. */
#ifndef FAKE_ERROR_H
#define FAKE_ERROR_H

#include "tests/fake/kind.h"

/* `OK`, `Not Found`, ... */
struct text error_phrase(int status);

/* The status that this kind really sends where another would send `status`: llama.cpp knows no 405,
 * TGI answers 422 to what it cannot read. */
int error_status(int status);

/* The body of an error; empty for some. message and param (may be empty) are raw JSON text.
 * Messages endpoints answer in Anthropic's shape. */
void error_add_body(struct buffer *out, enum endpoint endpoint, int status, struct text message,
                    struct text param);

/* The body for an unknown path (404) or method (405). */
void error_add_unknown(struct buffer *out, int status);

/* A whole event that bears an error in the midst of a stream. */
void error_add_event(struct buffer *out, enum endpoint endpoint, int status, struct text message);

#endif
