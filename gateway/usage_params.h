/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_params.h: what a query string asks of the usage endpoints; pure.
 *
 * For:       the parameters of OpenAI's usage and costs endpoints, checked.
 * Called by: usage_api.c, usage_page.c.
 * Knows not: HTTP, ledgers, who asks.
 *
 * Source: OpenAI's API reference, organization usage and costs, read in 2026. A name may have []
 * behind it, as its SDKs write lists; group_by may also have commas. What is not known is refused:
 * a misspelt filter would be a wrong number. */
#ifndef GATEWAY_USAGE_PARAMS_H
#define GATEWAY_USAGE_PARAMS_H

#include "config/base/arena.h"
#include "config/base/err.h"
#include "config/base/span.h"

enum usage_subject { USAGE_COMPLETIONS, USAGE_COSTS };

enum usage_group {
    GROUP_PROJECT,
    GROUP_USER,
    GROUP_KEY,
    GROUP_MODEL,
    GROUP_BATCH,
    GROUP_TIER,
    GROUP_LINE_ITEM,
    USAGE_GROUPS
};

#define USAGE_VALUES_MAX 64u

struct usage_values {
    struct span values[USAGE_VALUES_MAX];
    uint32_t count; /* 0: all */
};

/* Moments in microseconds since 1970 UTC. Buckets begin on whole minutes, hours or days of UTC; the
 * first and the last are cut to what was asked for. */
struct usage_params {
    int64_t start_us, end_us; /* end, when not said: of the bucket that it is now */
    int64_t width_us;
    int64_t page_us; /* where this page begins: start_us or a bucket's begin */
    int64_t limit;   /* buckets a page */
    bool grouped[USAGE_GROUPS];
    struct usage_values models, keys, projects, users;
    bool batch_alone; /* batch=true: there are none */
};

struct usage_refusal {
    struct span param; /* borrowed from the query or the arena; {NULL, 0}: none */
    const char *why;   /* static */
};

/* Reads a query string (without its ?). Texts lie in the arena or in the query.
 * Errors: ERR_BAD_VALUE (*out_refusal says which and why), ERR_NO_MEMORY. */
MUST_CHECK enum err usage_params_read(enum usage_subject subject, struct span query, int64_t now_us,
                                      struct arena *arena, struct usage_params *out_params,
                                      struct usage_refusal *out_refusal);

/* Cuts the next name=value off a query, decoded. false: there is none, or *out_err. */
MUST_CHECK bool usage_params_next(struct span *query, struct arena *arena, struct span *out_name,
                                  struct span *out_value, enum err *out_err);

/* Where the bucket behind the one of a moment begins. */
int64_t usage_params_bucket_end(const struct usage_params *params, int64_t at_us);

#endif
