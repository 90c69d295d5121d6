# SPDX-License-Identifier: Apache-2.0
"""Anthropic's Python client, the waiting one and the asynchronous one, unchanged.

For:       see checks.py; a client whose name ends in "async" is the asynchronous one.
Used by:   run.py.
Knows not: the gateway's configuration.
"""

import re

import anthropic

import checks
from checks import check, each, rejection, said, settle, within

HTTP = {"h1": "HTTP/1.1", "h2": "HTTP/2"}
TOOL = {"name": "weather", "description": "the weather of a city", "input_schema": checks.WEATHER}


def prepare(target):
    asynchronous = target.client.endswith("async")
    more = {}
    if target.h2:
        http = anthropic.DefaultAsyncHttpxClient if asynchronous else anthropic.DefaultHttpxClient
        more["http_client"] = http(http2=True)
    maker = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
    return maker(base_url=target.root, api_key=target.key, timeout=10, max_retries=2,
                 **more), target


def ask(target, directives, **more):
    """The arguments of a messages request."""
    return {"model": target.model, "max_tokens": 100,
            "messages": [{"role": "user", "content": said(directives)}], **more}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


@check("messages")
async def a_message_has_text_and_usage(client, target):
    message = await settle(client.messages.create(**ask(target, "tokens=7", system="be brief")))
    assert message.type == "message" and message.role == "assistant"
    assert text_of(message)
    assert message.stop_reason == "end_turn", message
    assert message.usage.output_tokens == 7 and message.usage.input_tokens > 0


@check("messages", feature="protocol")
async def the_connection_speaks_what_was_wanted(client, target):
    raw = await settle(client.messages.with_raw_response.create(**ask(target, "tokens=1")))
    assert raw.http_response.http_version == HTTP[target.protocol], raw.http_response.http_version


@check("messages", feature="request id", gateway=True)
async def an_answer_bears_a_request_id(client, target):
    raw = await settle(client.messages.with_raw_response.create(**ask(target, "tokens=1")))
    assert re.match(checks.REQUEST_ID, raw.headers["x-request-id"])


@check("messages", feature="max_tokens")
async def an_answer_that_was_cut_says_so(client, target):
    message = await settle(client.messages.create(**dict(ask(target, "tokens=9"), max_tokens=4)))
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 4, message


@check("messages", feature="tools")
async def a_tool_is_called(client, target):
    arguments = ask(target, "tool=weather", tools=[TOOL])
    message = await settle(client.messages.create(**arguments))
    assert message.stop_reason == "tool_use", message
    use = next(block for block in message.content if block.type == "tool_use")
    assert use.name == "weather" and use.id and isinstance(use.input, dict)
    told = ask(target, "tokens=3", tools=[TOOL])
    told["messages"] += [{"role": "assistant", "content": message.content},
                         {"role": "user", "content": [{"type": "tool_result", "content": "sunny",
                                                       "tool_use_id": use.id}]}]
    assert text_of(await settle(client.messages.create(**told)))


@check("messages", feature="vision")
async def a_picture_goes_along(client, target):
    arguments = ask(target, "")
    arguments["messages"][0]["content"] = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                     "data": checks.png()}},
        {"type": "text", "text": said("tokens=4")}]
    message = await settle(client.messages.create(**arguments))
    assert message.usage.output_tokens == 4


@check("messages", feature="errors")
async def errors_come_in_their_class(client, target):
    def failing(directives, one=client, **more):
        return rejection(lambda: one.messages.create(**dict(ask(target, directives), **more)),
                         anthropic.APIStatusError)
    impatient = client.with_options(max_retries=0)
    stranger = client.with_options(api_key=checks.WRONG_KEY)
    # TGI says 422 of what others say 400 of, and it passes as it came.
    refused = (anthropic.UnprocessableEntityError if target.translated == "tgi" else
               anthropic.BadRequestError)
    for error, kind, told in (
            (await failing("tokens=1", stranger), anthropic.AuthenticationError,
             "authentication_error"),
            (await failing("tokens=1", model="none"), anthropic.NotFoundError, "not_found_error"),
            (await failing("fail=400"), refused, None),
            (await failing("fail=429 retry_after=7", impatient), anthropic.RateLimitError, None),
            (await failing("fail=503", impatient), anthropic.InternalServerError, None)):
        assert isinstance(error, kind), repr(error)
        if not target.direct:
            assert error.body["type"] == "error" and error.body["error"]["message"], error.body
            assert told is None or error.body["error"]["type"] == told, error.body


@check("messages", feature="retries")
async def the_client_retries_until_it_is_answered(client, target):
    for status in (503, 429):
        raw = await settle(client.messages.with_raw_response.create(
            **ask(target, f"tokens=2 fail={status} {checks.once()}")))
        assert raw.retries_taken == 1, raw.retries_taken
        assert (await settle(raw.parse())).usage.output_tokens == 2


@check("messages", feature="timeout")
async def a_slow_answer_is_a_timeout_error(client, target):
    hasty = client.with_options(timeout=0.3, max_retries=0)
    await rejection(lambda: hasty.messages.create(**ask(target, "first_ms=3000")),
                    anthropic.APITimeoutError)


@check("messages", "stream")
async def events_come_in_their_order(client, target):
    stream = await settle(client.messages.create(stream=True, **ask(target, "tokens=6")))
    events = [event async for event in each(stream)]
    types = [event.type for event in events if event.type != "ping"]
    assert types[:2] == ["message_start", "content_block_start"], types
    assert types[-3:] == ["content_block_stop", "message_delta", "message_stop"], types
    assert set(types[2:-3]) == {"content_block_delta"}, types


@check("messages", "stream", feature="usage")
async def the_streaming_helper_has_text_and_usage(client, target):
    async with within(client.messages.stream(**ask(target, "tokens=6"))) as stream:
        told = "".join([text async for text in each(stream.text_stream)])
        message = await settle(stream.get_final_message())
    assert told == text_of(message) != ""
    assert message.stop_reason == "end_turn" and message.usage.output_tokens == 6, message
    assert message.usage.input_tokens > 0


@check("messages", "stream", feature="tools")
async def a_tool_is_called_in_pieces(client, target):
    async with within(client.messages.stream(
            **ask(target, "tool=weather", tools=[TOOL]))) as stream:
        message = await settle(stream.get_final_message())
    assert message.stop_reason == "tool_use", message
    use = next(block for block in message.content if block.type == "tool_use")
    assert use.name == "weather" and isinstance(use.input, dict)


@check("messages", "stream", feature="abort")
async def a_stream_may_be_left(client, target):
    stream = await settle(client.messages.create(
        stream=True, **dict(ask(target, "tokens=2000 delay_ms=20"), max_tokens=4000)))
    count = 0
    async for _ in each(stream):
        count += 1
        if count == 5:
            break
    await settle(stream.close())
    message = await settle(client.messages.create(**ask(target, "tokens=2")))
    assert message.usage.output_tokens == 2


@check("messages", "stream", feature="errors")
async def a_cut_stream_raises(client, target):
    async def read(directives):
        stream = await settle(client.messages.create(stream=True, **ask(target, directives)))
        [event async for event in each(stream)]
    await rejection(lambda: read("tokens=50 error_event=5"), anthropic.APIStatusError)
    await rejection(lambda: read("tokens=50 reset=5"), Exception)


@check("count_tokens")
async def tokens_are_counted(client, target):
    counted = await settle(client.messages.count_tokens(
        model=target.model, messages=[{"role": "user", "content": "one two three"}]))
    message = await settle(client.messages.create(
        model=target.model, max_tokens=1, messages=[{"role": "user", "content": "one two three"}]))
    assert counted.input_tokens == message.usage.input_tokens > 0


if __name__ == "__main__":
    checks.main(prepare)
