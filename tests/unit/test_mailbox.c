/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_mailbox.c: letters between workers (gateway/mailbox.c).
 *
 * Promises:  1. Letters of one sender are read in the order in which they were posted.
 *            2. Nothing is lost or read twice, however many post at once.
 *            3. The descriptor is readable when a letter waits, and not before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>

#include "gateway/mailbox.h"

#define SENDERS 4
#define LETTERS_EACH 5000

struct numbered {
    struct letter letter;
    int sender, number;
};

static int read_count, last_of[SENDERS], in_order;

static void read_numbered(struct letter *letter)
{
    const struct numbered *numbered = container_of(letter, struct numbered, letter);
    in_order &= numbered->number == last_of[numbered->sender] + 1;
    last_of[numbered->sender] = numbered->number;
    read_count++;
}

static int setup(void **state)
{
    (void)state;
    read_count = 0;
    in_order = 1;
    memset(last_of, 0, sizeof last_of);
    return 0;
}

static bool is_readable(const struct mailbox *mailbox)
{
    struct pollfd fd = {.fd = mailbox->fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void letters_are_read_in_order(void **state)
{
    (void)state;
    struct mailbox mailbox;
    struct numbered letters[3];

    assert_int_equal(mailbox_init(&mailbox), OK);
    assert_false(is_readable(&mailbox));
    for (int i = 0; i < 3; i++) {
        letters[i] =
            (struct numbered){.letter = {.read = read_numbered}, .sender = 0, .number = i + 1};
        mailbox_post(&mailbox, &letters[i].letter);
    }
    assert_true(is_readable(&mailbox));
    mailbox_read(&mailbox);

    assert_int_equal(read_count, 3);
    assert_true(in_order);
    assert_false(is_readable(&mailbox));
    mailbox_fini(&mailbox);
}

static struct mailbox shared;
static struct numbered all[SENDERS][LETTERS_EACH];

static void *post_all(void *argument)
{
    const int sender = *(const int *)argument;
    for (int i = 0; i < LETTERS_EACH; i++) {
        all[sender][i] =
            (struct numbered){.letter = {.read = read_numbered}, .sender = sender, .number = i + 1};
        mailbox_post(&shared, &all[sender][i].letter);
    }
    return NULL;
}

static void many_senders_lose_nothing(void **state)
{
    (void)state;
    pthread_t threads[SENDERS];
    int names[SENDERS];

    assert_int_equal(mailbox_init(&shared), OK);
    for (int i = 0; i < SENDERS; i++) {
        names[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &names[i]), 0);
    }
    while (read_count < SENDERS * LETTERS_EACH) {
        struct pollfd fd = {.fd = shared.fd, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 5000), 1);
        mailbox_read(&shared);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);

    assert_int_equal(read_count, SENDERS * LETTERS_EACH);
    assert_true(in_order);
    mailbox_fini(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(letters_are_read_in_order, setup),
        cmocka_unit_test_setup(many_senders_lose_nothing, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
