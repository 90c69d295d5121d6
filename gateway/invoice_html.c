/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/invoice_html.c: see invoice_html.h.
 *
 * For:       one page: who, which period, the lines, the total.
 * Called by: cmd_invoice.c.
 * Knows not: how the invoice came about. */
#include "gateway/invoice_html.h"

#include "gateway/invoice_cells.h"

static const char style[] =
    "body{font:10pt/1.4 sans-serif;margin:2em;color:#000;background:#fff}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.2em .6em .2em 0;border-bottom:1px solid #bbb}"
    ".n{text-align:right;font-variant-numeric:tabular-nums}"
    ".draft{border:2px solid #000;padding:.5em}"
    "tfoot td{font-weight:bold;border-bottom:3px double #000}"
    "thead{display:table-header-group}tr{break-inside:avoid}";

/* Names and reasons may be any text. */
static void put_text(struct span text, FILE *out)
{
    for (size_t i = 0; i < text.size; i++) {
        switch (text.data[i]) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        default:
            (void)fputc(text.data[i], out);
        }
    }
}

static void put_cell(const char *element, bool is_number, struct span text, FILE *out)
{
    (void)fprintf(out, is_number ? "<%s class=\"n\">" : "<%s>", element);
    put_text(text, out);
    (void)fprintf(out, "</%s>", element);
}

static void put_head(const struct invoice *invoice, const struct zone *zone, FILE *out)
{
    char from[PERIOD_TEXT_BYTES], until[PERIOD_TEXT_BYTES], draft[INVOICE_DRAFT_BYTES];

    (void)period_print_local(zone, invoice->period.from_us, from);
    (void)period_print_local(zone, invoice->period.until_us, until);
    (void)fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Invoice ",
                out);
    put_text(invoice->tenant, out);
    (void)fprintf(out, "</title><style>%s</style></head>\n<body><h1>Invoice: ", style);
    put_text(invoice->tenant, out);
    (void)fprintf(out, "</h1>\n<p>From %s until %s (", from, until);
    put_text(zone_name(zone), out);
    (void)fputs(").</p>\n", out);
    if (!invoice_is_closed(invoice)) {
        invoice_print_draft(invoice, zone, draft);
        (void)fprintf(out, "<p class=\"draft\">%s.</p>\n", draft);
    }
}

static void put_total(const struct invoice *invoice, FILE *out)
{
    char exact[MONEY_TEXT_BYTES], total[MONEY_TEXT_BYTES];

    (void)money_print_usd(invoice->exact_pusd, exact);
    (void)money_print_cents(invoice->total_pusd, total);
    (void)fprintf(out, "<tfoot><tr><td colspan=\"%d\">Total</td>", (int)INVOICE_COLUMN_EXACT);
    put_cell("td", true, span_of(exact), out);
    put_cell("td", true, span_of(total), out);
    (void)fputs("<td></td></tr></tfoot>", out);
}

void invoice_html_print(const struct invoice *invoice, const struct zone *zone, FILE *out)
{
    put_head(invoice, zone, out);
    (void)fputs("<table><thead><tr>", out);
    for (int i = 0; i < INVOICE_COLUMN_COUNT; i++) {
        const struct invoice_title *title = invoice_title((enum invoice_column)i);
        put_cell("th", title->is_number, span_of(title->text), out);
    }
    (void)fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t k = 0; k < invoice->line_count; k++) {
        struct invoice_cells cells;
        invoice_cells(&invoice->lines[k], zone, &cells);
        (void)fputs("<tr>", out);
        for (int i = 0; i < INVOICE_COLUMN_COUNT; i++)
            put_cell("td", invoice_title((enum invoice_column)i)->is_number, cells.cells[i].text,
                     out);
        (void)fputs("</tr>\n", out);
    }
    (void)fputs("</tbody>\n", out);
    put_total(invoice, out);
    (void)fputs("</table>\n<p>Amounts are in USD. Each line is rounded once, half to even; what "
                "rounding leaves over is a line of its own.</p>\n</body></html>\n",
                out);
}
