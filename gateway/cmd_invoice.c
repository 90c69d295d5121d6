/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_invoice.c: tollgate invoice.
 *
 * For:       what a tenant owes for a period, line by line: text, JSON, a page to print, FOCUS.
 * Called by: main.c.
 * Knows not: how lines come about (meter/invoice*.c). */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "gateway/cmd.h"
#include "gateway/cmd_books.h"
#include "gateway/focus.h"
#include "gateway/invoice_cells.h"
#include "gateway/invoice_html.h"

#define COMMAND "invoice"

struct arguments {
    struct cmd_books books;
    const char *tenant, *period;
    bool json, html, focus; /* none: text */
};

static const char help[] =
    "usage: tollgate invoice TENANT PERIOD [--json | --html | --focus] "
    "[--config FILE | --journal DIR] [--ledger FILE]\n"
    "PERIOD: 2026-11, 2026, month, last-month, A..B; in the tenant's time zone\n";

static bool read_arguments(struct arguments *arguments, int argc, char **argv, int *out_status)
{
    const struct argument_option options[] = {
        CMD_BOOKS_OPTIONS(&arguments->books),
        ARGUMENT_FLAG("--json", &arguments->json),
        ARGUMENT_FLAG("--html", &arguments->html),
        ARGUMENT_FLAG("--focus", &arguments->focus),
    };
    const struct argument_word words[] = {{"TENANT", &arguments->tenant, false},
                                          {"PERIOD", &arguments->period, false}};
    const struct argument_form form = {
        COMMAND, help, options, ARGUMENT_COUNT(options), words, ARGUMENT_COUNT(words)};

    if (!arguments_read(&form, argc, argv, out_status))
        return false;
    const struct argument_flag formats[] = {
        {"--json", arguments->json}, {"--html", arguments->html}, {"--focus", arguments->focus}};

    return arguments_exclude(COMMAND, formats, ARGUMENT_COUNT(formats), out_status);
}

/* ---- text ---- */

static void find_widths(const struct invoice *invoice, const struct zone *zone,
                        size_t widths[INVOICE_COLUMN_COUNT])
{
    for (int i = 0; i < INVOICE_COLUMN_COUNT; i++)
        widths[i] = strlen(invoice_title((enum invoice_column)i)->text);
    for (size_t k = 0; k < invoice->line_count; k++) {
        struct invoice_cells cells;
        invoice_cells(&invoice->lines[k], zone, &cells);
        for (int i = 0; i < INVOICE_COLUMN_COUNT; i++)
            if (cells.cells[i].text.size > widths[i])
                widths[i] = cells.cells[i].text.size;
    }
}

/* Names and reasons come from files and requests: nothing of them may move a terminal's cursor. */
static void put_plain(struct span text)
{
    for (size_t i = 0; i < text.size; i++)
        (void)putchar((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f ? '?'
                                                                                 : text.data[i]);
}

static void put_cell(enum invoice_column column, struct span text, size_t width)
{
    const int pad = (int)(width > text.size ? width - text.size : 0);
    const bool is_last = column + 1 == INVOICE_COLUMN_COUNT;

    if (invoice_title(column)->is_number)
        (void)printf("%*s", pad, "");
    put_plain(text);
    if (is_last)
        (void)putchar('\n');
    else if (invoice_title(column)->is_number)
        (void)fputs("  ", stdout);
    else
        (void)printf("%*s", pad + 2, "");
}

static void print_text(const struct invoice *invoice, const struct zone *zone)
{
    size_t widths[INVOICE_COLUMN_COUNT];
    char from[PERIOD_TEXT_BYTES], until[PERIOD_TEXT_BYTES];
    char exact[MONEY_TEXT_BYTES], total[MONEY_TEXT_BYTES], draft[INVOICE_DRAFT_BYTES];
    const struct span name = zone_name(zone);

    (void)period_print_local(zone, invoice->period.from_us, from);
    (void)period_print_local(zone, invoice->period.until_us, until);
    (void)fputs("Invoice of ", stdout);
    put_plain(invoice->tenant);
    (void)printf("\nfrom  %s\nuntil %s (%.*s)\n", from, until, (int)name.size, name.data);
    if (!invoice_is_closed(invoice)) {
        invoice_print_draft(invoice, zone, draft);
        (void)puts(draft);
    }
    (void)putchar('\n');
    find_widths(invoice, zone, widths);
    for (int i = 0; i < INVOICE_COLUMN_COUNT; i++)
        put_cell((enum invoice_column)i, span_of(invoice_title((enum invoice_column)i)->text),
                 widths[i]);
    for (size_t k = 0; k < invoice->line_count; k++) {
        struct invoice_cells cells;
        invoice_cells(&invoice->lines[k], zone, &cells);
        for (int i = 0; i < INVOICE_COLUMN_COUNT; i++)
            put_cell((enum invoice_column)i, cells.cells[i].text, widths[i]);
    }
    (void)money_print_usd(invoice->exact_pusd, exact);
    (void)money_print_cents(invoice->total_pusd, total);
    (void)printf("\ntotal %s USD (exact %s)\n", total, exact);
}

/* ---- JSON: money as decimal text ---- */

static json_t *text_tree(struct span text)
{
    return text.data ? json_stringn_nocheck(text.data, text.size) : json_null();
}

static json_t *usd_tree(money_sum pusd, bool cents)
{
    char text[MONEY_TEXT_BYTES];

    if (cents)
        (void)money_print_cents(pusd, text);
    else
        (void)money_print_usd(pusd, text);
    return json_string(text);
}

static json_t *moment_tree(int64_t at_us)
{
    char text[PERIOD_TEXT_BYTES];

    (void)period_print_utc(at_us, text);
    return json_string(text);
}

static json_t *line_tree(const struct invoice_line *line)
{
    char rate[MONEY_TEXT_BYTES];
    json_t *tree =
        json_pack("{s:o, s:s, s:o, s:o}", "id", text_tree(line->id), "kind",
                  invoice_kind_name(line->kind), "model", text_tree(line->model),
                  line->kind == INVOICE_TOKENS ? "class" : "what", text_tree(line->class));

    if (line->kind == INVOICE_TOKENS || line->kind == INVOICE_VOLUME) {
        (void)json_object_set_new(tree, "price_from", moment_tree(line->price_from_us));
        (void)json_object_set_new(tree, "tokens", json_integer(line->tokens));
    }
    if (line->kind == INVOICE_TOKENS) {
        (void)invoice_print_rate(line->rate_pusd, rate);
        (void)json_object_set_new(
            tree, "tier", line->tier.size > 0 ? text_tree(line->tier) : json_string("standard"));
        (void)json_object_set_new(tree, "above", json_integer(line->above));
        (void)json_object_set_new(tree, "usd_per_million", json_string(rate));
    }
    (void)json_object_set_new(tree, "exact_usd", usd_tree(line->exact_pusd, false));
    (void)json_object_set_new(tree, "usd", usd_tree(line->amount_pusd, true));
    return tree;
}

static bool print_json(const struct invoice *invoice, const struct zone *zone)
{
    json_t *lines = json_array();
    bool printed;

    for (size_t i = 0; i < invoice->line_count; i++)
        (void)json_array_append_new(lines, line_tree(&invoice->lines[i]));
    json_t *tree = json_pack(
        "{s:o, s:{s:o, s:o}, s:o, s:b, s:s, s:o, s:s, s:o, s:o, s:o}", "tenant",
        text_tree(invoice->tenant), "period", "from", moment_tree(invoice->period.from_us), "until",
        moment_tree(invoice->period.until_us), "zone", text_tree(zone_name(zone)), "closed",
        invoice_is_closed(invoice), "state", invoice_state_name(invoice->state), "closes",
        moment_tree(invoice->closes_us), "currency", "USD", "lines", lines, "exact_usd",
        usd_tree(invoice->exact_pusd, false), "total_usd", usd_tree(invoice->total_pusd, true));
    printed = tree && json_dumpf(tree, stdout, JSON_INDENT(2)) == 0;
    (void)putchar('\n');
    json_decref(tree);
    return printed;
}

/* ---- FOCUS ---- */

static struct focus_charge focus_charge_of(const struct invoice *invoice,
                                           const struct config_tenant *tenant, struct span id)
{
    return (struct focus_charge){.category = FOCUS_ADJUSTMENT,
                                 .tenant = invoice->tenant,
                                 .tags_json = tenant ? tenant->tags_json : (struct span){NULL, 0},
                                 .billing = invoice->period,
                                 .charged = invoice->period,
                                 .invoice =
                                     invoice_is_closed(invoice) ? id : (struct span){NULL, 0}};
}

/* Costs are exact there, so that the residue is what the whole sum is rounded by. */
static void print_focus(const struct invoice *invoice, const struct config_tenant *tenant)
{
    char room[FOCUS_INVOICE_BYTES];
    const struct span id = focus_invoice_id(invoice->tenant, invoice->period, room);
    struct focus_charge rest = focus_charge_of(invoice, tenant, id);

    focus_print_head(stdout);
    for (size_t i = 0; i < invoice->line_count; i++) {
        const struct invoice_line *line = &invoice->lines[i];
        struct focus_charge charge = focus_charge_of(invoice, tenant, id);
        if (line->kind == INVOICE_ROUNDING)
            continue;
        charge.model = line->model;
        charge.cost_pusd = line->exact_pusd;
        if (line->kind == INVOICE_TOKENS) {
            charge.category = FOCUS_USAGE;
            charge.class = line->class;
            charge.tier = line->tier;
            charge.price_from_us = line->price_from_us;
            charge.above = line->above;
            charge.tokens = line->tokens;
            charge.rate_pusd = line->rate_pusd;
        } else {
            charge.category =
                line->kind == INVOICE_VOLUME || line->credit ? FOCUS_CREDIT : FOCUS_ADJUSTMENT;
            charge.correction = line->correction;
            charge.what = line->class;
            if (line->kind == INVOICE_ADJUST)
                charge.row = line->id;
        }
        focus_print_charge(stdout, &charge);
    }
    rest.what = SPAN("rounding");
    rest.cost_pusd = invoice->total_pusd - invoice->exact_pusd;
    if (rest.cost_pusd != 0)
        focus_print_charge(stdout, &rest);
}

/* ---- the command ---- */

/* What the invoice cannot know. */
static void warn(const struct arguments *arguments, const struct config_tenant *tenant)
{
    if (arguments->books.journal_path)
        (void)fputs("tollgate: without a configuration the period is in UTC, and volume discounts "
                    "are not known\n",
                    stderr);
    else if (tenant == NULL)
        (void)fprintf(stderr,
                      "tollgate: the configuration has no tenant %s (any more); the books have\n",
                      arguments->tenant);
}

static int print_invoice(const struct arguments *arguments)
{
    const struct config_tenant *tenant = cmd_books_tenant(&arguments->books, arguments->tenant);
    const struct zone *zone = cmd_books_zone(&arguments->books, arguments->tenant);
    const int64_t now_us = clock_wall_us();
    struct invoice *invoice = NULL;
    struct period period;
    char problem[1024] = "";
    bool printed = true;

    if (period_read(span_of(arguments->period), zone, now_us, &period) != OK)
        return arguments_refuse_value(COMMAND, "PERIOD", arguments->period, ARGUMENT_PERIOD);
    if (!cmd_books_knows(&arguments->books, arguments->tenant))
        return 2;
    warn(arguments, tenant);
    if (books_invoice(arguments->books.books, arguments->books.config, span_of(arguments->tenant),
                      &period, now_us, &invoice, problem, sizeof(problem)) != OK) {
        (void)fprintf(stderr, "tollgate: %s\n", problem);
        return 1;
    }
    if (arguments->json)
        printed = print_json(invoice, zone);
    else if (arguments->html)
        invoice_html_print(invoice, zone, stdout);
    else if (arguments->focus)
        print_focus(invoice, tenant);
    else
        print_text(invoice, zone);
    books_invoice_free(invoice);
    return printed && fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}

int cmd_invoice(int argc, char **argv)
{
    struct arguments arguments = {.tenant = NULL};
    int status;

    if (!read_arguments(&arguments, argc, argv, &status))
        return status;
    status = cmd_books_open(&arguments.books, true);
    if (status == 0)
        status = print_invoice(&arguments);
    cmd_books_close(&arguments.books);
    return status;
}
