/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/zone_rule.c: the rule of a time zone's footer, read and asked.
 *
 * For:       what zone_rule.h says.
 * Called by: zone.c.
 * Knows not: files. */
#include "config/base/zone_rule.h"

#include "config/base/civil.h"

#define HOURS_OF_OFFSET_MAX 24
#define HOURS_OF_CHANGE_MAX 167

/* The calendar repeats after so long, weekdays too. */
#define CYCLE_S ((int64_t)CIVIL_CYCLE_DAYS * CIVIL_DAY_S)

/* ---- reading ---- */

static bool take(struct span *text, char c)
{
    if (text->size == 0 || text->data[0] != c)
        return false;
    *text = span_from(*text, 1);
    return true;
}

static bool take_number(struct span *text, int32_t least, int32_t most, int32_t *out_value)
{
    int32_t value = 0;
    size_t digits = 0;

    while (digits < text->size && digits < 3 && text->data[digits] >= '0' &&
           text->data[digits] <= '9')
        value = value * 10 + (text->data[digits++] - '0');
    if (digits == 0 || value < least || value > most)
        return false;
    *text = span_from(*text, digits);
    *out_value = value;
    return true;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct span *text, int32_t hours_most, int32_t *out_s)
{
    const bool negative = take(text, '-');
    int32_t hours = 0, minutes = 0, seconds = 0;

    if (!negative)
        (void)take(text, '+');
    if (!take_number(text, 0, hours_most, &hours))
        return false;
    if (take(text, ':')) {
        if (!take_number(text, 0, 59, &minutes))
            return false;
        if (take(text, ':') && !take_number(text, 0, 59, &seconds))
            return false;
    }
    *out_s = hours * 3600 + minutes * 60 + seconds;
    if (negative)
        *out_s = -*out_s;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Three letters or more, or others between angle brackets. */
static bool take_name(struct span *text)
{
    size_t size = 0;

    if (take(text, '<')) {
        while (size < text->size &&
               (is_letter(text->data[size]) || text->data[size] == '+' || text->data[size] == '-' ||
                (text->data[size] >= '0' && text->data[size] <= '9')))
            size++;
        *text = span_from(*text, size);
        return size >= 3 && take(text, '>');
    }
    while (size < text->size && is_letter(text->data[size]))
        size++;
    *text = span_from(*text, size);
    return size >= 3;
}

/* ,Mm.w.d | ,Jn | ,n, and /time */
static bool take_date(struct span *text, struct zone_rule_date *out)
{
    *out = (struct zone_rule_date){.time_s = 2 * 3600};
    if (!take(text, ','))
        return false;
    if (take(text, 'M')) {
        out->kind = RULE_WEEKDAY;
        if (!take_number(text, 1, 12, &out->month) || !take(text, '.') ||
            !take_number(text, 1, 5, &out->week) || !take(text, '.') ||
            !take_number(text, 0, 6, &out->day))
            return false;
    } else if (take(text, 'J')) {
        out->kind = RULE_JULIAN;
        if (!take_number(text, 1, 365, &out->day))
            return false;
    } else {
        out->kind = RULE_DAY;
        if (!take_number(text, 0, 365, &out->day))
            return false;
    }
    return !take(text, '/') || take_time(text, HOURS_OF_CHANGE_MAX, &out->time_s);
}

bool zone_rule_read(struct span text, struct zone_rule *out_rule)
{
    struct zone_rule rule = {0};

    if (!take_name(&text) || !take_time(&text, HOURS_OF_OFFSET_MAX, &rule.standard_s))
        return false;
    /* POSIX counts westward, we eastward. */
    rule.standard_s = -rule.standard_s;
    rule.summer_s = rule.standard_s + 3600;
    rule.changes = text.size > 0;
    if (rule.changes) {
        if (!take_name(&text))
            return false;
        if (text.size > 0 && text.data[0] != ',') {
            if (!take_time(&text, HOURS_OF_OFFSET_MAX, &rule.summer_s))
                return false;
            rule.summer_s = -rule.summer_s;
        }
        if (!take_date(&text, &rule.summer_begins) || !take_date(&text, &rule.summer_ends))
            return false;
    }
    *out_rule = rule;
    return text.size == 0;
}

/* ---- asking ---- */

/* The local time of a change in a year, counted as if it were UTC. */
static int64_t date_in_year(const struct zone_rule_date *date, int64_t year)
{
    int64_t days = civil_days(year, 1, 1);

    if (date->kind == RULE_DAY) {
        days += date->day;
    } else if (date->kind == RULE_JULIAN) {
        days += date->day - 1 + (date->day >= 60 && civil_is_leap(year));
    } else {
        const int64_t first = civil_days(year, date->month, 1);
        const int64_t ahead = (date->day - civil_weekday(first) + 7) % 7;
        const int64_t in_month = ahead + 7 * (int64_t)(date->week - 1);

        days = first + (in_month < civil_month_days(year, date->month) ? in_month : in_month - 7);
    }
    return days * CIVIL_DAY_S + date->time_s;
}

/* Changes of a few years in the order in which they are meant: summer begins, summer ends. */
#define YEARS_BEFORE 2
#define YEARS_ABOUT 5
struct about {
    int64_t at_s[2 * YEARS_ABOUT];
};

/* The changes around a moment of the first 400 years from 1970 on: those of the year before its
 * own, of its own and of the next, and, since a change may lie a week outside of its year, one more
 * on both sides. */
static struct about changes_about(const struct zone_rule *rule, int64_t at_s)
{
    struct about about;
    int64_t year, month, day;

    civil_date(civil_floor(at_s, CIVIL_DAY_S), &year, &month, &day);
    for (int i = 0; i < YEARS_ABOUT; i++) {
        about.at_s[2 * i] =
            date_in_year(&rule->summer_begins, year - YEARS_BEFORE + i) - rule->standard_s;
        about.at_s[2 * i + 1] =
            date_in_year(&rule->summer_ends, year - YEARS_BEFORE + i) - rule->summer_s;
    }
    return about;
}

/* Whole cycles before a moment's own, in seconds. */
static int64_t cycles_before(int64_t at_s)
{
    const int64_t cycles = civil_floor(at_s, CYCLE_S);

    return cycles < INT64_MIN / CYCLE_S ? INT64_MIN / CYCLE_S * CYCLE_S : cycles * CYCLE_S;
}

int32_t zone_rule_offset_s(const struct zone_rule *rule, int64_t at_s)
{
    if (!rule->changes)
        return rule->standard_s;
    const int64_t in_cycle_s = at_s - cycles_before(at_s);
    const struct about about = changes_about(rule, in_cycle_s);
    int64_t latest_s = INT64_MIN;
    bool summer = false;

    /* Where summer ends and begins at one moment (all year), the later in order holds. */
    for (int i = 0; i < 2 * YEARS_ABOUT; i++) {
        if (about.at_s[i] <= in_cycle_s && about.at_s[i] >= latest_s) {
            latest_s = about.at_s[i];
            summer = i % 2 == 0;
        }
    }
    return summer ? rule->summer_s : rule->standard_s;
}

int64_t zone_rule_next_change_s(const struct zone_rule *rule, int64_t at_s)
{
    if (!rule->changes)
        return INT64_MAX;
    const int64_t before_s = cycles_before(at_s);
    const struct about about = changes_about(rule, at_s - before_s);
    int64_t next_s = INT64_MAX;

    for (int i = 0; i < 2 * YEARS_ABOUT; i++) {
        if (about.at_s[i] > at_s - before_s && about.at_s[i] < next_s)
            next_s = about.at_s[i];
    }
    return next_s > INT64_MAX - (before_s > 0 ? before_s : 0) ? INT64_MAX : next_s + before_s;
}
