/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/focus.c: charges as lines of FOCUS 1.2.
 *
 * For:       what focus.h says: one function for each kind of value, one row for each column.
 * Called by: cmd_usage_focus.c, cmd_invoice.c.
 * Knows not: where charges come from. */
#include "gateway/focus.h"

#include <inttypes.h>

#include "gateway/csv.h"

#define TOKENS_PER_UNIT 1000000 /* PricingUnit: a million */
#define NUMBER_BYTES 32
#define TEXT_BYTES 512

/* A decimal number is printed as money is: in units of 1e-12. */
static void print_decimal(FILE *out, money_sum value)
{
    char text[MONEY_TEXT_BYTES];
    const size_t size = money_print_usd(value, text);

    csv_print_plain(out, (struct span){text, size});
}

static void print_moment(FILE *out, int64_t at_us)
{
    char text[PERIOD_TEXT_BYTES];
    const size_t size = period_print_utc(at_us, text);

    csv_print_plain(out, (struct span){text, size});
}

static void print_number(FILE *out, int64_t value)
{
    char text[NUMBER_BYTES];
    const int size = snprintf(text, sizeof(text), "%" PRId64, value);

    csv_print_plain(out, (struct span){text, (size_t)size});
}

static bool is_usage(const struct focus_charge *charge)
{
    return charge->category == FOCUS_USAGE;
}

/* Text for usage alone: null for the others. */
static void print_of_usage(FILE *out, const struct focus_charge *charge, const char *text)
{
    if (is_usage(charge))
        csv_print_plain(out, span_of(text));
}

static struct span tier_of(const struct focus_charge *charge)
{
    return charge->tier.data != NULL ? charge->tier : SPAN("standard");
}

/* ---- what columns say ---- */

static void print_cost(FILE *out, const struct focus_charge *charge)
{
    print_decimal(out, charge->cost_pusd);
}

static void print_unit_price(FILE *out, const struct focus_charge *charge)
{
    if (is_usage(charge))
        print_decimal(out, (money_sum)charge->rate_pusd * TOKENS_PER_UNIT);
}

/* Millions of tokens: a token is 1e-6, a million 1e12 units. */
static void print_pricing_quantity(FILE *out, const struct focus_charge *charge)
{
    if (is_usage(charge))
        print_decimal(out, (money_sum)charge->tokens * (MONEY_PUSD_PER_USD / TOKENS_PER_UNIT));
}

static void print_tokens(FILE *out, const struct focus_charge *charge)
{
    if (is_usage(charge))
        print_number(out, charge->tokens);
}

static void print_pricing_unit(FILE *out, const struct focus_charge *charge)
{
    print_of_usage(out, charge, "1000000 Tokens");
}

static void print_consumed_unit(FILE *out, const struct focus_charge *charge)
{
    print_of_usage(out, charge, "Tokens");
}

static void print_pricing_category(FILE *out, const struct focus_charge *charge)
{
    print_of_usage(out, charge, "Standard");
}

static void print_frequency(FILE *out, const struct focus_charge *charge)
{
    csv_print_plain(out, is_usage(charge) ? SPAN("Usage-Based") : SPAN("One-Time"));
}

static void print_tenant(FILE *out, const struct focus_charge *charge)
{
    csv_print_text(out, charge->tenant);
}

static void print_account_type(FILE *out, const struct focus_charge *charge)
{
    (void)charge;
    csv_print_plain(out, SPAN("Tenant"));
}

static void print_currency(FILE *out, const struct focus_charge *charge)
{
    (void)charge;
    csv_print_plain(out, SPAN("USD"));
}

static void print_billing_start(FILE *out, const struct focus_charge *charge)
{
    print_moment(out, charge->billing.from_us);
}

static void print_billing_end(FILE *out, const struct focus_charge *charge)
{
    print_moment(out, charge->billing.until_us);
}

static void print_charge_start(FILE *out, const struct focus_charge *charge)
{
    print_moment(out, charge->charged.from_us);
}

static void print_charge_end(FILE *out, const struct focus_charge *charge)
{
    print_moment(out, charge->charged.until_us);
}

static void print_category(FILE *out, const struct focus_charge *charge)
{
    const char *names[] = {
        [FOCUS_USAGE] = "Usage", [FOCUS_CREDIT] = "Credit", [FOCUS_ADJUSTMENT] = "Adjustment"};

    csv_print_plain(out, span_of(names[charge->category]));
}

static void print_class(FILE *out, const struct focus_charge *charge)
{
    if (charge->correction)
        csv_print_plain(out, SPAN("Correction"));
}

/* "small: input tokens (standard)", or in words. */
static void print_description(FILE *out, const struct focus_charge *charge)
{
    const struct span tier = tier_of(charge);
    char text[TEXT_BYTES];

    if (!is_usage(charge)) {
        csv_print_text(out, charge->what);
        return;
    }
    const int size = snprintf(text, sizeof(text), "%.*s: %.*s tokens (%.*s)",
                              (int)charge->model.size, charge->model.data, (int)charge->class.size,
                              charge->class.data, (int)tier.size, tier.data);

    csv_print_text(out, (struct span){text, strnlen(text, size < 0 ? 0 : sizeof(text))});
}

static void print_issuer(FILE *out, const struct focus_charge *charge)
{
    csv_print_text(out, charge->issuer.data != NULL ? charge->issuer : SPAN(FOCUS_ISSUER));
}

static void print_invoice(FILE *out, const struct focus_charge *charge)
{
    csv_print_text(out, charge->invoice);
}

static void print_service_category(FILE *out, const struct focus_charge *charge)
{
    (void)charge;
    csv_print_plain(out, SPAN("AI and Machine Learning"));
}

static void print_service_subcategory(FILE *out, const struct focus_charge *charge)
{
    (void)charge;
    csv_print_plain(out, SPAN("Generative AI"));
}

static void print_service_name(FILE *out, const struct focus_charge *charge)
{
    (void)charge;
    csv_print_plain(out, SPAN("Inference"));
}

static void print_model(FILE *out, const struct focus_charge *charge)
{
    csv_print_text(out, charge->model);
}

static void print_resource_type(FILE *out, const struct focus_charge *charge)
{
    if (charge->model.data != NULL)
        csv_print_plain(out, SPAN("Model"));
}

/* "small/input", and with what else a price depends on but its date: "small/input/flex/128000". */
static void print_sku_text(FILE *out, const struct focus_charge *charge, bool priced)
{
    const struct span tier = tier_of(charge);
    char text[TEXT_BYTES];
    char step[NUMBER_BYTES] = "";

    if (!is_usage(charge))
        return;
    if (priced && charge->above > 0)
        (void)snprintf(step, sizeof(step), "/%" PRId64, charge->above);
    const int size = snprintf(text, sizeof(text), "%.*s/%.*s%s%.*s%s", (int)charge->model.size,
                              charge->model.data, (int)charge->class.size, charge->class.data,
                              priced ? "/" : "", priced ? (int)tier.size : 0, tier.data, step);

    csv_print_text(out, (struct span){text, strnlen(text, size < 0 ? 0 : sizeof(text))});
}

static void print_sku(FILE *out, const struct focus_charge *charge)
{
    print_sku_text(out, charge, false);
}

static void print_sku_price(FILE *out, const struct focus_charge *charge)
{
    print_sku_text(out, charge, true);
}

static void print_sku_meter(FILE *out, const struct focus_charge *charge)
{
    char text[NUMBER_BYTES * 2];

    if (!is_usage(charge))
        return;
    const int size =
        snprintf(text, sizeof(text), "%.*s tokens", (int)charge->class.size, charge->class.data);

    csv_print_text(out, (struct span){text, strnlen(text, size < 0 ? 0 : sizeof(text))});
}

/* What all charges of one SkuPriceId have in common. */
static void print_sku_details(FILE *out, const struct focus_charge *charge)
{
    const struct span tier = tier_of(charge);
    char text[TEXT_BYTES];

    if (!is_usage(charge))
        return;
    const int size = snprintf(text, sizeof(text),
                              "{\"x_TokenClass\":\"%.*s\",\"x_Tier\":\"%.*s\","
                              "\"x_PromptTokensAbove\":%" PRId64 "}",
                              (int)charge->class.size, charge->class.data, (int)tier.size,
                              tier.data, charge->above);

    csv_print_plain(out, (struct span){text, strnlen(text, size < 0 ? 0 : sizeof(text))});
}

static void print_tags(FILE *out, const struct focus_charge *charge)
{
    csv_print_text(out, charge->tags_json.size > 0 ? charge->tags_json : SPAN("{}"));
}

static void print_token_class(FILE *out, const struct focus_charge *charge)
{
    if (is_usage(charge))
        csv_print_text(out, charge->class);
}

static void print_price_version(FILE *out, const struct focus_charge *charge)
{
    if (is_usage(charge))
        print_moment(out, charge->price_from_us);
}

static void print_tier(FILE *out, const struct focus_charge *charge)
{
    if (is_usage(charge))
        csv_print_text(out, tier_of(charge));
}

static void print_row(FILE *out, const struct focus_charge *charge)
{
    csv_print_text(out, charge->row);
}

static void print_nothing(FILE *out, const struct focus_charge *charge)
{
    (void)out;
    (void)charge;
}

/* ---- the columns ---- */

static const struct {
    const char *name;
    void (*print)(FILE *out, const struct focus_charge *charge);
} columns[] = {
    {"BilledCost", print_cost},
    {"BillingAccountId", print_tenant},
    {"BillingAccountName", print_tenant},
    {"BillingAccountType", print_account_type},
    {"BillingCurrency", print_currency},
    {"BillingPeriodEnd", print_billing_end},
    {"BillingPeriodStart", print_billing_start},
    {"ChargeCategory", print_category},
    {"ChargeClass", print_class},
    {"ChargeDescription", print_description},
    {"ChargeFrequency", print_frequency},
    {"ChargePeriodEnd", print_charge_end},
    {"ChargePeriodStart", print_charge_start},
    {"ConsumedQuantity", print_tokens},
    {"ConsumedUnit", print_consumed_unit},
    {"ContractedCost", print_cost},
    {"ContractedUnitPrice", print_unit_price},
    {"EffectiveCost", print_cost},
    {"InvoiceId", print_invoice},
    {"InvoiceIssuerName", print_issuer},
    {"ListCost", print_cost},
    {"ListUnitPrice", print_unit_price},
    {"PricingCategory", print_pricing_category},
    {"PricingCurrency", print_currency},
    {"PricingQuantity", print_pricing_quantity},
    {"PricingUnit", print_pricing_unit},
    {"ProviderName", print_issuer},
    {"PublisherName", print_issuer},
    {"RegionId", print_nothing},
    {"RegionName", print_nothing},
    {"ResourceId", print_model},
    {"ResourceName", print_model},
    {"ResourceType", print_resource_type},
    {"ServiceCategory", print_service_category},
    {"ServiceName", print_service_name},
    {"ServiceSubcategory", print_service_subcategory},
    {"SkuId", print_sku},
    {"SkuMeter", print_sku_meter},
    {"SkuPriceDetails", print_sku_details},
    {"SkuPriceId", print_sku_price},
    {"SubAccountId", print_nothing},
    {"SubAccountName", print_nothing},
    {"SubAccountType", print_nothing},
    {"Tags", print_tags},
    {"x_JournalRow", print_row},
    {"x_ModelId", print_model},
    {"x_PriceVersion", print_price_version},
    {"x_SlaTier", print_tier},
    {"x_TokenClass", print_token_class},
};

#define COLUMN_COUNT (sizeof(columns) / sizeof(*columns))

void focus_print_head(FILE *out)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        (void)fprintf(out, "%s%s", i > 0 ? "," : "", columns[i].name);
    (void)fputs(CSV_LINE_END, out);
}

void focus_print_charge(FILE *out, const struct focus_charge *charge)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        (void)fputs(i > 0 ? "," : "", out);
        columns[i].print(out, charge);
    }
    (void)fputs(CSV_LINE_END, out);
}

struct span focus_invoice_id(struct span tenant, struct period billing,
                             char out[FOCUS_INVOICE_BYTES])
{
    char begins[PERIOD_TEXT_BYTES];

    (void)period_print_utc(billing.from_us, begins);
    (void)snprintf(out, FOCUS_INVOICE_BYTES, "%.*s/%s", (int)tenant.size, tenant.data, begins);
    return (struct span){out, strnlen(out, FOCUS_INVOICE_BYTES)};
}
