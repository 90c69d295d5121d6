/* SPDX-License-Identifier: Apache-2.0 */
/* meter/inflight.c: the table of what is under way, which outlives the process.
 *
 * For:       slots in a shared mapping, and the stack of those that are free.
 * Called by: meter.c.
 * Knows not: rows, files' names, prices beyond their numbers.
 *
 * Killed at any instant: a killed thread's stores are there up to one instruction and none after
 * it, so the order in which the compiler leaves them is what counts. Release stores keep what lies
 * before them there; order_stores() keeps what comes later from moving up. */
#include "meter/inflight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Most bytes of each text; tags take what is left. */
static const uint16_t opening_most[OPENING_TEXTS] = {
    [OPENING_EXCHANGE_ID] = 32, [OPENING_TRACE_ID] = 32,
    [OPENING_TENANT] = 64,      [OPENING_KEY] = 32,
    [OPENING_CLASS] = 32,       [OPENING_REQUEST_ID] = 128,
    [OPENING_MODEL_ASKED] = 64, [OPENING_TAGS] = SLOT_OPENING_BYTES,
};
static const uint16_t route_most[ROUTE_TEXTS] = {
    [ROUTE_MODEL] = 64, [ROUTE_REPLICA] = 32, [ROUTE_WHY] = 64};

_Static_assert(32 + 32 + 64 + 32 + 32 + 128 + 64 <= SLOT_OPENING_BYTES, "all but tags always fit");
_Static_assert(64 + 32 + 64 <= SLOT_ROUTE_BYTES, "the route's texts always fit");

static void order_stores(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static void set_flag(struct slot *slot, uint32_t flag)
{
    uint32_t flags = atomic_load_explicit(&slot->flags, memory_order_relaxed);

    atomic_store_explicit(&slot->flags, flags | flag, memory_order_relaxed);
}

/* How much of text fits most bytes without cutting a UTF-8 sequence in two. */
static size_t fitting_bytes(struct span text, size_t most)
{
    size_t size = text.size;

    if (size <= most)
        return size;
    size = most;
    while (size > 0 && ((unsigned char)text.data[size] & 0xC0) == 0x80)
        size--;
    return size;
}

/* Puts text behind the at bytes of a pool; returns its end there. */
static uint16_t put_text(struct slot *slot, char *pool, uint16_t at, struct span text, size_t most)
{
    size_t size = fitting_bytes(text, most);

    if (size < text.size)
        set_flag(slot, FLAG_DECISION_CUT);
    if (size > 0)
        memcpy(pool + at, text.data, size);
    return (uint16_t)(at + size);
}

static bool reserve(int fd, size_t bytes)
{
    /* A hole in the file would kill the process when the disk is full at its first store. */
    int problem = posix_fallocate(fd, 0, (off_t)bytes);

    errno = problem;
    return problem == 0;
}

enum err inflight_init(struct inflight *table, int fd, uint32_t slots, struct span gateway,
                       uint64_t epoch)
{
    size_t bytes = INFLIGHT_HEADER_BYTES + (size_t)slots * SLOT_BYTES;
    int kind = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *mapping;

    memset(table, 0, sizeof(*table));
    if (fd >= 0 && !reserve(fd, bytes))
        return ERR_INTERNAL;
    table->next_free = calloc(slots, sizeof(*table->next_free));
    if (!table->next_free)
        return ERR_NO_MEMORY;
    mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind, fd, 0);
    if (mapping == MAP_FAILED) {
        free(table->next_free);
        table->next_free = NULL;
        return ERR_NO_MEMORY;
    }
    table->header = mapping;
    table->slots = (struct slot *)(void *)((char *)mapping + INFLIGHT_HEADER_BYTES);
    table->count = slots;
    table->mapped_bytes = bytes;
    *table->header = (struct inflight_header){.magic = {'t', 'o', 'l', 'l', 'g', 'a', 't', 'e'},
                                              .version = INFLIGHT_VERSION,
                                              .slot_bytes = SLOT_BYTES,
                                              .slots = slots,
                                              .epoch = epoch};
    memcpy(table->header->gateway, gateway.data,
           fitting_bytes(gateway, sizeof(table->header->gateway)));
    for (uint32_t i = 0; i < slots; i++) /* slot 0 on top */
        atomic_init(&table->next_free[i], i + 1 < slots ? i + 2 : 0);
    atomic_init(&table->free_head, slots > 0 ? 1 : 0);
    return OK;
}

void inflight_fini(struct inflight *table)
{
    if (table->header)
        munmap(table->header, table->mapped_bytes);
    free(table->next_free);
    memset(table, 0, sizeof(*table));
}

static struct slot *pop_free(struct inflight *table)
{
    uint64_t head = atomic_load_explicit(&table->free_head, memory_order_acquire);
    uint64_t below;

    do {
        uint32_t top = (uint32_t)head;
        if (top == 0)
            return NULL;
        below = atomic_load_explicit(&table->next_free[top - 1], memory_order_relaxed);
        below |= ((head >> 32) + 1) << 32;
    } while (!atomic_compare_exchange_weak_explicit(&table->free_head, &head, below,
                                                    memory_order_acquire, memory_order_acquire));
    return &table->slots[(uint32_t)head - 1];
}

void inflight_free(struct inflight *table, const uint32_t *indexes, size_t count)
{
    uint64_t head, top;

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        atomic_store_explicit(&table->slots[indexes[i]].state, SLOT_FREE, memory_order_release);
        if (i > 0)
            atomic_store_explicit(&table->next_free[indexes[i]], indexes[i - 1] + 1,
                                  memory_order_relaxed);
    }
    head = atomic_load_explicit(&table->free_head, memory_order_relaxed);
    do {
        atomic_store_explicit(&table->next_free[indexes[0]], (uint32_t)head, memory_order_relaxed);
        top = ((head >> 32) + 1) << 32 | (indexes[count - 1] + 1);
    } while (!atomic_compare_exchange_weak_explicit(&table->free_head, &head, top,
                                                    memory_order_release, memory_order_relaxed));
}

static void write_opening_texts(struct slot *slot, const struct meter_opening *opening)
{
    const struct span texts[OPENING_TEXTS] = {
        [OPENING_EXCHANGE_ID] = opening->exchange_id,
        [OPENING_TRACE_ID] = opening->trace_id,
        [OPENING_TENANT] = opening->tenant,
        [OPENING_KEY] = opening->key,
        [OPENING_CLASS] = opening->class,
        [OPENING_REQUEST_ID] = opening->request_id,
        [OPENING_MODEL_ASKED] = opening->model_asked,
        [OPENING_TAGS] = opening->tags_json,
    };
    uint16_t at = 0;

    for (size_t i = 0; i < OPENING_TAGS; i++) {
        at = put_text(slot, slot->opening_text, at, texts[i], opening_most[i]);
        slot->opening_ends[i] = at;
    }
    if (texts[OPENING_TAGS].size > (size_t)(SLOT_OPENING_BYTES - at))
        set_flag(slot, FLAG_DECISION_CUT); /* half an object is none */
    else
        at =
            put_text(slot, slot->opening_text, at, texts[OPENING_TAGS], opening_most[OPENING_TAGS]);
    slot->opening_ends[OPENING_TAGS] = at;
}

struct slot *inflight_open(struct inflight *table, const struct meter_opening *opening)
{
    struct slot *slot = pop_free(table);

    if (!slot)
        return NULL;
    atomic_store_explicit(&slot->published, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->route_writes, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->wastes, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->flags, 0, memory_order_relaxed);
    memset(slot->route_ends, 0, sizeof(slot->route_ends));
    slot->endpoint = (uint8_t)opening->endpoint;
    slot->stream = opening->stream;
    slot->running[0] = (struct slot_running){.usage = USAGE_UNKNOWN, .source = SOURCE_NONE};
    slot->admitted_us = opening->admitted_us;
    slot->bytes_in = opening->bytes_in;
    slot->queue_us = 0;
    slot->sent_us = 0;
    slot->attempts = 0;
    slot->price_known = false;
    write_opening_texts(slot, opening);
    atomic_store_explicit(&slot->state, SLOT_OPEN, memory_order_release);
    atomic_fetch_add_explicit(&table->opened, 1, memory_order_relaxed);
    return slot;
}

void inflight_route(struct slot *slot, const struct meter_route *route)
{
    uint32_t writes = atomic_load_explicit(&slot->route_writes, memory_order_relaxed);
    const struct span texts[ROUTE_TEXTS] = {
        [ROUTE_MODEL] = route->model, [ROUTE_REPLICA] = route->replica, [ROUTE_WHY] = route->why};
    uint16_t at = 0;

    atomic_store_explicit(&slot->route_writes, writes + 1, memory_order_relaxed);
    order_stores();
    slot->queue_us = route->queue_us;
    slot->sent_us = route->sent_us;
    slot->attempts = route->attempts;
    slot->price_known = route->price != NULL;
    if (route->price)
        slot->price = *route->price;
    for (size_t i = 0; i < ROUTE_TEXTS; i++) {
        at = put_text(slot, slot->route_text, at, texts[i], route_most[i]);
        slot->route_ends[i] = at;
    }
    atomic_store_explicit(&slot->route_writes, writes + 2, memory_order_release);
}

void inflight_publish(struct slot *slot, const struct usage *usage, enum usage_source source,
                      int64_t bytes_out)
{
    uint32_t next = atomic_load_explicit(&slot->published, memory_order_relaxed) + 1;
    struct slot_running *running = &slot->running[next % 2];

    order_stores(); /* after the copy before this one was named: this one overwrites its elder */
    running->usage = *usage;
    running->bytes_out = bytes_out;
    running->source = source;
    atomic_store_explicit(&slot->published, next, memory_order_release);
}

static void fill_text(struct slot *slot, char *out, size_t room, struct span text)
{
    size_t size = fitting_bytes(text, room);

    if (size < text.size)
        set_flag(slot, FLAG_DECISION_CUT);
    memset(out, 0, room);
    if (size > 0)
        memcpy(out, text.data, size);
}

static void add_tokens(int64_t *sum, int64_t tokens)
{
    if (tokens > 0)
        *sum = (*sum > 0 ? *sum : 0) + tokens;
}

void inflight_waste(struct slot *slot, struct span replica, struct span cause,
                    const struct usage *usage)
{
    uint32_t count = atomic_load_explicit(&slot->wastes, memory_order_relaxed);
    struct slot_waste *waste;

    if (count == SLOT_WASTES) { /* no room: its tokens join the last one's */
        waste = &slot->waste[count - 1];
        set_flag(slot, FLAG_DECISION_CUT);
        add_tokens(&waste->usage.input, usage->input);
        add_tokens(&waste->usage.cached_input, usage->cached_input);
        add_tokens(&waste->usage.cache_write, usage->cache_write);
        add_tokens(&waste->usage.output, usage->output);
        add_tokens(&waste->usage.reasoning, usage->reasoning);
        return;
    }
    waste = &slot->waste[count];
    fill_text(slot, waste->replica, sizeof(waste->replica), replica);
    fill_text(slot, waste->cause, sizeof(waste->cause), cause);
    waste->usage = *usage;
    atomic_store_explicit(&slot->wastes, count + 1, memory_order_release);
}

void inflight_end(struct slot *slot, const struct meter_ending *ending)
{
    inflight_publish(slot, &ending->usage, ending->source, ending->bytes_out);
    set_flag(slot, ending->flags);
    slot->outcome = (uint8_t)ending->outcome;
    slot->billable = ending->billable;
    slot->status = (uint16_t)ending->status;
    slot->first_token_us = ending->first_token_us;
    slot->ended_us = ending->ended_us;
    slot->cost_pusd = ending->cost_pusd;
    atomic_store_explicit(&slot->state, SLOT_ENDED, memory_order_release);
}

static struct span text_in(const char *pool, const uint16_t *ends, size_t which)
{
    uint16_t start = which > 0 ? ends[which - 1] : 0;

    return (struct span){pool + start, (size_t)(ends[which] - start)};
}

struct span inflight_opening_text(const struct slot *slot, enum slot_opening_text which)
{
    return text_in(slot->opening_text, slot->opening_ends, which);
}

struct span inflight_route_text(const struct slot *slot, enum slot_route_text which)
{
    return text_in(slot->route_text, slot->route_ends, which);
}

const struct slot_running *inflight_running(const struct slot *slot)
{
    return &slot->running[atomic_load_explicit(&slot->published, memory_order_acquire) % 2];
}
