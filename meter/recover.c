/* SPDX-License-Identifier: Apache-2.0 */
/* meter/recover.c: what dead processes left under way becomes rows.
 *
 * For:       recover.h.
 * Called by: journal.c at the start, and its writer from time to time.
 * Knows not: how rows are written.
 *
 * Which slots have their row already? Those whose exchange id stands in a row of the dead process:
 * it frees a slot only behind its row, so in its last two files. And those whose id stands in a row
 * that names the dead process, written by a recoverer that died before it could delete the table:
 * in a file that was written since. The table's and the dead one's files' last changes are before
 * its death; CLOCK_STEP_US is for clocks that were set back.
 *
 * The table is in memory, and the kernel writes it out as it likes. After a loss of power a slot
 * may be as it was long before the end, and its row in any file of the dead one that was written
 * since the slot was taken. */
#include "meter/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/api.h"
#include "config/base/hash.h"
#include "config/base/log.h"
#include "meter/files.h"
#include "meter/record.h"
#include "meter/settle.h"

#define CLOCK_STEP_US (INT64_C(3600) * 1000000)
#define DEAD_FILES 2u /* of its own that may have rows of slots that are not free */
#define DEAD_NAME_BYTES (STORE_GATEWAY_BYTES_MAX + 24)

/* ---- one slot ---- */

static void set_flag(struct slot *slot, uint32_t flag)
{
    atomic_fetch_or_explicit(&slot->flags, flag, memory_order_relaxed);
}

void recover_end(struct slot *slot, const struct price *price, int64_t now_us)
{
    const uint32_t published = atomic_load_explicit(&slot->published, memory_order_relaxed);
    struct meter_running *running = &slot->running[published % 2];
    const bool delivered = running->delivered != 0;
    const bool charged = endpoint_row((enum endpoint)slot->endpoint)->charged;
    enum usage_source source = (enum usage_source)running->source;
    uint32_t flags = 0;

    if (delivered && charged) {
        (void)settle_usage(&slot->guess, running->text_bytes, running->pieces, &running->usage,
                           &source);
        running->source = source;
    } else if (!delivered) {
        running->usage = USAGE_UNKNOWN;
        running->source = SOURCE_NONE;
    }
    slot->billable = delivered && charged && price;
    slot->outcome = OUTCOME_CRASH_RECOVERED;
    slot->status = delivered ? 200 : 0;
    slot->first_token_us = 0;
    slot->ended_us = now_us;
    slot->unit_cost_pusd = -1;
    slot->cost_pusd =
        slot->billable ? settle_cost(price, (enum service_tier)slot->tier, &running->usage, &flags)
                       : 0;
    set_flag(slot, flags);
    atomic_store_explicit(&slot->state, SLOT_ENDED, memory_order_release);
}

static bool any_member(void *owner, struct span name, struct span value)
{
    (void)owner;
    (void)name;
    (void)value;
    return true;
}

/* Tags go into the row as they are: of a damaged table they may be no object, or no text. */
static void drop_damaged_tags(struct slot *slot)
{
    const struct span tags = inflight_opening_text(slot, OPENING_TAGS);

    if (tags.size == 0 || (record_members(tags, any_member, NULL) && log_is_utf8(tags) &&
                           !memchr(tags.data, '\n', tags.size)))
        return;
    slot->opening_ends[OPENING_TAGS] = slot->opening_ends[OPENING_TAGS - 1];
    set_flag(slot, FLAG_DECISION_CUT);
}

/* ---- slots by exchange id ---- */

/* Slots that are not free. Cells hold index + 1; 0: empty. */
struct id_set {
    uint32_t *cells;
    size_t mask;
    size_t count;
};

static uint32_t state_of(const struct slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_relaxed);
}

static enum err gather_ids(const struct inflight *table, struct id_set *out_ids)
{
    struct id_set ids = {.count = 0};
    size_t room = 16;

    for (uint32_t i = 0; i < table->count; i++)
        ids.count += state_of(&table->slots[i]) != SLOT_FREE;
    while (room < 2 * ids.count)
        room *= 2;
    ids.mask = room - 1;
    ids.cells = calloc(room, sizeof(*ids.cells));
    if (!ids.cells)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct span id = inflight_opening_text(&table->slots[i], OPENING_EXCHANGE_ID);
        size_t at = (size_t)hash_text(id) & ids.mask;
        if (state_of(&table->slots[i]) == SLOT_FREE)
            continue;
        while (ids.cells[at] != 0)
            at = (at + 1) & ids.mask;
        ids.cells[at] = i + 1;
    }
    *out_ids = ids;
    return OK;
}

/* The slot of this exchange that is not free; NULL: none. */
static struct slot *find_slot(const struct inflight *table, const struct id_set *ids,
                              struct span id)
{
    if (id.size == 0)
        return NULL;
    for (size_t at = (size_t)hash_text(id) & ids->mask; ids->cells[at] != 0;
         at = (at + 1) & ids->mask) {
        struct slot *slot = &table->slots[ids->cells[at] - 1];
        if (state_of(slot) != SLOT_FREE &&
            span_equal(inflight_opening_text(slot, OPENING_EXCHANGE_ID), id))
            return slot;
    }
    return NULL;
}

/* ---- rows that are there already ---- */

/* One dead process's table while it becomes rows. */
struct recovery {
    const struct store *store;
    struct recover_sink *sink;
    int64_t now_us;
    struct journal_file dead; /* its gateway and epoch */
    char name[NAME_MAX + 1];  /* of the table */
    int64_t died_after_us;
    char dead_name[DEAD_NAME_BYTES]; /* "g1-3" */
    struct inflight table;
    struct id_set ids;
    struct recover_report *report;
    size_t skipped; /* of the file at hand */
    char *problem;
    size_t problem_size;
};

static enum err fail(const struct recovery *recovery, enum err err, const char *file,
                     const char *what)
{
    (void)snprintf(recovery->problem, recovery->problem_size, "%s: %s", file, what);
    return err;
}

/* Frees the slot, in this mapping alone, whose row this line is. recovered: what the row must name
 * as its origin; empty: the dead process wrote it itself. */
static void heed_line(struct recovery *recovery, struct span line, struct span recovered)
{
    struct record record;
    struct slot *slot;
    char what[128];

    if (record_read(line, &record, what, sizeof(what)) != OK || record.kind != RECORD_CALL ||
        !span_equal(record.recovered, recovered))
        return;
    slot = find_slot(&recovery->table, &recovery->ids, record.exchange_id);
    if (!slot)
        return;
    atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_relaxed);
    recovery->skipped++;
}

/* Lines of the dead process itself. The first exchange_id of a line is the row's, as no object and
 * no text with a bare quote stands before it: most lines are seen to be of others by it alone. */
static void heed_own_lines(struct recovery *recovery, struct lines *lines)
{
    static const char field[] = "\"exchange_id\":\"";
    const size_t field_bytes = sizeof(field) - 1;
    struct span line;

    while (lines_next(lines, &line) == LINE_WHOLE) {
        const char *at = memmem(line.data, line.size, field, field_bytes);
        struct span id;
        const char *end;
        if (!at)
            continue;
        id = span_from(line, (size_t)(at - line.data) + field_bytes);
        end = memchr(id.data, '"', id.size);
        if (!end)
            continue;
        id.size = (size_t)(end - id.data);
        if (find_slot(&recovery->table, &recovery->ids, id))
            heed_line(recovery, line, (struct span){NULL, 0});
    }
}

/* Lines of recoverers: those that name the dead process. */
static void heed_recovered_lines(struct recovery *recovery, const struct lines *lines)
{
    char field[6 * DEAD_NAME_BYTES + 32] = "\"recovered\":\"";
    const size_t name_at = strlen(field);
    const size_t name_bytes =
        log_escape(span_of(recovery->dead_name), field + name_at, sizeof(field) - name_at - 1);
    const size_t field_bytes = name_at + name_bytes + 1;
    size_t at = 0;

    field[field_bytes - 1] = '"';
    while (at < lines->bytes) {
        const char *hit = memmem(lines->data + at, lines->bytes - at, field, field_bytes);
        const char *before, *end;
        struct span line;
        if (!hit)
            return;
        end = memchr(hit, '\n', (size_t)(lines->data + lines->bytes - hit));
        if (!end)
            return; /* torn: it is no row */
        before = memrchr(lines->data, '\n', (size_t)(hit - lines->data));
        line.data = before ? before + 1 : lines->data;
        line.size = (size_t)(end - line.data);
        heed_line(recovery, line, (struct span){field + name_at, name_bytes});
        at = (size_t)(end - lines->data) + 1;
    }
}

/* A row that stands for a slot must be on the disk before the table goes. */
static enum err sync_file(const struct recovery *recovery, const char *name)
{
    const int fd = openat(recovery->store->directory_fd, name, O_RDONLY | O_CLOEXEC);
    enum err err = OK;

    if (fd < 0 || fdatasync(fd) != 0)
        err = fail(recovery, ERR_INTERNAL, name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return err;
}

static enum err heed_file(struct recovery *recovery, const char *name, bool is_own)
{
    struct lines lines;

    if (lines_open(recovery->store->directory_fd, name, 0, &lines) != OK)
        return fail(recovery, ERR_INTERNAL, name, strerror(errno));
    recovery->skipped = 0;
    if (is_own)
        heed_own_lines(recovery, &lines);
    else
        heed_recovered_lines(recovery, &lines);
    lines_close(&lines);
    recovery->report->skipped += recovery->skipped;
    return recovery->skipped > 0 ? sync_file(recovery, name) : OK;
}

static bool is_of_dead(const struct recovery *recovery, const struct journal_file *file)
{
    return file->epoch == recovery->dead.epoch &&
           strcmp(file->gateway, recovery->dead.gateway) == 0;
}

/* Since when the dead one's files may have rows of its slots, but for the last, which may anyhow.
 */
static int64_t own_since_us(const struct recovery *recovery)
{
    int64_t since_us = INT64_MAX;

    if (!recovery->table.other_boot)
        return INT64_MAX;
    for (uint32_t i = 0; i < recovery->table.count; i++) {
        const struct slot *slot = &recovery->table.slots[i];
        if (state_of(slot) != SLOT_FREE && slot->admitted_us < since_us)
            since_us = slot->admitted_us;
    }
    return since_us > INT64_MIN + CLOCK_STEP_US ? since_us - CLOCK_STEP_US : INT64_MIN;
}

static enum err heed_rows(struct recovery *recovery)
{
    struct journal_file *files = NULL;
    size_t count = 0;
    const int64_t own_us = own_since_us(recovery);
    int64_t since_us = recovery->died_after_us;
    enum err err = files_list(recovery->store->directory_fd, &files, &count, recovery->problem,
                              recovery->problem_size);

    if (err != OK)
        return err;
    for (size_t i = 0; i < count; i++) {
        if (is_of_dead(recovery, &files[i]) && files[i].modified_us > since_us)
            since_us = files[i].modified_us;
    }
    since_us -= CLOCK_STEP_US;
    for (size_t i = 0; i < count && err == OK; i++) {
        const bool is_own = is_of_dead(recovery, &files[i]);
        const bool is_last =
            i + DEAD_FILES >= count || !is_of_dead(recovery, &files[i + DEAD_FILES]);
        if (is_own ? is_last || files[i].modified_us >= own_us : files[i].modified_us >= since_us)
            err = heed_file(recovery, files[i].name, is_own);
    }
    free(files);
    return err;
}

/* ---- one table ---- */

static enum err write_rows(struct recovery *recovery)
{
    const uint64_t before = recovery->report->rows;
    enum err err;

    for (uint32_t i = 0; i < recovery->table.count; i++) {
        struct slot *slot = &recovery->table.slots[i];
        const struct price *price = inflight_price(&recovery->table, slot);
        const bool open = state_of(slot) == SLOT_OPEN;
        if (state_of(slot) == SLOT_FREE)
            continue;
        drop_damaged_tags(slot);
        if (open)
            recover_end(slot, price, recovery->now_us);
        err = recovery->sink->write(recovery->sink, slot, price, span_of(recovery->dead_name));
        if (err != OK)
            return fail(recovery, err, recovery->name, "its rows cannot be written");
        recovery->report->rows++;
        recovery->report->crash_recovered += open;
    }
    if (recovery->report->rows == before)
        return OK;
    err = recovery->sink->sync(recovery->sink);
    return err == OK ? OK : fail(recovery, err, recovery->name, "its rows cannot be synced");
}

static enum err recover_slots(struct recovery *recovery)
{
    enum err err = gather_ids(&recovery->table, &recovery->ids);

    if (err != OK)
        return fail(recovery, err, recovery->name, "no memory");
    if (recovery->ids.count > 0)
        err = heed_rows(recovery);
    if (err == OK)
        err = write_rows(recovery);
    free(recovery->ids.cells);
    return err;
}

/* The rows are safe: the table goes, unless it has something that only a person can read. */
static void end_table(struct recovery *recovery, int fd)
{
    const uint32_t damaged = recovery->table.damaged;

    log_event(LOG_WARN, "table_recovered", "%s: a process died with %zu request%s in its table",
              recovery->name, recovery->ids.count, span_plural(recovery->ids.count));
    recovery->report->tables++;
    if (damaged == 0) {
        store_bury_table(recovery->store, recovery->name, fd);
        return;
    }
    log_event(LOG_ERROR, "table_damaged",
              "%s: damaged slots, without a row: %u; the file is kept as %s.damaged",
              recovery->name, damaged, recovery->name);
    store_set_table_aside(recovery->store, recovery->name, fd);
}

/* fd is closed in any case. */
static enum err recover_table(struct recovery *recovery, int fd)
{
    const char *why = NULL;
    struct stat about;
    enum err err;

    if (!files_parse_name(recovery->name, &recovery->dead) || fstat(fd, &about) != 0) {
        close(fd);
        return fail(recovery, ERR_INTERNAL, recovery->name, strerror(errno));
    }
    recovery->died_after_us = (int64_t)about.st_mtim.tv_sec * 1000000;
    (void)snprintf(recovery->dead_name, sizeof(recovery->dead_name), "%s-%llu",
                   recovery->dead.gateway, (unsigned long long)recovery->dead.epoch);
    err = inflight_open_dead(&recovery->table, fd, &why);
    if (err != OK) {
        close(fd);
        if (err != ERR_BAD_VALUE)
            return fail(recovery, err, recovery->name, "no memory");
        log_event(LOG_ERROR, "table_unreadable", "%s: %s; it is left alone", recovery->name, why);
        return OK;
    }
    err = recover_slots(recovery);
    if (err == OK)
        end_table(recovery, fd);
    else
        close(fd);
    inflight_fini(&recovery->table);
    return err;
}

enum err recover_dead(const struct store *store, struct recover_sink *sink, int64_t now_us,
                      struct recover_report *out_report, char *problem, size_t problem_size)
{
    struct recovery recovery = {
        .store = store,
        .sink = sink,
        .now_us = now_us,
        .report = out_report,
        .problem = problem,
        .problem_size = problem_size,
    };
    uint64_t cursor = 0;
    enum err err = OK;
    int fd;

    *out_report = (struct recover_report){.tables = 0};
    while (err == OK && (fd = store_next_dead_table(store, &cursor, recovery.name)) >= 0)
        err = recover_table(&recovery, fd);
    return err;
}
