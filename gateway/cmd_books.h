/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_books.h: what the commands about money begin with.
 *
 * For:       reading their common arguments, opening configuration and books, feeding the ledger.
 * Called by: cmd_usage.c, cmd_invoice.c, cmd_why.c, cmd_adjust.c, cmd_rerate.c, cmd_audit.c,
 *            cmd_ledger.c; cmd_usage_*.c.
 * Knows not: what they print. */
#ifndef GATEWAY_CMD_BOOKS_H
#define GATEWAY_CMD_BOOKS_H

#include "gateway/arguments.h"
#include "meter/books.h"

struct cmd_books {
    const char *config_path;  /* --config; NULL: embedded */
    const char *journal_path; /* --journal: no configuration is read then */
    const char *ledger_path;  /* --ledger */
    struct config *config;    /* cmd_books_open(); with --journal: &bare, which has paths alone */
    struct books *books;
    struct config bare; /* what stands for a configuration with --journal */
};

/* Their rows in a command's table of options. */
#define CMD_BOOKS_OPTIONS(common)                                                                  \
    ARGUMENT_TEXT("--config", "a configuration's file", &(common)->config_path),                   \
        ARGUMENT_TEXT("--journal", "a journal's folder", &(common)->journal_path),                 \
        ARGUMENT_TEXT("--ledger", "a ledger's file", &(common)->ledger_path)

/* Opens configuration and books and, with feed, takes in what the journal has. Says on standard
 * error what is wrong; returns 0, or the exit status 1. Close in any case. */
int cmd_books_open(struct cmd_books *common, bool feed);

/* The same for a purpose (books_open_for()), without a feed. */
int cmd_books_open_for(struct cmd_books *common, enum books_purpose purpose);
void cmd_books_close(struct cmd_books *common);

/* Takes in what the journal has, as cmd_books_open() with feed. */
int cmd_books_feed(struct cmd_books *common);

/* The tenant of a name; NULL: the configuration has none such (rows may still). */
const struct config_tenant *cmd_books_tenant(const struct cmd_books *common, const char *name);

/* Does anything know this tenant: the configuration, or a row of any time? If not, says so on
 * standard error, and which one may have been meant. */
bool cmd_books_knows(const struct cmd_books *common, const char *name);

/* The zone of that tenant's periods; UTC when there is none such, or name is NULL. */
const struct zone *cmd_books_zone(const struct cmd_books *common, const char *name);

#endif
