# SPDX-License-Identifier: Apache-2.0
"""OpenAI's Python client, the waiting one and the asynchronous one, unchanged.

For:       see checks.py; a client whose name ends in "async" is the asynchronous one.
Used by:   run.py.
Knows not: the gateway's configuration.
"""

import re

import openai
import pydantic

import checks
from checks import check, each, rejection, said, settle, within

HTTP = {"h1": "HTTP/1.1", "h2": "HTTP/2"}


class City(pydantic.BaseModel):
    city: str


def prepare(target):
    asynchronous = target.client.endswith("async")
    more = {}
    if target.h2:
        http = openai.DefaultAsyncHttpxClient if asynchronous else openai.DefaultHttpxClient
        more["http_client"] = http(http2=True)
    maker = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    return maker(base_url=target.base, api_key=target.key, timeout=10, max_retries=2,
                 **more), target


def chat(target, directives, **more):
    """The arguments of a chat request."""
    return {"model": target.model,
            "messages": [{"role": "user", "content": said(directives)}], **more}


async def chunks_of(client, arguments):
    stream = await settle(client.chat.completions.create(stream=True, **arguments))
    return [chunk async for chunk in each(stream)]


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@check("chat", feature="text")
async def a_plain_chat_has_text_and_usage(client, target):
    answer = await settle(client.chat.completions.create(**chat(target, "tokens=7")))
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 7, answer.usage
    assert answer.usage.total_tokens == 7 + answer.usage.prompt_tokens


@check("chat", feature="protocol")
async def the_connection_speaks_what_was_wanted(client, target):
    raw = await settle(client.chat.completions.with_raw_response.create(**chat(target, "tokens=1")))
    assert raw.http_response.http_version == HTTP[target.protocol], raw.http_response.http_version


@check("chat", feature="request id", gateway=True)
async def an_answer_bears_a_request_id(client, target):
    arguments = chat(target, "tokens=1", extra_headers={"x-request-id": "mine-1"})
    answer = await settle(client.chat.completions.create(**arguments))
    assert answer._request_id == "mine-1", answer._request_id
    answer = await settle(client.chat.completions.create(**chat(target, "tokens=1")))
    assert re.match(checks.REQUEST_ID, answer._request_id)


@check("chat", feature="tools")
async def a_tool_is_called(client, target):
    answer = await settle(client.chat.completions.create(
        **chat(target, "tool=weather", tools=[checks.tool()], tool_choice="auto")))
    assert answer.choices[0].finish_reason == "tool_calls", answer
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "weather" and call.id
    told = chat(target, "tokens=3", tools=[checks.tool()])
    told["messages"] += [answer.choices[0].message,
                         {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    answer = await settle(client.chat.completions.create(**told))
    assert answer.choices[0].message.content


@check("chat", feature="schema")
async def an_answer_has_the_schema_that_was_asked_for(client, target):
    answer = await settle(client.chat.completions.parse(
        **chat(target, "tokens=40"), response_format=City))
    assert isinstance(answer.choices[0].message.parsed, City), answer


@check("chat", feature="vision")
async def a_picture_goes_along(client, target):
    arguments = chat(target, "")
    arguments["messages"][0]["content"] = checks.picture_parts(said("tokens=4"))
    answer = await settle(client.chat.completions.create(**arguments))
    assert answer.usage.completion_tokens == 4


@check("chat", feature="logprobs")
async def logprobs_come_with_each_token(client, target):
    answer = await settle(client.chat.completions.create(
        **chat(target, "tokens=3", logprobs=True, top_logprobs=2)))
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == 3 and all(token.logprob <= 0 for token in tokens)
    assert all(len(token.top_logprobs) == 2 for token in tokens)


@check("chat", feature="n")
async def two_choices_come_as_two(client, target):
    answer = await settle(client.chat.completions.create(**chat(target, "tokens=4", n=2)))
    assert sorted(choice.index for choice in answer.choices) == [0, 1]


@check("chat", feature="errors")
async def a_wrong_key_is_an_authentication_error(client, target):
    stranger = client.with_options(api_key=checks.WRONG_KEY)
    error = await rejection(
        lambda: stranger.chat.completions.create(**chat(target, "tokens=1")),
        openai.AuthenticationError)
    assert error.status_code == 401
    if not target.direct:
        assert error.code == "invalid_api_key" and error.request_id


@check("chat", feature="errors")
async def an_unknown_model_is_a_not_found_error(client, target):
    error = await rejection(
        lambda: client.chat.completions.create(**dict(chat(target, "tokens=1"), model="none")),
        openai.NotFoundError)
    assert target.direct or error.code == "model_not_found"


@check("chat", feature="errors")
async def a_request_that_the_server_refuses_is_a_bad_request_error(client, target):
    await rejection(lambda: client.chat.completions.create(**chat(target, "fail=400")),
                    openai.BadRequestError)


@check("chat", feature="errors")
async def errors_that_stay_come_in_their_class(client, target):
    impatient = client.with_options(max_retries=0)
    await rejection(lambda: impatient.chat.completions.create(**chat(target, "fail=503")),
                    openai.InternalServerError)
    error = await rejection(
        lambda: impatient.chat.completions.create(**chat(target, "fail=429 retry_after=7")),
        openai.RateLimitError)
    assert error.response.headers["retry-after"] == "7"


@check("chat", feature="retries")
async def the_client_retries_until_it_is_answered(client, target):
    for status in (503, 429):
        raw = await settle(client.chat.completions.with_raw_response.create(
            **chat(target, f"tokens=2 fail={status} {checks.once()}")))
        assert raw.retries_taken == 1, raw.retries_taken
        assert (await settle(raw.parse())).usage.completion_tokens == 2


@check("chat", feature="timeout")
async def a_slow_answer_is_a_timeout_error(client, target):
    hasty = client.with_options(timeout=0.3, max_retries=0)
    await rejection(lambda: hasty.chat.completions.create(**chat(target, "first_ms=3000")),
                    openai.APITimeoutError)


@check("chat", "stream", feature="text")
async def a_stream_has_text_and_no_usage_unless_asked_for(client, target):
    chunks = await chunks_of(client, chat(target, "tokens=9"))
    assert text_of(chunks)
    assert all(chunk.choices and not chunk.usage for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")


@check("chat", "stream", feature="usage")
async def a_stream_ends_in_the_usage_that_was_asked_for(client, target):
    chunks = await chunks_of(
        client, chat(target, "tokens=9", stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 9
    assert sum(1 for chunk in chunks if chunk.usage) == 1


@check("chat", "stream", feature="tools")
async def a_tool_is_called_in_pieces(client, target):
    manager = client.chat.completions.stream(
        **chat(target, "tool=weather", tools=[checks.tool()]))
    async with within(manager) as stream:
        async for _ in each(stream):
            pass
        answer = await settle(stream.get_final_completion())
    assert answer.choices[0].finish_reason == "tool_calls", answer
    assert answer.choices[0].message.tool_calls[0].function.name == "weather"


@check("chat", "stream", feature="logprobs")
async def logprobs_come_in_a_stream(client, target):
    chunks = await chunks_of(client, chat(target, "tokens=3", logprobs=True, top_logprobs=1))
    told = [chunk.choices[0].logprobs for chunk in chunks if chunk.choices[0].logprobs]
    assert sum(len(one.content) for one in told) == 3, told


@check("chat", "stream", feature="n")
async def two_choices_are_streamed(client, target):
    chunks = await chunks_of(client, chat(target, "tokens=3", n=2))
    assert {chunk.choices[0].index for chunk in chunks if chunk.choices} == {0, 1}


@check("chat", "stream", feature="abort")
async def a_stream_may_be_left(client, target):
    stream = await settle(client.chat.completions.create(
        stream=True, **chat(target, "tokens=2000 delay_ms=20")))
    count = 0
    async for _ in each(stream):
        count += 1
        if count == 5:
            break
    await settle(stream.close())
    answer = await settle(client.chat.completions.create(**chat(target, "tokens=2")))
    assert answer.usage.completion_tokens == 2


@check("chat", "stream", feature="errors")
async def a_cut_stream_raises(client, target):
    async def read(directives):
        await chunks_of(client, chat(target, directives))
    await rejection(lambda: read("tokens=50 error_event=5"), openai.APIError)
    await rejection(lambda: read("tokens=50 reset=5"), Exception)


@check("completions")
async def a_completion_is_served(client, target):
    answer = await settle(client.completions.create(
        model=target.model, prompt=said("tokens=4"), max_tokens=8))
    assert answer.object == "text_completion" and answer.choices[0].text
    assert answer.usage.completion_tokens == 4


@check("completions", "stream")
async def a_completion_is_streamed(client, target):
    stream = await settle(client.completions.create(
        model=target.model, prompt=said("tokens=4"), max_tokens=8, stream=True,
        stream_options={"include_usage": True}))
    chunks = [chunk async for chunk in each(stream)]
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
    assert chunks[-1].usage.completion_tokens == 4


@check("embeddings")
async def embeddings_come_in_base64_and_as_numbers(client, target):
    answer = await settle(client.embeddings.create(model=target.model, input=["a", "b c"]))
    assert len(answer.data) == 2 and answer.usage.prompt_tokens > 0
    packed = answer.data[0].embedding
    answer = await settle(client.embeddings.create(
        model=target.model, input=["a", "b c"], encoding_format="float"))
    assert len(packed) == len(answer.data[0].embedding) > 0
    assert all(abs(a - b) < 1e-6 for a, b in zip(packed, answer.data[0].embedding))


@check("models")
async def models_are_listed(client, target):
    ids = [model.id async for model in each(client.models.list())]
    assert target.model in ids


@check("models", gateway=True)
async def one_model_is_retrieved(client, target):
    for name in ("small", "org/large"):
        assert (await settle(client.models.retrieve(name))).id == name
    await rejection(lambda: client.models.retrieve("hidden"), openai.NotFoundError)


@check("responses")
async def a_response_has_text_and_usage(client, target):
    answer = await settle(client.responses.create(
        model=target.model, input=said("tokens=5"), instructions="be brief", store=False))
    assert answer.object == "response" and answer.status == "completed", answer
    assert answer.output_text and answer.usage.output_tokens == 5, answer.usage


@check("responses", feature="tools")
async def a_response_calls_a_tool(client, target):
    function = checks.tool()["function"]
    answer = await settle(client.responses.create(
        model=target.model, input=said("tool=weather"), store=False,
        tools=[{"type": "function", "strict": False, **function}]))
    calls = [item for item in answer.output if item.type == "function_call"]
    assert calls and calls[0].name == "weather" and calls[0].call_id, answer.output


@check("responses", feature="schema")
async def a_response_has_the_schema_that_was_asked_for(client, target):
    answer = await settle(client.responses.parse(
        model=target.model, input=said("tokens=40"), store=False, text_format=City))
    assert isinstance(answer.output_parsed, City), answer


@check("responses", feature="max_tokens")
async def a_response_that_was_cut_is_incomplete(client, target):
    answer = await settle(client.responses.create(
        model=target.model, input=said("tokens=9"), store=False, max_output_tokens=4))
    assert answer.status == "incomplete", answer
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.output_tokens == 4


@check("responses", feature="errors")
async def state_is_refused_with_a_bad_request_error(client, target):
    # TGI says 422 of what others say 400 of, and it passes as it came.
    await rejection(
        lambda: client.responses.create(
            model=target.model, input=said("fail=400"), store=False),
        openai.UnprocessableEntityError if target.translated == "tgi" else openai.BadRequestError)
    if not target.direct:
        await rejection(lambda: client.responses.create(
            model=target.model, input="x", previous_response_id="resp_1"), openai.BadRequestError)


@check("responses", "stream")
async def a_response_is_streamed(client, target):
    stream = await settle(client.responses.create(
        model=target.model, input=said("tokens=6"), stream=True, store=False))
    events = [event async for event in each(stream)]
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    told = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert told == events[-1].response.output_text != ""
    assert events[-1].response.usage.output_tokens == 6


@check("responses", "stream", feature="helper")
async def the_streaming_helper_puts_a_response_together(client, target):
    async with within(client.responses.stream(
            model=target.model, input=said("tokens=6"), store=False)) as stream:
        async for _ in each(stream):
            pass
        answer = await settle(stream.get_final_response())
    assert answer.status == "completed" and answer.output_text


@check("audio")
async def speech_becomes_text(client, target):
    sound = ("a.wav", checks.wav(), "audio/wav")
    answer = await settle(client.audio.transcriptions.create(model=target.model, file=sound))
    assert answer.text
    answer = await settle(client.audio.translations.create(model=target.model, file=sound))
    assert answer.text


if __name__ == "__main__":
    checks.main(prepare)
