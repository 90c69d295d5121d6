/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/period.c: days, weeks and months of a zone; dates in and out of text.
 *
 * For:       what period.h says.
 * Called by: meter, gateway (commands), config.
 * Knows not: the clock, tenants.
 *
 * A period begins at the first moment at which the clocks show its beginning, or later, and ends
 * where the next one begins: so each moment is in exactly one, also where clocks jump over
 * midnight, back over it, or a day is left out. */
#include "config/base/period.h"

#include <stdio.h>

#include "config/base/civil.h"

#define SECOND_US INT64_C(1000000)
#define HOUR_S 3600

/* What "24h" and "7d" may say at most: a century. */
#define SPAN_HOURS_MAX 876600

/* ---- moments and dates ---- */

static int64_t seconds_of(int64_t at_us)
{
    return civil_floor(at_us, SECOND_US);
}

/* Moments that microseconds do not reach are the last that they do. */
static int64_t micros_of(int64_t at_s)
{
    int64_t at_us;

    if (__builtin_mul_overflow(at_s, SECOND_US, &at_us))
        return at_s < 0 ? INT64_MIN : INT64_MAX;
    return at_us;
}

static int64_t local_of(const struct zone *zone, int64_t at_s)
{
    return at_s + zone_offset_s(zone, at_s);
}

static struct date date_of(int64_t days)
{
    int64_t year, month, day;

    civil_date(days, &year, &month, &day);
    return (struct date){(int32_t)year, (uint8_t)month, (uint8_t)day};
}

struct date period_date(const struct zone *zone, int64_t at_us)
{
    return date_of(civil_floor(local_of(zone, seconds_of(at_us)), CIVIL_DAY_S));
}

/* The first moment of a date, given as days since 1970. */
static int64_t first_of_us(const struct zone *zone, int64_t days)
{
    return micros_of(zone_first_at_s(zone, days * CIVIL_DAY_S));
}

/* ---- units that begin at a midnight ---- */

/* Where months begin: on this day, or on the last one of a shorter month. */
static int64_t anchor_days(int64_t year, int64_t month, uint8_t anchor_day)
{
    const int64_t last = civil_month_days(year, month);

    return civil_days(year, month, anchor_day < last ? anchor_day : last);
}

static int64_t next_month_days(int64_t year, int64_t month, uint8_t anchor_day)
{
    return anchor_days(month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1, anchor_day);
}

/* The day on which the unit around a day began, and the one on which the next one begins. */
static void unit_days(enum period_unit unit, uint8_t anchor_day, int64_t days, int64_t *out_begins,
                      int64_t *out_next)
{
    int64_t year, month, day;

    civil_date(days, &year, &month, &day);
    *out_begins = days;
    *out_next = days + 1;
    if (unit == PERIOD_WEEK) {
        *out_begins = days - (civil_weekday(days) + 6) % 7;
        *out_next = *out_begins + 7;
    } else if (unit == PERIOD_YEAR) {
        *out_begins = civil_days(year, 1, 1);
        *out_next = civil_days(year + 1, 1, 1);
    } else if (unit == PERIOD_MONTH && days >= anchor_days(year, month, anchor_day)) {
        *out_begins = anchor_days(year, month, anchor_day);
        *out_next = next_month_days(year, month, anchor_day);
    } else if (unit == PERIOD_MONTH) {
        *out_begins =
            anchor_days(month == 1 ? year - 1 : year, month == 1 ? 12 : month - 1, anchor_day);
        *out_next = anchor_days(year, month, anchor_day);
    }
}

static struct period dated_around(const struct zone *zone, enum period_unit unit,
                                  uint8_t anchor_day, int64_t at_us)
{
    int64_t begins, next;

    unit_days(unit, anchor_day, civil_floor(local_of(zone, seconds_of(at_us)), CIVIL_DAY_S),
              &begins, &next);
    struct period period = {first_of_us(zone, begins), first_of_us(zone, next)};

    /* Clocks that were put back over a midnight show the day before once more: it is over. */
    while (at_us >= period.until_us && period.until_us < INT64_MAX) {
        unit_days(unit, anchor_day, next, &begins, &next);
        period = (struct period){period.until_us, first_of_us(zone, next)};
    }
    return period;
}

/* ---- hours ---- */

static bool same_minutes(const struct zone *zone, int64_t a_s, int64_t b_s)
{
    return (zone_offset_s(zone, a_s) - zone_offset_s(zone, b_s)) % HOUR_S == 0;
}

/* From one full hour on the clocks to the next; shorter where clocks are changed by half an hour.
 */
static struct period hour_around(const struct zone *zone, int64_t at_us)
{
    const int64_t at_s = seconds_of(at_us);
    const int64_t local_s = local_of(zone, at_s);
    int64_t from_s = at_s - (local_s - civil_floor(local_s, HOUR_S) * HOUR_S);
    int64_t until_s = from_s + HOUR_S;

    for (int64_t change_s = zone_next_change_s(zone, from_s); change_s < until_s;
         change_s = zone_next_change_s(zone, change_s)) {
        if (same_minutes(zone, change_s - 1, change_s))
            continue;
        if (change_s > at_s)
            until_s = change_s;
        else
            from_s = change_s;
    }
    return (struct period){micros_of(from_s), micros_of(until_s)};
}

struct period period_around(const struct zone *zone, enum period_unit unit, int64_t at_us)
{
    return unit == PERIOD_HOUR ? hour_around(zone, at_us) : dated_around(zone, unit, 1, at_us);
}

struct period period_next(const struct zone *zone, enum period_unit unit, struct period period)
{
    return period_around(zone, unit, period.until_us);
}

struct period period_anchored(const struct zone *zone, uint8_t anchor_day, int64_t at_us)
{
    return dated_around(zone, PERIOD_MONTH, anchor_day, at_us);
}

/* ---- reading ---- */

/* Takes exactly so many digits off the front. */
static bool take_digits(struct span *text, size_t digits, int64_t *out_value)
{
    if (text->size < digits || !span_to_int64((struct span){text->data, digits}, out_value))
        return false;
    *text = span_from(*text, digits);
    return true;
}

static bool take(struct span *text, char c)
{
    if (text->size == 0 || text->data[0] != c)
        return false;
    *text = span_from(*text, 1);
    return true;
}

/* Weeks of ISO 8601: the first is the one with the year's first Thursday. */
static int64_t first_week_days(int64_t year)
{
    const int64_t fourth = civil_days(year, 1, 4);

    return fourth - (civil_weekday(fourth) + 6) % 7;
}

/* "2026", "2026-11", "2026-11-30", "2026-W48": the days from the first to before the last. */
static bool read_dated(struct span text, int64_t *out_days, int64_t *out_next)
{
    int64_t year, month, day;

    if (!take_digits(&text, 4, &year))
        return false;
    *out_days = civil_days(year, 1, 1);
    *out_next = civil_days(year + 1, 1, 1);
    if (text.size == 0)
        return true;
    if (!take(&text, '-'))
        return false;
    if (take(&text, 'W')) {
        if (!take_digits(&text, 2, &day) || day < 1)
            return false;
        *out_days = first_week_days(year) + 7 * (day - 1);
        *out_next = *out_days + 7;
        return text.size == 0 && *out_days < first_week_days(year + 1);
    }
    if (!take_digits(&text, 2, &month) || month < 1 || month > 12)
        return false;
    *out_days = civil_days(year, month, 1);
    *out_next = *out_days + civil_month_days(year, month);
    if (text.size == 0)
        return true;
    if (!take(&text, '-') || !take_digits(&text, 2, &day) || day < 1 ||
        day > civil_month_days(year, month))
        return false;
    *out_days += day - 1;
    *out_next = *out_days + 1;
    return text.size == 0;
}

/* "A..B", or one of them. */
static bool read_dates(struct span text, const struct zone *zone, struct period *out)
{
    const char *dots = text.size > 2 ? memmem(text.data, text.size, "..", 2) : NULL;
    struct span last = text;
    int64_t days, days_next, last_days, next;

    if (dots != NULL) {
        last = span_from(text, (size_t)(dots - text.data) + 2);
        text.size = (size_t)(dots - text.data);
    }
    if (!read_dated(text, &days, &days_next) || !read_dated(last, &last_days, &next))
        return false;
    *out = (struct period){first_of_us(zone, days), first_of_us(zone, next)};
    /* Nothing is in a day that the zone left out, and in what ends before it begins. */
    return out->from_us < out->until_us;
}

/* "24h", "7d": until now. */
static bool read_span(struct span text, int64_t now_us, struct period *out)
{
    int64_t count;

    if (text.size < 2 || !span_to_int64((struct span){text.data, text.size - 1}, &count))
        return false;
    const char unit = text.data[text.size - 1];
    const int64_t hours = unit == 'h' ? 1 : unit == 'd' ? 24 : 0;

    if (hours == 0 || count < 1 || count > SPAN_HOURS_MAX / hours)
        return false;
    *out = (struct period){now_us - count * hours * HOUR_S * SECOND_US, now_us};
    return true;
}

enum err period_read(struct span text, const struct zone *zone, int64_t now_us,
                     struct period *out_period)
{
    const struct period today = period_around(zone, PERIOD_DAY, now_us);
    const struct period month = period_around(zone, PERIOD_MONTH, now_us);
    struct period period;

    if (span_equal(text, SPAN("today")))
        period = today;
    else if (span_equal(text, SPAN("yesterday")))
        period = period_around(zone, PERIOD_DAY, today.from_us - 1);
    else if (span_equal(text, SPAN("month")))
        period = month;
    else if (span_equal(text, SPAN("last-month")))
        period = period_around(zone, PERIOD_MONTH, month.from_us - 1);
    else if (!read_span(text, now_us, &period) && !read_dates(text, zone, &period))
        return ERR_BAD_VALUE;
    *out_period = period;
    return OK;
}

/* A point and one to six digits, as microseconds. */
static bool take_fraction(struct span *text, int64_t *out_us)
{
    size_t digits = 0;

    *out_us = 0;
    if (!take(text, '.'))
        return true;
    while (digits < text->size && digits < 6 && text->data[digits] >= '0' &&
           text->data[digits] <= '9')
        *out_us = *out_us * 10 + (text->data[digits++] - '0');
    *text = span_from(*text, digits);
    if (digits == 0)
        return false;
    for (; digits < 6; digits++)
        *out_us *= 10;
    return true;
}

/* "2026-11-30T12:00:00Z" */
static bool read_utc(struct span text, int64_t *out_us)
{
    int64_t days, next, hour, minute, second, fraction_us;

    if (text.size < 10 || !read_dated((struct span){text.data, 10}, &days, &next))
        return false;
    text = span_from(text, 10);
    if (!take(&text, 'T') || !take_digits(&text, 2, &hour) || !take(&text, ':') ||
        !take_digits(&text, 2, &minute) || !take(&text, ':') || !take_digits(&text, 2, &second) ||
        !take_fraction(&text, &fraction_us) || !take(&text, 'Z'))
        return false;
    if (text.size > 0 || hour > 23 || minute > 59 || second > 59)
        return false;
    *out_us = (days * CIVIL_DAY_S + hour * HOUR_S + minute * 60 + second) * SECOND_US + fraction_us;
    return true;
}

enum err period_read_moment(struct span text, const struct zone *zone, int64_t *out_us)
{
    int64_t seconds, days, next;

    if (span_to_int64(text, &seconds))
        return __builtin_mul_overflow(seconds, SECOND_US, out_us) ? ERR_BAD_VALUE : OK;
    if (text.size == 10 && read_dated(text, &days, &next)) {
        *out_us = first_of_us(zone, days);
        return OK;
    }
    return read_utc(text, out_us) ? OK : ERR_BAD_VALUE;
}

/* ---- writing ---- */

/* The date and the time of day of a local time. */
struct shown {
    struct date date;
    int32_t hour, minute, second;
};

static struct shown shown_of(int64_t local_s)
{
    const int64_t days = civil_floor(local_s, CIVIL_DAY_S);
    const int32_t in_day = (int32_t)(local_s - days * CIVIL_DAY_S);

    return (struct shown){date_of(days), in_day / 3600, in_day / 60 % 60, in_day % 60};
}

static size_t length_of(int written)
{
    return written < 0 ? 0 : (size_t)written;
}

size_t period_print_utc(int64_t at_us, char out[PERIOD_TEXT_BYTES])
{
    const int64_t at_s = seconds_of(at_us);
    const int32_t fraction_us = (int32_t)((at_us % SECOND_US + SECOND_US) % SECOND_US);
    const struct shown shown = shown_of(at_s);
    size_t length = length_of(snprintf(out, PERIOD_TEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d",
                                       shown.date.year, shown.date.month, shown.date.day,
                                       shown.hour, shown.minute, shown.second));

    if (fraction_us != 0)
        length +=
            length_of(snprintf(out + length, PERIOD_TEXT_BYTES - length, ".%06d", fraction_us));
    return length + length_of(snprintf(out + length, PERIOD_TEXT_BYTES - length, "Z"));
}

size_t period_print_local(const struct zone *zone, int64_t at_us, char out[PERIOD_TEXT_BYTES])
{
    const int64_t at_s = seconds_of(at_us);
    const int32_t offset_s = zone_offset_s(zone, at_s);
    const int32_t east_s = offset_s < 0 ? -offset_s : offset_s;
    const struct shown shown = shown_of(at_s + offset_s);
    size_t length = length_of(
        snprintf(out, PERIOD_TEXT_BYTES, "%04d-%02d-%02d %02d:%02d:%02d %c%02d:%02d",
                 shown.date.year, shown.date.month, shown.date.day, shown.hour, shown.minute,
                 shown.second, offset_s < 0 ? '-' : '+', east_s / 3600, east_s / 60 % 60));

    /* Offsets before about 1920 may have seconds. */
    if (east_s % 60 != 0)
        length +=
            length_of(snprintf(out + length, PERIOD_TEXT_BYTES - length, ":%02d", east_s % 60));
    return length;
}

static size_t print_week(int64_t days, char out[PERIOD_TEXT_BYTES])
{
    const int64_t thursday = days - (civil_weekday(days) + 6) % 7 + 3;
    const int32_t year = date_of(thursday).year;
    const int32_t week = (int32_t)((thursday - civil_days(year, 1, 1)) / 7 + 1);

    return length_of(snprintf(out, PERIOD_TEXT_BYTES, "%04d-W%02d", year, week));
}

size_t period_print_name(const struct zone *zone, enum period_unit unit, int64_t from_us,
                         char out[PERIOD_TEXT_BYTES])
{
    const int64_t local_s = local_of(zone, seconds_of(from_us));
    const struct shown shown = shown_of(local_s);
    const struct date date = shown.date;

    switch (unit) {
    case PERIOD_HOUR:
        return length_of(snprintf(out, PERIOD_TEXT_BYTES, "%04d-%02d-%02d %02d:%02d", date.year,
                                  date.month, date.day, shown.hour, shown.minute));
    case PERIOD_WEEK:
        return print_week(civil_floor(local_s, CIVIL_DAY_S), out);
    case PERIOD_MONTH:
        return length_of(snprintf(out, PERIOD_TEXT_BYTES, "%04d-%02d", date.year, date.month));
    case PERIOD_YEAR:
        return length_of(snprintf(out, PERIOD_TEXT_BYTES, "%04d", date.year));
    case PERIOD_DAY:
    case PERIOD_UNITS:
        break;
    }
    return length_of(
        snprintf(out, PERIOD_TEXT_BYTES, "%04d-%02d-%02d", date.year, date.month, date.day));
}
