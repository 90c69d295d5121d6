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

#include "config/config.h"
#include "gateway/admin.h"
#include "gateway/cmd.h"
#include "gateway/server.h"
#include "gateway/tls.h"

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
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
            path = argv[++i];
        } else {
            fprintf(stderr, "usage: tollgate serve [--config FILE]\n");
            return 2;
        }
    }
    enum err err = config_load(path, &config, &problems);
    if (err == OK)
        err = tls_adopt(config, &problems);
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

int main(int argc, char **argv)
{
    const size_t count = sizeof commands / sizeof commands[0];
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    const bool asked = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0);
    FILE *out = asked ? stdout : stderr;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("tollgate " TOLLGATE_VERSION);
        return 0;
    }
    fprintf(out, "usage: tollgate COMMAND | --version | --help\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].says);
    return asked ? 0 : 2;
}
