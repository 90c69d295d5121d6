/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_params.c: see usage_params.h.
 *
 * For:       query strings of the usage endpoints.
 * Called by: usage_api.c.
 * Knows not: HTTP, ledgers, who asks. */
#include "gateway/usage_params.h"

#define US_PER_S INT64_C(1000000)
#define LAST_S INT64_C(253402300799) /* the end of the year 9999 */
#define PAGE_PREFIX "page_"

/* ---- names and values ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Percent-encoding and plus signs undone. Errors: ERR_BAD_VALUE (malformed, or a NUL),
 * ERR_NO_MEMORY. */
static enum err decode(struct span text, struct arena *arena, struct span *out_text)
{
    char *to = arena_take(arena, text.size + 1);
    size_t size = 0;

    if (to == NULL)
        return ERR_NO_MEMORY;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i] == '+' ? ' ' : text.data[i];
        if (c == '%') {
            const int high = i + 2 < text.size ? hex_value(text.data[i + 1]) : -1;
            const int low = i + 2 < text.size ? hex_value(text.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return ERR_BAD_VALUE;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0')
            return ERR_BAD_VALUE;
        to[size++] = c;
    }
    to[size] = '\0';
    *out_text = (struct span){to, size};
    return OK;
}

/* Cuts the part before a separator off text; the separator goes, too. */
static struct span cut(struct span *text, char separator)
{
    const char *end = text->size > 0 ? memchr(text->data, separator, text->size) : NULL;
    const struct span part = {text->data, end ? (size_t)(end - text->data) : text->size};

    *text = end ? span_from(*text, part.size + 1) : (struct span){NULL, 0};
    return part;
}

bool usage_params_next(struct span *query, struct arena *arena, struct span *out_name,
                       struct span *out_value, enum err *out_err)
{
    *out_err = OK;
    while (query->size > 0) {
        struct span value = cut(query, '&');
        struct span name;
        if (value.size == 0)
            continue;
        name = cut(&value, '=');
        *out_err = decode(name, arena, out_name);
        if (*out_err == OK)
            *out_err = decode(value, arena, out_value);
        return *out_err == OK;
    }
    return false;
}

/* ---- one parameter ---- */

struct reading {
    enum usage_subject subject;
    struct usage_params *params;
    struct span start_time, end_time, bucket_width, limit, page, batch; /* {NULL, 0}: not said */
    struct usage_refusal *refusal;
};

static enum err refuse(struct reading *reading, struct span param, const char *why)
{
    *reading->refusal = (struct usage_refusal){param, why};
    return ERR_BAD_VALUE;
}

static enum err read_group(struct reading *reading, struct span value)
{
    static const struct {
        struct span name;
        enum usage_group group;
        bool of_completions, of_costs;
    } groups[] = {
        {{"project_id", 10}, GROUP_PROJECT, true, true},
        {{"user_id", 7}, GROUP_USER, true, false},
        {{"api_key_id", 10}, GROUP_KEY, true, true},
        {{"model", 5}, GROUP_MODEL, true, false},
        {{"batch", 5}, GROUP_BATCH, true, false},
        {{"service_tier", 12}, GROUP_TIER, true, false},
        {{"line_item", 9}, GROUP_LINE_ITEM, false, true},
    };

    while (value.size > 0) {
        const struct span name = cut(&value, ',');
        size_t i = 0;
        while (i < sizeof(groups) / sizeof(groups[0]) &&
               !(span_equal(groups[i].name, name) &&
                 (reading->subject == USAGE_COSTS ? groups[i].of_costs : groups[i].of_completions)))
            i++;
        if (i == sizeof(groups) / sizeof(groups[0]))
            return refuse(reading, SPAN("group_by"),
                          reading->subject == USAGE_COSTS
                              ? "expected project_id, line_item or api_key_id"
                              : "expected project_id, user_id, api_key_id, model, batch or "
                                "service_tier");
        reading->params->grouped[groups[i].group] = true;
    }
    return OK;
}

static enum err add_value(struct reading *reading, struct usage_values *values, struct span name,
                          struct span value)
{
    if (values->count == USAGE_VALUES_MAX)
        return refuse(reading, name, "expected at most 64 values");
    values->values[values->count++] = value;
    return OK;
}

/* Can an error say it back? Names of ours can; others may be any bytes. */
static bool is_plain(struct span name)
{
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] < 0x20 || (unsigned char)name.data[i] > 0x7e)
            return false;
    return true;
}

static enum err take(struct reading *reading, struct span name, struct span value)
{
    struct usage_params *params = reading->params;
    const bool is_costs = reading->subject == USAGE_COSTS;
    const struct {
        struct span name;
        struct span *once;
        struct usage_values *many;
    } known[] = {
        {SPAN("start_time"), &reading->start_time, NULL},
        {SPAN("end_time"), &reading->end_time, NULL},
        {SPAN("bucket_width"), &reading->bucket_width, NULL},
        {SPAN("limit"), &reading->limit, NULL},
        {SPAN("page"), &reading->page, NULL},
        {SPAN("batch"), is_costs ? NULL : &reading->batch, NULL},
        {SPAN("models"), NULL, is_costs ? NULL : &params->models},
        {SPAN("user_ids"), NULL, is_costs ? NULL : &params->users},
        {SPAN("project_ids"), NULL, &params->projects},
        {SPAN("api_key_ids"), NULL, &params->keys},
    };

    if (name.size > 2 && span_equal(span_from(name, name.size - 2), SPAN("[]")))
        name.size -= 2;
    if (span_equal(name, SPAN("group_by")))
        return read_group(reading, value);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!span_equal(name, known[i].name))
            continue;
        if (known[i].many)
            return add_value(reading, known[i].many, name, value);
        if (known[i].once == NULL)
            break;
        if (known[i].once->data)
            return refuse(reading, name, "expected once");
        *known[i].once = value;
        return OK;
    }
    return refuse(reading, is_plain(name) ? name : (struct span){NULL, 0},
                  "this parameter is not known here");
}

/* ---- what they say together ---- */

static int64_t bucket_start(const struct usage_params *params, int64_t at_us)
{
    return at_us - at_us % params->width_us; /* never before 1970 */
}

int64_t usage_params_bucket_end(const struct usage_params *params, int64_t at_us)
{
    return bucket_start(params, at_us) + params->width_us;
}

static enum err read_moment(struct reading *reading, struct span name, struct span text,
                            int64_t *out_us)
{
    int64_t seconds;

    if (!span_to_int64(text, &seconds) || seconds > LAST_S)
        return refuse(reading, name, "expected whole seconds since 1970");
    *out_us = seconds * US_PER_S;
    return OK;
}

static enum err read_width(struct reading *reading)
{
    static const struct {
        struct span name;
        int64_t seconds, pages, pages_max;
    } widths[] = {
        {{"1d", 2}, 86400, 7, 31},
        {{"1h", 2}, 3600, 24, 168},
        {{"1m", 2}, 60, 60, 1440},
    };
    const bool is_costs = reading->subject == USAGE_COSTS;
    const struct span asked = reading->bucket_width.data ? reading->bucket_width : SPAN("1d");

    for (size_t i = 0; i < (is_costs ? 1 : sizeof(widths) / sizeof(widths[0])); i++) {
        const int64_t most = is_costs ? 180 : widths[i].pages_max;
        if (!span_equal(asked, widths[i].name))
            continue;
        reading->params->width_us = widths[i].seconds * US_PER_S;
        reading->params->limit = widths[i].pages;
        if (reading->limit.data && (!span_to_int64(reading->limit, &reading->params->limit) ||
                                    reading->params->limit < 1 || reading->params->limit > most))
            return refuse(reading, SPAN("limit"),
                          "expected a whole number from 1 on, at most 31 days, 168 hours or 1440 "
                          "minutes (costs: 180 days)");
        return OK;
    }
    return refuse(reading, SPAN("bucket_width"),
                  is_costs ? "expected 1d" : "expected 1m, 1h or 1d");
}

static enum err read_times(struct reading *reading, int64_t now_us)
{
    struct usage_params *params = reading->params;
    enum err err;

    if (reading->start_time.data == NULL)
        return refuse(reading, SPAN("start_time"), "expected whole seconds since 1970");
    err = read_moment(reading, SPAN("start_time"), reading->start_time, &params->start_us);
    if (err != OK)
        return err;
    if (params->width_us == 60 * US_PER_S)
        params->start_us = bucket_start(params, params->start_us);
    params->end_us =
        now_us < params->start_us ? params->start_us : usage_params_bucket_end(params, now_us);
    if (reading->end_time.data) {
        err = read_moment(reading, SPAN("end_time"), reading->end_time, &params->end_us);
        if (err == OK && params->end_us <= params->start_us)
            err = refuse(reading, SPAN("end_time"), "expected a moment behind start_time");
    }
    return err;
}

static enum err read_page(struct reading *reading)
{
    struct usage_params *params = reading->params;
    static const struct span prefix = {PAGE_PREFIX, sizeof(PAGE_PREFIX) - 1};
    int64_t seconds;

    params->page_us = params->start_us;
    if (reading->page.data == NULL)
        return OK;
    if (!span_starts(reading->page, prefix) ||
        !span_to_int64(span_from(reading->page, prefix.size), &seconds) || seconds > LAST_S ||
        seconds * US_PER_S <= params->start_us || seconds * US_PER_S >= params->end_us ||
        seconds * US_PER_S % params->width_us != 0)
        return refuse(reading, SPAN("page"), "expected next_page of the page before");
    params->page_us = seconds * US_PER_S;
    return OK;
}

static enum err read_batch(struct reading *reading)
{
    reading->params->batch_alone = span_equal(reading->batch, SPAN("true"));
    if (reading->batch.data && !reading->params->batch_alone &&
        !span_equal(reading->batch, SPAN("false")))
        return refuse(reading, SPAN("batch"), "expected true or false");
    return OK;
}

enum err usage_params_read(enum usage_subject subject, struct span query, int64_t now_us,
                           struct arena *arena, struct usage_params *out_params,
                           struct usage_refusal *out_refusal)
{
    struct reading reading = {.subject = subject, .params = out_params, .refusal = out_refusal};
    struct span name, value;
    enum err err = OK;

    memset(out_params, 0, sizeof(*out_params));
    *out_refusal = (struct usage_refusal){{NULL, 0}, "the query string is malformed"};
    while (err == OK && usage_params_next(&query, arena, &name, &value, &err))
        err = take(&reading, name, value);
    if (err == OK)
        err = read_width(&reading);
    if (err == OK)
        err = read_times(&reading, now_us);
    if (err == OK)
        err = read_page(&reading);
    return err == OK ? read_batch(&reading) : err;
}
