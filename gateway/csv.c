/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/csv.c: cells of comma-separated values.
 *
 * For:       what csv.h says.
 * Called by: report.c, focus.c.
 * Knows not: lines and columns. */
#include "gateway/csv.h"

/* What a cell cannot hold without quotes. A NUL would end the text for most readers. */
static bool needs_quotes(struct span text)
{
    for (size_t i = 0; i < text.size; i++)
        if (memchr("\",\r\n", text.data[i], 4) != NULL)
            return true;
    return text.size > 0 && (text.data[0] == ' ' || text.data[text.size - 1] == ' ');
}

static void print_cell(FILE *out, const char *before, struct span text)
{
    const bool quoted = needs_quotes(text);

    (void)fputs(quoted ? "\"" : "", out);
    (void)fputs(before, out);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '"')
            (void)fputc('"', out);
        if (text.data[i] != '\0')
            (void)fputc((unsigned char)text.data[i], out);
    }
    (void)fputs(quoted ? "\"" : "", out);
}

void csv_print_text(FILE *out, struct span text)
{
    const bool formula = text.size > 0 && memchr("=+-@\t\r", text.data[0], 6) != NULL;

    print_cell(out, formula ? "'" : "", text);
}

void csv_print_plain(FILE *out, struct span text)
{
    print_cell(out, "", text);
}
