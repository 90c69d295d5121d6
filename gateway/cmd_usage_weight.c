/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_usage_weight.c: tokens weighed by how busy their replicas were.
 *
 * For:       sharing what replicas cost: who fills the busy ones bears more.
 * Called by: cmd_usage_lines.c.
 * Knows not: how a report is printed.
 *
 * A replica's utilisation in the period is its busy time ÷ (slots × period, as far as it is past),
 * in millionths, at most 1. A tier weighs 1. Tokens that no replica computed weigh nothing; a
 * replica whose slots the configuration does not say counts as full. */
#include <stdlib.h>

#include "gateway/cmd_usage.h"

#define PPM 1000000
#define UNITS_PER_PPM (MONEY_PUSD_PER_USD / PPM) /* a decimal's 1e-12 in a millionth */

struct weight {
    struct span model, replica; /* of the configuration */
    uint32_t slots;
    int64_t busy_us;
};

struct weighing {
    const struct usage_asked *asked;
    struct report *report;
    struct weight *weights;
    size_t weight_count;
    uint32_t key_columns, column;
    uint32_t model_at, replica_at; /* among the groups of the parts */
    size_t at; /* the report's line that was met last: both come in the same order */
    enum err err;
};

static struct weight *find_weight(const struct weighing *weighing, struct span model,
                                  struct span replica)
{
    for (size_t i = 0; i < weighing->weight_count; i++)
        if (span_equal(weighing->weights[i].replica, replica) &&
            span_equal(weighing->weights[i].model, model))
            return &weighing->weights[i];
    return NULL;
}

/* The replicas of the configuration, none of them busy yet. */
static enum err list_replicas(const struct config *config, struct weighing *weighing)
{
    size_t count = 0;

    for (uint32_t i = 0; i < config->model_count; i++)
        count += config->models[i].replica_count;
    weighing->weights = calloc(count + 1, sizeof(*weighing->weights));
    if (weighing->weights == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < config->model_count; i++) {
        const struct config_model *model = &config->models[i];

        for (uint32_t j = 0; j < model->replica_count; j++)
            weighing->weights[weighing->weight_count++] =
                (struct weight){model->name, model->replicas[j].name, model->replicas[j].slots, 0};
    }
    return OK;
}

static bool add_busy(void *owner, const struct books_line *line)
{
    struct weight *weight = find_weight(owner, line->by[0], line->by[1]);

    if (weight != NULL)
        weight->busy_us = line->busy_us;
    return true;
}

/* 0 … PPM */
static int64_t utilisation_ppm(const struct weighing *weighing, struct span model,
                               struct span replica)
{
    const struct period *period = &weighing->asked->ask.period;
    const int64_t now_us = weighing->asked->now_us;
    const int64_t until_us = period->until_us < now_us ? period->until_us : now_us;
    const struct weight *weight = find_weight(weighing, model, replica);

    if (replica.data == NULL)
        return 0;
    if (weight == NULL || weight->slots == 0 || until_us <= period->from_us)
        return PPM;
    const __int128 room_us = (__int128)weight->slots * (until_us - period->from_us);
    const __int128 ppm = (__int128)weight->busy_us * PPM / room_us;

    return ppm > PPM ? PPM : ppm < 0 ? 0 : (int64_t)ppm;
}

static bool cell_is(const struct report_cell *cell, struct span text)
{
    return cell->known == (text.data != NULL) && (!cell->known || span_equal(cell->text, text));
}

static bool is_line(const struct weighing *weighing, size_t at, const struct books_line *line)
{
    const struct books_ask *ask = &weighing->asked->ask;
    const struct report_cell *cells = weighing->report->cells + at * weighing->report->column_count;
    char bucket[PERIOD_TEXT_BYTES];
    uint32_t first = 0;

    if (ask->bucketed) {
        const size_t size = usage_print_bucket(ask, line->bucket_us, bucket);

        if (!cell_is(&cells[first++], (struct span){bucket, size}))
            return false;
    }
    for (uint32_t i = first; i < weighing->key_columns; i++)
        if (!cell_is(&cells[i], line->by[i - first]))
            return false;
    return true;
}

/* Adds one replica's part of a line. A line that came in since the report was filled has no place.
 */
static bool add_weight(void *owner, const struct books_line *line)
{
    struct weighing *weighing = owner;
    const struct books_tokens *usage = &line->usage;
    const money_sum tokens = usage->input + usage->cached_input + usage->cache_write +
                             usage->output + usage->reasoning;
    const int64_t ppm =
        utilisation_ppm(weighing, line->by[weighing->model_at], line->by[weighing->replica_at]);
    const money_sum weight = tokens * ppm * UNITS_PER_PPM;

    for (size_t i = weighing->at; i < weighing->report->line_count; i++) {
        if (is_line(weighing, i, line)) {
            weighing->at = i;
            weighing->err = report_add_decimal(weighing->report, i, weighing->column, weight);
            break;
        }
    }
    return weighing->err == OK;
}

/* The column's place among the groups, behind the others if it is not among them yet. */
static uint32_t add_group(struct books_ask *ask, enum books_column column)
{
    for (uint32_t i = 0; i < ask->by_count; i++)
        if (ask->by[i] == column)
            return i;
    ask->by[ask->by_count] = column;
    return ask->by_count++;
}

enum err usage_weigh(struct usage_asked *asked, struct report *report, uint32_t key_columns,
                     uint32_t column)
{
    const struct books_ask all = {.period = asked->ask.period,
                                  .zone = asked->ask.zone,
                                  .by = {BY_MODEL, BY_REPLICA},
                                  .by_count = 2};
    struct weighing weighing = {
        .asked = asked, .report = report, .key_columns = key_columns, .column = column};
    struct books_ask parts = asked->ask;
    enum err err = list_replicas(asked->common.config, &weighing);

    if (err == OK)
        err = books_usage(asked->common.books, &all, add_busy, &weighing, asked->problem,
                          sizeof(asked->problem));
    weighing.model_at = add_group(&parts, BY_MODEL);
    weighing.replica_at = add_group(&parts, BY_REPLICA);
    if (err == OK)
        err = books_usage(asked->common.books, &parts, add_weight, &weighing, asked->problem,
                          sizeof(asked->problem));
    free(weighing.weights);
    return err != OK ? err : weighing.err;
}
