/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/civil.h: dates of the proleptic Gregorian calendar as days since 1970; pure, inline.
 *
 * For:       arithmetic on dates without loops over years.
 * Called by: zone.c, period.c.
 * Knows not: zones, hours.
 *
 * Years are counted from March, so that a leap day is the last of its year; the calendar repeats
 * every 400 years, which are 146097 days and whole weeks. */
#ifndef CONFIG_BASE_CIVIL_H
#define CONFIG_BASE_CIVIL_H

#include "config/base/vocab.h"

#define CIVIL_CYCLE_YEARS 400
#define CIVIL_CYCLE_DAYS 146097
#define CIVIL_DAY_S 86400

/* Days from 0000-03-01 to 1970-01-01. */
#define CIVIL_MARCH_ZERO_TO_EPOCH 719468

/* Division that rounds down; by > 0. */
static inline int64_t civil_floor(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

static inline bool civil_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days of a month, 1 … 12. */
static inline int64_t civil_month_days(int64_t year, int64_t month)
{
    const int8_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && civil_is_leap(year));
}

/* Days since 1970-01-01; month: 1 … 12, day: any. */
static inline int64_t civil_days(int64_t year, int64_t month, int64_t day)
{
    const int64_t from_march = year - (month <= 2);
    const int64_t cycle = civil_floor(from_march, CIVIL_CYCLE_YEARS);
    const int64_t in_cycle = from_march - cycle * CIVIL_CYCLE_YEARS;
    const int64_t months = (month + 9) % 12;

    return cycle * CIVIL_CYCLE_DAYS + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 +
           (153 * months + 2) / 5 + day - 1 - CIVIL_MARCH_ZERO_TO_EPOCH;
}

/* The reverse. */
static inline void civil_date(int64_t days, int64_t *out_year, int64_t *out_month, int64_t *out_day)
{
    const int64_t since = days + CIVIL_MARCH_ZERO_TO_EPOCH;
    const int64_t cycle = civil_floor(since, CIVIL_CYCLE_DAYS);
    const int64_t in_cycle = since - cycle * CIVIL_CYCLE_DAYS;
    const int64_t year =
        (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / (CIVIL_CYCLE_DAYS - 1)) / 365;
    const int64_t in_year = in_cycle - (365 * year + year / 4 - year / 100);
    const int64_t months = (5 * in_year + 2) / 153;

    *out_day = in_year - (153 * months + 2) / 5 + 1;
    *out_month = months < 10 ? months + 3 : months - 9;
    *out_year = year + cycle * CIVIL_CYCLE_YEARS + (*out_month <= 2);
}

/* 0: Sunday … 6. 1970-01-01 was a Thursday. */
static inline int64_t civil_weekday(int64_t days)
{
    return days + 4 - civil_floor(days + 4, 7) * 7;
}

#endif
