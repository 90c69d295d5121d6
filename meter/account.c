/* SPDX-License-Identifier: Apache-2.0 */
/* meter/account.c: a replica's tokens: what one costs us, and whether the engine counts as we do.
 *
 * For:       unit cost and reconciliation.
 * Called by: accounts.c.
 * Knows not: the clock, prices, which requests they were. */
#include "meter/account.h"

#include "config/base/money.h"

#define NS_PER_HOUR (UINT64_C(3600) * 1000000000)

static int64_t known(int64_t tokens)
{
    return tokens > 0 ? tokens : 0;
}

void account_begin(struct replica_account *account)
{
    atomic_fetch_add_explicit(&account->under_way, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&account->begun, 1, memory_order_relaxed);
}

/* The bucket of this moment; what an hour ago left in it goes. Two that come at once may lose one
 * another's first tokens of five minutes: it is a rate, no bill. */
static void add_to_bucket(struct replica_account *account, int64_t tokens, uint64_t now_ns)
{
    const uint64_t number = now_ns / ACCOUNT_BUCKET_NS + 1;
    const size_t place = (size_t)(number % ACCOUNT_BUCKETS);
    uint64_t was = atomic_load_explicit(&account->buckets[place].number, memory_order_relaxed);

    if (was < number &&
        atomic_compare_exchange_strong_explicit(&account->buckets[place].number, &was, number,
                                                memory_order_relaxed, memory_order_relaxed))
        atomic_store_explicit(&account->buckets[place].tokens, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&account->buckets[place].tokens, tokens, memory_order_relaxed);
}

void account_end(struct replica_account *account, const struct usage *usage, uint64_t now_ns)
{
    const int64_t prompt =
        known(usage->input) + known(usage->cached_input) + known(usage->cache_write);
    const int64_t generation = known(usage->output) + known(usage->reasoning);
    const int64_t computed = prompt - known(usage->cached_input) + generation;
    uint64_t never = 0;

    atomic_fetch_add_explicit(&account->prompt_tokens, prompt, memory_order_relaxed);
    atomic_fetch_add_explicit(&account->generation_tokens, generation, memory_order_relaxed);
    if (computed > 0) {
        (void)atomic_compare_exchange_strong_explicit(&account->began_ns, &never, now_ns,
                                                      memory_order_relaxed, memory_order_relaxed);
        add_to_bucket(account, computed, now_ns);
    }
    atomic_fetch_sub_explicit(&account->under_way, 1, memory_order_release);
}

int64_t account_tokens_per_hour(const struct replica_account *account, uint64_t now_ns)
{
    const uint64_t began_ns = atomic_load_explicit(&account->began_ns, memory_order_relaxed);
    const uint64_t newest = now_ns / ACCOUNT_BUCKET_NS + 1;
    uint64_t span_ns = (ACCOUNT_BUCKETS - 1) * ACCOUNT_BUCKET_NS + now_ns % ACCOUNT_BUCKET_NS;
    int64_t tokens = 0;

    if (began_ns == 0)
        return -1;
    for (size_t i = 0; i < ACCOUNT_BUCKETS; i++) {
        const uint64_t number =
            atomic_load_explicit(&account->buckets[i].number, memory_order_relaxed);
        if (number > 0 && number <= newest && newest - number < ACCOUNT_BUCKETS)
            tokens += atomic_load_explicit(&account->buckets[i].tokens, memory_order_relaxed);
    }
    if (now_ns - began_ns < span_ns)
        span_ns = now_ns - began_ns;
    if (span_ns < ACCOUNT_BUCKET_NS)
        span_ns = ACCOUNT_BUCKET_NS;
    return (int64_t)((unsigned __int128)(uint64_t)tokens * NS_PER_HOUR / span_ns);
}

int64_t account_unit_cost(int64_t pusd_per_hour, int64_t opex_ppm, int64_t tokens_per_hour)
{
    money_sum hourly = 0;
    money_sum cost = 0;

    if (pusd_per_hour < 0 || tokens_per_hour <= 0 ||
        money_scale(pusd_per_hour, opex_ppm, PRICE_PPM, &hourly) != OK ||
        money_scale(hourly, 1, tokens_per_hour, &cost) != OK || cost > INT64_MAX)
        return -1;
    return (int64_t)cost;
}

/* Begins the comparison anew, with what both say now. */
static void begin_comparing(struct replica_account *account, int64_t prompt, int64_t generation)
{
    atomic_store_explicit(&account->base_prompt,
                          prompt -
                              atomic_load_explicit(&account->prompt_tokens, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(
        &account->base_generation,
        generation - atomic_load_explicit(&account->generation_tokens, memory_order_relaxed),
        memory_order_relaxed);
    atomic_store_explicit(&account->comparing, true, memory_order_relaxed);
}

/* Did the engine start anew? Its counters fall then. */
static bool has_restarted(const struct replica_account *account, int64_t prompt, int64_t generation)
{
    return prompt < atomic_load_explicit(&account->engine_prompt, memory_order_relaxed) ||
           generation < atomic_load_explicit(&account->engine_generation, memory_order_relaxed);
}

/* Is nothing under way, and how many have begun until now? */
static bool is_idle(const struct replica_account *account, uint64_t *out_begun)
{
    *out_begun = atomic_load_explicit(&account->begun, memory_order_relaxed);
    return atomic_load_explicit(&account->under_way, memory_order_acquire) == 0;
}

void account_reading_begins(struct replica_account *account)
{
    account->asked_idle = is_idle(account, &account->asked_at);
}

/* Was nothing under way at any moment since the engine was asked? */
static bool stayed_idle(const struct replica_account *account)
{
    uint64_t begun;

    return account->asked_idle && is_idle(account, &begun) && begun == account->asked_at;
}

static void note_drift(struct replica_account *account, int64_t prompt, int64_t generation,
                       uint64_t now_ns)
{
    atomic_store_explicit(&account->drift_prompt,
                          prompt -
                              atomic_load_explicit(&account->base_prompt, memory_order_relaxed) -
                              atomic_load_explicit(&account->prompt_tokens, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(
        &account->drift_generation,
        generation - atomic_load_explicit(&account->base_generation, memory_order_relaxed) -
            atomic_load_explicit(&account->generation_tokens, memory_order_relaxed),
        memory_order_relaxed);
    atomic_store_explicit(&account->drift_ns, now_ns, memory_order_relaxed);
}

void account_reconcile(struct replica_account *account, int64_t engine_prompt,
                       int64_t engine_generation, uint64_t now_ns)
{
    bool comparing = atomic_load_explicit(&account->comparing, memory_order_relaxed);
    bool same;

    if (engine_prompt < 0 || engine_generation < 0)
        return;
    if (comparing && has_restarted(account, engine_prompt, engine_generation)) {
        atomic_fetch_add_explicit(&account->restarts, 1, memory_order_relaxed);
        atomic_store_explicit(&account->comparing, false, memory_order_relaxed);
        comparing = account->was_idle = false;
    }
    same = account->was_idle && account->idle_at == account->asked_at &&
           engine_prompt == atomic_load_explicit(&account->engine_prompt, memory_order_relaxed) &&
           engine_generation ==
               atomic_load_explicit(&account->engine_generation, memory_order_relaxed);
    atomic_store_explicit(&account->engine_prompt, engine_prompt, memory_order_relaxed);
    atomic_store_explicit(&account->engine_generation, engine_generation, memory_order_relaxed);
    account->was_idle = stayed_idle(account);
    account->idle_at = account->asked_at;
    if (!account->was_idle)
        return; /* what is under way is counted there already and not yet here */
    if (!comparing && same)
        begin_comparing(account, engine_prompt, engine_generation);
    if (comparing || same)
        note_drift(account, engine_prompt, engine_generation, now_ns);
}
