/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_arguments.c: the words behind a command's name (gateway/arguments.c).
 *
 * - --name VALUE and --name=VALUE are the same; flags take none; words come in their order.
 * - Behind -- all are words; "-" is one anywhere.
 * - The command's own reader sees each value, and what it refuses is said with what was expected.
 * - A value that is one of the command's own options is one that was forgotten.
 * - Every mistake ends with 2, names the word at fault and how to get help; the option that was
 *   meant is named when it is near.
 * - Help that was asked for ends with 0, whatever follows.
 * - Of flags that exclude each other the first two that are set are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/arguments.h"

#define ARGUMENTS_MAX 8

/* What a command of two words and an option of each sort has read. */
static const char *period, *tenant, *place;
static bool json;
static int numbers;
static char said[512]; /* on standard error */

static bool take_number(void *owner, const char *value)
{
    int *const taken = owner;

    *taken += 1;
    return strcmp(value, "7") == 0;
}

/* Reads up to the first NULL; the status is -1 when the command is to go on. */
static int read_these(const char *const *given)
{
    const struct argument_option options[] = {
        ARGUMENT_TEXT("--period", "a period", &period),
        ARGUMENT_FLAG("--json", &json),
        ARGUMENT_READ("--number", "seven", take_number, &numbers),
    };
    const struct argument_word words[] = {{"TENANT", &tenant, false}, {"PLACE", &place, true}};
    const struct argument_form form = {
        "try", "how to try\n", options, ARGUMENT_COUNT(options), words, ARGUMENT_COUNT(words)};
    char *argv[ARGUMENTS_MAX + 1] = {(char *)"try"};
    int argc = 1, status = -1;

    period = tenant = place = NULL;
    json = false;
    numbers = 0;
    for (; given[argc - 1] != NULL && argc < ARGUMENTS_MAX; argc++)
        argv[argc] = (char *)given[argc - 1];
    return arguments_read(&form, argc, argv, &status) ? -1 : status;
}

#define READ(...) read_these((const char *const[]){__VA_ARGS__, NULL})

/* Standard error (and standard output, for help) go to a file while this runs. */
static int read_quietly(const char *const *given)
{
    FILE *file = tmpfile();
    const int error_fd = dup(2), output_fd = dup(1);
    int status;
    size_t size;

    assert_non_null(file);
    (void)fflush(NULL);
    assert_true(dup2(fileno(file), 2) == 2 && dup2(fileno(file), 1) == 1);
    status = read_these(given);
    (void)fflush(NULL);
    assert_true(dup2(error_fd, 2) == 2 && dup2(output_fd, 1) == 1);
    close(error_fd);
    close(output_fd);
    rewind(file);
    size = fread(said, 1, sizeof(said) - 1, file);
    said[size] = '\0';
    (void)fclose(file);
    return status;
}

#define ASSERT_REFUSED(says, ...)                                                                  \
    do {                                                                                           \
        assert_int_equal(read_quietly((const char *const[]){__VA_ARGS__, NULL}), 2);               \
        assert_string_equal(said,                                                                  \
                            "tollgate: " says "\ntollgate try --help says how it is used\n");      \
    } while (false)

static void values_come_behind_a_space_or_an_equals_sign(void **state)
{
    (void)state;
    assert_int_equal(READ("--period", "today", "acme", "--json", "here"), -1);
    assert_string_equal(period, "today");
    assert_string_equal(tenant, "acme");
    assert_string_equal(place, "here");
    assert_true(json);
    assert_int_equal(READ("acme", "--period=a=b"), -1);
    assert_string_equal(period, "a=b");
    assert_null(place);
    assert_false(json);
    assert_int_equal(READ("--period=", "acme"), -1);
    assert_string_equal(period, "");
}

static void behind_two_dashes_all_are_words(void **state)
{
    (void)state;
    assert_int_equal(READ("--", "--json", "--period"), -1);
    assert_string_equal(tenant, "--json");
    assert_string_equal(place, "--period");
    assert_false(json);
    assert_int_equal(READ("-"), -1);
    assert_string_equal(tenant, "-");
}

static void a_reader_sees_each_value_and_may_refuse_it(void **state)
{
    (void)state;
    assert_int_equal(READ("--number", "7", "--number=7", "acme"), -1);
    assert_int_equal(numbers, 2);
    ASSERT_REFUSED("--number 8: expected seven", "--number", "8", "acme");
}

static void an_option_in_the_place_of_a_value_is_no_value(void **state)
{
    (void)state;
    ASSERT_REFUSED("--period has no value: expected a period", "acme", "--period");
    ASSERT_REFUSED("--period has no value: expected a period", "--period", "--json", "acme");
    ASSERT_REFUSED("--period has no value: expected a period", "--period", "--number=7", "acme");
    assert_int_equal(READ("--period", "--other", "acme"), -1);
    assert_string_equal(period, "--other");
}

static void a_mistake_names_the_word_at_fault(void **state)
{
    (void)state;
    ASSERT_REFUSED("unknown option --perod; did you mean --period?", "--perod=today");
    ASSERT_REFUSED("unknown option --xyz", "--xyz", "acme");
    ASSERT_REFUSED("--json takes no value", "--json=yes");
    ASSERT_REFUSED("more: one word too many", "acme", "here", "more");
    ASSERT_REFUSED("expected TENANT", "--json");
}

static void help_ends_with_0(void **state)
{
    (void)state;
    assert_int_equal(read_quietly((const char *const[]){"--help", "--xyz", NULL}), 0);
    assert_string_equal(said, "how to try\n");
    assert_int_equal(read_quietly((const char *const[]){"acme", "-h", NULL}), 0);
    assert_string_equal(said, "how to try\n");
}

static void of_flags_that_exclude_each_other_one_may_be_set(void **state)
{
    (void)state;
    struct argument_flag flags[] = {{"--json", false}, {"--csv", true}, {"--focus", false}};
    int status = -1;

    assert_true(arguments_exclude("try", flags, ARGUMENT_COUNT(flags), &status));
    assert_int_equal(status, -1);
    flags[2].set = true;
    assert_false(arguments_exclude("try", flags, ARGUMENT_COUNT(flags), &status));
    assert_int_equal(status, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_behind_a_space_or_an_equals_sign),
        cmocka_unit_test(behind_two_dashes_all_are_words),
        cmocka_unit_test(a_reader_sees_each_value_and_may_refuse_it),
        cmocka_unit_test(an_option_in_the_place_of_a_value_is_no_value),
        cmocka_unit_test(a_mistake_names_the_word_at_fault),
        cmocka_unit_test(help_ends_with_0),
        cmocka_unit_test(of_flags_that_exclude_each_other_one_may_be_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
