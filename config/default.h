/* SPDX-License-Identifier: Apache-2.0 */
/* config/default.h: the configuration that the binary carries (config/default.yaml).
 *
 * For:       a gateway without a file.
 * Called by: config.c.
 * Knows not: what is in it. */
#ifndef CONFIG_DEFAULT_H
#define CONFIG_DEFAULT_H

#include "config/base/vocab.h"

/* The file's bytes. Static. */
struct span default_text(void);

#endif
