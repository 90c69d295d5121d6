/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tally.c: see tally.h.
 *
 * For:       what many documents say together, as disjoint classes of tokens.
 * Called by: relay.c.
 * Knows not: bytes, who pays. */
#include "gateway/tally.h"

/* Takes over what is known. */
static void merge(int64_t *into, int64_t from)
{
    if (from >= 0)
        *into = from;
}

static bool says_nothing(const struct tap_numbers *numbers)
{
    return numbers->prompt < 0 && numbers->completion < 0 && numbers->total < 0 &&
           numbers->cached < 0 && numbers->cache_write < 0 && numbers->reasoning < 0;
}

void tally_init(struct tally *tally)
{
    const struct tap_numbers none = {-1, -1, -1, -1, -1, -1, false};

    *tally = (struct tally){.total = none, .shared = none};
    for (size_t i = 0; i < TAP_CHOICES_MAX; i++)
        tally->completion[i] = tally->reasoning[i] = -1;
}

/* A total: of the request, whatever came before. */
static void add_total(struct tally *tally, const struct tap_numbers *numbers)
{
    tally->has_total = true;
    tally->total.suspect = numbers->suspect;
    merge(&tally->total.prompt, numbers->prompt);
    merge(&tally->total.completion, numbers->completion);
    merge(&tally->total.total, numbers->total);
    merge(&tally->total.cached, numbers->cached);
    merge(&tally->total.cache_write, numbers->cache_write);
    merge(&tally->total.reasoning, numbers->reasoning);
}

/* Numbers of one choice; the prompt's are shared. */
static void add_choice(struct tally *tally, const struct tap_numbers *numbers, int32_t choice)
{
    tally->has_running = true;
    tally->suspect = tally->suspect || numbers->suspect;
    merge(&tally->shared.prompt, numbers->prompt);
    merge(&tally->shared.cached, numbers->cached);
    merge(&tally->shared.cache_write, numbers->cache_write);
    if (choice >= TAP_CHOICES_MAX) {
        tally->suspect = true; /* its tokens are not in the sum */
        return;
    }
    merge(&tally->completion[choice], numbers->completion);
    merge(&tally->reasoning[choice], numbers->reasoning);
}

static int32_t choice_of(const struct tap *tap)
{
    return tap->choice_index < 0 ? 0 : tap->choice_index;
}

/* What a message has written when it starts is no more than a beginning: it stays unknown. */
static void add_running(struct tally *tally, const struct tap *tap)
{
    struct tap_numbers numbers = tap->numbers;

    if (tap->started)
        numbers.completion = numbers.reasoning = -1;
    add_choice(tally, &numbers, choice_of(tap));
}

/* Is the usage of this document that of the whole reply? */
static bool is_closing(const struct tally *tally, const struct tap *tap)
{
    if (tally->whole_body)
        return true;
    if (tap->shape == TAP_RESPONSES)
        return tap->ended;
    if (tap->shape == TAP_MESSAGES)
        return tap->finished; /* message_delta; message_stop has none */
    return tap->plain || tap->choices != 1;
}

void tally_add(struct tally *tally, const struct tap *tap)
{
    tally->text_bytes += tap->text_bytes;
    tally->pieces += tap->text_bytes > 0 && !tally->whole_body;
    if (tally->per_choice && tap->choices == 1 && choice_of(tap) < TAP_CHOICES_MAX) {
        tally->last = choice_of(tap);
        tally->seen |= 1u << tally->last;
    }
    if (!tap->has_usage || (says_nothing(&tap->numbers) && !tap->numbers.suspect))
        return;
    tally->beside = tap->shape == TAP_MESSAGES;
    if (!is_closing(tally, tap))
        add_running(tally, tap);
    else if (tally->per_choice && tally->seen != 0 && !tally->whole_body)
        add_choice(tally, &tap->numbers, tally->last);
    else
        add_total(tally, &tap->numbers);
    if (tally->per_choice && tally->whole_body && tap->choices > 1 && tap->numbers.completion > 0)
        tally->total.suspect = true;
}

/* Sum of what is known; -1: nothing is. */
static int64_t sum_of(const int64_t numbers[TAP_CHOICES_MAX])
{
    int64_t sum = -1;

    for (size_t i = 0; i < TAP_CHOICES_MAX; i++)
        if (numbers[i] >= 0)
            sum = (sum < 0 ? 0 : sum) + numbers[i];
    return sum;
}

/* Takes a class out of what is left of a whole; false: there was not that much left. */
static bool take_class(int64_t *left, int64_t *class)
{
    if (*class < 0)
        return true;
    if (*class > *left) {
        *class = *left;
        *left = 0;
        return false;
    }
    *left -= *class;
    return true;
}

/* Prompt and completion as disjoint classes; false: they contradict each other. */
static bool split_classes(const struct tap_numbers *numbers, struct usage *out_usage)
{
    bool sound = true;

    *out_usage = (struct usage){
        .input = numbers->prompt,
        .cached_input = numbers->cached,
        .cache_write = numbers->cache_write,
        .output = numbers->completion,
        .reasoning = numbers->reasoning,
    };
    if (numbers->prompt >= 0) {
        sound = take_class(&out_usage->input, &out_usage->cached_input);
        sound = take_class(&out_usage->input, &out_usage->cache_write) && sound;
    }
    if (numbers->completion >= 0)
        sound = take_class(&out_usage->output, &out_usage->reasoning) && sound;
    return sound;
}

/* All numbers as they stand, the total's before running ones. */
static struct tap_numbers numbers_of(const struct tally *tally)
{
    struct tap_numbers numbers = tally->shared;

    numbers.completion = sum_of(tally->completion);
    numbers.reasoning = sum_of(tally->reasoning);
    if (tally->has_total) {
        merge(&numbers.prompt, tally->total.prompt);
        merge(&numbers.completion, tally->total.completion);
        merge(&numbers.cached, tally->total.cached);
        merge(&numbers.cache_write, tally->total.cache_write);
        merge(&numbers.reasoning, tally->total.reasoning);
        numbers.total = tally->total.total;
    }
    if (tally->beside && numbers.prompt >= 0) {
        numbers.prompt += numbers.cached > 0 ? numbers.cached : 0;
        numbers.prompt += numbers.cache_write > 0 ? numbers.cache_write : 0;
    }
    /* Some servers leave out a number that follows from the others. */
    if (numbers.completion < 0 && numbers.prompt >= 0 && numbers.total >= numbers.prompt)
        numbers.completion = numbers.total - numbers.prompt;
    else if (numbers.prompt < 0 && numbers.completion >= 0 && numbers.total >= numbers.completion)
        numbers.prompt = numbers.total - numbers.completion;
    return numbers;
}

/* More than any call can have: no model reads or writes so many tokens. */
static bool is_beyond_belief(const struct tap_numbers *numbers)
{
    return numbers->prompt > INT32_MAX || numbers->completion > INT32_MAX;
}

/* Is a number that counts suspect? A total that is not whole leaves some to running usage. */
static bool is_suspect(const struct tally *tally)
{
    if (!tally->has_total)
        return tally->suspect;
    return tally->total.suspect ||
           (tally->suspect && (tally->total.prompt < 0 || tally->total.completion < 0));
}

/* Does what is known close the reply? */
static bool is_closed(const struct tally *tally)
{
    if (tally->has_total || tally->seen == 0)
        return tally->has_total;
    for (uint32_t i = 0; i < TAP_CHOICES_MAX; i++)
        if ((tally->seen >> i & 1u) != 0 && tally->completion[i] < 0)
            return false;
    return true;
}

enum usage_source tally_usage(const struct tally *tally, struct usage *out_usage,
                              uint32_t *out_flags)
{
    const struct tap_numbers numbers = numbers_of(tally);

    if (!split_classes(&numbers, out_usage) || is_suspect(tally) || is_beyond_belief(&numbers))
        *out_flags |= FLAG_USAGE_SUSPECT;
    if (numbers.prompt < 0 && numbers.completion < 0)
        return SOURCE_NONE;
    return is_closed(tally) ? SOURCE_REPORTED : SOURCE_RUNNING;
}
