/* SPDX-License-Identifier: Apache-2.0 */
/* config/base/vocab.h: the nouns that more than one room speaks.
 *
 * For:       plain values that the gateway carries from room to room, and a few words of the
 *            compiler's.
 * Called by: any room.
 * Knows not: any room; what is here has no behaviour. */
#ifndef CONFIG_BASE_VOCAB_H
#define CONFIG_BASE_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text_at, first_at) __attribute__((__format__(__printf__, text_at, first_at)))

/* For large scratch on a hot path: the compiler's own zeroing of automatic variables would cost
 * more than the work. */
#if defined(__has_attribute) && __has_attribute(uninitialized)
#define UNINITIALIZED __attribute__((uninitialized))
#else
#define UNINITIALIZED
#endif

#define container_of(member_pointer, type, member)                                                 \
    ((type *)(void *)((char *)(member_pointer)-offsetof(type, member)))

/* Bytes borrowed from somebody: not owned, not NUL-terminated. {NULL, 0} is "absent". */
struct span {
    const char *data;
    size_t size;
};

/* What a client asks for; endpoint.def has a row for each. */
enum endpoint {
    ENDPOINT_NONE,
#define ENDPOINT(id, name, path, upstream, shape, form, charge, vllm, sglang, llamacpp, tgi,       \
                 openai)                                                                           \
    ENDPOINT_##id,
#include "config/base/endpoint.def"
#undef ENDPOINT
    ENDPOINT_COUNT
};

/* What kind of model server stands behind a model; kind.def has a row for each. */
enum kind {
#define KIND(id, name, running, salt, whole, metrics) KIND_##id,
#include "config/base/kind.def"
#undef KIND
    KIND_COUNT
};

/* Tokens in disjoint classes: input does not contain cached_input or cache_write, output does not
 * contain reasoning. -1 = not known. */
struct usage {
    int64_t input;
    int64_t cached_input;
    int64_t cache_write;
    int64_t output;
    int64_t reasoning;
};

#define USAGE_UNKNOWN ((struct usage){-1, -1, -1, -1, -1})

/* Where the tokens of a row come from. */
enum usage_source { SOURCE_NONE, SOURCE_REPORTED, SOURCE_RUNNING, SOURCE_ESTIMATED, SOURCE_CACHED };

/* Flags of a row, as bits. */
enum usage_flag {
    FLAG_USAGE_SUSPECT = 1u << 0, /* the reply's numbers contradict each other */
    FLAG_CLAMPED = 1u << 1,       /* the gateway wrote or lowered max_tokens */
    FLAG_DECISION_CUT = 1u << 2,  /* texts of the row were cut to fit the slot */
    FLAG_TRANSLATED = 1u << 3,    /* the API asked for was translated to another's and back */
};

/* The service that a client asked for (service_tier in the body); its price may differ. */
enum service_tier { TIER_STANDARD, TIER_FLEX, TIER_PRIORITY, TIER_BATCH, SERVICE_TIERS };

/* How an exchange ended, as the row says it. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_CLIENT_GONE,
    OUTCOME_REPLICA_ERROR,
    OUTCOME_TIMEOUT,
    OUTCOME_REFUSED,
    OUTCOME_SHED,
    OUTCOME_CRASH_RECOVERED, /* its process died; what it had published is what is charged */
    OUTCOME_COUNT
};

/* How one attempt on a replica ended; what health and retries judge by. */
enum attempt_result {
    ATTEMPT_OK,            /* a whole answer, 2xx or a 4xx that is the client's own */
    ATTEMPT_CLIENT_GONE,   /* we closed it: says nothing of the replica */
    ATTEMPT_CONNECT_ERROR, /* strike */
    ATTEMPT_RESET,         /* strike: closed before the answer was whole */
    ATTEMPT_TIMEOUT,       /* strike: connect, first byte or between bytes */
    ATTEMPT_PROTOCOL,      /* strike: not HTTP, or an answer that breaks its framing */
    ATTEMPT_BUSY,          /* 429 or 503: saturation, never a strike */
    ATTEMPT_FAILED         /* other 5xx: counts by rate */
};

#endif
