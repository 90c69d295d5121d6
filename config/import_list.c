/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_list.c: a model of LiteLLM's price map as a price list of ours.
 *
 * For:       brackets without holes, one factor a tier where the map has prices, what looks wrong,
 *            and the YAML.
 * Called by: import_prices.c.
 * Knows not: how the map names its prices. */
#include <inttypes.h>
#include <stdio.h>

#include "config/base/log.h"
#include "config/import_prices.h"

#define TOKENS_MAX INT64_C(500000000)

static const char *const price_names[IMPORT_PRICES] = {[PRICE_INPUT] = "input",
                                                       [PRICE_CACHED] = "cached_input",
                                                       [PRICE_WRITE] = "cache_write",
                                                       [PRICE_OUTPUT] = "output",
                                                       [PRICE_REASONING] = "reasoning"};

struct import_band *import_entry_band(struct import_entry *entry, int64_t above)
{
    uint32_t at = 0;

    while (at < entry->band_count && entry->bands[at].above < above)
        at++;
    if (at < entry->band_count && entry->bands[at].above == above)
        return &entry->bands[at];
    if (entry->band_count == IMPORT_BANDS_MAX)
        return NULL;
    memmove(&entry->bands[at + 1], &entry->bands[at],
            (entry->band_count - at) * sizeof(entry->bands[0]));
    entry->band_count++;
    entry->bands[at] = (struct import_band){.above = above};
    return &entry->bands[at];
}

/* Lengths of prompt of which only a tier or a class has a price of its own get the others from the
 * length below, as they hold there. */
static bool fill_bands(struct import_entry *entry)
{
    char place[IMPORT_PLACE_BYTES];

    for (uint32_t i = 1; i < entry->band_count; i++) {
        struct import_band *band = &entry->bands[i];

        for (int price = 0; price < IMPORT_PRICES; price++) {
            struct import_cell *cell = &band->cells[TIER_STANDARD][price];
            const struct import_cell *below = &entry->bands[i - 1].cells[TIER_STANDARD][price];

            if (cell->said || !below->said)
                continue;
            *cell = *below;
            import_good_to_know(entry->plan, below->line,
                                import_entry_place(entry, span_of(price_names[price]), place),
                                "not said above %" PRId64 " tokens; the same holds there",
                                band->above);
        }
    }
    return entry->band_count > 0 && entry->bands[0].above == 0 &&
           entry->bands[0].cells[TIER_STANDARD][PRICE_INPUT].said;
}

/* Embeddings and rerankers have no output to pay. */
static bool has_output(struct import_entry *entry)
{
    const struct import_found mode = import_find(entry->map, "", "mode");
    const struct span text = import_text_of(entry->plan, mode.node);

    if (entry->bands[0].cells[TIER_STANDARD][PRICE_OUTPUT].said)
        return true;
    if (!span_equal(text, SPAN("embedding")) && !span_equal(text, SPAN("rerank")))
        return false;
    for (uint32_t i = 0; i < entry->band_count; i++)
        entry->bands[i].cells[TIER_STANDARD][PRICE_OUTPUT] =
            (struct import_cell){.said = true, .line = entry->line};
    return true;
}

/* What a class costs when the list does not say. */
static int64_t pusd_of(const struct import_band *band, int price)
{
    const struct import_cell *cells = band->cells[TIER_STANDARD];

    if (cells[price].said)
        return cells[price].pusd;
    return cells[price == PRICE_REASONING ? PRICE_OUTPUT : PRICE_INPUT].pusd;
}

static void note_if(const struct import_entry *entry, bool odd, const struct import_cell *cell,
                    const char *what)
{
    char place[IMPORT_PLACE_BYTES];

    if (odd && cell->said)
        import_good_to_know(entry->plan, cell->line,
                            import_entry_place(entry, SPAN("price"), place), "%s", what);
}

static void note_what_is_odd(const struct import_entry *entry)
{
    for (uint32_t i = 0; i < entry->band_count; i++) {
        const struct import_band *band = &entry->bands[i];
        const struct import_cell *cells = band->cells[TIER_STANDARD];
        const int64_t input = pusd_of(band, PRICE_INPUT);
        const int64_t output = pusd_of(band, PRICE_OUTPUT);

        note_if(entry, pusd_of(band, PRICE_CACHED) > input, &cells[PRICE_CACHED],
                "cached input is dearer than input: is that meant?");
        note_if(entry, output > 0 && input > output, &cells[PRICE_INPUT],
                "input is dearer than output: is that meant?");
        note_if(entry, i == 0 && input == 0 && output == 0, &cells[PRICE_INPUT],
                "it costs nothing: is that meant?");
        note_if(entry, i > 0 && input < pusd_of(&entry->bands[i - 1], PRICE_INPUT),
                &cells[PRICE_INPUT], "input is cheaper in longer prompts: is that meant?");
    }
}

/* ---- Tiers ---- */

enum factor_found { FACTOR_NONE, FACTOR_ONE, FACTOR_SEVERAL };

/* Is every price of a tier the standard one times one factor, and whole? */
static enum factor_found find_factor(const struct import_entry *entry, enum service_tier tier,
                                     int64_t *out_ppm)
{
    enum factor_found found = FACTOR_NONE;

    for (uint32_t i = 0; i < entry->band_count; i++) {
        for (int price = 0; price < IMPORT_PRICES; price++) {
            const struct import_cell *cell = &entry->bands[i].cells[tier][price];
            const int64_t standard = pusd_of(&entry->bands[i], price);
            const __int128 scaled = (__int128)cell->pusd * PRICE_PPM;

            if (!cell->said || (standard == 0 && cell->pusd == 0))
                continue;
            if (standard == 0 || scaled % standard != 0 ||
                (found == FACTOR_ONE && scaled / standard != *out_ppm) ||
                scaled / standard > (__int128)1000 * PRICE_PPM)
                return FACTOR_SEVERAL;
            found = FACTOR_ONE;
            *out_ppm = (int64_t)(scaled / standard);
        }
    }
    return found;
}

static bool leaves_whole(const struct import_entry *entry, int64_t factor_ppm)
{
    for (uint32_t i = 0; i < entry->band_count; i++)
        for (int price = 0; price < IMPORT_PRICES; price++)
            if ((__int128)pusd_of(&entry->bands[i], price) * factor_ppm % PRICE_PPM != 0)
                return false;
    return true;
}

/* The line where a tier's first price stands, and whether one that is taken has none. */
static uint32_t look_over_tier(const struct import_entry *entry, enum service_tier tier,
                               bool *out_partial)
{
    uint32_t line = 0;

    *out_partial = false;
    for (uint32_t i = 0; i < entry->band_count; i++) {
        for (int price = 0; price < IMPORT_PRICES; price++) {
            const struct import_cell *cell = &entry->bands[i].cells[tier][price];

            if (cell->said && (line == 0 || cell->line < line))
                line = cell->line;
            if (!cell->said && entry->bands[i].cells[TIER_STANDARD][price].said)
                *out_partial = true;
        }
    }
    return line;
}

static void read_tier(struct import_entry *entry, enum service_tier tier)
{
    const struct import_cell *shortest = entry->bands[0].cells[tier];
    char place[IMPORT_PLACE_BYTES];
    int64_t factor_ppm = PRICE_PPM;
    bool partial;
    const enum factor_found found = find_factor(entry, tier, &factor_ppm);
    const uint32_t line = look_over_tier(entry, tier, &partial);

    (void)import_entry_place(entry, service_tier_name(tier), place);
    if (found == FACTOR_NONE && !entry->tier_odd[tier])
        return;
    if (entry->tier_odd[tier] || !shortest[PRICE_INPUT].said ||
        (!shortest[PRICE_OUTPUT].said && pusd_of(&entry->bands[0], PRICE_OUTPUT) > 0)) {
        import_left_out(entry->plan, line > 0 ? line : entry->line, place,
                        "the tier's input and output prices are not both there");
    } else if (found == FACTOR_SEVERAL || !leaves_whole(entry, factor_ppm)) {
        import_left_out(entry->plan, line, place,
                        "its prices are not the standard ones times one factor of 6 places");
    } else {
        entry->factor_ppm[tier] = factor_ppm;
        if (partial)
            import_good_to_know(entry->plan, line, place,
                                "prices that the map does not give for this tier have its factor "
                                "too");
    }
}

bool import_entry_finish(struct import_entry *entry)
{
    if (!fill_bands(entry) || !has_output(entry))
        return false;
    note_what_is_odd(entry);
    for (int tier = TIER_STANDARD; tier < SERVICE_TIERS; tier++) {
        entry->factor_ppm[tier] = PRICE_PPM;
        if (tier != TIER_STANDARD)
            read_tier(entry, (enum service_tier)tier);
    }
    return true;
}

/* ---- The new file ---- */

static void print_pusd(FILE *out, const char *before, int64_t value)
{
    int places = 6;
    int64_t fraction = value % PRICE_PPM;

    (void)fprintf(out, "%s\"%" PRId64, before, value / PRICE_PPM);
    for (; fraction > 0 && fraction % 10 == 0; places--)
        fraction /= 10;
    if (fraction > 0)
        (void)fprintf(out, ".%0*" PRId64, places, fraction);
    (void)fputs("\"", out);
}

static void print_rates(FILE *out, const struct import_band *band)
{
    char before[40];
    const char *comma = "";

    for (int price = 0; price < IMPORT_PRICES; price++) {
        const struct import_cell *cell = &band->cells[TIER_STANDARD][price];

        if (!cell->said)
            continue;
        (void)snprintf(before, sizeof(before), "%s%s: ", comma, price_names[price]);
        print_pusd(out, before, cell->pusd);
        comma = ", ";
    }
}

static void print_tiers(FILE *out, const struct import_entry *entry)
{
    const char *before = ",\n         tiers: {";

    for (int tier = TIER_FLEX; tier < SERVICE_TIERS; tier++) {
        if (entry->factor_ppm[tier] == PRICE_PPM)
            continue;
        (void)fprintf(out, "%s%s", before, service_tier_name((enum service_tier)tier).data);
        print_pusd(out, ": ", entry->factor_ppm[tier]);
        before = ", ";
    }
    if (before[0] == ',' && before[1] == ' ')
        (void)fputs("}", out);
}

void import_entry_print(FILE *out, const struct import_entry *entry)
{
    const struct import_found input = import_find(entry->map, "", "max_input_tokens");
    const struct import_found output = import_find(entry->map, "", "max_output_tokens");
    const int64_t input_tokens = import_count_at(entry->plan, &input, TOKENS_MAX);
    char name[6 * IMPORT_NAME_BYTES_MAX];
    const int64_t output_tokens = import_count_at(entry->plan, &output, TOKENS_MAX);

    (void)fprintf(out, "  \"%.*s\":\n    price:\n      - {",
                  (int)log_escape(entry->name, name, sizeof(name)), name);
    print_rates(out, &entry->bands[0]);
    for (uint32_t i = 1; i < entry->band_count; i++) {
        (void)fprintf(out, "%s{above: %" PRId64 ", ",
                      i == 1 ? ",\n         brackets: [" : ",\n                    ",
                      entry->bands[i].above);
        print_rates(out, &entry->bands[i]);
        (void)fputs(i + 1 == entry->band_count ? "}]" : "}", out);
    }
    print_tiers(out, entry);
    (void)fputs("}\n", out);
    if (input_tokens > 0)
        (void)fprintf(out, "    context: %" PRId64 " # input and output together\n",
                      input_tokens + output_tokens);
    if (output_tokens > 0)
        (void)fprintf(out, "    output: %" PRId64 "\n", output_tokens);
}
