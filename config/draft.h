/* SPDX-License-Identifier: Apache-2.0 */
/* config/draft.h: a snapshot that is still being made.
 *
 * For:       sections.c fills it from the file; check.c then binds the names in it and judges what
 *            must hold between keys, with the line of each.
 * Called by: config.c.
 * Knows not: YAML. */
#ifndef CONFIG_DRAFT_H
#define CONFIG_DRAFT_H

#include "config/base/arena.h"
#include "config/problems.h"

enum mention_what {
    MENTION_ALIAS,        /* owner: a model */
    MENTION_REPLICA,      /* owner: its model */
    MENTION_FALLBACK,     /* owner: the model; position: in its fallback */
    MENTION_CLASS,        /* owner: the class */
    MENTION_CLASS_MODEL,  /* owner: the class */
    MENTION_TENANT_MODEL, /* owner: the tenant */
    MENTION_KEY_ID,       /* owner: the tenant */
    MENTION_KEY_DIGEST    /* owner: the tenant; name: the 32 bytes */
};

/* A name as it stood in the file. */
struct mention {
    struct mention *next;
    enum mention_what what;
    struct span name;
    uint32_t owner; /* index */
    uint32_t position;
    uint32_t line;
    const char *key; /* where, for messages */
};

struct draft {
    struct config *config;
    struct arena *arena; /* the snapshot's */
    struct problem_list *problems;
    struct mention *mentions; /* in the order of the file */
    struct mention **last_mention;
    uint32_t listen_line;
    uint32_t admin_line;
    uint32_t models_line;
    uint32_t tenants_line; /* 0: the section is not there */
    uint32_t limits_line;
    bool out_of_memory;
};

#endif
