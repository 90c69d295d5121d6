/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/kind.c: whose wire is spoken.
 *
 * For:       what differs between the kinds of model servers, as one row each, and which paths a
 *            kind has.
 * Called by: every file that writes answers; main.c chooses the kind.
 * Knows not: requests, sockets.
 *
 * Sources: vLLM entrypoints/openai/chat_completion (unset members are left out), SGLang
 * entrypoints/openai/protocol.py (nulls are written), llama.cpp tools/server/server-task.cpp (the
 * role comes with a null content, the last delta is empty), TGI router/src/lib.rs (each delta bears
 * the role), OpenAI's API reference. */
#include "tests/fake/kind.h"

struct dialect dialect;

/* clang-format off */
#define T(literal) {literal, sizeof(literal) - 1}
static const struct kind_row rows[KINDS] = {
    [KIND_VLLM] = {
        .name = "vllm", .server = T("server: uvicorn\r\n"), .owner = T("vllm"),
        .role_delta   = T(",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"),
        .open_content = T(",\"delta\":{\"content\":\""),
        .open_thought = T(",\"delta\":{\"reasoning\":\""),
        .open_call    = T(",\"delta\":{\"tool_calls\":[{\"index\":0"),
        .close_delta  = T("\"}"), .close_call = T("}]}"),
        .no_logprobs  = T(",\"logprobs\":null"),
        .close_choice = T(",\"finish_reason\":null}"),
        .end_delta    = T(",\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\""),
        .end_choice   = T("\",\"stop_reason\":null}"),
        .thought_name = T("reasoning"), .running_usage = true, .checks_model = true},
    [KIND_SGLANG] = {
        .name = "sglang", .server = T("server: uvicorn\r\n"), .owner = T("sglang"),
        .role_delta   = T(",\"delta\":{\"role\":\"assistant\",\"content\":\"\","
                          "\"reasoning_content\":null,\"tool_calls\":null}"),
        .open_content = T(",\"delta\":{\"role\":null,\"reasoning_content\":null,"
                          "\"tool_calls\":null,\"content\":\""),
        .open_thought = T(",\"delta\":{\"role\":null,\"content\":null,\"tool_calls\":null,"
                          "\"reasoning_content\":\""),
        .open_call    = T(",\"delta\":{\"role\":null,\"content\":null,\"reasoning_content\":null,"
                          "\"tool_calls\":[{\"index\":0"),
        .close_delta  = T("\"}"), .close_call = T("}]}"),
        .no_logprobs  = T(",\"logprobs\":null"),
        .close_choice = T(",\"finish_reason\":null,\"matched_stop\":null}"),
        .end_delta    = T(",\"delta\":{\"role\":null,\"content\":null,\"reasoning_content\":null,"
                          "\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":\""),
        .end_choice   = T("\",\"matched_stop\":null}"),
        .thought_name = T("reasoning_content"), .running_usage = true, .checks_model = true},
    [KIND_LLAMACPP] = {
        .name = "llamacpp", .server = T("Server: llama.cpp\r\n"), .owner = T("llamacpp"),
        .role_delta   = T(",\"delta\":{\"role\":\"assistant\",\"content\":null}"),
        .open_content = T(",\"delta\":{\"content\":\""),
        .open_thought = T(",\"delta\":{\"reasoning_content\":\""),
        .open_call    = T(",\"delta\":{\"tool_calls\":[{\"index\":0"),
        .close_delta  = T("\"}"), .close_call = T("}]}"),
        .no_logprobs  = T(""),
        .close_choice = T(",\"finish_reason\":null}"),
        .end_delta    = T(",\"delta\":{},\"finish_reason\":\""),
        .end_choice   = T("\"}"),
        .thought_name = T("reasoning_content")},
    [KIND_TGI] = {
        .name = "tgi", .server = T(""), .owner = T("tgi"),
        .role_delta   = T(",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"),
        .open_content = T(",\"delta\":{\"role\":\"assistant\",\"content\":\""),
        .open_thought = T(",\"delta\":{\"role\":\"assistant\",\"content\":\""),
        .open_call    = T(",\"delta\":{\"role\":\"assistant\",\"tool_calls\":[{\"index\":0"),
        .close_delta  = T("\"}"), .close_call = T("}]}"),
        .no_logprobs  = T(",\"logprobs\":null"),
        .close_choice = T(",\"finish_reason\":null}"),
        .end_delta    = T(",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                          "\"finish_reason\":\""),
        .end_choice   = T("\"}"),
        .thought_name = T("")},
    [KIND_OPENAI] = {
        .name = "openai", .server = T("server: cloudflare\r\n"), .owner = T("openai"),
        .role_delta   = T(",\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}"),
        .open_content = T(",\"delta\":{\"content\":\""),
        .open_thought = T(",\"delta\":{\"content\":\""), /* and nothing in it */
        .open_call    = T(",\"delta\":{\"tool_calls\":[{\"index\":0"),
        .close_delta  = T("\"}"), .close_call = T("}]}"),
        .no_logprobs  = T(",\"logprobs\":null"),
        .close_choice = T(",\"finish_reason\":null}"),
        .end_delta    = T(",\"delta\":{},\"logprobs\":null,\"finish_reason\":\""),
        .end_choice   = T("\"}"),
        .thought_name = T(""), .checks_model = true},
};
#undef T

enum {
    V = 1 << KIND_VLLM,
    S = 1 << KIND_SGLANG,
    L = 1 << KIND_LLAMACPP,
    G = 1 << KIND_TGI,
    O = 1 << KIND_OPENAI,
};
/* Sources: vLLM entrypoints, SGLang http_server.py, llama.cpp tools/server/server.cpp, TGI
 * router/src/server.rs, OpenAI's API reference. */
static const struct {
    const char *path;
    enum endpoint endpoint;
    unsigned kinds;
} paths[] = {
    {"/v1/chat/completions",      ENDPOINT_CHAT,           V | S | L | G | O},
    {"/v1/completions",           ENDPOINT_COMPLETIONS,    V | S | L | G | O},
    {"/v1/embeddings",            ENDPOINT_EMBEDDINGS,     V | S | L | O},
    {"/v1/responses",             ENDPOINT_RESPONSES,      V | S | L | O},
    {"/v1/messages",              ENDPOINT_MESSAGES,       V | S | L},
    {"/v1/messages/count_tokens", ENDPOINT_COUNT_TOKENS,   V | S | L},
    {"/v1/rerank",                ENDPOINT_RERANK,         V | S | L},
    {"/rerank",                   ENDPOINT_RERANK,         V | L},
    {"/v2/rerank",                ENDPOINT_RERANK,         V},
    {"/v1/score",                 ENDPOINT_SCORE,          V | S},
    {"/score",                    ENDPOINT_SCORE,          V},
    {"/tokenize",                 ENDPOINT_TOKENIZE,       V | S | L},
    {"/detokenize",               ENDPOINT_DETOKENIZE,     V | S | L},
    {"/v1/audio/transcriptions",  ENDPOINT_TRANSCRIPTIONS, V | S | O},
    {"/v1/audio/translations",    ENDPOINT_TRANSLATIONS,   V | O},
    {"/pooling",                  ENDPOINT_POOLING,        V},
    {"/classify",                 ENDPOINT_CLASSIFY,       V | S},
    {"/v1/classify",              ENDPOINT_CLASSIFY,       S},
};
/* clang-format on */

const struct kind_row *kind_row(void)
{
    return &rows[dialect.kind];
}

bool kind_of_name(const char *name, enum kind *out_kind)
{
    for (unsigned i = 0; i < KINDS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out_kind = (enum kind)i;
            return true;
        }
    }
    return false;
}

bool kind_find_endpoint(struct text path, enum endpoint *out_endpoint, const char **out_path)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct text known = {paths[i].path, strlen(paths[i].path)};
        if (!text_equals(path, known) || !(paths[i].kinds & (1u << dialect.kind)))
            continue;
        *out_endpoint = paths[i].endpoint;
        *out_path = paths[i].path;
        return true;
    }
    return false;
}
