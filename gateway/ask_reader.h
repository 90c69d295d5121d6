/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask_reader.h: what is carried through the pass over a JSON body; pure.
 *
 * For:       the members of ask.c's table and the small things that each of them needs: a refusal
 *            with its place, a text, a key that stands once.
 * Called by: ask.c, ask_prompt.c, ask_form.c.
 * Knows not: what a member means. */
#ifndef GATEWAY_ASK_READER_H
#define GATEWAY_ASK_READER_H

#include "config/base/span.h"
#include "gateway/ask.h"
#include "gateway/value.h"

#define KEYS_COMPARED 32 /* so many keys are compared one by one; more go into a hash table */

/* A key of the outermost object, in the table past KEYS_COMPARED. */
struct key_slot {
    struct span key; /* {NULL, 0}: free */
};

/* The keys seen so far. */
struct keys {
    uint32_t count;
    uint32_t slot_count; /* a power of two, or 0 */
    uint64_t probes;     /* slots looked at so far */
    struct key_slot *slots;
    struct span first[KEYS_COMPARED];
};

/* What an endpoint needs, as bits. */
enum given {
    GIVEN_FIRST = 1u << 0, /* messages, prompt, input, query … */
    GIVEN_SECOND = 1u << 1 /* documents and their like, where pairs are judged */
};

/* One side of the pairs that rerank and score judge. */
struct side {
    int64_t count;
    int64_t bytes;
    int64_t parts[PART_KINDS]; /* that are no text */
};

struct ask_reader {
    struct scan scan;
    struct arena *arena;
    const struct ask_limits *limits;
    struct ask ask;
    struct ask_problem problem;
    enum err err;
    uint32_t given;                             /* enum given bits */
    bool has_options;                           /* stream_options that is not null */
    uint32_t nested;                            /* parts within parts, now */
    int64_t completion_tokens, tokens, best_of; /* -1: absent or null */
    struct span instructions; /* system prompt that is no message: stands before all messages */
    struct side sides[2];
    const char *member_at; /* quote of the top-level key whose value is being read */
    struct keys keys;
};

/* A member of the outermost object that matters. */
struct ask_member {
    struct span name;
    uint32_t endpoints; /* bits of those that have it */
    bool (*read)(struct ask_reader *reader, const struct ask_member *member);
    uint32_t bits; /* as its reader takes them */
};

/* ---- refusals: all answer false; the first one stands ---- */

/* Ends the pass with an error about the byte at `at`. message and param are static. */
bool ask_refuse(struct ask_reader *reader, enum err err, const char *at, const char *message,
                const char *param);

/* ERR_BAD_VALUE about a value. */
bool ask_bad_value(struct ask_reader *reader, struct span value, const char *message,
                   const char *param);

/* ---- values ---- */

/* What stands next, for refusals about a value that was not taken. */
static inline struct span ask_here(const struct ask_reader *reader)
{
    return (struct span){reader->scan.at, 0};
}

/* Where a value lies in the body. */
struct ask_place ask_place_of(const struct ask_reader *reader, struct span value);

/* Text of a string value: into the body, or decoded in the arena. */
MUST_CHECK bool ask_take_text(struct ask_reader *reader, struct span value, const char *param,
                              struct span *out_text);

/* Decodes a top-level key and keeps it; refuses the body when it was there before. */
MUST_CHECK bool ask_take_key(struct ask_reader *reader, struct span raw, struct span *out_key);

/* ---- by ask.c's table ---- */

/* Which enum refused_field a field of this name is, in whatever form it comes; 0: none. */
uint32_t ask_refused_bits(struct span name);

#endif
