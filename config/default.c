/* SPDX-License-Identifier: Apache-2.0 */
/* config/default.c: the configuration that the binary carries (config/default.yaml).
 *
 * For:       a gateway without a file.
 * Called by: config.c.
 * Knows not: what is in it; the Makefile turns the file into a string. */
#include "config/default.h"

#include "default_yaml.h"

struct span default_text(void)
{
    return (struct span){default_yaml, sizeof(default_yaml) - 1};
}
