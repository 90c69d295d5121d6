/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/invoice_cells.h: the lines of an invoice in words and decimals.
 *
 * For:       the same columns as text and as HTML.
 * Called by: cmd_invoice.c, cmd_why.c, invoice_html.c.
 * Knows not: how columns are laid out. */
#ifndef GATEWAY_INVOICE_CELLS_H
#define GATEWAY_INVOICE_CELLS_H

#include "meter/books.h"

/* title, and whether it is a number */
/* clang-format off */
#define INVOICE_COLUMNS(COLUMN)                                                   \
    COLUMN(MODEL,  "model",           false)                                      \
    COLUMN(WHAT,   "what",            false)                                      \
    COLUMN(TIER,   "tier",            false)                                      \
    COLUMN(FROM,   "price from",      false)                                      \
    COLUMN(ABOVE,  "above",           true)                                       \
    COLUMN(TOKENS, "tokens",          true)                                       \
    COLUMN(RATE,   "USD per million", true)                                       \
    COLUMN(EXACT,  "exact USD",       true)                                       \
    COLUMN(AMOUNT, "USD",             true)                                       \
    COLUMN(ID,     "line",            false)
/* clang-format on */
enum invoice_column {
#define COLUMN(id, title, is_number) INVOICE_COLUMN_##id,
    INVOICE_COLUMNS(COLUMN)
#undef COLUMN
        INVOICE_COLUMN_COUNT
};

struct invoice_cell {
    struct span text; /* of the invoice, or in room */
    char room[MONEY_TEXT_BYTES];
};

struct invoice_cells {
    struct invoice_cell cells[INVOICE_COLUMN_COUNT];
};

struct invoice_title {
    const char *text;
    bool is_number;
};

/* A column's title. Static. */
const struct invoice_title *invoice_title(enum invoice_column column);

/* A line's cells; they borrow from the invoice and from *out_cells. zone: of the price's date. */
void invoice_cells(const struct invoice_line *line, const struct zone *zone,
                   struct invoice_cells *out_cells);

#define INVOICE_DRAFT_BYTES 192

/* What is said of one that is not closed: why, and when it closes by the zone's clocks; "" of one
 * that is. */
void invoice_print_draft(const struct invoice *invoice, const struct zone *zone,
                         char out[INVOICE_DRAFT_BYTES]);

/* "running", "grace", "waiting", "closed". Static. */
const char *invoice_state_name(enum invoice_state state);

/* "tokens", "volume", "adjust", "rounding". Static. */
const char *invoice_kind_name(enum invoice_line_kind kind);

/* Dollars per million tokens of picodollars per token. */
size_t invoice_print_rate(int64_t rate_pusd, char out[MONEY_TEXT_BYTES]);

#endif
