/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses_input.c: instructions and input of a responses body as messages.
 *
 * For:       what an item and a part of a message become, and which cannot be expressed.
 * Called by: translate_responses_ask.c.
 * Knows not: the other members.
 *
 * Source: OpenAI's API description (openapi.yaml), InputItem, EasyInputMessage, FunctionToolCall,
 * FunctionCallOutputItemParam, and ChatCompletionRequestMessage. Members of items and parts that
 * only tell of the past (id, status, phase, annotations, logprobs) have no place in chat and steer
 * nothing: they are dropped. */
#include "gateway/translate_responses.h"

#define PARAM "input"

static void put(struct asking *asking, struct span bytes)
{
    writer_put(asking->out, bytes);
}

/* ---- parts of a message ---- */

/* Who speaks: what parts a message may have in chat depends on it. */
enum speaker {
    SPEAKER_USER = 1,
    SPEAKER_ASSISTANT = 2,
    SPEAKER_SYSTEM = 4,
    SPEAKER_TOOL = 8,
    SPEAKER_ANY = 15
};

enum part_field {
    PART_TYPE,
    PART_TEXT,
    PART_REFUSAL,
    IMAGE_URL,
    DETAIL,
    AUDIO,
    DATA,
    NAME,
    FILE_ID,
    FILE_URL
};

/* clang-format off */
#define PART_FIELDS                                                                                \
    {                                                                                              \
        [PART_TYPE] = {SPAN("type"), {NULL, 0}}, [PART_TEXT] = {SPAN("text"), {NULL, 0}},          \
        [PART_REFUSAL] = {SPAN("refusal"), {NULL, 0}},                                             \
        [IMAGE_URL] = {SPAN("image_url"), {NULL, 0}}, [DETAIL] = {SPAN("detail"), {NULL, 0}},      \
        [AUDIO] = {SPAN("input_audio"), {NULL, 0}}, [DATA] = {SPAN("file_data"), {NULL, 0}},       \
        [NAME] = {SPAN("filename"), {NULL, 0}}, [FILE_ID] = {SPAN("file_id"), {NULL, 0}},          \
        [FILE_URL] = {SPAN("file_url"), {NULL, 0}},                                                \
    }
/* clang-format on */

/* Writes a part; false: a member is missing or of the wrong type. */
typedef bool write_part_fn(struct asking *asking, const struct member *fields);

static bool put_text(struct asking *asking, const struct member *fields)
{
    put(asking, SPAN("{\"type\":\"text\",\"text\":"));
    put(asking, fields[PART_TEXT].value);
    put(asking, SPAN("}"));
    return value_is(fields[PART_TEXT].value, '"');
}

static bool put_refusal(struct asking *asking, const struct member *fields)
{
    put(asking, SPAN("{\"type\":\"refusal\",\"refusal\":"));
    put(asking, fields[PART_REFUSAL].value);
    put(asking, SPAN("}"));
    return value_is(fields[PART_REFUSAL].value, '"');
}

static bool put_image(struct asking *asking, const struct member *fields)
{
    put(asking, SPAN("{\"type\":\"image_url\",\"image_url\":{\"url\":"));
    put(asking, fields[IMAGE_URL].value);
    if (fields[DETAIL].value.size > 0)
        put(asking, SPAN(",\"detail\":"));
    put(asking, fields[DETAIL].value);
    put(asking, SPAN("}}"));
    return value_is(fields[IMAGE_URL].value, '"') && fields[FILE_ID].value.size == 0;
}

static bool put_audio(struct asking *asking, const struct member *fields)
{
    put(asking, SPAN("{\"type\":\"input_audio\",\"input_audio\":"));
    put(asking, fields[AUDIO].value);
    put(asking, SPAN("}"));
    return value_is(fields[AUDIO].value, '{');
}

static bool put_file(struct asking *asking, const struct member *fields)
{
    put(asking, SPAN("{\"type\":\"file\",\"file\":{\"file_data\":"));
    put(asking, fields[DATA].value);
    if (fields[NAME].value.size > 0)
        put(asking, SPAN(",\"filename\":"));
    put(asking, fields[NAME].value);
    put(asking, SPAN("}}"));
    return value_is(fields[DATA].value, '"') && fields[FILE_ID].value.size == 0 &&
           fields[FILE_URL].value.size == 0;
}

static const struct part {
    struct span type;
    uint32_t speakers;
    write_part_fn *write;
    const char *message; /* when it cannot be written */
} parts[] = {
    {SPAN("input_text"), SPEAKER_ANY, put_text, "a text part needs text"},
    {SPAN("output_text"), SPEAKER_ANY, put_text, "a text part needs text"},
    {SPAN("text"), SPEAKER_ANY, put_text, "a text part needs text"},
    {SPAN("refusal"), SPEAKER_ASSISTANT, put_refusal, "a refusal part needs refusal"},
    {SPAN("input_image"), SPEAKER_USER, put_image,
     "an input_image part needs image_url: no files are kept here (file_id)"},
    {SPAN("input_audio"), SPEAKER_USER, put_audio, "an input_audio part needs input_audio"},
    {SPAN("input_file"), SPEAKER_USER, put_file,
     "an input_file part needs file_data: no files are kept or fetched here (file_id, file_url)"},
};

static const struct part *part_of(struct span type)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (value_says(type, parts[i].type))
            return &parts[i];
    return NULL;
}

static bool put_part(struct asking *asking, struct span value, enum speaker speaker)
{
    struct member fields[] = PART_FIELDS;

    value_find_these(value, fields);

    const struct part *part = part_of(fields[PART_TYPE].value);

    if (part == NULL)
        return responses_refuse(
            asking, value, "parts of this type cannot be expressed in chat completions", PARAM);
    if (!(part->speakers & speaker))
        return responses_refuse(
            asking, value, "in chat completions a message of this role cannot have such a part",
            PARAM);
    return part->write(asking, fields) || responses_refuse(asking, value, part->message, PARAM);
}

/* The text of a list of exactly one text part, as a string value; {NULL, 0} of any other. */
static struct span only_text(struct span list)
{
    struct member fields[] = PART_FIELDS;
    struct value_walk walk;
    struct span first;
    struct span second;

    value_walk_list(&walk, list);
    if (!value_next_element(&walk, &first) || value_next_element(&walk, &second))
        return (struct span){NULL, 0};
    value_find_these(first, fields);

    const struct part *part = part_of(fields[PART_TYPE].value);
    const bool text = part != NULL && part->write == put_text;

    return text && value_is(fields[PART_TEXT].value, '"') ? fields[PART_TEXT].value
                                                          : (struct span){NULL, 0};
}

/* Content as a string where it is one text: every server takes that, of every role. */
static bool put_content(struct asking *asking, struct span item, struct span content,
                        enum speaker speaker)
{
    const struct span text = value_is(content, '"') ? content : only_text(content);
    struct value_walk walk;
    bool first = true;
    struct span part;

    if (text.size > 0) {
        put(asking, text);
        return true;
    }
    if (!value_is(content, '['))
        return responses_refuse(asking, content.size > 0 ? content : item,
                                "this must be a text or a list of parts", PARAM);
    put(asking, SPAN("["));
    value_walk_list(&walk, content);
    for (; value_next_element(&walk, &part); first = false) {
        if (!first)
            put(asking, SPAN(","));
        if (!put_part(asking, part, speaker))
            return false;
    }
    if (first)
        return responses_refuse(asking, content, "a message needs a part", PARAM);
    put(asking, SPAN("]"));
    return true;
}

/* ---- items ---- */

/* Ends the assistant's message, which stayed open for tool calls. */
static void close_assistant(struct asking *asking)
{
    if (asking->calls_open)
        put(asking, SPAN("]"));
    if (asking->assistant_open)
        put(asking, SPAN("}"));
    asking->assistant_open = asking->calls_open = false;
}

static void begin_message(struct asking *asking)
{
    close_assistant(asking);
    if (asking->wrote_message)
        put(asking, SPAN(","));
    asking->wrote_message = true;
}

/* developer becomes system: it is system's name for newer models, and means the same
 * (ChatCompletionRequestDeveloperMessage); chat templates of open models mostly know the old one
 * alone, and some fail on others. */
static const struct {
    struct span role, chat_role;
    enum speaker speaker;
} roles[] = {
    {SPAN("user"), SPAN("\"user\""), SPEAKER_USER},
    {SPAN("assistant"), SPAN("\"assistant\""), SPEAKER_ASSISTANT},
    {SPAN("system"), SPAN("\"system\""), SPEAKER_SYSTEM},
    {SPAN("developer"), SPAN("\"system\""), SPEAKER_SYSTEM},
};

static bool put_message(struct asking *asking, struct span item)
{
    struct member fields[] = {{SPAN("role"), {NULL, 0}}, {SPAN("content"), {NULL, 0}}};

    value_find_these(item, fields);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (!value_says(fields[0].value, roles[i].role))
            continue;
        begin_message(asking);
        put(asking, SPAN("{\"role\":"));
        put(asking, roles[i].chat_role);
        put(asking, SPAN(",\"content\":"));
        if (!put_content(asking, item, fields[1].value, roles[i].speaker))
            return false;
        if (roles[i].speaker == SPEAKER_ASSISTANT)
            asking->assistant_open = true;
        else
            put(asking, SPAN("}"));
        return true;
    }
    return responses_refuse(asking, item,
                            "a message needs role user, assistant, system or developer", PARAM);
}

/* Calls in a row are one turn of the assistant, together with its text before them: chat wants them
 * in one message, with the answers of all behind it. */
static bool put_call(struct asking *asking, struct span item)
{
    struct member fields[] = {{SPAN("call_id"), {NULL, 0}},
                              {SPAN("name"), {NULL, 0}},
                              {SPAN("arguments"), {NULL, 0}},
                              {SPAN("namespace"), {NULL, 0}}};

    value_find_these(item, fields);
    if (!value_is(fields[0].value, '"') || !value_is(fields[1].value, '"') ||
        !value_is(fields[2].value, '"') || fields[3].value.size > 0)
        return responses_refuse(
            asking, item,
            "a function_call needs call_id, name and arguments, all texts, and no "
            "namespace",
            PARAM);
    if (!asking->assistant_open) {
        begin_message(asking);
        put(asking, SPAN("{\"role\":\"assistant\",\"content\":null"));
        asking->assistant_open = true;
    }
    put(asking, asking->calls_open ? SPAN(",") : SPAN(",\"tool_calls\":["));
    asking->calls_open = true;
    put(asking, SPAN("{\"id\":"));
    put(asking, fields[0].value);
    put(asking, SPAN(",\"type\":\"function\",\"function\":{\"name\":"));
    put(asking, fields[1].value);
    put(asking, SPAN(",\"arguments\":"));
    put(asking, fields[2].value);
    put(asking, SPAN("}}"));
    return true;
}

static bool put_output(struct asking *asking, struct span item)
{
    struct member fields[] = {{SPAN("call_id"), {NULL, 0}}, {SPAN("output"), {NULL, 0}}};

    value_find_these(item, fields);
    if (!value_is(fields[0].value, '"'))
        return responses_refuse(asking, item, "a function_call_output needs call_id", PARAM);
    begin_message(asking);
    put(asking, SPAN("{\"role\":\"tool\",\"tool_call_id\":"));
    put(asking, fields[0].value);
    put(asking, SPAN(",\"content\":"));
    if (!put_content(asking, item, fields[1].value, SPEAKER_TOOL))
        return false;
    put(asking, SPAN("}"));
    return true;
}

/* What the model thought in earlier turns: messages of chat completions have no member for it, and
 * a conversation led by chat completions goes on without it (guide "Migrate to the Responses API":
 * chat keeps no reasoning between turns). Clients send such items back unasked. */
static bool drop_item(struct asking *asking, struct span item)
{
    (void)asking;
    (void)item;
    return true;
}

static const struct {
    struct span type;
    bool (*write)(struct asking *asking, struct span item);
} items[] = {
    {SPAN("message"), put_message},
    {SPAN("function_call"), put_call},
    {SPAN("function_call_output"), put_output},
    {SPAN("reasoning"), drop_item},
};

#define NO_ITEM(name)                                                                              \
    {                                                                                              \
        SPAN(name), "items of type " name " cannot be expressed in chat completions"               \
    }

static const struct {
    struct span type;
    const char *message;
} no_items[] = {
    {SPAN("item_reference"), "an item_reference points to what is not kept here"},
    NO_ITEM("file_search_call"),
    NO_ITEM("web_search_call"),
    NO_ITEM("computer_call"),
    NO_ITEM("computer_call_output"),
    NO_ITEM("image_generation_call"),
    NO_ITEM("code_interpreter_call"),
    NO_ITEM("local_shell_call"),
    NO_ITEM("local_shell_call_output"),
    NO_ITEM("shell_call"),
    NO_ITEM("shell_call_output"),
    NO_ITEM("apply_patch_call"),
    NO_ITEM("apply_patch_call_output"),
    NO_ITEM("mcp_list_tools"),
    NO_ITEM("mcp_approval_request"),
    NO_ITEM("mcp_approval_response"),
    NO_ITEM("mcp_call"),
    NO_ITEM("custom_tool_call"),
    NO_ITEM("custom_tool_call_output"),
    NO_ITEM("tool_search_call"),
    NO_ITEM("tool_search_output"),
    NO_ITEM("compaction"),
};

static bool put_item(struct asking *asking, struct span item)
{
    struct member fields[] = {{SPAN("type"), {NULL, 0}}, {SPAN("role"), {NULL, 0}}};

    value_find_these(item, fields);
    if (!value_is(item, '{'))
        return responses_refuse(asking, item, "an input item must be an object", PARAM);
    if (fields[0].value.size == 0 && fields[1].value.size > 0)
        return put_message(asking, item); /* the easy form has no type */
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        if (value_says(fields[0].value, items[i].type))
            return items[i].write(asking, item);
    for (size_t i = 0; i < sizeof no_items / sizeof no_items[0]; i++)
        if (value_says(fields[0].value, no_items[i].type))
            return responses_refuse(asking, item, no_items[i].message, PARAM);
    return responses_refuse(asking, item, "items of this type are not known here", PARAM);
}

/* ---- all of them ---- */

/* Instructions are "a system (or developer) message inserted into the model's context", before all
 * of input (openapi.yaml, ResponseProperties). */
static bool put_instructions(struct asking *asking, struct span instructions)
{
    if (instructions.size == 0)
        return true;
    if (!value_is(instructions, '"'))
        return responses_refuse(asking, instructions, "instructions must be a text",
                                "instructions");
    begin_message(asking);
    put(asking, SPAN("{\"role\":\"system\",\"content\":"));
    put(asking, instructions);
    put(asking, SPAN("}"));
    return true;
}

bool responses_write_messages(struct asking *asking, struct span instructions, struct span input)
{
    struct value_walk walk;
    struct span item;

    put(asking, SPAN("\"messages\":["));
    if (!put_instructions(asking, instructions))
        return false;
    if (value_is(input, '"')) {
        begin_message(asking);
        put(asking, SPAN("{\"role\":\"user\",\"content\":"));
        put(asking, input);
        put(asking, SPAN("}"));
    } else if (!value_is(input, '[')) {
        return responses_refuse(asking, input, "input must be a text or a list of items", PARAM);
    }
    value_walk_list(&walk, input);
    while (value_next_element(&walk, &item))
        if (!put_item(asking, item))
            return false;
    close_assistant(asking);
    put(asking, SPAN("]"));
    return true;
}
