/* SPDX-License-Identifier: Apache-2.0 */
/* config/reader.h: YAML text into a tree of keys, lists and texts.
 *
 * For:       sections.c, which knows what the keys mean.
 * Called by: config.c, import_litellm.c.
 * Knows not: any key, any type but text, list and map. */
#ifndef CONFIG_READER_H
#define CONFIG_READER_H

#include "config/base/arena.h"
#include "config/problems.h"

enum node_kind { NODE_TEXT, NODE_MAP, NODE_LIST };

struct node_pair {
    struct span key;
    uint32_t line;
    const struct node *value;
};

/* One value of the file. A YAML alias makes two keys share one node, so the tree may even bite its
 * own tail: walk it by the schema, not for its own sake. */
struct node {
    enum node_kind kind;
    uint32_t line;
    bool from_environment;     /* the text may be a secret: no message repeats it */
    bool broken;               /* already reported: say nothing more of it */
    struct span text;          /* NODE_TEXT; NUL-terminated */
    struct node_pair *pairs;   /* NODE_MAP */
    const struct node **items; /* NODE_LIST */
    uint32_t count;
};

/* Reads one YAML document; ${NAME} in values becomes the environment's text. The tree lies in the
 * arena. *out_root is untouched when text is not YAML.
 * Errors: ERR_BAD_VALUE (not YAML; the list says where), ERR_NO_MEMORY. A missing variable is a
 *         problem in the list and a broken node. */
MUST_CHECK enum err reader_parse(struct span text, struct arena *arena,
                                 struct problem_list *problems, const struct node **out_root);

#endif
