/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_rerate.c: the past at other prices (meter/rerate.c).
 *
 * Promises:  1. Each billed call is priced at its own admission, with its tier and its brackets;
 *               others and corrections are left out.
 *            2. The prices that rows were charged at reproduce every amount.
 *            3. Lines come by tenant, then model.
 *            4. What has no price there counts as it was charged, and is counted.
 * The books are a double: rows that a test lays out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meter/books.h"
#include "meter/record.h"

#define ROWS_MAX 8u

static const char *rows[ROWS_MAX];
static size_t row_count;

enum err books_rows(struct books *books, struct span tenant, const struct period *period,
                    struct span id,
                    bool (*visit)(void *owner, const struct record *record, struct span line),
                    void *owner, char *problem, size_t problem_size)
{
    (void)books, (void)tenant, (void)period, (void)id;
    for (size_t i = 0; i < row_count; i++) {
        struct record record;
        const struct span line = span_of(rows[i]);
        assert_int_equal(record_read(line, &record, problem, problem_size), OK);
        if (!visit(owner, &record, line))
            break;
    }
    return OK;
}

#define ROW(kind, tenant, model, admitted, more)                                                   \
    "{\"v\":2,\"gateway\":\"g1\",\"epoch\":1,\"seq\":1,\"kind\":\"" kind "\",\"tenant\":\"" tenant \
    "\",\"model\":\"" model "\"," more ",\"admitted_us\":" admitted "}"
#define CALL(tenant, model, admitted, more)                                                        \
    ROW("call", tenant, model, admitted, "\"billable\":true," more)
#define OLD "1735689600000000" /* 2025-01-01 */
#define NEW "1767225600000000" /* 2026-01-01 */

/* Two dated prices: 1 and 4, later 2 and 8, at twice the rate for prompts over 1000; flex at half.
 */
static const char configuration[] =
    "gateway: g1\n"
    "listen: [{address: \"127.0.0.1:0\"}]\n"
    "models:\n"
    "  small:\n"
    "    kind: vllm\n"
    "    price:\n"
    "      - {from: 2025-01-01, until: 2026-01-01, input: 1, output: 4}\n"
    "      - {from: 2026-01-01, input: 2, output: 8, tiers: {flex: 0.5},\n"
    "         brackets: [{above: 1000, input: 4, output: 16}]}\n"
    "    replicas: [{name: r, url: \"http://127.0.0.1:1\"}]\n"
    "classes: [{name: default, match: {}}]\n"
    "tenants: {acme: {keys: [{id: k, key: \"sk-0123456789abcdef0123456789abcdef\"}]}}\n";

#define LINES_MAX 4u

struct found {
    char names[LINES_MAX][64]; /* tenant/model */
    struct books_rerate lines[LINES_MAX];
    size_t count;
};

static bool take(void *owner, const struct books_rerate *line)
{
    struct found *found = owner;

    assert_true(found->count < LINES_MAX);
    (void)snprintf(found->names[found->count], sizeof(found->names[0]), "%.*s/%.*s",
                   (int)line->tenant.size, line->tenant.data, (int)line->model.size,
                   line->model.data);
    found->lines[found->count++] = *line;
    return true;
}

static void rerate(struct found *found)
{
    struct config_problems problems = {NULL, 0, 0};
    const struct period all = {0, INT64_MAX};
    struct config *config = NULL;
    char problem[256] = "";

    if (config_load_text("test", span_of(configuration), &config, &problems) != OK)
        fail_msg("%s", problems.text);
    config_problems_free(&problems);
    memset(found, 0, sizeof(*found));
    assert_int_equal(books_rerate(NULL, config, &all, (struct span){NULL, 0}, take, found, problem,
                                  sizeof(problem)),
                     OK);
    config_put(config);
}

static void lay_out(const char *const *lines, size_t count)
{
    assert_true(count <= ROWS_MAX);
    memcpy(rows, lines, count * sizeof(lines[0]));
    row_count = count;
}

static void each_call_is_priced_at_its_own_admission(void **state)
{
    (void)state;
    static const char *const lines[] = {
        /* 10 × 1 + 2 × 4; 10 × 2 + 2 × 8; half of it; 1001 × 4 + 2 × 16, in USD per million. */
        CALL("acme", "small", OLD, "\"input\":10,\"output\":2,\"cost_pusd\":\"18000000\""),
        CALL("acme", "small", NEW, "\"input\":10,\"output\":2,\"cost_pusd\":\"36000000\""),
        CALL("acme", "small", NEW,
             "\"tier\":\"flex\",\"input\":10,\"output\":2,\"cost_pusd\":\"18000000\""),
        CALL("acme", "small", NEW, "\"input\":1001,\"output\":2,\"cost_pusd\":\"4036000000\""),
        ROW("call", "acme", "small", NEW, "\"input\":10,\"billable\":false"),
        ROW("adjust", "acme", "small", NEW, "\"cost_pusd\":\"-5\""),
    };
    struct found found;

    lay_out(lines, 6);
    rerate(&found);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.names[0], "acme/small");
    assert_int_equal(found.lines[0].calls, 4);
    assert_int_equal(found.lines[0].differing, 0);
    assert_int_equal(found.lines[0].unpriced, 0);
    assert_true(found.lines[0].was_pusd == INT64_C(4108000000));
    assert_true(found.lines[0].would_be_pusd == INT64_C(4108000000));
}

static void other_prices_show_the_difference(void **state)
{
    (void)state;
    static const char *const lines[] = {
        CALL("acme", "small", OLD, "\"input\":10,\"output\":2,\"cost_pusd\":\"18000000\""),
        CALL("acme", "small", NEW, "\"input\":10,\"output\":2,\"cost_pusd\":\"1\""),
    };
    struct found found;

    lay_out(lines, 2);
    rerate(&found);
    assert_int_equal(found.lines[0].calls, 2);
    assert_int_equal(found.lines[0].differing, 1);
    assert_true(found.lines[0].was_pusd == 18000001);
    assert_true(found.lines[0].would_be_pusd == 54000000);
}

static void lines_come_by_tenant_then_model(void **state)
{
    (void)state;
    static const char *const lines[] = {
        CALL("globex", "small", NEW, "\"input\":1,\"cost_pusd\":\"2000000\""),
        CALL("acme", "tiny", NEW, "\"input\":1,\"cost_pusd\":\"2000000\""),
        CALL("acme", "small", NEW, "\"input\":1,\"cost_pusd\":\"2000000\""),
        CALL("globex", "small", NEW, "\"input\":1,\"cost_pusd\":\"2000000\""),
    };
    struct found found;

    lay_out(lines, 4);
    rerate(&found);
    assert_int_equal(found.count, 3);
    assert_string_equal(found.names[0], "acme/small");
    assert_string_equal(found.names[1], "acme/tiny");
    assert_string_equal(found.names[2], "globex/small");
    assert_int_equal(found.lines[2].calls, 2);
}

static void what_has_no_price_there_counts_as_it_was_charged(void **state)
{
    (void)state;
    static const char *const lines[] = {
        CALL("acme", "gone", NEW, "\"input\":1,\"cost_pusd\":\"7\""),
        CALL("acme", "small", "1000000", "\"input\":1,\"cost_pusd\":\"5\""), /* 1970 */
    };
    struct found found;

    lay_out(lines, 2);
    rerate(&found);
    assert_int_equal(found.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(found.lines[i].unpriced, 1);
        assert_int_equal(found.lines[i].differing, 0);
        assert_true(found.lines[i].was_pusd == found.lines[i].would_be_pusd);
    }
    assert_true(found.lines[0].was_pusd == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_is_priced_at_its_own_admission),
        cmocka_unit_test(other_prices_show_the_difference),
        cmocka_unit_test(lines_come_by_tenant_then_model),
        cmocka_unit_test(what_has_no_price_there_counts_as_it_was_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
