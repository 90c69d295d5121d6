/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_check.c: tollgate check FILE [--json].
 *
 * For:       operators and their pipelines, before a file goes live.
 * Called by: main.c.
 * Knows not: how a file is read; it prints what config.h says of it. */
#include <stdio.h>

#include "config/base/log.h"
#include "config/config.h"
#include "gateway/arguments.h"
#include "gateway/check_key.h"
#include "gateway/cmd.h"
#include "gateway/tls.h"
#include "meter/books.h"

/* {"ok":false,"problems":["file:3: key: …"]} on one line. */
static void print_json(bool ok, const struct config_problems *problems)
{
    const char *line = problems->text;

    (void)printf("{\"ok\":%s,\"problems\":[", ok ? "true" : "false");
    for (size_t i = 0; i < problems->count; i++) {
        const char *end = strchr(line, '\n');
        char escaped[4096];
        const size_t size =
            log_escape((struct span){line, (size_t)(end - line)}, escaped, sizeof(escaped));

        (void)printf("%s\"%.*s\"", i > 0 ? "," : "", (int)size, escaped);
        line = end + 1;
    }
    (void)printf("]}\n");
}

int cmd_check(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    struct config *config = NULL;
    struct config_problems problems;
    const struct argument_option options[] = {ARGUMENT_FLAG("--json", &json)};
    const struct argument_word words[] = {{"FILE", &path, false}};
    const struct argument_form form = {"check", "usage: tollgate check FILE [--json]\n",
                                       options, ARGUMENT_COUNT(options),
                                       words,   ARGUMENT_COUNT(words)};
    int status;
    bool ok;

    if (!arguments_read(&form, argc, argv, &status))
        return status;
    ok = config_load(path, &config, &problems) == OK && tls_adopt(config, &problems) == OK &&
         books_check(config, &problems) == OK && check_key(config, &problems) == OK;
    if (json)
        print_json(ok, &problems);
    else if (problems.text != NULL)
        (void)fputs(problems.text, ok ? stdout : stderr);
    if (ok && !json)
        (void)printf("%s: good: %u model%s, %u class%s, %u tenant%s\n", path, config->model_count,
                     span_plural(config->model_count), config->class_count,
                     config->class_count == 1 ? "" : "es", config->tenant_count,
                     span_plural(config->tenant_count));
    config_problems_free(&problems);
    config_put(config);
    return ok ? 0 : 1;
}
