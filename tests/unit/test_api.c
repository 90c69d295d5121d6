/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_api.c: names of service tiers (config/base/api.c). Endpoints are tested where
 * they are read, in test_ask_endpoints.c.
 *
 * - Each tier has a name of its own, by which it is found.
 * - Any other name is the standard tier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/base/api.h"
#include "config/base/span.h"

static void each_tier_is_found_by_its_name(void **state)
{
    (void)state;
    const struct {
        enum service_tier tier;
        struct span name;
    } cases[] = {{TIER_STANDARD, SPAN("standard")},
                 {TIER_FLEX, SPAN("flex")},
                 {TIER_PRIORITY, SPAN("priority")},
                 {TIER_BATCH, SPAN("batch")}};

    assert_int_equal(sizeof(cases) / sizeof(cases[0]), SERVICE_TIERS);
    for (size_t i = 0; i < SERVICE_TIERS; i++) {
        assert_true(span_equal(service_tier_name(cases[i].tier), cases[i].name));
        assert_int_equal(service_tier_of(cases[i].name), cases[i].tier);
    }
}

static void another_name_is_the_standard_tier(void **state)
{
    (void)state;
    assert_int_equal(service_tier_of(SPAN("")), TIER_STANDARD);
    assert_int_equal(service_tier_of((struct span){NULL, 0}), TIER_STANDARD);
    assert_int_equal(service_tier_of(SPAN("Flex")), TIER_STANDARD);
    assert_int_equal(service_tier_of(SPAN("flexible")), TIER_STANDARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tier_is_found_by_its_name),
        cmocka_unit_test(another_name_is_the_standard_tier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
