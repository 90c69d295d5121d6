/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/check_key.h: what a start would do with the configured signing key.
 *
 * For:       tollgate check, which changes nothing.
 * Called by: cmd_check.c.
 * Knows not: what is signed. */
#ifndef GATEWAY_CHECK_KEY_H
#define GATEWAY_CHECK_KEY_H

#include "config/config.h"

/* Adds a problem to the list when the start would fail at meter.signing_key, and a note when it
 * would make the key. Errors: ERR_BAD_VALUE (it would fail), ERR_NO_MEMORY. */
MUST_CHECK enum err check_key(const struct config *config, struct config_problems *problems);

#endif
