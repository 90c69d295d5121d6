/* SPDX-License-Identifier: Apache-2.0 */
/* config/sections.h: the tree of a file into a draft of a snapshot.
 *
 * For:       every key has one place where it is read, with its type, range and default.
 * Called by: config.c.
 * Knows not: YAML; what must hold between keys (check.c). */
#ifndef CONFIG_SECTIONS_H
#define CONFIG_SECTIONS_H

#include "config/draft.h"
#include "config/section.h"

/* Fills the draft from the file's root. Whatever is wrong goes to the draft's problems; the values
 * concerned stay as they were. The draft copies what it keeps. */
void sections_read(struct draft *draft, const struct node *root);

/* Its larger sections, each in a file of its own; root is the whole file. */
void sections_read_models(const struct section *root);
void sections_read_classes(const struct section *root);
void sections_read_tenants(const struct section *root);

/* The price list of a model (config/prices.c). */
void sections_read_prices(const struct section *section, struct config_model *model);

/* The tls map of a listener or a replica (config/tls.c); rows: its rows in the tables. false: there
 * is none, and *out_tls says what holds then. */
bool sections_read_tls(const struct section *above, const char *rows, struct config_tls *out_tls);

#endif
