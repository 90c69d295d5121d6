/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/test_translate_responses_answer.c: chat answers as answers of responses.
 *
 * Promises: 1. However a chat stream's events come, the events that go out are in the API's order
 *              (responses_grammar.h checks each stream here), each with its place and number.
 *           2. The end of a stream bears the same response as a whole answer would be.
 *           3. The response repeats its ask, within a bound, and on one line.
 *           4. finish_reason, usage and errors become what the API has for them.
 *           5. What is kept of a stream is bounded.
 *           6. What came as output goes back as input to the message that it was.
 *
 * JSON in the tables has ' for " and ~ for a line feed. Of an answer's events, one a line, "+X" is
 * a chunk with the delta {X}, "!R" one with the finish_reason R. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/translate.h"
#include "tests/fuzz/responses_grammar.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define TEXT_ROOM 16384

/* text with " for ', and a line feed for ~. */
static struct span json_in(char room[TEXT_ROOM], const char *text)
{
    const size_t size = strlen(text);

    assert_true(size < TEXT_ROOM);
    for (size_t i = 0; i <= size; i++)
        room[i] = text[i] == '\'' ? '"' : text[i] == '~' ? '\n' : text[i];
    return (struct span){room, size};
}

static struct translator *begin(const char *body_text)
{
    char room[TEXT_ROOM];
    const struct translator_facts facts = {
        .model = SPAN("m"),
        .exchange_id = SPAN("x1"),
        .body = json_in(room, body_text),
        .created_s = 1700000000,
    };
    struct translator *translator = translator_new(ENDPOINT_RESPONSES, &facts);

    assert_non_null(translator);
    return translator;
}

/* One line of a table as the JSON of an event. */
static struct span chunk_in(char room[TEXT_ROOM], const char *line, size_t size)
{
    char text[TEXT_ROOM];

    if (*line == '+')
        snprintf(text, sizeof text, "{'choices':[{'index':0,'delta':{%.*s},'finish_reason':null}]}",
                 (int)size - 1, line + 1);
    else if (*line == '!')
        snprintf(text, sizeof text, "{'choices':[{'index':0,'delta':{},'finish_reason':'%.*s'}]}",
                 (int)size - 1, line + 1);
    else
        snprintf(text, sizeof text, "%.*s", (int)size, line);
    return json_in(room, text);
}

/* ---- streams ---- */

/* What a stream said: a line for each event, and the response of the last one. */
struct story {
    char lines[TEXT_ROOM];
    size_t size;
    json_t *response;
};

static void tell(struct story *story, const char *separator, const char *text)
{
    const int more = snprintf(story->lines + story->size, sizeof story->lines - story->size, "%s%s",
                              separator, text);

    story->size += (size_t)more;
    assert_true(story->size < sizeof story->lines);
}

static void tell_number(struct story *story, const char *separator, const json_t *number)
{
    char digits[32];

    if (number == NULL)
        return;
    snprintf(digits, sizeof digits, "%d", (int)json_integer_value(number));
    tell(story, separator, digits);
}

static void tell_event(void *context, const json_t *event)
{
    static const char *const texts[] = {"delta", "text", "refusal", "arguments"};
    struct story *story = context;
    const json_t *item = json_object_get(event, "item");
    const char *type = json_string_value(json_object_get(event, "type"));
    const char *part = json_string_value(json_object_get(json_object_get(event, "part"), "type"));

    tell(story, story->size > 0 ? "\n" : "", type + strlen("response."));
    tell_number(story, " ", json_object_get(event, "output_index"));
    tell_number(story, ".", json_object_get(event, "content_index"));
    for (size_t i = 0; i < COUNT(texts); i++)
        if (json_object_get(event, texts[i]) != NULL)
            tell(story, " ", json_string_value(json_object_get(event, texts[i])));
    if (part != NULL)
        tell(story, " ", part);
    if (item != NULL) {
        tell(story, " ", json_string_value(json_object_get(item, "type")));
        tell(story, " ", json_string_value(json_object_get(item, "status")));
    }
    if (json_object_get(event, "response") != NULL) {
        json_decref(story->response);
        story->response = json_incref(json_object_get(event, "response"));
    }
}

/* Gives a stream its events, and its end; checks each against the grammar. The caller gives
 * story->response back. */
static void run_stream(const char *body, const char *events, struct story *story)
{
    struct translator *translator = begin(body);
    struct writer out = writer_new(1 << 20);
    struct grammar grammar;

    *story = (struct story){.response = NULL};
    grammar_begin(&grammar);
    grammar.watch = tell_event;
    grammar.context = story;
    for (const char *line = events; *line != '\0';) {
        char room[TEXT_ROOM];
        const size_t size = strcspn(line, "\n");

        assert_int_equal(translator_event(translator, chunk_in(room, line, size), &out), OK);
        line += size + (line[size] == '\n');
    }
    assert_int_equal(translator_end(translator, &out), OK);

    const size_t size = out.text.size;

    assert_int_equal(translator_end(translator, &out), OK);
    assert_int_equal(translator_event(translator, SPAN("{\"choices\":[]}"), &out), OK);
    assert_int_equal(out.text.size, size); /* nothing behind the end */
    grammar_feed(&grammar, (struct span){out.text.data, out.text.size});
    assert_true(grammar.ended);
    grammar_end(&grammar);
    buffer_free(&out.text);
    translator_free(translator);
}

#define BEGIN "created\nin_progress\n"

static void streams_keep_the_order_of_the_api(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        const char *name, *events, *story;
    } cases[] = {
        {"nothing at all", "",
         BEGIN "completed"},
        {"an empty answer: role and finish only", "+'role':'assistant','content':''\n!stop",
         BEGIN "completed"},
        {"text", "+'role':'assistant','content':''\n+'content':'Hel'\n+'content':null\n+'content':'lo'\n!stop\n"
                 "{'choices':[],'usage':{'prompt_tokens':1,'completion_tokens':2,'total_tokens':3}}",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 Hel\noutput_text.delta 0.0 lo\noutput_text.done 0.0 Hello\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message completed\ncompleted"},
        {"text that is cut", "+'content':'Hel'\n!length",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 Hel\noutput_text.done 0.0 Hel\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message incomplete\nincomplete"},
        {"no finish_reason", "+'content':'a'",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 a\noutput_text.done 0.0 a\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message completed\ncompleted"},
        {"finish with the last text in one chunk, running usage",
         "{'choices':[{'delta':{'content':'a'},'finish_reason':'stop'}],'usage':{'prompt_tokens':1}}",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 a\noutput_text.done 0.0 a\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message completed\ncompleted"},
        {"reasoning, then text", "+'reasoning_content':'h'\n+'reasoning':'m','reasoning_content':'m'\n+'content':'a'\n!stop",
         BEGIN "output_item.added 0 reasoning in_progress\ncontent_part.added 0.0 reasoning_text\n"
         "reasoning_text.delta 0.0 h\nreasoning_text.delta 0.0 m\nreasoning_text.done 0.0 hm\n"
         "content_part.done 0.0 reasoning_text\noutput_item.done 0 reasoning completed\n"
         "output_item.added 1 message in_progress\ncontent_part.added 1.0 output_text\n"
         "output_text.delta 1.0 a\noutput_text.done 1.0 a\n"
         "content_part.done 1.0 output_text\noutput_item.done 1 message completed\ncompleted"},
        {"reasoning and text in one chunk, and again", "+'reasoning':'h','content':'a'\n+'reasoning':'i'\n!length",
         BEGIN "output_item.added 0 reasoning in_progress\ncontent_part.added 0.0 reasoning_text\n"
         "reasoning_text.delta 0.0 h\nreasoning_text.done 0.0 h\n"
         "content_part.done 0.0 reasoning_text\noutput_item.done 0 reasoning completed\n"
         "output_item.added 1 message in_progress\ncontent_part.added 1.0 output_text\n"
         "output_text.delta 1.0 a\noutput_text.done 1.0 a\n"
         "content_part.done 1.0 output_text\noutput_item.done 1 message completed\n"
         "output_item.added 2 reasoning in_progress\ncontent_part.added 2.0 reasoning_text\n"
         "reasoning_text.delta 2.0 i\nreasoning_text.done 2.0 i\n"
         "content_part.done 2.0 reasoning_text\noutput_item.done 2 reasoning incomplete\nincomplete"},
        {"a refusal", "+'refusal':'N'\n+'refusal':'o'\n!stop",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 refusal\n"
         "refusal.delta 0.0 N\nrefusal.delta 0.0 o\nrefusal.done 0.0 No\n"
         "content_part.done 0.0 refusal\noutput_item.done 0 message completed\ncompleted"},
        {"text and a refusal, mixed", "+'refusal':'N'\n+'content':'a'\n+'refusal':'o'\n!content_filter",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 refusal\n"
         "refusal.delta 0.0 N\ncontent_part.added 0.1 output_text\noutput_text.delta 0.1 a\n"
         "refusal.delta 0.0 o\nrefusal.done 0.0 No\ncontent_part.done 0.0 refusal\n"
         "output_text.done 0.1 a\ncontent_part.done 0.1 output_text\n"
         "output_item.done 0 message incomplete\nincomplete"},
        {"text, then a call", "+'content':'a'\n+'tool_calls':[{'index':0,'id':'c','type':'function','function':{'name':'f','arguments':''}}]\n"
         "+'tool_calls':[{'index':0,'function':{'arguments':'{'}}]\n+'tool_calls':[{'index':0,'function':{'arguments':'}'}}]\n!tool_calls",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 a\noutput_text.done 0.0 a\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message completed\n"
         "output_item.added 1 function_call in_progress\n"
         "function_call_arguments.delta 1 {\nfunction_call_arguments.delta 1 }\n"
         "function_call_arguments.done 1 {}\noutput_item.done 1 function_call completed\ncompleted"},
        {"calls that are mixed, and cut", "+'tool_calls':[{'index':0,'id':'c','function':{'name':'f','arguments':'1'}},{'index':1,'id':'d','function':{'name':'g'}}]\n"
         "+'tool_calls':[{'index':1,'function':{'arguments':'2'}},{'index':0,'function':{'arguments':'3'}}]\n!length",
         BEGIN "output_item.added 0 function_call in_progress\nfunction_call_arguments.delta 0 1\n"
         "output_item.added 1 function_call in_progress\nfunction_call_arguments.delta 1 2\n"
         "function_call_arguments.delta 0 3\n"
         "function_call_arguments.done 0 13\noutput_item.done 0 function_call completed\n"
         "function_call_arguments.done 1 2\noutput_item.done 1 function_call incomplete\nincomplete"},
        {"text while a call is open", "+'tool_calls':[{'index':0,'id':'c','function':{'name':'f'}}]\n+'content':'a'\n"
         "+'tool_calls':[{'index':0,'function':{'arguments':'{}'}}]\n!tool_calls",
         BEGIN "output_item.added 0 function_call in_progress\n"
         "output_item.added 1 message in_progress\ncontent_part.added 1.0 output_text\n"
         "output_text.delta 1.0 a\noutput_text.done 1.0 a\n"
         "content_part.done 1.0 output_text\noutput_item.done 1 message completed\n"
         "function_call_arguments.delta 0 {}\n"
         "function_call_arguments.done 0 {}\noutput_item.done 0 function_call completed\ncompleted"},
        {"a name that comes late", "+'tool_calls':[{'index':0,'id':'c','function':{'arguments':'{'}}]\n+'content':'a'\n"
         "+'tool_calls':[{'index':0,'function':{'name':'f','arguments':'}'}}]\n!tool_calls",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 a\noutput_text.done 0.0 a\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message completed\n"
         "output_item.added 1 function_call in_progress\nfunction_call_arguments.delta 1 {\n"
         "function_call_arguments.delta 1 }\n"
         "function_call_arguments.done 1 {}\noutput_item.done 1 function_call completed\ncompleted"},
        {"every call has the index 0", "+'tool_calls':[{'index':0,'id':'c','function':{'name':'f','arguments':'1'}}]\n"
         "+'tool_calls':[{'index':0,'id':'d','function':{'name':'g','arguments':'2'}}]\n!tool_calls",
         BEGIN "output_item.added 0 function_call in_progress\nfunction_call_arguments.delta 0 1\n"
         "output_item.added 1 function_call in_progress\nfunction_call_arguments.delta 1 2\n"
         "function_call_arguments.done 0 1\noutput_item.done 0 function_call completed\n"
         "function_call_arguments.done 1 2\noutput_item.done 1 function_call completed\ncompleted"},
        {"every piece has an id of its own", "+'tool_calls':[{'index':0,'id':'c','function':{'name':'f','arguments':'1'}}]\n"
         "+'tool_calls':[{'index':0,'id':'d','function':{'arguments':'2'}}]\n!tool_calls",
         BEGIN "output_item.added 0 function_call in_progress\nfunction_call_arguments.delta 0 1\n"
         "function_call_arguments.delta 0 2\n"
         "function_call_arguments.done 0 12\noutput_item.done 0 function_call completed\ncompleted"},
        {"no list, no index, no id", "+'tool_calls':{'function':{'name':'f','arguments':'1'}}\n"
         "+'tool_calls':{'function':{'arguments':'2'}}\n+'tool_calls':[{'function':{'name':'g'}}]\n!tool_calls",
         BEGIN "output_item.added 0 function_call in_progress\nfunction_call_arguments.delta 0 1\n"
         "function_call_arguments.delta 0 2\noutput_item.added 1 function_call in_progress\n"
         "function_call_arguments.done 0 12\noutput_item.done 0 function_call completed\n"
         "function_call_arguments.done 1 \noutput_item.done 1 function_call completed\ncompleted"},
        {"a call of nothing", "+'tool_calls':[{'index':0}]\n!stop",
         BEGIN "completed"},
        {"an error", "+'content':'a'\n{'error':{'message':'boom','type':'x','code':500}}\n+'content':'b'",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 a\noutput_text.done 0.0 a\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message incomplete\nfailed"},
        {"an error before all", "{'error':'no'}",
         BEGIN "failed"},
        {"broken off", "+'content':'a'\n!abort",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 a\noutput_text.done 0.0 a\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message incomplete\nfailed"},
        {"broken off, and an error that says why", "!abort\n{'error':'x'}",
         BEGIN "failed"},
        {"two ends: the first counts", "!length\n!stop",
         BEGIN "incomplete"},
        {"chunks without choices, other choices, other members", "{'choices':[]}\n{'id':'c'}\n{'choices':null}\n"
         "{'choices':[{'index':1,'delta':{'content':'b'}}]}\n{'choices':[7]}\n+'new':{'a':[1]}\n!stop",
         BEGIN "completed"},
        {"text behind the finish", "+'content':'a'\n!stop\n+'content':'b'",
         BEGIN "output_item.added 0 message in_progress\ncontent_part.added 0.0 output_text\n"
         "output_text.delta 0.0 a\noutput_text.done 0.0 a\n"
         "content_part.done 0.0 output_text\noutput_item.done 0 message completed\n"
         "output_item.added 1 message in_progress\ncontent_part.added 1.0 output_text\n"
         "output_text.delta 1.0 b\noutput_text.done 1.0 b\n"
         "content_part.done 1.0 output_text\noutput_item.done 1 message completed\ncompleted"},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct story story;

        run_stream("{'model':'m','input':'hi'}", cases[i].events, &story);
        if (strcmp(story.lines, cases[i].story) != 0)
            fail_msg("%s:\n%s\nexpected\n%s", cases[i].name, story.lines, cases[i].story);
        json_decref(story.response);
    }
}

#define HEAD(status, error, details)                                                               \
    "{'id':'resp_x1','object':'response','created_at':1700000000,'status':'" status                \
    "','error':" error ",'incomplete_details':" details ","
#define ECHO                                                                                       \
    "'instructions':null,'max_output_tokens':null,'max_tool_calls':null,'metadata':{},"            \
    "'parallel_tool_calls':true,'reasoning':{'effort':null,'summary':null},'temperature':null,"    \
    "'text':{'format':{'type':'text'}},'tool_choice':'auto','tools':[],'top_logprobs':0,"          \
    "'top_p':null,'background':false,'previous_response_id':null,'store':false,"                   \
    "'truncation':'disabled','model':'m',"

static void the_bytes_of_a_stream_are_these(void **state)
{
    (void)state;
    static const char *const expected_text =
        "event: response.created\ndata: {'type':'response.created','sequence_number':0,"
        "'response':" HEAD("in_progress", "null", "null") ECHO
        "'output':[],'usage':null}}\n\n"
        "event: response.in_progress\ndata: {'type':'response.in_progress','sequence_number':1,"
        "'response':" HEAD("in_progress", "null", "null") ECHO
        "'output':[],'usage':null}}\n\n"
        "event: response.output_item.added\ndata: {'type':'response.output_item.added',"
        "'sequence_number':2,'output_index':0,'item':{'id':'fc_x1_0','status':'in_progress',"
        "'type':'function_call','call_id':'call_x1_0','name':'f','arguments':''}}\n\n"
        "event: response.function_call_arguments.delta\ndata: {'type':"
        "'response.function_call_arguments.delta','sequence_number':3,'item_id':'fc_x1_0',"
        "'output_index':0,'delta':'{\\'a\\':\\u00e9}'}\n\n"
        "event: response.function_call_arguments.done\ndata: {'type':"
        "'response.function_call_arguments.done','sequence_number':4,'item_id':'fc_x1_0',"
        "'output_index':0,'name':'f','arguments':'{\\'a\\':\\u00e9}'}\n\n"
        "event: response.output_item.done\ndata: {'type':'response.output_item.done',"
        "'sequence_number':5,'output_index':0,'item':{'id':'fc_x1_0','status':'completed',"
        "'type':'function_call','call_id':'call_x1_0','name':'f','arguments':"
        "'{\\'a\\':\\u00e9}'}}\n\n"
        "event: response.completed\ndata: {'type':'response.completed','sequence_number':6,"
        "'response':" HEAD("completed", "null", "null") ECHO
        "'output':[{'id':'fc_x1_0','status':'completed','type':'function_call','call_id':"
        "'call_x1_0','name':'f','arguments':'{\\'a\\':\\u00e9}'}],'usage':null}}\n\n";
    char room[TEXT_ROOM];
    struct translator *translator = begin("{'model':'m','input':'hi'}");
    struct writer out = writer_new(1 << 20);
    const char *call =
        "+'tool_calls':[{'index':0,'function':{'name':'f','arguments':'{\\'a\\':\\u00e9}'}}]";

    assert_int_equal(translator_event(translator, chunk_in(room, call, strlen(call)), &out), OK);
    assert_int_equal(translator_end(translator, &out), OK);

    const struct span expected = json_in(room, expected_text);

    assert_int_equal(out.text.size, expected.size);
    assert_memory_equal(out.text.data, expected.data, expected.size);
    buffer_free(&out.text);
    translator_free(translator);
}

/* ---- whole answers ---- */

static enum err run_whole(const char *body, const char *answer, struct writer *out)
{
    char room[TEXT_ROOM];
    struct translator *translator = begin(body);
    enum err err;

    *out = writer_new(1 << 20);
    err = translator_whole(translator, json_in(room, answer), out);
    translator_free(translator);
    return err;
}

static void assert_whole(const char *body, const char *answer, const char *expected_text)
{
    char room[TEXT_ROOM];
    const struct span expected = json_in(room, expected_text);
    struct writer out;

    assert_int_equal(run_whole(body, answer, &out), OK);
    if (!span_equal((struct span){out.text.data, out.text.size}, expected))
        fail_msg("%s\n  became   %.*s\n  expected %s", answer, (int)out.text.size, out.text.data,
                 expected.data);
    buffer_free(&out.text);
}

static void whole_answers_are_responses(void **state)
{
    (void)state;
    static const char *const plain = "{'model':'m','input':'hi'}";

    assert_whole(
        plain,
        "{'id':'c','choices':[{'index':0,'message':{'role':'assistant','content':"
        "'a\\n\\u00e9','refusal':null},'finish_reason':'stop','logprobs':null}],'usage':"
        "{'prompt_tokens':5,'completion_tokens':7,'total_tokens':12,"
        "'prompt_tokens_details':{'cached_tokens':4},'completion_tokens_details':"
        "{'reasoning_tokens':3}},'service_tier':'default'}",
        HEAD("completed", "null", "null") ECHO
        "'service_tier':'default','output':[{'id':'msg_x1_0','status':'completed','type':"
        "'message','role':'assistant','content':[{'type':'output_text','text':"
        "'a\\n\\u00e9','annotations':[],'logprobs':[]}]}],'usage':{'input_tokens':5,"
        "'input_tokens_details':{'cached_tokens':4,'cache_write_tokens':0},'output_tokens':7,"
        "'output_tokens_details':{'reasoning_tokens':3},'total_tokens':12}}");
    assert_whole(plain,
                 "{'choices':[{'message':{'reasoning_content':'h','content':'a','refusal':'n',"
                 "'tool_calls':[{'id':'c','type':'function','function':{'name':'f','arguments':"
                 "'{}'}},{'id':'d','type':'function','function':{'name':'f','arguments':'{}'}}]},"
                 "'logprobs':{'content':[{'token':'a','logprob':-0.50,'bytes':[97],"
                 "'top_logprobs':[]}]},'finish_reason':'length'}]}",
                 HEAD("incomplete", "null", "{'reason':'max_output_tokens'}") ECHO
                 "'output':[{'id':'rs_x1_0','status':'completed','type':'reasoning','summary':[],"
                 "'content':[{'type':'reasoning_text','text':'h'}]},"
                 "{'id':'msg_x1_1','status':'completed','type':'message','role':'assistant',"
                 "'content':[{'type':'output_text','text':'a','annotations':[],'logprobs':"
                 "[{'token':'a','logprob':-0.50,'bytes':[97],'top_logprobs':[]}]},"
                 "{'type':'refusal','refusal':'n'}]},"
                 "{'id':'fc_x1_2','status':'completed','type':'function_call','call_id':'c',"
                 "'name':'f','arguments':'{}'},"
                 "{'id':'fc_x1_3','status':'incomplete','type':'function_call','call_id':'d',"
                 "'name':'f','arguments':'{}'}],'usage':null}");
    assert_whole(plain, "{'choices':[]}",
                 HEAD("completed", "null", "null") ECHO "'output':[],'usage':null}");
}

static void the_end_of_a_stream_is_the_whole_answer(void **state)
{
    (void)state;
    static const char text[] = "one, two, three";
    struct writer out;

    assert_int_equal(run_whole("{'model':'m','input':'hi'}",
                               "{'choices':[{'message':{'content':'one, two, three','reasoning':"
                               "'h'},'finish_reason':'stop'}],'usage':{'prompt_tokens':1,"
                               "'completion_tokens':2,'total_tokens':3}}",
                               &out),
                     OK);

    json_t *whole = json_loadb(out.text.data, out.text.size, 0, NULL);

    assert_non_null(whole);
    for (size_t cut = 0; cut < sizeof text; cut++) { /* at every byte */
        char events[512];
        struct story story;

        snprintf(events, sizeof events,
                 "+'reasoning':'h'\n+'content':'%.*s'\n+'content':'%s'\n!stop\n"
                 "{'choices':[],'usage':{'prompt_tokens':1,'completion_tokens':2,"
                 "'total_tokens':3}}",
                 (int)cut, text, text + cut);
        run_stream("{'model':'m','input':'hi'}", events, &story);
        assert_true(json_equal(story.response, whole));
        json_decref(story.response);
    }
    json_decref(whole);
    buffer_free(&out.text);
}

static void logprobs_go_with_their_text(void **state)
{
    (void)state;
    struct story story;

    /* The second stands in a chunk without text; of the third, lines are joined. */
    run_stream("{'model':'m','input':'hi'}",
               "{'choices':[{'delta':{'content':'a'},'logprobs':{'content':[{'token':'a'}]}}]}\n"
               "{'choices':[{'delta':{'content':''},'logprobs':{'content':[{'token':'b'}]}}]}\n"
               "{'choices':[{'delta':{'content':'c'},'logprobs':{'content':[{'token':\r'c'},~"
               "{'token':'d'}]}}]}",
               &story);

    const json_t *item = json_array_get(json_object_get(story.response, "output"), 0);
    const json_t *part = json_array_get(json_object_get(item, "content"), 0);
    const json_t *logprobs = json_object_get(part, "logprobs");

    assert_int_equal(json_array_size(logprobs), 4);
    assert_true(grammar_is(json_array_get(logprobs, 3), "token", "d"));
    json_decref(story.response);
}

static void the_ask_stands_in_the_answer(void **state)
{
    (void)state;
    assert_whole(
        "{'model':'other','instructions':'i','max_output_tokens':9,'max_tool_calls':1,"
        "'metadata':{'a':'b'},'parallel_tool_calls':false,'reasoning':{'effort':'low'},"
        "'temperature':0.50,'text':{'verbosity':'low'},'tool_choice':{'type':'function',"
        "'name':'f'},'tools':[ {'type':'function',\n'name':'f'} ],'top_logprobs':2,"
        "'top_p':1,'user':'u','safety_identifier':'s','prompt_cache_key':'k','store':true,"
        "'input':'x'}",
        "{'choices':[]}",
        HEAD(
            "completed", "null",
            "null") "'instructions':'i','max_output_tokens':9,'max_tool_calls':1,"
                    "'metadata':{'a':'b'},'parallel_tool_calls':false,'reasoning':{'effort':'low'},"
                    "'temperature':0.50,'text':{'verbosity':'low'},'tool_choice':{'type':'function'"
                    ","
                    "'name':'f'},'tools':[ {'type':'function', 'name':'f'} ],'top_logprobs':2,"
                    "'top_p':1,'user':'u','safety_identifier':'s','prompt_cache_key':'k',"
                    "'background':false,'previous_response_id':null,'store':false,"
                    "'truncation':'disabled','model':'m','output':[],'usage':null}");
    /* What is of another type would break clients. */
    assert_whole("{'instructions':[],'max_output_tokens':'9','metadata':7,'tools':{},'user':1}",
                 "{'choices':[]}",
                 HEAD("completed", "null", "null") ECHO "'output':[],'usage':null}");
}

static void what_is_too_long_to_repeat_is_left_out(void **state)
{
    (void)state;
    const size_t size = 300 << 10;
    char *body = malloc(size + 64);
    struct writer out = writer_new(1 << 20);

    assert_non_null(body);
    memcpy(body, "{\"user\":\"u\",\"instructions\":\"", 28);
    memset(body + 28, 'a', size);
    memcpy(body + 28 + size, "\"}", 2);

    const struct translator_facts facts = {SPAN("m"), SPAN("x1"), {body, size + 30}, 1};
    struct translator *translator = translator_new(ENDPOINT_RESPONSES, &facts);

    assert_int_equal(translator_whole(translator, SPAN("{\"choices\":[]}"), &out), OK);

    json_t *response = json_loadb(out.text.data, out.text.size, 0, NULL);

    assert_true(json_is_null(json_object_get(response, "instructions")));
    assert_true(grammar_is(response, "user", "u"));
    json_decref(response);
    translator_free(translator);
    buffer_free(&out.text);
    free(body);
}

/* ---- ends, usage, errors ---- */

static void every_finish_reason_has_a_status(void **state)
{
    (void)state;
    static const struct {
        const char *reason, *status, *details;
    } cases[] = {
        {"'stop'", "completed", NULL},
        {"'tool_calls'", "completed", NULL},
        {"'function_call'", "completed", NULL},
        {"'eos_token'", "completed", NULL},
        {"null", "completed", NULL},
        {"'length'", "incomplete", "max_output_tokens"},
        {"'content_filter'", "incomplete", "content_filter"},
        {"'abort'", "failed", NULL},
        {"'error'", "failed", NULL},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char answer[256];
        struct writer out;

        snprintf(answer, sizeof answer,
                 "{'choices':[{'message':{'content':'a'},'finish_reason':%s}]}", cases[i].reason);
        assert_int_equal(run_whole("{}", answer, &out), OK);

        json_t *response = json_loadb(out.text.data, out.text.size, 0, NULL);
        const json_t *details = json_object_get(response, "incomplete_details");

        assert_true(grammar_is(response, "status", cases[i].status));
        assert_true(cases[i].details ? grammar_is(details, "reason", cases[i].details)
                                     : json_is_null(details));
        json_decref(response);
        buffer_free(&out.text);
    }
}

static void usage_is_what_the_server_said(void **state)
{
    (void)state;
    static const struct {
        const char *usage;
        int input, cached, cache_write, output, reasoning, total; /* input -1: null */
    } cases[] = {
        {"null", -1, 0, 0, 0, 0, 0},
        {"{'prompt_tokens':5,'completion_tokens':7,'total_tokens':12}", 5, 0, 0, 7, 0, 12},
        {"{'prompt_tokens':5,'completion_tokens':7}", 5, 0, 0, 7, 0, 12},
        {"{'prompt_tokens':5,'total_tokens':5,'completion_tokens':null}", 5, 0, 0, 0, 0, 5},
        {"{'prompt_tokens':5,'completion_tokens':7,'prompt_tokens_details':null,"
         "'reasoning_tokens':2}",
         5, 0, 0, 7, 2, 12},
        {"{'prompt_tokens':5,'completion_tokens':7,'total_tokens':12,'prompt_tokens_details':"
         "{'cached_tokens':4,'cache_write_tokens':1},'completion_tokens_details':"
         "{'reasoning_tokens':6}}",
         5, 4, 1, 7, 6, 12},
        {"{'prompt_tokens':5,'completion_tokens':7,'prompt_tokens_details':"
         "{'created_cache_tokens':2}}",
         5, 0, 2, 7, 0, 12},
        {"{'prompt_tokens':-5,'completion_tokens':'7'}", 0, 0, 0, 0, 0, 0},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char events[512];
        struct story story;

        /* Running usage comes before: the last one counts. */
        snprintf(events, sizeof events, "{'choices':[]%s}\n!stop\n{'choices':[],'usage':%s}",
                 cases[i].input < 0 ? "" : ",'usage':{'prompt_tokens':5,'completion_tokens':1}",
                 cases[i].usage);
        run_stream("{}", events, &story);

        const json_t *usage = json_object_get(story.response, "usage");

        if (cases[i].input < 0) {
            assert_true(json_is_null(usage));
        } else {
            const json_t *input = json_object_get(usage, "input_tokens_details");
            const json_t *output = json_object_get(usage, "output_tokens_details");

            assert_int_equal(grammar_number(usage, "input_tokens"), cases[i].input);
            assert_int_equal(grammar_number(input, "cached_tokens"), cases[i].cached);
            assert_int_equal(grammar_number(input, "cache_write_tokens"), cases[i].cache_write);
            assert_int_equal(grammar_number(usage, "output_tokens"), cases[i].output);
            assert_int_equal(grammar_number(output, "reasoning_tokens"), cases[i].reasoning);
            assert_int_equal(grammar_number(usage, "total_tokens"), cases[i].total);
        }
        json_decref(story.response);
    }
}

static void every_form_of_error_fails_the_response(void **state)
{
    (void)state;
    static const struct {
        const char *json, *code, *message;
    } cases[] = {
        {"{'error':{'message':'a \\'b\\' \\u00e9','type':'t','param':null,'code':500}}",
         "server_error", "a \"b\" \xc3\xa9"},
        {"{'error':{'message':'slow','type':'t','code':429}}", "rate_limit_exceeded", "slow"},
        {"{'error':{'message':'slow','code':'rate_limit_exceeded'}}", "rate_limit_exceeded",
         "slow"},
        {"{'object':'error','message':'flat','type':'t','param':null,'code':400}", "server_error",
         "flat"},
        {"{'error':'text','error_type':'generation'}", "server_error", "text"},
        {"{'error':{}}", "server_error", "the model server failed"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct writer out;
        struct story story;

        assert_int_equal(run_whole("{}", cases[i].json, &out), OK);
        run_stream("{}", cases[i].json, &story);

        json_t *whole = json_loadb(out.text.data, out.text.size, 0, NULL);
        const json_t *error = json_object_get(whole, "error");

        assert_true(grammar_is(whole, "status", "failed"));
        assert_true(grammar_is(error, "code", cases[i].code));
        assert_true(grammar_is(error, "message", cases[i].message));
        assert_true(json_equal(whole, story.response));
        json_decref(whole);
        json_decref(story.response);
        buffer_free(&out.text);
    }
}

static void what_is_no_answer_breaks_the_protocol(void **state)
{
    (void)state;
    static const char *const cases[] = {"", "nonsense", "{'choices':[", "[]", "7", "{}{}"};

    for (size_t i = 0; i < COUNT(cases); i++) {
        char room[TEXT_ROOM];
        struct translator *translator = begin("{}");
        struct writer out;

        assert_int_equal(run_whole("{}", cases[i], &out), ERR_REPLICA_PROTOCOL);
        buffer_free(&out.text);
        assert_int_equal(translator_event(translator, json_in(room, cases[i]), &out),
                         ERR_REPLICA_PROTOCOL);
        translator_free(translator);
    }

    struct writer out;

    assert_int_equal(run_whole("{}", "{'id':'no choices'}", &out), ERR_REPLICA_PROTOCOL);
    buffer_free(&out.text);
}

/* ---- bounds ---- */

static void what_is_kept_of_a_stream_is_bounded(void **state)
{
    (void)state;
    static const char head[] = "{\"choices\":[{\"delta\":{\"content\":\"";
    static const char tail[] = "\"}}]}";
    const size_t text_bytes = 1 << 20;
    const size_t size = sizeof head - 1 + text_bytes + sizeof tail - 1;
    struct translator *translator = begin("{}");
    char *json = malloc(size);
    enum err err = OK;
    int events = 0;

    assert_non_null(json);
    memcpy(json, head, sizeof head - 1);
    memset(json + sizeof head - 1, 'a', text_bytes);
    memcpy(json + sizeof head - 1 + text_bytes, tail, sizeof tail - 1);
    for (; err == OK && events < 10; events++) {
        struct writer out = writer_new(2 << 20);

        err = translator_event(translator, (struct span){json, size}, &out);
        buffer_free(&out.text);
    }
    assert_int_equal(err, ERR_TOO_LARGE);
    assert_int_equal(events, 5); /* four MiB fit */
    translator_free(translator);
    free(json);
}

/* One event of many logprobs after the other: the last events do not repeat them all, and end the
 * stream well. */
static void logprobs_too_many_to_repeat_stand_in_deltas_alone(void **state)
{
    (void)state;
    static const char head[] = "{\"choices\":[{\"delta\":{\"content\":\"a\"},\"logprobs\":{"
                               "\"content\":[{\"token\":\"";
    static const char tail[] = "\"}]}}]}";
    const size_t token_bytes = 100000;
    const size_t size = sizeof head - 1 + token_bytes + sizeof tail - 1;

    for (int events = 5; events <= 20; events += 15) {
        struct translator *translator = begin("{}");
        char *json = malloc(size);
        struct writer out = writer_new(4 << 20);

        assert_non_null(json);
        memcpy(json, head, sizeof head - 1);
        memset(json + sizeof head - 1, 't', token_bytes);
        memcpy(json + sizeof head - 1 + token_bytes, tail, sizeof tail - 1);
        for (int i = 0; i < events; i++) {
            assert_int_equal(translator_event(translator, (struct span){json, size}, &out), OK);
            assert_true(out.text.size > token_bytes);
            out.text.size = 0;
        }
        assert_int_equal(translator_end(translator, &out), OK);
        if (events == 5)
            assert_true(out.text.size > (size_t)(4 * events) * token_bytes);
        else
            assert_true(out.text.size < token_bytes);
        assert_non_null(memmem(out.text.data, out.text.size, "response.completed", 18));
        assert_true(translator_sequence(translator) > events);
        buffer_free(&out.text);
        translator_free(translator);
        free(json);
    }
}

static void calls_are_bounded(void **state)
{
    (void)state;
    struct translator *translator = begin("{}");
    enum err err = OK;
    int calls = 0;

    for (; err == OK && calls < 2000; calls++) {
        char text[128];
        char room[TEXT_ROOM];
        struct writer out = writer_new(1 << 20);

        snprintf(text, sizeof text, "+'tool_calls':[{'index':%d,'function':{'name':'f'}}]", calls);
        err = translator_event(translator, chunk_in(room, text, strlen(text)), &out);
        buffer_free(&out.text);
    }
    assert_int_equal(err, ERR_TOO_LARGE);
    assert_int_equal(calls, 1025);
    translator_free(translator);
}

static void the_writers_bound_holds(void **state)
{
    (void)state;
    struct translator *translator = begin("{}");
    struct writer out = writer_new(64);

    assert_int_equal(translator_end(translator, &out), ERR_TOO_LARGE);
    buffer_free(&out.text);
    translator_free(translator);
}

/* ---- there and back ---- */

static void output_goes_back_to_the_message_that_it_was(void **state)
{
    (void)state;
    static const char message[] = "{'role':'assistant','content':'a \\u00e9','tool_calls':[{'id':"
                                  "'c','type':'function','function':{'name':'f','arguments':"
                                  "'{\\'x\\':1}'}},{'id':'d','type':'function','function':"
                                  "{'name':'g','arguments':'{}'}}]}";
    char answer[1024];
    char room[TEXT_ROOM];
    struct writer out;
    struct writer chat = writer_new(1 << 20);
    struct ask_problem problem;

    snprintf(answer, sizeof answer, "{'choices':[{'message':%s,'finish_reason':'tool_calls'}]}",
             message);
    assert_int_equal(run_whole("{}", answer, &out), OK);

    json_t *response = json_loadb(out.text.data, out.text.size, 0, NULL);
    json_t *ask =
        json_pack("{s:s,s:O}", "model", "m", "input", json_object_get(response, "output"));
    char *body = json_dumps(ask, 0);

    assert_int_equal(translate_ask(ENDPOINT_RESPONSES, span_of(body), 64, &chat, &problem), OK);

    json_t *back = json_loadb(chat.text.data, chat.text.size, 0, NULL);
    const struct span expected_json = json_in(room, message);
    json_t *expected = json_loadb(expected_json.data, expected_json.size, 0, NULL);

    assert_int_equal(json_array_size(json_object_get(back, "messages")), 1);
    assert_true(json_equal(json_array_get(json_object_get(back, "messages"), 0), expected));
    json_decref(expected);
    json_decref(back);
    free(body);
    json_decref(ask);
    json_decref(response);
    buffer_free(&chat.text);
    buffer_free(&out.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_keep_the_order_of_the_api),
        cmocka_unit_test(the_bytes_of_a_stream_are_these),
        cmocka_unit_test(whole_answers_are_responses),
        cmocka_unit_test(the_end_of_a_stream_is_the_whole_answer),
        cmocka_unit_test(logprobs_go_with_their_text),
        cmocka_unit_test(the_ask_stands_in_the_answer),
        cmocka_unit_test(what_is_too_long_to_repeat_is_left_out),
        cmocka_unit_test(every_finish_reason_has_a_status),
        cmocka_unit_test(usage_is_what_the_server_said),
        cmocka_unit_test(every_form_of_error_fails_the_response),
        cmocka_unit_test(what_is_no_answer_breaks_the_protocol),
        cmocka_unit_test(what_is_kept_of_a_stream_is_bounded),
        cmocka_unit_test(logprobs_too_many_to_repeat_stand_in_deltas_alone),
        cmocka_unit_test(calls_are_bounded),
        cmocka_unit_test(the_writers_bound_holds),
        cmocka_unit_test(output_goes_back_to_the_message_that_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
