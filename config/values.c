/* SPDX-License-Identifier: Apache-2.0 */
/* config/values.c: one written value to one number; pure.
 *
 * For:       durations, sizes, shares, money, dates, addresses and URLs as operators write them.
 * Called by: sections.c; cmd_keys.c for dates.
 * Knows not: YAML, keys, files. */
#include "config/values.h"

#include <arpa/inet.h>

struct unit {
    const char *name;
    int64_t times;
};

/* A whole number and one of the units behind it. */
static bool number_with_unit(struct span text, const struct unit *units, size_t unit_count,
                             int64_t *out_value)
{
    size_t digits = 0;
    int64_t number;
    struct span unit;

    while (digits < text.size && text.data[digits] >= '0' && text.data[digits] <= '9')
        digits++;
    if (!span_to_int64((struct span){text.data, digits}, &number))
        return false;
    unit = span_from(text, digits);
    for (size_t i = 0; i < unit_count; i++)
        if (span_equal(unit, span_of(units[i].name))) {
            if (__builtin_mul_overflow(number, units[i].times, &number))
                return false;
            *out_value = number;
            return true;
        }
    return false;
}

bool values_duration(struct span text, int64_t *out_ms)
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

    if (span_equal(text, SPAN("0"))) {
        *out_ms = 0;
        return true;
    }
    return number_with_unit(text, units, sizeof(units) / sizeof(units[0]), out_ms);
}

bool values_bytes(struct span text, int64_t *out_bytes)
{
    static const struct unit units[] = {{"", 1},
                                        {"B", 1},
                                        {"KiB", INT64_C(1) << 10},
                                        {"MiB", INT64_C(1) << 20},
                                        {"GiB", INT64_C(1) << 30},
                                        {"TiB", INT64_C(1) << 40}};

    return number_with_unit(text, units, sizeof(units) / sizeof(units[0]), out_bytes);
}

bool values_percent(struct span text, int64_t *out_percent)
{
    static const struct unit units[] = {{"%", 1}};

    return number_with_unit(text, units, 1, out_percent);
}

bool values_decimal(struct span text, int exponent, int64_t *out_value)
{
    size_t whole = 0;
    size_t places = 0;
    bool point = false;
    int64_t value = 0;

    for (size_t i = 0; i < text.size; i++) {
        const int digit = text.data[i] - '0';

        if (text.data[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (digit < 0 || digit > 9)
            return false;
        if (point)
            places++;
        else
            whole++;
        if (places > 12 || whole > 12)
            return false;
        if (places > (size_t)exponent) {
            if (digit != 0)
                return false; /* finer than the unit */
            continue;
        }
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    if (whole == 0 || (point && places == 0))
        return false;
    for (size_t i = places; i < (size_t)exponent; i++)
        if (__builtin_mul_overflow(value, 10, &value))
            return false;
    *out_value = value;
    return true;
}

/* Digits from at on; -1 when there are others among them. */
static int64_t digits_at(struct span text, size_t at, size_t count)
{
    int64_t value;

    if (text.size < at + count || !span_to_int64((struct span){text.data + at, count}, &value))
        return -1;
    return value;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar, counted in years that begin in March so
 * that the leap day is a year's last. */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day)
{
    const int64_t march_year = month <= 2 ? year - 1 : year;
    const int64_t month_from_march = (month + 9) % 12;
    const int64_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;

    return march_year * 365 + march_year / 4 - march_year / 100 + march_year / 400 + day_of_year -
           719468;
}

bool values_date(struct span text, int64_t *out_us)
{
    static const int days_of_month[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int64_t year = digits_at(text, 0, 4);
    const int64_t month = digits_at(text, 5, 2);
    const int64_t day = digits_at(text, 8, 2);
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int64_t seconds = 0;

    if (year < 1970 || month < 1 || month > 12 || day < 1)
        return false;
    if (text.data[4] != '-' || text.data[7] != '-')
        return false;
    if (day > days_of_month[month - 1] + (month == 2 && leap ? 1 : 0))
        return false;
    if (text.size == 20) {
        const int64_t hour = digits_at(text, 11, 2);
        const int64_t minute = digits_at(text, 14, 2);
        const int64_t second = digits_at(text, 17, 2);

        if (text.data[10] != 'T' || text.data[13] != ':' || text.data[16] != ':' ||
            text.data[19] != 'Z')
            return false;
        if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
            return false;
        seconds = hour * 3600 + minute * 60 + second;
    } else if (text.size != 10) {
        return false;
    }
    *out_us = (days_since_1970(year, month, day) * 86400 + seconds) * 1000000;
    return true;
}

static bool is_address(struct span host, int family)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t address[sizeof(struct in6_addr)];

    if (host.size == 0 || host.size >= sizeof(text))
        return false;
    memcpy(text, host.data, host.size);
    text[host.size] = '\0';
    return inet_pton(family, text, address) == 1;
}

/* Letters, digits, '-', '.' and '_': what a name that is looked up consists of. */
static bool is_host_name(struct span host)
{
    if (host.size == 0 || host.size > 253)
        return false;
    for (size_t i = 0; i < host.size; i++) {
        const char byte = host.data[i];

        if (!((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
              (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_'))
            return false;
    }
    return true;
}

/* "host:port" or "[v6]:port"; *out_port is {NULL, 0} when there is none. */
static bool split_authority(struct span text, struct span *out_host, struct span *out_port)
{
    const char *colon;
    struct span rest;

    if (text.size > 0 && text.data[0] == '[') {
        const char *closing = memchr(text.data, ']', text.size);

        if (closing == NULL)
            return false;
        *out_host = (struct span){text.data + 1, (size_t)(closing - text.data) - 1};
        rest = span_from(text, (size_t)(closing - text.data) + 1);
        if (!is_address(*out_host, AF_INET6) || (rest.size > 0 && rest.data[0] != ':'))
            return false;
    } else {
        colon = memchr(text.data, ':', text.size);
        out_host->data = text.data;
        out_host->size = colon == NULL ? text.size : (size_t)(colon - text.data);
        rest = span_from(text, out_host->size);
        if (!is_host_name(*out_host))
            return false;
    }
    *out_port = rest.size > 0 ? span_from(rest, 1) : (struct span){NULL, 0};
    return true;
}

static bool read_port(struct span text, int64_t least, uint16_t *out_port)
{
    int64_t port;

    if (text.data == NULL || text.size > 5 || !span_to_int64(text, &port))
        return false;
    if (port < least || port > UINT16_MAX)
        return false;
    *out_port = (uint16_t)port;
    return true;
}

/* "unix:" and a whole path that the kernel takes. */
static bool is_socket_path(struct span path)
{
    if (path.size < 2 || path.size > VALUES_SOCKET_PATH_MAX || path.data[0] != '/')
        return false;
    for (size_t i = 0; i < path.size; i++)
        if (path.data[i] <= ' ' || path.data[i] > '~')
            return false;
    return path.data[path.size - 1] != '/';
}

bool values_mode(struct span text, int64_t *out_mode)
{
    int64_t mode = 0;

    if (text.size < 3 || text.size > 4)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '7')
            return false;
        mode = mode * 8 + (text.data[i] - '0');
    }
    *out_mode = mode;
    return mode <= 0777;
}

bool values_listen(struct span text, struct config_listen *out_listen)
{
    struct config_listen listen = {.address = text};
    struct span port;

    if (span_starts(text, SPAN("unix:"))) {
        listen.socket_path = span_from(text, sizeof("unix:") - 1);
        if (!is_socket_path(listen.socket_path))
            return false;
        out_listen->address = text;
        out_listen->socket_path = listen.socket_path;
        return true;
    }
    if (text.size == 0 || !split_authority(text, &listen.host, &port))
        return false;
    if (span_equal(listen.host, SPAN("localhost")))
        listen.host = SPAN("127.0.0.1");
    if (!is_address(listen.host, AF_INET) && !is_address(listen.host, AF_INET6))
        return false;
    if (!read_port(port, 0, &listen.port))
        return false;
    out_listen->address = listen.address;
    out_listen->host = listen.host;
    out_listen->port = listen.port;
    return true;
}

bool values_is_loopback(struct span host)
{
    return span_starts(host, SPAN("127.")) || span_equal(host, SPAN("::1"));
}

static struct span without_slashes(struct span path)
{
    while (path.size > 0 && path.data[path.size - 1] == '/')
        path.size--;
    return path;
}

/* A base path as it is put before those of the API. false: it is none. */
static bool read_base_path(struct span path, struct span *out_path)
{
    for (size_t i = 0; i < path.size; i++)
        if (path.data[i] <= ' ' || path.data[i] > '~' || strchr("?#%\"<>\\^`{|}", path.data[i]))
            return false;
    path = without_slashes(path);
    if (path.size >= 3 && memcmp(path.data + path.size - 3, "/v1", 3) == 0)
        path = without_slashes((struct span){path.data, path.size - 3});
    *out_path = path;
    return true;
}

/* What follows unix: a socket's path, and perhaps a colon and a base path. */
static bool read_socket(struct span text, struct config_replica *out_replica)
{
    const char *colon = text.size ? memchr(text.data, ':', text.size) : NULL;
    struct span path = {"", 0};

    if (colon != NULL) {
        path = span_from(text, (size_t)(colon - text.data) + 1);
        text.size = (size_t)(colon - text.data);
        if (path.size == 0 || path.data[0] != '/')
            return false;
    }
    if (!is_socket_path(text) || !read_base_path(path, &out_replica->base_path))
        return false;
    out_replica->socket_path = text;
    out_replica->host = out_replica->host_header = SPAN("localhost");
    out_replica->port = 0;
    out_replica->https = false;
    return true;
}

bool values_url(struct span text, struct config_replica *out_replica)
{
    const char *slash;
    struct span authority;
    struct span path;
    struct span host;
    struct span port_text;
    const bool https = span_starts(text, SPAN("https://"));
    uint16_t port = https ? 443 : 80;

    if (span_starts(text, SPAN("unix:")))
        return read_socket(span_from(text, sizeof("unix:") - 1), out_replica);
    if (!https && !span_starts(text, SPAN("http://")))
        return false;
    authority = span_from(text, https ? sizeof("https://") - 1 : sizeof("http://") - 1);
    slash = memchr(authority.data, '/', authority.size);
    path = (struct span){"", 0};
    if (slash != NULL) {
        path = span_from(authority, (size_t)(slash - authority.data));
        authority.size -= path.size;
    }
    if (!split_authority(authority, &host, &port_text))
        return false;
    if (port_text.data != NULL && !read_port(port_text, 1, &port))
        return false;
    if (!read_base_path(path, &out_replica->base_path))
        return false;
    out_replica->host = host;
    out_replica->port = port;
    out_replica->https = https;
    out_replica->socket_path = (struct span){NULL, 0};
    out_replica->host_header = authority;
    return true;
}
