/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/writer.c: see writer.h.
 *
 * For:       appending with one check at the end.
 * Called by: translate*.c, fault.c; those that hand them one: parcel.c, relay.c, reply.c.
 * Knows not: what is written. */
#include "gateway/writer.h"

void writer_put(struct writer *writer, struct span bytes)
{
    if (writer->err != OK)
        return;
    if (bytes.size > writer->most - writer->text.size)
        writer->err = ERR_TOO_LARGE;
    else if (!buffer_append(&writer->text, bytes))
        writer->err = ERR_NO_MEMORY;
}

void writer_number(struct writer *writer, int64_t number)
{
    char digits[21];
    size_t at = sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0)
        digits[--at] = '-';
    writer_put(writer, (struct span){digits + at, sizeof digits - at});
}

/* The two bytes that stand for a byte which may not stand in a string by itself; NULL: it takes six
 * or none. */
static const char *short_escape(unsigned char byte)
{
    switch (byte) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

static void put_escaped(struct writer *writer, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    const char *known = short_escape(byte);
    const char text[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
    writer_put(writer, known ? (struct span){known, 2} : (struct span){text, sizeof text});
}

void writer_text(struct writer *writer, struct span text)
{
    size_t from = 0;
    writer_literal(writer, "\"");
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char byte = (unsigned char)text.data[i];
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        writer_put(writer, (struct span){text.data + from, i - from});
        put_escaped(writer, byte);
        from = i + 1;
    }
    writer_put(writer, (struct span){text.size ? text.data + from : "", text.size - from});
    writer_literal(writer, "\"");
}

void writer_raw(struct writer *writer, struct span raw)
{
    writer_literal(writer, "\"");
    writer_put(writer, raw);
    writer_literal(writer, "\"");
}
