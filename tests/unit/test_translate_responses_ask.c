/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_translate_responses_ask.c: bodies of responses as bodies of chat completions.
 *
 * Promises: 1. What means the same goes over, values byte for byte; unknown members as they came.
 *           2. Input items become messages, in the form that every chat server takes.
 *           3. What cannot be expressed is refused, with the field's name and place.
 *           4. What is dropped is a hint.
 *
 * JSON in the tables has ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/translate.h"

/* text with " for ', in memory of the caller's to free. */
static struct span json_of(const char *text)
{
    const size_t size = strlen(text);
    char *json = malloc(size + 1);

    assert_non_null(json);
    for (size_t i = 0; i <= size; i++)
        json[i] = text[i] == '\'' ? '"' : text[i];
    return (struct span){json, size};
}

static enum err translate(const char *body_text, struct writer *out, struct ask_problem *problem)
{
    const struct span body = json_of(body_text);
    enum err err;

    *out = writer_new(1 << 20);
    *problem = (struct ask_problem){0, NULL, NULL};
    err = translate_ask(ENDPOINT_RESPONSES, body, 64, out, problem);
    free((void *)(uintptr_t)body.data);
    return err;
}

static void assert_becomes(const char *body, const char *expected_text)
{
    const struct span expected = json_of(expected_text);
    struct ask_problem problem;
    struct writer out;
    const enum err err = translate(body, &out, &problem);

    if (err != OK)
        fail_msg("%s\n  refused: %s (%s)", body, problem.message, problem.param);
    if (!span_equal(expected, (struct span){out.text.data, out.text.size}))
        fail_msg("%s\n  became   %.*s\n  expected %s", body, (int)out.text.size, out.text.data,
                 expected.data);
    free((void *)(uintptr_t)expected.data);
    buffer_free(&out.text);
}

struct pair {
    const char *responses, *chat;
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void golden_pairs_hold(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct pair pairs[] = {
        /* the least */
        {"{'model':'m','input':'hi'}",
         "{'model':'m','messages':[{'role':'user','content':'hi'}]}"},
        /* what both APIs have, and what only a server has, goes on byte for byte */
        {"{ 'model' : 'm\\u0041' ,'stream':true,'temperature':0.10,'top_p':1e0,'input':'a\\n\\u00e9',"
         "'parallel_tool_calls':false,'metadata':{'a': 'b'},'user':'u','safety_identifier':'s',"
         "'prompt_cache_key':'k','service_tier':'flex','cache_salt':'x','top_k': 5,'seed':null}",
         "{'model':'m\\u0041','stream':true,'temperature':0.10,'top_p':1e0,"
         "'parallel_tool_calls':false,'metadata':{'a': 'b'},'user':'u','safety_identifier':'s',"
         "'prompt_cache_key':'k','service_tier':'flex','cache_salt':'x','top_k':5,'seed':null,"
         "'messages':[{'role':'user','content':'a\\n\\u00e9'}]}"},
        /* instructions come first, wherever they stand; names are known spelt with escapes */
        {"{'\\u0069nput':'hi','max_output_tokens':16,'instructions':'Be brief.'}",
         "{'max_tokens':16,'messages':[{'role':'system','content':'Be brief.'},"
         "{'role':'user','content':'hi'}]}"},
        /* null is absent */
        {"{'input':'hi','instructions':null,'tools':null,'text':null,'reasoning':null,'include':null,"
         "'max_output_tokens':null,'previous_response_id':null,'truncation':null,'tool_choice':null,"
         "'stream_options':null,'background':false,'prompt':null,'top_logprobs':null}",
         "{'messages':[{'role':'user','content':'hi'}]}"},
        /* tools and the choice of one: flat becomes nested, null is left out */
        {"{'input':'hi','tools':[{'type':'function','name':'f','description':null,'parameters':"
         "{'type':'object','properties':{}},'strict':true},{'name':'g','type':'function'}],"
         "'tool_choice':{'type':'function','name':'f'}}",
         "{'tools':[{'type':'function','function':{'name':'f','parameters':"
         "{'type':'object','properties':{}},'strict':true}},{'type':'function','function':"
         "{'name':'g'}}],'tool_choice':{'type':'function','function':{'name':'f'}},"
         "'messages':[{'role':'user','content':'hi'}]}"},
        {"{'input':'hi','tools':[{'type':'function','name':'f'}],'tool_choice':'auto'}",
         "{'tools':[{'type':'function','function':{'name':'f'}}],'tool_choice':'auto',"
         "'messages':[{'role':'user','content':'hi'}]}"},
        /* no tools: the choice among them is none */
        {"{'input':'hi','tools':[],'tool_choice':'auto'}",
         "{'messages':[{'role':'user','content':'hi'}]}"},
        /* formats, verbosity, effort */
        {"{'input':'hi','text':{'format':{'type':'json_schema','name':'n','schema':{'a': 1},"
         "'strict':null},'verbosity':'low'},'reasoning':{'effort':'high','summary':'auto'}}",
         "{'response_format':{'type':'json_schema','json_schema':{'name':'n','schema':{'a': 1}}},"
         "'verbosity':'low','reasoning_effort':'high','messages':[{'role':'user','content':'hi'}]}"},
        {"{'input':'hi','text':{'format':{'type':'json_object'}}}",
         "{'response_format':{'type':'json_object'},'messages':[{'role':'user','content':'hi'}]}"},
        {"{'input':'hi','text':{'format':{'type':'text'}}}",
         "{'messages':[{'role':'user','content':'hi'}]}"},
        /* logprobs */
        {"{'input':'hi','include':['message.output_text.logprobs','reasoning.encrypted_content']}",
         "{'logprobs':true,'messages':[{'role':'user','content':'hi'}]}"},
        {"{'input':'hi','top_logprobs':3}",
         "{'logprobs':true,'top_logprobs':3,'messages':[{'role':'user','content':'hi'}]}"},
        /* hints */
        {"{'input':'hi','store':true,'truncation':'disabled','max_tool_calls':2,'stream':true,"
         "'stream_options':{'include_obfuscation':false},'include':[]}",
         "{'stream':true,'messages':[{'role':'user','content':'hi'}]}"},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT(pairs); i++)
        assert_becomes(pairs[i].responses, pairs[i].chat);
}

static void items_become_messages(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct pair pairs[] = {
        /* the easy form, every role; developer is system's newer name */
        {"{'role':'developer','content':'d'},{'role':'system','content':'s'},"
         "{'role':'user','content':'u'},{'role':'assistant','content':'a'}",
         "{'role':'system','content':'d'},{'role':'system','content':'s'},"
         "{'role':'user','content':'u'},{'role':'assistant','content':'a'}"},
        /* one text part is a text; several stay parts */
        {"{'type':'message','role':'user','content':[{'type':'input_text','text':'u'}]}",
         "{'role':'user','content':'u'}"},
        {"{'role':'user','content':[{'type':'input_text','text':'u'},{'text':'v','type':'input_text'}]}",
         "{'role':'user','content':[{'type':'text','text':'u'},{'type':'text','text':'v'}]}"},
        /* images, audio, files */
        {"{'role':'user','content':[{'type':'input_image','image_url':'data:image/png;base64,AA==',"
         "'detail':'low','file_id':null},{'type':'input_image','image_url':'http://x/y'},"
         "{'type':'input_audio','input_audio':{'data':'AA==','format':'wav'}},"
         "{'type':'input_file','filename':'a.pdf','file_data':'data:application/pdf;base64,AA=='}]}",
         "{'role':'user','content':[{'type':'image_url','image_url':{'url':"
         "'data:image/png;base64,AA==','detail':'low'}},{'type':'image_url','image_url':"
         "{'url':'http://x/y'}},{'type':'input_audio','input_audio':{'data':'AA==','format':'wav'}},"
         "{'type':'file','file':{'file_data':'data:application/pdf;base64,AA==',"
         "'filename':'a.pdf'}}]}"},
        /* an answer of ours sent back: ids, status and annotations tell of the past */
        {"{'type':'message','id':'msg_1','status':'completed','role':'assistant','content':"
         "[{'type':'output_text','text':'a','annotations':[],'logprobs':[]}]}",
         "{'role':'assistant','content':'a'}"},
        {"{'type':'message','role':'assistant','content':[{'type':'output_text','text':'a'},"
         "{'type':'refusal','refusal':'no'}]}",
         "{'role':'assistant','content':[{'type':'text','text':'a'},"
         "{'type':'refusal','refusal':'no'}]}"},
        /* calls in a row, their outputs, and the text before them */
        {"{'role':'assistant','content':'wait'},"
         "{'type':'function_call','id':'fc_1','call_id':'c1','name':'f','arguments':'{\\'a\\':1}'},"
         "{'type':'function_call','call_id':'c2','name':'g','arguments':''},"
         "{'type':'function_call_output','call_id':'c1','output':'1'},"
         "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text','text':'2'}]},"
         "{'role':'user','content':'u'}",
         "{'role':'assistant','content':'wait','tool_calls':[{'id':'c1','type':'function',"
         "'function':{'name':'f','arguments':'{\\'a\\':1}'}},{'id':'c2','type':'function',"
         "'function':{'name':'g','arguments':''}}]},"
         "{'role':'tool','tool_call_id':'c1','content':'1'},"
         "{'role':'tool','tool_call_id':'c2','content':'2'},{'role':'user','content':'u'}"},
        /* a call without text; what was thought before and between is left out, and parts nothing */
        {"{'type':'reasoning','id':'rs_1','summary':[]},"
         "{'type':'function_call','call_id':'c1','name':'f','arguments':'{}'},"
         "{'type':'reasoning','id':'rs_2','summary':[],'encrypted_content':'x'},"
         "{'type':'function_call','call_id':'c2','name':'f','arguments':'{}'}",
         "{'role':'assistant','content':null,'tool_calls':[{'id':'c1','type':'function',"
         "'function':{'name':'f','arguments':'{}'}},{'id':'c2','type':'function',"
         "'function':{'name':'f','arguments':'{}'}}]}"},
        /* text behind calls is a new message */
        {"{'type':'function_call','call_id':'c1','name':'f','arguments':'{}'},"
         "{'role':'assistant','content':'a'},{'role':'assistant','content':'b'}",
         "{'role':'assistant','content':null,'tool_calls':[{'id':'c1','type':'function',"
         "'function':{'name':'f','arguments':'{}'}}]},{'role':'assistant','content':'a'},"
         "{'role':'assistant','content':'b'}"},
        {"", ""},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT(pairs); i++) {
        char body[2048];
        char chat[2048];

        snprintf(body, sizeof body, "{'input':[%s]}", pairs[i].responses);
        snprintf(chat, sizeof chat, "{'messages':[%s]}", pairs[i].chat);
        assert_becomes(body, chat);
    }
}

static void what_cannot_be_expressed_is_refused(void **state)
{
    (void)state;
    /* ^ stands where the problem lies, and is taken out */
    /* clang-format off */
    static const struct {
        const char *body, *param, *message;
    } cases[] = {
        {"^{'model':'m'}", "input", "input must be"},
        {"{'input':^7}", "input", "input must be"},
        {"{'input':[^7]}", "input", "must be an object"},
        {"{'input':[^{'type':'item_reference','id':'x'}]}", "input", "not kept"},
        {"{'input':[^{'id':'x'}]}", "input", "not known"},
        {"{'input':[^{'type':'web_search_call','id':'x'}]}", "input", "web_search_call"},
        {"{'input':[{'role':'user','content':'a'},^{'type':'computer_call'}]}", "input", "computer_call"},
        {"{'input':[^{'type':'new_thing'}]}", "input", "not known"},
        {"{'input':[^{'role':'tool','content':'a'}]}", "input", "role"},
        {"{'input':[^{'role':'user'}]}", "input", "text or a list"},
        {"{'input':[{'role':'user','content':^{}}]}", "input", "text or a list"},
        {"{'input':[{'role':'user','content':^[]}]}", "input", "needs a part"},
        {"{'input':[{'role':'user','content':[^{'type':'input_text'}]}]}", "input", "needs text"},
        {"{'input':[{'role':'user','content':[^{'type':'input_image','file_id':'f'}]}]}", "input", "file_id"},
        {"{'input':[{'role':'user','content':[^{'type':'input_image','file_id':'f','image_url':'u'}]}]}", "input", "file_id"},
        {"{'input':[{'role':'user','content':[^{'type':'input_file','file_url':'u'}]}]}", "input", "file_url"},
        {"{'input':[{'role':'user','content':[^{'type':'input_file','file_url':'u','file_data':'d'}]}]}", "input", "file_url"},
        {"{'input':[{'role':'user','content':[^{'type':'new_part'}]}]}", "input", "parts of this type"},
        {"{'input':[{'role':'system','content':[^{'type':'input_image','image_url':'u'}]}]}", "input", "role"},
        {"{'input':[{'role':'user','content':[^{'type':'refusal','refusal':'u'}]}]}", "input", "role"},
        {"{'input':[{'type':'function_call_output','call_id':'c','output':[^{'type':'input_image','image_url':'u'}]}]}", "input", "role"},
        {"{'input':[^{'type':'function_call','name':'f','arguments':'{}'}]}", "input", "call_id"},
        {"{'input':[^{'type':'function_call_output','output':''}]}", "input", "call_id"},
        {"{'input':'a','instructions':^[]}", "instructions", "must be a text"},
        {"{'input':'a','tools':^{}}", "tools", "must be a list"},
        {"{'input':'a','tools':[^{'type':'web_search'}]}", "tools", "web_search"},
        {"{'input':'a','tools':[{'type':'function','name':'f'},^{'type':'mcp'}]}", "tools", "mcp"},
        {"{'input':'a','tools':[^{'type':'new'}]}", "tools", "only tools of type function"},
        {"{'input':'a','tools':[^{'type':'function'}]}", "tools", "needs a name"},
        {"{'input':'a','tool_choice':^{'type':'allowed_tools','tools':[]}}", "tool_choice", "only none"},
        {"{'input':'a','tool_choice':^{'type':'file_search'}}", "tool_choice", "only none"},
        {"{'input':'a','text':^7}", "text", "must be an object"},
        {"{'input':'a','text':{'new':^1}}", "text", "cannot be expressed"},
        {"{'input':'a','text':{'format':^{'type':'grammar'}}}", "text.format", "only formats"},
        {"{'input':'a','reasoning':{'context':^'all'}}", "reasoning", "cannot be expressed"},
        {"{'input':'a','include':^'x'}", "include", "must be a list"},
        {"{'input':'a','include':[^'x']}", "include", "cannot be included"},
        {"{'input':'a','truncation':^'auto'}", "truncation", "disabled"},
        {"{'input':'a','stream':true,'stream_options':{'include_usage':^true}}", "stream_options", "cannot be expressed"},
        {"{'input':'a','previous_response_id':^'r'}", "previous_response_id", "kept"},
        {"{'input':'a','background':^true}", "background", "kept"},
        {"{'input':'a','conversation':^'c'}", "conversation", "kept"},
        {"{'input':'a','prompt':^{}}", "prompt", "kept"},
        {"{'input':'a','messages':^[]}", "messages", "belongs to chat"},
        {"{'input':'a','n':^2}", "n", "belongs to chat"},
        {"{'input':'a','max_tokens':^2}", "max_tokens", "belongs to chat"},
        {"{'input':'a','response_format':^{}}", "response_format", "belongs to chat"},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT(cases); i++) {
        const size_t at = strcspn(cases[i].body, "^");
        char body[256];
        struct ask_problem problem;
        struct writer out;

        snprintf(body, sizeof body, "%.*s%s", (int)at, cases[i].body, cases[i].body + at + 1);
        assert_int_equal(translate(body, &out, &problem), ERR_BAD_VALUE);
        if (strcmp(problem.param, cases[i].param) != 0 || problem.offset != at ||
            strstr(problem.message, cases[i].message) == NULL)
            fail_msg("%s: %s at %zu: %s", cases[i].body, problem.param, problem.offset,
                     problem.message);
        buffer_free(&out.text);
    }
}

static void broken_json_is_bad_json(void **state)
{
    (void)state;
    static const char *const cases[] = {"", "7", "[]", "{", "{'input':'a'}}", "{'input':}"};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ask_problem problem;
        struct writer out;

        assert_int_equal(translate(cases[i], &out, &problem), ERR_BAD_JSON);
        assert_non_null(problem.message);
        buffer_free(&out.text);
    }
}

static void the_bound_holds(void **state)
{
    (void)state;
    struct ask_problem problem;
    struct writer out = writer_new(16);

    assert_int_equal(
        translate_ask(ENDPOINT_RESPONSES, SPAN("{\"input\":\"a long text\"}"), 64, &out, &problem),
        ERR_TOO_LARGE);
    buffer_free(&out.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_pairs_hold),
        cmocka_unit_test(items_become_messages),
        cmocka_unit_test(what_cannot_be_expressed_is_refused),
        cmocka_unit_test(broken_json_is_bad_json),
        cmocka_unit_test(the_bound_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
