/* SPDX-License-Identifier: Apache-2.0 */
/* config/config.c: the door: loading, counting and asking snapshots.
 *
 * For:       one file into one immutable snapshot, found by name or by key in constant time.
 * Called by: gateway (main, admin, identity, steps), router, meter, tests.
 * Knows not: keys of the file (sections.c), rules between them (check.c). */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/base/arena.h"
#include "config/base/zone.h"
#include "config/check.h"
#include "config/default.h"
#include "config/reader.h"
#include "config/sections.h"

#define SNAPSHOT_BYTES_MAX ((size_t)256 << 20)
#define TREE_BYTES_MAX ((size_t)512 << 20)
#define FILE_BYTES_MAX ((size_t)32 << 20)

struct named_model {
    struct span name; /* {NULL, 0}: free */
    const struct config_model *model;
};

/* A config and what only this file sees of it. */
struct snapshot {
    struct config config;
    atomic_size_t references;
    struct arena arena;

    struct named_model *names; /* open hash table of names and aliases, at most half full */
    size_t name_mask;

    /* Buckets by the digest's first bits, each with room for as many keys as the fullest has: a
     * look-up compares them all, whether the key is there or not. Empty places hold &nobody. */
    const struct config_key **keys;
    size_t bucket_mask;
    size_t bucket_keys;
};

static const struct config_key nobody;
static atomic_uint_fast64_t generations;

static struct snapshot *snapshot_of(const struct config *config)
{
    return container_of(config, struct snapshot, config);
}

struct config *config_get(struct config *config)
{
    atomic_fetch_add_explicit(&snapshot_of(config)->references, 1, memory_order_relaxed);
    return config;
}

void config_put(struct config *config)
{
    struct snapshot *snapshot;

    if (config == NULL)
        return;
    snapshot = snapshot_of(config);
    if (atomic_fetch_sub_explicit(&snapshot->references, 1, memory_order_acq_rel) == 1) {
        if (config->released != NULL)
            config->released(config);
        arena_fini(&snapshot->arena);
        free(snapshot);
    }
}

/* ---- Models by name ---- */

static void add_name(struct snapshot *snapshot, struct span name, const struct config_model *model)
{
    size_t at = (size_t)hash_text(name);

    while (snapshot->names[at & snapshot->name_mask].name.data != NULL)
        at++;
    snapshot->names[at & snapshot->name_mask] = (struct named_model){name, model};
}

static enum err index_models(struct snapshot *snapshot)
{
    const struct config *config = &snapshot->config;
    size_t count = config->model_count;
    size_t capacity = 16;

    for (uint32_t i = 0; i < config->model_count; i++)
        count += config->models[i].alias_count;
    while (capacity < 2 * count)
        capacity *= 2;
    snapshot->names = arena_take_zeroed(&snapshot->arena, capacity * sizeof(*snapshot->names));
    if (snapshot->names == NULL)
        return ERR_NO_MEMORY;
    snapshot->name_mask = capacity - 1;
    for (uint32_t i = 0; i < config->model_count; i++) {
        add_name(snapshot, config->models[i].name, &config->models[i]);
        for (uint32_t k = 0; k < config->models[i].alias_count; k++)
            add_name(snapshot, config->models[i].aliases[k], &config->models[i]);
    }
    return OK;
}

const struct zone *config_zone_of(const struct config *config, struct span tenant)
{
    for (uint32_t i = 0; i < config->tenant_count; i++)
        if (span_equal(config->tenants[i].name, tenant))
            return config->tenants[i].zone;
    return zone_utc();
}

const struct config_model *config_find_model(const struct config *config, struct span name)
{
    const struct snapshot *snapshot = snapshot_of(config);

    for (size_t at = (size_t)hash_text(name);; at++) {
        const struct named_model *named = &snapshot->names[at & snapshot->name_mask];

        if (named->name.data == NULL)
            return NULL;
        if (span_equal(named->name, name))
            return named->model;
    }
}

enum service config_service(const struct config_model *model, enum endpoint endpoint)
{
    if (model->translate & 1u << endpoint)
        return SERVICE_CHAT;
    return endpoint_row(endpoint)->service[model->kind];
}

const struct price *config_price_at(const struct config_model *model, int64_t wall_us)
{
    const struct price *price = NULL;

    for (uint32_t i = 0; i < model->price_count && model->prices[i].from_us <= wall_us; i++)
        price = &model->prices[i];
    return price != NULL && wall_us < price->until_us ? price : NULL;
}

/* ---- Keys by digest ---- */

static size_t bucket_of(const struct snapshot *snapshot, const uint8_t digest[HASH_SHA256_BYTES])
{
    uint32_t bits;

    memcpy(&bits, digest, sizeof(bits));
    return bits & snapshot->bucket_mask;
}

/* Puts each key into its bucket; counts must be zeroed, one per bucket. Places == NULL: only
 * counts. */
static size_t fill_buckets(struct snapshot *snapshot, uint32_t *counts,
                           const struct config_key **places)
{
    size_t fullest = 1;

    for (uint32_t i = 0; i < snapshot->config.tenant_count; i++) {
        const struct config_tenant *tenant = &snapshot->config.tenants[i];

        for (uint32_t k = 0; k < tenant->key_count; k++) {
            const size_t bucket = bucket_of(snapshot, tenant->keys[k].digest);

            if (places != NULL)
                places[bucket * snapshot->bucket_keys + counts[bucket]] = &tenant->keys[k];
            if (++counts[bucket] > fullest)
                fullest = counts[bucket];
        }
    }
    return fullest;
}

static enum err index_keys(struct snapshot *snapshot)
{
    size_t count = 0;
    size_t buckets = 16;
    uint32_t *counts;

    for (uint32_t i = 0; i < snapshot->config.tenant_count; i++)
        count += snapshot->config.tenants[i].key_count;
    while (buckets < count)
        buckets *= 2;
    snapshot->bucket_mask = buckets - 1;
    counts = calloc(buckets, sizeof(*counts));
    if (counts == NULL)
        return ERR_NO_MEMORY;
    snapshot->bucket_keys = fill_buckets(snapshot, counts, NULL);
    snapshot->keys =
        arena_take(&snapshot->arena, buckets * snapshot->bucket_keys * sizeof(struct config_key *));
    if (snapshot->keys != NULL) {
        for (size_t i = 0; i < buckets * snapshot->bucket_keys; i++)
            snapshot->keys[i] = &nobody;
        memset(counts, 0, buckets * sizeof(*counts));
        (void)fill_buckets(snapshot, counts, snapshot->keys);
    }
    free(counts);
    return snapshot->keys == NULL ? ERR_NO_MEMORY : OK;
}

const struct config_key *config_find_key(const struct config *config,
                                         const uint8_t digest[HASH_SHA256_BYTES])
{
    const struct snapshot *snapshot = snapshot_of(config);
    const struct config_key *const *bucket =
        &snapshot->keys[bucket_of(snapshot, digest) * snapshot->bucket_keys];
    const struct config_key *found = NULL;

    for (size_t i = 0; i < snapshot->bucket_keys; i++)
        if (hash_equal(bucket[i]->digest, digest, HASH_SHA256_BYTES))
            found = bucket[i];
    return found == &nobody ? NULL : found;
}

/* ---- Loading ---- */

/* Fills the snapshot from text; problems tell whether it may be used. */
static enum err fill_snapshot(struct snapshot *snapshot, struct span text,
                              struct problem_list *problems)
{
    struct arena tree;
    const struct node *root = NULL;
    struct draft draft = {
        .config = &snapshot->config, .arena = &snapshot->arena, .problems = problems};
    enum err err;

    draft.last_mention = &draft.mentions;
    arena_init(&tree, NULL, 0, TREE_BYTES_MAX);
    hash_sha256(text, snapshot->config.digest);
    err = reader_parse(text, &tree, problems, &root);
    if (err == OK) {
        sections_read(&draft, root);
        err = draft.out_of_memory ? ERR_NO_MEMORY : check_draft(&draft);
    }
    arena_fini(&tree);
    if (err == OK && problems->error_count > 0)
        err = ERR_BAD_VALUE;
    if (err == OK)
        err = index_models(snapshot);
    if (err == OK)
        err = index_keys(snapshot);
    return err;
}

enum err config_load_text(const char *name, struct span text, struct config **out_config,
                          struct config_problems *out_problems)
{
    struct problem_list problems = {.file = span_of(name)};
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
    enum err err;

    *out_problems = (struct config_problems){0};
    if (snapshot == NULL)
        return ERR_NO_MEMORY;
    atomic_init(&snapshot->references, 1);
    arena_init(&snapshot->arena, NULL, 0, SNAPSHOT_BYTES_MAX);
    snapshot->config.file = arena_copy(&snapshot->arena, span_of(name));
    err = snapshot->config.file.data == NULL ? ERR_NO_MEMORY
                                             : fill_snapshot(snapshot, text, &problems);
    if (!problems_render(&problems, out_problems) && err == OK)
        err = ERR_NO_MEMORY;
    problems_fini(&problems);
    if (err != OK) {
        config_put(&snapshot->config);
        return err;
    }
    snapshot->config.generation = atomic_fetch_add(&generations, 1) + 1;
    *out_config = &snapshot->config;
    return OK;
}

/* Reads a whole file; the caller frees *out_text. Returns OK, or errno. */
static int read_file(const char *path, char **out_text, size_t *out_size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    size_t size = 0;
    size_t room = 0;
    ssize_t got;
    int failed = 0;

    if (fd < 0)
        return errno;
    do {
        if (room - size < 4096) {
            char *grown = realloc(text, room = 2 * room + 16384);

            if (grown == NULL) {
                failed = ENOMEM;
                break;
            }
            text = grown;
        }
        got = read(fd, text + size, room - size);
        if (got < 0 && errno != EINTR)
            failed = errno;
        else if (got > 0)
            size += (size_t)got;
        if (size > FILE_BYTES_MAX)
            failed = EFBIG;
    } while (failed == 0 && got != 0);
    (void)close(fd);
    if (failed != 0) {
        free(text);
        return failed;
    }
    *out_text = text;
    *out_size = size;
    return 0;
}

enum err config_load(const char *path, struct config **out_config,
                     struct config_problems *out_problems)
{
    char *text = NULL;
    size_t size = 0;
    int failed;
    enum err err;

    if (path == NULL)
        return config_load_text("(embedded)", default_text(), out_config, out_problems);
    failed = read_file(path, &text, &size);
    if (failed != 0) {
        struct problem_list problems = {.file = span_of(path)};

        problems_add_at(&problems, 0, "file", "expected to read it: %s", strerror(failed));
        if (!problems_render(&problems, out_problems))
            return ERR_NO_MEMORY;
        return ERR_BAD_VALUE;
    }
    err = config_load_text(path, (struct span){text, size}, out_config, out_problems);
    explicit_bzero(text, size); /* keys may stand in it */
    free(text);
    return err;
}

enum err config_problems_add(struct config_problems *problems, const struct config *config,
                             struct span key, uint32_t line, const char *what)
{
    char *text = NULL;
    const int size =
        asprintf(&text, "%s%.*s:%u: %.*s: %s\n", problems->text ? problems->text : "",
                 (int)config->file.size, config->file.data, line, (int)key.size, key.data, what);

    if (size < 0)
        return ERR_NO_MEMORY;
    free(problems->text);
    problems->text = text;
    problems->size = (size_t)size;
    problems->count++;
    return OK;
}

void config_problems_free(struct config_problems *problems)
{
    free(problems->text);
    *problems = (struct config_problems){0};
}
