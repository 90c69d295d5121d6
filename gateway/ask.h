/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask.h: a request body to an ask, and the splices that make it fit its model server; pure.
 *
 * For:       what routing, metering and limits need to know of a body, found in one pass.
 * Called by: steps.c.
 * Knows not: sockets, tenants, prices; how the body got here. */
#ifndef GATEWAY_ASK_H
#define GATEWAY_ASK_H

#include "config/base/arena.h"
#include "config/config.h"
#include "gateway/scan.h"

struct ask_limits {
    uint32_t json_depth;
    int64_t n;
};

/* Where a member's value lies in the body; size 0: the member is absent. */
struct ask_place {
    size_t at;
    size_t size;
};

/* Spans point into the body or, when they had escapes, into the arena. A member that is null counts
 * as absent, but its place is kept, so that it is replaced and never doubled. */
struct ask {
    struct span model; /* {NULL, 0}: absent, null or "" */
    bool stream;
    bool include_usage; /* what the client itself asked for */
    bool continuous_usage;
    int64_t max_tokens;        /* max_completion_tokens, else max_tokens; -1: absent or null */
    int64_t n;                 /* answers for each prompt, best_of included: ≥ 1 */
    int64_t prompts;           /* how many prompts or inputs: ≥ 1 */
    struct span task_class;    /* metadata.task_class */
    struct span system_prompt; /* text of the first system (or developer) message: its content or
                                * the first text part, at most 4 KiB of it, raw */
    bool tools;                /* a non-empty tools list */
    bool images;               /* any image, audio, video or file part */
    bool schema;               /* response_format of type json_schema or json_object, or guided_json
                                * or structured_outputs */
    int64_t text_bytes;        /* raw text of prompts, messages and tools; media data not counted */
    int64_t messages;          /* how many */
    uint32_t refused;          /* enum refused_field bits that are present and not null */

    struct ask_place model_place, stream_place, stream_options_place, include_usage_place,
        continuous_usage_place, cache_salt_place;
    size_t open_at; /* offset just behind the outermost '{' */
    bool empty;     /* the object has no members */
};

/* What is wrong with a body, for the client. */
struct ask_problem {
    size_t offset;
    const char *message; /* static text */
    const char *param;   /* static field name or NULL */
};

/* Reads a body. *out_ask is written only on OK; *out_problem is filled for the first two errors.
 *
 * Errors: ERR_BAD_JSON (not JSON, not an object, duplicate top-level keys — also when they differ
 * only in escapes —, more than 10,000 of them, depth), ERR_BAD_VALUE (stream not a boolean, n out
 * of range, model not a string, stream_options without stream, no messages …), ERR_NO_MEMORY. The
 * model server's own rules are left to it: only what we must understand to bill and route is
 * checked. */
MUST_CHECK enum err ask_read(enum endpoint endpoint, struct span body,
                             const struct ask_limits *limits, struct arena *arena,
                             struct ask *out_ask, struct ask_problem *out_problem);

#define ASK_SPLICES_MAX 8

/* The splices that turn the body into what a replica of this kind gets:
 *  - model becomes upstream_model (JSON-escaped) when it differs or is absent; {NULL, 0}: it stays;
 *  - for streams: stream_options replaced, extended or inserted so that include_usage is true and,
 *    for KIND_VLLM, continuous_usage_stats is true; its other members stay as they came;
 *  - cache_salt becomes the given hex salt (when the client sent one); {NULL, 0}: it stays.
 * Ascending; inserted text lies in the arena. body is the one that was read into ask.
 * Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err ask_splices(const struct ask *ask, struct span body, enum kind kind,
                                struct span upstream_model, struct span cache_salt,
                                struct arena *arena, struct splice out_splices[ASK_SPLICES_MAX],
                                uint32_t *out_count);

#endif
