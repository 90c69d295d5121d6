/* SPDX-License-Identifier: Apache-2.0 */
/* config/check.h: what must hold between keys.
 *
 * For:       binding every name that is mentioned to what bears it, and judging the whole.
 * Called by: config.c, after sections.c.
 * Knows not: YAML, types and ranges of single values. */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/draft.h"

/* Binds aliases, fallbacks, classes' and tenants' models; reports doubles, unknown names and values
 * that do not go together, each with its line. Errors: ERR_NO_MEMORY; problems are none here. */
MUST_CHECK enum err check_draft(struct draft *draft);

#endif
