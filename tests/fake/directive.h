/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/directive.h: how a test steers the answer to one request.
 *
 * For:       `[[fake name=value name=value ...]]` anywhere in a body, or the query of POST
 *            /fake/set for all requests.
 * Called by: server.c.
 * Knows not: HTTP, JSON, sockets.
 *
 * name            what it does
 * tokens=N        tokens per choice (8 for a chat, 16 for a completion); max_tokens in the body
 *                 still cuts
 * per_event=K     tokens in one event (1)
 * delay_ms=N      between the events of a choice; a plain answer waits for all its events first
 * first_ms=N      before the head
 * head_ms=N       between the head and the first event
 * ping_ms=N       in a stream that is silent for so long a comment `:` is sent, an event `ping` in
 *                 /v1/messages; again and again
 * stamp=1         an event's content begins with t<CLOCK_MONOTONIC in ns> and a blank
 * big=BYTES       so many `x` more in the first event, or in the plain answer
 * reasoning=N     so many reasoning tokens before the others (reasoning_content, reasoning,
 *                 thinking); a limit of the body holds for both together
 * tool=NAME       a call of this tool is the answer, as when tool_choice demands it; its arguments
 *                 fit the tool's schema if the body has it
 * fail=STATUS     an error in the API's shape; retry_after=S adds that header
 * status_only=S   that status with an empty body
 * reset=WHEN      RST; WHEN is before (the first byte), head (after it), or N: after N events with
 *                 tokens
 * fin=WHEN        a clean close without the end of the body; WHEN as above
 * stall=WHEN      silence until the client leaves; WHEN as above
 * error_event=N   after N events an error event as the kind writes it, then [DONE] where the API
 *                 has one; response.failed in /v1/responses
 * failed=1        a response (/v1/responses) ends as failed when all its tokens are there
 * once=KEY        the faults of this request come only to the first request that bears KEY
 * no_usage=1      no usage anywhere
 * usage_tokens=1  audio: usage counts tokens, else seconds
 * cached=N        so many prompt tokens came from the cache, says the last usage
 * claim_input=N, claim_output=N   the usage says so, whatever is true
 * gzip=1          the body is compressed although nobody asked
 * interim=1       100 and 103 go first
 * junk=1          bytes that are no HTTP, then a close
 * close=1         connection: close
 * length_body=1   a stream with content-length; chunked_body=1: a plain answer in chunks;
 *                 until_close=1: neither
 * split=N         everything is written in pieces of N bytes
 * poison=1        the next request on this connection meets a reset
 * health=STATUS   by POST /fake/set only: what GET /health answers, in the kind's shape */
#ifndef FAKE_DIRECTIVE_H
#define FAKE_DIRECTIVE_H

#include <stdbool.h>

#include "tests/fake/buffer.h"

/* When a fault comes: NEVER, before the first byte, after the head, or after as many token events
 * (0 and up). */
enum { WHEN_NEVER = -3, WHEN_BEFORE = -2, WHEN_HEAD = -1 };

enum { TOOL_NAME_BYTES = 80 };

struct directive {
    long tokens; /* -1: as the body asks */
    long per_event;
    long delay_ms;
    long first_ms;
    long head_ms;
    long stamp;
    long big;
    long fail;        /* 0: none */
    long retry_after; /* seconds; -1: no header */
    long status_only; /* 0: none */
    long reset;       /* WHEN_... */
    long fin;
    long stall;
    long error_event;
    long no_usage;
    long cached;      /* -1: not told */
    long claim_input; /* -1: the truth */
    long claim_output;
    long gzip;
    long interim;
    long junk;
    long close;
    long length_body;
    long chunked_body;
    long until_close;
    long split; /* 0: whole */
    long poison;
    long reasoning;
    long ping_ms;
    long failed;
    long usage_tokens;
    long health;                /* 0: well */
    char tool[TOOL_NAME_BYTES]; /* empty: none */
};

/* What holds when nobody says anything. */
extern const struct directive directive_default;

/* Applies `name=value` words (parted by blanks or &) to a directive. Unknown names are reported by
 * false; the known ones are applied all the same. out_once: the key of `once`, empty when absent;
 * points into words. */
bool directive_apply(struct directive *directive, struct text words, struct text *out_once);

/* Applies the directives of a body, if any, without the faults when their `once` key was seen
 * before. */
void directive_read(struct directive *directive, struct text body);

/* Where the keys of `once` are remembered: a file that several servers share, or (NULL) this
 * process alone. False: the file cannot be used. */
bool directive_remember_in(const char *path);
void directive_forget(void);

#endif
