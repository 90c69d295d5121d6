/* SPDX-License-Identifier: Apache-2.0 */
/* meter/scribe.c: this process's lines in the journal: their chain, and the files that they fill.
 *
 * For:       seq and prev of each line; the open line that begins a file and the signed head that
 *            ends it; balances as of the last line.
 * Called by: journal.c.
 * Knows not: threads, when to try again, who waits for a row. */
#include "meter/scribe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"

/* Reserved for each slot: twice what a long row takes. One of hostile texts may take more; not all
 * of them at once do. */
#define RESERVED_ROW_BYTES 2048

/* A line was put at the batch's end: the next one follows it. */
static void link_line(struct scribe *scribe, size_t line_bytes)
{
    uint8_t digest[HASH_SHA256_BYTES];

    hash_sha256((struct span){scribe->batch + scribe->batch_bytes, line_bytes - 1}, digest);
    hash_hex(digest, sizeof(digest), scribe->prev);
    scribe->batch_bytes += line_bytes;
    scribe->seq++;
}

static struct row_link next_link(const struct scribe *scribe)
{
    return (struct row_link){.seq = scribe->seq, .prev = scribe->prev};
}

/* Room in the batch, which is empty, for a line of so many bytes. */
static bool widen_batch(struct scribe *scribe, size_t bytes)
{
    char *wider;

    if (bytes <= scribe->batch_room)
        return true;
    wider = realloc(scribe->batch, bytes);
    if (!wider)
        return false;
    scribe->batch = wider;
    scribe->batch_room = bytes;
    return true;
}

static bool has_room_for_open(struct scribe *scribe)
{
    return widen_batch(
        scribe, row_open_bytes_max(scribe->history->before_count, scribe->history->balance_count));
}

static void add_open(struct scribe *scribe)
{
    const struct history *history = scribe->history;
    const struct row_link link = next_link(scribe);
    const size_t bytes = row_render_open(&scribe->author, &link, clock_wall_us(), history->before,
                                         history->before_count, history->balances,
                                         history->balance_count, scribe->batch);

    scribe->first_seq = scribe->seq;
    scribe->file_rows = 0;
    scribe->open_bytes = (int64_t)bytes;
    link_line(scribe, bytes);
}

/* ---- opening ---- */

/* What lies ahead in a new file: its own first and last lines, and a row for each slot. */
static int64_t needed_at_first(const struct scribe *scribe)
{
    return scribe->reserve_bytes + (int64_t)row_open_bytes_max(scribe->history->before_count,
                                                               scribe->history->balance_count);
}

/* A new file with its reserve; false with a problem. A file that cannot be reserved is given up. */
static bool make_file(struct scribe *scribe, uint64_t first_seq, struct segment *out_segment,
                      char *problem, size_t problem_size)
{
    char name[NAME_MAX + 1];
    const int fd = store_create_journal(scribe->store, first_seq, problem, problem_size);

    if (fd < 0)
        return false;
    segment_begin(out_segment, fd);
    if (segment_reserve(out_segment, needed_at_first(scribe)) == SEGMENT_DONE)
        return true;
    store_journal_name(scribe->store, first_seq, name);
    (void)snprintf(problem, problem_size, "journal file %s: reserving its disk blocks: %s", name,
                   strerror(errno));
    segment_end(out_segment);
    (void)unlinkat(scribe->store->directory_fd, name, 0);
    return false;
}

enum err scribe_open(struct scribe *scribe, const struct store *store, struct sign_key *key,
                     struct history *history, uint32_t slots, uint64_t now_ns, char *problem,
                     size_t problem_size)
{
    *scribe = (struct scribe){
        .store = store,
        .key = key,
        .history = history,
        .reserve_bytes = (int64_t)slots * RESERVED_ROW_BYTES + ROW_BYTES_MAX,
        .seq = 1,
        .segment = {.fd = -1},
        .next = {.fd = -1},
        .opened_ns = now_ns,
        .batch = malloc(SCRIBE_BATCH_BYTES),
        .batch_room = SCRIBE_BATCH_BYTES,
    };
    memset(scribe->prev, '0', sizeof(scribe->prev) - 1);
    row_author_init(&scribe->author, span_of(store->gateway), store->epoch);
    if (!scribe->batch || !has_room_for_open(scribe)) {
        (void)snprintf(problem, problem_size, "journal: no memory");
        scribe_close(scribe);
        return ERR_NO_MEMORY;
    }
    if (!make_file(scribe, scribe->seq, &scribe->segment, problem, problem_size)) {
        scribe_close(scribe);
        return ERR_INTERNAL;
    }
    add_open(scribe);
    return OK;
}

void scribe_close(struct scribe *scribe)
{
    segment_end(&scribe->segment);
    segment_end(&scribe->next);
    free(scribe->batch);
    scribe->batch = NULL;
}

/* ---- rows ---- */

enum err scribe_add(struct scribe *scribe, const struct slot *slot, const struct price *price,
                    struct span recovered)
{
    const struct row_link link = next_link(scribe);

    link_line(scribe, row_render(&scribe->author, &link, slot, price, recovered,
                                 scribe->batch + scribe->batch_bytes));
    scribe->file_rows++;
    return history_post(scribe->history, inflight_opening_text(slot, OPENING_TENANT),
                        slot->cost_pusd);
}

enum segment_state scribe_write(struct scribe *scribe)
{
    const enum segment_state state = segment_append(
        &scribe->segment, (struct span){scribe->batch, scribe->batch_bytes}, &scribe->written);

    if (state == SEGMENT_DONE) {
        scribe->batch_bytes = 0;
        scribe->written = 0;
    }
    return state;
}

/* ---- the next file ---- */

bool scribe_is_due(const struct scribe *scribe, int64_t segment_bytes, int64_t segment_age_ms,
                   uint64_t now_ns)
{
    const int64_t after_open = scribe->segment.bytes - scribe->open_bytes;

    if (scribe->file_rows == 0)
        return false;
    if (now_ns - scribe->opened_ns >= clock_ms_to_ns(segment_age_ms))
        return true;
    /* Where many tenants' balances fill the file, rows come to as much as they do. */
    return scribe->segment.bytes >= segment_bytes && after_open >= scribe->open_bytes;
}

/* Room for our own entry, which scribe_enter() fills. */
static bool has_own_before(struct scribe *scribe)
{
    struct history *history = scribe->history;
    struct row_before *wider;

    if (scribe->has_own_before)
        return true;
    if (history->before_count == HISTORY_BEFORE_MAX)
        history->before_count--; /* the oldest */
    wider = realloc(history->before, (history->before_count + 1) * sizeof(*wider));
    if (!wider)
        return false;
    memmove(wider + 1, wider, history->before_count * sizeof(*wider));
    wider[0] = (struct row_before){.seq = 0};
    history->before = wider;
    history->before_count++;
    scribe->has_own_before = true;
    return true;
}

bool scribe_prepare(struct scribe *scribe, char *problem, size_t problem_size)
{
    if (!has_own_before(scribe) || !has_room_for_open(scribe)) {
        (void)snprintf(problem, problem_size, "next journal file: no memory");
        return false;
    }
    return make_file(scribe, scribe->seq + 1, &scribe->next, problem, problem_size);
}

enum err scribe_add_head(struct scribe *scribe)
{
    const struct row_link link = next_link(scribe);
    size_t bytes = 0;
    const enum err err = row_render_head(&scribe->author, &link, clock_wall_us(), scribe->first_seq,
                                         scribe->key, scribe->batch + scribe->batch_bytes, &bytes);

    if (err == OK)
        link_line(scribe, bytes);
    return err;
}

void scribe_enter(struct scribe *scribe, uint64_t now_ns)
{
    scribe_last_line(scribe, &scribe->history->before[0]);
    segment_end(&scribe->segment);
    scribe->segment = scribe->next;
    scribe->next.fd = -1;
    scribe->opened_ns = now_ns;
    add_open(scribe);
}

void scribe_last_line(const struct scribe *scribe, struct row_before *out_line)
{
    char name[NAME_MAX + 1];

    store_journal_name(scribe->store, scribe->first_seq, name);
    *out_line = (struct row_before){.seq = scribe->seq - 1};
    (void)snprintf(out_line->file, sizeof(out_line->file), "%.*s", (int)sizeof(out_line->file) - 1,
                   name);
    memcpy(out_line->sha256, scribe->prev, sizeof(out_line->sha256));
}
