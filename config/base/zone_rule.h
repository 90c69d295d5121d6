/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/zone_rule.h: when clocks are changed each year, as POSIX writes it; pure.
 *
 * For:       the footer of a TZif file, such as CET-1CEST,M3.5.0,M10.5.0/3.
 * Called by: zone.c.
 * Knows not: files, what held before.
 *
 * Sources: POSIX.1-2024, section 8.3 (TZ); RFC 9636, section 3.3.2 (hours of a change from -167 to
 * 167; summer time all year). */
#ifndef CONFIG_BASE_ZONE_RULE_H
#define CONFIG_BASE_ZONE_RULE_H

#include "config/base/span.h"

/* The day and hour of a change in every year. */
struct zone_rule_date {
    enum { RULE_JULIAN, RULE_DAY, RULE_WEEKDAY } kind;
    int32_t day; /* JULIAN: 1 … 365, never a leap day; DAY: 0 … 365; WEEKDAY: 0 Sunday … 6 */
    int32_t month;  /* WEEKDAY: 1 … 12 */
    int32_t week;   /* WEEKDAY: 1 … 5, 5 the last of the month */
    int32_t time_s; /* after the day's midnight, on the clocks before the change */
};

struct zone_rule {
    int32_t standard_s; /* seconds to add to UTC */
    int32_t summer_s;
    bool changes; /* false: standard time all year */
    struct zone_rule_date summer_begins, summer_ends;
};

/* Reads a rule; false: it is not one. Summer time without dates, which POSIX leaves to the system,
 * is none. */
MUST_CHECK bool zone_rule_read(struct span text, struct zone_rule *out_rule);

/* As zone_offset_s() and zone_next_change_s(). */
int32_t zone_rule_offset_s(const struct zone_rule *rule, int64_t at_s);
int64_t zone_rule_next_change_s(const struct zone_rule *rule, int64_t at_s);

#endif
