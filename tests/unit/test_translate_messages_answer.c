/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_translate_messages_answer.c: chat answers as messages, whole and streamed.
 *
 * Promises: 1. A whole answer becomes a message with its content, stop reason and usage.
 *           2. However the events of a chat come, those that go out are in Anthropic's order.
 *           3. Tool calls that come interleaved go out one after the other, whole.
 *           4. Nothing comes behind the end or an error; the end is told once.
 *           5. What a client sends back of an answer is what the server said.
 *
 * Texts have ' where JSON has ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <jansson.h>

#include "gateway/translate.h"

#define MOST (1u << 20)

static char *json_of(const char *text)
{
    char *json = strdup(text);
    assert_non_null(json);
    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    return json;
}

static struct translator *begin(const char *body)
{
    char *json = json_of(body);
    const struct translator_facts facts = {SPAN("m\"1"), SPAN("0af7"), span_of(json), 0};
    struct translator *translator = translator_new(ENDPOINT_MESSAGES, &facts);
    assert_non_null(translator);
    free(json);
    return translator;
}

/* What was written as a text of the caller's. */
static char *text_of(struct writer *writer)
{
    assert_int_equal(writer->err, OK);
    assert_true(buffer_append(&writer->text, (struct span){"", 1}));
    return writer->text.data;
}

/* ---- whole ---- */

static char *whole(const char *chat, const char *body, enum err *out_err)
{
    struct translator *translator = begin(body);
    struct writer writer = writer_new(MOST);
    char *json = json_of(chat);
    *out_err = translator_whole(translator, span_of(json), &writer);
    free(json);
    translator_free(translator);
    char *text = text_of(&writer);
    for (char *at = text; *at; at++)
        if (*at == '"')
            *at = '\'';
    return text;
}

#define OPENING "{'id':'msg_0af7','type':'message','role':'assistant','model':'m\\'1','content':["
#define CLOSING(reason, sequence, input, created, read, output)                                    \
    "],'stop_reason':" reason ",'stop_sequence':" sequence ",'usage':{'input_tokens':" input       \
    ",'cache_creation_input_tokens':" created ",'cache_read_input_tokens':" read                   \
    ",'output_tokens':" output "}}"
#define NO_USAGE(reason) CLOSING(reason, "null", "0", "0", "0", "0")

static void a_whole_answer_becomes_a_message(void **state)
{
    (void)state;
    static const struct {
        const char *chat, *message;
    } cases[] = {
        {" {'id':'chatcmpl-1','object':'chat.completion','created':1,'model':'other','choices':["
         "{'index':0,'message':{'role':'assistant','content':'Hi\\n\\u00e9 \\/','refusal':null,"
         "'tool_calls':[]},'logprobs':null,'finish_reason':'stop','stop_reason':null}],"
         "'usage':{'prompt_tokens':10,'completion_tokens':3,'total_tokens':13,"
         "'prompt_tokens_details':null}}\n",
         OPENING "{'type':'text','text':'Hi\\n\\u00e9 \\/'}" CLOSING("'end_turn'", "null", "10",
                                                                     "0", "0", "3")},
        {"{'choices':[{'message':{'content':'b','reasoning':'a'},'finish_reason':'length'}],"
         "'usage':{'prompt_tokens':10,'completion_tokens':3,"
         "'prompt_tokens_details':{'cached_tokens':4,'created_cache_tokens':5}}}",
         OPENING
         "{'type':'thinking','thinking':'a','signature':''},{'type':'text','text':'b'}" CLOSING(
             "'max_tokens'", "null", "1", "5", "4", "3")},
        {"{'choices':[{'message':{'content':'b','reasoning':'a','reasoning_content':'a'},"
         "'finish_reason':'stop','stop_reason':'\\nEnd'}],"
         "'usage':{'prompt_tokens':2,'prompt_tokens_details':{'cached_tokens':9,"
         "'cache_write_tokens':1}}}",
         OPENING
         "{'type':'thinking','thinking':'a','signature':''},{'type':'text','text':'b'}" CLOSING(
             "'stop_sequence'", "'\\nEnd'", "0", "0", "2", "0")},
        {"{'choices':[{'message':{'content':null,'tool_calls':["
         "{'id':'c1','type':'function','function':{'name':'f','arguments':'{ \\'a\\': 1 }'}},"
         "{'id':'','function':{'name':'g','arguments':''}},"
         "{'function':{'name':'h','arguments':{'b':2}}}]},'finish_reason':'tool_calls'}]}",
         OPENING "{'type':'tool_use','id':'c1','name':'f','input':{ 'a': 1 }},"
                 "{'type':'tool_use','id':'toolu_0af7_1','name':'g','input':{}},"
                 "{'type':'tool_use','id':'toolu_0af7_2','name':'h','input':{'b':2}}" NO_USAGE(
                     "'tool_use'")},
        {"{'choices':[]}", OPENING NO_USAGE("'end_turn'")},
        {"{'choices':[{'message':{'content':''},'finish_reason':'stop'}]}",
         OPENING NO_USAGE("'end_turn'")},
        {"{'choices':[{'message':{'content':null,'refusal':'I will not.'},'finish_reason':'stop'}"
         "]}",
         OPENING "{'type':'text','text':'I will not.'}" NO_USAGE("'refusal'")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum err err;
        char *message = whole(cases[i].chat, "{}", &err);
        assert_int_equal(err, OK);
        assert_string_equal(message, cases[i].message);
        free(message);
    }
}

static void finish_reasons_are_stop_reasons(void **state)
{
    (void)state;
    static const struct {
        const char *choice, *reason;
    } cases[] = {
        {"'message':{'content':'a'},'finish_reason':'stop'", "'end_turn'"},
        {"'message':{'content':'a'},'finish_reason':'length'", "'max_tokens'"},
        {"'message':{'content':'a'},'finish_reason':'content_filter'", "'refusal'"},
        {"'message':{'content':'a'},'finish_reason':'abort'", "'end_turn'"},
        {"'message':{'content':'a'},'finish_reason':null", "'end_turn'"},
        {"'message':{'content':'a'}", "'end_turn'"},
        {"'message':{'content':'a'},'finish_reason':'tool_calls'", "'end_turn'"},
        {"'message':{'content':'a'},'finish_reason':'stop_sequence'", "'stop_sequence'"},
        {"'message':{'content':'a'},'finish_reason':'stop','matched_stop':'x'", "'stop_sequence'"},
        {"'message':{'content':'a'},'finish_reason':'stop','matched_stop':128009", "'end_turn'"},
        {"'message':{'content':'a'},'finish_reason':'stop','stop_reason':128009", "'end_turn'"},
        {"'message':{'tool_calls':[{'id':'a','function':{'name':'f'}}]},'finish_reason':'stop'",
         "'tool_use'"},
        {"'message':{'tool_calls':[{'id':'a','function':{'name':'f'}}]},'finish_reason':'length'",
         "'max_tokens'"},
        {"'message':{'tool_calls':[{'id':'a','function':{'name':'f'}}]},"
         "'finish_reason':'tool_calls','stop_reason':'x'",
         "'tool_use'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char chat[512];
        enum err err;
        snprintf(chat, sizeof chat, "{'choices':[{%s}]}", cases[i].choice);
        char *message = whole(chat, "{}", &err);
        assert_int_equal(err, OK);
        const char *reason = strstr(message, "'stop_reason':");
        assert_non_null(reason);
        assert_memory_equal(reason + 14, cases[i].reason, strlen(cases[i].reason));
        free(message);
    }
}

static void arguments_that_are_no_object_are_no_input_to_run(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *input;
    } cases[] = {
        {"'{\\'a\\':1'", "{'INVALID_JSON':'{\\'a\\':1'}"},
        {"'[1]'", "{'INVALID_JSON':'[1]'}"},
        {"'{} x'", "{'INVALID_JSON':'{} x'}"},
        {"'{\\'a\\':\\'\\\\ud800\\'}'", "{'a':'\\ud800'}"},
        {"'{\\'a\\':\\'\\ud800\\'}'", "{'INVALID_JSON':'{\\'a\\':\\'\\ud800\\'}'}"},
        {"'{\\'a\\':\\'\\u0000\\'}'", "{'INVALID_JSON':'{\\'a\\':\\'\\u0000\\'}'}"},
        {"' {\\'a\\':\\'\\u00e9\\'} '", "{'a':'\303\251'}"},
        {"null", "{}"},
        {"7", "{}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char chat[512];
        char expected[512];
        enum err err;
        snprintf(chat, sizeof chat,
                 "{'choices':[{'message':{'tool_calls':[{'id':'c','function':{'name':'f',"
                 "'arguments':%s}}]}}]}",
                 cases[i].arguments);
        snprintf(expected, sizeof expected, "'name':'f','input':%s}]", cases[i].input);
        char *message = whole(chat, "{}", &err);
        assert_int_equal(err, OK);
        if (strstr(message, expected) == NULL)
            fail_msg("%s has no %s", message, expected);
        free(message);
    }
}

static void thinking_is_left_out_if_the_client_says_so(void **state)
{
    (void)state;
    enum err err;
    char *message = whole("{'choices':[{'message':{'content':'b','reasoning_content':'a'}}]}",
                          "{'thinking':{'type':'adaptive','display':'omitted'}}", &err);
    assert_string_equal(message, OPENING "{'type':'thinking','thinking':'','signature':''},"
                                         "{'type':'text','text':'b'}" NO_USAGE("'end_turn'"));
    free(message);
}

static void what_is_no_chat_answer_breaks_the_protocol(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "", "x", "[]", "{}", "{'choices':[]", "{'error':{}}", "{'choices':null}"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum err err;
        free(whole(cases[i], "{}", &err));
        assert_int_equal(err, ERR_REPLICA_PROTOCOL);
    }
}

/* ---- streams ---- */

static const char *member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_string(value) || json_is_null(value));
    return json_is_string(value) ? json_string_value(value) : "null";
}

static int number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return (int)json_integer_value(value);
}

static void brief_usage(const json_t *usage, FILE *out)
{
    fprintf(out, "%d/%d/%d/%d", number(usage, "input_tokens"),
            number(usage, "cache_creation_input_tokens"), number(usage, "cache_read_input_tokens"),
            number(usage, "output_tokens"));
}

static void brief_start(const json_t *event, FILE *out)
{
    const json_t *block = json_object_get(event, "content_block");
    const char *type = member(block, "type");
    fprintf(out, "+%d:%s", number(event, "index"), type);
    if (strcmp(type, "tool_use") == 0) {
        fprintf(out, "(%s,%s)", member(block, "id"), member(block, "name"));
        assert_int_equal(json_object_size(json_object_get(block, "input")), 0);
    } else {
        assert_string_equal(member(block, type), "");
    }
}

static void brief_delta(const json_t *event, FILE *out)
{
    static const char *const deltas[][3] = {{"text_delta", "text", "text"},
                                            {"thinking_delta", "thinking", "think"},
                                            {"signature_delta", "signature", "sign"},
                                            {"input_json_delta", "partial_json", "json"}};
    const json_t *delta = json_object_get(event, "delta");
    for (size_t i = 0; i < 4; i++)
        if (strcmp(member(delta, "type"), deltas[i][0]) == 0)
            fprintf(out, "%d:%s(%s)", number(event, "index"), deltas[i][2],
                    member(delta, deltas[i][1]));
}

/* One event in short. */
static void brief(const json_t *event, FILE *out)
{
    const char *type = member(event, "type");
    const json_t *delta = json_object_get(event, "delta");
    if (strcmp(type, "message_start") == 0) {
        fprintf(out, "start(");
        brief_usage(json_object_get(json_object_get(event, "message"), "usage"), out);
        fprintf(out, ")");
    } else if (strcmp(type, "content_block_start") == 0) {
        brief_start(event, out);
    } else if (strcmp(type, "content_block_delta") == 0) {
        brief_delta(event, out);
    } else if (strcmp(type, "content_block_stop") == 0) {
        fprintf(out, "-%d", number(event, "index"));
    } else if (strcmp(type, "message_delta") == 0) {
        fprintf(out, "delta(%s,%s,", member(delta, "stop_reason"), member(delta, "stop_sequence"));
        brief_usage(json_object_get(event, "usage"), out);
        fprintf(out, ")");
    } else if (strcmp(type, "message_stop") == 0) {
        fprintf(out, "stop");
    } else if (strcmp(type, "error") == 0) {
        fprintf(out, "error(%s)", member(json_object_get(event, "error"), "type"));
    } else {
        fail_msg("an unknown event: %s", type);
    }
}

/* Events in short, a space between them. The caller frees it. */
static char *brief_of(const char *text)
{
    char *events = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&events, &size);
    bool first = true;
    assert_non_null(out);
    while (*text) {
        char name[64];
        int before = -1;
        assert_int_equal(sscanf(text, "event: %63[a-z_]\ndata: %n", name, &before), 1);
        assert_true(before > 0);
        const char *data = text + before;
        const char *end = strstr(data, "\n\n");
        assert_non_null(end);
        json_t *event = json_loadb(data, (size_t)(end - data), 0, NULL);
        assert_non_null(event);
        assert_string_equal(member(event, "type"), name);
        if (!first)
            fputc(' ', out);
        first = false;
        brief(event, out);
        json_decref(event);
        text = end + 2;
    }
    assert_int_equal(fclose(out), 0);
    return events;
}

#define CHUNKS_MAX 12

/* Feeds chunks, ends the stream twice, feeds one more chunk. */
static enum err stream(const char *const *chunks, const char *body, struct writer *out)
{
    struct translator *translator = begin(body);
    enum err err = OK;
    for (size_t i = 0; err == OK && i < CHUNKS_MAX && chunks[i] != NULL; i++) {
        char *json = json_of(chunks[i]);
        err = translator_event(translator, span_of(json), out);
        free(json);
    }
    if (err == OK)
        err = translator_end(translator, out);
    const size_t size = out->text.size;
    if (err == OK)
        err = translator_end(translator, out);
    if (err == OK)
        err = translator_event(translator, SPAN("{\"choices\":[{\"delta\":{\"content\":\"z\"}}]}"),
                               out);
    assert_int_equal(out->text.size, size);
    translator_free(translator);
    return err;
}

#define DELTA(members) "{'choices':[{'index':0,'delta':{" members "}}]}"
#define TEXT(text) DELTA("'content':'" text "'")
#define THINK(text) DELTA("'reasoning_content':'" text "'")
#define FINISH(reason) "{'choices':[{'index':0,'delta':{},'finish_reason':'" reason "'}]}"
#define USAGE "{'choices':[],'usage':{'prompt_tokens':5,'completion_tokens':2}}"
#define CALL(index, id, name, arguments)                                                           \
    DELTA("'tool_calls':[{'index':" index ",'id':'" id                                             \
          "','type':'function','function':{'name':'" name "','arguments':'" arguments "'}}]")
#define PIECE(index, arguments)                                                                    \
    DELTA("'tool_calls':[{'index':" index ",'function':{'arguments':'" arguments "'}}]")
#define START "start(0/0/0/0) "
#define END(reason) " delta(" reason ",null,0/0/0/0) stop"

static void events_go_out_in_the_order_of_the_api(void **state)
{
    (void)state;
    static const struct {
        const char *chunks[CHUNKS_MAX];
        const char *events;
    } cases[] = {
        /* vLLM: role first, text, finish, usage */
        {{DELTA("'role':'assistant','content':''"), TEXT("Hel"), TEXT("lo"), FINISH("stop"), USAGE},
         START "+0:text 0:text(Hel) 0:text(lo) -0 delta(end_turn,null,5/0/0/2) stop"},
        /* nothing at all; only the role; only a finish; a finish without a usage */
        {{NULL}, START "delta(end_turn,null,0/0/0/0) stop"},
        {{DELTA("'role':'assistant','content':''")}, START "delta(end_turn,null,0/0/0/0) stop"},
        {{FINISH("length")}, START "delta(max_tokens,null,0/0/0/0) stop"},
        /* no finish, nulls everywhere, no delta, no choices, other choices */
        {{TEXT("a")}, START "+0:text 0:text(a) -0" END("end_turn")},
        {{DELTA("'role':null,'content':null,'tool_calls':null,'reasoning_content':null"),
          "{'choices':[{'index':0,'delta':null,'finish_reason':null}],'usage':null}",
          "{'choices':[{}]}", "{'choices':[7]}", "{}", "{'choices':null}",
          "{'choices':[{'index':1,'delta':{'content':'other'}}]}", TEXT("a")},
         START "+0:text 0:text(a) -0" END("end_turn")},
        /* the text in the chunk of the finish; text behind the finish */
        {{"{'choices':[{'index':0,'delta':{'content':'a'},'finish_reason':'stop'}]}"},
         START "+0:text 0:text(a) -0" END("end_turn")},
        {{FINISH("length"), TEXT("a")}, START "+0:text 0:text(a) -0" END("max_tokens")},
        /* running usage: the prompt is known at the start, the last numbers count */
        {{"{'choices':[{'index':0,'delta':{'role':'assistant'}}],'usage':{'prompt_tokens':9,"
          "'completion_tokens':0,'prompt_tokens_details':{'cached_tokens':8}}}",
          "{'choices':[{'index':0,'delta':{'content':'a'}}],'usage':{'prompt_tokens':9,"
          "'completion_tokens':1}}",
          "{'choices':[],'usage':{'prompt_tokens':9,'completion_tokens':4}}"},
         "start(1/0/8/0) +0:text 0:text(a) -0 delta(end_turn,null,1/0/8/4) stop"},
        /* usage before the finish */
        {{USAGE, TEXT("a"), FINISH("stop")},
         "start(5/0/0/2) +0:text 0:text(a) -0 delta(end_turn,null,5/0/0/2) stop"},
        /* stop sequences */
        {{TEXT("a"), "{'choices':[{'index':0,'delta':{},'finish_reason':'stop',"
                     "'stop_reason':'END'}]}"},
         START "+0:text 0:text(a) -0 delta(stop_sequence,END,0/0/0/0) stop"},
        /* thinking by its names, its signature at the end */
        {{THINK("hm"), THINK(""), DELTA("'reasoning':'m'"),
          DELTA("'reasoning':'!','reasoning_content':'!'"), TEXT("a")},
         START "+0:thinking 0:think(hm) 0:think(m) 0:think(!) 0:sign() -0 +1:text 1:text(a) -1" END(
             "end_turn")},
        {{THINK("a"), TEXT("b"), THINK("c")},
         START "+0:thinking 0:think(a) 0:sign() -0 +1:text 1:text(b) -1 +2:thinking 2:think(c) "
               "2:sign() -2" END("end_turn")},
        {{DELTA("'content':'b','reasoning':'a'")},
         START "+0:thinking 0:think(a) 0:sign() -0 +1:text 1:text(b) -1" END("end_turn")},
        /* a refusal */
        {{DELTA("'refusal':'No'"), DELTA("'refusal':'.'"), FINISH("stop")},
         START "+0:text 0:text(No) 0:text(.) -0" END("refusal")},
        {{TEXT("a"), FINISH("content_filter")}, START "+0:text 0:text(a) -0" END("refusal")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct writer writer = writer_new(MOST);
        assert_int_equal(stream(cases[i].chunks, "{}", &writer), OK);
        char *events = brief_of(text_of(&writer));
        assert_string_equal(events, cases[i].events);
        free(events);
        buffer_free(&writer.text);
    }
}

static void tool_calls_go_out_one_after_the_other(void **state)
{
    (void)state;
    static const struct {
        const char *chunks[CHUNKS_MAX];
        const char *events;
    } cases[] = {
        {{TEXT("a"), CALL("0", "c0", "f", ""), PIECE("0", "{\\'x\\':"), PIECE("0", "1}"),
          FINISH("tool_calls")},
         START
         "+0:text 0:text(a) -0 +1:tool_use(c0,f) 1:json({\"x\":) 1:json(1}) -1" END("tool_use")},
        /* in turn, also two in one chunk */
        {{CALL("0", "c0", "f", "{}"), CALL("1", "c1", "g", "{"), PIECE("1", "}")},
         START "+0:tool_use(c0,f) 0:json({}) -0 +1:tool_use(c1,g) 1:json({) 1:json(}) -1" END(
             "tool_use")},
        {{DELTA("'tool_calls':[{'index':0,'id':'c0','function':{'name':'f','arguments':'{}'}},"
                "{'index':1,'id':'c1','function':{'name':'g','arguments':'{}'}}]")},
         START "+0:tool_use(c0,f) 0:json({}) -0 +1:tool_use(c1,g) 1:json({}) -1" END("tool_use")},
        /* interleaved: the second waits until the first is whole */
        {{CALL("0", "c0", "f", "{"), CALL("1", "c1", "g", "{\\'y\\':"), PIECE("0", "\\'x\\':"),
          PIECE("1", "2}"), PIECE("0", "1}"), FINISH("tool_calls")},
         START "+0:tool_use(c0,f) 0:json({) 0:json(\"x\":) 0:json(1}) -0 +1:tool_use(c1,g) "
               "1:json({\"y\":2}) -1" END("tool_use")},
        /* three, the middle one first */
        {{CALL("0", "a", "f", ""), CALL("1", "b", "g", "{}"), CALL("2", "c", "h", "{"),
          PIECE("2", "}"), PIECE("0", "{}")},
         START "+0:tool_use(a,f) 0:json({}) -0 +1:tool_use(b,g) 1:json({}) -1 +2:tool_use(c,h) "
               "2:json({}) -2" END("tool_use")},
        /* brackets in strings, also spelt with escapes, close nothing; what follows does */
        {{CALL("0", "a", "f", "{\\'x\\':\\'}"), CALL("1", "b", "g", "{}"),
          PIECE("0", "\\\\\\'\\u007d\\u0022\\u007d"), TEXT("t"), TEXT("u")},
         START "+0:tool_use(a,f) 0:json({\"x\":\"}) 0:json(\\\"}\"}) -0 +1:tool_use(b,g) "
               "1:json({}) -1 +2:text 2:text(t) 2:text(u) -2" END("tool_use")},
        /* never whole: what is there goes out at the end */
        {{CALL("0", "a", "f", "{"), CALL("1", "b", "g", "{"), FINISH("length")},
         START "+0:tool_use(a,f) 0:json({) -0 +1:tool_use(b,g) 1:json({) -1" END("max_tokens")},
        /* no arguments */
        {{CALL("0", "a", "f", ""), CALL("1", "b", "g", "{}")},
         START "+0:tool_use(a,f) -0 +1:tool_use(b,g) 1:json({}) -1" END("tool_use")},
        /* text in the middle of a call waits; behind a whole one it passes */
        {{CALL("0", "a", "f", "{"), TEXT("t"), THINK("h"), PIECE("0", "}"), TEXT("u")},
         START "+0:tool_use(a,f) 0:json({) 0:json(}) -0 +1:thinking 1:think(h) 1:sign() -1 +2:text "
               "2:text(t) 2:text(u) -2" END("tool_use")},
        /* repeats behind the end of the arguments */
        {{CALL("0", "a", "f", "{}"), PIECE("0", " {}"), PIECE("0", "{}"), CALL("1", "b", "g", "{}"),
          PIECE("0", "{}")},
         START "+0:tool_use(a,f) 0:json({}) -0 +1:tool_use(b,g) 1:json({}) -1" END("tool_use")},
        {{CALL("0", "a", "f", "{}{}")}, START "+0:tool_use(a,f) 0:json({}) -0" END("tool_use")},
        /* all with one number; none with a number; without ids; the name later */
        {{CALL("0", "a", "f", "{}"), CALL("0", "b", "g", "{}")},
         START "+0:tool_use(a,f) 0:json({}) -0 +1:tool_use(b,g) 1:json({}) -1" END("tool_use")},
        {{DELTA("'tool_calls':[{'id':'a','function':{'name':'f','arguments':'{'}}]"),
          DELTA("'tool_calls':[{'function':{'arguments':'}'}}]"),
          DELTA("'tool_calls':[{'id':'b','function':{'name':'g','arguments':'{}'}}]")},
         START
         "+0:tool_use(a,f) 0:json({) 0:json(}) -0 +1:tool_use(b,g) 1:json({}) -1" END("tool_use")},
        {{CALL("0", "", "f", "{}"), CALL("1", "", "g", "{}")},
         START "+0:tool_use(toolu_0af7_0,f) 0:json({}) -0 +1:tool_use(toolu_0af7_1,g) 1:json({}) "
               "-1" END("tool_use")},
        {{PIECE("0", "{"), CALL("0", "a", "f", "}")},
         START "+0:tool_use(a,f) 0:json({}) -0" END("tool_use")},
        {{PIECE("0", "{}")}, START "+0:tool_use(toolu_0af7_0,) 0:json({}) -0" END("tool_use")},
        /* an older TGI: one call, not in a list */
        {{DELTA("'tool_calls':{'index':0,'id':'','type':'function','function':{'name':'f',"
                "'arguments':'{}'}}")},
         START "+0:tool_use(toolu_0af7_0,f) 0:json({}) -0" END("tool_use")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct writer writer = writer_new(MOST);
        assert_int_equal(stream(cases[i].chunks, "{}", &writer), OK);
        char *events = brief_of(text_of(&writer));
        assert_string_equal(events, cases[i].events);
        free(events);
        buffer_free(&writer.text);
    }
}

static void an_error_is_the_last_event(void **state)
{
    (void)state;
    static const struct {
        const char *chunks[CHUNKS_MAX];
        const char *events;
    } cases[] = {
        {{TEXT("a"), "{'error':{'message':'m','type':'BadRequestError','param':null,'code':400}}",
          TEXT("b"), FINISH("stop")},
         START "+0:text 0:text(a) error(invalid_request_error)"},
        {{"{'error':{'message':'m','code':500}}"}, "error(api_error)"},
        {{"{'object':'error','message':'m','code':429}"}, "error(rate_limit_error)"},
        {{"{'error':'Model is overloaded','error_type':'overloaded'}", "{'error':'again'}"},
         "error(api_error)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct writer writer = writer_new(MOST);
        assert_int_equal(stream(cases[i].chunks, "{}", &writer), OK);
        char *events = brief_of(text_of(&writer));
        assert_string_equal(events, cases[i].events);
        free(events);
        buffer_free(&writer.text);
    }
}

static void a_stream_is_these_bytes(void **state)
{
    (void)state;
    static const char *const chunks[CHUNKS_MAX] = {TEXT("a\\n\\u00e9"), FINISH("stop"), USAGE};
    struct writer writer = writer_new(MOST);
    assert_int_equal(stream(chunks, "{}", &writer), OK);
    char *expected = json_of(
        "event: message_start\n"
        "data: {'type':'message_start','message':{'id':'msg_0af7','type':'message',"
        "'role':'assistant','model':'m\\'1','content':[],'stop_reason':null,"
        "'stop_sequence':null,'usage':{'input_tokens':0,'cache_creation_input_tokens':0,"
        "'cache_read_input_tokens':0,'output_tokens':0}}}\n\n"
        "event: content_block_start\n"
        "data: {'type':'content_block_start','index':0,"
        "'content_block':{'type':'text','text':''}}\n\n"
        "event: content_block_delta\n"
        "data: {'type':'content_block_delta','index':0,"
        "'delta':{'type':'text_delta','text':'a\\n\\u00e9'}}\n\n"
        "event: content_block_stop\n"
        "data: {'type':'content_block_stop','index':0}\n\n"
        "event: message_delta\n"
        "data: {'type':'message_delta','delta':{'stop_reason':'end_turn','stop_sequence':null},"
        "'usage':{'input_tokens':5,'cache_creation_input_tokens':0,'cache_read_input_tokens':0,"
        "'output_tokens':2}}\n\n"
        "event: message_stop\n"
        "data: {'type':'message_stop'}\n\n");
    assert_string_equal(text_of(&writer), expected);
    free(expected);
    buffer_free(&writer.text);
}

static void thinking_is_streamed_without_its_text_if_the_client_says_so(void **state)
{
    (void)state;
    static const char *const chunks[CHUNKS_MAX] = {THINK("a"), THINK("b"), TEXT("c")};
    struct writer writer = writer_new(MOST);
    assert_int_equal(stream(chunks, "{'thinking':{'display':'omitted'}}", &writer), OK);
    char *events = brief_of(text_of(&writer));
    assert_string_equal(events,
                        START "+0:thinking 0:sign() -0 +1:text 1:text(c) -1" END("end_turn"));
    free(events);
    buffer_free(&writer.text);
}

static void a_chunk_that_is_no_json_breaks_the_protocol(void **state)
{
    (void)state;
    static const char *const cases[] = {"", "x", "[1]", "{'choices':", "7"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const chunks[CHUNKS_MAX] = {cases[i]};
        struct writer writer = writer_new(MOST);
        assert_int_equal(stream(chunks, "{}", &writer), ERR_REPLICA_PROTOCOL);
        assert_int_equal(writer.text.size, 0);
    }
}

static void what_is_held_is_bounded(void **state)
{
    (void)state;
    struct translator *translator = begin("{}");
    struct writer writer = writer_new(16 * MOST);
    char piece[4096];
    size_t held = 0;
    enum err err;
    memset(piece, 'a', sizeof piece);
    char *chunk = json_of(CALL("0", "a", "f", "{"));
    assert_int_equal(translator_event(translator, span_of(chunk), &writer), OK);
    free(chunk);
    do {
        char json[sizeof piece + 128];
        const int size = snprintf(
            json, sizeof json, "{\"choices\":[{\"delta\":{\"content\":\"%.*s\"}}]}", 4000, piece);
        err = translator_event(translator, (struct span){json, (size_t)size}, &writer);
        held += 4000;
    } while (err == OK && held < MOST);
    assert_int_equal(err, ERR_TOO_LARGE);
    assert_in_range(held, 200000, 300000);
    translator_free(translator);
    buffer_free(&writer.text);
}

static void calls_are_bounded(void **state)
{
    (void)state;
    struct translator *translator = begin("{}");
    struct writer writer = writer_new(MOST);
    enum err err = OK;
    int calls = 0;
    while (err == OK && calls < 1000) {
        char json[256];
        const int size = snprintf(json, sizeof json,
                                  "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,"
                                  "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}",
                                  calls++);
        err = translator_event(translator, (struct span){json, (size_t)size}, &writer);
    }
    assert_int_equal(err, ERR_TOO_LARGE);
    assert_int_equal(calls, 129);
    translator_free(translator);
    buffer_free(&writer.text);
}

/* ---- round trips ---- */

static void what_the_client_sends_back_is_what_the_server_said(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "'content':'Hi \\u00e9\\\\'",
        "'content':'a','reasoning_content':'b\\n'",
        "'content':null,'tool_calls':[{'id':'c1','type':'function','function':{'name':'f',"
        "'arguments':'{ \\'a\\' : [1, \\'x\\']}'}}]",
        "'content':'a','reasoning_content':'b','tool_calls':[{'id':'c1','type':'function',"
        "'function':{'name':'f','arguments':'{}'}},{'id':'c2','type':'function',"
        "'function':{'name':'g','arguments':'{\\'k\\':null}'}}]",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        struct ask_problem problem = {0};
        struct writer writer = writer_new(MOST);
        enum err err;
        snprintf(text, sizeof text, "{'choices':[{'message':{'role':'assistant',%s}}]}", cases[i]);
        char *json = json_of(text);
        struct translator *translator = begin("{}");
        assert_int_equal(translator_whole(translator, span_of(json), &writer), OK);
        translator_free(translator);
        free(json);
        json_t *message = json_loads(text_of(&writer), 0, NULL);
        assert_non_null(message);
        const char *from = strstr(writer.text.data, "\"content\":");
        const char *to = strstr(writer.text.data, ",\"stop_reason\"");
        assert_true(from != NULL && to > from);
        snprintf(text, sizeof text,
                 "{\"messages\":[{\"role\":\"assistant\",%.*s},{\"role\":\"user\",\"content\":"
                 "\"go on\"}]}",
                 (int)(to - from), from);
        json_decref(message);
        buffer_free(&writer.text);
        writer = writer_new(MOST);
        err = translate_ask(ENDPOINT_MESSAGES, span_of(text), 64, &writer, &problem);
        assert_int_equal(err, OK);
        snprintf(text, sizeof text,
                 "{'messages':[{'role':'assistant',%s},{'role':'user','content':'go on'}]}",
                 cases[i]);
        json = json_of(text);
        assert_string_equal(text_of(&writer), json);
        free(json);
        buffer_free(&writer.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_answer_becomes_a_message),
        cmocka_unit_test(finish_reasons_are_stop_reasons),
        cmocka_unit_test(arguments_that_are_no_object_are_no_input_to_run),
        cmocka_unit_test(thinking_is_left_out_if_the_client_says_so),
        cmocka_unit_test(what_is_no_chat_answer_breaks_the_protocol),
        cmocka_unit_test(events_go_out_in_the_order_of_the_api),
        cmocka_unit_test(tool_calls_go_out_one_after_the_other),
        cmocka_unit_test(an_error_is_the_last_event),
        cmocka_unit_test(a_stream_is_these_bytes),
        cmocka_unit_test(thinking_is_streamed_without_its_text_if_the_client_says_so),
        cmocka_unit_test(a_chunk_that_is_no_json_breaks_the_protocol),
        cmocka_unit_test(what_is_held_is_bounded),
        cmocka_unit_test(calls_are_bounded),
        cmocka_unit_test(what_the_client_sends_back_is_what_the_server_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
