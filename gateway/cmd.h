/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd.h: the commands beside serve.
 *
 * For:       main.c, which picks one by its name.
 * Called by: main.c.
 * Knows not: sockets. Each takes the arguments behind its own name and returns the exit status:
 *            0 good, 1 the answer is no, 2 used wrongly. */
#ifndef GATEWAY_CMD_H
#define GATEWAY_CMD_H

/* tollgate check FILE [--json]: is the file a configuration? Prints every problem. argv[0] is
 * "check". */
int cmd_check(int argc, char **argv);

/* tollgate explain [KEY] [--json]: what keys of the configuration mean. */
int cmd_explain(int argc, char **argv);

/* tollgate keys new [--id ID] [--json]: a new key, shown once, and its entry for the file. */
int cmd_keys(int argc, char **argv);

/* tollgate import litellm FILE | prices FILE [--models NAME,…] [--output FILE] [--json]: a LiteLLM
 * proxy's configuration, or its price map, as ours. What was not taken over is listed on standard
 * error. 1: something was left out, 2: nothing was written. */
int cmd_import(int argc, char **argv);

/* What was charged. Each takes --config FILE (else the embedded configuration), or --journal DIR
 * and --ledger FILE in its place where no prices and tenants are needed (cmd_books.h); --json where
 * a table is printed. */

/* tollgate usage [--period P] [--by COLUMN,…] [--bucket hour|day|week|month] [--tenant T] [--where
 * COLUMN=VALUE] [--zone Z] [--json | --csv | --focus] [--waste] [--weighted] [--margin] */
int cmd_usage(int argc, char **argv);

/* tollgate invoice TENANT PERIOD [--json | --html | --focus]. 2: nothing knows the tenant. */
int cmd_invoice(int argc, char **argv);

/* tollgate why ID [--json]: request, row, prices, invoice line; 1: there is no row (yet). */
int cmd_why(int argc, char **argv);

/* tollgate adjust ROW_ID | --tenant T --at WHEN, --void | --usd AMOUNT, --by NAME --why TEXT */
int cmd_adjust(int argc, char **argv);

/* tollgate rerate --prices FILE [--period P] [--tenant T] [--json] */
int cmd_rerate(int argc, char **argv);

/* tollgate audit [--public-key FILE] [--anchors FILE] [--no-ledger] [--live ADMIN_URL] [--json] */
int cmd_audit(int argc, char **argv);

/* tollgate ledger rebuild | feed */
int cmd_ledger(int argc, char **argv);

#endif
