/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_plan.c: what was taken over from another gateway, kept and printed as YAML.
 *
 * For:       notes, names of variables, exact prices, and the new file's text.
 * Called by: import_litellm.c, import_models.c, import_tree.c, import_prices.c.
 * Knows not: LiteLLM's file; of its keys only what comments in ours name. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/import_litellm.h"
#include "config/table.h"
#include "config/values.h"

#define NOTE_BYTES 640
#define NAME_BYTES 128

void import_plan_init(struct import_plan *plan, struct arena *arena, struct span file)
{
    memset(plan, 0, sizeof(*plan));
    plan->arena = arena;
    plan->file = file;
    plan->timeout_ms.value = -1;
    plan->out_after.value = -1;
    plan->out_for_ms.value = -1;
    plan->attempts.value = -1;
}

struct span import_keep(struct import_plan *plan, struct span text)
{
    const struct span kept = arena_copy(plan->arena, text);

    if (kept.data == NULL)
        plan->out_of_memory = true;
    return kept;
}

/* ---- Notes ---- */

__attribute__((__format__(__printf__, 5, 0))) static void add_note(struct import_plan *plan,
                                                                   bool left_out, uint32_t line,
                                                                   const char *key,
                                                                   const char *format,
                                                                   va_list arguments)
{
    struct import_note *note = arena_take_zeroed(plan->arena, sizeof(*note));
    char text[NOTE_BYTES];
    int size;

    if (note == NULL) {
        plan->out_of_memory = true;
        return;
    }
    size = snprintf(text, sizeof(text), "%.200s: %s: ", key, left_out ? "left out" : "note");
    (void)vsnprintf(text + size, sizeof(text) - (size_t)size, format, arguments);
    for (char *byte = text; *byte != '\0'; byte++)
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
            *byte = '?'; /* one note stays one line, whatever the file says */
    note->line = line;
    note->order = plan->note_count;
    note->left_out = left_out;
    note->text = import_keep(plan, span_of(text));
    note->next = plan->notes;
    plan->notes = note;
    plan->note_count++;
    if (left_out)
        plan->left_out_count++;
}

void import_left_out(struct import_plan *plan, uint32_t line, const char *key, const char *format,
                     ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_note(plan, true, line, key, format, arguments);
    va_end(arguments);
}

void import_good_to_know(struct import_plan *plan, uint32_t line, const char *key,
                         const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_note(plan, false, line, key, format, arguments);
    va_end(arguments);
}

static int by_line(const void *left, const void *right)
{
    const struct import_note *a = *(const struct import_note *const *)left;
    const struct import_note *b = *(const struct import_note *const *)right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

enum err import_print_notes(const struct import_plan *plan, struct config_problems *out_notes)
{
    const struct import_note **sorted = calloc(plan->note_count + 1, sizeof(struct import_note *));
    char *text = NULL;
    size_t size = 0;
    size_t count = 0;
    FILE *out;

    if (sorted == NULL)
        return ERR_NO_MEMORY;
    for (const struct import_note *note = plan->notes; note != NULL; note = note->next)
        sorted[count++] = note;
    qsort(sorted, count, sizeof(struct import_note *), by_line);
    out = open_memstream(&text, &size);
    if (out == NULL) {
        free(sorted);
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, "%.*s:%u: %.*s\n", (int)plan->file.size, plan->file.data,
                      sorted[i]->line, (int)sorted[i]->text.size, sorted[i]->text.data);
    free(sorted);
    if (fclose(out) != 0) {
        free(text);
        return ERR_NO_MEMORY;
    }
    *out_notes = (struct config_problems){.text = text, .size = size, .count = count};
    return OK;
}

/* ---- Variables ---- */

static bool is_capital(char byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static bool is_letter(char byte)
{
    return is_capital(byte) || (byte >= 'a' && byte <= 'z');
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static struct import_variable *find_variable(struct import_plan *plan, struct span name)
{
    for (uint32_t i = 0; i < plan->variable_count; i++)
        if (span_equal(plan->variables[i].name, name))
            return &plan->variables[i];
    return NULL;
}

static struct span reference_to(struct import_plan *plan, struct span name)
{
    char text[NAME_BYTES + sizeof("${}")];
    const int size = snprintf(text, sizeof(text), "${%.*s}", (int)name.size, name.data);

    return import_keep(plan, (struct span){text, (size_t)size});
}

/* NULL: there are too many. */
static struct import_variable *add_variable(struct import_plan *plan, struct span name)
{
    struct import_variable *variable;

    if (plan->variable_count == IMPORT_VARIABLES_MAX)
        return NULL;
    variable = &plan->variables[plan->variable_count++];
    variable->name = import_keep(plan, name);
    return variable;
}

/* The bytes that text begins with and that can be a variable's name; 0: none. */
static size_t name_size(struct span text)
{
    size_t size = 0;

    while (size < text.size && (is_letter(text.data[size]) || text.data[size] == '_' ||
                                (size > 0 && is_digit(text.data[size]))))
        size++;
    return size;
}

void import_variable_reserve(struct import_plan *plan, struct span text)
{
    text.size = name_size(text);
    if (text.size > 0 && text.size < NAME_BYTES && find_variable(plan, text) == NULL)
        (void)add_variable(plan, text);
}

struct span import_variable_named(struct import_plan *plan, struct span name)
{
    struct import_variable *variable = find_variable(plan, name);

    if (name.size == 0 || name.size >= NAME_BYTES || name_size(name) < name.size)
        return (struct span){NULL, 0};
    if (variable == NULL)
        variable = add_variable(plan, name);
    if (variable == NULL)
        return (struct span){NULL, 0};
    variable->used = true;
    return reference_to(plan, name);
}

/* Capitals, digits and underscores; does not begin with a digit. */
static size_t variable_name(struct span wanted, char *out, size_t room)
{
    size_t size = 0;

    if (wanted.size == 0 || is_digit(wanted.data[0]))
        out[size++] = '_';
    for (size_t i = 0; i < wanted.size && size < room; i++) {
        const char byte = wanted.data[i];

        if (is_letter(byte))
            out[size++] = is_capital(byte) ? byte : (char)(byte - 'a' + 'A');
        else
            out[size++] = is_digit(byte) ? byte : '_';
    }
    return size;
}

struct span import_variable_for(struct import_plan *plan, struct span wanted, struct span secret)
{
    char name[NAME_BYTES];
    const size_t stem = variable_name(wanted, name, sizeof(name) - 16);
    size_t size = stem;
    struct import_variable *variable;

    for (uint32_t i = 0; i < plan->variable_count; i++)
        if (plan->variables[i].secret.data != NULL && span_equal(plan->variables[i].secret, secret))
            return reference_to(plan, plan->variables[i].name);
    for (unsigned next = 2; find_variable(plan, (struct span){name, size}) != NULL; next++)
        size = stem + (size_t)snprintf(name + stem, sizeof(name) - stem, "_%u", next);
    variable = add_variable(plan, (struct span){name, size});
    if (variable == NULL)
        return (struct span){NULL, 0};
    variable->secret = secret;
    variable->used = true;
    return reference_to(plan, variable->name);
}

/* ---- Models ---- */

struct import_model *import_find_model(struct import_plan *plan, struct span name)
{
    for (uint32_t i = 0; i < plan->model_count; i++) {
        if (span_equal(plan->models[i]->name, name))
            return plan->models[i];
        for (uint32_t k = 0; k < plan->models[i]->alias_count; k++)
            if (span_equal(plan->models[i]->aliases[k], name))
                return plan->models[i];
    }
    return NULL;
}

bool import_add_fallback(struct import_model *model, const struct import_model *next, uint32_t line)
{
    for (uint32_t i = 0; i < model->fallback_count; i++)
        if (model->fallback[i] == next)
            return true;
    if (model == next)
        return true;
    if (model->fallback_count == IMPORT_FALLBACK_MAX)
        return false;
    if (model->fallback_count == 0)
        model->fallback_line = line;
    model->fallback[model->fallback_count++] = next;
    return true;
}

/* ---- Prices ---- */

/* A written number as digits without leading zeros, and where its point stands: 1.5e-07 is "15" and
 * -6, as 0.15 would be 0. */
struct decimal {
    char digits[64];
    int count;
    int point;
};

/* The exponent behind e or E: a sign and up to three digits. */
static bool read_exponent(struct span text, int *out_exponent)
{
    const bool minus = text.size > 0 && text.data[0] == '-';
    int64_t value;

    if (text.size > 0 && (text.data[0] == '-' || text.data[0] == '+'))
        text = span_from(text, 1);
    if (text.size > 3 || !span_to_int64(text, &value))
        return false;
    *out_exponent = minus ? -(int)value : (int)value;
    return true;
}

static bool read_decimal(struct span text, struct decimal *out)
{
    bool point = false;
    bool any = false;
    int exponent = 0;

    *out = (struct decimal){.count = 0};
    if (text.size > 0 && text.data[0] == '+')
        text = span_from(text, 1);
    for (size_t i = 0; i < text.size; i++) {
        const char byte = text.data[i];

        if (byte == '.' && !point) {
            point = true;
        } else if (is_digit(byte)) {
            any = true;
            if (byte == '0' && out->count == 0) {
                out->point -= point ? 1 : 0;
                continue;
            }
            if (out->count == (int)sizeof(out->digits))
                return false;
            out->digits[out->count++] = byte;
            out->point += point ? 0 : 1;
        } else if (byte == 'e' || byte == 'E') {
            if (!read_exponent(span_from(text, i + 1), &exponent))
                return false;
            break;
        } else {
            return false;
        }
    }
    out->point += exponent;
    while (out->count > 0 && out->digits[out->count - 1] == '0')
        out->count--;
    return any;
}

bool import_price(struct span per_token, char out_text[IMPORT_PRICE_BYTES])
{
    struct decimal price;
    char text[IMPORT_PRICE_BYTES];
    size_t size = 0;
    int64_t pusd;

    if (!read_decimal(per_token, &price))
        return false;
    price.point += 6; /* a million tokens */
    if (price.count == 0)
        price.point = 1;
    /* At most 7 digits before the point and 6 behind it: what a price may have. */
    if (price.point > 7 || price.count - price.point > 6)
        return false;
    if (price.point <= 0)
        text[size++] = '0';
    for (int i = price.point <= 0 ? price.point : 0; i < price.point || i < price.count; i++) {
        if (i == price.point)
            text[size++] = '.';
        text[size++] = i >= 0 && i < price.count ? price.digits[i] : '0';
    }
    if (!values_decimal((struct span){text, size}, 6, &pusd) || pusd > INT64_C(1000000000000))
        return false;
    memcpy(out_text, text, size);
    out_text[size] = '\0';
    return true;
}

/* ---- The new file ---- */

/* A text between quotation marks. */
static void print_quoted(FILE *out, struct span text)
{
    (void)fputc('"', out);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\')
            (void)fputc('\\', out);
        (void)fputc(text.data[i], out);
    }
    (void)fputc('"', out);
}

static void print_milliseconds(FILE *out, int64_t ms)
{
    if (ms % 1000 == 0)
        (void)fprintf(out, "%" PRId64 "s", ms / 1000);
    else
        (void)fprintf(out, "%" PRId64 "ms", ms);
}

/* The file's name as a comment may have it. */
static void print_file_name(FILE *out, struct span name)
{
    for (size_t i = 0; i < name.size; i++)
        (void)fputc(name.data[i] < ' ' || name.data[i] > '~' ? '?' : name.data[i], out);
}

static void print_head(FILE *out, const struct import_plan *plan)
{
    (void)fprintf(out, "# Made by tollgate import litellm from ");
    print_file_name(out, plan->file);
    (void)fprintf(out, "; \"line\" means a line of that file.\n"
                       "# What could not be taken over was listed when this was made.\n");
    (void)fprintf(out, "# Set these variables before it is loaded:\n");
    for (uint32_t i = 0; i < plan->variable_count; i++)
        if (plan->variables[i].used)
            (void)fprintf(
                out, "#   %.*s%s\n", (int)plan->variables[i].name.size,
                plan->variables[i].name.data,
                plan->variables[i].secret.data != NULL ? " (stood in the file in plain text)" : "");
    (void)fprintf(out,
                  "listen:\n"
                  "  - {address: \"0.0.0.0:4000\"} # where LiteLLM listens unless it is told "
                  "otherwise\n"
                  "admin: {address: \"127.0.0.1:4001\"} # /metrics, /replicas, POST /reload\n");
}

static void print_price(FILE *out, const struct import_model *model)
{
    static const char *const names[IMPORT_PRICES] = {
        [PRICE_INPUT] = "input",   [PRICE_CACHED] = "cached_input", [PRICE_WRITE] = "cache_write",
        [PRICE_OUTPUT] = "output", [PRICE_REASONING] = "reasoning",
    };
    const char *comma = "";

    if (model->price_line > 0)
        (void)fprintf(out, "    price: # line %u; USD per million tokens\n      - {",
                      model->price_line);
    else
        (void)fprintf(out, "    price: # the file says none: nothing is charged\n      - {");
    for (int i = 0; i < IMPORT_PRICES; i++) {
        struct span price = model->prices[i];

        if (price.data == NULL && (i == PRICE_INPUT || i == PRICE_OUTPUT))
            price = SPAN("0"); /* both are required */
        if (price.data == NULL)
            continue;
        (void)fprintf(out, "%s%s: ", comma, names[i]);
        print_quoted(out, price);
        comma = ", ";
    }
    (void)fprintf(out, "}\n");
}

static void print_replicas(FILE *out, const struct import_model *model)
{
    (void)fprintf(out, "    replicas:\n");
    for (uint32_t i = 0; i < model->replica_count; i++) {
        const struct import_replica *replica = &model->replicas[i];

        (void)fprintf(out, "      - {name: ");
        print_quoted(out, replica->name);
        (void)fprintf(out, ", url: ");
        print_quoted(out, replica->url);
        if (replica->key.data != NULL) {
            (void)fprintf(out, ", key: ");
            print_quoted(out, replica->key);
        }
        if (replica->slots > 0)
            (void)fprintf(out, ", slots: %" PRId64, replica->slots);
        (void)fprintf(out, "} # line %u\n", replica->line);
    }
}

static void print_limits(FILE *out, const struct import_model *model)
{
    if (model->input_tokens > 0 && model->output_tokens > 0)
        (void)fprintf(out, "    context: %" PRId64 " # max_input_tokens and max_output_tokens\n",
                      model->input_tokens + model->output_tokens);
    else if (model->input_tokens > 0)
        (void)fprintf(out,
                      "    context: %" PRId64 " # max_input_tokens; the answer counts here, "
                      "too\n",
                      model->input_tokens);
    if (model->output_tokens > 0)
        (void)fprintf(out, "    output: %" PRId64 "\n", model->output_tokens);
}

static void print_model(FILE *out, const struct import_model *model)
{
    (void)fprintf(out, "  ");
    print_quoted(out, model->name);
    (void)fprintf(out, ": # line %u\n    kind: %s\n", model->line,
                  kind_row(model->kind)->name.data);
    print_price(out, model);
    print_limits(out, model);
    if (!span_equal(model->upstream, model->name)) {
        (void)fprintf(out, "    upstream_model: ");
        print_quoted(out, model->upstream);
        (void)fputc('\n', out);
    }
    for (uint32_t i = 0; i < model->alias_count; i++) {
        (void)fprintf(out, "%s", i == 0 ? "    aliases: [" : ", ");
        print_quoted(out, model->aliases[i]);
    }
    (void)fprintf(out, "%s", model->alias_count > 0 ? "] # model_group_alias\n" : "");
    print_replicas(out, model);
    for (uint32_t i = 0; i < model->fallback_count; i++) {
        (void)fprintf(out, "%s", i == 0 ? "    fallback: [" : ", ");
        print_quoted(out, model->fallback[i]->name);
    }
    if (model->fallback_count > 0)
        (void)fprintf(out, "] # line %u\n", model->fallback_line);
}

static void print_tenant(FILE *out, const struct import_plan *plan)
{
    (void)fprintf(out, "\ntenants:\n  default:\n    keys:\n      - {id: master, key: ");
    print_quoted(out, plan->master_key);
    if (plan->master_key_line > 0)
        (void)fprintf(out, "} # line %u\n", plan->master_key_line);
    else
        (void)fprintf(out, "} # the file has no master_key; here every request needs a key\n");
    (void)fprintf(out, "    # allow: [remote_urls] lets clients send images by URL; see tollgate "
                       "explain tenants.*.allow\n");
}

static void print_numbers(FILE *out, const struct import_plan *plan)
{
    const struct option *silence = table_option("timeouts.first_byte");
    const int64_t timeout_ms = plan->timeout_ms.value;

    if (timeout_ms >= 0) {
        (void)fprintf(out, "\ntimeouts: # line %u\n  whole: ", plan->timeout_ms.line);
        print_milliseconds(out, timeout_ms);
        (void)fputc('\n', out);
    }
    if (timeout_ms > silence->fallback) {
        const int64_t silence_ms = timeout_ms < silence->maximum ? timeout_ms : silence->maximum;

        (void)fprintf(out, "  first_byte: ");
        print_milliseconds(out, silence_ms);
        (void)fprintf(out, " # LiteLLM bounds nothing but the whole\n  between_bytes: ");
        print_milliseconds(out, silence_ms);
        (void)fputc('\n', out);
    }
    if (plan->out_after.value >= 0 || plan->out_for_ms.value >= 0)
        (void)fprintf(out, "\nhealth:\n");
    if (plan->out_after.value >= 0)
        (void)fprintf(out,
                      "  out_after: %" PRId64 " # line %u: one more than are allowed; in a row "
                      "here, per minute there\n",
                      plan->out_after.value, plan->out_after.line);
    if (plan->out_for_ms.value >= 0) {
        (void)fprintf(out, "  out_for: ");
        print_milliseconds(out, plan->out_for_ms.value);
        (void)fprintf(out, " # line %u\n", plan->out_for_ms.line);
    }
    if (plan->attempts.value >= 0)
        (void)fprintf(out,
                      "\nretry:\n  attempts: %" PRId64 " # line %u: the first one and its "
                      "retries\n",
                      plan->attempts.value, plan->attempts.line);
}

enum err import_plan_print(struct import_plan *plan, struct config_import *out_import)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;
    enum err err;

    if (plan->out_of_memory)
        return ERR_NO_MEMORY;
    out = open_memstream(&text, &size);
    if (out == NULL)
        return ERR_NO_MEMORY;
    print_head(out, plan);
    (void)fprintf(out, "\nmodels:%s\n", plan->model_count == 0 ? " {} # none was taken over" : "");
    for (uint32_t i = 0; i < plan->model_count; i++)
        print_model(out, plan->models[i]);
    print_tenant(out, plan);
    print_numbers(out, plan);
    if (fclose(out) != 0) {
        free(text);
        return ERR_NO_MEMORY;
    }
    err = import_print_notes(plan, &out_import->notes);
    if (err != OK) {
        free(text);
        return err;
    }
    out_import->yaml = text;
    out_import->yaml_size = size;
    out_import->left_out_count = plan->left_out_count;
    out_import->model_count = plan->model_count;
    for (uint32_t i = 0; i < plan->model_count; i++)
        out_import->replica_count += plan->models[i]->replica_count;
    return OK;
}
