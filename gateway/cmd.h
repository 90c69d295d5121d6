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

/* tollgate import litellm FILE [--output FILE] [--json]: a LiteLLM proxy's configuration as ours.
 * What was not taken over is listed on standard error. 1: something was left out, 2: nothing was
 * written. */
int cmd_import(int argc, char **argv);

#endif
