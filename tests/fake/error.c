/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/error.c: errors in the shape of each kind.
 *
 * For:       status phrases, bodies of errors, and errors within streams.
 * Called by: answer.c, service.c, stream.c.
 * Knows not: requests, sockets.
 *
 * Sources: vLLM entrypoints/openai/engine/protocol.py (object with a numeric code; flat before
 * August 2025) and entrypoints/serve/middleware/authenticate.py (401 is a string); SGLang
 * openai/serving_base.py (flat; an object in streams), anthropic/utils.py; llama.cpp
 * server-common.cpp format_error_response(); TGI router/src/infer/mod.rs; Anthropic's and OpenAI's
 * API references. FastAPI answers unknown paths with `detail`. */
#include "tests/fake/error.h"

/* clang-format off */
#define INVALID "invalid_request_error"
static const struct {
    int status;
    const char *phrase;
    const char *vllm;
    const char *openai;
    const char *code;       /* of OpenAI; NULL: null */
    const char *llamacpp;
    const char *tgi;
    const char *anthropic;
} statuses[] = {
    {200, "OK",                    "",                         "",             NULL,                  "",                     "",                 ""},
    {400, "Bad Request",           "BadRequestError",          INVALID,        NULL,                  INVALID,                "validation",       INVALID},
    {401, "Unauthorized",          "Unauthorized",             INVALID,        "invalid_api_key",     "authentication_error", "unauthorized",     "authentication_error"},
    {403, "Forbidden",             "Forbidden",                INVALID,        NULL,                  "permission_error",     "forbidden",        "permission_error"},
    {404, "Not Found",             "NotFoundError",            INVALID,        "model_not_found",     "not_found_error",      "not_found",        "not_found_error"},
    {405, "Method Not Allowed",    "Method Not Allowed",       INVALID,        NULL,                  INVALID,                "not_allowed",      INVALID},
    {408, "Request Timeout",       "RequestTimeout",           "timeout",      NULL,                  "server_error",         "timeout",          "timeout_error"},
    {409, "Conflict",              "Conflict",                 INVALID,        NULL,                  INVALID,                "conflict",         INVALID},
    {413, "Payload Too Large",     "Payload Too Large",        INVALID,        NULL,                  INVALID,                "validation",       "request_too_large"},
    {422, "Unprocessable Entity",  "UnprocessableEntityError", INVALID,        NULL,                  INVALID,                "validation",       INVALID},
    {424, "Failed Dependency",     "Failed Dependency",        "server_error", NULL,                  "server_error",         "generation",       "api_error"},
    {429, "Too Many Requests",     "RateLimitError",           "requests",     "rate_limit_exceeded", "server_error",         "overloaded",       "rate_limit_error"},
    {500, "Internal Server Error", "InternalServerError",      "server_error", NULL,                  "server_error",         "generation",       "api_error"},
    {501, "Not Implemented",       "NotImplementedError",      "server_error", NULL,                  "not_supported_error",  "not_supported",    "api_error"},
    {502, "Bad Gateway",           "BadGatewayError",          "server_error", NULL,                  "server_error",         "generation",       "api_error"},
    {503, "Service Unavailable",   "ServiceUnavailableError",  "server_error", NULL,                  "unavailable_error",    "unhealthy",        "overloaded_error"},
    {504, "Gateway Timeout",       "GatewayTimeoutError",      "server_error", NULL,                  "server_error",         "generation",       "timeout_error"},
    {529, "Overloaded",            "ServiceUnavailableError",  "server_error", NULL,                  "unavailable_error",    "overloaded",       "overloaded_error"},
};
#undef INVALID
/* clang-format on */

static size_t status_row(int status)
{
    size_t lender = 0; /* the row of 500 lends its words to a status without one */

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].status == status)
            return i;
        if (statuses[i].status == 500)
            lender = i;
    }
    return lender;
}

struct text error_phrase(int status)
{
    const char *phrase = statuses[status_row(status)].phrase;

    return (struct text){phrase, strlen(phrase)};
}

int error_status(int status)
{
    if (dialect.kind == KIND_LLAMACPP && status == 405)
        return 404;
    if (dialect.kind == KIND_TGI && status == 400)
        return 422;
    return status;
}

static void add_member(struct buffer *out, const char *opening, const char *value)
{
    buffer_add_string(out, opening);
    buffer_add_string(out, value);
}

/* From behind the type's text to where the code stands. */
static void open_code(struct buffer *out, struct text param)
{
    if (param.bytes > 0) {
        buffer_add_literal(out, "\",\"param\":\"");
        buffer_add_text(out, param);
        buffer_add_literal(out, "\",\"code\":");
    } else {
        buffer_add_literal(out, "\",\"param\":null,\"code\":");
    }
}

/* `"message":M,"type":T,"param":P,"code":C`, numeric code. */
static void add_vllm(struct buffer *out, int status, struct text message, struct text param)
{
    buffer_add_literal(out, "\"message\":\"");
    buffer_add_text(out, message);
    add_member(out, "\",\"type\":\"", statuses[status_row(status)].vllm);
    open_code(out, param);
    buffer_add_number(out, (uint64_t)status);
}

static void add_openai(struct buffer *out, int status, struct text message, struct text param)
{
    size_t row = status_row(status);

    buffer_add_literal(out, "\"message\":\"");
    buffer_add_text(out, message);
    add_member(out, "\",\"type\":\"", statuses[row].openai);
    open_code(out, param);
    if (statuses[row].code == NULL) {
        buffer_add_literal(out, "null");
        return;
    }
    add_member(out, "\"", statuses[row].code);
    buffer_add_literal(out, "\"");
}

/* `"code":N,"message":M,"type":T` */
static void add_llamacpp(struct buffer *out, int status, struct text message)
{
    buffer_add_literal(out, "\"code\":");
    buffer_add_number(out, (uint64_t)status);
    buffer_add_literal(out, ",\"message\":\"");
    buffer_add_text(out, message);
    add_member(out, "\",\"type\":\"", statuses[status_row(status)].llamacpp);
    buffer_add_literal(out, "\"");
}

static void add_tgi(struct buffer *out, int status, struct text message)
{
    buffer_add_literal(out, "\"error\":\"");
    buffer_add_text(out, status == 429 ? TEXT("Model is overloaded") : message);
    add_member(out, "\",\"error_type\":\"", statuses[status_row(status)].tgi);
    buffer_add_literal(out, "\"");
}

/* vLLM keeps its own names for the types. */
static void add_anthropic(struct buffer *out, int status, struct text message)
{
    size_t row = status_row(status);

    add_member(out, "{\"type\":\"error\",\"error\":{\"type\":\"",
               dialect.kind == KIND_VLLM ? statuses[row].vllm : statuses[row].anthropic);
    buffer_add_literal(out, "\",\"message\":\"");
    buffer_add_text(out, message);
    buffer_add_literal(out, "\"}}");
}

static bool anthropic(enum endpoint endpoint)
{
    return endpoint == ENDPOINT_MESSAGES || endpoint == ENDPOINT_COUNT_TOKENS;
}

void error_add_body(struct buffer *out, enum endpoint endpoint, int status, struct text message,
                    struct text param)
{
    bool flat = dialect.kind == KIND_SGLANG || (dialect.kind == KIND_VLLM && dialect.old_errors);

    if (status == 401 && (dialect.kind == KIND_VLLM || dialect.kind == KIND_SGLANG)) {
        buffer_add_literal(out, "{\"error\":\"Unauthorized\"}");
        return;
    }
    if (status == 401 && dialect.kind == KIND_TGI)
        return; /* no body at all */
    if (anthropic(endpoint) && dialect.kind != KIND_LLAMACPP) {
        add_anthropic(out, status, message);
        return;
    }
    buffer_add_string(out, flat                       ? "{\"object\":\"error\","
                           : dialect.kind == KIND_TGI ? "{"
                                                      : "{\"error\":{");
    if (dialect.kind == KIND_OPENAI)
        add_openai(out, status, message, param);
    else if (dialect.kind == KIND_LLAMACPP)
        add_llamacpp(out, status, message);
    else if (dialect.kind == KIND_TGI)
        add_tgi(out, status, message);
    else
        add_vllm(out, status, message, param);
    buffer_add_string(out, flat || dialect.kind == KIND_TGI ? "}" : "}}");
}

void error_add_unknown(struct buffer *out, int status)
{
    struct text phrase = error_phrase(status);

    switch (dialect.kind) {
    case KIND_OPENAI:
        buffer_add_literal(out, "{\"error\":{\"message\":\"Unknown request URL.\",\"type\":"
                                "\"invalid_request_error\",\"param\":null,\"code\":null}}");
        break;
    case KIND_LLAMACPP:
        error_add_body(out, ENDPOINT_CHAT, status, TEXT("File Not Found"), TEXT(""));
        break;
    case KIND_TGI:
        break; /* no body at all */
    default:
        if (dialect.kind == KIND_SGLANG || dialect.old_errors) {
            buffer_add_literal(out, "{\"detail\":\"");
            buffer_add_text(out, phrase);
            buffer_add_literal(out, "\"}");
            break;
        }
        buffer_add_literal(out, "{\"error\":{\"message\":\"");
        buffer_add_text(out, phrase);
        buffer_add_literal(out, "\",\"type\":\"");
        buffer_add_text(out, phrase);
        buffer_add_literal(out, "\",\"param\":null,\"code\":");
        buffer_add_number(out, (uint64_t)status);
        buffer_add_literal(out, "}}");
    }
}

void error_add_event(struct buffer *out, enum endpoint endpoint, int status, struct text message)
{
    if (anthropic(endpoint)) {
        buffer_add_literal(out, "event: error\ndata: ");
        if (dialect.kind == KIND_LLAMACPP) {
            buffer_add_literal(out, "{");
            add_llamacpp(out, status, message);
            buffer_add_literal(out, "}");
        } else {
            add_anthropic(out, status, message);
        }
        buffer_add_literal(out, "\n\n");
        return;
    }
    buffer_add_literal(out, "data: {\"error\":{");
    if (dialect.kind == KIND_OPENAI) {
        add_openai(out, status, message, TEXT(""));
    } else if (dialect.kind == KIND_LLAMACPP) {
        add_llamacpp(out, status, message);
    } else if (dialect.kind == KIND_TGI) {
        buffer_add_literal(out, "\"message\":\"");
        buffer_add_text(out, message);
        buffer_add_literal(out, "\",\"http_status_code\":");
        buffer_add_number(out, (uint64_t)status);
    } else {
        add_vllm(out, status, message, TEXT(""));
    }
    buffer_add_literal(out, "}}\n\n");
}
