/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_address.c: connections per address (gateway/address.c).
 *
 * Promises:  1. An address gets as many as it may and no more; what it gives back it may have
 *            again.
 *            2. IPv4 addresses count one by one, IPv6 by /64. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_its_share_and_gets_it_back),
        cmocka_unit_test(ipv6_counts_by_the_network_of_one_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
