/* SPDX-License-Identifier: Apache-2.0 */
/* meter/keeper.c: one thread that keeps the books while the gateway runs.
 *
 * For:       feeds the ledger from the journal, answers questions to it, tells anchors, deletes
 *            files of the journal that have served their time.
 * Called by: meter.c.
 * Knows not: slots, exchanges, SQL.
 *
 * One turn: the questions that wait, a batch of rows, the anchor, now and then old files; then it
 * sleeps until a question comes or the tick is over. */
#include "meter/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"
#include "meter/anchor.h"
#include "meter/books_room.h"
#include "meter/retire.h"
#include "meter/row.h"

#define TICK_NS (INT64_C(200) * 1000000)
#define FEED_ROWS 8192
#define QUERY_NS (10 * NS_PER_S)
#define ASKED_NS (200 * NS_PER_MS) /* in one turn, but for the question at hand */
#define RETIRE_EVERY_NS (60 * NS_PER_S)
#define STOP_NS NS_PER_S
#define STOP_TICK_NS (INT64_C(10) * 1000000)
#define PROBLEM_BYTES 512

/* Its life; only onwards. */
enum phase {
    PHASE_SERVES,  /* questions may come */
    PHASE_REFUSES, /* those that wait and all that come are refused */
    PHASE_ENDS     /* the thread does what is left, and is over */
};

/* The question that the thread has taken:
 *   HAND_EMPTY -> HAND_ANSWERS -> HAND_EMPTY    it runs on the books; keeper_refuse() interrupts it
 *   HAND_EMPTY -> HAND_REFUSES -> HAND_EMPTY    it was taken when the phase was not PHASE_SERVES
 * Only the thread moves it. */
enum hand { HAND_EMPTY, HAND_ANSWERS, HAND_REFUSES };

struct keeper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;     /* a question has come, or it is to stop; on the monotonic clock */
    pthread_cond_t answered; /* one question fewer */

    /* Under the lock. */
    struct meter_query *first, *last; /* questions that wait */
    uint32_t waiting;
    enum phase phase;
    enum hand hand;

    /* Set before the thread starts. */
    struct books *books; /* NULL: no ledger is kept */
    struct journal *journal;
    struct sign_key *key;
    struct span gateway; /* in gateway_text */
    uint64_t epoch;
    char gateway_text[STORE_GATEWAY_BYTES_MAX + 1];

    /* Any thread. */
    _Atomic int64_t anchor_every_ms, keep_ms;
    _Atomic int64_t behind;
    _Atomic uint64_t told_ns; /* when the last anchor was told; 0: none yet */

    /* The thread's own. */
    struct anchor anchor;
    struct journal_news news; /* not told yet */
    bool has_news;
    uint64_t began_ns; /* when the anchor at hand was begun */
    uint64_t retire_ns;
    bool feed_failing, retire_failing; /* logged */
};

/* ---- questions ---- */

static struct meter_query *take_query(struct keeper *keeper)
{
    struct meter_query *query;

    pthread_mutex_lock(&keeper->lock);
    query = keeper->first;
    if (query) {
        keeper->first = query->next;
        if (!keeper->first)
            keeper->last = NULL;
        keeper->waiting--;
    }
    if (query)
        keeper->hand = keeper->phase == PHASE_SERVES ? HAND_ANSWERS : HAND_REFUSES;
    pthread_mutex_unlock(&keeper->lock);
    return query;
}

static void answer_query(struct keeper *keeper, struct meter_query *query)
{
    if (keeper->hand == HAND_REFUSES) {
        query->refused(query, "the gateway is stopping");
        return;
    }
    ledger_limit(keeper->books->ledger, clock_now_ns() + QUERY_NS);
    query->run(query, keeper->books);
    ledger_limit(keeper->books->ledger, 0);
}

/* Answers one question. false: there was none. */
static bool answer(struct keeper *keeper)
{
    struct meter_query *query = take_query(keeper);

    if (!query)
        return false;
    answer_query(keeper, query);
    pthread_mutex_lock(&keeper->lock);
    if (keeper->hand == HAND_ANSWERS)
        ledger_interrupt(keeper->books->ledger, false);
    keeper->hand = HAND_EMPTY;
    (void)pthread_cond_broadcast(&keeper->answered);
    pthread_mutex_unlock(&keeper->lock);
    return true;
}

/* Questions that wait, for a while: who keeps on asking keeps neither rows nor anchors waiting. */
static void answer_some(struct keeper *keeper)
{
    const uint64_t until_ns = clock_now_ns() + ASKED_NS;

    while (answer(keeper) && clock_now_ns() < until_ns)
        ;
}

enum err keeper_query(struct keeper *keeper, struct meter_query *query)
{
    enum err err = OK;

    if (!keeper->books)
        return ERR_NO_LEDGER;
    pthread_mutex_lock(&keeper->lock);
    if (keeper->phase != PHASE_SERVES || keeper->waiting == METER_QUERIES_MAX) {
        err = ERR_OVERLOADED;
    } else {
        query->next = NULL;
        if (keeper->last)
            keeper->last->next = query;
        else
            keeper->first = query;
        keeper->last = query;
        keeper->waiting++;
        (void)pthread_cond_signal(&keeper->wake);
    }
    pthread_mutex_unlock(&keeper->lock);
    return err;
}

/* ---- feeding ---- */

/* false: there is more. */
static bool feed(struct keeper *keeper)
{
    char problem[PROBLEM_BYTES] = "";
    int64_t rows = 0;
    enum err err;

    if (!keeper->books)
        return true;
    err = books_feed(keeper->books, FEED_ROWS, &rows, problem, sizeof(problem));
    metric_add(METRIC_ledger_rows_total, rows);
    if (err != OK)
        metric_add(METRIC_ledger_errors_total, 1);
    if (err != OK && !keeper->feed_failing)
        log_event(LOG_ERROR, "ledger", "%s; it is tried again", problem);
    if (err == OK && keeper->feed_failing)
        log_event(LOG_INFO, "ledger", "is fed again");
    keeper->feed_failing = err != OK;
    atomic_store_explicit(&keeper->behind, books_behind(keeper->books), memory_order_relaxed);
    return rows < FEED_ROWS;
}

/* ---- anchors ---- */

/* Is it time to tell what is new? */
static bool is_due(const struct keeper *keeper, uint64_t now_ns, bool stopping)
{
    const uint64_t every_ns =
        clock_ms_to_ns(atomic_load_explicit(&keeper->anchor_every_ms, memory_order_relaxed));

    return keeper->has_news &&
           (stopping || keeper->news.head || now_ns - keeper->began_ns >= every_ns);
}

static void begin_anchor(struct keeper *keeper, uint64_t now_ns)
{
    char line[ANCHOR_BYTES_MAX];
    size_t size = 0;

    keeper->has_news = false;
    keeper->began_ns = now_ns;
    if (row_render_anchor(keeper->gateway, keeper->epoch, &keeper->news.line, clock_wall_us(),
                          keeper->key, line, &size) == OK)
        anchor_begin(&keeper->anchor, (struct span){line, size});
    else
        log_event(LOG_ERROR, "anchor", "it cannot be signed");
}

/* false: something is under way or due still. */
static bool tell(struct keeper *keeper, bool stopping)
{
    const uint64_t now_ns = clock_now_ns();

    if (!anchor_has_place(&keeper->anchor))
        return true;
    if (journal_news(keeper->journal, &keeper->news))
        keeper->has_news = true;
    /* What could not be told is left for what is newer, which stands for it. */
    if (keeper->anchor.child == 0 && is_due(keeper, now_ns, stopping))
        begin_anchor(keeper, now_ns);
    if (anchor_go_on(&keeper->anchor, now_ns) == ANCHOR_TOLD)
        atomic_store_explicit(&keeper->told_ns, now_ns, memory_order_relaxed);
    return keeper->anchor.line_bytes == 0 && !is_due(keeper, now_ns, stopping);
}

/* ---- old files ---- */

static void retire(struct keeper *keeper)
{
    const int64_t keep_ms = atomic_load_explicit(&keeper->keep_ms, memory_order_relaxed);
    const uint64_t now_ns = clock_now_ns();
    char problem[PROBLEM_BYTES] = "";
    uint32_t files = 0;
    enum err err;

    if (!keeper->books || keep_ms == 0 || now_ns < keeper->retire_ns)
        return;
    keeper->retire_ns = now_ns + RETIRE_EVERY_NS;
    err = retire_files(keeper->books, clock_wall_us() - keep_ms * 1000, &files, problem,
                       sizeof(problem));
    if (err != OK && !keeper->retire_failing)
        log_event(LOG_ERROR, "journal", "deleting old files: %s", problem);
    keeper->retire_failing = err != OK;
}

/* ---- the thread ---- */

static void add_ns(struct timespec *time, int64_t ns)
{
    time->tv_nsec += (long)(ns % (int64_t)NS_PER_S);
    time->tv_sec += (time_t)(ns / (int64_t)NS_PER_S) + time->tv_nsec / (long)NS_PER_S;
    time->tv_nsec %= (long)NS_PER_S;
}

/* Until a question comes, it is to stop, or the tick is over. false: it is to stop. */
static bool rest(struct keeper *keeper)
{
    struct timespec until;
    bool goes_on;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    add_ns(&until, TICK_NS);
    pthread_mutex_lock(&keeper->lock);
    while (keeper->phase != PHASE_ENDS && !keeper->first &&
           pthread_cond_timedwait(&keeper->wake, &keeper->lock, &until) == 0)
        ;
    goes_on = keeper->phase != PHASE_ENDS;
    pthread_mutex_unlock(&keeper->lock);
    return goes_on;
}

static bool is_to_go_on(struct keeper *keeper)
{
    bool goes_on;

    pthread_mutex_lock(&keeper->lock);
    goes_on = keeper->phase != PHASE_ENDS;
    pthread_mutex_unlock(&keeper->lock);
    return goes_on;
}

/* What is left, for a while. */
static void finish(struct keeper *keeper)
{
    const uint64_t until_ns = clock_now_ns() + STOP_NS;
    const struct timespec pause = {.tv_nsec = STOP_TICK_NS};

    if (keeper->books)
        ledger_limit(keeper->books->ledger, until_ns);
    while (!feed(keeper) && clock_now_ns() < until_ns)
        ;
    while (!tell(keeper, true) && clock_now_ns() < until_ns)
        (void)nanosleep(&pause, NULL);
}

static void *run(void *owner)
{
    struct keeper *keeper = owner;

    for (bool going = true; going;) {
        bool caught_up;

        answer_some(keeper);
        caught_up = feed(keeper);
        (void)tell(keeper, false);
        retire(keeper);
        going = caught_up ? rest(keeper) : is_to_go_on(keeper);
    }
    while (answer(keeper))
        ;
    finish(keeper);
    return NULL;
}

/* ---- start and stop ---- */

void keeper_heed(struct keeper *keeper, const struct config *config)
{
    atomic_store_explicit(&keeper->anchor_every_ms, config->meter_anchor_every_ms,
                          memory_order_relaxed);
    atomic_store_explicit(&keeper->keep_ms, config->meter_keep_ms, memory_order_relaxed);
}

static void dispose(struct keeper *keeper)
{
    books_close(keeper->books);
    anchor_fini(&keeper->anchor);
    (void)pthread_mutex_destroy(&keeper->lock);
    (void)pthread_cond_destroy(&keeper->wake);
    (void)pthread_cond_destroy(&keeper->answered);
    free(keeper);
}

static bool init_lock(struct keeper *keeper)
{
    pthread_condattr_t attributes;
    bool made;

    if (pthread_condattr_init(&attributes) != 0)
        return false;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    made = pthread_mutex_init(&keeper->lock, NULL) == 0 &&
           pthread_cond_init(&keeper->wake, &attributes) == 0 &&
           pthread_cond_init(&keeper->answered, NULL) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return made;
}

/* No signal is handled on it, and a command that reads nothing must not end the process. */
static enum err start_thread(struct keeper *keeper, char *problem, size_t problem_size)
{
    sigset_t all, before;
    int code;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    code = pthread_create(&keeper->thread, NULL, run, keeper);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        return OK;
    (void)snprintf(problem, problem_size, "the keeper's thread: %s", strerror(code));
    return ERR_INTERNAL;
}

enum err keeper_start(const struct keeper_place *place, struct keeper **out_keeper, char *problem,
                      size_t problem_size)
{
    const struct config *config = place->config;
    struct keeper *keeper;
    enum err err = OK;

    *out_keeper = NULL;
    if (config->ledger.size == 0 && config->anchor_file.size == 0 &&
        config->anchor_command.size == 0)
        return OK;
    (void)snprintf(problem, problem_size, "no memory");
    keeper = calloc(1, sizeof(*keeper));
    if (!keeper)
        return ERR_NO_MEMORY;
    keeper->journal = place->journal;
    keeper->key = place->key;
    keeper->epoch = place->store->epoch;
    (void)snprintf(keeper->gateway_text, sizeof(keeper->gateway_text), "%s", place->store->gateway);
    keeper->gateway = span_of(keeper->gateway_text);
    keeper->began_ns = clock_now_ns();
    keeper_heed(keeper, config);
    if (!init_lock(keeper) ||
        !anchor_init(&keeper->anchor, config->anchor_file, config->anchor_command))
        err = ERR_NO_MEMORY;
    if (err == OK && config->ledger.size > 0)
        err = books_open(config, &keeper->books, problem, problem_size);
    if (err == OK)
        err = start_thread(keeper, problem, problem_size);
    if (err != OK) {
        dispose(keeper);
        return err;
    }
    *out_keeper = keeper;
    return OK;
}

void keeper_refuse(struct keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->phase = PHASE_REFUSES;
    if (keeper->hand == HAND_ANSWERS)
        ledger_interrupt(keeper->books->ledger, true);
    (void)pthread_cond_signal(&keeper->wake);
    while (keeper->first || keeper->hand != HAND_EMPTY)
        (void)pthread_cond_wait(&keeper->answered, &keeper->lock);
    pthread_mutex_unlock(&keeper->lock);
}

void keeper_stop(struct keeper *keeper)
{
    if (!keeper)
        return;
    keeper_refuse(keeper);
    pthread_mutex_lock(&keeper->lock);
    keeper->phase = PHASE_ENDS;
    (void)pthread_cond_signal(&keeper->wake);
    pthread_mutex_unlock(&keeper->lock);
    (void)pthread_join(keeper->thread, NULL);
    dispose(keeper);
}

/* ---- numbers ---- */

int64_t keeper_anchor_age_ms(const struct keeper *keeper)
{
    const uint64_t told_ns = atomic_load_explicit(&keeper->told_ns, memory_order_relaxed);

    return told_ns == 0 ? -1 : (int64_t)((clock_now_ns() - told_ns) / NS_PER_MS);
}

int64_t keeper_ledger_behind(const struct keeper *keeper)
{
    return keeper->books ? atomic_load_explicit(&keeper->behind, memory_order_relaxed) : -1;
}
