/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/check_key.c: see check_key.h.
 *
 * For:       what a start would do with the configured signing key.
 * Called by: cmd_check.c.
 * Knows not: what is signed. */
#include "gateway/check_key.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "config/base/sign.h"
#include "meter/books.h"

#define SAYS_BYTES (2 * SIGN_PATH_BYTES + 256)

static enum err say(const struct config *config, struct config_problems *problems, const char *what,
                    enum err err)
{
    const enum err added = config_problems_add(problems, config, SPAN("meter.signing_key"),
                                               config->signing_key_line, what);

    return added != OK ? added : err;
}

/* The start makes a new key, if it can. */
static enum err judge_absent(const struct config *config, const char *path,
                             struct config_problems *problems)
{
    char public_path[SIGN_PATH_BYTES], says[SAYS_BYTES];

    if (!books_has_folder(config, path, says, sizeof(says)))
        return say(config, problems, says, ERR_BAD_VALUE);
    sign_public_path(path, public_path);
    (void)snprintf(says, sizeof(says),
                   "note: there is no %s: the start makes a new key, and its public key %s", path,
                   public_path);
    return say(config, problems, says, OK);
}

enum err check_key(const struct config *config, struct config_problems *problems)
{
    char path[SIGN_PATH_BYTES], says[SAYS_BYTES], problem[SAYS_BYTES - 64];

    if (config->journal.size == 0)
        return OK;
    books_key_path(config, path);
    if (access(path, F_OK) != 0)
        return config->signing_key.size > 0 ? judge_absent(config, path, problems) : OK;
    if (access(path, R_OK) != 0) {
        (void)snprintf(says, sizeof(says), "note: %s was not looked into: %s", path,
                       strerror(errno));
        return say(config, problems, says, OK);
    }
    if (sign_key_check(path, problem, sizeof(problem)) == OK)
        return OK;
    (void)snprintf(says, sizeof(says), "%s; the start would fail", problem);
    return say(config, problems, says, ERR_BAD_VALUE);
}
