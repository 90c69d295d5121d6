/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask_prompt.c: see ask_prompt.h.
 *
 * For:       how much text there is, the system prompt, media and where it comes from.
 * Called by: ask.c (its table of members).
 * Knows not: which endpoint it reads for.
 *
 * Shapes are those of vLLM, SGLang and llama.cpp, of OpenAI's chat completions and responses, and
 * of Anthropic's messages. Parts are read alike wherever they stand: what one server does not know
 * it ignores, and another one would fetch. */
#include "gateway/ask_prompt.h"

#include "gateway/bytes.h"

#define MESSAGES_MAX 10000
#define PROMPTS_MAX 100000
#define PARTS_NESTED_MAX 8 /* honest ones: a tool's result, a document, its content, an image */
#define SYSTEM_PROMPT_BYTES_MAX 4096

static bool read_content(struct ask_reader *reader, struct span *first_text);

/* Counts a value that is shown as JSON, perhaps spelt anew. */
static void count_json(struct ask *ask, struct span value)
{
    ask->text_bytes += (int64_t)value.size;
    if (value_is(value, '{') || value_is(value, '['))
        ask->tool_bytes += (int64_t)value.size;
}

/* ---- media ---- */

/* Names of parts that carry media, and of the types of such parts, begin so. Which kind it is;
 * PART_KINDS: none. */
static enum part_kind media_kind(struct span name)
{
    static const struct {
        struct span beginning;
        enum part_kind kind;
    } beginnings[] = {
        {SPAN("image"), PART_IMAGE},       {SPAN("audio"), PART_AUDIO},
        {SPAN("video"), PART_VIDEO},       {SPAN("file"), PART_FILE},
        {SPAN("input_image"), PART_IMAGE}, {SPAN("input_audio"), PART_AUDIO},
        {SPAN("input_video"), PART_VIDEO}, {SPAN("input_file"), PART_FILE},
        {SPAN("multimodal"), PART_FILE},
    };

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (span_starts(name, beginnings[i].beginning))
            return beginnings[i].kind;
    return PART_KINDS;
}

/* A part counts once for each kind that it names, however often. */
static void count_part(struct ask_reader *reader, uint32_t kinds)
{
    for (int kind = 0; kinds >> kind; kind++)
        reader->ask.parts[kind] += (kinds >> kind) & 1u;
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

/* Is there a colon, or one spelt as an escape? */
static bool has_colon(struct span raw)
{
    if (memchr(raw.data, ':', raw.size) != NULL)
        return true;
    for (const char *at; (at = memmem(raw.data, raw.size, "\\u003", 5)) != NULL;) {
        raw = span_from(raw, (size_t)(at - raw.data) + 5);
        if (raw.size > 0 && (*raw.data == 'a' || *raw.data == 'A'))
            return true;
    }
    return false;
}

/* May this text make a model server fetch something? Anything with a scheme may, but data: does
 * not. */
static bool is_remote(struct span raw)
{
    if (raw.size >= 5 && span_equal_nocase((struct span){raw.data, 5}, SPAN("data:")))
        return false;
    return raw.size > 0 && has_colon(raw);
}

/* Looks through a media value for addresses. Names of files and cache ids are none; the id of a
 * file that the server holds is one, since all tenants share its account. */
static void judge_media(struct ask_reader *reader, struct span value)
{
    struct span key = {NULL, 0};
    struct span raw;
    bool is_key;

    reader->ask.images = true;
    while (next_string(&value, &raw, &is_key)) {
        if (!is_key && !span_equal(key, SPAN("filename")) && !span_equal(key, SPAN("uuid")) &&
            (is_remote(raw) || (raw.size > 0 && span_equal(key, SPAN("file_id")))))
            reader->ask.refused |= REFUSED_REMOTE_MEDIA;
        key = is_key ? raw : (struct span){NULL, 0};
    }
}

/* Takes the source of an image or document of Anthropic's: {type: base64, media_type, data},
 * {type: text, data}, {type: content, content: text or parts}, {type: url, url} or {type: file}.
 * *out_text: what it brings is counted already, as text or as parts of its own. */
static bool read_source(struct ask_reader *reader, bool *out_text)
{
    struct scan *scan = &reader->scan;
    struct span data = {NULL, 0};
    struct span no_prompt = SPAN("");
    bool text = false;
    bool content = false;
    bool first = true;
    char scratch[VALUE_NAME_BYTES];
    struct span key;
    struct span value;

    reader->ask.images = true;
    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const struct span name = value_name(key, scratch);

        if (span_equal(name, SPAN("content"))) {
            if (!read_content(reader, &no_prompt))
                return false;
            continue;
        }
        if (!scan_skip(scan, &value))
            return false;
        if (span_equal(name, SPAN("data")))
            data = value;
        else if (span_equal(name, SPAN("type"))) {
            text = value_says(value, SPAN("text"));
            content = value_says(value, SPAN("content"));
        } else
            judge_media(reader, value);
    }
    if (data.data != NULL && text && value_is(data, '"'))
        reader->ask.text_bytes += (int64_t)value_inside(data).size;
    else if (data.data != NULL)
        judge_media(reader, data);
    *out_text = text || content;
    return scan->problem == NULL;
}

/* ---- parts ---- */

/* Takes content within a part: what a tool answered, or a document's. */
static bool read_nested(struct ask_reader *reader, bool source, bool *out_text)
{
    struct span no_prompt = SPAN("");
    enum scan_type type;
    struct span value;
    bool taken;

    if (reader->nested == PARTS_NESTED_MAX) {
        if (!scan_skip(&reader->scan, &value))
            return false;
        reader->ask.text_bytes += (int64_t)value.size;
        judge_media(reader, value);
        reader->ask.parts[PART_FILE]++; /* who knows what is in it */
        return true;
    }
    if (!scan_peek(&reader->scan, &type))
        return false;
    reader->nested++;
    taken = source && type == SCAN_OBJECT ? read_source(reader, out_text)
                                          : read_content(reader, &no_prompt);
    reader->nested--;
    return taken;
}

/* What a part has been found to be. */
struct part {
    uint32_t kinds; /* bits 1 << enum part_kind that it names */
    bool document;  /* its type says so: a file, unless its source is text */
};

/* Takes a member of a part that is neither its source nor its content. */
static void read_part_member(struct ask_reader *reader, struct span name, struct span value,
                             struct part *part, struct span *first_text)
{
    struct ask *ask = &reader->ask;
    char scratch[VALUE_NAME_BYTES];

    if (span_equal(name, SPAN("type"))) {
        const struct span type =
            value_is(value, '"') ? value_name(value_inside(value), scratch) : SPAN("");
        const enum part_kind kind = media_kind(type);

        part->document = part->document || span_equal(type, SPAN("document"));
        part->kinds |= kind != PART_KINDS ? 1u << kind : 0;
        ask->images = ask->images || part->document || kind != PART_KINDS;
        return;
    }

    const enum part_kind kind = media_kind(name);

    if (kind != PART_KINDS && !span_equal(name, SPAN("filename"))) {
        if (value_is(value, 'n'))
            return;
        part->kinds |= 1u << kind;
        judge_media(reader, value);
    } else if (value_is(value, '"')) {
        ask->text_bytes += (int64_t)value_inside(value).size;
        if (first_text->data == NULL && span_equal(name, SPAN("text")))
            *first_text = value_inside(value);
    } else {
        count_json(ask, value);
    }
}

/* Takes one part of a message's content. first_text: the first text of the message, kept. */
static bool read_part(struct ask_reader *reader, struct span *first_text)
{
    struct scan *scan = &reader->scan;
    struct part part = {0, false};
    bool source_is_text = false;
    bool first = true;
    char scratch[VALUE_NAME_BYTES];
    struct span key;
    struct span value;

    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const struct span name = value_name(key, scratch);
        const bool source = span_equal(name, SPAN("source"));

        if (source || span_equal(name, SPAN("content"))) {
            if (!read_nested(reader, source, &source_is_text))
                return false;
            continue;
        }
        if (!scan_skip(scan, &value))
            return false;
        read_part_member(reader, name, value, &part, first_text);
    }
    reader->ask.other_bytes++;
    if (part.document && !source_is_text)
        part.kinds |= 1u << PART_FILE;
    count_part(reader, part.kinds);
    return scan->problem == NULL;
}

/* Takes a text or a part of a content list. */
static bool read_content_element(struct ask_reader *reader, struct span *first_text)
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
        value = value_inside(value);
        if (first_text->data == NULL)
            *first_text = value;
    }
    if (type != SCAN_NULL)
        reader->ask.text_bytes += (int64_t)value.size;
    return true;
}

/* Takes content: a text, a part, or a list of these. */
static bool read_content(struct ask_reader *reader, struct span *first_text)
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

/* ---- messages, and items of responses ---- */

static struct span cut_prompt(struct span text)
{
    if (text.size > SYSTEM_PROMPT_BYTES_MAX)
        text.size = SYSTEM_PROMPT_BYTES_MAX;
    return text;
}

/* Judges the type of an item: does it stand for something that is kept elsewhere? */
static bool judge_item(struct ask_reader *reader, struct span value, const char *param)
{
    char scratch[VALUE_NAME_BYTES];

    if (value_is(value, '"') &&
        span_equal(value_name(value_inside(value), scratch), SPAN("item_reference")))
        return ask_bad_value(reader, value,
                             "responses are not kept here: send the item itself instead of an "
                             "item_reference",
                             param);
    return true;
}

/* Takes a message, or (item) what stands in the input of responses: messages too, calls of tools
 * and their output, reasoning. */
static bool read_message(struct ask_reader *reader, bool item, const char *param)
{
    struct scan *scan = &reader->scan;
    struct ask *ask = &reader->ask;
    struct span first_text = {NULL, 0};
    uint32_t kinds = 0;
    bool system = false;
    bool first = true;
    char scratch[VALUE_NAME_BYTES];
    struct span key;
    struct span value;

    if (!scan_enter(scan, SCAN_OBJECT))
        return false;
    while (scan_member(scan, &first, &key)) {
        const struct span name = value_name(key, scratch);

        if (span_equal(name, SPAN("content")) || (item && span_equal(name, SPAN("output")))) {
            if (!read_content(reader, &first_text))
                return false;
            continue;
        }

        const bool role = span_equal(name, SPAN("role"));
        const bool type = item && span_equal(name, SPAN("type"));
        const enum part_kind kind = item ? media_kind(name) : PART_KINDS;

        if (!scan_skip(scan, &value))
            return false;
        if (type && !judge_item(reader, value, param))
            return false;
        if (role && value_is(value, '"')) {
            const struct span who = value_name(value_inside(value), scratch);

            system = span_equal(who, SPAN("system")) || span_equal(who, SPAN("developer"));
        } else if (!value_is(value, 'n')) {
            if (kind != PART_KINDS) {
                kinds |= 1u << kind;
                judge_media(reader, value);
            } else {
                count_json(ask, value); /* name, tool calls, reasoning … */
            }
        }
    }
    count_part(reader, kinds);
    if (system && ask->system_prompt.data == NULL && first_text.data != NULL)
        ask->system_prompt = cut_prompt(first_text);
    return scan->problem == NULL;
}

static bool read_message_list(struct ask_reader *reader, bool item, const char *param)
{
    struct scan *scan = &reader->scan;
    bool first = true;
    enum scan_type type;

    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first)) {
        if (++reader->ask.messages > MESSAGES_MAX)
            return ask_bad_value(reader, ask_here(reader), "this list is too long", param);
        if (!scan_peek(scan, &type))
            return false;
        if (type != SCAN_OBJECT)
            return ask_bad_value(reader, ask_here(reader),
                                 item ? "an item of the input must be an object"
                                      : "a message must be an object",
                                 param);
        if (!read_message(reader, item, param))
            return false;
    }
    reader->given |= GIVEN_FIRST;
    return scan->problem == NULL;
}

bool ask_read_messages(struct ask_reader *reader, const struct ask_member *member)
{
    enum scan_type type;
    struct span value;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_NULL)
        return scan_skip(&reader->scan, &value);
    if (type != SCAN_ARRAY)
        return ask_bad_value(reader, ask_here(reader), "messages must be a list",
                             member->name.data);
    return read_message_list(reader, false, member->name.data);
}

bool ask_read_items(struct ask_reader *reader, const struct ask_member *member)
{
    enum scan_type type;
    struct span value;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_ARRAY)
        return read_message_list(reader, true, member->name.data);
    if (type != SCAN_STRING && type != SCAN_NULL)
        return ask_bad_value(reader, ask_here(reader), "input must be a string or a list of items",
                             member->name.data);
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (type == SCAN_STRING) {
        reader->ask.text_bytes += (int64_t)value_inside(value).size;
        reader->ask.messages++;
        reader->given |= GIVEN_FIRST;
    }
    return true;
}

bool ask_read_instructions(struct ask_reader *reader, const struct ask_member *member)
{
    struct span first_text = {NULL, 0};
    enum scan_type type;
    struct span value;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_NULL)
        return scan_skip(&reader->scan, &value);
    if (type != SCAN_STRING && type != SCAN_ARRAY)
        return ask_bad_value(reader, ask_here(reader), "this must be a string or a list of parts",
                             member->name.data);
    if (!read_content(reader, &first_text))
        return false;
    reader->ask.messages++;
    reader->instructions = cut_prompt(first_text);
    return true;
}

/* ---- prompts and inputs ---- */

bool ask_read_text(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!value_is(value, 'n')) {
        reader->ask.text_bytes += (int64_t)value.size;
        reader->given |= member->bits;
    }
    return true;
}

/* Counts the token ids of a list, if it holds nothing else. */
static void count_ids(struct ask *ask, struct span list)
{
    static const char of_ids[] = "0123456789, \t\r\n";
    int64_t ids = 1;

    for (size_t i = 1; i + 1 < list.size; i++) {
        if (memchr(of_ids, list.data[i], sizeof(of_ids) - 1) == NULL)
            return;
        ids += list.data[i] == ',';
    }
    ask->token_ids += ids;
    ask->token_id_bytes += (int64_t)list.size;
}

/* Takes one prompt of a list. *kind is the type of the first; all must be alike. */
static bool read_prompt_of_list(struct ask_reader *reader, const struct ask_member *member,
                                bool first, enum scan_type *kind)
{
    const bool objects = (member->bits & INPUT_OBJECTS) != 0;
    struct span no_prompt = SPAN("");
    enum scan_type type;
    struct span value;
    bool escaped;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (first)
        *kind = type;
    if (objects && type == SCAN_OBJECT && *kind == type)
        return read_part(reader, &no_prompt);
    if (type != *kind || (type != SCAN_STRING && type != SCAN_NUMBER && type != SCAN_ARRAY))
        return ask_bad_value(reader, ask_here(reader),
                             "this must be a string, or a list of strings, of token ids, or of "
                             "lists of token ids",
                             member->name.data);
    if (type == SCAN_NUMBER)
        return scan_number(&reader->scan, &value); /* counted with the list */
    if (!(type == SCAN_STRING ? scan_string(&reader->scan, &value, &escaped)
                              : scan_skip(&reader->scan, &value)))
        return false;
    reader->ask.text_bytes += (int64_t)value.size;
    if (type == SCAN_ARRAY)
        count_ids(&reader->ask, value);
    return true;
}

/* Takes a list of prompts, or one prompt as a list of token ids. The text of ids is counted as it
 * is spelt: never fewer bytes than ids, and about as many bytes for each as a token of text has. */
static bool read_prompt_list(struct ask_reader *reader, const struct ask_member *member)
{
    struct scan *scan = &reader->scan;
    const char *start = scan->at;
    const char *param = member->name.data;
    enum scan_type kind = SCAN_NULL;
    bool first = true;
    int64_t count = 0;

    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first)) {
        if (!read_prompt_of_list(reader, member, count == 0, &kind))
            return false;
        count++;
        if (count > PROMPTS_MAX && kind != SCAN_NUMBER)
            return ask_bad_value(reader, ask_here(reader), "this list is too long", param);
    }
    if (scan->problem != NULL)
        return false;
    if (count == 0)
        return ask_bad_value(reader, (struct span){start, 0}, "this list is empty", param);
    if (kind == SCAN_NUMBER) {
        reader->ask.text_bytes += scan->at - start;
        reader->ask.token_id_bytes += scan->at - start;
        reader->ask.token_ids += count;
        count = 1;
    }
    reader->ask.prompts = count;
    reader->given |= GIVEN_FIRST;
    return true;
}

bool ask_read_prompt(struct ask_reader *reader, const struct ask_member *member)
{
    struct span no_prompt = SPAN("");
    enum scan_type type;
    struct span value;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_ARRAY)
        return read_prompt_list(reader, member);
    if (type == SCAN_OBJECT && (member->bits & INPUT_OBJECTS)) {
        reader->given |= GIVEN_FIRST;
        return read_part(reader, &no_prompt);
    }
    if (type != SCAN_STRING && type != SCAN_NULL)
        return ask_bad_value(reader, ask_here(reader), "this must be a string or a list",
                             member->name.data);
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (type == SCAN_STRING) {
        reader->ask.text_bytes += (int64_t)value_inside(value).size;
        reader->given |= GIVEN_FIRST;
    }
    return true;
}

bool ask_read_data(struct ask_reader *reader, const struct ask_member *member)
{
    struct span value;

    (void)member;
    if (!scan_skip(&reader->scan, &value))
        return false;
    if (!value_is(value, 'n')) {
        judge_media(reader, value);
        reader->ask.parts[PART_FILE]++;
        reader->given |= GIVEN_FIRST;
    }
    return true;
}

/* ---- pairs ---- */

/* Takes one text of a side, or a list of token ids as it is spelt. */
static bool read_side_element(struct ask_reader *reader, const struct ask_member *member)
{
    struct span no_prompt = SPAN("");
    enum scan_type type;
    struct span value;

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_OBJECT)
        return read_part(reader, &no_prompt);
    if (type != SCAN_STRING && type != SCAN_ARRAY && type != SCAN_NUMBER)
        return ask_bad_value(reader, ask_here(reader), "this must be a text or an object",
                             member->name.data);
    if (!scan_skip(&reader->scan, &value))
        return false;
    reader->ask.text_bytes +=
        (int64_t)(type == SCAN_STRING ? value_inside(value).size : value.size);
    return true;
}

/* Takes a list; *out_count is 1 for one text as token ids. */
static bool read_side_list(struct ask_reader *reader, const struct ask_member *member,
                           int64_t *out_count)
{
    struct scan *scan = &reader->scan;
    const char *start = scan->at;
    enum scan_type type;
    bool first = true;
    bool ids = false;
    int64_t count = 0;

    if (!scan_enter(scan, SCAN_ARRAY))
        return false;
    while (scan_element(scan, &first)) {
        if (!scan_peek(scan, &type) || !read_side_element(reader, member))
            return false;
        if (type == SCAN_NUMBER)
            ids = true;
        else if (++count > PROMPTS_MAX)
            return ask_bad_value(reader, ask_here(reader), "this list is too long",
                                 member->name.data);
    }
    if (scan->problem != NULL)
        return false;
    if (count == 0 && !ids)
        return ask_bad_value(reader, (struct span){start, 0}, "this list is empty",
                             member->name.data);
    *out_count = count > 0 ? count : 1;
    return true;
}

bool ask_read_side(struct ask_reader *reader, const struct ask_member *member)
{
    struct side *side = &reader->sides[member->bits & GIVEN_SECOND ? 1 : 0];
    const int64_t before = reader->ask.text_bytes;
    int64_t parts_before[PART_KINDS];
    enum scan_type type;
    struct span value;
    int64_t count = 1;

    memcpy(parts_before, reader->ask.parts, sizeof(parts_before));

    if (!scan_peek(&reader->scan, &type))
        return false;
    if (type == SCAN_NULL)
        return scan_skip(&reader->scan, &value);
    if (!(type == SCAN_ARRAY ? read_side_list(reader, member, &count)
                             : read_side_element(reader, member)))
        return false;
    if (count > side->count)
        side->count = count;
    side->bytes += reader->ask.text_bytes - before;
    for (int kind = 0; kind < PART_KINDS; kind++)
        side->parts[kind] += reader->ask.parts[kind] - parts_before[kind];
    reader->given |= member->bits;
    return true;
}

/* A side of one text is read with each of the other side. */
static void count_again(struct ask *ask, const struct side *side)
{
    if (side->count != 1)
        return;
    ask->text_bytes += side->bytes * (ask->prompts - 1);
    for (int kind = 0; kind < PART_KINDS; kind++)
        ask->parts[kind] += side->parts[kind] * (ask->prompts - 1);
}

void ask_count_pairs(struct ask_reader *reader)
{
    for (int i = 0; i < 2; i++)
        if (reader->sides[i].count > reader->ask.prompts)
            reader->ask.prompts = reader->sides[i].count;
    for (int i = 0; i < 2; i++)
        count_again(&reader->ask, &reader->sides[i]);
}
