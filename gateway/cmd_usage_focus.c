/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_usage_focus.c: tollgate usage --focus: a period's charges as lines of FOCUS 1.2.
 *
 * For:       one line for each hour, tenant, model, class of token, tier, price and step of a
 *            bracket; one for each correction; and, of a month that was invoiced and is asked for
 *            whole, its volume discounts and what its rounding to cents came to, so that the lines
 * of an invoice sum to the invoice.
 * Called by: cmd_usage.c.
 * Knows not: columns of FOCUS (focus.h), how invoices are made (books.h).
 *
 * Hours and months are those of the tenant's zone; what is written is UTC. */
#include <jansson.h>
#include <stdlib.h>

#include "gateway/cmd_usage.h"
#include "gateway/focus.h"
#include "meter/record.h"

#define NAME_BYTES 160
#define ROW_ID_BYTES 160
#define WHAT_BYTES 512

/* One tenant's month on its way out. */
struct month {
    struct usage_asked *asked;
    FILE *out;
    const struct zone *zone;
    struct focus_charge charge; /* what all lines have in common */
    struct period part;         /* of the month, as asked for */
    int64_t *hours_us;          /* where hours with rows begin */
    size_t hour_count, hour_room;
    enum err err;
};

/* ---- tenants ---- */

struct names {
    char (*names)[NAME_BYTES];
    size_t count, room;
    enum err err;
};

static bool add_name(void *owner, const struct books_line *line)
{
    struct names *names = owner;

    if (line->by[0].data == NULL)
        return true;
    if (names->count == names->room) {
        const size_t room = names->room * 2 + 16;
        char(*more)[NAME_BYTES] = realloc(names->names, room * sizeof(*more));

        if (more == NULL) {
            names->err = ERR_NO_MEMORY;
            return false;
        }
        names->names = more;
        names->room = room;
    }
    (void)snprintf(names->names[names->count++], NAME_BYTES, "%.*s", (int)line->by[0].size,
                   line->by[0].data);
    return true;
}

/* ---- one month of one tenant ---- */

static void print_tokens(struct month *month, const struct invoice_line *line, struct period hour)
{
    struct focus_charge charge = month->charge;

    charge.category = FOCUS_USAGE;
    charge.charged = hour;
    charge.model = line->model;
    charge.class = line->class;
    charge.tier = line->tier;
    charge.price_from_us = line->price_from_us;
    charge.above = line->above;
    charge.tokens = line->tokens;
    charge.rate_pusd = line->rate_pusd;
    charge.cost_pusd = line->exact_pusd;
    focus_print_charge(month->out, &charge);
}

static struct span member_text(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);

    return json_is_string(value)
               ? (struct span){json_string_value(value), json_string_length(value)}
               : (struct span){NULL, 0};
}

static json_int_t member_number(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

/* A correction, or a credit of its own. */
static void print_adjust(struct month *month, const struct record *record, const json_t *row)
{
    struct focus_charge charge = month->charge;
    const struct span gateway = member_text(row, "gateway");
    char id[ROW_ID_BYTES];

    if (money_read_pusd(member_text(row, "cost_pusd"), &charge.cost_pusd) != OK) {
        month->err = ERR_BAD_VALUE;
        return;
    }
    (void)snprintf(id, sizeof(id), "%.*s/%lld/%lld", (int)gateway.size, gateway.data,
                   (long long)member_number(row, "epoch"), (long long)member_number(row, "seq"));
    charge.category = invoice_row_credits(record) ? FOCUS_CREDIT : FOCUS_ADJUSTMENT;
    charge.correction = invoice_row_corrects(record, month->zone);
    charge.charged = period_around(month->zone, PERIOD_HOUR, member_number(row, "admitted_us"));
    charge.model = member_text(row, "model");
    charge.what = member_text(row, "why");
    charge.row = span_of(id);
    focus_print_charge(month->out, &charge);
}

static bool visit_row(void *owner, const struct record *record, struct span line)
{
    struct month *month = owner;
    json_t *row = json_loadb(line.data, line.size, 0, NULL);

    if (row == NULL)
        month->err = ERR_NO_MEMORY;
    else if (record->kind == RECORD_ADJUST)
        print_adjust(month, record, row);
    json_decref(row);
    return month->err == OK;
}

/* The tokens of an hour are those of an invoice of that hour; its corrections are read as rows,
 * which say more of them. */
static enum err print_hour(struct month *month, struct period hour)
{
    struct usage_asked *asked = month->asked;
    struct invoice *invoice = NULL;
    bool adjusted = false;
    enum err err =
        books_invoice(asked->common.books, asked->common.config, month->charge.tenant, &hour,
                      asked->now_us, &invoice, asked->problem, sizeof(asked->problem));

    for (size_t i = 0; err == OK && i < invoice->line_count; i++) {
        if (invoice->lines[i].kind == INVOICE_TOKENS && invoice->lines[i].tokens > 0)
            print_tokens(month, &invoice->lines[i], hour);
        adjusted = adjusted || invoice->lines[i].kind == INVOICE_ADJUST;
    }
    books_invoice_free(invoice);
    if (err == OK && adjusted)
        err = books_rows(asked->common.books, month->charge.tenant, &hour, (struct span){NULL, 0},
                         visit_row, month, asked->problem, sizeof(asked->problem));
    return err != OK ? err : month->err;
}

static bool add_hour(void *owner, const struct books_line *line)
{
    struct month *month = owner;

    if (month->hour_count == month->hour_room) {
        const size_t room = month->hour_room * 2 + 64;
        int64_t *more = realloc(month->hours_us, room * sizeof(*more));

        if (more == NULL) {
            month->err = ERR_NO_MEMORY;
            return false;
        }
        month->hours_us = more;
        month->hour_room = room;
    }
    month->hours_us[month->hour_count++] = line->bucket_us;
    return true;
}

static struct period overlap(struct period a, struct period b)
{
    return (struct period){a.from_us > b.from_us ? a.from_us : b.from_us,
                           a.until_us < b.until_us ? a.until_us : b.until_us};
}

static enum err print_hours(struct month *month)
{
    struct usage_asked *asked = month->asked;
    const struct books_ask ask = {.period = month->part,
                                  .zone = month->zone,
                                  .bucketed = true,
                                  .bucket = PERIOD_HOUR,
                                  .filters = {{BY_TENANT, month->charge.tenant}},
                                  .filter_count = 1};
    enum err err = books_usage(asked->common.books, &ask, add_hour, month, asked->problem,
                               sizeof(asked->problem));

    err = err != OK ? err : month->err;
    for (size_t i = 0; err == OK && i < month->hour_count; i++)
        err = print_hour(month, overlap(period_around(month->zone, PERIOD_HOUR, month->hours_us[i]),
                                        month->part));
    return err;
}

/* What an invoice has beside charges: discounts on the month, and its rounding. */
static void print_month_lines(struct month *month, const struct invoice *invoice)
{
    struct focus_charge charge = month->charge;
    char what[WHAT_BYTES];

    charge.charged = charge.billing;
    for (size_t i = 0; i < invoice->line_count; i++) {
        const struct invoice_line *line = &invoice->lines[i];

        if (line->kind != INVOICE_VOLUME || line->exact_pusd == 0)
            continue;
        (void)snprintf(what, sizeof(what), "volume discount on %.*s", (int)line->model.size,
                       line->model.data);
        charge.category = FOCUS_CREDIT;
        charge.model = line->model;
        charge.cost_pusd = line->exact_pusd;
        charge.what = span_of(what);
        focus_print_charge(month->out, &charge);
    }
    if (invoice->total_pusd == invoice->exact_pusd)
        return;
    charge.category = FOCUS_ADJUSTMENT;
    charge.model = (struct span){NULL, 0};
    charge.cost_pusd = invoice->total_pusd - invoice->exact_pusd;
    charge.what = SPAN("rounding of the invoice to whole cents");
    focus_print_charge(month->out, &charge);
}

static enum err print_month(struct month *month)
{
    struct usage_asked *asked = month->asked;
    const struct period billing = month->charge.billing;
    char id[FOCUS_INVOICE_BYTES];
    struct invoice *invoice = NULL;
    enum err err =
        books_invoice(asked->common.books, asked->common.config, month->charge.tenant, &billing,
                      asked->now_us, &invoice, asked->problem, sizeof(asked->problem));

    if (err != OK)
        return err;
    if (invoice_is_closed(invoice))
        month->charge.invoice = focus_invoice_id(month->charge.tenant, billing, id);
    month->part = overlap(billing, asked->ask.period);
    err = print_hours(month);
    if (err == OK && invoice_is_closed(invoice) && month->part.from_us == billing.from_us &&
        month->part.until_us == billing.until_us)
        print_month_lines(month, invoice);
    books_invoice_free(invoice);
    free(month->hours_us);
    return err;
}

/* ---- all of it ---- */

static enum err print_tenant(struct usage_asked *asked, const char *name, FILE *out)
{
    const struct config_tenant *tenant = cmd_books_tenant(&asked->common, name);
    const struct zone *zone =
        asked->zone == NULL && tenant != NULL ? tenant->zone : asked->ask.zone;
    struct period billing = period_around(zone, PERIOD_MONTH, asked->ask.period.from_us);
    enum err err = OK;

    while (err == OK && billing.from_us < asked->ask.period.until_us) {
        struct month month = {.asked = asked, .out = out, .zone = zone};

        month.charge.tenant = span_of(name);
        month.charge.issuer = span_of(asked->issuer);
        month.charge.billing = billing;
        if (tenant != NULL)
            month.charge.tags_json = tenant->tags_json;
        err = print_month(&month);
        billing = period_next(zone, PERIOD_MONTH, billing);
    }
    return err;
}

enum err usage_print_focus(struct usage_asked *asked, FILE *out)
{
    struct books_ask ask = {.period = asked->ask.period,
                            .zone = asked->ask.zone,
                            .by = {BY_TENANT},
                            .by_count = 1,
                            .filter_count = asked->tenant != NULL};
    struct names names = {.err = OK};

    if (asked->tenant != NULL)
        ask.filters[0] = (struct books_filter){BY_TENANT, span_of(asked->tenant)};
    enum err err = books_usage(asked->common.books, &ask, add_name, &names, asked->problem,
                               sizeof(asked->problem));

    err = err != OK ? err : names.err;
    if (err == OK)
        focus_print_head(out);
    for (size_t i = 0; err == OK && i < names.count; i++)
        err = print_tenant(asked, names.names[i], out);
    free(names.names);
    return err;
}
