/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/answer.c: heads and whole answers as a model server writes them.
 *
 * For:       everything that goes out in one piece, and parts that streams share.
 * Called by: server.c, stream.c.
 * Knows not: sockets. */
#include "tests/fake/answer.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 16384, DIMENSIONS = 8 };

static struct buffer words; /* "w0 w1 w2 ..." */
static uint32_t word_begins[WORDS + 1];
static char date_line[64];
static size_t date_line_bytes;
static char created_text[24];
static size_t created_bytes;
static time_t current_time;

void answer_prepare(void)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        word_begins[i] = (uint32_t)words.count;
        buffer_add_literal(&words, "w");
        buffer_add_number(&words, i);
        buffer_add_literal(&words, " ");
    }
    word_begins[WORDS] = (uint32_t)words.count;
}

void answer_add_words(struct buffer *out, uint64_t from, uint64_t to)
{
    if (to <= WORDS) {
        buffer_add(out, words.bytes + word_begins[from], word_begins[to] - word_begins[from]);
        return;
    }
    for (uint64_t i = from; i < to; i++) {
        buffer_add_literal(out, "w");
        buffer_add_number(out, i);
        buffer_add_literal(out, " ");
    }
}

void answer_set_time(time_t now)
{
    struct tm parts;

    if (now == current_time)
        return;
    current_time = now;
    gmtime_r(&now, &parts);
    date_line_bytes =
        strftime(date_line, sizeof date_line, "date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    created_bytes = (size_t)snprintf(created_text, sizeof created_text, "%lld", (long long)now);
}

time_t answer_time(void)
{
    return current_time;
}

/* clang-format off */
#define INVALID "invalid_request_error"
static const struct {
    int status;
    const char *phrase;
    const char *vllm_type;
    const char *openai_type;
    const char *openai_code;     /* NULL: null */
} statuses[] = {
    {200, "OK",                   "",                         "",            NULL},
    {400, "Bad Request",          "BadRequestError",          INVALID,       NULL},
    {401, "Unauthorized",         "Unauthorized",             INVALID,       "invalid_api_key"},
    {403, "Forbidden",            "Forbidden",                INVALID,       NULL},
    {404, "Not Found",            "NotFoundError",            INVALID,       "model_not_found"},
    {405, "Method Not Allowed",   "Method Not Allowed",       INVALID,       NULL},
    {408, "Request Timeout",      "RequestTimeout",           "timeout",     NULL},
    {409, "Conflict",             "Conflict",                 INVALID,       NULL},
    {413, "Payload Too Large",    "Payload Too Large",        INVALID,       NULL},
    {422, "Unprocessable Entity", "UnprocessableEntityError", INVALID,       NULL},
    {429, "Too Many Requests",    "RateLimitError",           "requests",    "rate_limit_exceeded"},
    {500, "Internal Server Error","InternalServerError",      "server_error",NULL},
    {501, "Not Implemented",      "NotImplementedError",      "server_error",NULL},
    {502, "Bad Gateway",          "BadGatewayError",          "server_error",NULL},
    {503, "Service Unavailable",  "ServiceUnavailableError",  "server_error",NULL},
    {504, "Gateway Timeout",      "GatewayTimeoutError",      "server_error",NULL},
};
#undef INVALID
/* clang-format on */

static size_t status_row(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return i;
    return 11; /* the row of 500 lends its words to a status without one */
}

static void add_string(struct buffer *out, const char *string)
{
    buffer_add(out, string, strlen(string));
}

void answer_add_head(struct buffer *out, const struct head *head)
{
    buffer_add_literal(out, "HTTP/1.1 ");
    if (head->status == 200) {
        buffer_add_literal(out, "200 OK\r\n");
    } else {
        buffer_add_number(out, (uint64_t)head->status);
        buffer_add_literal(out, " ");
        add_string(out, statuses[status_row(head->status)].phrase);
        buffer_add_literal(out, "\r\n");
    }
    buffer_add(out, date_line, date_line_bytes);
    buffer_add_literal(out, "server: uvicorn\r\n");
    if (head->request_id.bytes > 0) {
        buffer_add_literal(out, "x-request-id: ");
        buffer_add_text(out, head->request_id);
        buffer_add_literal(out, "\r\n");
    }
    if (head->retry_after >= 0) {
        buffer_add_literal(out, "retry-after: ");
        buffer_add_number(out, (uint64_t)head->retry_after);
        buffer_add_literal(out, "\r\n");
    }
    if (head->framing == FRAMING_LENGTH) {
        buffer_add_literal(out, "content-length: ");
        buffer_add_number(out, head->body_bytes);
        buffer_add_literal(out, "\r\n");
    }
    if (head->content_type.bytes > 0) {
        buffer_add_literal(out, "content-type: ");
        buffer_add_text(out, head->content_type);
        buffer_add_literal(out, "\r\n");
    }
    if (head->gzip)
        buffer_add_literal(out, "content-encoding: gzip\r\n");
    if (head->close)
        buffer_add_literal(out, "connection: close\r\n");
    if (head->framing == FRAMING_CHUNKED)
        buffer_add_literal(out, "transfer-encoding: chunked\r\n");
    buffer_add_literal(out, "\r\n");
}

void answer_add_error(struct buffer *out, bool openai, int status, struct text message,
                      struct text param)
{
    size_t row = status_row(status);

    if (status == 401 && !openai) {
        buffer_add_literal(out, "{\"error\":\"Unauthorized\"}");
        return;
    }
    buffer_add_literal(out, "{\"error\":{\"message\":\"");
    buffer_add_text(out, message);
    buffer_add_literal(out, "\",\"type\":\"");
    add_string(out, openai ? statuses[row].openai_type : statuses[row].vllm_type);
    if (param.bytes > 0) {
        buffer_add_literal(out, "\",\"param\":\"");
        buffer_add_text(out, param);
        buffer_add_literal(out, "\",\"code\":");
    } else {
        buffer_add_literal(out, "\",\"param\":null,\"code\":");
    }
    if (!openai) {
        buffer_add_number(out, (uint64_t)status);
    } else if (statuses[row].openai_code == NULL) {
        buffer_add_literal(out, "null");
    } else {
        buffer_add_literal(out, "\"");
        add_string(out, statuses[row].openai_code);
        buffer_add_literal(out, "\"");
    }
    buffer_add_literal(out, "}}");
}

void answer_add_usage(struct buffer *out, const struct work *work)
{
    uint64_t input = work_claimed_input(work);
    uint64_t output = work_claimed_output(work);
    uint64_t cached = work->directive.cached < 0 ? 0 : (uint64_t)work->directive.cached;

    buffer_add_literal(out, "\"usage\":{\"prompt_tokens\":");
    buffer_add_number(out, input);
    buffer_add_literal(out, ",\"total_tokens\":");
    buffer_add_number(out, input + output);
    buffer_add_literal(out, ",\"completion_tokens\":");
    buffer_add_number(out, output);
    if (work->openai || work->directive.cached >= 0) {
        buffer_add_literal(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
        buffer_add_number(out, cached);
        if (work->openai)
            buffer_add_literal(
                out, ",\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0,"
                     "\"audio_tokens\":0");
        buffer_add_literal(out, "}");
    } else if (!work->stream) {
        buffer_add_literal(out, ",\"prompt_tokens_details\":null");
    }
    buffer_add_literal(out, "}");
}

static void add_opening(struct buffer *out, const struct work *work, struct text object)
{
    buffer_add_literal(out, "{\"id\":\"");
    add_string(out, work->id);
    buffer_add_literal(out, "\",\"object\":\"");
    buffer_add_text(out, object);
    buffer_add_literal(out, "\",\"created\":");
    buffer_add(out, created_text, created_bytes);
    buffer_add_literal(out, ",\"model\":\"");
    add_string(out, work->model);
}

static void add_completion(struct buffer *out, const struct work *work)
{
    bool chat = work->endpoint == ENDPOINT_CHAT;

    add_opening(out, work, chat ? TEXT("chat.completion") : TEXT("text_completion"));
    buffer_add_literal(out, "\",\"choices\":[");
    for (unsigned choice = 0; choice < work->choices; choice++) {
        if (choice > 0)
            buffer_add_literal(out, ",");
        buffer_add_literal(out, "{\"index\":");
        buffer_add_number(out, choice);
        if (chat)
            buffer_add_literal(out, ",\"message\":{\"role\":\"assistant\",\"content\":\"");
        else
            buffer_add_literal(out, ",\"text\":\"");
        if (choice == 0 && work->directive.big > 0)
            buffer_add_fill(out, 'x', (size_t)work->directive.big);
        answer_add_words(out, 0, work->tokens);
        if (chat)
            buffer_add_literal(
                out,
                "\",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,"
                "\"tool_calls\":[],\"reasoning\":null}");
        else
            buffer_add_literal(out, "\"");
        buffer_add_literal(out, ",\"logprobs\":null,\"finish_reason\":\"");
        buffer_add_text(out, work->by_length ? TEXT("length") : TEXT("stop"));
        buffer_add_literal(out, "\",\"stop_reason\":null}");
    }
    buffer_add_literal(out, "],\"service_tier\":null,\"system_fingerprint\":null");
    if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        answer_add_usage(out, work);
    }
    buffer_add_literal(out, ",\"kv_transfer_params\":null}");
}

static void add_base64(struct buffer *out, const unsigned char *bytes, size_t count)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < count; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (i + 1 < count)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < count)
            group |= bytes[i + 2];
        char quad[4] = {letters[group >> 18], letters[(group >> 12) & 63],
                        i + 1 < count ? letters[(group >> 6) & 63] : '=',
                        i + 2 < count ? letters[group & 63] : '='};
        buffer_add(out, quad, sizeof quad);
    }
}

/* The vector of a text: sixteenths drawn from its hash, so that equal texts have equal vectors,
 * exact in both forms. */
static void add_vector(struct buffer *out, uint64_t hash, bool base64)
{
    if (base64) {
        float vector[DIMENSIONS];
        unsigned char bytes[sizeof vector];
        for (unsigned i = 0; i < DIMENSIONS; i++)
            vector[i] = (float)((hash >> (8 * i)) & 15) / 16.0f;
        memcpy(bytes, vector,
               sizeof vector); /* little-endian floats, as on every machine that this runs on */
        buffer_add_literal(out, "\"");
        add_base64(out, bytes, sizeof bytes);
        buffer_add_literal(out, "\"");
        return;
    }
    buffer_add_literal(out, "[");
    for (unsigned i = 0; i < DIMENSIONS; i++) {
        if (i > 0)
            buffer_add_literal(out, ",");
        char digits[16];
        int count = snprintf(digits, sizeof digits, "%g", (double)((hash >> (8 * i)) & 15) / 16.0);
        buffer_add(out, digits, (size_t)count);
    }
    buffer_add_literal(out, "]");
}

static void add_embeddings(struct buffer *out, const struct work *work, const struct ask *ask)
{
    struct ask_inputs inputs;
    uint64_t hash;
    uint64_t index = 0;

    add_opening(out, work, TEXT("list"));
    buffer_add_literal(out, "\",\"data\":[");
    for (ask_inputs_begin(&inputs, ask->input); ask_inputs_next(&inputs, &hash); index++) {
        if (index > 0)
            buffer_add_literal(out, ",");
        buffer_add_literal(out, "{\"index\":");
        buffer_add_number(out, index);
        buffer_add_literal(out, ",\"object\":\"embedding\",\"embedding\":");
        add_vector(out, hash, ask->base64);
        buffer_add_literal(out, "}");
    }
    buffer_add_literal(out, "]");
    if (!work->directive.no_usage) {
        buffer_add_literal(out, ",");
        answer_add_usage(out, work);
    }
    buffer_add_literal(out, "}");
}

void answer_add_body(struct buffer *out, const struct work *work, const struct ask *ask)
{
    if (work->endpoint == ENDPOINT_EMBEDDINGS)
        add_embeddings(out, work, ask);
    else
        add_completion(out, work);
}

void answer_add_gzip(struct buffer *out, const struct buffer *plain)
{
    z_stream deflater = {0};

    if (deflateInit2(&deflater, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    size_t bound = deflateBound(&deflater, plain->count);
    buffer_reserve(out, bound);
    deflater.next_in = (unsigned char *)plain->bytes;
    deflater.avail_in = (unsigned)plain->count;
    deflater.next_out = (unsigned char *)out->bytes + out->count;
    deflater.avail_out = (unsigned)bound;
    if (deflate(&deflater, Z_FINISH) != Z_STREAM_END)
        abort();
    out->count += bound - deflater.avail_out;
    deflateEnd(&deflater);
}
