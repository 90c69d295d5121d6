/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_groups.c: sums of groups, gathered in memory.
 *
 * For:       adding roll-ups and rows up by what was asked, in 128 bits.
 * Called by: ledger_usage.c.
 * Knows not: where the numbers come from. */
#include "meter/ledger_groups.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"

#define FIRST_ROOM 256u

void ledger_groups_init(struct ledger_groups *groups, uint32_t by_count)
{
    *groups = (struct ledger_groups){.by_count = by_count};
}

void ledger_groups_fini(struct ledger_groups *groups)
{
    for (uint32_t i = 0; i < groups->count; i++)
        free(groups->groups[i]);
    free(groups->groups);
    free(groups->index);
    *groups = (struct ledger_groups){.by_count = 0};
}

static void index_group(struct ledger_groups *groups, uint32_t which)
{
    uint32_t at = (uint32_t)groups->groups[which]->hash & (groups->index_slots - 1);

    while (groups->index[at] != 0)
        at = (at + 1) & (groups->index_slots - 1);
    groups->index[at] = which + 1;
}

static bool grow(struct ledger_groups *groups)
{
    const uint32_t room = groups->room > 0 ? 2 * groups->room : FIRST_ROOM;
    struct ledger_group **more = realloc(groups->groups, room * sizeof(struct ledger_group *));
    uint32_t *index;

    if (!more)
        return false;
    groups->groups = more;
    index = calloc((size_t)2 * room, sizeof(*index));
    if (!index)
        return false;
    free(groups->index);
    groups->index = index;
    groups->index_slots = 2 * room;
    groups->room = room;
    for (uint32_t i = 0; i < groups->count; i++)
        index_group(groups, i);
    return true;
}

static uint64_t hash_of(const struct ledger_groups *groups, int64_t bucket_us,
                        const struct span by[BOOKS_BY_MAX])
{
    uint64_t hash = (uint64_t)bucket_us * 0x9e3779b97f4a7c15u;

    for (uint32_t i = 0; i < groups->by_count; i++)
        hash = (hash ^ hash_text(by[i])) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

static bool is_group(const struct ledger_groups *groups, const struct ledger_group *group,
                     uint64_t hash, int64_t bucket_us, const struct span by[BOOKS_BY_MAX])
{
    if (group->hash != hash || group->bucket_us != bucket_us)
        return false;
    for (uint32_t i = 0; i < groups->by_count; i++)
        if (!span_equal(group->by[i], by[i]))
            return false;
    return true;
}

static struct ledger_group *new_group(const struct ledger_groups *groups, uint64_t hash,
                                      int64_t bucket_us, const struct span by[BOOKS_BY_MAX])
{
    size_t bytes = 0;
    struct ledger_group *group;
    void *memory = NULL;
    char *texts;

    for (uint32_t i = 0; i < groups->by_count; i++)
        bytes += by[i].size;
    if (posix_memalign(&memory, _Alignof(struct ledger_group), sizeof(*group) + bytes) != 0)
        return NULL;
    group = memory;
    memset(group, 0, sizeof(*group));
    group->hash = hash;
    group->bucket_us = bucket_us;
    texts = (char *)(group + 1);
    for (uint32_t i = 0; i < groups->by_count; i++) {
        if (by[i].size == 0)
            continue;
        memcpy(texts, by[i].data, by[i].size);
        group->by[i] = (struct span){texts, by[i].size};
        texts += by[i].size;
    }
    return group;
}

struct ledger_group *ledger_groups_find(struct ledger_groups *groups, int64_t bucket_us,
                                        const struct span by[BOOKS_BY_MAX])
{
    const uint64_t hash = hash_of(groups, bucket_us, by);
    struct ledger_group *group;

    for (uint32_t at = (uint32_t)hash & (groups->index_slots - 1);
         groups->index_slots > 0 && groups->index[at] != 0;
         at = (at + 1) & (groups->index_slots - 1)) {
        group = groups->groups[groups->index[at] - 1];
        if (is_group(groups, group, hash, bucket_us, by))
            return group;
    }
    if (groups->count == LEDGER_GROUPS_MAX || (groups->count == groups->room && !grow(groups)))
        return NULL;
    group = new_group(groups, hash, bucket_us, by);
    if (!group)
        return NULL;
    groups->groups[groups->count] = group;
    index_group(groups, groups->count++);
    return group;
}

static int compare_groups(const void *left, const void *right)
{
    const struct ledger_group *a = *(struct ledger_group *const *)left;
    const struct ledger_group *b = *(struct ledger_group *const *)right;
    int order = 0;

    if (a->bucket_us != b->bucket_us)
        return a->bucket_us < b->bucket_us ? -1 : 1;
    for (uint32_t i = 0; order == 0 && i < BOOKS_BY_MAX; i++)
        order = span_compare(a->by[i], b->by[i]);
    return order;
}

void ledger_groups_sort(struct ledger_groups *groups)
{
    if (groups->count > 0)
        qsort(groups->groups, groups->count, sizeof(struct ledger_group *), compare_groups);
}
