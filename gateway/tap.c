/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tap.c: reads a reply's usage, errors and shape in passing.
 *
 * For:       tokens as reported, whatever way the bytes were cut.
 * Called by: relay.c.
 * Knows not: who pays; SSE; where the bytes go; what several documents say together (tally.c).
 *
 * A machine of states that may stop behind any byte. Each open container has a meaning, found by
 * the key before it (meaning.c); what has none is passed over, but still checked. */
#include "gateway/tap.h"

#include "gateway/bytes.h"
#include "gateway/meaning.h"

#define NUMBER_MAX (INT64_C(1) << 53)
#define KEY_UNKNOWN UINT8_MAX /* key_size of a key that is longer than any known one */

/* What the reader waits for (AT_) or is in the middle of (IN_). */
enum state {
    AT_VALUE,
    AT_FIRST_ELEMENT, /* a value or ] */
    AT_FIRST_KEY,     /* a key or } */
    AT_KEY,
    AT_COLON,
    AT_NEXT, /* a comma, or the end of the container */
    AT_END,  /* only white space may follow */
    IN_STRING,
    IN_ESCAPE,
    IN_UNICODE,
    IN_WORD,
    /* numbers, in the order of RFC 8259 */
    IN_MINUS,
    IN_ZERO,
    IN_INTEGER,
    IN_POINT,
    IN_FRACTION,
    IN_E,
    IN_E_SIGN,
    IN_EXPONENT
};

enum number_flag { NUMBER_NEGATIVE = 1, NUMBER_FRACTION = 2, NUMBER_HUGE = 4 };

/* ---- where we are ---- */

static size_t offset_of(const struct tap *tap, const char *at)
{
    return (size_t)(uintptr_t)at - tap->origin;
}

/* Meaning of the innermost open container. */
static enum meaning place_of(const struct tap *tap)
{
    return tap->depth > 0 && tap->depth <= TAP_PLACES ? tap->places[tap->depth - 1] : NOTHING;
}

static bool in_object(const struct tap *tap)
{
    const uint32_t level = tap->depth - 1u;

    return (tap->kinds[level / 64] >> (level % 64)) & 1u;
}

static const char *break_off(struct tap *tap, const char *end)
{
    tap->broken = true;
    return end;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- what values say ---- */

/* The number that a meaning names; NULL: it names none. */
static int64_t *number_of(struct tap *tap, enum meaning meaning)
{
    switch (meaning) {
    case PROMPT_TOKENS:
        return &tap->numbers.prompt;
    case COMPLETION_TOKENS:
        return &tap->numbers.completion;
    case TOTAL_TOKENS:
        return &tap->numbers.total;
    case CACHED_TOKENS:
        return &tap->numbers.cached;
    case CACHE_WRITE_TOKENS:
        return &tap->numbers.cache_write;
    case REASONING_TOKENS:
        return &tap->numbers.reasoning;
    default:
        return NULL;
    }
}

/* What the type of an event says. */
static void take_type(struct tap *tap, struct span type)
{
    static const struct {
        struct span type;
        enum tap_shape shape;
        bool started, ended, has_error;
    } known[] = {
        {SPAN("response.completed"), TAP_RESPONSES, false, true, false},
        {SPAN("response.incomplete"), TAP_RESPONSES, false, true, false},
        {SPAN("response.failed"), TAP_RESPONSES, false, true, true},
        {SPAN("message_start"), TAP_MESSAGES, true, false, false},
        {SPAN("message_stop"), TAP_MESSAGES, false, true, false},
        {SPAN("error"), TAP_RESPONSES, false, true, true},
        {SPAN("error"), TAP_MESSAGES, false, true, true},
        {SPAN("error"), TAP_CHAT, false, false, true},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].shape == tap->shape && span_equal(known[i].type, type)) {
            tap->started = known[i].started;
            tap->ended = known[i].ended;
            tap->has_error = tap->has_error || known[i].has_error;
        }
}

/* Notes that a scalar that is not null, not false and no number of its own has come. */
static void note_presence(struct tap *tap)
{
    if (tap->meaning == ERROR)
        tap->has_error = true;
    else if (tap->meaning == FINISH_REASON)
        tap->finished = true;
    else if (tap->meaning >= PROMPT_TOKENS)
        tap->numbers.suspect = true;
}

/* A string that is neither text nor a key has come. */
static void note_string(struct tap *tap, struct span text)
{
    if (tap->meaning == EVENT_TYPE)
        take_type(tap, text);
    else
        note_presence(tap);
}

static void note_number(struct tap *tap)
{
    const bool negative = tap->number_flags & NUMBER_NEGATIVE;
    int64_t *number;

    if (tap->meaning < ERROR)
        return;
    if (tap->number > NUMBER_MAX)
        tap->number_flags |= NUMBER_HUGE;
    if (tap->meaning == INDEX) {
        if (tap->number_flags == 0 && tap->number <= INT32_MAX)
            tap->choice_index = (int32_t)tap->number;
        return;
    }
    if (tap->meaning == SEQUENCE) {
        if (tap->number_flags == 0)
            tap->sequence = tap->number;
        return;
    }
    number = number_of(tap, tap->meaning);
    if (number == NULL) {
        note_presence(tap);
        return;
    }
    if (tap->number_flags != 0)
        tap->numbers.suspect = true;
    *number = tap->number_flags & NUMBER_HUGE ? -1 : negative ? 0 : tap->number;
}

/* A container that was waited for ends at `at`: do a usage object's numbers agree? */
static void note_close(struct tap *tap, enum meaning place, const char *at)
{
    struct tap_numbers *numbers = &tap->numbers;

    if (place == TOOL_INPUT)
        tap->text_bytes += (int64_t)(offset_of(tap, at) + 1 - tap->input_at);
    else if (numbers->prompt >= 0 && numbers->completion >= 0 && numbers->total >= 0 &&
             numbers->prompt + numbers->completion != numbers->total)
        numbers->suspect = true;
}

/* A value ends before `at`. */
static void end_value(struct tap *tap, const char *at)
{
    tap->state = tap->depth > 0 ? AT_NEXT : AT_END;
    if (tap->usage_member && tap->depth == 1) {
        const bool first = tap->comma_at == SIZE_MAX;

        tap->usage_member = false;
        tap->usage_comma = first;
        tap->usage_at = first ? tap->member_at : tap->comma_at;
        tap->usage_end = offset_of(tap, at);
    }
}

/* ---- containers ---- */

/* A container that matters by being there opens at `at`. */
static void note_open(struct tap *tap, enum meaning meaning, const char *at)
{
    if (meaning == TOOL_INPUT) {
        tap->input_at = offset_of(tap, at);
    } else if (meaning >= CHOICES) {
        tap->has_choices = true;
        tap->plain = tap->plain || meaning == DATA;
    } else {
        tap->numbers.suspect = tap->numbers.suspect || tap->has_usage;
        tap->has_usage = true;
    }
}

/* Opens the container at `at`. Its meaning counts only when the kind is right. */
static const char *open_container(struct tap *tap, const char *at, const char *end)
{
    const bool object = *at == '{';
    const uint32_t level = tap->depth;
    const uint64_t bit = UINT64_C(1) << (level % 64);
    enum meaning meaning = tap->meaning;

    if (level == TAP_DEPTH_MAX)
        return break_off(tap, end);
    if (meaning >= ERROR) {
        if (meaning != TEXT)
            note_presence(tap);
        meaning = NOTHING;
    } else if (object != (meaning < CHOICES)) {
        meaning = NOTHING;
    }
    tap->kinds[level / 64] = object ? tap->kinds[level / 64] | bit : tap->kinds[level / 64] & ~bit;
    if (level < TAP_PLACES)
        tap->places[level] = (uint8_t)meaning;
    tap->depth++;
    tap->state = object ? AT_FIRST_KEY : AT_FIRST_ELEMENT;
    if (meaning >= MESSAGES_USAGE && meaning <= DATA)
        note_open(tap, meaning, at);
    return at + 1;
}

static const char *close_container(struct tap *tap, const char *at)
{
    const enum meaning place = place_of(tap);

    if (place == USAGE || place == TOOL_INPUT)
        note_close(tap, place, at);
    tap->depth--;
    end_value(tap, at + 1);
    return at + 1;
}

/* Sets the meaning of the list element that comes next. */
static void begin_element(struct tap *tap)
{
    switch (place_of(tap)) {
    case CHOICES:
        tap->choices++;
        tap->meaning = CHOICE;
        break;
    case DATA:
        tap->choices++;
        tap->meaning = NOTHING;
        break;
    case TOOL_CALLS:
        tap->meaning = TOOL_CALL;
        break;
    case OUTPUT:
        tap->meaning = OUTPUT_ITEM;
        break;
    case OUTPUT_PARTS:
        tap->meaning = OUTPUT_PART;
        break;
    case BLOCKS:
        tap->meaning = BLOCK;
        break;
    default:
        tap->meaning = NOTHING;
        break;
    }
}

/* ---- keys ---- */

/* Sets the meaning of the value behind a key. */
static void take_key(struct tap *tap, struct span key)
{
    const enum meaning place = place_of(tap);

    tap->meaning = (uint8_t)meaning_of(place, key);
    if (place == ROOT)
        tap->usage_member = tap->meaning == USAGE;
    else if (place == CHOICE && tap->meaning == DELTA && key.size == 7)
        tap->plain = true; /* "message", not "delta" */
}

/* Keeps bytes of a key, or of an event's type, that is not in one piece. */
static void keep_key_bytes(struct tap *tap, const char *bytes, size_t size)
{
    if (tap->key_size == KEY_UNKNOWN || size > (size_t)TAP_KEY_BYTES - tap->key_size) {
        tap->key_size = KEY_UNKNOWN;
        return;
    }
    if (size > 0)
        memcpy(tap->key + tap->key_size, bytes, size);
    tap->key_size = (uint8_t)(tap->key_size + size);
}

/* Keeps what an escape in a key or type stands for. None that is known has any but plain ASCII. */
static void keep_key_escape(struct tap *tap, uint16_t unit)
{
    const char byte = (char)unit;

    if (unit >= 0x80)
        tap->key_size = KEY_UNKNOWN;
    else
        keep_key_bytes(tap, &byte, 1);
}

/* ---- strings ---- */

/* Counts raw bytes of a string that is not a key. */
static void count_text(struct tap *tap, ptrdiff_t bytes)
{
    if (tap->meaning == TEXT && !tap->in_key)
        tap->text_bytes += bytes;
}

/* The string under way has ended before `at`, behind its quote. */
static void end_string(struct tap *tap, const char *at)
{
    if (tap->in_key) {
        take_key(tap, (struct span){tap->key, tap->key_size});
        tap->in_key = false;
        tap->state = AT_COLON;
    } else {
        note_string(tap, (struct span){tap->key, tap->key_size});
        end_value(tap, at);
    }
}

/* Goes on in a string, from `at` on. */
static const char *read_string(struct tap *tap, const char *at, const char *end)
{
    const char *stop = bytes_find_string_stop(at, end);

    count_text(tap, stop - at);
    if (tap->kept)
        keep_key_bytes(tap, at, (size_t)(stop - at));
    if (stop == end)
        return end;
    if (*stop == '"') {
        end_string(tap, stop + 1);
        return stop + 1;
    }
    if (*stop != '\\')
        return break_off(tap, end);
    count_text(tap, 1);
    tap->state = IN_ESCAPE;
    return stop + 1;
}

/* The letter behind a backslash. */
static const char *read_escape(struct tap *tap, const char *at, const char *end)
{
    if (*at == 'u') {
        tap->unicode = 0;
        tap->unicode_digits = 0;
        tap->state = IN_UNICODE;
    } else {
        if (*at == '\0' || strchr("\"\\/bfnrt", *at) == NULL)
            return break_off(tap, end);
        if (tap->kept) /* only three of them stand for a byte that a key could have */
            keep_key_escape(tap, strchr("\"\\/", *at) != NULL ? (uint16_t)*at : UINT16_MAX);
        tap->state = IN_STRING;
    }
    count_text(tap, 1);
    return at + 1;
}

/* One of the four digits behind \u. */
static const char *read_unicode(struct tap *tap, const char *at, const char *end)
{
    const char lower = (char)(*at | 0x20);
    int value;

    if (is_digit(*at))
        value = *at - '0';
    else if (lower >= 'a' && lower <= 'f')
        value = lower - 'a' + 10;
    else
        return break_off(tap, end);
    tap->unicode = (uint16_t)(tap->unicode << 4 | value);
    count_text(tap, 1);
    if (++tap->unicode_digits == 4) {
        if (tap->kept)
            keep_key_escape(tap, tap->unicode);
        tap->state = IN_STRING;
    }
    return at + 1;
}

/* Begins a key or a string value at its quote. The common one ends in this piece, has no escape,
 * and is done with at once. */
static inline const char *begin_string(struct tap *tap, const char *at, const char *end, bool key)
{
    const char *text = at + 1;
    const char *stop = bytes_find_string_stop(text, end);

    if (stop < end && *stop == '"') {
        if (key) {
            take_key(tap, (struct span){text, (size_t)(stop - text)});
            tap->state = AT_COLON;
        } else {
            if (tap->meaning == TEXT)
                tap->text_bytes += stop - text;
            else if (tap->meaning >= ERROR)
                note_string(tap, (struct span){text, (size_t)(stop - text)});
            end_value(tap, stop + 1);
        }
        return stop + 1;
    }
    tap->in_key = key;
    tap->kept = key || tap->meaning == EVENT_TYPE;
    tap->key_size = 0;
    tap->state = IN_STRING;
    return text;
}

/* ---- words and numbers ---- */

/* Goes on in true, false or null: tap->word is what must come. */
static const char *read_word(struct tap *tap, const char *at, const char *end)
{
    while (at < end && *tap->word != '\0') {
        if (*at != *tap->word)
            return break_off(tap, end);
        at++;
        tap->word++;
    }
    if (*tap->word == '\0')
        end_value(tap, at);
    return at;
}

/* Begins a word behind its first letter. false is as good as absent for an error alone. */
static const char *begin_word(struct tap *tap, const char *at, const char *end, const char *rest)
{
    if (*at == 't' || (*at == 'f' && tap->meaning != ERROR))
        note_presence(tap);
    tap->word = rest;
    tap->state = IN_WORD;
    return read_word(tap, at + 1, end);
}

/* The state behind a byte of a number; IN_STRING: it does not belong to the number. */
static enum state step_number(enum state state, char c)
{
    const bool digit = is_digit(c);

    switch (state) {
    case IN_MINUS:
        return c == '0' ? IN_ZERO : digit ? IN_INTEGER : AT_END;
    case IN_ZERO:
        return c == '.' ? IN_POINT : (c | 0x20) == 'e' ? IN_E : digit ? AT_END : IN_STRING;
    case IN_INTEGER:
        return digit ? IN_INTEGER : c == '.' ? IN_POINT : (c | 0x20) == 'e' ? IN_E : IN_STRING;
    case IN_POINT:
        return digit ? IN_FRACTION : AT_END;
    case IN_FRACTION:
        return digit ? IN_FRACTION : (c | 0x20) == 'e' ? IN_E : IN_STRING;
    case IN_E:
        return digit ? IN_EXPONENT : c == '+' || c == '-' ? IN_E_SIGN : AT_END;
    case IN_E_SIGN:
        return digit ? IN_EXPONENT : AT_END;
    default: /* IN_EXPONENT */
        return digit ? IN_EXPONENT : IN_STRING;
    }
}

/* Adds the digits of a whole number; past NUMBER_MAX it is too large anyway. */
static inline const char *read_digits(struct tap *tap, const char *at, const char *end)
{
    int64_t number = tap->number;

    for (; at < end && is_digit(*at); at++)
        if (number <= NUMBER_MAX)
            number = number * 10 + (*at - '0');
    tap->number = number;
    return at;
}

/* Goes on in a number. It ends at the first byte that cannot belong to it, which stays. */
static const char *read_number(struct tap *tap, const char *at, const char *end)
{
    enum state next;

    for (; at < end; at++) {
        if (tap->state == IN_INTEGER) {
            at = read_digits(tap, at, end);
            if (at == end)
                return end;
        }
        next = step_number(tap->state, *at);
        if (next == AT_END)
            return break_off(tap, end);
        if (next == IN_STRING) {
            note_number(tap);
            end_value(tap, at);
            return at;
        }
        if (next == IN_POINT || next == IN_E)
            tap->number_flags |= NUMBER_FRACTION;
        else if (next == IN_INTEGER) /* the first digit, behind a minus */
            tap->number = *at - '0';
        tap->state = (uint8_t)next;
    }
    return at;
}

static const char *begin_number(struct tap *tap, const char *at, const char *end)
{
    tap->number = 0;
    tap->number_flags = 0;
    if (*at == '-') {
        tap->number_flags = NUMBER_NEGATIVE;
        tap->state = IN_MINUS;
    } else {
        tap->number = *at - '0';
        tap->state = *at == '0' ? IN_ZERO : IN_INTEGER;
    }
    return read_number(tap, at + 1, end);
}

/* ---- the machine ---- */

/* Begins the value at `at`. */
static inline const char *begin_value(struct tap *tap, const char *at, const char *end)
{
    switch (*at) {
    case '"':
        return begin_string(tap, at, end, false);
    case '{':
    case '[':
        return open_container(tap, at, end);
    case 't':
        return begin_word(tap, at, end, "rue");
    case 'f':
        return begin_word(tap, at, end, "alse");
    case 'n':
        return begin_word(tap, at, end, "ull");
    default:
        if (*at == '-' || is_digit(*at))
            return begin_number(tap, at, end);
        return break_off(tap, end);
    }
}

/* Begins the key at `at`. When colon and value follow at once, as they mostly do, they are taken
 * too: that saves the way round by the state. */
static inline const char *begin_key(struct tap *tap, const char *at, const char *end)
{
    if (*at != '"')
        return break_off(tap, end);
    if (tap->depth == 1)
        tap->member_at = offset_of(tap, at);
    at = begin_string(tap, at, end, true);
    if (end - at < 2 || tap->state != AT_COLON || *at != ':')
        return at;
    tap->state = AT_VALUE;
    at++;
    return is_space(*at) ? at : begin_value(tap, at, end);
}

/* Takes the comma behind a value, or the end of its container. */
static inline const char *pass_next(struct tap *tap, const char *at, const char *end)
{
    const bool object = in_object(tap);

    if (*at == (object ? '}' : ']'))
        return close_container(tap, at);
    if (*at != ',')
        return break_off(tap, end);
    if (!object) {
        begin_element(tap);
        tap->state = AT_VALUE;
        return at + 1;
    }
    if (tap->depth == 1) {
        tap->comma_at = offset_of(tap, at);
        if (tap->usage_comma) {
            tap->usage_comma = false;
            tap->usage_end = tap->comma_at + 1;
        }
    }
    tap->state = AT_KEY;
    at++;
    return at < end && *at == '"' ? begin_key(tap, at, end) : at;
}

/* Takes what stands at `at`, where a token begins. */
static inline const char *read_token(struct tap *tap, const char *at, const char *end)
{
    switch (tap->state) {
    case AT_VALUE:
        return begin_value(tap, at, end);
    case AT_FIRST_ELEMENT:
        if (*at == ']')
            return close_container(tap, at);
        begin_element(tap);
        return begin_value(tap, at, end);
    case AT_FIRST_KEY:
        if (*at == '}')
            return close_container(tap, at);
        return begin_key(tap, at, end);
    case AT_KEY:
        return begin_key(tap, at, end);
    case AT_COLON:
        if (*at != ':')
            return break_off(tap, end);
        tap->state = AT_VALUE;
        return at + 1;
    case AT_NEXT:
        return pass_next(tap, at, end);
    default: /* AT_END */
        return break_off(tap, end);
    }
}

void tap_init(struct tap *tap, enum tap_shape shape)
{
    static const uint8_t roots[] = {
        [TAP_CHAT] = ROOT,
        [TAP_RESPONSES] = RESPONSES_ROOT,
        [TAP_MESSAGES] = MESSAGES_ROOT,
    };
    const struct tap_numbers none = {-1, -1, -1, -1, -1, -1, false};

    memset(tap, 0, offsetof(struct tap, number)); /* from there on: written before it is read */
    tap->state = AT_VALUE;
    tap->meaning = roots[shape];
    tap->shape = (uint8_t)shape;
    tap->comma_at = SIZE_MAX;
    tap->numbers = none;
    tap->choice_index = -1;
    tap->sequence = -1;
}

void tap_feed(struct tap *tap, struct span piece)
{
    const char *at = piece.data;
    const char *end = piece.data + piece.size;

    if (piece.size == 0)
        return;
    tap->origin = (size_t)(uintptr_t)piece.data - tap->offset;
    tap->offset += piece.size;
    if (tap->broken)
        return;
    while (at < end) {
        if (tap->state <= AT_END)
            at = is_space(*at) ? at + 1 : read_token(tap, at, end);
        else if (tap->state == IN_STRING)
            at = read_string(tap, at, end);
        else if (tap->state == IN_ESCAPE)
            at = read_escape(tap, at, end);
        else if (tap->state == IN_UNICODE)
            at = read_unicode(tap, at, end);
        else if (tap->state == IN_WORD)
            at = read_word(tap, at, end);
        else
            at = read_number(tap, at, end);
    }
}

/* ---- events that begin alike ---- */

#define ALIKE_BYTES_LEAST 48 /* fewer are read as fast as they are compared */

/* The bytes that the event has in common with the first one, up to a bracket: there the reader is
 * between two tokens. */
static uint16_t bytes_alike(const struct tap_memo *memo, struct span event)
{
    uint16_t alike = 0;

    for (uint16_t i = 0; i < memo->seen && i < event.size && memo->text[i] == event.data[i]; i++)
        if (memo->text[i] == '{' || memo->text[i] == '[')
            alike = (uint16_t)(i + 1);
    return alike;
}

/* Learns from the first two events. */
static void learn(struct tap_memo *memo, enum tap_shape shape, struct span event)
{
    if (memo->seen == 0) {
        memo->seen = (uint16_t)(event.size < TAP_MEMO_BYTES ? event.size : TAP_MEMO_BYTES);
        memcpy(memo->text, event.data, memo->seen);
        return;
    }
    memo->settled = true;
    memo->alike = bytes_alike(memo, event);
    if (memo->alike < ALIKE_BYTES_LEAST)
        memo->alike = 0;
    tap_init(&memo->after, shape);
    tap_feed(&memo->after, (struct span){memo->text, memo->alike});
}

void tap_read_event(struct tap *tap, struct tap_memo *memo, enum tap_shape shape, struct span event)
{
    if (memo->alike > 0 && event.size > memo->alike &&
        memcmp(event.data, memo->text, memo->alike) == 0) {
        *tap = memo->after;
        tap_feed(tap, span_from(event, memo->alike));
        return;
    }
    tap_init(tap, shape);
    tap_feed(tap, event);
    if (!memo->settled && event.size > 0)
        learn(memo, shape, event);
}

bool tap_whole(const struct tap *tap)
{
    if (tap->broken)
        return false;
    if (tap->state == AT_END)
        return true;
    return tap->depth == 0 && (tap->state == IN_ZERO || tap->state == IN_INTEGER ||
                               tap->state == IN_FRACTION || tap->state == IN_EXPONENT);
}
