/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tls.h: contexts and sessions of TLS (OpenSSL, in tls.c and tls_context.c).
 *
 * For:       listeners and replicas that speak TLS 1.2 or 1.3: certificates and keys of a
 *            configuration become contexts; a session is hung on an io, whose bytes then pass
 *            through it.
 * Called by: main.c, cmd_check.c, server.c, listener.c (contexts); conn.c, link.c (handshakes);
 *            io.c (bytes).
 * Knows not: HTTP but for the names that ALPN gives its versions.
 * Thread:    contexts: any; a session: that of its io.
 * Promises:  1. No recv is made without a reason to expect bytes, and what one io_send() is given
 *               goes out by one send, 64 KiB at a time.
 *            2. Records that the socket did not take are kept (at most 66 KiB), are sent when it
 *               takes them, and count as unsent until then.
 *            3. Only the peer's close_notify is an end; a connection that closes without is one
 *               that failed. A half-received record is neither.
 *            4. Contexts of files that did not change are the same across reloads: connections and
 *               tickets stay good. */
#ifndef GATEWAY_TLS_H
#define GATEWAY_TLS_H

#include "config/config.h"
#include "gateway/io.h"

/* ---- contexts ---- */

/* Makes the contexts of a snapshot that is not published yet; they go with it. Errors:
 * ERR_BAD_VALUE (problems say which file of which key), ERR_NO_MEMORY. */
MUST_CHECK enum err tls_adopt(struct config *config, struct config_problems *problems);

/* One reference more; returns it. NULL is fine. */
struct tls_context *tls_context_get(struct tls_context *context);

/* Gives one back. NULL is fine. */
void tls_context_put(struct tls_context *context);

/* ---- sessions ---- */

/* What the sessions of one worker share: room for records under way. */
struct tls_scratch;

/* NULL: no memory. */
MUST_CHECK struct tls_scratch *tls_scratch_new(void);
void tls_scratch_free(struct tls_scratch *scratch);

/* Hangs a session on a connected socket: as the server, or as the client (place: a hash of what is
 * connected to; sessions are resumed with the same one alone). The handshake is still to be made.
 * Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err tls_accept(struct io *io, struct tls_context *context,
                               struct tls_scratch *scratch);
MUST_CHECK enum err tls_connect(struct io *io, struct tls_context *context,
                                struct tls_scratch *scratch, uint64_t place);

/* Goes on with the handshake. IO_DONE: it is made. IO_AGAIN: `ready` rings. IO_FAILED:
 * tls_problem() says why; the alert that says so is on its way (io_finish()). */
MUST_CHECK enum io_result tls_shake(struct io *io);

/* Why a handshake failed: a static text. */
const char *tls_problem(const struct io *io);

/* Was HTTP/2 agreed upon? Was anything? */
bool tls_chose_h2(const struct io *io);
bool tls_chose(const struct io *io);

/* Was an earlier session resumed? */
bool tls_was_resumed(const struct io *io);

/* Does our certificate cover this host, written as Host: has it? */
bool tls_covers(struct io *io, struct span host);

/* ---- for io.c: what it does when a session is hung on the socket ---- */

/* What epoll said of the socket: sends what is unsent, sets the flags as the session sees them. */
void tls_edge(struct io *io, uint32_t events);
MUST_CHECK enum io_result tls_recv(struct io *io, char *out, size_t room, size_t *out_size);
MUST_CHECK enum io_result tls_send(struct io *io, const struct iovec *pieces, int count,
                                   size_t *out_size);
void tls_finish(struct io *io, bool whole);
void tls_bye(struct io *io);
bool tls_has_unsent(const struct io *io);
bool tls_take_progress(struct io *io);

/* Frees the session of an io. One without is fine. */
void tls_free(struct io *io);

#endif
