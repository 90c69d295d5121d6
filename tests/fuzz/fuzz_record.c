/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_record.c: the reader of journal lines against jansson.
 *
 * Checks: what is taken for a row is JSON, and its fields are what jansson finds; texts borrow from
 * the line; members and items that are handed out are all there are. An input is one line. */
#include "tests/fuzz/trees.h"

#include "meter/record.h"

#define TEXT_BYTES 8192

/* Did jansson refuse what the reader does not look at? */
static bool is_its_own_limit(const json_error_t *error)
{
    const enum json_error_code code = json_error_code(error);

    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
           code == json_error_invalid_utf8 || strstr(error->text, "invalid Unicode") != NULL;
}

static void check_number(const json_t *root, const char *name, int64_t absent, int64_t actual)
{
    const json_t *value = json_object_get(root, name);

    CHECK(value == NULL || json_is_integer(value));
    CHECK(actual == (value ? (int64_t)json_integer_value(value) : absent));
}

static void check_text(struct span line, const json_t *root, const char *name, struct span actual)
{
    const json_t *value = json_object_get(root, name);
    char plain[TEXT_BYTES];
    size_t size;

    CHECK((actual.data != NULL) == (value != NULL));
    if (!value)
        return;
    CHECK(actual.data > line.data && actual.data + actual.size < line.data + line.size);
    CHECK(json_is_string(value));
    size = record_text(actual, plain, sizeof(plain));
    CHECK(size == json_string_length(value));
    CHECK(memcmp(plain, json_string_value(value), size) == 0);
}

static void check_money(const json_t *root, const char *name, int64_t absent, int64_t actual)
{
    const json_t *value = json_object_get(root, name);
    char text[32];

    if (!value) {
        CHECK(actual == absent);
        return;
    }
    (void)snprintf(text, sizeof(text), "%lld", (long long)actual);
    CHECK(json_is_string(value) && strcmp(json_string_value(value), text) == 0);
}

static void check_usage(const json_t *object, const struct usage *usage)
{
    check_number(object, "input", -1, usage->input);
    check_number(object, "cached_input", -1, usage->cached_input);
    check_number(object, "cache_write", -1, usage->cache_write);
    check_number(object, "output", -1, usage->output);
    check_number(object, "reasoning", -1, usage->reasoning);
}

static void check_prices(const json_t *root, const struct record *record)
{
    const json_t *prices = json_object_get(root, "prices");
    const json_t *steps = json_object_get(prices, "steps");

    CHECK(record->has_tariff == (prices != NULL));
    if (!prices)
        return;
    check_number(prices, "from", 0, record->tariff.from_us);
    check_number(prices, "above", 0, record->tariff.above);
    check_money(prices, "input", 0, record->tariff.rates.input);
    check_money(prices, "reasoning", 0, record->tariff.rates.reasoning);
    CHECK(json_array_size(steps) == record->tariff.step_count);
    for (uint32_t i = 0; i < record->tariff.step_count; i++)
        check_money(json_array_get(steps, i), "output", 0, record->tariff.steps[i].rates.output);
}

static bool count_member(void *owner, struct span name, struct span value)
{
    CHECK(name.data != NULL && value.data != NULL);
    ++*(size_t *)owner;
    return true;
}

static bool count_item(void *owner, struct span item)
{
    return count_member(owner, item, item);
}

static void check_lists(const json_t *root, const struct record *record)
{
    const json_t *wasted = json_object_get(root, "wasted");
    size_t members = 0;
    size_t items = 0;

    CHECK(json_array_size(wasted) == record->waste_count);
    for (uint32_t i = 0; i < record->waste_count; i++)
        check_usage(json_array_get(wasted, i), &record->wastes[i].usage);
    if (record->tags.data) {
        CHECK(record_members(record->tags, count_member, &members));
        CHECK(members >=
              json_object_size(json_object_get(root, "tags"))); /* names may come twice */
    }
    if (record->flags.data) {
        CHECK(record_items(record->flags, count_item, &items));
        CHECK(items == json_array_size(json_object_get(root, "flags")));
    }
}

static void check_fields(struct span line, const json_t *root, const struct record *record)
{
    check_number(root, "v", 0, record->version);
    check_number(root, "epoch", 0, (int64_t)record->epoch);
    check_number(root, "seq", 0, (int64_t)record->seq);
    check_number(root, "status", -1, record->status);
    check_number(root, "admitted_us", 0, record->admitted_us);
    check_number(root, "bytes_out", 0, record->bytes_out);
    check_text(line, root, "gateway", record->gateway);
    check_text(line, root, "tenant", record->tenant);
    check_text(line, root, "request_id", record->request_id);
    check_text(line, root, "why", record->why);
    check_text(line, root, "prev", record->prev);
    check_text(line, root, "key", record->kind == RECORD_HEAD ? record->signing_key : record->key);
    check_money(root, "cost_pusd", 0, record->cost_pusd);
    check_money(root, "unit_cost_pusd", -1, record->unit_cost_pusd);
    check_usage(root, &record->usage);
    CHECK(record->billable == json_is_true(json_object_get(root, "billable")));
    check_prices(root, record);
    check_lists(root, record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = exact_copy((struct span){(const char *)data, size});
    const struct span line = {copy, size};
    struct record record;
    char problem[160] = "";

    trees_begin();
    if (record_read(line, &record, problem, sizeof(problem)) == OK) {
        json_error_t error;
        const json_t *root = json_loadb(copy, size, JSON_ALLOW_NUL, &error);

#ifdef PLANT_BUG
        if (record.stream)
            record.seq++;
#endif
        CHECK(root != NULL || is_its_own_limit(&error));
        if (root != NULL)
            check_fields(line, root, &record);
        CHECK(record.signed_bytes < size);
    } else {
        CHECK(strncmp(problem, "byte ", 5) == 0);
    }
    free(copy);
    return 0;
}
