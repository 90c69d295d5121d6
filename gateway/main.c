/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/main.c: arguments to a command.
 *
 * For:       tollgate serve | check | explain | keys | import | usage | invoice | why | adjust |
 *            rerate | audit | ledger. Exit 0 good, 1 the answer is no, 2
 *            used wrongly.
 * Called by: the shell.
 * Knows not: what a command does. */
#include <stdio.h>
#include <string.h>

#include "config/base/nearest.h"
#include "config/base/span.h"
#include "config/config.h"
#include "gateway/admin.h"
#include "gateway/arguments.h"
#include "gateway/cmd.h"
#include "gateway/server.h"
#include "gateway/tls.h"
#include "meter/books.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *says;
};

static int cmd_serve(int argc, char **argv)
{
    const char *path = NULL;
    struct config *config = NULL;
    struct config_problems problems = {NULL, 0, 0};
    const struct argument_option options[] = {
        ARGUMENT_TEXT("--config", "a configuration's file", &path)};
    const struct argument_form form = {.command = "serve",
                                       "usage: tollgate serve [--config FILE]\n",
                                       options,
                                       ARGUMENT_COUNT(options)};
    int status;
    if (!arguments_read(&form, argc, argv, &status))
        return status;
    enum err err = config_load(path, &config, &problems);
    if (err == OK)
        err = tls_adopt(config, &problems);
    if (err == OK)
        err = books_check(config, &problems);
    if (problems.text)
        fputs(problems.text, stderr);
    config_problems_free(&problems);
    if (err != OK) {
        config_put(config);
        return 1;
    }
    return server_run(config, path);
}

static const struct command commands[] = {
    {"serve", cmd_serve,
     "[--config FILE]          run the gateway (SIGHUP reloads, SIGTERM drains)"},
    {"check", cmd_check, "FILE [--json]            say all that is wrong with a configuration"},
    {"explain", cmd_explain,
     "[KEY] [--json]         what an option means, its default and its range"},
    {"keys", cmd_keys, "new [--id ID]            make an API key and its configuration entry"},
    {"import", cmd_import,
     "litellm FILE | prices FILE   turn a LiteLLM configuration or price map into ours"},
    {"usage", cmd_usage, "[--period P] [--by COLUMNS]   what was used, by any columns"},
    {"invoice", cmd_invoice, "TENANT PERIOD            what a tenant owes, line by line"},
    {"why", cmd_why, "REQUEST_ID               one request: its row, prices and invoice line"},
    {"adjust", cmd_adjust, "ROW_ID --void | --usd A  correct a charge by a row of its own"},
    {"rerate", cmd_rerate, "--prices FILE            the past at other prices; changes nothing"},
    {"audit", cmd_audit, "[--public-key FILE]      check chain, signatures, amounts and ledger"},
    {"ledger", cmd_ledger, "rebuild | feed           make the ledger anew from the journal"},
};

static void print_help(FILE *out)
{
    fprintf(out, "usage: tollgate COMMAND | --version | --help\n");
    for (size_t i = 0; i < ARGUMENT_COUNT(commands); i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].says);
    fprintf(out, "tollgate COMMAND --help says how one is used\n");
}

static int refuse_command(const char *name)
{
    struct nearest nearest = nearest_to(span_of(name));
    for (size_t i = 0; i < ARGUMENT_COUNT(commands); i++)
        (void)nearest_try(&nearest, span_of(commands[i].name));
    fprintf(stderr, "tollgate: unknown command %s", name);
    if (nearest_is_near(&nearest))
        fprintf(stderr, "; did you mean %.*s?", (int)nearest.name.size, nearest.name.data);
    fprintf(stderr, "\ntollgate --help names all\n");
    return 2;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < ARGUMENT_COUNT(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0)
        puts("tollgate " TOLLGATE_VERSION);
    else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        print_help(stdout);
    else
        return refuse_command(argv[1]);
    return 0;
}
