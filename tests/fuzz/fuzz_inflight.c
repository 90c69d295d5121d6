/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_inflight.c: a dead process's table with any of its bytes changed.
 *
 * Checks: it is refused, or each slot that is not free ends and becomes a row within its bound,
 * read within the table. An input is a list of changes of three bytes each: where (two), and what
 * is written there; places are those of the header, of the first price and of two slots. */
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "meter/recover.h"
#include "meter/row.h"

#define HEADER_BYTES 128u
#define CHANGED_BYTES (HEADER_BYTES + sizeof(struct price) + 2 * SLOT_BYTES)
#define CHANGES_MAX 64

static int table_fd = -1;
static off_t book_at, slots_at;

/* A table with one slot open and one ended, made once. */
static void make_table(void)
{
    struct price price = {.until_us = INT64_MAX,
                          .rates = {.input = 10, .output = 100},
                          .tier_ppm = {PRICE_PPM, PRICE_PPM, PRICE_PPM},
                          .bracket_count = 1,
                          .brackets = {{.above = 100, .rates = {.input = 20}}}};
    const struct meter_opening opening = {.exchange_id = SPAN("0123456789abcdef0123456789abcdef"),
                                          .tenant = SPAN("acme"),
                                          .tags_json = SPAN("{\"team\":\"search\"}"),
                                          .endpoint = ENDPOINT_CHAT,
                                          .tier = TIER_FLEX};
    const struct meter_running running = {.usage = USAGE_UNKNOWN, .pieces = 7, .delivered = 1};
    const struct meter_ending ending = {
        .usage = {1, 2, -1, 3, -1}, .billable = true, .status = 200, .unit_cost_pusd = -1};
    struct inflight table;

    table_fd = memfd_create("table", MFD_CLOEXEC);
    CHECK(table_fd >= 0);
    CHECK(inflight_init(&table, table_fd, 2, SPAN("g1"), 1) == OK);
    CHECK(inflight_book(&table, &price, &price.book) == OK);
    for (int i = 0; i < 2; i++) {
        struct slot *slot = inflight_open(&table, &opening);
        CHECK(slot != NULL);
        inflight_route(slot, &(struct meter_route){
                                 .model = SPAN("m"), .replica = SPAN("s1"), .price = &price});
        inflight_publish(slot, &running);
        inflight_waste(slot, SPAN("s1"), SPAN("reset"), &running.usage);
        if (i == 1)
            inflight_end(slot, &ending, 1);
    }
    book_at = (char *)table.book - (char *)table.header;
    slots_at = (char *)table.slots - (char *)table.header;
    inflight_fini(&table);
}

static off_t place_of(size_t number)
{
    number %= CHANGED_BYTES;
    if (number < HEADER_BYTES)
        return (off_t)number;
    number -= HEADER_BYTES;
    if (number < sizeof(struct price))
        return book_at + (off_t)number;
    return slots_at + (off_t)(number - sizeof(struct price));
}

static void check_slot(const struct inflight *table, const struct row_author *author,
                       struct slot *slot)
{
    static const char zeros[65] =
        "0000000000000000000000000000000000000000000000000000000000000000";
    const struct row_link link = {.seq = 1, .prev = zeros};
    const struct price *price = inflight_price(table, slot);
    const uint32_t state = atomic_load(&slot->state);
    char *line;
    size_t bytes;

    if (state == SLOT_FREE)
        return;
#ifdef PLANT_BUG
    if (slot->tier == TIER_PRIORITY)
        slot->tier = SERVICE_TIERS;
#endif
    CHECK(slot->tier < SERVICE_TIERS);
    CHECK(state == SLOT_OPEN || state == SLOT_ENDED);
    if (state == SLOT_OPEN)
        recover_end(slot, price, 5);
    CHECK(!slot->billable || slot->cost_pusd >= 0 || state == SLOT_ENDED);
    line = malloc(ROW_BYTES_MAX);
    CHECK(line != NULL);
    bytes = row_render(author, &link, slot, price, SPAN("g1-1"), line);
    CHECK(bytes <= ROW_BYTES_MAX && line[bytes - 1] == '\n');
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t changes = size / 3 < CHANGES_MAX ? size / 3 : CHANGES_MAX;
    char before[CHANGES_MAX];
    struct row_author author;
    struct inflight table;
    const char *why = NULL;

    if (table_fd < 0)
        make_table();
    row_author_init(&author, SPAN("g1"), 1);
    for (size_t i = 0; i < changes; i++) {
        const off_t place = place_of((size_t)data[3 * i] << 8 | data[3 * i + 1]);
        CHECK(pread(table_fd, &before[i], 1, place) == 1);
        CHECK(pwrite(table_fd, &data[3 * i + 2], 1, place) == 1);
    }
    if (inflight_open_dead(&table, table_fd, &why) == OK) {
        for (uint32_t i = 0; i < table.count; i++)
            check_slot(&table, &author, &table.slots[i]);
        inflight_fini(&table);
    } else {
        CHECK(why != NULL);
    }
    for (size_t i = changes; i-- > 0;) { /* backwards: a place may be named twice */
        const off_t place = place_of((size_t)data[3 * i] << 8 | data[3 * i + 1]);
        CHECK(pwrite(table_fd, &before[i], 1, place) == 1);
    }
    return 0;
}
