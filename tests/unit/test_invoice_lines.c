/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_invoice_lines.c: the lines of an invoice (meter/invoice_lines.c).
 *
 * Promises:  1. A line for each model, price, tier, class and step with tokens: tokens × rate.
 *            2. Each line is rounded once, half to even, to the cent.
 *            3. The total is the exact sum rounded once, and the lines sum to it, the residue being
 * a line of its own: also for a thousand sets of random usage.
 *            4. A volume discount is of whole months of the period alone, and of all tiers
 * together.
 *            5. Ids of lines are the same whenever the invoice is made, and differ within it.
 *            6. What does not fit is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meter/invoice_lines.h"

#define CENT MONEY_PUSD_PER_CENT
#define NOVEMBER_US INT64_C(1761955200000000) /* 2025-11-01 UTC */
#define DECEMBER_US INT64_C(1764547200000000)

static const struct period november = {NOVEMBER_US, DECEMBER_US};
static const struct invoice_group small = {.model = {"small", 5}, .month_us = NOVEMBER_US};

static struct invoice_sheet *new_sheet(const struct period *period)
{
    struct invoice_sheet *sheet = invoice_sheet_new(SPAN("acme"), period);

    assert_non_null(sheet);
    return sheet;
}

static money_sum sum_of_amounts(const struct invoice *invoice)
{
    money_sum sum = 0;

    for (size_t i = 0; i < invoice->line_count; i++)
        sum += invoice->lines[i].amount_pusd;
    return sum;
}

static void each_class_and_tier_has_its_line_and_its_exact_amount(void **state)
{
    (void)state;
    const struct tariff tariff = {.from_us = 7,
                                  .rates = {2000000, 500000, 2500000, 8000000, 9000000}};
    const struct tariff flex = {.from_us = 7,
                                .rates = {1000000, 250000, 1250000, 4000000, 4500000}};
    const struct invoice_group small_flex = {{"small", 5}, {"flex", 4}, NOVEMBER_US};
    const struct usage first = {.input = 1000000, .cached_input = 400, .output = 10};
    const struct usage second = {.input = 500000, .output = 2, .reasoning = -1};
    struct invoice_sheet *sheet = new_sheet(&november);

    assert_int_equal(invoice_sheet_add_usage(sheet, &small, &tariff, &first), OK);
    assert_int_equal(invoice_sheet_add_usage(sheet, &small_flex, &flex, &second), OK);
    assert_int_equal(invoice_sheet_add_usage(sheet, &small, &tariff, &second), OK);
    assert_int_equal(invoice_sheet_finish(sheet), OK);

    const struct {
        const char *class, *tier;
        int64_t tokens, exact_pusd, amount_cents;
    } wanted[] = {
        {"input", "", 1500000, 3000000000000, 300},
        {"cached_input", "", 400, 200000000, 0},
        {"output", "", 12, 96000000, 0},
        {"input", "flex", 500000, 500000000000, 50},
        {"output", "flex", 2, 8000000, 0},
    };
    assert_int_equal(sheet->invoice.line_count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct invoice_line *line = &sheet->invoice.lines[i];
        assert_int_equal(line->kind, INVOICE_TOKENS);
        assert_true(span_equal(line->model, SPAN("small")));
        assert_true(span_equal(line->class, span_of(wanted[i].class)));
        assert_true(span_equal(line->tier, span_of(wanted[i].tier)));
        assert_int_equal(line->price_from_us, 7);
        assert_int_equal(line->tokens, wanted[i].tokens);
        assert_true(line->exact_pusd == wanted[i].exact_pusd);
        assert_true(line->amount_pusd == wanted[i].amount_cents * CENT);
    }
    /* 3 + 0.0002 + 0.000096 + 0.5 + 0.000008 USD */
    assert_true(sheet->invoice.exact_pusd == INT64_C(3500304000000));
    assert_true(sheet->invoice.total_pusd == 350 * CENT);
    invoice_sheet_free(sheet);
}

/* One line of so many picodollars, and the amount that it is rounded to, in cents. */
static void halves_go_to_the_even_cent(void **state)
{
    (void)state;
    const struct {
        int64_t pusd, cents;
    } cases[] = {
        {CENT / 2, 0},  {CENT / 2 + 1, 1},   {CENT + CENT / 2, 2},   {2 * CENT + CENT / 2, 2},
        {-CENT / 2, 0}, {-CENT / 2 - 1, -1}, {-CENT - CENT / 2, -2}, {CENT / 2 - 1, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct invoice_sheet *sheet = new_sheet(&november);
        assert_int_equal(
            invoice_sheet_add_other(sheet, SPAN(""), SPAN("credit"), SPAN("g/1/2"), cases[i].pusd),
            OK);
        assert_int_equal(invoice_sheet_finish(sheet), OK);
        assert_int_equal(sheet->invoice.line_count, 1);
        assert_true(sheet->invoice.lines[0].amount_pusd == cases[i].cents * CENT);
        assert_true(sheet->invoice.total_pusd == cases[i].cents * CENT);
        assert_true(span_equal(sheet->invoice.lines[0].id, SPAN("g/1/2")));
        invoice_sheet_free(sheet);
    }
}

static void what_rounding_leaves_over_is_one_line(void **state)
{
    (void)state;
    struct invoice_sheet *sheet = new_sheet(&november);

    /* Three times 0.4 cents: 0 each, 1.2 in all. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(invoice_sheet_add_other(sheet, SPAN("small"), SPAN("fee"), SPAN("g/1/2"),
                                                 CENT * 4 / 10),
                         OK);
    assert_int_equal(invoice_sheet_finish(sheet), OK);

    assert_int_equal(sheet->invoice.line_count, 4);
    assert_int_equal(sheet->invoice.lines[3].kind, INVOICE_ROUNDING);
    assert_true(sheet->invoice.lines[3].amount_pusd == CENT);
    assert_true(sheet->invoice.lines[3].exact_pusd == 0);
    assert_true(sheet->invoice.exact_pusd == CENT * 12 / 10);
    assert_true(sheet->invoice.total_pusd == CENT);
    invoice_sheet_free(sheet);
}

/* A generator of its own, so that a failure comes again. */
static uint64_t next_number(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static int64_t below(uint64_t *seed, int64_t bound)
{
    return (int64_t)(next_number(seed) % (uint64_t)bound);
}

static void a_thousand_sets_of_usage_sum_to_their_totals(void **state)
{
    (void)state;
    static const struct span models[] = {{"small", 5}, {"large", 5}, {"embed", 5}};
    static const struct span tiers[] = {{"", 0}, {"flex", 4}, {"priority", 8}};
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

    for (int set = 0; set < 1000; set++) {
        struct invoice_sheet *sheet = new_sheet(&november);
        const int64_t rows = below(&seed, 40);
        money_sum exact = 0;
        for (int64_t i = 0; i < rows; i++) {
            const struct invoice_group group = {models[below(&seed, 3)], tiers[below(&seed, 3)],
                                                NOVEMBER_US};
            const struct tariff tariff = {.from_us = below(&seed, 3),
                                          .above = below(&seed, 2) * 128000,
                                          .rates = {below(&seed, 90000000), below(&seed, 900000),
                                                    below(&seed, 900000), below(&seed, 90000000),
                                                    below(&seed, 90000000)}};
            const struct usage usage = {.input = below(&seed, 200000),
                                        .cached_input = below(&seed, 3000) - 1,
                                        .cache_write = below(&seed, 3000) - 1,
                                        .output = below(&seed, 3000),
                                        .reasoning = below(&seed, 3000) - 1};
            assert_int_equal(invoice_sheet_add_usage(sheet, &group, &tariff, &usage), OK);
            exact += (money_sum)usage.input * tariff.rates.input;
            exact += (money_sum)usage.output * tariff.rates.output;
            if (usage.cached_input > 0)
                exact += (money_sum)usage.cached_input * tariff.rates.cached_input;
            if (usage.cache_write > 0)
                exact += (money_sum)usage.cache_write * tariff.rates.cache_write;
            if (usage.reasoning > 0)
                exact += (money_sum)usage.reasoning * tariff.rates.reasoning;
        }
        assert_int_equal(invoice_sheet_finish(sheet), OK);
        assert_true(sheet->invoice.exact_pusd == exact);
        assert_true(sheet->invoice.total_pusd == money_round(exact, CENT));
        assert_true(sum_of_amounts(&sheet->invoice) == sheet->invoice.total_pusd);
        for (size_t i = 0; i < sheet->invoice.line_count; i++) {
            const struct invoice_line *line = &sheet->invoice.lines[i];
            assert_true(line->exact_pusd == (money_sum)line->tokens * line->rate_pusd);
            for (size_t k = 0; k < i; k++)
                assert_false(span_equal(line->id, sheet->invoice.lines[k].id));
        }
        invoice_sheet_free(sheet);
    }
}

/* ---- discounts ---- */

static const struct price volume_price = {.from_us = 7,
                                          .until_us = INT64_MAX,
                                          .volume_count = 1,
                                          .volumes = {{.above = 1000, .factor_ppm = 900000}}};
static struct price prices[1];
static struct config_model model = {.name = {"small", 5}, .prices = prices, .price_count = 1};
static const struct config config = {.models = &model, .model_count = 1};

/* In place of the configuration's. */
const struct config_model *config_find_model(const struct config *from, struct span name)
{
    assert_ptr_equal(from, &config);
    return span_equal(name, model.name) ? &model : NULL;
}

static money_sum discount_of(struct period period, bool marginal)
{
    const struct tariff tariff = {.from_us = 7, .rates = {.input = CENT}};
    const struct invoice_group flex = {{"small", 5}, {"flex", 4}, NOVEMBER_US};
    struct invoice_sheet *sheet = new_sheet(&period);
    money_sum discount = 0;

    prices[0] = volume_price;
    prices[0].volume_marginal = marginal;
    assert_int_equal(invoice_sheet_add_usage(sheet, &small, &tariff, &(struct usage){.input = 800}),
                     OK);
    assert_int_equal(invoice_sheet_add_usage(sheet, &flex, &tariff, &(struct usage){.input = 800}),
                     OK);
    assert_int_equal(invoice_sheet_discount(sheet, &config, zone_utc()), OK);
    assert_int_equal(invoice_sheet_finish(sheet), OK);
    for (size_t i = 0; i < sheet->invoice.line_count; i++) {
        const struct invoice_line *line = &sheet->invoice.lines[i];
        if (line->kind != INVOICE_VOLUME)
            continue;
        assert_true(span_equal(line->class, SPAN("volume discount 2025-11")));
        assert_int_equal(line->tokens, 1600);
        discount += line->exact_pusd;
    }
    assert_true(sheet->invoice.total_pusd == 1600 * CENT + discount);
    invoice_sheet_free(sheet);
    return discount;
}

static void a_volume_discount_is_given_for_whole_months_on_all_tiers(void **state)
{
    (void)state;
    /* 10 % of 16 USD; or of the 600 tokens beyond. */
    assert_true(discount_of(november, false) == -160 * CENT);
    assert_true(discount_of(november, true) == -60 * CENT);
    assert_true(discount_of((struct period){NOVEMBER_US - 1, DECEMBER_US + 1}, true) == -60 * CENT);
    assert_true(discount_of((struct period){NOVEMBER_US + 1, DECEMBER_US}, false) == 0);
    assert_true(discount_of((struct period){NOVEMBER_US, DECEMBER_US - 1}, false) == 0);
}

/* ---- ids ---- */

/* The first line's id of the same usage in two orders. */
static void ids_do_not_depend_on_the_order_or_the_amount(void **state)
{
    (void)state;
    const struct tariff tariff = {.from_us = 7, .rates = {.input = 3, .output = 5}};
    const struct tariff later = {.from_us = 8, .rates = {.input = 3, .output = 5}};
    const struct usage usage = {.input = 10, .output = 2};
    const struct period december = {DECEMBER_US, DECEMBER_US + 1};
    struct invoice_sheet *a = new_sheet(&november), *b = new_sheet(&november),
                         *c = new_sheet(&december);

    assert_int_equal(invoice_sheet_add_usage(a, &small, &tariff, &usage), OK);
    assert_int_equal(invoice_sheet_add_usage(a, &small, &later, &usage), OK);
    assert_int_equal(invoice_sheet_add_usage(b, &small, &later, &usage), OK);
    assert_int_equal(invoice_sheet_add_usage(b, &small, &tariff, &usage), OK);
    assert_int_equal(invoice_sheet_add_usage(b, &small, &tariff, &usage), OK);
    assert_int_equal(invoice_sheet_add_usage(c, &small, &tariff, &usage), OK);
    assert_int_equal(invoice_sheet_finish(a), OK);
    assert_int_equal(invoice_sheet_finish(b), OK);
    assert_int_equal(invoice_sheet_finish(c), OK);

    assert_int_equal(a->invoice.line_count, 4);
    assert_int_equal(b->invoice.line_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(a->invoice.lines[i].id.size, 16);
        assert_true(span_equal(a->invoice.lines[i].id, b->invoice.lines[i].id));
    }
    assert_false(span_equal(a->invoice.lines[0].id, c->invoice.lines[0].id));
    invoice_sheet_free(a);
    invoice_sheet_free(b);
    invoice_sheet_free(c);
}

static void what_does_not_fit_is_an_error(void **state)
{
    (void)state;
    const struct tariff tariff = {.rates = {.input = 1}};
    const struct usage most = {.input = INT64_MAX}, one = {.input = 1}, negative = {.input = -2};
    struct invoice_sheet *sheet = new_sheet(&november);

    assert_int_equal(invoice_sheet_add_usage(sheet, &small, &tariff, &negative), ERR_BAD_VALUE);
    assert_int_equal(invoice_sheet_add_usage(sheet, &small, &tariff, &most), OK);
    assert_int_equal(invoice_sheet_add_usage(sheet, &small, &tariff, &one), ERR_BAD_VALUE);
    invoice_sheet_free(sheet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_and_tier_has_its_line_and_its_exact_amount),
        cmocka_unit_test(halves_go_to_the_even_cent),
        cmocka_unit_test(what_rounding_leaves_over_is_one_line),
        cmocka_unit_test(a_thousand_sets_of_usage_sum_to_their_totals),
        cmocka_unit_test(a_volume_discount_is_given_for_whole_months_on_all_tiers),
        cmocka_unit_test(ids_do_not_depend_on_the_order_or_the_amount),
        cmocka_unit_test(what_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
