/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_audit.c: tollgate audit.
 *
 * For:       operators and auditors: is the journal what was written, are its amounts right, and
 *            does the ledger say the same? Exit 0: yes, 1: no, 2: used wrongly.
 * Called by: main.c.
 * Knows not: what is checked, and how (meter/audit.c). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "gateway/cmd.h"
#include "gateway/cmd_audit_live.h"
#include "gateway/cmd_books.h"

#define COMMAND "audit"
#define TOKEN_ENV "TOLLGATE_ADMIN_TOKEN"
#define SAYS_BYTES 4096

struct arguments {
    struct cmd_books books;
    struct audit_options options;
    struct cmd_audit_live live;
    bool json;
};

static const char help[] =
    "usage: tollgate audit [--config FILE | --journal DIR [--ledger FILE]]\n"
    "                      [--public-key FILE]… [--anchors FILE] [--no-ledger] [--json]\n"
    "                      [--live ADMIN_URL [--token-env NAME]]\n"
    "A journal whose signing key was replaced has several public keys: name each, or a folder.\n"
    "With --live and neither --config nor --journal only the running gateway is asked.\n";

/* One more public key. */
static bool take_key(void *owner, const char *value)
{
    struct audit_options *options = owner;
    size_t count = 0;

    while (options->public_keys[count] != NULL)
        count++;
    if (count == AUDIT_KEYS_MAX)
        return false;
    options->public_keys[count] = value;
    return true;
}

_Static_assert(AUDIT_KEYS_MAX == 32, "said in what --public-key expects");

static bool read_arguments(struct arguments *arguments, int argc, char **argv, int *out_status)
{
    bool no_ledger = false;
    const struct argument_option options[] = {
        CMD_BOOKS_OPTIONS(&arguments->books),
        ARGUMENT_READ("--public-key", "at most 32 PEM files, or folders of them", take_key,
                      &arguments->options),
        ARGUMENT_TEXT("--anchors", "a file of anchors", &arguments->options.anchors),
        ARGUMENT_TEXT("--live", "the admin listener's URL, such as http://127.0.0.1:4001",
                      &arguments->live.url),
        ARGUMENT_TEXT("--token-env", "a variable's name", &arguments->live.token_env),
        ARGUMENT_FLAG("--json", &arguments->json),
        ARGUMENT_FLAG("--no-ledger", &no_ledger),
    };
    const struct argument_form form = {.command = COMMAND, help, options, ARGUMENT_COUNT(options)};

    if (!arguments_read(&form, argc, argv, out_status))
        return false;
    arguments->options.against_ledger = !no_ledger;
    const struct argument_flag sources[] = {{"--config", arguments->books.config_path != NULL},
                                            {"--journal", arguments->books.journal_path != NULL}};

    return arguments_exclude(COMMAND, sources, ARGUMENT_COUNT(sources), out_status);
}

/* ---- findings ---- */

static const char *name_of(enum audit_finding_kind kind)
{
    static const char *const names[] = {
        [AUDIT_DAMAGED] = "damaged", [AUDIT_CHAIN] = "chain",   [AUDIT_HEAD] = "head",
        [AUDIT_MISSING] = "missing", [AUDIT_ANCHOR] = "anchor", [AUDIT_PRICE] = "price",
        [AUDIT_TWICE] = "twice",     [AUDIT_LEDGER] = "ledger", [AUDIT_NOTE] = "note",
    };

    return names[kind];
}

/* What is printed of findings as they come. */
struct printer {
    bool json, any;
};

/* Control characters of a damaged line do not reach the terminal. */
static void print_escaped(const char *text)
{
    char escaped[SAYS_BYTES];
    const size_t size = log_escape(span_of(text), escaped, sizeof(escaped));

    (void)printf("%.*s", (int)size, escaped);
}

static void print_text(const struct audit_finding *finding)
{
    (void)printf("%s: ", name_of(finding->kind));
    if (finding->file != NULL) {
        print_escaped(finding->file);
        if (finding->seq > 0)
            (void)printf(" seq %" PRIu64, finding->seq);
        if (finding->offset >= 0)
            (void)printf(" byte %" PRId64, finding->offset);
        (void)printf(": ");
    }
    print_escaped(finding->says);
    (void)printf("\n");
}

static void print_finding(void *owner, const struct audit_finding *finding)
{
    struct printer *printer = owner;

    if (!printer->json) {
        print_text(finding);
        return;
    }
    (void)printf("%s{\"kind\":\"%s\"", printer->any ? "," : "", name_of(finding->kind));
    printer->any = true;
    if (finding->file != NULL) {
        (void)printf(",\"file\":\"");
        print_escaped(finding->file);
        (void)printf("\"");
    }
    if (finding->seq > 0)
        (void)printf(",\"seq\":%" PRIu64, finding->seq);
    if (finding->offset >= 0)
        (void)printf(",\"offset\":%" PRId64, finding->offset);
    (void)printf(",\"says\":\"");
    print_escaped(finding->says);
    (void)printf("\"}");
}

/* A key that was retired and has signed since is worth a look. */
static void print_signers(const struct audit_sums *sums)
{
    for (size_t i = 0; i < sums->signer_count; i++) {
        const struct audit_signer *signer = &sums->signers[i];
        char moment[PERIOD_TEXT_BYTES];

        (void)printf("key %s: ", signer->key);
        if (signer->newest_us == 0) {
            (void)printf("has signed nothing\n");
            continue;
        }
        (void)period_print_utc(signer->newest_us, moment);
        (void)printf("%" PRIu64 " head%s, %" PRIu64 " anchor%s, the newest at %s\n", signer->heads,
                     span_plural(signer->heads), signer->anchors, span_plural(signer->anchors),
                     moment);
    }
}

static void print_signers_json(const struct audit_sums *sums)
{
    (void)printf("\"keys\":[");
    for (size_t i = 0; i < sums->signer_count; i++) {
        const struct audit_signer *signer = &sums->signers[i];

        (void)printf("%s{\"key\":\"%s\",\"heads\":%" PRIu64 ",\"anchors\":%" PRIu64
                     ",\"newest_us\":%" PRId64 "}",
                     i > 0 ? "," : "", signer->key, signer->heads, signer->anchors,
                     signer->newest_us);
    }
    (void)printf("]");
}

static void print_sums(const struct audit_sums *sums, bool json)
{
    char usd[MONEY_TEXT_BYTES], pusd[MONEY_TEXT_BYTES];

    (void)money_print_usd(sums->charged_pusd, usd);
    (void)money_print_pusd(sums->charged_pusd, pusd);
    if (json) {
        (void)printf("\"sums\":{\"files\":%" PRIu64 ",\"lines\":%" PRIu64 ",\"calls\":%" PRIu64
                     ",\"adjusts\":%" PRIu64 ",\"heads\":%" PRIu64 ",\"anchors\":%" PRIu64
                     ",\"findings\":%" PRIu64 ",\"rows_after_last_anchor\":%" PRIu64
                     ",\"charged_pusd\":\"%s\",\"charged_usd\":\"%s\",",
                     sums->files, sums->lines, sums->calls, sums->adjusts, sums->heads,
                     sums->anchors, sums->findings, sums->rows_after_last_anchor, pusd, usd);
        print_signers_json(sums);
        (void)printf("}");
        return;
    }
    (void)printf("%" PRIu64 " file%s, %" PRIu64 " line%s, %" PRIu64 " call%s, %" PRIu64
                 " adjust%s, %" PRIu64 " signed head%s, %" PRIu64 " anchor%s\n",
                 sums->files, span_plural(sums->files), sums->lines, span_plural(sums->lines),
                 sums->calls, span_plural(sums->calls), sums->adjusts, span_plural(sums->adjusts),
                 sums->heads, span_plural(sums->heads), sums->anchors, span_plural(sums->anchors));
    (void)printf("charged: %s USD\n", usd);
    (void)printf("rows after the last anchor: %" PRIu64 "\n", sums->rows_after_last_anchor);
    print_signers(sums);
    if (sums->findings == 0)
        (void)printf("good: nothing was found\n");
    else
        (void)printf("NOT GOOD: %" PRIu64 " finding%s\n", sums->findings,
                     span_plural(sums->findings));
}

/* ---- running ---- */

/* Without a ledger the journal's directory is only read, and no configuration is needed. */
static int open_journal(struct arguments *arguments)
{
    struct cmd_books *common = &arguments->books;
    struct config_problems problems = {NULL, 0, 0};
    enum err err;

    if (common->journal_path != NULL && common->ledger_path == NULL)
        arguments->options.against_ledger = false;
    if (arguments->options.against_ledger)
        return cmd_books_open_for(common, BOOKS_AUDIT);
    if (common->journal_path != NULL) {
        common->bare.journal = span_of(common->journal_path);
        common->config = &common->bare;
        return 0;
    }
    err = config_load(common->config_path, &common->config, &problems);
    if (problems.text != NULL)
        (void)fputs(problems.text, stderr);
    config_problems_free(&problems);
    if (err != OK)
        return 1;
    if (common->config->journal.size > 0)
        return 0;
    (void)fprintf(stderr, "tollgate: no journal is configured (meter.journal)\n");
    return 1;
}

static int audit_journal(struct arguments *arguments)
{
    struct printer printer = {.json = arguments->json};
    struct audit_sums sums = {.findings = 0};
    char problem[1024] = "";
    int status = open_journal(arguments);
    enum err err = OK;

    if (status == 0) {
        if (arguments->json)
            (void)printf("\"findings\":[");
        err = books_audit(arguments->books.books, arguments->books.config, &arguments->options,
                          print_finding, &printer, &sums, problem, sizeof(problem));
        if (arguments->json)
            (void)printf("],");
        if (err == OK) {
            print_sums(&sums, arguments->json);
        } else {
            (void)fprintf(stderr, "tollgate: %s\n", problem);
            if (arguments->json)
                (void)printf("\"sums\":null");
        }
        status = err == OK && sums.findings == 0 ? 0 : 1;
    } else if (arguments->json) {
        (void)printf("\"findings\":null");
    }
    cmd_books_close(&arguments->books);
    return status;
}

int cmd_audit(int argc, char **argv)
{
    struct arguments arguments = {.live = {.token_env = TOKEN_ENV}};
    int status = 0;
    bool journal;

    if (!read_arguments(&arguments, argc, argv, &status))
        return status;
    journal = arguments.live.url == NULL || arguments.books.config_path != NULL ||
              arguments.books.journal_path != NULL;
    if (arguments.json)
        (void)printf("{");
    if (journal)
        status = audit_journal(&arguments);
    if (arguments.json && journal)
        (void)printf(",");
    if (arguments.live.url != NULL) {
        const int drift = cmd_audit_live(&arguments.live, arguments.json);
        status = drift > status ? drift : status;
        if (arguments.json)
            (void)printf(",");
    }
    if (arguments.json)
        (void)printf("\"ok\":%s}\n", status == 0 ? "true" : "false");
    return status;
}
