/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/main.c: a simulated model server.
 *
 * For:       tests and benches: it speaks HTTP as vLLM, SGLang, llama.cpp, TGI or OpenAI do,
 *            generates counted tokens, and fails on demand.
 *            directive.h lists what a test can ask for; GET /fake/counters says what was really
 *            done.
 * Called by: tests, `make run`, `make bench`.
 * Knows not: anything of the gateway. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/fake/content.h"
#include "tests/fake/counters.h"
#include "tests/fake/listen.h"
#include "tests/fake/pace.h"
#include "tests/fake/server.h"
#include "tests/fake/service.h"

static volatile sig_atomic_t stop;

static const char usage_text[] =
    "usage: fake --port P | --uds PATH [options]\n"
    "  --port P             0: the kernel picks one; `ready PORT` is printed\n"
    "  --host ADDRESS       127.0.0.1, or ::1\n"
    "  --uds PATH           a Unix socket, besides the port or instead of it (`ready 0` then)\n"
    "  --models A,B         names that are served (fake)\n"
    "  --kind KIND          whose wire is spoken: vllm, sglang, llamacpp, tgi, openai (vllm)\n"
    "  --old-errors         vllm: flat error objects, as before August 2025\n"
    "  --old-metrics        vllm, llamacpp: metrics under names that are gone by now\n"
    "  --key KEY            the key that requests must bear (none)\n"
    "  --base-path PATH     in front of all paths (none)\n"
    "  --keep-alive-ms N    idle connections are closed after this (5000)\n"
    "  --engine OPTIONS     answers are paced by a model of continuous batching (none); a file\n"
    "                       with them, or any of prefill_tps=8000,step_ms=8,step_ms_per_seq=0.2,\n"
    "                       blocks=4096,block=16,max_running=256,max_waiting=0,chunk=2048\n"
    "  --log FILE           one line per finished request\n"
    "  --once-file FILE     where the keys of `once` are kept, shared with other servers (none)\n"
    "  --record             keep the last request for GET /fake/last\n"
    "  --ready-fd N         where `ready PORT` is written (1)\n"
    "control: GET /fake/counters, /fake/last, /fake/flush; POST /fake/reset, "
    "/fake/set?NAME=VALUE&...\n";

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

/* Signals come only while the loop sleeps. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* As many descriptors as we may have: thousands of streams are ordinary here. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static struct text text_of(const char *string)
{
    return (struct text){string, strlen(string)};
}

/* Cuts the list at its commas, in place. */
static void set_models(char *list)
{
    char *rest = NULL;

    service.model_count = 0;
    for (char *name = strtok_r(list, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
        if (service.model_count < MODELS_MOST)
            service.models[service.model_count++] = text_of(name);
}

static int number_of(const char *string)
{
    char *end;
    long number = strtol(string, &end, 10);

    return *string == '\0' || *end != '\0' || number < 0 || number > 1000000000 ? -1 : (int)number;
}

/* What is not kept elsewhere. */
struct settings {
    const char *host;
    const char *uds_path;  /* NULL: none */
    const char *log_path;  /* NULL: none */
    const char *once_path; /* NULL: this process alone remembers */
    int port;              /* -1: none */
    int keep_alive_ms;
    int ready_fd;
};

enum reading { GOOD, WRONG, HELP_WANTED };

static enum reading read_arguments(int argument_count, char **arguments, struct settings *out)
{
    enum {
        PORT,
        HOST,
        UDS,
        MODELS,
        KIND,
        OLD_ERRORS,
        OLD_METRICS,
        KEY,
        BASE_PATH,
        KEEP_ALIVE,
        ENGINE,
        LOG,
        ONCE_FILE,
        RECORD,
        READY_FD,
        HELP
    };
    static const struct option options[] = {
        {"port", required_argument, NULL, PORT},
        {"host", required_argument, NULL, HOST},
        {"uds", required_argument, NULL, UDS},
        {"models", required_argument, NULL, MODELS},
        {"kind", required_argument, NULL, KIND},
        {"old-errors", no_argument, NULL, OLD_ERRORS},
        {"old-metrics", no_argument, NULL, OLD_METRICS},
        {"key", required_argument, NULL, KEY},
        {"base-path", required_argument, NULL, BASE_PATH},
        {"keep-alive-ms", required_argument, NULL, KEEP_ALIVE},
        {"engine", required_argument, NULL, ENGINE},
        {"log", required_argument, NULL, LOG},
        {"once-file", required_argument, NULL, ONCE_FILE},
        {"record", no_argument, NULL, RECORD},
        {"ready-fd", required_argument, NULL, READY_FD},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    int option;

    *out = (struct settings){.host = "127.0.0.1", .port = -1, .keep_alive_ms = 5000, .ready_fd = 1};
    service.models[0] = TEXT("fake");
    service.model_count = 1;
    while ((option = getopt_long(argument_count, arguments, "", options, NULL)) != -1) {
        switch (option) {
        case PORT:
            out->port = number_of(optarg);
            break;
        case HOST:
            out->host = optarg;
            break;
        case UDS:
            out->uds_path = optarg;
            break;
        case MODELS:
            set_models(optarg);
            break;
        case KIND:
            if (!kind_of_name(optarg, &dialect.kind))
                return WRONG;
            break;
        case OLD_ERRORS:
            dialect.old_errors = true;
            break;
        case OLD_METRICS:
            dialect.old_metrics = true;
            break;
        case KEY:
            service.key = text_of(optarg);
            break;
        case BASE_PATH:
            service.base_path = text_of(optarg);
            break;
        case KEEP_ALIVE:
            out->keep_alive_ms = number_of(optarg);
            break;
        case ENGINE:
            if (!pace_set(optarg))
                return WRONG;
            break;
        case LOG:
            out->log_path = optarg;
            break;
        case ONCE_FILE:
            out->once_path = optarg;
            break;
        case RECORD:
            service.record = true;
            break;
        case READY_FD:
            out->ready_fd = number_of(optarg);
            break;
        case HELP:
            return HELP_WANTED;
        default:
            return WRONG;
        }
    }
    if ((out->port < 0 && out->uds_path == NULL) || out->port > 65535 || out->keep_alive_ms < 0 ||
        out->ready_fd < 0 || service.model_count == 0 || optind != argument_count)
        return WRONG;
    return GOOD;
}

static int cannot(const char *what)
{
    fprintf(stderr, "fake: %s: %s\n", what, strerror(errno));
    return 1;
}

int main(int argument_count, char **arguments)
{
    struct settings settings;

    switch (read_arguments(argument_count, arguments, &settings)) {
    case HELP_WANTED:
        fputs(usage_text, stdout);
        return 0;
    case WRONG:
        fputs(usage_text, stderr);
        return 2;
    case GOOD:
        break;
    }
    raise_limits();
    catch_signals();
    content_prepare();
    pace_begin();
    if (!directive_remember_in(settings.once_path))
        return cannot(settings.once_path != NULL ? settings.once_path : "memory");
    if (settings.log_path != NULL && !counters_open_log(settings.log_path))
        return cannot(settings.log_path);
    if (settings.port >= 0 && (settings.port = listen_open(settings.host, settings.port)) < 0)
        return cannot(settings.host);
    if (settings.uds_path != NULL && !listen_open_path(settings.uds_path))
        return cannot(settings.uds_path);
    dprintf(settings.ready_fd, "ready %d\n", settings.port < 0 ? 0 : settings.port);
    server_run(settings.keep_alive_ms, &stop);
    listen_close();
    return 0;
}
