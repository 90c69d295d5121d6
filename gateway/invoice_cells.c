/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/invoice_cells.c: see invoice_cells.h.
 *
 * For:       the words and decimals of an invoice's line.
 * Called by: cmd_invoice.c, cmd_why.c, invoice_html.c.
 * Knows not: how columns are laid out. */
#include "gateway/invoice_cells.h"

#include <stdio.h>

#define TOKENS_PER_MILLION 1000000

const struct invoice_title *invoice_title(enum invoice_column column)
{
    static const struct invoice_title titles[] = {
#define COLUMN(id, title, is_number) {title, is_number},
        INVOICE_COLUMNS(COLUMN)
#undef COLUMN
    };

    return &titles[column];
}

const char *invoice_kind_name(enum invoice_line_kind kind)
{
    static const char *const names[] = {[INVOICE_TOKENS] = "tokens",
                                        [INVOICE_VOLUME] = "volume",
                                        [INVOICE_ADJUST] = "adjust",
                                        [INVOICE_ROUNDING] = "rounding"};

    return names[kind];
}

size_t invoice_print_rate(int64_t rate_pusd, char out[MONEY_TEXT_BYTES])
{
    return money_print_usd((money_sum)rate_pusd * TOKENS_PER_MILLION, out);
}

static void put_room(struct invoice_cell *cell, size_t size)
{
    cell->text = (struct span){cell->room, size};
}

static void put_number(struct invoice_cell *cell, int64_t number)
{
    put_room(cell, (size_t)snprintf(cell->room, sizeof(cell->room), "%lld", (long long)number));
}

/* The date on which a price begins; with its time when that is no midnight. */
static void put_moment(struct invoice_cell *cell, const struct zone *zone, int64_t at_us)
{
    const struct period day = period_around(zone, PERIOD_DAY, at_us);

    put_room(cell, day.from_us == at_us ? period_print_name(zone, PERIOD_DAY, at_us, cell->room)
                                        : period_print_utc(at_us, cell->room));
}

void invoice_cells(const struct invoice_line *line, const struct zone *zone,
                   struct invoice_cells *out_cells)
{
    struct invoice_cell *cells = out_cells->cells;
    const bool is_tokens = line->kind == INVOICE_TOKENS;

    for (int i = 0; i < INVOICE_COLUMN_COUNT; i++)
        cells[i].text = SPAN("");
    if (line->model.size > 0)
        cells[INVOICE_COLUMN_MODEL].text = line->model;
    if (line->class.size > 0)
        cells[INVOICE_COLUMN_WHAT].text = line->class;
    cells[INVOICE_COLUMN_ID].text = line->id;
    if (is_tokens)
        cells[INVOICE_COLUMN_TIER].text = line->tier.size > 0 ? line->tier : SPAN("standard");
    if (is_tokens || line->kind == INVOICE_VOLUME) {
        put_moment(&cells[INVOICE_COLUMN_FROM], zone, line->price_from_us);
        put_number(&cells[INVOICE_COLUMN_TOKENS], line->tokens);
    }
    if (line->above > 0)
        put_number(&cells[INVOICE_COLUMN_ABOVE], line->above);
    if (is_tokens)
        put_room(&cells[INVOICE_COLUMN_RATE],
                 invoice_print_rate(line->rate_pusd, cells[INVOICE_COLUMN_RATE].room));
    put_room(&cells[INVOICE_COLUMN_EXACT],
             money_print_usd(line->exact_pusd, cells[INVOICE_COLUMN_EXACT].room));
    put_room(&cells[INVOICE_COLUMN_AMOUNT],
             money_print_cents(line->amount_pusd, cells[INVOICE_COLUMN_AMOUNT].room));
}

void invoice_print_draft(const struct invoice *invoice, const struct zone *zone,
                         char out[INVOICE_DRAFT_BYTES])
{
    static const char *const says[] = {
        [INVOICE_AHEAD] = "DRAFT: the period has not begun",
        [INVOICE_RUNNING] = "DRAFT: the period is still open, and what it comes to may change",
        [INVOICE_GRACE] = "DRAFT: the period is over, but late rows may come until it closes at ",
        [INVOICE_WAITING] = "DRAFT: the period is over, but not all rows of it are in the ledger",
        [INVOICE_CLOSED] = ""};
    char closes[PERIOD_TEXT_BYTES] = "";

    if (invoice->state == INVOICE_GRACE)
        (void)period_print_local(zone, invoice->closes_us, closes);
    (void)snprintf(out, INVOICE_DRAFT_BYTES, "%s%s", says[invoice->state], closes);
}

const char *invoice_state_name(enum invoice_state state)
{
    static const char *const names[] = {[INVOICE_AHEAD] = "ahead",
                                        [INVOICE_RUNNING] = "running",
                                        [INVOICE_GRACE] = "grace",
                                        [INVOICE_WAITING] = "waiting",
                                        [INVOICE_CLOSED] = "closed"};

    return names[state];
}
