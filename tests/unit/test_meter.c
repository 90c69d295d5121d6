/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_meter.c: the door of the meter (meter/meter.c).
 *
 * Promises:  1. An admitted exchange becomes exactly one row in the gateway's own file.
 *            2. Killed at any instant, every slot is whole, and each settled exchange is in the
 *               journal or in the table.
 *            3. A second process on the same journal is told so; the next run has a larger epoch.
 *            4. What the estimator learned outlives snapshots.
 *            5. Without a journal all works, in memory. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "meter/inflight.h"

static char home[64];
static char problem[512];

static int start(void **state)
{
    (void)state;
    snprintf(home, sizeof(home), "/tmp/tollgate-meter-XXXXXX");
    problem[0] = '\0';
    return mkdtemp(home) ? 0 : 1;
}

static int stop(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", home);
    return system(command);
}

static struct config config_of(const char *journal, int64_t slots)
{
    return (struct config){
        .journal = span_of(journal), .gateway = SPAN("g1"), .limits_in_flight = slots};
}

/* The whole file, NUL-terminated; NULL when there is none. The caller frees it. */
static char *read_file(const char *name, size_t *out_size)
{
    char path[256];
    struct stat about;
    char *text = NULL;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", home, name);
    fd = open(path, O_RDONLY);
    if (fd >= 0 && fstat(fd, &about) == 0) {
        text = calloc(1, (size_t)about.st_size + 1);
        assert_non_null(text);
        assert_int_equal(read(fd, text, (size_t)about.st_size), about.st_size);
        *out_size = (size_t)about.st_size;
    }
    if (fd >= 0)
        close(fd);
    return text;
}

static void an_admitted_exchange_becomes_one_row(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct meter *meter = NULL;
    struct meter_view view;
    size_t size = 0;
    const struct price price = {.input = 50000, .cached_input = 12500, .output = 200000};
    const struct usage usage = {.input = 100, .cached_input = 20, .output = 7};
    struct meter_ending ending = {.outcome = OUTCOME_CLIENT_GONE,
                                  .status = 200,
                                  .billable = true,
                                  .usage = usage,
                                  .source = SOURCE_RUNNING};

    assert_int_equal(meter_open(&config, &meter, problem, sizeof(problem)), OK);
    assert_true(meter_ready(meter));
    struct slot *slot = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")});
    meter_view(meter, &view);
    assert_int_equal(view.slots, 16);
    assert_int_equal(view.open, 1);
    meter_route(slot,
                &(struct meter_route){
                    .model = SPAN("small"), .replica = SPAN("s1"), .attempts = 1, .price = &price});
    meter_publish(slot, &usage, SOURCE_RUNNING, 512);
    assert_int_equal(meter_cost(&usage, &price, &ending.cost_pusd), OK);
    meter_settle(meter, slot, &ending);
    meter_close(meter);

    char *text = read_file("g1-1-1.jsonl", &size);
    assert_non_null(text);
    assert_ptr_equal(strchr(text, '\n'), text + size - 1);
    assert_non_null(strstr(text, "\"outcome\":\"client_gone\""));
    assert_non_null(
        strstr(text, "\"cost_pusd\":\"6650000\"")); /* 5,000,000 + 250,000 + 1,400,000 */
    free(text);
    assert_null(read_file("g1-1.inflight", &size)); /* nothing was under way any more */
}

static void a_slot_never_settled_stays_in_the_table_for_recovery(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct meter *meter = NULL;
    size_t size = 0;

    assert_int_equal(meter_open(&config, &meter, problem, sizeof(problem)), OK);
    assert_non_null(meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")}));
    meter_close(meter);
    assert_int_equal(meter_open(&config, &meter, problem, sizeof(problem)), OK);
    meter_close(meter);

    char *table = read_file("g1-1.inflight.dead", &size);
    assert_non_null(table);
    free(table);
    char *journal = read_file("g1-2-1.jsonl", &size); /* the next epoch */
    assert_non_null(journal);
    free(journal);
}

static void a_full_table_admits_nobody(void **state)
{
    (void)state;
    struct config config = config_of("", 16);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    struct meter *meter = NULL;
    struct slot *slots[16];

    assert_int_equal(meter_open(&config, &meter, problem, sizeof(problem)), OK);
    for (size_t i = 0; i < 16; i++) {
        slots[i] = meter_admit(meter, &opening);
        assert_non_null(slots[i]);
    }
    assert_null(meter_admit(meter, &opening));
    for (size_t i = 0; i < 16; i++)
        meter_settle(meter, slots[i], &(struct meter_ending){.outcome = OUTCOME_OK});
    meter_close(meter);
}

static void a_second_process_on_the_same_journal_is_told_so(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct meter *first = NULL, *second = NULL;

    assert_int_equal(meter_open(&config, &first, problem, sizeof(problem)), OK);
    assert_int_equal(meter_open(&config, &second, problem, sizeof(problem)), ERR_INTERNAL);
    assert_non_null(strstr(problem, "in use by another running gateway"));
    meter_close(first);
}

static void what_the_estimator_learned_outlives_snapshots(void **state)
{
    (void)state;
    struct config_model before = {.name = SPAN("small")}, after = {.name = SPAN("small")};
    struct config old = {.models = &before, .model_count = 1};
    struct config new = {.models = &after, .model_count = 1};
    struct config journal = config_of("", 16);
    const struct meter_sizes sizes = {.prompt_bytes = 20000, .answer_bytes = 6000};
    const struct usage reported = {
        .input = 6000, .cached_input = 4000, .cache_write = -1, .output = 1000, .reasoning = 0};
    struct meter *meter = NULL;
    struct usage usage;

    assert_int_equal(meter_open(&journal, &meter, problem, sizeof(problem)), OK);
    assert_int_equal(meter_adopt(&old), OK);
    meter_estimate(before.estimate, &sizes, &usage);
    assert_int_equal(usage.input, 5556);  /* 20000 / 3.5996 */
    assert_int_equal(usage.output, 1538); /* 6000 / 3.9004 */
    for (int i = 0; i < 1000; i++)
        meter_learn(before.estimate, &sizes, &reported);
    assert_int_equal(meter_adopt(&new), OK);

    meter_estimate(after.estimate, &sizes, &usage);
    assert_true(usage.input >= 9990 && usage.input <= 10010); /* cached tokens are prompt tokens */
    assert_true(usage.output >= 999 && usage.output <= 1001);
    assert_int_equal(usage.cached_input, 0);
    meter_close(meter);
}

static void a_stream_is_estimated_by_its_events(void **state)
{
    (void)state;
    struct config_model small = {.name = SPAN("small")};
    struct config config = {.models = &small, .model_count = 1};
    struct config journal = config_of("", 16);
    const struct meter_sizes stream = {.answer_bytes = 6000, .answer_pieces = 1000};
    struct usage one_each = USAGE_UNKNOWN, four_each = USAGE_UNKNOWN, usage;
    struct meter *meter = NULL;

    assert_int_equal(meter_open(&journal, &meter, problem, sizeof(problem)), OK);
    assert_int_equal(meter_adopt(&config), OK);
    meter_estimate(small.estimate, &stream, &usage);
    assert_int_equal(usage.output, 1000);
    one_each.output = 1180; /* some tokens are no event of their own: half a character */
    for (int i = 0; i < 100; i++)
        meter_learn(small.estimate, &stream, &one_each);
    meter_estimate(small.estimate, &stream, &usage);
    assert_int_equal(usage.output, 1000); /* never more than was generated */
    four_each.output = 4000;
    for (int i = 0; i < 1000; i++)
        meter_learn(small.estimate, &stream, &four_each);
    meter_estimate(small.estimate, &stream, &usage);
    assert_true(usage.output >= 3990 && usage.output <= 4010);
    meter_close(meter);
}

/* Many events an exchange, so that most kills fall into the middle of publishing one. */
#define EVENTS 300
#define KILLS 24

/* What a child that is to be killed tells its parent. */
struct progress {
    _Atomic uint64_t settled; /* exchanges 1 … settled were settled */
};

/* The numbers of exchange n all follow from n, so that a torn set shows. */
static struct usage usage_of(int64_t number, int64_t event)
{
    return (struct usage){.input = number,
                          .cached_input = 2 * number,
                          .cache_write = 3 * number,
                          .output = event,
                          .reasoning = number + event};
}

static void live_until_killed(struct progress *progress)
{
    struct config config = config_of(home, 64);
    struct meter *meter = NULL;

    if (meter_open(&config, &meter, problem, sizeof(problem)) != OK)
        _exit(1);
    for (int64_t number = 1;; number++) {
        char id[33];
        snprintf(id, sizeof(id), "%032llx", (unsigned long long)number);
        const struct meter_opening opening = {.exchange_id = {id, 32}, .bytes_in = number};
        struct slot *slot;
        while (!(slot = meter_admit(meter, &opening)))
            sched_yield();
        meter_route(slot, &(struct meter_route){.model = {id, 32}, .attempts = 1});
        for (int64_t event = 1; event < EVENTS; event++) {
            const struct usage usage = usage_of(number, event);
            meter_publish(slot, &usage, SOURCE_RUNNING, number * event);
        }
        const struct meter_ending ending = {.usage = usage_of(number, EVENTS),
                                            .source = SOURCE_REPORTED,
                                            .bytes_out = number * EVENTS};
        meter_settle(meter, slot, &ending);
        atomic_store(&progress->settled, (uint64_t)number);
    }
}

static void assert_slot_is_whole(const struct slot *slot, int64_t number)
{
    const struct slot_running *running = inflight_running(slot);
    bool route_is_whole = atomic_load(&slot->route_writes) % 2 == 0;
    struct span model = inflight_route_text(slot, ROUTE_MODEL);

    assert_int_equal(slot->bytes_in, number);
    if (route_is_whole && model.size > 0)
        assert_memory_equal(model.data, slot->opening_text, 32);
    if (running->source == SOURCE_NONE) {
        assert_int_equal(running->usage.input, -1);
        return;
    }
    const struct usage expected = usage_of(number, running->usage.output);
    assert_memory_equal(&running->usage, &expected, sizeof(expected));
    assert_int_equal(running->bytes_out, number * running->usage.output);
}

static int64_t number_in(const char *hex)
{
    char copy[33];

    memcpy(copy, hex, 32);
    copy[32] = '\0';
    return (int64_t)strtoull(copy, NULL, 16);
}

/* Reads the journal: lines whole but perhaps the last, one row an exchange; marks those seen.
 * Returns how many whole lines there are. */
static uint64_t read_journal(const char *text, bool *seen, uint64_t most)
{
    static const char before_id[] = "\"exchange_id\":\"";
    uint64_t rows = 0;

    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        const char *id = strstr(text, before_id);
        assert_true(id && id < end && text[0] == '{' && end[-1] == '}');
        int64_t number = number_in(id + sizeof(before_id) - 1);
        assert_true(number >= 1 && (uint64_t)number <= most && !seen[number]);
        seen[number] = true;
        rows++;
    }
    return rows;
}

static void check_after_a_kill(uint64_t settled)
{
    size_t size = 0;
    bool *seen = calloc(settled + 100, sizeof(bool));
    char *journal = read_file("g1-1-1.jsonl", &size);
    char *table = read_file("g1-1.inflight", &size);
    assert_true(seen && journal && table);
    assert_int_equal(size, INFLIGHT_HEADER_BYTES + 64 * SLOT_BYTES);
    const struct slot *slots = (const struct slot *)(void *)(table + INFLIGHT_HEADER_BYTES);

    read_journal(journal, seen, settled + 1);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t slot_state = atomic_load(&slots[i].state);
        if (slot_state == SLOT_FREE)
            continue;
        int64_t number = number_in(slots[i].opening_text);
        assert_slot_is_whole(&slots[i], number);
        if (slot_state == SLOT_ENDED)
            seen[number] = true;
    }
    for (uint64_t number = 1; number <= settled; number++)
        assert_true(seen[number]);
    free(table);
    free(journal);
    free(seen);
}

static void killed_at_any_instant_nothing_settled_is_lost_and_nothing_is_torn(void **state)
{
    (void)state;
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(progress != MAP_FAILED);

    for (uint64_t round = 0; round < KILLS; round++) {
        char command[160];
        int status = 0;
        atomic_store(&progress->settled, 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            live_until_killed(progress);
        uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
        while (atomic_load(&progress->settled) < 100 + 77 * round && clock_now_ns() < until_ns)
            sched_yield();
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_true(atomic_load(&progress->settled) >= 100);

        check_after_a_kill(atomic_load(&progress->settled));
        snprintf(command, sizeof(command), "rm -rf '%s'/*", home);
        assert_int_equal(system(command), 0);
    }
    munmap(progress, sizeof(*progress));
}

int main(void)
{
#define METER_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        METER_TEST(an_admitted_exchange_becomes_one_row),
        METER_TEST(a_slot_never_settled_stays_in_the_table_for_recovery),
        METER_TEST(a_full_table_admits_nobody),
        METER_TEST(a_second_process_on_the_same_journal_is_told_so),
        METER_TEST(what_the_estimator_learned_outlives_snapshots),
        METER_TEST(a_stream_is_estimated_by_its_events),
        METER_TEST(killed_at_any_instant_nothing_settled_is_lost_and_nothing_is_torn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
