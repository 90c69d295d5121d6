/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_ask.c: see usage_ask.h.
 *
 * For:       columns and buckets of a question to the books.
 * Called by: cmd_usage.c, usage_api.c.
 * Knows not: where the words come from, what is answered. */
#include "gateway/usage_ask.h"

static bool find_column(struct span name, enum books_column *out_column)
{
    for (int i = 0; i < BOOKS_COLUMN_COUNT; i++) {
        if (span_equal(name, span_of(books_column_name((enum books_column)i)))) {
            *out_column = (enum books_column)i;
            return true;
        }
    }
    return false;
}

bool usage_ask_column(struct books_ask *ask, struct span name, enum books_column *out_column)
{
    const struct span tag = SPAN("tag:");

    if (!span_starts(name, tag) || name.size == tag.size)
        return find_column(name, out_column);
    if (ask->tag.data != NULL && !span_equal(ask->tag, span_from(name, tag.size)))
        return false;
    ask->tag = span_from(name, tag.size);
    *out_column = BY_TAGS;
    return true;
}

static bool add_by(struct books_ask *ask, struct span name)
{
    enum books_column column;

    if (ask->by_count == BOOKS_BY_MAX || !usage_ask_column(ask, name, &column))
        return false;
    for (uint32_t i = 0; i < ask->by_count; i++)
        if (ask->by[i] == column)
            return false;
    ask->by[ask->by_count++] = column;
    return true;
}

bool usage_ask_by(struct books_ask *ask, struct span names)
{
    for (;;) {
        const char *comma = names.size > 0 ? memchr(names.data, ',', names.size) : NULL;

        if (comma == NULL)
            return add_by(ask, names);
        if (!add_by(ask, (struct span){names.data, (size_t)(comma - names.data)}))
            return false;
        names = span_from(names, (size_t)(comma - names.data) + 1);
    }
}

bool usage_ask_bucket(struct books_ask *ask, struct span unit)
{
    static const char *const units[] = {[PERIOD_HOUR] = "hour",
                                        [PERIOD_DAY] = "day",
                                        [PERIOD_WEEK] = "week",
                                        [PERIOD_MONTH] = "month"};

    for (enum period_unit i = PERIOD_HOUR; i <= PERIOD_MONTH; i++) {
        if (span_equal(unit, span_of(units[i]))) {
            ask->bucketed = true;
            ask->bucket = i;
            return true;
        }
    }
    return false;
}
