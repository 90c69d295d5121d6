/* SPDX-License-Identifier: Apache-2.0 */
/* meter/accounts.c: the accounts of replicas, by name, outliving snapshots.
 *
 * For:       meter_attempt_begins(), meter_attempt_ends(), meter_unit_cost(), meter_replica_view(),
 *            meter_reading_begins() and meter_reconcile() of the door, and the table behind them.
 * Called by: meter.c; the gateway by the door.
 * Knows not: slots, prices. */
#include "meter/accounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"

/* By "model/replica"; accounts_adopt() and accounts_forget() alone walk it. */
static struct replica_account *accounts;

static struct replica_account *find_or_make(struct span model, struct span replica)
{
    char *name = NULL;
    struct replica_account *account;

    if (asprintf(&name, "%.*s/%.*s", (int)model.size, model.data, (int)replica.size, replica.data) <
        0)
        return NULL;
    for (account = accounts; account; account = account->next) {
        if (strcmp(account->name, name) == 0) {
            free(name);
            return account;
        }
    }
    account = calloc(1, sizeof(*account));
    if (!account) {
        free(name);
        return NULL;
    }
    account->engine_prompt = account->engine_generation = -1;
    account->name = name;
    account->next = accounts;
    accounts = account;
    return account;
}

enum err accounts_adopt(struct config *config)
{
    for (uint32_t i = 0; i < config->model_count; i++) {
        struct config_model *model = &config->models[i];
        for (uint32_t k = 0; k < model->replica_count; k++) {
            struct config_replica *replica = &model->replicas[k];
            replica->account = find_or_make(model->name, replica->name);
            if (!replica->account)
                return ERR_NO_MEMORY;
        }
    }
    return OK;
}

void accounts_forget(void)
{
    while (accounts) {
        struct replica_account *account = accounts;
        accounts = account->next;
        free(account->name);
        free(account);
    }
}

void meter_attempt_begins(const struct config_replica *replica)
{
    account_begin(replica->account);
}

void meter_attempt_ends(const struct config_replica *replica, const struct usage *usage,
                        uint64_t now_ns)
{
    account_end(replica->account, usage, now_ns);
}

int64_t meter_unit_cost(const struct config *config, const struct config_replica *replica,
                        uint64_t now_ns)
{
    if (replica->pusd_per_hour < 0)
        return -1;
    return account_unit_cost(replica->pusd_per_hour, config->opex_ppm,
                             account_tokens_per_hour(replica->account, now_ns));
}

void meter_reading_begins(const struct config_replica *replica)
{
    account_reading_begins(replica->account);
}

void meter_reconcile(const struct config_replica *replica, const struct load *load, uint64_t now_ns)
{
    account_reconcile(replica->account, load->values[LOAD_PROMPT_TOKENS],
                      load->values[LOAD_GENERATION_TOKENS], now_ns);
}

/* The engine's counter over the time of the comparison; -1: it says none. */
static int64_t engine_tokens(const struct replica_account *account, const _Atomic int64_t *engine,
                             const _Atomic int64_t *base)
{
    if (!atomic_load_explicit(&account->comparing, memory_order_relaxed))
        return -1;
    return atomic_load_explicit(engine, memory_order_relaxed) -
           atomic_load_explicit(base, memory_order_relaxed);
}

void meter_replica_view(const struct config_replica *replica, const struct config *config,
                        uint64_t now_ns, struct meter_replica_view *out_view)
{
    const struct replica_account *account = replica->account;
    const uint64_t drift_ns = atomic_load_explicit(&account->drift_ns, memory_order_relaxed);

    *out_view = (struct meter_replica_view){
        .prompt_tokens = atomic_load_explicit(&account->prompt_tokens, memory_order_relaxed),
        .generation_tokens =
            atomic_load_explicit(&account->generation_tokens, memory_order_relaxed),
        .engine_prompt_tokens =
            engine_tokens(account, &account->engine_prompt, &account->base_prompt),
        .engine_generation_tokens =
            engine_tokens(account, &account->engine_generation, &account->base_generation),
        .drift_prompt_tokens = atomic_load_explicit(&account->drift_prompt, memory_order_relaxed),
        .drift_generation_tokens =
            atomic_load_explicit(&account->drift_generation, memory_order_relaxed),
        .drift_age_ms = drift_ns == 0 ? -1 : (int64_t)((now_ns - drift_ns) / NS_PER_MS),
        .engine_restarts = atomic_load_explicit(&account->restarts, memory_order_relaxed),
        .tokens_per_hour = account_tokens_per_hour(account, now_ns),
        .unit_cost_pusd = meter_unit_cost(config, replica, now_ns),
    };
}
