/* SPDX-License-Identifier: Apache-2.0 */
/* meter/invoice_lines.h: sums of tokens become the lines of an invoice; pure.
 *
 * For:       lines by model, class of token, tier, price and step; discounts, corrections; each
 *            rounded once, and the residue.
 * Called by: invoice.c.
 * Knows not: where the sums come from, who may see them. */
#ifndef METER_INVOICE_LINES_H
#define METER_INVOICE_LINES_H

#include "config/base/arena.h"
#include "meter/books.h"
#include "meter/price.h"

struct invoice_lines {
    struct invoice_line *lines;
    size_t count, room;
};

/* Tokens of a model at one dated price in one month, and what they cost. */
struct invoice_volume {
    struct span model;
    int64_t price_from_us, month_us;
    int64_t tokens;
    money_sum exact_pusd;
};

/* An invoice that is being made. All texts are its own. */
struct invoice_sheet {
    struct invoice invoice; /* whole once invoice_sheet_finish() was OK */
    struct arena texts;
    struct invoice_lines tokens; /* until then */
    struct invoice_lines others; /* discounts and corrections, in the order in which they came */
    struct invoice_volume *volumes;
    size_t volume_count, volume_room;
};

/* Empty; NULL without memory. */
MUST_CHECK struct invoice_sheet *invoice_sheet_new(struct span tenant, const struct period *period);
void invoice_sheet_free(struct invoice_sheet *sheet); /* NULL is fine */

/* What tokens were used for. */
struct invoice_group {
    struct span model;
    struct span tier; /* empty: standard */
    int64_t month_us; /* where the month begins that they were used in */
};

/* What usage costs, exact, also where it does not fit a row. Errors: ERR_BAD_VALUE. */
MUST_CHECK enum err invoice_cost(const struct usage *usage, const struct tariff *tariff,
                                 money_sum *out_pusd);

/* Usage of a group under a tariff: of one call, or, without steps, of many.
 * Errors: ERR_BAD_VALUE (a negative number, a sum that does not fit), ERR_NO_MEMORY; the sheet is
 * then good for nothing but to be freed. So it is with those below. */
MUST_CHECK enum err invoice_sheet_add_usage(struct invoice_sheet *sheet,
                                            const struct invoice_group *group,
                                            const struct tariff *tariff, const struct usage *usage);

/* What a correction adds. id: of its row. */
MUST_CHECK enum err invoice_sheet_add_other(struct invoice_sheet *sheet, struct span model,
                                            struct span why, struct span id, money_sum pusd);

/* The discounts that the prices give on what was used of each in a month; of whole months of the
 * period alone. Once, when all usage is in. */
MUST_CHECK enum err invoice_sheet_discount(struct invoice_sheet *sheet, const struct config *config,
                                           const struct zone *zone);

/* Sorts, names, rounds and sums up. */
MUST_CHECK enum err invoice_sheet_finish(struct invoice_sheet *sheet);

#endif
