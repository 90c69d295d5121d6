/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_explain.c: tollgate explain [KEY] [--json].
 *
 * For:       operators who write a file.
 * Called by: main.c.
 * Knows not: the keys; it prints what config.h says of them. */
#include <stdio.h>

#include "config/config.h"
#include "gateway/arguments.h"
#include "gateway/cmd.h"

static const char help[] =
    "usage: tollgate explain [KEY] [--json]\n"
    "KEY: timeouts.whole, timeouts, models.*.price, models.small.price, or the end of one (whole); "
    "all when not said\n";

int cmd_explain(int argc, char **argv)
{
    const char *key = NULL;
    bool json = false;
    const struct argument_option options[] = {ARGUMENT_FLAG("--json", &json)};
    const struct argument_word words[] = {{"KEY", &key, true}};
    const struct argument_form form = {
        "explain", help, options, ARGUMENT_COUNT(options), words, ARGUMENT_COUNT(words)};
    int status;

    if (!arguments_read(&form, argc, argv, &status))
        return status;
    return config_explain(key, json) ? 0 : 1;
}
