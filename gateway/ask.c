/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask.c: a request body to an ask, and the splices that make it fit its model server.
 *
 * For:       what routing, metering and limits need to know of a body, found in one pass.
 * Called by: steps.c.
 * Knows not: sockets, tenants, prices; how the body got here.
 *
 * A table names the members that matter and the function that reads each; all others are passed
 * over and go on as they came. */
#include "gateway/ask.h"

#include "config/base/log.h"
#include "gateway/bytes.h"

#define MEMBERS_MAX 10000
#define MESSAGES_MAX 10000
#define PROMPTS_MAX 100000
#define PROBES_MAX (16 * MEMBERS_MAX) /* of the hash table; honest keys need a tenth of it */
#define SYSTEM_PROMPT_BYTES_MAX 4096
#define KEYS_COMPARED 32  /* so many keys are compared one by one; more go into a hash table */
#define KEY_BYTES_MAX 192 /* longest known name (32 bytes), each byte spelt as an escape */

/* ---- what is carried through the pass ---- */

/* A key of the outermost object, in the table past KEYS_COMPARED. */
struct key_slot {
    struct span key; /* {NULL, 0}: free */
};

/* The keys seen so far. */
struct keys {
    uint32_t count;
    uint32_t slot_count; /* a power of two, or 0 */
    uint64_t probes;     /* slots looked at so far */
    struct key_slot *slots;
    struct span first[KEYS_COMPARED];
};

struct reader {
    struct scan scan;
    struct arena *arena;
    const struct ask_limits *limits;
    struct ask ask;
    struct ask_problem problem;
    enum err err;
    bool has_input;   /* messages, prompt or input, as the endpoint needs */
    bool has_options; /* stream_options that is not null */
    int64_t completion_tokens, tokens, best_of; /* -1: absent or null */
    struct keys keys;
};

/* Ends the pass with an error about the byte at `at`. */
static bool refuse(struct reader *reader, enum err err, const char *at, const char *message,
                   const char *param)
{
    reader->err = err;
    reader->problem = (struct ask_problem){
        .offset = (size_t)(at - reader->scan.start),
        .message = message,
        .param = param,
    };
    return false;
}

static bool no_memory(struct reader *reader)
{
    reader->err = ERR_NO_MEMORY;
    return false;
}

static struct ask_place place_of(const struct reader *reader, struct span value)
{
    return (struct ask_place){(size_t)(value.data - reader->scan.start), value.size};
}

static bool is_null(struct span value)
{
    return value.data[0] == 'n';
}

static bool is_string(struct span value)
{
    return value.data[0] == '"';
}

/* Raw text between the quotes of a string value. */
static struct span inside_of(struct span value)
{
    return (struct span){value.data + 1, value.size - 2};
}

static bool has_escapes(struct span raw)
{
    return raw.size > 0 && memchr(raw.data, '\\', raw.size) != NULL;
}

/* Text of a string value: into the body, or decoded in the arena. */
static bool take_text(struct reader *reader, struct span value, const char *param,
                      struct span *out_text)
{
    const struct span raw = inside_of(value);

    if (!has_escapes(raw)) {
        *out_text = raw;
        return true;
    }

    char *text = arena_take(reader->arena, raw.size);
    size_t size;

    if (text == NULL)
        return no_memory(reader);
    if (!scan_decode(raw, text, &size))
        return refuse(reader, ERR_BAD_VALUE, raw.data, "this text has half of a surrogate pair",
                      param);
    *out_text = (struct span){text, size};
    return true;
}

/* A name as written or, when it has escapes, decoded into scratch of KEY_BYTES_MAX bytes. What does
 * not fit is none of the known names and is returned as written. */
static struct span plain_name(struct span raw, char *scratch)
{
    size_t size;

    if (!has_escapes(raw) || raw.size > KEY_BYTES_MAX || !scan_decode(raw, scratch, &size))
        return raw;
    return (struct span){scratch, size};
}

/* ---- duplicate keys ---- */

enum added { ADDED_NEW, ADDED_TWICE, ADDED_CROWDED };

/* Puts a key into the table. Keys made to collide end as "crowded", so that work stays linear. */
static enum added add_to_table(struct keys *keys, struct span key)
{
    const uint32_t mask = keys->slot_count - 1;
    uint32_t at = (uint32_t)hash_text(key) & mask;

    while (keys->slots[at].key.data != NULL) {
        if (span_equal(keys->slots[at].key, key))
            return ADDED_TWICE;
        if (++keys->probes > PROBES_MAX)
            return ADDED_CROWDED;
        at = (at + 1) & mask;
    }
    keys->slots[at].key = key;
    return ADDED_NEW;
}

/* A table twice as large, with the keys of the old one or the first ones. */
static bool grow_table(struct reader *reader)
{
    struct keys *keys = &reader->keys;
    const uint32_t old_count = keys->slot_count;
    const struct key_slot *old = keys->slots;
    const uint32_t count = old_count > 0 ? 2 * old_count : 2 * KEYS_COMPARED;
    struct key_slot *slots = arena_take_zeroed(reader->arena, count * sizeof(*slots));

    if (slots == NULL)
        return no_memory(reader);
    keys->slots = slots;
    keys->slot_count = count;
    if (old_count == 0)
        for (uint32_t i = 0; i < KEYS_COMPARED; i++)
            (void)add_to_table(keys, keys->first[i]);
    for (uint32_t i = 0; i < old_count; i++)
        if (old[i].key.data != NULL)
            (void)add_to_table(keys, old[i].key);
    return true;
}

static enum added add_to_first(struct keys *keys, struct span key)
{
    for (uint32_t i = 0; i < keys->count; i++)
        if (span_equal(keys->first[i], key))
            return ADDED_TWICE;
    keys->first[keys->count] = key;
    return ADDED_NEW;
}

/* Keeps a decoded top-level key; refuses the body when it was there before. */
static bool note_key(struct reader *reader, const char *at, struct span key)
{
    struct keys *keys = &reader->keys;
    enum added added = ADDED_CROWDED;

    if (keys->count < KEYS_COMPARED) {
        added = add_to_first(keys, key);
    } else if (keys->count < MEMBERS_MAX) {
        if (keys->slot_count * 3 < 4 * (keys->count + 1) && !grow_table(reader))
            return false;
        added = add_to_table(keys, key);
        if (added == ADDED_NEW && keys->probes > PROBES_MAX)
            added = ADDED_CROWDED; /* while the table grew */
    }
    if (added == ADDED_TWICE)
        return refuse(reader, ERR_BAD_JSON, at, "this key stands twice in the object", NULL);
    if (added == ADDED_CROWDED)
        return refuse(reader, ERR_BAD_JSON, at, "the object has too many members", NULL);
    keys->count++;
    return true;
}

/* Decodes a top-level key and keeps it. */
static bool take_key(struct reader *reader, struct span raw, struct span *out_key)
{
    *out_key = raw;
    if (has_escapes(raw)) {
        char *text = arena_take(reader->arena, raw.size);
        size_t size;

        if (text == NULL)
            return no_memory(reader);
        if (!scan_decode(raw, text, &size))
            return refuse(reader, ERR_BAD_JSON, raw.data, "a key has half of a surrogate pair",
                          NULL);
        *out_key = (struct span){text, size};
    }
    return note_key(reader, raw.data - 1, *out_key);
}

/* ---- members of the outermost object ---- */

/* A member that matters. */
struct known {
    struct span name;
    uint32_t endpoints; /* bits of those that have it */
    bool (*read)(struct reader *reader, const struct known *known);
    uint32_t refused; /* for read_refused() */
};

static bool bad_value(struct reader *reader, struct span value, const char *message,
                      const char *param)
{
    return refuse(reader, ERR_BAD_VALUE, value.data, message, param);
}

/* What stands next, for messages about a value that was not taken. */
static struct span here(const struct reader *reader)
{
    return (struct span){reader->scan.at, 0};
}

static bool read_model(struct reader *reader, const struct known *known)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    reader->ask.model_place = place_of(reader, value);
    if (is_null(value))
        return true;
    if (!is_string(value))
        return bad_value(reader, value, "model must be a string", known->name.data);
    if (inside_of(value).size == 0)
        return true;
    return take_text(reader, value, known->name.data, &reader->ask.model);
}

/* Takes true, false or null. */
static bool read_flag(struct reader *reader, const char *message, const char *param, bool *out_flag,
                      struct ask_place *out_place)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (value.data[0] != 't' && value.data[0] != 'f' && !is_null(value))
        return bad_value(reader, value, message, param);
    *out_flag = value.data[0] == 't';
    *out_place = place_of(reader, value);
    return true;
}

static bool read_stream(struct reader *reader, const struct known *known)
{
    return read_flag(reader, "stream must be true or false", known->name.data, &reader->ask.stream,
                     &reader->ask.stream_place);
}

/* Takes the members of stream_options; the two that we set may stand there once. */
static bool read_stream_options(struct reader *reader, const struct known *known)
{
    struct scan *scan = &reader->scan;
    struct ask *ask = &reader->ask;
    bool first = true;
    char scratch[KEY_BYTES_MAX];
    enum scan_type type;
    struct span key;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;

    const char *start = scan->at;

    if (type == SCAN_NULL) {
        if (!scan_skip(scan, &value))
            return false;
        ask->stream_options_place = place_of(reader, value);
        return true;
    }
    if (type != SCAN_OBJECT)
        return bad_value(reader, here(reader), "stream_options must be an object",
                         known->name.data);
    reader->has_options = true;
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const struct span name = plain_name(key, scratch);
        const bool usage = span_equal(name, SPAN("include_usage"));
        const bool running = span_equal(name, SPAN("continuous_usage_stats"));
        struct ask_place *place = usage ? &ask->include_usage_place : &ask->continuous_usage_place;

        if (!usage && !running) {
            if (!scan_skip(scan, &value))
                return false;
            continue;
        }
        if (place->size > 0)
            return refuse(reader, ERR_BAD_JSON, key.data - 1, "this key stands twice in the object",
                          known->name.data);
        if (!read_flag(reader, "include_usage and continuous_usage_stats must be true or false",
                       known->name.data, usage ? &ask->include_usage : &ask->continuous_usage,
                       place))
            return false;
    }
    if (scan->problem != NULL)
        return false;
    ask->stream_options_place = place_of(reader, (struct span){start, (size_t)(scan->at - start)});
    return true;
}

/* Takes a whole number of at least `minimum`, or null. */
static bool read_count(struct reader *reader, const struct known *known, int64_t minimum,
                       int64_t maximum, int64_t *out_count)
{
    struct span value;
    int64_t count;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (is_null(value))
        return true;
    if (!span_to_int64(value, &count))
        return bad_value(reader, value, "this must be a whole number", known->name.data);
    if (count < minimum || count > maximum)
        return bad_value(reader, value, "this number is out of the range served here",
                         known->name.data);
    *out_count = count;
    return true;
}

static bool read_n(struct reader *reader, const struct known *known)
{
    return read_count(reader, known, 1, reader->limits->n, &reader->ask.n);
}

static bool read_best_of(struct reader *reader, const struct known *known)
{
    return read_count(reader, known, 1, reader->limits->n, &reader->best_of);
}

static bool read_tokens(struct reader *reader, const struct known *known)
{
    return read_count(reader, known, 0, INT64_MAX, &reader->tokens);
}

static bool read_completion_tokens(struct reader *reader, const struct known *known)
{
    return read_count(reader, known, 0, INT64_MAX, &reader->completion_tokens);
}

static bool read_metadata(struct reader *reader, const struct known *known)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    char scratch[KEY_BYTES_MAX];
    enum scan_type type;
    struct span key;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_OBJECT)
        return scan_skip(scan, &value);
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        if (!scan_skip(scan, &value))
            return false;
        if (is_string(value) && span_equal(plain_name(key, scratch), SPAN("task_class")) &&
            !take_text(reader, value, known->name.data, &reader->ask.task_class))
            return false;
    }
    return scan->problem == NULL;
}

static bool read_cache_salt(struct reader *reader, const struct known *known)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (is_null(value))
        return true;
    if (!is_string(value))
        return bad_value(reader, value, "cache_salt must be a string", known->name.data);
    reader->ask.cache_salt_place = place_of(reader, value);
    return true;
}

static bool read_refused(struct reader *reader, const struct known *known)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!is_null(value))
        reader->ask.refused |= known->refused;
    return true;
}

static bool read_prompt_embeds(struct reader *reader, const struct known *known)
{
    if (!read_refused(reader, known))
        return false;
    if (reader->ask.refused & REFUSED_PROMPT_EMBEDS)
        reader->has_input = true;
    return true;
}

/* Text that is rendered into the prompt, whatever its shape. */
static bool read_as_text(struct reader *reader, const struct known *known)
{
    struct span value;

    (void)known;
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!is_null(value))
        reader->ask.text_bytes += (int64_t)value.size;
    return true;
}

static bool read_tools(struct reader *reader, const struct known *known)
{
    struct scan *scan = &reader->scan;
    enum scan_type type;
    bool first = true;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_ARRAY)
        return read_as_text(reader, known);

    const char *start = scan->at;

    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first)) {
        reader->ask.tools = true;
        if (!scan_skip(scan, &value))
            return false;
    }
    reader->ask.text_bytes += scan->at - start;
    return scan->problem == NULL;
}

static bool read_response_format(struct reader *reader, const struct known *known)
{
    struct scan *scan = &reader->scan;
    enum scan_type type;
    bool first = true;
    char scratch[KEY_BYTES_MAX];
    struct span key;
    struct span value;

    (void)known;
    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_OBJECT)
        return scan_skip(scan, &value);
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        if (!scan_skip(scan, &value))
            return false;
        if (!is_string(value) || !span_equal(plain_name(key, scratch), SPAN("type")))
            continue;

        const struct span name = plain_name(inside_of(value), scratch);

        if (span_equal(name, SPAN("json_schema")) || span_equal(name, SPAN("json_object")))
            reader->ask.schema = true;
    }
    return scan->problem == NULL;
}

static bool read_schema(struct reader *reader, const struct known *known)
{
    struct span value;

    (void)known;
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!is_null(value))
        reader->ask.schema = true;
    return true;
}

/* ---- prompts and inputs ---- */

/* Takes one prompt of a list. *kind is the type of the first; all must be alike. */
static bool read_prompt_of_list(struct reader *reader, const struct known *known, bool first,
                                enum scan_type *kind)
{
    enum scan_type type;
    struct span value;
    bool escaped;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (first)
        *kind = type;
    if (type != *kind || (type != SCAN_STRING && type != SCAN_NUMBER && type != SCAN_ARRAY))
        return bad_value(reader, here(reader),
                         "this must be a string, or a list of strings, of token ids, or of lists "
                         "of token ids",
                         known->name.data);
    if (type == SCAN_NUMBER)
        return scan_number(&reader->scan, &value); /* counted with the list */
    if (!(type == SCAN_STRING ? scan_string(&reader->scan, &value, &escaped)
                              : scan_skip(&reader->scan, &value)))
        return false;
    reader->ask.text_bytes += (int64_t)value.size;
    return true;
}

/* Takes a list of prompts, or one prompt as a list of token ids. The text of ids is counted as it
 * is spelt: never fewer bytes than ids, and about as many bytes for each as a token of text has. */
static bool read_prompt_list(struct reader *reader, const struct known *known)
{
    struct scan *scan = &reader->scan;
    const char *start = scan->at;
    enum scan_type kind = SCAN_NULL;
    bool first = true;
    int64_t count = 0;

    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first)) {
        if (!read_prompt_of_list(reader, known, count == 0, &kind))
            return false;
        count++;
        if (count > PROMPTS_MAX && kind != SCAN_NUMBER)
            return bad_value(reader, here(reader), "this list is too long", known->name.data);
    }
    if (scan->problem != NULL)
        return false;
    if (count == 0)
        return bad_value(reader, (struct span){start, 0}, "this list is empty", known->name.data);
    if (kind == SCAN_NUMBER) {
        reader->ask.text_bytes += scan->at - start;
        count = 1;
    }
    reader->ask.prompts = count;
    reader->has_input = true;
    return true;
}

/* prompt and input. */
static bool read_prompt(struct reader *reader, const struct known *known)
{
    enum scan_type type;
    struct span value;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_ARRAY)
        return read_prompt_list(reader, known);
    if (type != SCAN_STRING && type != SCAN_NULL)
        return bad_value(reader, here(reader), "this must be a string or a list", known->name.data);
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (type == SCAN_STRING) {
        reader->ask.text_bytes += (int64_t)inside_of(value).size;
        reader->has_input = true;
    }
    return true;
}

/* ---- messages ---- */

/* Names of parts that carry media, and of the types of such parts, begin so. */
static bool is_media(struct span name)
{
    static const struct span beginnings[] = {
        SPAN("image"),       SPAN("audio"),       SPAN("video"),       SPAN("file"),
        SPAN("input_image"), SPAN("input_audio"), SPAN("input_video"), SPAN("input_file"),
    };

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (span_starts(name, beginnings[i]))
            return true;
    return false;
}

/* Takes the next string out of a valid value: its raw text, and whether it is a key. */
static bool next_string(struct span *rest, struct span *out_raw, bool *out_key)
{
    const char *end = rest->data + rest->size;
    const char *quote = memchr(rest->data, '"', rest->size);

    if (quote == NULL)
        return false;

    const char *at = quote + 1;

    while (*(at = bytes_find_string_stop(at, end)) == '\\')
        at += 2;
    *out_raw = (struct span){quote + 1, (size_t)(at - quote - 1)};
    at++;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    *out_key = at < end && *at == ':';
    *rest = (struct span){at, (size_t)(end - at)};
    return true;
}

/* May this text make a model server fetch something? Anything with a scheme may, but data: does
 * not. An escape may hide the colon. */
static bool is_remote(struct span raw)
{
    if (raw.size >= 5 && span_equal_nocase((struct span){raw.data, 5}, SPAN("data:")))
        return false;
    return raw.size > 0 && (memchr(raw.data, ':', raw.size) != NULL ||
                            memmem(raw.data, raw.size, "\\u", 2) != NULL);
}

/* Looks through a media value for addresses. Names of files and cache ids are none. */
static void judge_media(struct reader *reader, struct span value)
{
    struct span key = {NULL, 0};
    struct span raw;
    bool is_key;

    reader->ask.images = true;
    while (next_string(&value, &raw, &is_key)) {
        if (!is_key && !span_equal(key, SPAN("filename")) && !span_equal(key, SPAN("uuid")) &&
            is_remote(raw))
            reader->ask.refused |= REFUSED_REMOTE_MEDIA;
        key = is_key ? raw : (struct span){NULL, 0};
    }
}

/* Takes one part of a message's content. first_text: the first text of the message, kept. */
static bool read_part(struct reader *reader, struct span *first_text)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    char scratch[KEY_BYTES_MAX];
    struct span key;
    struct span value;

    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const struct span name = plain_name(key, scratch);

        if (!scan_skip(scan, &value))
            return false;
        if (span_equal(name, SPAN("type"))) {
            if (is_string(value) && is_media(plain_name(inside_of(value), scratch)))
                reader->ask.images = true;
        } else if (is_media(name)) {
            if (!is_null(value))
                judge_media(reader, value);
        } else if (is_string(value)) {
            reader->ask.text_bytes += (int64_t)inside_of(value).size;
            if (first_text->data == NULL && span_equal(name, SPAN("text")))
                *first_text = inside_of(value);
        } else {
            reader->ask.text_bytes += (int64_t)value.size;
        }
    }
    return scan->problem == NULL;
}

/* Takes a text or a part of a message's content list. */
static bool read_content_element(struct reader *reader, struct span *first_text)
{
    enum scan_type type;
    struct span value;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_OBJECT)
        return read_part(reader, first_text);
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (type == SCAN_STRING) {
        value = inside_of(value);
        if (first_text->data == NULL)
            *first_text = value;
    }
    if (type != SCAN_NULL)
        reader->ask.text_bytes += (int64_t)value.size;
    return true;
}

/* Takes the content of a message: a text, or a list of parts. */
static bool read_content(struct reader *reader, struct span *first_text)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    enum scan_type type;

    if (!scan_peek(scan, &type))
        return false;
    if (type != SCAN_ARRAY)
        return read_content_element(reader, first_text);
    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first))
        if (!read_content_element(reader, first_text))
            return false;
    return scan->problem == NULL;
}

static bool read_message(struct reader *reader)
{
    struct scan *scan = &reader->scan;
    struct ask *ask = &reader->ask;
    struct span first_text = {NULL, 0};
    bool system = false;
    bool first = true;
    char scratch[KEY_BYTES_MAX];
    struct span key;
    struct span value;

    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const struct span name = plain_name(key, scratch);

        if (span_equal(name, SPAN("content"))) {
            if (!read_content(reader, &first_text))
                return false;
            continue;
        }

        const bool role = span_equal(name, SPAN("role"));

        if (!scan_skip(scan, &value))
            return false;
        if (role && is_string(value)) {
            const struct span who = plain_name(inside_of(value), scratch);

            system = span_equal(who, SPAN("system")) || span_equal(who, SPAN("developer"));
        } else if (!is_null(value)) {
            ask->text_bytes += (int64_t)value.size; /* name, tool calls, reasoning … */
        }
    }
    if (system && ask->system_prompt.data == NULL && first_text.data != NULL) {
        ask->system_prompt = first_text;
        if (ask->system_prompt.size > SYSTEM_PROMPT_BYTES_MAX)
            ask->system_prompt.size = SYSTEM_PROMPT_BYTES_MAX;
    }
    return scan->problem == NULL;
}

static bool read_messages(struct reader *reader, const struct known *known)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    enum scan_type type;
    struct span value;

    if (!scan_peek(scan, &type))
        return false;
    if (type == SCAN_NULL)
        return scan_skip(scan, &value);
    if (type != SCAN_ARRAY)
        return bad_value(reader, here(reader), "messages must be a list", known->name.data);
    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first)) {
        if (++reader->ask.messages > MESSAGES_MAX)
            return bad_value(reader, here(reader), "this list is too long", known->name.data);
        if (!scan_peek(scan, &type))
            return false;
        if (type != SCAN_OBJECT)
            return bad_value(reader, here(reader), "a message must be an object", known->name.data);
        if (!read_message(reader))
            return false;
    }
    reader->has_input = true;
    return scan->problem == NULL;
}

/* Messages where they are not what the endpoint needs, but a model server may take them all the
 * same: what they hold is judged. */
static bool read_other_messages(struct reader *reader, const struct known *known)
{
    const bool had_input = reader->has_input;

    if (!read_messages(reader, known))
        return false;
    reader->has_input = had_input;
    return true;
}

/* ---- the table, and the pass ---- */

#define IN_CHAT (1u << ENDPOINT_CHAT)
#define IN_TEXT (1u << ENDPOINT_COMPLETIONS)
#define IN_VECTORS (1u << ENDPOINT_EMBEDDINGS)
#define IN_BOTH (IN_CHAT | IN_TEXT)
#define IN_ALL (IN_BOTH | IN_VECTORS)

/* clang-format off */

/* By size, so that a look-up ends early. */
static const struct known known_members[] = {
    {SPAN("n"),                     IN_BOTH,    read_n,                 0},
    {SPAN("input"),                 IN_VECTORS, read_prompt,            0},
    {SPAN("model"),                 IN_ALL,     read_model,             0},
    {SPAN("tools"),                 IN_CHAT,    read_tools,             0},
    {SPAN("prompt"),                IN_TEXT,    read_prompt,            0},
    {SPAN("stream"),                IN_BOTH,    read_stream,            0},
    {SPAN("suffix"),                IN_TEXT,    read_as_text,           0},
    {SPAN("best_of"),               IN_TEXT,    read_best_of,           0},
    {SPAN("messages"),              IN_CHAT,    read_messages,          0},
    {SPAN("messages"),              IN_VECTORS, read_other_messages,    0},
    {SPAN("metadata"),              IN_ALL,     read_metadata,          0},
    {SPAN("priority"),              IN_ALL,     read_refused,           REFUSED_PRIORITY},
    {SPAN("documents"),             IN_CHAT,    read_as_text,           0},
    {SPAN("functions"),             IN_CHAT,    read_as_text,           0},
    {SPAN("cache_salt"),            IN_ALL,     read_cache_salt,        0},
    {SPAN("max_tokens"),            IN_BOTH,    read_tokens,            0},
    {SPAN("request_id"),            IN_ALL,     read_refused,           REFUSED_REQUEST_ID},
    {SPAN("session_id"),            IN_ALL,     read_refused,           REFUSED_SESSION_ID},
    {SPAN("vllm_xargs"),            IN_ALL,     read_refused,           REFUSED_VLLM_XARGS},
    {SPAN("guided_json"),           IN_BOTH,    read_schema,            0},
    {SPAN("chat_template"),         IN_ALL,     read_refused,           REFUSED_CHAT_TEMPLATE},
    {SPAN("prompt_embeds"),         IN_TEXT,    read_prompt_embeds,     REFUSED_PROMPT_EMBEDS},
    {SPAN("prompt_embeds"),         IN_ALL,     read_refused,           REFUSED_PROMPT_EMBEDS},
    {SPAN("stream_options"),        IN_BOTH,    read_stream_options,    0},
    {SPAN("response_format"),       IN_BOTH,    read_response_format,   0},
    {SPAN("ec_transfer_params"),    IN_ALL,     read_refused,           REFUSED_EC_TRANSFER_PARAMS},
    {SPAN("kv_transfer_params"),    IN_ALL,     read_refused,           REFUSED_KV_TRANSFER_PARAMS},
    {SPAN("structured_outputs"),    IN_BOTH,    read_schema,            0},
    {SPAN("max_completion_tokens"), IN_CHAT,    read_completion_tokens, 0},
};

/* clang-format on */

static const struct known *find_known(struct span key, uint32_t endpoint_bit)
{
    for (size_t i = 0; i < sizeof(known_members) / sizeof(known_members[0]); i++) {
        const struct known *known = &known_members[i];

        if (known->name.size > key.size)
            break;
        if (known->name.size == key.size && (known->endpoints & endpoint_bit) &&
            memcmp(known->name.data, key.data, key.size) == 0)
            return known;
    }
    return NULL;
}

static bool read_members(struct reader *reader, uint32_t endpoint_bit)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    struct span raw;
    struct span key;
    struct span value;

    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    reader->ask.open_at = scan_offset(scan);
    while (scan_member(scan, &first, &raw)) {
        if (!take_key(reader, raw, &key))
            return false;

        const struct known *known = find_known(key, endpoint_bit);

        if (!(known != NULL ? known->read(reader, known) : scan_skip(scan, &value)))
            return false;
    }
    reader->ask.empty = reader->keys.count == 0;
    return scan_finish(scan);
}

/* What must hold between the members. */
static bool judge_members(struct reader *reader, enum endpoint endpoint)
{
    static const char *const needed[ENDPOINT_COUNT] = {
        [ENDPOINT_CHAT] = "messages",
        [ENDPOINT_COMPLETIONS] = "prompt",
        [ENDPOINT_EMBEDDINGS] = "input",
    };
    struct ask *ask = &reader->ask;

    if (!reader->has_input)
        return refuse(reader, ERR_BAD_VALUE, reader->scan.start, "this field is missing",
                      needed[endpoint]);
    if (reader->has_options && !ask->stream)
        return refuse(reader, ERR_BAD_VALUE, reader->scan.start + ask->stream_options_place.at,
                      "stream_options needs stream: true", "stream_options");
    ask->max_tokens = reader->completion_tokens >= 0 ? reader->completion_tokens : reader->tokens;
    if (reader->best_of > ask->n)
        ask->n = reader->best_of;
    ask->continuous_usage = ask->continuous_usage && ask->include_usage;
    return true;
}

enum err ask_read(enum endpoint endpoint, struct span body, const struct ask_limits *limits,
                  struct arena *arena, struct ask *out_ask, struct ask_problem *out_problem)
{
    struct reader
        reader; /* members are set one by one: the keys seen are large and need no zeros */

    scan_init(&reader.scan, body, limits->json_depth);
    reader.arena = arena;
    reader.limits = limits;
    reader.ask = (struct ask){.n = 1, .prompts = 1, .max_tokens = -1};
    reader.problem = (struct ask_problem){0};
    reader.err = OK;
    reader.has_input = reader.has_options = false;
    reader.completion_tokens = reader.tokens = reader.best_of = -1;
    reader.keys.count = reader.keys.slot_count = 0;
    reader.keys.probes = 0;
    reader.keys.slots = NULL;

    if (!read_members(&reader, 1u << endpoint) || !judge_members(&reader, endpoint)) {
        if (reader.err == OK) {
            reader.err = ERR_BAD_JSON;
            reader.problem =
                (struct ask_problem){scan_offset(&reader.scan), reader.scan.problem, NULL};
        }
        *out_problem = reader.problem;
        return reader.err;
    }
    *out_ask = reader.ask;
    return OK;
}

/* ---- splices ---- */

struct splicer {
    struct arena *arena;
    struct splice *splices;
    uint32_t count;
};

/* Adds a splice, keeping them in order; one that only inserts goes before one at the same place. */
static void add_splice(struct splicer *splicer, size_t at, size_t removed, struct span inserted)
{
    uint32_t i = splicer->count++;

    while (i > 0 && splicer->splices[i - 1].at > at) {
        splicer->splices[i] = splicer->splices[i - 1];
        i--;
    }
    splicer->splices[i] = (struct splice){at, removed, inserted};
}

/* text as a JSON string in the arena; {NULL, 0} without memory. */
static struct span quoted(struct arena *arena, struct span text)
{
    const size_t room = 6 * text.size; /* each byte as \u00xx */
    char *out = arena_take(arena, room + 2);
    size_t size;

    if (out == NULL)
        return (struct span){NULL, 0};
    out[0] = '"';
    size = log_escape(text, out + 1, room);
    out[size + 1] = '"';
    return (struct span){out, size + 2};
}

/* Makes an existing stream_options object say what we need. */
static void extend_options(struct splicer *splicer, const struct ask *ask, struct span body,
                           bool running)
{
    const bool add_usage = ask->include_usage_place.size == 0;
    const bool add_running = running && ask->continuous_usage_place.size == 0;
    size_t inside = ask->stream_options_place.at + 1;
    size_t at = inside;

    if (!add_usage && body.data[ask->include_usage_place.at] != 't')
        add_splice(splicer, ask->include_usage_place.at, ask->include_usage_place.size,
                   SPAN("true"));
    if (running && !add_running && body.data[ask->continuous_usage_place.at] != 't')
        add_splice(splicer, ask->continuous_usage_place.at, ask->continuous_usage_place.size,
                   SPAN("true"));
    if (!add_usage && !add_running)
        return;
    while (body.data[at] != '}' && body.data[at] != '"')
        at++;

    const bool empty = body.data[at] == '}';
    struct span text;

    if (add_usage && add_running)
        text = SPAN("\"include_usage\":true,\"continuous_usage_stats\":true,");
    else if (add_usage)
        text = SPAN("\"include_usage\":true,");
    else
        text = SPAN("\"continuous_usage_stats\":true,");
    if (empty)
        text.size--;
    add_splice(splicer, inside, 0, text);
}

/* Members that go in right behind the outermost brace. */
static bool insert_members(struct splicer *splicer, const struct ask *ask, struct span model,
                           struct span options)
{
    struct span text = {NULL, 0};

    if (model.size == 0 && options.size == 0)
        return true;
    if (model.size > 0 && options.size > 0)
        text = arena_format(splicer->arena, "\"model\":%.*s,\"stream_options\":%.*s,",
                            (int)model.size, model.data, (int)options.size, options.data);
    else if (model.size > 0)
        text = arena_format(splicer->arena, "\"model\":%.*s,", (int)model.size, model.data);
    else
        text = arena_format(splicer->arena, "\"stream_options\":%.*s,", (int)options.size,
                            options.data);
    if (text.data == NULL)
        return false;
    if (ask->empty)
        text.size--;
    add_splice(splicer, ask->open_at, 0, text);
    return true;
}

enum err ask_splices(const struct ask *ask, struct span body, enum kind kind,
                     struct span upstream_model, struct span cache_salt, struct arena *arena,
                     struct splice out_splices[ASK_SPLICES_MAX], uint32_t *out_count)
{
    const bool running = kind == KIND_VLLM;
    struct splicer splicer = {.arena = arena, .splices = out_splices, .count = 0};
    struct span model = {NULL, 0};   /* to insert */
    struct span options = {NULL, 0}; /* to insert */

    if (upstream_model.data != NULL && !span_equal(upstream_model, ask->model)) {
        model = quoted(arena, upstream_model);
        if (model.data == NULL)
            return ERR_NO_MEMORY;
        if (ask->model_place.size > 0) {
            add_splice(&splicer, ask->model_place.at, ask->model_place.size, model);
            model = (struct span){NULL, 0};
        }
    }
    if (ask->stream) {
        options = running ? SPAN("{\"include_usage\":true,\"continuous_usage_stats\":true}")
                          : SPAN("{\"include_usage\":true}");
        if (ask->stream_options_place.size > 0) {
            if (body.data[ask->stream_options_place.at] == '{')
                extend_options(&splicer, ask, body, running);
            else
                add_splice(&splicer, ask->stream_options_place.at, ask->stream_options_place.size,
                           options);
            options = (struct span){NULL, 0};
        }
    }
    if (!insert_members(&splicer, ask, model, options))
        return ERR_NO_MEMORY;
    if (cache_salt.data != NULL && ask->cache_salt_place.size > 0) {
        const struct span salt = quoted(arena, cache_salt);

        if (salt.data == NULL)
            return ERR_NO_MEMORY;
        add_splice(&splicer, ask->cache_salt_place.at, ask->cache_salt_place.size, salt);
    }
    *out_count = splicer.count;
    return OK;
}
