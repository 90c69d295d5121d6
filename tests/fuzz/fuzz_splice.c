/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_splice.c: bodies read as asks and spliced, against jansson.
 *
 * Checks: what ask_read() found is what jansson finds; the spliced body is the tree of the body
 * with the edits made to it, and every byte outside the splices stands. */
#include "tests/fuzz/trees.h"

#include "gateway/ask.h"

#define JSON_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL)

static const struct ask_limits limits = {.json_depth = 64, .n = 16};

static size_t members_of(struct span body)
{
    struct scan scan;
    struct span text;
    bool first = true;
    size_t count = 0;

    scan_init(&scan, body, limits.json_depth);
    if (!scan_enter(&scan, SCAN_OBJECT))
        return 0;
    while (scan_member(&scan, &first, &text)) {
        count++;
        if (!scan_skip(&scan, &text))
            return 0;
    }
    return count;
}

static bool is_json(struct span body)
{
    struct scan scan;
    struct span value;

    scan_init(&scan, body, limits.json_depth);
    return scan_skip(&scan, &value) && scan_finish(&scan);
}

/* Was the refusal as bad JSON right? */
static void check_refused(struct span body, const struct ask_problem *problem)
{
    json_t *root = json_loadb(body.data, body.size, JSON_FLAGS | JSON_REJECT_DUPLICATES, NULL);

    CHECK(problem->message != NULL && problem->offset <= body.size);
    CHECK(root == NULL || !is_json(body) || !json_is_object(root) ||
          json_object_size(root) > 10000);
    json_decref(root);
}

static void check_number(const json_t *root, const char *name, int64_t actual, int64_t absent)
{
    const json_t *value = json_object_get(root, name);

    if (json_is_real(value) && json_real_value(value) < 9e15)
        CHECK((double)actual == json_real_value(value));
    else if (!json_is_real(value))
        CHECK(actual == absent);
}

/* Does the endpoint have streams, and does it ask for their usage? */
static bool has_streams(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_CHAT || endpoint == ENDPOINT_COMPLETIONS ||
           endpoint == ENDPOINT_RESPONSES || endpoint == ENDPOINT_MESSAGES;
}

static bool has_stream_options(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_CHAT || endpoint == ENDPOINT_COMPLETIONS;
}

static bool is_given(const json_t *root, const char *name)
{
    const json_t *value = json_object_get(root, name);

    return value != NULL && !json_is_null(value);
}

/* Messages and what stands for one. */
static void check_messages(const struct ask *ask, const json_t *root, enum endpoint endpoint)
{
    const bool responses = endpoint == ENDPOINT_RESPONSES;
    const bool claude = endpoint == ENDPOINT_MESSAGES || endpoint == ENDPOINT_COUNT_TOKENS;
    const json_t *list = json_object_get(root, responses ? "input" : "messages");

    if (!responses && !claude && endpoint != ENDPOINT_CHAT)
        return;
    CHECK(json_is_array(list) || (responses && json_is_string(list)));
    CHECK((size_t)ask->messages == (json_is_array(list) ? json_array_size(list) : 1) +
                                       (size_t)(responses && is_given(root, "instructions")) +
                                       (size_t)(claude && is_given(root, "system")));
    CHECK(ask->tools == (json_array_size(json_object_get(root, "tools")) > 0));
}

/* Nothing that needs kept state passes. */
static void check_stateless(const json_t *root)
{
    const json_t *items = json_object_get(root, "input");

    CHECK(!is_given(root, "previous_response_id") && !is_given(root, "conversation"));
    CHECK(!is_given(root, "prompt") && !json_is_true(json_object_get(root, "background")));
    for (size_t i = 0; i < json_array_size(items); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(items, i), "type"));

        CHECK(type == NULL || strcmp(type, "item_reference") != 0);
    }
}

static void check_pairs(const struct ask *ask, const json_t *root, enum endpoint endpoint)
{
    const json_t *documents = json_object_get(root, "documents");

    if (endpoint != ENDPOINT_RERANK && endpoint != ENDPOINT_RERANK_V2)
        return;
    CHECK(is_given(root, "query") && (is_given(root, "documents") || is_given(root, "texts")));
    if (json_is_string(json_object_get(root, "query")) && !is_given(root, "texts") &&
        !json_is_real(json_array_get(documents, 0)) &&
        !json_is_real(json_array_get(documents, json_array_size(documents) - 1)) &&
        json_array_size(documents) == 2)
        CHECK(ask->prompts == 2);
}

static void check_ask(const struct ask *ask, const json_t *root, enum endpoint endpoint)
{
    const json_t *model = json_object_get(root, "model");

    CHECK(json_object_size(root) > 0 || ask->empty);
    CHECK(!ask->multipart && ask->stream_options == has_stream_options(endpoint));
    if (json_is_string(model) && json_string_length(model) > 0) {
        CHECK(ask->model.size == json_string_length(model));
        CHECK(memcmp(ask->model.data, json_string_value(model), ask->model.size) == 0);
    } else {
        CHECK(ask->model.data == NULL);
    }
    CHECK(ask->stream == (has_streams(endpoint) && json_is_true(json_object_get(root, "stream"))));
    CHECK(ask->include_usage == (has_stream_options(endpoint) &&
                                 json_is_true(json_object_get(
                                     json_object_get(root, "stream_options"), "include_usage"))));
    check_messages(ask, root, endpoint);
    check_pairs(ask, root, endpoint);
    if (endpoint == ENDPOINT_CHAT) {
        const bool completion = json_is_real(json_object_get(root, "max_completion_tokens"));

        check_number(root, completion ? "max_completion_tokens" : "max_tokens", ask->max_tokens,
                     -1);
        check_number(root, "n", ask->n, 1);
    } else if (endpoint == ENDPOINT_RESPONSES) {
        check_number(root, "max_output_tokens", ask->max_tokens, -1);
        check_stateless(root);
    } else if (endpoint == ENDPOINT_MESSAGES) {
        CHECK(ask->max_tokens >= 0);
        check_number(root, "max_tokens", ask->max_tokens, -1);
    }
}

/* The tree as a replica must get it. */
static void edit(json_t *root, const struct ask *ask, enum kind kind, const char *model,
                 const char *salt)
{
    if (model != NULL)
        json_object_set_new(root, "model", json_string(model));
    json_object_del(root, "cache");
    if (!kind_row(kind)->salt)
        json_object_del(root, "cache_salt");
    else if (salt != NULL && json_is_string(json_object_get(root, "cache_salt")))
        json_object_set_new(root, "cache_salt", json_string(salt));
    if (!ask->stream || !ask->stream_options)
        return;

    json_t *options = json_object_get(root, "stream_options");

    if (!json_is_object(options)) {
        json_object_set_new(root, "stream_options", json_object());
        options = json_object_get(root, "stream_options");
    }
    json_object_set_new(options, "include_usage", json_true());
    if (kind_row(kind)->running)
        json_object_set_new(options, "continuous_usage_stats", json_true());
}

/* Pieces as one text; the caller frees it. */
static char *join(const struct iovec *pieces, uint32_t count, size_t bytes)
{
    char *joined = malloc(bytes > 0 ? bytes : 1);
    size_t size = 0;

    CHECK(joined != NULL);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(size + pieces[i].iov_len <= bytes);
        memcpy(joined + size, pieces[i].iov_base, pieces[i].iov_len);
        size += pieces[i].iov_len;
    }
    CHECK(size == bytes);
    return joined;
}

static void check_splices(const struct ask *ask, struct span body, json_t *root, unsigned steer,
                          struct arena *arena)
{
    const enum kind kind = (enum kind)((steer & 7) % KIND_COUNT);
    const char *model = steer & 8 ? "up/\"stream\"" : steer & 16 ? "small" : NULL;
    const char *salt = steer & 32 ? "00ff" : NULL;
    struct splice splices[ASK_SPLICES_MAX];
    struct iovec pieces[2 * ASK_SPLICES_MAX + 1];
    uint32_t count;
    size_t bytes;
    size_t at = 0;

    CHECK(ask_splices(ask, body, kind, span_of(model), span_of(salt), arena, splices, &count) ==
          OK);
    CHECK(count <= ASK_SPLICES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(splices[i].at >= at && splices[i].at + splices[i].removed <= body.size);
        at = splices[i].at + splices[i].removed;
    }
#ifdef PLANT_BUG
    if (count >= 2)
        count--;
#endif
    count = splice_pieces(body, splices, count, pieces, &bytes);

    char *joined = join(pieces, count, bytes);

    CHECK(is_json((struct span){joined, bytes}));
    CHECK(members_of((struct span){joined, bytes}) + 2 >= members_of(body));
    if (root != NULL) {
        json_t *actual = json_loadb(joined, bytes, JSON_FLAGS, NULL);

        CHECK(actual != NULL);
        edit(root, ask, kind, model, salt);
        CHECK(json_equal(actual, root));
        CHECK(members_of((struct span){joined, bytes}) == json_object_size(root));
        json_decref(actual);
    }
    free(joined);
}

/* Any bytes may be a path; those of an endpoint lead back to it. */
static void check_path(struct span path)
{
    struct span rest;
    const enum endpoint endpoint = endpoint_of_path(path, &rest);
    const struct endpoint_row *row = endpoint_row(endpoint);

    CHECK(rest.size < path.size || path.size == 0);
    CHECK(rest.data == NULL || endpoint == ENDPOINT_MODELS);
    if (endpoint != ENDPOINT_NONE && rest.data == NULL)
        CHECK(row->path.size <= path.size + 3 && path.size <= row->path.size + 3);
    CHECK(endpoint_of_path(row->path, &rest) == endpoint && rest.data == NULL);
    CHECK(row->name.size > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum endpoint endpoints[] = {
        ENDPOINT_CHAT,         ENDPOINT_COMPLETIONS, ENDPOINT_EMBEDDINGS, ENDPOINT_RESPONSES,
        ENDPOINT_MESSAGES,     ENDPOINT_RERANK,      ENDPOINT_SCORE,      ENDPOINT_POOLING,
        ENDPOINT_COUNT_TOKENS, ENDPOINT_RERANK_V2,   ENDPOINT_CLASSIFY,   ENDPOINT_TOKENIZE,
        ENDPOINT_DETOKENIZE};
    struct span input = {(const char *)data, size};
    const unsigned steer = take_byte(&input);
    const enum endpoint endpoint =
        endpoints[take_byte(&input) % (sizeof(endpoints) / sizeof(endpoints[0]))];
    char *copy = exact_copy(input);
    const struct span body = {copy, input.size};
    struct arena arena;
    struct ask ask;
    struct ask_problem problem = {0};
    enum err err;

    trees_begin();
    check_path(input);
    /* Few runs end without memory, all must be orderly. */
    arena_init(&arena, NULL, 0, (steer & 0xc0) == 0xc0 ? 16 : 1u << 22);
    err = ask_read(endpoint, body, &limits, &arena, &ask, &problem);
    if (err == ERR_BAD_JSON) {
        check_refused(body, &problem);
    } else if (err == ERR_BAD_VALUE) {
        CHECK(problem.message != NULL && problem.offset <= body.size && problem.param != NULL);
    } else if (err == OK) {
        json_t *root = json_loadb(body.data, body.size, JSON_FLAGS, NULL);

        CHECK(is_json(body));
        CHECK(ask.n >= 1 && ask.prompts >= 1 && ask.max_tokens >= -1);
        CHECK(ask.text_bytes >= 0 && ask.text_bytes <= (int64_t)body.size * ask.prompts);
        if (root != NULL) {
            CHECK(json_object_size(root) == members_of(body));
            check_ask(&ask, root, endpoint);
        }
        if (arena.ceiling_bytes > 16)
            check_splices(&ask, body, root, steer, &arena);
        json_decref(root);
    } else {
        CHECK(err == ERR_NO_MEMORY && (steer & 0xc0) == 0xc0);
    }
    arena_fini(&arena);
    free(copy);
    return 0;
}
