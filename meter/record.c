/* SPDX-License-Identifier: Apache-2.0 */
/* meter/record.c: one line of the journal, read; pure.
 *
 * For:       which fields a line has, of what form, and what they must be together.
 * Called by: history.c, recover.c, retire.c, chain.c, ledger*.c, audit*.c, invoice.c, adjust.c,
 *            rerate.c; the gateway's cmd_why.c.
 * Knows not: files, chains, whether an amount is right.
 *
 * An object is read by a table of its fields in the order in which row.c writes them: the next
 * name is nearly always the next row of the table, or a few on. */
#include "meter/record.h"

#include <stdio.h>

#include "meter/record_json.h"

enum form {
    FORM_TEXT,
    FORM_HEX,    /* text: 64 lower-case hex digits */
    FORM_OBJECT, /* any, with its brackets */
    FORM_ARRAY,
    FORM_VERSION,
    FORM_COUNT,  /* int64_t ≥ 0 */
    FORM_MOMENT, /* int64_t */
    FORM_PLACE,  /* uint64_t, 0 … INT64_MAX */
    FORM_TOKENS, /* int64_t but -1, which stands for absent */
    FORM_BOOL,
    FORM_MONEY, /* text of an int64_t */
    FORM_RATE,  /* text of an int64_t ≥ 0 */
    FORM_KIND,
    FORM_WASTES,
    FORM_PRICES,
    FORM_STEPS,
    FORM_SIGNATURE
};

struct field {
    struct span name;
    enum form form;
    size_t offset;
};

struct form_table {
    const struct field *fields;
    size_t count;
};

static bool read_money(struct record_reader *reader, int64_t *out_pusd)
{
    struct record_reader inside;
    struct span text;
    const char *from = reader->at;

    if (!record_json_text(reader, &text))
        return false;
    inside =
        (struct record_reader){.start = text.data, .at = text.data, .end = text.data + text.size};
    if (record_json_integer(&inside, out_pusd) && inside.at == inside.end)
        return true;
    reader->at = from;
    return record_json_fail(reader, "expected picodollars as text");
}

/* ---- fields by tables ---- */

#define ROW_FIELD(text, form, member)                                                              \
    {                                                                                              \
        {text, sizeof(text) - 1}, form, offsetof(struct record, member)                            \
    }
#define USAGE_FIELDS(base)                                                                         \
    {{"input", 5}, FORM_TOKENS, (base) + offsetof(struct usage, input)},                           \
        {{"cached_input", 12}, FORM_TOKENS, (base) + offsetof(struct usage, cached_input)},        \
        {{"cache_write", 11}, FORM_TOKENS, (base) + offsetof(struct usage, cache_write)},          \
        {{"output", 6}, FORM_TOKENS, (base) + offsetof(struct usage, output)},                     \
    {                                                                                              \
        {"reasoning", 9}, FORM_TOKENS, (base) + offsetof(struct usage, reasoning)                  \
    }
#define RATE_FIELDS(base)                                                                          \
    {{"input", 5}, FORM_RATE, (base) + offsetof(struct rates, input)},                             \
        {{"cached_input", 12}, FORM_RATE, (base) + offsetof(struct rates, cached_input)},          \
        {{"cache_write", 11}, FORM_RATE, (base) + offsetof(struct rates, cache_write)},            \
        {{"output", 6}, FORM_RATE, (base) + offsetof(struct rates, output)},                       \
    {                                                                                              \
        {"reasoning", 9}, FORM_RATE, (base) + offsetof(struct rates, reasoning)                    \
    }

/* "key" is the tenant's in a call and the signer's in a head: told apart once the kind is known. */
static const struct field row_fields[] = {
    ROW_FIELD("v", FORM_VERSION, version),
    ROW_FIELD("gateway", FORM_TEXT, gateway),
    ROW_FIELD("epoch", FORM_PLACE, epoch),
    ROW_FIELD("seq", FORM_PLACE, seq),
    ROW_FIELD("kind", FORM_KIND, kind),
    ROW_FIELD("recovered", FORM_TEXT, recovered),
    ROW_FIELD("adjusts", FORM_TEXT, adjusts),
    ROW_FIELD("exchange_id", FORM_TEXT, exchange_id),
    ROW_FIELD("request_id", FORM_TEXT, request_id),
    ROW_FIELD("trace_id", FORM_TEXT, trace_id),
    ROW_FIELD("tenant", FORM_TEXT, tenant),
    ROW_FIELD("key", FORM_TEXT, key),
    ROW_FIELD("tags", FORM_OBJECT, tags),
    ROW_FIELD("endpoint", FORM_TEXT, endpoint),
    ROW_FIELD("class", FORM_TEXT, class),
    ROW_FIELD("tier", FORM_TEXT, tier),
    ROW_FIELD("stream", FORM_BOOL, stream),
    ROW_FIELD("model_asked", FORM_TEXT, model_asked),
    ROW_FIELD("model", FORM_TEXT, model),
    ROW_FIELD("replica", FORM_TEXT, replica),
    ROW_FIELD("attempts", FORM_COUNT, attempts),
    USAGE_FIELDS(offsetof(struct record, usage)),
    ROW_FIELD("source", FORM_TEXT, source),
    ROW_FIELD("flags", FORM_ARRAY, flags),
    ROW_FIELD("wasted", FORM_WASTES, wastes),
    ROW_FIELD("outcome", FORM_TEXT, outcome),
    ROW_FIELD("status", FORM_COUNT, status),
    ROW_FIELD("billable", FORM_BOOL, billable),
    ROW_FIELD("prices", FORM_PRICES, prices),
    ROW_FIELD("held_pusd", FORM_MONEY, held_pusd),
    ROW_FIELD("cost_pusd", FORM_MONEY, cost_pusd),
    ROW_FIELD("unit_cost_pusd", FORM_RATE, unit_cost_pusd),
    ROW_FIELD("admitted_us", FORM_MOMENT, admitted_us),
    ROW_FIELD("corrects_us", FORM_MOMENT, corrects_us),
    ROW_FIELD("queue_us", FORM_MOMENT, queue_us),
    ROW_FIELD("sent_us", FORM_MOMENT, sent_us),
    ROW_FIELD("first_token_us", FORM_MOMENT, first_token_us),
    ROW_FIELD("ended_us", FORM_MOMENT, ended_us),
    ROW_FIELD("bytes_in", FORM_COUNT, bytes_in),
    ROW_FIELD("bytes_out", FORM_COUNT, bytes_out),
    ROW_FIELD("at_us", FORM_MOMENT, at_us),
    ROW_FIELD("by", FORM_TEXT, by),
    ROW_FIELD("why", FORM_TEXT, why),
    ROW_FIELD("before", FORM_ARRAY, before),
    ROW_FIELD("balances", FORM_ARRAY, balances),
    ROW_FIELD("first_seq", FORM_PLACE, first_seq),
    ROW_FIELD("prev", FORM_HEX, prev),
    ROW_FIELD("signature", FORM_SIGNATURE, signature),
};

static const struct field waste_fields[] = {
    {{"replica", 7}, FORM_TEXT, offsetof(struct record_waste, replica)},
    {{"cause", 5}, FORM_TEXT, offsetof(struct record_waste, cause)},
    USAGE_FIELDS(offsetof(struct record_waste, usage)),
};

static const struct field tariff_fields[] = {
    {{"from", 4}, FORM_MOMENT, offsetof(struct tariff, from_us)},
    RATE_FIELDS(offsetof(struct tariff, rates)),
    {{"above", 5}, FORM_COUNT, offsetof(struct tariff, above)},
    {{"at", 2}, FORM_BOOL, offsetof(struct tariff, inclusive)},
    {{"steps", 5}, FORM_STEPS, offsetof(struct tariff, steps)},
};

static const struct field step_fields[] = {
    {{"above", 5}, FORM_COUNT, offsetof(struct price_bracket, above)},
    RATE_FIELDS(offsetof(struct price_bracket, rates)),
};

#define TABLE(fields) ((struct form_table){(fields), sizeof(fields) / sizeof((fields)[0])})

_Static_assert(sizeof(row_fields) / sizeof(row_fields[0]) <= 64, "a bit for each field");

/* The first ones, each in its place: what every line must have. */
#define ROW_NEEDS UINT64_C(0x1f)
/* Prices and their steps alike, by their first fields. */
#define PRICE_NEEDS UINT64_C(0x13) /* from or above, input, output */

#define SEEN_CACHED_INPUT UINT64_C(0x4)
#define SEEN_CACHE_WRITE UINT64_C(0x8)
#define SEEN_REASONING UINT64_C(0x20)

static bool read_object(struct record_reader *reader, struct form_table table, void *base,
                        uint64_t *out_seen);

static bool read_bool(struct record_reader *reader, bool *out_value)
{
    *out_value = reader->at < reader->end && *reader->at == 't';
    return record_json_word(reader, *out_value ? SPAN("true") : SPAN("false"));
}

static bool read_kind(struct record_reader *reader, enum record_kind *out_kind)
{
    static const struct span names[] = {
        [RECORD_CALL] = {"call", 4},     [RECORD_REFUSALS] = {"refusals", 8},
        [RECORD_ADJUST] = {"adjust", 6}, [RECORD_OPEN] = {"open", 4},
        [RECORD_HEAD] = {"head", 4},
    };
    const char *from = reader->at;
    struct span text;

    if (!record_json_text(reader, &text))
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (span_equal(text, names[i])) {
            *out_kind = (enum record_kind)i;
            return true;
        }
    }
    reader->at = from;
    return record_json_fail(reader, "a kind of line that is not known");
}

static bool read_hash(struct record_reader *reader, struct span *out_text)
{
    const char *from = reader->at;

    if (!record_json_text(reader, out_text))
        return false;
    for (size_t i = 0; out_text->size == 64 && i < 64; i++) {
        const char byte = out_text->data[i];
        if (!(byte >= '0' && byte <= '9') && !(byte >= 'a' && byte <= 'f'))
            out_text->size = 0;
    }
    if (out_text->size == 64)
        return true;
    reader->at = from;
    return record_json_fail(reader, "expected 64 hex digits");
}

/* An object or array as it stands. */
static bool read_whole(struct record_reader *reader, char opening, struct span *out_text)
{
    const char *from = reader->at;

    if (from == reader->end || *from != opening)
        return record_json_fail(reader,
                                opening == '{' ? "expected an object" : "expected an array");
    if (!record_json_skip(reader))
        return false;
    *out_text = (struct span){from, (size_t)(reader->at - from)};
    return true;
}

/* An array of objects of one table into items of a size; seen: which fields each had. */
static bool read_array(struct record_reader *reader, struct form_table table, void *items,
                       size_t item_size, uint64_t *seen, uint32_t most, uint32_t *out_count)
{
    bool more = true;

    if (reader->at == reader->end || *reader->at != '[')
        return record_json_fail(reader, "expected an array");
    reader->at++;
    *out_count = 0;
    if (record_json_empty(reader, ']'))
        return true;
    while (more) {
        if (*out_count == most)
            return record_json_fail(reader, "more items than fit");
        record_json_blanks(reader);
        seen[*out_count] = 0;
        if (!read_object(reader, table, (char *)items + *out_count * item_size, &seen[*out_count]))
            return false;
        ++*out_count;
        if (!record_json_comma(reader, ']', &more))
            return false;
    }
    return true;
}

/* A class whose rate is absent costs what its plain one does. */
static bool fill_rates(struct record_reader *reader, struct rates *rates, uint64_t seen)
{
    if ((seen & PRICE_NEEDS) != PRICE_NEEDS)
        return record_json_fail(reader, "a rate is missing, or where it begins");
    if ((seen & SEEN_CACHED_INPUT) == 0)
        rates->cached_input = rates->input;
    if ((seen & SEEN_CACHE_WRITE) == 0)
        rates->cache_write = rates->input;
    if ((seen & SEEN_REASONING) == 0)
        rates->reasoning = rates->output;
    return true;
}

static bool read_wastes(struct record_reader *reader, struct record *record)
{
    uint64_t seen[RECORD_WASTES_MAX];

    for (uint32_t i = 0; i < RECORD_WASTES_MAX; i++)
        record->wastes[i].usage = USAGE_UNKNOWN;
    return read_array(reader, TABLE(waste_fields), record->wastes, sizeof(record->wastes[0]), seen,
                      RECORD_WASTES_MAX, &record->waste_count);
}

static bool read_steps(struct record_reader *reader, struct tariff *tariff)
{
    uint64_t seen[PRICE_BRACKETS_MAX];

    if (!read_array(reader, TABLE(step_fields), tariff->steps, sizeof(tariff->steps[0]), seen,
                    PRICE_BRACKETS_MAX, &tariff->step_count))
        return false;
    for (uint32_t i = 0; i < tariff->step_count; i++)
        if (!fill_rates(reader, &tariff->steps[i].rates, seen[i]))
            return false;
    return true;
}

static bool read_prices(struct record_reader *reader, struct record *record)
{
    const char *from = reader->at;
    uint64_t seen = 0;

    if (!read_object(reader, TABLE(tariff_fields), &record->tariff, &seen))
        return false;
    if (!fill_rates(reader, &record->tariff.rates, seen))
        return false;
    record->has_tariff = true;
    record->prices = (struct span){from, (size_t)(reader->at - from)};
    return true;
}

static bool read_number(struct record_reader *reader, enum form form, int64_t *out_value)
{
    const char *from = reader->at;
    const bool read =
        form == FORM_RATE ? read_money(reader, out_value) : record_json_integer(reader, out_value);

    if (!read)
        return false;
    if ((form == FORM_TOKENS && *out_value == -1) || (form == FORM_COUNT && *out_value < 0) ||
        (form == FORM_RATE && *out_value < 0) ||
        (form == FORM_VERSION && (*out_value < 1 || *out_value > 2))) {
        reader->at = from;
        return record_json_fail(reader, form == FORM_VERSION ? "a version that is not known"
                                                             : "a number out of range");
    }
    return true;
}

static bool read_place(struct record_reader *reader, uint64_t *out_value)
{
    int64_t value = 0;

    if (!read_number(reader, FORM_COUNT, &value))
        return false;
    *out_value = (uint64_t)value;
    return true;
}

static bool read_field(struct record_reader *reader, const struct field *field, void *base)
{
    void *const place = (char *)base + field->offset;

    switch (field->form) {
    case FORM_TEXT:
        return record_json_text(reader, place);
    case FORM_SIGNATURE:
        ((struct record *)base)->signed_bytes = (size_t)(reader->member - reader->start);
        return record_json_text(reader, place);
    case FORM_HEX:
        return read_hash(reader, place);
    case FORM_OBJECT:
        return read_whole(reader, '{', place);
    case FORM_ARRAY:
        return read_whole(reader, '[', place);
    case FORM_PLACE:
        return read_place(reader, place);
    case FORM_BOOL:
        return read_bool(reader, place);
    case FORM_MONEY:
        return read_money(reader, place);
    case FORM_KIND:
        return read_kind(reader, place);
    case FORM_WASTES:
        return read_wastes(reader, base);
    case FORM_PRICES:
        return read_prices(reader, base);
    case FORM_STEPS:
        return read_steps(reader, base);
    default:
        return read_number(reader, field->form, place);
    }
}

/* The row of a name, looked for from *next on, around; table.count: it is not known. */
static size_t find_field(struct form_table table, struct span name, size_t next)
{
    for (size_t i = 0; i < table.count; i++) {
        const size_t at = next + i < table.count ? next + i : next + i - table.count;
        if (span_equal(table.fields[at].name, name))
            return at;
    }
    return table.count;
}

/* One object by its table; names that it does not have are skipped. */
static bool read_object(struct record_reader *reader, struct form_table table, void *base,
                        uint64_t *out_seen)
{
    size_t next = 0;
    bool more = true;

    if (reader->at == reader->end || *reader->at != '{')
        return record_json_fail(reader, "expected an object");
    reader->member = reader->at++;
    if (record_json_empty(reader, '}'))
        return true;
    while (more) {
        const char *member = reader->member;
        struct span name;
        size_t at;

        if (!record_json_name(reader, &name))
            return false;
        at = find_field(table, name, next);
        if (at == table.count) {
            if (!record_json_skip(reader))
                return false;
        } else {
            if ((*out_seen >> at & 1) != 0)
                return record_json_fail(reader, "a field that was there before");
            *out_seen |= UINT64_C(1) << at;
            next = at + 1;
            reader->member = member;
            if (!read_field(reader, &table.fields[at], base))
                return false;
        }
        if (!record_json_comma(reader, '}', &more))
            return false;
    }
    return true;
}

/* ---- lines ---- */

static bool is_negative(const struct usage *usage)
{
    return usage->input < -1 || usage->cached_input < -1 || usage->cache_write < -1 ||
           usage->output < -1 || usage->reasoning < -1;
}

/* What one field cannot know of another. */
static bool check_whole(struct record_reader *reader, const struct record *record, uint64_t seen)
{
    if ((seen & ROW_NEEDS) != ROW_NEEDS)
        return record_json_fail(reader, "v, gateway, epoch, seq or kind is missing");
    if (record->gateway.size == 0)
        return record_json_fail(reader, "the gateway has no name");
    if (record->kind != RECORD_ADJUST && is_negative(&record->usage))
        return record_json_fail(reader, "less than no tokens");
    for (uint32_t i = 0; i < record->waste_count; i++)
        if (is_negative(&record->wastes[i].usage))
            return record_json_fail(reader, "less than no tokens");
    if (record->signature.data && record->signature.data[record->signature.size + 1] != '}')
        return record_json_fail(reader, "something stands behind the signature");
    return true;
}

static bool read_line(struct record_reader *reader, struct record *record)
{
    uint64_t seen = 0;

    if (!read_object(reader, TABLE(row_fields), record, &seen))
        return false;
    if (reader->at != reader->end)
        return record_json_fail(reader, "something stands behind the object");
    if (!check_whole(reader, record, seen))
        return false;
    if (!record->model_asked.data)
        record->model_asked = record->model;
    if (record->kind == RECORD_HEAD) {
        record->signing_key = record->key;
        record->key = (struct span){NULL, 0};
    }
    return true;
}

enum err record_read(struct span line, struct record *out_record, char *problem,
                     size_t problem_size)
{
    struct record_reader reader = {
        .start = line.data, .at = line.data, .end = line.data + line.size, .member = line.data};

    memset(out_record, 0, sizeof(*out_record));
    out_record->usage = USAGE_UNKNOWN;
    out_record->status = -1;
    out_record->unit_cost_pusd = -1;
    if (line.size > 0 && read_line(&reader, out_record))
        return OK;
    (void)snprintf(problem, problem_size, "byte %zu: %s", (size_t)(reader.at - reader.start),
                   line.size > 0 ? reader.fault : "an empty line");
    return ERR_BAD_VALUE;
}

/* ---- questions ---- */

struct flag_search {
    struct span flag;
    bool found;
};

static bool is_not_flag(void *owner, struct span item)
{
    struct flag_search *search = owner;

    search->found = span_equal(item, search->flag);
    return !search->found;
}

bool record_has_flag(const struct record *record, struct span flag)
{
    struct flag_search search = {.flag = flag};

    return record->flags.size > 0 && record_items(record->flags, is_not_flag, &search) &&
           search.found;
}

enum err record_cost(const struct record *record, int64_t *out_pusd)
{
    *out_pusd = 0;
    if (record->kind == RECORD_ADJUST) {
        *out_pusd = record->cost_pusd;
        return OK;
    }
    if (record->kind != RECORD_CALL || !record->billable)
        return OK;
    return record->has_tariff ? price_of(&record->usage, &record->tariff, out_pusd) : ERR_BAD_VALUE;
}
