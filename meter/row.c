/* SPDX-License-Identifier: Apache-2.0 */
/* meter/row.c: the lines of the journal, written.
 *
 * For:       one JSON object a line, compact, fields in a fixed order; absent = not known.
 * Called by: scribe.c, adjust.c; keeper.c for anchors.
 * Knows not: files, threads, where slots live, who signs.
 *
 * What is nearly always the same is said only when it is not (docs/journal.md): most of a row's
 * cost is its bytes, which are digested, written, synced and read again.
 *
 * Each put_ function writes at a cursor and returns where it ended; ROW_BYTES_MAX is the bound of
 * all of them together. Money is decimal text in picodollars: JSON numbers end at 2^53. */
#include "meter/row.h"

#include <string.h>

#include "config/base/api.h"
#include "config/base/hash.h"
#include "config/base/log.h"
#include "meter/price.h"

#define FLAGS_NAMED (FLAG_USAGE_SUSPECT | FLAG_CLAMPED | FLAG_TRANSLATED | FLAG_DECISION_CUT)

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";

/* Names of fields are literals: inlined, their copies are a few stores and no calls. */
#define INLINE static inline __attribute__((always_inline))

INLINE char *put_bytes(char *at, struct span text)
{
    memcpy(at, text.data, text.size);
    return at + text.size;
}

#define PUT(at, literal) put_bytes((at), SPAN(literal))

#define HUNDRED_MILLION UINT64_C(100000000)

static inline void put_pair(char *at, uint32_t value)
{
    memcpy(at, digit_pairs + 2 * value, 2);
}

/* Eight digits, whatever they are: four pairs that do not wait for each other. */
static inline char *put_eight(char *at, uint32_t value)
{
    const uint32_t high = value / 10000, low = value % 10000;

    put_pair(at, high / 100);
    put_pair(at + 2, high % 100);
    put_pair(at + 4, low / 100);
    put_pair(at + 6, low % 100);
    return at + 8;
}

/* value: below a hundred million. */
static inline char *put_small(char *at, uint32_t value)
{
    char *const end = at + 1 + (value >= 10) + (value >= 100) + (value >= 1000) + (value >= 10000) +
                      (value >= 100000) + (value >= 1000000) + (value >= 10000000);
    char *start = end;

    for (; value >= 100; value /= 100) {
        start -= 2;
        put_pair(start, value % 100);
    }
    if (value >= 10)
        put_pair(start - 2, value);
    else
        start[-1] = (char)('0' + value);
    return end;
}

static char *put_unsigned(char *at, uint64_t value)
{
    const uint64_t high = value / HUNDRED_MILLION;
    const uint32_t low = (uint32_t)(value % HUNDRED_MILLION);

    if (high == 0)
        return put_small(at, low);
    if (high < HUNDRED_MILLION)
        return put_eight(put_small(at, (uint32_t)high), low);
    at = put_small(at, (uint32_t)(high / HUNDRED_MILLION));
    return put_eight(put_eight(at, (uint32_t)(high % HUNDRED_MILLION)), low);
}

static char *put_signed(char *at, int64_t value)
{
    if (value >= 0)
        return put_unsigned(at, (uint64_t)value);
    *at++ = '-';
    return put_unsigned(at, 0 - (uint64_t)value);
}

/* No byte of it needs an escape. It looks at all bytes, so that the compiler takes many at a time.
 */
static bool is_plain(struct span text)
{
    unsigned odd = 0;

    for (size_t i = 0; i < text.size; i++) {
        const unsigned char byte = (unsigned char)text.data[i];
        odd |= (unsigned)(byte < 0x20) | (unsigned)(byte >= 0x7f) | (unsigned)(byte == '"') |
               (unsigned)(byte == '\\');
    }
    return odd == 0;
}

/* The inside of a JSON string. */
static char *put_escaped(char *at, struct span text)
{
    if (is_plain(text))
        return put_bytes(at, text);
    return at + log_escape(text, at, 6 * text.size);
}

/* name is the field with its comma and quotes: ,"tenant":" */
INLINE char *put_text_if_known(char *at, struct span name, struct span text)
{
    if (text.size == 0)
        return at;
    at = put_bytes(at, name);
    at = put_escaped(at, text);
    *at++ = '"';
    return at;
}

/* name is the field with its comma: ,"input": */
INLINE char *put_number(char *at, struct span name, int64_t value)
{
    return put_signed(put_bytes(at, name), value);
}

INLINE char *put_number_if(bool known, char *at, struct span name, int64_t value)
{
    return known ? put_number(at, name, value) : at;
}

/* name is the field with its comma and quotes: ,"cost_pusd":" */
INLINE char *put_money(char *at, struct span name, int64_t pusd)
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
    case OUTCOME_CRASH_RECOVERED:
        return SPAN(",\"outcome\":\"crash_recovered\"");
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

/* Of a class that costs what its plain one does, nothing is said. */
static char *put_rates(char *at, const struct rates *rates)
{
    at = put_money(at, SPAN(",\"input\":\""), rates->input);
    if (rates->cached_input != rates->input)
        at = put_money(at, SPAN(",\"cached_input\":\""), rates->cached_input);
    if (rates->cache_write != rates->input)
        at = put_money(at, SPAN(",\"cache_write\":\""), rates->cache_write);
    at = put_money(at, SPAN(",\"output\":\""), rates->output);
    if (rates->reasoning != rates->output)
        at = put_money(at, SPAN(",\"reasoning\":\""), rates->reasoning);
    return at;
}

/* The rates of this call: what its cost can be worked out from again. */
static char *put_tariff(char *at, const struct tariff *tariff)
{
    at = put_number(at, SPAN(",\"prices\":{\"from\":"), tariff->from_us);
    at = put_rates(at, &tariff->rates);
    at = put_number_if(tariff->above > 0, at, SPAN(",\"above\":"), tariff->above);
    if (tariff->step_count == 0)
        return PUT(at, "}");
    if (tariff->inclusive)
        at = PUT(at, ",\"at\":true");
    at = PUT(at, ",\"steps\":[");
    for (uint32_t i = 0; i < tariff->step_count; i++) {
        at = put_number(at, i > 0 ? SPAN(",{\"above\":") : SPAN("{\"above\":"),
                        tariff->steps[i].above);
        at = put_rates(at, &tariff->steps[i].rates);
        at = PUT(at, "}");
    }
    return PUT(at, "]}");
}

static char *put_slot_prices(char *at, const struct slot *slot, const struct price *price,
                             const struct usage *usage)
{
    struct tariff tariff;

    price_tariff(price, usage, (enum service_tier)slot->tier, &tariff);
    return put_tariff(at, &tariff);
}

static char *put_tier(char *at, uint8_t tier)
{
    if (tier == TIER_STANDARD || tier >= SERVICE_TIERS)
        return at;
    at = PUT(at, ",\"tier\":\"");
    at = put_bytes(at, service_tier_name((enum service_tier)tier));
    return PUT(at, "\"");
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
    at = put_tier(at, slot->tier);
    return slot->stream ? PUT(at, ",\"stream\":true") : at;
}

/* The model that was asked for, if another one, and the one that answered. */
static char *put_models(char *at, const struct slot *slot)
{
    const struct span asked = inflight_opening_text(slot, OPENING_MODEL_ASKED);
    const struct span model = inflight_route_text(slot, ROUTE_MODEL);

    if (!span_equal(asked, model))
        at = PUT(put_escaped(PUT(at, ",\"model_asked\":\""), asked), "\"");
    return put_text_if_known(at, SPAN(",\"model\":\""), model);
}

/* When things happened, and how much passed. */
static char *put_times_and_bytes(char *at, const struct slot *slot, int64_t bytes_out)
{
    at = put_number(at, SPAN(",\"admitted_us\":"), slot->admitted_us);
    at = put_number_if(slot->queue_us != 0, at, SPAN(",\"queue_us\":"), slot->queue_us);
    at = put_number_if(slot->sent_us != 0, at, SPAN(",\"sent_us\":"), slot->sent_us);
    at = put_number_if(slot->first_token_us != 0, at, SPAN(",\"first_token_us\":"),
                       slot->first_token_us);
    at = put_number(at, SPAN(",\"ended_us\":"), slot->ended_us);
    at = put_number(at, SPAN(",\"bytes_in\":"), slot->bytes_in);
    return put_number(at, SPAN(",\"bytes_out\":"), bytes_out);
}

/* ---- lines ---- */

void row_author_init(struct row_author *author, struct span gateway, uint64_t epoch)
{
    char *at = author->start;

    at = put_number(at, SPAN("{\"v\":"), ROW_VERSION);
    at = PUT(at, ",\"gateway\":\"");
    at = put_escaped(at, gateway);
    at = PUT(at, "\",\"epoch\":");
    at = put_unsigned(at, epoch);
    at = PUT(at, ",\"seq\":");
    author->start_bytes = (size_t)(at - author->start);
}

/* {"v":2,"gateway":"g1","epoch":7,"seq":123,"kind":"call" */
static char *begin_line(const struct row_author *author, const struct row_link *link,
                        struct span kind, char *out)
{
    char *at = put_bytes(out, (struct span){author->start, author->start_bytes});

    at = put_unsigned(at, link->seq);
    at = PUT(at, ",\"kind\":\"");
    at = put_bytes(at, kind);
    return PUT(at, "\"");
}

static char *put_prev(char *at, const struct row_link *link)
{
    at = PUT(at, ",\"prev\":\"");
    at = put_bytes(at, (struct span){link->prev, 2 * HASH_SHA256_BYTES});
    return PUT(at, "\"");
}

size_t row_render(const struct row_author *author, const struct row_link *link,
                  const struct slot *slot, const struct price *price, struct span recovered,
                  char *out)
{
    const struct meter_running *running = inflight_running(slot);
    char *at = begin_line(author, link, SPAN("call"), out);

    at = put_text_if_known(at, SPAN(",\"recovered\":\""), recovered);
    at = put_opening(at, slot);
    at = put_models(at, slot);
    at = put_text_if_known(at, SPAN(",\"replica\":\""), inflight_route_text(slot, ROUTE_REPLICA));
    at = put_number(at, SPAN(",\"attempts\":"), slot->attempts);
    at = put_usage(at, &running->usage);
    at = put_bytes(at, source_field(running->source));
    at = put_flags(at, atomic_load_explicit(&slot->flags, memory_order_relaxed));
    at = put_wastes(at, slot);
    at = put_bytes(at, outcome_field(slot->outcome));
    at = put_number_if(slot->status != 0, at, SPAN(",\"status\":"), slot->status);
    at = slot->billable ? PUT(at, ",\"billable\":true") : PUT(at, ",\"billable\":false");
    if (price)
        at = put_slot_prices(at, slot, price, &running->usage);
    if (slot->held_pusd != 0)
        at = put_money(at, SPAN(",\"held_pusd\":\""), slot->held_pusd);
    at = put_money(at, SPAN(",\"cost_pusd\":\""), slot->cost_pusd);
    if (slot->unit_cost_pusd >= 0)
        at = put_money(at, SPAN(",\"unit_cost_pusd\":\""), slot->unit_cost_pusd);
    at = put_times_and_bytes(at, slot, running->bytes_out);
    at = put_text_if_known(at, SPAN(",\"why\":\""), inflight_route_text(slot, ROUTE_WHY));
    at = put_prev(at, link);
    at = PUT(at, "}\n");
    return (size_t)(at - out);
}

/* A count of tokens that an adjust adds: 0 says nothing, less takes away. */
static char *put_change(char *at, struct span name, int64_t tokens)
{
    return put_number_if(tokens != 0 && tokens != -1, at, name, tokens);
}

size_t row_render_adjust(const struct row_author *author, const struct row_link *link,
                         const struct row_adjust *adjust, char *out)
{
    char *at = begin_line(author, link, SPAN("adjust"), out);

    at = put_text_if_known(at, SPAN(",\"adjusts\":\""), adjust->adjusts);
    at = put_text_if_known(at, SPAN(",\"tenant\":\""), adjust->tenant);
    at = put_text_if_known(at, SPAN(",\"key\":\""), adjust->key);
    at = put_text_if_known(at, SPAN(",\"model\":\""), adjust->model);
    at = put_change(at, SPAN(",\"input\":"), adjust->usage.input);
    at = put_change(at, SPAN(",\"cached_input\":"), adjust->usage.cached_input);
    at = put_change(at, SPAN(",\"cache_write\":"), adjust->usage.cache_write);
    at = put_change(at, SPAN(",\"output\":"), adjust->usage.output);
    at = put_change(at, SPAN(",\"reasoning\":"), adjust->usage.reasoning);
    at = put_money(at, SPAN(",\"cost_pusd\":\""), adjust->cost_pusd);
    at = put_number(at, SPAN(",\"admitted_us\":"), adjust->admitted_us);
    at =
        put_number_if(adjust->corrects_us != 0, at, SPAN(",\"corrects_us\":"), adjust->corrects_us);
    at = put_number(at, SPAN(",\"at_us\":"), adjust->at_us);
    at = put_text_if_known(at, SPAN(",\"by\":\""), adjust->by);
    at = put_text_if_known(at, SPAN(",\"why\":\""), adjust->why);
    at = put_prev(at, link);
    at = PUT(at, "}\n");
    return (size_t)(at - out);
}

/* ---- first and last lines of files ---- */

#define OPEN_FRAME_BYTES (sizeof(((struct row_author *)NULL)->start) + 512)
#define BEFORE_BYTES (6 * sizeof(((struct row_before *)NULL)->file) + 160)
#define BALANCE_BYTES (6 * 128 + MONEY_TEXT_BYTES + 96)

size_t row_open_bytes_max(size_t before_count, size_t balance_count)
{
    return OPEN_FRAME_BYTES + before_count * BEFORE_BYTES + balance_count * BALANCE_BYTES;
}

static char *put_before(char *at, const struct row_before *before)
{
    at = PUT(at, "{\"file\":\"");
    at = put_escaped(at, padded_text(before->file, sizeof(before->file)));
    at = put_number(at, SPAN("\",\"seq\":"), (int64_t)before->seq);
    at = PUT(at, ",\"sha256\":\"");
    at = put_bytes(at, (struct span){before->sha256, 2 * HASH_SHA256_BYTES});
    return PUT(at, "\"}");
}

static char *put_balance(char *at, const struct row_balance *balance)
{
    char posted[MONEY_TEXT_BYTES];

    at = PUT(at, "{\"tenant\":\"");
    at = put_escaped(at, balance->tenant);
    at = PUT(at, "\",\"posted_pusd\":\"");
    at = put_bytes(at, (struct span){posted, money_print_pusd(balance->posted_pusd, posted)});
    at = put_number(at, SPAN("\",\"rows\":"), (int64_t)balance->rows);
    return PUT(at, "}");
}

size_t row_render_open(const struct row_author *author, const struct row_link *link, int64_t at_us,
                       const struct row_before *before, size_t before_count,
                       const struct row_balance *balances, size_t balance_count, char *out)
{
    char *at = begin_line(author, link, SPAN("open"), out);

    at = put_number(at, SPAN(",\"at_us\":"), at_us);
    at = PUT(at, ",\"before\":[");
    for (size_t i = 0; i < before_count; i++)
        at = put_before(i > 0 ? PUT(at, ",") : at, &before[i]);
    at = PUT(at, "],\"balances\":[");
    for (size_t i = 0; i < balance_count; i++)
        at = put_balance(i > 0 ? PUT(at, ",") : at, &balances[i]);
    at = PUT(at, "]");
    at = put_prev(at, link);
    at = PUT(at, "}\n");
    return (size_t)(at - out);
}

/* Signs what stands between out and at, and ends the line. */
static enum err end_signed(char *out, char *at, struct sign_key *key, size_t *out_bytes)
{
    char signature[SIGN_TEXT_BYTES];
    const enum err err = sign_text(key, (struct span){out, (size_t)(at - out)}, signature);

    if (err != OK)
        return err;
    at = PUT(at, ",\"signature\":\"");
    at = put_bytes(at, (struct span){signature, SIGN_TEXT_BYTES - 1});
    at = PUT(at, "\"}\n");
    *out_bytes = (size_t)(at - out);
    return OK;
}

static char *put_key(char *at, const struct sign_key *key)
{
    at = PUT(at, ",\"key\":\"");
    at = put_bytes(at, (struct span){sign_key_id(key), SIGN_KEY_ID_BYTES - 1});
    return PUT(at, "\"");
}

enum err row_render_head(const struct row_author *author, const struct row_link *link,
                         int64_t at_us, uint64_t first_seq, struct sign_key *key, char *out,
                         size_t *out_bytes)
{
    char *at = begin_line(author, link, SPAN("head"), out);

    at = put_number(at, SPAN(",\"at_us\":"), at_us);
    at = put_number(at, SPAN(",\"first_seq\":"), (int64_t)first_seq);
    at = put_key(at, key);
    at = put_prev(at, link);
    return end_signed(out, at, key, out_bytes);
}

enum err row_render_anchor(struct span gateway, uint64_t epoch, const struct row_before *line,
                           int64_t at_us, struct sign_key *key, char *out, size_t *out_bytes)
{
    char *at = PUT(out, "{\"gateway\":\"");

    at = put_escaped(at, gateway);
    at = put_number(at, SPAN("\",\"epoch\":"), (int64_t)epoch);
    at = put_number(at, SPAN(",\"seq\":"), (int64_t)line->seq);
    at = PUT(at, ",\"file\":\"");
    at = put_escaped(at, padded_text(line->file, sizeof(line->file)));
    at = PUT(at, "\",\"sha256\":\"");
    at = put_bytes(at, (struct span){line->sha256, 2 * HASH_SHA256_BYTES});
    at = put_number(at, SPAN("\",\"at_us\":"), at_us);
    at = put_key(at, key);
    return end_signed(out, at, key, out_bytes);
}
