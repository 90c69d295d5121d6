/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/exposition.c: see exposition.h.
 *
 * For:       one table of names, and the sum over all series of each.
 * Called by: scrape.c.
 * Knows not: sockets, which replica it is.
 *
 * A server with several engines has one series for each: what is counted is summed, a share of KV
 * memory is the largest, since the fullest engine is the one that turns work away. Sources of the
 * names: the servers' own metrics modules and documents, read in 2026. */
#include "gateway/exposition.h"

#include <math.h>
#include <stdlib.h>

#define WHOLE_MAX 9e15 /* a double tells whole numbers apart up to 2^53 */

enum together { SUM, LARGEST };

/* One name of a quantity; scale: what its numbers are multiplied with. */
static const struct name_row {
    struct span name;
    enum load_quantity quantity;
    uint32_t rank; /* 0 is the newest name */
    enum together together;
    double scale;
} names[] = {
#define NAME(text, quantity, rank, together, scale)                                                \
    {                                                                                              \
        {(text), sizeof(text) - 1}, LOAD_##quantity, (rank), (together), (scale)                   \
    }
    /* vLLM */
    NAME("vllm:num_requests_running", RUNNING, 0, SUM, 1),
    NAME("vllm:num_requests_waiting", WAITING, 0, SUM, 1),
    NAME("vllm:kv_cache_usage_perc", KV_PERMILLE, 0, LARGEST, 1000),
    NAME("vllm:gpu_cache_usage_perc", KV_PERMILLE, 1, LARGEST, 1000),
    NAME("vllm:prefix_cache_queries_total", PREFIX_QUERIES, 0, SUM, 1),
    NAME("vllm:gpu_prefix_cache_queries_total", PREFIX_QUERIES, 1, SUM, 1),
    NAME("vllm:prefix_cache_hits_total", PREFIX_HITS, 0, SUM, 1),
    NAME("vllm:gpu_prefix_cache_hits_total", PREFIX_HITS, 1, SUM, 1),
    NAME("vllm:prompt_tokens_total", PROMPT_TOKENS, 0, SUM, 1),
    NAME("vllm:generation_tokens_total", GENERATION_TOKENS, 0, SUM, 1),
    NAME("vllm:num_preemptions_total", PREEMPTIONS, 0, SUM, 1),
    /* SGLang */
    NAME("sglang:num_running_reqs", RUNNING, 0, SUM, 1),
    NAME("sglang:num_queue_reqs", WAITING, 0, SUM, 1),
    NAME("sglang:token_usage", KV_PERMILLE, 0, LARGEST, 1000),
    NAME("sglang:cached_tokens_total", PREFIX_HITS, 0, SUM, 1),
    NAME("sglang:prompt_tokens_total", PROMPT_TOKENS, 0, SUM, 1),
    NAME("sglang:generation_tokens_total", GENERATION_TOKENS, 0, SUM, 1),
    NAME("sglang:num_retracted_reqs", PREEMPTIONS, 0, SUM, 1),
    NAME("sglang:max_total_num_tokens", KV_TOKENS, 0, SUM, 1),
    /* llama.cpp */
    NAME("llamacpp:requests_processing", RUNNING, 0, SUM, 1),
    NAME("llamacpp:requests_deferred", WAITING, 0, SUM, 1),
    NAME("llamacpp:kv_cache_usage_ratio", KV_PERMILLE, 0, LARGEST, 1000),
    NAME("llamacpp:prompt_tokens_total", PROMPT_TOKENS, 0, SUM, 1), /* computed ones alone */
    NAME("llamacpp:prompt_tokens_cached_total", PREFIX_HITS, 0, SUM, 1),
    NAME("llamacpp:tokens_predicted_total", GENERATION_TOKENS, 0, SUM, 1),
    /* TGI: tokens are the sums of its histograms */
    NAME("tgi_batch_current_size", RUNNING, 0, SUM, 1),
    NAME("tgi_queue_size", WAITING, 0, SUM, 1),
    NAME("tgi_request_input_length_sum", PROMPT_TOKENS, 0, SUM, 1),
    NAME("tgi_request_generated_tokens_sum", GENERATION_TOKENS, 0, SUM, 1),
#undef NAME
};

void exposition_init(struct exposition *exposition)
{
    exposition->line_size = 0;
    exposition->too_long = false;
    exposition->lines = 0;
    exposition->block_tokens = exposition->blocks = NAN;
    for (size_t i = 0; i < LOAD_QUANTITIES; i++)
        for (size_t k = 0; k < EXPOSITION_NAMES_MAX; k++)
            exposition->values[i][k] = NAN;
}

/* ---- one line ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static struct span skip_blanks(struct span text)
{
    while (text.size && is_blank(text.data[0]))
        text = span_from(text, 1);
    return text;
}

/* Where the labels of a sample end, behind the brace; 0: they do not. Values are quoted, with
 * escapes. */
static size_t labels_end(struct span text)
{
    bool quoted = false;
    for (size_t i = 1; i < text.size; i++) {
        if (quoted && text.data[i] == '\\')
            i++;
        else if (text.data[i] == '"')
            quoted = !quoted;
        else if (text.data[i] == '}' && !quoted)
            return i + 1;
    }
    return 0;
}

/* A finite number that is not negative, with white space or nothing behind it. */
static bool read_number(struct span text, double *out_number)
{
    char digits[64];
    char *end;
    size_t size = 0;
    while (size < text.size && !is_blank(text.data[size]))
        size++;
    if (size == 0 || size >= sizeof digits)
        return false;
    memcpy(digits, text.data, size);
    digits[size] = '\0';
    *out_number = strtod(digits, &end);
    return end == digits + size && isfinite(*out_number) && *out_number >= 0;
}

/* The number in label="123" of these labels; false: there is none. */
static bool label_number(struct span labels, struct span label, double *out_number)
{
    for (size_t i = 1; i + label.size + 2 < labels.size; i++) {
        if ((labels.data[i - 1] != '{' && labels.data[i - 1] != ',' && labels.data[i - 1] != ' ') ||
            memcmp(labels.data + i, label.data, label.size) != 0 ||
            memcmp(labels.data + i + label.size, "=\"", 2) != 0)
            continue;
        const struct span rest = span_from(labels, i + label.size + 2);
        const char *quote = memchr(rest.data, '"', rest.size);
        return quote &&
               read_number((struct span){rest.data, (size_t)(quote - rest.data)}, out_number);
    }
    return false;
}

static void add(double *into, double number, enum together together)
{
    if (isnan(*into))
        *into = number;
    else if (together == SUM)
        *into += number;
    else if (number > *into)
        *into = number;
}

/* How large the KV cache is, as vLLM and SGLang say it: in labels of a metric that is always 1. */
static void read_cache_config(struct exposition *exposition, struct span labels)
{
    double tokens, blocks;
    if ((label_number(labels, SPAN("block_size"), &tokens) &&
         label_number(labels, SPAN("num_gpu_blocks"), &blocks)) ||
        (label_number(labels, SPAN("page_size"), &tokens) &&
         label_number(labels, SPAN("num_pages"), &blocks))) {
        exposition->block_tokens = tokens;
        add(&exposition->blocks, blocks, SUM);
    }
}

static void read_sample(struct exposition *exposition, struct span name, struct span labels,
                        struct span value)
{
    double number;
    if (span_equal(name, SPAN("vllm:cache_config_info")) ||
        span_equal(name, SPAN("sglang:cache_config_info"))) {
        read_cache_config(exposition, labels);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!span_equal(names[i].name, name))
            continue;
        if (!read_number(value, &number))
            return;
        add(&exposition->values[names[i].quantity][names[i].rank], number * names[i].scale,
            names[i].together);
        exposition->lines++;
        return;
    }
}

static void read_line(struct exposition *exposition, struct span line)
{
    struct span labels = {NULL, 0};
    size_t size = 0;
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    line = skip_blanks(line);
    if (line.size == 0 || line.data[0] == '#')
        return;
    while (size < line.size && line.data[size] != '{' && !is_blank(line.data[size]))
        size++;
    const struct span name = {line.data, size};
    struct span rest = skip_blanks(span_from(line, size));
    if (rest.size && rest.data[0] == '{') {
        const size_t end = labels_end(rest);
        if (end == 0)
            return;
        labels = (struct span){rest.data, end};
        rest = skip_blanks(span_from(rest, end));
    }
    read_sample(exposition, name, labels, rest);
}

/* ---- the page ---- */

static void keep(struct exposition *exposition, struct span part)
{
    if (part.size > sizeof exposition->line - exposition->line_size) {
        exposition->too_long = true;
        exposition->line_size = 0;
        return;
    }
    if (part.size)
        memcpy(exposition->line + exposition->line_size, part.data, part.size);
    exposition->line_size += part.size;
}

static void end_line(struct exposition *exposition, struct span rest)
{
    if (!exposition->too_long && exposition->line_size == 0) {
        if (rest.size <= EXPOSITION_LINE_BYTES)
            read_line(exposition, rest);
    } else if (!exposition->too_long) {
        keep(exposition, rest);
        if (!exposition->too_long)
            read_line(exposition, (struct span){exposition->line, exposition->line_size});
    }
    exposition->line_size = 0;
    exposition->too_long = false;
}

void exposition_feed(struct exposition *exposition, struct span piece)
{
    while (piece.size) {
        const char *end = memchr(piece.data, '\n', piece.size);
        if (end == NULL) {
            if (!exposition->too_long)
                keep(exposition, piece);
            return;
        }
        const size_t size = (size_t)(end - piece.data);
        end_line(exposition, (struct span){piece.data, size});
        piece = span_from(piece, size + 1);
    }
}

/* A number of the page as a whole one; -1: not said, or too large to be true. */
static int64_t whole(double number)
{
    return isnan(number) || number > WHOLE_MAX ? -1 : (int64_t)(number + 0.5);
}

bool exposition_end(struct exposition *exposition, struct load *out_load)
{
    end_line(exposition, (struct span){"", 0});
    *out_load = LOAD_UNKNOWN;
    for (size_t i = 0; i < LOAD_QUANTITIES; i++)
        for (size_t k = EXPOSITION_NAMES_MAX; k-- > 0;)
            if (!isnan(exposition->values[i][k]))
                out_load->values[i] = whole(exposition->values[i][k]);
    if (!isnan(exposition->blocks) && out_load->values[LOAD_KV_TOKENS] < 0)
        out_load->values[LOAD_KV_TOKENS] = whole(exposition->blocks * exposition->block_tokens);
    return exposition->lines > 0;
}
