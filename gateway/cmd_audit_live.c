/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_audit_live.c: does a running gateway count tokens as its model servers do?
 *
 * For:       tollgate audit --live: one GET of /replicas on the admin listener, and what it says of
 *            drift.
 * Called by: cmd_audit.c.
 * Knows not: journals; how drift is measured (meter/account.h). */
#include "gateway/cmd_audit_live.h"

#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define SCHEME "http://"
#define HOST_BYTES 256
#define REQUEST_BYTES 2048
#define ANSWER_BYTES_MAX (8u << 20)
#define TIMEOUT_S 10

/* ---- one request ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    }
    return false;
}

/* "http://host:port" or "http://[::1]:port", with a slash behind it or none. */
static bool split_url(const char *url, char host[HOST_BYTES], char port[8])
{
    const char *from = url + sizeof(SCHEME) - 1;
    const char *colon, *end;
    size_t size;

    if (strncmp(url, SCHEME, sizeof(SCHEME) - 1) != 0)
        return false;
    end = from + strcspn(from, "/?#");
    colon = memrchr(from, ':', (size_t)(end - from));
    if (colon == NULL || strspn(end, "/") != strlen(end))
        return false;
    size = (size_t)(colon - from);
    if (size > 2 && from[0] == '[' && from[size - 1] == ']') {
        from++;
        size -= 2;
    }
    if (size == 0 || size >= HOST_BYTES || end - colon < 2 || end - colon > 6)
        return false;
    memcpy(host, from, size);
    host[size] = '\0';
    memcpy(port, colon + 1, (size_t)(end - colon - 1));
    port[end - colon - 1] = '\0';
    return strspn(port, "0123456789") == strlen(port);
}

static int connect_to(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    struct addrinfo *found = NULL;
    int fd = -1;
    const int problem = getaddrinfo(host, port, &hints, &found);

    if (problem != 0) {
        (void)fprintf(stderr, "tollgate: %s: %s\n", host, gai_strerror(problem));
        return -1;
    }
    if (!is_loopback(found->ai_addr)) {
        (void)fprintf(stderr,
                      "tollgate: %s is not this machine: the token would go in clear; "
                      "reach the admin listener through a tunnel\n",
                      host);
    } else {
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0 ||
                        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0 ||
                        connect(fd, found->ai_addr, found->ai_addrlen) != 0)) {
            (void)fprintf(stderr, "tollgate: %s:%s: %s\n", host, port, strerror(errno));
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static bool send_request(int fd, const char *host, const char *port, const char *token)
{
    char request[REQUEST_BYTES];
    const bool bracketed = strchr(host, ':') != NULL;
    const int size = snprintf(request, sizeof(request),
                              "GET /replicas HTTP/1.1\r\nHost: %s%s%s:%s\r\nConnection: close\r\n"
                              "Accept: application/json\r\n%s%s%s\r\n",
                              bracketed ? "[" : "", host, bracketed ? "]" : "", port,
                              token == NULL ? "" : "Authorization: Bearer ",
                              token == NULL ? "" : token, token == NULL ? "" : "\r\n");

    return size > 0 && (size_t)size < sizeof(request) &&
           send(fd, request, (size_t)size, MSG_NOSIGNAL) == size;
}

/* The whole answer, until the other side closes; NUL-terminated, the caller frees. */
static char *receive(int fd, size_t *out_bytes)
{
    char *answer = malloc(ANSWER_BYTES_MAX + 1);
    ssize_t got = 1;

    *out_bytes = 0;
    while (answer != NULL && got > 0 && *out_bytes < ANSWER_BYTES_MAX) {
        got = recv(fd, answer + *out_bytes, ANSWER_BYTES_MAX - *out_bytes, 0);
        if (got > 0)
            *out_bytes += (size_t)got;
    }
    if (answer == NULL || got < 0 || *out_bytes == ANSWER_BYTES_MAX) {
        free(answer);
        return NULL;
    }
    answer[*out_bytes] = '\0';
    return answer;
}

/* The body's JSON of an answer of 200; NULL: it is none, which was said. */
static json_t *read_answer(const char *answer, size_t bytes)
{
    const char *body = strstr(answer, "\r\n\r\n");
    json_error_t problem;
    json_t *tree;

    if (strncmp(answer, "HTTP/1.1 200 ", 13) != 0 || body == NULL) {
        (void)fprintf(stderr, "tollgate: the gateway answered: %.*s\n",
                      (int)strcspn(answer, "\r\n"), answer);
        return NULL;
    }
    body += 4;
    tree = json_loadb(body, bytes - (size_t)(body - answer), 0, &problem);
    if (tree == NULL)
        (void)fprintf(stderr, "tollgate: the gateway's answer is not JSON: %s\n", problem.text);
    return tree;
}

static json_t *fetch(const struct cmd_audit_live *live, const char *host, const char *port)
{
    const int fd = connect_to(host, port);
    char *answer = NULL;
    size_t bytes = 0;
    json_t *tree = NULL;

    if (fd < 0)
        return NULL;
    if (send_request(fd, host, port, getenv(live->token_env)))
        answer = receive(fd, &bytes);
    if (answer == NULL)
        (void)fprintf(stderr, "tollgate: %s:%s gives no answer\n", host, port);
    else
        tree = read_answer(answer, bytes);
    free(answer);
    (void)close(fd);
    return tree;
}

/* ---- what it says ---- */

/* A replica's drift: counted by the engine beyond what we counted. */
static bool print_replica(const char *model, json_t *replica, bool json, bool first)
{
    json_t *account = json_object_get(replica, "account");
    json_t *prompt = json_object_get(account, "drift_prompt_tokens");
    json_t *generation = json_object_get(account, "drift_generation_tokens");
    const char *name = json_string_value(json_object_get(replica, "name"));
    const bool known = json_is_integer(prompt) && json_is_integer(generation);

    if (json) {
        json_t *line = json_pack("{s:s, s:s, s:O?, s:O?, s:O?}", "model", model, "replica",
                                 name == NULL ? "" : name, "drift_prompt_tokens", prompt,
                                 "drift_generation_tokens", generation, "drift_age_ms",
                                 json_object_get(account, "drift_age_ms"));
        char *text = line == NULL ? NULL : json_dumps(line, JSON_COMPACT);
        (void)printf("%s%s", first ? "" : ",", text == NULL ? "null" : text);
        free(text);
        json_decref(line);
    } else if (known) {
        (void)printf("%s/%s: drift of %" JSON_INTEGER_FORMAT " prompt and %" JSON_INTEGER_FORMAT
                     " generation tokens\n",
                     model, name == NULL ? "" : name, json_integer_value(prompt),
                     json_integer_value(generation));
    } else {
        (void)printf("%s/%s: not compared yet: its counters were not read while nothing was under "
                     "way\n",
                     model, name == NULL ? "" : name);
    }
    return known && (json_integer_value(prompt) != 0 || json_integer_value(generation) != 0);
}

static bool print_replicas(json_t *tree, bool json)
{
    json_t *models = json_object_get(tree, "models");
    bool drifts = false, first = true;
    json_t *model, *replica;
    size_t i, k;

    if (json)
        (void)printf("\"replicas\":[");
    json_array_foreach(models, i, model)
    {
        const char *name = json_string_value(json_object_get(model, "model"));
        json_array_foreach(json_object_get(model, "replicas"), k, replica)
        {
            drifts = print_replica(name == NULL ? "" : name, replica, json, first) || drifts;
            first = false;
        }
    }
    if (json)
        (void)printf("]");
    return drifts;
}

int cmd_audit_live(const struct cmd_audit_live *live, bool json)
{
    char host[HOST_BYTES], port[8];
    json_t *tree;
    bool drifts;

    if (!split_url(live->url, host, port)) {
        (void)fprintf(stderr,
                      "tollgate: --live: expected http://HOST:PORT of the admin listener\n");
        return 2;
    }
    tree = fetch(live, host, port);
    if (tree == NULL) {
        if (json)
            (void)printf("\"replicas\":null");
        return 1;
    }
    drifts = print_replicas(tree, json);
    json_decref(tree);
    return drifts ? 1 : 0;
}
