/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_translate_messages_ask.c: bodies of /v1/messages as bodies of chat completions.
 *
 * Promises: 1. What both APIs have goes over, values that need no change byte for byte.
 *           2. What a chat cannot express is refused by the field's name.
 *           3. Hints are dropped, members of neither API go over.
 *           4. What was written is one JSON object, or there is an error.
 *
 * Texts have ' where JSON has ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/translate.h"

/* text with " for each '; the caller frees it. */
static char *json_of(const char *text)
{
    char *json = strdup(text);
    assert_non_null(json);
    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    return json;
}

/* Translates; the result, with ' for each ", ends in a NUL and is the caller's. NULL: an error, in
 * *out_err and *out_problem. */
static char *translate(const char *text, size_t most, enum err *out_err,
                       struct ask_problem *out_problem)
{
    struct writer writer = writer_new(most);
    char *body = json_of(text);
    *out_err = translate_ask(ENDPOINT_MESSAGES, span_of(body), 64, &writer, out_problem);
    free(body);
    if (*out_err == OK && !buffer_append(&writer.text, (struct span){"", 1}))
        *out_err = ERR_NO_MEMORY;
    if (*out_err != OK) {
        buffer_free(&writer.text);
        return NULL;
    }
    for (char *at = writer.text.data; *at; at++)
        if (*at == '"')
            *at = '\'';
    return writer.text.data;
}

struct pair {
    const char *messages, *chat;
};

static void assert_pairs(const struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ask_problem problem = {0};
        enum err err;
        char *chat = translate(pairs[i].messages, 1u << 20, &err, &problem);
        if (chat == NULL)
            fail_msg("%s: refused: %s (%s)", pairs[i].messages, problem.message, problem.param);
        assert_string_equal(chat, pairs[i].chat);
        free(chat);
    }
}

#define ASSERT_PAIRS(pairs) assert_pairs(pairs, sizeof(pairs) / sizeof((pairs)[0]))

static void members_go_over_under_the_names_of_a_chat(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'model':'m','max_tokens':16,'stream':true,'temperature':0.50,'top_p':1e-1,'top_k':4,"
         "'messages':[]}",
         "{'model':'m','max_tokens':16,'stream':true,'temperature':0.50,'top_p':1e-1,'top_k':4,"
         "'messages':[]}"},
        {"{'stop_sequences':['\\n\\u0041', 'b'],'metadata':{'user_id':'u\\t1','task_class':'x'},"
         "'messages':[]}",
         "{'stop':['\\n\\u0041', 'b'],'user':'u\\t1','messages':[]}"},
        {"{'stop_sequences':[],'metadata':{'user_id':null},'tools':[],'messages':[]}",
         "{'messages':[]}"},
        {"{'service_tier':'auto','messages':[]}", "{'service_tier':'auto','messages':[]}"},
        {"{'service_tier':'standard_only','messages':[]}",
         "{'service_tier':'default','messages':[]}"},
        {" { 'mod\\u0065l' : 'm' , 'messages' : [ ] } ", "{'model':'m','messages':[]}"},
        {"{'model':null,'stream':null,'system':null,'thinking':null,'tools':null,'container':null,"
         "'messages':[]}",
         "{'messages':[]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void members_of_neither_api_go_over_as_they_came(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'messages':[],'cache_salt':'s','chat_template_kwargs':{'enable_thinking': false},"
         "'s\\u0065ed':7,'min_p':null}",
         "{'cache_salt':'s','chat_template_kwargs':{'enable_thinking': false},'s\\u0065ed':7,"
         "'min_p':null,'messages':[]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void hints_are_dropped(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'cache_control':{'type':'ephemeral'},'system':[{'type':'text','text':'s',"
         "'cache_control':{'type':'ephemeral','ttl':'1h'}}],"
         "'tools':[{'name':'t','input_schema':{},'cache_control':{'type':'ephemeral'},"
         "'eager_input_streaming':true,'defer_loading':false}],"
         "'messages':[{'role':'user','content':[{'type':'text','text':'a',"
         "'cache_control':{'type':'ephemeral'},'citations':[]}]}]}",
         "{'tools':[{'type':'function','function':{'name':'t','parameters':{}}}],"
         "'messages':[{'role':'system','content':'s'},{'role':'user','content':'a'}]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void the_system_prompt_is_the_first_message(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'messages':[{'role':'user','content':'a'}],'system':'be\\nbrief'}",
         "{'messages':[{'role':'system','content':'be\\nbrief'},{'role':'user','content':'a'}]}"},
        {"{'system':[{'type':'text','text':'a'},{'type':'text','text':'b'}],'messages':[]}",
         "{'messages':[{'role':'system','content':[{'type':'text','text':'a'},"
         "{'type':'text','text':'b'}]}]}"},
        {"{'system':'','messages':[]}", "{'messages':[]}"},
        {"{'system':[],'messages':[]}", "{'messages':[]}"},
        {"{'messages':[{'role':'user','content':'a'},{'role':'system','content':'now in verse'},"
         "{'role':'user','content':'b'}]}",
         "{'messages':[{'role':'user','content':'a'},{'role':'system','content':'now in verse'},"
         "{'role':'user','content':'b'}]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void contents_are_a_text_or_parts(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'messages':[{'role':'user','content':'\\ud83d\\ude00 \\\\ \\/'}]}",
         "{'messages':[{'role':'user','content':'\\ud83d\\ude00 \\\\ \\/'}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'text','text':'a'},"
         "{'type':'image','source':{'type':'base64','media_type':'image/png','data':'iVBO'}},"
         "{'type':'image','source':{'type':'url','url':'https:\\/\\/example.com/a.png'}}]}]}",
         "{'messages':[{'role':'user','content':[{'type':'text','text':'a'},"
         "{'type':'image_url','image_url':{'url':'data:image/png;base64,iVBO'}},"
         "{'type':'image_url','image_url':{'url':'https:\\/\\/example.com/a.png'}}]}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'image','source':{'type':'base64',"
         "'media_type':'image/png','data':''}}]}]}",
         "{'messages':[{'role':'user','content':[{'type':'image_url','image_url':"
         "{'url':'data:image/png;base64,'}}]}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'document','title':'T','context':'C',"
         "'citations':{'enabled':false},"
         "'source':{'type':'text','media_type':'text/plain','data':'D'}}]}]}",
         "{'messages':[{'role':'user','content':[{'type':'text','text':'T'},"
         "{'type':'text','text':'C'},{'type':'text','text':'D'}]}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'document',"
         "'source':{'type':'text','media_type':'text/plain','data':'D'}}]}]}",
         "{'messages':[{'role':'user','content':'D'}]}"},
        {"{'messages':[{'role':'user','content':[]}]}",
         "{'messages':[{'role':'user','content':''}]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void tool_calls_carry_their_input_as_a_string(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'messages':[{'role':'assistant','content':[{'type':'text','text':'I look.'},"
         "{'type':'tool_use','id':'t1','name':'look','input':{ 'at' : 'a\\n' },"
         "'caller':{'type':'direct'}},"
         "{'type':'tool_use','id':'t2','name':'look','input':{}}]},"
         "{'role':'user','content':'b'}]}",
         "{'messages':[{'role':'assistant','content':'I look.','tool_calls':["
         "{'id':'t1','type':'function','function':{'name':'look',"
         "'arguments':'{ \\'at\\' : \\'a\\\\n\\' }'}},"
         "{'id':'t2','type':'function','function':{'name':'look','arguments':'{}'}}]},"
         "{'role':'user','content':'b'}]}"},
        {"{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'t1','name':'look',"
         "'input':{}}]},{'role':'user','content':'b'}]}",
         "{'messages':[{'role':'assistant','content':null,'tool_calls':[{'id':'t1',"
         "'type':'function','function':{'name':'look','arguments':'{}'}}]},"
         "{'role':'user','content':'b'}]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void tool_results_stand_right_behind_their_calls(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'messages':[{'role':'user','content':[{'type':'text','text':'and?'},"
         "{'type':'tool_result','tool_use_id':'t1','content':'1'},"
         "{'type':'tool_result','tool_use_id':'t2','content':[{'type':'text','text':'2'}]}]}]}",
         "{'messages':[{'role':'tool','tool_call_id':'t1','content':'1'},"
         "{'role':'tool','tool_call_id':'t2','content':'2'},{'role':'user','content':'and?'}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1'}]}]}",
         "{'messages':[{'role':'tool','tool_call_id':'t1','content':''}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1',"
         "'content':[{'type':'text','text':'a'},{'type':'text','text':'b'}],'is_error':false}]}]}",
         "{'messages':[{'role':'tool','tool_call_id':'t1','content':[{'type':'text','text':'a'},"
         "{'type':'text','text':'b'}]}]}"},
        {"{'messages':[{'role':'user','content':["
         "{'type':'tool_result','tool_use_id':'t1','is_error':true,'content':'no file'},"
         "{'type':'tool_result','tool_use_id':'t2','is_error':true},"
         "{'type':'tool_result','tool_use_id':'t3','is_error':true,'content':["
         "{'type':'text','text':'a'},{'type':'text','text':'b'}]}]}]}",
         "{'messages':[{'role':'tool','tool_call_id':'t1','content':'Error: no file'},"
         "{'role':'tool','tool_call_id':'t2','content':'Error'},"
         "{'role':'tool','tool_call_id':'t3','content':[{'type':'text','text':'Error: a'},"
         "{'type':'text','text':'b'}]}]}"},
        {"{'messages':[{'role':'user','content':["
         "{'type':'tool_result','tool_use_id':'t1','content':[{'type':'text','text':'shot'},"
         "{'type':'image','source':{'type':'base64','media_type':'image/png','data':'aa'}}]},"
         "{'type':'tool_result','tool_use_id':'t2','content':[{'type':'document','source':"
         "{'type':'text','media_type':'text/plain','data':'D'}}]},"
         "{'type':'text','text':'go on'}]}]}",
         "{'messages':[{'role':'tool','tool_call_id':'t1','content':'shot'},"
         "{'role':'tool','tool_call_id':'t2','content':'D'},"
         "{'role':'user','content':[{'type':'image_url','image_url':"
         "{'url':'data:image/png;base64,aa'}},{'type':'text','text':'go on'}]}]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void thinking_goes_back_to_where_it_came_from(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'messages':[{'role':'assistant','content':["
         "{'type':'thinking','thinking':'hm','signature':''},"
         "{'type':'thinking','thinking':' so','signature':''},"
         "{'type':'thinking','thinking':'signed','signature':'EqQB'},"
         "{'type':'redacted_thinking','data':'x'},{'type':'text','text':'a'}]},"
         "{'role':'user','content':'b'}]}",
         "{'messages':[{'role':'assistant','content':'a','reasoning_content':'hm so'},"
         "{'role':'user','content':'b'}]}"},
        {"{'messages':[{'role':'assistant','content':["
         "{'type':'thinking','thinking':'signed','signature':'EqQB'}]},"
         "{'role':'user','content':'b'}]}",
         "{'messages':[{'role':'assistant','content':''},{'role':'user','content':'b'}]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void tools_are_functions(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'tools':[{'type':'custom','name':'a','description':'d\\'','input_schema':"
         "{ 'type':'object', 'properties':{'x':{'type':'number'}} },'strict':true},"
         "{'name':'b','input_schema':{}}],'messages':[]}",
         "{'tools':[{'type':'function','function':{'name':'a','description':'d\\'','parameters':"
         "{ 'type':'object', 'properties':{'x':{'type':'number'}} },'strict':true}},"
         "{'type':'function','function':{'name':'b','parameters':{}}}],'messages':[]}"},
        {"{'tool_choice':{'type':'auto'},'messages':[]}", "{'tool_choice':'auto','messages':[]}"},
        {"{'tool_choice':{'type':'any','disable_parallel_tool_use':true},'messages':[]}",
         "{'tool_choice':'required','parallel_tool_calls':false,'messages':[]}"},
        {"{'tool_choice':{'type':'none'},'messages':[]}", "{'tool_choice':'none','messages':[]}"},
        {"{'tool_choice':{'type':'tool','name':'a','disable_parallel_tool_use':false},"
         "'messages':[]}",
         "{'tool_choice':{'type':'function','function':{'name':'a'}},'messages':[]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void thinking_is_asked_for_as_an_effort(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'thinking':{'type':'enabled','budget_tokens':1024},'messages':[]}",
         "{'reasoning_effort':'minimal','messages':[]}"},
        {"{'thinking':{'type':'enabled','budget_tokens':2000},'messages':[]}",
         "{'reasoning_effort':'low','messages':[]}"},
        {"{'thinking':{'type':'enabled','budget_tokens':5000},'messages':[]}",
         "{'reasoning_effort':'medium','messages':[]}"},
        {"{'thinking':{'type':'enabled','budget_tokens':10000,'display':'omitted'},'messages':[]}",
         "{'reasoning_effort':'high','messages':[]}"},
        {"{'thinking':{'type':'disabled'},'messages':[]}", "{'messages':[]}"},
        {"{'thinking':{'type':'adaptive','block_binding':{'prefix_mismatch_behavior':'drop'}},"
         "'messages':[]}",
         "{'messages':[]}"},
        {"{'thinking':{'type':'adaptive'},'messages':[]}", "{'messages':[]}"},
        {"{'thinking':{'type':'adaptive'},'output_config':{'effort':'xhigh'},'messages':[]}",
         "{'reasoning_effort':'xhigh','messages':[]}"},
        {"{'output_config':{'effort':'low'},'thinking':{'type':'enabled','budget_tokens':9999},"
         "'messages':[]}",
         "{'reasoning_effort':'low','messages':[]}"},
    };
    ASSERT_PAIRS(pairs);
}

static void a_schema_is_a_strict_response_format(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"{'output_config':{'format':{'type':'json_schema','schema':{'type':'object'}}},"
         "'messages':[]}",
         "{'response_format':{'type':'json_schema','json_schema':{'name':'output','strict':true,"
         "'schema':{'type':'object'}}},'messages':[]}"},
    };
    ASSERT_PAIRS(pairs);
}

#define USER_BLOCK(block) "{'messages':[{'role':'user','content':[" block "]}]}"

static void what_a_chat_cannot_say_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{'messages':[],'container':'c'}", "container"},
        {"{'messages':[],'mcp_servers':[]}", "mcp_servers"},
        {"{'messages':[],'context_management':{}}", "context_management"},
        {"{'messages':[],'inference_geo':'us'}", "inference_geo"},
        {"{'messages':[],'speed':'fast'}", "speed"},
        {"{'messages':[],'output_format':{}}", "output_format"},
        {"{'messages':[],'n':2}", "n"},
        {"{'messages':[],'\\u006e':2}", "n"},
        {"{'messages':[],'best_of':2}", "best_of"},
        {"{'messages':[],'max_completion_tokens':9}", "max_completion_tokens"},
        {"{'messages':[],'stop':'a','stop_sequences':['b']}", "stop"},
        {"{'messages':[],'stream_options':{}}", "stream_options"},
        {"{'messages':[],'response_format':{}}", "response_format"},
        {"{'messages':[],'stop_sequences':'a'}", "stop_sequences"},
        {"{'messages':[],'metadata':[]}", "metadata"},
        {"{'messages':[],'metadata':{'user_id':1}}", "metadata"},
        {"{'messages':[],'service_tier':'flex'}", "service_tier"},
        {"{'messages':[],'thinking':{'type':'enabled'}}", "thinking"},
        {"{'messages':[],'thinking':{'type':'enabled','budget_tokens':-1}}", "thinking"},
        {"{'messages':[],'thinking':{'type':'deep'}}", "thinking"},
        {"{'messages':[],'thinking':{'type':'adaptive','extra':1}}", "thinking"},
        {"{'messages':[],'output_config':{'task_budget':{}}}", "output_config"},
        {"{'messages':[],'output_config':{'format':{'type':'grammar'}}}", "output_config"},
        {"{'messages':[],'output_config':'x'}", "output_config"},
        {"{'messages':[],'output_config':{'effort':1}}", "output_config"},
        {"{'messages':[],'tools':{}}", "tools"},
        {"{'messages':[],'tools':['a']}", "tools"},
        {"{'messages':[],'tools':[{'type':'web_search_20250305','name':'web_search'}]}", "tools"},
        {"{'messages':[],'tools':[{'type':'computer_20250124','name':'c'}]}", "tools"},
        {"{'messages':[],'tools':[{'name':'a'}]}", "tools"},
        {"{'messages':[],'tools':[{'input_schema':{}}]}", "tools"},
        {"{'messages':[],'tools':[{'name':'a','input_schema':{},'defer_loading':true}]}", "tools"},
        {"{'messages':[],'tools':[{'name':'a','input_schema':{},'input_examples':[]}]}", "tools"},
        {"{'messages':[],'tool_choice':'auto'}", "tool_choice"},
        {"{'messages':[],'tool_choice':{'type':'tool'}}", "tool_choice"},
        {"{'messages':[],'tool_choice':{'type':'all'}}", "tool_choice"},
        {"{'messages':[],'system':7}", "system"},
        {"{'messages':[],'system':[{'type':'image','source':{}}]}", "system"},
        {"{'messages':{}}", "messages"},
        {"{'messages':['a']}", "messages"},
        {"{'messages':[{'role':'user'}]}", "messages"},
        {"{'messages':[{'role':'tool','content':'a'}]}", "messages"},
        {"{'messages':[{'role':'user','content':'a','name':'b'}]}", "messages"},
        {"{'messages':[{'role':'user','role':'user','content':'a'}]}", "messages"},
        {"{'messages':[{'role':'assistant','content':'It is ('}]}", "messages"},
        {USER_BLOCK("'a'"), "messages"},
        {USER_BLOCK("{'type':'text'}"), "messages"},
        {USER_BLOCK("{'type':'text','text':1}"), "messages"},
        {USER_BLOCK("{'type':'text','text':'a','input':{}}"), "messages"},
        {USER_BLOCK("{'type':'text','text':'a','text':'b'}"), "messages"},
        {USER_BLOCK("{'type':'text','text':'a','citations':[{}]}"), "messages"},
        {USER_BLOCK("{'type':'tool_use','id':'t','name':'n','input':{}}"), "messages"},
        {USER_BLOCK("{'type':'thinking','thinking':'a','signature':''}"), "messages"},
        {USER_BLOCK("{'type':'search_result','content':[]}"), "messages"},
        {USER_BLOCK("{'type':'server_tool_use','id':'t'}"), "messages"},
        {USER_BLOCK("{'type':'container_upload','file_id':'f'}"), "messages"},
        {USER_BLOCK("{'type':'image'}"), "messages"},
        {USER_BLOCK("{'type':'image','source':{'type':'file','file_id':'f'}}"), "messages"},
        {USER_BLOCK("{'type':'image','source':{'type':'base64','data':'a'}}"), "messages"},
        {USER_BLOCK("{'type':'image','source':{'type':'base64','media_type':'image/png','url':'u'}"
                    "}"),
         "messages"},
        {USER_BLOCK("{'type':'document','source':{'type':'base64','media_type':'application/pdf',"
                    "'data':'a'}}"),
         "messages"},
        {USER_BLOCK("{'type':'document','source':{'type':'text','data':'a'},"
                    "'citations':{'enabled':true}}"),
         "messages"},
        {USER_BLOCK("{'type':'tool_result','content':'a'}"), "messages"},
        {USER_BLOCK("{'type':'tool_result','tool_use_id':'t','content':1}"), "messages"},
        {USER_BLOCK(
             "{'type':'tool_result','tool_use_id':'t','content':[{'type':'search_result'}]}"),
         "messages"},
        {"{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'n',"
         "'input':'x'}]}]}",
         "messages"},
        {"{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'n',"
         "'input':{},'caller':{'type':'code_execution_20250825'}}]}]}",
         "messages"},
        {"{'messages':[{'role':'assistant','content':[{'type':'image','source':{'type':'url',"
         "'url':'u'}}]}]}",
         "messages"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ask_problem problem = {0};
        enum err err;
        char *chat = translate(cases[i].body, 1u << 20, &err, &problem);
        if (chat != NULL || problem.param == NULL)
            fail_msg("%s: not refused: %s", cases[i].body, chat);
        assert_int_equal(err, ERR_BAD_VALUE);
        assert_non_null(problem.message);
        assert_string_equal(problem.param, cases[i].param);
        assert_in_range(problem.offset, 1, strlen(cases[i].body));
    }
}

static void what_is_no_object_is_bad_json(void **state)
{
    (void)state;
    static const char *const cases[] = {"", "[]", "'a'", "{'messages':[}", "{'messages':[]} x"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ask_problem problem = {0};
        enum err err;
        assert_null(translate(cases[i], 1u << 20, &err, &problem));
        assert_int_equal(err, ERR_BAD_JSON);
        assert_non_null(problem.message);
    }
}

static void a_chat_too_large_is_said(void **state)
{
    (void)state;
    const char *body = "{'model':'m','messages':[{'role':'user','content':'hello'}]}";
    struct ask_problem problem = {0};
    enum err err;
    assert_null(translate(body, strlen(body) - 1, &err, &problem));
    assert_int_equal(err, ERR_TOO_LARGE);
    char *chat = translate(body, strlen(body), &err, &problem);
    assert_string_equal(chat, body);
    free(chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_go_over_under_the_names_of_a_chat),
        cmocka_unit_test(members_of_neither_api_go_over_as_they_came),
        cmocka_unit_test(hints_are_dropped),
        cmocka_unit_test(the_system_prompt_is_the_first_message),
        cmocka_unit_test(contents_are_a_text_or_parts),
        cmocka_unit_test(tool_calls_carry_their_input_as_a_string),
        cmocka_unit_test(tool_results_stand_right_behind_their_calls),
        cmocka_unit_test(thinking_goes_back_to_where_it_came_from),
        cmocka_unit_test(tools_are_functions),
        cmocka_unit_test(thinking_is_asked_for_as_an_effort),
        cmocka_unit_test(a_schema_is_a_strict_response_format),
        cmocka_unit_test(what_a_chat_cannot_say_is_refused_by_name),
        cmocka_unit_test(what_is_no_object_is_bad_json),
        cmocka_unit_test(a_chat_too_large_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
