/* SPDX-License-Identifier: Apache-2.0 */
/* meter/rerate.c: the past at other prices.
 *
 * For:       books_rerate(): each row priced again as a gateway with that configuration would have.
 * Called by: gateway/cmd_rerate.c through books.h.
 * Knows not: how the difference is printed. Writes nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "config/base/arena.h"
#include "meter/books.h"
#include "meter/record.h"

#define NAME_BYTES_MAX 512
#define TEXTS_BYTES_MAX ((size_t)64 << 20)

struct tally {
    const struct config *prices;
    struct books_rerate *lines; /* by tenant, then model */
    size_t count, room;
    struct arena texts;
    enum err err;
};

/* Where a line of this tenant and model is, or belongs. */
static size_t find_place(const struct tally *tally, struct span tenant, struct span model,
                         bool *out_found)
{
    size_t low = 0, high = tally->count;

    *out_found = false;
    while (low < high && !*out_found) {
        const size_t middle = low + (high - low) / 2;
        const struct books_rerate *line = &tally->lines[middle];
        const int by_tenant = span_compare(line->tenant, tenant);
        const int order = by_tenant != 0 ? by_tenant : span_compare(line->model, model);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
        *out_found = order == 0;
    }
    return *out_found ? high : low;
}

static enum err find_line(struct tally *tally, struct span tenant, struct span model,
                          struct books_rerate **out_line)
{
    bool found;
    const size_t place = find_place(tally, tenant, model, &found);

    if (!found && tally->count == tally->room) {
        const size_t room = tally->room == 0 ? 32 : 2 * tally->room;
        struct books_rerate *larger = reallocarray(tally->lines, room, sizeof(*larger));
        if (larger == NULL)
            return ERR_NO_MEMORY;
        tally->lines = larger;
        tally->room = room;
    }
    if (!found) {
        const struct books_rerate line = {.tenant = arena_copy(&tally->texts, tenant),
                                          .model = arena_copy(&tally->texts, model)};
        if (line.tenant.data == NULL || line.model.data == NULL)
            return ERR_NO_MEMORY;
        memmove(&tally->lines[place + 1], &tally->lines[place],
                (tally->count - place) * sizeof(line));
        tally->lines[place] = line;
        tally->count++;
    }
    *out_line = &tally->lines[place];
    return OK;
}

/* What the row would have been charged; false: there is no price for it. As when a call is settled,
 * what does not fit a row is not charged. */
static bool price_again(const struct config *prices, const struct record *record, struct span name,
                        int64_t *out_pusd)
{
    const struct config_model *model = config_find_model(prices, name);
    const struct price *price = model ? config_price_at(model, record->admitted_us) : NULL;
    struct tariff tariff;

    *out_pusd = 0;
    if (price == NULL)
        return false;
    price_tariff(price, &record->usage, service_tier_of(record->tier), &tariff);
    (void)!price_of(&record->usage, &tariff, out_pusd);
    return true;
}

static enum err take_call(struct tally *tally, const struct record *record)
{
    char tenant[NAME_BYTES_MAX], model[NAME_BYTES_MAX];
    const struct span tenant_name = {tenant, record_text(record->tenant, tenant, sizeof(tenant))};
    const struct span model_name = {model, record_text(record->model, model, sizeof(model))};
    struct books_rerate *line;
    int64_t pusd;
    enum err err = find_line(tally, tenant_name, model_name, &line);

    if (err != OK)
        return err;
    line->calls++;
    if (!price_again(tally->prices, record, model_name, &pusd)) {
        line->unpriced++;
        pusd = record->cost_pusd; /* stays as it is */
    }
    line->differing += pusd != record->cost_pusd;
    err = money_add(line->was_pusd, record->cost_pusd, &line->was_pusd);
    return err == OK ? money_add(line->would_be_pusd, pusd, &line->would_be_pusd) : err;
}

static bool visit_row(void *owner, const struct record *record, struct span line)
{
    struct tally *tally = owner;

    (void)line;
    if (record->kind == RECORD_CALL && record->billable)
        tally->err = take_call(tally, record);
    return tally->err == OK;
}

enum err books_rerate(struct books *books, const struct config *prices, const struct period *period,
                      struct span tenant,
                      bool (*visit)(void *owner, const struct books_rerate *line), void *owner,
                      char *problem, size_t problem_size)
{
    struct tally tally = {.prices = prices};
    enum err err;

    arena_init(&tally.texts, NULL, 0, TEXTS_BYTES_MAX);
    err = books_rows(books, tenant, period, (struct span){NULL, 0}, visit_row, &tally, problem,
                     problem_size);
    if (err == OK && tally.err != OK) {
        err = tally.err;
        (void)snprintf(problem, problem_size,
                       err == ERR_NO_MEMORY ? "no memory" : "a sum does not fit");
    }
    for (size_t i = 0; err == OK && i < tally.count; i++)
        if (!visit(owner, &tally.lines[i]))
            break;
    free(tally.lines);
    arena_fini(&tally.texts);
    return err;
}
