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
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/api.h"
#include "meter/estimate.h"

static const char table_magic[8] = {'t', 'o', 'l', 'l', 'g', 'a', 't', 'e'};

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

/* Bytes of the price book: whole pages. */
static size_t book_bytes(void)
{
    return (INFLIGHT_BOOK_ROWS * sizeof(struct price) + INFLIGHT_HEADER_BYTES - 1) /
           INFLIGHT_HEADER_BYTES * INFLIGHT_HEADER_BYTES;
}

static size_t table_bytes(uint32_t slots)
{
    return INFLIGHT_HEADER_BYTES + book_bytes() + (size_t)slots * SLOT_BYTES;
}

static void set_areas(struct inflight *table, void *mapping, uint32_t slots)
{
    char *start = mapping;

    table->header = mapping;
    table->book = (struct price *)(void *)(start + INFLIGHT_HEADER_BYTES);
    table->slots = (struct slot *)(void *)(start + INFLIGHT_HEADER_BYTES + book_bytes());
    table->count = slots;
    table->mapped_bytes = table_bytes(slots);
}

/* Which start of the machine this is; empty where the kernel does not say. */
static void read_boot(char out[40])
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd < 0 ? 0 : read(fd, out, 36);

    out[bytes == 36 ? 36 : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

enum err inflight_init(struct inflight *table, int fd, uint32_t slots, struct span gateway,
                       uint64_t epoch)
{
    const int kind = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *mapping;

    memset(table, 0, sizeof(*table));
    if (fd >= 0 && !reserve(fd, table_bytes(slots)))
        return ERR_INTERNAL;
    table->next_free = calloc(slots, sizeof(*table->next_free));
    if (!table->next_free)
        return ERR_NO_MEMORY;
    mapping = mmap(NULL, table_bytes(slots), PROT_READ | PROT_WRITE, kind, fd, 0);
    if (mapping == MAP_FAILED) {
        free(table->next_free);
        table->next_free = NULL;
        return ERR_NO_MEMORY;
    }
    set_areas(table, mapping, slots);
    *table->header = (struct inflight_header){.version = INFLIGHT_VERSION,
                                              .slot_bytes = SLOT_BYTES,
                                              .slots = slots,
                                              .price_bytes = sizeof(struct price),
                                              .epoch = epoch};
    memcpy(table->header->magic, table_magic, sizeof(table_magic));
    memcpy(table->header->gateway, gateway.data,
           fitting_bytes(gateway, sizeof(table->header->gateway)));
    read_boot(table->header->boot);
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

/* ---- prices ---- */

static bool rates_equal(const struct rates *a, const struct rates *b)
{
    return a->input == b->input && a->cached_input == b->cached_input &&
           a->cache_write == b->cache_write && a->output == b->output &&
           a->reasoning == b->reasoning;
}

/* Alike in all but where they lie in a book. */
static bool price_equal(const struct price *a, const struct price *b)
{
    if (a->from_us != b->from_us || a->until_us != b->until_us ||
        !rates_equal(&a->rates, &b->rates) || a->cache_hit != b->cache_hit ||
        memcmp(a->tier_ppm, b->tier_ppm, sizeof(a->tier_ppm)) != 0 ||
        a->bracket_marginal != b->bracket_marginal ||
        a->bracket_inclusive != b->bracket_inclusive || a->bracket_count != b->bracket_count ||
        a->volume_marginal != b->volume_marginal || a->volume_count != b->volume_count)
        return false;
    for (uint32_t i = 0; i < a->bracket_count; i++) {
        if (a->brackets[i].above != b->brackets[i].above ||
            !rates_equal(&a->brackets[i].rates, &b->brackets[i].rates))
            return false;
    }
    for (uint32_t i = 0; i < a->volume_count; i++) {
        if (a->volumes[i].above != b->volumes[i].above ||
            a->volumes[i].factor_ppm != b->volumes[i].factor_ppm)
            return false;
    }
    return true;
}

enum err inflight_book(struct inflight *table, const struct price *price, uint32_t *out_row)
{
    const uint32_t rows = atomic_load_explicit(&table->header->book_rows, memory_order_relaxed);

    for (uint32_t row = 0; row < rows; row++) {
        if (price_equal(&table->book[row], price)) {
            *out_row = row;
            return OK;
        }
    }
    if (rows == INFLIGHT_BOOK_ROWS)
        return ERR_NO_MEMORY;
    table->book[rows] = *price;
    table->book[rows].book = rows;
    atomic_store_explicit(&table->header->book_rows, rows + 1, memory_order_release);
    *out_row = rows;
    return OK;
}

uint32_t inflight_booked(const struct inflight *table)
{
    return atomic_load_explicit(&table->header->book_rows, memory_order_acquire);
}

const struct price *inflight_price(const struct inflight *table, const struct slot *slot)
{
    const uint32_t rows = inflight_booked(table);

    if (slot->price == 0 || slot->price > rows || slot->price > INFLIGHT_BOOK_ROWS)
        return NULL;
    return table->book[slot->price - 1].book == slot->price - 1 ? &table->book[slot->price - 1]
                                                                : NULL;
}

/* ---- free slots ---- */

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
    slot->tier = (uint8_t)opening->tier;
    slot->running[0] = (struct meter_running){.usage = USAGE_UNKNOWN, .source = SOURCE_NONE};
    slot->guess = (struct meter_guess){0};
    slot->admitted_us = opening->admitted_us;
    slot->bytes_in = opening->bytes_in;
    slot->queue_us = 0;
    slot->sent_us = 0;
    slot->attempts = 0;
    slot->price = 0;
    slot->held_pusd = 0;
    write_opening_texts(slot, opening);
    atomic_store_explicit(&slot->state, SLOT_OPEN, memory_order_release);
    atomic_fetch_add_explicit(&table->opened, 1, memory_order_relaxed);
    return slot;
}

/* One too large to be held bounds nothing that is ever answered. */
static uint32_t bound_of(int64_t tokens)
{
    return tokens >= 0 && tokens < METER_NO_BOUND ? (uint32_t)tokens : METER_NO_BOUND;
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
    slot->price = route->price ? route->price->book + 1 : 0;
    slot->guess = estimate_guess(route->estimate, route->prompt_bytes);
    slot->guess.most_input = bound_of(route->most_input);
    slot->guess.most_output = bound_of(route->most_output);
    for (size_t i = 0; i < ROUTE_TEXTS; i++) {
        at = put_text(slot, slot->route_text, at, texts[i], route_most[i]);
        slot->route_ends[i] = at;
    }
    atomic_store_explicit(&slot->route_writes, writes + 2, memory_order_release);
}

void inflight_publish(struct slot *slot, const struct meter_running *running)
{
    const uint32_t next = atomic_load_explicit(&slot->published, memory_order_relaxed) + 1;

    order_stores(); /* after the copy before this one was named: this one overwrites its elder */
    slot->running[next % 2] = *running;
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

void inflight_end(struct slot *slot, const struct meter_ending *ending, int64_t cost_pusd)
{
    /* Killed before ENDED is there, the slot is judged by these totals: an ending that is not
     * billed is none then either. */
    const struct meter_running totals = {
        .usage = ending->usage,
        .bytes_out = ending->bytes_out,
        .text_bytes = ending->text_bytes,
        .pieces = ending->pieces,
        .source = ending->source,
        .delivered = inflight_running(slot)->delivered && ending->billable,
    };

    inflight_publish(slot, &totals);
    set_flag(slot, ending->flags);
    slot->outcome = (uint8_t)ending->outcome;
    slot->billable = ending->billable;
    slot->status = (uint16_t)ending->status;
    slot->first_token_us = ending->first_token_us;
    slot->ended_us = ending->ended_us;
    slot->cost_pusd = cost_pusd;
    slot->unit_cost_pusd = ending->unit_cost_pusd;
    atomic_store_explicit(&slot->state, SLOT_ENDED, memory_order_release);
}

/* ---- readers ---- */

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

const struct meter_running *inflight_running(const struct slot *slot)
{
    return &slot->running[atomic_load_explicit(&slot->published, memory_order_acquire) % 2];
}

/* ---- a dead process's table ---- */

/* Most bytes that one exchange can be believed to have had; and the last moment that it can have
 * been at, in the year 2255: sums of such numbers fit, and books have a place for such moments. */
#define COUNT_MOST (INT64_C(1) << 53)

static bool in_range(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static bool ends_are_whole(const uint16_t *ends, size_t count, size_t room)
{
    for (size_t i = 0; i < count; i++) {
        if (ends[i] > room || (i > 0 && ends[i] < ends[i - 1]))
            return false;
    }
    return true;
}

/* Tokens may be any number: a reply can claim what it likes, and pricing checks its sums. */
static bool running_is_whole(const struct meter_running *running)
{
    return in_range(running->bytes_out, 0, COUNT_MOST) &&
           in_range(running->text_bytes, 0, COUNT_MOST) &&
           in_range(running->pieces, 0, COUNT_MOST) && running->source <= SOURCE_CACHED;
}

/* Something was learned, or nothing: never tokens of no bytes. */
static bool ratio_is_whole(uint64_t sums)
{
    return sums == 0 || sums >> 32 != 0;
}

static bool guess_is_whole(const struct meter_guess *guess)
{
    return guess->input >= 0 && ratio_is_whole(guess->answer) && ratio_is_whole(guess->pieces);
}

/* The route was being written when the process died, so nothing of it was sent: there is none. */
static void drop_torn_route(struct slot *slot)
{
    if (atomic_load_explicit(&slot->route_writes, memory_order_relaxed) % 2 == 0)
        return;
    memset(slot->route_ends, 0, sizeof(slot->route_ends));
    slot->price = 0;
    slot->guess = (struct meter_guess){0};
    slot->sent_us = 0;
}

static bool opening_is_whole(const struct slot *slot)
{
    return ends_are_whole(slot->opening_ends, OPENING_TEXTS, SLOT_OPENING_BYTES) &&
           slot->endpoint < ENDPOINT_COUNT && slot->tier < SERVICE_TIERS &&
           in_range(slot->admitted_us, 0, COUNT_MOST) && in_range(slot->bytes_in, 0, COUNT_MOST);
}

static bool route_is_whole(const struct slot *slot)
{
    return ends_are_whole(slot->route_ends, ROUTE_TEXTS, SLOT_ROUTE_BYTES) &&
           guess_is_whole(&slot->guess) && in_range(slot->queue_us, 0, COUNT_MOST) &&
           in_range(slot->sent_us, 0, COUNT_MOST);
}

static bool ending_is_whole(const struct slot *slot)
{
    return slot->outcome < OUTCOME_COUNT && in_range(slot->first_token_us, 0, COUNT_MOST) &&
           in_range(slot->ended_us, 0, COUNT_MOST) && slot->cost_pusd >= 0 &&
           slot->unit_cost_pusd >= -1;
}

/* Can a process have left this slot so? */
static bool slot_is_whole(const struct slot *slot, uint32_t state)
{
    const bool ended = state == SLOT_ENDED;

    return (state == SLOT_OPEN || ended) && opening_is_whole(slot) && route_is_whole(slot) &&
           running_is_whole(inflight_running(slot)) &&
           atomic_load_explicit(&slot->wastes, memory_order_relaxed) <= SLOT_WASTES &&
           (!ended || ending_is_whole(slot));
}

static bool rates_are_whole(const struct rates *rates)
{
    return rates->input >= 0 && rates->cached_input >= 0 && rates->cache_write >= 0 &&
           rates->output >= 0 && rates->reasoning >= 0;
}

/* Truth values that are neither would be no values at all: read as bytes. */
static bool is_truth_value(const bool *value)
{
    unsigned char byte;

    memcpy(&byte, value, 1);
    return byte <= 1;
}

static bool price_is_whole(const struct price *price, uint32_t row)
{
    if (price->book != row || price->tier_ppm[TIER_STANDARD] <= 0 ||
        !is_truth_value(&price->bracket_marginal) || !is_truth_value(&price->bracket_inclusive) ||
        !is_truth_value(&price->volume_marginal) || price->bracket_count > PRICE_BRACKETS_MAX ||
        price->volume_count > PRICE_VOLUMES_MAX || !rates_are_whole(&price->rates))
        return false;
    for (size_t i = 0; i < SERVICE_TIERS; i++) {
        if (price->tier_ppm[i] < 0)
            return false;
    }
    for (uint32_t i = 0; i < price->bracket_count; i++) {
        if (price->brackets[i].above < 0 || !rates_are_whole(&price->brackets[i].rates))
            return false;
    }
    return true;
}

/* What cannot be is set aside here, so that readers need not ask again. */
static void look_through(struct inflight *table)
{
    const uint32_t rows = atomic_load_explicit(&table->header->book_rows, memory_order_relaxed);

    for (uint32_t row = 0; row < rows; row++) {
        if (!price_is_whole(&table->book[row], row))
            table->book[row].book = UINT32_MAX; /* inflight_price() knows it by that */
    }
    for (uint32_t i = 0; i < table->count; i++) {
        struct slot *slot = &table->slots[i];
        const uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (state == SLOT_FREE)
            continue;
        drop_torn_route(slot);
        if (slot_is_whole(slot, state))
            continue;
        atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_relaxed);
        table->damaged++;
    }
}

/* What a header says against the file that it heads; NULL: nothing. */
static const char *header_problem(const struct inflight_header *header, uint64_t file_bytes)
{
    if (memcmp(header->magic, table_magic, sizeof(table_magic)) != 0)
        return "it is not a table";
    if (header->version != INFLIGHT_VERSION || header->slot_bytes != SLOT_BYTES ||
        header->price_bytes != sizeof(struct price))
        return "it is of another version: only the gateway that wrote it can make its rows";
    if (file_bytes < table_bytes(header->slots))
        return "it is cut short";
    if (atomic_load_explicit(&header->book_rows, memory_order_acquire) > INFLIGHT_BOOK_ROWS)
        return "its price book is damaged";
    return NULL;
}

enum err inflight_open_dead(struct inflight *table, int fd, const char **out_why)
{
    struct inflight_header header;
    char boot[40];
    struct stat about;
    void *mapping;

    memset(table, 0, sizeof(*table));
    *out_why = "it is cut short";
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) ||
        pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
        return ERR_BAD_VALUE;
    *out_why = header_problem(&header, (uint64_t)about.st_size);
    if (*out_why)
        return ERR_BAD_VALUE;
    mapping = mmap(NULL, table_bytes(header.slots), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED)
        return ERR_NO_MEMORY;
    set_areas(table, mapping, header.slots);
    read_boot(boot);
    table->other_boot = boot[0] == '\0' || memcmp(boot, header.boot, sizeof("") + 36) != 0;
    look_through(table);
    return OK;
}
