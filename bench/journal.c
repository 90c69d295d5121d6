/* SPDX-License-Identifier: Apache-2.0 */
/* bench/journal.c: how fast the journal's writer is (build/journal-bench [seconds [directory]]).
 *
 * For:       rows a second and CPU a row, without sync on one core; then rows a second when each is
 *            waited for until it is synced.
 * Called by: a person.
 * Knows not: the gateway; slots are filled here as it fills them.
 *
 * One thread ends slots as fast as the table has free ones; the writer's CPU time is its own
 * thread's, so that a machine with other work to do changes the rate but hardly the cost. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/span.h"
#include "meter/journal.h"

#define SLOTS 4096u

struct bench {
    char directory[256];
    struct store store;
    struct inflight table;
    struct sign_key *key;
    struct history history;
    struct journal_options options;
    _Atomic(struct meter_wait *) waits[SLOTS];
    struct journal *journal;
    struct meter_wait wait; /* all slots have this one */
    uint64_t ended;
};

static _Atomic uint64_t rung;

static void count_ring(struct meter_wait *wait)
{
    (void)wait;
    atomic_fetch_add_explicit(&rung, 1, memory_order_relaxed);
}

static void give_up(const char *what, const char *problem)
{
    (void)fprintf(stderr, "journal-bench: %s: %s\n", what, problem);
    exit(1);
}

/* ---- slots ---- */

static const struct price price = {
    .from_us = 1767225600000000,
    .until_us = INT64_MAX,
    .rates = {50000, 12500, 50000, 200000, 200000},
    .tier_ppm = {PRICE_PPM, PRICE_PPM, PRICE_PPM},
};

/* Opens, routes and ends one exchange, as long as a usual one is; false: no slot is free. */
static bool end_one(struct bench *bench, struct price *booked)
{
    const int64_t now_us = 1790000000000000 + (int64_t)bench->ended;
    char id[33], tenant[16];
    (void)snprintf(id, sizeof(id), "%032" PRIx64, bench->ended);
    (void)snprintf(tenant, sizeof(tenant), "tenant-%02u", (unsigned)(bench->ended % 50));
    const struct meter_opening opening = {
        .exchange_id = {id, 32},
        .request_id = SPAN("6f0c2f5e-5f0b-4f57-9d38-0c7a0e4f6c11"),
        .trace_id = SPAN("fedcba9876543210fedcba9876543210"),
        .tenant = span_of(tenant),
        .key = SPAN("web"),
        .tags_json = SPAN("{\"team\":\"search\",\"feature\":\"answers\"}"),
        .endpoint = ENDPOINT_CHAT,
        .class = SPAN("chat"),
        .stream = true,
        .model_asked = SPAN("small"),
        .admitted_us = now_us,
        .bytes_in = 2345,
    };
    const struct meter_route route = {
        .model = SPAN("small"),
        .replica = SPAN("small-1"),
        .queue_us = 15,
        .sent_us = now_us + 100,
        .attempts = 1,
        .price = booked,
        .prompt_bytes = 2000,
        .why = SPAN("asked for"),
    };
    const struct meter_ending ending = {
        .outcome = OUTCOME_OK,
        .status = 200,
        .billable = true,
        .usage = {600, 400, 0, 200, 0},
        .source = SOURCE_REPORTED,
        .first_token_us = now_us + 20000,
        .ended_us = now_us + 900000,
        .bytes_out = 20480,
        .text_bytes = 800,
        .pieces = 200,
        .unit_cost_pusd = 7000,
    };
    struct slot *slot = inflight_open(&bench->table, &opening);
    uint32_t index;

    if (!slot)
        return false;
    index = inflight_index(&bench->table, slot);
    inflight_route(slot, &route);
    inflight_end(slot, &ending, 75000000);
    atomic_store_explicit(&bench->waits[index], &bench->wait, memory_order_relaxed);
    journal_post(bench->journal, index);
    bench->ended++;
    return true;
}

/* ---- the writer's own time ---- */

/* What the thread of this name has run on a CPU (ns); 0: it is not there. */
static uint64_t thread_cpu_ns(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    uint64_t found_ns = 0;

    for (struct dirent *task = tasks ? readdir(tasks) : NULL; task; task = readdir(tasks)) {
        char path[64], comm[32] = "";
        FILE *file;
        (void)snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", task->d_name);
        file = fopen(path, "re");
        if (!file)
            continue;
        if (fgets(comm, sizeof(comm), file) && strncmp(comm, name, strlen(name)) == 0) {
            FILE *times;
            (void)snprintf(path, sizeof(path), "/proc/self/task/%.20s/schedstat", task->d_name);
            times = fopen(path, "re");
            if (times && fscanf(times, "%" SCNu64, &found_ns) != 1)
                found_ns = 0;
            if (times)
                (void)fclose(times);
        }
        (void)fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return found_ns;
}

/* ---- one measurement ---- */

static void open_bench(struct bench *bench, const char *parent, bool durable)
{
    char path[320], problem[512];

    (void)snprintf(bench->directory, sizeof(bench->directory), "%s/journal-bench-XXXXXX", parent);
    if (!mkdtemp(bench->directory))
        give_up(parent, "no directory can be made there");
    (void)snprintf(path, sizeof(path), "%s/signing.key", bench->directory);
    if (store_open(&bench->store, span_of(bench->directory), SPAN("bench"), problem,
                   sizeof(problem)) != OK ||
        sign_key_open(path, true, &bench->key, problem, sizeof(problem)) != OK)
        give_up("opening", problem);
    if (inflight_init(&bench->table, -1, SLOTS, SPAN("bench"), bench->store.epoch) != OK)
        give_up("opening", "no memory");
    bench->options.durable = durable;
    bench->options.segment_bytes = 64 << 20;
    bench->options.segment_age_ms = 3600000;
    bench->wait.durable = count_ring;
    const struct journal_place place = {
        .store = &bench->store,
        .table = &bench->table,
        .key = bench->key,
        .history = &bench->history,
        .options = &bench->options,
        .waits = durable ? bench->waits : NULL,
    };
    if (journal_start(&place, &bench->journal, problem, sizeof(problem)) != OK)
        give_up("starting", problem);
    store_started(&bench->store);
}

/* Removes the directory; returns how many bytes the journal had. */
static int64_t remove_files(const struct bench *bench)
{
    DIR *listing = opendir(bench->directory);
    int64_t bytes = 0;

    for (struct dirent *entry = listing ? readdir(listing) : NULL; entry;
         entry = readdir(listing)) {
        struct stat about;
        if (strstr(entry->d_name, ".jsonl") &&
            fstatat(dirfd(listing), entry->d_name, &about, 0) == 0)
            bytes += about.st_size;
        (void)unlinkat(dirfd(listing), entry->d_name, 0);
    }
    if (listing)
        closedir(listing);
    (void)rmdir(bench->directory);
    return bytes;
}

static void close_bench(struct bench *bench)
{
    inflight_fini(&bench->table);
    store_close(&bench->store);
    sign_key_close(bench->key);
    history_fini(&bench->history);
}

static void measure(const char *parent, uint64_t seconds, bool durable)
{
    static struct bench bench;
    struct price booked = price;
    uint64_t begun_ns, took_ns, cpu_ns;
    int64_t bytes;

    memset(&bench, 0, sizeof(bench));
    atomic_store(&rung, 0);
    open_bench(&bench, parent, durable);
    if (inflight_book(&bench.table, &booked, &booked.book) != OK)
        give_up("opening", "no room for a price");
    begun_ns = clock_now_ns();
    while (clock_now_ns() - begun_ns < seconds * NS_PER_S) {
        if (!end_one(&bench, &booked))
            (void)sched_yield();
    }
    while (journal_rows(bench.journal) < bench.ended && !journal_failed(bench.journal))
        (void)sched_yield();
    took_ns = clock_now_ns() - begun_ns;
    cpu_ns = thread_cpu_ns("journal");
    if (!journal_stop(bench.journal) || (durable && atomic_load(&rung) != bench.ended))
        give_up("stopping", "rows are missing");
    bytes = remove_files(&bench);
    (void)printf("%-9s %9" PRIu64 " rows of %" PRId64 " bytes: %8" PRIu64 " rows/s, %" PRIu64
                 ".%02" PRIu64 " us of the writer's CPU a row (%" PRIu64 " rows/s of one core)\n",
                 durable ? "durable:" : "unsynced:", bench.ended, bytes / (int64_t)bench.ended,
                 bench.ended * NS_PER_S / took_ns, cpu_ns / bench.ended / 1000,
                 cpu_ns / bench.ended % 1000 / 10, cpu_ns ? bench.ended * NS_PER_S / cpu_ns : 0);
    close_bench(&bench);
}

int main(int count, char **arguments)
{
    const unsigned long seconds = count > 1 ? strtoul(arguments[1], NULL, 10) : 3;
    const char *parent = count > 2 ? arguments[2] : "/tmp";

    if (seconds == 0 || seconds > 600)
        give_up("seconds", "expected 1 to 600");
    measure(parent, seconds, false);
    measure(parent, seconds, true);
    return 0;
}
