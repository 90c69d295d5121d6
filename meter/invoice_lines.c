/* SPDX-License-Identifier: Apache-2.0 */
/* meter/invoice_lines.c: see invoice_lines.h.
 *
 * For:       an invoice from its sums.
 * Called by: invoice.c.
 * Knows not: where the sums come from, who may see them. */
#include "meter/invoice_lines.h"

#include <stdlib.h>

#include "config/base/hash.h"

#define TEXTS_BYTES_MAX ((size_t)256 << 20)
#define LINES_AT_FIRST 64u
#define ID_HEX_DIGITS 16u

struct invoice_sheet *invoice_sheet_new(struct span tenant, const struct period *period)
{
    struct invoice_sheet *sheet = calloc(1, sizeof(*sheet));

    if (sheet == NULL)
        return NULL;
    arena_init(&sheet->texts, NULL, 0, TEXTS_BYTES_MAX);
    sheet->invoice.tenant = arena_copy(&sheet->texts, tenant);
    sheet->invoice.period = *period;
    if (sheet->invoice.tenant.data)
        return sheet;
    invoice_sheet_free(sheet);
    return NULL;
}

void invoice_sheet_free(struct invoice_sheet *sheet)
{
    if (sheet == NULL)
        return;
    free(sheet->invoice.lines);
    free(sheet->tokens.lines);
    free(sheet->others.lines);
    free(sheet->volumes);
    arena_fini(&sheet->texts);
    free(sheet);
}

/* One more element's room in an array that doubles. */
static enum err make_room(void **array, size_t count, size_t *room, size_t element_bytes)
{
    const size_t wanted = *room == 0 ? LINES_AT_FIRST : *room * 2;
    void *larger;

    if (count < *room)
        return OK;
    larger = reallocarray(*array, wanted, element_bytes);
    if (larger == NULL)
        return ERR_NO_MEMORY;
    *array = larger;
    *room = wanted;
    return OK;
}

static enum err append_line(struct invoice_lines *lines, const struct invoice_line *line)
{
    void *array = lines->lines;
    const enum err err = make_room(&array, lines->count, &lines->room, sizeof(*line));

    lines->lines = array;
    if (err == OK)
        lines->lines[lines->count++] = *line;
    return err;
}

/* A text of the sheet's own; absent stays absent. */
static bool keep_text(struct invoice_sheet *sheet, struct span *text)
{
    if (text->size == 0) {
        *text = (struct span){NULL, 0};
        return true;
    }
    *text = arena_copy(&sheet->texts, *text);
    return text->data != NULL;
}

/* ---- tokens ---- */

static bool is_same_line(const struct invoice_line *a, const struct invoice_line *b)
{
    return a->price_from_us == b->price_from_us && a->above == b->above &&
           a->rate_pusd == b->rate_pusd && span_equal(a->class, b->class) &&
           span_equal(a->model, b->model) && span_equal(a->tier, b->tier);
}

static enum err add_charge(struct invoice_sheet *sheet, const struct invoice_group *group,
                           int64_t from_us, const struct charge *charge)
{
    struct invoice_lines *tokens = &sheet->tokens;
    struct invoice_line line = {.kind = INVOICE_TOKENS,
                                .model = group->model,
                                .class = span_of(token_class_name(charge->class)),
                                .tier = group->tier,
                                .price_from_us = from_us,
                                .above = charge->above,
                                .rate_pusd = charge->rate};

    for (size_t i = 0; i < tokens->count; i++) {
        struct invoice_line *old = &tokens->lines[i];
        if (is_same_line(old, &line))
            return __builtin_add_overflow(old->tokens, charge->tokens, &old->tokens)
                       ? ERR_BAD_VALUE
                       : money_add_product(&old->exact_pusd, charge->tokens, charge->rate);
    }
    line.tokens = charge->tokens;
    if (!keep_text(sheet, &line.model) || !keep_text(sheet, &line.tier))
        return ERR_NO_MEMORY;
    const enum err err = money_add_product(&line.exact_pusd, charge->tokens, charge->rate);
    return err == OK ? append_line(tokens, &line) : err;
}

static enum err find_volume(struct invoice_sheet *sheet, const struct invoice_group *group,
                            int64_t from_us, struct invoice_volume **out_volume)
{
    struct invoice_volume volume = {
        .model = group->model, .price_from_us = from_us, .month_us = group->month_us};
    void *array = sheet->volumes;
    enum err err;

    for (size_t i = 0; i < sheet->volume_count; i++) {
        struct invoice_volume *old = &sheet->volumes[i];
        if (old->price_from_us == from_us && old->month_us == group->month_us &&
            span_equal(old->model, group->model)) {
            *out_volume = old;
            return OK;
        }
    }
    if (!keep_text(sheet, &volume.model))
        return ERR_NO_MEMORY;
    err = make_room(&array, sheet->volume_count, &sheet->volume_room, sizeof(volume));
    sheet->volumes = array;
    if (err != OK)
        return err;
    sheet->volumes[sheet->volume_count] = volume;
    *out_volume = &sheet->volumes[sheet->volume_count++];
    return OK;
}

enum err invoice_cost(const struct usage *usage, const struct tariff *tariff, money_sum *out_pusd)
{
    struct charge charges[CHARGES_MAX];
    money_sum sum = 0;
    uint32_t count = 0;
    enum err err = price_charges(usage, tariff, charges, &count);

    for (uint32_t i = 0; err == OK && i < count; i++)
        err = money_add_product(&sum, charges[i].tokens, charges[i].rate);
    if (err == OK)
        *out_pusd = sum;
    return err;
}

enum err invoice_sheet_add_usage(struct invoice_sheet *sheet, const struct invoice_group *group,
                                 const struct tariff *tariff, const struct usage *usage)
{
    struct charge charges[CHARGES_MAX];
    struct invoice_volume *volume;
    uint32_t count = 0;
    enum err err = price_charges(usage, tariff, charges, &count);

    if (err == OK)
        err = find_volume(sheet, group, tariff->from_us, &volume);
    for (uint32_t i = 0; err == OK && i < count; i++) {
        err = add_charge(sheet, group, tariff->from_us, &charges[i]);
        if (err == OK)
            err = money_add_product(&volume->exact_pusd, charges[i].tokens, charges[i].rate);
        if (err == OK && __builtin_add_overflow(volume->tokens, charges[i].tokens, &volume->tokens))
            err = ERR_BAD_VALUE;
    }
    return err;
}

/* ---- what is not tokens ---- */

enum err invoice_sheet_add_other(struct invoice_sheet *sheet, struct span model, struct span why,
                                 struct span id, money_sum pusd)
{
    struct invoice_line line = {
        .kind = INVOICE_ADJUST, .model = model, .class = why, .exact_pusd = pusd, .id = id};

    if (!keep_text(sheet, &line.model) || !keep_text(sheet, &line.class) ||
        !keep_text(sheet, &line.id))
        return ERR_NO_MEMORY;
    return append_line(&sheet->others, &line);
}

static const struct price *price_from(const struct config *config, struct span name,
                                      int64_t from_us)
{
    /* What stands for a configuration when only paths are given has no models, and no snapshot. */
    const struct config_model *model =
        config->model_count > 0 ? config_find_model(config, name) : NULL;

    for (uint32_t i = 0; model && i < model->price_count; i++)
        if (model->prices[i].from_us == from_us)
            return &model->prices[i];
    return NULL;
}

/* Is the month of this beginning within the period from its first moment to its last? */
static bool is_whole_month(const struct invoice_sheet *sheet, const struct zone *zone,
                           int64_t month_us)
{
    const struct period month = period_around(zone, PERIOD_MONTH, month_us);

    return month.from_us >= sheet->invoice.period.from_us &&
           month.until_us <= sheet->invoice.period.until_us;
}

static enum err add_discount(struct invoice_sheet *sheet, const struct zone *zone,
                             const struct price *price, const struct invoice_volume *volume)
{
    char month[PERIOD_TEXT_BYTES];
    struct invoice_line line = {.kind = INVOICE_VOLUME,
                                .model = volume->model,
                                .price_from_us = volume->price_from_us,
                                .tokens = volume->tokens};
    money_sum discount = 0;
    enum err err = price_discount(price, volume->tokens, volume->exact_pusd, &discount);

    if (err != OK || discount == 0)
        return err;
    (void)period_print_name(zone, PERIOD_MONTH, volume->month_us, month);
    line.class = arena_format(&sheet->texts, "volume discount %s", month);
    line.exact_pusd = -discount;
    return line.class.data ? append_line(&sheet->others, &line) : ERR_NO_MEMORY;
}

static int compare_number(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_volumes(const void *left, const void *right)
{
    const struct invoice_volume *a = left, *b = right;
    const int by_model = span_compare(a->model, b->model);

    if (by_model != 0)
        return by_model;
    return a->price_from_us != b->price_from_us ? compare_number(a->price_from_us, b->price_from_us)
                                                : compare_number(a->month_us, b->month_us);
}

enum err invoice_sheet_discount(struct invoice_sheet *sheet, const struct config *config,
                                const struct zone *zone)
{
    enum err err = OK;

    if (sheet->volume_count > 0)
        qsort(sheet->volumes, sheet->volume_count, sizeof(sheet->volumes[0]), compare_volumes);
    for (size_t i = 0; err == OK && i < sheet->volume_count; i++) {
        const struct invoice_volume *volume = &sheet->volumes[i];
        const struct price *price = price_from(config, volume->model, volume->price_from_us);
        if (price && is_whole_month(sheet, zone, volume->month_us))
            err = add_discount(sheet, zone, price, volume);
    }
    return err;
}

/* ---- the end ---- */

static int class_place(struct span class)
{
    int place = 0;

    while (place < TOKEN_CLASSES &&
           !span_equal(class, span_of(token_class_name((enum token_class)place))))
        place++;
    return place;
}

/* By model, price, tier, class, step. */
static int compare_lines(const void *left, const void *right)
{
    const struct invoice_line *a = left, *b = right;
    const int orders[] = {
        span_compare(a->model, b->model),   compare_number(a->price_from_us, b->price_from_us),
        span_compare(a->tier, b->tier),     class_place(a->class) - class_place(b->class),
        compare_number(a->above, b->above), compare_number(a->rate_pusd, b->rate_pusd)};

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        if (orders[i] != 0)
            return orders[i];
    return 0;
}

/* The same line has the same id whenever the invoice is made. No text of ours holds a NUL, so that
 * what stands between them cannot be mistaken. */
static enum err name_line(struct invoice_sheet *sheet, struct invoice_line *line)
{
    const struct invoice *invoice = &sheet->invoice;
    uint8_t digest[HASH_SHA256_BYTES];
    char hex[2 * HASH_SHA256_BYTES + 1];
    const struct span whole = arena_format(
        &sheet->texts, "%.*s%c%lld%c%lld%c%d%c%.*s%c%.*s%c%.*s%c%lld%c%lld%c%lld",
        (int)invoice->tenant.size, invoice->tenant.data, 0, (long long)invoice->period.from_us, 0,
        (long long)invoice->period.until_us, 0, (int)line->kind, 0, (int)line->model.size,
        line->model.size ? line->model.data : "", 0, (int)line->class.size, line->class.data, 0,
        (int)line->tier.size, line->tier.size ? line->tier.data : "", 0,
        (long long)line->price_from_us, 0, (long long)line->above, 0, (long long)line->rate_pusd);

    if (whole.data == NULL)
        return ERR_NO_MEMORY;
    hash_sha256(whole, digest);
    hash_hex(digest, sizeof(digest), hex);
    line->id = arena_copy(&sheet->texts, (struct span){hex, ID_HEX_DIGITS});
    return line->id.data ? OK : ERR_NO_MEMORY;
}

/* Names and rounds lines, and adds them to the invoice and its sums. */
static enum err take_lines(struct invoice_sheet *sheet, struct invoice_lines *from,
                           struct invoice_lines *to, money_sum *rounded)
{
    enum err err = OK;

    for (size_t i = 0; err == OK && i < from->count; i++) {
        struct invoice_line *line = &from->lines[i];
        line->amount_pusd = money_round(line->exact_pusd, MONEY_PUSD_PER_CENT);
        if (line->id.data == NULL)
            err = name_line(sheet, line);
        if (err == OK)
            err = money_add(*rounded, line->amount_pusd, rounded);
        if (err == OK)
            err =
                money_add(sheet->invoice.exact_pusd, line->exact_pusd, &sheet->invoice.exact_pusd);
        if (err == OK)
            err = append_line(to, line);
    }
    return err;
}

enum err invoice_sheet_finish(struct invoice_sheet *sheet)
{
    struct invoice *invoice = &sheet->invoice;
    struct invoice_lines lines = {.count = 0};
    struct invoice_line rest = {.kind = INVOICE_ROUNDING, .class = SPAN("rounding")};
    money_sum rounded = 0;
    enum err err;

    invoice->exact_pusd = 0;
    if (sheet->tokens.count > 0)
        qsort(sheet->tokens.lines, sheet->tokens.count, sizeof(sheet->tokens.lines[0]),
              compare_lines);
    err = take_lines(sheet, &sheet->tokens, &lines, &rounded);
    if (err == OK)
        err = take_lines(sheet, &sheet->others, &lines, &rounded);
    invoice->total_pusd = money_round(invoice->exact_pusd, MONEY_PUSD_PER_CENT);
    rest.amount_pusd = invoice->total_pusd - rounded;
    if (err == OK && rest.amount_pusd != 0)
        err = name_line(sheet, &rest);
    if (err == OK && rest.amount_pusd != 0)
        err = append_line(&lines, &rest);
    invoice->lines = lines.lines;
    invoice->line_count = lines.count;
    return err;
}
