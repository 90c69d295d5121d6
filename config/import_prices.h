/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_prices.h: one model of LiteLLM's price map, on its way to a price list of ours.
 *
 * For:       import_prices.c, which fills an entry with what the map says; import_list.c, which
 *            makes brackets and tiers of it, finds what is odd, and prints it.
 * Called by: those.
 * Knows not: files. */
#ifndef CONFIG_IMPORT_PRICES_H
#define CONFIG_IMPORT_PRICES_H

#include <stdio.h>

#include "config/import_litellm.h"

#define IMPORT_BANDS_MAX (PRICE_BRACKETS_MAX + 1)

/* A price of the map. */
struct import_cell {
    bool said;
    uint32_t line;
    int64_t pusd; /* per token */
};

/* The prices of one length of prompt, of each tier. */
struct import_band {
    int64_t above; /* tokens; 0: the shortest */
    struct import_cell cells[SERVICE_TIERS][IMPORT_PRICES];
};

struct import_entry {
    struct import_plan *plan;
    struct span name;
    const struct node *map;
    uint32_t line;
    bool unusable; /* one of its standard prices could not be taken, and was reported */
    bool tier_odd[SERVICE_TIERS]; /* one of the tier's prices could not be taken */
    uint32_t band_count;
    struct import_band bands[IMPORT_BANDS_MAX]; /* ascending, the first above 0 */
    int64_t factor_ppm[SERVICE_TIERS];
};

/* Where a field of a model stands, for notes; returns out. */
const char *import_entry_place(const struct import_entry *entry, struct span field,
                               char out[IMPORT_PLACE_BYTES]);

/* ---- import_list.c ---- */

/* The band of a length of prompt, a new one if need be; NULL: there are too many. */
struct import_band *import_entry_band(struct import_entry *entry, int64_t above);

/* Completes the bands, notes what is odd, and makes a factor of each tier's prices or says why not.
 * false: it has no prices for input and output (not said). */
MUST_CHECK bool import_entry_finish(struct import_entry *entry);

/* The list, as a model under models:. */
void import_entry_print(FILE *out, const struct import_entry *entry);

#endif
