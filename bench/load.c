/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load.c: a load client that judges every answer.
 *
 * For:       `make bench`: closed loops, fixed rates, streams with send times, held connections;
 *            prints one JSON object.
 * Called by: bench scripts, people.
 * Knows not: what stands between it and the model server. */
#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/load_run.h"

static const char usage_text[] =
    "usage: load --url http://ADDRESS:PORT[/PATH] [options]\n"
    "  --h2                   HTTP/2 with prior knowledge, with --tls by ALPN (HTTP/1.1)\n"
    "  --tls                  TLS 1.3; no certificate is verified. Handshakes come before all "
    "else\n"
    "  --churn                a connection for each request\n"
    "  --resume               with --tls --churn: by the session of the connection before\n"
    "  --wait                 prints `ready` when all is connected, begins at a line on stdin\n"
    "  --connections C        (1)\n"
    "  --streams S            requests at a time on an HTTP/2 connection (1)\n"
    "  --requests N           stop after N requests\n"
    "  --seconds T            start no request after T seconds\n"
    "  --rate R               so many requests a second, evenly spaced (a closed loop)\n"
    "  --body chat|sse|big    a 600-byte chat, the same streamed, a 256 KiB prompt (chat)\n"
    "  --body-bytes N         another size\n"
    "  --tokens N             tokens of an answer, by directive to the simulated server (its "
    "default, 8)\n"
    "  --delay-ms N           between the events of a stream (0)\n"
    "  --usage                streams ask for usage\n"
    "  --model NAME           (fake)\n"
    "  --key KEY              authorization: Bearer KEY\n"
    "  --header NAME:VALUE    one more field; up to 8\n"
    "  --bind-range N         connect from 127.0.0.1 to 127.0.0.N in turn\n"
    "  --hold N               N idle connections until SIGTERM or the end of stdin; `holding N` "
    "when they stand\n"
    "  --hold-request         each of them has served one request\n"
    "  --hold-streams         connections x streams open streams, held likewise\n"
    "  --vanish               the same, then all are closed at once\n";

static struct outcome outcome;

static int wrong_usage(const char *why)
{
    fprintf(stderr, "load: %s\n%s", why, usage_text);
    return 2;
}

/* http://1.2.3.4:80/path; the text is cut in place. */
static bool read_url(char *url, struct plan *plan)
{
    static const char scheme[] = "http://";

    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return false;
    char *host = url + sizeof scheme - 1;
    char *slash = strchr(host, '/');
    plan->path =
        slash != NULL && slash[1] != '\0' ? text_of(strdup(slash)) : TEXT("/v1/chat/completions");
    if (slash != NULL)
        *slash = '\0';
    plan->authority = text_of(strdup(host));
    char *colon = strchr(host, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    plan->address.sin_family = AF_INET;
    plan->address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                     &plan->address.sin_addr) == 1;
}

static bool add_field(char *text, struct plan *plan)
{
    char *colon = strchr(text, ':');

    if (colon == NULL || plan->field_count == sizeof plan->fields / sizeof plan->fields[0])
        return false;
    *colon = '\0';
    for (char *at = text; at < colon; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at + ('a' - 'A'));
    char *value = colon + 1;
    while (*value == ' ')
        value++;
    plan->fields[plan->field_count++] = (struct field){text_of(text), text_of(value)};
    return true;
}

static void print_outcome(void)
{
    const struct histogram *latency = &outcome.latency;
    double requests = outcome.requests > 0 ? (double)outcome.requests : 1;
    double seconds = outcome.seconds > 0 ? outcome.seconds : 1e-9;

    printf("{\"requests\":%" PRIu64 ",\"wrong\":%" PRIu64 ",\"seconds\":%.6f,\"rps\":%.1f",
           outcome.requests, outcome.wrong, outcome.seconds, (double)outcome.requests / seconds);
    printf(",\"latency_us\":{\"p50\":%" PRIu64 ",\"p90\":%" PRIu64 ",\"p99\":%" PRIu64
           ",\"max\":%" PRIu64 "}",
           histogram_quantile(latency, 500), histogram_quantile(latency, 900),
           histogram_quantile(latency, 990), latency->most_us);
    printf(",\"ttft_us\":{\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 "}",
           histogram_quantile(&outcome.first_token, 500),
           histogram_quantile(&outcome.first_token, 990));
    printf(",\"delivery_us\":{\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 "}",
           histogram_quantile(&outcome.delivery, 500), histogram_quantile(&outcome.delivery, 990));
    printf(",\"events\":%" PRIu64 ",\"events_per_s\":%.1f,\"body_bytes\":%" PRIu64, outcome.events,
           (double)outcome.events / seconds, outcome.body_bytes);
    printf(",\"cpu_us_per_request\":%.3f,\"cpu_user_us_per_request\":%.3f",
           (outcome.user_seconds + outcome.system_seconds) * 1e6 / requests,
           outcome.user_seconds * 1e6 / requests);
    printf(",\"lost_connections\":%" PRIu64 ",\"handshakes\":%" PRIu64 ",\"resumed\":%" PRIu64,
           outcome.lost_links, outcome.handshakes, outcome.resumed);
    printf(",\"vanished_ns\":%" PRIu64 ",\"first_wrong\":\"%s\"}\n", outcome.vanished_ns,
           outcome.first_wrong);
}

/* Fills in what depends on several options. NULL: fine, else what does not fit. */
static const char *complete_plan(struct plan *plan, bool url_given, long body_bytes)
{
    if (!url_given)
        return "--url is missing or not http://ADDRESS:PORT";
    if (plan->connections == 0 || plan->streams == 0)
        return "at least one connection and one stream";
    if (plan->streams > 1 && !plan->use_h2)
        return "--streams needs --h2";
    if (plan->churn && (plan->use_h2 || plan->mode != MODE_CLOSED || plan->rate > 0))
        return "--churn is for HTTP/1.1 in a closed loop";
    if (plan->mode == MODE_CLOSED && plan->rate > 0)
        plan->mode = MODE_OPEN;
    if (plan->mode == MODE_HOLD_STREAMS || plan->mode == MODE_VANISH)
        plan->kind = KIND_SSE;
    if (plan->mode <= MODE_OPEN && plan->requests == 0 && plan->seconds <= 0)
        return "--requests or --seconds";
    plan->body_bytes = body_bytes > 0           ? (size_t)body_bytes
                       : plan->kind == KIND_BIG ? 256 * 1024
                                                : 600;
    return NULL;
}

int main(int argument_count, char **arguments)
{
    enum {
        URL,
        H2,
        TLS,
        CHURN,
        RESUME,
        WAIT,
        CONNECTIONS,
        STREAMS,
        REQUESTS,
        SECONDS,
        RATE,
        BODY,
        BODY_BYTES,
        TOKENS,
        DELAY,
        USAGE,
        MODEL,
        KEY,
        HEADER,
        BIND_RANGE,
        HOLD,
        HOLD_REQUEST,
        HOLD_STREAMS,
        VANISH,
        HELP
    };
    static const struct option options[] = {
        {"url", required_argument, NULL, URL},
        {"h2", no_argument, NULL, H2},
        {"tls", no_argument, NULL, TLS},
        {"churn", no_argument, NULL, CHURN},
        {"resume", no_argument, NULL, RESUME},
        {"wait", no_argument, NULL, WAIT},
        {"connections", required_argument, NULL, CONNECTIONS},
        {"streams", required_argument, NULL, STREAMS},
        {"requests", required_argument, NULL, REQUESTS},
        {"seconds", required_argument, NULL, SECONDS},
        {"rate", required_argument, NULL, RATE},
        {"body", required_argument, NULL, BODY},
        {"body-bytes", required_argument, NULL, BODY_BYTES},
        {"tokens", required_argument, NULL, TOKENS},
        {"delay-ms", required_argument, NULL, DELAY},
        {"usage", no_argument, NULL, USAGE},
        {"model", required_argument, NULL, MODEL},
        {"key", required_argument, NULL, KEY},
        {"header", required_argument, NULL, HEADER},
        {"bind-range", required_argument, NULL, BIND_RANGE},
        {"hold", required_argument, NULL, HOLD},
        {"hold-request", no_argument, NULL, HOLD_REQUEST},
        {"hold-streams", no_argument, NULL, HOLD_STREAMS},
        {"vanish", no_argument, NULL, VANISH},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    struct plan plan = {.connections = 1, .streams = 1, .tokens = 8, .model = TEXT("fake")};
    bool url_given = false;
    long body_bytes = 0;
    int option;

    while ((option = getopt_long(argument_count, arguments, "", options, NULL)) != -1) {
        unsigned long long number = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
        switch (option) {
        case URL:
            url_given = read_url(optarg, &plan);
            break;
        case H2:
            plan.use_h2 = true;
            break;
        case TLS:
            plan.use_tls = true;
            break;
        case CHURN:
            plan.churn = true;
            break;
        case RESUME:
            plan.resume = true;
            break;
        case WAIT:
            plan.wait = true;
            break;
        case CONNECTIONS:
            plan.connections = (unsigned)number;
            break;
        case STREAMS:
            plan.streams = (unsigned)number;
            break;
        case REQUESTS:
            plan.requests = number;
            break;
        case SECONDS:
            plan.seconds = strtod(optarg, NULL);
            break;
        case RATE:
            plan.rate = strtod(optarg, NULL);
            break;
        case BODY:
            plan.kind = strcmp(optarg, "sse") == 0   ? KIND_SSE
                        : strcmp(optarg, "big") == 0 ? KIND_BIG
                                                     : KIND_CHAT;
            break;
        case BODY_BYTES:
            body_bytes = (long)number;
            break;
        case TOKENS:
            plan.tokens = number;
            plan.say_tokens = true;
            break;
        case DELAY:
            plan.delay_ms = number;
            break;
        case USAGE:
            plan.ask_usage = true;
            break;
        case MODEL:
            plan.model = text_of(optarg);
            break;
        case KEY:
            plan.key = text_of(optarg);
            break;
        case HEADER:
            if (!add_field(optarg, &plan))
                return wrong_usage("--header NAME:VALUE");
            break;
        case BIND_RANGE:
            plan.sources = (unsigned)number;
            break;
        case HOLD:
            plan.mode = MODE_HOLD_CONNECTIONS;
            plan.connections = (unsigned)number;
            break;
        case HOLD_REQUEST:
            plan.hold_request = true;
            break;
        case HOLD_STREAMS:
            plan.mode = MODE_HOLD_STREAMS;
            break;
        case VANISH:
            plan.mode = MODE_VANISH;
            break;
        case HELP:
            fputs(usage_text, stdout);
            return 0;
        default:
            return wrong_usage("unknown option");
        }
    }
    const char *why = complete_plan(&plan, url_given, body_bytes);
    if (why != NULL)
        return wrong_usage(why);
    if (!run_plan(&plan, &outcome))
        return 1;
    print_outcome();
    return outcome.wrong > 0 ? 1 : 0;
}
