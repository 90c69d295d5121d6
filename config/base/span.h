/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/span.h: small questions asked of borrowed bytes; pure, inline.
 *
 * For:       comparing names without copying them.
 * Called by: any room.
 * Knows not: where the bytes live. */
#ifndef CONFIG_BASE_SPAN_H
#define CONFIG_BASE_SPAN_H

#include <string.h>
#include <strings.h>

#include "config/base/vocab.h"

#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})

static inline struct span span_of(const char *text)
{
    return (struct span){text, text ? strlen(text) : 0};
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* ASCII letters alike in both cases. */
static inline bool span_equal_nocase(struct span a, struct span b)
{
    return a.size == b.size && (a.size == 0 || strncasecmp(a.data, b.data, a.size) == 0);
}

/* Below, at or above 0: by their bytes; of two that begin alike the shorter one comes first. */
static inline int span_compare(struct span a, struct span b)
{
    const size_t both = a.size < b.size ? a.size : b.size;
    const int order = both > 0 ? memcmp(a.data, b.data, both) : 0;

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static inline bool span_starts(struct span text, struct span with)
{
    return text.size >= with.size && memcmp(text.data, with.data, with.size) == 0;
}

/* The end of a noun that is counted: "s", but of one "". */
static inline const char *span_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* The rest of text from byte at on; at must not lie behind its end. */
static inline struct span span_from(struct span text, size_t at)
{
    return (struct span){text.data + at, text.size - at};
}

/* Reads a decimal number without sign of 1 to 19 digits that fits int64_t. */
MUST_CHECK bool span_to_int64(struct span text, int64_t *out_value);

/* Does text match pattern, in which * stands for any bytes (none too)? ASCII case is ignored.
 * Linear in practice: backtracks to the last star only. */
MUST_CHECK bool span_matches(struct span text, struct span pattern);

#endif
