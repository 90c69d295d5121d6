# SPDX-License-Identifier: Apache-2.0
"""LangChain's chat model, completion model and embeddings for OpenAI's API, unchanged.

For:       see checks.py. HTTP/2 by the httpx clients that LangChain lets a user hand over.
Used by:   run.py.
Knows not: the gateway's configuration.
"""

import httpx
import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

import checks
from checks import check, rejection, said


class City(pydantic.BaseModel):
    """A city."""

    city: str


class Maker:
    """LangChain's models for this target."""

    def __init__(self, target):
        self.versions = []
        self.common = {"base_url": target.base, "api_key": target.key, "timeout": 10}
        if target.h2:
            def keep(response):
                self.versions.append(response.http_version)

            async def keep_later(response):
                keep(response)
            self.common["http_client"] = httpx.Client(
                http2=True, event_hooks={"response": [keep]})
            self.common["http_async_client"] = httpx.AsyncClient(
                http2=True, event_hooks={"response": [keep_later]})
        self.model = target.model

    def chat(self, **more):
        return ChatOpenAI(model=self.model, **{**self.common, **more})

    def responses(self):
        return self.chat(use_responses_api=True, store=False)


def prepare(target):
    return Maker(target), target


@check("chat")
async def an_answer_has_text_and_usage(maker, target):
    for answer in (maker.chat().invoke(said("tokens=7")),
                   await maker.chat().ainvoke(said("tokens=7"))):
        assert answer.text and answer.usage_metadata["output_tokens"] == 7, answer


@check("chat", feature="tools")
async def a_tool_is_called(maker, target):
    model = maker.chat().bind_tools([checks.tool()])
    prompt = HumanMessage(said("tool=weather"))
    answer = await model.ainvoke([prompt])
    assert answer.tool_calls[0]["name"] == "weather", answer
    told = ToolMessage("sunny", tool_call_id=answer.tool_calls[0]["id"])
    assert (await model.ainvoke([HumanMessage(said("tokens=3")), answer, told])).text


@check("chat", feature="schema")
async def an_answer_has_the_schema_that_was_asked_for(maker, target):
    model = maker.chat().with_structured_output(City, method="json_schema")
    assert isinstance(await model.ainvoke(said("tokens=40")), City)


@check("chat", feature="vision")
async def a_picture_goes_along(maker, target):
    answer = await maker.chat().ainvoke(
        [HumanMessage(content=checks.picture_parts(said("tokens=4")))])
    assert answer.usage_metadata["output_tokens"] == 4


@check("chat", feature="logprobs")
async def logprobs_come_with_each_token(maker, target):
    answer = await maker.chat(logprobs=True, top_logprobs=2).ainvoke(said("tokens=3"))
    assert len(answer.response_metadata["logprobs"]["content"]) == 3


@check("chat", feature="n")
async def two_choices_come_as_two(maker, target):
    result = await maker.chat(n=2).agenerate([[HumanMessage(said("tokens=4"))]])
    assert len(result.generations[0]) == 2


@check("chat", feature="errors")
async def errors_come_in_their_class(maker, target):
    def failing(directives, **more):
        return lambda: maker.chat(max_retries=0, **more).ainvoke(said(directives))
    await rejection(failing("tokens=1", api_key=checks.WRONG_KEY), openai.AuthenticationError)
    await rejection(failing("fail=400"), openai.BadRequestError)
    await rejection(failing("fail=429 retry_after=7"), openai.RateLimitError)
    await rejection(failing("fail=503"), openai.InternalServerError)


@check("chat", feature="retries")
async def the_client_retries_until_it_is_answered(maker, target):
    answer = await maker.chat(max_retries=2).ainvoke(said(f"tokens=2 fail=503 {checks.once()}"))
    assert answer.usage_metadata["output_tokens"] == 2


@check("chat", feature="timeout")
async def a_slow_answer_is_a_timeout_error(maker, target):
    hasty = maker.chat(max_retries=0, timeout=0.3)
    await rejection(lambda: hasty.ainvoke(said("first_ms=3000")), openai.APITimeoutError)


@check("chat", "stream")
async def a_stream_has_text(maker, target):
    pieces = [piece async for piece in maker.chat(stream_usage=False).astream(said("tokens=6"))]
    assert "".join(piece.text for piece in pieces)
    assert not any(piece.usage_metadata for piece in pieces)
    assert "".join(piece.text for piece in maker.chat().stream(said("tokens=6")))


@check("chat", "stream", feature="usage")
async def a_stream_ends_in_usage(maker, target):
    pieces = [piece async for piece in maker.chat(stream_usage=True).astream(said("tokens=6"))]
    whole = sum(pieces[1:], pieces[0])
    assert whole.usage_metadata["output_tokens"] == 6, whole


@check("chat", "stream", feature="tools")
async def a_tool_is_called_in_pieces(maker, target):
    model = maker.chat().bind_tools([checks.tool()])
    pieces = [piece async for piece in model.astream(said("tool=weather"))]
    assert sum(pieces[1:], pieces[0]).tool_calls[0]["name"] == "weather"


@check("chat", "stream", feature="abort")
async def a_stream_may_be_left(maker, target):
    stream = maker.chat().astream(said("tokens=2000 delay_ms=20"))
    count = 0
    async for _ in stream:
        count += 1
        if count == 5:
            break
    await stream.aclose()


@check("chat", feature="protocol")
async def the_connection_speaks_what_was_wanted(maker, target):
    await maker.chat().ainvoke(said("tokens=1"))
    assert set(maker.versions) <= {"HTTP/2"} and bool(maker.versions) == target.h2, maker.versions


@check("completions")
async def a_completion_is_served(maker, target):
    assert await OpenAI(model=target.model, **maker.common).ainvoke(said("tokens=4"))


@check("completions", "stream")
async def a_completion_is_streamed(maker, target):
    model = OpenAI(model=target.model, **maker.common)
    assert "".join([piece async for piece in model.astream(said("tokens=4"))])


@check("embeddings")
async def documents_become_vectors(maker, target):
    # Texts go as texts: by default they go as token numbers of a tokenizer that is not here.
    model = OpenAIEmbeddings(model=target.model, check_embedding_ctx_length=False, **maker.common)
    vectors = await model.aembed_documents(["a", "b c"])
    assert len(vectors) == 2 and len(vectors[1]) > 0


@check("responses")
async def a_response_has_text_and_usage(maker, target):
    answer = await maker.responses().ainvoke(said("tokens=5"))
    assert answer.text and answer.usage_metadata["output_tokens"] == 5, answer


@check("responses", "stream")
async def a_response_is_streamed(maker, target):
    pieces = [piece async for piece in maker.responses().astream(said("tokens=5"))]
    whole = sum(pieces[1:], pieces[0])
    assert whole.text and whole.usage_metadata["output_tokens"] == 5, whole


if __name__ == "__main__":
    checks.main(prepare)
