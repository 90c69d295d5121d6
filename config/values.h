/* SPDX-License-Identifier: Apache-2.0 */
/* config/values.h: one written value to one number; pure.
 *
 * For:       durations, sizes, shares, money, dates, addresses and URLs as operators write them.
 * Called by: sections.c, models.c, tenants.c, check.c, import_*.c.
 * Knows not: YAML, keys, files. Every reader refuses what it does not understand whole. */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include "config/base/span.h"
#include "config/config.h"

/* 150ms, 3s, 15m, 2h, 1d in milliseconds; 0 needs no unit. */
MUST_CHECK bool values_duration(struct span text, int64_t *out_ms);

/* 512, 512B, 64KiB, 32MiB, 1GiB, 1TiB in bytes. */
MUST_CHECK bool values_bytes(struct span text, int64_t *out_bytes);

/* 20% as 20. */
MUST_CHECK bool values_percent(struct span text, int64_t *out_percent);

/* A decimal number with at most 12 digits before its point and 12 behind it, times 10 to the power
 * of exponent, exactly: "0.05" with 6 is 50000. Refuses what would not be whole. */
MUST_CHECK bool values_decimal(struct span text, int exponent, int64_t *out_value);

/* What a message expects in place of no date. */
#define VALUES_DATE_EXPECTED "a date such as 2026-01-31 or 2026-01-31T12:00:00Z"

/* 2026-01-31 (midnight UTC) or 2026-01-31T12:30:00Z in microseconds since 1970 UTC. */
MUST_CHECK bool values_date(struct span text, int64_t *out_us);

/* 127.0.0.1:4000, [::1]:4000, localhost:4000 (means 127.0.0.1), unix:/run/x.sock. Spans borrow from
 * text. Sets address, host, port and socket_path only. */
MUST_CHECK bool values_listen(struct span text, struct config_listen *out_listen);

/* Does only this machine reach this host (127.x.x.x or ::1)? */
bool values_is_loopback(struct span host);

/* The most bytes of a Unix socket's path. */
#define VALUES_SOCKET_PATH_MAX 107u

/* 0660 as a file's permissions. */
MUST_CHECK bool values_mode(struct span text, int64_t *out_mode);

/* The parts of http://host[:port][/path], the same with https://, or unix:/socket[:/path]; spans
 * borrow from text, base_path without trailing slashes and without a trailing /v1. Sets host, port,
 * https, socket_path, host_header and base_path only. */
MUST_CHECK bool values_url(struct span text, struct config_replica *out_replica);

#endif
