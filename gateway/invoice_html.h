/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/invoice_html.h: an invoice as one page to print.
 *
 * For:       who sends invoices on paper or as PDF: no script, nothing that is fetched from
 *            elsewhere.
 * Called by: cmd_invoice.c.
 * Knows not: how the invoice came about. */
#ifndef GATEWAY_INVOICE_HTML_H
#define GATEWAY_INVOICE_HTML_H

#include <stdio.h>

#include "meter/books.h"

/* The invoice as one page without script or remote parts; moments as the clocks of zone show. */
void invoice_html_print(const struct invoice *invoice, const struct zone *zone, FILE *out);

#endif
