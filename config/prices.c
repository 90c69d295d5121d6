/* SPDX-License-Identifier: Apache-2.0 */
/* config/prices.c: the price list of a model into a draft.
 *
 * For:       dated rates by class of token, brackets for long prompts, factors of tiers, discounts
 *            on a month; no gap, no overlap, nothing that is not whole picodollars.
 * Called by: models.c.
 * Knows not: what a call costs (meter/price.c). */
#include <stdio.h>

#include "config/base/clock.h"
#include "config/base/span.h"
#include "config/sections.h"
#include "config/values.h"

#define PRICES_MAX 1024
#define TOKENS_MAX INT64_C(1000000000000)
#define FACTOR_PPM_MAX (INT64_C(1000) * PRICE_PPM)
#define FACTOR_EXPECTED "a factor as decimal text with at most 6 places, such as 0.5"
#define PRICE_EXPECTED                                                                             \
    "USD per million tokens as decimal text, at most 6 places (whole picodollars)"

/* USD per million tokens: a millionth of a dollar is 1e6 pusd, so the point moves six places. */
static bool read_token_price(struct span text, int64_t *out_pusd)
{
    return values_decimal(text, 6, out_pusd) && *out_pusd <= INT64_C(1000000000000);
}

static bool read_factor(struct span text, int64_t *out_ppm)
{
    return values_decimal(text, 6, out_ppm) && *out_ppm <= FACTOR_PPM_MAX;
}

static void need_rate(const struct section *section, const char *key, int64_t *out_rate)
{
    struct place place;
    const struct node *node = section_need(section, key, &place);

    if (node != NULL)
        (void)section_read_value(section->draft, node, &place, read_token_price, PRICE_EXPECTED,
                                 out_rate);
}

static void warn_at(struct draft *draft, const struct place *place, const char *what)
{
    char name[200];

    place_print(place, name, sizeof(name));
    problems_warn_at(draft->problems, place->line, name, "%s", what);
}

static void warn_if_dearer(const struct section *section, const char *key, int64_t rate,
                           const char *than, int64_t other)
{
    struct place place;
    char what[64];

    if (rate <= other || section_find(section, key, &place) == NULL)
        return;
    (void)snprintf(what, sizeof(what), "warning: dearer than %s: is that meant?", than);
    warn_at(section->draft, &place, what);
}

static void read_rates(const struct section *section, struct rates *rates)
{
    need_rate(section, "input", &rates->input);
    need_rate(section, "output", &rates->output);
    rates->cached_input = rates->input;
    rates->cache_write = rates->input;
    rates->reasoning = rates->output;
    section_value_at(section, "cached_input", read_token_price, PRICE_EXPECTED,
                     &rates->cached_input);
    section_value_at(section, "cache_write", read_token_price, PRICE_EXPECTED, &rates->cache_write);
    section_value_at(section, "reasoning", read_token_price, PRICE_EXPECTED, &rates->reasoning);
    warn_if_dearer(section, "cached_input", rates->cached_input, "input", rates->input);
    /* Embeddings cost no output: only a price that is less than input's, but some, is odd. */
    if (rates->output > 0)
        warn_if_dearer(section, "input", rates->input, "output", rates->output);
}

/* A list of steps; NULL when there is none. */
static const struct node *find_steps(const struct section *section, const char *key, uint32_t most,
                                     struct place *place)
{
    if (section_find(section, key, place) == NULL)
        return NULL;
    return section_find_list(section, key, 1, most, place);
}

/* One of two words about a list of steps, which must be there: is it the second? */
static bool is_second(const struct section *section, const char *key, const char *const words[2],
                      const char *expected, const char *list)
{
    struct place place;
    struct place steps;
    const struct node *node = section_find(section, key, &place);

    if (node == NULL)
        return false;
    if (section_find(section, list, &steps) == NULL)
        problems_add(section->draft->problems, &place,
                     "expected %s beside it: it says how they hold", list);
    return section_read_choice(section->draft, node, &place, words, 2, expected) == 1;
}

/* The tokens of one item of a list of steps, which ascend. */
static int64_t read_above(const struct section *section, int64_t before)
{
    int64_t above = 0;
    struct place place;

    if (section_need(section, "above", &place) == NULL)
        return before;
    section_number_at(section, "above", 1, TOKENS_MAX, &above);
    if (above > 0 && above <= before)
        problems_add(section->draft->problems, &place, "expected more than in the item before it");
    return above;
}

static void read_brackets(const struct section *section, struct price *price)
{
    static const char *const modes[] = {"whole_request", "marginal"};
    static const char *const froms[] = {"over", "at"};
    struct draft *draft = section->draft;
    struct place place;
    const struct node *list = find_steps(section, "brackets", PRICE_BRACKETS_MAX, &place);

    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const struct section bracket =
            section_open(draft, list->items[i], item, "models.*.price[].brackets[]");

        price->brackets[i].above = read_above(&bracket, i > 0 ? price->brackets[i - 1].above : 0);
        read_rates(&bracket, &price->brackets[i].rates);
        price->bracket_count = i + 1;
    }
    price->bracket_marginal =
        is_second(section, "bracket_mode", modes, "whole_request or marginal", "brackets");
    price->bracket_inclusive = is_second(section, "bracket_from", froms, "over or at", "brackets");
}

static void read_volume(const struct section *section, struct price *price)
{
    static const char *const modes[] = {"marginal", "whole"};
    struct draft *draft = section->draft;
    struct place place;
    const struct node *list = find_steps(section, "volume", PRICE_VOLUMES_MAX, &place);

    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const struct section volume =
            section_open(draft, list->items[i], item, "models.*.price[].volume[]");
        struct place at;
        const struct node *factor = section_need(&volume, "factor", &at);

        price->volumes[i].above = read_above(&volume, i > 0 ? price->volumes[i - 1].above : 0);
        price->volumes[i].factor_ppm = PRICE_PPM;
        if (factor != NULL &&
            section_read_value(draft, factor, &at, read_factor, FACTOR_EXPECTED,
                               &price->volumes[i].factor_ppm) &&
            price->volumes[i].factor_ppm > PRICE_PPM)
            problems_add(draft->problems, &at, "expected a factor of at most 1: it is a discount");
        price->volume_count = i + 1;
    }
    price->volume_marginal =
        !is_second(section, "volume_mode", modes, "marginal or whole", "volume");
}

static bool is_whole(int64_t rate, int64_t factor_ppm)
{
    return (__int128)rate * factor_ppm % PRICE_PPM == 0;
}

static bool are_whole(const struct rates *rates, int64_t factor_ppm)
{
    return is_whole(rates->input, factor_ppm) && is_whole(rates->cached_input, factor_ppm) &&
           is_whole(rates->cache_write, factor_ppm) && is_whole(rates->output, factor_ppm) &&
           is_whole(rates->reasoning, factor_ppm);
}

/* A factor must leave every rate whole: rounding would be billing what was never agreed on. */
static void read_tier(const struct section *tiers, const char *key, struct price *price,
                      enum service_tier tier)
{
    struct place place;
    bool whole;

    section_value_at(tiers, key, read_factor, FACTOR_EXPECTED, &price->tier_ppm[tier]);
    whole = are_whole(&price->rates, price->tier_ppm[tier]);
    for (uint32_t i = 0; i < price->bracket_count; i++)
        whole = whole && are_whole(&price->brackets[i].rates, price->tier_ppm[tier]);
    if (!whole && section_find(tiers, key, &place) != NULL)
        problems_add(tiers->draft->problems, &place,
                     "expected a factor that leaves every price of this row at 6 places");
}

static void read_tiers(const struct section *section, struct price *price)
{
    struct place place;
    const struct node *node = section_find(section, "tiers", &place);
    struct section tiers;

    for (size_t i = 0; i < SERVICE_TIERS; i++)
        price->tier_ppm[i] = PRICE_PPM;
    if (node == NULL)
        return;
    tiers = section_open(section->draft, node, place, "models.*.price[].tiers");
    if (tiers.map == NULL)
        return;
    for (enum service_tier tier = TIER_STANDARD + 1; tier < SERVICE_TIERS; tier++)
        read_tier(&tiers, service_tier_name(tier).data, price, tier);
}

static void read_price(const struct section *section, struct price *price)
{
    read_rates(section, &price->rates);
    section_value_at(section, "cache_hit", read_token_price, PRICE_EXPECTED, &price->cache_hit);
    section_value_at(section, "from", values_date, VALUES_DATE_EXPECTED, &price->from_us);
    price->until_us = INT64_MAX;
    section_value_at(section, "until", values_date, VALUES_DATE_EXPECTED, &price->until_us);
    read_brackets(section, price);
    read_volume(section, price);
    read_tiers(section, price);
}

/* Is there a price at every moment from the first on? */
static void check_dates(struct draft *draft, const struct price *before, const struct price *price,
                        const struct place *item)
{
    if (price->from_us <= before->from_us)
        problems_add(draft->problems, item,
                     "expected a later date in from than the price before it");
    else if (before->until_us != INT64_MAX && before->until_us < price->from_us)
        problems_add(draft->problems, item,
                     "expected from to be the until of the price before it: nothing holds between");
    else if (before->until_us != INT64_MAX && before->until_us > price->from_us)
        problems_add(draft->problems, item,
                     "expected from to be the until of the price before it: both hold between");
}

void sections_read_prices(const struct section *section, struct config_model *model)
{
    struct draft *draft = section->draft;
    const int64_t now_us = clock_wall_us();
    struct place place;
    const struct node *list = section_find_list(section, "price", 1, PRICES_MAX, &place);
    int64_t last_us;

    if (list == NULL)
        return;
    model->prices = section_take(draft, list->count, sizeof(*model->prices));
    if (model->prices == NULL)
        return;
    model->price_count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const struct section price = section_open(draft, list->items[i], item, "models.*.price[]");

        read_price(&price, &model->prices[i]);
        if (model->prices[i].until_us <= model->prices[i].from_us)
            problems_add(draft->problems, &item, "expected until to be later than from");
        if (i > 0) {
            check_dates(draft, &model->prices[i - 1], &model->prices[i], &item);
            model->prices[i - 1].until_us = model->prices[i].from_us;
        }
    }
    if (model->prices[0].from_us > now_us)
        problems_add(draft->problems, &place,
                     "expected a price that holds today: the first one begins later");
    last_us = model->prices[list->count - 1].until_us;
    if (last_us <= now_us)
        problems_add(draft->problems, &place,
                     "expected a price that holds today: the last one has ended");
    else if (last_us != INT64_MAX)
        warn_at(draft, &place,
                "warning: the last one has an end: from then on the model is refused");
}
