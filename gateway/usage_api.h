/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_api.h: usage and costs over HTTP.
 *
 * For:       GET /v1/organization/usage/completions and /v1/organization/costs in OpenAI's shape,
 *            of the caller's own tenant; GET /usage of the operator's listener.
 * Called by: steps.c, admin.c; exchange.c when an exchange goes.
 * Knows not: whose key it is, how sums are made.
 *
 * The ledger is asked on the keeper's thread. A question is an object of its own: its exchange may
 * go before the answer comes, which is then dropped when its letter is read. */
#ifndef GATEWAY_USAGE_API_H
#define GATEWAY_USAGE_API_H

#include "gateway/exchange.h"

/* Asks what x's target asks for, of x->key's tenant. x->question is set when an answer will come;
 * else x is answered. */
void usage_api_ask(struct exchange *x);

/* GET /usage?period=…&by=…&tenant=…&zone=…&bucket=…: as tollgate usage --json. Likewise. */
void usage_api_ask_all(struct exchange *x);

/* Answers once the answer is there, or it took too long. */
enum verdict usage_api_wait(struct exchange *x);

/* x goes: nobody waits for its answer any more. */
void usage_api_forget(struct exchange *x);

#endif
