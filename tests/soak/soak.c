/* SPDX-License-Identifier: Apache-2.0 */
/* tests/soak/soak.c: the client of the soak test.
 *
 * For:       sends the seeded mix over many connections, half of them HTTP/2, leaves and stalls as
 *            the mix says, and
 *            writes down what each request really received; run.py compares that with journal and
 *            model servers.
 * Called by: run.py.
 * Knows not: the journal, the gateway.
 * Linked with: bench/load_buffer.c load_histogram.c load_answer.c load_client.c load_h1.c load_h2.c
 *
 * A line of the log, fields parted by blanks:
 *   request id, kind, h1 or h2, status (0: none came), tokens received, how it ended (finished,
 * failed, cut: the server
 *   ended it early, left: this client did, late: no end within a minute), usage asked (yes, no),
 * output tokens shown as
 *   usage or -, x-tollgate-model or -, x-tollgate-replica or -, class asked */
#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/load_client.h"
#include "tests/soak/soak_ask.h"

enum { STREAMS_PER_LINK = 4, WINDOW_BYTES = 32 * 1024, MILLISECOND = 1000000 };
#define PATIENCE_NS 60000000000u

/* A place for one request at a time; its link is shared by the slots of an HTTP/2 connection. */
struct slot {
    struct call call;
    struct link *link;
    struct soak_ask ask;
    bool busy;
    uint64_t begun_ns;
    uint64_t wake_ns; /* the client leaves, reads on or gives up then; UINT64_MAX: never */
};

struct tally {
    uint64_t finished;
    uint64_t failed;
    uint64_t cut;
    uint64_t left;
    uint64_t late;
    uint64_t wrong; /* answers that no server may give, whatever it met */
    uint64_t lost_links;
};

static struct client client;
static struct soak_mix mix;
static struct tally tally;
static struct link *links;
static struct slot *slots;
static size_t link_count;
static size_t h1_count;
static size_t slot_count;
static uint64_t requests;
static uint64_t started;
static uint64_t running;
static uint64_t failed_opens; /* in a row */
static bool direct;           /* no gateway between us and the model server */
static FILE *log_file;
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static struct slot *slot_of(struct call *call)
{
    return (struct slot *)((char *)call - offsetof(struct slot, call));
}

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

/* ---- one request ---- */

static void set_wake(struct slot *slot)
{
    const struct soak_ask *ask = &slot->ask;

    slot->wake_ns = slot->begun_ns + PATIENCE_NS;
    if (ask->leave_after_ns != SOAK_NEVER)
        slot->wake_ns = slot->begun_ns + ask->leave_after_ns;
}

static void start_next(struct slot *slot)
{
    if (stop || started == requests || slot->busy)
        return;
    soak_make(&slot->ask, &mix, started);
    if (!call_start(&slot->call, slot->link, &slot->ask.form,
                    (struct text){slot->ask.body.bytes, slot->ask.body.count}, NO_COUNTER, 0))
        return;
    started++;
    running++;
    slot->busy = true;
    slot->begun_ns = client.now_ns;
    set_wake(slot);
}

/* What an answer that ended whole may not lack. */
static bool answer_is_wrong(const struct slot *slot)
{
    const struct answer *answer = &slot->call.answer;

    if (answer->status != 200 || answer->failed)
        return false;
    if (answer->broken || answer->streamed != slot->ask.stream || answer->tokens == 0)
        return true;
    if (answer->encoded && slot->ask.unpacked && !direct)
        return true;
    if (!answer->streamed)
        return answer->usage_output != (int64_t)answer->tokens;
    if (!answer->done)
        return true;
    return answer->usage_shown != slot->ask.usage ||
           (slot->ask.usage && answer->usage_output != (int64_t)answer->tokens);
}

static void write_line(const struct slot *slot, const char *how)
{
    const struct answer *answer = &slot->call.answer;
    char shown[24] = "-";

    if (answer->usage_output >= 0)
        snprintf(shown, sizeof shown, "%" PRId64, answer->usage_output);
    fprintf(log_file, "%s %s %s %d %" PRIu64 " %s %s %s %s %s %s\n", slot->ask.request_id,
            soak_kind_name(slot->ask.kind), slot->link < links + h1_count ? "h1" : "h2",
            answer->status, answer->tokens, how, slot->ask.usage ? "yes" : "no", shown,
            or_dash(answer->model), or_dash(answer->replica), slot->ask.large ? "large" : "small");
}

static void finish(struct slot *slot, uint64_t *count, const char *how)
{
    (*count)++;
    write_line(slot, how);
    slot->busy = false;
    slot->wake_ns = UINT64_MAX;
    running--;
    start_next(slot);
}

static void on_ended(struct call *call, enum ending ending)
{
    struct slot *slot = slot_of(call);
    const struct answer *answer = &call->answer;

    if (ending == ENDING_WHOLE)
        failed_opens = 0;
    if (ending == ENDING_WHOLE && answer_is_wrong(slot)) {
        tally.wrong++;
        fprintf(stderr,
                "soak: wrong answer to %s: %" PRIu64 " events, %" PRIu64
                " tokens, done %d, broken %d, usage %d "
                "(asked %d) of %" PRId64 "\n",
                slot->ask.request_id, answer->events, answer->tokens, answer->done, answer->broken,
                answer->usage_shown, slot->ask.usage, answer->usage_output);
    }
    if (ending == ENDING_CUT)
        finish(slot, &tally.cut, "cut");
    else if (answer->status == 200 && !answer->failed)
        finish(slot, &tally.finished, "finished");
    else
        finish(slot, &tally.failed, "failed");
}

static void leave(struct slot *slot, uint64_t *count, const char *how)
{
    call_abort(&slot->call);
    finish(slot, count, how);
}

static void on_progress(struct call *call)
{
    struct slot *slot = slot_of(call);
    uint64_t events = call->answer.token_events;

    if (events >= slot->ask.leave_after_events) {
        leave(slot, &tally.left, "left");
    } else if (events >= slot->ask.stall_after_events) {
        slot->ask.stall_after_events = SOAK_NEVER;
        call_pause(call, true);
        slot->wake_ns = client.now_ns + slot->ask.stall_ns;
    }
}

/* The time of a slot has come: to read on, to leave, or to give up. */
static void wake(struct slot *slot)
{
    if (slot->call.paused) {
        slot->wake_ns = client.now_ns + PATIENCE_NS;
        call_pause(&slot->call, false);
    } else if (slot->ask.leave_after_ns != SOAK_NEVER) {
        leave(slot, &tally.left, "left");
    } else {
        fprintf(stderr, "soak: no end of %s\n", slot->ask.request_id);
        leave(slot, &tally.late, "late");
    }
}

static void on_lost(struct link *link)
{
    tally.lost_links++;
    if (stop)
        return;
    if (++failed_opens > 20 * link_count || !link_open(link, &client, link >= links + h1_count)) {
        fprintf(stderr, "soak: connections fail\n");
        stop = 1;
        return;
    }
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].link == link)
            start_next(&slots[i]);
}

/* ---- the run ---- */

/* Wakes those that are due; returns how long until the next one, at most a second. */
static int64_t wake_due(void)
{
    uint64_t next_ns = client.now_ns + 1000u * MILLISECOND;

    for (size_t i = 0; i < slot_count; i++) {
        struct slot *slot = &slots[i];
        if (slot->busy && slot->wake_ns <= client.now_ns)
            wake(slot);
        if (slot->busy && slot->wake_ns < next_ns)
            next_ns = slot->wake_ns;
    }
    return next_ns > client.now_ns ? (int64_t)(next_ns - client.now_ns) : 0;
}

static bool prepare(const struct sockaddr_in *address, size_t connections)
{
    if (!client_init(&client, address))
        return false;
    client.h2_window = WINDOW_BYTES;
    client.call_progress = on_progress;
    client.call_ended = on_ended;
    client.link_lost = on_lost;
    link_count = connections;
    slot_count = h1_count + (link_count - h1_count) * STREAMS_PER_LINK;
    links = calloc(link_count, sizeof *links);
    slots = calloc(slot_count, sizeof *slots);
    if (links == NULL || slots == NULL)
        return false;
    for (size_t i = 0; i < link_count; i++)
        if (!link_open(&links[i], &client, i >= h1_count))
            return false;
    for (size_t i = 0; i < slot_count; i++)
        slots[i].link =
            i < h1_count ? &links[i] : &links[h1_count + (i - h1_count) / STREAMS_PER_LINK];
    return true;
}

static void clean_up(void)
{
    for (size_t i = 0; i < link_count; i++)
        link_fini(&links[i]);
    for (size_t i = 0; i < slot_count; i++) {
        soak_fini(&slots[i].ask);
        answer_fini(&slots[i].call.answer);
    }
    free(links);
    free(slots);
}

static void run(const sigset_t *signals)
{
    for (size_t i = 0; i < slot_count; i++)
        start_next(&slots[i]);
    while (running > 0 && !stop)
        client_turn(&client, wake_due(), signals);
}

static int wrong_usage(void)
{
    fputs("usage: soak --address A:PORT [--key KEY | --direct] [--requests N] [--seed N] "
          "[--connections N]\n"
          "            [--h1-only] [--model NAME] --log FILE\n",
          stderr);
    return 2;
}

/* ADDRESS:PORT; the text is cut in place. */
static bool read_address(char *text, struct sockaddr_in *address)
{
    mix.authority = text_of(strdup(text));
    char *colon = strchr(text, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    return inet_pton(AF_INET, text, &address->sin_addr) == 1;
}

static void block_signals(sigset_t *out_signals)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigemptyset(out_signals);
}

int main(int argument_count, char **arguments)
{
    enum { ADDRESS, KEY, DIRECT, REQUESTS, SEED, CONNECTIONS, H1_ONLY, MODEL, LOG };
    static const struct option options[] = {
        {"address", required_argument, NULL, ADDRESS},
        {"key", required_argument, NULL, KEY},
        {"direct", no_argument, NULL, DIRECT},
        {"requests", required_argument, NULL, REQUESTS},
        {"seed", required_argument, NULL, SEED},
        {"connections", required_argument, NULL, CONNECTIONS},
        {"h1-only", no_argument, NULL, H1_ONLY},
        {"model", required_argument, NULL, MODEL},
        {"log", required_argument, NULL, LOG},
        {NULL, 0, NULL, 0},
    };
    struct sockaddr_in address = {0};
    char credential[512] = "";
    const char *log_path = NULL;
    size_t connections = 200;
    bool address_given = false;
    bool h1_only = false;
    sigset_t signals;
    int option;

    requests = 200000;
    mix.seed = 1;
    mix.model = TEXT("auto");
    while ((option = getopt_long(argument_count, arguments, "", options, NULL)) != -1) {
        switch (option) {
        case ADDRESS:
            address_given = read_address(optarg, &address);
            break;
        case KEY:
            snprintf(credential, sizeof credential, "Bearer %s", optarg);
            break;
        case DIRECT:
            direct = true;
            break;
        case REQUESTS:
            requests = strtoull(optarg, NULL, 10);
            break;
        case SEED:
            mix.seed = strtoull(optarg, NULL, 10);
            break;
        case CONNECTIONS:
            connections = (size_t)strtoul(optarg, NULL, 10);
            break;
        case H1_ONLY:
            h1_only = true;
            break;
        case MODEL:
            mix.model = text_of(optarg);
            break;
        case LOG:
            log_path = optarg;
            break;
        default:
            return wrong_usage();
        }
    }
    if (!address_given || log_path == NULL || connections < 2 || requests == 0)
        return wrong_usage();
    if (!direct)
        mix.credential = text_of(credential);
    h1_count = h1_only ? connections : connections / 2;
    log_file = fopen(log_path, "w");
    if (log_file == NULL || !prepare(&address, connections)) {
        perror("soak");
        return 1;
    }
    block_signals(&signals);
    uint64_t begin_ns = client.now_ns;
    run(&signals);
    printf("{\"requests\":%" PRIu64 ",\"finished\":%" PRIu64 ",\"failed\":%" PRIu64
           ",\"cut\":%" PRIu64 ",\"left\":%" PRIu64 ",\"late\":%" PRIu64 ",\"wrong\":%" PRIu64
           ",\"lost_connections\":%" PRIu64 ",\"seconds\":%.3f}\n",
           started, tally.finished, tally.failed, tally.cut, tally.left, tally.late, tally.wrong,
           tally.lost_links, (double)(client.now_ns - begin_ns) / 1e9);
    clean_up();
    if (fclose(log_file) != 0)
        return 1;
    return stop || tally.late > 0 || tally.wrong > 0 ? 1 : 0;
}
