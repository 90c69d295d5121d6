/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/report.c: a report's lines, held and printed.
 *
 * For:       what report.h says.
 * Called by: cmd_usage*.c, cmd_rerate.c, usage_api.c.
 * Knows not: what the columns mean. */
#include "gateway/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "config/base/log.h"
#include "gateway/csv.h"

#define LINES_AT_FIRST 64u
#define CELL_BYTES 1024u /* of a text in a table or as JSON, escaped; the rest is cut */

void report_init(struct report *report)
{
    *report = (struct report){.column_count = 0};
}

void report_fini(struct report *report)
{
    for (size_t i = 0; i < report->line_count * report->column_count; i++)
        if (report->columns[i % report->column_count].kind == REPORT_TEXT)
            free((void *)(uintptr_t)report->cells[i].text.data);
    free(report->cells);
    report_init(report);
}

void report_add_column(struct report *report, struct span name, enum report_kind kind)
{
    if (report->column_count == REPORT_COLUMNS_MAX)
        return;
    struct report_column *column = &report->columns[report->column_count];

    (void)snprintf(column->name, sizeof(column->name), "%.*s", (int)name.size, name.data);
    column->kind = kind;
    report->totals[report->column_count] = (struct report_cell){.known = kind != REPORT_TEXT};
    report->column_count++;
}

/* ---- lines ---- */

static enum err make_room(struct report *report)
{
    if (report->line_count >= REPORT_LINES_MAX)
        return ERR_TOO_LARGE;
    if (report->line_count < report->line_room)
        return OK;
    const size_t room = report->line_room == 0 ? LINES_AT_FIRST : report->line_room * 2;
    struct report_cell *cells =
        realloc(report->cells, room * report->column_count * sizeof(*cells));

    if (cells == NULL)
        return ERR_NO_MEMORY;
    report->cells = cells;
    report->line_room = room;
    return OK;
}

static enum err add_to_total(struct report_cell *total, enum report_kind kind,
                             const struct report_cell *cell)
{
    if (kind == REPORT_TEXT)
        return OK;
    total->known = total->known && cell->known;
    if (!cell->known)
        return OK;
    if (kind == REPORT_DECIMAL)
        return money_add(total->decimal, cell->decimal, &total->decimal);
    return __builtin_add_overflow(total->count, cell->count, &total->count) ? ERR_BAD_VALUE : OK;
}

/* A copy that is the report's own, also of an empty text. */
static enum err copy_text(struct span text, struct report_cell *out)
{
    char *copy = malloc(text.size + 1);

    if (copy == NULL)
        return ERR_NO_MEMORY;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    *out = report_text((struct span){copy, text.size});
    return OK;
}

enum err report_add_line(struct report *report, const struct report_cell *cells)
{
    enum err err = make_room(report);

    if (err != OK)
        return err;
    struct report_cell *line = report->cells + report->line_count * report->column_count;

    for (uint32_t i = 0; i < report->column_count; i++) {
        const enum report_kind kind = report->columns[i].kind;

        line[i] = kind == REPORT_TEXT ? report_text((struct span){NULL, 0}) : cells[i];
        if (err == OK && kind == REPORT_TEXT && cells[i].known)
            err = copy_text(cells[i].text, &line[i]);
        if (err == OK)
            err = add_to_total(&report->totals[i], kind, &cells[i]);
    }
    report->line_count++; /* whatever came of it: report_fini() frees its texts */
    return err;
}

enum err report_add_decimal(struct report *report, size_t line, uint32_t column, money_sum decimal)
{
    struct report_cell *cell = &report->cells[line * report->column_count + column];
    const enum err err = money_add(cell->decimal, decimal, &cell->decimal);

    return err != OK ? err
                     : money_add(report->totals[column].decimal, decimal,
                                 &report->totals[column].decimal);
}

/* ---- values as text ---- */

/* A known value that is no text; returns the length. */
static size_t print_number(enum report_kind kind, const struct report_cell *cell, char *out)
{
    return kind == REPORT_DECIMAL ? money_print_usd(cell->decimal, out)
                                  : money_print_pusd(cell->count, out);
}

/* What a table shows: bytes that would move a terminal's cursor are escaped. */
static size_t print_shown(enum report_kind kind, const struct report_cell *cell,
                          char out[CELL_BYTES])
{
    if (!cell->known) {
        out[0] = '-';
        return 1;
    }
    return kind == REPORT_TEXT ? log_escape(cell->text, out, CELL_BYTES)
                               : print_number(kind, cell, out);
}

/* ---- table ---- */

/* Signs, not bytes: what follows a first byte of UTF-8 takes no room. */
static size_t width_of(const char *text, size_t size)
{
    size_t width = 0;

    for (size_t i = 0; i < size; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

static void print_padded(FILE *out, const char *text, size_t size, size_t width, bool right)
{
    const size_t own = width_of(text, size);
    const int padding = own < width ? (int)(width - own) : 0;

    if (right)
        (void)fprintf(out, "%*s%.*s", padding, "", (int)size, text);
    else
        (void)fprintf(out, "%.*s%*s", (int)size, text, padding, "");
}

static void widen(size_t *width, size_t other)
{
    if (other > *width)
        *width = other;
}

static void print_table_line(const struct report *report, const struct report_cell *cells,
                             const size_t *widths, FILE *out)
{
    char shown[CELL_BYTES];

    for (uint32_t i = 0; i < report->column_count; i++) {
        const enum report_kind kind = report->columns[i].kind;
        size_t size = print_shown(kind, &cells[i], shown);

        if (cells == report->totals && kind == REPORT_TEXT)
            size = (size_t)snprintf(shown, sizeof(shown), "%s", i == 0 ? "total" : "");
        (void)fputs(i > 0 ? "  " : "", out);
        print_padded(out, shown, size,
                     i + 1 == report->column_count && kind == REPORT_TEXT ? 0 : widths[i],
                     kind != REPORT_TEXT);
    }
    (void)fputc('\n', out);
}

void report_print_table(const struct report *report, FILE *out)
{
    size_t widths[REPORT_COLUMNS_MAX] = {0};
    char shown[CELL_BYTES];

    for (uint32_t i = 0; i < report->column_count; i++) {
        const enum report_kind kind = report->columns[i].kind;

        widen(&widths[i], strlen(report->columns[i].name));
        widen(&widths[i], i == 0 ? strlen("total") : 0);
        widen(&widths[i], width_of(shown, print_shown(kind, &report->totals[i], shown)));
        for (size_t line = 0; line < report->line_count; line++) {
            const struct report_cell *cell = &report->cells[line * report->column_count + i];

            widen(&widths[i], width_of(shown, print_shown(kind, cell, shown)));
        }
    }
    for (uint32_t i = 0; i < report->column_count; i++) {
        const char *name = report->columns[i].name;

        (void)fputs(i > 0 ? "  " : "", out);
        print_padded(out, name, strlen(name), widths[i], report->columns[i].kind != REPORT_TEXT);
    }
    (void)fputc('\n', out);
    for (size_t line = 0; line < report->line_count; line++)
        print_table_line(report, report->cells + line * report->column_count, widths, out);
    print_table_line(report, report->totals, widths, out);
}

/* ---- JSON ---- */

static void print_json_text(struct span text, FILE *out)
{
    char escaped[CELL_BYTES];
    const size_t size = log_escape(text, escaped, sizeof(escaped));

    (void)fprintf(out, "\"%.*s\"", (int)size, escaped);
}

static void print_json_cells(const struct report *report, const struct report_cell *cells,
                             bool texts, FILE *out)
{
    char number[MONEY_TEXT_BYTES];
    const char *between = "{";

    for (uint32_t i = 0; i < report->column_count; i++) {
        const enum report_kind kind = report->columns[i].kind;

        if (kind == REPORT_TEXT && !texts)
            continue;
        (void)fputs(between, out);
        print_json_text(span_of(report->columns[i].name), out);
        (void)fputc(':', out);
        between = ",";
        if (!cells[i].known)
            (void)fputs("null", out);
        else if (kind == REPORT_TEXT)
            print_json_text(cells[i].text, out);
        else if (kind == REPORT_DECIMAL)
            (void)fprintf(out, "\"%.*s\"", (int)print_number(kind, &cells[i], number), number);
        else
            (void)fprintf(out, "%.*s", (int)print_number(kind, &cells[i], number), number);
    }
    (void)fputs(between[0] == '{' ? "{}" : "}", out);
}

void report_print_json(const struct report *report, const struct report_frame *frame, FILE *out)
{
    char from[PERIOD_TEXT_BYTES], until[PERIOD_TEXT_BYTES];

    (void)period_print_utc(frame->period.from_us, from);
    (void)period_print_utc(frame->period.until_us, until);
    (void)fprintf(out, "{\"period\":{\"from\":\"%s\",\"until\":\"%s\"},\"zone\":", from, until);
    print_json_text(frame->zone, out);
    (void)fputs(",\"lines\":[", out);
    for (size_t line = 0; line < report->line_count; line++) {
        (void)fputs(line > 0 ? ",\n" : "\n", out);
        print_json_cells(report, report->cells + line * report->column_count, true, out);
    }
    (void)fputs("],\n\"totals\":", out);
    print_json_cells(report, report->totals, false, out);
    (void)fputs("}\n", out);
}

/* ---- CSV ---- */

void report_print_csv(const struct report *report, FILE *out)
{
    char number[MONEY_TEXT_BYTES];

    for (uint32_t i = 0; i < report->column_count; i++) {
        (void)fputs(i > 0 ? "," : "", out);
        csv_print_text(out, span_of(report->columns[i].name));
    }
    (void)fputs(CSV_LINE_END, out);
    for (size_t line = 0; line < report->line_count; line++) {
        const struct report_cell *cells = report->cells + line * report->column_count;

        for (uint32_t i = 0; i < report->column_count; i++) {
            const enum report_kind kind = report->columns[i].kind;

            (void)fputs(i > 0 ? "," : "", out);
            if (cells[i].known && kind == REPORT_TEXT)
                csv_print_text(out, cells[i].text);
            else if (cells[i].known)
                csv_print_plain(out, (struct span){number, print_number(kind, &cells[i], number)});
        }
        (void)fputs(CSV_LINE_END, out);
    }
}
