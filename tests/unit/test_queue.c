/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_queue.c: the line before a model's slots (router/queue.c).
 *
 * Promises:  1. First in, first out.
 *            2. Whoever leaves, from wherever, leaves the others in order.
 *            3. Of two tickets the one that came first is the earlier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "router/queue.h"

static void tickets_stand_in_the_order_in_which_they_came(void **state)
{
    (void)state;
    struct queue queue = {0};
    struct ticket a = {0}, b = {0}, c = {0};

    queue_append(&queue, &a);
    queue_append(&queue, &b);
    queue_append(&queue, &c);

    assert_int_equal(queue.count, 3);
    assert_ptr_equal(queue.first, &a);
    assert_ptr_equal(queue.first->next, &b);
    assert_ptr_equal(queue.first->next->next, &c);
    assert_ptr_equal(queue.last, &c);
    assert_null(c.next);
}

static void leaving_keeps_the_others_in_order(void **state)
{
    (void)state;
    for (size_t leaver = 0; leaver < 3; leaver++) {
        struct queue queue = {0};
        struct ticket tickets[3] = {{0}, {0}, {0}};
        for (size_t i = 0; i < 3; i++)
            queue_append(&queue, &tickets[i]);

        queue_remove(&queue, &tickets[leaver]);

        struct ticket *first = &tickets[leaver == 0 ? 1 : 0];
        struct ticket *last = &tickets[leaver == 2 ? 1 : 2];
        assert_int_equal(queue.count, 2);
        assert_ptr_equal(queue.first, first);
        assert_ptr_equal(queue.last, last);
        assert_ptr_equal(first->next, last);
        assert_ptr_equal(last->previous, first);
        assert_null(tickets[leaver].next);

        queue_remove(&queue, first);
        queue_remove(&queue, last);
        assert_int_equal(queue.count, 0);
        assert_null(queue.first);
        assert_null(queue.last);
    }
}

static void the_one_that_came_first_is_the_earlier(void **state)
{
    (void)state;
    struct ticket early = {.entered_ns = 5}, late = {.entered_ns = 6}, same = {.entered_ns = 5};

    assert_ptr_equal(queue_earlier(&early, &late), &early);
    assert_ptr_equal(queue_earlier(&late, &early), &early);
    assert_ptr_equal(queue_earlier(&early, &same), &early);
    assert_ptr_equal(queue_earlier(NULL, &late), &late);
    assert_ptr_equal(queue_earlier(&late, NULL), &late);
    assert_null(queue_earlier(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tickets_stand_in_the_order_in_which_they_came),
        cmocka_unit_test(leaving_keeps_the_others_in_order),
        cmocka_unit_test(the_one_that_came_first_is_the_earlier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
