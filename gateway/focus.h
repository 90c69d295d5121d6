/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/focus.h: charges as FOCUS 1.2 has them (FinOps Open Cost and Usage Specification), in
 * CSV.
 *
 * For:       cost tools that know the columns of every provider's bill.
 * Called by: cmd_usage_focus.c, cmd_invoice.c.
 * Knows not: books, invoices, tenants.
 *
 * Every cost is exact: PricingQuantity (millions of tokens) × unit price (USD) is the cost to the
 * last digit. There are no prepayments and no contracts, so that all four costs are one. Columns of
 * our own begin with x_. tests/focus/check.py says which rules are kept. */
#ifndef GATEWAY_FOCUS_H
#define GATEWAY_FOCUS_H

#include <stdio.h>

#include "config/base/money.h"
#include "config/base/period.h"

#define FOCUS_ISSUER "Tollgate" /* who bills, when nobody says */

enum focus_category {
    FOCUS_USAGE,     /* tokens at a rate */
    FOCUS_CREDIT,    /* what the tenant gets: volume discounts, goodwill */
    FOCUS_ADJUSTMENT /* corrections of charges, rounding */
};

/* One line. Spans are borrowed; {NULL, 0}: absent. */
struct focus_charge {
    enum focus_category category;
    bool correction;    /* of a period that was invoiced before this was known */
    struct span issuer; /* who bills; FOCUS_ISSUER when absent */
    struct span tenant;
    struct span tags_json;          /* of the tenant: {"team":"search"} */
    struct period billing;          /* the tenant's month */
    struct period charged;          /* within it */
    struct span invoice;            /* id of the invoice; absent: none was issued yet */
    struct span model, class, tier; /* class: of tokens; tier absent: standard */
    int64_t price_from_us;          /* usage: the dated price */
    int64_t above;                  /* usage: the step of a bracket; 0: none */
    int64_t tokens;                 /* usage: > 0 */
    int64_t rate_pusd;              /* usage: per token */
    money_sum cost_pusd;            /* usage: tokens × rate */
    struct span what;               /* others than usage: what it is for, in words */
    struct span row;                /* of an adjust: its id in the journal */
};

/* The line of column names. */
void focus_print_head(FILE *out);

/* One charge as one line; borrows for the call. */
void focus_print_charge(FILE *out, const struct focus_charge *charge);

#define FOCUS_INVOICE_BYTES 160

/* The id of a tenant's invoice of a period: "acme/2026-11-01T00:00:00Z". Returns out as a span. */
struct span focus_invoice_id(struct span tenant, struct period billing,
                             char out[FOCUS_INVOICE_BYTES]);

#endif
