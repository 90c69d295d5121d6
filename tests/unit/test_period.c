/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_period.c: days, weeks and months of zones (config/base/period.c).
 *
 * Promises:  1. Days of 23 zones begin and end where their clocks say, with 22 to 47 hours.
 *            2. Months and years end at their last day's end, leap days too.
 *            3. Months with an anchor begin on it or on the last day of a shorter month.
 *            4. Weeks are those of ISO 8601.
 *            5. Hours begin when clocks show a full one, and end where clocks are put on by half of
 * one.
 *            6. Each moment is in one period, which ends where the next begins.
 *            7. What an operator writes is read, what is no date is refused.
 *            8. Moments are written and read back.
 *
 * Expected numbers are from Python's zoneinfo on tzdata 2025b. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/period.h"

#define SECOND_US INT64_C(1000000)

static const struct zone *zone_named(const char *name)
{
    const struct zone *zone = NULL;

    if (zone_find(span_of(name), &zone) != OK)
        fail_msg("%s: no such zone", name);
    return zone;
}

/* Is it this period, for its first, a middle and its last moment? */
static void check_around(const char *name, enum period_unit unit, int64_t from_s, int64_t until_s)
{
    const struct zone *zone = zone_named(name);
    const int64_t moments_us[] = {from_s * SECOND_US, (from_s + until_s) / 2 * SECOND_US,
                                  until_s * SECOND_US - 1};

    for (size_t i = 0; i < 3; i++) {
        const struct period period = period_around(zone, unit, moments_us[i]);

        if (period.from_us != from_s * SECOND_US || period.until_us != until_s * SECOND_US)
            fail_msg("%s at %lld: %lld to %lld", name, (long long)moments_us[i],
                     (long long)period.from_us, (long long)period.until_us);
    }
}

struct row {
    const char *zone;
    struct date date; /* of its beginning */
    int64_t from_s, until_s;
};

static void check_rows(const struct row *rows, size_t count, enum period_unit unit)
{
    for (size_t i = 0; i < count; i++) {
        const struct date date = period_date(zone_named(rows[i].zone), rows[i].from_s * SECOND_US);

        check_around(rows[i].zone, unit, rows[i].from_s, rows[i].until_s);
        assert_int_equal(date.year, rows[i].date.year);
        assert_int_equal(date.month, rows[i].date.month);
        assert_int_equal(date.day, rows[i].date.day);
    }
}

/* clang-format off */
static const struct row days[] = {
    {"Europe/Berlin", {2000, 2, 29}, 951778800, 951865200}, /* 24 h */
    {"Europe/Berlin", {2011, 3, 27}, 1301180400, 1301263200}, /* 23 h */
    {"Europe/Berlin", {2011, 10, 30}, 1319925600, 1320015600}, /* 25 h */
    {"Europe/Berlin", {2023, 3, 26}, 1679785200, 1679868000}, /* 23 h */
    {"Europe/Berlin", {2023, 10, 29}, 1698530400, 1698620400}, /* 25 h */
    {"Europe/Berlin", {2024, 2, 29}, 1709161200, 1709247600}, /* 24 h */
    {"America/New_York", {2000, 2, 29}, 951800400, 951886800}, /* 24 h */
    {"America/New_York", {2011, 3, 13}, 1299992400, 1300075200}, /* 23 h */
    {"America/New_York", {2011, 11, 6}, 1320552000, 1320642000}, /* 25 h */
    {"America/New_York", {2023, 3, 12}, 1678597200, 1678680000}, /* 23 h */
    {"America/New_York", {2023, 11, 5}, 1699156800, 1699246800}, /* 25 h */
    {"America/New_York", {2024, 2, 29}, 1709182800, 1709269200}, /* 24 h */
    {"Asia/Kolkata", {2000, 2, 29}, 951762600, 951849000}, /* 24 h */
    {"Asia/Kolkata", {2024, 2, 29}, 1709145000, 1709231400}, /* 24 h */
    {"Asia/Kolkata", {2100, 2, 28}, 4107436200, 4107522600}, /* 24 h */
    {"Asia/Kathmandu", {2000, 2, 29}, 951761700, 951848100}, /* 24 h */
    {"Asia/Kathmandu", {2024, 2, 29}, 1709144100, 1709230500}, /* 24 h */
    {"Australia/Lord_Howe", {2000, 2, 29}, 951742800, 951829200}, /* 24 h */
    {"Australia/Lord_Howe", {2011, 4, 3}, 1301749200, 1301837400}, /* 24.5 h */
    {"Australia/Lord_Howe", {2011, 10, 2}, 1317475800, 1317560400}, /* 23.5 h */
    {"Australia/Lord_Howe", {2023, 4, 2}, 1680354000, 1680442200}, /* 24.5 h */
    {"Australia/Lord_Howe", {2023, 10, 1}, 1696080600, 1696165200}, /* 23.5 h */
    {"Australia/Lord_Howe", {2024, 2, 29}, 1709125200, 1709211600}, /* 24 h */
    {"Pacific/Apia", {2000, 2, 29}, 951822000, 951908400}, /* 24 h */
    {"Pacific/Apia", {2011, 4, 2}, 1301738400, 1301828400}, /* 25 h */
    {"Pacific/Apia", {2011, 9, 24}, 1316862000, 1316944800}, /* 23 h */
    {"Pacific/Apia", {2024, 2, 29}, 1709118000, 1709204400}, /* 24 h */
    {"America/Sao_Paulo", {2000, 2, 29}, 951793200, 951879600}, /* 24 h */
    {"America/Sao_Paulo", {2011, 2, 19}, 1298080800, 1298170800}, /* 25 h */
    {"America/Sao_Paulo", {2011, 10, 16}, 1318734000, 1318816800}, /* 23 h */
    {"America/Sao_Paulo", {2024, 2, 29}, 1709175600, 1709262000}, /* 24 h */
    {"Africa/Casablanca", {2000, 2, 29}, 951782400, 951868800}, /* 24 h */
    {"Africa/Casablanca", {2011, 4, 3}, 1301788800, 1301871600}, /* 23 h */
    {"Africa/Casablanca", {2011, 7, 30}, 1311980400, 1312070400}, /* 25 h */
    {"Africa/Casablanca", {2023, 3, 19}, 1679180400, 1679270400}, /* 25 h */
    {"Africa/Casablanca", {2023, 4, 23}, 1682208000, 1682290800}, /* 23 h */
    {"Africa/Casablanca", {2024, 2, 29}, 1709161200, 1709247600}, /* 24 h */
    {"Asia/Tehran", {2000, 2, 29}, 951769800, 951856200}, /* 24 h */
    {"Asia/Tehran", {2011, 3, 22}, 1300739400, 1300822200}, /* 23 h */
    {"Asia/Tehran", {2011, 9, 21}, 1316547000, 1316637000}, /* 25 h */
    {"Asia/Tehran", {2024, 2, 29}, 1709152200, 1709238600}, /* 24 h */
    {"America/St_Johns", {1990, 4, 1}, 638940600, 639023400}, /* 23 h */
    {"America/St_Johns", {1990, 10, 28}, 657081000, 657171000}, /* 25 h */
    {"America/St_Johns", {2000, 2, 29}, 951795000, 951881400}, /* 24 h */
    {"America/St_Johns", {2011, 3, 13}, 1299987000, 1300069800}, /* 23 h */
    {"America/St_Johns", {2011, 11, 6}, 1320546600, 1320636600}, /* 25 h */
    {"America/St_Johns", {2023, 3, 12}, 1678591800, 1678674600}, /* 23 h */
    {"America/St_Johns", {2023, 11, 5}, 1699151400, 1699241400}, /* 25 h */
    {"America/St_Johns", {2024, 2, 29}, 1709177400, 1709263800}, /* 24 h */
    {"Pacific/Chatham", {2000, 2, 29}, 951732900, 951819300}, /* 24 h */
    {"Pacific/Chatham", {2011, 4, 3}, 1301739300, 1301829300}, /* 25 h */
    {"Pacific/Chatham", {2011, 9, 25}, 1316862900, 1316945700}, /* 23 h */
    {"Pacific/Chatham", {2023, 4, 2}, 1680344100, 1680434100}, /* 25 h */
    {"Pacific/Chatham", {2023, 9, 24}, 1695467700, 1695550500}, /* 23 h */
    {"Pacific/Chatham", {2024, 2, 29}, 1709115300, 1709201700}, /* 24 h */
    {"Antarctica/Troll", {2000, 2, 29}, 951782400, 951868800}, /* 24 h */
    {"Antarctica/Troll", {2011, 3, 27}, 1301184000, 1301263200}, /* 22 h */
    {"Antarctica/Troll", {2011, 10, 30}, 1319925600, 1320019200}, /* 26 h */
    {"Antarctica/Troll", {2023, 3, 26}, 1679788800, 1679868000}, /* 22 h */
    {"Antarctica/Troll", {2023, 10, 29}, 1698530400, 1698624000}, /* 26 h */
    {"Antarctica/Troll", {2024, 2, 29}, 1709164800, 1709251200}, /* 24 h */
    {"America/Havana", {2000, 2, 29}, 951800400, 951886800}, /* 24 h */
    {"America/Havana", {2011, 3, 20}, 1300597200, 1300680000}, /* 23 h */
    {"America/Havana", {2011, 11, 13}, 1321156800, 1321246800}, /* 25 h */
    {"America/Havana", {2023, 3, 12}, 1678597200, 1678680000}, /* 23 h */
    {"America/Havana", {2023, 11, 5}, 1699156800, 1699246800}, /* 25 h */
    {"America/Havana", {2024, 2, 29}, 1709182800, 1709269200}, /* 24 h */
    {"Asia/Beirut", {2000, 2, 29}, 951775200, 951861600}, /* 24 h */
    {"Asia/Beirut", {2011, 3, 27}, 1301176800, 1301259600}, /* 23 h */
    {"Asia/Beirut", {2011, 10, 29}, 1319835600, 1319925600}, /* 25 h */
    {"Asia/Beirut", {2023, 3, 26}, 1679781600, 1679864400}, /* 23 h */
    {"Asia/Beirut", {2023, 10, 28}, 1698440400, 1698530400}, /* 25 h */
    {"Asia/Beirut", {2024, 2, 29}, 1709157600, 1709244000}, /* 24 h */
    {"Africa/Cairo", {2000, 2, 29}, 951775200, 951861600}, /* 24 h */
    {"Africa/Cairo", {2023, 4, 28}, 1682632800, 1682715600}, /* 23 h */
    {"Africa/Cairo", {2023, 10, 26}, 1698267600, 1698357600}, /* 25 h */
    {"Africa/Cairo", {2024, 2, 29}, 1709157600, 1709244000}, /* 24 h */
    {"Pacific/Auckland", {2000, 2, 29}, 951735600, 951822000}, /* 24 h */
    {"Pacific/Auckland", {2011, 4, 3}, 1301742000, 1301832000}, /* 25 h */
    {"Pacific/Auckland", {2011, 9, 25}, 1316865600, 1316948400}, /* 23 h */
    {"Pacific/Auckland", {2023, 4, 2}, 1680346800, 1680436800}, /* 25 h */
    {"Pacific/Auckland", {2023, 9, 24}, 1695470400, 1695553200}, /* 23 h */
    {"Pacific/Auckland", {2024, 2, 29}, 1709118000, 1709204400}, /* 24 h */
    {"America/Los_Angeles", {2000, 2, 29}, 951811200, 951897600}, /* 24 h */
    {"America/Los_Angeles", {2011, 3, 13}, 1300003200, 1300086000}, /* 23 h */
    {"America/Los_Angeles", {2011, 11, 6}, 1320562800, 1320652800}, /* 25 h */
    {"America/Los_Angeles", {2023, 3, 12}, 1678608000, 1678690800}, /* 23 h */
    {"America/Los_Angeles", {2023, 11, 5}, 1699167600, 1699257600}, /* 25 h */
    {"America/Los_Angeles", {2024, 2, 29}, 1709193600, 1709280000}, /* 24 h */
    {"Europe/London", {2000, 2, 29}, 951782400, 951868800}, /* 24 h */
    {"Europe/London", {2011, 3, 27}, 1301184000, 1301266800}, /* 23 h */
    {"Europe/London", {2011, 10, 30}, 1319929200, 1320019200}, /* 25 h */
    {"Europe/London", {2023, 3, 26}, 1679788800, 1679871600}, /* 23 h */
    {"Europe/London", {2023, 10, 29}, 1698534000, 1698624000}, /* 25 h */
    {"Europe/London", {2024, 2, 29}, 1709164800, 1709251200}, /* 24 h */
    {"Asia/Tokyo", {2000, 2, 29}, 951750000, 951836400}, /* 24 h */
    {"Asia/Tokyo", {2024, 2, 29}, 1709132400, 1709218800}, /* 24 h */
    {"Asia/Tokyo", {2100, 2, 28}, 4107423600, 4107510000}, /* 24 h */
    {"UTC", {2000, 2, 29}, 951782400, 951868800}, /* 24 h */
    {"UTC", {2024, 2, 29}, 1709164800, 1709251200}, /* 24 h */
    {"UTC", {2100, 2, 28}, 4107456000, 4107542400}, /* 24 h */
    {"America/Nuuk", {2000, 2, 29}, 951793200, 951879600}, /* 24 h */
    {"America/Nuuk", {2011, 3, 26}, 1301108400, 1301191200}, /* 23 h */
    {"America/Nuuk", {2011, 10, 29}, 1319853600, 1319943600}, /* 25 h */
    {"America/Nuuk", {2023, 3, 25}, 1679713200, 1679796000}, /* 23 h */
    {"America/Nuuk", {2024, 2, 29}, 1709172000, 1709258400}, /* 24 h */
    {"Europe/Dublin", {2000, 2, 29}, 951782400, 951868800}, /* 24 h */
    {"Europe/Dublin", {2011, 3, 27}, 1301184000, 1301266800}, /* 23 h */
    {"Europe/Dublin", {2011, 10, 30}, 1319929200, 1320019200}, /* 25 h */
    {"Europe/Dublin", {2023, 3, 26}, 1679788800, 1679871600}, /* 23 h */
    {"Europe/Dublin", {2023, 10, 29}, 1698534000, 1698624000}, /* 25 h */
    {"Europe/Dublin", {2024, 2, 29}, 1709164800, 1709251200}, /* 24 h */
    {"Pacific/Kwajalein", {1969, 9, 30}, -8074800, -7905600}, /* 47 h */
    {"Pacific/Kwajalein", {2000, 2, 29}, 951739200, 951825600}, /* 24 h */
    {"Pacific/Kwajalein", {2024, 2, 29}, 1709121600, 1709208000}, /* 24 h */
};

static const struct row months[] = {
    {"Europe/Berlin", {2024, 2, 1}, 1706742000, 1709247600},
    {"Europe/Berlin", {2024, 3, 1}, 1709247600, 1711922400},
    {"Europe/Berlin", {2024, 10, 1}, 1727733600, 1730415600},
    {"Europe/Berlin", {2024, 12, 1}, 1733007600, 1735686000},
    {"America/New_York", {2024, 2, 1}, 1706763600, 1709269200},
    {"America/New_York", {2024, 3, 1}, 1709269200, 1711944000},
    {"America/New_York", {2024, 10, 1}, 1727755200, 1730433600},
    {"America/New_York", {2024, 12, 1}, 1733029200, 1735707600},
    {"Asia/Kolkata", {2024, 2, 1}, 1706725800, 1709231400},
    {"Asia/Kolkata", {2024, 3, 1}, 1709231400, 1711909800},
    {"Asia/Kolkata", {2024, 10, 1}, 1727721000, 1730399400},
    {"Asia/Kolkata", {2024, 12, 1}, 1732991400, 1735669800},
    {"Asia/Kathmandu", {2024, 2, 1}, 1706724900, 1709230500},
    {"Asia/Kathmandu", {2024, 3, 1}, 1709230500, 1711908900},
    {"Asia/Kathmandu", {2024, 10, 1}, 1727720100, 1730398500},
    {"Asia/Kathmandu", {2024, 12, 1}, 1732990500, 1735668900},
    {"Australia/Lord_Howe", {2024, 2, 1}, 1706706000, 1709211600},
    {"Australia/Lord_Howe", {2024, 3, 1}, 1709211600, 1711890000},
    {"Australia/Lord_Howe", {2024, 10, 1}, 1727703000, 1730379600},
    {"Australia/Lord_Howe", {2024, 12, 1}, 1732971600, 1735650000},
    {"Pacific/Apia", {2024, 2, 1}, 1706698800, 1709204400},
    {"Pacific/Apia", {2024, 3, 1}, 1709204400, 1711882800},
    {"Pacific/Apia", {2024, 10, 1}, 1727694000, 1730372400},
    {"Pacific/Apia", {2024, 12, 1}, 1732964400, 1735642800},
    {"America/Sao_Paulo", {2024, 2, 1}, 1706756400, 1709262000},
    {"America/Sao_Paulo", {2024, 3, 1}, 1709262000, 1711940400},
    {"America/Sao_Paulo", {2024, 10, 1}, 1727751600, 1730430000},
    {"America/Sao_Paulo", {2024, 12, 1}, 1733022000, 1735700400},
    {"Africa/Casablanca", {2024, 2, 1}, 1706742000, 1709247600},
    {"Africa/Casablanca", {2024, 3, 1}, 1709247600, 1711929600},
    {"Africa/Casablanca", {2024, 10, 1}, 1727737200, 1730415600},
    {"Africa/Casablanca", {2024, 12, 1}, 1733007600, 1735686000},
    {"Asia/Tehran", {2024, 2, 1}, 1706733000, 1709238600},
    {"Asia/Tehran", {2024, 3, 1}, 1709238600, 1711917000},
    {"Asia/Tehran", {2024, 10, 1}, 1727728200, 1730406600},
    {"Asia/Tehran", {2024, 12, 1}, 1732998600, 1735677000},
    {"America/St_Johns", {2024, 2, 1}, 1706758200, 1709263800},
    {"America/St_Johns", {2024, 3, 1}, 1709263800, 1711938600},
    {"America/St_Johns", {2024, 10, 1}, 1727749800, 1730428200},
    {"America/St_Johns", {2024, 12, 1}, 1733023800, 1735702200},
    {"Pacific/Chatham", {2024, 2, 1}, 1706696100, 1709201700},
    {"Pacific/Chatham", {2024, 3, 1}, 1709201700, 1711880100},
    {"Pacific/Chatham", {2024, 10, 1}, 1727691300, 1730369700},
    {"Pacific/Chatham", {2024, 12, 1}, 1732961700, 1735640100},
    {"Antarctica/Troll", {2024, 2, 1}, 1706745600, 1709251200},
    {"Antarctica/Troll", {2024, 3, 1}, 1709251200, 1711922400},
    {"Antarctica/Troll", {2024, 10, 1}, 1727733600, 1730419200},
    {"Antarctica/Troll", {2024, 12, 1}, 1733011200, 1735689600},
    {"America/Havana", {2024, 2, 1}, 1706763600, 1709269200},
    {"America/Havana", {2024, 3, 1}, 1709269200, 1711944000},
    {"America/Havana", {2024, 10, 1}, 1727755200, 1730433600},
    {"America/Havana", {2024, 12, 1}, 1733029200, 1735707600},
    {"Asia/Beirut", {2024, 2, 1}, 1706738400, 1709244000},
    {"Asia/Beirut", {2024, 3, 1}, 1709244000, 1711918800},
    {"Asia/Beirut", {2024, 10, 1}, 1727730000, 1730412000},
    {"Asia/Beirut", {2024, 12, 1}, 1733004000, 1735682400},
    {"Africa/Cairo", {2024, 2, 1}, 1706738400, 1709244000},
    {"Africa/Cairo", {2024, 3, 1}, 1709244000, 1711922400},
    {"Africa/Cairo", {2024, 10, 1}, 1727730000, 1730412000},
    {"Africa/Cairo", {2024, 12, 1}, 1733004000, 1735682400},
    {"Pacific/Auckland", {2024, 2, 1}, 1706698800, 1709204400},
    {"Pacific/Auckland", {2024, 3, 1}, 1709204400, 1711882800},
    {"Pacific/Auckland", {2024, 10, 1}, 1727694000, 1730372400},
    {"Pacific/Auckland", {2024, 12, 1}, 1732964400, 1735642800},
    {"America/Los_Angeles", {2024, 2, 1}, 1706774400, 1709280000},
    {"America/Los_Angeles", {2024, 3, 1}, 1709280000, 1711954800},
    {"America/Los_Angeles", {2024, 10, 1}, 1727766000, 1730444400},
    {"America/Los_Angeles", {2024, 12, 1}, 1733040000, 1735718400},
    {"Europe/London", {2024, 2, 1}, 1706745600, 1709251200},
    {"Europe/London", {2024, 3, 1}, 1709251200, 1711926000},
    {"Europe/London", {2024, 10, 1}, 1727737200, 1730419200},
    {"Europe/London", {2024, 12, 1}, 1733011200, 1735689600},
    {"Asia/Tokyo", {2024, 2, 1}, 1706713200, 1709218800},
    {"Asia/Tokyo", {2024, 3, 1}, 1709218800, 1711897200},
    {"Asia/Tokyo", {2024, 10, 1}, 1727708400, 1730386800},
    {"Asia/Tokyo", {2024, 12, 1}, 1732978800, 1735657200},
    {"UTC", {2024, 2, 1}, 1706745600, 1709251200},
    {"UTC", {2024, 3, 1}, 1709251200, 1711929600},
    {"UTC", {2024, 10, 1}, 1727740800, 1730419200},
    {"UTC", {2024, 12, 1}, 1733011200, 1735689600},
    {"America/Nuuk", {2024, 2, 1}, 1706752800, 1709258400},
    {"America/Nuuk", {2024, 3, 1}, 1709258400, 1711933200},
    {"America/Nuuk", {2024, 10, 1}, 1727744400, 1730426400},
    {"America/Nuuk", {2024, 12, 1}, 1733018400, 1735696800},
    {"Europe/Dublin", {2024, 2, 1}, 1706745600, 1709251200},
    {"Europe/Dublin", {2024, 3, 1}, 1709251200, 1711926000},
    {"Europe/Dublin", {2024, 10, 1}, 1727737200, 1730419200},
    {"Europe/Dublin", {2024, 12, 1}, 1733011200, 1735689600},
};

/* When a month with an anchor on a day begins and ends. */
static const struct {
    const char *zone;
    uint8_t day;
    int64_t from_s, until_s;
} anchored[] = {
    {"Europe/Berlin", 29, 1674946800, 1677538800}, /* 2023-01-29 */
    {"Europe/Berlin", 29, 1677538800, 1680040800}, /* 2023-02-28 */
    {"Europe/Berlin", 29, 1680040800, 1682719200}, /* 2023-03-29 */
    {"Europe/Berlin", 29, 1706482800, 1709161200}, /* 2024-01-29 */
    {"Europe/Berlin", 29, 1709161200, 1711666800}, /* 2024-02-29 */
    {"Europe/Berlin", 29, 1711666800, 1714341600}, /* 2024-03-29 */
    {"Europe/Berlin", 30, 1675033200, 1677538800}, /* 2023-01-30 */
    {"Europe/Berlin", 30, 1677538800, 1680127200}, /* 2023-02-28 */
    {"Europe/Berlin", 30, 1680127200, 1682805600}, /* 2023-03-30 */
    {"Europe/Berlin", 30, 1706569200, 1709161200}, /* 2024-01-30 */
    {"Europe/Berlin", 30, 1709161200, 1711753200}, /* 2024-02-29 */
    {"Europe/Berlin", 30, 1711753200, 1714428000}, /* 2024-03-30 */
    {"Europe/Berlin", 31, 1675119600, 1677538800}, /* 2023-01-31 */
    {"Europe/Berlin", 31, 1677538800, 1680213600}, /* 2023-02-28 */
    {"Europe/Berlin", 31, 1680213600, 1682805600}, /* 2023-03-31 */
    {"Europe/Berlin", 31, 1706655600, 1709161200}, /* 2024-01-31 */
    {"Europe/Berlin", 31, 1709161200, 1711839600}, /* 2024-02-29 */
    {"Europe/Berlin", 31, 1711839600, 1714428000}, /* 2024-03-31 */
    {"Asia/Kolkata", 31, 1675103400, 1677522600}, /* 2023-01-31 */
    {"Asia/Kolkata", 31, 1677522600, 1680201000}, /* 2023-02-28 */
    {"Asia/Kolkata", 31, 1680201000, 1682793000}, /* 2023-03-31 */
    {"Asia/Kolkata", 31, 1706639400, 1709145000}, /* 2024-01-31 */
    {"Asia/Kolkata", 31, 1709145000, 1711823400}, /* 2024-02-29 */
    {"Asia/Kolkata", 31, 1711823400, 1714415400}, /* 2024-03-31 */
    {"America/Los_Angeles", 31, 1675152000, 1677571200}, /* 2023-01-31 */
    {"America/Los_Angeles", 31, 1677571200, 1680246000}, /* 2023-02-28 */
    {"America/Los_Angeles", 31, 1680246000, 1682838000}, /* 2023-03-31 */
    {"America/Los_Angeles", 31, 1706688000, 1709193600}, /* 2024-01-31 */
    {"America/Los_Angeles", 31, 1709193600, 1711868400}, /* 2024-02-29 */
    {"America/Los_Angeles", 31, 1711868400, 1714460400}, /* 2024-03-31 */
};

static const struct {
    struct date date;
    const char *name;
    int64_t from_s, until_s;
} weeks[] = { /* of Europe/Berlin */
    {{2010, 1, 1}, "2009-W53", 1261954800, 1262559600},
    {{2009, 12, 31}, "2009-W53", 1261954800, 1262559600},
    {{2020, 12, 31}, "2020-W53", 1609110000, 1609714800},
    {{2021, 1, 3}, "2020-W53", 1609110000, 1609714800},
    {{2024, 12, 30}, "2025-W01", 1735513200, 1736118000},
    {{2016, 1, 1}, "2015-W53", 1451257200, 1451862000},
    {{2023, 11, 27}, "2023-W48", 1701039600, 1701644400},
    {{2023, 3, 26}, "2023-W12", 1679266800, 1679868000},
};
/* clang-format on */

static void days_begin_where_clocks_say(void **state)
{
    (void)state;
    check_rows(days, sizeof(days) / sizeof(*days), PERIOD_DAY);
}

static void months_end_with_their_last_day(void **state)
{
    (void)state;
    check_rows(months, sizeof(months) / sizeof(*months), PERIOD_MONTH);
}

static void years_have_365_or_366_days(void **state)
{
    (void)state;
    check_around("UTC", PERIOD_YEAR, 1672531200, 1704067200);
    check_around("UTC", PERIOD_YEAR, 1704067200, 1735689600);
    check_around("UTC", PERIOD_YEAR, 4102444800, 4133980800);          /* 2100 has no leap day */
    check_around("Asia/Kathmandu", PERIOD_YEAR, 946664100, 978286500); /* 2000 has one */
}

static void anchors_fall_on_the_last_day_of_shorter_months(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(anchored) / sizeof(*anchored); i++) {
        const struct zone *zone = zone_named(anchored[i].zone);
        const int64_t from_us = anchored[i].from_s * SECOND_US;
        const int64_t until_us = anchored[i].until_s * SECOND_US;
        const int64_t moments_us[] = {from_us, from_us / 2 + until_us / 2, until_us - 1};

        for (size_t j = 0; j < 3; j++) {
            const struct period period = period_anchored(zone, anchored[i].day, moments_us[j]);

            assert_int_equal(period.from_us, from_us);
            assert_int_equal(period.until_us, until_us);
        }
    }
}

static void weeks_are_those_of_the_standard(void **state)
{
    (void)state;
    const struct zone *zone = zone_named("Europe/Berlin");
    char text[PERIOD_TEXT_BYTES];

    for (size_t i = 0; i < sizeof(weeks) / sizeof(*weeks); i++) {
        struct period period;

        check_around("Europe/Berlin", PERIOD_WEEK, weeks[i].from_s, weeks[i].until_s);
        (void)period_print_name(zone, PERIOD_WEEK, weeks[i].from_s * SECOND_US, text);
        assert_string_equal(text, weeks[i].name);
        assert_int_equal(period_read(span_of(weeks[i].name), zone, 0, &period), OK);
        assert_int_equal(period.from_us, weeks[i].from_s * SECOND_US);
        assert_int_equal(period.until_us, weeks[i].until_s * SECOND_US);
    }
}

static void hours_begin_when_clocks_show_a_full_one(void **state)
{
    (void)state;
    check_around("UTC", PERIOD_HOUR, 1700002800, 1700006400);
    check_around("Asia/Kolkata", PERIOD_HOUR, 1700001000, 1700004600);   /* 22:30 UTC … */
    check_around("Asia/Kathmandu", PERIOD_HOUR, 1700000100, 1700003700); /* 22:15 UTC … */
    check_around("Europe/Berlin", PERIOD_HOUR, 1698537600, 1698541200); /* 2 h for the first time */
    check_around("Europe/Berlin", PERIOD_HOUR, 1698541200, 1698544800); /* and once more */
    /* 2023-10-01: from 2:00 clocks jump to 2:30, so that the hour from 2:30 on has a half. */
    check_around("Australia/Lord_Howe", PERIOD_HOUR, 1696087800 - 3600, 1696087800);
    check_around("Australia/Lord_Howe", PERIOD_HOUR, 1696087800, 1696089600);
    check_around("Australia/Lord_Howe", PERIOD_HOUR, 1696089600, 1696093200);
    /* 2023-04-02: at 2:00 they go back to 1:30, which is shown twice. */
    check_around("Australia/Lord_Howe", PERIOD_HOUR, 1680361200 - 3600, 1680361200);
    check_around("Australia/Lord_Howe", PERIOD_HOUR, 1680361200, 1680363000);
}

static void clocks_put_back_over_midnight_do_not_bring_the_day_back(void **state)
{
    (void)state;
    const struct zone *zone = zone_named("America/St_Johns");
    /* 1990-10-28 at 0:01 clocks went back to 23:01: they show the 27th, whose day is over. */
    const int64_t again_us = (657081060 + 60) * SECOND_US;

    assert_int_equal(period_date(zone, again_us).day, 27);
    check_around("America/St_Johns", PERIOD_DAY, 657081000 - 86400, 657081000);
    check_around("America/St_Johns", PERIOD_DAY, 657081000, 657171000);
    assert_int_equal(period_around(zone, PERIOD_DAY, again_us).from_us, 657081000 * SECOND_US);
}

static void periods_follow_each_other_without_a_gap(void **state)
{
    (void)state;
    const char *names[] = {"Europe/Berlin",    "Australia/Lord_Howe", "Pacific/Apia",
                           "America/St_Johns", "America/Sao_Paulo",   "Asia/Kathmandu"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const struct zone *zone = zone_named(names[i]);

        for (enum period_unit unit = PERIOD_HOUR; unit < PERIOD_UNITS; unit++) {
            /* From 2011-03-01 on, over all changes of that year. */
            struct period period = period_around(zone, unit, 1298937600 * SECOND_US);

            while (period.until_us < 1328054400 * SECOND_US) {
                const struct period next = period_next(zone, unit, period);

                assert_int_equal(next.from_us, period.until_us);
                assert_true(next.until_us > next.from_us);
                assert_int_equal(period_around(zone, unit, next.until_us - 1).from_us,
                                 next.from_us);
                period = next;
            }
        }
    }
}

#define NOW_S 1700000000 /* 2023-11-14 22:13:20 UTC, 23:13:20 in Berlin */

static void what_an_operator_writes_is_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t from_s, until_s; /* in Berlin */
    } rows[] = {
        {"2023", 1672527600, 1704063600},
        {"2023-11", 1698793200, 1701385200},
        {"2023-10", 1696111200, 1698793200},
        {"2023-11-30", 1701298800, 1701385200},
        {"2023-W48", 1701039600, 1701644400},
        {"today", 1699916400, 1700002800},
        {"yesterday", 1699830000, 1699916400},
        {"month", 1698793200, 1701385200},
        {"last-month", 1696111200, 1698793200},
        {"24h", NOW_S - 86400, NOW_S},
        {"7d", NOW_S - 7 * 86400, NOW_S},
        {"1h", NOW_S - 3600, NOW_S},
        {"2023-11-29..2023-11-30", 1701212400, 1701385200},
        {"2023-10..2023-11-01", 1696111200, 1698879600},
        {"2023..2024", 1672527600, 1735686000},
        {"2024-02-29", 1709161200, 1709247600},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct period period = {0, 0};

        if (period_read(span_of(rows[i].text), zone_named("Europe/Berlin"), NOW_S * SECOND_US,
                        &period) != OK)
            fail_msg("%s: refused", rows[i].text);
        if (period.from_us != rows[i].from_s * SECOND_US ||
            period.until_us != rows[i].until_s * SECOND_US)
            fail_msg("%s: %lld to %lld", rows[i].text, (long long)period.from_us / SECOND_US,
                     (long long)period.until_us / SECOND_US);
    }
}

static void what_is_no_period_is_refused(void **state)
{
    (void)state;
    const char *wrong[] = {"",
                           "203",
                           "2023-",
                           "2023-1",
                           "2023-13",
                           "2023-00",
                           "2023-11-31",
                           "2023-02-29",
                           "2100-02-29",
                           "2023-11-00",
                           "2023-W00",
                           "2023-W53",
                           "2023-W1",
                           "2023-W011",
                           "2023-11-301",
                           "Today",
                           "0h",
                           "-1h",
                           "h",
                           "7w",
                           "99999999999999999999h",
                           "876601h",
                           "2023-11-30..2023-11-29",
                           "..",
                           "2023..",
                           "..2023",
                           "2023..today",
                           "2023...2024",
                           " 2023",
                           "2023-11-30T00:00:00Z"};
    struct period period;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        if (period_read(span_of(wrong[i]), zone_utc(), NOW_S * SECOND_US, &period) != ERR_BAD_VALUE)
            fail_msg("'%s': taken", wrong[i]);
    }
    /* The day that Apia left out. */
    assert_int_equal(period_read(SPAN("2011-12-30"), zone_named("Pacific/Apia"), 0, &period),
                     ERR_BAD_VALUE);
    assert_int_equal(
        period_read(SPAN("2011-12-29..2011-12-30"), zone_named("Pacific/Apia"), 0, &period), OK);
    assert_int_equal(period.until_us, 1325239200 * SECOND_US);
}

static void moments_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t at_us;
    } rows[] = {
        {"2023-11-14T22:13:20Z", NOW_S * SECOND_US},
        {"2023-11-14T22:13:20.5Z", NOW_S * SECOND_US + 500000},
        {"2023-11-14T22:13:20.000001Z", NOW_S * SECOND_US + 1},
        {"2023-11-14", 1699916400 * SECOND_US}, /* midnight in Berlin */
        {"1700000000", NOW_S * SECOND_US},
        {"0", 0},
        {"1969-12-31T23:59:59Z", -SECOND_US},
    };
    const char *wrong[] = {"",
                           "2023-11",
                           "2023-11-14T22:13:20",
                           "2023-11-14T24:00:00Z",
                           "2023-11-14T22:60:00Z",
                           "2023-11-14T22:00:60Z",
                           "2023-11-14 22:13:20Z",
                           "2023-11-14T22:13:20.Z",
                           "2023-11-14T22:13:20.1234567Z",
                           "-1",
                           "9223372036855",
                           "2023-11-14T22:13:20Zx",
                           "2023-11-1400:00:00Z"};
    int64_t at_us;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(
            period_read_moment(span_of(rows[i].text), zone_named("Europe/Berlin"), &at_us), OK);
        assert_int_equal(at_us, rows[i].at_us);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        if (period_read_moment(span_of(wrong[i]), zone_utc(), &at_us) != ERR_BAD_VALUE)
            fail_msg("'%s': taken", wrong[i]);
    }
}

static void moments_are_written(void **state)
{
    (void)state;
    char text[PERIOD_TEXT_BYTES];

    assert_int_equal(period_print_utc(NOW_S * SECOND_US, text), 20);
    assert_string_equal(text, "2023-11-14T22:13:20Z");
    (void)period_print_utc(NOW_S * SECOND_US + 1500, text);
    assert_string_equal(text, "2023-11-14T22:13:20.001500Z");
    (void)period_print_utc(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999999Z");
    (void)period_print_utc(INT64_MAX, text);
    (void)period_print_utc(INT64_MIN, text);
    (void)period_print_local(zone_named("Europe/Berlin"), NOW_S * SECOND_US, text);
    assert_string_equal(text, "2023-11-14 23:13:20 +01:00");
    (void)period_print_local(zone_named("America/St_Johns"), NOW_S * SECOND_US, text);
    assert_string_equal(text, "2023-11-14 18:43:20 -03:30");
    (void)period_print_local(zone_named("Europe/Berlin"), -3000000000 * SECOND_US, text);
    assert_string_equal(text, "1874-12-07 19:33:28 +00:53:28");
}

static void periods_bear_names(void **state)
{
    (void)state;
    const struct zone *zone = zone_named("Asia/Kolkata");
    const char *names[PERIOD_UNITS] = {"2023-11-15 03:00", "2023-11-15", "2023-W46", "2023-11",
                                       "2023"};
    char text[PERIOD_TEXT_BYTES];

    for (enum period_unit unit = PERIOD_HOUR; unit < PERIOD_UNITS; unit++) {
        const struct period period = period_around(zone, unit, NOW_S * SECOND_US);

        assert_int_equal(period_print_name(zone, unit, period.from_us, text), strlen(names[unit]));
        assert_string_equal(text, names[unit]);
    }
}

static void the_ends_of_time_do_not_overflow(void **state)
{
    (void)state;
    for (enum period_unit unit = PERIOD_HOUR; unit < PERIOD_UNITS; unit++) {
        (void)period_around(zone_named("Europe/Berlin"), unit, INT64_MAX);
        (void)period_around(zone_named("Europe/Berlin"), unit, INT64_MIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_begin_where_clocks_say),
        cmocka_unit_test(months_end_with_their_last_day),
        cmocka_unit_test(years_have_365_or_366_days),
        cmocka_unit_test(anchors_fall_on_the_last_day_of_shorter_months),
        cmocka_unit_test(weeks_are_those_of_the_standard),
        cmocka_unit_test(hours_begin_when_clocks_show_a_full_one),
        cmocka_unit_test(clocks_put_back_over_midnight_do_not_bring_the_day_back),
        cmocka_unit_test(periods_follow_each_other_without_a_gap),
        cmocka_unit_test(what_an_operator_writes_is_read),
        cmocka_unit_test(what_is_no_period_is_refused),
        cmocka_unit_test(moments_are_read),
        cmocka_unit_test(moments_are_written),
        cmocka_unit_test(periods_bear_names),
        cmocka_unit_test(the_ends_of_time_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
