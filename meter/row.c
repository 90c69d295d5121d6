/* SPDX-License-Identifier: Apache-2.0 */
/* meter/row.c: an ended slot as one line of the journal.
 *
 * For:       one JSON object a line, compact, fields in a fixed order; absent = not known.
 * Called by: journal.c.
 * Knows not: files, threads, where slots live.
 *
 * Each put_ function writes at a cursor and returns where it ended; ROW_BYTES_MAX is the bound of
 * all of them together. Money is decimal text in picodollars: JSON numbers end at 2^53. */
#include "meter/row.h"

#include <string.h>

#include "config/base/api.h"
#include "config/base/log.h"

#define FLAGS_NAMED (FLAG_USAGE_SUSPECT | FLAG_CLAMPED | FLAG_TRANSLATED | FLAG_DECISION_CUT)

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";

static inline char *put_bytes(char *at, struct span text)
{
    memcpy(at, text.data, text.size);
    return at + text.size;
}

#define PUT(at, literal) put_bytes((at), SPAN(literal))

static char *put_unsigned(char *at, uint64_t value)
{
    char digits[20];
    size_t start = sizeof(digits);

    while (value >= 100) {
        start -= 2;
        memcpy(digits + start, digit_pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        start -= 2;
        memcpy(digits + start, digit_pairs + 2 * value, 2);
    } else {
        digits[--start] = (char)('0' + value);
    }
    memcpy(at, digits + start, sizeof(digits) - start);
    return at + (sizeof(digits) - start);
}

static char *put_signed(char *at, int64_t value)
{
    if (value >= 0)
        return put_unsigned(at, (uint64_t)value);
    *at++ = '-';
    return put_unsigned(at, 0 - (uint64_t)value);
}

static bool is_plain(struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            return false;
    }
    return true;
}

/* The inside of a JSON string. */
static char *put_escaped(char *at, struct span text)
{
    if (is_plain(text))
        return put_bytes(at, text);
    return at + log_escape(text, at, 6 * text.size);
}

/* name is the field with its comma and quotes: ,"tenant":" */
static char *put_text_if_known(char *at, struct span name, struct span text)
{
    if (text.size == 0)
        return at;
    at = put_bytes(at, name);
    at = put_escaped(at, text);
    *at++ = '"';
    return at;
}

/* name is the field with its comma: ,"input": */
static char *put_number(char *at, struct span name, int64_t value)
{
    return put_signed(put_bytes(at, name), value);
}

static char *put_number_if(bool known, char *at, struct span name, int64_t value)
{
    return known ? put_number(at, name, value) : at;
}

/* name is the field with its comma and quotes: ,"cost_pusd":" */
static char *put_money(char *at, struct span name, int64_t pusd)
{
    at = put_number(at, name, pusd);
    *at++ = '"';
    return at;
}

static char *put_usage(char *at, const struct usage *usage)
{
    at = put_number_if(usage->input >= 0, at, SPAN(",\"input\":"), usage->input);
    at = put_number_if(usage->cached_input >= 0, at, SPAN(",\"cached_input\":"),
                       usage->cached_input);
    at = put_number_if(usage->cache_write >= 0, at, SPAN(",\"cache_write\":"), usage->cache_write);
    at = put_number_if(usage->output >= 0, at, SPAN(",\"output\":"), usage->output);
    return put_number_if(usage->reasoning >= 0, at, SPAN(",\"reasoning\":"), usage->reasoning);
}

static struct span source_field(int64_t source)
{
    switch (source) {
    case SOURCE_REPORTED:
        return SPAN(",\"source\":\"reported\"");
    case SOURCE_RUNNING:
        return SPAN(",\"source\":\"running\"");
    case SOURCE_ESTIMATED:
        return SPAN(",\"source\":\"estimated\"");
    case SOURCE_CACHED:
        return SPAN(",\"source\":\"cached\"");
    default:
        return SPAN(",\"source\":\"none\"");
    }
}

static struct span outcome_field(uint8_t outcome)
{
    switch (outcome) {
    case OUTCOME_OK:
        return SPAN(",\"outcome\":\"ok\"");
    case OUTCOME_CLIENT_GONE:
        return SPAN(",\"outcome\":\"client_gone\"");
    case OUTCOME_TIMEOUT:
        return SPAN(",\"outcome\":\"timeout\"");
    case OUTCOME_REFUSED:
        return SPAN(",\"outcome\":\"refused\"");
    case OUTCOME_SHED:
        return SPAN(",\"outcome\":\"shed\"");
    default:
        return SPAN(",\"outcome\":\"replica_error\"");
    }
}

static char *put_endpoint(char *at, uint8_t endpoint)
{
    if (endpoint == ENDPOINT_NONE || endpoint >= ENDPOINT_COUNT)
        return at;
    at = PUT(at, ",\"endpoint\":\"");
    at = put_bytes(at, endpoint_row((enum endpoint)endpoint)->name);
    return PUT(at, "\"");
}

static char *put_flags(char *at, uint32_t flags)
{
    static const struct {
        uint32_t flag;
        struct span text;
    } names[] = {
        {FLAG_USAGE_SUSPECT, {",\"usage_suspect\"", 16}},
        {FLAG_CLAMPED, {",\"clamped\"", 10}},
        {FLAG_TRANSLATED, {",\"translated\"", 13}},
        {FLAG_DECISION_CUT, {",\"decision_cut\"", 15}},
    };
    char *start;

    if ((flags & FLAGS_NAMED) == 0)
        return at;
    at = PUT(at, ",\"flags\":");
    start = at;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (flags & names[i].flag)
            at = put_bytes(at, names[i].text);
    }
    *start = '['; /* in place of the first comma */
    return PUT(at, "]");
}

static struct span padded_text(const char *field, size_t size)
{
    return (struct span){field, strnlen(field, size)};
}

static char *put_wastes(char *at, const struct slot *slot)
{
    uint32_t wastes = atomic_load_explicit(&slot->wastes, memory_order_acquire);

    if (wastes == 0)
        return at;
    at = PUT(at, ",\"wasted\":[");
    for (uint32_t i = 0; i < wastes; i++) {
        const struct slot_waste *waste = &slot->waste[i];
        at = i > 0 ? PUT(at, ",{\"replica\":\"") : PUT(at, "{\"replica\":\"");
        at = put_escaped(at, padded_text(waste->replica, sizeof(waste->replica)));
        at = PUT(at, "\",\"cause\":\"");
        at = put_escaped(at, padded_text(waste->cause, sizeof(waste->cause)));
        at = PUT(at, "\"");
        at = put_usage(at, &waste->usage);
        at = PUT(at, "}");
    }
    return PUT(at, "]");
}

static char *put_prices(char *at, const struct price *price)
{
    at = put_number(at, SPAN(",\"prices\":{\"from\":"), price->from_us);
    at = put_money(at, SPAN(",\"input\":\""), price->input);
    at = put_money(at, SPAN(",\"cached_input\":\""), price->cached_input);
    at = put_money(at, SPAN(",\"cache_write\":\""), price->cache_write);
    at = put_money(at, SPAN(",\"output\":\""), price->output);
    at = put_money(at, SPAN(",\"reasoning\":\""), price->reasoning);
    return PUT(at, "}");
}

/* Who asked for what, as known at admission. */
static char *put_opening(char *at, const struct slot *slot)
{
    struct span tags = inflight_opening_text(slot, OPENING_TAGS);

    at = put_text_if_known(at, SPAN(",\"exchange_id\":\""),
                           inflight_opening_text(slot, OPENING_EXCHANGE_ID));
    at = put_text_if_known(at, SPAN(",\"request_id\":\""),
                           inflight_opening_text(slot, OPENING_REQUEST_ID));
    at = put_text_if_known(at, SPAN(",\"trace_id\":\""),
                           inflight_opening_text(slot, OPENING_TRACE_ID));
    at = put_text_if_known(at, SPAN(",\"tenant\":\""), inflight_opening_text(slot, OPENING_TENANT));
    at = put_text_if_known(at, SPAN(",\"key\":\""), inflight_opening_text(slot, OPENING_KEY));
    if (tags.size > 0)
        at = put_bytes(PUT(at, ",\"tags\":"), tags);
    at = put_endpoint(at, slot->endpoint);
    at = put_text_if_known(at, SPAN(",\"class\":\""), inflight_opening_text(slot, OPENING_CLASS));
    at = slot->stream ? PUT(at, ",\"stream\":true") : PUT(at, ",\"stream\":false");
    return put_text_if_known(at, SPAN(",\"model_asked\":\""),
                             inflight_opening_text(slot, OPENING_MODEL_ASKED));
}

/* When things happened, and how much passed. */
static char *put_times_and_bytes(char *at, const struct slot *slot, int64_t bytes_out)
{
    at = put_number(at, SPAN(",\"admitted_us\":"), slot->admitted_us);
    at = put_number_if(slot->attempts > 0 || slot->queue_us > 0, at, SPAN(",\"queue_us\":"),
                       slot->queue_us);
    at = put_number_if(slot->sent_us != 0, at, SPAN(",\"sent_us\":"), slot->sent_us);
    at = put_number_if(slot->first_token_us != 0, at, SPAN(",\"first_token_us\":"),
                       slot->first_token_us);
    at = put_number(at, SPAN(",\"ended_us\":"), slot->ended_us);
    at = put_number(at, SPAN(",\"bytes_in\":"), slot->bytes_in);
    return put_number(at, SPAN(",\"bytes_out\":"), bytes_out);
}

void row_author_init(struct row_author *author, struct span gateway, uint64_t epoch)
{
    char *at = author->start;

    at = PUT(at, "{\"v\":1,\"gateway\":\"");
    at = put_escaped(at, gateway);
    at = PUT(at, "\",\"epoch\":");
    at = put_unsigned(at, epoch);
    at = PUT(at, ",\"seq\":");
    author->start_bytes = (size_t)(at - author->start);
}

size_t row_render(const struct row_author *author, const struct slot *slot, uint64_t seq, char *out)
{
    const struct slot_running *running = inflight_running(slot);
    char *at = out;

    at = put_bytes(at, (struct span){author->start, author->start_bytes});
    at = put_unsigned(at, seq);
    at = PUT(at, ",\"kind\":\"call\"");
    at = put_opening(at, slot);
    at = put_text_if_known(at, SPAN(",\"model\":\""), inflight_route_text(slot, ROUTE_MODEL));
    at = put_text_if_known(at, SPAN(",\"replica\":\""), inflight_route_text(slot, ROUTE_REPLICA));
    at = put_number(at, SPAN(",\"attempts\":"), slot->attempts);
    at = put_usage(at, &running->usage);
    at = put_bytes(at, source_field(running->source));
    at = put_flags(at, atomic_load_explicit(&slot->flags, memory_order_relaxed));
    at = put_wastes(at, slot);
    at = put_bytes(at, outcome_field(slot->outcome));
    at = put_number_if(slot->status != 0, at, SPAN(",\"status\":"), slot->status);
    at = slot->billable ? PUT(at, ",\"billable\":true") : PUT(at, ",\"billable\":false");
    if (slot->price_known)
        at = put_prices(at, &slot->price);
    at = put_money(at, SPAN(",\"cost_pusd\":\""), slot->cost_pusd);
    at = put_times_and_bytes(at, slot, running->bytes_out);
    at = put_text_if_known(at, SPAN(",\"why\":\""), inflight_route_text(slot, ROUTE_WHY));
    at = PUT(at, "}\n");
    return (size_t)(at - out);
}
