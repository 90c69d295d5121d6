/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask.h: a request body to an ask, and the splices that make it fit its model server; pure.
 *
 * For:       what routing, metering and limits need to know of a body, found in one pass: JSON
 *            (ask.c) or a form (ask_form.c); and how it is changed for a server (ask_splices.c).
 * Called by: steps.c, parcel.c.
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
    int64_t max_tokens;        /* max_completion_tokens, else max_tokens or max_output_tokens; -1:
                                * absent or null */
    int64_t n;                 /* answers for each prompt, best_of included: ≥ 1 */
    int64_t prompts;           /* how many prompts, inputs, or pairs to judge: ≥ 1 */
    struct span task_class;    /* metadata.task_class */
    struct span system_prompt; /* instructions or system, else the first system (or developer)
                                * message: its text or the first text part, at most 4 KiB of it,
                                * raw */
    bool tools;                /* a non-empty tools list */
    bool images;               /* any image, audio, video, file or document part */
    bool schema;               /* response_format (text.format, output_config.format) of type
                                * json_schema or json_object, or guided_json or
                                * structured_outputs */
    int64_t text_bytes;        /* raw text of prompts, messages and tools; media data not counted; a
                                * query that is paired with each document counts in each pair */
    int64_t messages;          /* how many, instructions and items of input included */
    int64_t other_bytes;       /* members that are none of ours, and schemas: a chat template may be
                                * shown them; and one for each part, for what it is joined by */
    int64_t tool_count;        /* tools and functions described */
    int64_t tool_bytes;        /* JSON of these and of calls, within text_bytes: a chat template may
                                * spell it anew */
    int64_t token_ids;         /* prompts given as numbers, each a token; their spelling is within
                                * text_bytes all the same: it is what estimates are made of */
    int64_t token_id_bytes;    /* of that spelling */
    int64_t parts[PART_KINDS]; /* parts that are no text, by kind */
    bool generates;            /* the answer is generated text; false: vectors, scores, counts */
    enum service_tier tier;    /* service_tier: flex, priority, batch; anything else is standard */
    uint32_t refused;          /* enum refused_field bits that are present and not null */
    struct span refused_name;  /* static: the member that set the newest of them; {NULL, 0}: none,
                                * or it lies deeper */

    bool multipart;      /* the body is a form: model_place is a text, not a JSON string */
    bool stream_options; /* the endpoint has them: streams say their usage when asked to */

    struct ask_place model_place, stream_place, stream_options_place, include_usage_place,
        continuous_usage_place, cache_salt_place;
    struct ask_place cache_salt_member, cache_place; /* whole members, from quote to value */
    size_t open_at;                                  /* offset just behind the outermost '{' */
    bool empty;                                      /* the object has no members */
};

/* What is wrong with a body, for the client. */
struct ask_problem {
    size_t offset;
    const char *message; /* static text */
    const char *param;   /* static field name or NULL */
};

/* Reads the body of an endpoint of form JSON. *out_ask is written only on OK; *out_problem is
 * filled for the first two errors.
 *
 * Errors: ERR_BAD_JSON (not JSON, not an object, duplicate top-level keys — also when they differ
 * only in escapes —, more than 10,000 of them, depth), ERR_BAD_VALUE (stream not a boolean, n out
 * of range, model not a string, stream_options without stream, no messages, what would need state
 * that is not kept here …), ERR_NO_MEMORY. The model server's own rules are left to it: only what
 * we must understand to bill and route is checked. */
MUST_CHECK enum err ask_read(enum endpoint endpoint, struct span body,
                             const struct ask_limits *limits, struct arena *arena,
                             struct ask *out_ask, struct ask_problem *out_problem);

/* Reads the body of an endpoint of form MULTIPART. content_type: the request's field, borrowed for
 * the call.
 *
 * Errors: ERR_BAD_CONTENT_TYPE (not multipart/form-data with a boundary; *out_problem is not
 * filled), ERR_BAD_VALUE (not well-formed, no model or no file, a field twice, stream neither true
 * nor false …). */
MUST_CHECK enum err ask_read_multipart(struct span body, struct span content_type,
                                       const struct ask_limits *limits, struct ask *out_ask,
                                       struct ask_problem *out_problem);

#define ASK_SPLICES_MAX 8

/* The splices that turn the body into what a replica of this kind gets (kind.def):
 *  - model becomes upstream_model (JSON-escaped; in a form as it is) when it differs or is absent;
 *    {NULL, 0}: it stays;
 *  - for streams of chat and completions: stream_options replaced, extended or inserted so that
 *    include_usage is true and, where the kind has running usage, continuous_usage_stats is true;
 *    its other members stay as they came;
 *  - cache_salt becomes the given hex salt (when the client sent one); {NULL, 0}: it stays; kinds
 *    that do not take it get none;
 *  - cache, which is for us, is taken out: strict servers refuse it.
 * Ascending, not overlapping; inserted text lies in the arena or is upstream_model. body is the one
 * that was read into ask.
 * Errors: ERR_NO_MEMORY, ERR_BAD_VALUE (a form in which upstream_model would begin another part: it
 * begins with the boundary, or has a line end). */
MUST_CHECK enum err ask_splices(const struct ask *ask, struct span body, enum kind kind,
                                struct span upstream_model, struct span cache_salt,
                                struct arena *arena, struct splice out_splices[ASK_SPLICES_MAX],
                                uint32_t *out_count);

#endif
