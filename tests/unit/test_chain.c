/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_chain.c: lines of the journal, one after another (meter/chain.c).
 *
 * Promises:  1. Lines in their places say nothing, over files of one epoch and over epochs.
 *            2. Each fault is told once, at the line that shows it, and the chain goes on from
 * there.
 *            3. What cannot be told from a process that runs or was killed is a note.
 *            4. What retention left of a file stands for all of it. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "meter/chain.h"
#include "meter/files.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static struct chain chain;
static char told[4096];
static char texts[16][1024];
static struct record record;

static void keep(struct chain *of, enum audit_finding_kind kind, uint64_t seq, const char *says)
{
    static const char *const names[] = {"damaged", "chain", "head",   "missing", "anchor",
                                        "price",   "twice", "ledger", "note"};
    const size_t size = strlen(told);

    (void)of;
    (void)snprintf(told + size, sizeof(told) - size, "%s %" PRIu64 ": %s\n", names[kind], seq,
                   says);
}

static int start(void **state)
{
    (void)state;
    chain = (struct chain){.tell = keep};
    told[0] = '\0';
    chain_begin(&chain, "g1", 1);
    return 0;
}

/* A line that names another before it, which may be NULL. Kept under its number. */
static struct span make(int number, const char *gateway, uint64_t seq, const char *kind,
                        const char *more, struct span before)
{
    char prev[65] = ZEROS;

    if (before.data != NULL)
        line_hash(before, prev);
    (void)snprintf(texts[number], sizeof(texts[0]),
                   "{\"v\":2,\"gateway\":\"%s\",\"epoch\":1,\"seq\":%" PRIu64
                   ",\"kind\":\"%s\"%s,\"prev\":\"%s\"}",
                   gateway, seq, kind, more, prev);
    return span_of(texts[number]);
}

#define NOTHING ((struct span){NULL, 0})
#define BEFORE ",\"at_us\":1,\"before\":[],\"balances\":[]"
#define CALL ",\"tenant\":\"acme\",\"billable\":false,\"cost_pusd\":\"0\",\"admitted_us\":1"

static struct span make_open(int number, uint64_t seq, struct span before)
{
    return make(number, "g1", seq, "open", BEFORE, before);
}

static struct span make_call(int number, uint64_t seq, struct span before)
{
    return make(number, "g1", seq, "call", CALL, before);
}

/* Not signed: chain.key is NULL here, test_audit.c checks signatures. */
static struct span make_head(int number, uint64_t seq, uint64_t first_seq, struct span before)
{
    char more[128];
    struct span line;

    (void)snprintf(more, sizeof(more),
                   ",\"at_us\":1,\"first_seq\":%" PRIu64 ",\"key\":\"0123456789abcdef\"",
                   first_seq);
    line = make(number, "g1", seq, "head", more, before);
    (void)snprintf(texts[number] + line.size - 1, sizeof(texts[0]) - line.size + 1,
                   ",\"signature\":\"AA==\"}");
    return span_of(texts[number]);
}

static void read_line(struct span line)
{
    assert_true(chain_line(&chain, line, &record));
}

static void lines_in_their_places_say_nothing(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);
    const struct span call = make_call(1, 2, open);
    const struct span head = make_head(2, 3, 1, call);
    const struct span next = make_open(3, 4, head);
    const struct span end = make_head(4, 5, 4, next);

    (void)state;
    chain_file(&chain, 1);
    read_line(open);
    read_line(call);
    read_line(head);
    chain_file_end(&chain, false, false);
    chain_file(&chain, 4);
    read_line(next);
    read_line(end);
    chain_file_end(&chain, false, true);
    assert_string_equal(told, "");
    assert_int_equal(chain.seq, 5);
    assert_int_equal(chain.heads, 2);
    chain_begin(&chain, "g1", 1); /* and from the start again */
    chain_file(&chain, 1);
    read_line(open);
    assert_string_equal(told, "");
}

static void a_changed_line_is_told_at_the_next(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);
    const struct span call = make_call(1, 2, open);
    const struct span next = make_call(2, 3, call);
    const struct span last = make_call(3, 4, next);

    (void)state;
    *strstr(texts[1], "acme") = 'A';
    chain_file(&chain, 1);
    read_line(open);
    read_line(call);
    assert_string_equal(told, "");
    read_line(next);
    assert_string_equal(told,
                        "chain 3: prev is not the hash of the line before it: one of the two was "
                        "changed\n");
    read_line(last);
    assert_null(strstr(told, "chain 4"));
}

static void lines_that_are_missing_are_counted(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);
    const struct span call = make_call(1, 5, open);
    const struct span again = make_call(2, 5, call);

    (void)state;
    chain_file(&chain, 1);
    read_line(open);
    read_line(call);
    assert_string_equal(told, "chain 5: seq 5 comes after 1: 3 lines are missing\n");
    told[0] = '\0';
    read_line(again);
    assert_string_equal(told,
                        "chain 5: seq 5 comes after 5: it comes twice, or out of its order\n");
}

static void a_missing_file_is_told_before_the_next(void **state)
{
    (void)state;
    chain_file(&chain, 7);
    read_line(make_open(0, 7, NOTHING));
    assert_string_equal(told,
                        "missing 7: lines 1 to 6 of this epoch are missing before this file\n");
}

static void a_file_begins_with_an_open_line_alone(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);

    (void)state;
    chain_file(&chain, 1);
    read_line(make_call(1, 1, NOTHING));
    assert_string_equal(told, "damaged 1: the file does not begin with an open line\n");
    told[0] = '\0';
    chain_begin(&chain, "g1", 1);
    chain_file(&chain, 1);
    read_line(open);
    read_line(make_open(1, 2, open));
    assert_string_equal(told, "damaged 2: an open line amid a file\n");
}

static void a_line_of_another_author_is_told(void **state)
{
    (void)state;
    chain_file(&chain, 1);
    read_line(make(0, "g2", 1, "open", BEFORE, NOTHING));
    assert_string_equal(
        told, "chain 1: the line says gateway g2, epoch 1, its file is of gateway g1, epoch 1\n");
}

static void a_head_ends_its_file(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);
    const struct span head = make_head(1, 2, 9, open);

    (void)state;
    chain_file(&chain, 1);
    read_line(open);
    read_line(head);
    read_line(make_call(2, 3, head));
    chain_file_end(&chain, false, false);
    assert_string_equal(told,
                        "head 2: the head says that its file begins with seq 9, it begins with 1\n"
                        "damaged 3: a line behind the file's head\n"
                        "missing 0: a closed file does not end with a head\n");
    assert_int_equal(chain.heads, 0);
}

static void a_line_that_is_no_row_has_the_next_number(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);
    const struct span bad = SPAN("{\"v\":2");

    (void)state;
    chain_file(&chain, 1);
    read_line(open);
    assert_false(chain_line(&chain, bad, &record));
    assert_int_equal(chain.seq, 2);
    assert_memory_equal(told, "damaged 2: not a row: ", 22);
    told[0] = '\0';
    read_line(make_call(1, 3, bad));
    assert_string_equal(told, "");
}

static void a_process_that_runs_or_was_killed_is_a_note(void **state)
{
    (void)state;
    chain_file(&chain, 1);
    read_line(make_open(0, 1, NOTHING));
    chain_file_end(&chain, true, true);
    assert_string_equal(
        told, "note 0: the last line is not whole: it is being written, or its process died in it\n"
              "note 0: no head yet: its process runs, or was killed\n");
    told[0] = '\0';
    chain_begin(&chain, "g1", 2);
    chain_file(&chain, 1);
    chain_file_end(&chain, false, true);
    assert_string_equal(told, "note 0: the file has no whole line\n");
}

static void a_closed_file_ends_with_its_last_line(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);

    (void)state;
    chain_file(&chain, 1);
    read_line(open);
    read_line(make_head(1, 2, 1, open));
    chain_file_end(&chain, true, true);
    assert_string_equal(told, "damaged 0: bytes behind the last line of a closed file\n");
}

static void what_retention_left_stands_for_its_file(void **state)
{
    const struct span open = make_open(0, 1, NOTHING);
    const struct span call = make_call(1, 2, open);
    const struct span head = make_head(2, 40, 1, call);
    const struct span next = make_open(3, 41, head);

    (void)state;
    chain_retired(&chain, open, head);
    chain_file(&chain, 41);
    read_line(next);
    assert_string_equal(told, "");
    told[0] = '\0';
    chain_begin(&chain, "g1", 1);
    chain_retired(&chain, open, head);
    chain_file(&chain, 42);
    read_line(make_open(4, 42, head));
    assert_string_equal(told,
                        "missing 42: lines 41 to 41 of this epoch are missing before this file\n");
}

static void an_epoch_of_version_1_has_numbers_alone(void **state)
{
    static const char format[] =
        "{\"v\":1,\"gateway\":\"g1\",\"epoch\":1,\"seq\":%d,\"kind\":\"call\"" CALL "}";

    (void)state;
    chain_file(&chain, 1);
    for (int i = 1; i <= 3; i++) {
        (void)snprintf(texts[i], sizeof(texts[0]), format, i);
        read_line(span_of(texts[i]));
    }
    chain_file_end(&chain, false, true);
    assert_true(chain.unlinked);
    assert_string_equal(told,
                        "note 0: lines of version 1: nothing shows whether they were changed\n");
    told[0] = '\0';
    chain_begin(&chain, "g1", 1);
    chain_file(&chain, 1);
    read_line(make_open(0, 1, NOTHING));
    (void)snprintf(texts[1], sizeof(texts[0]), format, 2);
    read_line(span_of(texts[1]));
    assert_string_equal(told, "chain 2: the line has no prev\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, start)
    const struct CMUnitTest tests[] = {
        TEST(lines_in_their_places_say_nothing),
        TEST(a_changed_line_is_told_at_the_next),
        TEST(lines_that_are_missing_are_counted),
        TEST(a_missing_file_is_told_before_the_next),
        TEST(a_file_begins_with_an_open_line_alone),
        TEST(a_line_of_another_author_is_told),
        TEST(a_head_ends_its_file),
        TEST(a_line_that_is_no_row_has_the_next_number),
        TEST(a_process_that_runs_or_was_killed_is_a_note),
        TEST(a_closed_file_ends_with_its_last_line),
        TEST(what_retention_left_stands_for_its_file),
        TEST(an_epoch_of_version_1_has_numbers_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
