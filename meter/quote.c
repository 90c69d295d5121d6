/* SPDX-License-Identifier: Apache-2.0 */
/* meter/quote.c: what an ask would cost, at most and probably.
 *
 * For:       meter_quote() and meter_bounds() of the door: the bound that money is set aside by,
 *            and the estimate.
 * Called by: the gateway by the door.
 * Knows not: bodies, tenants, the clock.
 *
 * The bound rests on one fact: a token covers at least one byte of the text that a tokenizer is
 * given (vocabularies of bytes; those that normalize text first may make more of a few rare signs:
 * template_tokens has room for them). What the server adds of its own is in template_tokens and
 * part_tokens. */
#include "meter/estimate.h"
#include "meter/price.h"

/* What is believed of an answer before any was seen. */
#define ANSWER_TOKENS_START 256

/* Sums and products of what a client has sent: they stop at the largest number. */
static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;

    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the bound ---- */

/* Tokens of tools and their calls: templates spell their JSON anew. */
static int64_t schema_tokens(const struct config_template *template, const struct meter_ask *ask)
{
    const __int128 tokens = ((__int128)ask->tool_bytes * template->schema_percent + 99) / 100;

    return plus(tokens > INT64_MAX ? INT64_MAX : (int64_t)tokens,
                times(ask->tools, template->per_tool));
}

/* Tokens of parts that are no text; -1: one of them has no bound. */
static int64_t part_tokens(const struct config_model *model, const struct meter_ask *ask)
{
    int64_t sum = 0;

    for (int kind = 0; kind < PART_KINDS; kind++) {
        if (ask->parts[kind] == 0)
            continue;
        if (model->part_tokens[kind] == 0)
            return -1;
        sum = plus(sum, times(ask->parts[kind], model->part_tokens[kind]));
    }
    return sum;
}

/* Most tokens of all prompts together; -1: no bound, *out_why says why. */
static int64_t input_bound(const struct config_model *model, const struct meter_ask *ask,
                           const char **out_why)
{
    const struct config_template *template = &model->template_tokens;
    const int64_t parts = part_tokens(model, ask);
    const int64_t context = model->context > 0 ? times(model->context, ask->prompts) : INT64_MAX;
    int64_t sum;

    if (parts < 0) {
        *out_why = "a part that is no text, for whose kind the model has no part_tokens";
        return -1;
    }
    sum = plus(ask->text_bytes - ask->tool_bytes, ask->other_bytes);
    sum = plus(sum, schema_tokens(template, ask));
    sum = plus(sum, times(template->fixed, ask->prompts));
    sum = plus(sum, times(template->per_message, ask->messages));
    sum = plus(sum, ask->token_ids);
    sum = plus(sum, parts);
    sum = smaller(ask->opaque ? INT64_MAX : sum, context);
    if (sum == INT64_MAX) {
        *out_why = "a prompt that cannot be judged, and no context of the model";
        return -1;
    }
    return sum;
}

/* Most tokens of one answer; -1: no bound. */
static int64_t answer_bound(const struct config_model *model, const struct meter_ask *ask)
{
    int64_t most = ask->max_tokens >= 0 ? ask->max_tokens : ask->default_output;

    if (model->output > 0 && (most < 0 || model->output < most))
        most = model->output;
    if (model->context > 0 && (most < 0 || model->context < most))
        most = model->context;
    return most;
}

/* Most tokens of all answers together; -1: no bound, *out_why says why. */
static int64_t output_bound(const struct config_model *model, const struct meter_ask *ask,
                            const char **out_why)
{
    const int64_t answer = ask->generates ? answer_bound(model, ask) : 0;

    if (answer < 0) {
        *out_why = "no limit of the answer: none asked for, and no output or context of the model";
        return -1;
    }
    return times(times(answer, ask->n), ask->prompts);
}

/* ---- the dearest rates ---- */

/* A rate and the class whose it is. */
struct dearest {
    enum token_class class;
    int64_t rate;
};

static void take_dearer(struct dearest *dearest, enum token_class class, int64_t rate)
{
    if (rate > dearest->rate)
        *dearest = (struct dearest){class, rate};
}

static void take_input(struct dearest *dearest, const struct rates *rates)
{
    take_dearer(dearest, CLASS_INPUT, rates->input);
    take_dearer(dearest, CLASS_CACHED_INPUT, rates->cached_input);
    take_dearer(dearest, CLASS_CACHE_WRITE, rates->cache_write);
}

static void take_output(struct dearest *dearest, const struct rates *rates)
{
    take_dearer(dearest, CLASS_OUTPUT, rates->output);
    take_dearer(dearest, CLASS_REASONING, rates->reasoning);
}

/* The dearest that could apply to a prompt of at most so many tokens: those of every bracket that
 * it may reach, with the tier's factor. */
static void find_dearest(const struct price *price, int64_t prompt, enum service_tier tier,
                         struct dearest *out_input, struct dearest *out_output)
{
    /* Brackets are reached one by one as the prompt grows, so each one's tariff is that of a prompt
     * just beyond it; a prompt of nothing has the first rates. */
    int64_t tokens = 0;

    *out_input = (struct dearest){CLASS_INPUT, -1};
    *out_output = (struct dearest){CLASS_OUTPUT, -1};
    for (uint32_t i = 0;; i++) {
        struct tariff tariff;
        price_tariff(price, &(struct usage){.input = tokens}, tier, &tariff);
        take_input(out_input, &tariff.rates);
        take_output(out_output, &tariff.rates);
        for (uint32_t k = 0; k < tariff.step_count; k++)
            if (prompt >= tariff.steps[k].above)
                take_input(out_input, &tariff.steps[k].rates);
        if (i == price->bracket_count)
            return;
        tokens = price->brackets[i].above + (price->bracket_inclusive ? 0 : 1);
        if (tokens > prompt)
            return;
    }
}

static void put_class(struct usage *usage, enum token_class class, int64_t tokens)
{
    int64_t *const places[TOKEN_CLASSES] = {
        [CLASS_INPUT] = &usage->input,
        [CLASS_CACHED_INPUT] = &usage->cached_input,
        [CLASS_CACHE_WRITE] = &usage->cache_write,
        [CLASS_OUTPUT] = &usage->output,
        [CLASS_REASONING] = &usage->reasoning,
    };

    *places[class] = tokens;
}

static void quote_most(const struct price *price, const struct meter_ask *ask, int64_t input,
                       int64_t output, struct meter_quote *out_quote)
{
    struct dearest of_input, of_output;
    __int128 sum; /* two products of 126 bits at most */

    find_dearest(price, input, ask->tier, &of_input, &of_output);
    out_quote->most = (struct usage){0};
    put_class(&out_quote->most, of_input.class, input);
    put_class(&out_quote->most, of_output.class, output);
    sum = (__int128)input * of_input.rate + (__int128)output * of_output.rate;
    if (sum <= INT64_MAX) {
        out_quote->bounded = true;
        out_quote->most_pusd = (int64_t)sum;
    } else {
        out_quote->unbounded_by = "an amount that is too large to be written";
    }
}

/* ---- the estimate ---- */

static void quote_probable(const struct config_model *model, const struct price *price,
                           const struct meter_ask *ask, int64_t input_most, int64_t output_most,
                           struct meter_quote *out_quote)
{
    const struct meter_sizes sizes = {.prompt_bytes = ask->text_bytes};
    const int64_t parts = part_tokens(model, ask);
    const int64_t answer = estimate_answer(model->estimate);
    struct usage usage;
    struct tariff tariff;

    meter_estimate(model->estimate, &sizes, &usage);
    usage.input = plus(usage.input, plus(ask->token_ids, parts > 0 ? parts : 0));
    if (input_most >= 0)
        usage.input = smaller(usage.input, input_most);
    usage.output = ask->generates ? times(times(answer > 0 ? answer : ANSWER_TOKENS_START, ask->n),
                                          ask->prompts)
                                  : 0;
    if (output_most >= 0)
        usage.output = smaller(usage.output, output_most);
    out_quote->probable = usage;
    price_tariff(price, &usage, ask->tier, &tariff);
    out_quote->rates = tariff.rates;
    out_quote->price_from_us = tariff.from_us;
    if (price_of(&usage, &tariff, &out_quote->probable_pusd) != OK)
        out_quote->probable_pusd = -1;
}

void meter_bounds(const struct config_model *model, const struct meter_ask *ask, int64_t *out_input,
                  int64_t *out_output)
{
    const char *why;

    *out_input = input_bound(model, ask, &why);
    *out_output = output_bound(model, ask, &why);
}

bool meter_quote(const struct config_model *model, const struct meter_ask *ask, int64_t at_us,
                 struct meter_quote *out_quote)
{
    const struct price *price = config_price_at(model, at_us);
    const char *why = NULL;
    int64_t input, output;

    if (!price)
        return false;
    output = output_bound(model, ask, &why);
    input = input_bound(model, ask, &why);
    *out_quote = (struct meter_quote){
        .most = USAGE_UNKNOWN,
        .most_pusd = -1,
        .unbounded_by = why,
        .output_bound = ask->generates ? answer_bound(model, ask) : -1,
    };
    if (!why)
        quote_most(price, ask, input, output, out_quote);
    quote_probable(model, price, ask, input, output, out_quote);
    return true;
}
