/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/log.h: lines for the operator that never make a worker wait.
 *
 * For:       events of the process, and the access log.
 * Called by: every room.
 * Lines are put whole into a bounded buffer (1 MiB) under a short lock; log_flush(), called by the
 * journal's writer thread every few ms and at exit, writes them out. A full buffer drops lines and
 * counts them; the count is logged when there is room again. Control bytes of values are escaped.
 * Secrets never get here: callers pass names. On a terminal the form is readable, elsewhere one
 * JSON object a line. */
#ifndef CONFIG_BASE_LOG_H
#define CONFIG_BASE_LOG_H

#include "config/base/vocab.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Where to (a path, "stdout", "stderr", "none") and from which level on. May be called again at a
 * reload. false: the path cannot be opened, nothing changed. */
MUST_CHECK bool log_open(const char *access, enum log_level level);

/* Opens the access file again (after rotation, at SIGHUP). */
void log_reopen(void);

/* One event: {"time":…,"level":…,"event":"name","message":…}; message is formatted. To stderr. */
void log_event(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);

/* Is the access log on? Asked before a line is made. */
bool log_access_wanted(void);

/* Is the access log a terminal (the readable form is wanted)? */
bool log_access_readable(void);

/* Appends one access line, made by gateway/access.c, ending in a newline. */
void log_access(struct span line);

/* Writes out what has gathered. Any thread; one at a time writes. */
void log_flush(void);

/* Appends text to out as the inside of a JSON string (escaped); returns bytes written, never more
 * than room; cuts at room. */
size_t log_escape(struct span text, char *out, size_t room);

/* Is all of it UTF-8 (RFC 3629)? */
bool log_is_utf8(struct span text);

#endif
