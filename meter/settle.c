/* SPDX-License-Identifier: Apache-2.0 */
/* meter/settle.c: what an exchange is charged, however it ended.
 *
 * For:       see settle.h.
 * Called by: meter.c, recover.c.
 * Knows not: slots, tables, who ends what. */
#include "meter/settle.h"

#include "meter/estimate.h"
#include "meter/price.h"

static int64_t within(int64_t tokens, uint32_t most)
{
    return most != METER_NO_BOUND && tokens > (int64_t)most ? (int64_t)most : tokens;
}

bool settle_usage(const struct meter_guess *guess, int64_t text_bytes, int64_t pieces,
                  struct usage *usage, enum usage_source *source)
{
    const bool has_input = usage->input >= 0 || usage->cached_input >= 0 || usage->cache_write >= 0;
    const bool has_output = usage->output >= 0 || usage->reasoning >= 0 || guess->most_output == 0;
    struct usage estimate;

    if (*source == SOURCE_CACHED || (*source != SOURCE_NONE && has_input && has_output))
        return false;
    estimate_from_guess(guess, text_bytes, pieces, &estimate);
    estimate.input = within(estimate.input, guess->most_input);
    estimate.output = within(estimate.output, guess->most_output);
    if (*source == SOURCE_NONE) {
        *usage = estimate;
    } else {
        if (!has_input)
            usage->input = estimate.input;
        if (!has_output)
            usage->output = estimate.output;
    }
    *source = SOURCE_ESTIMATED;
    return true;
}

int64_t settle_cost(const struct price *price, enum service_tier tier, const struct usage *usage,
                    uint32_t *flags)
{
    struct tariff tariff;
    int64_t cost_pusd = 0;

    price_tariff(price, usage, tier, &tariff);
    if (price_of(usage, &tariff, &cost_pusd) == OK)
        return cost_pusd;
    *flags |= FLAG_USAGE_SUSPECT;
    return 0;
}
