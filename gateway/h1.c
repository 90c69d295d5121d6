/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/h1.c: HTTP/1.1 heads and bodies, both sides.
 *
 * For:       one strict reading of each message, so that nobody behind us can read it another way.
 * Called by: conn.c (requests), replica.c and scrape.c (answers).
 * Knows not: sockets, exchanges, what a field means to us beyond framing.
 *
 * Refused, never repaired (RFC 9112 and the findings on request smuggling):
 *  - bare CR or LF, NUL and other control bytes, line folding, white space before the colon, empty
 *    names and names that are no token; more than one empty line before the head;
 *  - a version other than exactly HTTP/1.0 or HTTP/1.1, more than one space between the parts;
 *  - Content-Length with Transfer-Encoding; either of them twice; a length that is not 1 to 19
 *    digits; a coding other than exactly "chunked", or any on HTTP/1.0;
 *  - Host missing (HTTP/1.1), twice, or not host[:port]; an absolute form that names another host;
 *  - chunk sizes with sign, 0x, space or over 16 digits; data not followed by CRLF; extensions with
 *    control bytes or over 1 KiB in all; trailers that are not fields;
 *  - answers: 101; a body announced for 1xx or 204.
 * White space around a value is SP and tab alone. Bytes of 0x80 and more, which some readers trim
 * and others decode, make a request bad; in an answer they belong to the value. */
#include "gateway/h1.h"

#include "gateway/bytes.h"

#define EXTENSION_BYTES_MAX 1024
#define TRAILER_BYTES_MAX 8192
#define CHUNK_DIGITS_MAX 16
#define FIELD_OVERHEAD_BYTES 32

/* What a reader of a part of the head found. */
enum part { PART_MORE, PART_OK, PART_BAD, PART_LARGE };

/* Fields that decide framing and standing, gathered while all fields are read. */
struct notes {
    uint32_t lengths, codings, hosts, expects;
    struct span length, coding, host, expect; /* the last of each */
};

#define TOKEN 1  /* RFC 9110, section 5.6.2 */
#define TARGET 2 /* visible ASCII but #, which no request target has */
#define HOST 4   /* names and IPv4 addresses */

/* clang-format off */
static const uint8_t char_class[256] = {
    ['!'] = TOKEN | TARGET,           ['"'] = TARGET,
    ['#'] = TOKEN,                    ['$' ... '\''] = TOKEN | TARGET,
    ['(' ... ')'] = TARGET,           ['*' ... '+'] = TOKEN | TARGET,
    [','] = TARGET,                   ['-' ... '.'] = TOKEN | TARGET | HOST,
    ['/'] = TARGET,                   ['0' ... '9'] = TOKEN | TARGET | HOST,
    [':' ... '@'] = TARGET,           ['A' ... 'Z'] = TOKEN | TARGET | HOST,
    ['[' ... ']'] = TARGET,           ['^'] = TOKEN | TARGET,
    ['_'] = TOKEN | TARGET | HOST,    ['`'] = TOKEN | TARGET,
    ['a' ... 'z'] = TOKEN | TARGET | HOST,
    ['{'] = TARGET,                   ['|'] = TOKEN | TARGET,
    ['}'] = TARGET,                   ['~'] = TOKEN | TARGET | HOST,
};
/* clang-format on */

static bool is_class(char c, unsigned class)
{
    return (char_class[(unsigned char)c] & class) != 0;
}

/* Equal to a lower-case name of letters and hyphens? Only for tokens: there, setting bit 5 maps
 * nothing but the two cases of a letter to a lower-case letter, and nothing but a hyphen to one. */
static bool token_is(struct span token, const char *lower)
{
    for (size_t i = 0; i < token.size; i++)
        if ((token.data[i] | 0x20) != lower[i])
            return false;
    return true;
}

static struct span trim(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct span){at, (size_t)(end - at)};
}

/* ---- fields ---- */

/* Keeps what framing needs of a field. */
static void note_field(struct h1_head *head, struct notes *notes, const struct h1_field *field)
{
    switch (field->name.size) {
    case 4:
        if (token_is(field->name, "host")) {
            notes->hosts++;
            notes->host = field->value;
        }
        break;
    case 6:
        if (token_is(field->name, "expect")) {
            notes->expects++;
            notes->expect = field->value;
        }
        break;
    case 10:
        if (token_is(field->name, "connection")) {
            head->connection_count++;
            head->connection = field->value;
        }
        break;
    case 14:
        if (token_is(field->name, "content-length")) {
            notes->lengths++;
            notes->length = field->value;
        }
        break;
    case 17:
        if (token_is(field->name, "transfer-encoding")) {
            notes->codings++;
            notes->coding = field->value;
        }
        break;
    default:
        break;
    }
}

/* Moves *at behind a line's text, which may hold anything but control bytes, and behind its CRLF.
 * *out_end is the end of the text. */
static enum part read_line_text(const char **at, const char *end, const char **out_end)
{
    const char *stop = *at;

    for (;;) {
        stop = bytes_find_control(stop, end);
        if (stop == end)
            return PART_MORE;
        if (*stop != '\t')
            break;
        stop++;
    }
    if (*stop != '\r')
        return PART_BAD;
    if (end - stop < 2)
        return PART_MORE;
    if (stop[1] != '\n')
        return PART_BAD;
    *out_end = stop;
    *at = stop + 2;
    return PART_OK;
}

/* Reads all fields and the empty line behind them. */
static bool is_ascii(struct span text)
{
    unsigned char all = 0;

    for (size_t i = 0; i < text.size; i++)
        all |= (unsigned char)text.data[i];
    return all < 0x80;
}

static enum part read_fields(const char **from, const char *end, uint32_t fields_max,
                             bool ascii_only, struct h1_head *head, struct notes *notes)
{
    const char *at = *from;

    for (;;) {
        if (end - at < 2)
            return PART_MORE;
        if (*at == '\r') {
            *from = at + 2;
            return at[1] == '\n' ? PART_OK : PART_BAD;
        }

        const char *name = at;

        while (at < end && is_class(*at, TOKEN))
            at++;
        if (at == end)
            return PART_MORE;
        if (*at != ':' || at == name)
            return PART_BAD;
        if (head->field_count >= fields_max)
            return PART_LARGE;

        struct h1_field *field = &head->fields[head->field_count];
        const char *value = ++at;
        const char *value_end;
        const enum part part = read_line_text(&at, end, &value_end);

        if (part != PART_OK)
            return part;
        field->name = (struct span){name, (size_t)(value - 1 - name)};
        field->value = trim(value, value_end);
        if (ascii_only && !is_ascii(field->value))
            return PART_BAD;
        head->field_count++;
        note_field(head, notes, field);
    }
}

/* Does the pattern stand at `at`? In it x is 0 or 1 and n a digit. A mismatch is told before all of
 * it is there. */
static enum part match(const char *at, const char *end, const char *pattern)
{
    for (; *pattern != '\0'; at++, pattern++) {
        if (at == end)
            return PART_MORE;
        if (*pattern == 'x' || *pattern == 'n') {
            if (*at < '0' || *at > (*pattern == 'x' ? '1' : '9'))
                return PART_BAD;
        } else if (*at != *pattern) {
            return PART_BAD;
        }
    }
    return PART_OK;
}

/* Takes the next member of a comma-separated list from the front of *list. */
static bool next_in_list(struct span *list, struct span *out_member)
{
    if (list->size == 0)
        return false;

    const char *end = list->data + list->size;
    const char *comma = memchr(list->data, ',', list->size);
    const char *stop = comma != NULL ? comma : end;

    *out_member = trim(list->data, stop);
    *list = comma != NULL ? (struct span){comma + 1, (size_t)(end - comma - 1)}
                          : (struct span){NULL, 0};
    return true;
}

/* Does a Connection field of this head have the member? */
static bool connection_names(const struct h1_head *head, struct span member)
{
    if (head->connection_count == 0)
        return false;
    for (uint32_t i = 0; i < head->field_count; i++) {
        struct span list = head->connection;
        struct span one;

        if (head->connection_count > 1) {
            if (!span_equal_nocase(head->fields[i].name, SPAN("connection")))
                continue;
            list = head->fields[i].value;
        }
        while (next_in_list(&list, &one))
            if (span_equal_nocase(one, member))
                return true;
        if (head->connection_count == 1)
            break;
    }
    return false;
}

/* Sets framing and length by the fields; false: they contradict the rules or each other. */
static bool decide_framing(struct h1_head *head, const struct notes *notes,
                           enum h1_framing otherwise)
{
    int64_t length;

    head->framing = otherwise;
    head->content_length = 0;
    if (notes->codings > 0) {
        head->framing = H1_CHUNKED;
        return notes->codings == 1 && notes->lengths == 0 && head->minor == 1 &&
               span_equal_nocase(notes->coding, SPAN("chunked"));
    }
    if (notes->lengths > 0) {
        if (notes->lengths > 1 || !span_to_int64(notes->length, &length))
            return false;
        head->framing = H1_LENGTH;
        head->content_length = (uint64_t)length;
    }
    return true;
}

/* Keep-alive by version and Connection; "close" wins. */
static void decide_keep_alive(struct h1_head *head)
{
    head->keep_alive = head->minor == 1;
    if (head->connection_count == 0)
        return;
    if (head->minor == 0)
        head->keep_alive = connection_names(head, SPAN("keep-alive"));
    if (connection_names(head, SPAN("close")))
        head->keep_alive = false;
    if (head->connection_count > 1)
        head->connection = (struct span){NULL, 0};
}

static void head_init(struct h1_head *head)
{
    head->method = head->target = head->connection = (struct span){NULL, 0};
    head->status = head->minor = 0;
    head->connection_count = head->field_count = 0;
    head->keep_alive = head->expect_continue = false;
}

/* ---- requests ---- */

/* One or more digits up to 65535. */
static bool port_is_valid(const char *at, const char *end)
{
    uint32_t port = 0;

    if (at == end || end - at > 5)
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        port = port * 10 + (uint32_t)(*at - '0');
    }
    return port <= 65535;
}

/* host[:port], the host a name, an IPv4 address or an IPv6 address in brackets. Names with escapes
 * or with marks that some parsers cut at are refused. */
static bool host_is_valid(struct span host)
{
    const char *at = host.data;
    const char *end = host.data + host.size;

    if (host.size == 0)
        return false;
    if (*at == '[') {
        const char *inside = ++at;

        while (at < end && ((*at >= '0' && *at <= ':') || *at == '.' ||
                            ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'f')))
            at++;
        if (at == end || *at != ']' || at - inside < 2)
            return false;
        at++;
    } else {
        while (at < end && is_class(*at, HOST))
            at++;
        if (at == host.data)
            return false;
    }
    return at == end || (*at == ':' && port_is_valid(at + 1, end));
}

/* Method, target and version. A target that is cut off by anything but a space is bad. */
static enum part read_request_line(const char **from, const char *end, struct h1_head *head)
{
    const char *at = *from;

    while (at < end && is_class(*at, TOKEN))
        at++;
    if (at == end)
        return PART_MORE;
    if (*at != ' ' || at == *from)
        return PART_BAD;
    head->method = (struct span){*from, (size_t)(at - *from)};

    const char *target = ++at;

    while (at < end && is_class(*at, TARGET))
        at++;
    if (at == end)
        return PART_MORE;
    if (*at != ' ' || at == target)
        return PART_BAD;
    head->target = (struct span){target, (size_t)(at - target)};

    const enum part version = match(++at, end, "HTTP/1.x\r\n");

    if (version != PART_OK)
        return version;
    head->minor = at[7] - '0';
    *from = at + 10;
    return PART_OK;
}

/* Reduces an absolute form to its path; its authority must be what Host says. */
static bool reduce_absolute_form(struct h1_head *head, const struct notes *notes)
{
    const struct span target = head->target;
    struct span rest;

    if (target.size > 7 && span_equal_nocase((struct span){target.data, 7}, SPAN("http://")))
        rest = span_from(target, 7);
    else if (target.size > 8 && span_equal_nocase((struct span){target.data, 8}, SPAN("https://")))
        rest = span_from(target, 8);
    else
        return false;

    const char *slash = memchr(rest.data, '/', rest.size);
    struct span authority = rest;

    if (slash != NULL)
        authority.size = (size_t)(slash - rest.data);
    if (!host_is_valid(authority) ||
        (notes->hosts > 0 && !span_equal_nocase(authority, notes->host)))
        return false;
    head->target = slash != NULL ? span_from(rest, authority.size) : SPAN("/");
    return true;
}

static bool target_is_valid(struct h1_head *head, const struct notes *notes)
{
    if (head->target.data[0] == '/')
        return true;
    if (span_equal(head->target, SPAN("*")))
        return span_equal(head->method, SPAN("OPTIONS"));
    return reduce_absolute_form(head, notes);
}

/* What must hold between the parts of a whole request head. */
static enum err judge_request(struct h1_head *head, const struct notes *notes)
{
    if (notes->hosts > 1 || (notes->hosts == 0 && head->minor == 1) ||
        (notes->hosts == 1 && !host_is_valid(notes->host)))
        return ERR_BAD_HTTP;
    if (!decide_framing(head, notes, H1_NO_BODY))
        return ERR_BAD_HTTP;
    decide_keep_alive(head);
    if (span_equal(head->method, SPAN("CONNECT")))
        return ERR_NO_METHOD;
    if (!target_is_valid(head, notes))
        return ERR_BAD_HTTP;
    if (notes->expects > 0) {
        if (notes->expects > 1 || !span_equal_nocase(notes->expect, SPAN("100-continue")))
            return ERR_EXPECTATION;
        head->expect_continue = head->minor == 1; /* RFC 9110, section 10.1.1 */
    }
    return OK;
}

/* Passes the one empty line that may stand before a request (RFC 9112, section 2.2). */
static enum part skip_empty_line(const char **at, const char *end)
{
    if (*at == end)
        return PART_MORE;
    if (**at != '\r')
        return PART_OK;
    if (end - *at < 2)
        return PART_MORE;
    if ((*at)[1] != '\n')
        return PART_BAD;
    *at += 2;
    return *at == end ? PART_MORE : PART_OK;
}

/* ---- the search for a head's end ---- */

/* Looks at the bytes from *scanned on. PART_OK: the head is whole; PART_BAD: a bare LF. */
static enum part search_end(struct span bytes, size_t *scanned)
{
    const char *end = bytes.data + bytes.size;
    const char *at = bytes.data + *scanned;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (at == bytes.data || at[-1] != '\r')
            return PART_BAD;
        if (at - bytes.data >= 3 && at[-2] == '\n') {
            *scanned = (size_t)(at - bytes.data);
            return PART_OK;
        }
        at++;
    }
    *scanned = bytes.size;
    return PART_MORE;
}

/* Judges the limits of a head that is not whole yet. */
static enum h1_result wait_for_more(struct span bytes, const struct h1_limits *limits,
                                    size_t *scanned, enum err *out_err)
{
    const size_t lead = bytes.size > 0 && bytes.data[0] == '\r' ? 2 : 0;
    const size_t line_max = lead + limits->line_bytes + 2;

    if (search_end(bytes, scanned) == PART_BAD) {
        *out_err = ERR_BAD_HTTP;
        return H1_BAD;
    }
    if (bytes.size > line_max && memchr(bytes.data + lead, '\n', line_max - lead) == NULL) {
        *out_err = ERR_PATH_TOO_LONG;
        return H1_BAD;
    }
    if (bytes.size > limits->header_bytes) {
        *out_err = ERR_HEADERS_TOO_LARGE;
        return H1_BAD;
    }
    return H1_MORE;
}

static uint32_t fields_max(const struct h1_limits *limits)
{
    return limits->fields < H1_FIELDS_MAX ? limits->fields : H1_FIELDS_MAX;
}

static bool head_too_large(const struct h1_head *head, size_t size, const struct h1_limits *limits)
{
    return size + (size_t)head->field_count * FIELD_OVERHEAD_BYTES > limits->header_bytes;
}

enum h1_result h1_parse_request(struct span bytes, const struct h1_limits *limits, size_t *scanned,
                                struct h1_head *out_head, size_t *out_size, enum err *out_err)
{
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.size;
    struct notes notes = {0};
    enum part part;

    if (bytes.size == 0)
        return H1_MORE;
    /* The common head comes in one piece and is parsed at once; one that did not is only searched
     * for its end until that is there. */
    if (*scanned > 0 && search_end(bytes, scanned) != PART_OK)
        return wait_for_more(bytes, limits, scanned, out_err);

    head_init(out_head);
    part = skip_empty_line(&at, end);
    if (part == PART_OK) {
        const char *line = at;

        part = read_request_line(&at, end, out_head);
        if (part == PART_OK && (size_t)(at - line) > limits->line_bytes + 2) {
            *out_err = ERR_PATH_TOO_LONG;
            return H1_BAD;
        }
    }
    if (part == PART_OK)
        part = read_fields(&at, end, fields_max(limits), true, out_head, &notes);
    if (part == PART_MORE)
        return wait_for_more(bytes, limits, scanned, out_err);
    if (part == PART_BAD) {
        *out_err = ERR_BAD_HTTP;
        return H1_BAD;
    }
    if (part == PART_LARGE || head_too_large(out_head, (size_t)(at - bytes.data), limits)) {
        *out_err = ERR_HEADERS_TOO_LARGE;
        return H1_BAD;
    }

    const enum err err = judge_request(out_head, &notes);

    if (err != OK) {
        *out_err = err;
        return H1_BAD;
    }
    *out_size = (size_t)(at - bytes.data);
    *scanned = 0;
    return H1_DONE;
}

/* ---- answers ---- */

/* "HTTP/1.x NNN reason"; the reason, with the space before it, may be missing. */
static enum part read_status_line(const char **from, const char *end, struct h1_head *head)
{
    const char *at = *from;
    const enum part start = match(at, end, "HTTP/1.x nnn");
    const char *text_end;

    if (start != PART_OK)
        return start;
    head->minor = at[7] - '0';
    head->status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
    at += 12;
    if (head->status < 100 || head->status > 599 || (at < end && *at != ' ' && *at != '\r'))
        return PART_BAD;
    *from = at;
    return read_line_text(from, end, &text_end);
}

/* Framing of a whole answer's head (RFC 9112, section 6.3). */
static bool judge_response(struct h1_head *head, const struct notes *notes, struct span method)
{
    const bool no_body_status = head->status < 200 || head->status == 204;

    if (head->status == 101 || !decide_framing(head, notes, H1_UNTIL_CLOSE))
        return false;
    if (no_body_status && (head->framing == H1_CHUNKED || head->content_length > 0))
        return false;
    if (no_body_status || head->status == 304 || span_equal(method, SPAN("HEAD")))
        head->framing = H1_NO_BODY;
    decide_keep_alive(head);
    if (head->framing == H1_UNTIL_CLOSE)
        head->keep_alive = false;
    return true;
}

enum h1_result h1_parse_response(struct span bytes, const struct h1_limits *limits,
                                 struct span method, size_t *scanned, struct h1_head *out_head,
                                 size_t *out_size, enum err *out_err)
{
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.size;
    struct notes notes = {0};
    enum part part = PART_MORE;
    enum h1_result waiting;

    if (bytes.size == 0)
        return H1_MORE;
    if (*scanned == 0 || search_end(bytes, scanned) == PART_OK) {
        head_init(out_head);
        part = read_status_line(&at, end, out_head);
        if (part == PART_OK && (size_t)(at - bytes.data) > limits->line_bytes + 2)
            part = PART_LARGE;
        if (part == PART_OK)
            part = read_fields(&at, end, fields_max(limits), false, out_head, &notes);
    }
    if (part == PART_MORE) {
        waiting = wait_for_more(bytes, limits, scanned, out_err);
        if (waiting == H1_BAD)
            *out_err = ERR_REPLICA_PROTOCOL;
        return waiting;
    }
    if (part != PART_OK || head_too_large(out_head, (size_t)(at - bytes.data), limits) ||
        !judge_response(out_head, &notes, method)) {
        *out_err = ERR_REPLICA_PROTOCOL;
        return H1_BAD;
    }
    *out_size = (size_t)(at - bytes.data);
    *scanned = 0;
    return H1_DONE;
}

/* ---- hop by hop ---- */

bool h1_is_hop_by_hop(const struct h1_head *head, struct span name)
{
    static const struct span between_neighbours[] = {
        SPAN("te"),
        SPAN("trailer"),
        SPAN("upgrade"),
        SPAN("connection"),
        SPAN("keep-alive"),
        SPAN("http2-settings"),
        SPAN("proxy-connection"),
        SPAN("transfer-encoding"),
        SPAN("proxy-authenticate"),
        SPAN("proxy-authorization"),
    };

    for (size_t i = 0; i < sizeof(between_neighbours) / sizeof(between_neighbours[0]); i++)
        if (span_equal_nocase(name, between_neighbours[i]))
            return true;
    return connection_names(head, name);
}

/* ---- bodies ---- */

/* Where the chunked reader stands. Each state is left by the byte, or bytes, that it waits for. */
enum chunk_state {
    CHUNK_SIZE,         /* hex digits, then ; or CR */
    CHUNK_EXTENSION,    /* text, then CR */
    CHUNK_SIZE_LF,      /* LF: to DATA, or to TRAILER_LINE when the size was 0 */
    CHUNK_DATA,         /* body->left bytes */
    CHUNK_DATA_CR,      /* CR */
    CHUNK_DATA_LF,      /* LF: to SIZE */
    CHUNK_TRAILER_LINE, /* CR: to END_LF; the first byte of a name: to TRAILER_NAME */
    CHUNK_TRAILER_NAME, /* token bytes, then a colon */
    CHUNK_TRAILER_TEXT, /* text, then CR */
    CHUNK_TRAILER_LF,   /* LF: to TRAILER_LINE */
    CHUNK_END_LF,       /* LF: to END */
    CHUNK_END,          /* final */
    CHUNK_BAD           /* final */
};

void h1_body_init(struct h1_body *body, enum h1_framing framing, uint64_t content_length)
{
    *body = (struct h1_body){
        .framing = framing,
        .state = CHUNK_SIZE,
        .left = framing == H1_LENGTH ? content_length : 0,
    };
}

/* Takes at most body->left bytes as data. */
static enum h1_piece take_data(struct h1_body *body, struct span *bytes, struct span *out_data)
{
    const size_t size = bytes->size < body->left ? bytes->size : (size_t)body->left;

    if (size == 0)
        return H1_PIECE_MORE;
    *out_data = (struct span){bytes->data, size};
    *bytes = span_from(*bytes, size);
    body->left -= size;
    return H1_PIECE_DATA;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_text(char c)
{
    return (c >= 0x20 && c < 0x7f) || c == '\t';
}

/* One byte of a chunk's size line. */
static enum chunk_state step_size(struct h1_body *body, char c)
{
    const int value = body->state == CHUNK_SIZE ? hex_value(c) : -1;

    if (value >= 0) {
        if (body->digits == CHUNK_DIGITS_MAX)
            return CHUNK_BAD;
        body->digits++;
        body->left = body->left << 4 | (uint64_t)value;
        return CHUNK_SIZE;
    }
    if (body->digits == 0)
        return CHUNK_BAD;
    if (c == '\r')
        return CHUNK_SIZE_LF;
    if (body->state == CHUNK_SIZE ? c != ';' : !is_text(c))
        return CHUNK_BAD;
    if (++body->extension_bytes > EXTENSION_BYTES_MAX)
        return CHUNK_BAD;
    return CHUNK_EXTENSION;
}

/* One byte of the trailer section. */
static enum chunk_state step_trailer(struct h1_body *body, char c)
{
    if (++body->trailer_bytes > TRAILER_BYTES_MAX)
        return CHUNK_BAD;
    switch (body->state) {
    case CHUNK_TRAILER_LINE:
        if (c == '\r')
            return CHUNK_END_LF;
        return is_class(c, TOKEN) ? CHUNK_TRAILER_NAME : CHUNK_BAD;
    case CHUNK_TRAILER_NAME:
        if (c == ':')
            return CHUNK_TRAILER_TEXT;
        return is_class(c, TOKEN) ? CHUNK_TRAILER_NAME : CHUNK_BAD;
    case CHUNK_TRAILER_TEXT:
        if (c == '\r')
            return CHUNK_TRAILER_LF;
        return is_text(c) || (unsigned char)c >= 0x80 ? CHUNK_TRAILER_TEXT : CHUNK_BAD;
    case CHUNK_TRAILER_LF:
        return c == '\n' ? CHUNK_TRAILER_LINE : CHUNK_BAD;
    default:
        return c == '\n' ? CHUNK_END : CHUNK_BAD;
    }
}

/* One byte of framing, in any state but DATA, END and BAD. */
static enum chunk_state step_chunked(struct h1_body *body, char c)
{
    switch (body->state) {
    case CHUNK_SIZE:
    case CHUNK_EXTENSION:
        return step_size(body, c);
    case CHUNK_SIZE_LF:
        if (c != '\n')
            return CHUNK_BAD;
        body->digits = 0;
        return body->left > 0 ? CHUNK_DATA : CHUNK_TRAILER_LINE;
    case CHUNK_DATA_CR:
        return c == '\r' ? CHUNK_DATA_LF : CHUNK_BAD;
    case CHUNK_DATA_LF:
        return c == '\n' ? CHUNK_SIZE : CHUNK_BAD;
    default:
        return step_trailer(body, c);
    }
}

static enum h1_piece next_chunked(struct h1_body *body, struct span *bytes, struct span *out_data)
{
    enum h1_piece piece;

    for (;;) {
        switch (body->state) {
        case CHUNK_END:
            return H1_PIECE_END;
        case CHUNK_BAD:
            return H1_PIECE_BAD;
        case CHUNK_DATA:
            piece = take_data(body, bytes, out_data);
            if (body->left == 0)
                body->state = CHUNK_DATA_CR;
            return piece;
        default:
            if (bytes->size == 0)
                return H1_PIECE_MORE;
            body->state = (uint8_t)step_chunked(body, bytes->data[0]);
            *bytes = span_from(*bytes, 1);
            break;
        }
    }
}

enum h1_piece h1_body_next(struct h1_body *body, struct span *bytes, struct span *out_data)
{
    switch (body->framing) {
    case H1_NO_BODY:
        return H1_PIECE_END;
    case H1_LENGTH:
        return body->left == 0 ? H1_PIECE_END : take_data(body, bytes, out_data);
    case H1_CHUNKED:
        return next_chunked(body, bytes, out_data);
    case H1_UNTIL_CLOSE:
        body->left = UINT64_MAX;
        return take_data(body, bytes, out_data);
    }
    return H1_PIECE_BAD;
}
