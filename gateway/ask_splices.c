/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask_splices.c: the splices that make a body fit its model server.
 *
 * For:       model, stream_options and cache_salt as the server needs them; what only we understand
 *            taken out.
 * Called by: parcel.c.
 * Knows not: how an ask was read. */
#include "gateway/ask.h"

#include "config/base/api.h"
#include "config/base/log.h"
#include "config/base/span.h"

struct splicer {
    struct arena *arena;
    struct splice *splices;
    uint32_t count;
};

/* Adds a splice, keeping them in order; those at the same place stay as they were added. */
static void add_splice(struct splicer *splicer, size_t at, size_t removed, struct span inserted)
{
    uint32_t i = splicer->count++;

    while (i > 0 && splicer->splices[i - 1].at > at) {
        splicer->splices[i] = splicer->splices[i - 1];
        i--;
    }
    splicer->splices[i] = (struct splice){at, removed, inserted};
}

/* text as a JSON string in the arena; {NULL, 0} without memory. */
static struct span quoted(struct arena *arena, struct span text)
{
    const size_t room = 6 * text.size; /* each byte as \u00xx */
    char *out = arena_take(arena, room + 2);
    size_t size;

    if (out == NULL)
        return (struct span){NULL, 0};
    out[0] = '"';
    size = log_escape(text, out + 1, room);
    out[size + 1] = '"';
    return (struct span){out, size + 2};
}

/* Makes an existing stream_options object say what we need. */
static void extend_options(struct splicer *splicer, const struct ask *ask, struct span body,
                           bool running)
{
    const bool add_usage = ask->include_usage_place.size == 0;
    const bool add_running = running && ask->continuous_usage_place.size == 0;
    size_t inside = ask->stream_options_place.at + 1;
    size_t at = inside;

    if (!add_usage && body.data[ask->include_usage_place.at] != 't')
        add_splice(splicer, ask->include_usage_place.at, ask->include_usage_place.size,
                   SPAN("true"));
    if (running && !add_running && body.data[ask->continuous_usage_place.at] != 't')
        add_splice(splicer, ask->continuous_usage_place.at, ask->continuous_usage_place.size,
                   SPAN("true"));
    if (!add_usage && !add_running)
        return;
    while (body.data[at] != '}' && body.data[at] != '"')
        at++;

    const bool empty = body.data[at] == '}';
    struct span text;

    if (add_usage && add_running)
        text = SPAN("\"include_usage\":true,\"continuous_usage_stats\":true,");
    else if (add_usage)
        text = SPAN("\"include_usage\":true,");
    else
        text = SPAN("\"continuous_usage_stats\":true,");
    if (empty)
        text.size--;
    add_splice(splicer, inside, 0, text);
}

/* Members that go in right behind the outermost brace. */
static bool insert_members(struct splicer *splicer, const struct ask *ask, struct span model,
                           struct span options)
{
    struct span text = {NULL, 0};

    if (model.size == 0 && options.size == 0)
        return true;
    if (model.size > 0 && options.size > 0)
        text = arena_format(splicer->arena, "\"model\":%.*s,\"stream_options\":%.*s,",
                            (int)model.size, model.data, (int)options.size, options.data);
    else if (model.size > 0)
        text = arena_format(splicer->arena, "\"model\":%.*s,", (int)model.size, model.data);
    else
        text = arena_format(splicer->arena, "\"stream_options\":%.*s,", (int)options.size,
                            options.data);
    if (text.data == NULL)
        return false;
    if (ask->empty)
        text.size--;
    add_splice(splicer, ask->open_at, 0, text);
    return true;
}

/* Behind the white space at `at`. */
static size_t pass_space(struct span body, size_t at)
{
    while (body.data[at] == ' ' || body.data[at] == '\n' || body.data[at] == '\r' ||
           body.data[at] == '\t')
        at++;
    return at;
}

/* Takes a member out with the comma behind it, or the one before it when it is the last. An object
 * that was accepted as an ask has others. */
static void remove_member(struct splicer *splicer, struct span body, struct ask_place member)
{
    size_t from = member.at;
    size_t to = member.at + member.size;
    const size_t behind = pass_space(body, to);

    if (body.data[behind] == ',')
        to = behind + 1;
    else
        while (body.data[from] != ',')
            from--;
    add_splice(splicer, from, to - from, (struct span){NULL, 0});
}

/* Takes two members out (size 0: it is not there); when they are neighbours, as one piece, so that
 * one comma is not taken twice. */
static void remove_members(struct splicer *splicer, struct span body, struct ask_place a,
                           struct ask_place b)
{
    const struct ask_place first = a.at < b.at ? a : b;
    const struct ask_place last = a.at < b.at ? b : a;
    size_t between;

    if (first.size == 0 || last.size == 0) {
        if (first.size + last.size > 0)
            remove_member(splicer, body, first.size > 0 ? first : last);
        return;
    }
    between = pass_space(body, first.at + first.size);
    if (pass_space(body, between + 1) == last.at) {
        remove_member(splicer, body, (struct ask_place){first.at, last.at + last.size - first.at});
        return;
    }
    remove_member(splicer, body, first);
    remove_member(splicer, body, last);
}

/* Streams of chat and completions say their usage only when they are asked to. *out_options is what
 * is to be inserted, if anything. */
static void ask_for_usage(struct splicer *splicer, const struct ask *ask, struct span body,
                          bool running, struct span *out_options)
{
    const struct ask_place place = ask->stream_options_place;
    const struct span options =
        running ? SPAN("{\"include_usage\":true,\"continuous_usage_stats\":true}")
                : SPAN("{\"include_usage\":true}");

    if (place.size == 0)
        *out_options = options;
    else if (body.data[place.at] == '{')
        extend_options(splicer, ask, body, running);
    else
        add_splice(splicer, place.at, place.size, options);
}

/* The name in a form stands for itself. Behind the line end that is before it, one that is
 * a boundary, or has a line end of its own, would begin another part. */
static enum err splice_form(struct splicer *splicer, const struct ask *ask, struct span body,
                            struct span upstream_model)
{
    /* A form begins with its boundary: multipart.h. */
    const char *end = memchr(body.data, '\r', body.size);
    const struct span boundary = {body.data, (size_t)(end - body.data)};

    if (upstream_model.data == NULL || span_equal(upstream_model, ask->model))
        return OK;
    if (memchr(upstream_model.data, '\r', upstream_model.size) != NULL ||
        memchr(upstream_model.data, '\n', upstream_model.size) != NULL ||
        span_starts(upstream_model, boundary))
        return ERR_BAD_VALUE;
    add_splice(splicer, ask->model_place.at, ask->model_place.size, upstream_model);
    return OK;
}

enum err ask_splices(const struct ask *ask, struct span body, enum kind kind,
                     struct span upstream_model, struct span cache_salt, struct arena *arena,
                     struct splice out_splices[ASK_SPLICES_MAX], uint32_t *out_count)
{
    const struct kind_row *row = kind_row(kind);
    const struct ask_place none = {0, 0};
    struct splicer splicer = {.arena = arena, .splices = out_splices, .count = 0};
    struct span model = {NULL, 0};   /* to insert */
    struct span options = {NULL, 0}; /* to insert */

    if (ask->multipart) {
        const enum err err = splice_form(&splicer, ask, body, upstream_model);

        *out_count = splicer.count;
        return err;
    }
    if (upstream_model.data != NULL && !span_equal(upstream_model, ask->model)) {
        model = quoted(arena, upstream_model);
        if (model.data == NULL)
            return ERR_NO_MEMORY;
        if (ask->model_place.size > 0) {
            add_splice(&splicer, ask->model_place.at, ask->model_place.size, model);
            model = (struct span){NULL, 0};
        }
    }
    if (ask->stream && ask->stream_options)
        ask_for_usage(&splicer, ask, body, row->running, &options);
    if (!insert_members(&splicer, ask, model, options))
        return ERR_NO_MEMORY;
    remove_members(&splicer, body, ask->cache_place, row->salt ? none : ask->cache_salt_member);
    if (row->salt && cache_salt.data != NULL && ask->cache_salt_place.size > 0) {
        const struct span salt = quoted(arena, cache_salt);

        if (salt.data == NULL)
            return ERR_NO_MEMORY;
        add_splice(&splicer, ask->cache_salt_place.at, ask->cache_salt_place.size, salt);
    }
    *out_count = splicer.count;
    return OK;
}
