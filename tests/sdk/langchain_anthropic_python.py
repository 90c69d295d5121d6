# SPDX-License-Identifier: Apache-2.0
"""LangChain's chat model for Anthropic's API, unchanged.

For:       see checks.py. It makes its HTTP clients itself, so it speaks HTTP/1.1.
Used by:   run.py.
Knows not: the gateway's configuration.
"""

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage

import checks
from checks import check, rejection, said


def prepare(target):
    def chat(**more):
        return ChatAnthropic(**{"model": target.model, "base_url": target.root,
                                "api_key": target.key, "timeout": 10, "max_tokens": 100, **more})
    return chat, target


@check("messages")
async def an_answer_has_text_and_usage(chat, target):
    for answer in (chat().invoke(said("tokens=7")), await chat().ainvoke(said("tokens=7"))):
        assert answer.text and answer.usage_metadata["output_tokens"] == 7, answer


@check("messages", feature="tools")
async def a_tool_is_called(chat, target):
    model = chat().bind_tools([checks.tool()])
    answer = await model.ainvoke([HumanMessage(said("tool=weather"))])
    assert answer.tool_calls[0]["name"] == "weather", answer
    told = ToolMessage("sunny", tool_call_id=answer.tool_calls[0]["id"])
    assert (await model.ainvoke([HumanMessage(said("tokens=3")), answer, told])).text


@check("messages", feature="vision")
async def a_picture_goes_along(chat, target):
    answer = await chat().ainvoke([HumanMessage(content=checks.picture_parts(said("tokens=4")))])
    assert answer.usage_metadata["output_tokens"] == 4


@check("messages", feature="errors")
async def errors_come_in_their_class(chat, target):
    def failing(directives, **more):
        return lambda: chat(max_retries=0, **more).ainvoke(said(directives))
    await rejection(failing("tokens=1", api_key=checks.WRONG_KEY), anthropic.AuthenticationError)
    await rejection(failing("fail=400"), anthropic.BadRequestError)
    await rejection(failing("fail=503"), anthropic.InternalServerError)


@check("messages", feature="retries")
async def the_client_retries_until_it_is_answered(chat, target):
    answer = await chat(max_retries=2).ainvoke(said(f"tokens=2 fail=503 {checks.once()}"))
    assert answer.usage_metadata["output_tokens"] == 2


@check("messages", feature="timeout")
async def a_slow_answer_is_a_timeout_error(chat, target):
    hasty = chat(max_retries=0, timeout=0.3)
    await rejection(lambda: hasty.ainvoke(said("first_ms=3000")), anthropic.APITimeoutError)


@check("messages", "stream", feature="usage")
async def a_stream_has_text_and_usage(chat, target):
    pieces = [piece async for piece in chat().astream(said("tokens=6"))]
    whole = sum(pieces[1:], pieces[0])
    assert whole.text and whole.usage_metadata["output_tokens"] == 6, whole
    assert "".join(piece.text for piece in chat().stream(said("tokens=6")))


@check("messages", "stream", feature="tools")
async def a_tool_is_called_in_pieces(chat, target):
    model = chat().bind_tools([checks.tool()])
    pieces = [piece async for piece in model.astream(said("tool=weather"))]
    assert sum(pieces[1:], pieces[0]).tool_calls[0]["name"] == "weather"


@check("messages", "stream", feature="abort")
async def a_stream_may_be_left(chat, target):
    stream = chat(max_tokens=4000).astream(said("tokens=2000 delay_ms=20"))
    count = 0
    async for _ in stream:
        count += 1
        if count == 5:
            break
    await stream.aclose()


@check("count_tokens")
async def tokens_are_counted(chat, target):
    assert chat().get_num_tokens_from_messages([HumanMessage("one two three")]) > 0


if __name__ == "__main__":
    checks.main(prepare)
