/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/zone.h: an IANA time zone: what local clocks show at a moment.
 *
 * For:       days and months of tenants, which begin at their own midnight.
 * Called by: config (loads), period.c.
 * Knows not: days, months, tenants.
 *
 * Sources: RFC 9636 (TZif); POSIX.1-2024, section 8.3 (TZ), for what follows the last transition.
 */
#ifndef CONFIG_BASE_ZONE_H
#define CONFIG_BASE_ZONE_H

#include "config/base/err.h"
#include "config/base/span.h"

struct zone;

/* The zone of a name such as "Europe/Berlin" from the system's time zone database (tzdata; the
 * folder is ZONE_FOLDER, or what TZDIR says). The same zone is shared and lives as long as the
 * process; any thread. "UTC" needs no database.
 * Errors: ERR_BAD_VALUE (no such zone, no well-formed file, a name that leaves the folder),
 * ERR_NO_MEMORY. */
MUST_CHECK enum err zone_find(struct span name, const struct zone **out_zone);

#define ZONE_FOLDER "/usr/share/zoneinfo"

/* UTC, static. */
const struct zone *zone_utc(void);

/* Its name, as it was asked for; lives as long as the zone. */
struct span zone_name(const struct zone *zone);

/* Reads the bytes of a TZif file (version 2 and later, also the slim form). Pure; the caller frees
 * the zone with free(). Errors: ERR_BAD_VALUE, ERR_NO_MEMORY. */
MUST_CHECK enum err zone_read(struct span name, struct span file, struct zone **out_zone);

/* Seconds to add to UTC to have local time, at a moment (seconds since 1970 UTC). Pure. */
int32_t zone_offset_s(const struct zone *zone, int64_t at_s);

/* The first moment (UTC seconds) at which the zone's clocks show this local time or later: a local
 * time that is skipped is the moment of the jump, one that comes twice the first of the two.
 * local_s: the local time counted as if it were UTC. Pure. */
int64_t zone_first_at_s(const struct zone *zone, int64_t local_s);

/* The first moment behind this one at which the offset may be another; INT64_MAX: never. Pure. */
int64_t zone_next_change_s(const struct zone *zone, int64_t at_s);

#endif
