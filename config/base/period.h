/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/period.h: days, weeks and months of a zone as half-open spans of UTC; pure.
 *
 * For:       budgets, reports and invoices; dates in and out of text.
 * Called by: meter, gateway (commands), config.
 * Knows not: the clock, tenants.
 *
 * The proleptic Gregorian calendar; days have 23 to 25 hours where clocks are changed. */
#ifndef CONFIG_BASE_PERIOD_H
#define CONFIG_BASE_PERIOD_H

#include "config/base/zone.h"

enum period_unit { PERIOD_HOUR, PERIOD_DAY, PERIOD_WEEK, PERIOD_MONTH, PERIOD_YEAR, PERIOD_UNITS };

/* Microseconds since 1970 UTC: from_us belongs to it, until_us does not. */
struct period {
    int64_t from_us, until_us;
};

struct date {
    int32_t year;
    uint8_t month; /* 1 … 12 */
    uint8_t day;   /* 1 … 31 */
};

/* The date that a zone's clocks show at a moment. */
struct date period_date(const struct zone *zone, int64_t at_us);

/* The period of this unit around a moment. Weeks begin on Monday. Hours are UTC's own where a
 * zone's offset is not whole hours off: they begin when its clocks show a full hour. */
struct period period_around(const struct zone *zone, enum period_unit unit, int64_t at_us);

/* The one right behind it. */
struct period period_next(const struct zone *zone, enum period_unit unit, struct period period);

/* The monthly period around a moment that begins on a day of the month, 1 … 31: in months that are
 * shorter, on their last day. */
struct period period_anchored(const struct zone *zone, uint8_t anchor_day, int64_t at_us);

/* Reads what an operator writes: "2026", "2026-11", "2026-11-30", "2026-W48", "today", "yesterday",
 * "month", "last-month", "24h" / "7d" (until now), or "A..B" of two of the dated ones (B included).
 * now_us: the present. Errors: ERR_BAD_VALUE. */
MUST_CHECK enum err period_read(struct span text, const struct zone *zone, int64_t now_us,
                                struct period *out_period);

/* A moment: "2026-11-30T12:00:00Z", "2026-11-30" (midnight in the zone) or seconds since 1970.
 * Errors: ERR_BAD_VALUE. */
MUST_CHECK enum err period_read_moment(struct span text, const struct zone *zone, int64_t *out_us);

#define PERIOD_TEXT_BYTES 40

/* "2026-11-30T00:00:00Z" (fractions only where there are any) and a NUL; returns the length. Years
 * 0 to 9999. */
size_t period_print_utc(int64_t at_us, char out[PERIOD_TEXT_BYTES]);

/* "2026-11-30 00:00:00 +01:00" as the zone's clocks show it. */
size_t period_print_local(const struct zone *zone, int64_t at_us, char out[PERIOD_TEXT_BYTES]);

/* What a period of a unit is called in its zone: "2026-11-30 13:00", "2026-11-30", "2026-W49",
 * "2026-11", "2026". */
size_t period_print_name(const struct zone *zone, enum period_unit unit, int64_t from_us,
                         char out[PERIOD_TEXT_BYTES]);

#endif
