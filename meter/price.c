/* SPDX-License-Identifier: Apache-2.0 */
/* meter/price.c: what a call costs.
 *
 * For:       token counts and a price in, the rates that hold for this call and picodollars out.
 * Called by: meter.c, recover.c, row.c, and what reads rows (audit, invoice, ledger, rerate).
 * Knows not: HTTP, JSON, the clock, who the tenant is. */
#include "meter/price.h"

static const char *const class_names[TOKEN_CLASSES] = {
    [CLASS_INPUT] = "input",
    [CLASS_CACHED_INPUT] = "cached_input",
    [CLASS_CACHE_WRITE] = "cache_write",
    [CLASS_OUTPUT] = "output",
    [CLASS_REASONING] = "reasoning",
};

const char *token_class_name(enum token_class class)
{
    return class_names[class];
}

static int64_t known(int64_t tokens)
{
    return tokens == -1 ? 0 : tokens;
}

int64_t usage_of_class(const struct usage *usage, enum token_class class)
{
    const int64_t tokens[TOKEN_CLASSES] = {
        [CLASS_INPUT] = usage->input,
        [CLASS_CACHED_INPUT] = usage->cached_input,
        [CLASS_CACHE_WRITE] = usage->cache_write,
        [CLASS_OUTPUT] = usage->output,
        [CLASS_REASONING] = usage->reasoning,
    };

    return known(tokens[class]);
}

static int64_t rate_of_class(const struct rates *rates, enum token_class class)
{
    const int64_t rate[TOKEN_CLASSES] = {
        [CLASS_INPUT] = rates->input,
        [CLASS_CACHED_INPUT] = rates->cached_input,
        [CLASS_CACHE_WRITE] = rates->cache_write,
        [CLASS_OUTPUT] = rates->output,
        [CLASS_REASONING] = rates->reasoning,
    };

    return rate[class];
}

/* The whole prompt; sums that do not fit count as the largest number. */
static int64_t prompt_tokens(const struct usage *usage)
{
    int64_t sum = 0;

    for (int class = CLASS_INPUT; class <= CLASS_CACHE_WRITE; class ++) {
        if (__builtin_add_overflow(sum, usage_of_class(usage, (enum token_class) class), &sum))
            return INT64_MAX;
    }
    return sum;
}

static int64_t scaled(int64_t rate, int64_t factor_ppm)
{
    return (int64_t)((__int128)rate * factor_ppm / PRICE_PPM);
}

static struct rates scaled_rates(const struct rates *rates, int64_t factor_ppm)
{
    if (factor_ppm == PRICE_PPM)
        return *rates;
    return (struct rates){
        .input = scaled(rates->input, factor_ppm),
        .cached_input = scaled(rates->cached_input, factor_ppm),
        .cache_write = scaled(rates->cache_write, factor_ppm),
        .output = scaled(rates->output, factor_ppm),
        .reasoning = scaled(rates->reasoning, factor_ppm),
    };
}

static bool is_beyond(int64_t tokens, int64_t above, bool inclusive)
{
    return inclusive ? tokens >= above : tokens > above;
}

void price_tariff(const struct price *price, const struct usage *usage, enum service_tier tier,
                  struct tariff *out_tariff)
{
    const int64_t factor_ppm = price->tier_ppm[tier];

    *out_tariff = (struct tariff){
        .from_us = price->from_us,
        .rates = scaled_rates(&price->rates, factor_ppm),
        .inclusive = price->bracket_inclusive,
    };
    for (uint32_t i = 0; i < price->bracket_count; i++) {
        const struct price_bracket *bracket = &price->brackets[i];
        if (price->bracket_marginal) {
            out_tariff->steps[out_tariff->step_count++] =
                (struct price_bracket){bracket->above, scaled_rates(&bracket->rates, factor_ppm)};
        } else if (is_beyond(prompt_tokens(usage), bracket->above, price->bracket_inclusive)) {
            out_tariff->rates = scaled_rates(&bracket->rates, factor_ppm);
            out_tariff->above = bracket->above;
        }
    }
}

/* Where the bracket below `step` ends and the next begins, in tokens of the prompt: a step "at"
 * 1000 tokens begins with the 1000th, one "over" with the 1001st. */
static int64_t step_start(const struct tariff *tariff, uint32_t step)
{
    return tariff->steps[step].above - (tariff->inclusive ? 1 : 0);
}

static void put_charge(struct charge *charges, uint32_t *count, enum token_class class,
                       int64_t tokens, int64_t rate, int64_t above)
{
    if (tokens > 0)
        charges[(*count)++] = (struct charge){class, tokens, rate, above};
}

/* The tokens [from, from + tokens) of the prompt, all of one class, by step. */
static void put_steps(const struct tariff *tariff, enum token_class class, int64_t from,
                      int64_t tokens, struct charge *charges, uint32_t *count)
{
    const int64_t until = from + tokens;
    int64_t start = 0;

    for (uint32_t i = 0; i <= tariff->step_count; i++) {
        const int64_t end = i < tariff->step_count ? step_start(tariff, i) : INT64_MAX;
        const struct rates *rates = i == 0 ? &tariff->rates : &tariff->steps[i - 1].rates;
        const int64_t low = from > start ? from : start;
        const int64_t high = until < end ? until : end;
        put_charge(charges, count, class, high - low, rate_of_class(rates, class),
                   i == 0 ? tariff->above : tariff->steps[i - 1].above);
        start = end;
    }
}

static bool is_possible(const struct usage *usage, const struct tariff *tariff)
{
    for (int class = 0; class < TOKEN_CLASSES; class ++) {
        if (usage_of_class(usage, (enum token_class) class) < 0 ||
            rate_of_class(&tariff->rates, (enum token_class) class) < 0)
            return false;
        for (uint32_t i = 0; i < tariff->step_count; i++) {
            if (rate_of_class(&tariff->steps[i].rates, (enum token_class) class) < 0)
                return false;
        }
    }
    return tariff->step_count == 0 || prompt_tokens(usage) < INT64_MAX;
}

enum err price_charges(const struct usage *usage, const struct tariff *tariff,
                       struct charge out_charges[CHARGES_MAX], uint32_t *out_count)
{
    /* In the order in which a server meets them. */
    static const enum token_class prompt[] = {CLASS_CACHED_INPUT, CLASS_CACHE_WRITE, CLASS_INPUT};
    uint32_t count = 0;
    int64_t from = 0;

    if (!is_possible(usage, tariff))
        return ERR_BAD_VALUE;
    for (size_t i = 0; i < sizeof(prompt) / sizeof(prompt[0]); i++) {
        const int64_t tokens = usage_of_class(usage, prompt[i]);
        if (tariff->step_count > 0)
            put_steps(tariff, prompt[i], from, tokens, out_charges, &count);
        else
            put_charge(out_charges, &count, prompt[i], tokens,
                       rate_of_class(&tariff->rates, prompt[i]), tariff->above);
        from += tariff->step_count > 0 ? tokens : 0;
    }
    put_charge(out_charges, &count, CLASS_OUTPUT, usage_of_class(usage, CLASS_OUTPUT),
               tariff->rates.output, tariff->above);
    put_charge(out_charges, &count, CLASS_REASONING, usage_of_class(usage, CLASS_REASONING),
               tariff->rates.reasoning, tariff->above);
    *out_count = count;
    return OK;
}

enum err price_of(const struct usage *usage, const struct tariff *tariff, int64_t *out_pusd)
{
    struct charge charges[CHARGES_MAX];
    uint32_t count = 0;
    money_sum sum = 0;
    const enum err err = price_charges(usage, tariff, charges, &count);

    if (err != OK)
        return err;
    for (uint32_t i = 0; i < count && sum <= INT64_MAX; i++)
        sum += (money_sum)charges[i].tokens * charges[i].rate; /* a product has 126 bits at most */
    if (sum > INT64_MAX)
        return ERR_BAD_VALUE;
    *out_pusd = (int64_t)sum;
    return OK;
}

enum err price_discount(const struct price *price, int64_t tokens, money_sum amount,
                        money_sum *out_discount)
{
    money_sum discount = 0;
    enum err err = OK;

    for (uint32_t i = 0; err == OK && i < price->volume_count; i++) {
        const struct price_volume *volume = &price->volumes[i];
        const int64_t next = i + 1 < price->volume_count ? price->volumes[i + 1].above : INT64_MAX;
        const int64_t off_ppm = PRICE_PPM - volume->factor_ppm;
        money_sum share = amount;
        money_sum off = 0;
        if (tokens <= volume->above)
            break;
        if (price->volume_marginal)
            err = money_scale(amount, (tokens < next ? tokens : next) - volume->above, tokens,
                              &share);
        if (err == OK)
            err = money_scale(share, off_ppm, PRICE_PPM, &off);
        if (err == OK)
            discount = price->volume_marginal ? discount + off : off;
    }
    if (err == OK)
        *out_discount = discount;
    return err;
}
