/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/names.c: see names.h.
 *
 * For:       libevent's evdns on a loop of its own, which the worker polls while a look-up is
 *            pending; and what it said, kept for a moment.
 * Called by: link.c, server.c.
 * Knows not: who connects, ports, protocols.
 *
 * A name: asked → known or failed → (after a while, when wanted again) asked. What was known not
 * long ago is used while it is asked for anew, and a look-up that fails for the moment leaves it: a
 * name server that is slow or away takes no model server away. */
#include "gateway/names.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gateway/buffer.h"

#define HOST_BYTES_MAX 256
#define NAMES_MAX 256u
#define KNOWN_NS (5 * NS_PER_S)
#define FAILED_NS (1 * NS_PER_S)
/* Since it was last confirmed: still used while it is asked for anew. */
#define STALE_NS (60 * NS_PER_S)
#define PATIENCE_SECONDS "0.4" /* with a question by UDP: connecting has a second in all */
#define QUESTIONS "3"
#define AAAA_LATE_SECONDS "0.3" /* how long an answer waits for that of the other family */

struct name {
    struct name *next;
    struct names *names;
    bool asked;        /* a look-up is under way */
    bool unheard;      /* the last one failed for the moment */
    uint64_t until_ns; /* known or failed until then */
    uint64_t known_ns; /* when the addresses were last confirmed */
    uint32_t turn;     /* where the next asker begins */
    struct name_wait *waits;
    struct name_answer answer;
    char host[HOST_BYTES_MAX];
};

struct names {
    struct event_base *base;
    struct evdns_base *dns;
    struct name *list; /* newest first */
    uint32_t count;
    uint32_t pending;
    uint64_t now_ns;
};

/* ---- the resolver ---- */

static bool use_servers(struct evdns_base *dns, const struct config *config)
{
    if (config->names_server_count == 0)
        return true;
    (void)evdns_base_clear_nameservers_and_suspend(dns);
    for (uint32_t i = 0; i < config->names_server_count; i++) {
        char address[HOST_BYTES_MAX];
        if (!span_to_text(config->names_servers[i], address, sizeof address) ||
            evdns_base_nameserver_ip_add(dns, address) != 0)
            return false;
    }
    return evdns_base_resume(dns) == 0;
}

static struct names *make_names(const struct config *config)
{
    struct names *names = calloc(1, sizeof *names);
    if (names == NULL)
        return NULL;
    names->base = event_base_new();
    if (names->base)
        names->dns = evdns_base_new(names->base, EVDNS_BASE_INITIALIZE_NAMESERVERS);
    if (names->dns == NULL || !use_servers(names->dns, config)) {
        names_free(names);
        return NULL;
    }
    (void)evdns_base_set_option(names->dns, "getaddrinfo-allow-skew:", AAAA_LATE_SECONDS);
    (void)evdns_base_set_option(names->dns, "timeout:", PATIENCE_SECONDS);
    (void)evdns_base_set_option(names->dns, "attempts:", QUESTIONS);
    return names;
}

/* ---- one name ---- */

/* Tells all that wait, each from another address on. */
static void tell(struct name *name)
{
    while (name->waits) {
        struct name_wait *wait = name->waits;
        struct name_answer answer = name->answer;
        const uint32_t first = answer.count ? name->turn++ % answer.count : 0;
        for (uint32_t i = 0; i < answer.count; i++)
            answer.addresses[i] = name->answer.addresses[(first + i) % answer.count];
        names_cancel(wait);
        wait->answered(wait, &answer);
    }
}

/* What the resolver said, without repetitions. */
static void keep_addresses(struct name_answer *answer, const struct evutil_addrinfo *said)
{
    answer->count = 0;
    for (; said && answer->count < NAME_ADDRESSES_MAX; said = said->ai_next) {
        union name_address *address = &answer->addresses[answer->count];
        bool known = false;
        if (said->ai_addrlen > sizeof *address)
            continue;
        memset(address, 0, sizeof *address);
        memcpy(address, said->ai_addr, said->ai_addrlen);
        for (uint32_t i = 0; i < answer->count; i++)
            known = known || memcmp(&answer->addresses[i], address, sizeof *address) == 0;
        answer->count += !known;
    }
}

static void resolved(int error, struct evutil_addrinfo *said, void *argument)
{
    struct name *name = argument;
    const bool for_the_moment = error != EVUTIL_EAI_NONAME && error != EVUTIL_EAI_NODATA;
    name->asked = false;
    name->unheard = error && for_the_moment;
    name->names->pending--;
    if (said)
        name->known_ns = name->names->now_ns;
    if (said)
        keep_addresses(&name->answer, said);
    else if (!for_the_moment)
        name->answer.count = 0;
    if (said)
        evutil_freeaddrinfo(said);
    name->answer.problem = error ? evutil_gai_strerror(error) : "the name has no address";
    name->until_ns = name->names->now_ns + (error ? FAILED_NS : KNOWN_NS);
    if (error)
        log_event(LOG_WARN, "name_not_found", "%s: %s%s", name->host, evutil_gai_strerror(error),
                  name->answer.count ? "; the addresses known before are used" : "");
    tell(name);
}

static void look_up(struct name *name)
{
    const struct evutil_addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
    name->asked = true;
    name->names->pending++;
    evdns_getaddrinfo(name->names->dns, name->host, NULL, &hints, resolved, name);
}

/* Makes room for one name more: the one known for longest leaves. false: all are being asked. */
static bool make_room(struct names *names)
{
    struct name **oldest = NULL;
    if (names->count < NAMES_MAX)
        return true;
    for (struct name **link = &names->list; *link; link = &(*link)->next)
        if (!(*link)->asked && (oldest == NULL || (*link)->until_ns < (*oldest)->until_ns))
            oldest = link;
    if (oldest == NULL)
        return false;
    struct name *name = *oldest;
    *oldest = name->next;
    free(name);
    names->count--;
    return true;
}

static struct name *find_name(struct names *names, struct span host)
{
    for (struct name *name = names->list; name; name = name->next)
        if (span_equal_nocase(span_of(name->host), host))
            return name;
    if (!make_room(names))
        return NULL;
    struct name *name = calloc(1, sizeof *name);
    if (name == NULL || !span_to_text(host, name->host, sizeof name->host)) {
        free(name);
        return NULL;
    }
    name->names = names;
    name->next = names->list;
    names->list = name;
    names->count++;
    return name;
}

enum err names_ask(struct names **names, const struct config *config, struct span host,
                   uint64_t now_ns, struct name_wait *wait)
{
    if (*names == NULL)
        *names = make_names(config);
    struct name *name = *names ? find_name(*names, host) : NULL;
    if (name == NULL)
        return ERR_NO_MEMORY;
    (*names)->now_ns = now_ns;
    wait->next = name->waits;
    wait->link = &name->waits;
    if (wait->next)
        wait->next->link = &wait->next;
    name->waits = wait;
    const bool usable = name->answer.count && (name->unheard || now_ns - name->known_ns < STALE_NS);
    if (now_ns >= name->until_ns && !name->asked)
        look_up(name);
    if (now_ns < name->until_ns || usable)
        tell(name);
    return OK;
}

void names_cancel(struct name_wait *wait)
{
    if (wait->link == NULL)
        return;
    *wait->link = wait->next;
    if (wait->next)
        wait->next->link = wait->link;
    wait->next = NULL;
    wait->link = NULL;
}

bool names_pending(const struct names *names)
{
    return names && names->pending > 0;
}

void names_poll(struct names *names, uint64_t now_ns)
{
    names->now_ns = now_ns;
    event_base_loop(names->base, EVLOOP_NONBLOCK);
}

void names_free(struct names *names)
{
    if (names == NULL)
        return;
    if (names->dns)
        evdns_base_free(names->dns, 1);
    if (names->base) {
        event_base_loop(names->base, EVLOOP_NONBLOCK); /* what is pending is told that it failed */
        event_base_free(names->base);
    }
    while (names->list) {
        struct name *name = names->list;
        names->list = name->next;
        while (name->waits)
            names_cancel(name->waits);
        free(name);
    }
    free(names);
}
