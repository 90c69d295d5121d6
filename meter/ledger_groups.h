/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_groups.h: sums of groups, gathered in memory.
 *
 * For:       adding roll-ups and rows up by what was asked, in 128 bits.
 * Called by: ledger_usage.c.
 * Knows not: where the numbers come from. */
#ifndef METER_LEDGER_GROUPS_H
#define METER_LEDGER_GROUPS_H

#include "meter/ledger_store.h"

#define LEDGER_GROUPS_MAX 2000000u

/* A group and its sums; its texts lie behind it. */
struct ledger_group {
    uint64_t hash;
    int64_t bucket_us;
    struct span by[BOOKS_BY_MAX];
    money_sum sums[LEDGER_SUM_COUNT];
};

struct ledger_groups {
    uint32_t by_count;
    struct ledger_group **groups; /* in the order of their coming */
    uint32_t count, room;
    uint32_t *index;      /* group + 1; 0: none */
    uint32_t index_slots; /* a power of two */
};

/* Empty; by_count: how many texts a group has. ledger_groups_fini() frees all, groups too. */
void ledger_groups_init(struct ledger_groups *groups, uint32_t by_count);
void ledger_groups_fini(struct ledger_groups *groups);

/* The group of a bucket and texts, which are copied; NULL: no memory, or too many. */
struct ledger_group *ledger_groups_find(struct ledger_groups *groups, int64_t bucket_us,
                                        const struct span by[BOOKS_BY_MAX]);

/* Puts them in order: by bucket, then by the texts. Nothing may be found any more. */
void ledger_groups_sort(struct ledger_groups *groups);

#endif
