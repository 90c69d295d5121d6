# SPDX-License-Identifier: Apache-2.0
"""LiteLLM as a client: its openai/ and anthropic/ providers with api_base, unchanged.

For:       see checks.py. It makes its HTTP clients itself, so it speaks HTTP/1.1.
Used by:   run.py.
Knows not: the gateway's configuration.
"""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"    # else it fetches a price list at import

import litellm

import checks
from checks import check, rejection, said


class Caller:
    """LiteLLM's functions with where and whom to ask filled in."""

    def __init__(self, target):
        litellm.suppress_debug_info = True
        litellm.drop_params = False
        self.target = target

    def _about(self, provider, more):
        bases = {"openai": self.target.base, "text-completion-openai": self.target.base,
                 "anthropic": self.target.root}
        about = {"model": f"{provider}/{self.target.model}", "api_base": bases[provider],
                 "api_key": self.target.key, "timeout": 10, "num_retries": 0, **more}
        if self.target.direct and provider == "anthropic":
            # vLLM itself reads no x-api-key, which is all that this provider sends.
            about["extra_headers"] = {"authorization": f"Bearer {about['api_key']}"}
        return about

    def chat(self, directives, provider="openai", **more):
        messages = [{"role": "user", "content": said(directives)}]
        return litellm.acompletion(**self._about(provider, {"messages": messages, **more}))

    def chat_waiting(self, directives, provider="openai", **more):
        messages = [{"role": "user", "content": said(directives)}]
        return litellm.completion(**self._about(provider, {"messages": messages, **more}))

    def call(self, function, provider="openai", **more):
        return function(**self._about(provider, more))


def prepare(target):
    return Caller(target), target


async def whole(stream):
    chunks = [chunk async for chunk in stream]
    return litellm.stream_chunk_builder(chunks), chunks


def check_provider(provider, endpoint):
    """What both providers do with chat messages, each by its own endpoint."""

    @check(endpoint)
    async def an_answer_has_text_and_usage(caller, target):
        for answer in (await caller.chat("tokens=7", provider, max_tokens=100),
                       caller.chat_waiting("tokens=7", provider, max_tokens=100)):
            assert answer.choices[0].message.content
            assert answer.usage.completion_tokens == 7, answer

    @check(endpoint, feature="tools")
    async def a_tool_is_called(caller, target):
        answer = await caller.chat("tool=weather", provider, max_tokens=100,
                                   tools=[checks.tool()])
        assert answer.choices[0].finish_reason == "tool_calls", answer
        call = answer.choices[0].message.tool_calls[0]
        assert call.function.name == "weather"
        messages = [{"role": "user", "content": said("tokens=3")},
                    answer.choices[0].message.model_dump(exclude_none=True),
                    {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        answer = await caller.chat("", provider, max_tokens=100, tools=[checks.tool()],
                                   messages=messages)
        assert answer.choices[0].message.content

    @check(endpoint, feature="vision")
    async def a_picture_goes_along(caller, target):
        messages = [{"role": "user", "content": checks.picture_parts(said("tokens=4"))}]
        answer = await caller.chat("", provider, max_tokens=100, messages=messages)
        assert answer.usage.completion_tokens == 4

    @check(endpoint, feature="errors")
    async def errors_come_in_their_class(caller, target):
        await rejection(lambda: caller.chat("tokens=1", provider, api_key=checks.WRONG_KEY),
                        litellm.AuthenticationError)
        await rejection(lambda: caller.chat("tokens=1", provider, model=f"{provider}/none"),
                        litellm.NotFoundError)
        await rejection(lambda: caller.chat("fail=400", provider), litellm.BadRequestError)
        await rejection(lambda: caller.chat("fail=429 retry_after=7", provider),
                        litellm.RateLimitError)
        await rejection(lambda: caller.chat("fail=503", provider),
                        (litellm.ServiceUnavailableError, litellm.InternalServerError))

    @check(endpoint, feature="timeout")
    async def a_slow_answer_is_a_timeout(caller, target):
        await rejection(lambda: caller.chat("first_ms=3000", provider, timeout=0.3),
                        litellm.Timeout)

    @check(endpoint, "stream", feature="usage")
    async def a_stream_has_text_and_usage(caller, target):
        stream = await caller.chat("tokens=6", provider, max_tokens=100, stream=True,
                                   stream_options={"include_usage": True})
        answer, chunks = await whole(stream)
        assert answer.choices[0].message.content
        told = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
        assert told and told[-1].completion_tokens == 6, chunks

    @check(endpoint, "stream", feature="tools")
    async def a_tool_is_called_in_pieces(caller, target):
        answer, _ = await whole(await caller.chat("tool=weather", provider, max_tokens=100,
                                                  stream=True, tools=[checks.tool()]))
        assert answer.choices[0].message.tool_calls[0].function.name == "weather"


check_provider("openai", "chat")


@check("chat", feature="schema")
async def an_answer_has_the_schema_that_was_asked_for(caller, target):
    format_ = {"type": "json_schema",
               "json_schema": {"name": "city", "schema": checks.WEATHER, "strict": True}}
    answer = await caller.chat("tokens=40", response_format=format_)
    assert checks.json.loads(answer.choices[0].message.content)["city"] is not None


@check("chat", feature="logprobs")
async def logprobs_come_with_each_token(caller, target):
    answer = await caller.chat("tokens=3", logprobs=True, top_logprobs=2)
    assert len(answer.choices[0].logprobs.content) == 3


@check("chat", feature="n")
async def two_choices_come_as_two(caller, target):
    answer = await caller.chat("tokens=4", n=2)
    assert sorted(choice.index for choice in answer.choices) == [0, 1]


@check("chat", feature="retries")
async def the_client_retries_until_it_is_answered(caller, target):
    answer = await caller.chat(f"tokens=2 fail=503 {checks.once()}", num_retries=2)
    assert answer.usage.completion_tokens == 2


@check("chat", "stream", feature="abort")
async def a_stream_may_be_left(caller, target):
    stream = await caller.chat("tokens=2000 delay_ms=20", stream=True)
    count = 0
    async for _ in stream:
        count += 1
        if count == 5:
            break
    await stream.aclose()


@check("completions")
async def a_completion_is_served(caller, target):
    answer = await caller.call(litellm.atext_completion, "text-completion-openai",
                               prompt=said("tokens=4"), max_tokens=8)
    assert answer.choices[0].text and answer.usage.completion_tokens == 4


@check("completions", "stream")
async def a_completion_is_streamed(caller, target):
    stream = await caller.call(litellm.atext_completion, "text-completion-openai",
                               prompt=said("tokens=4"), max_tokens=8, stream=True)
    assert "".join([chunk.choices[0].text or "" async for chunk in stream])


@check("embeddings")
async def embeddings_come_as_numbers(caller, target):
    for coding in ("float", "base64"):
        answer = await caller.call(litellm.aembedding, input=["a", "b c"], encoding_format=coding)
        assert len(answer.data) == 2 and answer.data[1]["embedding"]


@check("responses")
async def a_response_has_text_and_usage(caller, target):
    answer = await caller.call(litellm.aresponses, input=said("tokens=5"), store=False)
    assert answer.status == "completed" and answer.usage.output_tokens == 5, answer


@check("responses", "stream")
async def a_response_is_streamed(caller, target):
    stream = await caller.call(litellm.aresponses, input=said("tokens=5"), store=False,
                               stream=True)
    types = [event.type async for event in stream]
    assert types[-1] == "response.completed", types


check_provider("anthropic", "messages")


@check("audio")
async def speech_becomes_text(caller, target):
    sound = ("a.wav", checks.wav(), "audio/wav")
    answer = await caller.call(litellm.atranscription, file=sound)
    assert answer.text


if __name__ == "__main__":
    checks.main(prepare)
