/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_import.c: tollgate import litellm FILE | prices FILE [--models NAME,…]
 *                      [--output FILE] [--json].
 *
 * For:       operators who come from another gateway: its file as ours, and what is not in it; its
 *            public price map as price lists.
 * Called by: main.c.
 * Knows not: what the other gateway's keys mean (config.h does). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/config.h"
#include "gateway/arguments.h"
#include "gateway/cmd.h"

#define COMMAND "import"

struct arguments {
    bool prices; /* else a LiteLLM proxy's configuration */
    const char *path;
    const char *models; /* NULL: all */
    const char *output; /* NULL: standard output */
    bool json;
};

static const char help[] =
    "usage: tollgate import litellm FILE [--output FILE] [--json]\n"
    "       tollgate import prices FILE [--models NAME,…] [--output FILE] [--json]\n";

static bool read_arguments(int argc, char **argv, struct arguments *out, int *out_status)
{
    const char *what = NULL;
    const struct argument_option options[] = {
        ARGUMENT_FLAG("--json", &out->json),
        ARGUMENT_TEXT("--output", "a file that is not there yet", &out->output),
        ARGUMENT_TEXT("--models", "names of models, such as gpt-4o,o3", &out->models),
    };
    const struct argument_word words[] = {{"litellm or prices", &what, false},
                                          {"FILE", &out->path, false}};
    const struct argument_form form = {
        COMMAND, help, options, ARGUMENT_COUNT(options), words, ARGUMENT_COUNT(words)};

    *out = (struct arguments){0};
    if (!arguments_read(&form, argc, argv, out_status))
        return false;
    out->prices = strcmp(what, "prices") == 0;
    if (!out->prices && strcmp(what, "litellm") != 0)
        *out_status = arguments_refuse(COMMAND, "expected litellm or prices, got %s", what);
    else if (!out->prices && out->models != NULL)
        *out_status = arguments_refuse(COMMAND, "--models goes with prices alone");
    else
        return true;
    return false;
}

/* {"ok":true,"models":2,"replicas":3,"left_out":1,"notes":["file:3: key: …"]} on one line. */
static void print_json(bool ok, const struct config_import *import)
{
    const char *line = import->notes.text;

    (void)fprintf(stderr, "{\"ok\":%s,\"models\":%zu,\"replicas\":%zu,\"left_out\":%zu,\"notes\":[",
                  ok ? "true" : "false", import->model_count, import->replica_count,
                  import->left_out_count);
    for (size_t i = 0; i < import->notes.count; i++) {
        const char *end = strchr(line, '\n');
        char escaped[8192];
        const size_t size =
            log_escape((struct span){line, (size_t)(end - line)}, escaped, sizeof(escaped));

        (void)fprintf(stderr, "%s\"%.*s\"", i > 0 ? "," : "", (int)size, escaped);
        line = end + 1;
    }
    (void)fprintf(stderr, "]}\n");
}

static void print_text(bool ok, const struct arguments *arguments,
                       const struct config_import *import)
{
    const size_t noted = import->notes.count - import->left_out_count;

    if (import->notes.text != NULL)
        (void)fputs(import->notes.text, stderr);
    if (ok && arguments->prices)
        (void)fprintf(stderr,
                      "%s: price lists of %zu model%s taken over, %zu left out, %zu note%s\n",
                      arguments->path, import->model_count, span_plural(import->model_count),
                      import->left_out_count, noted, span_plural(noted));
    else if (ok)
        (void)fprintf(stderr,
                      "%s: %zu model%s with %zu replica%s taken over, %zu left out, %zu note%s\n",
                      arguments->path, import->model_count, span_plural(import->model_count),
                      import->replica_count, span_plural(import->replica_count),
                      import->left_out_count, noted, span_plural(noted));
}

/* To standard output, or into a file that is not there yet. */
static bool write_yaml(const char *output, const struct config_import *import)
{
    FILE *out = stdout;
    bool good;

    if (output != NULL) {
        const int fd = open(output, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        out = fd < 0 ? NULL : fdopen(fd, "w");
        if (out == NULL) {
            (void)fprintf(stderr, "%s: cannot be written: %s\n", output, strerror(errno));
            if (fd >= 0)
                (void)close(fd);
            return false;
        }
    }
    good = fwrite(import->yaml, 1, import->yaml_size, out) == import->yaml_size;
    good = (out == stdout ? fflush(out) : fclose(out)) == 0 && good;
    if (!good)
        (void)fprintf(stderr, "%s: cannot be written\n",
                      output == NULL ? "standard output" : output);
    return good;
}

int cmd_import(int argc, char **argv)
{
    struct config_import import;
    struct arguments arguments;
    bool ok;
    int status = 2;

    if (!read_arguments(argc, argv, &arguments, &status))
        return status;
    ok =
        (arguments.prices ? config_import_prices(arguments.path, span_of(arguments.models), &import)
                          : config_import_litellm(arguments.path, &import)) == OK;
    if (!ok || write_yaml(arguments.output, &import)) {
        if (arguments.json)
            print_json(ok, &import);
        else
            print_text(ok, &arguments, &import);
        if (ok)
            status = import.left_out_count == 0 ? 0 : 1;
    }
    config_import_free(&import);
    return status;
}
