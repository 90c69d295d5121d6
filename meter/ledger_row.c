/* SPDX-License-Identifier: Apache-2.0 */
/* meter/ledger_row.c: a row of the journal as what the ledger counts and groups by.
 *
 * For:       the same meaning of a row in roll-ups and in what is summed from rows.
 * Called by: ledger_batch.c, ledger_usage.c, ledger_lookup.c.
 * Knows not: tables, files. */
#include <stdio.h>
#include <string.h>

#include "meter/ledger_store.h"

int64_t ledger_quarter(int64_t at_us)
{
    const int64_t within = at_us % LEDGER_QUARTER_US;

    if (within >= 0)
        return at_us - within;
    return at_us < INT64_MIN + LEDGER_QUARTER_US ? at_us : at_us - within - LEDGER_QUARTER_US;
}

static int64_t known(int64_t tokens)
{
    return tokens == -1 ? 0 : tokens;
}

bool ledger_own_cost(const struct usage *usage, int64_t unit_cost_pusd, int64_t *out_pusd)
{
    int64_t tokens = known(usage->input);

    return unit_cost_pusd >= 0 &&
           !__builtin_add_overflow(tokens, known(usage->cache_write), &tokens) &&
           !__builtin_add_overflow(tokens, known(usage->output), &tokens) &&
           !__builtin_add_overflow(tokens, known(usage->reasoning), &tokens) &&
           !__builtin_mul_overflow(tokens, unit_cost_pusd, out_pusd);
}

/* sums: five in the order of the classes. A sum that does not fit stays at its end: no call has so
 * many tokens, and the row itself keeps them. */
static void add_usage(const struct usage *usage, int64_t *sums)
{
    const int64_t tokens[] = {known(usage->input), known(usage->cached_input),
                              known(usage->cache_write), known(usage->output),
                              known(usage->reasoning)};

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
        if (__builtin_add_overflow(sums[i], tokens[i], &sums[i]))
            sums[i] = INT64_MAX;
}

static bool is_failed(struct span outcome)
{
    return !span_equal(outcome, SPAN("ok")) && !span_equal(outcome, SPAN("hit")) &&
           !span_equal(outcome, SPAN("joined"));
}

static void add_call(const struct record *record, int64_t *sums)
{
    int64_t busy_us;

    sums[SUM_CALLS] = 1;
    sums[SUM_FAILED_CALLS] = is_failed(record->outcome);
    sums[SUM_BYTES_IN] = record->bytes_in;
    sums[SUM_BYTES_OUT] = record->bytes_out;
    if (record->sent_us != 0 && record->ended_us > record->sent_us &&
        !__builtin_sub_overflow(record->ended_us, record->sent_us, &busy_us))
        sums[SUM_BUSY] = busy_us;
    for (uint32_t i = 0; i < record->waste_count; i++)
        add_usage(&record->wastes[i].usage, &sums[SUM_WASTED_INPUT]);
    if (!record->billable)
        return;
    sums[SUM_BILLED_CALLS] = 1;
    sums[SUM_COST] = record->cost_pusd;
    add_usage(&record->usage, &sums[SUM_INPUT]);
    if (ledger_own_cost(&record->usage, record->unit_cost_pusd, &sums[SUM_OWN_COST]))
        sums[SUM_OWN_COST_CALLS] = 1;
    else
        sums[SUM_OWN_COST] = 0;
}

void ledger_sums_of(const struct record *record, int64_t out_sums[LEDGER_SUM_COUNT])
{
    memset(out_sums, 0, LEDGER_SUM_COUNT * sizeof(out_sums[0]));
    if (record->kind == RECORD_CALL)
        add_call(record, out_sums);
    if (record->kind == RECORD_ADJUST) {
        out_sums[SUM_COST] = record->cost_pusd;
        out_sums[SUM_ADJUSTED] = record->cost_pusd;
        add_usage(&record->usage, &out_sums[SUM_INPUT]);
    }
}

/* ---- columns ---- */

const char *books_column_name(enum books_column column)
{
    static const char *const names[] = {
#define COLUMN(id, name) [BY_##id] = #name,
        BOOKS_COLUMNS(COLUMN)
#undef COLUMN
    };

    return names[column];
}

struct span ledger_plain(struct span spelt, char buffer[LEDGER_TEXT_BYTES])
{
    if (spelt.size == 0)
        return (struct span){"", 0};
    if (!memchr(spelt.data, '\\', spelt.size))
        return spelt;
    return (struct span){buffer, record_text(spelt, buffer, LEDGER_TEXT_BYTES)};
}

static struct span status_text(const struct record *record, char buffer[LEDGER_TEXT_BYTES])
{
    if (record->status < 0)
        return (struct span){"", 0};
    return (struct span){buffer, (size_t)snprintf(buffer, 24, "%lld", (long long)record->status)};
}

struct span ledger_column(const struct record *record, enum books_column column,
                          char buffer[LEDGER_TEXT_BYTES])
{
    switch (column) {
    case BY_TENANT:
        return ledger_plain(record->tenant, buffer);
    case BY_KEY:
        return ledger_plain(record->key, buffer);
    case BY_TAGS:
        return record->tags.size > 0 ? record->tags : SPAN("");
    case BY_MODEL:
        return ledger_plain(record->model, buffer);
    case BY_CLASS:
        return ledger_plain(record->class, buffer);
    case BY_TIER:
        return ledger_plain(record->tier, buffer);
    case BY_ENDPOINT:
        return ledger_plain(record->endpoint, buffer);
    case BY_REPLICA:
        return ledger_plain(record->replica, buffer);
    case BY_OUTCOME:
        return ledger_plain(record->outcome, buffer);
    case BY_SOURCE:
        return ledger_plain(record->source, buffer);
    case BY_GATEWAY:
        return ledger_plain(record->gateway, buffer);
    case BY_PRICES:
        return record->prices.size > 0 ? record->prices : SPAN("");
    case BY_TRACE:
        return ledger_plain(record->trace_id, buffer);
    case BY_REQUEST:
        return ledger_plain(record->request_id, buffer);
    case BY_STATUS:
        return status_text(record, buffer);
    case BY_ASKED:
        return ledger_plain(record->model_asked, buffer);
    default:
        if (record->kind != RECORD_CALL)
            return (struct span){"", 0};
        return record->stream ? SPAN("true") : SPAN("false");
    }
}
