/* SPDX-License-Identifier: Apache-2.0 */
/* meter/journal.c: the durable record of charges: one writer thread.
 *
 * For:       ended slots in, rows on disk out; when to write, to sync, to begin a file, to
 *            look for dead processes; who is rung and which slots are free then.
 * Called by: meter.c.
 * Knows not: what a line says (row.c), how lines follow each other (scribe.c), the exchange behind
 *            a slot.
 *
 * Where nobody waits for rows, it looks every 50 ms, sooner when many have ended: a row that is
 * written alone costs several times one of a hundred, and the slots are safe where they are. */
#include "meter/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "meter/leftover.h"
#include "meter/posted.h"
#include "meter/scribe.h"

/* Rows written at once. Where groups are synced, one is what ended while the one before was: nobody
 * is kept waiting for others to come, and no more than this for those that have come. */
#define GROUP_ROWS 1024u
#define DURABLE_ROWS 256u
#define WRITER_NICE 5
#define MANY_ROWS 256u /* ended: the writer is woken */
#define PAUSE_IDLE_NS (50 * NS_PER_MS)
#define PAUSE_FAILED_NS (100 * NS_PER_MS)
#define DEAD_EVERY_NS (10 * NS_PER_S) /* between two looks for dead processes */
#define TURN_AGAIN_NS (10 * NS_PER_S) /* after the next file could not be begun */
#define FAILURES_WHILE_STOPPING 20u

struct journal {
    struct posted posted;

    /* The writer's alone (journal_start()'s before it runs), but for the atomics. */
    struct journal_place place;
    struct scribe scribe;
    uint32_t *group; /* slots whose rows are in the scribe's batch */
    size_t group_rows;
    bool more;    /* the group was full: others may be waiting */
    bool running; /* the thread runs: what waits for the disk may be tried again */
    bool gave_up; /* stopping, and the disk does not take what is left */
    bool said_kept, said_dead;
    uint32_t booked; /* prices of the table that are on the disk */
    int problem;     /* errno of the last thing that went wrong */
    unsigned failures_while_stopping;
    uint64_t reserve_ns, turn_ns, dead_ns; /* not before */
    _Atomic uint64_t rows, synced, recovered;
    atomic_bool failing, full, failed;
    atomic_bool stopping;
    pthread_t thread;

    pthread_mutex_t news_lock; /* what is below; held for a copy */
    struct row_before newest, newest_head;
    bool head_untold;
    uint64_t told_seq;
};

void journal_post(struct journal *journal, uint32_t index)
{
    posted_put(&journal->posted, index);
}

/* ---- pauses ---- */

static void pause_for(uint64_t pause_ns)
{
    const struct timespec pause = {.tv_sec = (time_t)(pause_ns / NS_PER_S),
                                   .tv_nsec = (long)(pause_ns % NS_PER_S)};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static bool is_stopping(const struct journal *journal)
{
    return atomic_load_explicit(&journal->stopping, memory_order_acquire);
}

/* ---- the disk ---- */

static bool is_over(const struct journal *journal)
{
    return journal->gave_up || atomic_load_explicit(&journal->failed, memory_order_relaxed);
}

/* Nothing is written any more; what has no row stays in the table, for the next process. */
static void fail(struct journal *journal, const char *what, int problem)
{
    journal->problem = problem;
    metric_add(METRIC_journal_errors_total, 1);
    atomic_store_explicit(&journal->failing, true, memory_order_relaxed);
    if (!atomic_exchange_explicit(&journal->failed, true, memory_order_release))
        log_event(LOG_ERROR, "journal_failed", "%s: %s; nothing can be trusted but a new start",
                  what, strerror(problem));
}

/* true: try again in a moment. */
static bool may_try_again(struct journal *journal, int problem)
{
    journal->problem = problem;
    metric_add(METRIC_journal_errors_total, 1);
    if (!atomic_exchange_explicit(&journal->failing, true, memory_order_relaxed))
        log_event(LOG_ERROR, "journal_failing", "rows wait in memory until it works again: %s",
                  strerror(problem));
    log_flush();
    if (!journal->running ||
        (is_stopping(journal) && ++journal->failures_while_stopping > FAILURES_WHILE_STOPPING)) {
        journal->gave_up = true;
        return false;
    }
    pause_for(PAUSE_FAILED_NS);
    return true;
}

/* true: the batch is in the file. What was written of it stays written: a line cut short by a full
 * disk goes on where it stopped. false: it is over. */
static bool write_out(struct journal *journal)
{
    enum segment_state state;

    while ((state = scribe_write(&journal->scribe)) == SEGMENT_WAITS) {
        if (!may_try_again(journal, errno))
            return false;
    }
    if (state == SEGMENT_FAILED) {
        fail(journal, "writing the journal", errno);
        return false;
    }
    if (atomic_exchange_explicit(&journal->failing, false, memory_order_relaxed))
        log_event(LOG_WARN, "journal_works", "rows are being written again");
    return true;
}

static bool sync_out(struct journal *journal)
{
    if (segment_sync(&journal->scribe.segment) == SEGMENT_DONE)
        return true;
    fail(journal, "syncing the journal", errno);
    return false;
}

/* The newest line on disk is another one. */
static void tell_line(struct journal *journal, bool head)
{
    struct row_before line;

    scribe_last_line(&journal->scribe, &line);
    pthread_mutex_lock(&journal->news_lock);
    journal->newest = line;
    if (head) {
        journal->newest_head = line;
        journal->head_untold = true;
    }
    pthread_mutex_unlock(&journal->news_lock);
}

bool journal_news(struct journal *journal, struct journal_news *out_news)
{
    bool is_new = true;

    pthread_mutex_lock(&journal->news_lock);
    if (journal->head_untold)
        *out_news = (struct journal_news){.line = journal->newest_head, .head = true};
    else if (journal->newest.seq > journal->told_seq)
        *out_news = (struct journal_news){.line = journal->newest};
    else
        is_new = false;
    if (is_new) {
        journal->head_untold = false;
        journal->told_seq = out_news->line.seq;
    }
    pthread_mutex_unlock(&journal->news_lock);
    return is_new;
}

/* ---- files ---- */

/* Blocks for what is under way, before slots are given back to new work. */
static void keep_reserve(struct journal *journal, uint64_t now_ns)
{
    enum segment_state state;

    if (now_ns < journal->reserve_ns)
        return;
    state = segment_reserve(&journal->scribe.segment, journal->scribe.reserve_bytes);
    if (state == SEGMENT_FAILED) {
        fail(journal, "reserving disk blocks", errno);
    } else if (state == SEGMENT_WAITS) {
        journal->reserve_ns = now_ns + PAUSE_FAILED_NS;
        if (!atomic_exchange_explicit(&journal->full, true, memory_order_relaxed))
            log_event(LOG_ERROR, "journal_full",
                      "no new work: the disk has no room for its rows: %s", strerror(errno));
    } else if (atomic_exchange_explicit(&journal->full, false, memory_order_relaxed)) {
        log_event(LOG_WARN, "journal_has_room", "the disk has room for rows again");
    }
}

/* Ends the open file; false: it is over. */
static bool write_head(struct journal *journal)
{
    if (scribe_add_head(&journal->scribe) != OK) {
        fail(journal, "signing the journal's head", EINVAL);
        return false;
    }
    if (!write_out(journal) || !sync_out(journal))
        return false;
    atomic_store_explicit(&journal->synced, journal_rows(journal), memory_order_release);
    tell_line(journal, true);
    return true;
}

static void turn_file(struct journal *journal, uint64_t now_ns)
{
    char problem[512];

    if (!scribe_prepare(&journal->scribe, problem, sizeof(problem))) {
        journal->turn_ns = now_ns + TURN_AGAIN_NS;
        if (!journal->said_kept)
            log_event(LOG_ERROR, "journal_file_kept", "rows go on in the old file: %s", problem);
        journal->said_kept = true;
        return;
    }
    journal->said_kept = false;
    if (!write_head(journal))
        return;
    scribe_enter(&journal->scribe, now_ns);
    if (write_out(journal) && (!journal->place.options->durable || sync_out(journal)))
        tell_line(journal, false);
}

static bool is_due(const struct journal *journal, uint64_t now_ns)
{
    const struct journal_options *options = journal->place.options;

    return now_ns >= journal->turn_ns &&
           scribe_is_due(&journal->scribe,
                         atomic_load_explicit(&options->segment_bytes, memory_order_relaxed),
                         atomic_load_explicit(&options->segment_age_ms, memory_order_relaxed),
                         now_ns);
}

/* ---- dead processes ---- */

struct dead_sink {
    struct recover_sink sink;
    struct journal *journal;
};

static enum err write_dead(struct recover_sink *sink, const struct slot *slot,
                           const struct price *price, struct span dead)
{
    struct journal *journal = container_of(sink, struct dead_sink, sink)->journal;

    if (!scribe_has_room(&journal->scribe) && !write_out(journal))
        return ERR_INTERNAL;
    if (scribe_add(&journal->scribe, slot, price, dead) != OK) {
        fail(journal, "keeping balances", ENOMEM);
        return ERR_NO_MEMORY;
    }
    atomic_fetch_add_explicit(&journal->recovered, 1, memory_order_relaxed);
    metric_add(METRIC_journal_rows_total, 1);
    return OK;
}

static enum err sync_dead(struct recover_sink *sink)
{
    struct journal *journal = container_of(sink, struct dead_sink, sink)->journal;

    return write_out(journal) && sync_out(journal) ? OK : ERR_INTERNAL;
}

/* What dead processes left becomes rows. */
static enum err bury_dead(struct journal *journal, char *problem, size_t problem_size)
{
    struct dead_sink sink = {.sink = {.write = write_dead, .sync = sync_dead}, .journal = journal};
    struct recover_report report = {0};
    enum err err = recover_dead(journal->place.store, &sink.sink, clock_wall_us(), &report, problem,
                                problem_size);

    if (is_over(journal)) {
        (void)snprintf(problem, problem_size, "writing the rows of a dead process: %s",
                       strerror(journal->problem));
        return err != OK ? err : ERR_INTERNAL;
    }
    /* Rows of a table that was not finished: they stand in a file when it is looked at again. */
    if (!write_out(journal) && err == OK)
        err = ERR_INTERNAL;
    if (report.rows > 0)
        tell_line(journal, false);
    if (report.tables > 0 || !journal->running)
        leftover_release(journal->place.store);
    return err;
}

static void look_for_dead(struct journal *journal)
{
    char problem[512] = "";
    const enum err err = bury_dead(journal, problem, sizeof(problem));

    if (err != OK && !journal->said_dead)
        log_event(LOG_ERROR, "journal_recovery_failed", "it is tried again: %s", problem);
    journal->said_dead = err != OK;
}

/* ---- the writer ---- */

/* Is there room for one more row in the group? */
static bool has_room(const struct journal *journal)
{
    const size_t most = journal->place.options->durable ? DURABLE_ROWS : GROUP_ROWS;

    return journal->group_rows < most &&
           (!journal->place.store || scribe_has_room(&journal->scribe));
}

/* Rows of what has ended, not yet written. */
static void fill_group(struct journal *journal)
{
    const struct inflight *table = journal->place.table;
    uint32_t index;

    journal->group_rows = 0;
    while (has_room(journal) && posted_take(&journal->posted, &index)) {
        const struct slot *slot = &table->slots[index];
        journal->group[journal->group_rows++] = index;
        if (journal->place.store && scribe_add(&journal->scribe, slot, inflight_price(table, slot),
                                               (struct span){NULL, 0}) != OK) {
            fail(journal, "keeping balances", ENOMEM);
            return;
        }
    }
    journal->more = !has_room(journal);
}

/* Rings who waits for these rows. */
static void ring_group(struct journal *journal)
{
    if (!journal->place.waits)
        return;
    for (size_t i = 0; i < journal->group_rows; i++) {
        struct meter_wait *wait = atomic_exchange_explicit(&journal->place.waits[journal->group[i]],
                                                           NULL, memory_order_acq_rel);
        if (wait)
            wait->durable(wait);
    }
}

static bool store_group(struct journal *journal)
{
    if (!journal->place.store)
        return true;
    if (!write_out(journal) || (journal->place.options->durable && !sync_out(journal)))
        return false;
    if (journal->place.options->durable)
        atomic_store_explicit(&journal->synced, journal_rows(journal) + journal->group_rows,
                              memory_order_release);
    tell_line(journal, false);
    keep_reserve(journal, clock_now_ns());
    return true;
}

/* What has ended becomes rows; returns their number. */
static size_t write_group(struct journal *journal)
{
    fill_group(journal);
    if (journal->group_rows == 0 || is_over(journal) || !store_group(journal))
        return 0;
    ring_group(journal);
    inflight_free(journal->place.table, journal->group, journal->group_rows);
    atomic_fetch_add_explicit(&journal->rows, journal->group_rows, memory_order_release);
    metric_add(METRIC_journal_rows_total, (int64_t)journal->group_rows);
    return journal->group_rows;
}

static void keep_prices(struct journal *journal)
{
    const uint32_t booked = inflight_booked(journal->place.table);

    if (booked != journal->booked && journal->place.store->table_fd >= 0)
        store_sync_table(journal->place.store);
    journal->booked = booked;
}

/* What is due now and then. */
static void tend(struct journal *journal)
{
    const uint64_t now_ns = clock_now_ns();

    if (!journal->place.store)
        return;
    keep_reserve(journal, now_ns);
    keep_prices(journal);
    if (!is_over(journal) && is_due(journal, now_ns))
        turn_file(journal, now_ns);
    if (!is_over(journal) && now_ns >= journal->dead_ns) {
        look_for_dead(journal);
        journal->dead_ns = clock_now_ns() + DEAD_EVERY_NS;
    }
}

/* After a look that found so many rows. Those that somebody waits for are followed by a look at
 * once: more have come while they were synced. */
static void rest(struct journal *journal, size_t rows)
{
    if (is_over(journal))
        pause_for(PAUSE_IDLE_NS);
    else if (journal->place.waits ? rows == 0 : !journal->more)
        posted_sleep(&journal->posted, PAUSE_IDLE_NS);
}

/* Where a worker shares its core, bytes to a client come before rows, unless they wait for rows.
 * Not much lower: a quarter of a core that is busy writes more rows than one worker ends. */
static void give_way(const struct journal *journal)
{
    if (!journal->place.waits)
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), WRITER_NICE);
}

static void *run_writer(void *argument)
{
    struct journal *journal = argument;
    bool stopping;
    size_t rows;

    give_way(journal);
    do {
        stopping = is_stopping(journal);
        rows = is_over(journal) ? 0 : write_group(journal);
        if (!stopping && !is_over(journal))
            tend(journal);
        log_flush();
        if (!stopping)
            rest(journal, rows);
    } while (!stopping || rows > 0);
    if (journal->place.store && !is_over(journal))
        (void)write_head(journal);
    log_flush();
    return NULL;
}

/* ---- beginning and end ---- */

/* Signals are for the main thread. */
static bool start_thread(struct journal *journal)
{
    sigset_t all, before;
    int problem;

    journal->running = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    problem = pthread_create(&journal->thread, NULL, run_writer, journal);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem == 0)
        pthread_setname_np(journal->thread, "journal");
    return problem == 0;
}

static void journal_free(struct journal *journal)
{
    if (!journal)
        return;
    if (journal->place.store)
        scribe_close(&journal->scribe);
    pthread_mutex_destroy(&journal->news_lock);
    posted_fini(&journal->posted);
    free(journal->group);
    free(journal);
}

/* What the open line names must be there as long as it: a process that was killed may have left
 * lines that were never synced. */
static bool sync_named(const struct store *store, const struct history *history, char *problem,
                       size_t problem_size)
{
    for (size_t i = 0; i < history->before_count; i++) {
        const char *name = history->before[i].file;
        const int fd = openat(store->directory_fd, name, O_RDONLY | O_CLOEXEC);
        const bool synced = fd < 0 ? errno == ENOENT : fdatasync(fd) == 0;
        if (!synced)
            (void)snprintf(problem, problem_size, "syncing %s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        if (!synced)
            return false;
    }
    return true;
}

/* The first file with its open line, and the rows of dead processes. */
static enum err begin_files(struct journal *journal, char *problem, size_t problem_size)
{
    const struct journal_place *place = &journal->place;
    const uint64_t now_ns = clock_now_ns();
    enum err err;

    if (!sync_named(place->store, place->history, problem, problem_size))
        return ERR_INTERNAL;
    err = scribe_open(&journal->scribe, place->store, place->key, place->history,
                      place->table->count, now_ns, problem, problem_size);

    if (err != OK)
        return err;
    journal->dead_ns = now_ns + DEAD_EVERY_NS;
    if (!write_out(journal) || (place->options->durable && !sync_out(journal))) {
        (void)snprintf(problem, problem_size, "journal: %s", strerror(journal->problem));
        return ERR_INTERNAL;
    }
    tell_line(journal, false);
    return bury_dead(journal, problem, problem_size);
}

/* A small table is not left to fill up. */
static uint32_t rows_that_wake(const struct journal_place *place)
{
    const uint32_t quarter = place->table->count / 4 + 1;

    if (place->waits)
        return 1;
    return quarter < MANY_ROWS ? quarter : MANY_ROWS;
}

static struct journal *journal_new(const struct journal_place *place)
{
    struct journal *journal;
    void *memory = NULL;

    if (posix_memalign(&memory, 64, sizeof(*journal)) != 0)
        return NULL;
    journal = memory;
    memset(journal, 0, sizeof(*journal));
    journal->place = *place;
    journal->scribe.segment.fd = -1;
    journal->scribe.next.fd = -1;
    pthread_mutex_init(&journal->news_lock, NULL);
    journal->group = calloc(GROUP_ROWS, sizeof(*journal->group));
    if (posted_init(&journal->posted, place->table->count, rows_that_wake(place)) == OK &&
        journal->group)
        return journal;
    journal_free(journal);
    return NULL;
}

enum err journal_start(const struct journal_place *place, struct journal **out_journal,
                       char *problem, size_t problem_size)
{
    struct journal *journal = journal_new(place);
    enum err err = OK;

    if (!journal) {
        (void)snprintf(problem, problem_size, "journal: no memory");
        return ERR_NO_MEMORY;
    }
    if (place->store)
        err = begin_files(journal, problem, problem_size);
    if (err == OK && !start_thread(journal)) {
        (void)snprintf(problem, problem_size, "journal: no thread");
        err = ERR_INTERNAL;
    }
    if (err != OK) {
        journal_free(journal);
        return err;
    }
    *out_journal = journal;
    return OK;
}

bool journal_end(struct journal *journal)
{
    if (!journal)
        return true;
    if (!atomic_exchange_explicit(&journal->stopping, true, memory_order_acq_rel)) {
        posted_wake(&journal->posted);
        pthread_join(journal->thread, NULL);
    }
    return journal_rows(journal) == journal_posted(journal);
}

bool journal_stop(struct journal *journal)
{
    const bool all = journal_end(journal);

    journal_free(journal);
    return all;
}

/* ---- numbers ---- */

uint64_t journal_rows(const struct journal *journal)
{
    return atomic_load_explicit(&journal->rows, memory_order_acquire);
}

uint64_t journal_posted(const struct journal *journal)
{
    return posted_count(&journal->posted);
}

uint64_t journal_synced(const struct journal *journal)
{
    return atomic_load_explicit(&journal->synced, memory_order_acquire);
}

uint64_t journal_recovered(const struct journal *journal)
{
    return atomic_load_explicit(&journal->recovered, memory_order_relaxed);
}

bool journal_failing(const struct journal *journal)
{
    return atomic_load_explicit(&journal->failing, memory_order_relaxed);
}

bool journal_full(const struct journal *journal)
{
    return atomic_load_explicit(&journal->full, memory_order_relaxed);
}

bool journal_failed(const struct journal *journal)
{
    return atomic_load_explicit(&journal->failed, memory_order_acquire);
}
