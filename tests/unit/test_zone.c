/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_zone.c: time zones (config/base/zone.c, config/base/zone_rule.c).
 *
 * Promises:  1. Clocks of 22 zones show what they showed, before and at each change.
 *            2. The first moment of a local time: skipped ones at the jump, double ones the first
 * time.
 *            3. Behind the last change the footer's rule holds: hours beyond a day, before
 * midnight, days by number, summer all year, winter that is summer's; for any year.
 *            4. A file that is cut or wrong anywhere is refused, never read beyond its end.
 *            5. Names find files of the folder only; a zone is read once; UTC needs no file.
 *
 * Expected numbers are from Python's zoneinfo on tzdata 2025b; no row lies behind that date, since
 * laws change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/zone.h"

static const struct zone *zone_named(const char *name)
{
    const struct zone *zone = NULL;

    if (zone_find(span_of(name), &zone) != OK)
        fail_msg("%s: no such zone", name);
    return zone;
}

/* clang-format off */
static const struct {
    const char *zone;
    int64_t at_s;
    int32_t offset_s;
} offsets[] = {
    {"Europe/Berlin", 473428800, 3600},
    {"Europe/Berlin", 1301187599, 3600},
    {"Europe/Berlin", 1301187600, 7200},
    {"Europe/Berlin", 1319936399, 7200},
    {"Europe/Berlin", 1319936400, 3600},
    {"Europe/Berlin", 1679792399, 3600},
    {"Europe/Berlin", 1679792400, 7200},
    {"Europe/Berlin", 1698541199, 7200},
    {"Europe/Berlin", 1698541200, 3600},
    {"Europe/Berlin", 1709208000, 3600},
    {"America/New_York", 473428800, -18000},
    {"America/New_York", 1299999599, -18000},
    {"America/New_York", 1299999600, -14400},
    {"America/New_York", 1320559199, -14400},
    {"America/New_York", 1320559200, -18000},
    {"America/New_York", 1678604399, -18000},
    {"America/New_York", 1678604400, -14400},
    {"America/New_York", 1699163999, -14400},
    {"America/New_York", 1699164000, -18000},
    {"America/New_York", 1709208000, -18000},
    {"Asia/Kolkata", 473428800, 19800},
    {"Asia/Kolkata", 1709208000, 19800},
    {"Asia/Kathmandu", 473428800, 19800},
    {"Asia/Kathmandu", 1709208000, 20700},
    {"Australia/Lord_Howe", 473428800, 41400},
    {"Australia/Lord_Howe", 1301756399, 39600},
    {"Australia/Lord_Howe", 1301756400, 37800},
    {"Australia/Lord_Howe", 1317482999, 37800},
    {"Australia/Lord_Howe", 1317483000, 39600},
    {"Australia/Lord_Howe", 1680361199, 39600},
    {"Australia/Lord_Howe", 1680361200, 37800},
    {"Australia/Lord_Howe", 1696087799, 37800},
    {"Australia/Lord_Howe", 1696087800, 39600},
    {"Australia/Lord_Howe", 1709208000, 39600},
    {"Pacific/Apia", 473428800, -39600},
    {"Pacific/Apia", 1301752799, -36000},
    {"Pacific/Apia", 1301752800, -39600},
    {"Pacific/Apia", 1316872799, -39600},
    {"Pacific/Apia", 1316872800, -36000},
    {"Pacific/Apia", 1709208000, 46800},
    {"America/Sao_Paulo", 473428800, -10800},
    {"America/Sao_Paulo", 1298167199, -7200},
    {"America/Sao_Paulo", 1298167200, -10800},
    {"America/Sao_Paulo", 1318733999, -10800},
    {"America/Sao_Paulo", 1318734000, -7200},
    {"America/Sao_Paulo", 1709208000, -10800},
    {"Africa/Casablanca", 473428800, 3600},
    {"Africa/Casablanca", 1301788799, 0},
    {"Africa/Casablanca", 1301788800, 3600},
    {"Africa/Casablanca", 1312066799, 3600},
    {"Africa/Casablanca", 1312066800, 0},
    {"Africa/Casablanca", 1679191199, 3600},
    {"Africa/Casablanca", 1679191200, 0},
    {"Africa/Casablanca", 1682215199, 0},
    {"Africa/Casablanca", 1682215200, 3600},
    {"Africa/Casablanca", 1709208000, 3600},
    {"Asia/Tehran", 473428800, 12600},
    {"Asia/Tehran", 1300739399, 12600},
    {"Asia/Tehran", 1300739400, 16200},
    {"Asia/Tehran", 1316633399, 16200},
    {"Asia/Tehran", 1316633400, 12600},
    {"Asia/Tehran", 1709208000, 12600},
    {"America/St_Johns", 473428800, -12600},
    {"America/St_Johns", 1299987059, -12600},
    {"America/St_Johns", 1299987060, -9000},
    {"America/St_Johns", 1320553799, -9000},
    {"America/St_Johns", 1320553800, -12600},
    {"America/St_Johns", 1678598999, -12600},
    {"America/St_Johns", 1678599000, -9000},
    {"America/St_Johns", 1699158599, -9000},
    {"America/St_Johns", 1699158600, -12600},
    {"America/St_Johns", 1709208000, -12600},
    {"Pacific/Chatham", 473428800, 49500},
    {"Pacific/Chatham", 1301752799, 49500},
    {"Pacific/Chatham", 1301752800, 45900},
    {"Pacific/Chatham", 1316872799, 45900},
    {"Pacific/Chatham", 1316872800, 49500},
    {"Pacific/Chatham", 1680357599, 49500},
    {"Pacific/Chatham", 1680357600, 45900},
    {"Pacific/Chatham", 1695477599, 45900},
    {"Pacific/Chatham", 1695477600, 49500},
    {"Pacific/Chatham", 1709208000, 49500},
    {"Antarctica/Troll", 473428800, 0},
    {"Antarctica/Troll", 1301187599, 0},
    {"Antarctica/Troll", 1301187600, 7200},
    {"Antarctica/Troll", 1319936399, 7200},
    {"Antarctica/Troll", 1319936400, 0},
    {"Antarctica/Troll", 1679792399, 0},
    {"Antarctica/Troll", 1679792400, 7200},
    {"Antarctica/Troll", 1698541199, 7200},
    {"Antarctica/Troll", 1698541200, 0},
    {"Antarctica/Troll", 1709208000, 0},
    {"America/Havana", 473428800, -18000},
    {"America/Havana", 1300597199, -18000},
    {"America/Havana", 1300597200, -14400},
    {"America/Havana", 1321160399, -14400},
    {"America/Havana", 1321160400, -18000},
    {"America/Havana", 1678597199, -18000},
    {"America/Havana", 1678597200, -14400},
    {"America/Havana", 1699160399, -14400},
    {"America/Havana", 1699160400, -18000},
    {"America/Havana", 1709208000, -18000},
    {"Asia/Beirut", 473428800, 7200},
    {"Asia/Beirut", 1301176799, 7200},
    {"Asia/Beirut", 1301176800, 10800},
    {"Asia/Beirut", 1319921999, 10800},
    {"Asia/Beirut", 1319922000, 7200},
    {"Asia/Beirut", 1679781599, 7200},
    {"Asia/Beirut", 1679781600, 10800},
    {"Asia/Beirut", 1698526799, 10800},
    {"Asia/Beirut", 1698526800, 7200},
    {"Asia/Beirut", 1709208000, 7200},
    {"Africa/Cairo", 473428800, 7200},
    {"Africa/Cairo", 1682632799, 7200},
    {"Africa/Cairo", 1682632800, 10800},
    {"Africa/Cairo", 1698353999, 10800},
    {"Africa/Cairo", 1698354000, 7200},
    {"Africa/Cairo", 1709208000, 7200},
    {"Pacific/Auckland", 473428800, 46800},
    {"Pacific/Auckland", 1301752799, 46800},
    {"Pacific/Auckland", 1301752800, 43200},
    {"Pacific/Auckland", 1316872799, 43200},
    {"Pacific/Auckland", 1316872800, 46800},
    {"Pacific/Auckland", 1680357599, 46800},
    {"Pacific/Auckland", 1680357600, 43200},
    {"Pacific/Auckland", 1695477599, 43200},
    {"Pacific/Auckland", 1695477600, 46800},
    {"Pacific/Auckland", 1709208000, 46800},
    {"America/Los_Angeles", 473428800, -28800},
    {"America/Los_Angeles", 1300010399, -28800},
    {"America/Los_Angeles", 1300010400, -25200},
    {"America/Los_Angeles", 1320569999, -25200},
    {"America/Los_Angeles", 1320570000, -28800},
    {"America/Los_Angeles", 1678615199, -28800},
    {"America/Los_Angeles", 1678615200, -25200},
    {"America/Los_Angeles", 1699174799, -25200},
    {"America/Los_Angeles", 1699174800, -28800},
    {"America/Los_Angeles", 1709208000, -28800},
    {"Europe/London", 473428800, 0},
    {"Europe/London", 1301187599, 0},
    {"Europe/London", 1301187600, 3600},
    {"Europe/London", 1319936399, 3600},
    {"Europe/London", 1319936400, 0},
    {"Europe/London", 1679792399, 0},
    {"Europe/London", 1679792400, 3600},
    {"Europe/London", 1698541199, 3600},
    {"Europe/London", 1698541200, 0},
    {"Europe/London", 1709208000, 0},
    {"Asia/Tokyo", 473428800, 32400},
    {"Asia/Tokyo", 1709208000, 32400},
    {"UTC", 473428800, 0},
    {"UTC", 1709208000, 0},
    {"America/Nuuk", 473428800, -10800},
    {"America/Nuuk", 1301187599, -10800},
    {"America/Nuuk", 1301187600, -7200},
    {"America/Nuuk", 1319936399, -7200},
    {"America/Nuuk", 1319936400, -10800},
    {"America/Nuuk", 1679792399, -10800},
    {"America/Nuuk", 1679792400, -7200},
    {"America/Nuuk", 1709208000, -7200},
    {"Europe/Dublin", 473428800, 0},
    {"Europe/Dublin", 1301187599, 0},
    {"Europe/Dublin", 1301187600, 3600},
    {"Europe/Dublin", 1319936399, 3600},
    {"Europe/Dublin", 1319936400, 0},
    {"Europe/Dublin", 1679792399, 0},
    {"Europe/Dublin", 1679792400, 3600},
    {"Europe/Dublin", 1698541199, 3600},
    {"Europe/Dublin", 1698541200, 0},
    {"Europe/Dublin", 1709208000, 0},
};
/* clang-format on */

static void clocks_show_what_they_showed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
        const int32_t offset_s = zone_offset_s(zone_named(offsets[i].zone), offsets[i].at_s);

        if (offset_s != offsets[i].offset_s)
            fail_msg("%s at %lld: %d, expected %d", offsets[i].zone, (long long)offsets[i].at_s,
                     offset_s, offsets[i].offset_s);
    }
}

/* clang-format off */
static const struct {
    const char *zone;
    int64_t local_s, at_s;
} firsts[] = {
    {"Europe/Berlin", 1679797800, 1679792400}, /* (2023, 3, 26, 2, 30) */
    {"Europe/Berlin", 1698546600, 1698539400}, /* (2023, 10, 29, 2, 30) */
    {"Europe/Berlin", 1698548400, 1698544800}, /* (2023, 10, 29, 3, 0) */
    {"Pacific/Apia", 1325203200, 1325239200}, /* (2011, 12, 30, 0, 0) */
    {"Pacific/Apia", 1325250000, 1325239200}, /* (2011, 12, 30, 13, 0) */
    {"Pacific/Apia", 1325289600, 1325239200}, /* (2011, 12, 31, 0, 0) */
    {"America/Havana", 1678579200, 1678597200}, /* (2023, 3, 12, 0, 0) */
    {"America/Havana", 1699142400, 1699156800}, /* (2023, 11, 5, 0, 0) */
    {"America/Havana", 1699144200, 1699158600}, /* (2023, 11, 5, 0, 30) */
    {"America/Sao_Paulo", 1518912000, 1518922800}, /* (2018, 2, 18, 0, 0) */
    {"America/Sao_Paulo", 1541289600, 1541300400}, /* (2018, 11, 4, 0, 0) */
    {"Australia/Lord_Howe", 1680399900, 1680360300}, /* (2023, 4, 2, 1, 45) */
    {"Australia/Lord_Howe", 1696126500, 1696087800}, /* (2023, 10, 1, 2, 15) */
    {"America/St_Johns", 657072000, 657081000}, /* (1990, 10, 28, 0, 0) */
    {"America/St_Johns", 657072060, 657084660}, /* (1990, 10, 28, 0, 1) */
    {"Africa/Cairo", 1682640000, 1682632800}, /* (2023, 4, 28, 0, 0) */
    {"Africa/Cairo", 1698364800, 1698357600}, /* (2023, 10, 27, 0, 0) */
    {"Asia/Beirut", 1301184000, 1301176800}, /* (2011, 3, 27, 0, 0) */
    {"Asia/Tehran", 1300752000, 1300739400}, /* (2011, 3, 22, 0, 0) */
    {"UTC", 1767225600, 1767225600}, /* (2026, 1, 1, 0, 0) */
    {"Antarctica/Troll", 1679796000, 1679792400}, /* (2023, 3, 26, 2, 0) */
};
/* clang-format on */

static void the_first_moment_of_a_local_time_is_the_jump_or_the_first_of_two(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(firsts) / sizeof(*firsts); i++) {
        const int64_t at_s = zone_first_at_s(zone_named(firsts[i].zone), firsts[i].local_s);

        if (at_s != firsts[i].at_s)
            fail_msg("%s at %lld: %lld", firsts[i].zone, (long long)firsts[i].local_s,
                     (long long)at_s);
    }
}

/* ---- files made here ---- */

#define FILE_BYTES_MAX 512u
#define HEADER_BYTES 44u

struct file {
    char bytes[FILE_BYTES_MAX];
    size_t size;
};

static void put_number(struct file *file, uint64_t value, size_t bytes)
{
    for (size_t i = bytes; i-- > 0;)
        file->bytes[file->size++] = (char)(value >> (8 * i));
}

static void put_header(struct file *file, uint32_t changes)
{
    memcpy(file->bytes + file->size, "TZif3", 5);
    memset(file->bytes + file->size + 5, 0, 15);
    file->size += 20;
    put_number(file, 0, 4);
    put_number(file, 0, 4);
    put_number(file, 0, 4);
    put_number(file, changes, 4);
    put_number(file, 2, 4);
    put_number(file, 4, 4);
}

/* A slim file: an empty first block, and a second one with two types, an hour apart, and one change
 * at 1000 to the second type. */
static struct file make_file(const char *rule)
{
    struct file file = {.size = 0};

    put_header(&file, 0);
    for (size_t i = 0; i < 2 * 6 + 4; i++)
        put_number(&file, 0, 1);
    put_header(&file, 1);
    put_number(&file, 1000, 8);
    put_number(&file, 1, 1);
    put_number(&file, 0, 6);
    put_number(&file, 3600, 4);
    put_number(&file, 1, 1);
    put_number(&file, 0, 1);
    memcpy(file.bytes + file.size, "AAA", 4);
    file.size += 4;
    file.size +=
        (size_t)snprintf(file.bytes + file.size, FILE_BYTES_MAX - file.size, "\n%s\n", rule);
    return file;
}

/* The offset of the header and of the parts of the second block. */
#define SECOND (HEADER_BYTES + 16)
#define CHANGES (SECOND + HEADER_BYTES)
#define INDEXES (CHANGES + 8)
#define TYPES (INDEXES + 1)

/* Reads a copy that ends where its memory ends. */
static enum err read_copy(const char *bytes, size_t size, struct zone **out_zone)
{
    char *copy = malloc(size > 0 ? size : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    const enum err err = zone_read(SPAN("Made/Here"), (struct span){copy, size}, out_zone);

    free(copy);
    return err;
}

static struct zone *zone_of_rule(const char *rule)
{
    const struct file file = make_file(rule);
    struct zone *zone = NULL;

    if (read_copy(file.bytes, file.size, &zone) != OK)
        fail_msg("%s: refused", rule);
    return zone;
}

/* Two changes in 2024 and the offsets before, between and behind them. */
static const struct {
    const char *rule;
    int64_t first_s, second_s;
    int32_t offsets_s[3];
} rules[] = {
    {"CET-1CEST,M3.5.0,M10.5.0/3", 1711846800, 1729990800, {3600, 7200, 3600}},
    {"IST-2IDT,M3.4.4/26,M10.5.0", 1711670400, 1729983600, {7200, 10800, 7200}},
    {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 1711846800, 1729990800, {-7200, -3600, -7200}},
    {"IST-1GMT0,M10.5.0,M3.5.0/1", 1711846800, 1729990800, {0, 3600, 0}},
    {"AAA3BBB,J60/0,J300/0", 1709262000, 1729994400, {-10800, -7200, -10800}},
    {"NZST-12NZDT,M9.5.0,M4.1.0/3", 1712412000, 1727532000, {46800, 43200, 46800}},
    /* By hand, and as date(1) has it: days 59 and 300 counted from 0, with the leap day; 167 hours
     * before 14 January, and after 3 November. */
    {"AAA3BBB,59/0,300/0", 1709175600, 1729994400, {-10800, -7200, -10800}},
    {"AAA0BBB,M1.2.0/-167,M11.1.0/167", 1704589200, 1731189600, {0, 3600, 0}},
};

static void the_rule_of_the_footer_holds_behind_the_last_change(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        struct zone *zone = zone_of_rule(rules[i].rule);

        assert_int_equal(zone_offset_s(zone, 999), 0);
        assert_int_equal(zone_next_change_s(zone, 999), 1000);
        assert_int_equal(zone_offset_s(zone, rules[i].first_s - 1), rules[i].offsets_s[0]);
        assert_int_equal(zone_offset_s(zone, rules[i].first_s), rules[i].offsets_s[1]);
        assert_int_equal(zone_next_change_s(zone, rules[i].first_s - 1), rules[i].first_s);
        assert_int_equal(zone_next_change_s(zone, rules[i].first_s), rules[i].second_s);
        assert_int_equal(zone_offset_s(zone, rules[i].second_s - 1), rules[i].offsets_s[1]);
        assert_int_equal(zone_offset_s(zone, rules[i].second_s), rules[i].offsets_s[2]);
        free(zone);
    }
}

static void a_rule_holds_in_any_year(void **state)
{
    (void)state;
    struct zone *zone = zone_of_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    const int64_t cycle_s = INT64_C(146097) * 86400;

    /* The calendar of 2024 comes again every 400 years. */
    for (int64_t i = 1; i < 1000000; i *= 7) {
        assert_int_equal(zone_offset_s(zone, 1711846800 - 1 + i * cycle_s), 3600);
        assert_int_equal(zone_offset_s(zone, 1711846800 + i * cycle_s), 7200);
        assert_int_equal(zone_next_change_s(zone, 1711846800 + i * cycle_s),
                         1729990800 + i * cycle_s);
    }
    (void)zone_offset_s(zone, INT64_MAX);
    (void)zone_offset_s(zone, INT64_MIN);
    (void)zone_next_change_s(zone, INT64_MAX);
    (void)zone_first_at_s(zone, INT64_MAX);
    (void)zone_first_at_s(zone, INT64_MIN);
    free(zone);
}

static void summer_may_last_all_year(void **state)
{
    (void)state;
    struct zone *zone = zone_of_rule("XXX3EDT4,0/0,J365/23");

    for (int64_t at_s = 1703970000; at_s < 1703970000 + 2 * 366 * 86400; at_s += 1800)
        assert_int_equal(zone_offset_s(zone, at_s), -14400);
    free(zone);
}

static void without_a_rule_the_last_offset_stays(void **state)
{
    (void)state;
    struct zone *zone = zone_of_rule("");

    assert_int_equal(zone_offset_s(zone, 1000), 3600);
    assert_int_equal(zone_offset_s(zone, INT64_C(1) << 40), 3600);
    assert_int_equal(zone_next_change_s(zone, 1000), INT64_MAX);
    free(zone);
}

static void rules_that_are_none_are_refused(void **state)
{
    (void)state;
    const char *wrong[] = {"CET",
                           "CE-1",
                           "CET-25",
                           "CET-1CEST",
                           "CET-1CEST,M3.5.0",
                           "CET-1CEST,M13.5.0,M10.5.0",
                           "CET-1CEST,M3.6.0,M10.5.0",
                           "CET-1CEST,M3.5.7,M10.5.0",
                           "CET-1CEST,J0,J300",
                           "CET-1CEST,J366,J300",
                           "CET-1CEST,366,300",
                           "CET-1CEST,M3.5.0/168,M10.5.0",
                           "CET-1CEST,M3.5.0,M10.5.0/3 ",
                           "<C>-1",
                           "<+01-1",
                           "CET-1:60",
                           "CET-1:00:60",
                           "CET--1",
                           "CET-0001",
                           "CET-1CEST,M3.5.0,M10.5.0,M11.1.0"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const struct file file = make_file(wrong[i]);
        struct zone *zone = NULL;

        if (read_copy(file.bytes, file.size, &zone) != ERR_BAD_VALUE)
            fail_msg("%s: taken", wrong[i]);
    }
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const struct file file = make_file("CET-1CEST,M3.5.0,M10.5.0/3");
    struct zone *zone = NULL;

    for (size_t size = 0; size < file.size; size++)
        assert_int_equal(read_copy(file.bytes, size, &zone), ERR_BAD_VALUE);
    assert_int_equal(read_copy(file.bytes, file.size, &zone), OK);
    free(zone);
}

static void a_file_with_a_wrong_byte_is_refused(void **state)
{
    (void)state;
    const struct {
        size_t at;
        unsigned char byte;
    } wrong[] = {
        {0, 'X'},           {4, 0}, /* version 1 */
        {SECOND, 'X'},      {SECOND + 4, '1'},
        {SECOND + 23, 1},                     /* one UT mark for two types */
        {SECOND + 27, 1},                     /* one standard mark for two types */
        {SECOND + 31, 1},                     /* a leap second */
        {SECOND + 32, 255},                   /* billions of changes */
        {SECOND + 36, 255}, {SECOND + 39, 0}, /* billions of types, and none */
        {SECOND + 43, 0},                     /* no letters */
        {INDEXES, 2},                         /* a type that is not there */
        {TYPES + 6, 127},                     /* an offset of years */
        {TYPES + 6, 128},   {TYPES + 4, 2},
        {TYPES + 5, 4},     {TYPES + 16, 'A'}, /* no newline before the footer */
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct file file = make_file("UTC0");
        struct zone *zone = NULL;

        file.bytes[wrong[i].at] = (char)wrong[i].byte;
        if (read_copy(file.bytes, file.size, &zone) != ERR_BAD_VALUE)
            fail_msg("byte %zu: taken", wrong[i].at);
    }
}

static void changes_out_of_order_are_refused(void **state)
{
    (void)state;
    struct file file = make_file("");
    struct zone *zone = NULL;
    struct file twice = {.size = CHANGES};

    /* The same change two times. */
    memcpy(twice.bytes, file.bytes, CHANGES);
    twice.bytes[SECOND + 35] = 2;
    put_number(&twice, 1000, 8);
    put_number(&twice, 1000, 8);
    put_number(&twice, 0, 1);
    memcpy(twice.bytes + twice.size, file.bytes + INDEXES, file.size - INDEXES);
    twice.size += file.size - INDEXES;
    assert_int_equal(read_copy(twice.bytes, twice.size, &zone), ERR_BAD_VALUE);

    twice.bytes[CHANGES + 15] = (char)0xe9;
    assert_int_equal(read_copy(twice.bytes, twice.size, &zone), OK);
    assert_int_equal(zone_next_change_s(zone, 1000), 1001);
    free(zone);
}

static void names_do_not_leave_the_folder(void **state)
{
    (void)state;
    const char *wrong[] = {"",        "/etc/passwd",    "../zoneinfo/UTC", "Europe/../UTC",
                           "Europe",  "Europe//Berlin", "Europe/",         "zone.tab",
                           "No/Such", "Europe/Berlin ", "leapseconds",     "right/Europe/Berlin"};
    const struct zone *zone = NULL;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        if (zone_find(span_of(wrong[i]), &zone) != ERR_BAD_VALUE)
            fail_msg("'%s': taken", wrong[i]);
    }
    assert_int_equal(zone_find((struct span){"UTC\0x", 5}, &zone), ERR_BAD_VALUE);
}

static void a_zone_is_read_once_and_bears_its_name(void **state)
{
    (void)state;
    const struct zone *first = zone_named("Europe/Berlin");

    assert_ptr_equal(zone_named("Europe/Berlin"), first);
    assert_true(span_equal(zone_name(first), SPAN("Europe/Berlin")));
}

static void utc_needs_no_database(void **state)
{
    (void)state;
    const struct zone *zone = NULL;

    assert_int_equal(setenv("TZDIR", "/nonexistent", 1), 0);
    assert_int_equal(zone_find(SPAN("UTC"), &zone), OK);
    assert_ptr_equal(zone, zone_utc());
    assert_int_equal(zone_offset_s(zone, 1700000000), 0);
    assert_int_equal(zone_find(SPAN("Asia/Dubai"), &zone), ERR_BAD_VALUE);
    assert_int_equal(unsetenv("TZDIR"), 0);
    assert_int_equal(zone_find(SPAN("Asia/Dubai"), &zone), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_show_what_they_showed),
        cmocka_unit_test(the_first_moment_of_a_local_time_is_the_jump_or_the_first_of_two),
        cmocka_unit_test(the_rule_of_the_footer_holds_behind_the_last_change),
        cmocka_unit_test(a_rule_holds_in_any_year),
        cmocka_unit_test(summer_may_last_all_year),
        cmocka_unit_test(without_a_rule_the_last_offset_stays),
        cmocka_unit_test(rules_that_are_none_are_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_file_with_a_wrong_byte_is_refused),
        cmocka_unit_test(changes_out_of_order_are_refused),
        cmocka_unit_test(names_do_not_leave_the_folder),
        cmocka_unit_test(a_zone_is_read_once_and_bears_its_name),
        cmocka_unit_test(utc_needs_no_database),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
