/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/directive.c: how a test steers the answer to one request.
 *
 * For:       `[[fake name=value name=value ...]]` anywhere in a body, or the query of POST
 *            /fake/set for all requests.
 * Called by: server.c.
 * Knows not: HTTP, JSON, sockets. */
#include "tests/fake/directive.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KEYS = 1 << 18 }; /* keys remembered at most; a full table lets every fault pass */

static _Atomic uint64_t *seen_keys;

const struct directive directive_default = {
    .tokens = -1,
    .per_event = 1,
    .retry_after = -1,
    .reset = WHEN_NEVER,
    .fin = WHEN_NEVER,
    .stall = WHEN_NEVER,
    .error_event = WHEN_NEVER,
    .cached = -1,
    .claim_input = -1,
    .claim_output = -1,
};

/* clang-format off */
static const struct {
    const char *name;
    size_t place;
} names[] = {
#define NAME(member) {#member, offsetof(struct directive, member)}
    NAME(tokens), NAME(per_event), NAME(delay_ms), NAME(first_ms), NAME(head_ms), NAME(stamp),
    NAME(big), NAME(fail), NAME(retry_after), NAME(status_only), NAME(reset), NAME(fin),
    NAME(stall), NAME(error_event), NAME(no_usage), NAME(cached), NAME(claim_input),
    NAME(claim_output), NAME(gzip), NAME(interim), NAME(junk), NAME(close), NAME(length_body),
    NAME(chunked_body), NAME(until_close), NAME(split), NAME(poison), NAME(reasoning),
    NAME(ping_ms), NAME(failed), NAME(usage_tokens), NAME(health),
#undef NAME
};
/* clang-format on */

static long value_of(struct text word)
{
    long value = 0;

    if (text_equals(word, TEXT("before")))
        return WHEN_BEFORE;
    if (text_equals(word, TEXT("head")))
        return WHEN_HEAD;
    for (size_t i = 0; i < word.bytes && i < 15 && word.at[i] >= '0' && word.at[i] <= '9'; i++)
        value = value * 10 + (word.at[i] - '0');
    return value;
}

/* A name may stand in JSON text: other bytes become `_`. */
static void set_tool(struct directive *directive, struct text value)
{
    size_t count = value.bytes < TOOL_NAME_BYTES - 1 ? value.bytes : TOOL_NAME_BYTES - 1;

    for (size_t i = 0; i < count; i++) {
        char byte = value.at[i];
        directive->tool[i] = byte < ' ' || byte == '"' || byte == '\\' ? '_' : byte;
    }
    directive->tool[count] = '\0';
}

static bool set_member(struct directive *directive, struct text name, struct text value)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (text_equals(name, (struct text){names[i].name, strlen(names[i].name)})) {
            long number = value_of(value);
            memcpy((char *)directive + names[i].place, &number, sizeof number);
            return true;
        }
    }
    return false;
}

bool directive_apply(struct directive *directive, struct text words, struct text *out_once)
{
    const char *at = words.at;
    const char *end = words.at + words.bytes;
    bool all_known = true;

    *out_once = (struct text){words.at, 0};
    while (at < end) {
        const char *begin = at;
        while (at < end && *at != ' ' && *at != '&')
            at++;
        const char *sign = memchr(begin, '=', (size_t)(at - begin));
        if (sign != NULL) {
            struct text name = {begin, (size_t)(sign - begin)};
            struct text value = {sign + 1, (size_t)(at - sign - 1)};
            if (text_equals(name, TEXT("once")))
                *out_once = value;
            else if (text_equals(name, TEXT("tool")))
                set_tool(directive, value);
            else if (!set_member(directive, name, value))
                all_known = false;
        } else if (at > begin) {
            all_known = false;
        }
        if (at < end)
            at++;
    }
    if (directive->per_event < 1)
        directive->per_event = 1;
    return all_known;
}

/* Whether this is the first time that the key is seen. */
static bool remember_key(struct text key)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a, 64 bits */

    for (size_t i = 0; i < key.bytes; i++)
        hash = (hash ^ (uint64_t)(unsigned char)key.at[i]) * 1099511628211u;
    if (hash == 0)
        hash = 1;
    for (uint64_t step = 0; step < KEYS; step++) {
        _Atomic uint64_t *place = &seen_keys[(hash + step) % KEYS];
        uint64_t expected = 0;
        if (atomic_compare_exchange_strong(place, &expected, hash))
            return true;
        if (expected == hash)
            return false;
    }
    return true;
}

static void drop_faults(struct directive *directive)
{
    directive->fail = 0;
    directive->status_only = 0;
    directive->reset = WHEN_NEVER;
    directive->fin = WHEN_NEVER;
    directive->stall = WHEN_NEVER;
    directive->error_event = WHEN_NEVER;
    directive->failed = 0;
    directive->junk = 0;
    directive->close = 0;
    directive->poison = 0;
}

void directive_read(struct directive *directive, struct text body)
{
    static const char opening[] = "[[fake ";
    struct text once;

    if (body.bytes == 0)
        return;
    const char *begin = memmem(body.at, body.bytes, opening, sizeof opening - 1);
    if (begin == NULL)
        return;
    begin += sizeof opening - 1;
    const char *end = memmem(begin, (size_t)(body.at + body.bytes - begin), "]]", 2);
    if (end == NULL)
        return;
    directive_apply(directive, (struct text){begin, (size_t)(end - begin)}, &once);
    if (once.bytes > 0 && !remember_key(once))
        drop_faults(directive);
}

bool directive_remember_in(const char *path)
{
    size_t bytes = KEYS * sizeof *seen_keys;
    int flags = MAP_SHARED;
    int fd = -1;

    if (path == NULL) {
        flags |= MAP_ANONYMOUS;
    } else {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return false;
        if (ftruncate(fd, (off_t)bytes) != 0) {
            close(fd);
            return false;
        }
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED)
        return false;
    seen_keys = memory;
    return true;
}

void directive_forget(void)
{
    for (size_t i = 0; i < KEYS; i++)
        atomic_store_explicit(&seen_keys[i], 0, memory_order_relaxed);
}
