/* SPDX-License-Identifier: Apache-2.0 */
/* meter/journal.c: the durable record of charges: one writer thread.
 *
 * For:       a ring of ended slots in, appended lines out.
 * Called by: meter.c.
 * Knows not: directories, the exchange behind a slot.
 *
 * The ring has at least as many cells as the table has slots, and a slot is in it at most once, so
 * a producer's cell is always free: posting is one addition and one store. Workers do not wake the
 * writer; it looks every 10 ms, every 1 ms while much is ending. */
#include "meter/journal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/base/behind.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "meter/row.h"

#define BATCH_BYTES (256 * 1024)
#define BATCH_ROWS 1024
#define BUSY_ROWS 64 /* rows in one look from which on the next comes sooner */
#define PAUSE_IDLE_NS (10 * NS_PER_MS)
#define PAUSE_BUSY_NS (1 * NS_PER_MS)
#define PAUSE_FAILED_NS (100 * NS_PER_MS)
#define FAILURES_WHILE_STOPPING 20u

struct journal {
    /* Producers: any worker. A cell is the low half of (its position + 1) << 32 | index. */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t *cells;
    uint64_t mask;

    /* The writer's alone, but for the atomics that others read. */
    _Alignas(64) uint64_t head;
    struct inflight *table;
    int fd;
    bool was_linked; /* the file had a name when we began */
    struct behind behind;
    uint64_t seq; /* of the next row */
    struct row_author author;
    char *batch;
    size_t batch_bytes;
    uint32_t *batch_slots; /* of the rows in batch */
    size_t batch_rows;
    _Atomic uint64_t rows;
    atomic_bool failing;

    atomic_bool stopping;
    pthread_t thread;
};

void journal_post(struct journal *journal, uint32_t index)
{
    uint64_t position = atomic_fetch_add_explicit(&journal->tail, 1, memory_order_acq_rel);

    atomic_store_explicit(&journal->cells[position & journal->mask], (position + 1) << 32 | index,
                          memory_order_release);
}

/* The next ended slot in order; false when there is none, or its producer is between its two
 * steps. */
static bool take_ended(struct journal *journal, uint32_t *out_index)
{
    uint64_t cell =
        atomic_load_explicit(&journal->cells[journal->head & journal->mask], memory_order_acquire);

    if ((uint32_t)(cell >> 32) != (uint32_t)(journal->head + 1))
        return false;
    *out_index = (uint32_t)cell;
    journal->head++;
    return true;
}

static void fill_batch(struct journal *journal)
{
    uint32_t index;

    journal->batch_bytes = 0;
    journal->batch_rows = 0;
    while (journal->batch_rows < BATCH_ROWS &&
           BATCH_BYTES - journal->batch_bytes >= ROW_BYTES_MAX && take_ended(journal, &index)) {
        if (journal->fd >= 0)
            journal->batch_bytes +=
                row_render(&journal->author, &journal->table->slots[index], journal->seq++,
                           journal->batch + journal->batch_bytes);
        journal->batch_slots[journal->batch_rows++] = index;
    }
}

static void pause_for(uint64_t pause_ns)
{
    const struct timespec pause = {.tv_sec = (time_t)(pause_ns / NS_PER_S),
                                   .tv_nsec = (long)(pause_ns % NS_PER_S)};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void note_failure(struct journal *journal, int problem)
{
    metric_add(METRIC_journal_errors_total, 1);
    if (!atomic_exchange_explicit(&journal->failing, true, memory_order_relaxed))
        log_event(LOG_ERROR, "journal_failing", "rows wait in memory until it works again: %s",
                  strerror(problem));
}

static bool is_linked(int fd)
{
    struct stat about;

    return fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink > 0;
}

/* Has somebody removed the file under us? What is written to it then is written to nobody. */
static bool is_removed(const struct journal *journal)
{
    return journal->was_linked && !is_linked(journal->fd);
}

/* true: the batch is in the file. What was written of it stays written: a line cut short by a full
 * disk goes on where it stopped. false: the process stops and the disk still fails; the rows stay
 * in the table, whose file is kept. */
static bool write_batch(struct journal *journal)
{
    size_t written = 0;
    unsigned failures_while_stopping = 0;

    while (written < journal->batch_bytes) {
        ssize_t wrote = -1;
        errno = ENOENT;
        if (!is_removed(journal))
            wrote = write(journal->fd, journal->batch + written, journal->batch_bytes - written);
        if (wrote > 0) {
            written += (size_t)wrote;
            behind_wrote(&journal->behind, journal->fd, (size_t)wrote);
        } else if (wrote == 0 || errno != EINTR) {
            note_failure(journal, wrote == 0 ? EIO : errno);
            log_flush();
            if (atomic_load_explicit(&journal->stopping, memory_order_acquire) &&
                ++failures_while_stopping > FAILURES_WHILE_STOPPING)
                return false;
            pause_for(PAUSE_FAILED_NS);
        }
    }
    if (atomic_exchange_explicit(&journal->failing, false, memory_order_relaxed))
        log_event(LOG_WARN, "journal_works", "rows are being written again");
    return true;
}

/* Everything that has ended becomes rows; returns their number. */
static size_t write_ended(struct journal *journal)
{
    size_t rows = 0;

    for (;;) {
        fill_batch(journal);
        if (journal->batch_rows == 0)
            return rows;
        if (!write_batch(journal))
            return rows;
        inflight_free(journal->table, journal->batch_slots, journal->batch_rows);
        atomic_fetch_add_explicit(&journal->rows, journal->batch_rows, memory_order_release);
        metric_add(METRIC_journal_rows_total, (int64_t)journal->batch_rows);
        rows += journal->batch_rows;
    }
}

static void *run_writer(void *argument)
{
    struct journal *journal = argument;
    bool stopping;
    size_t rows;

    do {
        stopping = atomic_load_explicit(&journal->stopping, memory_order_acquire);
        rows = write_ended(journal);
        log_flush();
        if (!stopping)
            pause_for(rows >= BUSY_ROWS ? PAUSE_BUSY_NS : PAUSE_IDLE_NS);
    } while (!stopping);
    return NULL;
}

/* Signals are for the main thread. */
static bool start_thread(struct journal *journal)
{
    sigset_t all, before;
    int problem;

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
    free(journal->cells);
    free(journal->batch);
    free(journal->batch_slots);
    free(journal);
}

enum err journal_start(struct inflight *table, int fd, struct span gateway, uint64_t epoch,
                       struct journal **out_journal)
{
    struct journal *journal = NULL;
    void *memory = NULL;
    uint64_t cells = 1;

    while (cells < table->count)
        cells *= 2;
    if (posix_memalign(&memory, 64, sizeof(*journal)) != 0)
        return ERR_NO_MEMORY;
    journal = memory;
    memset(journal, 0, sizeof(*journal));
    journal->table = table;
    journal->fd = fd;
    journal->was_linked = is_linked(fd);
    journal->seq = 1;
    journal->mask = cells - 1;
    journal->cells = calloc(cells, sizeof(*journal->cells));
    journal->batch = malloc(BATCH_BYTES);
    journal->batch_slots = calloc(BATCH_ROWS, sizeof(*journal->batch_slots));
    if (!journal->cells || !journal->batch || !journal->batch_slots) {
        journal_free(journal);
        return ERR_NO_MEMORY;
    }
    row_author_init(&journal->author, gateway, epoch);
    if (!start_thread(journal)) {
        journal_free(journal);
        return ERR_INTERNAL;
    }
    *out_journal = journal;
    return OK;
}

bool journal_stop(struct journal *journal)
{
    bool all;

    if (!journal)
        return true;
    atomic_store_explicit(&journal->stopping, true, memory_order_release);
    pthread_join(journal->thread, NULL);
    all = journal_rows(journal) == journal_posted(journal);
    journal_free(journal);
    return all;
}

uint64_t journal_rows(const struct journal *journal)
{
    return atomic_load_explicit(&journal->rows, memory_order_acquire);
}

uint64_t journal_posted(const struct journal *journal)
{
    return atomic_load_explicit(&journal->tail, memory_order_acquire);
}

bool journal_failing(const struct journal *journal)
{
    return atomic_load_explicit(&journal->failing, memory_order_relaxed);
}
