/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_usage_report.c: what tollgate usage makes of the books' sums (gateway/report.c,
 * gateway/csv.c, gateway/cmd_usage_lines.c, gateway/cmd_usage_weight.c).
 *
 * Promises:  1. A table has columns in line and exact sums at its end.
 *            2. JSON has counts as numbers, money as text, what is absent as null.
 *            3. CSV is RFC 4180; text that others chose begins no formula, numbers keep their sign.
 *            4. A margin is said only where every call's own cost is known, sums too.
 *            5. Tokens weigh as much as their replica was busy; those of none weigh nothing.
 *            6. Waste is by model, replica and cause.
 *            7. Sums that do not fit are refused, as are too many lines.
 *
 * The books are doubles here: lines as given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gateway/cmd_usage.h"

#define LINES(...) ((struct books_line[]){__VA_ARGS__})

static const struct books_line *lines, *replica_lines, *parts;
static size_t line_count, replica_count, part_count;

/* Answers as the books would: by model and replica, with both behind other groups, or the lines. */
enum err books_usage(struct books *books, const struct books_ask *ask,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner,
                     char *problem, size_t problem_size)
{
    const bool replicas = ask->by_count == 2 && ask->by[1] == BY_REPLICA;
    const bool split = !replicas && ask->by[ask->by_count - 1] == BY_REPLICA;
    const struct books_line *all = replicas ? replica_lines : split ? parts : lines;
    const size_t count = replicas ? replica_count : split ? part_count : line_count;

    (void)books;
    (void)problem;
    (void)problem_size;
    for (size_t i = 0; i < count && visit(owner, &all[i]); i++)
        continue;
    return OK;
}

enum err books_waste(struct books *books, const struct period *period,
                     bool (*visit)(void *owner, const struct books_line *line), void *owner,
                     char *problem, size_t problem_size)
{
    (void)books;
    (void)period;
    (void)problem;
    (void)problem_size;
    for (size_t i = 0; i < line_count && visit(owner, &lines[i]); i++)
        continue;
    return OK;
}

static struct usage_asked asked_by_tenant_and_model(void)
{
    return (struct usage_asked){.ask = {.by = {BY_TENANT, BY_MODEL},
                                        .by_count = 2,
                                        .zone = zone_utc(),
                                        .period = {0, 3600 * INT64_C(1000000)}},
                                .now_us = INT64_C(7200) * 1000000};
}

/* A report printed; the caller frees. */
static char *print(struct usage_asked *asked, enum usage_format format)
{
    const struct report_frame frame = {asked->ask.period, SPAN("UTC")};
    struct report report;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    report_init(&report);
    assert_int_equal(
        asked->waste ? usage_fill_waste(asked, &report) : usage_fill_lines(asked, &report), OK);
    if (format == USAGE_TABLE)
        report_print_table(&report, out);
    else if (format == USAGE_JSON)
        report_print_json(&report, &frame, out);
    else
        report_print_csv(&report, out);
    report_fini(&report);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check_print(struct usage_asked *asked, enum usage_format format, const char *expected)
{
    char *text = print(asked, format);

    assert_string_equal(text, expected);
    free(text);
}

static struct books_line line_of(const char *tenant, const char *model, int64_t input,
                                 money_sum cost_pusd)
{
    return (struct books_line){.bucket_us = INT64_MIN,
                               .by = {span_of(tenant), span_of(model)},
                               .calls = 2,
                               .billed_calls = 2,
                               .usage = {.input = input, .output = 5},
                               .cost_pusd = cost_pusd};
}

static void set_lines(const struct books_line *given, size_t count)
{
    lines = given;
    line_count = count;
}

static void a_table_is_in_line_and_sums_up_exactly(void **state)
{
    (void)state;
    struct usage_asked asked = asked_by_tenant_and_model();

    set_lines(LINES(line_of("acme", "small", 1000, 1),
                    line_of("z\xc3\xbcrich\x1b", "large", 20, 999999999999)),
              2);
    check_print(
        &asked, USAGE_TABLE,
        "tenant        model  calls  failed  input  cached_input  cache_write  output  "
        "reasoning        cost_usd\n"
        "acme          small      2       0   1000             0            0       5  "
        "        0  0.000000000001\n"
        "z\xc3\xbcrich\\u001b  large      2       0     20             0            0       5  "
        "        0  0.999999999999\n"
        "total                    4       0   1020             0            0      10  "
        "        0               1\n");
}

static void json_has_money_as_text_and_null_for_what_is_absent(void **state)
{
    (void)state;
    struct usage_asked asked = asked_by_tenant_and_model();

    set_lines(LINES(line_of("a\"b", NULL, 1000, -1500000000000)), 1);
    check_print(
        &asked, USAGE_JSON,
        "{\"period\":{\"from\":\"1970-01-01T00:00:00Z\",\"until\":\"1970-01-01T01:00:00Z\"},"
        "\"zone\":\"UTC\",\"lines\":[\n"
        "{\"tenant\":\"a\\\"b\",\"model\":null,\"calls\":2,\"failed\":0,\"input\":1000,"
        "\"cached_input\":0,\"cache_write\":0,\"output\":5,\"reasoning\":0,"
        "\"cost_usd\":\"-1.5\"}],\n"
        "\"totals\":{\"calls\":2,\"failed\":0,\"input\":1000,\"cached_input\":0,"
        "\"cache_write\":0,\"output\":5,\"reasoning\":0,\"cost_usd\":\"-1.5\"}}\n");
}

static void csv_quotes_and_begins_no_formula(void **state)
{
    (void)state;
    const struct {
        const char *tenant, *cell;
    } rows[] = {{"acme", "acme"},      {"=1+1", "'=1+1"},      {"+x", "'+x"},
                {"-x", "'-x"},         {"@x", "'@x"},          {"\tx", "'\tx"},
                {"a,b", "\"a,b\""},    {"a\"b", "\"a\"\"b\""}, {"a\nb", "\"a\nb\""},
                {"=a,b", "\"'=a,b\""}, {" a", "\" a\""},       {"", ""}};
    struct usage_asked asked = asked_by_tenant_and_model();
    char expected[512];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        set_lines(LINES(line_of(rows[i].tenant, "m", 1, -1000000000000)), 1);
        (void)snprintf(expected, sizeof(expected),
                       "tenant,model,calls,failed,input,cached_input,cache_write,output,reasoning,"
                       "cost_usd\r\n%s,m,2,0,1,0,0,5,0,-1\r\n",
                       rows[i].cell);
        check_print(&asked, USAGE_CSV, expected);
    }
}

static void buckets_and_tags_have_columns(void **state)
{
    (void)state;
    struct usage_asked asked = asked_by_tenant_and_model();
    struct books_line line = line_of("search", "m", 1, 0);

    asked.ask.by[0] = BY_TAGS;
    asked.ask.tag = SPAN("team");
    asked.ask.bucketed = true;
    asked.ask.bucket = PERIOD_HOUR;
    line.bucket_us = 0;
    set_lines(&line, 1);
    check_print(
        &asked, USAGE_CSV,
        "bucket,tag:team,model,calls,failed,input,cached_input,cache_write,output,reasoning,"
        "cost_usd\r\n1970-01-01 00:00:00 +00:00,search,m,2,0,1,0,0,5,0,0\r\n");
}

static void a_margin_is_said_where_all_costs_are_known(void **state)
{
    (void)state;
    struct usage_asked asked = asked_by_tenant_and_model();
    struct books_line known = line_of("a", "m", 0, 1000000000000);
    struct books_line half = line_of("b", "m", 0, 1000000000000);

    asked.margin = true;
    known.own_cost_calls = 2;
    known.own_cost_pusd = 1250000000000;
    half.own_cost_calls = 1;
    half.own_cost_pusd = 250000000000;
    set_lines(LINES(known), 1);
    check_print(
        &asked, USAGE_TABLE,
        "tenant  model  calls  failed  input  cached_input  cache_write  output  reasoning  "
        "cost_usd  own_cost_usd  margin_usd  calls_of_unknown_cost\n"
        "a       m          2       0      0             0            0       5          0  "
        "       1          1.25       -0.25                      0\n"
        "total              2       0      0             0            0       5          0  "
        "       1          1.25       -0.25                      0\n");
    set_lines(LINES(known, half), 2);
    char *text = print(&asked, USAGE_JSON);

    assert_non_null(strstr(text, "\"own_cost_usd\":\"0.25\",\"margin_usd\":null,"
                                 "\"calls_of_unknown_cost\":1}]"));
    assert_non_null(strstr(text, "\"own_cost_usd\":\"1.5\",\"margin_usd\":null,"
                                 "\"calls_of_unknown_cost\":1}}"));
    free(text);
}

static void tokens_weigh_as_much_as_their_replica_was_busy(void **state)
{
    (void)state;
    struct config_replica replicas[] = {{.name = SPAN("r1"), .slots = 2},
                                        {.name = SPAN("r2"), .slots = 1}};
    struct config_model model = {.name = SPAN("m"), .replicas = replicas, .replica_count = 2};
    struct config config = {.models = &model, .model_count = 1};
    struct usage_asked asked = asked_by_tenant_and_model();
    /* r1: two slots, busy a quarter of two hours; r2: longer than there was time, so full. */
    const struct books_line busy[] = {
        {.by = {SPAN("m"), SPAN("r1")}, .busy_us = INT64_C(1800) * 1000000},
        {.by = {SPAN("m"), SPAN("r2")}, .busy_us = INT64_C(9000) * 1000000}};
    const struct books_line split[] = {
        {.by = {SPAN("a"), SPAN("m"), SPAN("r1")}, .usage = {.input = 100, .output = 1}},
        {.by = {SPAN("b"), SPAN("m"), {NULL, 0}}, .usage = {.input = 50}},
        {.by = {SPAN("b"), SPAN("m"), SPAN("r1")}, .usage = {.cached_input = 3}},
        {.by = {SPAN("b"), SPAN("m"), SPAN("r2")}, .usage = {.reasoning = 7}},
        {.by = {SPAN("b"), SPAN("m"), SPAN("r9")}, .usage = {.cache_write = 1}},
        {.by = {SPAN("c"), SPAN("m"), SPAN("r1")}, .usage = {.input = 1000}}};

    asked.weighted = true;
    asked.common.config = &config;
    replica_lines = busy;
    replica_count = 2;
    parts = split;
    part_count = 6;
    set_lines(LINES(line_of("a", "m", 100, 0), line_of("b", "m", 60, 0)), 2);
    check_print(&asked, USAGE_CSV,
                "tenant,model,calls,failed,input,cached_input,cache_write,output,reasoning,"
                "weighted_tokens,cost_usd\r\n"
                "a,m,2,0,100,0,0,5,0,25.25,0\r\n" /* 101 / 4 */
                "b,m,2,0,60,0,0,5,0,8.75,0\r\n"); /* 3 / 4 + 7 + 1 */
    char *text = print(&asked, USAGE_JSON);

    assert_non_null(strstr(text, "\"weighted_tokens\":\"34\""));
    free(text);
}

static void waste_is_by_model_replica_and_cause(void **state)
{
    (void)state;
    struct usage_asked asked = asked_by_tenant_and_model();
    const struct books_line line = {.by = {SPAN("m"), SPAN("r1"), SPAN("timeout")},
                                    .calls = 3,
                                    .wasted = {10, 2, 0, 40, 1},
                                    .own_cost_pusd = 5000000};

    asked.waste = true;
    set_lines(&line, 1);
    check_print(&asked, USAGE_CSV,
                "model,replica,cause,calls,input,cached_input,cache_write,output,reasoning,"
                "own_cost_usd\r\nm,r1,timeout,3,10,2,0,40,1,0.000005\r\n");
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    const money_sum most = (money_sum)(((unsigned __int128)1 << 127) - 1);
    struct report_cell cells[] = {report_text(SPAN("x")), report_count(most), report_decimal(0)};
    struct report report;

    report_init(&report);
    report_add_column(&report, SPAN("text"), REPORT_TEXT);
    report_add_column(&report, SPAN("count"), REPORT_COUNT);
    report_add_column(&report, SPAN("decimal"), REPORT_DECIMAL);
    assert_int_equal(report_add_line(&report, cells), OK);
    assert_int_equal(report_add_line(&report, cells), ERR_BAD_VALUE);
    cells[1] = report_count(0);
    cells[2] = report_decimal(most);
    assert_int_equal(report_add_line(&report, cells), OK);
    assert_int_equal(report_add_line(&report, cells), ERR_BAD_VALUE);
    assert_int_equal(report_add_decimal(&report, 0, 2, most), ERR_BAD_VALUE);
    report_fini(&report);
}

static void lines_have_a_ceiling(void **state)
{
    (void)state;
    const struct report_cell cell = report_count(1);
    struct report report;

    report_init(&report);
    report_add_column(&report, SPAN("count"), REPORT_COUNT);
    for (uint32_t i = 0; i < REPORT_LINES_MAX; i++)
        assert_int_equal(report_add_line(&report, &cell), OK);
    assert_int_equal(report_add_line(&report, &cell), ERR_TOO_LARGE);
    report_fini(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_in_line_and_sums_up_exactly),
        cmocka_unit_test(json_has_money_as_text_and_null_for_what_is_absent),
        cmocka_unit_test(csv_quotes_and_begins_no_formula),
        cmocka_unit_test(buckets_and_tags_have_columns),
        cmocka_unit_test(a_margin_is_said_where_all_costs_are_known),
        cmocka_unit_test(tokens_weigh_as_much_as_their_replica_was_busy),
        cmocka_unit_test(waste_is_by_model_replica_and_cause),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(lines_have_a_ceiling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
