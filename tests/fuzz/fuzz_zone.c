/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_zone.c: time zone files from anybody, and what their clocks then show.
 *
 * Checks: a file is refused or taken, never read beyond its end; what was taken answers for every
 * moment with an offset that can be; the first moment of a local time shows it and none before
 * does; each moment lies in its own hour, day, week, month and year, and those follow each other.
 *
 * The first four bytes are an hour since 1970, the fifth how many seconds are added. */
#include "tests/fuzz/fuzz.h"

#include "config/base/period.h"

#define STEER_BYTES 5u
#define OFFSET_BOUND_S (26 * 3600)
#define NEXT_MOST_S (INT64_C(1) << 50) /* moments that are asked about: some ages from now */

static int64_t local_at(const struct zone *zone, int64_t at_s)
{
    const int32_t offset_s = zone_offset_s(zone, at_s);

    CHECK(offset_s > -OFFSET_BOUND_S && offset_s < OFFSET_BOUND_S);
#ifdef PLANT_BUG
    CHECK(offset_s % 7 != 3);
#endif
    return at_s + offset_s;
}

static void check_changes(const struct zone *zone, int64_t at_s)
{
    const int64_t next_s = zone_next_change_s(zone, at_s);

    CHECK(next_s > at_s);
    CHECK(zone_offset_s(zone, next_s - 1) == zone_offset_s(zone, at_s));
    if (next_s < NEXT_MOST_S)
        CHECK(zone_offset_s(zone, at_s + (next_s - at_s) / 2) == zone_offset_s(zone, at_s));
}

static void check_first(const struct zone *zone, int64_t local_s)
{
    const int64_t first_s = zone_first_at_s(zone, local_s);
    int64_t back_s = 1;

    CHECK(local_at(zone, first_s) >= local_s);
    for (int i = 0; i < 18; i++, back_s *= 2)
        CHECK(local_at(zone, first_s - back_s) < local_s);
}

static void check_periods(const struct zone *zone, int64_t at_us)
{
    for (enum period_unit unit = PERIOD_HOUR; unit < PERIOD_UNITS; unit++) {
        const struct period period = period_around(zone, unit, at_us);
        const struct period next = period_next(zone, unit, period);

        CHECK(period.from_us <= at_us && at_us < period.until_us);
        CHECK(next.from_us == period.until_us && next.until_us > next.from_us);
        CHECK(period_around(zone, unit, period.until_us - 1).until_us == period.until_us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zone *zone;
    int32_t hours;

    if (size < STEER_BYTES)
        return 0;
    memcpy(&hours, data, sizeof(hours));
    const int64_t at_s = (int64_t)hours * 3600 + data[4];
    char *file = exact_copy((struct span){(const char *)data + STEER_BYTES, size - STEER_BYTES});
    const enum err err = zone_read(SPAN("Fuzz"), (struct span){file, size - STEER_BYTES}, &zone);

    free(file);
    CHECK(err == OK || err == ERR_BAD_VALUE);
    if (err != OK)
        return 0;
    check_changes(zone, at_s);
    check_first(zone, at_s);
    const int64_t next_s = zone_next_change_s(zone, at_s);

    if (next_s < NEXT_MOST_S)
        check_first(zone, local_at(zone, next_s - 1));
    check_periods(zone, at_s * 1000000);
    free(zone);
    return 0;
}
