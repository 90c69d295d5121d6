/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_page.c: see usage_page.h.
 *
 * For:       buckets one behind the other, empty ones too, and in each the groups asked for.
 * Called by: usage_api.c.
 * Knows not: HTTP, who waits for it.
 *
 * The books are asked by the columns of group_by and, behind these, by those that decide whether a
 * line counts: lines of one group follow one another and are summed up here. */
#include "gateway/usage_page.h"

#include "config/base/log.h"

#define US_PER_S INT64_C(1000000)
#define TEXT_BYTES_MAX 2048u
#define TEXTS_BYTES_MAX ((size_t)64 << 20)
#define NO_COLUMN BOOKS_BY_MAX

struct page {
    enum usage_subject subject;
    const struct usage_params *params;
    struct span tenant;
    FILE *out;
    struct books_ask ask;
    uint32_t visible;                    /* of ask.by, those of group_by */
    uint32_t key, model, tier, endpoint; /* where in ask.by, or NO_COLUMN */
    int64_t bucket_us; /* of the bucket that is open or comes next; the page's end: none */
    bool bucket_open;
    bool has_group; /* a group is being summed up */
    struct books_line group;
    uint32_t bucket_results, results;
    struct arena texts;
    enum err err;
};

/* ---- what is asked ---- */

static uint32_t add_column(struct page *page, enum books_column column)
{
    for (uint32_t i = 0; i < page->ask.by_count; i++)
        if (page->ask.by[i] == column)
            return i;
    page->ask.by[page->ask.by_count] = column;
    return page->ask.by_count++;
}

/* One value is the ledger's to look for; of several, each line is asked about. */
static void add_filter(struct page *page, const struct usage_values *values,
                       enum books_column column, uint32_t *place)
{
    if (values->count == 1)
        page->ask.filters[page->ask.filter_count++] =
            (struct books_filter){column, values->values[0]};
    else if (values->count > 1)
        *place = add_column(page, column);
}

static int64_t page_end(const struct usage_params *params)
{
    const int64_t end_us =
        usage_params_bucket_end(params, params->page_us) + (params->limit - 1) * params->width_us;

    return end_us < params->end_us ? end_us : params->end_us;
}

static void lay_out(struct page *page)
{
    const struct usage_params *params = page->params;
    const bool *grouped = params->grouped;

    page->ask = (struct books_ask){.period = {params->page_us, page_end(params)},
                                   .zone = zone_utc(),
                                   .bucketed = true,
                                   .filters = {{BY_TENANT, page->tenant}},
                                   .filter_count = 1};
    if (params->width_us == 60 * US_PER_S)
        page->ask.bucket_us = params->width_us;
    else
        page->ask.bucket = params->width_us == 3600 * US_PER_S ? PERIOD_HOUR : PERIOD_DAY;
    page->key = grouped[GROUP_KEY] ? add_column(page, BY_KEY) : NO_COLUMN;
    page->model =
        grouped[GROUP_MODEL] || grouped[GROUP_LINE_ITEM] ? add_column(page, BY_MODEL) : NO_COLUMN;
    page->tier = grouped[GROUP_TIER] ? add_column(page, BY_TIER) : NO_COLUMN;
    page->visible = page->ask.by_count;
    page->endpoint = NO_COLUMN;
    if (page->subject == USAGE_COMPLETIONS)
        page->endpoint = add_column(page, BY_ENDPOINT);
    add_filter(page, &params->models, BY_MODEL, &page->model);
    add_filter(page, &params->keys, BY_KEY, &page->key);
}

/* ---- texts ---- */

static void put_text(struct span text, FILE *out)
{
    char escaped[6 * TEXT_BYTES_MAX];
    const struct span shown = {text.data, text.size < TEXT_BYTES_MAX ? text.size : TEXT_BYTES_MAX};

    (void)fputc('"', out);
    (void)fwrite(escaped, 1, log_escape(shown, escaped, sizeof(escaped)), out);
    (void)fputc('"', out);
}

/* ,"name":"text", or null when it was not asked to group by it. */
static void put_member(const char *name, bool shown, struct span text, FILE *out)
{
    (void)fprintf(out, ",\"%s\":", name);
    if (shown)
        put_text(text, out);
    else
        (void)fputs("null", out);
}

static struct span group_text(const struct page *page, uint32_t place)
{
    const struct span text = place < page->visible ? page->group.by[place] : SPAN("");

    return text.data ? text : SPAN("");
}

/* ---- results ---- */

static void put_count(const char *before, money_sum count, FILE *out)
{
    char text[MONEY_TEXT_BYTES];

    (void)money_print_pusd(count, text);
    (void)fprintf(out, "%s%s", before, text);
}

static void put_completions(const struct page *page)
{
    const struct books_line *group = &page->group;
    const bool *grouped = page->params->grouped;
    const struct span tier = group_text(page, page->tier);
    FILE *out = page->out;

    put_count("{\"object\":\"organization.usage.completions.result\",\"input_tokens\":",
              group->usage.input + group->usage.cached_input + group->usage.cache_write, out);
    put_count(",\"output_tokens\":", group->usage.output + group->usage.reasoning, out);
    put_count(",\"input_cached_tokens\":", group->usage.cached_input, out);
    put_count(",\"input_audio_tokens\":0,\"output_audio_tokens\":0,\"num_model_requests\":",
              group->billed_calls, out);
    put_member("project_id", grouped[GROUP_PROJECT], page->tenant, out);
    (void)fputs(",\"user_id\":null", out);
    put_member("api_key_id", grouped[GROUP_KEY], group_text(page, page->key), out);
    put_member("model", grouped[GROUP_MODEL], group_text(page, page->model), out);
    (void)fprintf(out, ",\"batch\":%s", grouped[GROUP_BATCH] ? "false" : "null");
    put_member("service_tier", grouped[GROUP_TIER], tier.size > 0 ? tier : SPAN("default"), out);
    (void)fputc('}', out);
}

static void put_costs(const struct page *page)
{
    const bool *grouped = page->params->grouped;
    char usd[MONEY_TEXT_BYTES];

    (void)money_print_usd(page->group.cost_pusd, usd);
    (void)fprintf(page->out,
                  "{\"object\":\"organization.costs.result\",\"amount\":{\"value\":%s,"
                  "\"currency\":\"usd\"}",
                  usd);
    put_member("line_item", grouped[GROUP_LINE_ITEM], group_text(page, page->model), page->out);
    put_member("project_id", grouped[GROUP_PROJECT], page->tenant, page->out);
    put_member("api_key_id", grouped[GROUP_KEY], group_text(page, page->key), page->out);
    (void)fputc('}', page->out);
}

/* Writes the group that has been summed up. */
static void end_group(struct page *page)
{
    const bool is_empty = page->group.billed_calls == 0 && page->group.cost_pusd == 0;

    if (page->has_group && !is_empty) {
        if (page->bucket_results++ > 0)
            (void)fputc(',', page->out);
        if (page->subject == USAGE_COSTS)
            put_costs(page);
        else
            put_completions(page);
        if (++page->results > USAGE_RESULTS_MAX)
            page->err = ERR_TOO_LARGE;
    }
    page->has_group = false;
}

/* ---- buckets ---- */

static void open_bucket(struct page *page)
{
    int64_t end_us = usage_params_bucket_end(page->params, page->bucket_us);

    if (end_us > page->params->end_us)
        end_us = page->params->end_us;
    if (page->bucket_us > page->params->page_us)
        (void)fputc(',', page->out);
    (void)fprintf(page->out,
                  "{\"object\":\"bucket\",\"start_time\":%lld,\"end_time\":%lld,\"results\":[",
                  (long long)(page->bucket_us / US_PER_S), (long long)(end_us / US_PER_S));
    page->bucket_open = true;
    page->bucket_results = 0;
}

/* Ends what is open and goes on to the bucket of a moment; empty ones in between are written. */
static void go_to_bucket(struct page *page, int64_t at_us)
{
    const int64_t last_us = page->ask.period.until_us;

    while (page->bucket_us < last_us) {
        const int64_t end_us = usage_params_bucket_end(page->params, page->bucket_us);
        if (!page->bucket_open)
            open_bucket(page);
        if (at_us < end_us)
            return;
        end_group(page);
        (void)fputs("]}", page->out);
        page->bucket_open = false;
        page->bucket_us = end_us < last_us ? end_us : last_us;
    }
}

/* ---- lines ---- */

static bool is_among(const struct usage_values *values, struct span value)
{
    for (uint32_t i = 0; i < values->count; i++)
        if (span_equal(values->values[i], value))
            return true;
    return values->count <= 1; /* all, or the ledger has looked */
}

static bool counts(const struct page *page, const struct books_line *line)
{
    static const struct span chats[] = {
        {"chat", 4}, {"completions", 11}, {"responses", 9}, {"messages", 8}};
    const struct usage_params *params = page->params;
    bool is_chat = page->endpoint == NO_COLUMN;

    for (size_t i = 0; !is_chat && i < sizeof(chats) / sizeof(chats[0]); i++)
        is_chat = span_equal(line->by[page->endpoint], chats[i]);
    return is_chat &&
           (page->model == NO_COLUMN || is_among(&params->models, line->by[page->model])) &&
           (page->key == NO_COLUMN || is_among(&params->keys, line->by[page->key]));
}

static bool is_same_group(const struct page *page, const struct books_line *line)
{
    for (uint32_t i = 0; i < page->visible; i++)
        if (!span_equal(page->group.by[i], line->by[i]))
            return false;
    return page->has_group;
}

static enum err begin_group(struct page *page, const struct books_line *line)
{
    page->group = *line;
    for (uint32_t i = 0; i < page->visible; i++) {
        page->group.by[i] = arena_copy(&page->texts, line->by[i]);
        if (page->group.by[i].data == NULL)
            return ERR_NO_MEMORY;
    }
    page->has_group = true;
    return OK;
}

static enum err add_to_group(struct page *page, const struct books_line *line)
{
    const struct books_tokens *from = &line->usage;
    struct books_tokens *to = &page->group.usage;
    const bool over =
        __builtin_add_overflow(to->input, from->input, &to->input) ||
        __builtin_add_overflow(to->cached_input, from->cached_input, &to->cached_input) ||
        __builtin_add_overflow(to->cache_write, from->cache_write, &to->cache_write) ||
        __builtin_add_overflow(to->output, from->output, &to->output) ||
        __builtin_add_overflow(to->reasoning, from->reasoning, &to->reasoning);

    page->group.billed_calls += line->billed_calls;
    return over ? ERR_BAD_VALUE
                : money_add(page->group.cost_pusd, line->cost_pusd, &page->group.cost_pusd);
}

static bool visit_line(void *owner, const struct books_line *line)
{
    struct page *page = owner;

    if (!counts(page, line))
        return true;
    go_to_bucket(page, line->bucket_us > page->bucket_us ? line->bucket_us : page->bucket_us);
    if (is_same_group(page, line)) {
        page->err = add_to_group(page, line);
    } else {
        end_group(page);
        if (page->err == OK)
            page->err = begin_group(page, line);
    }
    return page->err == OK;
}

/* ---- the page ---- */

/* Can any line count? There are no batches and no users here, and one project: the tenant. */
static bool can_be_any(const struct usage_params *params, struct span tenant)
{
    bool of_tenant = params->projects.count == 0;

    for (uint32_t i = 0; i < params->projects.count; i++)
        of_tenant = of_tenant || span_equal(params->projects.values[i], tenant);
    return of_tenant && !params->batch_alone && params->users.count == 0;
}

enum err usage_page_print(struct books *books, enum usage_subject subject,
                          const struct usage_params *params, struct span tenant, FILE *out,
                          char *problem, size_t problem_size)
{
    struct page page = {.subject = subject,
                        .params = params,
                        .tenant = tenant,
                        .out = out,
                        .bucket_us = params->page_us};
    enum err err = OK;

    lay_out(&page);
    arena_init(&page.texts, NULL, 0, TEXTS_BYTES_MAX);
    (void)fputs("{\"object\":\"page\",\"data\":[", out);
    if (page.ask.period.from_us < page.ask.period.until_us && can_be_any(params, tenant))
        err = books_usage(books, &page.ask, visit_line, &page, problem, problem_size);
    if (err == OK)
        err = page.err;
    go_to_bucket(&page, INT64_MAX);
    if (page.ask.period.until_us < params->end_us)
        (void)fprintf(out, "],\"has_more\":true,\"next_page\":\"page_%lld\"}",
                      (long long)(page.ask.period.until_us / US_PER_S));
    else
        (void)fputs("],\"has_more\":false,\"next_page\":null}", out);
    arena_fini(&page.texts);
    return err == OK ? page.err : err;
}
