/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_explain.c: tollgate explain [KEY] [--json].
 *
 * For:       operators who write a file.
 * Called by: main.c.
 * Knows not: the keys; it prints what config.h says of them. */
#include <stdio.h>

#include "config/config.h"
#include "gateway/cmd.h"

int cmd_explain(int argc, char **argv)
{
    const char *key = NULL;
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (argv[i][0] != '-' && key == NULL) {
            key = argv[i];
        } else {
            (void)fprintf(stderr, "usage: tollgate explain [KEY] [--json]\n");
            return 2;
        }
    }
    return config_explain(key, json) ? 0 : 1;
}
