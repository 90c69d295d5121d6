/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_cmd_why_pending.c: ids that clients have of their requests
 * (gateway/cmd_why_pending.c).
 *
 * - The 32 hex digits in a longer id are found, whatever stands before and behind them.
 * - Where none stand as a part of their own, and where the id is nothing else, there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/base/span.h"
#include "gateway/cmd_why_pending.h"

#define DIGITS "0123456789abcdef0123456789abcdef"

static void digits_in_a_longer_id_are_found(void **state)
{
    (void)state;
    const struct span ids[] = {SPAN("chatcmpl-" DIGITS), SPAN("msg_" DIGITS),
                               SPAN("resp_" DIGITS),     SPAN("msg_" DIGITS "_0"),
                               SPAN(DIGITS "-0"),        SPAN("00-" DIGITS "-00f067aa0ba902b7-01")};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        assert_true(span_equal(cmd_why_inner_id(ids[i]), SPAN(DIGITS)));
}

static void what_is_no_part_of_its_own_is_none(void **state)
{
    (void)state;
    const struct span ids[] = {SPAN(""),
                               SPAN(DIGITS), /* the id itself: there is nothing inside */
                               SPAN("chatcmpl" DIGITS),
                               SPAN("chatcmpl-" DIGITS "0"),
                               SPAN("chatcmpl-" DIGITS "x"),
                               SPAN("chatcmpl-x" DIGITS),
                               SPAN("chatcmpl-0123456789ABCDEF0123456789ABCDEF"),
                               SPAN("chatcmpl-0123456789abcdef-0123456789abcdef"),
                               SPAN("g1/7/123")};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        assert_null(cmd_why_inner_id(ids[i]).data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_in_a_longer_id_are_found),
        cmocka_unit_test(what_is_no_part_of_its_own_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
