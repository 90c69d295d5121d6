/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_meter.c: the door of the meter (meter/meter.c).
 *
 * Promises:  1. An admitted exchange becomes exactly one row in the gateway's own file, priced as
 *               its route said, whatever the configuration says by then.
 *            2. Killed at any instant, the next process makes the missing rows: each exchange has
 *               one, and no number in it is torn.
 *            3. Two processes of one name overlap, each with an epoch of its own.
 *            4. No more are admitted than the limit, and who has ended is not counted; an amount
 *               that does not fit is not charged and said.
 *            5. What was learned and counted outlives snapshots.
 *            6. Who waits for a durable row is rung once, or takes the wait back.
 *            7. A worker and a crash charge the same for the same exchange.
 *            8. Without a journal all works, in memory. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
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
#include "meter/meter.h"
#include "meter/recover.h"

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
    return (struct config){.journal = span_of(journal),
                           .gateway = SPAN("g1"),
                           .limits_in_flight = slots,
                           .meter_segment_bytes = 64 << 20,
                           .meter_segment_age_ms = 3600000};
}

/* One model with one price, and the snapshot that has it. */
struct shop {
    struct price price;
    struct config_replica replica;
    struct config_model model;
    struct config config;
};

static void open_shop(struct shop *shop, int64_t input, int64_t output)
{
    *shop = (struct shop){
        .price = {.until_us = INT64_MAX,
                  .rates = {input, input / 4, input, output, output},
                  .tier_ppm = {PRICE_PPM, PRICE_PPM / 2, PRICE_PPM}},
        .replica = {.name = SPAN("s1"), .pusd_per_hour = -1},
    };
    shop->model = (struct config_model){.name = SPAN("small"),
                                        .prices = &shop->price,
                                        .price_count = 1,
                                        .replicas = &shop->replica,
                                        .replica_count = 1};
    shop->config = (struct config){.models = &shop->model, .model_count = 1};
}

static struct meter *open_meter(const struct config *config)
{
    struct meter *meter = NULL;

    if (meter_open(config, &meter, problem, sizeof(problem)) != OK)
        fail_msg("%s", problem);
    return meter;
}

static struct meter_route route_of(const struct shop *shop)
{
    return (struct meter_route){.model = shop->model.name,
                                .replica = shop->replica.name,
                                .attempts = 1,
                                .price = &shop->price,
                                .estimate = shop->model.estimate,
                                .prompt_bytes = 100};
}

static uint32_t count_of(const char *text, const char *needle)
{
    uint32_t count = 0;

    while ((text = strstr(text, needle)) != NULL) {
        count++;
        text++;
    }
    return count;
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
    struct shop shop;
    struct meter_view view;
    size_t size = 0;
    const struct usage usage = {.input = 100, .cached_input = 20, .output = 7};
    struct meter_ending ending = {.outcome = OUTCOME_CLIENT_GONE,
                                  .status = 200,
                                  .billable = true,
                                  .usage = usage,
                                  .source = SOURCE_RUNNING,
                                  .unit_cost_pusd = -1};
    struct meter *meter = open_meter(&config);

    open_shop(&shop, 50000, 200000);
    assert_int_equal(meter_adopt(meter, &shop.config), OK);
    assert_true(meter_ready(meter));
    struct slot *slot = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")});
    meter_view(meter, &view);
    assert_int_equal(view.slots, 16);
    assert_int_equal(view.open, 1);
    const struct meter_route route = route_of(&shop);
    meter_route(slot, &route);
    meter_publish(slot, &(struct meter_running){.usage = usage, .source = SOURCE_RUNNING});
    /* 100 × 50,000 + 20 × 12,500 + 7 × 200,000 */
    assert_int_equal(meter_settle(meter, slot, &ending, NULL), 6650000);
    (void)meter_close(meter);

    char *text = read_file("g1-1-1.jsonl", &size);
    assert_non_null(text);
    assert_ptr_equal(strrchr(text, '\n'), text + size - 1);
    assert_int_equal(count_of(text, "\"kind\":\"call\""), 1);
    assert_int_equal(count_of(text, "\"kind\":\"open\""), 1);
    assert_int_equal(count_of(text, "\"kind\":\"head\""), 1);
    assert_non_null(strstr(text, "\"outcome\":\"client_gone\""));
    assert_non_null(strstr(text, "\"cost_pusd\":\"6650000\""));
    free(text);
    assert_null(read_file("g1-1.inflight", &size)); /* nothing was under way any more */
}

static void a_slot_is_priced_as_its_route_said(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct shop before, after;
    struct meter_ending ending = {
        .outcome = OUTCOME_OK, .billable = true, .usage = {.input = 10}, .source = SOURCE_REPORTED};
    const struct meter_opening flex = {.tenant = SPAN("acme"), .tier = TIER_FLEX};
    struct meter *meter = open_meter(&config);

    open_shop(&before, 1000, 2000);
    open_shop(&after, 5000, 9000);
    assert_int_equal(meter_adopt(meter, &before.config), OK);
    struct slot *standard = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")});
    struct slot *cheaper = meter_admit(meter, &flex);
    const struct meter_route route = route_of(&before);
    meter_route(standard, &route);
    meter_route(cheaper, &route);
    assert_int_equal(meter_adopt(meter, &after.config), OK);
    assert_int_not_equal(after.price.book, before.price.book);
    assert_int_equal(meter_settle(meter, standard, &ending, NULL), 10000);
    assert_int_equal(meter_settle(meter, cheaper, &ending, NULL), 5000);
    (void)meter_close(meter);
}

static void an_amount_that_does_not_fit_is_not_charged_and_said(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct shop shop;
    size_t size = 0;
    struct meter_ending ending = {.outcome = OUTCOME_OK,
                                  .billable = true,
                                  .usage = {.input = INT64_MAX, .output = 1},
                                  .source = SOURCE_REPORTED};
    struct meter *meter = open_meter(&config);

    open_shop(&shop, 50000, 200000);
    assert_int_equal(meter_adopt(meter, &shop.config), OK);
    struct slot *slot = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")});
    const struct meter_route route = route_of(&shop);
    meter_route(slot, &route);
    assert_int_equal(meter_settle(meter, slot, &ending, NULL), 0);
    (void)meter_close(meter);

    char *text = read_file("g1-1-1.jsonl", &size);
    assert_non_null(text);
    assert_non_null(strstr(text, "usage_suspect"));
    free(text);
}

/* What a replica may have said, and a most of output, by number. */
#define EQUAL_CASES (3 * 3 * 3 * 3 * 4)

static struct meter_running running_of(uint32_t number)
{
    static const int64_t tokens[] = {-1, 0, 9};
    static const enum usage_source sources[] = {SOURCE_NONE, SOURCE_RUNNING, SOURCE_REPORTED};

    return (struct meter_running){.usage = {.input = tokens[number % 3],
                                            .cached_input = tokens[number / 3 % 3],
                                            .cache_write = -1,
                                            .output = tokens[number / 9 % 3],
                                            .reasoning = -1},
                                  .source = sources[number / 27 % 3],
                                  .text_bytes = 77,
                                  .pieces = 7,
                                  .delivered = 1};
}

static void a_worker_and_a_crash_charge_the_same(void **state)
{
    (void)state;
    static const int64_t most[] = {-1, 0, 5, INT64_MAX};
    struct config config = config_of("", EQUAL_CASES);
    struct shop shop;
    struct meter *meter = open_meter(&config);
    const struct meter_opening opening = {
        .tenant = SPAN("acme"), .endpoint = ENDPOINT_CHAT, .tier = TIER_FLEX};

    open_shop(&shop, 1000, INT64_C(1) << 60); /* so that some of the amounts do not fit */
    assert_int_equal(meter_adopt(meter, &shop.config), OK);
    for (uint32_t number = 0; number < EQUAL_CASES; number++) {
        const struct meter_running running = running_of(number);
        struct meter_ending ending = {.billable = true,
                                      .usage = running.usage,
                                      .source = running.source,
                                      .text_bytes = running.text_bytes,
                                      .pieces = running.pieces};
        struct meter_route route = route_of(&shop);
        struct slot crashed;
        struct slot *slot;

        route.most_input = 20;
        route.most_output = most[number / 81];
        slot = meter_admit(meter, &opening);
        assert_non_null(slot);
        meter_route(slot, &route);
        meter_publish(slot, &running);
        memcpy(&crashed, slot, sizeof(crashed));
        recover_end(&crashed, &shop.price, 1);
        assert_int_equal(meter_settle(meter, slot, &ending, NULL), crashed.cost_pusd);
        assert_memory_equal(&inflight_running(&crashed)->usage, &ending.usage,
                            sizeof(ending.usage));
        assert_int_equal(inflight_running(&crashed)->source, ending.source);
        assert_int_equal(atomic_load(&crashed.flags), ending.flags);
    }
    (void)meter_close(meter);
}

static void a_slot_never_settled_is_recovered_by_the_next_process(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct shop shop;
    struct meter_view view;
    size_t size = 0;
    const struct meter_running running = {.usage = {.input = 100,
                                                    .cached_input = -1,
                                                    .cache_write = -1,
                                                    .output = 7,
                                                    .reasoning = -1},
                                          .source = SOURCE_RUNNING,
                                          .bytes_out = 50,
                                          .delivered = 1};
    struct meter *meter = open_meter(&config);

    open_shop(&shop, 50000, 200000);
    assert_int_equal(meter_adopt(meter, &shop.config), OK);
    const struct meter_opening opening = {.tenant = SPAN("acme"), .endpoint = ENDPOINT_CHAT};
    struct slot *slot = meter_admit(meter, &opening);
    const struct meter_route route = route_of(&shop);
    meter_route(slot, &route);
    meter_publish(slot, &running);
    (void)meter_close(meter);
    meter = open_meter(&config);
    meter_view(meter, &view);
    assert_int_equal(view.recovered, 1);
    (void)meter_close(meter);

    char *text = read_file("g1-2-1.jsonl", &size); /* the next epoch */
    assert_non_null(text);
    assert_int_equal(count_of(text, "\"outcome\":\"crash_recovered\""), 1);
    assert_non_null(strstr(text, "\"recovered\":\"g1-1\""));
    assert_non_null(strstr(text, "\"cost_pusd\":\"6400000\"")); /* 5,000,000 + 1,400,000 */
    free(text);
    assert_null(read_file("g1-1.inflight", &size));
}

static void no_more_are_admitted_than_the_limit(void **state)
{
    (void)state;
    struct config config = config_of("", 16);
    const struct meter_opening opening = {.tenant = SPAN("acme")};
    struct meter *meter = open_meter(&config);
    struct slot *slots[16];

    for (size_t i = 0; i < 16; i++) {
        slots[i] = meter_admit(meter, &opening);
        assert_non_null(slots[i]);
    }
    assert_null(meter_admit(meter, &opening));
    /* One that has ended makes room for one, whether its row is written or not. */
    for (size_t i = 0; i < 32; i++) {
        assert_int_equal(
            meter_settle(meter, slots[i % 16], &(struct meter_ending){.outcome = OUTCOME_OK}, NULL),
            0);
        slots[i % 16] = meter_admit(meter, &opening);
        assert_non_null(slots[i % 16]);
        assert_null(meter_admit(meter, &opening));
    }
    for (size_t i = 0; i < 16; i++)
        (void)meter_settle(meter, slots[i], &(struct meter_ending){.outcome = OUTCOME_OK}, NULL);
    (void)meter_close(meter);
}

static void two_processes_of_one_name_overlap(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    size_t size = 0;
    struct meter *first = open_meter(&config);
    struct slot *slot = meter_admit(first, &(struct meter_opening){.tenant = SPAN("acme")});
    struct meter *second = open_meter(&config);
    struct meter_view view;

    meter_view(second, &view);
    assert_int_equal(view.recovered, 0); /* the first is alive: its slot is its own */
    assert_int_equal(
        meter_settle(first, slot, &(struct meter_ending){.outcome = OUTCOME_REFUSED}, NULL), 0);
    (void)meter_close(first);
    (void)meter_close(second);
    char *old = read_file("g1-1-1.jsonl", &size);
    char *new = read_file("g1-2-1.jsonl", &size);
    assert_true(old && new);
    assert_int_equal(count_of(old, "\"kind\":\"call\""), 1);
    assert_int_equal(count_of(new, "\"kind\":\"call\""), 0);
    free(old);
    free(new);
}

static void a_name_that_is_no_files_is_refused(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct meter *meter = NULL;

    config.gateway = SPAN("../g1");
    assert_int_equal(meter_open(&config, &meter, problem, sizeof(problem)), ERR_BAD_VALUE);
    assert_true(problem[0] != '\0');
    assert_null(meter);
}

static void what_was_learned_and_counted_outlives_snapshots(void **state)
{
    (void)state;
    struct config config = config_of("", 16);
    const struct meter_sizes sizes = {.prompt_bytes = 20000, .answer_bytes = 6000};
    const struct usage reported = {
        .input = 6000, .cached_input = 4000, .cache_write = -1, .output = 1000, .reasoning = 0};
    struct shop old, new;
    struct meter_replica_view view;
    struct usage usage;
    struct meter *meter = open_meter(&config);

    open_shop(&old, 10, 20);
    open_shop(&new, 10, 20);
    assert_int_equal(meter_adopt(meter, &old.config), OK);
    for (int i = 0; i < 1000; i++)
        meter_learn(old.model.estimate, &sizes, &reported);
    meter_attempt_begins(&old.replica);
    meter_attempt_ends(&old.replica, &reported, 1);
    assert_int_equal(meter_adopt(meter, &new.config), OK);

    assert_int_equal(new.price.book, old.price.book); /* the same price has one row */
    meter_estimate(new.model.estimate, &sizes, &usage);
    assert_in_range(usage.input, 9990, 10010);
    meter_replica_view(&new.replica, &new.config, 1, &view);
    assert_int_equal(view.prompt_tokens, 10000);
    assert_int_equal(view.generation_tokens, 1000);
    (void)meter_close(meter);
}

/* Who waits for a row. */
struct waiter {
    struct meter_wait wait;
    _Atomic int rings;
};

static void ring(struct meter_wait *wait)
{
    struct waiter *waiter = container_of(wait, struct waiter, wait);

    atomic_fetch_add(&waiter->rings, 1);
}

static void who_waits_for_a_durable_row_is_rung_once(void **state)
{
    (void)state;
    struct config config = config_of(home, 16);
    struct waiter waiter = {.wait = {.durable = ring}};
    struct meter_ending ending = {.outcome = OUTCOME_REFUSED};
    const uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    struct meter_view view;

    config.durable = true;
    struct meter *meter = open_meter(&config);
    assert_true(meter_is_durable(meter));
    struct slot *slot = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")});
    assert_int_equal(meter_settle(meter, slot, &ending, &waiter.wait), 0);
    while (atomic_load(&waiter.rings) == 0 && clock_now_ns() < until_ns)
        sched_yield();
    assert_int_equal(atomic_load(&waiter.rings), 1);
    meter_view(meter, &view);
    assert_int_equal(view.synced, 1);
    assert_false(meter_unwait(meter, slot, &waiter.wait)); /* too late */
    slot = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")});
    assert_int_equal(meter_settle(meter, slot, &ending, NULL), 0); /* nobody waits */
    (void)meter_close(meter);
    assert_int_equal(atomic_load(&waiter.rings), 1);
}

static void nobody_takes_back_the_wait_of_who_has_the_slot_now(void **state)
{
    (void)state;
    struct config config = config_of(home, 1);
    struct waiter before = {.wait = {.durable = ring}}, now = {.wait = {.durable = ring}};
    struct meter_ending ending = {.outcome = OUTCOME_REFUSED};
    const uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    struct slot *slot = NULL;

    config.durable = true;
    struct meter *meter = open_meter(&config);
    for (int i = 0; i < 100 && clock_now_ns() < until_ns; i++) {
        struct waiter *waiter = i % 2 == 0 ? &before : &now;
        while (!(slot = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")})))
            sched_yield();
        (void)meter_settle(meter, slot, &ending, &waiter->wait);
        if (i % 2 == 1)
            assert_false(meter_unwait(meter, slot, &before.wait));
    }
    (void)meter_close(meter);
    assert_int_equal(atomic_load(&before.rings), 50);
    assert_int_equal(atomic_load(&now.rings), 50);
}

static void without_a_journal_all_works_in_memory(void **state)
{
    (void)state;
    struct config config = config_of("", 16);
    struct meter_query query = {0};
    const uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    struct meter_view view;
    struct meter *meter = open_meter(&config);

    assert_true(meter_ready(meter));
    assert_false(meter_failed(meter));
    assert_false(meter_is_durable(meter));
    for (int i = 0; i < 100; i++) {
        struct slot *slot;
        while (!(slot = meter_admit(meter, &(struct meter_opening){.tenant = SPAN("acme")})))
            sched_yield();
        assert_int_equal(
            meter_settle(meter, slot, &(struct meter_ending){.outcome = OUTCOME_OK}, NULL), 0);
    }
    do {
        sched_yield();
        meter_view(meter, &view);
    } while (view.rows < 100 && clock_now_ns() < until_ns);
    assert_int_equal(view.rows, 100);
    assert_int_equal(view.open, 0);
    assert_int_equal(view.ledger_behind_rows, -1);
    assert_int_equal(meter_query(meter, &query), ERR_NO_LEDGER);
    meter_quiesce(meter);
    (void)meter_close(meter);
    (void)meter_close(NULL);
}

/* Many events an exchange, so that most kills fall into the middle of publishing one. */
#define EVENTS 100
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
        for (int64_t event = 1; event < EVENTS; event++)
            meter_publish(slot, &(struct meter_running){.usage = usage_of(number, event),
                                                        .source = SOURCE_RUNNING,
                                                        .bytes_out = number * event,
                                                        .delivered = 1});
        struct meter_ending ending = {.usage = usage_of(number, EVENTS),
                                      .source = SOURCE_REPORTED,
                                      .bytes_out = number * EVENTS};
        (void)meter_settle(meter, slot, &ending, NULL);
        atomic_store(&progress->settled, (uint64_t)number);
    }
}

static int64_t number_behind(const char *line, const char *end, const char *name)
{
    const char *at = strstr(line, name);

    return at && at < end ? strtoll(at + strlen(name), NULL, 10) : -1;
}

/* A call's numbers all follow from that of its exchange and its output. */
static void assert_row_is_whole(const char *line, const char *end, int64_t number)
{
    const int64_t output = number_behind(line, end, "\"output\":");
    const struct usage expected = usage_of(number, output);

    assert_int_equal(number_behind(line, end, "\"bytes_in\":"), number);
    if (output < 0)
        return; /* killed before it published anything */
    assert_int_equal(number_behind(line, end, "\"input\":"), expected.input);
    assert_int_equal(number_behind(line, end, "\"cached_input\":"), expected.cached_input);
    assert_int_equal(number_behind(line, end, "\"cache_write\":"), expected.cache_write);
    assert_int_equal(number_behind(line, end, "\"reasoning\":"), expected.reasoning);
    assert_int_equal(number_behind(line, end, "\"bytes_out\":"), number * output);
}

/* Marks the exchanges whose rows stand in the file; the last line may be torn. */
static void read_journal(const char *name, bool *seen, uint64_t most)
{
    static const char before_id[] = "\"exchange_id\":\"";
    size_t size = 0;
    char *text = read_file(name, &size);

    assert_non_null(text);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *id = strstr(line, before_id);
        assert_true(line[0] == '{' && end[-1] == '}');
        if (!id || id > end)
            continue; /* open, head */
        const int64_t number = strtoll(id + sizeof(before_id) - 1, NULL, 16);
        assert_true(number >= 1 && (uint64_t)number <= most && !seen[number]);
        seen[number] = true;
        assert_row_is_whole(line, end, number);
    }
    free(text);
}

/* The next process is there: every exchange that was settled has one row, and at most one more. */
static void check_after_a_kill(uint64_t settled)
{
    struct config config = config_of(home, 64);
    bool *seen = calloc(settled + 3, sizeof(bool));
    size_t size = 0;

    assert_non_null(seen);
    meter_close(open_meter(&config));
    read_journal("g1-1-1.jsonl", seen, settled + 2);
    read_journal("g1-2-1.jsonl", seen, settled + 2);
    for (uint64_t number = 1; number <= settled; number++)
        if (!seen[number])
            fail_msg("no row of %llu", (unsigned long long)number);
    assert_null(read_file("g1-1.inflight", &size));
    free(seen);
}

static void killed_at_any_instant_each_exchange_has_one_row(void **state)
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
        while (atomic_load(&progress->settled) < 100 + 7 * round && clock_now_ns() < until_ns)
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
        METER_TEST(a_slot_is_priced_as_its_route_said),
        METER_TEST(an_amount_that_does_not_fit_is_not_charged_and_said),
        METER_TEST(a_worker_and_a_crash_charge_the_same),
        METER_TEST(a_slot_never_settled_is_recovered_by_the_next_process),
        METER_TEST(no_more_are_admitted_than_the_limit),
        METER_TEST(two_processes_of_one_name_overlap),
        METER_TEST(a_name_that_is_no_files_is_refused),
        METER_TEST(what_was_learned_and_counted_outlives_snapshots),
        METER_TEST(who_waits_for_a_durable_row_is_rung_once),
        METER_TEST(nobody_takes_back_the_wait_of_who_has_the_slot_now),
        METER_TEST(without_a_journal_all_works_in_memory),
        METER_TEST(killed_at_any_instant_each_exchange_has_one_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
