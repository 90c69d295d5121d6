/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/zone.c: TZif files, the rule in their footer, and the zones that this process has
 * read.
 *
 * For:       what zone.h says. Reading is bounded by the file's own bytes and refuses what RFC 9636
 *            does not allow, so that nothing odd is left for those who ask.
 * Called by: config, period.c.
 * Knows not: tenants, periods. */
#include "config/base/zone.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/civil.h"
#include "config/base/zone_rule.h"

#define NAME_BYTES_MAX 96u
#define PATH_BYTES 4096u
#define FILE_BYTES_MAX 65536u /* the largest of tzdata has about 3500 */

#define HEADER_BYTES 44u

/* RFC 9636, section 3.2: offsets should lie between -25 and 26 hours. Others we refuse, so that a
 * local time is never further than this from UTC. */
#define OFFSET_LEAST_S (-25 * 3600 + 1)
#define OFFSET_MOST_S (26 * 3600 - 1)

/* Moments further away are taken as these, so that sums with offsets fit. */
#define MOMENT_LIMIT_S (INT64_C(1) << 62)

/* Never changes once it is made. Arrays lie behind it in the same memory. */
struct zone {
    struct zone *next; /* in the list of zones found; under found_lock */
    struct span name;
    size_t change_count;
    const int64_t *change_at_s; /* ascending */
    const int32_t
        *offsets_s; /* change_count + 1: [0] before the first change, [i + 1] from it on */
    bool has_rule;  /* what holds from the last change on; else its offset stays */
    struct zone_rule rule;
};

/* ---- asking ---- */

/* How many changes are at this moment or before. */
static size_t changes_until(const struct zone *zone, int64_t at_s)
{
    size_t low = 0, high = zone->change_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (zone->change_at_s[middle] <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t zone_offset_s(const struct zone *zone, int64_t at_s)
{
    const size_t changes = changes_until(zone, at_s);

    if (changes == zone->change_count && zone->has_rule)
        return zone_rule_offset_s(&zone->rule, at_s);
    return zone->offsets_s[changes];
}

int64_t zone_next_change_s(const struct zone *zone, int64_t at_s)
{
    const size_t changes = changes_until(zone, at_s);

    if (changes < zone->change_count)
        return zone->change_at_s[changes];
    return zone->has_rule ? zone_rule_next_change_s(&zone->rule, at_s) : INT64_MAX;
}

int64_t zone_first_at_s(const struct zone *zone, int64_t local_s)
{
    if (local_s > MOMENT_LIMIT_S)
        local_s = MOMENT_LIMIT_S;
    if (local_s < -MOMENT_LIMIT_S)
        local_s = -MOMENT_LIMIT_S;
    /* Before this moment no offset reaches the local time. */
    int64_t from_s = local_s - OFFSET_MOST_S;

    for (;;) {
        const int64_t until_s = zone_next_change_s(zone, from_s);
        const int64_t shown_s = local_s - zone_offset_s(zone, from_s);
        const int64_t first_s = shown_s > from_s ? shown_s : from_s;

        if (first_s < until_s)
            return first_s;
        from_s = until_s;
    }
}

struct span zone_name(const struct zone *zone)
{
    return zone->name;
}

const struct zone *zone_utc(void)
{
    static const int32_t offset_s = 0;
    static const struct zone utc = {.name = {"UTC", 3}, .offsets_s = &offset_s};

    return &utc;
}

/* ---- reading a file ---- */

/* What a header says is in the block behind it. */
struct block {
    size_t is_ut, is_standard, leaps, changes, types, letters;
};

static uint64_t read_big_endian(const char *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | (unsigned char)at[i];
    return value;
}

/* Takes a header off the front of the file. */
static bool take_header(struct span *file, struct block *out_block)
{
    size_t *counts[6] = {&out_block->is_ut,   &out_block->is_standard, &out_block->leaps,
                         &out_block->changes, &out_block->types,       &out_block->letters};

    if (file->size < HEADER_BYTES || memcmp(file->data, "TZif", 4) != 0 || file->data[4] < '2')
        return false;
    for (size_t i = 0; i < 6; i++)
        *counts[i] = (size_t)read_big_endian(file->data + 20 + 4 * i, 4);
    *file = span_from(*file, HEADER_BYTES);
    return true;
}

/* Bytes of a block whose moments have so many; counts have 32 bits, so that the sum fits. */
static uint64_t block_bytes(const struct block *block, size_t moment)
{
    return (uint64_t)block->changes * (moment + 1) + (uint64_t)block->types * 6 + block->letters +
           (uint64_t)block->leaps * (moment + 4) + block->is_standard + block->is_ut;
}

/* Is it a block that we can use? One that counts leap seconds has other moments than the clock. */
static bool block_allowed(const struct block *block)
{
    return block->types > 0 && block->types <= 256 && block->letters > 0 && block->leaps == 0 &&
           (block->is_standard == 0 || block->is_standard == block->types) &&
           (block->is_ut == 0 || block->is_ut == block->types);
}

/* The footer: a newline, a rule or nothing, a newline. */
static bool read_footer(struct span footer, bool *out_has_rule, struct zone_rule *out_rule)
{
    const char *end = footer.size >= 2 && footer.data[0] == '\n'
                          ? memchr(footer.data + 1, '\n', footer.size - 1)
                          : NULL;

    if (end == NULL)
        return false;
    const struct span text = {footer.data + 1, (size_t)(end - footer.data) - 1};

    *out_has_rule = text.size > 0;
    return text.size == 0 || zone_rule_read(text, out_rule);
}

/* The offset of a type; false: a type that may not be. */
static bool read_type(const struct block *block, const char *types, size_t index, int32_t *out_s)
{
    if (index >= block->types)
        return false;
    const char *type = types + 6 * index;
    const int32_t offset_s = (int32_t)(uint32_t)read_big_endian(type, 4);

    if (offset_s < OFFSET_LEAST_S || offset_s > OFFSET_MOST_S || (unsigned char)type[4] > 1 ||
        (unsigned char)type[5] >= block->letters)
        return false;
    *out_s = offset_s;
    return true;
}

/* Fills the arrays from a block that is all there. */
static bool read_changes(const struct block *block, const char *at, int64_t *change_at_s,
                         int32_t *offsets_s)
{
    const char *indexes = at + 8 * block->changes;
    const char *types = indexes + block->changes;

    if (!read_type(block, types, 0, &offsets_s[0]))
        return false;
    for (size_t i = 0; i < block->changes; i++) {
        change_at_s[i] = (int64_t)read_big_endian(at + 8 * i, 8);
        if (i > 0 && change_at_s[i] <= change_at_s[i - 1])
            return false;
        if (!read_type(block, types, (unsigned char)indexes[i], &offsets_s[i + 1]))
            return false;
    }
    return true;
}

/* The zone's own memory, with room for its arrays and its name. */
static struct zone *zone_new(struct span name, size_t changes, int64_t **out_change_at_s,
                             int32_t **out_offsets_s)
{
    struct zone *zone = calloc(1, sizeof(*zone) + changes * sizeof(int64_t) +
                                      (changes + 1) * sizeof(int32_t) + name.size);

    if (zone == NULL)
        return NULL;
    *out_change_at_s = (int64_t *)(void *)(zone + 1);
    *out_offsets_s = (int32_t *)(void *)(*out_change_at_s + changes);
    zone->change_count = changes;
    zone->change_at_s = *out_change_at_s;
    zone->offsets_s = *out_offsets_s;
    zone->name = (struct span){(char *)(*out_offsets_s + changes + 1), name.size};
    if (name.size > 0)
        memcpy((char *)(*out_offsets_s + changes + 1), name.data, name.size);
    return zone;
}

enum err zone_read(struct span name, struct span file, struct zone **out_zone)
{
    struct block old, block;
    int64_t *change_at_s;
    int32_t *offsets_s;

    /* The first block, for readers of 32 bits, is passed over (empty in slim files). */
    if (!take_header(&file, &old) || block_bytes(&old, 4) > file.size)
        return ERR_BAD_VALUE;
    file = span_from(file, (size_t)block_bytes(&old, 4));
    if (!take_header(&file, &block) || block_bytes(&block, 8) > file.size || !block_allowed(&block))
        return ERR_BAD_VALUE;
    struct zone *zone = zone_new(name, block.changes, &change_at_s, &offsets_s);

    if (zone == NULL)
        return ERR_NO_MEMORY;
    if (!read_changes(&block, file.data, change_at_s, offsets_s) ||
        !read_footer(span_from(file, (size_t)block_bytes(&block, 8)), &zone->has_rule,
                     &zone->rule)) {
        free(zone);
        return ERR_BAD_VALUE;
    }
    *out_zone = zone;
    return OK;
}

/* ---- finding a zone by its name ---- */

static pthread_mutex_t found_lock = PTHREAD_MUTEX_INITIALIZER;
static struct zone *found; /* every zone ever found: as many as the database has, at most */

/* Letters, digits, _ - + and single slashes within: nothing that leaves the folder. */
static bool name_allowed(struct span name)
{
    bool slash = true;

    if (name.size == 0 || name.size > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.data[i];
        const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

        if (c == '/' && slash)
            return false;
        if (c != '/' && !letter && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '+')
            return false;
        slash = c == '/';
    }
    return !slash;
}

/* At most FILE_BYTES_MAX bytes of a regular file; 0: none, or longer. */
static size_t load_file(const char *path, char *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    size_t size = 0;

    if (fd < 0)
        return 0;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        status.st_size <= (off_t)FILE_BYTES_MAX) {
        ssize_t got = 1;

        while (got > 0 && size < FILE_BYTES_MAX) {
            got = read(fd, out + size, FILE_BYTES_MAX - size);
            size += got > 0 ? (size_t)got : 0;
        }
        size = got < 0 ? 0 : size;
    }
    (void)close(fd);
    return size;
}

static enum err load_zone(struct span name, struct zone **out_zone)
{
    const char *folder = getenv("TZDIR");
    char path[PATH_BYTES];
    char *bytes = malloc(FILE_BYTES_MAX);
    enum err err = ERR_BAD_VALUE;

    if (bytes == NULL)
        return ERR_NO_MEMORY;
    const int length =
        snprintf(path, sizeof(path), "%s/%.*s", folder != NULL && folder[0] ? folder : ZONE_FOLDER,
                 (int)name.size, name.data);

    if (length > 0 && (size_t)length < sizeof(path)) {
        const size_t size = load_file(path, bytes);

        err = size > 0 ? zone_read(name, (struct span){bytes, size}, out_zone) : ERR_BAD_VALUE;
    }
    free(bytes);
    return err;
}

enum err zone_find(struct span name, const struct zone **out_zone)
{
    enum err err = OK;

    if (span_equal(name, zone_name(zone_utc()))) {
        *out_zone = zone_utc();
        return OK;
    }
    if (!name_allowed(name))
        return ERR_BAD_VALUE;
    (void)pthread_mutex_lock(&found_lock);
    struct zone *zone = found;

    while (zone != NULL && !span_equal(zone->name, name))
        zone = zone->next;
    if (zone == NULL) {
        err = load_zone(name, &zone);
        if (err == OK) {
            zone->next = found;
            found = zone;
        }
    }
    (void)pthread_mutex_unlock(&found_lock);
    if (err == OK)
        *out_zone = zone;
    return err;
}
