/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses_ask.c: a responses body as one of chat completions.
 *
 * For:       which member becomes which, and which cannot be expressed.
 * Called by: translate.c, by the row.
 * Knows not: answers; what an input item becomes (translate_responses_input.c).
 *
 * Members without a row in the table go on as they came: those that both APIs have (model, stream,
 * temperature, top_p, parallel_tool_calls, metadata, user, safety_identifier, prompt_cache_key,
 * prompt_cache_retention, service_tier), and a server's own. Source of all that is said of members
 * here: OpenAI's API description (openapi.yaml), CreateResponse and CreateChatCompletionRequest,
 * and its guide "Migrate to the Responses API". */
#include "gateway/translate_responses.h"

bool responses_refuse(struct asking *asking, struct span value, const char *message,
                      const char *param)
{
    *asking->problem = (struct ask_problem){
        .offset = value.data != NULL ? (size_t)(value.data - asking->body.data) : 0,
        .message = message,
        .param = param,
    };
    return false;
}

/* ---- the members ---- */

enum translated_member {
    INPUT,
    INSTRUCTIONS,
    MAX_OUTPUT_TOKENS,
    TOOLS,
    TOOL_CHOICE,
    TEXT,
    REASONING,
    INCLUDE,
    TOP_LOGPROBS,
    TRUNCATION,
    STREAM_OPTIONS,
    TRANSLATED_COUNT
};

static const struct member translated[TRANSLATED_COUNT] = {
    [INPUT] = {.name = SPAN("input")},
    [INSTRUCTIONS] = {.name = SPAN("instructions")},
    [MAX_OUTPUT_TOKENS] = {.name = SPAN("max_output_tokens")},
    [TOOLS] = {.name = SPAN("tools")},
    [TOOL_CHOICE] = {.name = SPAN("tool_choice")},
    [TEXT] = {.name = SPAN("text")},
    [REASONING] = {.name = SPAN("reasoning")},
    [INCLUDE] = {.name = SPAN("include")},
    [TOP_LOGPROBS] = {.name = SPAN("top_logprobs")},
    [TRUNCATION] = {.name = SPAN("truncation")},
    [STREAM_OPTIONS] = {.name = SPAN("stream_options")},
};

#define NOT_KEPT "nothing is kept here between two responses"
#define OF_CHAT "this member belongs to chat completions, not to responses"

/* Members that do not go on. Without a message they are dropped: store would keep the chat for
 * another product (distillation and evals), and nothing is kept here, which the answer says
 * (store: false); max_tool_calls bounds built-in tools alone, of which there are none. The others
 * are refused unless null or false; those of chat completions would stand twice otherwise, or ask
 * for several choices. */
static const struct {
    struct span name;
    const char *message;
} stopped[] = {
    {SPAN("store"), NULL},
    {SPAN("max_tool_calls"), NULL},
    {SPAN("previous_response_id"), NOT_KEPT},
    {SPAN("previous_response"), NOT_KEPT},       /* vLLM */
    {SPAN("previous_input_messages"), NOT_KEPT}, /* vLLM */
    {SPAN("conversation"), NOT_KEPT},
    {SPAN("background"), NOT_KEPT},
    {SPAN("prompt"), "templates of prompts are not kept here"},
    {SPAN("context_management"), "chat completions cannot manage the context"},
    {SPAN("messages"), OF_CHAT},
    {SPAN("n"), OF_CHAT},
    {SPAN("max_tokens"), OF_CHAT},
    {SPAN("max_completion_tokens"), OF_CHAT},
    {SPAN("response_format"), OF_CHAT},
    {SPAN("reasoning_effort"), OF_CHAT},
    {SPAN("verbosity"), OF_CHAT},
    {SPAN("logprobs"), OF_CHAT},
    {SPAN("functions"), OF_CHAT},
    {SPAN("function_call"), OF_CHAT},
};

static bool is_translated(struct span key)
{
    for (size_t i = 0; i < TRANSLATED_COUNT; i++)
        if (span_equal(translated[i].name, key))
            return true;
    return false;
}

/* Writes a member that goes on as it came; the comma stands behind it, as the messages come last.
 */
static bool pass_member(struct asking *asking, struct span raw_key, struct span key,
                        struct span value)
{
    if (is_translated(key))
        return true;
    for (size_t i = 0; i < sizeof stopped / sizeof stopped[0]; i++) {
        if (!span_equal(stopped[i].name, key))
            continue;
        if (stopped[i].message == NULL || value_is(value, 'n') || value_is(value, 'f'))
            return true;
        return responses_refuse(asking, value, stopped[i].message, stopped[i].name.data);
    }
    writer_raw(asking->out, raw_key);
    writer_literal(asking->out, ":");
    writer_put(asking->out, value);
    writer_literal(asking->out, ",");
    return true;
}

static bool pass_members(struct asking *asking, struct span object)
{
    char scratch[VALUE_NAME_BYTES];
    struct value_walk walk;
    struct span key;
    struct span value;

    value_walk_object(&walk, object);
    while (value_next_member(&walk, &key, &value))
        if (!pass_member(asking, key, value_name(key, scratch), value))
            return false;
    return true;
}

/* "name":value, unless there is no value. */
static void put_member(struct asking *asking, struct span name, struct span value)
{
    if (value.size == 0)
        return;
    writer_raw(asking->out, name);
    writer_literal(asking->out, ":");
    writer_put(asking->out, value);
    writer_literal(asking->out, ",");
}

/* ---- objects ---- */

/* {"type":"T",…} as {"type":"T","T":{…}}: functions, choices of one, and schemas lie flat in
 * responses and nested in chat completions (guide "Migrate to the Responses API"). Members that are
 * null are left out: responses allow that where chat does not (parameters), and it means absent. */
static void put_nested(struct asking *asking, struct span type, struct span object)
{
    char scratch[VALUE_NAME_BYTES];
    struct value_walk walk;
    struct span key;
    struct span value;
    bool wrote = false;

    writer_literal(asking->out, "{\"type\":");
    writer_raw(asking->out, type);
    writer_literal(asking->out, ",");
    writer_raw(asking->out, type);
    writer_literal(asking->out, ":{");
    value_walk_object(&walk, object);
    while (value_next_member(&walk, &key, &value)) {
        if (span_equal(value_name(key, scratch), SPAN("type")) || value_is(value, 'n'))
            continue;
        if (wrote)
            writer_literal(asking->out, ",");
        wrote = true;
        writer_raw(asking->out, key);
        writer_literal(asking->out, ":");
        writer_put(asking->out, value);
    }
    writer_literal(asking->out, "}}");
}

/* The value of a member that is none of these, and not null; {NULL, 0}: there is none. */
static struct span stranger_in(struct span object, const struct member *members, size_t count)
{
    char scratch[VALUE_NAME_BYTES];
    struct value_walk walk;
    struct span key;
    struct span value;

    value_walk_object(&walk, object);
    while (value_next_member(&walk, &key, &value)) {
        bool known = value_is(value, 'n');

        key = value_name(key, scratch);
        for (size_t i = 0; i < count && !known; i++)
            known = span_equal(members[i].name, key);
        if (!known)
            return value;
    }
    return (struct span){NULL, 0};
}

/* The members of an object that has no others, or is absent. */
static bool find_only(struct asking *asking, struct span object, const char *param,
                      struct member *fields, size_t count)
{
    const struct span stranger = stranger_in(object, fields, count);

    value_find(object, fields, count);
    if (object.size > 0 && !value_is(object, '{'))
        return responses_refuse(asking, object, "this must be an object", param);
    if (stranger.size > 0)
        return responses_refuse(asking, stranger,
                                "this member cannot be expressed in chat completions", param);
    return true;
}

/* ---- tools ---- */

#define NO_TOOL(name)                                                                              \
    {                                                                                              \
        SPAN(name), "tools of type " name " cannot be expressed in chat completions"               \
    }

/* Source: openapi.yaml, Tool. They run at the provider, or have calls that chat does not have. */
static const struct {
    struct span type;
    const char *message;
} no_tools[] = {
    NO_TOOL("file_search"),
    NO_TOOL("web_search"),
    NO_TOOL("web_search_2025_08_26"),
    NO_TOOL("web_search_preview"),
    NO_TOOL("web_search_preview_2025_03_11"),
    NO_TOOL("computer"),
    NO_TOOL("computer_use_preview"),
    NO_TOOL("mcp"),
    NO_TOOL("code_interpreter"),
    NO_TOOL("image_generation"),
    NO_TOOL("local_shell"),
    NO_TOOL("shell"),
    NO_TOOL("apply_patch"),
    NO_TOOL("custom"),
    NO_TOOL("namespace"),
    NO_TOOL("tool_search"),
};

static bool refuse_tool(struct asking *asking, struct span tool, struct span type)
{
    for (size_t i = 0; i < sizeof no_tools / sizeof no_tools[0]; i++)
        if (value_says(type, no_tools[i].type))
            return responses_refuse(asking, tool, no_tools[i].message, "tools");
    return responses_refuse(asking, tool, "only tools of type function are known here", "tools");
}

/* An empty list is left out: chat completions want one tool at least. strict stays as it came:
 * where it is absent, responses mean "if the schema allows it" and chat does not (guide "Migrate to
 * the Responses API"), but to say true would make servers refuse schemas that responses take. */
static bool put_tools(struct asking *asking, struct span tools, bool *out_some)
{
    struct member fields[] = {{SPAN("type"), {NULL, 0}}, {SPAN("name"), {NULL, 0}}};
    struct value_walk walk;
    struct span tool;

    *out_some = false;
    if (tools.size > 0 && !value_is(tools, '['))
        return responses_refuse(asking, tools, "tools must be a list", "tools");
    value_walk_list(&walk, tools);
    while (value_next_element(&walk, &tool)) {
        value_find_these(tool, fields);
        if (!value_says(fields[0].value, SPAN("function")))
            return refuse_tool(asking, tool, fields[0].value);
        if (!value_is(fields[1].value, '"'))
            return responses_refuse(asking, tool, "a function needs a name", "tools");
        if (*out_some)
            writer_literal(asking->out, ",");
        else
            writer_literal(asking->out, "\"tools\":[");
        *out_some = true;
        put_nested(asking, SPAN("function"), tool);
    }
    if (*out_some)
        writer_literal(asking->out, "],");
    return true;
}

/* Without tools, "auto" and "none" say nothing, and chat servers refuse them (vLLM's
 * chat_completion/protocol.py: tool_choice needs tools): they are left out then. */
static bool put_tool_choice(struct asking *asking, struct span choice, bool tools)
{
    struct member fields[] = {{SPAN("type"), {NULL, 0}}, {SPAN("name"), {NULL, 0}}};

    if (choice.size == 0)
        return true;
    if (value_is(choice, '"')) {
        if (tools || value_says(choice, SPAN("required")))
            put_member(asking, SPAN("tool_choice"), choice);
        return true;
    }
    value_find_these(choice, fields);
    if (!value_says(fields[0].value, SPAN("function")) || !value_is(fields[1].value, '"'))
        return responses_refuse(
            asking, choice,
            "only none, auto, required and one function can be expressed in chat "
            "completions",
            "tool_choice");
    writer_literal(asking->out, "\"tool_choice\":");
    put_nested(asking, SPAN("function"), choice);
    writer_literal(asking->out, ",");
    return true;
}

/* ---- text, reasoning, and what else is told of the answer ---- */

static bool put_format(struct asking *asking, struct span format)
{
    struct member type = {SPAN("type"), {NULL, 0}};

    value_find(format, &type, 1);
    if (format.size == 0 || value_says(type.value, SPAN("text")))
        return true; /* the default of both */
    if (value_says(type.value, SPAN("json_object"))) {
        put_member(asking, SPAN("response_format"), format);
        return true;
    }
    if (!value_says(type.value, SPAN("json_schema")))
        return responses_refuse(asking, format,
                                "only formats of type text, json_schema and json_object can be "
                                "expressed in chat completions",
                                "text.format");
    writer_literal(asking->out, "\"response_format\":");
    put_nested(asking, SPAN("json_schema"), format);
    writer_literal(asking->out, ",");
    return true;
}

static bool put_text(struct asking *asking, struct span text)
{
    struct member fields[] = {{SPAN("format"), {NULL, 0}}, {SPAN("verbosity"), {NULL, 0}}};

    if (!find_only(asking, text, "text", fields, 2) || !put_format(asking, fields[0].value))
        return false;
    put_member(asking, SPAN("verbosity"), fields[1].value);
    return true;
}

/* A summary may be asked for, "useful for debugging" (openapi.yaml, Reasoning); servers that show
 * their reasoning show all of it, so both names of that wish are hints. */
static bool put_reasoning(struct asking *asking, struct span reasoning)
{
    struct member fields[] = {{SPAN("effort"), {NULL, 0}},
                              {SPAN("summary"), {NULL, 0}},
                              {SPAN("generate_summary"), {NULL, 0}}};

    if (!find_only(asking, reasoning, "reasoning", fields, 3))
        return false;
    put_member(asking, SPAN("reasoning_effort"), fields[0].value);
    return true;
}

/* What else an answer may include (openapi.yaml, IncludeEnum). The first has a form in chat. The
 * second is a copy of the reasoning for later asks; ours stands in the answer as text, and no ask
 * takes it (translate_responses_input.c). The rest is about items that cannot occur: calls of tools
 * that are refused, and the ask's own input. */
#define INCLUDE_LOGPROBS SPAN("message.output_text.logprobs")
static bool is_idle_include(struct span value)
{
    static const struct span idle[] = {
        SPAN("reasoning.encrypted_content"),   SPAN("file_search_call.results"),
        SPAN("web_search_call.results"),       SPAN("web_search_call.action.sources"),
        SPAN("message.input_image.image_url"), SPAN("computer_call_output.output.image_url"),
        SPAN("code_interpreter_call.outputs"),
    };

    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        if (value_says(value, idle[i]))
            return true;
    return false;
}

/* Chat has two members for what responses say by one each: logprobs at all, and how many more. */
static bool put_logprobs(struct asking *asking, struct span include, struct span top_logprobs)
{
    struct value_walk walk;
    bool logprobs = top_logprobs.size > 0;
    struct span value;

    if (include.size > 0 && !value_is(include, '['))
        return responses_refuse(asking, include, "include must be a list", "include");
    value_walk_list(&walk, include);
    while (value_next_element(&walk, &value)) {
        if (value_says(value, INCLUDE_LOGPROBS))
            logprobs = true;
        else if (!is_idle_include(value))
            return responses_refuse(asking, value, "this cannot be included here", "include");
    }
    if (logprobs)
        put_member(asking, SPAN("logprobs"), SPAN("true"));
    put_member(asking, SPAN("top_logprobs"), top_logprobs);
    return true;
}

/* include_obfuscation pads events against listeners who see their sizes; chat servers do not know
 * it (vLLM refuses none of it, but sends no padding), so it is a hint. stream_options itself is
 * written by whoever sends the body. */
static bool check_hints(struct asking *asking, const struct member *fields)
{
    struct member obfuscation = {SPAN("include_obfuscation"), {NULL, 0}};
    const struct span truncation = fields[TRUNCATION].value;

    if (!find_only(asking, fields[STREAM_OPTIONS].value, "stream_options", &obfuscation, 1))
        return false;
    if (truncation.size > 0 && !value_says(truncation, SPAN("disabled")))
        return responses_refuse(
            asking, truncation,
            "only \"disabled\" can be expressed in chat completions: nothing of "
            "the input is left out",
            "truncation");
    return true;
}

/* max_output_tokens becomes max_tokens: TGI knows no other name, vLLM, SGLang and llama.cpp know
 * both (their servers' protocol files). */
static bool put_members(struct asking *asking, const struct member *fields)
{
    bool tools;

    put_member(asking, SPAN("max_tokens"), fields[MAX_OUTPUT_TOKENS].value);
    return put_tools(asking, fields[TOOLS].value, &tools) &&
           put_tool_choice(asking, fields[TOOL_CHOICE].value, tools) &&
           put_text(asking, fields[TEXT].value) && put_reasoning(asking, fields[REASONING].value) &&
           put_logprobs(asking, fields[INCLUDE].value, fields[TOP_LOGPROBS].value) &&
           check_hints(asking, fields);
}

enum err responses_ask(struct span body, uint32_t json_depth, struct writer *out,
                       struct ask_problem *out_problem)
{
    struct asking asking = {.body = body, .out = out, .problem = out_problem};
    struct member fields[TRANSLATED_COUNT];
    struct span whole;
    const enum err err = translate_read_object(body, json_depth, &whole, out_problem);

    if (err != OK)
        return err;
    memcpy(fields, translated, sizeof fields);
    value_find_these(whole, fields);
    writer_literal(out, "{");
    if (!pass_members(&asking, whole) || !put_members(&asking, fields) ||
        !responses_write_messages(&asking, fields[INSTRUCTIONS].value, fields[INPUT].value))
        return ERR_BAD_VALUE;
    writer_literal(out, "}");
    return out->err;
}
