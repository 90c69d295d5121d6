/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_messages_ask.c: the body of /v1/messages as one of chat completions.
 *
 * For:       the members around the conversation, which translate_messages_turns.c writes.
 * Called by: translate.c, by the row of translate_messages.c.
 * Knows not: answers, which kind of server gets the body.
 *
 * A table says what becomes of each member that Anthropic's API has. Members that it has not
 * (cache_salt, chat_template_kwargs, seed …) go over as they came, but for those that chat
 * completions have under another name here or that would break the bounds that the ask was judged
 * by: a client speaks one API at a time. */
#include "gateway/translate_messages.h"

struct known {
    struct span name;
    bool (*write)(struct asking *asking, struct span value); /* NULL: goes over as it came */
};

static void put_name(struct asking *asking, struct span name_and_colon)
{
    if (asking->wrote)
        writer_literal(asking->out, ",");
    asking->wrote = true;
    writer_put(asking->out, name_and_colon);
}

bool messages_refuse(struct asking *asking, struct span at, const char *message, const char *param)
{
    asking->err = ERR_BAD_VALUE;
    *asking->problem = (struct ask_problem){(size_t)(at.data - asking->body.data), message, param};
    return false;
}

static bool is_empty_list(struct span value)
{
    struct value_walk walk;
    struct span element;
    value_walk_list(&walk, value);
    return !value_next_element(&walk, &element);
}

/* ---- members that become others ---- */

/* stop_sequences → stop. An empty list is none: OpenAI takes no empty one. */
static bool write_stop(struct asking *asking, struct span value)
{
    if (!value_is(value, '['))
        return messages_refuse(asking, value, "stop_sequences must be a list", "stop_sequences");
    if (!is_empty_list(value)) {
        put_name(asking, SPAN("\"stop\":"));
        writer_put(asking->out, value);
    }
    return true;
}

/* metadata.user_id → user (Messages: an opaque id of the end user; Chat: the same). Other members
 * are labels for the gateway, which has read them, and change nothing of an answer. */
static bool write_metadata(struct asking *asking, struct span value)
{
    struct member members[] = {{.name = SPAN("user_id")}};
    if (!value_is(value, '{'))
        return messages_refuse(asking, value, "metadata must be an object", "metadata");
    value_find_these(value, members);
    if (members[0].value.data == NULL)
        return true;
    if (!value_is(members[0].value, '"'))
        return messages_refuse(asking, members[0].value, "user_id must be a string", "metadata");
    put_name(asking, SPAN("\"user\":"));
    writer_put(asking->out, members[0].value);
    return true;
}

/* service_tier: auto is auto in both; standard_only is what Chat calls default. */
static bool write_service_tier(struct asking *asking, struct span value)
{
    const bool automatic = value_says(value, SPAN("auto"));
    if (!automatic && !value_says(value, SPAN("standard_only")))
        return messages_refuse(asking, value, "service_tier must be auto or standard_only",
                               "service_tier");
    put_name(asking, SPAN("\"service_tier\":"));
    writer_put(asking->out, automatic ? SPAN("\"auto\"") : SPAN("\"default\""));
    return true;
}

/* cache_control asks for earlier work to be kept (Messages: prompt caching): a hint that changes
 * price and speed, never the answer. Model servers keep prefixes by themselves. */
static bool drop_hint(struct asking *asking, struct span value)
{
    (void)asking, (void)value;
    return true;
}

enum tool_member {
    TOOL_TYPE,
    TOOL_NAME,
    TOOL_DESCRIPTION,
    TOOL_SCHEMA,
    TOOL_STRICT,
    TOOL_DEFER,
    TOOL_HINTS, /* from here on: cache_control, and how the input is cut when streamed */
    TOOL_MEMBERS = TOOL_HINTS + 2
};

/* One tool: a function whose parameters are the input's schema, byte for byte. strict is the same
 * promise in both APIs. A type other than custom names a tool that Anthropic's servers run. */
static bool write_tool(struct asking *asking, struct span tool)
{
    struct member members[TOOL_MEMBERS] = {
        {.name = SPAN("type")},          {.name = SPAN("name")},
        {.name = SPAN("description")},   {.name = SPAN("input_schema")},
        {.name = SPAN("strict")},        {.name = SPAN("defer_loading")},
        {.name = SPAN("cache_control")}, {.name = SPAN("eager_input_streaming")},
    };
    const struct span odd = value_find_these(tool, members);
    const struct span type = members[TOOL_TYPE].value;
    if (!value_is(tool, '{'))
        return messages_refuse(asking, tool, "a tool must be an object", "tools");
    if (type.data != NULL && !value_says(type, SPAN("custom")))
        return messages_refuse(asking, type,
                               "the servers of this model run no tools: only tools of the client's "
                               "own (type custom) can be offered",
                               "tools");
    if (odd.data != NULL)
        return messages_refuse(asking, odd, "the servers of this model cannot do this with a tool",
                               "tools");
    if (value_is(members[TOOL_DEFER].value, 't'))
        return messages_refuse(asking, members[TOOL_DEFER].value,
                               "the servers of this model cannot search for tools", "tools");
    if (!value_has_text(members[TOOL_NAME].value))
        return messages_refuse(asking, tool, "a tool needs a name", "tools");
    if (!value_is(members[TOOL_SCHEMA].value, '{'))
        return messages_refuse(asking, tool, "a tool needs an input_schema", "tools");
    writer_literal(asking->out, "{\"type\":\"function\",\"function\":{\"name\":");
    writer_put(asking->out, members[TOOL_NAME].value);
    if (members[TOOL_DESCRIPTION].value.data != NULL) {
        writer_literal(asking->out, ",\"description\":");
        writer_put(asking->out, members[TOOL_DESCRIPTION].value);
    }
    writer_literal(asking->out, ",\"parameters\":");
    writer_put(asking->out, members[TOOL_SCHEMA].value);
    if (members[TOOL_STRICT].value.data != NULL) {
        writer_literal(asking->out, ",\"strict\":");
        writer_put(asking->out, members[TOOL_STRICT].value);
    }
    writer_literal(asking->out, "}}");
    return true;
}

/* An empty list of tools is none: OpenAI takes no empty one. */
static bool write_tools(struct asking *asking, struct span value)
{
    struct value_walk walk;
    struct span tool;
    bool first = true;
    if (!value_is(value, '['))
        return messages_refuse(asking, value, "tools must be a list", "tools");
    if (is_empty_list(value))
        return true;
    put_name(asking, SPAN("\"tools\":["));
    value_walk_list(&walk, value);
    while (value_next_element(&walk, &tool)) {
        if (!first)
            writer_literal(asking->out, ",");
        first = false;
        if (!write_tool(asking, tool))
            return false;
    }
    writer_literal(asking->out, "]");
    return true;
}

/* tool_choice: auto and none keep their names, any is required, tool is a function by its name
 * (vLLM, _convert_tool_choice). disable_parallel_tool_use: true is parallel_tool_calls: false; the
 * other way round is the default of both. */
static bool write_tool_choice(struct asking *asking, struct span value)
{
    struct member members[] = {{.name = SPAN("type")},
                               {.name = SPAN("name")},
                               {.name = SPAN("disable_parallel_tool_use")}};
    const struct span odd = value_find_these(value, members);
    const struct span type = members[0].value;
    const struct span name = members[1].value;
    if (odd.data != NULL)
        return messages_refuse(asking, odd, "tool_choice has an unknown member", "tool_choice");
    put_name(asking, SPAN("\"tool_choice\":"));
    if (value_says(type, SPAN("auto"))) {
        writer_literal(asking->out, "\"auto\"");
    } else if (value_says(type, SPAN("any"))) {
        writer_literal(asking->out, "\"required\"");
    } else if (value_says(type, SPAN("none"))) {
        writer_literal(asking->out, "\"none\"");
    } else if (value_says(type, SPAN("tool")) && value_has_text(name)) {
        writer_literal(asking->out, "{\"type\":\"function\",\"function\":{\"name\":");
        writer_put(asking->out, name);
        writer_literal(asking->out, "}}");
    } else {
        return messages_refuse(asking, value,
                               "tool_choice must be of type auto, any, none, or tool with a name",
                               "tool_choice");
    }
    if (value_is(members[2].value, 't'))
        put_name(asking, SPAN("\"parallel_tool_calls\":false"));
    return true;
}

/* output_config.format of type json_schema → response_format. Strict, because Anthropic promises
 * that the output keeps to the schema, and chat completions promise that only when strict. */
static bool write_format(struct asking *asking, struct span format)
{
    struct member members[] = {{.name = SPAN("type")}, {.name = SPAN("schema")}};
    const struct span odd = value_find_these(format, members);
    if (odd.data != NULL || !value_says(members[0].value, SPAN("json_schema")) ||
        !value_is(members[1].value, '{'))
        return messages_refuse(asking, format,
                               "output_config.format must be of type json_schema, with a schema",
                               "output_config");
    put_name(asking, SPAN("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
                          "\"name\":\"output\",\"strict\":true,\"schema\":"));
    writer_put(asking->out, members[1].value);
    writer_literal(asking->out, "}}");
    return true;
}

/* ---- how much to think ---- */

/* A budget as an effort: chat completions know no other measure that all servers share. Bounds:
 * LiteLLM, translate_anthropic_thinking_to_reasoning_effort(). The budget is a ceiling that the
 * model need not use up (Messages: thinking.budget_tokens), so is an effort. */
static struct span effort_of_budget(int64_t tokens)
{
    if (tokens >= 10000)
        return SPAN("\"high\"");
    if (tokens >= 5000)
        return SPAN("\"medium\"");
    return tokens >= 2000 ? SPAN("\"low\"") : SPAN("\"minimal\"");
}

/* thinking: enabled is an effort by its budget; adaptive leaves it to the model, and disabled is
 * Messages' own default: both are what a chat without reasoning_effort says. display is honoured in
 * the answer. block_binding says what becomes of signed thinking whose context has changed: none is
 * read here. */
static bool read_thinking(struct asking *asking, struct span thinking, struct span *out_effort)
{
    struct member members[] = {
        {.name = SPAN("type")},
        {.name = SPAN("budget_tokens")},
        {.name = SPAN("display")},
        {.name = SPAN("block_binding")},
    };
    const struct span odd = value_find_these(thinking, members);
    int64_t tokens;
    if (thinking.data == NULL)
        return true;
    if (odd.data != NULL)
        return messages_refuse(asking, odd, "thinking has an unknown member", "thinking");
    if (value_says(members[0].value, SPAN("disabled")) ||
        value_says(members[0].value, SPAN("adaptive")))
        return true;
    if (!value_says(members[0].value, SPAN("enabled")))
        return messages_refuse(
            asking, thinking, "thinking must be of type enabled, adaptive or disabled", "thinking");
    if (!span_to_int64(members[1].value, &tokens))
        return messages_refuse(asking, thinking, "budget_tokens must be a whole number",
                               "thinking");
    *out_effort = effort_of_budget(tokens);
    return true;
}

/* output_config: effort goes over by its name (vLLM, _handle_output_config) and says more than a
 * budget. */
static bool write_output(struct asking *asking, struct span config, struct span thinking)
{
    struct member members[] = {{.name = SPAN("effort")}, {.name = SPAN("format")}};
    const struct span odd = value_find_these(config, members);
    struct span effort = {NULL, 0};
    if (config.data != NULL && (!value_is(config, '{') || odd.data != NULL))
        return messages_refuse(asking, odd.data != NULL ? odd : config,
                               "output_config may have effort and format", "output_config");
    if (!read_thinking(asking, thinking, &effort))
        return false;
    if (members[0].value.data != NULL)
        effort = members[0].value;
    if (effort.data != NULL) {
        if (!value_is(effort, '"'))
            return messages_refuse(asking, effort, "effort must be a string", "output_config");
        put_name(asking, SPAN("\"reasoning_effort\":"));
        writer_put(asking->out, effort);
    }
    return members[1].value.data == NULL || write_format(asking, members[1].value);
}

/* ---- the table, and the pass ---- */

/* clang-format off */

/* top_k is no member of OpenAI's own chat completions, which refuse it; model servers know it. */
static const struct known known_members[] = {
    {SPAN("model"),          NULL},
    {SPAN("stream"),         NULL},
    {SPAN("max_tokens"),     NULL}, /* the name that every server knows, older ones alone */
    {SPAN("temperature"),    NULL},
    {SPAN("top_p"),          NULL},
    {SPAN("top_k"),          NULL},
    {SPAN("stop_sequences"), write_stop},
    {SPAN("metadata"),       write_metadata},
    {SPAN("service_tier"),   write_service_tier},
    {SPAN("cache_control"),  drop_hint},
    {SPAN("tools"),          write_tools},
    {SPAN("tool_choice"),    write_tool_choice},
};

/* Those of Anthropic's that need Anthropic's servers (Messages, and the beta types of the SDK); a
 * chat without them would be another ask. */
static const struct span anthropic_only[] = {
    SPAN("container"), SPAN("context_management"), SPAN("fallbacks"), SPAN("inference_geo"),
    SPAN("mcp_servers"), SPAN("output_format"), SPAN("speed"), SPAN("user_profile_id"),
};

/* Those of chat completions that are written here under Anthropic's names, or that ask for more
 * than one answer, which Messages cannot hold. */
static const struct span chat_only[] = {
    SPAN("best_of"), SPAN("function_call"), SPAN("functions"), SPAN("max_completion_tokens"),
    SPAN("n"), SPAN("parallel_tool_calls"), SPAN("reasoning_effort"), SPAN("response_format"),
    SPAN("stop"), SPAN("stream_options"), SPAN("user"),
};

/* clang-format on */

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* The name in the table, which is static text with a NUL behind it; NULL: none. */
static const char *name_in(const struct span *names, size_t count, struct span key)
{
    for (size_t i = 0; i < count; i++)
        if (value_spells(key, names[i]))
            return names[i].data;
    return NULL;
}

/* A member that Anthropic's API has not. */
static bool write_unknown(struct asking *asking, struct span key, struct span value)
{
    const char *name = name_in(anthropic_only, COUNT(anthropic_only), key);
    if (name != NULL)
        return value_is(value, 'n') ||
               messages_refuse(asking, key, "the servers of this model cannot do this", name);
    name = name_in(chat_only, COUNT(chat_only), key);
    if (name != NULL)
        return messages_refuse(asking, key, "this is a field of chat completions, not of messages",
                               name);
    put_name(asking, SPAN(""));
    writer_raw(asking->out, key);
    writer_literal(asking->out, ":");
    writer_put(asking->out, value);
    return true;
}

static bool write_member(struct asking *asking, struct span key, struct span value)
{
    for (size_t i = 0; i < COUNT(known_members); i++) {
        const struct known *known = &known_members[i];
        if (!value_spells(key, known->name))
            continue;
        if (value_is(value, 'n'))
            return true;
        if (known->write != NULL)
            return known->write(asking, value);
        put_name(asking, SPAN(""));
        writer_raw(asking->out, known->name);
        writer_literal(asking->out, ":");
        writer_put(asking->out, value);
        return true;
    }
    return write_unknown(asking, key, value);
}

enum late { LATE_SYSTEM, LATE_MESSAGES, LATE_THINKING, LATE_OUTPUT, LATE_COUNT };

/* Members that are written together, whatever their order is, come last. */
static bool write_members(struct asking *asking, struct span object)
{
    struct member late[LATE_COUNT] = {{.name = SPAN("system")},
                                      {.name = SPAN("messages")},
                                      {.name = SPAN("thinking")},
                                      {.name = SPAN("output_config")}};
    struct value_walk walk;
    struct span key;
    struct span value;
    value_find_these(object, late);
    value_walk_object(&walk, object);
    while (value_next_member(&walk, &key, &value)) {
        bool is_late = false;
        for (size_t i = 0; i < LATE_COUNT; i++)
            is_late |= value_spells(key, late[i].name);
        if (!is_late && !write_member(asking, key, value))
            return false;
    }
    if (!write_output(asking, late[LATE_OUTPUT].value, late[LATE_THINKING].value))
        return false;
    put_name(asking, SPAN("\"messages\":["));
    if (!messages_write_turns(asking, late[LATE_SYSTEM].value, late[LATE_MESSAGES].value))
        return false;
    writer_literal(asking->out, "]");
    return true;
}

enum err messages_ask(struct span body, uint32_t json_depth, struct writer *out,
                      struct ask_problem *out_problem)
{
    struct asking asking = {body, out, out_problem, OK, false, NULL};
    struct span object;
    const enum err err = translate_read_object(body, json_depth, &object, out_problem);
    if (err != OK)
        return err;
    writer_literal(out, "{");
    if (!write_members(&asking, object))
        return asking.err;
    writer_literal(out, "}");
    return out->err;
}
