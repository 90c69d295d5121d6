/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_reader.c: the promises of config/reader.h.
 *
 * - Maps, lists and texts come out as they stand, each with its line.
 * - ${NAME} in a value is the environment's text; a missing one is a problem with its line.
 * - What is not one YAML document is refused with its line, whatever its bytes.
 * - Aliases share a node: no file grows without bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/reader.h"

static struct arena arena;
static struct problem_list problems;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, NULL, 0, 16 << 20);
    problems = (struct problem_list){.file = SPAN("t")};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    problems_fini(&problems);
    arena_fini(&arena);
    return 0;
}

static const struct node *parse(const char *text)
{
    const struct node *root = NULL;

    assert_int_equal(reader_parse(span_of(text), &arena, &problems, &root), OK);
    return root;
}

/* The list as one text. */
static char *rendered(void)
{
    struct config_problems text;

    assert_true(problems_render(&problems, &text));
    assert_non_null(text.text);
    return text.text;
}

static void a_tree_has_keys_values_and_lines(void **state)
{
    (void)state;
    const struct node *root = parse("# a comment\n"
                                    "workers: 3\n"
                                    "listen:\n"
                                    "  - {address: \"a:1\"}\n"
                                    "  - b\n");

    assert_int_equal(root->kind, NODE_MAP);
    assert_int_equal(root->count, 2);
    assert_string_equal(root->pairs[0].key.data, "workers");
    assert_int_equal(root->pairs[0].line, 2);
    assert_string_equal(root->pairs[0].value->text.data, "3");
    const struct node *list = root->pairs[1].value;
    assert_int_equal(list->kind, NODE_LIST);
    assert_int_equal(list->items[0]->kind, NODE_MAP);
    assert_int_equal(list->items[0]->line, 4);
    assert_string_equal(list->items[1]->text.data, "b");
}

static void json_is_read_too(void **state)
{
    (void)state;
    const struct node *root = parse("{\"models\": {\"small\": {\"context\": 32768}}}");

    assert_string_equal(root->pairs[0].value->pairs[0].value->pairs[0].value->text.data, "32768");
}

static void a_variable_is_the_environments_text(void **state)
{
    (void)state;
    assert_int_equal(setenv("TOLLGATE_TEST", "s3cret: [x", 1), 0);

    const struct node *root = parse("a: \"${TOLLGATE_TEST}\"\n"
                                    "b: x-${TOLLGATE_TEST}-${TOLLGATE_TEST}\n"
                                    "c: $TOLLGATE_TEST ${} ${1} ${unclosed\n");

    assert_string_equal(root->pairs[0].value->text.data, "s3cret: [x");
    assert_true(root->pairs[0].value->from_environment);
    assert_string_equal(root->pairs[1].value->text.data, "x-s3cret: [x-s3cret: [x");
    assert_string_equal(root->pairs[2].value->text.data, "$TOLLGATE_TEST ${} ${1} ${unclosed");
    assert_false(root->pairs[2].value->from_environment);
}

static void a_missing_variable_is_a_problem_with_its_line(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("TOLLGATE_MISSING"), 0);

    const struct node *root = parse("a: 1\nb: ${TOLLGATE_MISSING}\n");

    assert_true(root->pairs[1].value->broken);
    assert_int_equal(problems.error_count, 1);
    char *text = rendered();
    assert_string_equal(
        text, "t:2: ${TOLLGATE_MISSING}: expected a variable of this name in the environment\n");
    free(text);
}

static void what_is_not_one_yaml_document_is_refused_with_its_line(void **state)
{
    (void)state;
    const struct {
        struct span text;
        const char *place;
    } cases[] = {
        {SPAN("a: 1\nb: [2\n"), "t:3: "},     {SPAN("a: b: c\n"), "t:1: "},
        {SPAN("a: 1\n\tb: 2\n"), "t:2: "},    {SPAN(""), "t:1: "},
        {SPAN("a: 1\n---\nb: 2\n"), "t:2: "}, {SPAN("a: *nobody\n"), "t:1: "},
        {SPAN("a: \xff\xfe\n"), "t:1: "},     {SPAN("a: \x01\n"), "t:1: "},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct node *root = NULL;

        assert_int_equal(reader_parse(cases[i].text, &arena, &problems, &root), ERR_BAD_VALUE);
        assert_null(root);
        char *text = rendered();
        if (strncmp(text, cases[i].place, strlen(cases[i].place)) != 0)
            fail_msg("case %zu: %s", i, text);
        free(text);
    }
}

/* Nine levels of nine aliases each would be 3.8e8 nodes. */
static void aliases_share_a_node(void **state)
{
    (void)state;
    const struct node *root = parse("a: &a [x,x,x,x,x,x,x,x,x]\n"
                                    "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                                    "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                                    "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                                    "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
                                    "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
                                    "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"
                                    "h: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n"
                                    "i: &i [*h,*h,*h,*h,*h,*h,*h,*h,*h]\n");

    assert_ptr_equal(root->pairs[1].value->items[0], root->pairs[0].value);
    assert_true(arena.used_bytes < 65536);
}

static void a_key_that_is_no_name_is_a_problem(void **state)
{
    (void)state;
    const struct node *root = parse("? [a, b]\n: 1\nc: 2\n");

    assert_int_equal(root->count, 1);
    assert_int_equal(problems.error_count, 1);
}

static void every_cut_of_a_file_is_read_or_refused(void **state)
{
    (void)state;
    static const char text[] = "listen:\n  - {address: \"127.0.0.1:4000\"}\n"
                               "models: &m\n  small: {kind: 'vllm', price: [{input: \"0.05\"}]}\n"
                               "again: *m\ntext: |\n  a\n  b\n";

    for (size_t size = 0; size < sizeof(text); size++) {
        const struct node *root = NULL;
        const enum err err = reader_parse((struct span){text, size}, &arena, &problems, &root);

        assert_true(err == OK ? root != NULL : root == NULL);
    }
}

#define READER_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READER_TEST(a_tree_has_keys_values_and_lines),
        READER_TEST(json_is_read_too),
        READER_TEST(a_variable_is_the_environments_text),
        READER_TEST(a_missing_variable_is_a_problem_with_its_line),
        READER_TEST(what_is_not_one_yaml_document_is_refused_with_its_line),
        READER_TEST(aliases_share_a_node),
        READER_TEST(a_key_that_is_no_name_is_a_problem),
        READER_TEST(every_cut_of_a_file_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
