/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/quote.c: see quote.h.
 *
 * For:       the endpoint that is quoted for, and the answer; and the bound for those who estimate.
 * Called by: steps.c.
 * Knows not: prices and tokens: the meter's door is asked. */
#include "gateway/quote.h"

#include <jansson.h>
#include <stdlib.h>

#include "config/base/money.h"
#include "gateway/reply.h"

#define TOKENS_PER_MILLION 1000000
/* OpenAI's API reference, completions: max_tokens when it is not said. */
#define COMPLETION_TOKENS 16

/* ---- what is asked for ---- */

static enum endpoint billed_endpoint(struct span name)
{
    for (enum endpoint endpoint = ENDPOINT_NONE + 1; endpoint < ENDPOINT_COUNT; endpoint++)
        if (endpoint_row(endpoint)->charged && span_equal(endpoint_row(endpoint)->name, name))
            return endpoint;
    return ENDPOINT_NONE;
}

enum endpoint quote_endpoint(struct span target)
{
    static const struct span key = {"endpoint=", 9};
    const char *mark = target.size ? memchr(target.data, '?', target.size) : NULL;
    struct span rest = {NULL, 0};

    if (mark)
        rest = span_from(target, (size_t)(mark - target.data) + 1);
    while (rest.size > 0) {
        const char *end = memchr(rest.data, '&', rest.size);
        const struct span pair = {rest.data, end ? (size_t)(end - rest.data) : rest.size};
        if (span_starts(pair, key))
            return billed_endpoint(span_from(pair, key.size));
        rest = end ? span_from(rest, pair.size + 1) : (struct span){NULL, 0};
    }
    return ENDPOINT_CHAT;
}

/* What a server makes of an absent limit; -1: as much as it likes. */
static int64_t default_output(enum endpoint endpoint, enum kind kind)
{
    const bool openai = kind == KIND_VLLM || kind == KIND_SGLANG || kind == KIND_OPENAI;

    return endpoint == ENDPOINT_COMPLETIONS && openai ? COMPLETION_TOKENS : -1;
}

/* What of an ask decides its cost on a model. */
static struct meter_ask asked_of(const struct ask *ask, enum endpoint endpoint,
                                 const struct config_model *model)
{
    struct meter_ask quoted = {
        .text_bytes = ask->text_bytes - ask->token_id_bytes,
        .other_bytes = ask->other_bytes,
        .messages = ask->messages,
        .tools = ask->tool_count,
        .tool_bytes = ask->tool_bytes,
        .token_ids = ask->token_ids,
        .prompts = ask->prompts,
        .n = ask->n,
        .max_tokens = ask->max_tokens > 0 ? ask->max_tokens : -1, /* some take 0 for no limit */
        .opaque = (ask->refused & (REFUSED_CHAT_TEMPLATE | REFUSED_PROMPT_EMBEDS)) != 0,
        .generates = ask->generates,
        .default_output = ask->max_tokens < 0 ? default_output(endpoint, model->kind) : -1,
        .tier = ask->tier,
    };

    memcpy(quoted.parts, ask->parts, sizeof quoted.parts);
    return quoted;
}

static int64_t prompt_of(const struct usage *usage)
{
    return usage->input + usage->cached_input + usage->cache_write;
}

static int64_t answer_of(const struct usage *usage)
{
    return usage->output + usage->reasoning;
}

void quote_bounds(const struct exchange *x, int64_t *out_input, int64_t *out_output)
{
    const struct meter_ask ask = asked_of(&x->ask, x->endpoint, x->model);

    meter_bounds(x->model, &ask, out_input, out_output);
}

/* ---- the answer ---- */

static json_t *json_text(struct span text)
{
    return json_stringn_nocheck(text.data, text.size);
}

static json_t *usd_tree(money_sum pusd)
{
    char text[MONEY_TEXT_BYTES];
    const size_t size = money_print_usd(pusd, text);

    return json_stringn(text, size);
}

/* Tokens and what they cost; null: not known. */
static json_t *cost_tree(const struct usage *usage, int64_t pusd)
{
    if (pusd < 0)
        return json_null();
    return json_pack("{s:I, s:I, s:o}", "input_tokens", (json_int_t)prompt_of(usage),
                     "output_tokens", (json_int_t)answer_of(usage), "usd", usd_tree(pusd));
}

static json_t *rate_tree(int64_t pusd_per_token)
{
    return usd_tree((money_sum)pusd_per_token * TOKENS_PER_MILLION);
}

/* The rates that the probable cost is made of: USD per million tokens, and the price's date as rows
 * say it. */
static json_t *price_tree(const struct meter_quote *quote)
{
    const struct rates *rates = &quote->rates;

    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "from", (json_int_t)quote->price_from_us,
                     "input", rate_tree(rates->input), "cached_input",
                     rate_tree(rates->cached_input), "cache_write", rate_tree(rates->cache_write),
                     "output", rate_tree(rates->output), "reasoning", rate_tree(rates->reasoning));
}

static json_t *permille_tree(int64_t permille)
{
    return permille < 0 ? json_null() : json_integer(permille);
}

static json_t *error_tree(const struct config_model *model)
{
    int64_t prompt, answer;

    meter_estimate_error(model->estimate, &prompt, &answer);
    return json_pack("{s:o, s:o}", "input", permille_tree(prompt), "output", permille_tree(answer));
}

/* What the ask costs on one model. */
static json_t *candidate_tree(const struct exchange *x, const struct config_model *model)
{
    const struct meter_ask ask = asked_of(&x->ask, x->endpoint, model);
    struct meter_quote quote;

    if (!meter_quote(model, &ask, x->opened_us, &quote))
        return json_pack("{s:o, s:n, s:n, s:n, s:s}", "model", json_text(model->name), "most",
                         "probable", "price", "unbounded_by", "the model has no price now");
    json_t *tree = json_pack("{s:o, s:o, s:o, s:o, s:o}", "model", json_text(model->name), "most",
                             cost_tree(&quote.most, quote.most_pusd), "probable",
                             cost_tree(&quote.probable, quote.probable_pusd), "estimate_error",
                             error_tree(model), "price", price_tree(&quote));
    if (!quote.bounded)
        (void)json_object_set_new(tree, "unbounded_by", json_string(quote.unbounded_by));
    return tree;
}

void quote_answer(struct exchange *x)
{
    json_t *candidates = json_array();
    json_t *tree = json_pack("{s:s, s:o}", "object", "quote", "endpoint",
                             json_text(endpoint_row(x->endpoint)->name));

    if (x->class)
        (void)json_object_set_new(tree, "class", json_text(x->class->name));
    for (uint32_t i = 0; i < x->candidate_count; i++)
        (void)json_array_append_new(candidates, candidate_tree(x, x->candidates[i]));
    (void)json_object_update(tree, json_array_get(candidates, 0));
    (void)json_object_set_new(tree, "candidates", candidates);

    char *text = tree ? json_dumps(tree, JSON_COMPACT) : NULL;

    json_decref(tree);
    if (text)
        reply_body(x, 200, SPAN("application/json"), span_of(text));
    else
        reply_error(x, ERR_NO_MEMORY, NULL, NULL);
    free(text);
}
