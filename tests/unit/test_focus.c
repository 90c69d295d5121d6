/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_focus.c: charges as lines of FOCUS 1.2 (gateway/focus.c).
 *
 * Promises:  1. The lines are those of tests/focus/good.csv, which the checker of the rules takes.
 *            2. Quantity times unit price is the cost, to the last digit.
 *            3. What others chose begins no formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gateway/focus.h"

#define GOOD "tests/focus/good.csv"
#define HOUR_US (3600 * INT64_C(1000000))
#define NOVEMBER_US (INT64_C(1793491200) * 1000000)
#define DECEMBER_US (INT64_C(1796083200) * 1000000)
#define CELLS_MAX 64u

static char *print(const struct focus_charge *charges, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    focus_print_head(out);
    for (size_t i = 0; i < count; i++)
        focus_print_charge(out, &charges[i]);
    assert_int_equal(fclose(out), 0);
    return text;
}

static struct focus_charge november(void)
{
    static char invoice[FOCUS_INVOICE_BYTES];
    const struct period billing = {NOVEMBER_US, DECEMBER_US};

    return (struct focus_charge){
        .tenant = SPAN("acme"),
        .tags_json = SPAN("{\"team\":\"search\"}"),
        .billing = billing,
        .charged = {NOVEMBER_US + 36 * HOUR_US, NOVEMBER_US + 37 * HOUR_US},
        .invoice = focus_invoice_id(SPAN("acme"), billing, invoice),
    };
}

static struct focus_charge usage_of(const char *class, int64_t tokens, int64_t rate_pusd)
{
    struct focus_charge charge = november();

    charge.model = SPAN("small");
    charge.class = span_of(class);
    charge.price_from_us = INT64_C(1767225600) * 1000000;
    charge.tokens = tokens;
    charge.rate_pusd = rate_pusd;
    charge.cost_pusd = (money_sum)tokens * rate_pusd;
    return charge;
}

static void lines_are_those_that_the_checker_takes(void **state)
{
    (void)state;
    struct focus_charge charges[5] = {usage_of("input", 1200000, 50000),
                                      usage_of("output", 234567, 200000)};
    static char good[16384];
    FILE *file = fopen(GOOD, "r");

    charges[1].tier = SPAN("flex");
    charges[1].above = 128000;
    for (int i = 2; i < 5; i++)
        charges[i] = november();
    charges[2].category = FOCUS_CREDIT;
    charges[2].cost_pusd = -5000000000;
    charges[2].what = SPAN("volume discount on small");
    charges[2].model = SPAN("small");
    charges[2].charged = charges[2].billing;
    charges[3].category = FOCUS_ADJUSTMENT;
    charges[3].correction = true;
    charges[3].cost_pusd = -1500000000;
    charges[3].what = SPAN("answer was cut, \"refund\"");
    charges[3].row = SPAN("g1/9/2");
    charges[4].category = FOCUS_ADJUSTMENT;
    charges[4].cost_pusd = -413400000;
    charges[4].what = SPAN("rounding of the invoice to whole cents");
    charges[4].charged = charges[4].billing;
    char *text = print(charges, 5);

    assert_non_null(file);
    good[fread(good, 1, sizeof(good) - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, good);
    free(text);
}

/* The cell of a column of the only line; no cell before it may be quoted. */
static struct span cell_of(const char *text, const char *column)
{
    const char *head = text, *line = strstr(text, "\r\n") + 2;

    for (size_t i = 0; i < CELLS_MAX; i++) {
        const size_t name = strcspn(head, ",\r"), cell = strcspn(line, ",\r");

        if (span_equal((struct span){head, name}, span_of(column)))
            return (struct span){line, cell};
        head += name + 1;
        line += cell + 1;
    }
    fail_msg("%s: no such column", column);
    return (struct span){NULL, 0};
}

static void quantity_times_unit_price_is_the_cost(void **state)
{
    (void)state;
    const struct {
        int64_t tokens, rate_pusd;
        const char *quantity, *price, *cost;
    } rows[] = {
        {1, 1, "0.000001", "0.000001", "0.000000000001"},
        {1000000, 2000000, "1", "2", "2"},
        {3, 3625, "0.000003", "0.003625", "0.000000010875"},
        {7, 0, "0.000007", "0", "0"},
        {INT64_MAX, INT64_MAX, "9223372036854.775807", "9223372036854.775807",
         "85070591730234615847396907.784232501249"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct focus_charge charge = usage_of("input", rows[i].tokens, rows[i].rate_pusd);

        charge.tags_json = (struct span){NULL, 0};
        char *text = print(&charge, 1);

        assert_true(span_equal(cell_of(text, "PricingQuantity"), span_of(rows[i].quantity)));
        assert_true(span_equal(cell_of(text, "ListUnitPrice"), span_of(rows[i].price)));
        assert_true(span_equal(cell_of(text, "BilledCost"), span_of(rows[i].cost)));
        assert_true(span_equal(cell_of(text, "EffectiveCost"), span_of(rows[i].cost)));
        free(text);
    }
}

static void what_others_chose_begins_no_formula(void **state)
{
    (void)state;
    struct focus_charge charge = usage_of("input", 1, 1);

    charge.tenant = SPAN("=cmd");
    charge.model = SPAN("@m");
    char *text = print(&charge, 1);

    assert_true(span_equal(cell_of(text, "BillingAccountId"), SPAN("'=cmd")));
    assert_true(span_equal(cell_of(text, "SkuId"), SPAN("'@m/input")));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_those_that_the_checker_takes),
        cmocka_unit_test(quantity_times_unit_price_is_the_cost),
        cmocka_unit_test(what_others_chose_begins_no_formula),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
