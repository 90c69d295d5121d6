/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/arguments.c: see arguments.h.
 *
 * For:       reading options and words by a command's table, and answering mistakes.
 * Called by: main.c, cmd_*.c.
 * Knows not: any option; what values mean. */
#include "gateway/arguments.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/base/nearest.h"
#include "config/base/span.h"

/* What is being read. */
struct reading {
    const struct argument_form *form;
    int argc;
    char **argv;
    int at;
    size_t words;
    bool words_alone; /* behind -- */
};

/* ---- mistakes ---- */

static void say_help(const char *command)
{
    (void)fprintf(stderr, "tollgate %s --help says how it is used\n", command);
}

int arguments_refuse(const char *command, const char *format, ...)
{
    va_list arguments;

    (void)fputs("tollgate: ", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    say_help(command);
    return 2;
}

int arguments_refuse_value(const char *command, const char *name, const char *value,
                           const char *expected)
{
    return arguments_refuse(command, "%s %s: expected %s", name, value, expected);
}

bool arguments_exclude(const char *command, const struct argument_flag *flags, size_t count,
                       int *out_status)
{
    const struct argument_flag *first = NULL;

    for (size_t i = 0; i < count; i++) {
        if (first != NULL && flags[i].set) {
            *out_status = arguments_refuse(command, "%s and %s do not go together", first->name,
                                           flags[i].name);
            return false;
        }
        if (flags[i].set)
            first = &flags[i];
    }
    return true;
}

static int refuse_option(const struct argument_form *form, struct span name)
{
    struct nearest nearest = nearest_to(name);

    for (size_t i = 0; i < form->option_count; i++)
        (void)nearest_try(&nearest, span_of(form->options[i].name));
    if (nearest_is_near(&nearest))
        return arguments_refuse(form->command, "unknown option %.*s; did you mean %.*s?",
                                (int)name.size, name.data, (int)nearest.name.size,
                                nearest.name.data);
    return arguments_refuse(form->command, "unknown option %.*s", (int)name.size, name.data);
}

/* ---- reading ---- */

static const struct argument_option *find_option(const struct argument_form *form, struct span name)
{
    for (size_t i = 0; i < form->option_count; i++)
        if (span_equal(name, span_of(form->options[i].name)))
            return &form->options[i];
    return NULL;
}

/* "--name" of "--name=value". */
static struct span name_of(const char *argument)
{
    return (struct span){argument, strcspn(argument, "=")};
}

/* The value of an option that takes one; NULL: there is none. */
static const char *take_value(struct reading *reading, size_t name_size)
{
    const char *argument = reading->argv[reading->at];
    const char *next = reading->at + 1 < reading->argc ? reading->argv[reading->at + 1] : NULL;

    if (argument[name_size] == '=')
        return argument + name_size + 1;
    if (next == NULL || find_option(reading->form, name_of(next)) != NULL)
        return NULL;
    reading->at++;
    return next;
}

static bool read_option(struct reading *reading, int *out_status)
{
    const struct argument_form *form = reading->form;
    const struct span name = name_of(reading->argv[reading->at]);
    const struct argument_option *option = find_option(form, name);
    const char *value = NULL;

    if (option == NULL) {
        *out_status = refuse_option(form, name);
        return false;
    }
    if (option->takes == NULL && name.data[name.size] == '=') {
        *out_status = arguments_refuse(form->command, "%s takes no value", option->name);
        return false;
    }
    if (option->takes != NULL && (value = take_value(reading, name.size)) == NULL) {
        *out_status = arguments_refuse(form->command, "%s has no value: expected %s", option->name,
                                       option->takes);
        return false;
    }
    if (option->text != NULL)
        *option->text = value;
    else if (option->flag != NULL)
        *option->flag = true;
    else if (!option->read(option->owner, value)) {
        *out_status = arguments_refuse_value(form->command, option->name, value, option->takes);
        return false;
    }
    return true;
}

static bool read_word(struct reading *reading, int *out_status)
{
    const char *word = reading->argv[reading->at];

    if (reading->words == reading->form->word_count) {
        *out_status = arguments_refuse(reading->form->command, "%s: one word too many", word);
        return false;
    }
    *reading->form->words[reading->words++].text = word;
    return true;
}

static bool read_argument(struct reading *reading, int *out_status)
{
    const char *argument = reading->argv[reading->at];

    if (reading->words_alone || argument[0] != '-' || argument[1] == '\0')
        return read_word(reading, out_status);
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
        (void)fputs(reading->form->help, stdout);
        *out_status = 0;
        return false;
    }
    if (strcmp(argument, "--") != 0)
        return read_option(reading, out_status);
    reading->words_alone = true;
    return true;
}

bool arguments_read(const struct argument_form *form, int argc, char **argv, int *out_status)
{
    struct reading reading = {.form = form, .argc = argc, .argv = argv};

    for (reading.at = 1; reading.at < argc; reading.at++)
        if (!read_argument(&reading, out_status))
            return false;
    if (reading.words < form->word_count && !form->words[reading.words].optional) {
        *out_status =
            arguments_refuse(form->command, "expected %s", form->words[reading.words].name);
        return false;
    }
    return true;
}
