/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/cmd_why.c: tollgate why: from a request to its line on the invoice.
 *
 * For:       who disputes a charge, and who answers: each row of a request, exchange or trace id;
 *            its tokens and where they come from; rate × tokens = amount, part by part; what was
 *            wasted and corrected; the invoice lines that it is part of.
 * Called by: main.c.
 * Knows not: how rows are found and invoices made.
 *
 * Everything is put into one tree, which is printed as JSON or in words. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "gateway/cmd.h"
#include "gateway/cmd_books.h"
#include "gateway/cmd_why_pending.h"
#include "gateway/invoice_cells.h"
#include "meter/record.h"

#define COMMAND "why"
#define TEXT_BYTES_MAX 2048

struct arguments {
    struct cmd_books books;
    const char *id;
    bool json;
};

/* What is being put together. */
struct answer {
    struct arguments *arguments;
    json_t *rows;
    json_t *pending; /* requests without a row */
    bool failed;
    struct invoice *invoice; /* the newest asked for: most ids have rows of one month */
    char problem[1024];
};

static const char help[] =
    "usage: tollgate why ID [--json] [--config FILE | --journal DIR] [--ledger FILE]\n"
    "ID: a request id (x-request-id of the answer), an exchange id, a trace id, a row's id, or the "
    "id of an answer's\n"
    "    body where the gateway or vLLM made it (chatcmpl-…, cmpl-…, msg_…, resp_…)\n";

/* ---- values ---- */

/* Names that a client sent may be any bytes: what is no UTF-8 is shown as question marks. */
static json_t *spelt_tree(struct span spelt)
{
    char text[TEXT_BYTES_MAX];
    const size_t size = spelt.data ? record_text(spelt, text, sizeof(text)) : 0;
    json_t *tree = spelt.data ? json_stringn(text, size) : json_null();

    for (size_t i = 0; tree == NULL && i < size; i++)
        if ((unsigned char)text[i] >= 0x80)
            text[i] = '?';
    return tree ? tree : json_stringn(text, size);
}

static json_t *plain_tree(struct span text)
{
    return text.data ? json_stringn_nocheck(text.data, text.size) : json_null();
}

static json_t *usd_tree(money_sum pusd)
{
    char text[MONEY_TEXT_BYTES];

    (void)money_print_usd(pusd, text);
    return json_string(text);
}

static json_t *cents_tree(money_sum pusd)
{
    char text[MONEY_TEXT_BYTES];

    (void)money_print_cents(pusd, text);
    return json_string(text);
}

static json_t *moment_tree(int64_t at_us)
{
    char text[PERIOD_TEXT_BYTES];

    if (at_us == 0)
        return json_null();
    (void)period_print_utc(at_us, text);
    return json_string(text);
}

static json_t *usage_tree(const struct usage *usage)
{
    json_t *tree = json_object();

    for (int class = 0; class < TOKEN_CLASSES; class ++) {
        const int64_t tokens = usage_of_class(usage, (enum token_class) class);
        if (tokens > 0)
            (void)json_object_set_new(tree, token_class_name((enum token_class) class),
                                      json_integer(tokens));
    }
    return tree;
}

/* Where the tokens come from, in words. */
static const char *source_in_words(struct span source)
{
    static const struct {
        const char *name, *says;
    } words[] = {
        {"reported", "the model server's own count, at the end of its answer"},
        {"running", "the model server's own running count, as of the last bytes that went to the "
                    "client"},
        {"estimated", "the model server said no count: estimated from the bytes of prompt and "
                      "answer by what its earlier answers taught"},
        {"cached", "an answer from the gateway's own cache"},
        {"none", "no tokens: nothing was generated for the client"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (span_equal(source, span_of(words[i].name)))
            return words[i].says;
    return "not said";
}

/* ---- the row's amount, part by part ---- */

/* The line of the invoice that a part is in; NULL: none. */
static const struct invoice_line *find_line(const struct invoice *invoice, struct span model,
                                            struct span tier, const struct charge *charge,
                                            int64_t from_us)
{
    const struct span class = span_of(token_class_name(charge->class));

    for (size_t i = 0; invoice && i < invoice->line_count; i++) {
        const struct invoice_line *line = &invoice->lines[i];
        if (line->kind == INVOICE_TOKENS && line->price_from_us == from_us &&
            line->above == charge->above && line->rate_pusd == charge->rate &&
            span_equal(line->class, class) && span_equal(line->model, model) &&
            span_equal(line->tier, tier))
            return line;
    }
    return NULL;
}

static json_t *line_tree(const struct invoice_line *line)
{
    if (line == NULL)
        return json_null();
    return json_pack("{s:o, s:o}", "id", plain_tree(line->id), "usd",
                     cents_tree(line->amount_pusd));
}

/* rate × tokens = amount, of each part, and the invoice line that it is in. */
static json_t *charges_tree(const struct record *record, const struct invoice *invoice)
{
    char model[TEXT_BYTES_MAX], tier[TEXT_BYTES_MAX], rate[MONEY_TEXT_BYTES];
    const struct span model_name = {model, record_text(record->model, model, sizeof(model))};
    const struct span tier_name = {tier, record_text(record->tier, tier, sizeof(tier))};
    struct charge charges[CHARGES_MAX];
    json_t *tree = json_array();
    uint32_t count = 0;

    if (!record->billable || !record->has_tariff ||
        price_charges(&record->usage, &record->tariff, charges, &count) != OK)
        return tree;
    for (uint32_t i = 0; i < count; i++) {
        const struct charge *charge = &charges[i];
        (void)invoice_print_rate(charge->rate, rate);
        (void)json_array_append_new(
            tree, json_pack("{s:s, s:I, s:I, s:s, s:o, s:o}", "class",
                            token_class_name(charge->class), "tokens", (json_int_t)charge->tokens,
                            "above", (json_int_t)charge->above, "usd_per_million", rate, "usd",
                            usd_tree((money_sum)charge->tokens * charge->rate), "invoice_line",
                            line_tree(find_line(invoice, model_name, tier_name, charge,
                                                record->tariff.from_us))));
    }
    return tree;
}

/* ---- rows ---- */

/* The invoice of the tenant's month that a row belongs to; NULL: none can be made. */
static const struct invoice *invoice_of(struct answer *answer, const struct record *record)
{
    char tenant[TEXT_BYTES_MAX];
    const struct span name = {tenant, record_text(record->tenant, tenant, sizeof(tenant))};
    const struct zone *zone = cmd_books_zone(&answer->arguments->books, tenant);
    const struct period month = period_around(zone, PERIOD_MONTH, record->admitted_us);
    struct invoice *invoice = answer->invoice;

    if (invoice && span_equal(invoice->tenant, name) && invoice->period.from_us == month.from_us)
        return invoice;
    books_invoice_free(invoice);
    answer->invoice = NULL;
    if (books_invoice(answer->arguments->books.books, answer->arguments->books.config, name, &month,
                      clock_wall_us(), &answer->invoice, answer->problem,
                      sizeof(answer->problem)) != OK)
        (void)fprintf(stderr, "tollgate: no invoice: %s\n", answer->problem);
    return answer->invoice;
}

static json_t *invoice_tree(const struct invoice *invoice)
{
    if (invoice == NULL)
        return json_null();
    return json_pack("{s:o, s:o, s:b, s:o}", "from", moment_tree(invoice->period.from_us), "until",
                     moment_tree(invoice->period.until_us), "closed", invoice_is_closed(invoice),
                     "total_usd", cents_tree(invoice->total_pusd));
}

static json_t *wastes_tree(const struct record *record)
{
    json_t *tree = json_array();

    for (uint32_t i = 0; i < record->waste_count; i++) {
        const struct record_waste *waste = &record->wastes[i];
        (void)json_array_append_new(
            tree, json_pack("{s:o, s:o, s:o}", "replica", spelt_tree(waste->replica), "cause",
                            spelt_tree(waste->cause), "tokens", usage_tree(&waste->usage)));
    }
    return tree;
}

static json_t *row_id_tree(const struct record *record)
{
    char gateway[TEXT_BYTES_MAX];

    (void)record_text(record->gateway, gateway, sizeof(gateway));
    return json_sprintf("%s/%llu/%llu", gateway, (unsigned long long)record->epoch,
                        (unsigned long long)record->seq);
}

static json_t *call_tree(const struct record *record, const struct invoice *invoice)
{
    json_t *flags = record->flags.data ? json_loadb(record->flags.data, record->flags.size, 0, NULL)
                                       : json_array();
    json_t *tree = json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:s, s:o, "
        "s:o}",
        "row", row_id_tree(record), "kind", "call", "request_id", spelt_tree(record->request_id),
        "exchange_id", spelt_tree(record->exchange_id), "trace_id", spelt_tree(record->trace_id),
        "tenant", spelt_tree(record->tenant), "key", spelt_tree(record->key), "endpoint",
        spelt_tree(record->endpoint), "model_asked", spelt_tree(record->model_asked), "model",
        spelt_tree(record->model), "replica", spelt_tree(record->replica), "why",
        spelt_tree(record->why), "attempts", (json_int_t)record->attempts, "tokens",
        usage_tree(&record->usage), "source", spelt_tree(record->source), "source_in_words",
        source_in_words(record->source), "flags", flags, "wasted", wastes_tree(record));

    (void)json_object_set_new(tree, "outcome", spelt_tree(record->outcome));
    (void)json_object_set_new(tree, "status",
                              record->status < 0 ? json_null() : json_integer(record->status));
    (void)json_object_set_new(tree, "billable", json_boolean(record->billable));
    (void)json_object_set_new(tree, "recovered_from", spelt_tree(record->recovered));
    (void)json_object_set_new(tree, "admitted", moment_tree(record->admitted_us));
    (void)json_object_set_new(tree, "ended", moment_tree(record->ended_us));
    (void)json_object_set_new(
        tree, "price_from", record->has_tariff ? moment_tree(record->tariff.from_us) : json_null());
    (void)json_object_set_new(tree, "charges", charges_tree(record, invoice));
    (void)json_object_set_new(tree, "cost_usd", usd_tree(record->cost_pusd));
    (void)json_object_set_new(tree, "invoice", invoice_tree(invoice));
    return tree;
}

static const struct invoice_line *find_adjust(const struct invoice *invoice, const char *id)
{
    for (size_t i = 0; invoice && id && i < invoice->line_count; i++)
        if (invoice->lines[i].kind == INVOICE_ADJUST &&
            span_equal(invoice->lines[i].id, span_of(id)))
            return &invoice->lines[i];
    return NULL;
}

static json_t *adjust_tree(const struct record *record, const struct invoice *invoice)
{
    json_t *tree = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "row", row_id_tree(record),
                             "kind", "adjust", "adjusts", spelt_tree(record->adjusts), "tenant",
                             spelt_tree(record->tenant), "made", moment_tree(record->at_us), "by",
                             spelt_tree(record->by), "why", spelt_tree(record->why), "cost_usd",
                             usd_tree(record->cost_pusd));
    const char *id = json_string_value(json_object_get(tree, "row"));

    if (record->corrects_us != 0)
        (void)json_object_set_new(tree, "corrects", moment_tree(record->corrects_us));
    (void)json_object_set_new(tree, "invoice_line", line_tree(find_adjust(invoice, id)));
    (void)json_object_set_new(tree, "invoice", invoice_tree(invoice));
    return tree;
}

/* Invoices are asked for once the rows are through: one question at a time. */
struct kept {
    struct kept *next;
    size_t size;
    char line[];
};

struct keeping {
    struct kept *first, **last;
    bool failed;
};

static bool keep_line(void *owner, const struct record *record, struct span line)
{
    struct keeping *keeping = owner;
    struct kept *kept = malloc(sizeof(*kept) + line.size);

    (void)record;
    keeping->failed = kept == NULL;
    if (kept == NULL)
        return false;
    kept->next = NULL;
    kept->size = line.size;
    memcpy(kept->line, line.data, line.size);
    *keeping->last = kept;
    keeping->last = &kept->next;
    return true;
}

static void take_row(struct answer *answer, struct span line)
{
    struct record record;
    json_t *tree = NULL;

    if (record_read(line, &record, answer->problem, sizeof(answer->problem)) != OK) {
        answer->failed = true;
        return;
    }
    if (record.kind == RECORD_CALL)
        tree = call_tree(&record, record.billable ? invoice_of(answer, &record) : NULL);
    else if (record.kind == RECORD_ADJUST)
        tree = adjust_tree(&record, invoice_of(answer, &record));
    else
        return;
    answer->failed = answer->failed || json_array_append_new(answer->rows, tree) != 0;
}

static enum err find_rows(struct answer *answer, struct span id)
{
    struct keeping keeping = {.last = &keeping.first};
    const enum err err =
        books_rows(answer->arguments->books.books, (struct span){NULL, 0}, NULL, id, keep_line,
                   &keeping, answer->problem, sizeof(answer->problem));

    answer->failed = answer->failed || keeping.failed;
    for (struct kept *kept = keeping.first, *next; kept; kept = next) {
        next = kept->next;
        if (err == OK && !answer->failed)
            take_row(answer, (struct span){kept->line, kept->size});
        free(kept);
    }
    return err;
}

/* Takes what has its row out of what has none: it got it meanwhile. */
static void drop_written(struct answer *answer)
{
    for (size_t i = json_array_size(answer->pending); i-- > 0;) {
        const json_t *id = json_object_get(json_array_get(answer->pending, i), "exchange_id");
        bool written = false;

        for (size_t k = 0; k < json_array_size(answer->rows) && !written; k++)
            written =
                json_equal(id, json_object_get(json_array_get(answer->rows, k), "exchange_id"));
        if (written)
            (void)json_array_remove(answer->pending, i);
    }
}

/* Rows, and requests that have none yet. Tables are looked through before the journal is read: what
 * moves from one to the other is not overlooked. */
static enum err find(struct answer *answer)
{
    struct cmd_books *books = &answer->arguments->books;
    const struct span id = span_of(answer->arguments->id);
    const struct span inner = cmd_why_inner_id(id);
    enum err err;

    answer->failed = !cmd_why_add_pending(books->books, id, answer->pending);
    if (inner.data != NULL && json_array_size(answer->pending) == 0)
        answer->failed =
            answer->failed || !cmd_why_add_pending(books->books, inner, answer->pending);
    if (cmd_books_feed(books) != 0)
        return ERR_INTERNAL;
    err = find_rows(answer, id);
    if (err == OK && inner.data != NULL && json_array_size(answer->rows) == 0)
        err = find_rows(answer, inner);
    drop_written(answer);
    return err;
}

/* ---- in words ---- */

static const char *text_of(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "-";
}

/* What came from outside is printed without bytes that a terminal would obey. */
static void print_field(const char *name, const char *text)
{
    (void)printf("  %-12s", name);
    for (; *text; text++)
        (void)putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
    (void)putchar('\n');
}

static void print_tokens(const char *name, const json_t *tokens)
{
    (void)printf("  %-12s", name);
    if (json_object_size(tokens) == 0)
        (void)fputs("none", stdout);
    for (int class = 0; class < TOKEN_CLASSES; class ++) {
        const char *class_name = token_class_name((enum token_class) class);
        const json_t *count = json_object_get(tokens, class_name);
        if (count)
            (void)printf("%s %lld  ", class_name, (long long)json_integer_value(count));
    }
    (void)putchar('\n');
}

/* What is out of the ordinary, in words where we have them. */
static void print_flags(const json_t *flags)
{
    static const struct {
        const char *name, *says;
    } words[] = {
        {"usage_suspect",
         "the model server's numbers contradict one another, or are more than a row "
         "can charge"},
        {"clamped", "the gateway wrote or lowered the limit of output tokens"},
        {"decision_cut", "texts of the row were cut to fit"},
        {"translated", "the API asked for was translated to another's and back"},
    };

    for (size_t i = 0; i < json_array_size(flags); i++) {
        const char *flag = json_string_value(json_array_get(flags, i));
        size_t k = 0;
        while (flag && k < sizeof(words) / sizeof(words[0]) && strcmp(flag, words[k].name) != 0)
            k++;
        if (flag == NULL)
            continue;
        (void)printf("  %-12s%s%s%s\n", "flag", flag,
                     k < sizeof(words) / sizeof(words[0]) ? ": " : "",
                     k < sizeof(words) / sizeof(words[0]) ? words[k].says : "");
    }
}

static void print_charges(const json_t *row)
{
    const json_t *charges = json_object_get(row, "charges");

    for (size_t i = 0; i < json_array_size(charges); i++) {
        const json_t *charge = json_array_get(charges, i);
        const json_t *line = json_object_get(charge, "invoice_line");
        (void)printf("  %-12s%lld × %s USD per million = %s USD", text_of(charge, "class"),
                     (long long)json_integer_value(json_object_get(charge, "tokens")),
                     text_of(charge, "usd_per_million"), text_of(charge, "usd"));
        if (json_integer_value(json_object_get(charge, "above")) > 0)
            (void)printf("  (beyond %lld)",
                         (long long)json_integer_value(json_object_get(charge, "above")));
        if (json_is_object(line))
            (void)printf("  (invoice line %s: %s USD)", text_of(line, "id"), text_of(line, "usd"));
        (void)putchar('\n');
    }
}

static void print_invoice(const json_t *row)
{
    const json_t *invoice = json_object_get(row, "invoice");

    if (json_is_object(invoice))
        (void)printf("  invoice     from %s until %s: %s USD%s\n", text_of(invoice, "from"),
                     text_of(invoice, "until"), text_of(invoice, "total_usd"),
                     json_is_true(json_object_get(invoice, "closed")) ? "" : " (DRAFT)");
}

static void print_call(const json_t *row)
{
    static const char *const names[] = {
        "request_id", "exchange_id", "trace_id", "tenant",  "key", "endpoint", "admitted",
        "ended",      "model_asked", "model",    "replica", "why", "outcome"};
    const json_t *wasted = json_object_get(row, "wasted");
    char number[24];

    (void)printf("call %s\n", text_of(row, "row"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (json_is_string(json_object_get(row, names[i])))
            print_field(names[i], text_of(row, names[i]));
    (void)snprintf(number, sizeof(number), "%lld",
                   (long long)json_integer_value(json_object_get(row, "attempts")));
    print_field("attempts", number);
    for (size_t i = 0; i < json_array_size(wasted); i++) {
        const json_t *waste = json_array_get(wasted, i);
        (void)printf("  not delivered by %s (%s), on the operator's account:\n",
                     text_of(waste, "replica"), text_of(waste, "cause"));
        print_tokens("", json_object_get(waste, "tokens"));
    }
    print_tokens("tokens", json_object_get(row, "tokens"));
    (void)printf("  %-12s%s: %s\n", "source", text_of(row, "source"),
                 text_of(row, "source_in_words"));
    print_flags(json_object_get(row, "flags"));
    if (json_is_string(json_object_get(row, "recovered_from")))
        (void)printf("  its process %s died; another made this row of what it left\n",
                     text_of(row, "recovered_from"));
    if (!json_is_true(json_object_get(row, "billable")))
        (void)puts("  not billed");
    if (json_is_string(json_object_get(row, "price_from")))
        print_field("price from", text_of(row, "price_from"));
    print_charges(row);
    print_field("cost_usd", text_of(row, "cost_usd"));
    print_invoice(row);
}

static void print_adjust(const json_t *row)
{
    const json_t *line = json_object_get(row, "invoice_line");

    (void)printf("adjust %s\n", text_of(row, "row"));
    print_field("adjusts", text_of(row, "adjusts"));
    if (json_object_get(row, "corrects") != NULL)
        print_field("corrects", text_of(row, "corrects"));
    print_field("made", text_of(row, "made"));
    print_field("by", text_of(row, "by"));
    print_field("why", text_of(row, "why"));
    print_field("cost_usd", text_of(row, "cost_usd"));
    if (json_is_object(line))
        (void)printf("  a line of its own on the invoice: %s USD\n", text_of(line, "usd"));
    print_invoice(row);
}

static void print_rows(const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (i > 0)
            (void)putchar('\n');
        if (strcmp(text_of(row, "kind"), "call") == 0)
            print_call(row);
        else
            print_adjust(row);
    }
}

/* ---- the command ---- */

static void say_nothing_found(const struct arguments *arguments)
{
    if (strchr(arguments->id, '/') != NULL) {
        (void)fprintf(stderr, "tollgate: no row that charges or corrects is called %s\n",
                      arguments->id);
        return;
    }
    (void)fprintf(
        stderr,
        "tollgate: no row has the request, exchange or trace id %s\n"
        "An answer's head has one (x-request-id), and so has its body where a translation "
        "(msg_, resp_) or\nvLLM (chatcmpl-, cmpl-) made the id of it. What other servers "
        "call their answers is in no row.\n",
        arguments->id);
    if (books_behind(arguments->books.books) > 0)
        (void)fprintf(stderr, "The ledger is behind the journal: ask again.\n");
}

/* Prints what was found; returns the exit status. */
static int print_answer(struct answer *answer)
{
    const bool any = json_array_size(answer->rows) > 0;

    cmd_why_print_pending(answer->pending);
    if (!any && json_array_size(answer->pending) == 0) {
        say_nothing_found(answer->arguments);
        return 1;
    }
    if (!answer->arguments->json) {
        print_rows(answer->rows);
        return any ? 0 : 1;
    }
    if (json_array_extend(answer->rows, answer->pending) != 0 ||
        json_dumpf(answer->rows, stdout, JSON_INDENT(2)) != 0)
        return 1;
    (void)putchar('\n');
    return any ? 0 : 1;
}

static int explain(struct arguments *arguments)
{
    struct answer answer = {.arguments = arguments, .rows = json_array(), .pending = json_array()};
    const enum err err = find(&answer);
    int status = 1;

    if (err != OK || answer.failed) {
        if (answer.failed || answer.problem[0])
            (void)fprintf(stderr, "tollgate: %s\n",
                          answer.problem[0] ? answer.problem : "no memory");
    } else {
        status = print_answer(&answer);
    }
    books_invoice_free(answer.invoice);
    json_decref(answer.rows);
    json_decref(answer.pending);
    return fflush(stdout) == 0 ? status : 1;
}

int cmd_why(int argc, char **argv)
{
    struct arguments arguments = {.id = NULL};
    const struct argument_option options[] = {CMD_BOOKS_OPTIONS(&arguments.books),
                                              ARGUMENT_FLAG("--json", &arguments.json)};
    const struct argument_word words[] = {{"ID", &arguments.id, false}};
    const struct argument_form form = {
        COMMAND, help, options, ARGUMENT_COUNT(options), words, ARGUMENT_COUNT(words)};
    int status;

    if (!arguments_read(&form, argc, argv, &status))
        return status;
    if (arguments.id[0] == '\0')
        return arguments_refuse(COMMAND, "expected an ID");
    status = cmd_books_open(&arguments.books, false);
    if (status == 0)
        status = explain(&arguments);
    cmd_books_close(&arguments.books);
    return status;
}
