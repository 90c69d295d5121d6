/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_address.c: connections per address (gateway/address.c).
 *
 * Promises:  1. An address gets as many as it may and no more; what it gives back it may have
 *            again.
 *            2. IPv4 addresses count one by one, IPv6 by /64.
 *            3. IPv4 and IPv6 are read, and nothing else is taken for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>

#include "gateway/address.h"

static struct in6_addr address_of(const char *text)
{
    struct in6_addr address;
    assert_int_equal(inet_pton(AF_INET6, text, &address), 1);
    return address;
}

static void an_address_has_its_share_and_gets_it_back(void **state)
{
    (void)state;
    const struct in6_addr one = address_of("::ffff:127.0.0.1"),
                          two = address_of("::ffff:127.0.0.2");

    assert_true(address_enter(&one, 2));
    assert_true(address_enter(&one, 2));
    assert_false(address_enter(&one, 2));
    assert_true(address_enter(&two, 2));
    address_leave(&one);
    assert_true(address_enter(&one, 2));

    address_leave(&one);
    address_leave(&one);
    address_leave(&two);
}

static void ipv6_counts_by_the_network_of_one_host(void **state)
{
    (void)state;
    const struct in6_addr here = address_of("2001:db8::1"), same = address_of("2001:db8::ffff"),
                          other = address_of("2001:db8:0:1::1");

    assert_true(address_enter(&here, 1));
    assert_false(address_enter(&same, 1));
    assert_true(address_enter(&other, 1));

    address_leave(&here);
    address_leave(&other);
}

static void a_host_is_an_address_or_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        int family; /* 0: a name */
    } cases[] = {
        {"127.0.0.1", AF_INET}, {"::1", AF_INET6}, {"2001:db8::2", AF_INET6}, {"localhost", 0},
        {"1.2.3", 0},           {"[::1]", 0},      {"127.0.0.1 ", 0},         {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct span host = {cases[i].host, strlen(cases[i].host)};
        struct sockaddr_storage address;
        socklen_t size = 0;

        assert_int_equal(address_parse(host, 4000, &address, &size), cases[i].family != 0);
        if (cases[i].family == 0)
            continue;
        assert_int_equal(address.ss_family, cases[i].family);
        assert_int_equal(size, cases[i].family == AF_INET ? sizeof(struct sockaddr_in)
                                                          : sizeof(struct sockaddr_in6));
        /* The port has the same place in both. */
        assert_int_equal(((struct sockaddr_in *)(void *)&address)->sin_port, htons(4000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_its_share_and_gets_it_back),
        cmocka_unit_test(a_host_is_an_address_or_a_name),
        cmocka_unit_test(ipv6_counts_by_the_network_of_one_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
