/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/arguments.h: the words behind a command's name.
 *
 * For:       every command reads them by a table, and every mistake is answered alike: which word,
 *            what was expected, what was probably meant, and one line how to get help.
 * Called by: main.c, cmd_*.c.
 * Knows not: any option; what values mean.
 *
 * --name VALUE and --name=VALUE are the same; behind -- all are words. A value that is one of the
 * command's own options is taken for a forgotten value. */
#ifndef GATEWAY_ARGUMENTS_H
#define GATEWAY_ARGUMENTS_H

#include "config/base/vocab.h"

/* One option. It has one of text, flag and read. */
struct argument_option {
    const char *name;  /* "--period" */
    const char *takes; /* what is expected behind it, in words; NULL: nothing is */
    const char **text; /* its value is kept here */
    bool *flag;        /* it is set */
    bool (*read)(void *owner, const char *value); /* false: the value is not what was expected */
    void *owner;
};

/* A word that is no option, in its order. */
struct argument_word {
    const char *name; /* "TENANT" */
    const char **text;
    bool optional; /* so are those behind it */
};

struct argument_form {
    const char *command; /* "usage" */
    const char *help;    /* what --help prints */
    const struct argument_option *options;
    size_t option_count;
    const struct argument_word *words;
    size_t word_count;
};

#define ARGUMENT_TEXT(option, expected, place)                                                     \
    {                                                                                              \
        .name = (option), .takes = (expected), .text = (place)                                     \
    }
#define ARGUMENT_FLAG(option, place)                                                               \
    {                                                                                              \
        .name = (option), .flag = (place)                                                          \
    }
#define ARGUMENT_READ(option, expected, reader, whose)                                             \
    {                                                                                              \
        .name = (option), .takes = (expected), .read = (reader), .owner = (whose)                  \
    }
#define ARGUMENT_COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* What periods and moments look like, for takes. */
#define ARGUMENT_PERIOD                                                                            \
    "a period: 2026, 2026-11, 2026-11-30, 2026-W48, today, yesterday, month, last-month, 24h, 7d " \
    "or A..B"
#define ARGUMENT_TENANT "a tenant's name"

/* Reads argv[1] and those behind it. false: the command ends with *out_status: 0, help was asked
 * for and is printed; 2, it was used wrongly and that is said. */
MUST_CHECK bool arguments_read(const struct argument_form *form, int argc, char **argv,
                               int *out_status);

/* Says on standard error what is wrong with the use of a command, and how to get help. Returns the
 * exit status, 2. */
int arguments_refuse(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same of the value of an option (or of a word). */
int arguments_refuse_value(const char *command, const char *name, const char *value,
                           const char *expected);

struct argument_flag {
    const char *name;
    bool set;
};

/* At most one of these may be set. false: says which two are; the command ends with *out_status. */
MUST_CHECK bool arguments_exclude(const char *command, const struct argument_flag *flags,
                                  size_t count, int *out_status);

#endif
