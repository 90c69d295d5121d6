/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/nearest.h: which known name was meant; pure.
 *
 * For:       "unknown …; did you mean …?", of keys, options, tenants.
 * Called by: config, gateway (commands).
 * Knows not: what the names are of.
 * Example:   struct nearest nearest = nearest_to(asked);
 *            nearest_try(&nearest, known);   (of each)
 *            if (nearest_is_near(&nearest)) … nearest.name */
#ifndef CONFIG_BASE_NEAREST_H
#define CONFIG_BASE_NEAREST_H

#include "config/base/vocab.h"

/* The name that was asked for, and the nearest that was tried. */
struct nearest {
    struct span asked;
    struct span name; /* borrowed of who tried it; {NULL, 0}: nothing was tried */
    size_t edits;
};

/* How many edits (insert, delete, replace, swap of neighbours) make a into b. Texts over 64 bytes
 * are compared by their first 64. */
size_t nearest_distance(struct span a, struct span b);

/* Begins with no name yet; asked is borrowed. */
struct nearest nearest_to(struct span asked);

/* Is known nearer than all before it? Then it is kept. */
bool nearest_try(struct nearest *nearest, struct span known);

/* Is the nearest so near that it may have been meant: it begins with what was asked, or one edit
 * and one more for every four bytes make the one into the other? */
bool nearest_is_near(const struct nearest *nearest);

#endif
