/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_audit_live.h: does a running gateway count tokens as its model servers do?
 *
 * For:       tollgate audit --live ADMIN_URL.
 * Called by: cmd_audit.c.
 * Knows not: journals. */
#ifndef GATEWAY_CMD_AUDIT_LIVE_H
#define GATEWAY_CMD_AUDIT_LIVE_H

#include <stdbool.h>

struct cmd_audit_live {
    const char *url;       /* http://127.0.0.1:9091, loopback alone: the token goes in clear */
    const char *token_env; /* the environment variable that holds the admin token */
};

/* Prints a line for each replica, or with json "replicas":[…] without a line's end. Returns 0 when
 * no replica drifts, 1 when one does or the gateway cannot be asked, 2 when the URL is none; says
 * on standard error why. */
int cmd_audit_live(const struct cmd_audit_live *live, bool json);

#endif
